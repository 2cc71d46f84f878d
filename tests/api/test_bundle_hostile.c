/* SPDX-License-Identifier: MIT
 *
 * threelc/bundle.h: a reader accepts exactly the bytes that src/docs/format.md allows, and reads nothing else.
 */
#include "bundle_format.h"
#include "../support/support.h"
#include <threelc/bundle.h>

/* Reads a number of any form; bits that do not fit are lost. Returns its bytes, or 0 if it does not end. */
static size_t get_number(const uint8_t *src, size_t len, uint64_t *v)
{
    *v = 0;
    for (size_t i = 0; i < len; i++) {
        *v |= i < 10 ? (uint64_t)(src[i] & 127) << 7 * i : 0;
        if (src[i] < 128)
            return i + 1;
    }
    return 0;
}

/* What tlc_bundle_open must say. A number has the shortest form if it is written as it was read. *head: the bytes of
 * the head. */
static tlc_status expected(const uint8_t *src, size_t len, size_t *head)
{
    uint64_t v, count = 0;
    size_t size, frames = 0, used = 2;
    uint8_t again[10];

    if (len < 2 || src[0] != 'B')
        return TLC_ERR_CORRUPT;
    if (src[1] != 2)
        return TLC_ERR_VERSION;
    for (uint64_t i = 0; i <= count; i++) {
        size = get_number(src + used, len - used, &v);
        if (!size || put_number(again, v) != size || !same(again, src + used, size))
            return TLC_ERR_CORRUPT;
        if (i ? v > len - frames : v > UINT32_MAX)
            return TLC_ERR_CORRUPT;
        used += size;
        if (i)
            frames += (size_t)v;
        else
            count = v;
    }
    *head = used;
    return frames == len - used ? TLC_OK : TLC_ERR_CORRUPT;
}

/* Opens len bytes that end at a guard page and reads all frames: they lie in the bytes, one after the other. */
static tlc_status walk(arena *a, const uint8_t *src, size_t len)
{
    const uint8_t *p = arena_copy(a, src, len, 1);
    tlc_bundle_reader r;
    const void *frame;
    size_t size, offset = 0;
    uint8_t sum = 0;

    memset(&r, 0x3c, sizeof r);
    tlc_status status = tlc_bundle_open(&r, p, len);
    require_status(status, expected(src, len, &offset));
    if (status) {
        require(all_bytes(&r, sizeof r, 0x3c));
        return status;
    }
    for (uint32_t i = 0; i < tlc_bundle_count(&r); i++, offset += size) {
        require_status(tlc_bundle_next(&r, &frame, &size), TLC_OK);
        require((const uint8_t *)frame == p + offset && offset <= len && size <= len - offset);
        for (size_t j = 0; j < size; j++)
            sum = (uint8_t)(sum + ((const uint8_t *)frame)[j]);
    }
    require_status(tlc_bundle_next(&r, &frame, &size), TLC_ERR_PARAM);
    require(offset == len || sum == 255); /* the compiler must not remove the reads */
    return status;
}

TEST(hostile_bytes)
{
    static const size_t lengths[] = {5, 0, 1, 300, 0, 17};
    uint8_t bad[400];
    arena a;

    memset(bad, 1, sizeof bad);
    const size_t head = put_head(bad, lengths, COUNT(lengths)), len = head + 323;
    arena_open(&a, sizeof bad);
    for (at.i = 0; at.i < len; at.i++)
        require_status(walk(&a, bad, at.i), TLC_ERR_CORRUPT);
    require_status(walk(&a, bad, len), TLC_OK);
    for (size_t more = 1; more < 20; more++)
        require_status(walk(&a, bad, len + more), TLC_ERR_CORRUPT);
    for (at.i = 0; at.i < 8 * len; at.i++) {
        bad[at.i / 8] ^= (uint8_t)(1u << at.i % 8);
        tlc_status status = walk(&a, bad, len);
        require(status == (at.i / 8 == 1 ? TLC_ERR_VERSION : at.i / 8 < head ? TLC_ERR_CORRUPT : TLC_OK));
        bad[at.i / 8] ^= (uint8_t)(1u << at.i % 8);
    }
    arena_close(&a);
}

/* clang-format off */
static const struct {
    tlc_status status;
    size_t len;
    uint8_t bytes[24];
} heads[] = {
    {TLC_OK, 3, {'B', 2, 0}},
    {TLC_OK, 4, {'B', 2, 1, 0}},
    {TLC_OK, 8, {'B', 2, 2, 1, 2, 9, 9, 9}},
    {TLC_ERR_CORRUPT, 0, {0}},
    {TLC_ERR_CORRUPT, 1, {'B'}},
    {TLC_ERR_CORRUPT, 2, {'B', 2}},
    {TLC_ERR_CORRUPT, 3, {'A', 2, 0}},
    {TLC_ERR_CORRUPT, 3, {'A', 1, 0}},
    {TLC_ERR_VERSION, 2, {'B', 1}},
    {TLC_ERR_VERSION, 3, {'B', 0, 0}},
    {TLC_ERR_VERSION, 3, {'B', 3, 0}},
    {TLC_ERR_VERSION, 3, {'B', 130, 0}},
    {TLC_ERR_VERSION, 17, {'B', 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9}}, /* as in version 1 */
    {TLC_ERR_CORRUPT, 4, {'B', 2, 0, 0}}, /* a byte after it */
    {TLC_ERR_CORRUPT, 5, {'B', 2, 1, 0, 0}},
    {TLC_ERR_CORRUPT, 5, {'B', 2, 1, 2, 9}}, /* the frame is too short */
    {TLC_ERR_CORRUPT, 3, {'B', 2, 1}}, /* no length */
    /* counts: truncated, not the shortest, too large for the bytes, too large for 32 or 64 bits, without an end */
    {TLC_ERR_CORRUPT, 3, {'B', 2, 0x80}},
    {TLC_ERR_CORRUPT, 4, {'B', 2, 0x80, 0}},
    {TLC_ERR_CORRUPT, 5, {'B', 2, 0x81, 0, 0}},
    {TLC_ERR_CORRUPT, 5, {'B', 2, 3, 0, 0}},
    {TLC_ERR_CORRUPT, 9, {'B', 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}},
    {TLC_ERR_CORRUPT, 7, {'B', 2, 0x80, 0x80, 0x80, 0x80, 0x10}},
    {TLC_ERR_CORRUPT, 8, {'B', 2, 0x81, 0x80, 0x80, 0x80, 0x10, 0}},
    {TLC_ERR_CORRUPT, 12, {'B', 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
    {TLC_ERR_CORRUPT, 12, {'B', 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02}},
    {TLC_ERR_CORRUPT, 13, {'B', 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}},
    {TLC_ERR_CORRUPT, 24, {'B', 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                           0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}},
    /* lengths: the same, and sums that are right modulo 2^32 or 2^64 */
    {TLC_ERR_CORRUPT, 4, {'B', 2, 1, 0x80}},
    {TLC_ERR_CORRUPT, 5, {'B', 2, 1, 0x80, 0}},
    {TLC_ERR_CORRUPT, 6, {'B', 2, 1, 0x81, 0, 9}},
    {TLC_ERR_CORRUPT, 8, {'B', 2, 1, 0x80, 0x80, 0x80, 0x80, 0x10}},
    {TLC_ERR_CORRUPT, 9, {'B', 2, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 1}},
    {TLC_ERR_CORRUPT, 9, {'B', 2, 2, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}},
    {TLC_ERR_CORRUPT, 10, {'B', 2, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 2, 9}},
    {TLC_ERR_CORRUPT, 14, {'B', 2, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1}},
    {TLC_ERR_CORRUPT, 14, {'B', 2, 2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
    {TLC_ERR_CORRUPT, 15, {'B', 2, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 2, 9}},
    {TLC_ERR_CORRUPT, 13, {'B', 2, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02}},
    {TLC_ERR_CORRUPT, 14, {'B', 2, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}},
};
/* clang-format on */

TEST(bad_heads)
{
    arena a;

    arena_open(&a, sizeof heads[0].bytes);
    for (at.i = 0; at.i < COUNT(heads); at.i++)
        require_status(walk(&a, heads[at.i].bytes, heads[at.i].len), heads[at.i].status);
    arena_close(&a);
}

/* Heads that are almost right, with up to 64 bytes after them. */
TEST(random_bytes)
{
    enum { MOST = 128 };
    size_t good = 0;
    rng r = {6};
    arena a;

    arena_open(&a, MOST);
    for (at.i = 0; at.i < (quick() ? 2000u : 20000u); at.i++) {
        uint8_t src[MOST];
        size_t length[8], all = 0, count = rng_below(&r, COUNT(length) + 1);
        for (size_t j = 0; j < MOST; j++)
            src[j] = rng_below(&r, 4) ? 0 : (uint8_t)rng_next(&r);
        for (size_t j = 0; j < count; j++)
            all += length[j] = rng_below(&r, 8);
        size_t len = put_head(src, length, count);
        for (size_t changes = rng_below(&r, 3); changes; changes--)
            src[2 + rng_below(&r, len)] ^= (uint8_t)(1u << rng_below(&r, 8));
        len = rng_below(&r, 4) ? len + all : len + rng_below(&r, 65);
        good += walk(&a, src, len) == TLC_OK;
    }
    require(good > at.i / 5 && good < at.i / 5 * 4);
    arena_close(&a);
}
