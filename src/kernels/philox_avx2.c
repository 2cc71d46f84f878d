/* SPDX-License-Identifier: MIT
 *
 * The method of philox_avx512.c with two chains of four counters: there are no registers for more.
 */
#include "avx2.h"
#include "philox.h"

#if defined(__x86_64__)

enum { CHAIN = 4, COUNTERS = 2 * CHAIN };

typedef struct chain {
    __m256i c0, c1, c2, c3;
} chain;

TLC_AVX2_INLINE __m256i all(uint32_t word)
{
    return _mm256_set1_epi32((int)word);
}

TLC_AVX2_INLINE __m256i high(__m256i product)
{
    return _mm256_srli_epi64(product, 32);
}

/* The product comes last: the others are ready before it. */
TLC_AVX2_INLINE __m256i xor3(__m256i product, __m256i word, __m256i key)
{
    return _mm256_xor_si256(product, _mm256_xor_si256(word, key));
}

TLC_AVX2_INLINE chain first_two_rounds(const tlc_philox_common *c, __m256i counter)
{
    __m256i p0 = _mm256_mul_epu32(counter, all(TLC_PHILOX_M0)), c2 = _mm256_xor_si256(high(p0), all(c->first2));
    __m256i p1 = _mm256_mul_epu32(c2, all(TLC_PHILOX_M1));

    return (chain){_mm256_xor_si256(high(p1), all(c->second0)), p1, _mm256_xor_si256(p0, all(c->second2)),
                   all(c->second3)};
}

TLC_AVX2_INLINE chain next_round(chain x, __m256i k0, __m256i k1)
{
    __m256i p0 = _mm256_mul_epu32(x.c0, all(TLC_PHILOX_M0)), p1 = _mm256_mul_epu32(x.c2, all(TLC_PHILOX_M1));

    return (chain){xor3(high(p1), x.c1, k0), p1, xor3(high(p0), x.c3, k1), p0};
}

/* The lower halves of c and of the product, side by side. */
TLC_AVX2_INLINE __m256i beside(__m256i c, __m256i product)
{
    return _mm256_blend_epi32(c, _mm256_slli_epi64(product, 32), 0xaa);
}

TLC_AVX2_INLINE void last_round(chain x, const tlc_philox_common *c, uint32_t *out)
{
    x = next_round(x, all(c->k0[TLC_PHILOX_LAST]), all(c->k1[TLC_PHILOX_LAST]));
    __m256i w01 = beside(x.c0, x.c1), w23 = beside(x.c2, x.c3);

    tlc_avx2_store(out, _mm256_unpacklo_epi64(w01, w23));
    tlc_avx2_store(out + LANES, _mm256_unpackhi_epi64(w01, w23));
}

TLC_AVX2 static void run(const tlc_philox_common *c, uint32_t counter, size_t batches, uint32_t *out)
{
    const __m256i unpacked = _mm256_setr_epi64x(0, 2, 1, 3); /* unpacking puts the words in order */
    __m256i counters = _mm256_add_epi32(unpacked, all(counter));

    for (; batches--; out += 4 * COUNTERS) {
        chain a = first_two_rounds(c, counters), b = first_two_rounds(c, _mm256_add_epi32(counters, all(CHAIN)));

        for (int round = 2; round < TLC_PHILOX_LAST; round++) {
            __m256i k0 = all(c->k0[round]), k1 = all(c->k1[round]);
            a = next_round(a, k0, k1);
            b = next_round(b, k0, k1);
        }
        last_round(a, c, out);
        last_round(b, c, out + 4 * CHAIN);
        counters = _mm256_add_epi32(counters, all(COUNTERS));
    }
}

TLC_AVX2 void tlc_philox_avx2(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *out)
{
    tlc_philox_in_batches(seed, step, first, n, out, COUNTERS, run);
}
#endif
