/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

/* Eight values x where the symbol is not 0 and zero bits elsewhere; x - M q goes to r. |x| > t gives such an x nonzero
 * bits of its own sign as an integer, which saturating packs keep. */
INLINE __m256i quantize8(__m256 x, float *r, __m256 M, __m256 t)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 sent = _mm256_cmp_ps(_mm256_andnot_ps(sign, x), t, _CMP_GT_OQ);

    if (r) {
        __m256 decoded = _mm256_and_ps(sent, _mm256_or_ps(M, _mm256_and_ps(sign, x)));
        _mm256_storeu_ps(r, _mm256_sub_ps(x, decoded));
    }
    return _mm256_castps_si256(_mm256_and_ps(sent, x));
}

INLINE __m256 load8(const float *g, const float *r, size_t i)
{
    if (!r)
        return _mm256_loadu_ps(g + i);
    return g ? _mm256_add_ps(_mm256_loadu_ps(g + i), _mm256_loadu_ps(r + i)) : _mm256_loadu_ps(r + i);
}

INLINE __m256i quantize8_at(const float *g, float *r, size_t i, __m256 M, __m256 t)
{
    return quantize8(load8(g, r, i), r ? r + i : NULL, M, t);
}

/* The signs of 32 integers as bytes -1, 0, 1, in order. */
INLINE __m256i pack_signs(__m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));

    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_sign_epi8(_mm256_set1_epi8(1), bytes);
}

/* Inlined once for each of the three forms of x. */
INLINE void encode(const float *g, float *r, size_t n, float M, int8_t *q)
{
    const __m256 step = _mm256_set1_ps(M), t = _mm256_set1_ps(0.5f * M);
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i a = quantize8_at(g, r, i, step, t), b = quantize8_at(g, r, i + 8, step, t);
        __m256i c = quantize8_at(g, r, i + 16, step, t), d = quantize8_at(g, r, i + 24, step, t);
        _mm256_storeu_si256((__m256i *)(void *)(q + i), pack_signs(a, b, c, d));
    }
    if (i < n)
        tlc_ternary_encode_scalar(g ? g + i : NULL, r ? r + i : NULL, n - i, M, q + i);
}

AVX2 void tlc_ternary_encode_avx2(const float *g, float *r, size_t n, float M, int8_t *q)
{
    if (!r)
        encode(g, NULL, n, M, q);
    else if (!g)
        encode(NULL, r, n, M, q);
    else
        encode(g, r, n, M, q);
}

INLINE __m256i widen8(const int8_t *q)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)q));
}

/* By the low two bits of a symbol: 0, 1, none, -1. */
INLINE __m256 decoded_values(float zero, float M)
{
    return _mm256_setr_ps(zero, M, zero, -M, zero, M, zero, -M);
}

AVX2 void tlc_ternary_decode_avx2(const int8_t *q, size_t n, float M, float *out)
{
    const __m256 values = decoded_values(0.0f, M);
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_permutevar_ps(values, widen8(q + i)));
    if (i < n)
        tlc_ternary_decode_scalar(q + i, n - i, M, out + i);
}

AVX2 void tlc_ternary_add_avx2(const int8_t *q, size_t n, float w, float *sum)
{
    const __m256 values = decoded_values(0.0f, w);
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256i symbols = widen8(q + i);
        __m256 old = _mm256_loadu_ps(sum + i), added = _mm256_add_ps(old, _mm256_permutevar_ps(values, symbols));
        /* -1 and 1 are odd: the lowest bit, moved to the sign, picks the lanes that change. */
        __m256 changed = _mm256_castsi256_ps(_mm256_slli_epi32(symbols, 31));
        _mm256_storeu_ps(sum + i, _mm256_blendv_ps(old, added, changed));
    }
    if (i < n)
        tlc_ternary_add_scalar(q + i, n - i, w, sum + i);
}
#endif
