/* SPDX-License-Identifier: MIT
 *
 * Philox on eight counters at a time. Each word is in the low half of a 64-bit lane, where the multiplication takes it;
 * the upper halves do not matter. Four such chains go side by side, since a round waits for its products.
 */
#include "avx512.h"
#include "philox.h"

#if defined(__x86_64__)

enum { CHAIN = 8, COUNTERS = 4 * CHAIN };

typedef struct chain {
    __m512i c0, c1, c2, c3;
} chain;

TLC_AVX512_INLINE __m512i all(uint32_t word)
{
    return _mm512_set1_epi32((int)word);
}

TLC_AVX512_INLINE __m512i high(__m512i product)
{
    return _mm512_shuffle_epi32(product, _MM_PERM_CDAB);
}

TLC_AVX512_INLINE __m512i xor3(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}

TLC_AVX512_INLINE chain first_two_rounds(const tlc_philox_common *c, __m512i counter)
{
    __m512i p0 = _mm512_mul_epu32(counter, all(TLC_PHILOX_M0)), c2 = _mm512_xor_si512(high(p0), all(c->first2));
    __m512i p1 = _mm512_mul_epu32(c2, all(TLC_PHILOX_M1));

    return (chain){_mm512_xor_si512(high(p1), all(c->second0)), p1, _mm512_xor_si512(p0, all(c->second2)),
                   all(c->second3)};
}

TLC_AVX512_INLINE chain next_round(chain x, __m512i k0, __m512i k1)
{
    __m512i p0 = _mm512_mul_epu32(x.c0, all(TLC_PHILOX_M0)), p1 = _mm512_mul_epu32(x.c2, all(TLC_PHILOX_M1));

    return (chain){xor3(high(p1), x.c1, k0), p1, xor3(high(p0), x.c3, k1), p0};
}

/* A product with its halves exchanged is two words of the result, except for what is combined with the first. */
TLC_AVX512_INLINE void last_round(chain x, const tlc_philox_common *c, uint32_t *out)
{
    __m512i k0 = all(c->k0[TLC_PHILOX_LAST]), k1 = all(c->k1[TLC_PHILOX_LAST]);
    const __mmask16 lower = 0x5555;
    __m512i p0 = _mm512_mul_epu32(x.c0, all(TLC_PHILOX_M0)), p1 = _mm512_mul_epu32(x.c2, all(TLC_PHILOX_M1));
    __m512i w01 = _mm512_mask_ternarylogic_epi32(_mm512_ror_epi64(p1, 32), lower, x.c1, k0, 0x96);
    __m512i w23 = _mm512_mask_ternarylogic_epi32(_mm512_ror_epi64(p0, 32), lower, x.c3, k1, 0x96);

    _mm512_storeu_si512(out, _mm512_unpacklo_epi64(w01, w23));
    _mm512_storeu_si512(out + LANES, _mm512_unpackhi_epi64(w01, w23));
}

TLC_AVX512 static void run(const tlc_philox_common *c, uint32_t counter, size_t batches, uint32_t *out)
{
    const __m512i unpacked = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7); /* unpacking puts the words in order */
    __m512i counters = _mm512_add_epi32(unpacked, all(counter));

    for (; batches--; out += 4 * COUNTERS) {
        chain x0 = first_two_rounds(c, counters), x1 = first_two_rounds(c, _mm512_add_epi32(counters, all(CHAIN)));
        chain x2 = first_two_rounds(c, _mm512_add_epi32(counters, all(2 * CHAIN)));
        chain x3 = first_two_rounds(c, _mm512_add_epi32(counters, all(3 * CHAIN)));

        for (int round = 2; round < TLC_PHILOX_LAST; round++) {
            __m512i k0 = all(c->k0[round]), k1 = all(c->k1[round]);
            x0 = next_round(x0, k0, k1);
            x1 = next_round(x1, k0, k1);
            x2 = next_round(x2, k0, k1);
            x3 = next_round(x3, k0, k1);
        }
        last_round(x0, c, out);
        last_round(x1, c, out + 4 * CHAIN);
        last_round(x2, c, out + 8 * CHAIN);
        last_round(x3, c, out + 12 * CHAIN);
        counters = _mm512_add_epi32(counters, all(COUNTERS));
    }
}

TLC_AVX512 void tlc_philox_avx512(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *out)
{
    tlc_philox_in_batches(seed, step, first, n, out, COUNTERS, run);
}
#endif
