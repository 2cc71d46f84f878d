/* SPDX-License-Identifier: MIT
 *
 * Zero-run encoding (3LC, section 3.3): runs of the quartic byte 121 (five symbols 0) become bytes 243..255; 255 stands
 * for 14 of them.
 */
#include "stage.h"

static size_t encode(const tlc_kernels *k, size_t *run, const uint8_t *src, size_t len, uint8_t *dst)
{
    if (src)
        return k->zerorun_encode(run, src, len, dst);
    size_t written = tlc_zerorun_flush(*run, dst);
    *run = 0;
    return written;
}

static size_t decode(const tlc_kernels *k, const uint8_t *src, size_t len, uint8_t *dst)
{
    return k->zerorun_decode(src, len, dst);
}

static uint64_t size(const tlc_kernels *k, const uint8_t *src, size_t len)
{
    return k->zerorun_size(src, len);
}

static unsigned expansion(uint8_t byte)
{
    return byte <= 242 ? 1 : byte == 255 ? TLC_RUN_MAX : byte - 241u;
}

_Static_assert(TLC_RUN_MAX <= TLC_EXPANSION_MAX && TLC_ZERORUN_ROOM <= TLC_SHRINKER_ROOM, "what coders have room for");

static const tlc_shrinker shrinker = {
    .encode = encode,
    .decode = decode,
    .size = size,
    .expansion = expansion,
};

const tlc_stage tlc_stage_zerorun = {
    .name = "zerorun",
    .id = 1,
    .takes = TLC_KIND_QUARTIC,
    .gives = TLC_KIND_BYTES,
    .shrink = TLC_IF_BUILT(TLC_WITH_ZERORUN, &shrinker),
};

const tlc_stage_words tlc_words_zerorun = {
    .meaning = TLC_IF_BUILT(TLC_WITH_ZERORUN, "zero-run encoding: up to 14 bytes of five zeros become one byte"),
    .source = TLC_IF_BUILT(TLC_WITH_ZERORUN, "Lim, Andersen, Kaminsky, 3LC, 2018, section 3.3"),
};
