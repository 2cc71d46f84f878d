/* SPDX-License-Identifier: MIT
 *
 * Records of the files in tests/vectors: lines of a key and a value, up to an empty line.
 */
#ifndef TLC_TEST_RECORDS_H
#define TLC_TEST_RECORDS_H

#include "support.h"

/* Where we are, for messages. */
extern const char *at_name, *at_isa;
extern size_t at_step;

void expect(int ok, const char *what);
void expect_status(tlc_status got, tlc_status want, const char *what);

/* A buffer of size bytes that begins shift bytes after a malloc'ed address. It is freed at the end of the record. */
void *exact(size_t size, size_t shift);

typedef struct line {
    const char *key, *value; /* key NULL: the end of the record */
} line;

typedef void record_test(const line *record, tlc_isa isa);

/* Calls test(record, isa) for each record of a file. Returns how many there are. */
size_t each_record(const char *path, tlc_isa isa, record_test *test);

/* The value of a key: the first one; find: NULL if there is none. */
const char *find(const line *r, const char *key);
const char *get(const line *r, const char *key);
uint64_t number(const line *r, const char *key);

/* Values that are names: "f32" of dtype, "CORRUPT" of status or inspect. */
tlc_dtype dtype_of(const line *r);
tlc_status status_of(const line *r, const char *key);

typedef struct octets {
    uint8_t *p;
    size_t len;
} octets;

/* The bytes of a value, in a buffer as exact makes it. */
octets unhex(const char *hex, size_t shift);

/* The same, as elements of `size` bytes in the byte order of the machine. */
octets elements(const char *hex, size_t size, size_t shift);
#endif
