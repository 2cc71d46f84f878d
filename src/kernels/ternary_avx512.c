/* SPDX-License-Identifier: MIT */
#include "avx512.h"

#if defined(__x86_64__)

TLC_AVX512_INLINE void encode16(tlc_addends has, const float *g, float *r, size_t i, __mmask16 mask,
                                const tlc_avx512_scale *scale, int8_t *q)
{
    __m512 x = tlc_avx512_wanted(has, g, r, i, mask);
    tlc_avx512_signs signs = tlc_avx512_quantize(x, scale);

    _mm_mask_storeu_epi8(q + i, mask, _mm_mask_set1_epi8(_mm_maskz_set1_epi8(signs.up, 1), signs.down, -1));
    if (has & TLC_HAS_R)
        tlc_avx512_store_rest(r + i, mask, x, signs, scale);
}

TLC_AVX512_INLINE void encode(tlc_addends has, const float *g, float *r, size_t n, float M, int8_t *q)
{
    const tlc_avx512_scale scale = tlc_avx512_scale_of(M);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        encode16(has, g, r, i, ALL_LANES, &scale, q);
    if (i < n)
        encode16(has, g, r, i, tlc_avx512_lanes(n - i), &scale, q);
}

TLC_AVX512 void tlc_ternary_encode_avx512(const float *g, float *r, size_t n, float M, int8_t *q)
{
    TLC_WITH_ADDENDS(encode, g, r, n, M, q);
}

/* The values of the symbols 0, 1 and -1, by the low four bits of a symbol. */
TLC_AVX512_INLINE __m512 value_table(float value)
{
    __m512 one = _mm512_maskz_mov_ps(1u << 1, _mm512_set1_ps(value));
    return _mm512_mask_mov_ps(one, 1u << 15, _mm512_set1_ps(-value));
}

TLC_AVX512_INLINE void decode16(const int8_t *q, __mmask16 mask, __m512 table, float *out)
{
    __m512i symbols = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, q));

    tlc_avx512_prefetch(out);
    _mm512_mask_storeu_ps(out, mask, _mm512_permutexvar_ps(symbols, table));
}

TLC_AVX512 void tlc_ternary_decode_avx512(const int8_t *q, size_t n, float M, float *out)
{
    __m512 table = value_table(M);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        decode16(q + i, ALL_LANES, table, out + i);
    if (i < n)
        decode16(q + i, tlc_avx512_lanes(n - i), table, out + i);
}

/* Adds only where a symbol is not 0. x + 0 would change -0 and signalling NaNs. clang would turn a choice between x
 * and x + value into such a sum. */
TLC_AVX512_INLINE void add16(const int8_t *q, __mmask16 mask, __m512 table, float *sum)
{
    __m128i symbols = _mm_maskz_loadu_epi8(mask, q);
    __m512 x = _mm512_maskz_loadu_ps(mask, sum), value = _mm512_permutexvar_ps(_mm512_cvtepi8_epi32(symbols), table);

    _mm512_mask_storeu_ps(sum, _mm_mask_test_epi8_mask(mask, symbols, symbols), _mm512_add_ps(x, value));
}

TLC_AVX512 void tlc_ternary_add_avx512(const int8_t *q, size_t n, float w, float *sum)
{
    __m512 table = value_table(w);
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        __m512i symbols = _mm512_loadu_si512(q + i);

        if (_mm512_test_epi8_mask(symbols, symbols))
            for (size_t j = i; j < i + GROUP; j += LANES)
                add16(q + j, ALL_LANES, table, sum + j);
    }
    for (; i < n; i += LANES)
        add16(q + i, tlc_avx512_lanes(n - i), table, sum + i);
}
#endif
