/* SPDX-License-Identifier: MIT
 *
 * The kernels of ternary symbols, zero-runs and conversions: operands, inputs and calls.
 */
#include "check.h"

#define STREAM(type, a, at, k) (type)(a)->p[(at) + (k)]
#define FIVE(type, a, at)                                                                                              \
    {STREAM(type, a, at, 0), STREAM(type, a, at, 1), STREAM(type, a, at, 2), STREAM(type, a, at, 3),                   \
     STREAM(type, a, at, 4)}

/* ---- floats in ---- */

static int fill_pair(check_args *a, int kind)
{
    int have = floats_begin(kind, &a->scale);

    if (have)
        floats_fill(a->p[0], a->p[1], a->n);
    return have;
}

CALL_RESULT(absmax, absmax(a->p[0], a->p[1], a->n))
CALL_RESULT(accumulate, accumulate(a->p[0], a->p[1], a->n))
CALL(ternary_encode, ternary_encode(a->p[0], a->p[1], a->n, a->scale, a->p[2]))

static int fill_five_pairs(check_args *a, int kind)
{
    int have = floats_begin(kind, &a->scale);

    for (int k = 0; have && k < 5; k++)
        floats_fill(a->p[k], a->p[5 + k], a->n);
    return have;
}

static check_result call_ternary_quartic_encode(const tlc_kernels *k, const check_args *a)
{
    const float *g[5] = FIVE(const float *, a, 0);
    float *r[5] = FIVE(float *, a, 5);

    k->ternary_quartic_encode(g[0] ? g : NULL, r[0] ? r : NULL, a->n, a->scale, a->p[10]);
    return NOTHING;
}

/* ---- symbols and quartic bytes in ---- */

static const char *const symbol_kinds[] = {"even symbols", "mostly zeros", "zeros", "one non-zero"};
enum { EVEN, SPARSE, ZEROS, SINGLE };

static void fill_symbols(int8_t *q, size_t n, int kind)
{
    size_t one = rng_below(n + 1); /* n: nowhere */

    for (size_t i = 0; i < n; i++) {
        int value = (int)rng_below(3) - 1;
        int shown = kind == EVEN || (kind == SINGLE && i == one) ||
                    ((kind == SPARSE || kind == KIND_BENCH) && !rng_below(40));
        q[i] = (int8_t)(shown ? value : 0);
    }
}

static void fill_quartic(uint8_t *b, size_t n, int kind)
{
    size_t one = rng_below(n + 1);

    for (size_t i = 0; i < n; i++) {
        int other = kind == EVEN || (kind == SINGLE && i == one) ||
                    ((kind == SPARSE || kind == KIND_BENCH) && !rng_below(10));
        b[i] = (uint8_t)(other ? rng_below(TLC_QUARTIC_MAX + 1) : TLC_QUARTIC_ZERO);
    }
}

static float any_scale(void)
{
    static const uint32_t special[] = {0, 1, 0x7fffff, 0x800000, TLC_F32_INF - 1};
    uint32_t bits = rng() & 3 ? finite_float() : special[rng_below(5)];

    return tlc_bits_float(bits ^ ((uint32_t)rng() & ~TLC_F32_ABS));
}

static int fill_ternary(check_args *a, int kind)
{
    a->scale = kind == KIND_BENCH ? 0.01f : any_scale();
    fill_symbols(a->p[0], a->n, kind);
    if (kind != KIND_BENCH)
        fill_sum(a->p[1], a->n);
    return 1;
}

CALL(ternary_decode, ternary_decode(a->p[0], a->n, a->scale, a->p[1]))
CALL(ternary_add, ternary_add(a->p[0], a->n, a->scale, a->p[1]))

static int fill_quartic_encode(check_args *a, int kind)
{
    for (int k = 0; k < 5; k++)
        fill_symbols(a->p[k], a->n, kind);
    return 1;
}

static check_result call_quartic_encode(const tlc_kernels *k, const check_args *a)
{
    const int8_t *q[5] = FIVE(const int8_t *, a, 0);

    k->quartic_encode(q, a->n, a->p[5]);
    return NOTHING;
}

static int fill_quartic_decode(check_args *a, int kind)
{
    fill_quartic(a->p[0], a->n, kind);
    return 1;
}

static check_result call_quartic_decode(const tlc_kernels *k, const check_args *a)
{
    int8_t *q[5] = FIVE(int8_t *, a, 1);

    k->quartic_decode(a->p[0], a->n, q);
    return NOTHING;
}

static int fill_quartic_ternary(check_args *a, int kind)
{
    a->scale = kind == KIND_BENCH ? 0.01f : any_scale();
    fill_quartic(a->p[0], a->n, kind);
    for (int k = 0; kind != KIND_BENCH && k < 5; k++)
        fill_sum(a->p[1 + k], a->n);
    return 1;
}

static check_result call_quartic_ternary_decode(const tlc_kernels *k, const check_args *a)
{
    float *out[5] = FIVE(float *, a, 1);

    k->quartic_ternary_decode(a->p[0], a->n, a->scale, out);
    return NOTHING;
}

static check_result call_quartic_ternary_decode_uncached(const tlc_kernels *k, const check_args *a)
{
    const uint8_t *in = a->p[0];
    float *out[5] = FIVE(float *, a, 1);
    size_t cut = a->n / 3 / 16 * 16;
    tlc_lines lines = {.open = 0};

    if (cut) { /* in two parts */
        k->quartic_ternary_decode_uncached(in, cut, a->scale, out, &lines, 0);
        for (int i = 0; i < 5; i++)
            out[i] += cut;
    }
    k->quartic_ternary_decode_uncached(in + cut, a->n - cut, a->scale, out, &lines, 1);
    return (check_result){{(uint64_t)lines.open}};
}

static check_result call_quartic_ternary_add(const tlc_kernels *k, const check_args *a)
{
    float *sum[5] = FIVE(float *, a, 1);

    k->quartic_ternary_add(a->p[0], a->n, a->scale, sum);
    return NOTHING;
}

/* ---- zero-runs ---- */

static const char *const run_kinds[] = {"short runs", "runs of every length", "multiples of 14", "one run",
                                        "no run",     "one other byte",       "very short runs", "long runs"};
enum { SHORT, EVERY, FOURTEENS, ALL, NONE, ONE_OTHER, VERY_SHORT, LONG };

static uint8_t other_byte(void)
{
    size_t value = rng_below(TLC_QUARTIC_MAX);
    return (uint8_t)(value + (value >= TLC_QUARTIC_ZERO));
}

/* The length of the next run of bytes 121 and of the other bytes after it. */
static size_t next_run(int kind, size_t n, size_t *every, size_t *others)
{
    *others = 1;
    switch (kind) {
    case EVERY: return 1 + (*every)++ % 100;
    case FOURTEENS: return TLC_RUN_MAX * (1 + rng_below(8)) + rng_below(8) / 7 - rng_below(8) / 7;
    case ALL: *others = 0; return n;
    case NONE: *others = n; return 0;
    case ONE_OTHER: return rng_below(n + 1);
    case VERY_SHORT: *others += rng_below(3); return rng_below(3);
    case LONG: *others += rng_below(20); return rng_below(3000);
    case KIND_BENCH: *others += !rng_below(8); return rng_below(20);
    default: *others += rng_below(3) ? 0 : rng_below(8); return rng_below(8) ? rng_below(12) : rng_below(200);
    }
}

static void fill_runs(uint8_t *b, size_t n, int kind)
{
    size_t every = rng_below(100);

    for (size_t at = 0; at < n;) {
        size_t others, run = next_run(kind, n, &every, &others);

        for (; run && at < n; run--)
            b[at++] = TLC_QUARTIC_ZERO;
        for (; others && at < n; others--)
            b[at++] = other_byte();
        if (kind == ONE_OTHER)
            kind = ALL;
    }
}

static size_t some_cut(size_t n)
{
    return rng_below(3) ? 0 : rng_below(n + 1);
}

static int fill_zerorun_encode(check_args *a, int kind)
{
    static const size_t carried[] = {0, 0, 0, 1, 2, 13, 14, 15, 28, 1000};

    fill_runs(a->p[0], a->n, kind);
    a->run = kind == KIND_BENCH ? 0 : carried[rng_below(COUNT(carried))];
    a->cut = kind == KIND_BENCH ? 0 : some_cut(a->n);
    a->size[1] = a->run + a->n;
    return 1;
}

static check_result call_zerorun_encode(const tlc_kernels *k, const check_args *a)
{
    const uint8_t *in = a->p[0];
    uint8_t *out = a->p[1];
    size_t run = a->run, at = 0;

    if (a->cut)
        at = k->zerorun_encode(&run, in, a->cut, out);
    at += k->zerorun_encode(&run, in + a->cut, a->n - a->cut, out + at);
    return (check_result){{at, run}};
}

static const char *const token_kinds[] = {"any bytes", "an encoder's tokens", "runs only", "255 only",
                                          "no runs",   "121 and runs"};
enum { ANY_BYTES, ENCODED, RUNS_ONLY, FULL_ONLY, NO_RUNS, ZEROS_AND_RUNS };

static size_t encoded_tokens(uint8_t *out, size_t n, int kind)
{
    static uint8_t plain[1 << 22];
    size_t run = 0, count;

    n = n < sizeof plain ? n : sizeof plain;
    fill_runs(plain, n, kind);
    count = tlc_zerorun_encode_scalar(&run, plain, n, out);
    return count + tlc_zerorun_flush(run, out + count);
}

static uint8_t some_token(int kind)
{
    switch (kind) {
    case RUNS_ONLY: return (uint8_t)(243 + rng_below(13));
    case FULL_ONLY: return 255;
    case NO_RUNS: return (uint8_t)rng_below(TLC_QUARTIC_MAX + 1);
    case ZEROS_AND_RUNS: return rng() & 1 ? TLC_QUARTIC_ZERO : (uint8_t)(243 + rng_below(13));
    default: return (uint8_t)(rng() & 1 ? rng() : 200 + rng_below(56));
    }
}

/* Tokens for n bytes or a few more. */
static int fill_zerorun_decode(check_args *a, int kind)
{
    uint8_t *tokens = a->p[0];
    size_t count = 0, expanded = 0;

    if (kind == ENCODED || kind == KIND_BENCH) {
        count = encoded_tokens(tokens, a->n, kind == KIND_BENCH ? KIND_BENCH : (int)rng_below(LONG + 1));
        expanded = a->n;
    } else {
        for (; expanded < a->n; count++) {
            tokens[count] = some_token(kind);
            expanded += tokens[count] > TLC_QUARTIC_MAX ? tokens[count] - 241u : 1u;
        }
    }
    a->tokens = count;
    for (size_t i = 0; i < TLC_ZERORUN_ROOM; i++)
        tokens[count++] = some_token(ANY_BYTES);
    a->size[0] = count;
    a->size[1] = expanded + TLC_ZERORUN_ROOM;
    return 1;
}

static check_result call_zerorun_decode(const tlc_kernels *k, const check_args *a)
{
    return (check_result){{k->zerorun_decode(a->p[0], a->tokens, a->p[1]), 0}};
}

static int fill_tokens(check_args *a, int kind)
{
    uint8_t *b = a->p[0];

    for (size_t i = 0; i < a->n; i++)
        b[i] = some_token(kind == ENCODED ? ANY_BYTES : kind);
    return kind != ENCODED;
}

CALL_RESULT(zerorun_size, zerorun_size(a->p[0], a->n))
CALL_RESULT(bytes_max, bytes_max(a->p[0], a->n))

/* The largest byte must be found wherever it is: one in a field of small ones. */
static int fill_bytes_max(check_args *a, int kind)
{
    uint8_t *b = a->p[0];

    if (kind != NONE)
        return fill_tokens(a, kind);
    memset(b, (int)rng_below(4), a->n);
    if (a->n)
        b[rng() & 1 ? a->n - 1 : rng_below(a->n)] = (uint8_t)rng();
    return 1;
}

/* ---- conversions ---- */

static const char *const convert_kinds[] = {"the sweep", "any bits"};
static const char *const narrow_kinds[] = {"the sweep", "any bits", "Laplace"};

static int fill_halfs(check_args *a, int kind)
{
    uint16_t *half = a->p[0];

    for (size_t i = 0; i < a->n; i++)
        half[i] = (uint16_t)(kind == 0 ? a->base + i : kind == KIND_BENCH ? 0x3000 + (rng() & 0x87ff) : rng());
    return 1;
}

static int fill_narrow(check_args *a, int kind)
{
    uint32_t *x = a->p[0];

    if (kind == 2 || kind == KIND_BENCH) {
        fill_laplace(x, NULL, a->n);
        return 1;
    }
    for (size_t i = 0; i < a->n; i++)
        x[i] = kind == 1 ? any_float() : check_opt.exhaustive ? (uint32_t)(a->base + i) : sweep_float(a->base + i);
    return 1;
}

static uint64_t all_halfs(void)
{
    return 65536;
}

static uint64_t many_floats(void)
{
    /* 512 signs and exponents, 92 roundings; 3 passes see each kind of upper part once */
    uint64_t rounds = check_opt.effort == FULL ? 12 : check_opt.effort == QUICK ? 3 : 1;
    return check_opt.exhaustive ? (uint64_t)1 << 32 : 512 * 92 * rounds;
}

CALL(f16_to_f32, f16_to_f32(a->p[0], a->n, a->p[1]))
CALL(f32_to_f16, f32_to_f16(a->p[0], a->n, a->p[1]))
CALL(bf16_to_f32, bf16_to_f32(a->p[0], a->n, a->p[1]))
CALL(f32_to_bf16, f32_to_bf16(a->p[0], a->n, a->p[1]))

/* ---- the list ---- */

#define SYMBOL_KINDS symbol_kinds, COUNT(symbol_kinds)
#define TOKEN_KINDS token_kinds, COUNT(token_kinds)

/* clang-format off */
const check_kernel check_kernel_list[] = {
    {OF(absmax), {{"g", F32, IN | MAYBE, 1}, {"r", F32, IN | MAYBE, 1}}, MAGNITUDE, float_kinds, FLOAT_KINDS_ANY,
     fill_pair, call_absmax, NULL},
    {OF(accumulate), {{"r", F32, OUT, 1}, {"g", F32, IN, 1}}, MAGNITUDE | ANY_NAN, float_kinds, FLOAT_KINDS_ANY,
     fill_pair, call_accumulate, NULL},
    {OF(ternary_encode), {{"g", F32, IN | MAYBE, 1}, {"r", F32, OUT | MAYBE, 1}, {"q", SYMBOL, OUT, 1}}, 0,
     float_kinds, FLOAT_KINDS, fill_pair, call_ternary_encode, NULL},
    {OF(ternary_decode), {{"q", SYMBOL, IN, 1}, {"out", F32, OUT, 1}}, 0, SYMBOL_KINDS, fill_ternary,
     call_ternary_decode, NULL},
    {OF(ternary_add), {{"q", SYMBOL, IN, 1}, {"sum", F32, OUT, 1}}, 0, SYMBOL_KINDS, fill_ternary,
     call_ternary_add, NULL},
    {OF(quartic_encode), {{"q", SYMBOL, IN, 5}, {"out", BYTE, OUT, 1}}, 0, SYMBOL_KINDS, fill_quartic_encode,
     call_quartic_encode, NULL},
    {OF(quartic_decode), {{"in", BYTE, IN, 1}, {"q", SYMBOL, OUT, 5}}, 0, SYMBOL_KINDS, fill_quartic_decode,
     call_quartic_decode, NULL},
    {OF(bytes_max), {{"in", BYTE, IN, 1}}, BYTE_SIDE, TOKEN_KINDS, fill_bytes_max, call_bytes_max, NULL},
    {OF(ternary_quartic_encode), {{"g", F32, IN | MAYBE, 5}, {"r", F32, OUT | MAYBE, 5}, {"out", BYTE, OUT, 1}}, 0,
     float_kinds, FLOAT_KINDS, fill_five_pairs, call_ternary_quartic_encode, NULL},
    {OF(quartic_ternary_decode), {{"in", BYTE, IN, 1}, {"out", F32, OUT, 5}}, 0, SYMBOL_KINDS, fill_quartic_ternary,
     call_quartic_ternary_decode, NULL},
    {OF(quartic_ternary_decode_uncached), {{"in", BYTE, IN, 1}, {"out", F32, OUT, 5}}, 0, SYMBOL_KINDS,
     fill_quartic_ternary, call_quartic_ternary_decode_uncached, NULL},
    {OF(quartic_ternary_add), {{"in", BYTE, IN, 1}, {"sum", F32, OUT, 5}}, 0, SYMBOL_KINDS, fill_quartic_ternary,
     call_quartic_ternary_add, NULL},
    {OF(zerorun_encode), {{"in", BYTE, IN, 1}, {"out", BYTE, OUT | PREFIX, 1}}, BYTE_SIDE, run_kinds, COUNT(run_kinds),
     fill_zerorun_encode, call_zerorun_encode, NULL},
    {OF(zerorun_decode), {{"in", BYTE, IN, 1}, {"out", BYTE, OUT | PREFIX, 1}}, BYTE_SIDE, TOKEN_KINDS,
     fill_zerorun_decode, call_zerorun_decode, NULL},
    {OF(zerorun_size), {{"in", BYTE, IN, 1}}, BYTE_SIDE, TOKEN_KINDS, fill_tokens, call_zerorun_size, NULL},
    {OF(f16_to_f32), {{"in", HALF, IN, 1}, {"out", F32, OUT, 1}}, 0, convert_kinds, COUNT(convert_kinds), fill_halfs,
     call_f16_to_f32, all_halfs},
    {OF(f32_to_f16), {{"in", F32, IN, 1}, {"out", HALF, OUT, 1}}, 0, narrow_kinds, COUNT(narrow_kinds), fill_narrow,
     call_f32_to_f16, many_floats},
    {OF(bf16_to_f32), {{"in", HALF, IN, 1}, {"out", F32, OUT, 1}}, 0, convert_kinds, COUNT(convert_kinds), fill_halfs,
     call_bf16_to_f32, all_halfs},
    {OF(f32_to_bf16), {{"in", F32, IN, 1}, {"out", HALF, OUT, 1}}, 0, narrow_kinds, COUNT(narrow_kinds), fill_narrow,
     call_f32_to_bf16, many_floats},
    {0},
};
/* clang-format on */

const char *const kernel_names[] = {
#define KERNEL(returns, name, parameters, avx2, avx512, neon) #name,
#include "../../src/kernels/kernel_list.h"
};

int same_kernel(const tlc_kernels *a, const tlc_kernels *b, kernel_id kernel)
{
    switch (kernel) {
        /* clang-format off */
#define KERNEL(returns, name, parameters, avx2, avx512, neon)                                                          \
    case KERNEL_##name:                                                                                                \
        return a->name == b->name;
#include "../../src/kernels/kernel_list.h"
        /* clang-format on */
    default: return 0;
    }
}

const check_kernel *check_kernel_at(size_t index)
{
    static const check_kernel *const lists[] = {check_kernel_list,    check_level_kernels, check_mask_kernels,
                                                check_golomb_kernels, check_byte_kernels,  check_delta_kernels};

    for (int i = 0; i < COUNT(lists); i++)
        for (const check_kernel *kernel = lists[i]; kernel->name; kernel++)
            if (index-- == 0)
                return kernel;
    return NULL;
}
