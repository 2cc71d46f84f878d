/* SPDX-License-Identifier: MIT
 *
 * One bit a value, x >= 0 or not. Each side decodes to its mean, which minimises the squared error: 3LC's comparison
 * "MQE 1-bit" (section 5.1; 1-bit SGD, Seide et al., 2014).
 * Scalars: the mean of x >= 0 (-0 counts there), the mean of x < 0; 0 for a side without values.
 */
#include "../values/sums.h"
#include "stage.h"

/* The sums of the two sides come with the maximum. */
static uint32_t choose(tlc_unit *u)
{
    double sums[2], total[2] = {0, 0};
    float converted[TLC_SUM_CHUNK];
    uint64_t count[2] = {0, 0};
    uint32_t max = 0, upper;

    for (size_t at = 0, n; at < u->n; at += n) {
        size_t index = u->first + at;
        n = u->n - at < TLC_SUM_CHUNK ? (size_t)(u->n - at) : TLC_SUM_CHUNK;
        uint32_t m = u->k->side_sums(tlc_input_gradient(u->input, index, n, converted),
                                     tlc_input_residual(u->input, index), n, sums, &upper);
        max = m > max ? m : max;
        total[0] += sums[0];
        total[1] += sums[1];
        count[0] += upper;
        count[1] += n - upper;
    }
    for (int side = 0; side < 2; side++)
        u->scalars[side] = tlc_mean(total[side], count[side]);
    return max;
}

static tlc_layout layout(const double *params, tlc_dtype dtype)
{
    (void)params;
    (void)dtype;
    return (tlc_layout){.bits = {1}};
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    u->k->onebit_encode(c->x, NULL, c->count, u->scalars, c->codes[0]);
    return 0;
}

static void decode(const tlc_unit *u, const uint8_t *const codes[2], size_t count, float *out)
{
    u->k->onebit_decode(codes[0], count, u->scalars, out);
}

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_CODES,
    .chooses = TLC_CHOOSES_IN_ONE_SWEEP,
    .scalars = 2,
    .any_sign = 1,
    .feedback = 1,
    .choose = choose,
    .layout = layout,
    .encode = encode,
    .decode = decode,
};

const tlc_stage tlc_stage_onebit = {
    .name = "onebit",
    .id = 7,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_BYTES,
    .quantize = TLC_IF_BUILT(TLC_WITH_ONEBIT, &quantizer),
};

const tlc_stage_words tlc_words_onebit = {
    .meaning = TLC_IF_BUILT(TLC_WITH_ONEBIT, "x >= 0 or not; each side decodes to its mean"),
    .source = TLC_IF_BUILT(
        TLC_WITH_ONEBIT,
        "Seide, Fu, Droppo, Li, Yu, 1-bit SGD, 2014; Lim, Andersen, Kaminsky, 3LC, 2018, section 5.1 (MQE 1-bit)"),
};
