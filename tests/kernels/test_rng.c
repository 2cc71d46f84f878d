/* SPDX-License-Identifier: MIT
 *
 * src/common/rng.h against the published known answers of Philox 4x32-10 (Random123's kat_vectors), and the kernel of
 * every ISA against src/common/rng.h: for all begins and ends of a call, and all carries of the counter.
 */
#include "../../src/kernels/kernels.h"
#include "../../src/common/rng.h"
#include "../support/support.h"

enum { LONGEST = 700, AROUND = 150 };

static const struct {
    uint32_t counter[4], key[2], words[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static uint64_t joined(const uint32_t halves[2])
{
    return (uint64_t)halves[1] << 32 | halves[0];
}

TEST(known_answers)
{
    uint32_t words[4];

    for (size_t i = 0; i < COUNT(known); i++) {
        at = (place){.i = i};
        tlc_philox_words(joined(known[i].key), joined(known[i].counter + 2), joined(known[i].counter), words);
        require(memcmp(words, known[i].words, sizeof words) == 0);
    }
}

/* A call of the kernel. The words around its output must stay as they were. */
static void check_call(const tlc_kernels *k, uint64_t seed, uint64_t step, uint64_t first, size_t n)
{
    static uint32_t out[LONGEST + 2];
    uint32_t words[4];

    at = (place){.isa = k->isa, .n = n, .i = (size_t)first};
    for (size_t i = 0; i < n + 2; i++)
        out[i] = 0x5a5a5a5a;
    k->philox(seed, step, first, n, out + 1);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || (first + i) % 4 == 0)
            tlc_philox_words(seed, step, (first + i) / 4, words);
        require(out[1 + i] == words[(first + i) % 4]);
    }
    require(out[0] == 0x5a5a5a5a && out[n + 1] == 0x5a5a5a5a);
}

/* At the start, where the lowest word of the counter carries, where two do, and past the last element. */
TEST(kernels)
{
    static const uint64_t border[] = {AROUND, (uint64_t)1 << 34, (uint64_t)3 << 34, (uint64_t)1 << 63, 0};
    static const size_t n[] = {1, 2, 3, 4, 5, 31, 32, 33, 64, 127, 128, 129, 130, LONGEST};

    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++)
        if (tlc_isa_supported(isa))
            for (size_t b = 0; b < COUNT(border); b++)
                for (uint64_t i = 0; i < 2 * AROUND; i++) {
                    uint64_t first = border[b] - AROUND + i;
                    check_call(tlc_kernels_for(isa), 0x243f6a8885a308d3 * i, ~(uint64_t)0 >> i % 64, first,
                               n[i % COUNT(n)]);
                    check_call(tlc_kernels_for(isa), i, i << 32, first, (size_t)i);
                }
}

TEST(fractions)
{
    require(tlc_uniform(0) == 0 && tlc_uniform(255) == 0);
    require(tlc_uniform(256) == 0x1p-24f && tlc_uniform(0x80000000) == 0.5f);
    require(tlc_uniform(~0u) == 1 - 0x1p-24f);
}

SETUP(print_isas)
