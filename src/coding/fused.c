/* SPDX-License-Identifier: MIT */
#include "fused.h"

static void ternary_encode(const tlc_unit *u, const float *g, float *r, size_t count, void *out)
{
    u->k->ternary_encode(g, r, count, u->scalars[0], out);
}

static void ternary_quartic_encode(const tlc_unit *u, const float *const *g, float *const *r, size_t count,
                                   uint8_t *dst)
{
    u->k->ternary_quartic_encode(g, r, count, u->scalars[0], dst);
}

static void quartic_ternary_decode(const tlc_kernels *k, const uint8_t *src, size_t count, float scale,
                                   float *const *out)
{
    k->quartic_ternary_decode(src, count, scale, out);
}

static void quartic_ternary_add(const tlc_kernels *k, const uint8_t *src, size_t count, float scale, float *const *sum)
{
    k->quartic_ternary_add(src, count, scale, sum);
}

static void quartic_ternary_add_many(const tlc_kernels *k, const uint8_t *const *src, const float *scale,
                                     size_t payloads, size_t count, float *const *sum)
{
    k->quartic_ternary_add_many(src, scale, payloads, count, sum);
}

static void quartic_ternary_decode_uncached(const tlc_kernels *k, const uint8_t *src, size_t count, float scale,
                                            float *const *out, tlc_lines *lines, int last)
{
    k->quartic_ternary_decode_uncached(src, count, scale, out, lines, last);
}

#if TLC_IS_BUILT(TLC_WITH_ONEBIT)
static void onebit_encode(const tlc_unit *u, const float *g, float *r, size_t count, void *out)
{
    u->k->onebit_encode(g, r, count, u->scalars, out);
}

/* weight * mean is rounded once for each side; for each value it would round to the same. */
static void onebit_add(const tlc_unit *u, const uint8_t *codes, size_t count, float weight, float *sum)
{
    const float means[2] = {weight * u->scalars[0], weight * u->scalars[1]};
    u->k->onebit_add(codes, count, means, sum);
}
#endif

#if TLC_IS_BUILT(TLC_WITH_NATURAL)
static void natural_add(const tlc_unit *u, const uint8_t *codes, size_t count, float weight, float *sum)
{
    u->k->natural_add(codes, count, (int)u->params[TLC_NATURAL_SHIFT], weight, sum);
}
#endif

#if TLC_IS_BUILT(TLC_WITH_TOPK)
/* Members are sent as they are, so their residual becomes 0. */
static size_t topk_encode(const tlc_unit *u, const tlc_chunk *c, float *r)
{
    float *to = c->values;

    (void)tlc_selection_mask(&u->selection, u->k, r, c->at, c->count, c->mask);
    for (size_t w = 0; w * 64 < c->count; w++)
        for (uint64_t bits = c->mask[w]; bits; bits &= bits - 1) {
            size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
            *to++ = r[i];
            r[i] = 0.0f;
        }
    return (size_t)(to - c->values);
}
#endif

static const tlc_fused rows[] = {
    {
        .quantizer = &tlc_stage_ternary,
        .packer = &tlc_stage_quartic,
        .encode = ternary_encode,
        .encode_and_pack = ternary_quartic_encode,
        .unpack_and_write = quartic_ternary_decode,
        .unpack_and_add = quartic_ternary_add,
        .unpack_and_add_many = quartic_ternary_add_many,
        .unpack_and_write_uncached = quartic_ternary_decode_uncached,
    },
#if TLC_IS_BUILT(TLC_WITH_GOLOMB_CODES)
    {.quantizer = &tlc_stage_ternary, .packer = &tlc_stage_golomb, .encode = ternary_encode},
#endif
#if TLC_IS_BUILT(TLC_WITH_ONEBIT)
    {.quantizer = &tlc_stage_onebit, .encode = onebit_encode, .decode_and_add = onebit_add},
#endif
#if TLC_IS_BUILT(TLC_WITH_NATURAL)
    {.quantizer = &tlc_stage_natural, .decode_and_add = natural_add},
#endif
#if TLC_IS_BUILT(TLC_WITH_TOPK)
    {.quantizer = &tlc_stage_topk, .encode_members = topk_encode},
    {.quantizer = &tlc_stage_topk, .packer = &tlc_stage_golomb, .encode_members = topk_encode},
#endif
};

const tlc_fused *tlc_fused_row(size_t i)
{
    return i < sizeof rows / sizeof rows[0] ? &rows[i] : NULL;
}

const tlc_fused *tlc_fused_of(const tlc_stage *quantizer, const tlc_stage *packer)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].quantizer == quantizer && rows[i].packer == packer)
            return &rows[i];
    return NULL;
}
