/* SPDX-License-Identifier: MIT
 *
 * What others send, as trainers and servers of models do it or propose it:
 *
 *   XOR            base ^ next through a general compressor
 *   index, value   for each 65,536 weights how many differ (u32), their indices (u16 each), their values
 *   varint, value  for each weight that differs how many before it do not (LEB128); then all values
 */
#include "delta_ways.h"
#include "../lib/source.h"
#include <stdint.h>
#include <string.h>

enum { INDEXED = 65536, VARINT_MAX = 10 };

/* How many weights others see: where two share a byte, the bytes. */
static size_t count_of(const delta_tensor *t)
{
    return dtype_bytes(t->dtype, t->n) / dtype_size(t->dtype);
}

/* ---- libthreelc -------------------------------------------------------------------------------------------------- */

static bool own_bound(const delta_way *w, tlc_dtype dtype, size_t n, size_t *cap)
{
    (void)w;
    return !tlc_delta_bound(dtype, n, cap);
}

static bool own_compress(const delta_way *w, const delta_tensor *t, const void *base, const void *next, void *dst,
                         size_t cap, size_t *len)
{
    tlc_delta_options options = t->options;

    options.without_digests = w->without_digests;
    return !tlc_delta_compress(t->dtype, base, next, t->n, dst, cap, len, &options);
}

static bool own_apply(const delta_way *w, const delta_tensor *t, const void *src, size_t len, void *weights)
{
    (void)w;
    return !tlc_delta_apply(src, len, t->dtype, weights, t->n, &t->options);
}

/* ---- the XOR ----------------------------------------------------------------------------------------------------- */

#if defined(HAVE_ZSTD) || defined(HAVE_LZ4)
static void exclusive_or(unsigned char *restrict dst, const unsigned char *restrict a, const unsigned char *restrict b,
                         size_t size)
{
    for (size_t i = 0; i < size; i++)
        dst[i] = a[i] ^ b[i];
}

static void exclusive_or_to(unsigned char *restrict dst, const unsigned char *restrict a, size_t size)
{
    for (size_t i = 0; i < size; i++)
        dst[i] ^= a[i];
}

static bool xor_bound(const delta_way *w, tlc_dtype dtype, size_t n, size_t *cap)
{
    return n <= SIZE_MAX / 4 && w->packer->bound(dtype_bytes(dtype, n), cap);
}

static bool xor_compress(const delta_way *w, const delta_tensor *t, const void *base, const void *next, void *dst,
                         size_t cap, size_t *len)
{
    const size_t size = dtype_bytes(t->dtype, t->n);

    exclusive_or(t->scratch, base, next, size);
    return w->packer->compress(t->coder, t->scratch, size, dst, cap, len);
}

static bool xor_apply(const delta_way *w, const delta_tensor *t, const void *src, size_t len, void *weights)
{
    const size_t size = dtype_bytes(t->dtype, t->n);
    size_t read;

    if (!w->packer->decompress(t->coder, src, len, t->scratch, size, &read) || read != size)
        return false;
    exclusive_or_to(weights, t->scratch, size);
    return true;
}
#endif

/* ---- positions and values ---------------------------------------------------------------------------------------- */

static bool pairs_bound(const delta_way *w, tlc_dtype dtype, size_t n, size_t *cap)
{
    (void)w;
    if (n > SIZE_MAX / 16)
        return false;
    *cap = n * (VARINT_MAX + dtype_size(dtype)) + (n / INDEXED) * sizeof(uint32_t) + sizeof(uint64_t);
    return true;
}

/* The first weight from i on that differs, or end. Equal stretches are skipped 8 bytes at a time. */
static size_t next_changed(const unsigned char *base, const unsigned char *next, size_t width, size_t i, size_t end)
{
    const size_t stretch = sizeof(uint64_t) / width;
    uint64_t a, b;

    for (; end - i >= stretch; i += stretch) {
        memcpy(&a, base + i * width, sizeof a);
        memcpy(&b, next + i * width, sizeof b);
        if (a != b) {
            while (!memcmp(base + i * width, next + i * width, width))
                i++;
            return i;
        }
    }
    while (i < end && !memcmp(base + i * width, next + i * width, width))
        i++;
    return i;
}

static bool index_compress(const delta_way *w, const delta_tensor *t, const void *base, const void *next_, void *dst,
                           size_t cap, size_t *len)
{
    const size_t width = dtype_size(t->dtype), n = count_of(t);
    const unsigned char *next = next_;
    unsigned char *at = dst, *values = t->scratch;

    (void)w;
    (void)cap;
    for (size_t first = 0; first < n; first += INDEXED) {
        const size_t end = n - first < INDEXED ? n : first + INDEXED;
        unsigned char *head = at;
        uint32_t count = 0;
        at += sizeof count;
        for (size_t i = first; (i = next_changed(base, next, width, i, end)) < end; i++) {
            const uint16_t index = (uint16_t)(i - first);
            memcpy(at, &index, sizeof index);
            memcpy(values + count++ * width, next + i * width, width);
            at += sizeof index;
        }
        memcpy(head, &count, sizeof count);
        memcpy(at, values, count * width);
        at += count * width;
    }
    *len = (size_t)(at - (unsigned char *)dst);
    return true;
}

static bool index_apply(const delta_way *w, const delta_tensor *t, const void *src, size_t len, void *weights_)
{
    const size_t width = dtype_size(t->dtype), n = count_of(t);
    const unsigned char *at = src;
    unsigned char *weights = weights_;

    (void)w;
    for (size_t first = 0; first < n; first += INDEXED) {
        uint32_t count;
        memcpy(&count, at, sizeof count);
        at += sizeof count;
        const unsigned char *values = at + count * sizeof(uint16_t);
        for (uint32_t k = 0; k < count; k++) {
            uint16_t index;
            memcpy(&index, at + k * sizeof index, sizeof index);
            memcpy(weights + (first + index) * width, values + k * width, width);
        }
        at = values + count * width;
    }
    return (size_t)(at - (const unsigned char *)src) == len;
}

static bool difference_compress(const delta_way *w, const delta_tensor *t, const void *base, const void *next_,
                                void *dst, size_t cap, size_t *len)
{
    const size_t width = dtype_size(t->dtype), n = count_of(t);
    const unsigned char *next = next_;
    unsigned char *at = (unsigned char *)dst + sizeof(uint64_t), *values = t->scratch;
    size_t from = 0, count = 0;

    (void)w;
    (void)cap;
    for (size_t i = 0; (i = next_changed(base, next, width, i, n)) < n; from = ++i) {
        size_t skipped = i - from;
        for (; skipped > 127; skipped >>= 7)
            *at++ = (unsigned char)(128 | skipped);
        *at++ = (unsigned char)skipped;
        memcpy(values + count++ * width, next + i * width, width);
    }
    memcpy(dst, &(uint64_t){count}, sizeof(uint64_t));
    memcpy(at, values, count * width);
    *len = (size_t)(at - (unsigned char *)dst) + count * width;
    return true;
}

static bool difference_apply(const delta_way *w, const delta_tensor *t, const void *src, size_t len, void *weights_)
{
    const size_t width = dtype_size(t->dtype), n = count_of(t);
    const unsigned char *at = (const unsigned char *)src + sizeof(uint64_t);
    unsigned char *weights = weights_;
    uint64_t count;
    size_t i = 0;

    (void)w;
    memcpy(&count, src, sizeof count);
    const unsigned char *values = (const unsigned char *)src + len - (size_t)count * width;
    for (uint64_t k = 0; k < count; k++) {
        size_t skipped = 0;
        unsigned shift = 0;
        for (; *at > 127; shift += 7)
            skipped |= (size_t)(*at++ & 127) << shift;
        i += skipped | (size_t)*at++ << shift;
        memcpy(weights + i++ * width, values + k * width, width);
    }
    return i <= n;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

enum { OWN = 2 };

static const delta_way ways[] = {
    {"delta", true, false, NULL, own_bound, own_compress, own_apply},
    {"no digests", true, true, NULL, own_bound, own_compress, own_apply},
#ifdef HAVE_ZSTD
    {"XOR, zstd -1", false, false, &general_zstd, xor_bound, xor_compress, xor_apply},
#endif
#ifdef HAVE_LZ4
    {"XOR, lz4", false, false, &general_lz4, xor_bound, xor_compress, xor_apply},
#endif
    {"index, value", false, false, NULL, pairs_bound, index_compress, index_apply},
    {"varint, value", false, false, NULL, pairs_bound, difference_compress, difference_apply},
};

const delta_way *delta_ways(bool with_peers, size_t *count)
{
    *count = with_peers ? sizeof ways / sizeof ways[0] : OWN;
    return ways;
}
