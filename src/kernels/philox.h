/* SPDX-License-Identifier: MIT
 *
 * What the vector versions of Philox share: the work that is the same for many counters, and how a call is cut into
 * batches of counters.
 */
#ifndef TLC_PHILOX_H
#define TLC_PHILOX_H

#include "../common/rng.h"
#include "kernels.h"

enum { TLC_PHILOX_LAST = TLC_PHILOX_ROUNDS - 1, TLC_PHILOX_BATCH_MOST = 128 };

/* What is the same for all counters that differ in their lowest word only: the keys of the rounds, and what the
 * first two rounds make of the upper three words. These give the product of word 2 in the first round, and of word 0
 * in the second. */
typedef struct tlc_philox_common {
    uint32_t k0[TLC_PHILOX_ROUNDS], k1[TLC_PHILOX_ROUNDS];
    uint32_t first2; /* word 2 after the first round, less the product of word 0 */
    /* After the second round: word 0 less the product of word 2, word 2 less word 3 of the round before, word 3. */
    uint32_t second0, second2, second3;
} tlc_philox_common;

static inline tlc_philox_common tlc_philox_common_of(uint64_t seed, uint64_t step, uint32_t counter_high)
{
    tlc_philox_common c;

    for (uint32_t round = 0; round < TLC_PHILOX_ROUNDS; round++) {
        c.k0[round] = (uint32_t)seed + round * TLC_PHILOX_W0;
        c.k1[round] = (uint32_t)(seed >> 32) + round * TLC_PHILOX_W1;
    }
    uint64_t p1 = (uint64_t)TLC_PHILOX_M1 * (uint32_t)step;
    uint64_t p0 = (uint64_t)TLC_PHILOX_M0 * ((uint32_t)(p1 >> 32) ^ counter_high ^ c.k0[0]);

    c.first2 = (uint32_t)(step >> 32) ^ c.k1[0];
    c.second0 = (uint32_t)p1 ^ c.k0[1];
    c.second2 = (uint32_t)(p0 >> 32) ^ c.k1[1];
    c.second3 = (uint32_t)p0;
    return c;
}

/* Writes the words of `batches` batches of counters, the first with the lowest word `counter`, which does not
 * overflow. */
typedef void tlc_philox_run(const tlc_philox_common *c, uint32_t counter, size_t batches, uint32_t *out);

/* The kernel philox in batches of `counters`, at most TLC_PHILOX_BATCH_MOST / 4. If only a part of a batch is wanted,
 * that part is copied. If the lowest word of the counter overflows within a batch, the scalar kernel takes over. */
static inline void tlc_philox_in_batches(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *out,
                                         uint32_t counters, tlc_philox_run *run)
{
    uint32_t some[TLC_PHILOX_BATCH_MOST];

    while (n) {
        uint32_t counter = (uint32_t)(first / 4), skip = first % 4;
        uint64_t whole = (((uint64_t)1 << 32) - counter) / counters; /* batches before the overflow */
        size_t done = 4 * counters - skip;

        done = done < n ? done : n;
        if (whole) {
            tlc_philox_common c = tlc_philox_common_of(seed, step, (uint32_t)(first / 4 >> 32));

            if (done == 4 * counters) {
                size_t batches = n / done;
                batches = batches < whole ? batches : (size_t)whole;
                run(&c, counter, batches, out);
                done *= batches;
            } else {
                run(&c, counter, 1, some);
                tlc_copy_few(out, some + skip, done * sizeof *out);
            }
        } else
            tlc_philox_scalar(seed, step, first, done, out);
        first += done;
        out += done;
        n -= done;
    }
}
#endif
