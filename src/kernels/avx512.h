/* SPDX-License-Identifier: MIT
 *
 * What several AVX-512 kernels share: 16 floats or 64 bytes a vector. Tails are masked: what a mask leaves out is
 * neither read nor written.
 */
#ifndef TLC_AVX512_H
#define TLC_AVX512_H

#include "intrinsics.h"
#include "kernels.h"

#if defined(__x86_64__)
/* What cpu.c asks for before it grants AVX-512. Kernels begin at cache lines: else their speed depends on what the
 * linker puts before them, by up to 17% seen. */
#define TLC_AVX512_TARGET target("avx512f,avx512cd,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")
#define TLC_AVX512 __attribute__((TLC_AVX512_TARGET, aligned(64)))
#define TLC_AVX512_INLINE static inline __attribute__((TLC_FORCED, TLC_AVX512_TARGET))

enum { LANES = 16, BYTES = 64, GROUP = 4 * LANES }; /* a group: as many values as a vector has bytes */

/* ---- masks ---- */

#define ALL_LANES ((__mmask16)0xffff)
#define ALL_BYTES (~(__mmask64)0)

/* The first `count` lanes, or all if there are more. */
TLC_AVX512_INLINE __mmask16 tlc_avx512_lanes(size_t count)
{
    return (__mmask16)(count < LANES ? (1u << count) - 1u : ALL_LANES);
}

/* The first `count` bytes, or all if there are more. */
TLC_AVX512_INLINE __mmask64 tlc_avx512_bytes(size_t count)
{
    return count < BYTES ? ((__mmask64)1 << count) - 1 : ALL_BYTES;
}

/* The masks of four vectors as one of 64 bits. */
TLC_AVX512_INLINE __mmask64 tlc_avx512_join(__mmask16 a, __mmask16 b, __mmask16 c, __mmask16 d)
{
    return _mm512_kunpackd(_mm512_kunpackw(d, c), _mm512_kunpackw(b, a));
}

/* ---- memory ---- */

TLC_AVX512_INLINE __m128i tlc_avx512_load16(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

/* Asks for the line 2 KiB ahead, which is to be written: a store that misses waits for its line. A prefetch
 * accesses nothing, so the line may be past the end. Computed as an integer, that is legal C. */
TLC_AVX512_INLINE void tlc_avx512_prefetch(const void *to)
{
    _mm_prefetch((const char *)((uintptr_t)to + 2048), _MM_HINT_T0);
}

/* 16 of the values x, 0 where masked out. `has` is a constant in each use; what is not there may be NULL. */
TLC_AVX512_INLINE __m512 tlc_avx512_wanted(tlc_addends has, const float *g, const float *r, size_t i, __mmask16 mask)
{
    __m512 x = _mm512_maskz_loadu_ps(mask, has & TLC_HAS_G ? g + i : r + i);
    return has == TLC_HAS_BOTH ? _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, r + i)) : x;
}

/* ---- the largest magnitude ---- */

/* The bits of |x| as integers order like the magnitudes, and a NaN is above everything. */
TLC_AVX512_INLINE __m512i tlc_avx512_larger(__m512i max, __m512 x)
{
    return _mm512_max_epu32(max, _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32((int)TLC_F32_ABS)));
}

/* ---- packing ---- */

/* Packing works on each 128-bit part for itself; this puts its result in order. */
TLC_AVX512_INLINE __m512i tlc_avx512_ordered(__m512i packed)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, packed);
}

/* ---- sums ---- */

TLC_AVX512_INLINE __m512 tlc_avx512_nan(void)
{
    return _mm512_castsi512_ps(_mm512_set1_epi32((int)TLC_F32_NAN));
}

/* x with every NaN replaced by TLC_F32_NAN. */
TLC_AVX512_INLINE __m512 tlc_avx512_one_nan(__m512 x)
{
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), tlc_avx512_nan());
}

/* x + v in the lanes of mask; the others keep their bits. */
TLC_AVX512_INLINE __m512 tlc_avx512_add_where(__m512 x, __mmask16 mask, __m512 v)
{
#if defined(__clang__) /* it would add -0 in the other lanes, which changes signalling NaNs */
    __m512 sum = _mm512_add_ps(x, v);
    TLC_OPAQUE(sum);
    return _mm512_mask_mov_ps(x, mask, sum);
#else
    return _mm512_mask_add_ps(x, mask, x, v);
#endif
}

/* sum + weight * value, both rounded, with one NaN. */
TLC_AVX512_INLINE __m512 tlc_avx512_weighted(__m512 sum, __m512 value, __m512 weight)
{
    __m512 product = _mm512_mul_ps(value, weight);

    TLC_OPAQUE(product); /* rounded before it is added: AVX-512 has fused multiply-add */
    return tlc_avx512_one_nan(_mm512_add_ps(sum, product));
}

/* ---- ternary symbols ---- */

/* What quantizing with M subtracts and compares with. */
typedef struct tlc_avx512_scale {
    __m512 M, up, down; /* M, M/2, -M/2 */
} tlc_avx512_scale;

TLC_AVX512_INLINE tlc_avx512_scale tlc_avx512_scale_of(float M)
{
    float t = 0.5f * M;
    return (tlc_avx512_scale){_mm512_set1_ps(M), _mm512_set1_ps(t), _mm512_set1_ps(-t)};
}

/* Which symbols are 1 and which are -1. A lane 0 is neither. */
typedef struct tlc_avx512_signs {
    __mmask16 up, down;
} tlc_avx512_signs;

TLC_AVX512_INLINE tlc_avx512_signs tlc_avx512_quantize(__m512 x, const tlc_avx512_scale *s)
{
    return (tlc_avx512_signs){_mm512_cmp_ps_mask(x, s->up, _CMP_GT_OQ), _mm512_cmp_ps_mask(x, s->down, _CMP_LT_OQ)};
}

/* Stores x - M q. */
TLC_AVX512_INLINE void tlc_avx512_store_rest(float *r, __mmask16 mask, __m512 x, tlc_avx512_signs q,
                                             const tlc_avx512_scale *s)
{
    x = _mm512_mask_sub_ps(x, q.up, x, s->M);
    x = _mm512_mask_add_ps(x, q.down, x, s->M);
    _mm512_mask_storeu_ps(r, mask, x);
}
#endif
#endif
