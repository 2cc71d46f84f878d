/* SPDX-License-Identifier: MIT
 *
 * Encoding: in the mask of the bytes 121 of a vector, each run is cut into pieces of at most 14, one piece a token. Where
 * pieces start and end are bit operations; the lengths are the differences of the positions, compressed by both masks.
 * The tokens are expanded to where the pieces end, and what is left of the vector is compressed.
 * Decoding: the reverse. The bytes of four tokens, at most 56, are the tokens' last bytes expanded into bytes 121.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

enum { BYTES = 64, LITERAL_MAX = TLC_QUARTIC_MAX, FOUR = 4, FOURS = BYTES / FOUR };

#define ROW(i) i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7
static const uint8_t position[BYTES] = {ROW(0), ROW(8), ROW(16), ROW(24), ROW(32), ROW(40), ROW(48), ROW(56)};

INLINE __mmask64 lanes(size_t count)
{
    return count < BYTES ? ((__mmask64)1 << count) - 1 : ~(__mmask64)0;
}

/* Where a run in the mask has its 14th, 28th, 42nd and 56th bit. */
INLINE uint64_t every_14th(uint64_t run)
{
    uint64_t two = run & run << 1, four = two & two << 2, eight = four & four << 4, fourteen = eight & eight << 6;
    uint64_t ends = (run & ~(run << 1)) << 13 & fourteen;

    ends |= ends << 14 & fourteen;
    ends |= ends << 14 & fourteen;
    return ends | (ends << 14 & fourteen);
}

/* Encodes the bytes from the first to the last other than 121, of which there is one or more: the bits of other. */
INLINE __m512i encode_inner(__m512i bytes, uint64_t other, size_t *size)
{
    uint64_t inner = ~0ull >> __builtin_clzll(other) & ~(other ^ (other - 1)), run = inner & ~other;
    uint64_t full = every_14th(run), ends = full | (run & ~(run >> 1)), starts = (run & ~(run << 1)) | (full << 1 & run);
    __m512i at = _mm512_loadu_si512(position);
    __m512i more = _mm512_sub_epi8(_mm512_maskz_compress_epi8(ends, at), _mm512_maskz_compress_epi8(starts, at));
    /* A piece of 1 is a byte 121, one of 1 + more is 242 + more: 243 for 2, 255 for 14. */
    __m512i token = _mm512_mask_add_epi8(_mm512_set1_epi8(TLC_QUARTIC_ZERO), _mm512_test_epi8_mask(more, more), more,
                                         _mm512_set1_epi8((char)LITERAL_MAX));

    *size = (size_t)__builtin_popcountll(other | ends);
    return _mm512_maskz_compress_epi8(other | ends, _mm512_mask_expand_epi8(bytes, ends, token));
}

/* tlc_zerorun_flush without a branch for runs below 238, where there is room for 16 bytes more. */
INLINE uint8_t *put_run(size_t run, uint8_t *out)
{
    size_t full = run / TLC_RUN_MAX, rest = run % TLC_RUN_MAX, i = 0;

    do
        _mm_storeu_si128((__m128i *)(void *)(out + i), _mm_set1_epi8(-1));
    while ((i += 16) < full);
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
        uint64_t other = _mm512_cmpneq_epi8_mask(bytes, zero);

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

/* 64 tokens, in fours: each token's last byte, and for a four where those are and how many bytes it expands to. */
typedef struct expansion {
    uint8_t last[BYTES];
    uint64_t ends[FOURS];
    uint32_t size[FOURS];
} expansion;

/* Of 16 places in bytes, those of eight fours from the first on: bits for the places. */
INLINE __m512i ends_of(__m512i places, int first)
{
    __m512i ends = _mm512_setzero_si512(), from = _mm512_loadu_si512(position);

    for (int k = 0; k < FOUR; k++) {
        /* byte 0 of the j-th 64 bits comes from byte 4 (first + j) + k; position[8 j] is 8 j */
        __m512i index = _mm512_add_epi8(_mm512_srli_epi64(from, 1), _mm512_set1_epi8((char)(FOUR * first + k)));
        __m512i place = _mm512_maskz_permutexvar_epi8(0x0101010101010101, index, places);
        ends = _mm512_or_si512(ends, _mm512_sllv_epi64(_mm512_set1_epi64(1), place));
    }
    return ends;
}

INLINE void expand(__m512i token, __mmask64 runs, expansion *e)
{
    __m512i place = _mm512_subs_epu8(token, _mm512_set1_epi8((char)LITERAL_MAX));

    _mm512_storeu_si512(e->last, _mm512_mask_set1_epi8(token, runs, TLC_QUARTIC_ZERO));
    /* Each byte of a 32-bit lane becomes the sum of those up to it, and the k-th has k tokens' last bytes before it. */
    place = _mm512_add_epi8(place, _mm512_slli_epi32(place, 8));
    place = _mm512_add_epi8(place, _mm512_slli_epi32(place, 16));
    place = _mm512_add_epi8(place, _mm512_set1_epi32(0x03020100));
    _mm512_storeu_si512(e->ends, ends_of(place, 0));
    _mm512_storeu_si512(e->ends + FOURS / 2, ends_of(place, FOURS / 2));
    _mm512_storeu_si512(e->size, _mm512_add_epi32(_mm512_srli_epi32(place, 24), _mm512_set1_epi32(1)));
}

/* Writes the given fours as far as they fit whole into len bytes; returns the bytes written. */
INLINE size_t write_fours(const expansion *e, size_t fours, const uint8_t **src, uint8_t *out, size_t len)
{
    const __m512i zero = _mm512_set1_epi8(TLC_QUARTIC_ZERO);
    size_t at = 0, j = 0;

    for (; j < fours && e->size[j] <= len - at; j++) {
        int last;
        memcpy(&last, e->last + FOUR * j, sizeof last);
        __m512i bytes = _mm512_mask_expand_epi8(zero, e->ends[j], _mm512_zextsi128_si512(_mm_cvtsi32_si128(last)));

        if (len - at >= BYTES)
            _mm512_storeu_si512(out + at, bytes);
        else
            _mm512_mask_storeu_epi8(out + at, lanes(len - at), bytes);
        at += e->size[j];
    }
    *src += FOUR * j;
    return at;
}

AVX512 void tlc_zerorun_decode_avx512(tlc_zerorun_source *source, uint8_t *out, size_t len)
{
    size_t at = source->pending < len ? source->pending : len, written = 1;

    _mm_mask_storeu_epi8(out, (__mmask16)((1u << at) - 1u), _mm_set1_epi8(TLC_QUARTIC_ZERO));
    source->pending -= (unsigned)at;
    while (written && source->end - source->src >= FOUR) {
        size_t left = (size_t)(source->end - source->src), count = left < BYTES ? left : BYTES;
        __m512i token = _mm512_maskz_loadu_epi8(lanes(count), source->src);
        __mmask64 runs = _mm512_cmpgt_epu8_mask(token, _mm512_set1_epi8((char)LITERAL_MAX));

        if (!runs && count == BYTES && len - at >= BYTES) {
            _mm512_storeu_si512(out + at, token);
            source->src += BYTES;
            written = BYTES;
        } else {
            expansion e;
            expand(token, runs, &e);
            written = write_fours(&e, count / FOUR, &source->src, out + at, len - at);
        }
        at += written;
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
