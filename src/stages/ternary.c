/* SPDX-License-Identifier: MIT
 *
 * 3-value quantization with sparsity multiplication (3LC, section 3.2), and error accumulation with it (section 3.1).
 * The scalar is M = s * max|x|; a value decodes to M, 0 or -M.
 */
#include "stage.h"
#include <threelc/stages.h>

/* M, or an infinity. */
static float scale(float s, uint32_t max)
{
    return tlc_bits_float(max) * s;
}

static tlc_status check_max(const tlc_codec *codec, tlc_dtype dtype, uint32_t max)
{
    (void)dtype;
    return tlc_finite(scale((float)codec->params[0], max)) ? TLC_OK : TLC_ERR_NONFINITE;
}

static void prepare(tlc_unit *u, uint32_t max)
{
    u->scalars[0] = scale((float)u->codec->params[0], max);
}

static void symbols(const tlc_unit *u, size_t at, size_t count, int8_t *q)
{
    float converted[TLC_PIECE];
    size_t index = u->first + at;
    const float *g = tlc_input_floats(&u->input, index, count, converted);

    u->k->ternary_encode(g, u->input.residual ? u->input.residual + index : NULL, count, u->scalars[0], q);
}

static void quartic(const tlc_unit *u, const float *const *g, float *const *r, size_t len, uint8_t *out)
{
    u->k->ternary_quartic_encode(g, r, len, u->scalars[0], out);
}

static const tlc_param params[] = {{
    .key = "s",
    .mantissa = 24,
    .least = 1.0,
    .below = 2.0,
    .fallback = 1.0,
    .range = "1 <= s < 2, default 1",
    .meaning = "sparsity multiplier: a larger one sends fewer, larger values",
}};

static const tlc_value_ops value_ops = {
    .scalars = 1,
    .feedback = 1,
    .has_zero = 1,
    .check = check_max,
    .prepare = prepare,
    .symbols = symbols,
    .quartic = quartic,
};

const tlc_stage tlc_stage_ternary = {
    .name = "ternary",
    .id = 2,
    .in = TLC_KIND_FLOATS,
    .out = TLC_KIND_TERNARY,
    .params = params,
    .param_count = 1,
    .value = &value_ops,
    .meaning = "3-value quantization with sparsity multiplication",
    .source = "Lim, Andersen, Kaminsky, 3LC, 2018, sections 3.1 and 3.2",
};

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

int tlc_symbols_valid(const int8_t *q, size_t n)
{
    unsigned bad = 0;

    for (size_t i = 0; i < n; i++)
        bad |= (unsigned)(q[i] + 1) > 2;
    return !bad;
}

tlc_status tlc_ternary_encode(const float *x, size_t n, float s, int8_t *q, float *residual, float *M)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);

    if (!M || (n && (!x || !q)) || !tlc_finite(s) || s < 1.0f || s >= 2.0f)
        return TLC_ERR_PARAM;
    tlc_float_mode mode = tlc_float_enter();
    float scaled = scale(s, k->absmax(x, NULL, n));
    int finite = tlc_finite(scaled);
    if (finite) {
        if (residual && residual != x && n)
            memcpy(residual, x, n * sizeof *x);
        k->ternary_encode(residual ? NULL : x, residual, n, scaled, q);
        *M = scaled;
    }
    tlc_float_leave(mode);
    return finite ? TLC_OK : TLC_ERR_NONFINITE;
}

tlc_status tlc_ternary_decode(const int8_t *q, size_t n, float M, float *out)
{
    if ((n && (!q || !out)) || tlc_float_bits(M) >= TLC_F32_INF || !tlc_symbols_valid(q, n))
        return TLC_ERR_PARAM;
    tlc_kernels_for(TLC_ISA_AUTO)->ternary_decode(q, n, M, out);
    return TLC_OK;
}

tlc_status tlc_ternary_add(const int8_t *q, size_t n, float w, float *sum)
{
    if ((n && (!q || !sum)) || !tlc_finite(w) || !tlc_symbols_valid(q, n))
        return TLC_ERR_PARAM;
    tlc_float_mode mode = tlc_float_enter();
    tlc_kernels_for(TLC_ISA_AUTO)->ternary_add(q, n, w, sum);
    tlc_float_leave(mode);
    return TLC_OK;
}
