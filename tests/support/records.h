/* SPDX-License-Identifier: MIT
 *
 * Records of the files in tests/vectors: lines of a key and a value, up to an empty line. Nothing here needs another
 * file of the tests.
 */
#ifndef TLC_TEST_RECORDS_H
#define TLC_TEST_RECORDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <threelc/threelc.h>

/* Where we are, for messages. */
extern const char *at_name, *at_isa;
extern size_t at_step;

void expect(int ok, const char *what);
void expect_status(tlc_status got, tlc_status want, const char *what);

/* A buffer of size bytes that begins shift bytes behind a malloc'ed address. It is freed at the end of the record. */
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

unsigned name_index(const char *value, const char *const *names, unsigned count);

typedef struct bytes {
    uint8_t *p;
    size_t len;
} bytes;

/* The bytes of a value, in a buffer as exact makes it. */
bytes unhex(const char *hex, size_t shift);

/* The same, as elements of `size` bytes in the byte order of the machine. */
bytes elements(const char *hex, size_t size, size_t shift);
#endif
