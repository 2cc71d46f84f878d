/* SPDX-License-Identifier: MIT */
#include "alone.h"
#include "levels.h"
#include <threelc/stages.h>

void tlc_levels_prepare(tlc_unit *u, uint32_t max)
{
    u->scalars[0] = tlc_bits_float(max);
}

void tlc_levels_of(const tlc_unit *u, const float *x, const uint32_t *words, size_t count, float K, int8_t *q)
{
    if (u->scalars[0] > 0)
        u->k->levels_encode(x, words, count, u->scalars[0], K, q);
    else
        memset(q, 0, count);
}

static uint64_t encode(const tlc_unit *u, const float *x, const uint32_t *words, size_t at, size_t count, uint8_t *codes)
{
    tlc_levels_of(u, x, words, count, TLC_LEVELS_8, (int8_t *)codes + at);
    return 0;
}

static void decode(const tlc_unit *u, const uint8_t *codes, size_t at, size_t count, float *out)
{
    u->k->levels_decode((const int8_t *)codes + at, count, u->scalars[0], TLC_LEVELS_8, out);
}

const tlc_pieces tlc_level_bytes = {1, encode, decode};

int tlc_level_bytes_check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    uint8_t bad = 0;

    if (len != u->n)
        return 0;
    for (size_t i = 0; i < len; i++)
        bad = (uint8_t)(bad | (src[i] == 0x80)); /* -128 is no level */
    return !bad;
}

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

tlc_status tlc_levels_encode(const float *x, size_t n, int K, int random, uint64_t seed, uint64_t step, int8_t *q,
                             float *residual, float *max)
{
    float wanted[TLC_PIECE], sent[TLC_PIECE];
    uint32_t words[TLC_PIECE];
    tlc_alone a;

    if ((n && !q) || !max || (K != 127 && K != 7))
        return TLC_ERR_PARAM;
    tlc_float_mode mode = tlc_float_enter();
    tlc_status status = tlc_alone_forward(&a, &tlc_stage_int8, NULL, x, n, seed, step, residual);
    for (size_t at = 0, count; !status && at < n; at += count) {
        count = n - at < TLC_PIECE ? n - at : TLC_PIECE;
        const float *piece = tlc_input_values(&a.unit.input, at, count, wanted);
        if (random)
            tlc_unit_words(&a.unit, at, count, words);
        tlc_levels_of(&a.unit, piece, random ? words : NULL, count, (float)K, q + at);
        if (!residual)
            continue;
        a.unit.k->levels_decode(q + at, count, a.unit.scalars[0], (float)K, sent);
        tlc_input_settle(&a.unit.input, at, count, piece, sent);
    }
    if (!status)
        *max = n ? a.unit.scalars[0] : 0.0f;
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_levels_decode(const int8_t *q, size_t n, int K, float max, float *out)
{
    unsigned bad = 0;

    if ((n && (!q || !out)) || (K != 127 && K != 7) || tlc_float_bits(max) >= TLC_F32_INF)
        return TLC_ERR_PARAM;
    for (size_t i = 0; i < n; i++)
        bad |= q[i] > K || q[i] < -K;
    if (bad)
        return TLC_ERR_PARAM;
    tlc_float_mode mode = tlc_float_enter();
    tlc_kernels_for(TLC_ISA_AUTO)->levels_decode(q, n, max, (float)K, out);
    tlc_float_leave(mode);
    return TLC_OK;
}
