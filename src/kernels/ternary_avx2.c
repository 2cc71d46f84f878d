/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

/* Which of the two addends of x there are. */
typedef struct form { int g, r; } form;

/* Integers of the sign of eight symbols; x - M q goes to r. The integers are the bits of M q, or of x where that is
 * cheaper; M = 0 with a residual does not come here. */
INLINE __m256i quantize8(form has, const float *g, float *r, size_t i, __m256 M, __m256 t)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 x = _mm256_loadu_ps(has.g ? g + i : r + i);

    if (has.g && has.r)
        x = _mm256_add_ps(x, _mm256_loadu_ps(r + i));
    __m256 sent = _mm256_cmp_ps(_mm256_andnot_ps(sign, x), t, _CMP_GT_OQ);
    if (!has.r)
        return _mm256_castps_si256(_mm256_and_ps(sent, x));
    __m256 decoded = _mm256_and_ps(sent, _mm256_or_ps(M, _mm256_and_ps(sign, x)));
    _mm256_storeu_ps(r + i, _mm256_sub_ps(x, decoded));
    return _mm256_castps_si256(decoded);
}

/* The signs of 32 integers as bytes -1, 0, 1, in order; packs saturate, so a sign is never lost. */
INLINE __m256i pack_signs(__m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));

    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_sign_epi8(_mm256_set1_epi8(1), bytes);
}

/* Inlined once for each of the three forms of x. */
INLINE void encode(form has, const float *g, float *r, size_t n, float M, int8_t *q)
{
    const __m256 step = _mm256_set1_ps(M), t = _mm256_set1_ps(0.5f * M);
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i a = quantize8(has, g, r, i, step, t), b = quantize8(has, g, r, i + 8, step, t);
        __m256i c = quantize8(has, g, r, i + 16, step, t), d = quantize8(has, g, r, i + 24, step, t);
        _mm256_storeu_si256((__m256i *)(void *)(q + i), pack_signs(a, b, c, d));
    }
    if (i < n)
        tlc_ternary_encode_scalar(has.g ? g + i : NULL, has.r ? r + i : NULL, n - i, M, q + i);
}

AVX2 void tlc_ternary_encode_avx2(const float *g, float *r, size_t n, float M, int8_t *q)
{
    if (r && M == 0) { /* nothing is subtracted: r becomes x, and that is all */
        if (g)
            (void)tlc_accumulate_avx2(r, g, n);
        g = r;
        r = NULL;
    }
    if (!r)
        encode((form){1, 0}, g, NULL, n, M, q);
    else if (!g)
        encode((form){0, 1}, NULL, r, n, M, q);
    else
        encode((form){1, 1}, g, r, n, M, q);
}

INLINE __m256i widen8(const int8_t *q)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)q));
}

/* By the low two bits of a symbol: 0, 1, none, -1. */
INLINE __m256 decoded_values(float M)
{
    return _mm256_setr_ps(0.0f, M, 0.0f, -M, 0.0f, M, 0.0f, -M);
}

AVX2 void tlc_ternary_decode_avx2(const int8_t *q, size_t n, float M, float *out)
{
    const __m256 values = decoded_values(M);
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_permutevar_ps(values, widen8(q + i)));
    if (i < n)
        tlc_ternary_decode_scalar(q + i, n - i, M, out + i);
}

INLINE void add8(const int8_t *q, __m256 values, float *sum)
{
    __m256i symbols = widen8(q);
    __m256 old = _mm256_loadu_ps(sum), added = _mm256_add_ps(old, _mm256_permutevar_ps(values, symbols));
    /* -1 and 1 are odd: the lowest bit, moved to the sign, picks the lanes that change. */
    __m256 changed = _mm256_castsi256_ps(_mm256_slli_epi32(symbols, 31));

    TLC_OPAQUE(added);
    _mm256_storeu_ps(sum, _mm256_blendv_ps(old, added, changed));
}

AVX2 void tlc_ternary_add_avx2(const int8_t *q, size_t n, float w, float *sum)
{
    const __m256 values = decoded_values(w);
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        add8(q + i, values, sum + i);
        add8(q + i + 8, values, sum + i + 8);
    }
    if (i < n)
        tlc_ternary_add_scalar(q + i, n - i, w, sum + i);
}
#endif
