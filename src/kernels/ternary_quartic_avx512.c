/* SPDX-License-Identifier: MIT
 *
 * The fused sweeps. Sixteen bytes at a time are spread over sixteen 32-bit lanes, so that a compare mask of floats is
 * also the mask of their digits, and a look-up of a digit gives a float. Four times sixteen go together, by stream: each
 * stream's cache lines are then used up at once, also where the streams' distance makes them compete for one set.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

enum { LANES = 16, VECTORS = 4, GROUP = VECTORS * LANES };
#define ALL ((__mmask16)0xffff)

/* Before a loop over vectors or streams, which have to stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

INLINE __mmask16 lanes(size_t left)
{
    return (__mmask16)(left < LANES ? (1u << left) - 1u : ALL);
}

/* Asks for the line 2 KiB on, which is to be written: a store that misses waits for its line. No access, so it may point
 * past the end. */
INLINE void prefetch(const void *to)
{
    _mm_prefetch((const char *)((uintptr_t)to + 2048), _MM_HINT_T0);
}

typedef struct levels {
    __m512 M, up, down; /* M, M/2, -M/2 */
} levels;

enum { USE_G = 1, USE_R = 2 }; /* which of g and r there is: x is the one, or the sum of both */

/* x for sixteen values of one stream. Masked out lanes are 0, so their symbols too. */
INLINE __m512 wanted16(const float *g, const float *r, int use, __mmask16 mask)
{
    __m512 x = _mm512_maskz_loadu_ps(mask, use & USE_G ? g : r);

    if (use & USE_R)
        prefetch(r);
    if (use == (USE_G | USE_R))
        x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, r));
    return x;
}

/* Adds the symbols of x times weight to byte, and leaves the residual in r. */
INLINE __m512i digits16(__m512 x, float *r, int use, __mmask16 mask, const levels *level, __m512i byte, int weight)
{
    __mmask16 up = _mm512_cmp_ps_mask(x, level->up, _CMP_GT_OQ), down = _mm512_cmp_ps_mask(x, level->down, _CMP_LT_OQ);

    if (use & USE_R) {
        x = _mm512_mask_sub_ps(x, up, x, level->M);
        x = _mm512_mask_add_ps(x, down, x, level->M);
        _mm512_mask_storeu_ps(r, mask, x);
    }
    byte = _mm512_mask_add_epi32(byte, up, byte, _mm512_set1_epi32(weight));
    return _mm512_mask_sub_epi32(byte, down, byte, _mm512_set1_epi32(weight));
}

static const int weight[5] = {81, 27, 9, 3, 1};

/* VECTORS vectors from i on in each stream. */
INLINE void encode_group(const float *const *g, float *const *r, int use, size_t i, const levels *level, uint8_t *out)
{
    __m512i byte[VECTORS];

    UNROLL
    for (int v = 0; v < VECTORS; v++)
        byte[v] = _mm512_set1_epi32(TLC_QUARTIC_ZERO);
    UNROLL
    for (int k = 0; k < 5; k++) {
        const float *gk = use & USE_G ? g[k] + i : NULL;
        float *rk = use & USE_R ? r[k] + i : NULL;

        UNROLL
        for (int v = 0; v < VECTORS; v++) {
            byte[v] = digits16(wanted16(gk, rk, use, ALL), rk, use, ALL, level, byte[v], weight[k]);
            gk = use & USE_G ? gk + LANES : NULL;
            rk = use & USE_R ? rk + LANES : NULL;
        }
    }
    UNROLL
    for (int v = 0; v < VECTORS; v++)
        _mm_storeu_si128((__m128i *)(void *)(out + i + LANES * v), _mm512_cvtepi32_epi8(byte[v]));
}

/* One vector, or less. All streams are loaded before the first is stored: they may be neighbours, and a load waits for a
 * masked store that it could overlap, whatever the masks are. */
INLINE void encode_rest(const float *const *g, float *const *r, int use, size_t i, __mmask16 mask, const levels *level,
                        uint8_t *out)
{
    __m512i byte = _mm512_set1_epi32(TLC_QUARTIC_ZERO);
    __m512 x[5];

    UNROLL
    for (int k = 0; k < 5; k++)
        x[k] = wanted16(use & USE_G ? g[k] + i : NULL, use & USE_R ? r[k] + i : NULL, use, mask);
    UNROLL
    for (int k = 0; k < 5; k++)
        byte = digits16(x[k], use & USE_R ? r[k] + i : NULL, use, mask, level, byte, weight[k]);
    _mm_mask_storeu_epi8(out + i, mask, _mm512_cvtepi32_epi8(byte));
}

INLINE void encode(const float *const *g, float *const *r, int use, size_t len, float M, uint8_t *out)
{
    float t = 0.5f * M;
    levels level = {_mm512_set1_ps(M), _mm512_set1_ps(t), _mm512_set1_ps(-t)};
    size_t i = 0;

    for (; len - i >= GROUP; i += GROUP)
        encode_group(g, r, use, i, &level, out);
    for (; i < len; i += LANES)
        encode_rest(g, r, use, i, lanes(len - i), &level, out);
}

AVX512 void tlc_ternary_quartic_encode_avx512(const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    if (!r)
        encode(g, r, USE_G, len, M, out);
    else if (!g)
        encode(g, r, USE_R, len, M, out);
    else
        encode(g, r, USE_G | USE_R, len, M, out);
}

/* A value for each of the 27 numbers of three digits, by its first, second and third digit. */
typedef struct values {
    __m512 low[3], high[3]; /* of numbers up to 15, from 16 on */
} values;

INLINE __m512 pick(uint32_t zeros, uint32_t twos, float value, __m512 none)
{
    __m512 negative = _mm512_mask_mov_ps(none, (__mmask16)zeros, _mm512_set1_ps(-value));
    return _mm512_mask_mov_ps(negative, (__mmask16)twos, _mm512_set1_ps(value));
}

/* The masks have a bit for each number, an octal figure for three: those with the digit 0, and with the digit 2. */
INLINE values values_of(float value, __m512 none)
{
    static const uint32_t zeros[3] = {0000000777, 0007007007, 0111111111}, twos[3] = {0777000000, 0700700700, 0444444444};
    values v;

    UNROLL
    for (int k = 0; k < 3; k++) {
        v.low[k] = pick(zeros[k], twos[k], value, none);
        v.high[k] = pick(zeros[k] >> 16, twos[k] >> 16, value, none);
    }
    return v;
}

/* A byte is a number of three digits, byte / 9, and one of two, byte % 9. */
typedef struct numbers {
    __m512i three, two;
} numbers;

INLINE numbers split(__m128i bytes)
{
    __m512i byte = _mm512_cvtepu8_epi32(bytes);
    __m512i three = _mm512_srli_epi32(_mm512_mullo_epi16(byte, _mm512_set1_epi32(57)), 9); /* exact up to 242 */
    numbers n = {three, _mm512_sub_epi32(byte, _mm512_mullo_epi16(three, _mm512_set1_epi32(9)))};

    return n;
}

/* The values of sixteen bytes in the k-th stream. */
INLINE __m512 look_up(const values *v, numbers n, int k)
{
    if (k < 3)
        return _mm512_permutex2var_ps(v->low[k], n.three, v->high[k]);
    return _mm512_permutexvar_ps(n.two, v->low[k - 2]); /* below 9 the second and third digit are the two */
}

/* The lanes that change: a symbol 0 looks up all bits set, which is no weight. x + 0 would change -0 and signalling NaNs,
 * and so, in clang's hands, would a choice between x and x + value: the others are not stored. */
INLINE __mmask16 changed(__m512 value)
{
    return _mm512_cmpneq_epi32_mask(_mm512_castps_si512(value), _mm512_set1_epi32(-1));
}

/* VECTORS vectors of bytes from i on, written or added to the streams. */
INLINE void decode_group(const uint8_t *in, size_t i, const values *v, float *const out[5], int add)
{
    numbers n[VECTORS];

    UNROLL
    for (int j = 0; j < VECTORS; j++)
        n[j] = split(_mm_loadu_si128((const __m128i *)(const void *)(in + i + LANES * j)));
    UNROLL
    for (int k = 0; k < 5; k++) {
        float *to = out[k] + i;

        UNROLL
        for (int j = 0; j < VECTORS; j++, to += LANES) {
            __m512 value = look_up(v, n[j], k);
            prefetch(to);
            if (add)
                _mm512_mask_storeu_ps(to, changed(value), _mm512_add_ps(_mm512_loadu_ps(to), value));
            else
                _mm512_storeu_ps(to, value);
        }
    }
}

/* One vector of bytes, or less; loads before stores, as in encode_rest. */
INLINE void decode_rest(const uint8_t *in, size_t i, __mmask16 mask, const values *v, float *const out[5], int add)
{
    numbers n = split(_mm_maskz_loadu_epi8(mask, in + i));
    __mmask16 stored[5] = {mask, mask, mask, mask, mask};
    __m512 x[5];

    UNROLL
    for (int k = 0; k < 5; k++) {
        x[k] = look_up(v, n, k);
        if (add) {
            stored[k] = mask & changed(x[k]);
            x[k] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out[k] + i), x[k]);
        }
    }
    UNROLL
    for (int k = 0; k < 5; k++)
        _mm512_mask_storeu_ps(out[k] + i, stored[k], x[k]);
}

AVX512 void tlc_quartic_ternary_decode_avx512(const uint8_t *in, size_t len, float M, float *const out[5])
{
    values v = values_of(M, _mm512_setzero_ps());
    size_t i = 0;

    for (; len - i >= GROUP; i += GROUP)
        decode_group(in, i, &v, out, 0);
    for (; i < len; i += LANES)
        decode_rest(in, i, lanes(len - i), &v, out, 0);
}

AVX512 void tlc_quartic_ternary_add_avx512(const uint8_t *in, size_t len, float w, float *const sum[5])
{
    values v = values_of(w, _mm512_castsi512_ps(_mm512_set1_epi32(-1)));
    size_t i = 0;

    for (; len - i >= GROUP; i += GROUP)
        if (_mm512_cmpneq_epi8_mask(_mm512_loadu_si512(in + i), _mm512_set1_epi8(TLC_QUARTIC_ZERO)))
            decode_group(in, i, &v, sum, 1);
    for (; i < len; i += LANES)
        decode_rest(in, i, lanes(len - i), &v, sum, 1);
}

/* Streaming stores take whole, aligned lines, and each stream lies differently to them: a line is made of the end of one
 * vector and the start of the next. The first and the last values, which share their lines with others, go as usual. */
typedef struct line_stream {
    __m512 last;   /* the vector before */
    __m512i index; /* picks a line from the two */
    size_t skew;   /* values of last that are in the line */
} line_stream;

INLINE line_stream line_stream_at(const float *out, __m512 last)
{
    size_t skew = (uintptr_t)out / sizeof(float) % LANES;
    __m512i iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    line_stream s = {last, _mm512_add_epi32(iota, _mm512_set1_epi32((int)(LANES - skew))), skew};
    return s;
}

INLINE void line_stream_put(line_stream *s, float *out, __m512 next)
{
    _mm512_stream_ps(out - s->skew, _mm512_permutex2var_ps(s->last, s->index, next));
    s->last = next;
}

INLINE numbers split16(const uint8_t *in)
{
    return split(_mm_loadu_si128((const __m128i *)(const void *)in));
}

AVX512 void tlc_quartic_ternary_stream_avx512(const uint8_t *in, size_t len, float M, float *const out[5],
                                              tlc_lines *lines, int last)
{
    values v = values_of(M, _mm512_setzero_ps());
    line_stream s[5];
    size_t i = 0;

    if (!lines->open) {
        if (len < LANES) { /* and so the last */
            decode_rest(in, 0, lanes(len), &v, out, 0);
            return;
        }
        numbers n = split16(in);
        UNROLL
        for (int k = 0; k < 5; k++) {
            s[k] = line_stream_at(out[k], look_up(&v, n, k));
            _mm512_mask_storeu_ps(out[k], lanes(LANES - s[k].skew), s[k].last);
        }
        i = LANES;
    } else {
        UNROLL
        for (int k = 0; k < 5; k++)
            s[k] = line_stream_at(out[k], _mm512_loadu_ps(lines->left[k]));
    }
    for (; len - i >= LANES; i += LANES) {
        numbers n = split16(in + i);
        UNROLL
        for (int k = 0; k < 5; k++)
            line_stream_put(&s[k], out[k] + i, look_up(&v, n, k));
    }
    lines->open = !last;
    if (!last) {
        UNROLL
        for (int k = 0; k < 5; k++)
            _mm512_storeu_ps(lines->left[k], s[k].last);
        return;
    }
    UNROLL
    for (int k = 0; k < 5; k++) {
        __m512 rest = _mm512_permutex2var_ps(s[k].last, s[k].index, s[k].last);
        _mm512_mask_storeu_ps(out[k] + i - s[k].skew, lanes(s[k].skew), rest);
    }
    if (i < len)
        decode_rest(in, i, lanes(len - i), &v, out, 0);
    _mm_sfence(); /* such stores keep no order by themselves: whoever is told that we are done must see them */
}
#endif
