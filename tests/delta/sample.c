/* SPDX-License-Identifier: MIT */
#include "sample.h"

void sample_move(tlc_dtype dtype, const uint8_t *base, uint8_t *next, size_t n, size_t kind, uint64_t seed)
{
    rng r = {seed};

    for (size_t i = 0; i < n; i++) {
        const uint64_t x = weight_at(dtype, base, i), draw = rng_next(&r);
        const size_t of = kind == 3 ? i / BLOCK % 3 : kind;
        put_weight(dtype, next, i,
                   of == 2                ? rng_next(&r) << 32 ^ draw
                   : of || draw % 40 == 0 ? x + (draw >> 20) % (draw >> 40 & 7 ? 3 : 90) - 1
                                          : x);
    }
}

uint8_t *sample_frame(tlc_dtype dtype, const uint8_t *base, const uint8_t *next, size_t n, size_t *len,
                      const tlc_delta_options *opt)
{
    size_t bound;

    require_status(tlc_delta_bound(dtype, n, &bound), TLC_OK);
    uint8_t *frame = bytes(bound);
    require_status(tlc_delta_compress(dtype, base, next, n, frame, bound, len, opt), TLC_OK);
    return frame;
}

sample sample_made(tlc_dtype dtype, size_t n, int rarely, int has_base)
{
    sample s = {.dtype = dtype, .n = n, .base = bytes(weights_size(dtype, n)), .next = bytes(weights_size(dtype, n))};

    fill_weights(n, dtype, s.base, n);
    sample_move(dtype, s.base, s.next, n, rarely ? 0 : 3, n + (size_t)rarely);
    s.frame = sample_frame(dtype, has_base ? s.base : NULL, s.next, n, &s.len, NULL);
    if (has_base && !rarely && n > 2 * BLOCK) {
        tlc_delta_info info = {.struct_size = sizeof info};
        require_status(tlc_delta_inspect(s.frame, s.len, &info), TLC_OK);
        require(info.blocks[1] && info.blocks[2] && info.blocks[3]);
    }
    return s;
}

void sample_discard(sample *s)
{
    free(s->base);
    free(s->next);
    free(s->frame);
}
