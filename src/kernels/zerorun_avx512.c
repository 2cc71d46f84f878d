/* SPDX-License-Identifier: MIT
 *
 * Encoding: each run is cut into pieces of at most 14 bytes, one piece a token. Starts and ends of pieces are bit
 * operations on the mask of the bytes 121. The lengths are differences of positions, compressed by both masks. The
 * tokens are expanded to the ends of the pieces, and the vector is compressed to what is kept.
 */
#include "avx512.h"

#if defined(__x86_64__)

enum { LITERAL_MAX = TLC_QUARTIC_MAX };

#define ROW(i) (i), (i) + 1, (i) + 2, (i) + 3, (i) + 4, (i) + 5, (i) + 6, (i) + 7
static const uint8_t position[BYTES] = {ROW(0), ROW(8), ROW(16), ROW(24), ROW(32), ROW(40), ROW(48), ROW(56)};

/* The 14th, 28th, 42nd and 56th bit of each run of bits in zero. start has the first bit of each run. */
TLC_AVX512_INLINE uint64_t every_14th(uint64_t zero, uint64_t start)
{
    uint64_t two = zero & zero << 1, four = two & two << 2, eight = four & four << 4, fourteen = eight & eight << 6;
    uint64_t once = start << 13 & fourteen, twice = once | (once << 14 & fourteen);

    return twice | (twice << 28 & fourteen << 14 & fourteen);
}

/* Encodes the bytes from the first to the last one other than 121. These are the bits of `other`, which is not 0. */
TLC_AVX512_INLINE __m512i encode_inner(__m512i bytes, uint64_t other, size_t *size)
{
    uint64_t zero = ~other, start = other << 1 & zero; /* the last run may reach the end: a start without an end */
    uint64_t full = every_14th(zero, start) & ~0ull >> __builtin_clzll(other);
    uint64_t end = full | (other >> 1 & zero & (zero + 1)); /* the carry clears a run that begins the vector */
    __mmask64 ends = _cvtu64_mask64(end), starts = _cvtu64_mask64(start | (full << 1 & zero));
    __mmask64 kept = _cvtu64_mask64(other | end);
    __m512i at = _mm512_loadu_si512(position);
    __m512i more = _mm512_sub_epi8(_mm512_maskz_compress_epi8(ends, at), _mm512_maskz_compress_epi8(starts, at));
    /* A piece of 1 stays a byte 121; one of 1 + more becomes 242 + more: 243 for 2, 255 for 14. */
    __m512i raise = _mm512_maskz_add_epi8(_mm512_test_epi8_mask(more, more), more,
                                          _mm512_set1_epi8((char)(LITERAL_MAX - TLC_QUARTIC_ZERO)));

    bytes = _mm512_add_epi8(bytes, _mm512_maskz_expand_epi8(ends, raise));
    *size = (size_t)__builtin_popcountll(other | end);
    return _mm512_mask_compress_epi8(bytes, kept, bytes);
}

/* tlc_zerorun_flush without a branch for runs below 238. There is room for 16 bytes. */
TLC_AVX512_INLINE uint8_t *put_run(size_t run, uint8_t *out)
{
    size_t full = run / TLC_RUN_MAX, rest = run % TLC_RUN_MAX;

    _mm_storeu_si128((__m128i *)(void *)out, _mm_set1_epi8(-1));
    if (full > 16)
        memset(out + 16, 255, full - 16);
    out += full;
    *out = (uint8_t)(rest == 1 ? TLC_QUARTIC_ZERO : 241 + rest);
    return out + (rest != 0);
}

TLC_AVX512 size_t tlc_zerorun_encode_avx512(size_t *run, const uint8_t *in, size_t len, uint8_t *out)
{
    const __m512i zero = _mm512_set1_epi8(TLC_QUARTIC_ZERO);
    size_t zeros = *run, i = 0, size;
    uint8_t *to = out;

    /* Another vector follows, which is 64 bytes more of room: whole vectors may be stored. */
    for (; len - i >= 2 * BYTES; i += BYTES) {
        __m512i bytes = _mm512_loadu_si512(in + i);
        uint64_t other = _cvtmask64_u64(_mm512_cmpneq_epi8_mask(bytes, zero));

        if (!other) {
            zeros += BYTES;
            continue;
        }
        to = put_run(zeros + (size_t)__builtin_ctzll(other), to);
        _mm512_storeu_si512(to, encode_inner(bytes, other, &size));
        to += size;
        zeros = (size_t)__builtin_clzll(other);
    }
    for (size_t count; i < len; i += count) {
        count = len - i < BYTES ? len - i : BYTES;
        __m512i bytes = _mm512_maskz_loadu_epi8(tlc_avx512_bytes(count), in + i);
        uint64_t other = _mm512_mask_cmpneq_epi8_mask(tlc_avx512_bytes(count), bytes, zero);

        if (!other) {
            zeros += count;
            continue;
        }
        to += tlc_zerorun_flush(zeros + (size_t)__builtin_ctzll(other), to);
        bytes = encode_inner(bytes, other, &size);
        _mm512_mask_storeu_epi8(to, tlc_avx512_bytes(size), bytes);
        to += size;
        zeros = (size_t)__builtin_clzll(other) - (BYTES - count);
    }
    *run = zeros;
    return (size_t)(to - out);
}

/* 16 tokens with the bytes of runs replaced by zeros. */
TLC_AVX512_INLINE __m512i load_tokens(const uint8_t *in)
{
    __m128i tokens = tlc_avx512_load16(in);
    __mmask16 runs = _mm_cmpgt_epu8_mask(tokens, _mm_set1_epi8((char)LITERAL_MAX));

    return _mm512_zextsi128_si512(_mm_mask_mov_epi8(tokens, runs, _mm_set1_epi8(TLC_QUARTIC_ZERO)));
}

/* Expands 16 tokens. low and high: where the last byte of each is in the result; end: where the result's last one is.
 * The tokens are put there, between zeros. */
TLC_AVX512_INLINE void expand16(const uint8_t *in, __m512i low, __m512i high, size_t end, uint8_t *out)
{
    const __m512i zero = _mm512_set1_epi8(TLC_QUARTIC_ZERO), one = _mm512_set1_epi64(1),
                  more = _mm512_set1_epi64(BYTES);

    for (size_t at = 0; at <= end; at += BYTES) {
        __m512i bits = _mm512_or_si512(_mm512_sllv_epi64(one, low), _mm512_sllv_epi64(one, high)); /* from 64 on 0 */
        uint64_t put = (uint64_t)_mm512_reduce_or_epi64(bits);
        _mm512_storeu_si512(out + at, _mm512_mask_expand_epi8(zero, _cvtu64_mask64(put), load_tokens(in)));
        in += __builtin_popcountll(put);
        low = _mm512_sub_epi64(low, more);
        high = _mm512_sub_epi64(high, more);
    }
}

TLC_AVX512_INLINE __m512i load_positions(const uint8_t *at)
{
    return _mm512_cvtepu8_epi64(_mm_loadl_epi64((const __m128i *)(const void *)at));
}

TLC_AVX512 size_t tlc_zerorun_decode_avx512(const uint8_t *in, size_t len, uint8_t *out)
{
    const __m512i literal_max = _mm512_set1_epi8((char)LITERAL_MAX), one = _mm512_set1_epi8(1);
    const __m512i eighth = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0707070707070707, -1));
    uint8_t last[BYTES], *to = out;

    for (size_t i = 0; i < len; i += BYTES) {
        __m512i size = _mm512_subs_epu8(_mm512_loadu_si512(in + i), literal_max);
        size = _mm512_maskz_add_epi8(tlc_avx512_bytes(len - i), size, one);
        /* Sums of 16 sizes, up to and with each of them. */
        size = _mm512_add_epi8(size, _mm512_slli_epi64(size, 8));
        size = _mm512_add_epi8(size, _mm512_slli_epi64(size, 16));
        size = _mm512_add_epi8(size, _mm512_slli_epi64(size, 32));
        size = _mm512_add_epi8(size, _mm512_shuffle_epi8(size, eighth));
        _mm512_storeu_si512(last, _mm512_sub_epi8(size, one));
        for (size_t j = 0; j < BYTES && j < len - i; j += 16) {
            expand16(in + i + j, load_positions(last + j), load_positions(last + j + 8), last[j + 15], to);
            to += last[j + 15] + 1;
        }
    }
    return (size_t)(to - out);
}

TLC_AVX512 uint64_t tlc_zerorun_size_avx512(const uint8_t *in, size_t len)
{
    __m512i sum = _mm512_setzero_si512();

    for (size_t i = 0; i < len; i += BYTES) {
        __m512i token = len - i < BYTES ? _mm512_maskz_loadu_epi8(tlc_avx512_bytes(len - i), in + i)
                                        : _mm512_loadu_si512(in + i);
        __m512i more = _mm512_subs_epu8(token, _mm512_set1_epi8((char)LITERAL_MAX));
        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(more, _mm512_setzero_si512()));
    }
    return len + (uint64_t)_mm512_reduce_add_epi64(sum);
}
#endif
