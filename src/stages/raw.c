/* SPDX-License-Identifier: MIT
 *
 * The floats themselves, in the dtype of the gradients, little-endian. Without error feedback, any bits are sent as
 * they are. With error feedback, x is narrowed to the dtype. It must be finite, before and after that.
 */
#include "stage.h"

static uint32_t scale(const double *params, tlc_dtype dtype, uint32_t max)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_SCALAR);
    float value = tlc_bits_float(max);
    uint8_t narrow[sizeof value];

    (void)params;
    tlc_narrow(k, &value, 1, dtype, narrow);
    tlc_widen(k, dtype, narrow, 1, &value);
    return tlc_float_bits(value);
}

static tlc_layout layout(const double *params, tlc_dtype dtype)
{
    (void)params;
    return (tlc_layout){.bits = {8 * (unsigned)tlc_dtype_size(dtype)}};
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    uint8_t narrow[TLC_CHUNK * sizeof(float)];

    tlc_narrow(u->k, c->x, c->count, u->dtype, narrow);
    tlc_copy_le(c->codes[0], narrow, c->count, tlc_dtype_size(u->dtype));
    return 0;
}

static void decode(const tlc_unit *u, const uint8_t *const codes[2], size_t count, float *out)
{
    uint8_t narrow[TLC_CHUNK * sizeof(uint16_t)];

    if (u->dtype == TLC_F32) {
        tlc_copy_le(out, codes[0], count, sizeof *out);
        return;
    }
    tlc_copy_le(narrow, codes[0], count, sizeof(uint16_t));
    tlc_widen(u->k, u->dtype, narrow, count, out);
}

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_CODES,
    .exact = 1,
    .unbiased = 1,
    .scale = scale,
    .layout = layout,
    .encode = encode,
    .decode = decode,
};

const tlc_stage tlc_stage_raw = {
    .name = "raw",
    .id = 1,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_BYTES,
    .quantize = &quantizer,
};

const tlc_stage_words tlc_words_raw = {
    .meaning = "the floats themselves, in their dtype, bit for bit",
};
