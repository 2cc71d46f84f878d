/* SPDX-License-Identifier: MIT */
#include "bounds.h"
#include "../common/sizes.h"
#include "../coding/coder.h"
#include "frame.h"

/* Largest payload of n values, with the block table. */
static uint64_t payload_bound(const tlc_codec *codec, tlc_dtype dtype, size_t n)
{
    const tlc_coder *coder = tlc_coder_for(codec);

    if (!codec->block)
        return n ? coder->bound(codec, dtype, n) : 0;
    size_t whole = n / codec->block, last = n % codec->block;
    uint64_t total = tlc_product(whole + (last != 0), tlc_table_entry_size(codec));
    total = tlc_sum(total, tlc_product(whole, coder->bound(codec, dtype, codec->block)));
    return tlc_sum(total, last ? coder->bound(codec, dtype, last) : 0);
}

static tlc_status as_size(uint64_t total, size_t *size)
{
    if (total > SIZE_MAX || total == UINT64_MAX)
        return TLC_ERR_SIZE;
    *size = (size_t)total;
    return TLC_OK;
}

tlc_status tlc_frame_bound(const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n, size_t *bound)
{
    size_t around = tlc_frame_header_size(codec, n) + (checksum ? TLC_CHECKSUM_SIZE : 0);
    tlc_float_mode mode = tlc_float_enter();
    uint64_t total = tlc_sum(payload_bound(codec, dtype, n), around);

    tlc_float_leave(mode);
    return as_size(total, bound);
}

tlc_status tlc_frame_room(const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n, size_t cap, tlc_text *w)
{
    size_t bound;

    if (tlc_frame_bound(codec, dtype, checksum, n, &bound))
        return TLC_FAIL(w, TLC_ERR_SIZE, "n is %zu: a frame has more bytes than the address space", n);
    if (cap < bound)
        return TLC_FAIL(w, TLC_ERR_CAPACITY, "cap is %zu bytes, %zu are needed", cap, bound);
    return TLC_OK;
}

tlc_status tlc_scratch_size(const tlc_codec *codec, size_t n, size_t tasks, size_t *size)
{
    size_t unit = codec->block && codec->block < n ? codec->block : n;
    uint64_t units = codec->block ? tlc_ceil_div(n, codec->block) : 1;

    return as_size(n ? tlc_product(tlc_unit_scratch(codec, unit), units < tasks ? units : tasks) : 0, size);
}
