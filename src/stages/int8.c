/* SPDX-License-Identifier: MIT
 *
 * 255 levels of x / max|x|, rounded to the nearest: 3LC's comparison "8-bit int" (section 5.1).
 * Scalar: max. A code is a byte, q in two's complement; it decodes to max * (q / 127).
 */
#include "../values/levels.h"
#include "stage.h"

#define K 127.0f

static tlc_layout layout(const double *params, tlc_dtype dtype)
{
    (void)params;
    (void)dtype;
    return (tlc_layout){.bits = {8}};
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    tlc_levels_of(u->k, c->x, NULL, c->count, u->scalars[0], K, (int8_t *)c->codes[0]);
    return 0;
}

static void decode(const tlc_unit *u, const uint8_t *const codes[2], size_t count, float *out)
{
    u->k->levels_decode((const int8_t *)codes[0], count, u->scalars[0], K, out);
}

static int valid(const tlc_unit *u, const uint8_t *const codes[2])
{
    return tlc_levels_valid(u->k, codes[0], (size_t)u->n);
}

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_CODES,
    .scalars = 1,
    .has_zero = 1,
    .layout = layout,
    .encode = encode,
    .decode = decode,
    .valid = valid,
};

const tlc_stage tlc_stage_int8 = {
    .name = "int8",
    .id = 5,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_BYTES,
    .quantize = TLC_IF_BUILT(TLC_WITH_INT8, &quantizer),
};

const tlc_stage_words tlc_words_int8 = {
    .meaning = TLC_IF_BUILT(TLC_WITH_INT8, "255 levels of x / max|x|, to the nearest"),
    .source = TLC_IF_BUILT(TLC_WITH_INT8, "Lim, Andersen, Kaminsky, 3LC, 2018, section 5.1 (8-bit int)"),
};
