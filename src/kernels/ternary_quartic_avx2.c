/* SPDX-License-Identifier: MIT
 *
 * The fused sweeps: symbols stay in registers.
 */
#include "avx2.h"
#include "ternary_quartic.h"

#if defined(__x86_64__)

/* 32 symbols of stream k as bytes, in the order that packing leaves: 4 of each vector, then the other 4 of each. */
TLC_AVX2_INLINE __m256i quantize32(tlc_addends has, const float *const *g, float *const *r, int k, size_t i,
                                   tlc_avx2_scale s)
{
    const float *gk = has & TLC_HAS_G ? g[k] : NULL;
    float *rk = has & TLC_HAS_R ? r[k] : NULL;

    if (has & TLC_HAS_G) {
        tlc_avx2_prefetch(gk + i, AHEAD_OF_FIVE);
        tlc_avx2_prefetch(gk + i + 16, AHEAD_OF_FIVE);
    }
    if (has & TLC_HAS_R) {
        tlc_avx2_prefetch(rk + i, AHEAD_OF_FIVE);
        tlc_avx2_prefetch(rk + i + 16, AHEAD_OF_FIVE);
    }
    __m256i q0 = tlc_avx2_quantize8(has, tlc_avx2_wanted(has, gk, rk, i), rk, i, s);
    __m256i q1 = tlc_avx2_quantize8(has, tlc_avx2_wanted(has, gk, rk, i + 8), rk, i + 8, s);
    __m256i q2 = tlc_avx2_quantize8(has, tlc_avx2_wanted(has, gk, rk, i + 16), rk, i + 16, s);
    __m256i q3 = tlc_avx2_quantize8(has, tlc_avx2_wanted(has, gk, rk, i + 24), rk, i + 24, s);
    return tlc_avx2_symbols(tlc_avx2_packed(q0, q1, q2, q3));
}

/* x of eight positions in the five streams. */
typedef struct wanted {
    __m256 x[5];
} wanted;

TLC_AVX2_INLINE wanted load8_each(tlc_addends has, const float *const *g, float *const *r, size_t i)
{
    wanted w;

    TLC_UNROLL
    for (int k = 0; k < 5; k++)
        w.x[k] = tlc_avx2_wanted(has, has & TLC_HAS_G ? g[k] : NULL, has & TLC_HAS_R ? r[k] : NULL, i);
    return w;
}

/* Writes their eight bytes, and the residual. */
TLC_AVX2_INLINE void encode8(tlc_addends has, wanted w, float *const *r, size_t i, tlc_avx2_scale s, uint8_t *out)
{
    const __m256i low_bytes = _mm256_set1_epi32(0x0c080400);
    __m256i a = _mm256_setzero_si256();

    TLC_UNROLL
    for (int k = 0; k < 5; k++) {
        __m256i q = tlc_avx2_quantize8(has, w.x[k], has & TLC_HAS_R ? r[k] : NULL, i, s);
        a = tlc_avx2_horner(a, _mm256_sign_epi32(_mm256_set1_epi32(1), q));
    }
    a = _mm256_shuffle_epi8(_mm256_add_epi8(a, _mm256_set1_epi8(TLC_QUARTIC_ZERO)), low_bytes);
    __m128i bytes = _mm_unpacklo_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    tlc_avx2_store8(out + i, bytes);
}

/* Fewer than eight positions, through copies. */
TLC_AVX2_INLINE void encode_few(tlc_addends has, const float *const *g, float *const *r, size_t count, tlc_avx2_scale s,
                                uint8_t *out)
{
    float g_copy[5][8] = {{0}}, r_copy[5][8] = {{0}}, *r_few[5];
    const float *g_few[5];
    uint8_t bytes[8];

    for (int k = 0; k < 5; k++) {
        g_few[k] = g_copy[k];
        r_few[k] = r_copy[k];
        if (has & TLC_HAS_G)
            tlc_copy_few(g_copy[k], g[k], count * sizeof(float));
        if (has & TLC_HAS_R)
            tlc_copy_few(r_copy[k], r[k], count * sizeof(float));
    }
    encode8(has, load8_each(has, g_few, r_few, 0), r_few, 0, s, bytes);
    for (int k = 0; (has & TLC_HAS_R) && k < 5; k++)
        tlc_copy_few(r[k], r_copy[k], count * sizeof(float));
    for (size_t part = 4, at = 0; part; part /= 2) /* count is a sum of 4, 2 and 1 */
        if (count & part) {
            memcpy(out + at, bytes + at, part);
            at += part;
        }
}

TLC_AVX2_INLINE void encode(tlc_addends has, const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    const tlc_avx2_scale s = tlc_avx2_scale_of(M);
    size_t i = 0;

    if (len < 8) {
        if (len)
            encode_few(has, g, r, len, s, out);
        return;
    }
    for (; i + 40 <= len; i += 32) { /* at least eight are left */
        __m256i a = quantize32(has, g, r, 0, i, s);
        a = tlc_avx2_horner(a, quantize32(has, g, r, 1, i, s));
        a = tlc_avx2_horner(a, quantize32(has, g, r, 2, i, s));
        a = tlc_avx2_horner(a, quantize32(has, g, r, 3, i, s));
        a = tlc_avx2_horner(a, quantize32(has, g, r, 4, i, s));
        a = _mm256_add_epi8(a, _mm256_set1_epi8(TLC_QUARTIC_ZERO));
        tlc_avx2_store(out + i, tlc_avx2_ordered(a));
    }
    for (; i + 16 <= len; i += 8)
        encode8(has, load8_each(has, g, r, i), r, i, s, out);
    /* The last 8 to 15 are two vectors that overlap: both are loaded before the first is stored. */
    wanted first = load8_each(has, g, r, i), last = load8_each(has, g, r, len - 8);
    encode8(has, first, r, i, s, out);
    encode8(has, last, r, len - 8, s, out);
}

TLC_AVX2 void tlc_ternary_quartic_encode_avx2(const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    if (r && M == 0) { /* nothing is subtracted: r becomes x */
        for (int k = 0; g && k < 5; k++)
            (void)tlc_accumulate_avx2(r[k], g[k], len);
        g = (const float *const *)r;
        r = NULL;
    }
    TLC_WITH_ADDENDS(encode, g, r, len, M, out);
}

/* The digits of 16 bytes as tlc_avx2_digits packs them: byte j in the low half of dword j, byte j + 8 in the high
 * half. */
TLC_AVX2_INLINE __m256i packed_digits(__m128i bytes)
{
    const __m256i spread = _mm256_setr_epi8(0, -1, 8, -1, 1, -1, 9, -1, 2, -1, 10, -1, 3, -1, 11, -1, 4, -1, 12, -1, 5,
                                            -1, 13, -1, 6, -1, 14, -1, 7, -1, 15, -1);
    return tlc_avx2_digits(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), spread));
}

/* Values by the two bits of a digit: -M, 0, M, none. */
TLC_AVX2_INLINE __m256 decoded_values(float M)
{
    return _mm256_setr_ps(-M, 0.0f, M, 0.0f, -M, 0.0f, M, 0.0f);
}

TLC_AVX2_INLINE void decode_stream(__m256i digits, __m256 values, float *out)
{
    _mm256_storeu_ps(out, _mm256_permutevar_ps(values, digits));
}

/* Eight values of each stream from the low halves of digits. */
TLC_AVX2_INLINE void decode8(__m256i digits, __m256 values, float *const out[5], size_t i)
{
    decode_stream(digits, values, out[4] + i);
    decode_stream(_mm256_srli_epi32(digits, 2), values, out[3] + i);
    decode_stream(_mm256_srli_epi32(digits, 4), values, out[2] + i);
    decode_stream(_mm256_srli_epi32(digits, 6), values, out[1] + i);
    decode_stream(_mm256_srli_epi32(digits, 8), values, out[0] + i);
}

TLC_AVX2_INLINE void prefetch_streams(float *const p[5], size_t i)
{
    tlc_avx2_prefetch(p[0] + i, AHEAD_OF_FIVE);
    tlc_avx2_prefetch(p[1] + i, AHEAD_OF_FIVE);
    tlc_avx2_prefetch(p[2] + i, AHEAD_OF_FIVE);
    tlc_avx2_prefetch(p[3] + i, AHEAD_OF_FIVE);
    tlc_avx2_prefetch(p[4] + i, AHEAD_OF_FIVE);
}

TLC_AVX2_INLINE void decode16(__m128i bytes, __m256 values, float *const out[5], size_t i)
{
    __m256i digits = packed_digits(bytes);

    prefetch_streams(out, i);
    decode8(digits, values, out, i);
    decode8(_mm256_srli_epi32(digits, 16), values, out, i + 8);
}

TLC_AVX2 void tlc_quartic_ternary_decode_avx2(const uint8_t *in, size_t len, float M, float *const out[5])
{
    const __m256 values = decoded_values(M);

    if (len < 8) {
        tlc_quartic_ternary_decode_scalar(in, len, M, out);
        return;
    }
    if (len < 16) {
        decode8(packed_digits(tlc_avx2_load8(in)), values, out, 0);
        decode8(packed_digits(tlc_avx2_load8(in + len - 8)), values, out, len - 8);
        return;
    }
    for (size_t i = 0; i + 16 < len; i += 16)
        decode16(tlc_avx2_load16(in + i), values, out, i);
    decode16(tlc_avx2_load16(in + len - 16), values, out,
             len - 16); /* may overlap the one before, and then writes the same again */
}

TLC_AVX2_INLINE void add_stream(__m256i digits, __m256 values, float *sum)
{
    __m256 old = _mm256_loadu_ps(sum), added = _mm256_add_ps(old, _mm256_permutevar_ps(values, digits));
    /* Only the digit 1, which is the symbol 0, is odd: the lowest bit, moved to the sign, selects the lanes that
     * stay. */
    __m256 same = _mm256_castsi256_ps(_mm256_slli_epi32(digits, 31));

    TLC_OPAQUE(added);
    _mm256_storeu_ps(sum, _mm256_blendv_ps(added, old, same));
}

TLC_AVX2_INLINE void add8(__m256i digits, __m256 values, float *const sum[5], size_t i)
{
    add_stream(digits, values, sum[4] + i);
    add_stream(_mm256_srli_epi32(digits, 2), values, sum[3] + i);
    add_stream(_mm256_srli_epi32(digits, 4), values, sum[2] + i);
    add_stream(_mm256_srli_epi32(digits, 6), values, sum[1] + i);
    add_stream(_mm256_srli_epi32(digits, 8), values, sum[0] + i);
}

/* Values by the two bits of a digit: -w, -0, w, none. Adding -0 changes nothing but signalling NaNs. */
TLC_AVX2_INLINE __m256 added_values(float w)
{
    return _mm256_setr_ps(-w, -0.0f, w, -0.0f, -w, -0.0f, w, -0.0f);
}

/* Adds 16 positions. Blending costs more than adding and is needed for NaNs only: their bits stay as they are where
 * the symbol is 0. */
TLC_AVX2_INLINE void add16(__m128i bytes, __m256 values, float *const sum[5], size_t i)
{
    if (_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(TLC_QUARTIC_ZERO))) == 0xffff)
        return;
    __m256i digits = packed_digits(bytes);
    __m256 low[5], high[5], nan = _mm256_setzero_ps();
    prefetch_streams(sum, i);
    TLC_UNROLL
    for (int k = 0; k < 5; k++) {
        low[k] = _mm256_loadu_ps(sum[k] + i);
        high[k] = _mm256_loadu_ps(sum[k] + i + 8);
        nan = _mm256_or_ps(nan, _mm256_cmp_ps(low[k], high[k], _CMP_UNORD_Q));
    }
    if (_mm256_movemask_ps(nan)) {
        add8(digits, values, sum, i);
        add8(_mm256_srli_epi32(digits, 16), values, sum, i + 8);
        return;
    }
    TLC_UNROLL
    for (int k = 0; k < 5; k++) {
        __m256 first = _mm256_permutevar_ps(values, _mm256_srli_epi32(digits, 2 * (4 - k)));
        __m256 second = _mm256_permutevar_ps(values, _mm256_srli_epi32(digits, 2 * (4 - k) + 16));
        _mm256_storeu_ps(sum[k] + i, _mm256_add_ps(low[k], first));
        _mm256_storeu_ps(sum[k] + i + 8, _mm256_add_ps(high[k], second));
    }
}

TLC_AVX2 void tlc_quartic_ternary_add_avx2(const uint8_t *in, size_t len, float w, float *const sum[5])
{
    const __m256 values = added_values(w);
    uint8_t last[16];
    size_t i = 0;

    for (; i + 16 <= len; i += 16)
        add16(tlc_avx2_load16(in + i), values, sum, i);
    if (i == len)
        return;
    if (len < 16) {
        if (len >= 8) {
            add8(packed_digits(tlc_avx2_load8(in)), values, sum, 0);
            i = 8;
        }
        float *const tail[5] = {sum[0] + i, sum[1] + i, sum[2] + i, sum[3] + i, sum[4] + i};
        tlc_quartic_ternary_add_scalar(in + i, len - i, w, tail);
        return;
    }
    /* The last 16 once more, with zeros for those that are added already. */
    memset(last, TLC_QUARTIC_ZERO, sizeof last);
    memcpy(last + 16 - (len - i), in + i, len - i);
    add16(tlc_avx2_load16(last), values, sum, len - 16);
}

/* Uncached stores pay if whole cache lines are filled, and the five streams are at different places in their lines.
 * So each stream is decoded into a buffer that has the same place in a line, and whole lines are stored from there.
 * The lines at both ends are shared with other data and are stored as usual. */
#define LINE ((size_t)16) /* floats */
#define SPAN ((size_t)64) /* positions at a time: few, so that decoding goes on while lines are written */

/* Stores `count` decoded floats of buffer, from skew on, to the next ones of the stream. If first, what is below
 * skew is not part of the stream; else it was left over by the call before. Moves a last line that is not full to
 * the start of the buffer. */
TLC_AVX2_INLINE void store_lines(float *to, float *buffer, size_t skew, size_t count, int first)
{
    size_t at = 0, end = skew + count;

    if (first && skew) {
        size_t stop = end < LINE ? end : LINE;
        memcpy(to, buffer + skew, (stop - skew) * sizeof *to);
        at = LINE;
    }
    for (; at + LINE <= end; at += LINE) {
        float *line = to + (ptrdiff_t)(at - skew);
        _mm256_stream_ps(line, _mm256_load_ps(buffer + at));
        _mm256_stream_ps(line + 8, _mm256_load_ps(buffer + at + 8));
    }
    if (at < end)
        memcpy(buffer, buffer + at, LINE * sizeof *buffer);
}

TLC_AVX2 void tlc_quartic_ternary_decode_uncached_avx2(const uint8_t *in, size_t len, float M, float *const out[5],
                                                       tlc_lines *lines, int last)
{
    _Alignas(64) float buffer[5][SPAN + LINE];
    int first = !lines->open;
    size_t skew[5];
    float *to[5];

    for (size_t k = 0; k < 5; k++) {
        skew[k] = (uintptr_t)out[k] / sizeof(float) % LINE;
        to[k] = buffer[k] + skew[k];
        if (!first)
            memcpy(buffer[k], lines->left[k], sizeof lines->left[k]);
    }
    for (size_t i = 0, count; i < len; i += count) {
        count = len - i < SPAN ? len - i : SPAN;
        tlc_quartic_ternary_decode_avx2(in + i, count, M, to);
        for (size_t k = 0; k < 5; k++)
            store_lines(out[k] + i, buffer[k], skew[k], count, first && !i);
    }
    for (size_t k = 0; k < 5; k++) {
        size_t rest = (skew[k] + len) % LINE, ours = first && len < rest ? len : rest;
        if (last)
            memcpy(out[k] + (ptrdiff_t)(len - ours), buffer[k] + (rest - ours), ours * sizeof(float));
        else
            memcpy(lines->left[k], buffer[k], sizeof lines->left[k]);
    }
    lines->open = !last;
    if (last)
        _mm_sfence(); /* uncached stores keep no order by themselves, and other threads must see them */
}

TLC_AVX2 void tlc_quartic_ternary_add_many_avx2(const uint8_t *const *in, const float *w, size_t frames, size_t len,
                                                float *const sum[5])
{
    tlc_add_singly(tlc_quartic_ternary_add_avx2, in, w, frames, 0, len, sum);
}
#endif
