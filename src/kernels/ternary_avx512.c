/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

enum { LANES = 16, GROUP = 64 };
#define ALL ((__mmask16)0xffff)

INLINE __mmask16 lanes(size_t left)
{
    return (__mmask16)(left < LANES ? (1u << left) - 1u : ALL);
}

typedef struct levels {
    __m512 M, up, down; /* M, M/2, -M/2 */
} levels;

/* Sixteen values from i on. Masked out lanes are 0, which is neither above M/2 nor below -M/2. */
INLINE void encode16(const float *g, float *r, size_t i, __mmask16 mask, const levels *level, int8_t *q)
{
    __m512 x = _mm512_maskz_loadu_ps(mask, g ? g + i : r + i);

    if (g && r)
        x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, r + i));
    __mmask16 up = _mm512_cmp_ps_mask(x, level->up, _CMP_GT_OQ), down = _mm512_cmp_ps_mask(x, level->down, _CMP_LT_OQ);

    _mm_mask_storeu_epi8(q + i, mask, _mm_mask_set1_epi8(_mm_maskz_set1_epi8(up, 1), down, -1));
    if (r) {
        x = _mm512_mask_sub_ps(x, up, x, level->M);
        x = _mm512_mask_add_ps(x, down, x, level->M);
        _mm512_mask_storeu_ps(r + i, mask, x);
    }
}

INLINE void encode(const float *g, float *r, size_t n, float M, int8_t *q)
{
    float t = 0.5f * M;
    levels level = {_mm512_set1_ps(M), _mm512_set1_ps(t), _mm512_set1_ps(-t)};
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        encode16(g, r, i, ALL, &level, q);
    if (i < n)
        encode16(g, r, i, lanes(n - i), &level, q);
}

AVX512 void tlc_ternary_encode_avx512(const float *g, float *r, size_t n, float M, int8_t *q)
{
    if (!r)
        encode(g, NULL, n, M, q);
    else if (!g)
        encode(NULL, r, n, M, q);
    else
        encode(g, r, n, M, q);
}

/* What the symbols 0, 1 and -1 stand for, found by a symbol's low four bits. */
INLINE __m512 value_table(float value)
{
    __m512 one = _mm512_maskz_mov_ps(1u << 1, _mm512_set1_ps(value));
    return _mm512_mask_mov_ps(one, 1u << 15, _mm512_set1_ps(-value));
}

/* Asks for the line 2 KiB on, which is to be written: a store that misses waits for its line. No access, so it may point
 * past the end. */
INLINE void prefetch(const void *to)
{
    _mm_prefetch((const char *)((uintptr_t)to + 2048), _MM_HINT_T0);
}

INLINE void decode16(const int8_t *q, __mmask16 mask, __m512 table, float *out)
{
    __m512i symbols = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, q));

    prefetch(out);
    _mm512_mask_storeu_ps(out, mask, _mm512_permutexvar_ps(symbols, table));
}

AVX512 void tlc_ternary_decode_avx512(const int8_t *q, size_t n, float M, float *out)
{
    __m512 table = value_table(M);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        decode16(q + i, ALL, table, out + i);
    if (i < n)
        decode16(q + i, lanes(n - i), table, out + i);
}

/* Adds only where a symbol is not 0: x + 0 would change -0 and signalling NaNs, and so, in clang's hands, would a choice
 * between x and x + value. */
INLINE void add16(const int8_t *q, __mmask16 mask, __m512 table, float *sum)
{
    __m128i symbols = _mm_maskz_loadu_epi8(mask, q);
    __m512 x = _mm512_maskz_loadu_ps(mask, sum), value = _mm512_permutexvar_ps(_mm512_cvtepi8_epi32(symbols), table);

    _mm512_mask_storeu_ps(sum, _mm_mask_test_epi8_mask(mask, symbols, symbols), _mm512_add_ps(x, value));
}

AVX512 void tlc_ternary_add_avx512(const int8_t *q, size_t n, float w, float *sum)
{
    __m512 table = value_table(w);
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        __m512i symbols = _mm512_loadu_si512(q + i);

        if (_mm512_test_epi8_mask(symbols, symbols))
            for (size_t j = i; j < i + GROUP; j += LANES)
                add16(q + j, ALL, table, sum + j);
    }
    for (; i < n; i += LANES)
        add16(q + i, lanes(n - i), table, sum + i);
}
#endif
