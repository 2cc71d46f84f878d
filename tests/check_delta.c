/* SPDX-License-Identifier: MIT
 *
 * The kernels of delta_<isa>.c: operands, inputs and calls.
 */
#include "check.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define RESULT(value) ((check_result){{(value), 0}})

static const char *const delta_kinds[] = {"one step apart", "few differ",  "equal",
                                          "any bits",       "around zero", "extremes"};
enum { STEPS, FEW, EQUAL, ANY, ZEROS, EXTREMES };

/* Weights of `width` bits. */
static void fill_weights(uint8_t *base, uint8_t *next, size_t n, int kind, unsigned width)
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
            x = extremes[rng_below(COUNT(extremes))];
            y = extremes[rng_below(COUNT(extremes))];
        }
        uint16_t low_x = (uint16_t)x, low_y = (uint16_t)y;
        memcpy(base + i * size, width == 32 ? (void *)&x : (void *)&low_x, size);
        memcpy(next + i * size, width == 32 ? (void *)&y : (void *)&low_y, size);
    }
}

static int fill_delta16(check_args *a, int kind)
{
    fill_weights(a->p[0], a->p[1], a->n, kind, 16);
    return 1;
}

static int fill_delta32(check_args *a, int kind)
{
    fill_weights(a->p[0], a->p[1], a->n, kind, 32);
    return 1;
}

static check_result call_delta16(const tlc_kernels *k, const check_args *a)
{
    return RESULT(k->delta16(a->p[0], a->p[1], a->n, a->p[2], a->p[3], a->p[4]));
}

static check_result call_delta32(const tlc_kernels *k, const check_args *a)
{
    return RESULT(k->delta32(a->p[0], a->p[1], a->n, a->p[2], a->p[3], a->p[4]));
}

/* clang-format off */
const check_kernel check_delta_kernels[] = {
    {OF(delta16), {{"base", HALF, IN, 1}, {"next", HALF, IN, 1}, {"changed", MASK, OUT, 1}, {"negative", MASK, OUT, 1},
                   {"large", MASK, OUT, 1}}, 0, delta_kinds, COUNT(delta_kinds), fill_delta16, call_delta16, NULL},
    {OF(delta32), {{"base", F32, IN, 1}, {"next", F32, IN, 1}, {"changed", MASK, OUT, 1}, {"negative", MASK, OUT, 1},
                   {"large", MASK, OUT, 1}}, 0, delta_kinds, COUNT(delta_kinds), fill_delta32, call_delta32, NULL},
    {0},
};
/* clang-format on */
