/* SPDX-License-Identifier: MIT */
#include "reading.h"
#include "../codec/arguments.h"
#include "../common/bytes.h"
#include "../frames/formats.h"

tlc_status tlc_delta_begin_reading(tlc_delta *d, const void *src, size_t len, tlc_dtype dtype, const void *weights,
                                   size_t n, const tlc_delta_options *opt)
{
    tlc_status status = tlc_delta_begin(d, dtype, n, opt);

    if (!status)
        status = tlc_delta_not_null(d, "src", src, "len", len);
    if (!status)
        status = tlc_delta_not_null(d, "weights", weights, "n", n);
    return status ? status : tlc_delta_isa(d);
}

/* Is the delta for these n weights of dtype? read: its n was read. */
static tlc_status check_fit(tlc_delta *d, int read, const size_t *n, tlc_dtype dtype)
{
    if (read && n && d->n != *n)
        return TLC_FAIL(&d->why, TLC_ERR_SIZE, "the delta is for %llu weights, the caller has %zu",
                        (unsigned long long)d->n, *n);
    if (n && d->dtype != dtype)
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "the delta is for %s weights, the caller has %s",
                        tlc_dtype_name(d->dtype), tlc_dtype_name(dtype));
    return TLC_OK;
}

tlc_status tlc_delta_is_corrupt(tlc_delta *d, const char *what)
{
    return TLC_FAIL(&d->why, TLC_ERR_CORRUPT, "the delta was altered or cut: %s", what);
}

/* Is the sum of the digests of blocks that of all weights? */
static int check_digests(const tlc_delta *d)
{
    const size_t size = tlc_delta_digests_size(d);
    uint64_t base = 0, result = 0;

    if (!d->digests)
        return 1;
    for (size_t i = 0; i < tlc_delta_blocks(d) / tlc_delta_planes(d); i++) {
        const uint8_t *digests = d->digests + i * size;
        base += tlc_delta_has_base(d) ? tlc_load64(digests) : 0;
        result += tlc_load64(digests + size - TLC_DELTA_DIGEST_SIZE);
    }
    return base == d->base_digest && result == d->result_digest;
}

/* Reads the table, from byte `at` on. end: where the checksum begins. */
static tlc_status read_table(tlc_delta *d, const uint8_t *p, size_t at, size_t end, int is_checked)
{
    d->table = p + at;
    if (d->flags & TLC_DELTA_FLAG_SAME)
        return at == end && (!d->n || !(d->flags & TLC_DELTA_FLAG_NO_BASE))
                   ? TLC_OK
                   : tlc_delta_is_corrupt(d, "nothing differs, but bytes follow, or there is no base");
    if (!d->n || end - at < tlc_delta_table_size(d))
        return tlc_delta_is_corrupt(d, "its table of blocks does not fit");
    if (d->flags & TLC_DELTA_FLAG_BLOCK_DIGESTS)
        d->digests = d->table + tlc_delta_entries_size(d);
    at += tlc_delta_table_size(d);
    d->payloads = p + at;
    d->payloads_size = end - at;
    return is_checked || check_digests(d)
               ? TLC_OK
               : tlc_delta_is_corrupt(d, "the digests of its blocks are not those of its weights");
}

/* Are flags and dtype those of a frame of this version? */
static int are_flags(const tlc_delta *d, unsigned version)
{
    const unsigned options = TLC_DELTA_FLAG_DIGESTS | TLC_DELTA_FLAG_NO_BASE | TLC_DELTA_FLAG_SAME;
    const unsigned digests = TLC_DELTA_FLAG_DIGESTS | TLC_DELTA_FLAG_BLOCK_DIGESTS;
    const unsigned flags = d->flags & ~(unsigned)TLC_DELTA_FLAG_LOWER;
    const int halves = d->dtype == TLC_I64 || d->dtype == TLC_F64;

    if (d->flags & TLC_DELTA_FLAG_LOWER && (!halves || d->flags & TLC_DELTA_FLAG_SAME))
        return 0;
    switch (version) {
    case TLC_DELTA_VERSION_1: return !(flags & ~(options | TLC_DELTA_FLAG_DTYPE)) && d->dtype <= TLC_BF16;
    case TLC_DELTA_VERSION_2: return !(flags & ~options) && d->dtype > TLC_BF16 && d->dtype <= TLC_F64;
    }
    return (flags & ~(unsigned)TLC_DELTA_FLAG_NO_BASE) == digests && d->dtype <= TLC_F64;
}

int tlc_delta_read_head(tlc_delta *d, const uint8_t *p, size_t end, size_t *at, const size_t *n, tlc_dtype dtype,
                        tlc_status *expected)
{
    uint64_t found = 0;
    int read;

    d->flags = p[2];
    d->dtype = (tlc_dtype)(p[1] == TLC_DELTA_VERSION_1 ? d->flags & TLC_DELTA_FLAG_DTYPE : p[3]);
    *at = p[1] == TLC_DELTA_VERSION_1 ? 3 : 4;
    read = tlc_varint_read(p, end, at, &found);
    d->n = found;
    *expected = check_fit(d, read, n, dtype);
    if (!read || !are_flags(d, p[1]) || !tlc_delta_has_n(d->dtype, found) || found > SIZE_MAX)
        return 0;
    tlc_delta_of(d, d->dtype, found);
    if (tlc_delta_size(d, found) >= SIZE_MAX || end < tlc_delta_head_size(d))
        return 0;
    if (d->flags & TLC_DELTA_FLAG_DIGESTS && !(d->flags & TLC_DELTA_FLAG_NO_BASE)) {
        d->base_digest = tlc_load64(p + *at);
        *at += TLC_DELTA_DIGEST_SIZE;
    }
    if (d->flags & TLC_DELTA_FLAG_DIGESTS) {
        d->result_digest = tlc_load64(p + *at);
        *at += TLC_DELTA_DIGEST_SIZE;
    }
    return 1;
}

tlc_status tlc_delta_check_format(tlc_delta *d, const uint8_t *p, size_t len, size_t least)
{
    const int is_delta = len >= least && p[0] == TLC_DELTA_MAGIC;

    if (is_delta && p[1] >= TLC_DELTA_VERSION_1 && p[1] <= TLC_DELTA_VERSION_3)
        return TLC_OK;
    tlc_format_say(&d->why, TLC_FORMAT_DELTA, p, len);
    return is_delta ? TLC_ERR_VERSION : TLC_ERR_CORRUPT;
}

tlc_status tlc_delta_read_frame(tlc_delta *d, const void *src, size_t len, const size_t *n, tlc_dtype dtype,
                                int is_checked)
{
    const uint8_t *p = src;
    size_t at, end;
    tlc_status expected;

    tlc_status status = tlc_delta_check_format(d, p, len, TLC_DELTA_HEAD_MIN + TLC_CHECKSUM_SIZE);
    if (status)
        return status;
    end = len - TLC_CHECKSUM_SIZE;
    if (!is_checked && tlc_load32(p + end) != tlc_checksum(p, end))
        return TLC_FAIL(&d->why, TLC_ERR_CHECKSUM, "the checksum of the delta does not match: it was altered or cut");
    const int valid = tlc_delta_read_head(d, p, end, &at, n, dtype, &expected);
    if (expected)
        return expected;
    return valid ? read_table(d, p, at, end, is_checked) : tlc_delta_is_corrupt(d, "its head is invalid");
}

void tlc_delta_take(tlc_delta_reading *r, size_t first, size_t count)
{
    tlc_delta *d = r->d;
    const size_t planes = tlc_delta_planes(d);

    r->first = first;
    r->count = count;
    r->block = first / TLC_DELTA_BLOCK * planes;
    r->end = count ? ((first + count - 1) / TLC_DELTA_BLOCK + 1) * planes : r->block;
    tlc_delta_split(d, r->end - r->block);
}

tlc_delta_block tlc_delta_block_at(const tlc_delta *d, size_t b, size_t at)
{
    static const uint8_t some_base[1];
    tlc_delta_block block = {tlc_delta_weights_of(d, NULL, b), (tlc_delta_kind)(tlc_delta_entry(d, b) >> 30),
                             d->payloads + at, tlc_delta_payload_size(d, b)};

    if (!(d->flags & TLC_DELTA_FLAG_NO_BASE))
        block.weights.base = some_base;
    return block;
}

static void check_range(void *arg, size_t i)
{
    tlc_delta_reading *r = arg;
    size_t at = r->offset[i], b = tlc_delta_range_start(r, i);
    const size_t end = tlc_delta_range_start(r, i + 1);

    for (r->valid[i] = 1; b < end && r->valid[i];) {
        tlc_delta_block blocks[TLC_DELTA_TOGETHER];
        uint64_t changed = 0;
        size_t count = 0;

        for (; count < TLC_DELTA_TOGETHER && b < end; count++, b++) {
            blocks[count] = tlc_delta_block_at(r->d, b, at);
            at += blocks[count].len;
            r->blocks[i][blocks[count].kind]++;
        }
        r->valid[i] = tlc_delta_blocks_check(blocks, count, &changed);
        r->changed[i] += changed;
    }
}

/* Finds where the payloads of each range begin. Returns 0 if those of all blocks are not as long as they should be. */
static int find_offsets(tlc_delta_reading *r)
{
    const tlc_delta *d = r->d;
    uint64_t at = 0;
    size_t i = 0;

    for (size_t b = 0; b < tlc_delta_blocks(d); b++) {
        if (i < d->ranges.count && b == tlc_delta_range_start(r, i))
            r->offset[i++] = (size_t)at;
        at += tlc_delta_payload_size(d, b);
    }
    return at == d->payloads_size;
}

tlc_status tlc_delta_check_blocks(tlc_delta_reading *r)
{
    tlc_delta *d = r->d;

    if (d->flags & TLC_DELTA_FLAG_SAME)
        return TLC_OK;
    if (!find_offsets(r))
        return tlc_delta_is_corrupt(r->d, "its blocks do not end where it ends");
    tlc_ranges_run(&d->options.parallel, d->ranges.count, check_range, r);
    for (size_t i = 0; i < d->ranges.count; i++)
        if (!r->valid[i])
            return tlc_delta_is_corrupt(r->d, "a block is invalid");
    return TLC_OK;
}
