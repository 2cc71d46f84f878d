/* SPDX-License-Identifier: MIT
 *
 * The fused sweeps as calls of their parts, for a piece at a time that stays in the first-level cache.
 */
#include "ternary_quartic.h"

enum { PIECE = 1024 };

typedef struct symbols {
    int8_t q[5][PIECE];
    int8_t *stream[5];
} symbols;

static void symbols_init(symbols *s)
{
    for (int k = 0; k < 5; k++)
        /* cppcheck-suppress uninitvar ; an array's address */
        s->stream[k] = s->q[k];
}

void tlc_ternary_quartic_encode_scalar(const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    symbols s;

    symbols_init(&s);
    for (size_t at = 0; at < len; at += PIECE) {
        size_t count = len - at < PIECE ? len - at : PIECE;

        for (int k = 0; k < 5; k++)
            tlc_ternary_encode_scalar(g ? g[k] + at : NULL, r ? r[k] + at : NULL, count, M, s.q[k]);
        tlc_quartic_encode_scalar((const int8_t *const *)s.stream, count, out + at);
    }
}

/* Decodes the symbols, and gives those of each stream to take. */
static void decode(const uint8_t *in, size_t len, float factor, float *const out[5],
                   void (*take)(const int8_t *q, size_t n, float factor, float *out))
{
    symbols s;

    symbols_init(&s);
    for (size_t at = 0; at < len; at += PIECE) {
        size_t count = len - at < PIECE ? len - at : PIECE;

        tlc_quartic_decode_scalar(in + at, count, s.stream);
        for (int k = 0; k < 5; k++)
            take(s.q[k], count, factor, out[k] + at);
    }
}

void tlc_quartic_ternary_decode_scalar(const uint8_t *in, size_t len, float M, float *const out[5])
{
    decode(in, len, M, out, tlc_ternary_decode_scalar);
}

void tlc_quartic_ternary_add_scalar(const uint8_t *in, size_t len, float w, float *const sum[5])
{
    decode(in, len, w, sum, tlc_ternary_add_scalar);
}

void tlc_quartic_ternary_add_many_scalar(const uint8_t *const *in, const float *w, size_t frames, size_t len,
                                         float *const sum[5])
{
    tlc_add_singly(tlc_quartic_ternary_add_scalar, in, w, frames, 0, len, sum);
}

void tlc_quartic_ternary_decode_uncached_scalar(const uint8_t *in, size_t len, float M, float *const out[5],
                                                tlc_lines *lines, int last)
{
    lines->open = !last;
    tlc_quartic_ternary_decode_scalar(in, len, M, out);
}
