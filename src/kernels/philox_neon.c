/* SPDX-License-Identifier: MIT
 *
 * Philox on four counters at a time, in two chains side by side.
 */
#include "neon.h"
#include "philox.h"

#if defined(__aarch64__)

enum { CHAIN = 4, COUNTERS = 2 * CHAIN };

typedef struct chain {
    uint32x4_t c0, c1, c2, c3;
} chain;

typedef struct product {
    uint32x4_t low, high;
} product;

TLC_NEON_INLINE product multiply(uint32x4_t word, uint32_t by)
{
    uint32x4_t m = vdupq_n_u32(by);
    uint32x4_t p01 = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(word), vget_low_u32(m)));
    uint32x4_t p23 = vreinterpretq_u32_u64(vmull_high_u32(word, m));

    return (product){vuzp1q_u32(p01, p23), vuzp2q_u32(p01, p23)};
}

TLC_NEON_INLINE chain first_two_rounds(const tlc_philox_common *c, uint32x4_t counter)
{
    product p0 = multiply(counter, TLC_PHILOX_M0);
    product p1 = multiply(veorq_u32(p0.high, vdupq_n_u32(c->first2)), TLC_PHILOX_M1);

    return (chain){veorq_u32(p1.high, vdupq_n_u32(c->second0)), p1.low, veorq_u32(p0.low, vdupq_n_u32(c->second2)),
                   vdupq_n_u32(c->second3)};
}

TLC_NEON_INLINE chain next_round(chain x, uint32x4_t k0, uint32x4_t k1)
{
    product p0 = multiply(x.c0, TLC_PHILOX_M0), p1 = multiply(x.c2, TLC_PHILOX_M1);

    return (chain){veorq_u32(p1.high, veorq_u32(x.c1, k0)), p1.low, veorq_u32(p0.high, veorq_u32(x.c3, k1)), p0.low};
}

TLC_NEON_INLINE void store(chain x, uint32_t *out)
{
    vst4q_u32(out, ((uint32x4x4_t){{x.c0, x.c1, x.c2, x.c3}}));
}

static void run(const tlc_philox_common *c, uint32_t counter, size_t batches, uint32_t *out)
{
    static const uint32_t order[CHAIN] = {0, 1, 2, 3};
    uint32x4_t counters = vaddq_u32(vld1q_u32(order), vdupq_n_u32(counter));

    for (; batches--; out += 4 * COUNTERS) {
        chain a = first_two_rounds(c, counters), b = first_two_rounds(c, vaddq_u32(counters, vdupq_n_u32(CHAIN)));

        for (int round = 2; round < TLC_PHILOX_ROUNDS; round++) {
            uint32x4_t k0 = vdupq_n_u32(c->k0[round]), k1 = vdupq_n_u32(c->k1[round]);
            a = next_round(a, k0, k1);
            b = next_round(b, k0, k1);
        }
        store(a, out);
        store(b, out + 4 * CHAIN);
        counters = vaddq_u32(counters, vdupq_n_u32(COUNTERS));
    }
}

void tlc_philox_neon(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *out)
{
    tlc_philox_in_batches(seed, step, first, n, out, COUNTERS, run);
}
#endif
