/* SPDX-License-Identifier: MIT
 *
 * Whether the compiler kept the float rules. Most flags that change float results are refused or switched off by
 * float_rules.h, but clang's -ffp-contract=fast cannot be, and older compilers tell less. So the kernels that round
 * compute a few values, before any of them is used, and digests of the results are compared with the right ones: those
 * of IEEE 754 arithmetic.
 */
#include "../common/built.h"
#include "kernels.h"

enum { LEN = 17, VALUES = 5 * LEN, FRAMES = 3, SPECIAL = 8 }; /* vectors of all ISAs, and a tail */

#define PRIME UINT64_C(0x100000001b3) /* of FNV-1a */

typedef struct inputs {
    float g[VALUES], r[VALUES], max;
    uint32_t words[VALUES];
} inputs;

static void fold(uint64_t *digest, const void *results, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        uint32_t word;
        memcpy(&word, (const uint8_t *)results + i * sizeof word, sizeof word);
        *digest = (*digest ^ word) * PRIME;
    }
}

static void fold_bytes(uint64_t *digest, const void *results, size_t size)
{
    for (size_t i = 0; i < size; i++)
        *digest = (*digest ^ ((const uint8_t *)results)[i]) * PRIME;
}

/* Values of magnitudes from 2^-6 to 2^2, and a word for each. */
static inputs draw(void)
{
    inputs in = {.max = 4.0f};
    uint32_t state = 1;

    for (size_t i = 0; i < VALUES; i++) {
        uint32_t bits[3];
        for (size_t j = 0; j < 3; j++) {
            state = state * 1664525u + 1013904223u;
            bits[j] = state ^ state >> 15;
        }
        in.g[i] = tlc_bits_float((bits[0] & 0x807fffffu) | (121u + (bits[0] >> 23 & 7u)) << 23);
        in.r[i] = tlc_bits_float((bits[1] & 0x807fffffu) | (121u + (bits[1] >> 23 & 7u)) << 23);
        in.words[i] = bits[2];
    }
    return in;
}

/* ---- quantizers, and what they leave in the residual ------------------------------------------------------------ */

static void accumulate(const tlc_kernels *k, const inputs *in, uint64_t *digest)
{
    float r[VALUES];

    memcpy(r, in->r, sizeof r);
    k->accumulate(r, in->g, VALUES);
    fold(digest, r, VALUES);
}

static void ternary_encode(const tlc_kernels *k, const inputs *in, uint64_t *digest)
{
    float r[VALUES];
    int8_t q[VALUES];

    memcpy(r, in->r, sizeof r);
    k->ternary_encode(in->g, r, VALUES, 1.3f, q);
    fold(digest, r, VALUES);
    fold_bytes(digest, q, VALUES);
}

static void onebit(const tlc_kernels *k, const inputs *in, uint64_t *digest)
{
    const float mean[2] = {0.7f, -0.3f};
    float r[VALUES];
    uint8_t bits[(VALUES + 7) / 8];
    double sums[2];
    uint32_t count;

    memcpy(r, in->r, sizeof r);
    k->onebit_encode(in->g, r, VALUES, mean, bits);
    fold(digest, r, VALUES);
    fold_bytes(digest, bits, sizeof bits);
    (void)k->side_sums(in->g, in->r, VALUES, sums, &count);
    for (size_t i = 0; i < 2; i++) {
        uint64_t number;
        memcpy(&number, &sums[i], sizeof number);
        *digest = (*digest ^ number ^ count) * PRIME;
    }
}

static void stochastic(const tlc_kernels *k, const inputs *in, uint64_t *digest)
{
    int8_t q[VALUES];

    k->stochastic_encode(in->g, in->words, VALUES, in->max, q);
    fold_bytes(digest, q, VALUES);
}

static void levels(const tlc_kernels *k, const inputs *in, uint64_t *digest)
{
    float out[VALUES];
    int8_t q[VALUES];

    for (int random = 0; random < 2; random++) {
        k->levels_encode(in->g, random ? in->words : NULL, VALUES, in->max - 0.1f, 127.0f, q);
        fold_bytes(digest, q, VALUES);
        k->levels_decode(q, VALUES, in->max - 0.1f, 127.0f, out);
        fold(digest, out, VALUES);
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Values to add to and to add: -0, infinities, NaNs, subnormals. */
static const uint32_t special[2][SPECIAL] = {{0x80000000, 0x00000000, 0xff800000, 0xff800000, 0x7fc12345, 0x80000003,
                                              0x00000003, 0x7f812345},
                                             {0x80000000, 0x80000000, 0x7f800000, 0xff800000, 0x3f800000, 0x00000001,
                                              0x00400001, 0x3f800000}};

static void set_sum(const inputs *in, float *sum)
{
    memcpy(sum, in->r, VALUES * sizeof *sum);
    for (size_t i = SPECIAL; i + SPECIAL <= VALUES; i += 2 * SPECIAL)
        memcpy(sum + i, special[0], sizeof special[0]);
}

static void add_values(const tlc_kernels *k, const inputs *in, uint64_t *digest)
{
    float sum[VALUES], v[VALUES];

    for (int skip = 0; skip < 2; skip++) {
        memcpy(v, in->g, sizeof v);
        memcpy(v + SPECIAL, special[1], sizeof special[1]);
        set_sum(in, sum);
        k->values_add(v, VALUES, 0.3f, skip, sum);
        fold(digest, sum, VALUES);
    }
}

static void add_members(const tlc_kernels *k, const inputs *in, uint64_t *digest)
{
    const uint64_t mask[(VALUES + 63) / 64] = {UINT64_C(0x123456789abcdef1), 0x6dcb9};
    float sum[VALUES];

    set_sum(in, sum);
    (void)k->expand_add(mask, VALUES, in->g, VALUES, 0.3f, sum);
    fold(digest, sum, VALUES);
}

static void add_symbols(const tlc_kernels *k, const inputs *in, uint64_t *digest)
{
    float sum[VALUES];
    int8_t q[VALUES];

    for (size_t i = 0; i < VALUES; i++)
        q[i] = (int8_t)(in->words[i] % 3) - 1;
    set_sum(in, sum);
    k->ternary_add(q, VALUES, 0.3f, sum);
    fold(digest, sum, VALUES);
}

static void add_quartic(const tlc_kernels *k, const inputs *in, uint64_t *digest)
{
    const float weights[FRAMES] = {0.1f, 0.7f, -1.3f};
    const uint8_t *frames[FRAMES];
    uint8_t quartic[FRAMES * LEN];
    float sum[VALUES], *streams[5];

    for (size_t i = 0; i < sizeof quartic; i++)
        quartic[i] = (uint8_t)(in->words[i] % (TLC_QUARTIC_MAX + 1));
    for (size_t f = 0; f < FRAMES; f++)
        frames[f] = quartic + f * LEN;
    for (size_t s = 0; s < 5; s++)
        streams[s] = sum + s * LEN;
    set_sum(in, sum);
    k->quartic_ternary_add(quartic, LEN, 0.3f, streams);
    fold(digest, sum, VALUES);
    set_sum(in, sum);
    k->quartic_ternary_add_many(frames, weights, FRAMES, LEN, streams);
    fold(digest, sum, VALUES);
}

/* right: the digest, of all ISAs and machines. */
static const struct {
    void (*compute)(const tlc_kernels *k, const inputs *in, uint64_t *digest);
    uint64_t right;
} parts[] = {
    {accumulate, UINT64_C(0x9ffd815851250d98)},
    {add_values, UINT64_C(0xdd87ead9c0cecc32)},
    {TLC_IF_BUILT(TLC_WITH_SYMBOLS, ternary_encode), UINT64_C(0xcf3b7e1fdc355e36)},
    {TLC_IF_BUILT(TLC_WITH_SYMBOLS, add_symbols), UINT64_C(0xb08042f53bedf80a)},
    {TLC_IF_BUILT(TLC_WITH_QUARTIC, add_quartic), UINT64_C(0x5827a3f07d7abaa4)},
    {TLC_IF_BUILT(TLC_WITH_ONEBIT, onebit), UINT64_C(0x8bd5549412d76110)},
    {TLC_IF_BUILT(TLC_WITH_STOCHASTIC_TERNARY, stochastic), UINT64_C(0xd616bcbd42385577)},
    {TLC_IF_BUILT(TLC_WITH_LEVELS, levels), UINT64_C(0xda1f057209cb13be)},
    {TLC_IF_BUILT(TLC_WITH_MEMBERS, add_members), UINT64_C(0x6a1723fffd50317f)},
};

int tlc_self_test(const tlc_kernels *kernels)
{
    const tlc_kernels *volatile k = kernels; /* hides from link-time optimisation which kernels these are */
    tlc_float_mode mode = tlc_float_enter();
    const inputs in = draw();
    int right = 1;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        uint64_t digest = 0;
        if (!parts[i].compute)
            continue;
        parts[i].compute(k, &in, &digest);
        right &= digest == parts[i].right;
    }
    tlc_float_leave(mode);
    return right;
}
