/* SPDX-License-Identifier: MIT
 *
 * The formats of the library's bytes: which one bytes have, by their first bytes.
 */
#ifndef TLC_FORMATS_H
#define TLC_FORMATS_H

#include "frame.h"

/* Those that tlc_explain does not know follow those of tlc_format. */
enum {
    TLC_FORMAT_MESSAGE = TLC_FORMAT_STATE + 1,
    TLC_FORMAT_OBJECT_STATE,
    TLC_FORMAT_NODE_STATE,
    TLC_FORMAT_WEIGHTS,
    TLC_FORMATS
};

/* Are these bytes of this format, in the version of this library? They may be damaged after that. */
int tlc_format_is(unsigned format, const void *src, size_t len);

/* The format of bytes, or TLC_FORMATS. */
unsigned tlc_format_of(const void *src, size_t len);

/* "frame", "bundle (threelc/bundle.h)" and so on; of TLC_FORMATS "message of another library". */
const char *tlc_format_name(unsigned format);

/* Says why bytes cannot be of the format `wanted`: they are too short, of another version, or of another format. */
void tlc_format_say(tlc_text *w, unsigned wanted, const void *src, size_t len);

/* Says why tlc_frame_read or tlc_decode_check refused a frame. n: as for tlc_frame_read. */
void tlc_frame_say_fault(tlc_text *w, const tlc_frame *f, const void *src, size_t len, const size_t *n);

/* Why a reader refuses bytes, whatever n and dtype they have. TLC_OK: it does not. Readers of the floors above have
 * these; tlc_explain asks them. */
tlc_status tlc_frame_explain(const void *src, size_t len, tlc_text *w);
tlc_status tlc_delta_explain(const void *src, size_t len, const tlc_text *w);
tlc_status tlc_bundle_explain(const void *src, size_t len, tlc_text *w);
tlc_status tlc_state_explain(const void *src, size_t len, tlc_text *w);
#endif
