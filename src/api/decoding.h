/* SPDX-License-Identifier: MIT
 *
 * What public functions that decode a frame begin with: options, and checks of the frame and what comes with it.
 */
#ifndef TLC_DECODING_H
#define TLC_DECODING_H

#include "../codec/arguments.h"
#include "../frames/frame.h"

/* Options, and what comes of them. */
typedef struct tlc_decoding {
    tlc_decode_options options;
    const tlc_kernels *k;
    tlc_text why; /* where a call that fails says why */
} tlc_decoding;

/* opt: or NULL. An ISA that the machine does not have is an error only when all arguments were checked. */
tlc_status tlc_decoding_begin(tlc_decoding *d, const tlc_decode_options *opt);

/* A pointer that is NULL where its size is not 0. */
tlc_status tlc_decoding_null(tlc_text *w, const char *name, const char *size, size_t count);

/* Checks the whole frame and what comes with it. name: of the output. */
tlc_status tlc_decoding_check(tlc_decoding *d, tlc_frame *f, const tlc_message *frame, const void *out,
                              const char *name, size_t n);
#endif
