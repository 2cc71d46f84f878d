/* SPDX-License-Identifier: MIT
 *
 * The kernels of masks_<isa>.c, onebit_<isa>.c and values_<isa>.c: operands, inputs and calls.
 */
#include "check.h"

#define SIGN (~TLC_F32_ABS)

/* ---- masks ---- */

static const char *const symbol_kinds[] = {"even symbols", "mostly zeros", "zeros", "no zeros", "one non-zero"};
enum { EVEN, SPARSE, ZEROS, FULL_OF, SINGLE };

static int fill_symbols(check_args *a, int kind)
{
    int8_t *q = a->p[0];
    size_t one = rng_below(a->n + 1); /* n: nowhere */

    for (size_t i = 0; i < a->n; i++) {
        int other = (kind == EVEN && rng_below(3)) || kind == FULL_OF || (kind == SINGLE && i == one) ||
                    ((kind == SPARSE || kind == KIND_BENCH) && !rng_below(60));
        q[i] = (int8_t)(!other ? 0 : rng() & 1 ? 1 : -1);
    }
    return 1;
}

CALL_RESULT(symbol_masks, symbol_masks(a->p[0], a->n, a->p[1], a->p[2]))

static const char *const threshold_kinds[] = {"magnitudes", "positive", "negative", "any comparison"};
enum { TOP, POSITIVE, NEGATIVE, ANY };

/* Half of the values lie about the threshold, on both sides of zero. */
static int fill_threshold(check_args *a, int kind)
{
    static const uint32_t special[] = {1, 2, 0x7fffff, 0x800000, TLC_F32_INF - 1, TLC_F32_INF, TLC_F32_INF + 1};
    uint32_t *x = a->p[0], least = rng() & 3 ? any_float() & TLC_F32_ABS : special[rng_below(COUNT(special))];

    a->flip = kind == NEGATIVE ? SIGN : kind == ANY ? (uint32_t)rng() : 0;
    a->keep = kind == TOP ? TLC_F32_ABS : kind == ANY ? (uint32_t)rng() : ~0u;
    a->least = (int32_t)(least ? least : 1);
    if (kind == ANY)
        a->least = rng() & 3 ? (int32_t)(rng() & 0xffffffff) : rng() & 1 ? INT32_MAX : INT32_MIN;
    if (kind == KIND_BENCH) {
        a->keep = TLC_F32_ABS;
        a->least = (int32_t)tlc_float_bits(4.6f); /* one in a hundred */
        fill_laplace(x, NULL, a->n);
        return 1;
    }
    for (size_t i = 0; i < a->n; i++) {
        uint32_t near = ((uint32_t)a->least + (uint32_t)rng_below(3) - 1) ^ a->flip ^ (rng() & 3 ? 0 : SIGN);
        x[i] = rng() & 1 ? near : any_float();
    }
    return 1;
}

CALL_RESULT(threshold_mask, threshold_mask(a->p[0], a->n, a->flip, a->keep, a->least, a->p[1]))

/* What comes after the values that were taken may be anything. */
static check_result call_threshold_values(const tlc_kernels *k, const check_args *a)
{
    float *out = a->p[1];
    size_t count = k->threshold_values(a->p[0], a->n, a->flip, a->keep, a->least, out);

    memset(out + count, 0, (a->n - count) * sizeof *out);
    return RESULT(count);
}

static const char *const random_kinds[] = {"any limit", "none", "limit 1", "all"};
static const uint32_t random_limits[] = {0, 0, 1, 1u << 24}; /* by kind; the first is not used */

/* Half of the words lie about the limit, and a quarter of the values are zeros. */
static int fill_random(check_args *a, int kind)
{
    uint32_t *x = a->p[0], *words = a->p[1];

    /* cppcheck-suppress arrayIndexOutOfBoundsCond ; there are as many kinds as limits */
    a->limit = kind > 0 ? random_limits[kind] : (uint32_t)rng_below((1u << 24) + 1);
    if (kind == KIND_BENCH) {
        a->limit = (1u << 24) / 100;
        fill_laplace(x, NULL, a->n);
    }
    for (size_t i = 0; i < a->n; i++) {
        uint32_t near = (a->limit + (uint32_t)rng_below(3) - 1) << 8 | (uint32_t)rng_below(256);

        words[i] = kind != KIND_BENCH && rng() & 1 ? near : (uint32_t)rng();
        if (kind != KIND_BENCH)
            x[i] = rng() & 3 ? any_float() : (uint32_t)rng() & SIGN;
    }
    return 1;
}

CALL_RESULT(random_mask, random_mask(a->p[0], a->p[1], a->n, a->limit, a->p[2]))

/* ---- one bit ---- */

/* Those of float_kinds, and values whose sums are rounded at almost every step, so that the order shows. */
static const char *const sum_kinds[] = {"Laplace",   "all magnitudes", "ties",         "subnormal M",
                                        "largest M", "zeros",          "one non-zero", "real values",
                                        "any bits",  "one not finite", "rounded",      "rounded, on one side"};
enum { ROUNDED = FLOAT_KINDS_ANY, ONE_SIDE };

/* Magnitudes from 2^-spread to 2^spread; signs of the given ones at random. */
static void fill_rounded(uint32_t *x, size_t n, uint32_t spread, uint32_t signs)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t exponent = 127 - spread + (uint32_t)rng_below(2 * spread + 1);
        x[i] = exponent << 23 | ((uint32_t)rng() & (signs | 0x7fffff));
    }
}

static size_t chunks(size_t n)
{
    return n ? (n + TLC_SUM_CHUNK - 1) / TLC_SUM_CHUNK : 1;
}

static int fill_sides(check_args *a, int kind)
{
    uint32_t *g = a->p[0], *r = a->p[1], spread = rng() & 1 ? 60 : 30;
    int have = kind >= ROUNDED || floats_begin(kind, &a->scale);

    a->size[2] = chunks(a->n) * 2 * sizeof(double);
    if (kind >= ROUNDED) {
        fill_rounded(g, a->n, spread, kind == ONE_SIDE ? 0 : SIGN);
        fill_rounded(r, a->n, spread, kind == ONE_SIDE ? 0 : SIGN);
    } else if (have)
        floats_fill(g, r, a->n);
    return have;
}

/* Chunk by chunk. The result of a chunk that is not finite tells nothing else. */
static check_result call_side_sums(const tlc_kernels *k, const check_args *a)
{
    const float *g = a->p[0], *r = a->p[1];
    uint64_t max = 0, upper = 0;

    for (size_t chunk = 0; chunk < chunks(a->n); chunk++) {
        size_t at = chunk * TLC_SUM_CHUNK, n = a->n - at < TLC_SUM_CHUNK ? a->n - at : TLC_SUM_CHUNK;
        double *sums = (double *)a->p[2] + 2 * chunk;
        uint32_t count, magnitude = k->side_sums(g ? g + at : NULL, r ? r + at : NULL, n, sums, &count);

        if (magnitude >= TLC_F32_INF) {
            magnitude = TLC_F32_INF;
            sums[0] = sums[1] = 0;
        }
        max = magnitude > max ? magnitude : max;
        upper += count;
    }
    return (check_result){{max, upper}};
}

/* Mostly means that the sides can have, sometimes anything finite. */
static void fill_means(check_args *a, float unit)
{
    a->mean[0] = unit * (float)rng_below(65) / 64;
    a->mean[1] = -unit * (float)rng_below(65) / 64;
    for (int i = 0; i < 2; i++)
        if (!(rng() & 3))
            a->mean[i] = tlc_bits_float(finite_float());
}

static int fill_onebit_encode(check_args *a, int kind)
{
    int have = floats_begin(kind, &a->scale);

    if (have)
        floats_fill(a->p[0], a->p[1], a->n);
    fill_means(a, 0.5f * a->scale);
    return have;
}

CALL(onebit_encode, onebit_encode(a->p[0], a->p[1], a->n, a->mean, a->p[2]))

static const char *const bit_kinds[] = {"even bits", "infinite means", "zeros", "ones"};
enum { EVEN_BITS, INFINITE, ZERO_BITS, ONE_BITS };

/* Bits beyond the values are random: they do not count. */
static int fill_bits(check_args *a, int kind)
{
    uint8_t *bits = a->p[0];

    for (size_t i = 0; i < a->size[0]; i++)
        bits[i] = (uint8_t)(kind == ZERO_BITS ? 0 : kind == ONE_BITS ? 255 : rng());
    if (kind == KIND_BENCH) {
        a->mean[0] = 0.01f;
        a->mean[1] = -0.01f;
        return 1;
    }
    fill_means(a, tlc_bits_float(finite_float()));
    if (kind == INFINITE)
        a->mean[rng() & 1] = tlc_bits_float(TLC_F32_INF | ((uint32_t)rng() & SIGN));
    fill_sum(a->p[1], a->n);
    return 1;
}

CALL(onebit_decode, onebit_decode(a->p[0], a->n, a->mean, a->p[1]))
CALL(onebit_add, onebit_add(a->p[0], a->n, a->mean, a->p[1]))

/* ---- bytes and values ---- */

static const char *const count_ones_kinds[] = {"any bytes"};

static int fill_count_ones(check_args *a, int kind)
{
    uint8_t *bits = a->p[0];

    (void)kind;
    for (size_t i = 0; i < a->n; i++)
        bits[i] = (uint8_t)rng();
    return 1;
}

CALL_RESULT(count_ones, count_ones(a->p[0], a->n))

static const char *const expand_kinds[] = {"even bits", "mostly 0", "0", "1", "mostly 1"};

/* Values of any bits, exactly as many as wanted or more, at any address. Bits beyond n are random. */
static int fill_expand(check_args *a, int kind)
{
    uint64_t *mask = a->p[0];
    uint32_t *values = a->p[1];
    size_t words = a->size[0] / sizeof *mask;

    a->tokens = kind != KIND_BENCH && rng() & 1 ? rng_below(200) : 0; /* more than wanted */
    for (size_t i = 0; i < words; i++) {
        /* NOLINTNEXTLINE(misc-redundant-expression): another number each time */
        uint64_t few = rng() & rng() & rng() & rng();
        mask[i] = kind == 0 ? rng() : kind == 2 ? 0 : kind == 3 ? UINT64_MAX : kind == 4 ? ~few : few;
        a->tokens += (size_t)__builtin_popcountll(mask[i]);
    }
    if (a->n % 64)
        a->tokens -= (size_t)__builtin_popcountll(mask[words - 1] >> a->n % 64);
    for (size_t i = 0; i <= a->tokens; i++)
        values[i] = (uint32_t)rng();
    a->shift = (int)rng_below(4);
    a->size[1] = a->tokens * sizeof *values + (size_t)a->shift;
    return 1;
}

CALL_RESULT(expand, expand(a->p[0], a->n, (const uint8_t *)a->p[1] + a->shift, a->tokens, a->p[2]))

static const char *const expand_add_kinds[] = {"even bits", "mostly 0", "0", "1", "mostly 1", "large weight"};

/* Values are finite, sums anything. */
static int fill_expand_add(check_args *a, int kind)
{
    uint32_t *values = a->p[1], *sum = a->p[2];

    (void)fill_expand(a, kind == COUNT(expand_kinds) ? 0 : kind);
    a->scale = kind == KIND_BENCH ? 0.5f : kind == COUNT(expand_kinds) ? -3e38f : tlc_bits_float(finite_float());
    for (size_t i = 0; i < a->tokens; i++) {
        uint32_t value = finite_float();
        memcpy((uint8_t *)values + a->shift + 4 * i, &value, sizeof value);
    }
    for (size_t i = 0; i < a->n; i++)
        sum[i] = kind == KIND_BENCH || rng() & 3 ? finite_float() : any_float();
    return 1;
}

CALL_RESULT(expand_add, expand_add(a->p[0], a->n, (const uint8_t *)a->p[1] + a->shift, a->tokens, a->scale, a->p[2]))

/* Values and bits beyond n are random. */
static int fill_compact(check_args *a, int kind)
{
    uint32_t *x = a->p[0], *out = a->p[2];
    uint64_t *mask = a->p[1];

    for (size_t i = 0; i < a->size[1] / sizeof *mask; i++) {
        /* NOLINTNEXTLINE(misc-redundant-expression): another number each time */
        uint64_t few = rng() & rng() & rng() & rng();
        mask[i] = kind == 0 ? rng() : kind == 2 ? 0 : kind == 3 ? UINT64_MAX : kind == 4 ? ~few : few;
    }
    for (size_t i = 0; i < a->n; i++) {
        x[i] = any_float();
        out[i] = (uint32_t)rng();
    }
    return 1;
}

CALL_RESULT(compact, compact(a->p[0], a->p[1], a->n, a->p[2]))

static const char *const value_kinds[] = {"some zeros", "zeros are added too", "large weight"};
enum { SKIP, ADD_ALL, LARGE };

/* Values are finite, sums anything. */
static int fill_values(check_args *a, int kind)
{
    uint32_t *v = a->p[0], *sum = a->p[1];

    a->scale = kind == KIND_BENCH ? 0.5f : kind == LARGE ? -3e38f : tlc_bits_float(finite_float());
    a->run = kind != ADD_ALL; /* skip */
    for (size_t i = 0; i < a->n; i++) {
        v[i] = rng() & 3 ? finite_float() : (uint32_t)rng() & SIGN;
        sum[i] = rng() & 3 ? finite_float() : any_float();
    }
    if (kind == KIND_BENCH)
        fill_laplace(v, sum, a->n);
    return 1;
}

CALL(values_add, values_add(a->p[0], a->n, a->scale, a->run != 0, a->p[1]))

/* ---- the list ---- */

/* clang-format off */
const check_kernel check_mask_kernels[] = {
    {OF(count_ones), {{"bits", BYTE, IN, 1}}, BYTE_SIDE, count_ones_kinds, COUNT(count_ones_kinds), fill_count_ones,
     call_count_ones, NULL},
    {OF(expand), {{"mask", MASK, IN, 1}, {"values", F32, IN, 1}, {"out", F32, OUT, 1}}, 0, expand_kinds,
     COUNT(expand_kinds), fill_expand, call_expand, NULL},
    {OF(expand_add), {{"mask", MASK, IN, 1}, {"values", F32, IN, 1}, {"sum", F32, OUT, 1}}, 0, expand_add_kinds,
     COUNT(expand_add_kinds), fill_expand_add, call_expand_add, NULL},
    {OF(compact), {{"x", F32, IN, 1}, {"mask", MASK, IN, 1}, {"out", F32, OUT, 1}}, 0, expand_kinds,
     COUNT(expand_kinds), fill_compact, call_compact, NULL},
    {OF(values_add), {{"v", F32, IN, 1}, {"sum", F32, OUT, 1}}, 0, value_kinds, COUNT(value_kinds), fill_values,
     call_values_add, NULL},
    {OF(symbol_masks), {{"q", SYMBOL, IN, 1}, {"nonzero", MASK, OUT, 1}, {"negative", MASK, OUT | MAYBE, 1}}, BYTE_SIDE,
     symbol_kinds, COUNT(symbol_kinds), fill_symbols, call_symbol_masks, NULL},
    {OF(threshold_mask), {{"x", F32, IN, 1}, {"mask", MASK, OUT, 1}}, 0, threshold_kinds, COUNT(threshold_kinds),
     fill_threshold, call_threshold_mask, NULL},
    {OF(threshold_values), {{"x", F32, IN, 1}, {"out", F32, OUT, 1}}, 0, threshold_kinds, COUNT(threshold_kinds),
     fill_threshold, call_threshold_values, NULL},
    {OF(random_mask), {{"x", F32, IN, 1}, {"words", WORD, IN, 1}, {"mask", MASK, OUT, 1}}, 0, random_kinds,
     COUNT(random_kinds), fill_random, call_random_mask, NULL},
    {OF(side_sums), {{"g", F32, IN | MAYBE, 1}, {"r", F32, IN | MAYBE, 1}, {"sums", MASK, OUT, 1}}, 0, sum_kinds,
     COUNT(sum_kinds), fill_sides, call_side_sums, NULL},
    {OF(onebit_encode), {{"g", F32, IN | MAYBE, 1}, {"r", F32, OUT | MAYBE, 1}, {"bits", BITS, OUT, 1}}, 0, float_kinds,
     FLOAT_KINDS, fill_onebit_encode, call_onebit_encode, NULL},
    {OF(onebit_decode), {{"bits", BITS, IN, 1}, {"out", F32, OUT, 1}}, 0, bit_kinds, COUNT(bit_kinds), fill_bits,
     call_onebit_decode, NULL},
    {OF(onebit_add), {{"bits", BITS, IN, 1}, {"sum", F32, OUT, 1}}, 0, bit_kinds, COUNT(bit_kinds), fill_bits,
     call_onebit_add, NULL},
    {0},
};
/* clang-format on */
