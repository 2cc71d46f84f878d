/* SPDX-License-Identifier: MIT
 *
 * Lossless deltas of weights: the functions that read frames.
 */
#include "../codec/arguments.h"
#include "../common/bytes.h"
#include "../common/structs.h"
#include "delta_frame.h"
#include "../frames/formats.h"

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

/* The head is impossible, or the bytes are not what it says. */
static tlc_status is_corrupt(tlc_delta *d, const char *what)
{
    return TLC_FAIL(&d->why, TLC_ERR_CORRUPT, "the delta was altered or cut: %s", what);
}

/* Reads digests and table, from byte `at` on. end: where the checksum begins. */
static tlc_status read_rest(tlc_delta *d, const uint8_t *p, size_t at, size_t end)
{
    if (d->flags & TLC_DELTA_FLAG_DIGESTS) {
        if (!(d->flags & TLC_DELTA_FLAG_NO_BASE)) {
            d->base_digest = tlc_load64(p + at);
            at += TLC_DELTA_DIGEST_SIZE;
        }
        d->result_digest = tlc_load64(p + at);
        at += TLC_DELTA_DIGEST_SIZE;
    }
    d->table = p + at;
    if (d->flags & TLC_DELTA_FLAG_SAME)
        return at == end && (!d->n || !(d->flags & TLC_DELTA_FLAG_NO_BASE))
                   ? TLC_OK
                   : is_corrupt(d, "nothing differs, but bytes follow, or there is no base");
    if (!d->n || (end - at) / TLC_DELTA_ENTRY_SIZE < tlc_delta_blocks(d))
        return is_corrupt(d, "its table of blocks does not fit");
    at += tlc_delta_blocks(d) * TLC_DELTA_ENTRY_SIZE;
    d->payloads = p + at;
    d->payloads_size = end - at;
    return TLC_OK;
}

/* Reads flags, dtype and n, from byte 2 on. Returns 0 if no frame has them. *expected: TLC_OK if they are those of the
 * caller. */
static int read_head(tlc_delta *d, const uint8_t *p, size_t end, size_t *at, const size_t *n, tlc_dtype dtype,
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
    const int known = p[1] == TLC_DELTA_VERSION_1
                          ? d->dtype <= TLC_BF16
                          : d->dtype > TLC_BF16 && d->dtype <= TLC_F64 && !(d->flags & TLC_DELTA_FLAG_DTYPE);
    if (!read || d->flags & ~(unsigned)TLC_DELTA_FLAGS || !known || !tlc_delta_has_n(d->dtype, found))
        return 0;
    tlc_delta_of(d, d->dtype, found);
    return tlc_delta_size(d, found) <= SIZE_MAX && end >= tlc_delta_head_size(d);
}

/* Reads head and checksum. n and dtype: those that are expected, or n NULL. */
static tlc_status read_frame(tlc_delta *d, const void *src, size_t len, const size_t *n, tlc_dtype dtype)
{
    const uint8_t *p = src;
    size_t at, end;
    tlc_status expected;

    if (len < TLC_DELTA_HEAD_MIN + TLC_CHECKSUM_SIZE || p[0] != TLC_DELTA_MAGIC) {
        tlc_format_say(&d->why, TLC_FORMAT_DELTA, src, len);
        return TLC_ERR_CORRUPT;
    }
    if (p[1] != TLC_DELTA_VERSION_1 && p[1] != TLC_DELTA_VERSION_2) {
        tlc_format_say(&d->why, TLC_FORMAT_DELTA, src, len);
        return TLC_ERR_VERSION;
    }
    end = len - TLC_CHECKSUM_SIZE;
    if (tlc_load32(p + end) != tlc_checksum(p, end))
        return TLC_FAIL(&d->why, TLC_ERR_CHECKSUM, "the checksum of the delta does not match: it was altered or cut");
    const int valid = read_head(d, p, end, &at, n, dtype, &expected);
    if (expected)
        return expected;
    return valid ? read_rest(d, p, at, end) : is_corrupt(d, "its head is invalid");
}

typedef struct reading {
    tlc_delta *d;
    uint8_t *weights;              /* NULL: they are only checked */
    size_t offset[TLC_RANGES_MAX]; /* of the first payload of a range */
    int valid[TLC_RANGES_MAX];
    uint64_t changed[TLC_RANGES_MAX], blocks[TLC_RANGES_MAX][4];
} reading;

/* Block b, whose payload is at `at`. */
static tlc_delta_block block_of(const reading *r, size_t b, size_t at)
{
    static const uint8_t some_base[1];
    const tlc_delta *d = r->d;
    const uint32_t entry = tlc_load32(d->table + b * TLC_DELTA_ENTRY_SIZE);
    const uint8_t *base = r->weights ? r->weights : some_base;

    tlc_delta_block block = {tlc_delta_weights_of(d, NULL, b), (tlc_delta_kind)(entry >> 30), d->payloads + at,
                             entry & TLC_DELTA_ENTRY_LENGTH};
    block.weights.base = d->flags & TLC_DELTA_FLAG_NO_BASE ? NULL : base; /* whether there is one is all that matters */
    return block;
}

static void check_range(void *arg, size_t i)
{
    reading *r = arg;
    const tlc_delta *d = r->d;
    size_t at = r->offset[i], b = tlc_range_start(&d->ranges, i);
    const size_t end = tlc_range_start(&d->ranges, i + 1);

    for (r->valid[i] = 1; b < end && r->valid[i];) {
        tlc_delta_block blocks[TLC_DELTA_TOGETHER];
        uint64_t changed = 0;
        size_t count = 0;

        for (; count < TLC_DELTA_TOGETHER && b < end; count++, b++) {
            blocks[count] = block_of(r, b, at);
            at += blocks[count].len;
            r->blocks[i][blocks[count].kind]++;
        }
        r->valid[i] = tlc_delta_blocks_check(blocks, count, &changed);
        r->changed[i] += changed;
    }
}

static void apply_range(void *arg, size_t i)
{
    const reading *r = arg;
    const tlc_delta *d = r->d;
    size_t at = r->offset[i];

    for (size_t b = tlc_range_start(&d->ranges, i); b < tlc_range_start(&d->ranges, i + 1); b++) {
        const tlc_delta_block block = block_of(r, b, at);
        tlc_delta_block_apply(&block, r->weights + tlc_delta_block_start(d, b));
        at += block.len;
    }
}

/* Finds where the payloads of each range begin. Returns 0 if all together are not as long as they should be. */
static int find_offsets(reading *r)
{
    const tlc_delta *d = r->d;
    uint64_t at = 0;

    for (size_t i = 0; i < d->ranges.count; i++) {
        r->offset[i] = (size_t)at;
        for (size_t b = tlc_range_start(&d->ranges, i); b < tlc_range_start(&d->ranges, i + 1); b++)
            at += tlc_load32(d->table + b * TLC_DELTA_ENTRY_SIZE) & TLC_DELTA_ENTRY_LENGTH;
        if (at > d->payloads_size)
            return 0;
    }
    return at == d->payloads_size;
}

/* Checks all blocks. */
static tlc_status check(reading *r)
{
    tlc_delta *d = r->d;

    if (d->flags & TLC_DELTA_FLAG_SAME)
        return TLC_OK;
    if (!find_offsets(r))
        return is_corrupt(r->d, "its blocks do not end where it ends");
    tlc_ranges_run(&d->options.parallel, d->ranges.count, check_range, r);
    for (size_t i = 0; i < d->ranges.count; i++)
        if (!r->valid[i])
            return is_corrupt(r->d, "a block is invalid");
    return TLC_OK;
}

static tlc_status apply(tlc_delta *d, uint8_t *weights)
{
    reading r = {.d = d};
    tlc_status status;

    tlc_delta_split(d);
    status = check(&r);
    if (status)
        return status;
    if (d->flags & TLC_DELTA_FLAG_DIGESTS && !(d->flags & TLC_DELTA_FLAG_NO_BASE) &&
        tlc_delta_digest_all(d, weights) != d->base_digest)
        return TLC_FAIL(&d->why, TLC_ERR_BASE,
                        "the weights are not the base of the delta, which has digest %llu: theirs is %llu",
                        (unsigned long long)d->base_digest, (unsigned long long)tlc_delta_digest_all(d, weights));
    if (d->flags & TLC_DELTA_FLAG_SAME)
        return TLC_OK;
    r.weights = weights;
    tlc_ranges_run(&d->options.parallel, d->ranges.count, apply_range, &r);
    return TLC_OK;
}

tlc_status tlc_delta_apply(const void *src, size_t len, tlc_dtype dtype, void *weights, size_t n,
                           const tlc_delta_options *opt)
{
    tlc_delta d;
    tlc_status status = tlc_delta_begin(&d, dtype, n, opt);

    if (!status)
        status = tlc_delta_not_null(&d, "src", src, "len", len);
    if (!status)
        status = tlc_delta_not_null(&d, "weights", weights, "n", n);
    if (!status)
        status = tlc_delta_isa(&d);
    if (!status)
        status = read_frame(&d, src, len, &n, dtype);
    if (status)
        return status;
    tlc_float_mode mode = tlc_float_enter();
    status = apply(&d, weights);
    tlc_float_leave(mode);
    return status;
}

/* Reads and checks a whole frame for any weights. r->d: an empty delta. */
static tlc_status inspect(reading *r, const void *src, size_t len)
{
    tlc_status status = read_frame(r->d, src, len, NULL, TLC_F32);

    if (status)
        return status;
    tlc_delta_split(r->d);
    tlc_float_mode mode = tlc_float_enter();
    status = check(r);
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_delta_inspect(const void *src, size_t len, tlc_delta_info *info)
{
    tlc_delta d;
    reading r = {.d = &d};
    tlc_status status;

    if ((!src && len) || !info || info->struct_size < sizeof info->struct_size)
        return TLC_ERR_PARAM;
    (void)tlc_delta_begin(&d, TLC_F32, 0, NULL);
    status = tlc_delta_isa(&d);
    if (!status)
        status = inspect(&r, src, len);
    if (status)
        return status;
    tlc_delta_info ours = {
        .version = tlc_delta_version(&d),
        .dtype = d.dtype,
        .n = d.n,
        .has_base = !(d.flags & TLC_DELTA_FLAG_NO_BASE),
        .has_digests = (d.flags & TLC_DELTA_FLAG_DIGESTS) != 0,
        .base_digest = d.base_digest,
        .result_digest = d.result_digest,
        .blocks = {d.flags & TLC_DELTA_FLAG_SAME ? tlc_delta_blocks(&d) : r.blocks[0][0], r.blocks[0][1],
                   r.blocks[0][2], r.blocks[0][3]},
        .changed = r.changed[0],
    };
    tlc_export(info, &ours, sizeof ours);
    return TLC_OK;
}

tlc_status tlc_delta_explain(const void *src, size_t len, const tlc_text *w)
{
    tlc_delta d;
    reading r = {.d = &d};

    (void)tlc_delta_begin(&d, TLC_F32, 0, NULL);
    d.why = *w;
    tlc_status status = tlc_delta_isa(&d);
    return status ? status : inspect(&r, src, len);
}
