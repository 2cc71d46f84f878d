/* SPDX-License-Identifier: MIT
 *
 * Natural compression (Horvath et al., "Natural compression for distributed deep learning", 2019, section 2). A value
 * is rounded to one of the two powers of two around it, at random without bias, or to the nearest. A code stands for
 * +-2^(e + shift). For losses that are scaled by 2^shift, this moves the range of exponents. Exponents that are
 * out of range are clipped, which gives these values a bias. They are counted.
 *   8 bits (IntML): e in -50..10. 9 bits (section 2): e in -126..127 - shift, and the signs are a second plane.
 */
#include "../common/bytes.h"
#include "stage.h"

#define SHIFT_MAX 117 /* 2^(10 + shift) is finite */

static const char *const bits_words[] = {"8", "9", NULL}, *const rounding_words[] = {"random", "nearest", NULL};

static int is_long(const double *params)
{
    return params[TLC_NATURAL_BITS] >= 1;
}

static int shift(const double *params)
{
    return (int)params[TLC_NATURAL_SHIFT];
}

static tlc_layout layout(const double *params, tlc_dtype dtype)
{
    (void)dtype;
    return (tlc_layout){.bits = {8, is_long(params) ? 1 : 0}, .counted = 1};
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    int is_random = u->params[TLC_NATURAL_ROUNDING] < 1;
    uint32_t drawn[TLC_CHUNK], *words = is_random ? drawn : NULL;

    if (is_random)
        tlc_unit_words(u, c->at, c->count, drawn);
    if (is_long(u->params))
        return u->k->natural9_encode(c->x, words, c->count, shift(u->params), c->codes[0], c->codes[1]);
    return u->k->natural_encode(c->x, words, c->count, shift(u->params), c->codes[0]);
}

static void decode(const tlc_unit *u, const uint8_t *const codes[2], size_t count, float *out)
{
    if (is_long(u->params))
        u->k->natural9_decode(codes[0], codes[1], count, shift(u->params), out);
    else
        u->k->natural_decode(codes[0], count, shift(u->params), out);
}

/* Bit i: byte i of the word is 0. */
static unsigned zero_bytes(uint64_t word)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t zero = ~(((word & low) + low) | word | low); /* the top bit of each */

    return (unsigned)((zero >> 7) * UINT64_C(0x0102040810204080) >> 56);
}

/* A zero has no sign. */
static int valid_9(const tlc_unit *u, const uint8_t *codes, const uint8_t *signs)
{
    unsigned largest = 254u - (unsigned)shift(u->params), bad = 0;
    size_t n = (size_t)u->n;

    bad |= u->k->bytes_max(codes, n) > largest;
    for (size_t i = 0; i + 8 <= n; i += 8)
        bad |= zero_bytes(tlc_load64(codes + i)) & signs[i / 8];
    for (size_t i = n - n % 8; i < n; i++)
        bad |= !codes[i] && signs[i / 8] >> i % 8 & 1;
    return !bad;
}

static int valid(const tlc_unit *u, const uint8_t *const codes[2])
{
    static const tlc_bytes_rule codes_8 = {.keep = 0x7f,
                                           .above = TLC_NATURAL_MOST - TLC_NATURAL_LEAST,
                                           .other = TLC_NATURAL_ZERO};

    if (is_long(u->params))
        return valid_9(u, codes[0], codes[1]);
    return u->k->bytes_allowed(codes[0], (size_t)u->n, &codes_8);
}

static const tlc_param params[] = {
    [TLC_NATURAL_BITS] =
        {
            .key = "bits",
            .words = bits_words,
            .wire_shift = 7,
            .wire_bits = 1,
            .range = "8 or 9, default 8",
        },
    [TLC_NATURAL_ROUNDING] =
        {
            .key = "rounding",
            .words = rounding_words,
            .range = "random or nearest, default random",
        },
    [TLC_NATURAL_SHIFT] =
        {
            .key = "shift",
            .below = SHIFT_MAX + 1,
            .wire_bits = 7,
            .range = "whole, 0 to 117, default 0",
        },
};

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_CODES,
    .has_zero = 1,
    .unbiased = 1,
    .layout = layout,
    .encode = encode,
    .decode = decode,
    .valid = valid,
};

const tlc_stage tlc_stage_natural = {
    .name = "natural",
    .id = 4,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_BYTES,
    .params = TLC_IF_BUILT(TLC_WITH_NATURAL, params),
    .param_count = TLC_IS_BUILT(TLC_WITH_NATURAL) ? 3 : 0,
    .quantize = TLC_IF_BUILT(TLC_WITH_NATURAL, &quantizer),
};

const tlc_stage_words tlc_words_natural = {
    .meaning = TLC_IF_BUILT(TLC_WITH_NATURAL, "powers of two, sent as sign and exponent"),
    .source = TLC_IF_BUILT(
        TLC_WITH_NATURAL,
        "Horvath, Ho, Horvath, Sahu, Canini, Richtarik, Natural compression, 2019, section 2, and IntML's 8 bits"),
    .params = {TLC_IF_BUILT(TLC_WITH_NATURAL, "exponents from -50 to 10, or all of binary32's normal ones"),
               TLC_IF_BUILT(TLC_WITH_NATURAL,
                            "at random, without bias if no exponent is clipped, or to the nearest power of two"),
               TLC_IF_BUILT(TLC_WITH_NATURAL,
                            "added to the range of exponents, for losses that are scaled by 2^shift")},
};
