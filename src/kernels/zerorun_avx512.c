/* SPDX-License-Identifier: MIT
 *
 * Encoding: in the mask of the bytes 121 of a vector, each run is cut into pieces of at most 14, one piece a token. Where
 * pieces start and end are bit operations; the lengths are the differences of the positions, compressed by both masks.
 * The tokens are expanded to where the pieces end, and what is left of the vector is compressed.
 * Decoding: the reverse. The mask of the places where tokens end in the output is put together from those of four tokens
 * each, and the tokens' last bytes are expanded by it into bytes 121.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

enum { BYTES = 64, LITERAL_MAX = TLC_QUARTIC_MAX, WORTHWHILE = 16 /* bytes: fewer are quicker one by one */ };

/* Before a loop over vectors, which have to stay in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#define ROW(i) i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7
static const uint8_t position[BYTES] = {ROW(0), ROW(8), ROW(16), ROW(24), ROW(32), ROW(40), ROW(48), ROW(56)};

INLINE __mmask64 lanes(size_t count)
{
    return count < BYTES ? ((__mmask64)1 << count) - 1 : ~(__mmask64)0;
}

/* The 14th, 28th, 42nd and 56th bit of each run of bits in zero that has its first bit in start. */
INLINE uint64_t every_14th(uint64_t zero, uint64_t start)
{
    uint64_t two = zero & zero << 1, four = two & two << 2, eight = four & four << 4, fourteen = eight & eight << 6;
    uint64_t once = start << 13 & fourteen, twice = once | (once << 14 & fourteen);

    return twice | (twice << 28 & fourteen << 14 & fourteen);
}

/* Encodes the bytes from the first to the last other than 121, of which there is one or more: the bits of other. */
INLINE __m512i encode_inner(__m512i bytes, uint64_t other, size_t *size)
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

/* tlc_zerorun_flush without a branch for runs below 238, where there is room for 16 bytes. */
INLINE uint8_t *put_run(size_t run, uint8_t *out)
{
    size_t full = run / TLC_RUN_MAX, rest = run % TLC_RUN_MAX;

    _mm_storeu_si128((__m128i *)(void *)out, _mm_set1_epi8(-1));
    if (full > 16)
        memset(out + 16, 255, full - 16);
    out += full;
    *out = (uint8_t)(rest == 1 ? TLC_QUARTIC_ZERO : 241 + rest);
    return out + (rest != 0);
}

AVX512 size_t tlc_zerorun_encode_avx512(size_t *run, const uint8_t *in, size_t len, uint8_t *out)
{
    const __m512i zero = _mm512_set1_epi8(TLC_QUARTIC_ZERO);
    size_t zeros = *run, i = 0, size;
    uint8_t *to = out;

    /* A vector more to come is 64 bytes more of room: whole vectors may be stored. */
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
        __m512i bytes = _mm512_maskz_loadu_epi8(lanes(count), in + i);
        uint64_t other = _mm512_mask_cmpneq_epi8_mask(lanes(count), bytes, zero);

        if (!other) {
            zeros += count;
            continue;
        }
        to += tlc_zerorun_flush(zeros + (size_t)__builtin_ctzll(other), to);
        bytes = encode_inner(bytes, other, &size);
        _mm512_mask_storeu_epi8(to, lanes(size), bytes);
        to += size;
        zeros = (size_t)__builtin_clzll(other) - (BYTES - count);
    }
    *run = zeros;
    return (size_t)(to - out);
}

/* Up to 64 tokens and the bytes they expand to. The k-th 64 bits of start and end are about four tokens: where their
 * bytes begin, and, from there on, a bit for the last byte of each. */
typedef struct expansion {
    __m512i last; /* the last byte of each token, less 121 */
    __m512i start[2], end[2];
    size_t size;
} expansion;

/* Bits for the places in eight fours of bytes, from the given byte on. */
INLINE __m512i bits_at(__m512i places, int from)
{
    __m512i one = _mm512_set1_epi64(1), index = _mm512_srli_epi64(_mm512_loadu_si512(position), 1); /* 0, 4, 8... */
    __m512i bits[4];

    UNROLL
    for (int k = 0; k < 4; k++) {
        __m512i byte = _mm512_add_epi8(index, _mm512_set1_epi8((char)(from + k)));
        bits[k] = _mm512_sllv_epi64(one, _mm512_maskz_permutexvar_epi8(0x0101010101010101, byte, places));
    }
    return _mm512_or_si512(_mm512_or_si512(bits[0], bits[1]), _mm512_or_si512(bits[2], bits[3]));
}

INLINE expansion expand(__m512i token, __mmask64 valid, __mmask64 runs)
{
    __m512i more = _mm512_subs_epu8(token, _mm512_set1_epi8((char)LITERAL_MAX)), zero = _mm512_setzero_si512();
    __m512i sum = _mm512_maskz_add_epi8(valid, more, _mm512_set1_epi8(1));
    expansion e;

    sum = _mm512_add_epi8(sum, _mm512_slli_epi32(sum, 8));
    sum = _mm512_add_epi8(sum, _mm512_slli_epi32(sum, 16)); /* each byte: the sizes up to it of its four */
    __m512i size = _mm512_srli_epi32(sum, 24), total = _mm512_add_epi32(size, _mm512_alignr_epi32(size, zero, 15));
    total = _mm512_add_epi32(total, _mm512_alignr_epi32(total, zero, 14));
    total = _mm512_add_epi32(total, _mm512_alignr_epi32(total, zero, 12));
    total = _mm512_add_epi32(total, _mm512_alignr_epi32(total, zero, 8));
    __m512i start = _mm512_sub_epi32(total, size);
    /* A token that is not there has the place of the one before, or with none before it in its four, 255: no bit. */
    __m512i place = _mm512_sub_epi8(sum, _mm512_set1_epi8(1));

    e.last = _mm512_maskz_sub_epi8(~runs, token, _mm512_set1_epi8(TLC_QUARTIC_ZERO));
    e.start[0] = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(start));
    e.start[1] = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(start, 1));
    e.end[0] = bits_at(place, 0);
    e.end[1] = bits_at(place, BYTES / 2);
    e.size = (size_t)_mm_extract_epi32(_mm512_extracti32x4_epi32(total, 3), 3);
    return e;
}

/* The bits for the 64 places from at on where tokens end. Shifts by 64 and more, and by less than 0, leave nothing. */
INLINE uint64_t ends_from(const expansion *e, size_t at)
{
    __m512i from = _mm512_set1_epi64((long long)at), bits[2];

    UNROLL
    for (int k = 0; k < 2; k++)
        bits[k] = _mm512_or_si512(_mm512_sllv_epi64(e->end[k], _mm512_sub_epi64(e->start[k], from)),
                                  _mm512_srlv_epi64(e->end[k], _mm512_sub_epi64(from, e->start[k])));
    return (uint64_t)_mm512_reduce_or_epi64(_mm512_or_si512(bits[0], bits[1]));
}

/* The 64 bytes in which the given ends are, of the tokens from the given one on. */
INLINE __m512i window(const expansion *e, uint64_t ends, size_t first)
{
    __m512i index = _mm512_add_epi8(_mm512_loadu_si512(position), _mm512_set1_epi8((char)first));
    __m512i last = _mm512_permutexvar_epi8(index, e->last);

    last = _mm512_maskz_expand_epi8(_cvtu64_mask64(ends), last);
    return _mm512_add_epi8(last, _mm512_set1_epi8(TLC_QUARTIC_ZERO));
}

/* Writes what the tokens expand to, at most len bytes, and returns how many; moves the source on. */
INLINE size_t write_expansion(const expansion *e, tlc_zerorun_source *source, uint8_t *out, size_t len)
{
    size_t size = e->size < len ? e->size : len, at = 0, tokens = 0;

    for (; len - at >= BYTES && at < size; at += BYTES) {
        uint64_t ends = ends_from(e, at);
        _mm512_storeu_si512(out + at, window(e, ends, tokens));
        tokens += (size_t)__builtin_popcountll(ends);
    }
    if (at < size) {
        uint64_t ends = ends_from(e, at) & lanes(size - at);
        _mm512_mask_storeu_epi8(out + at, lanes(size - at), window(e, ends, tokens));
        tokens += (size_t)__builtin_popcountll(ends);
    }
    if (size < e->size && !(ends_from(e, size - 1) & 1)) { /* cut within a token */
        source->pending = 1 + (unsigned)__builtin_ctzll(ends_from(e, size));
        tokens++;
    }
    source->src += tokens;
    return size;
}

AVX512 void tlc_zerorun_decode_avx512(tlc_zerorun_source *source, uint8_t *out, size_t len)
{
    size_t at = source->pending < len ? source->pending : len;

    _mm_mask_storeu_epi8(out, (__mmask16)((1u << at) - 1u), _mm_set1_epi8(TLC_QUARTIC_ZERO));
    source->pending -= (unsigned)at;
    while (len - at >= WORTHWHILE) {
        size_t left = (size_t)(source->end - source->src);
        __mmask64 valid = lanes(left);
        __m512i token = _mm512_maskz_loadu_epi8(valid, source->src);
        __mmask64 runs = _mm512_cmpgt_epu8_mask(token, _mm512_set1_epi8((char)LITERAL_MAX));

        if (!runs && left >= BYTES && len - at >= BYTES) {
            _mm512_storeu_si512(out + at, token);
            source->src += BYTES;
            at += BYTES;
        } else {
            expansion e = expand(token, valid, runs);
            at += write_expansion(&e, source, out + at, len - at);
        }
    }
    tlc_zerorun_decode_scalar(source, out + at, len - at);
}

AVX512 uint64_t tlc_zerorun_size_avx512(const uint8_t *in, size_t len)
{
    __m512i sum = _mm512_setzero_si512();

    for (size_t i = 0; i < len; i += BYTES) {
        __m512i token = len - i < BYTES ? _mm512_maskz_loadu_epi8(lanes(len - i), in + i) : _mm512_loadu_si512(in + i);
        __m512i more = _mm512_subs_epu8(token, _mm512_set1_epi8((char)LITERAL_MAX));
        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(more, _mm512_setzero_si512()));
    }
    return len + (uint64_t)_mm512_reduce_add_epi64(sum);
}
#endif
