/* SPDX-License-Identifier: MIT
 *
 * The fused sweeps: symbols live in registers only.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

#ifndef AHEAD
#define AHEAD 512
#endif
INLINE void prefetch(const float *p)
{
    _mm_prefetch((const char *)p + AHEAD, _MM_HINT_T0);
}

/* Which of the two addends of x there are. */
typedef struct form { int g, r; } form;

/* As in ternary_avx2.c: eight values x where the symbol is not 0 and zero bits elsewhere; x - M q goes to r. */
INLINE __m256i quantize8(form has, const float *g, float *r, __m256 M, __m256 t)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 x = _mm256_loadu_ps(has.g ? g : r);

    if (has.g && has.r)
        x = _mm256_add_ps(x, _mm256_loadu_ps(r));
    __m256 sent = _mm256_cmp_ps(_mm256_andnot_ps(sign, x), t, _CMP_GT_OQ);
    if (has.r) {
        __m256 decoded = _mm256_and_ps(sent, _mm256_or_ps(M, _mm256_and_ps(sign, x)));
        _mm256_storeu_ps(r, _mm256_sub_ps(x, decoded));
    }
    return _mm256_castps_si256(_mm256_and_ps(sent, x));
}

/* 32 symbols as bytes, in the order that packing leaves: 4 of each vector, then the other 4 of each. */
INLINE __m256i quantize32(form has, const float *g, float *r, __m256 M, __m256 t)
{
    __m256i v[4];

#ifndef NOPFE
    if (has.g) {
        prefetch(g);
        prefetch(g + 16);
    }
    if (has.r) {
        prefetch(r);
        prefetch(r + 16);
    }
#endif
    for (int j = 0; j < 4; j++)
        v[j] = quantize8(has, has.g ? g + 8 * j : NULL, has.r ? r + 8 * j : NULL, M, t);
    v[0] = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    return _mm256_sign_epi8(_mm256_set1_epi8(1), v[0]);
}

/* Inlined once for each of the three forms of x. */
INLINE void encode(form has, const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256 step = _mm256_set1_ps(M), t = _mm256_set1_ps(0.5f * M);
    size_t i = 0;

    for (; i + 32 <= len; i += 32) {
        __m256i a = _mm256_setzero_si256();
        for (int k = 0; k < 5; k++) {
            __m256i q = quantize32(has, has.g ? g[k] + i : NULL, has.r ? r[k] + i : NULL, step, t);
            a = _mm256_add_epi8(_mm256_add_epi8(a, a), _mm256_add_epi8(a, q));
        }
        a = _mm256_add_epi8(a, _mm256_set1_epi8(TLC_QUARTIC_ZERO));
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_permutevar8x32_epi32(a, order));
    }
    if (i == len)
        return;
    const float *g_tail[5];
    float *r_tail[5];
    for (int k = 0; k < 5; k++) {
        g_tail[k] = has.g ? g[k] + i : NULL;
        r_tail[k] = has.r ? r[k] + i : NULL;
    }
    tlc_ternary_quartic_encode_scalar(has.g ? g_tail : NULL, has.r ? r_tail : NULL, len - i, M, out + i);
}

AVX2 void tlc_ternary_quartic_encode_avx2(const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    if (!r)
        encode((form){1, 0}, g, NULL, len, M, out);
    else if (!g)
        encode((form){0, 1}, NULL, r, len, M, out);
    else
        encode((form){1, 1}, g, r, len, M, out);
}

/* 16 bytes b <= 242 to their five digits, two bits each, p0 on top: byte j in the low half of dword j, byte j + 8 in the
 * high half. sum d_k 4^k = b + b/3 + 4 (b/9) + 16 (b/27) + 64 (b/81); division is a product with ceil(65536/d) (exact
 * up to 242), of which the high half is kept. */
INLINE __m256i packed_digits(__m128i bytes)
{
    const __m256i spread = _mm256_setr_epi8(0, -1, 8, -1, 1, -1, 9, -1, 2, -1, 10, -1, 3, -1, 11, -1, 4, -1, 12, -1, 5,
                                            -1, 13, -1, 6, -1, 14, -1, 7, -1, 15, -1);
    __m256i b = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), spread);
    __m256i d = _mm256_mulhi_epu16(b, _mm256_set1_epi16(810));

    d = _mm256_add_epi16(_mm256_slli_epi16(d, 2), _mm256_mulhi_epu16(b, _mm256_set1_epi16(2428)));
    d = _mm256_add_epi16(_mm256_slli_epi16(d, 2), _mm256_mulhi_epu16(b, _mm256_set1_epi16(7282)));
    d = _mm256_slli_epi16(d, 2);
    return _mm256_add_epi16(d, _mm256_add_epi16(b, _mm256_mulhi_epu16(b, _mm256_set1_epi16(21846))));
}

INLINE __m128i load16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* By the two bits of a digit: -M, 0, M, none. */
INLINE __m256 decoded_values(float M)
{
    return _mm256_setr_ps(-M, 0.0f, M, 0.0f, -M, 0.0f, M, 0.0f);
}

/* Eight values of each stream from the low halves of digits. */
INLINE void decode8(__m256i digits, __m256 values, float *const out[5], size_t i)
{
    for (int k = 4; k >= 0; k--) {
        _mm256_storeu_ps(out[k] + i, _mm256_permutevar_ps(values, digits));
        digits = _mm256_srli_epi32(digits, 2);
    }
}

AVX2 void tlc_quartic_ternary_decode_avx2(const uint8_t *in, size_t len, float M, float *const out[5])
{
    const __m256 values = decoded_values(M);
    size_t i = 0;

    for (; i + 16 <= len; i += 16) {
        __m256i digits = packed_digits(load16(in + i));
        for (int k = 0; k < 5; k++)
            prefetch(out[k] + i);
        decode8(digits, values, out, i);
        decode8(_mm256_srli_epi32(digits, 16), values, out, i + 8);
    }
    if (i == len)
        return;
    float *const tail[5] = {out[0] + i, out[1] + i, out[2] + i, out[3] + i, out[4] + i};
    tlc_quartic_ternary_decode_scalar(in + i, len - i, M, tail);
}

INLINE void add8(__m256i digits, __m256 values, float *const sum[5], size_t i)
{
    for (int k = 4; k >= 0; k--) {
        __m256 old = _mm256_loadu_ps(sum[k] + i), added = _mm256_add_ps(old, _mm256_permutevar_ps(values, digits));
        /* Of the digits only 1, the zero, is odd: the lowest bit, moved to the sign, picks the lanes that stay. */
        __m256 same = _mm256_castsi256_ps(_mm256_slli_epi32(digits, 31));
        _mm256_storeu_ps(sum[k] + i, _mm256_blendv_ps(added, old, same));
        digits = _mm256_srli_epi32(digits, 2);
    }
}

AVX2 void tlc_quartic_ternary_add_avx2(const uint8_t *in, size_t len, float w, float *const sum[5])
{
    const __m256 values = decoded_values(w);
    size_t i = 0;

    for (; i + 16 <= len; i += 16) {
        __m128i bytes = load16(in + i);
        if (_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(TLC_QUARTIC_ZERO))) == 0xffff)
            continue;
        __m256i digits = packed_digits(bytes);
        for (int k = 0; k < 5; k++)
            prefetch(sum[k] + i);
        add8(digits, values, sum, i);
        add8(_mm256_srli_epi32(digits, 16), values, sum, i + 8);
    }
    if (i == len)
        return;
    float *const tail[5] = {sum[0] + i, sum[1] + i, sum[2] + i, sum[3] + i, sum[4] + i};
    tlc_quartic_ternary_add_scalar(in + i, len - i, w, tail);
}
#endif
