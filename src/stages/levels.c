/* SPDX-License-Identifier: MIT */
#include "levels.h"

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
    unsigned bad = 0;

    if (len != u->n)
        return 0;
    for (size_t i = 0; i < len; i++)
        bad |= src[i] == 0x80; /* -128 is no level */
    return !bad;
}
