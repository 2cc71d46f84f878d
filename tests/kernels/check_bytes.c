/* SPDX-License-Identifier: MIT
 *
 * The kernels of many frames of quartic bytes, and of allowed bytes: operands, inputs and calls.
 */
#include "check.h"

/* ---- quartic_ternary_add_many ---- */

enum { FRAMES = 3 };
static const char *const quartic_kinds[] = {"even", "sparse", "zeros but for one frame", "stretches of zeros"};

/* Is a byte of frame f not only zeros? */
static int has_symbols(int kind, int f, size_t i)
{
    switch (kind) {
    case 0: return 1;
    case 1: return !rng_below(90);
    case 2: return f == 1;
    case 3: return i / 200 % 2 == 1;
    default: return !rng_below(10);
    }
}

static int fill_quartic_many(check_args *a, int kind)
{
    a->scale = kind == KIND_BENCH ? 0.01f : tlc_bits_float(finite_float());
    for (int f = 0; f < FRAMES; f++) {
        uint8_t *b = a->p[f];
        for (size_t i = 0; i < a->n; i++) {
            b[i] = (uint8_t)(has_symbols(kind, f, i) ? rng_below(TLC_QUARTIC_MAX + 1) : TLC_QUARTIC_ZERO);
        }
    }
    for (int k = 0; k < 5; k++) {
        uint32_t *sum = a->p[FRAMES + k];
        for (size_t i = 0; i < a->n; i++)
            sum[i] = rng() & 3 || kind == KIND_BENCH ? finite_float() : any_float();
    }
    return 1;
}

static check_result call_quartic_many(const tlc_kernels *k, const check_args *a)
{
    const uint8_t *const in[FRAMES] = {a->p[0], a->p[1], a->p[2]};
    float *const sum[5] = {a->p[3], a->p[4], a->p[5], a->p[6], a->p[7]};
    const float w[FRAMES] = {a->scale, -0.5f * a->scale, 0.3f};

    k->quartic_ternary_add_many(in, w, FRAMES, a->n, sum);
    return NOTHING;
}

/* ---- bytes_allowed ---- */

static const char *const byte_kinds[] = {"one other byte"};

/* The rules that quantizers have; one byte in a field of allowed ones may break them. */
static const tlc_bytes_rule rules[] = {
    {.keep = 0x7f, .above = TLC_NATURAL_MOST - TLC_NATURAL_LEAST, .other = TLC_NATURAL_ZERO},
    {.keep = 0xff, .least = 0x81, .above = 0xfe, .other = 0x81},
};

static int fill_bytes_allowed(check_args *a, int kind)
{
    uint8_t *b = a->p[0];

    a->shift = (int)(rng() & 1);
    for (size_t i = 0; i < a->n; i++)
        b[i] = (uint8_t)(rng() & 1 ? rng_below(61) | (rng() & 0x80) : 0x40);
    for (size_t i = 0; i < a->n && a->shift; i++)
        b[i] = b[i] == 0x80 ? 1 : b[i];
    if (a->n && kind != KIND_BENCH && rng() & 1)
        b[rng_below(a->n)] = (uint8_t)rng();
    return 1;
}

static check_result call_bytes_allowed(const tlc_kernels *k, const check_args *a)
{
    return RESULT((uint64_t)k->bytes_allowed(a->p[0], a->n, &rules[a->shift]));
}

/* clang-format off */
const check_kernel check_byte_kernels[] = {
    {OF(quartic_ternary_add_many), {{"in", BYTE, IN, FRAMES}, {"sum", F32, OUT, 5}}, 0, quartic_kinds, 4,
     fill_quartic_many, call_quartic_many, NULL},
    {OF(bytes_allowed), {{"in", BYTE, IN, 1}}, BYTE_SIDE, byte_kinds, 1, fill_bytes_allowed, call_bytes_allowed, NULL},
    {0},
};
/* clang-format on */
