/* SPDX-License-Identifier: MIT
 *
 * Numbers and texts in messages and states: read with a check that they are there, and written. Doubles are their bits,
 * u64.
 */
#ifndef TLC_READER_H
#define TLC_READER_H

#include "../../common/bytes.h"
#include "../../common/varint.h"

/* What is left: the bytes at .. len - 1 of p. The functions return 0 if what they should read is not there. */
typedef struct tlc_reader {
    const uint8_t *p;
    size_t len, at;
} tlc_reader;

static inline int tlc_read_number(tlc_reader *r, uint64_t *value)
{
    return tlc_varint_read(r->p, r->len, &r->at, value);
}

/* A number below `end`. */
static inline int tlc_read_below(tlc_reader *r, uint64_t end, uint64_t *value)
{
    return tlc_read_number(r, value) && *value < end;
}

static inline int tlc_read_u64(tlc_reader *r, uint64_t *value)
{
    if (r->len - r->at < sizeof *value)
        return 0;
    *value = tlc_load64(r->p + r->at);
    r->at += sizeof *value;
    return 1;
}

static inline int tlc_read_double(tlc_reader *r, double *value)
{
    uint64_t bits;

    if (!tlc_read_u64(r, &bits))
        return 0;
    memcpy(value, &bits, sizeof bits);
    return 1;
}

/* A length, and that many times `size` bytes. */
static inline int tlc_read_bytes(tlc_reader *r, uint64_t size, const uint8_t **bytes, size_t *len)
{
    uint64_t count;

    if (!tlc_read_number(r, &count) || count > (r->len - r->at) / size)
        return 0;
    *bytes = r->p + r->at;
    *len = (size_t)count;
    r->at += (size_t)(count * size);
    return 1;
}

/* These return the bytes written. */
static inline size_t tlc_write_double(uint8_t *p, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    tlc_store64(p, bits);
    return sizeof bits;
}

static inline size_t tlc_write_text(uint8_t *p, const void *text, size_t len)
{
    size_t at = tlc_varint_write(p, len);

    memcpy(p + at, text, len);
    return at + len;
}
#endif
