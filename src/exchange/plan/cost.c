/* SPDX-License-Identifier: MIT */
#include "cost.h"
#include "../../codec/codec.h"
#include "../../common/sizes.h"
#include <string.h>

#define HEADER 12                  /* bytes of a frame, or of a block, before its payload, about */
#define MOST_N (UINT64_C(1) << 47) /* values that are counted */

static uint64_t square_root(uint64_t x)
{
    uint64_t root = 0;

    for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1)
        if ((root | bit) * (root | bit) <= x)
            root |= bit;
    return root;
}

/* The bytes of symbols of which most are 0. The scale is the largest magnitude of the values and grows with n, so fewer
 * and fewer of them are not 0. With 3lc, tensors of recorded gradients (432 to 400,000 values) have 0.5 to 1.1 n^(3/4)
 * bytes. Means of 64 such tensors, and larger ones put together of pieces of them, have about 0.6 n^(3/4). */
static uint64_t sparse_cost(uint64_t n)
{
    uint64_t root = square_root((n < MOST_N ? n : MOST_N) << 16); /* of n, in parts of 2^8 */

    return root * square_root(root << 8) >> 16;
}

/* Of one frame. */
static uint64_t cost_of(const tlc_codec *codec, const char *text, size_t n)
{
    int shrinks = codec->shrinker || tlc_codec_positions(codec);
    size_t block = codec->block && codec->block < n ? codec->block : n, bound;

    if (shrinks && codec->quantizer->quantize->makes == TLC_MAKES_SYMBOLS)
        return block ? tlc_product(tlc_ceil_div(n, block), HEADER + sparse_cost(block)) : HEADER;
    (void)tlc_codec_bound(text, TLC_F32, n, &bound);
    return shrinks ? tlc_ceil_div(bound, 3) : bound;
}

tlc_status tlc_frame_cost(const char *text, size_t n, size_t piece, uint64_t *cost)
{
    size_t bound;
    tlc_codec codec;
    tlc_status status = tlc_codec_bound(text, TLC_F32, n, &bound);

    if (status)
        return status;
    (void)tlc_codec_parse(&codec, text, strlen(text), NULL);
    *cost = piece < n ? tlc_product(cost_of(&codec, text, piece), tlc_ceil_div(n, piece)) : cost_of(&codec, text, n);
    return TLC_OK;
}
