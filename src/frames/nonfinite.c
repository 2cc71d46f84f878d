/* SPDX-License-Identifier: MIT */
#include "nonfinite.h"
#include "../common/sizes.h"

/* A sum over a chunk, as tlc_input_gradient and tlc_input_wanted give it. */
typedef const float *values_of(const tlc_input *in, size_t at, size_t count, float *buf);

/* Finds the first value that is not finite; if there is none, the first one of the largest magnitude. */
static tlc_nonfinite search(const tlc_input *in, size_t n, tlc_nonfinite_kind kind, values_of *values)
{
    tlc_nonfinite found = {.kind = TLC_NONFINITE_SCALE};
    float buf[TLC_CHUNK];

    for (size_t at = 0; at < n; at += TLC_CHUNK) {
        const size_t count = tlc_smaller(n - at, TLC_CHUNK);
        const float *x = values(in, at, count, buf);
        for (size_t i = 0; x && i < count; i++) {
            const uint32_t magnitude = tlc_float_bits(x[i]) & TLC_F32_ABS;
            if (magnitude >= TLC_F32_INF)
                return (tlc_nonfinite){kind, at + i, x[i]};
            if (magnitude > (tlc_float_bits(found.value) & TLC_F32_ABS))
                found = (tlc_nonfinite){TLC_NONFINITE_SCALE, at + i, x[i]};
        }
    }
    return found;
}

tlc_nonfinite tlc_nonfinite_find(const tlc_input *in, size_t n, int added)
{
    tlc_nonfinite found = search(in, n, TLC_NONFINITE_GRADIENT, tlc_input_gradient);
    tlc_input residual = *in;

    if (found.kind != TLC_NONFINITE_SCALE || !in->residual)
        return found;
    residual.grad = NULL;
    if (added)
        found = search(&residual, n, TLC_NONFINITE_SUM, tlc_input_wanted);
    return found.kind == TLC_NONFINITE_SUM ? found : search(in, n, TLC_NONFINITE_SUM, tlc_input_wanted);
}
