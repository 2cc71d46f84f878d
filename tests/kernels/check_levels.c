/* SPDX-License-Identifier: MIT
 *
 * The kernels of random words, levels, powers of two and random ternary symbols: operands, inputs and calls.
 * The random words are those at which a result changes, and their neighbours.
 */
#include "check.h"

#define SIGN 0x80000000u

/* ---- random words ---- */

static const char *const philox_kinds[] = {"any first", "small first", "low counter word overflows", "first overflows"};

static int fill_philox(check_args *a, int kind)
{
    uint64_t before = rng_below(4 * a->n + 300);

    for (int i = 0; i < 3; i++)
        a->philox[i] = rng_below(4) ? rng() : rng() & 1 ? UINT64_MAX : 0;
    if (kind == 1)
        a->philox[2] = rng_below(200);
    if (kind == 2) /* blocks of four words */
        a->philox[2] = ((uint64_t)1 << 34) * (1 + rng_below(3)) - before;
    if (kind == 3)
        a->philox[2] = 0 - before;
    if (kind == KIND_BENCH)
        a->philox[2] = 0;
    return 1;
}

CALL(philox, philox(a->philox[0], a->philox[1], a->philox[2], a->n, a->p[0]))

/* ---- values within a maximum ---- */

static const char *const level_kinds[] = {"Laplace",        "halves and whole numbers",
                                          "all magnitudes", "subnormal max",
                                          "largest max",    "zeros"};
enum { LAPLACE, HALVES, MAGNITUDES, SUBNORMAL, LARGEST, ZEROS };

static uint32_t any_sign(uint32_t magnitude)
{
    return magnitude | ((uint32_t)rng() & SIGN);
}

static float choose_max(int kind)
{
    uint32_t bits = 0;

    while (!bits)
        bits = finite_float() & TLC_F32_ABS;
    if (kind == SUBNORMAL)
        bits = rng() & 1 ? 1 + (uint32_t)rng_below(0x7fffff) : 1 + (uint32_t)rng_below(40);
    if (kind == LARGEST)
        bits = TLC_F32_INF - 1 - (uint32_t)rng_below(3);
    if (kind == HALVES && rng_below(4)) /* halves are not exact for every maximum */
        bits = tlc_float_bits(rng() & 1 ? 127.0f : 7.0f) + (((uint32_t)rng_below(200) - 100) << 23);
    return tlc_bits_float(bits);
}

/* max * j / 2K or a neighbour. */
static uint32_t near_half(float max, float K)
{
    float x = max * ((float)rng_below((size_t)(2 * K) + 1) / (2 * K));
    uint32_t bits = tlc_float_bits(x);

    switch (rng_below(6)) {
    case 0: return bits + 1;
    case 1: return bits ? bits - 1 : 0;
    default: return bits;
    }
}

/* |x| <= max. For Laplace values max is their largest magnitude. */
static void fill_within(check_args *a, int kind)
{
    uint32_t *x = a->p[0], limit = tlc_float_bits(choose_max(kind));
    float max = tlc_bits_float(limit);

    a->K = rng() & 1 ? 127.0f : 7.0f;
    if (kind == LAPLACE || kind == KIND_BENCH) {
        fill_laplace(x, NULL, a->n);
        limit = tlc_float_bits(0x1p-10f);
        for (size_t i = 0; i < a->n; i++)
            limit = (x[i] & TLC_F32_ABS) > limit ? x[i] & TLC_F32_ABS : limit;
        max = tlc_bits_float(limit);
    } else
        for (size_t i = 0; i < a->n; i++) {
            uint32_t magnitude = kind == HALVES       ? near_half(max, a->K)
                                 : kind == ZEROS      ? 0
                                 : kind == MAGNITUDES ? (uint32_t)(rng() % ((uint64_t)limit + 1))
                                 : rng_below(3)       ? near_half(max, a->K)
                                                      : limit - (uint32_t)rng_below(limit < 9 ? limit + 1 : 9);
            x[i] = any_sign(magnitude <= limit ? magnitude : limit);
        }
    a->scale = max;
}

/* A word whose upper bits are about `upper`, within their range; or any word. */
static uint32_t word_near(double upper, unsigned bits)
{
    double most = (double)(((uint64_t)1 << bits) - 1);
    uint32_t low = (uint32_t)rng() & ((1u << (32 - bits)) - 1);

    if (!rng_below(4))
        return (uint32_t)(rng() >> 32);
    upper += (double)rng_below(3) - 1;
    return (uint32_t)(upper < 0 ? 0 : upper > most ? most : upper) << (32 - bits) | low;
}

static int fill_levels_encode(check_args *a, int kind)
{
    fill_within(a, kind);
    if (kind == KIND_BENCH)
        a->K = 127.0f;
    return 1;
}

static int fill_levels_encode_random(check_args *a, int kind)
{
    const float *x = a->p[0];
    uint32_t *words = a->p[1];

    fill_levels_encode(a, kind);
    for (size_t i = 0; i < a->n; i++) {
        float y = x[i] / a->scale * a->K, floor = (float)(int)y;

        floor -= floor > y ? 1.0f : 0.0f;
        words[i] = kind == KIND_BENCH ? (uint32_t)(rng() >> 32) : word_near((double)(y - floor) * 0x1p24, 24);
    }
    return 1;
}

CALL(levels_encode, levels_encode(a->p[0], NULL, a->n, a->scale, a->K, a->p[1]))
CALL(levels_encode_random, levels_encode(a->p[0], a->p[1], a->n, a->scale, a->K, a->p[2]))

static int fill_stochastic(check_args *a, int kind)
{
    const uint32_t *x = a->p[0];
    uint32_t *words = a->p[1];

    fill_within(a, kind);
    for (size_t i = 0; i < a->n; i++) {
        double u = (double)tlc_bits_float(x[i] & TLC_F32_ABS) / (double)a->scale;
        words[i] = kind == KIND_BENCH ? (uint32_t)(rng() >> 32) : word_near(u * 0x1p24, 24);
    }
    return 1;
}

CALL(stochastic_encode, stochastic_encode(a->p[0], a->p[1], a->n, a->scale, a->p[2]))

/* ---- levels and nibbles in ---- */

static const char *const byte_kinds[] = {"any bytes", "every byte in turn"};

static void fill_bytes(uint8_t *b, size_t n, int kind)
{
    for (size_t i = 0; i < n; i++)
        b[i] = (uint8_t)(kind == 1 ? i : rng() >> 32);
}

static int fill_levels_decode(check_args *a, int kind)
{
    fill_bytes(a->p[0], a->n, kind);
    a->K = rng() & 1 ? 127.0f : 7.0f;
    a->scale = kind == KIND_BENCH ? 0.01f : choose_max((int)rng_below(LARGEST + 1));
    return 1;
}

CALL(levels_decode, levels_decode(a->p[0], a->n, a->scale, a->K, a->p[1]))

static int fill_nibbles_pack(check_args *a, int kind)
{
    fill_bytes(a->p[0], a->n, kind);
    a->size[1] = (a->n + 1) / 2;
    return 1;
}

CALL(nibbles_pack, nibbles_pack(a->p[0], a->n, a->p[1]))

static int fill_nibbles_unpack(check_args *a, int kind)
{
    fill_bytes(a->p[0], a->n, kind);
    a->size[0] = (a->n + 1) / 2;
    return 1;
}

CALL(nibbles_unpack, nibbles_unpack(a->p[0], a->n, a->p[1]))

/* ---- powers of two ---- */

static const char *const natural_kinds[] = {"Laplace", "every exponent", "the ends of the codes",
                                            "subnormals and zeros", "largest and infinities"};
enum { EVERY_EXPONENT = 1, ENDS, SMALLEST, GREATEST };

static uint32_t any_mantissa(void)
{
    static const uint32_t edge[] = {0, 1, 0x3fffff, 0x400000, 0x400001, 0x7ffffe, 0x7fffff};
    return rng() & 1 ? edge[rng_below(COUNT(edge))] : (uint32_t)rng_below(0x800000);
}

static uint32_t natural_value(int kind, int shift)
{
    static const int ends[] = {TLC_NATURAL_LEAST + 127, TLC_NATURAL_MOST + 127, 1, 254};
    int exponent = (int)rng_below(255);

    if (kind == ENDS) {
        exponent = ends[rng_below(COUNT(ends))] + shift - 2 + (int)rng_below(4);
        exponent = exponent < 0 ? 0 : exponent > 254 ? 254 : exponent;
    } else if (kind == SMALLEST)
        exponent = rng_below(3) ? 0 : (int)rng_below(3);
    else if (kind == GREATEST && rng() & 1)
        return TLC_F32_INF - (uint32_t)rng_below(2);
    else if (kind == GREATEST)
        exponent = 254 - (int)rng_below(3);
    if (exponent == 0 && !rng_below(3))
        return (uint32_t)rng_below(3);
    if (exponent == 0 && rng() & 1) /* a leading bit anywhere, then what matters */
        return (0x800000 | any_mantissa()) >> (1 + rng_below(23));
    return (uint32_t)exponent << 23 | any_mantissa();
}

static int fill_natural(check_args *a, int kind)
{
    uint32_t *x = a->p[0];

    a->shift = rng_below(3) == 0 ? 0 : rng() & 1 ? (int)rng_below(118) : 117;
    if (kind == KIND_BENCH)
        a->shift = 0;
    if (kind == LAPLACE || kind == KIND_BENCH) {
        fill_laplace(x, NULL, a->n);
        return 1;
    }
    int sparse = !rng_below(4); /* mostly common values, so that vectors hold few others */
    for (size_t i = 0; i < a->n; i++)
        x[i] = any_sign(sparse && rng_below(60) ? 0x3f800000u | any_mantissa() : natural_value(kind, a->shift));
    return 1;
}

static int fill_natural_random(check_args *a, int kind)
{
    const uint32_t *x = a->p[0];
    uint32_t *words = a->p[1];

    fill_natural(a, kind);
    for (size_t i = 0; i < a->n; i++) {
        uint32_t magnitude = x[i] & TLC_F32_ABS, mantissa = magnitude & 0x7fffff;

        if (magnitude && magnitude < 0x800000 && rng_below(4)) /* else the word for a normal number */
            mantissa = magnitude << (__builtin_clz(magnitude) - 8) & 0x7fffff;
        words[i] = kind == KIND_BENCH ? (uint32_t)(rng() >> 32) : word_near(mantissa, 23);
    }
    return 1;
}

CALL_RESULT(natural_encode, natural_encode(a->p[0], NULL, a->n, a->shift, a->p[1]))
CALL_RESULT(natural_encode_random, natural_encode(a->p[0], a->p[1], a->n, a->shift, a->p[2]))
CALL_RESULT(natural9_encode, natural9_encode(a->p[0], NULL, a->n, a->shift, a->p[1], a->p[2]))
CALL_RESULT(natural9_encode_random, natural9_encode(a->p[0], a->p[1], a->n, a->shift, a->p[2], a->p[3]))

/* Bytes that no encoder writes have no meaning, but all kernels agree on what they make of them. */
static int fill_natural_decode(check_args *a, int kind)
{
    uint8_t *b = a->p[0];

    a->shift = kind == KIND_BENCH ? 0 : (int)rng_below(118);
    fill_bytes(b, a->n, kind);
    for (size_t i = 0; kind != 1 && i < a->n; i++)
        if (!rng_below(8))
            b[i] = rng() & 1 ? 0 : TLC_NATURAL_ZERO;
    return 1;
}

static int fill_natural_add(check_args *a, int kind)
{
    uint32_t *sum = a->p[1];

    a->scale = kind == KIND_BENCH ? 0.5f : tlc_bits_float(finite_float());
    for (size_t i = 0; i < a->n; i++)
        sum[i] = rng() & 3 || kind == KIND_BENCH ? finite_float() : any_float();
    return fill_natural_decode(a, kind);
}

static int fill_natural9_decode(check_args *a, int kind)
{
    fill_bytes(a->p[1], (a->n + 7) / 8, 0);
    return fill_natural_decode(a, kind);
}

CALL(natural_add, natural_add(a->p[0], a->n, a->shift, a->scale, a->p[1]))
CALL(natural_decode, natural_decode(a->p[0], a->n, a->shift, a->p[1]))
CALL(natural9_decode, natural9_decode(a->p[0], a->p[1], a->n, a->shift, a->p[2]))

/* ---- the list ---- */

#define LEVEL_KINDS level_kinds, COUNT(level_kinds)
#define BYTE_KINDS byte_kinds, COUNT(byte_kinds)
#define NATURAL_KINDS natural_kinds, COUNT(natural_kinds)
#define X {"x", F32, IN, 1}
#define WORDS {"words", WORD, IN, 1}

/* clang-format off */
const check_kernel check_level_kernels[] = {
    {OF(philox), {{"out", WORD, OUT, 1}}, 0, philox_kinds, COUNT(philox_kinds), fill_philox, call_philox, NULL},
    {OF(levels_encode), {X, {"q", SYMBOL, OUT, 1}}, 0, LEVEL_KINDS, fill_levels_encode, call_levels_encode, NULL},
    {RANDOM_OF(levels_encode), {X, WORDS, {"q", SYMBOL, OUT, 1}}, 0, LEVEL_KINDS, fill_levels_encode_random,
     call_levels_encode_random, NULL},
    {OF(levels_decode), {{"q", SYMBOL, IN, 1}, {"out", F32, OUT, 1}}, 0, BYTE_KINDS, fill_levels_decode,
     call_levels_decode, NULL},
    {OF(nibbles_pack), {{"q", SYMBOL, IN, 1}, {"out", BYTE, OUT, 1}}, BYTE_SIDE, BYTE_KINDS, fill_nibbles_pack,
     call_nibbles_pack, NULL},
    {OF(nibbles_unpack), {{"in", BYTE, IN, 1}, {"q", SYMBOL, OUT, 1}}, BYTE_SIDE, BYTE_KINDS, fill_nibbles_unpack,
     call_nibbles_unpack, NULL},
    {OF(natural_encode), {X, {"out", BYTE, OUT, 1}}, 0, NATURAL_KINDS, fill_natural, call_natural_encode, NULL},
    {RANDOM_OF(natural_encode), {X, WORDS, {"out", BYTE, OUT, 1}}, 0, NATURAL_KINDS, fill_natural_random,
     call_natural_encode_random, NULL},
    {OF(natural_add), {{"in", BYTE, IN, 1}, {"sum", F32, OUT, 1}}, 0, BYTE_KINDS, fill_natural_add,
     call_natural_add, NULL},
    {OF(natural_decode), {{"in", BYTE, IN, 1}, {"out", F32, OUT, 1}}, 0, BYTE_KINDS, fill_natural_decode,
     call_natural_decode, NULL},
    {OF(natural9_encode), {X, {"out", BYTE, OUT, 1}, {"signs", BITS, OUT, 1}}, 0, NATURAL_KINDS, fill_natural,
     call_natural9_encode, NULL},
    {RANDOM_OF(natural9_encode), {X, WORDS, {"out", BYTE, OUT, 1}, {"signs", BITS, OUT, 1}}, 0, NATURAL_KINDS,
     fill_natural_random, call_natural9_encode_random, NULL},
    {OF(natural9_decode), {{"in", BYTE, IN, 1}, {"signs", BITS, IN, 1}, {"out", F32, OUT, 1}}, 0, BYTE_KINDS,
     fill_natural9_decode, call_natural9_decode, NULL},
    {OF(stochastic_encode), {X, WORDS, {"q", SYMBOL, OUT, 1}}, 0, LEVEL_KINDS, fill_stochastic, call_stochastic_encode,
     NULL},
    {0},
};
/* clang-format on */
