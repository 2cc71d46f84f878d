/* SPDX-License-Identifier: MIT
 *
 * Quartic encoding (3LC, section 3.2): five symbols a byte, 0..242. Five zeros are 121.
 */
#include "stage.h"

static void encode(const tlc_kernels *k, const int8_t *const *q, size_t count, uint8_t *dst)
{
    k->quartic_encode(q, count, dst);
}

static void decode(const tlc_kernels *k, const uint8_t *src, size_t count, int8_t *const *q)
{
    k->quartic_decode(src, count, q);
}

static const tlc_packer packer = {
    .streams = 5,
    .place = {81, 27, 9, 3, 1},
    .base = 3,
    .largest = TLC_QUARTIC_MAX,
    .zero = TLC_QUARTIC_ZERO,
    .encode = encode,
    .decode = decode,
};

const tlc_stage tlc_stage_quartic = {
    .name = "quartic",
    .id = 1,
    .takes = TLC_KIND_TERNARY,
    .gives = TLC_KIND_QUARTIC,
    .pack = TLC_IF_BUILT(TLC_WITH_QUARTIC, &packer),
};

const tlc_stage_words tlc_words_quartic = {
    .meaning = TLC_IF_BUILT(TLC_WITH_QUARTIC, "quartic encoding: five symbols in a byte"),
    .source = TLC_IF_BUILT(TLC_WITH_QUARTIC, "Lim, Andersen, Kaminsky, 3LC, 2018, section 3.2"),
};
