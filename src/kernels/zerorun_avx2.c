/* SPDX-License-Identifier: MIT
 *
 * Encoding costs about the same at every density of zeros. 16 bytes at a time become literals and the tokens of the
 * runs that end among them, and a table packs these to the left. No branch depends on the data, except for 32 bytes
 * 121.
 */
#include "avx2.h"

#if defined(__x86_64__)

/* The positions of the bits set in k, lowest first, one a byte. */
#define BIT(k, i) ((k) >> (i) & 1u)
#define PUSH(k, i, rest) ((rest) << 8 * BIT(k, i) | (uint64_t)(i) * BIT(k, i))
#define HIGH(k) PUSH(k, 4, PUSH(k, 5, PUSH(k, 6, PUSH(k, 7, (uint64_t)0))))
#define PACK1(k) PUSH(k, 0, PUSH(k, 1, PUSH(k, 2, PUSH(k, 3, HIGH(k)))))
#define PACK4(k) PACK1(k), PACK1((k) + 1), PACK1((k) + 2), PACK1((k) + 3)
#define PACK16(k) PACK4(k), PACK4((k) + 4), PACK4((k) + 8), PACK4((k) + 12)
#define PACK64(k) PACK16(k), PACK16((k) + 16), PACK16((k) + 32), PACK16((k) + 48)

static const uint64_t packing[256] = {PACK64(0u), PACK64(64u), PACK64(128u), PACK64(192u)};

TLC_AVX2_INLINE __m256i equal_zero(__m256i bytes)
{
    return _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(TLC_QUARTIC_ZERO));
}

/* Makes run lengths up to 2 * width of run lengths up to width. */
#define DOUBLE(runs, width)                                                                                            \
    _mm256_add_epi8(runs, _mm256_and_si256(_mm256_cmpeq_epi8(runs, _mm256_set1_epi8(width)),                           \
                                           _mm256_slli_si256(runs, width)))

/* Each byte of a run becomes the token for the run from its start in the lane up to this byte. At the last byte of a
 * run that starts and ends in the lane this is the token of the run: such a run is shorter than 15, and 14 gives
 * 255. */
TLC_AVX2_INLINE __m256i with_tokens(__m256i bytes, __m256i zero)
{
    const __m256i extra = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 122, 123, 124, 125, 126, 127, -128, -127, -126, -125, -124, -123, -122, 0));
    __m256i runs = _mm256_and_si256(zero, _mm256_set1_epi8(1));

    runs = DOUBLE(runs, 1);
    runs = DOUBLE(runs, 2);
    runs = DOUBLE(runs, 4);
    runs = DOUBLE(runs, 8);
    return _mm256_add_epi8(bytes, _mm256_shuffle_epi8(extra, runs));
}

/* Writes the tokens of a run. Stores 16 bytes at out, or run bytes if the run is longer. Returns how many count. */
TLC_AVX2_INLINE size_t store_run(size_t run, uint8_t *out)
{
    if (run >= 16 * TLC_RUN_MAX)
        return tlc_zerorun_flush(run, out);
    size_t full = run * 4682 >> 16, rest = run - full * TLC_RUN_MAX; /* 4682 = ceil(65536 / 14) */
    tlc_avx2_store16(out, _mm_set1_epi8(-1));
    out[full] = (uint8_t)(rest == 1 ? TLC_QUARTIC_ZERO : 241 + rest);
    return full + (rest != 0);
}

/* Packs the bytes of v whose bit is set in kept to the left. Stores 16 bytes, sometimes fewer or more. Returns how
 * many count. */
TLC_AVX2_INLINE size_t store_kept(__m128i v, unsigned kept, uint8_t *out)
{
    __m128i low = _mm_shuffle_epi8(v, tlc_avx2_load8(&packing[kept & 0xff]));
    __m128i high = tlc_avx2_load8(&packing[kept >> 8]);
    size_t count = (size_t)__builtin_popcount(kept & 0xff);

    tlc_avx2_store8(out, low);
    tlc_avx2_store8(out + count, _mm_shuffle_epi8(_mm_unpackhi_epi64(v, v), high));
    return count + (size_t)__builtin_popcount(kept >> 8);
}

/* 16 bytes of input. Those set in zero are 121 and have become tokens. */
TLC_AVX2_INLINE size_t encode16(size_t *run, __m128i bytes, unsigned zero, uint8_t *out)
{
    unsigned other = ~zero & 0xffffu, ends = zero & other >> 1;
    /* The run at the front belongs to *run, so nothing before the first other byte is kept. */
    unsigned kept = (other | ends) & (0u - (other & (0u - other)));
    size_t lead = (size_t)__builtin_ctz(other | 0x10000u), total = *run + lead;
    size_t written = store_run(total, out);

    *run = other ? (size_t)__builtin_clz(other) - 16 : total;
    written = other ? written : 0;
    return written + store_kept(bytes, kept, out + written);
}

/* 32 bytes. The last 16 may be 15 zeros and another byte, and 8 bytes are stored after those: 39 bytes of room are
 * needed. */
TLC_AVX2_INLINE size_t encode32(size_t *run, __m256i bytes, uint8_t *out)
{
    __m256i zero = equal_zero(bytes);
    unsigned mask = tlc_avx2_signs(zero);

    if (mask == 0xffffffffu) {
        *run += 32;
        return 0;
    }
    bytes = with_tokens(bytes, zero);
    size_t at = encode16(run, _mm256_castsi256_si128(bytes), mask & 0xffffu, out);
    return at + encode16(run, _mm256_extracti128_si256(bytes, 1), mask >> 16, out + at);
}

/* The last len < 40 bytes, through copies that end with zeros. These only make the open run longer. */
TLC_AVX2 static size_t encode_rest(size_t *run, const uint8_t *in, size_t len, uint8_t *out)
{
    enum { WHOLE = 64, RUN = 16 * TLC_RUN_MAX };
    uint8_t bytes[WHOLE], tokens[RUN / TLC_RUN_MAX + 2 * WHOLE];
    size_t at = 0, done = 0;

    if (*run > RUN - WHOLE) /* its tokens may not fit */
        return tlc_zerorun_encode_scalar(run, in, len, out);
    tlc_avx2_store(bytes, _mm256_set1_epi8(TLC_QUARTIC_ZERO));
    tlc_avx2_store(bytes + 32, _mm256_set1_epi8(TLC_QUARTIC_ZERO));
    tlc_copy_few(bytes, in, len);
    for (; done < len; done += 32)
        at += encode32(run, tlc_avx2_load(bytes + done), tokens + at);
    *run -= done - len;
    tlc_copy_few(out, tokens, at);
    return at;
}

TLC_AVX2 size_t tlc_zerorun_encode_avx2(size_t *run, const uint8_t *in, size_t len, uint8_t *out)
{
    size_t open = *run, at = 0, i = 0;

    for (; i + 40 <= len; i += 32)
        at += encode32(&open, tlc_avx2_load(in + i), out + at);
    if (i < len)
        at += encode_rest(&open, in + i, len - i, out + at);
    *run = open;
    return at;
}

TLC_AVX2 size_t tlc_zerorun_decode_avx2(const uint8_t *in, size_t len, uint8_t *out)
{
    const __m256i least = _mm256_set1_epi8((char)(TLC_QUARTIC_MAX + 1));
    uint8_t *start = out; /* where in[0] would be if all that follow were literals */

    for (size_t i = 0; i < len; i += 32) {
        const uint8_t *src = in + i;
        __m256i tokens = tlc_avx2_load(src);
        unsigned runs = tlc_avx2_signs(_mm256_cmpeq_epi8(_mm256_max_epu8(tokens, least), tokens));

        if (len - i < 32)
            runs &= (1u << (len - i)) - 1;
        /* All are copied. Each run is put in front of the rest, which is copied again. */
        tlc_avx2_store(start + i, tokens);
        for (; runs; runs &= runs - 1) {
            size_t k = (size_t)__builtin_ctz(runs);
            tlc_avx2_store16(start + i + k, _mm_set1_epi8(TLC_QUARTIC_ZERO));
            start += src[k] - TLC_QUARTIC_MAX;
            tlc_avx2_store(start + i + k + 1, tlc_avx2_load(src + k + 1));
        }
    }
    return (size_t)(start - out) + len;
}

/* The bytes that 32 tokens expand to, less 32, as four sums. */
TLC_AVX2_INLINE __m256i extra_bytes(__m256i tokens)
{
    __m256i extra = _mm256_subs_epu8(tokens, _mm256_set1_epi8((char)TLC_QUARTIC_MAX));
    return _mm256_sad_epu8(extra, _mm256_setzero_si256());
}

TLC_AVX2 uint64_t tlc_zerorun_size_avx2(const uint8_t *in, size_t len)
{
    static const uint64_t fresh[8] = {0, 0, 0, 0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    size_t i = 0;

    if (len < 32)
        return tlc_zerorun_size_scalar(in, len);
    __m256i sums = _mm256_setzero_si256();
    for (; i + 32 <= len; i += 32)
        sums = _mm256_add_epi64(sums, extra_bytes(tlc_avx2_load(in + i)));
    /* The last 32, without those that are counted already. */
    __m256i last = _mm256_and_si256(tlc_avx2_load(in + len - 32), tlc_avx2_load((const uint8_t *)fresh + (len - i)));
    sums = _mm256_add_epi64(sums, extra_bytes(last));
    __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return len + (uint64_t)_mm_cvtsi128_si64(_mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum)));
}
#endif
