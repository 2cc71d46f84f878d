/* SPDX-License-Identifier: MIT
 *
 * The fused sweeps: symbols live in registers only.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

/* Before a loop over streams, which have to stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Five or ten streams that move together are more than the hardware prefetchers keep ahead of, so software does: half
 * a KiB, once for each 64 bytes. An address past the end is harmless; as an integer it is also legal C. */
INLINE void prefetch(const float *p)
{
    _mm_prefetch((const char *)((uintptr_t)p + 512), _MM_HINT_T0);
}

/* Which of the two addends of x there are. */
typedef struct form { int g, r; } form;

typedef struct scale { __m256 M, t; } scale; /* t = M/2 */

/* Takes x, leaves x - M q in *x and returns integers of the sign of q. Those are the bits of M q, or of x where that is
 * cheaper; M = 0 with a residual does not come here. */
INLINE __m256i quantize(form has, __m256 *x, scale s)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 sent = _mm256_cmp_ps(_mm256_andnot_ps(sign, *x), s.t, _CMP_GT_OQ);

    if (!has.r)
        return _mm256_castps_si256(_mm256_and_ps(sent, *x));
    __m256 decoded = _mm256_and_ps(sent, _mm256_or_ps(s.M, _mm256_and_ps(sign, *x)));
    *x = _mm256_sub_ps(*x, decoded);
    return _mm256_castps_si256(decoded);
}

INLINE __m256 wanted8(form has, const float *g, const float *r, size_t i)
{
    __m256 x = _mm256_loadu_ps(has.g ? g + i : r + i);
    return has.g && has.r ? _mm256_add_ps(x, _mm256_loadu_ps(r + i)) : x;
}

INLINE __m256i quantize8(form has, __m256 x, float *r, size_t i, scale s)
{
    __m256i q = quantize(has, &x, s);
    if (has.r)
        _mm256_storeu_ps(r + i, x);
    return q;
}

/* 32 symbols of stream k as bytes, in the order that packing leaves: 4 of each vector, then the other 4 of each. */
INLINE __m256i quantize32(form has, const float *const *g, float *const *r, int k, size_t i, scale s)
{
    const float *gk = has.g ? g[k] : NULL;
    float *rk = has.r ? r[k] : NULL;

    if (has.g) {
        prefetch(gk + i);
        prefetch(gk + i + 16);
    }
    if (has.r) {
        prefetch(rk + i);
        prefetch(rk + i + 16);
    }
    __m256i q0 = quantize8(has, wanted8(has, gk, rk, i), rk, i, s);
    __m256i q1 = quantize8(has, wanted8(has, gk, rk, i + 8), rk, i + 8, s);
    __m256i q2 = quantize8(has, wanted8(has, gk, rk, i + 16), rk, i + 16, s);
    __m256i q3 = quantize8(has, wanted8(has, gk, rk, i + 24), rk, i + 24, s);
    __m256i q = _mm256_packs_epi16(_mm256_packs_epi32(q0, q1), _mm256_packs_epi32(q2, q3));
    return _mm256_sign_epi8(_mm256_set1_epi8(1), q);
}

/* 3a + q */
INLINE __m256i horner(__m256i a, __m256i q)
{
    return _mm256_add_epi8(_mm256_add_epi8(a, a), _mm256_add_epi8(a, q));
}

/* x of eight positions in the five streams. */
typedef struct wanted { __m256 x[5]; } wanted;

INLINE wanted load8_each(form has, const float *const *g, float *const *r, size_t i)
{
    wanted w;

    UNROLL
    for (int k = 0; k < 5; k++)
        w.x[k] = wanted8(has, has.g ? g[k] : NULL, has.r ? r[k] : NULL, i);
    return w;
}

/* Their eight output bytes, and the residual. */
INLINE void encode8(form has, wanted w, float *const *r, size_t i, scale s, uint8_t *out)
{
    const __m256i low_bytes = _mm256_set1_epi32(0x0c080400);
    __m256i a = _mm256_setzero_si256();

    UNROLL
    for (int k = 0; k < 5; k++) {
        __m256i q = quantize8(has, w.x[k], has.r ? r[k] : NULL, i, s);
        a = horner(a, _mm256_sign_epi32(_mm256_set1_epi32(1), q));
    }
    a = _mm256_shuffle_epi8(_mm256_add_epi8(a, _mm256_set1_epi8(TLC_QUARTIC_ZERO)), low_bytes);
    __m128i bytes = _mm_unpacklo_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64((__m128i *)(void *)(out + i), bytes);
}

/* Fewer than eight in all, through copies. */
INLINE void encode_few(form has, const float *const *g, float *const *r, size_t count, scale s, uint8_t *out)
{
    float g_copy[5][8] = {{0}}, r_copy[5][8] = {{0}}, *r_few[5];
    const float *g_few[5];
    uint8_t bytes[8];

    for (int k = 0; k < 5; k++) {
        g_few[k] = g_copy[k];
        r_few[k] = r_copy[k];
        if (has.g)
            tlc_copy_few(g_copy[k], g[k], count * sizeof(float));
        if (has.r)
            tlc_copy_few(r_copy[k], r[k], count * sizeof(float));
    }
    encode8(has, load8_each(has, g_few, r_few, 0), r_few, 0, s, bytes);
    for (int k = 0; has.r && k < 5; k++)
        tlc_copy_few(r[k], r_copy[k], count * sizeof(float));
    for (size_t part = 4, at = 0; part; part /= 2) /* 4, 2 and 1 of them, as count is made of these */
        if (count & part) {
            memcpy(out + at, bytes + at, part);
            at += part;
        }
}

/* Inlined once for each of the three forms of x. */
INLINE void encode(form has, const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const scale s = {_mm256_set1_ps(M), _mm256_set1_ps(0.5f * M)};
    size_t i = 0;

    if (len < 8) {
        if (len)
            encode_few(has, g, r, len, s, out);
        return;
    }
    for (; i + 40 <= len; i += 32) { /* at least eight are left */
        __m256i a = quantize32(has, g, r, 0, i, s);
        a = horner(a, quantize32(has, g, r, 1, i, s));
        a = horner(a, quantize32(has, g, r, 2, i, s));
        a = horner(a, quantize32(has, g, r, 3, i, s));
        a = horner(a, quantize32(has, g, r, 4, i, s));
        a = _mm256_add_epi8(a, _mm256_set1_epi8(TLC_QUARTIC_ZERO));
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm256_permutevar8x32_epi32(a, order));
    }
    for (; i + 16 <= len; i += 8)
        encode8(has, load8_each(has, g, r, i), r, i, s, out);
    /* The last 8 to 15 as two eights that overlap: both are loaded before the first is stored. */
    wanted first = load8_each(has, g, r, i), last = load8_each(has, g, r, len - 8);
    encode8(has, first, r, i, s, out);
    encode8(has, last, r, len - 8, s, out);
}

AVX2 void tlc_ternary_quartic_encode_avx2(const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    if (r && M == 0) { /* nothing is subtracted: r becomes x, and that is all */
        for (int k = 0; g && k < 5; k++)
            (void)tlc_accumulate_avx2(r[k], g[k], len);
        g = (const float *const *)r;
        r = NULL;
    }
    if (!r)
        encode((form){1, 0}, g, NULL, len, M, out);
    else if (!g)
        encode((form){0, 1}, NULL, r, len, M, out);
    else
        encode((form){1, 1}, g, r, len, M, out);
}

/* 16 bytes b <= 242 to their five digits, two bits each, p0 on top: byte j in the low half of dword j, byte j + 8 in
 * the high half. sum d_k 4^k = b + b/3 + 4 (b/9) + 16 (b/27) + 64 (b/81); division is a product with ceil(65536/d)
 * (exact up to 242), of which the high half is kept. */
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

INLINE __m128i load8(const uint8_t *p)
{
    return _mm_loadl_epi64((const __m128i *)(const void *)p);
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

INLINE void decode_stream(__m256i digits, __m256 values, float *out)
{
    _mm256_storeu_ps(out, _mm256_permutevar_ps(values, digits));
}

/* Eight values of each stream from the low halves of digits. */
INLINE void decode8(__m256i digits, __m256 values, float *const out[5], size_t i)
{
    decode_stream(digits, values, out[4] + i);
    decode_stream(_mm256_srli_epi32(digits, 2), values, out[3] + i);
    decode_stream(_mm256_srli_epi32(digits, 4), values, out[2] + i);
    decode_stream(_mm256_srli_epi32(digits, 6), values, out[1] + i);
    decode_stream(_mm256_srli_epi32(digits, 8), values, out[0] + i);
}

INLINE void prefetch_streams(float *const p[5], size_t i)
{
    prefetch(p[0] + i);
    prefetch(p[1] + i);
    prefetch(p[2] + i);
    prefetch(p[3] + i);
    prefetch(p[4] + i);
}

INLINE void decode16(__m128i bytes, __m256 values, float *const out[5], size_t i)
{
    __m256i digits = packed_digits(bytes);

    prefetch_streams(out, i);
    decode8(digits, values, out, i);
    decode8(_mm256_srli_epi32(digits, 16), values, out, i + 8);
}

AVX2 void tlc_quartic_ternary_decode_avx2(const uint8_t *in, size_t len, float M, float *const out[5])
{
    const __m256 values = decoded_values(M);

    if (len < 8) {
        tlc_quartic_ternary_decode_scalar(in, len, M, out);
        return;
    }
    if (len < 16) {
        decode8(packed_digits(load8(in)), values, out, 0);
        decode8(packed_digits(load8(in + len - 8)), values, out, len - 8);
        return;
    }
    for (size_t i = 0; i + 16 < len; i += 16)
        decode16(load16(in + i), values, out, i);
    decode16(load16(in + len - 16), values, out, len - 16); /* may overlap the last, and then writes the same again */
}

INLINE void add_stream(__m256i digits, __m256 values, float *sum)
{
    __m256 old = _mm256_loadu_ps(sum), added = _mm256_add_ps(old, _mm256_permutevar_ps(values, digits));
    /* Of the digits only 1, the zero, is odd: the lowest bit, moved to the sign, picks the lanes that stay. */
    __m256 same = _mm256_castsi256_ps(_mm256_slli_epi32(digits, 31));

    TLC_OPAQUE(added);
    _mm256_storeu_ps(sum, _mm256_blendv_ps(added, old, same));
}

INLINE void add8(__m256i digits, __m256 values, float *const sum[5], size_t i)
{
    add_stream(digits, values, sum[4] + i);
    add_stream(_mm256_srli_epi32(digits, 2), values, sum[3] + i);
    add_stream(_mm256_srli_epi32(digits, 4), values, sum[2] + i);
    add_stream(_mm256_srli_epi32(digits, 6), values, sum[1] + i);
    add_stream(_mm256_srli_epi32(digits, 8), values, sum[0] + i);
}

/* By the two bits of a digit: -w, -0, w, none. Adding -0 changes nothing but signalling NaNs. */
INLINE __m256 added_values(float w)
{
    return _mm256_setr_ps(-w, -0.0f, w, -0.0f, -w, -0.0f, w, -0.0f);
}

/* Sixteen positions. Blending costs more than adding, and is only for NaNs: their bits too stay where the symbol is 0. */
INLINE void add16(__m128i bytes, __m256 values, float *const sum[5], size_t i)
{
    if (_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(TLC_QUARTIC_ZERO))) == 0xffff)
        return;
    __m256i digits = packed_digits(bytes);
    __m256 low[5], high[5], nan = _mm256_setzero_ps();
    prefetch_streams(sum, i);
    UNROLL
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
    UNROLL
    for (int k = 0; k < 5; k++) {
        __m256 first = _mm256_permutevar_ps(values, _mm256_srli_epi32(digits, 2 * (4 - k)));
        __m256 second = _mm256_permutevar_ps(values, _mm256_srli_epi32(digits, 2 * (4 - k) + 16));
        _mm256_storeu_ps(sum[k] + i, _mm256_add_ps(low[k], first));
        _mm256_storeu_ps(sum[k] + i + 8, _mm256_add_ps(high[k], second));
    }
}

AVX2 void tlc_quartic_ternary_add_avx2(const uint8_t *in, size_t len, float w, float *const sum[5])
{
    const __m256 values = added_values(w);
    uint8_t last[16];
    size_t i = 0;

    for (; i + 16 <= len; i += 16)
        add16(load16(in + i), values, sum, i);
    if (i == len)
        return;
    if (len < 16) {
        if (len >= 8) {
            add8(packed_digits(load8(in)), values, sum, 0);
            i = 8;
        }
        float *const tail[5] = {sum[0] + i, sum[1] + i, sum[2] + i, sum[3] + i, sum[4] + i};
        tlc_quartic_ternary_add_scalar(in + i, len - i, w, tail);
        return;
    }
    /* The last 16 once more, those that were added already as zeros. */
    memset(last, TLC_QUARTIC_ZERO, sizeof last);
    memcpy(last + 16 - (len - i), in + i, len - i);
    add16(load16(last), values, sum, len - 16);
}

/* Streaming stores pay if whole cache lines are filled at a time, and the five streams lie differently to the lines. So
 * each is decoded into a buffer that lies as the stream does, and whole lines go on from there. The lines at the ends,
 * which are shared with what is beside the stream, are stored as usual. */
#define LINE ((size_t)16) /* floats */
#define STEP ((size_t)64) /* positions at a time: few, so that decoding goes on while lines drain */

/* Stores what is decoded in buffer, count floats from skew on, to the stream's next ones; first: what is below skew is
 * not ours, else it is what was left over. Leaves the last line, if it is not whole, at the start of the buffer. */
INLINE void stream_lines(float *to, float *buffer, size_t skew, size_t count, int first)
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

AVX2 void tlc_quartic_ternary_stream_avx2(const uint8_t *in, size_t len, float M, float *const out[5], tlc_lines *lines,
                                          int last)
{
    _Alignas(64) float buffer[5][STEP + LINE];
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
        count = len - i < STEP ? len - i : STEP;
        tlc_quartic_ternary_decode_avx2(in + i, count, M, to);
        for (size_t k = 0; k < 5; k++)
            stream_lines(out[k] + i, buffer[k], skew[k], count, first && !i);
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
        _mm_sfence(); /* such stores keep no order by themselves: whoever is told that we are done must see them */
}
#endif
