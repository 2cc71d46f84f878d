/* SPDX-License-Identifier: MIT
 *
 * The kernels of delta_<isa>.c: operands, inputs and calls.
 */
#include "check.h"

static const char *const delta_kinds[] = {"one step apart", "few differ",  "equal",
                                          "any bits",       "around zero", "extremes"};
enum { STEPS, FEW, EQUAL, ANY, ZEROS, EXTREMES };

/* n units of `width` bits. */
static void fill_units(uint8_t *base, uint8_t *next, size_t n, int kind, unsigned width)
{
    static const uint32_t extremes[] = {0, 1, 0x7f, 0x7fff, 0x8000, 0x8001, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
    const size_t size = width / 8;

    for (size_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)rng(), y = x, steps = (uint32_t)rng_below(7) - 3;

        if (kind == STEPS || ((kind == FEW || kind == KIND_BENCH) && !rng_below(50)))
            y = x + steps;
        else if (kind == ANY)
            y = (uint32_t)rng();
        else if (kind == ZEROS) {
            x = (uint32_t)rng_below(3) | (rng() & 1 ? 1u << (width - 1) : 0);
            y = (uint32_t)rng_below(3) | (rng() & 1 ? 1u << (width - 1) : 0);
        } else if (kind == EXTREMES) {
            const unsigned down = width < 16 ? 16 - width : 0; /* of 16 bits those of the fewer ones */
            x = extremes[rng_below(COUNT(extremes))] >> down;
            y = extremes[rng_below(COUNT(extremes))] >> down;
        }
        uint16_t low_x = (uint16_t)x, low_y = (uint16_t)y;
        uint8_t least_x = (uint8_t)x, least_y = (uint8_t)y;
        memcpy(base + i * size, width == 32 ? (void *)&x : width == 16 ? (void *)&low_x : (void *)&least_x, size);
        memcpy(next + i * size, width == 32 ? (void *)&y : width == 16 ? (void *)&low_y : (void *)&least_y, size);
    }
}

#define FILL(name, width)                                                                                              \
    static int fill_##name(check_args *a, int kind)                                                                    \
    {                                                                                                                  \
        fill_units(a->p[0], a->p[1], a->n, kind, width);                                                               \
        return 1;                                                                                                      \
    }
FILL(delta8, 8)
FILL(delta16, 16)
FILL(delta32, 32)

static int fill_nibbles(check_args *a, int kind)
{
    fill_units(a->p[0], a->p[1], a->n / 2, kind, 8);
    return 1;
}

CALL_RESULT(delta4, delta4(a->p[0], a->p[1], a->n / 2 * 2, a->p[2], a->p[3], a->p[4]))
CALL_RESULT(delta8, delta8(a->p[0], a->p[1], a->n, a->p[2], a->p[3], a->p[4]))
CALL_RESULT(delta16, delta16(a->p[0], a->p[1], a->n, a->p[2], a->p[3], a->p[4]))
CALL_RESULT(delta32, delta32(a->p[0], a->p[1], a->n, a->p[2], a->p[3], a->p[4]))
CALL_RESULT(delta_u8, delta_u8(a->p[0], a->p[1], a->n, a->p[2], a->p[3], a->p[4]))
CALL_RESULT(delta_u4, delta_u4(a->p[0], a->p[1], a->n / 2 * 2, a->p[2], a->p[3], a->p[4]))
CALL_RESULT(delta_u32, delta_u32(a->p[0], a->p[1], a->n, a->p[2], a->p[3], a->p[4]))

/* Masks as delta16 makes them: negative ones are among the changed. */
static void fill_moves(check_args *a, int kind, unsigned width)
{
    uint64_t *changed = a->p[1], *negative = a->p[2];

    fill_units(a->p[0], a->p[0], a->n, kind, width);
    for (size_t i = 0; i < (a->n + 63) / 64; i++) {
        changed[i] = kind == EQUAL ? 0 : kind == FEW || kind == KIND_BENCH ? (uint64_t)1 << rng_below(64) : rng();
        if (i == a->n / 64)
            changed[i] &= ((uint64_t)1 << a->n % 64) - 1;
        negative[i] = changed[i] & rng();
    }
}

static int fill_move16(check_args *a, int kind)
{
    fill_moves(a, kind, 16);
    return 1;
}

static int fill_move32(check_args *a, int kind)
{
    fill_moves(a, kind, 32);
    return 1;
}

CALL(delta_move16, delta_move16(a->p[0], a->n, a->p[1], a->p[2]))
CALL(delta_move32, delta_move32(a->p[0], a->n, a->p[1], a->p[2]))
CALL(delta_classes16, delta_classes16(a->p[0], a->p[1], a->n, a->p[2], a->p[3]))

/* Classes of all sizes or of small ones; the stream ends before the last extra bits, there, or later. */
static int fill_extras16(check_args *a, int kind)
{
    uint8_t *stream = a->p[0], *class = a->p[1];
    size_t bits = 0;

    fill_units(a->p[2], a->p[2], a->n, kind, 16);
    a->base = kind == KIND_BENCH ? 0 : rng_below(40); /* the first bit */
    for (size_t i = 0; i < a->n; i++) {
        class[i] = (uint8_t)(kind == EQUAL ? 0 : kind == EXTREMES ? 16 : rng_below(kind == STEPS ? 4 : 17));
        bits += class[i];
    }
    a->size[0] = ((size_t)a->base + bits + 7) / 8;
    if (kind == ANY)
        a->size[0] = rng_below(a->size[0] + 1);
    else if (kind == FEW)
        a->size[0] += rng_below(40);
    for (size_t i = 0; i < a->size[0]; i++)
        stream[i] = (uint8_t)rng();
    return 1;
}

CALL_RESULT(delta_extras16, delta_extras16(a->p[0], a->size[0], a->base, a->p[1], a->n, a->p[2]))

/* clang-format off */
const check_kernel check_delta_kernels[] = {
    {OF(delta16), {{"base", HALF, IN, 1}, {"next", HALF, IN, 1}, {"changed", MASK, OUT, 1}, {"negative", MASK, OUT, 1},
                   {"large", MASK, OUT, 1}}, 0, delta_kinds, COUNT(delta_kinds), fill_delta16, call_delta16, NULL},
    {OF(delta32), {{"base", F32, IN, 1}, {"next", F32, IN, 1}, {"changed", MASK, OUT, 1}, {"negative", MASK, OUT, 1},
                   {"large", MASK, OUT, 1}}, 0, delta_kinds, COUNT(delta_kinds), fill_delta32, call_delta32, NULL},
    {OF(delta8), {{"base", BYTE, IN, 1}, {"next", BYTE, IN, 1}, {"changed", MASK, OUT, 1}, {"negative", MASK, OUT, 1},
                  {"large", MASK, OUT, 1}}, BYTE_SIDE, delta_kinds, COUNT(delta_kinds), fill_delta8, call_delta8, NULL},
    {OF(delta4), {{"base", NIBBLE, IN, 1}, {"next", NIBBLE, IN, 1}, {"changed", MASK, OUT, 1},
                  {"negative", MASK, OUT, 1}, {"large", MASK, OUT, 1}}, BYTE_SIDE, delta_kinds, COUNT(delta_kinds),
     fill_nibbles, call_delta4, NULL},
    {OF(delta_u32), {{"base", WORD, IN, 1}, {"next", WORD, IN, 1}, {"changed", MASK, OUT, 1},
                     {"negative", MASK, OUT, 1}, {"large", MASK, OUT, 1}}, 0, delta_kinds, COUNT(delta_kinds),
     fill_delta32, call_delta_u32, NULL},
    {OF(delta_u8), {{"base", BYTE, IN, 1}, {"next", BYTE, IN, 1}, {"changed", MASK, OUT, 1}, {"negative", MASK, OUT, 1},
                    {"large", MASK, OUT, 1}}, BYTE_SIDE, delta_kinds, COUNT(delta_kinds), fill_delta8, call_delta_u8,
     NULL},
    {OF(delta_u4), {{"base", NIBBLE, IN, 1}, {"next", NIBBLE, IN, 1}, {"changed", MASK, OUT, 1},
                    {"negative", MASK, OUT, 1}, {"large", MASK, OUT, 1}}, BYTE_SIDE, delta_kinds, COUNT(delta_kinds),
     fill_nibbles, call_delta_u4, NULL},
    {OF(delta_move16), {{"weights", HALF, OUT, 1}, {"changed", MASK, IN, 1}, {"negative", MASK, IN, 1}}, 0, delta_kinds,
     COUNT(delta_kinds), fill_move16, call_delta_move16, NULL},
    {OF(delta_move32), {{"weights", F32, OUT, 1}, {"changed", MASK, IN, 1}, {"negative", MASK, IN, 1}}, 0, delta_kinds,
     COUNT(delta_kinds), fill_move32, call_delta_move32, NULL},
    {OF(delta_classes16), {{"base", HALF, IN, 1}, {"next", HALF, IN, 1}, {"class", BYTE, OUT, 1},
                           {"bits", WORD, OUT, 1}}, 0, delta_kinds, COUNT(delta_kinds), fill_delta16,
     call_delta_classes16, NULL},
    {OF(delta_extras16), {{"stream", BYTE, IN, 1}, {"class", BYTE, IN, 1}, {"weights", HALF, OUT, 1}}, BYTE_SIDE,
     delta_kinds, COUNT(delta_kinds), fill_extras16, call_delta_extras16, NULL},
    {0},
};
/* clang-format on */
