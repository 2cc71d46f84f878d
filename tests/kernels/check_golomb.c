/* SPDX-License-Identifier: MIT
 *
 * The kernels of golomb_<isa>.c: operands, inputs and calls.
 */
#include "check.h"

static const char *const golomb_kinds[] = {"codes", "long quotients", "ones", "zeros", "empty lanes"};
enum { CODES, LONG, ONES, ZEROS, EMPTY };

/* The random bits of Golomb codes look like any random bits. */
static uint8_t some_byte(int kind)
{
    switch (kind) {
    case ONES: return 255;
    case ZEROS: return 0;
    case LONG: return rng() & 3 ? 255 : (uint8_t)rng();
    default: return (uint8_t)rng();
    }
}

/* Lanes that begin and end at any bit; the last one ends 8 bytes before the end of the stream. */
static int fill_golomb_skip(check_args *a, int kind)
{
    const size_t bits = a->n < 8 ? 0 : 8 * (a->n - 8);
    uint8_t *stream = a->p[0];
    uint64_t *lane = a->p[1], *end = a->p[2];

    for (size_t i = 0; i < a->n; i++)
        stream[i] = some_byte(kind);
    a->shift = kind == KIND_BENCH ? 4 : (int)rng_below(21); /* b */
    a->cut = kind == KIND_BENCH || rng() & 1;               /* signs */
    a->size[1] = TLC_GOLOMB_LANES * sizeof(tlc_golomb_run);
    a->size[2] = TLC_GOLOMB_LANES * sizeof *end;
    a->size[3] = a->size[1];
    for (size_t i = 0; i < TLC_GOLOMB_LANES; i++) {
        end[i] = bits * (i + 1) / TLC_GOLOMB_LANES;
        lane[3 * i] = bits * i / TLC_GOLOMB_LANES;
        if (kind != KIND_BENCH && i + 1 < TLC_GOLOMB_LANES) {
            end[i] = rng_below(bits + 1);
            lane[3 * i] = kind == EMPTY && rng() & 1 ? end[i] + rng_below(100) : rng_below((size_t)end[i] + 1);
        }
        lane[3 * i + 1] = rng_below(1000);
        lane[3 * i + 2] = rng_below(1000);
    }
    return 1;
}

static check_result call_golomb_skip(const tlc_kernels *k, const check_args *a)
{
    const tlc_golomb_codes codes = {a->p[0], a->n, (unsigned)a->shift, (unsigned)a->cut};

    memcpy(a->p[3], a->p[1], a->size[1]);
    k->golomb_skip(&codes, a->p[3], a->p[2]);
    return NOTHING;
}

/* From any bit of the stream on, as many codes as there is room for. */
static int fill_golomb_read(check_args *a, int kind)
{
    uint64_t *run = a->p[1];

    (void)fill_golomb_skip(a, kind);
    run[0] = kind == KIND_BENCH ? 0 : rng_below(8 * a->n + 1);
    a->tokens = kind == KIND_BENCH ? a->n / 4 : rng_below(a->n / 4 + 1);
    a->size[1] = sizeof(tlc_golomb_run);
    a->size[2] = a->tokens * sizeof(size_t);
    a->size[3] = a->tokens;
    return 1;
}

/* What comes after the codes that were read may be anything. */
static check_result call_golomb_read(const tlc_kernels *k, const check_args *a)
{
    const tlc_golomb_codes codes = {a->p[0], a->n, (unsigned)a->shift, (unsigned)a->cut};
    uint8_t *negative = a->cut ? a->p[3] : NULL;
    size_t *index = a->p[2], count;
    tlc_golomb_run run;

    memcpy(&run, a->p[1], sizeof run);
    count = k->golomb_read(&codes, &run, index, negative, a->tokens);
    memset(index + count, 0, (a->tokens - count) * sizeof *index);
    if (negative)
        memset(negative + count, 0, a->tokens - count);
    return (check_result){{run.bit, run.next + 3 * run.count + 5 * count}};
}

/* clang-format off */
const check_kernel check_golomb_kernels[] = {
    {OF(golomb_skip), {{"stream", BYTE, IN, 1}, {"from", MASK, IN, 1}, {"end", MASK, IN, 1}, {"lanes", MASK, OUT, 1}},
     BYTE_SIDE, golomb_kinds, COUNT(golomb_kinds), fill_golomb_skip, call_golomb_skip, NULL},
    {OF(golomb_read), {{"stream", BYTE, IN, 1}, {"run", MASK, IN, 1}, {"index", MASK, OUT, 1},
     {"negative", BYTE, OUT, 1}}, BYTE_SIDE, golomb_kinds, COUNT(golomb_kinds), fill_golomb_read, call_golomb_read,
     NULL},
    {0},
};
/* clang-format on */
