/* SPDX-License-Identifier: MIT */
#include "norms.h"
#include "../../common/sizes.h"

enum {
    LANES = 8,  /* sums side by side, which compilers turn into vectors */
    TURNS = 64, /* each piece of a large group is looked at once in this many steps, or more often */
    STRIDE = 7, /* the turn moves by this many pieces: rows of matrices have sizes that are powers of 2 */
    LINE = 64,  /* bytes of a cache line */
    AHEAD = 4   /* pieces that are fetched early, as no hardware foresees them */
};

static double squares(const float *x, size_t n)
{
    double lane[LANES] = {0}, rest = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < n; i++)
        rest += (double)x[i] * (double)x[i];
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0] + rest;
}

static size_t piece_at(size_t i, size_t turns, uint64_t step)
{
    return (i * turns + (size_t)((step + STRIDE * i) % turns)) * TLC_NORM_PIECE;
}

static void fetch(const tlc_input *in, size_t at)
{
    const size_t size = tlc_dtype_size(in->dtype);

    for (size_t line = 0; line < TLC_NORM_PIECE * size; line += LINE)
        __builtin_prefetch(in->grad + at * size + line);
    for (size_t i = 0; in->residual && i < TLC_NORM_PIECE; i += LINE / sizeof *in->residual)
        __builtin_prefetch(in->residual + at + i);
}

void tlc_norms_add(tlc_norms *norms, const tlc_input *in, size_t n, uint64_t step)
{
    const size_t turns = tlc_smaller(n <= TLC_NORM_SAMPLE ? 1 : n / TLC_NORM_SAMPLE, TURNS);
    float buf[TLC_NORM_PIECE];
    double signal = 0, residual = 0;
    size_t seen = 0;

    for (size_t i = 0, at; (at = piece_at(i, turns, step)) < n; i++) {
        const size_t count = tlc_smaller(n - at, TLC_NORM_PIECE), next = piece_at(i + AHEAD, turns, step);
        if (turns > 1 && next + TLC_NORM_PIECE <= n)
            fetch(in, next);
        signal += squares(tlc_input_gradient(in, at, count, buf), count);
        if (in->residual)
            residual += squares(in->residual + at, count);
        seen += count;
    }
    const double share = seen ? (double)n / (double)seen : 0;
    norms->signal += signal * share;
    norms->residual += residual * share;
}
