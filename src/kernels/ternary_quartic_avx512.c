/* SPDX-License-Identifier: MIT
 *
 * The fused sweeps. 16 bytes are spread over 16 lanes of 32 bits, so that a compare mask of floats is also the mask of
 * their digits, and a look-up of a digit gives a float. Four vectors of a stream go together. So the cache lines of
 * each stream are used up at once, even if the distance of the streams makes them compete for one cache set.
 */
#include "avx512.h"
#include "ternary_quartic.h"

#if defined(__x86_64__)

enum { VECTORS = GROUP / LANES };
/* The values x. Asks for the line of r ahead. */
TLC_AVX512_INLINE __m512 wanted16(tlc_addends has, const float *g, const float *r, __mmask16 mask)
{
    if (has & TLC_HAS_R)
        tlc_avx512_prefetch(r);
    return tlc_avx512_wanted(has, g, r, 0, mask);
}

/* Adds the symbols of x times weight to byte, and stores the residual in r. */
TLC_AVX512_INLINE __m512i digits16(tlc_addends has, __m512 x, float *r, __mmask16 mask, const tlc_avx512_scale *scale,
                                   __m512i byte, int weight)
{
    tlc_avx512_signs q = tlc_avx512_quantize(x, scale);

    if (has & TLC_HAS_R)
        tlc_avx512_store_rest(r, mask, x, q, scale);
    byte = _mm512_mask_add_epi32(byte, q.up, byte, _mm512_set1_epi32(weight));
    return _mm512_mask_sub_epi32(byte, q.down, byte, _mm512_set1_epi32(weight));
}

static const int weight[5] = {81, 27, 9, 3, 1};

/* Encodes VECTORS vectors of each stream, from i on. */
TLC_AVX512_INLINE void encode_group(tlc_addends has, const float *const *g, float *const *r, size_t i,
                                    const tlc_avx512_scale *scale, uint8_t *out)
{
    __m512i byte[VECTORS];

    TLC_UNROLL
    for (int v = 0; v < VECTORS; v++)
        byte[v] = _mm512_set1_epi32(TLC_QUARTIC_ZERO);
    TLC_UNROLL
    for (int k = 0; k < 5; k++) {
        const float *gk = has & TLC_HAS_G ? g[k] + i : NULL;
        float *rk = has & TLC_HAS_R ? r[k] + i : NULL;

        TLC_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            byte[v] = digits16(has, wanted16(has, gk, rk, ALL_LANES), rk, ALL_LANES, scale, byte[v], weight[k]);
            gk = has & TLC_HAS_G ? gk + LANES : NULL;
            rk = has & TLC_HAS_R ? rk + LANES : NULL;
        }
    }
    TLC_UNROLL
    for (int v = 0; v < VECTORS; v++)
        _mm_storeu_si128((__m128i *)(void *)(out + i + LANES * v), _mm512_cvtepi32_epi8(byte[v]));
}

/* Encodes one vector or less. All streams are loaded before the first is stored: they may be neighbours, and a load
 * waits for every masked store that it could overlap, whatever the mask. */
TLC_AVX512_INLINE void encode_rest(tlc_addends has, const float *const *g, float *const *r, size_t i, __mmask16 mask,
                                   const tlc_avx512_scale *scale, uint8_t *out)
{
    __m512i byte = _mm512_set1_epi32(TLC_QUARTIC_ZERO);
    __m512 x[5];

    TLC_UNROLL
    for (int k = 0; k < 5; k++)
        x[k] = wanted16(has, has & TLC_HAS_G ? g[k] + i : NULL, has & TLC_HAS_R ? r[k] + i : NULL, mask);
    TLC_UNROLL
    for (int k = 0; k < 5; k++)
        byte = digits16(has, x[k], has & TLC_HAS_R ? r[k] + i : NULL, mask, scale, byte, weight[k]);
    _mm_mask_storeu_epi8(out + i, mask, _mm512_cvtepi32_epi8(byte));
}

TLC_AVX512_INLINE void encode(tlc_addends has, const float *const *g, float *const *r, size_t len, float M,
                              uint8_t *out)
{
    const tlc_avx512_scale scale = tlc_avx512_scale_of(M);
    size_t i = 0;

    for (; len - i >= GROUP; i += GROUP)
        encode_group(has, g, r, i, &scale, out);
    for (; i < len; i += LANES)
        encode_rest(has, g, r, i, tlc_avx512_lanes(len - i), &scale, out);
}

TLC_AVX512 void tlc_ternary_quartic_encode_avx512(const float *const *g, float *const *r, size_t len, float M,
                                                  uint8_t *out)
{
    TLC_WITH_ADDENDS(encode, g, r, len, M, out);
}

/* A value for each of the 27 numbers of three digits, by its first, second and third digit. */
typedef struct values {
    __m512 low[3], high[3]; /* of the numbers 0..15, and of 16..26 */
} values;

TLC_AVX512_INLINE __m512 pick(uint32_t zeros, uint32_t twos, float value, __m512 none)
{
    __m512 negative = _mm512_mask_mov_ps(none, (__mmask16)zeros, _mm512_set1_ps(-value));
    return _mm512_mask_mov_ps(negative, (__mmask16)twos, _mm512_set1_ps(value));
}

/* The masks have a bit for each number: those with the digit 0, and those with the digit 2. An octal figure is three
 * numbers. */
TLC_AVX512_INLINE values values_of(float value, __m512 none)
{
    static const uint32_t zeros[3] = {0000000777, 0007007007, 0111111111},
                          twos[3] = {0777000000, 0700700700, 0444444444};
    values v;

    TLC_UNROLL
    for (int k = 0; k < 3; k++) {
        v.low[k] = pick(zeros[k], twos[k], value, none);
        v.high[k] = pick(zeros[k] >> 16, twos[k] >> 16, value, none);
    }
    return v;
}

/* A byte is a number of three digits, byte / 9, and one of two, byte % 9. */
typedef struct numbers {
    __m512i three, two;
} numbers;

TLC_AVX512_INLINE numbers split(__m128i bytes)
{
    __m512i byte = _mm512_cvtepu8_epi32(bytes);
    __m512i three = _mm512_srli_epi32(_mm512_mullo_epi16(byte, _mm512_set1_epi32(57)), 9); /* exact up to 242 */
    numbers n = {three, _mm512_sub_epi32(byte, _mm512_mullo_epi16(three, _mm512_set1_epi32(9)))};

    return n;
}

/* The values of sixteen bytes in the k-th stream. */
TLC_AVX512_INLINE __m512 look_up(const values *v, numbers n, int k)
{
    if (k < 3)
        return _mm512_permutex2var_ps(v->low[k], n.three, v->high[k]);
    return _mm512_permutexvar_ps(n.two, v->low[k - 2]); /* below 9 the first of three digits is 0 */
}

/* The lanes that change. A symbol 0 looks up all bits set, which is no weight. The other lanes are not stored: x + 0
 * would change -0 and signalling NaNs, and clang would turn a choice between x and x + value into such a sum. */
TLC_AVX512_INLINE __mmask16 changed(__m512 value)
{
    return _mm512_cmpneq_epi32_mask(_mm512_castps_si512(value), _mm512_set1_epi32(-1));
}

/* Decodes VECTORS vectors of bytes, from i on. The values are stored in the streams or added to them. */
TLC_AVX512_INLINE void decode_group(const uint8_t *in, size_t i, const values *v, float *const out[5], int add)
{
    numbers n[VECTORS];

    TLC_UNROLL
    for (int j = 0; j < VECTORS; j++)
        n[j] = split(tlc_avx512_load16(in + i + LANES * j));
    TLC_UNROLL
    for (int k = 0; k < 5; k++) {
        float *to = out[k] + i;

        TLC_UNROLL
        for (int j = 0; j < VECTORS; j++, to += LANES) {
            __m512 value = look_up(v, n[j], k);
            tlc_avx512_prefetch(to);
            if (add)
                _mm512_mask_storeu_ps(to, changed(value), _mm512_add_ps(_mm512_loadu_ps(to), value));
            else
                _mm512_storeu_ps(to, value);
        }
    }
}

/* Decodes one vector of bytes or less. Loads before it stores, as encode_rest does. */
TLC_AVX512_INLINE void decode_rest(const uint8_t *in, size_t i, __mmask16 mask, const values *v, float *const out[5],
                                   int add)
{
    numbers n = split(_mm_maskz_loadu_epi8(mask, in + i));
    __mmask16 stored[5] = {mask, mask, mask, mask, mask};
    __m512 x[5];

    TLC_UNROLL
    for (int k = 0; k < 5; k++) {
        x[k] = look_up(v, n, k);
        if (add) {
            stored[k] = mask & changed(x[k]);
            x[k] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out[k] + i), x[k]);
        }
    }
    TLC_UNROLL
    for (int k = 0; k < 5; k++)
        _mm512_mask_storeu_ps(out[k] + i, stored[k], x[k]);
}

TLC_AVX512 void tlc_quartic_ternary_decode_avx512(const uint8_t *in, size_t len, float M, float *const out[5])
{
    values v = values_of(M, _mm512_setzero_ps());
    size_t i = 0;

    for (; len - i >= GROUP; i += GROUP)
        decode_group(in, i, &v, out, 0);
    for (; i < len; i += LANES)
        decode_rest(in, i, tlc_avx512_lanes(len - i), &v, out, 0);
}

TLC_AVX512 void tlc_quartic_ternary_add_avx512(const uint8_t *in, size_t len, float w, float *const sum[5])
{
    values v = values_of(w, _mm512_castsi512_ps(_mm512_set1_epi32(-1)));
    size_t i = 0;

    for (; len - i >= GROUP; i += GROUP)
        if (_mm512_cmpneq_epi8_mask(_mm512_loadu_si512(in + i), _mm512_set1_epi8(TLC_QUARTIC_ZERO)))
            decode_group(in, i, &v, sum, 1);
    for (; i < len; i += LANES)
        decode_rest(in, i, tlc_avx512_lanes(len - i), &v, sum, 1);
}

/* ---- many frames ------------------------------------------------------------------------------------------------- */

/* Frames whose bytes are not all zeros. */
typedef struct active {
    const uint8_t *in[TLC_TOGETHER_MAX];
    const values *v[TLC_TOGETHER_MAX];
    size_t count;
} active;

/* Finds the frames that are active in a group. */
TLC_AVX512_INLINE void find_active(active *a, const uint8_t *const *in, const values *v, size_t frames, size_t i)
{
    const __m512i zero = _mm512_set1_epi8(TLC_QUARTIC_ZERO);

    a->count = 0;
    for (size_t f = 0; f < frames; f++) {
        a->in[a->count] = in[f];
        a->v[a->count] = &v[f];
        a->count += _mm512_cmpneq_epi8_mask(_mm512_loadu_si512(in[f] + i), zero) != 0;
    }
}

/* Adds the values of two vectors of bytes of each frame. The sums stay in registers meanwhile. A symbol 0 adds -0,
 * which changes nothing but signalling NaNs. Returns 0, with nothing done, if a sum is a NaN. */
TLC_AVX512_INLINE int add_vectors(const active *a, size_t i, float *const sum[5])
{
    __mmask16 nan = 0;
    __m512 x[5], y[5];

    TLC_UNROLL
    for (int k = 0; k < 5; k++) {
        x[k] = _mm512_loadu_ps(sum[k] + i);
        y[k] = _mm512_loadu_ps(sum[k] + i + LANES);
        tlc_avx512_prefetch(sum[k] + i);
        tlc_avx512_prefetch(sum[k] + i + LANES);
        nan |= _mm512_cmp_ps_mask(x[k], y[k], _CMP_UNORD_Q);
    }
    if (__builtin_expect(nan != 0, 0))
        return 0;
    for (size_t f = 0; f < a->count; f++) {
        numbers n = split(tlc_avx512_load16(a->in[f] + i)), m = split(tlc_avx512_load16(a->in[f] + i + LANES));
        TLC_UNROLL
        for (int k = 0; k < 5; k++) {
            x[k] = _mm512_add_ps(x[k], look_up(a->v[f], n, k));
            y[k] = _mm512_add_ps(y[k], look_up(a->v[f], m, k));
        }
    }
    TLC_UNROLL
    for (int k = 0; k < 5; k++) {
        _mm512_storeu_ps(sum[k] + i, x[k]);
        _mm512_storeu_ps(sum[k] + i + LANES, y[k]);
    }
    return 1;
}

TLC_AVX512 void tlc_quartic_ternary_add_many_avx512(const uint8_t *const *in, const float *w, size_t frames, size_t len,
                                                    float *const sum[5])
{
    enum { TWO = 2 * LANES, ALL_FOR = 8 * GROUP };
    values v[TLC_TOGETHER_MAX];
    active a = {.count = 0};
    size_t i = 0;

    for (size_t f = 0; f < frames; f++)
        v[f] = values_of(w[f], _mm512_set1_ps(-0.0f));
    for (; len - i >= GROUP; i += GROUP) {
        if (a.count < frames || i % ALL_FOR == 0) /* where all are active, most likely they all stay so */
            find_active(&a, in, v, frames, i);
        for (size_t j = i; a.count && j < i + GROUP; j += TWO)
            if (!add_vectors(&a, j, sum))
                tlc_add_singly(tlc_quartic_ternary_add_avx512, in, w, frames, j, j + TWO, sum);
    }
    tlc_add_singly(tlc_quartic_ternary_add_avx512, in, w, frames, i, len, sum);
}

/* Uncached stores take whole, aligned lines, and each stream is at another place in its lines. A line is made of
 * the end of one vector and the start of the next. The first and the last values share their lines with other data
 * and are stored as usual. */
typedef struct line_writer {
    __m512 last;   /* the previous vector */
    __m512i index; /* picks a line from the two */
    size_t skew;   /* values of last that are in the line */
} line_writer;

TLC_AVX512_INLINE line_writer line_writer_at(const float *out, __m512 last)
{
    size_t skew = (uintptr_t)out / sizeof(float) % LANES;
    __m512i iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    line_writer s = {last, _mm512_add_epi32(iota, _mm512_set1_epi32((int)(LANES - skew))), skew};
    return s;
}

TLC_AVX512_INLINE void line_writer_put(line_writer *s, float *out, __m512 next)
{
    _mm512_stream_ps(out - s->skew, _mm512_permutex2var_ps(s->last, s->index, next));
    s->last = next;
}

TLC_AVX512_INLINE numbers split16(const uint8_t *in)
{
    return split(tlc_avx512_load16(in));
}

TLC_AVX512 void tlc_quartic_ternary_decode_uncached_avx512(const uint8_t *in, size_t len, float M, float *const out[5],
                                                           tlc_lines *lines, int last)
{
    values v = values_of(M, _mm512_setzero_ps());
    line_writer s[5];
    size_t i = 0;

    if (!lines->open) {
        if (len < LANES) { /* so this call is the last one */
            decode_rest(in, 0, tlc_avx512_lanes(len), &v, out, 0);
            return;
        }
        numbers n = split16(in);
        TLC_UNROLL
        for (int k = 0; k < 5; k++) {
            s[k] = line_writer_at(out[k], look_up(&v, n, k));
            _mm512_mask_storeu_ps(out[k], tlc_avx512_lanes(LANES - s[k].skew), s[k].last);
        }
        i = LANES;
    } else {
        TLC_UNROLL
        for (int k = 0; k < 5; k++)
            s[k] = line_writer_at(out[k], _mm512_loadu_ps(lines->left[k]));
    }
    for (; len - i >= LANES; i += LANES) {
        numbers n = split16(in + i);
        TLC_UNROLL
        for (int k = 0; k < 5; k++)
            line_writer_put(&s[k], out[k] + i, look_up(&v, n, k));
    }
    lines->open = !last;
    if (!last) {
        TLC_UNROLL
        for (int k = 0; k < 5; k++)
            _mm512_storeu_ps(lines->left[k], s[k].last);
        return;
    }
    TLC_UNROLL
    for (int k = 0; k < 5; k++) {
        __m512 rest = _mm512_permutex2var_ps(s[k].last, s[k].index, s[k].last);
        _mm512_mask_storeu_ps(out[k] + i - s[k].skew, tlc_avx512_lanes(s[k].skew), rest);
    }
    if (i < len)
        decode_rest(in, i, tlc_avx512_lanes(len - i), &v, out, 0);
    _mm_sfence(); /* uncached stores keep no order by themselves, and other threads must see them */
}
#endif
