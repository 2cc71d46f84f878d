/* SPDX-License-Identifier: MIT
 *
 * What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput, which takes any bytes and aborts if
 * the library breaks a promise. In test runs replay.c gives it recorded inputs. In campaigns (see run) libFuzzer or
 * AFL++ take the place of replay.c.
 */
#ifndef TLC_FUZZ_H
#define TLC_FUZZ_H

#include "../support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Folds results into one number, the same on every machine (promise P7): replay.c compares it with the recorded one. */
extern uint64_t fuzz_digest;
void fuzz_fold(const void *elements, size_t count, size_t width); /* in the machine's byte order */
void fuzz_fold_number(uint64_t number);

/* Writes the right checksum at the end of an input, if it is long enough to have one. */
void fuzz_seal(uint8_t *data, size_t size);

/* Tries an input. If its checksum is wrong, tries it again with the right one, which a fuzzer cannot guess. */
void fuzz_with_checksum(const uint8_t *data, size_t size, tlc_status (*try_one)(const uint8_t *src, size_t len));

/* Splits an input: each take_ returns the next part of it, and zeros past its end. */
typedef struct fuzz_input {
    const uint8_t *at, *end;
} fuzz_input;
uint8_t take_byte(fuzz_input *in);
uint32_t take_number(fuzz_input *in, unsigned count); /* of count bytes, little-endian */
/* The text up to the next newline, cut to cap - 1 characters, with a NUL. Steps over the newline. */
void take_line(fuzz_input *in, char *text, size_t cap);
#endif
