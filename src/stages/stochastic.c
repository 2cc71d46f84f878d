/* SPDX-License-Identifier: MIT
 *
 * Stochastic 3-value quantization: sign(x) with probability |x| / max, else 0, without bias. 3LC's comparison (section
 * 5.1), which is TernGrad without clipping. Scalar: max; decoded as ternary is.
 */
#include "alone.h"
#include "stage.h"
#include <threelc/stages.h>

static void prepare(tlc_unit *u, uint32_t max)
{
    u->scalars[0] = tlc_bits_float(max);
}

static void symbols(const tlc_unit *u, size_t at, size_t count, int8_t *q)
{
    float wanted[TLC_PIECE], sent[TLC_PIECE];
    uint32_t words[TLC_PIECE];
    const float *x = tlc_input_values(&u->input, u->first + at, count, wanted);

    tlc_unit_words(u, at, count, words);
    u->k->stochastic_encode(x, words, count, u->scalars[0], q);
    if (u->input.residual) {
        u->k->ternary_decode(q, count, u->scalars[0], sent);
        tlc_input_settle(&u->input, u->first + at, count, x, sent);
    }
}

static const tlc_value_ops value_ops = {.scalars = 1, .has_zero = 1, .prepare = prepare, .symbols = symbols};

const tlc_stage tlc_stage_stochastic_ternary = {
    .name = "stochastic-ternary",
    .id = 2,
    .in = TLC_KIND_FLOATS,
    .out = TLC_KIND_TERNARY,
    .value = &value_ops,
    .meaning = "sign(x) with probability |x| / max|x|, else 0",
    .source = "Lim, Andersen, Kaminsky, 3LC, 2018, section 5.1 (stochastic 3-value; TernGrad without clipping)",
};

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

tlc_status tlc_stochastic_ternary_encode(const float *x, size_t n, uint64_t seed, uint64_t step, int8_t *q,
                                         float *residual, float *M)
{
    tlc_alone a;

    if ((n && !q) || !M)
        return TLC_ERR_PARAM;
    tlc_float_mode mode = tlc_float_enter();
    tlc_status status = tlc_alone_forward(&a, &tlc_stage_stochastic_ternary, NULL, x, n, seed, step, residual);
    for (size_t at = 0, count; !status && at < n; at += count) {
        count = n - at < TLC_PIECE ? n - at : TLC_PIECE;
        symbols(&a.unit, at, count, q + at);
    }
    if (!status)
        *M = a.unit.scalars[0];
    tlc_float_leave(mode);
    return status;
}
