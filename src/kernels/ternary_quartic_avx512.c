/* SPDX-License-Identifier: MIT
 *
 * The fused sweeps. Sixteen bytes a step, spread over sixteen 32-bit lanes, so that a compare mask of floats is also the
 * mask of their digits and a look-up of a digit is a float.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

enum { LANES = 16, GROUP = 64 };
#define ALL ((__mmask16)0xffff)

INLINE __mmask16 lanes(size_t left)
{
    return left < LANES ? (__mmask16)((1u << left) - 1u) : ALL;
}

typedef struct levels {
    __m512 M, up, down; /* M, M/2, -M/2 */
} levels;

/* Sixteen values of one stream: adds their symbols times weight to byte. Masked out lanes are 0, so their symbols too. */
INLINE __m512i digits16(const float *g, float *r, __mmask16 mask, const levels *level, __m512i byte, int weight)
{
    __m512 x = _mm512_maskz_loadu_ps(mask, g ? g : r);

    if (g && r)
        x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, r));
    __mmask16 up = _mm512_cmp_ps_mask(x, level->up, _CMP_GT_OQ), down = _mm512_cmp_ps_mask(x, level->down, _CMP_LT_OQ);

    if (r) {
        x = _mm512_mask_sub_ps(x, up, x, level->M);
        x = _mm512_mask_add_ps(x, down, x, level->M);
        _mm512_mask_storeu_ps(r, mask, x);
    }
    byte = _mm512_mask_add_epi32(byte, up, byte, _mm512_set1_epi32(weight));
    return _mm512_mask_sub_epi32(byte, down, byte, _mm512_set1_epi32(weight));
}

INLINE void encode16(const float *const *g, float *const *r, size_t i, __mmask16 mask, const levels *level, uint8_t *out)
{
    __m512i byte = _mm512_set1_epi32(TLC_QUARTIC_ZERO);

    byte = digits16(g ? g[0] + i : NULL, r ? r[0] + i : NULL, mask, level, byte, 81);
    byte = digits16(g ? g[1] + i : NULL, r ? r[1] + i : NULL, mask, level, byte, 27);
    byte = digits16(g ? g[2] + i : NULL, r ? r[2] + i : NULL, mask, level, byte, 9);
    byte = digits16(g ? g[3] + i : NULL, r ? r[3] + i : NULL, mask, level, byte, 3);
    byte = digits16(g ? g[4] + i : NULL, r ? r[4] + i : NULL, mask, level, byte, 1);
    _mm_mask_storeu_epi8(out + i, mask, _mm512_cvtepi32_epi8(byte));
}

INLINE void encode(const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    float t = 0.5f * M;
    levels level = {_mm512_set1_ps(M), _mm512_set1_ps(t), _mm512_set1_ps(-t)};
    size_t i = 0;

    for (; len - i >= LANES; i += LANES)
        encode16(g, r, i, ALL, &level, out);
    if (i < len)
        encode16(g, r, i, lanes(len - i), &level, out);
}

AVX512 void tlc_ternary_quartic_encode_avx512(const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    if (!r)
        encode(g, NULL, len, M, out);
    else if (!g)
        encode(NULL, r, len, M, out);
    else
        encode(g, r, len, M, out);
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
    values v = {
        {pick(zeros[0], twos[0], value, none), pick(zeros[1], twos[1], value, none), pick(zeros[2], twos[2], value, none)},
        {pick(zeros[0] >> 16, twos[0] >> 16, value, none), pick(zeros[1] >> 16, twos[1] >> 16, value, none),
         pick(zeros[2] >> 16, twos[2] >> 16, value, none)},
    };
    return v;
}

/* The values of sixteen bytes in each stream: byte / 9 is a number of three digits, byte % 9 one of two. */
INLINE void look_up(__m128i bytes, const values *v, __m512 value[5])
{
    __m512i byte = _mm512_cvtepu8_epi32(bytes), nine = _mm512_set1_epi32(9);
    __m512i three = _mm512_srli_epi32(_mm512_mullo_epi16(byte, _mm512_set1_epi32(57)), 9); /* exact up to 242 */
    __m512i two = _mm512_sub_epi32(byte, _mm512_mullo_epi16(three, nine));

    value[0] = _mm512_permutex2var_ps(v->low[0], three, v->high[0]);
    value[1] = _mm512_permutex2var_ps(v->low[1], three, v->high[1]);
    value[2] = _mm512_permutex2var_ps(v->low[2], three, v->high[2]);
    value[3] = _mm512_permutexvar_ps(two, v->low[1]);
    value[4] = _mm512_permutexvar_ps(two, v->low[2]);
}

INLINE void decode16(const uint8_t *in, size_t i, __mmask16 mask, const values *v, float *const out[5])
{
    __m512 value[5];

    look_up(_mm_maskz_loadu_epi8(mask, in + i), v, value);
    _mm512_mask_storeu_ps(out[0] + i, mask, value[0]);
    _mm512_mask_storeu_ps(out[1] + i, mask, value[1]);
    _mm512_mask_storeu_ps(out[2] + i, mask, value[2]);
    _mm512_mask_storeu_ps(out[3] + i, mask, value[3]);
    _mm512_mask_storeu_ps(out[4] + i, mask, value[4]);
}

AVX512 void tlc_quartic_ternary_decode_avx512(const uint8_t *in, size_t len, float M, float *const out[5])
{
    values v = values_of(M, _mm512_setzero_ps());
    size_t i = 0;

    for (; len - i >= LANES; i += LANES)
        decode16(in, i, ALL, &v, out);
    if (i < len)
        decode16(in, i, lanes(len - i), &v, out);
}

/* A symbol 0 looks up all bits set, which is no weight, and adds nothing: x + 0 would change -0 and signalling NaNs. */
INLINE void add_values(float *sum, __mmask16 mask, __m512 value)
{
    __mmask16 some = _mm512_cmpneq_epi32_mask(_mm512_castps_si512(value), _mm512_set1_epi32(-1));
    __m512 x = _mm512_maskz_loadu_ps(mask, sum);

    _mm512_mask_storeu_ps(sum, mask, _mm512_mask_add_ps(x, some, x, value));
}

INLINE void add16(const uint8_t *in, size_t i, __mmask16 mask, const values *v, float *const sum[5])
{
    __m512 value[5];

    look_up(_mm_maskz_loadu_epi8(mask, in + i), v, value);
    add_values(sum[0] + i, mask, value[0]);
    add_values(sum[1] + i, mask, value[1]);
    add_values(sum[2] + i, mask, value[2]);
    add_values(sum[3] + i, mask, value[3]);
    add_values(sum[4] + i, mask, value[4]);
}

AVX512 void tlc_quartic_ternary_add_avx512(const uint8_t *in, size_t len, float w, float *const sum[5])
{
    values v = values_of(w, _mm512_castsi512_ps(_mm512_set1_epi32(-1)));
    size_t i = 0;

    for (; len - i >= GROUP; i += GROUP)
        if (_mm512_cmpneq_epi8_mask(_mm512_loadu_si512(in + i), _mm512_set1_epi8(TLC_QUARTIC_ZERO)))
            for (size_t j = i; j < i + GROUP; j += LANES)
                add16(in, j, ALL, &v, sum);
    for (; i < len; i += LANES)
        add16(in, i, lanes(len - i), &v, sum);
}
#endif
