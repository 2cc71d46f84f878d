/* SPDX-License-Identifier: MIT
 *
 * VCVTPH2PS and VCVTPS2PH do what convert.h does, for NaNs and subnormals too and in every float mode. bfloat16 is
 * converted on the bits.
 */
#include "avx512.h"

#if defined(__x86_64__)

TLC_AVX512_INLINE __mmask16 is_nan(__m512i bits)
{
    __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32((int)TLC_F32_ABS));
    return _mm512_cmpgt_epu32_mask(magnitude, _mm512_set1_epi32((int)TLC_F32_INF));
}

TLC_AVX512_INLINE void widen_f16(const uint8_t *in, __mmask16 mask, float *out)
{
    tlc_avx512_prefetch(out);
    _mm512_mask_storeu_ps(out, mask, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, in)));
}

TLC_AVX512_INLINE void narrow_f16(const float *in, __mmask16 mask, uint8_t *out)
{
    __m512 x = _mm512_maskz_loadu_ps(mask, in);
    _mm256_mask_storeu_epi16(out, mask, _mm512_maskz_cvtps_ph(mask, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

TLC_AVX512_INLINE void widen_bf16(const uint8_t *in, __mmask16 mask, float *out)
{
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, in)), 16);

    bits = _mm512_mask_or_epi32(bits, is_nan(bits), bits, _mm512_set1_epi32(0x400000));
    tlc_avx512_prefetch(out);
    _mm512_mask_storeu_epi32(out, mask, bits);
}

TLC_AVX512_INLINE void narrow_bf16(const float *in, __mmask16 mask, uint8_t *out)
{
    __m512i bits = _mm512_maskz_loadu_epi32(mask, in), kept = _mm512_srli_epi32(bits, 16);
    __m512i half = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(kept, _mm512_set1_epi32(1)));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);

    rounded = _mm512_mask_or_epi32(rounded, is_nan(bits), kept, _mm512_set1_epi32(0x40));
    _mm256_mask_storeu_epi16(out, mask, _mm512_cvtepi32_epi16(rounded));
}

TLC_AVX512 void tlc_f16_to_f32_avx512(const void *in, size_t n, float *out)
{
    const uint8_t *from = in;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        widen_f16(from + 2 * i, ALL_LANES, out + i);
    if (i < n)
        widen_f16(from + 2 * i, tlc_avx512_lanes(n - i), out + i);
}

TLC_AVX512 void tlc_f32_to_f16_avx512(const float *in, size_t n, void *out)
{
    uint8_t *to = out;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        narrow_f16(in + i, ALL_LANES, to + 2 * i);
    if (i < n)
        narrow_f16(in + i, tlc_avx512_lanes(n - i), to + 2 * i);
}

TLC_AVX512 void tlc_bf16_to_f32_avx512(const void *in, size_t n, float *out)
{
    const uint8_t *from = in;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        widen_bf16(from + 2 * i, ALL_LANES, out + i);
    if (i < n)
        widen_bf16(from + 2 * i, tlc_avx512_lanes(n - i), out + i);
}

TLC_AVX512 void tlc_f32_to_bf16_avx512(const float *in, size_t n, void *out)
{
    uint8_t *to = out;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        narrow_bf16(in + i, ALL_LANES, to + 2 * i);
    if (i < n)
        narrow_bf16(in + i, tlc_avx512_lanes(n - i), to + 2 * i);
}
#endif
