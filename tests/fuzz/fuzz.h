/* SPDX-License-Identifier: MIT
 *
 * What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput, which takes any bytes and aborts where
 * the library breaks a promise. replay.c runs it over recorded inputs in every test run; libFuzzer or AFL++ take its
 * place in campaigns (run).
 */
#ifndef TLC_FUZZ_H
#define TLC_FUZZ_H

#include "../support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Folds results into one number, the same on every machine (promise P7): replay.c compares it with the recorded one. */
extern uint64_t fuzz_digest;
void fuzz_fold(const void *elements, size_t count, size_t width); /* in the machine's byte order */
void fuzz_fold_number(uint64_t number);

/* Tries an input, and, if its checksum is wrong, once more with the right one: none that a fuzzer makes up is. */
void fuzz_with_checksum(const uint8_t *data, size_t size, tlc_status (*try_one)(const uint8_t *src, size_t len));

/* Splits an input: each take_ gives what is next of it, and zeros from its end on. */
typedef struct fuzz_input {
    const uint8_t *at, *end;
} fuzz_input;
uint8_t take_byte(fuzz_input *in);
uint32_t take_number(fuzz_input *in, unsigned count); /* of count bytes, little-endian */
/* What comes before the next newline, cut to cap - 1 characters, with a NUL; steps over the newline. */
void take_line(fuzz_input *in, char *text, size_t cap);
#endif
