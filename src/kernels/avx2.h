/* SPDX-License-Identifier: MIT
 *
 * What several AVX2 kernels share: eight floats or 32 bytes a vector.
 */
#ifndef TLC_AVX2_H
#define TLC_AVX2_H

#include "intrinsics.h"
#include "kernels.h"

#if defined(__x86_64__)
/* What cpu.c asks for before it grants AVX2. No FMA: there is nothing to contract. Kernels begin at cache lines: else
 * their speed depends on what the linker puts before them, by up to 17% seen. */
#define TLC_AVX2_TARGET target("avx2,f16c,popcnt,bmi,bmi2,lzcnt")
#define TLC_AVX2 __attribute__((TLC_AVX2_TARGET, aligned(64)))
#define TLC_AVX2_INLINE static inline __attribute__((TLC_FORCED, TLC_AVX2_TARGET))

enum { LANES = 8, BYTES = 32, GROUP = 4 * LANES }; /* a group: as many values as a vector has bytes */

/* ---- memory ---- */

TLC_AVX2_INLINE __m256i tlc_avx2_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

TLC_AVX2_INLINE void tlc_avx2_store(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

/* 16 and 8 bytes. */
TLC_AVX2_INLINE __m128i tlc_avx2_load16(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

TLC_AVX2_INLINE __m128i tlc_avx2_load8(const void *p)
{
    return _mm_loadl_epi64((const __m128i *)p);
}

TLC_AVX2_INLINE void tlc_avx2_store16(void *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)p, v);
}

TLC_AVX2_INLINE void tlc_avx2_store8(void *p, __m128i v)
{
    _mm_storel_epi64((__m128i *)p, v);
}

/* How far ahead to ask for a cache line, in bytes. A store that misses waits for its line, so one array asks early.
 * Five or ten arrays that move together are more than the hardware prefetchers follow. */
enum { AHEAD_OF_ONE = 2048, AHEAD_OF_FIVE = 512 };

/* A prefetch accesses nothing, so p + ahead may be past the end. Computed as an integer, that is legal C. */
TLC_AVX2_INLINE void tlc_avx2_prefetch(const void *p, uintptr_t ahead)
{
    _mm_prefetch((const char *)((uintptr_t)p + ahead), _MM_HINT_T0);
}

/* Eight of the values x. `has` is a constant in each use; what is not there may be NULL. */
TLC_AVX2_INLINE __m256 tlc_avx2_wanted(tlc_addends has, const float *g, const float *r, size_t i)
{
    __m256 x = _mm256_loadu_ps(has & TLC_HAS_G ? g + i : r + i);
    return has == TLC_HAS_BOTH ? _mm256_add_ps(x, _mm256_loadu_ps(r + i)) : x;
}

/* ---- the largest magnitude ---- */

/* The bits of |x| as integers order like the magnitudes, and a NaN is above everything. */
TLC_AVX2_INLINE __m256i tlc_avx2_larger(__m256i max, __m256 x)
{
    __m256i bits = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32((int)TLC_F32_ABS));
    return _mm256_max_epu32(max, bits);
}

TLC_AVX2_INLINE uint32_t tlc_avx2_largest(__m256i max)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));

    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

/* ---- packing ---- */

/* Packing works on each half for itself; this puts its result in order. */
TLC_AVX2_INLINE __m256i tlc_avx2_ordered(__m256i packed)
{
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* 32 integers as bytes, in the order that packing leaves. Packing saturates, so no sign is lost. */
TLC_AVX2_INLINE __m256i tlc_avx2_packed(__m256i a, __m256i b, __m256i c, __m256i d)
{
    return _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

/* The same in order. */
TLC_AVX2_INLINE __m256i tlc_avx2_pack32(__m256i a, __m256i b, __m256i c, __m256i d)
{
    return tlc_avx2_ordered(tlc_avx2_packed(a, b, c, d));
}

/* The signs of 32 bytes, as bits. */
TLC_AVX2_INLINE uint32_t tlc_avx2_signs(__m256i bytes)
{
    return (uint32_t)_mm256_movemask_epi8(bytes);
}

/* ---- sums ---- */

/* x with every NaN replaced by TLC_F32_NAN. */
TLC_AVX2_INLINE __m256 tlc_avx2_one_nan(__m256 x)
{
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)TLC_F32_NAN));
    return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* sum + weight * value, both rounded, with one NaN. */
TLC_AVX2_INLINE __m256 tlc_avx2_weighted(__m256 sum, __m256 value, __m256 weight)
{
    __m256 product = _mm256_mul_ps(value, weight);

    TLC_OPAQUE(product); /* rounded before it is added */
    __m256 x = tlc_avx2_one_nan(_mm256_add_ps(sum, product));
    TLC_OPAQUE(x);
    return x;
}

/* ---- ternary symbols ---- */

/* What quantizing with M subtracts and compares with. */
typedef struct tlc_avx2_scale {
    __m256 M, half;
} tlc_avx2_scale;

TLC_AVX2_INLINE tlc_avx2_scale tlc_avx2_scale_of(float M)
{
    return (tlc_avx2_scale){_mm256_set1_ps(M), _mm256_set1_ps(0.5f * M)};
}

/* Returns integers of the sign of q; with a residual *x becomes x - M q. The integers are the bits of M q, or of x
 * where that is cheaper. M must not be 0 with a residual: M q would have no sign. */
TLC_AVX2_INLINE __m256i tlc_avx2_quantize(tlc_addends has, __m256 *x, tlc_avx2_scale s)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 sent = _mm256_cmp_ps(_mm256_andnot_ps(sign, *x), s.half, _CMP_GT_OQ);

    if (!(has & TLC_HAS_R))
        return _mm256_castps_si256(_mm256_and_ps(sent, *x));
    __m256 decoded = _mm256_and_ps(sent, _mm256_or_ps(s.M, _mm256_and_ps(sign, *x)));
    *x = _mm256_sub_ps(*x, decoded);
    return _mm256_castps_si256(decoded);
}

/* The same, and the residual goes to r. */
TLC_AVX2_INLINE __m256i tlc_avx2_quantize8(tlc_addends has, __m256 x, float *r, size_t i, tlc_avx2_scale s)
{
    __m256i q = tlc_avx2_quantize(has, &x, s);

    if (has & TLC_HAS_R)
        _mm256_storeu_ps(r + i, x);
    return q;
}

/* Bytes -1, 0 or 1 by the sign of each. */
TLC_AVX2_INLINE __m256i tlc_avx2_symbols(__m256i bytes)
{
    return _mm256_sign_epi8(_mm256_set1_epi8(1), bytes);
}

/* Horner's rule for one more digit: 3 a + q. */
TLC_AVX2_INLINE __m256i tlc_avx2_horner(__m256i a, __m256i q)
{
    return _mm256_add_epi8(_mm256_add_epi8(a, a), _mm256_add_epi8(a, q));
}

/* 16 words b <= 242 to their five digits, two bits each, p0 on top: sum d_k 4^k = b + b/3 + 4 (b/9) + 16 (b/27)
 * + 64 (b/81). Division is a product with ceil(65536/d) (exact up to 242), of which the high half is kept. */
TLC_AVX2_INLINE __m256i tlc_avx2_digits(__m256i b)
{
    __m256i d = _mm256_mulhi_epu16(b, _mm256_set1_epi16(810));

    d = _mm256_add_epi16(_mm256_slli_epi16(d, 2), _mm256_mulhi_epu16(b, _mm256_set1_epi16(2428)));
    d = _mm256_add_epi16(_mm256_slli_epi16(d, 2), _mm256_mulhi_epu16(b, _mm256_set1_epi16(7282)));
    d = _mm256_slli_epi16(d, 2);
    return _mm256_add_epi16(d, _mm256_add_epi16(b, _mm256_mulhi_epu16(b, _mm256_set1_epi16(21846))));
}
#endif
#endif
