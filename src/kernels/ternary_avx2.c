/* SPDX-License-Identifier: MIT */
#include "avx2.h"

#if defined(__x86_64__)

TLC_AVX2_INLINE __m256i encode8(tlc_addends has, const float *g, float *r, size_t i, tlc_avx2_scale s)
{
    return tlc_avx2_quantize8(has, tlc_avx2_wanted(has, g, r, i), r, i, s);
}

TLC_AVX2_INLINE void encode(tlc_addends has, const float *g, float *r, size_t n, float M, int8_t *q)
{
    const tlc_avx2_scale s = tlc_avx2_scale_of(M);
    size_t i = 0;

    for (; i + GROUP <= n; i += GROUP) {
        __m256i a = encode8(has, g, r, i, s), b = encode8(has, g, r, i + 8, s);
        __m256i c = encode8(has, g, r, i + 16, s), d = encode8(has, g, r, i + 24, s);
        tlc_avx2_store(q + i, tlc_avx2_symbols(tlc_avx2_pack32(a, b, c, d)));
    }
    if (i < n)
        tlc_ternary_encode_scalar(has & TLC_HAS_G ? g + i : NULL, has & TLC_HAS_R ? r + i : NULL, n - i, M, q + i);
}

TLC_AVX2 void tlc_ternary_encode_avx2(const float *g, float *r, size_t n, float M, int8_t *q)
{
    if (r && M == 0) { /* nothing is subtracted: r becomes x */
        if (g)
            (void)tlc_accumulate_avx2(r, g, n);
        g = r;
        r = NULL;
    }
    TLC_WITH_ADDENDS(encode, g, r, n, M, q);
}

TLC_AVX2_INLINE __m256i widen8(const int8_t *q)
{
    return _mm256_cvtepi8_epi32(tlc_avx2_load8(q));
}

/* Values by the low two bits of a symbol: 0, 1, none, -1. */
TLC_AVX2_INLINE __m256 decoded_values(float M)
{
    return _mm256_setr_ps(0.0f, M, 0.0f, -M, 0.0f, M, 0.0f, -M);
}

TLC_AVX2 void tlc_ternary_decode_avx2(const int8_t *q, size_t n, float M, float *out)
{
    const __m256 values = decoded_values(M);
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_permutevar_ps(values, widen8(q + i)));
    if (i < n)
        tlc_ternary_decode_scalar(q + i, n - i, M, out + i);
}

TLC_AVX2_INLINE void add8(const int8_t *q, __m256 values, float *sum)
{
    __m256i symbols = widen8(q);
    __m256 old = _mm256_loadu_ps(sum), added = _mm256_add_ps(old, _mm256_permutevar_ps(values, symbols));
    /* -1 and 1 are odd: the lowest bit, moved to the sign, selects the lanes that change. */
    __m256 changed = _mm256_castsi256_ps(_mm256_slli_epi32(symbols, 31));

    TLC_OPAQUE(added);
    _mm256_storeu_ps(sum, _mm256_blendv_ps(old, added, changed));
}

TLC_AVX2 void tlc_ternary_add_avx2(const int8_t *q, size_t n, float w, float *sum)
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
