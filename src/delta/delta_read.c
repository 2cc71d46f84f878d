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

/* Reads the table, from byte `at` on. end: where the checksum begins. */
static tlc_status read_table(tlc_delta *d, const uint8_t *p, size_t at, size_t end)
{
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

/* Reads the head, from byte 2 on. Returns 0 if no frame has it. end: of the bytes, or where the checksum begins. *at:
 * where the head ends. *expected: TLC_OK if n and dtype are those of the caller. */
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
    if (tlc_delta_size(d, found) > SIZE_MAX || end < tlc_delta_head_size(d))
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

/* Are these the first bytes of a delta that this library reads? */
static tlc_status check_format(tlc_delta *d, const uint8_t *p, size_t len, size_t least)
{
    const int is_delta = len >= least && p[0] == TLC_DELTA_MAGIC;

    if (is_delta && (p[1] == TLC_DELTA_VERSION_1 || p[1] == TLC_DELTA_VERSION_2))
        return TLC_OK;
    tlc_format_say(&d->why, TLC_FORMAT_DELTA, p, len);
    return is_delta ? TLC_ERR_VERSION : TLC_ERR_CORRUPT;
}

/* Reads head and checksum. n and dtype: those that are expected, or n NULL. */
static tlc_status read_frame(tlc_delta *d, const void *src, size_t len, const size_t *n, tlc_dtype dtype)
{
    const uint8_t *p = src;
    size_t at, end;
    tlc_status expected;

    tlc_status status = check_format(d, p, len, TLC_DELTA_HEAD_MIN + TLC_CHECKSUM_SIZE);
    if (status)
        return status;
    end = len - TLC_CHECKSUM_SIZE;
    if (tlc_load32(p + end) != tlc_checksum(p, end))
        return TLC_FAIL(&d->why, TLC_ERR_CHECKSUM, "the checksum of the delta does not match: it was altered or cut");
    const int valid = read_head(d, p, end, &at, n, dtype, &expected);
    if (expected)
        return expected;
    return valid ? read_table(d, p, at, end) : is_corrupt(d, "its head is invalid");
}

typedef struct reading {
    tlc_delta *d;
    const uint8_t *base; /* the weights first .. first + count - 1; NULL: there are none, or they are not looked at */
    uint8_t *out;        /* where the next ones go, which may be the base; NULL: nothing is written */
    size_t first, count;
    size_t block, end;             /* blocks that have some of these weights */
    size_t offset[TLC_RANGES_MAX]; /* of the first payload of a range */
    int valid[TLC_RANGES_MAX];
    uint64_t changed[TLC_RANGES_MAX], blocks[TLC_RANGES_MAX][4];
} reading;

/* Divides the blocks of the weights first .. first + count - 1. */
static void take_weights(reading *r, size_t first, size_t count)
{
    tlc_delta *d = r->d;
    const size_t planes = tlc_delta_planes(d);

    r->first = first;
    r->count = count;
    r->block = first / TLC_DELTA_BLOCK * planes;
    r->end = count ? ((first + count - 1) / TLC_DELTA_BLOCK + 1) * planes : r->block;
    tlc_delta_split(d, r->end - r->block);
}

/* The first block of range i. */
static size_t range_start(const reading *r, size_t i)
{
    return r->block + tlc_range_start(&r->d->ranges, i);
}

static size_t payload_size(const tlc_delta *d, size_t b)
{
    return tlc_load32(d->table + b * TLC_DELTA_ENTRY_SIZE) & TLC_DELTA_ENTRY_LENGTH;
}

/* Block b, whose payload is at `at`. */
static tlc_delta_block block_of(const reading *r, size_t b, size_t at)
{
    static const uint8_t some_base[1];
    const tlc_delta *d = r->d;

    tlc_delta_block block = {tlc_delta_weights_of(d, NULL, b),
                             (tlc_delta_kind)(tlc_load32(d->table + b * TLC_DELTA_ENTRY_SIZE) >> 30), d->payloads + at,
                             payload_size(d, b)};
    block.weights.base = d->flags & TLC_DELTA_FLAG_NO_BASE ? NULL : some_base; /* whether there is one is all that
                                                                                  matters */
    return block;
}

static void check_range(void *arg, size_t i)
{
    reading *r = arg;
    size_t at = r->offset[i], b = range_start(r, i);
    const size_t end = range_start(r, i + 1);

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

/* The weights of block b that the caller has, as units of the block. */
static tlc_delta_window window_of(const reading *r, size_t b)
{
    const size_t first = tlc_delta_first(r->d, b), n = tlc_delta_count(r->d, b);

    return (tlc_delta_window){r->first > first ? r->first - first : 0, tlc_smaller(r->first + r->count - first, n)};
}

/* Where weight i of the tensor is in base and out, in bytes. */
static size_t place_of(const reading *r, size_t i)
{
    return (size_t)tlc_delta_size(r->d, i - r->first);
}

/* Halves of weights of 64 bits are made one after the other, so all of these weights are copied before. */
static void copy_range(void *arg, size_t i)
{
    const reading *r = arg;

    for (size_t b = range_start(r, i); b < range_start(r, i + 1); b++) {
        const tlc_delta_window w = window_of(r, b);
        const size_t at = place_of(r, tlc_delta_first(r->d, b) + w.first);
        if (b % tlc_delta_planes(r->d) == 0)
            memcpy(r->out + at, r->base + at, (size_t)tlc_delta_size(r->d, w.end - w.first));
    }
}

static void apply_range(void *arg, size_t i)
{
    const reading *r = arg;
    const tlc_delta *d = r->d;
    const int has_halves = tlc_delta_planes(d) == 2;
    size_t at = r->offset[i];

    for (size_t b = range_start(r, i); b < range_start(r, i + 1); b++) {
        const tlc_delta_block block = block_of(r, b, at);
        const tlc_delta_window w = window_of(r, b);
        const size_t place = place_of(r, tlc_delta_first(d, b) + w.first);
        if (r->base != r->out && block.weights.base && !has_halves)
            memcpy(r->out + place, r->base + place, (size_t)tlc_delta_size(d, w.end - w.first));
        tlc_delta_block_apply(&block, w, r->out + place + tlc_delta_plane_offset(d, b));
        at += block.len;
    }
}

/* Finds where the payloads of each range begin. Returns 0 if those of all blocks are not as long as they should be. */
static int find_offsets(reading *r)
{
    const tlc_delta *d = r->d;
    uint64_t at = 0;
    size_t i = 0;

    for (size_t b = 0; b < tlc_delta_blocks(d); b++) {
        if (i < d->ranges.count && b == range_start(r, i))
            r->offset[i++] = (size_t)at;
        at += payload_size(d, b);
        if (at > d->payloads_size)
            return 0;
    }
    return at == d->payloads_size;
}

/* Checks the blocks of these weights. */
static tlc_status check(reading *r)
{
    tlc_delta *d = r->d;

    if (d->flags & TLC_DELTA_FLAG_SAME)
        return TLC_OK;
    if (!find_offsets(r))
        return is_corrupt(r->d, "its blocks do not end where it ends");
    if (!r->count)
        return TLC_OK;
    tlc_ranges_run(&d->options.parallel, d->ranges.count, check_range, r);
    for (size_t i = 0; i < d->ranges.count; i++)
        if (!r->valid[i])
            return is_corrupt(r->d, "a block is invalid");
    return TLC_OK;
}

/* A part of the weights has no digest. */
static tlc_status check_base(const reading *r)
{
    tlc_delta *d = r->d;

    if (d->flags & TLC_DELTA_FLAG_NO_BASE)
        return TLC_OK;
    if (!r->base && r->count)
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "base is NULL, but the delta has one");
    if (!(d->flags & TLC_DELTA_FLAG_DIGESTS) || r->count != d->n)
        return TLC_OK;
    const uint64_t digest = tlc_delta_digest_all(d, r->base);
    return digest == d->base_digest
               ? TLC_OK
               : TLC_FAIL(&d->why, TLC_ERR_BASE,
                          "the weights are not the base of the delta, which has digest %llu: theirs is %llu",
                          (unsigned long long)d->base_digest, (unsigned long long)digest);
}

static void apply(reading *r)
{
    tlc_delta *d = r->d;
    const int has_base = !(d->flags & TLC_DELTA_FLAG_NO_BASE), is_same = (d->flags & TLC_DELTA_FLAG_SAME) != 0;

    if (r->base != r->out && has_base && (is_same || tlc_delta_planes(d) == 2))
        tlc_ranges_run(&d->options.parallel, d->ranges.count, copy_range, r);
    if (!is_same)
        tlc_ranges_run(&d->options.parallel, d->ranges.count, apply_range, r);
}

/* Reads a frame and checks it for a range of weights, and the base if that is all of them. */
static tlc_status read_range(reading *r, const void *src, size_t len, tlc_dtype dtype, size_t n, size_t first,
                             size_t count)
{
    tlc_status status = read_frame(r->d, src, len, &n, dtype);

    if (status)
        return status;
    take_weights(r, first, count);
    status = check(r);
    return status ? status : check_base(r);
}

/* Is first .. first + count - 1 a range of n weights? */
static tlc_status check_window(tlc_delta *d, tlc_dtype dtype, size_t n, size_t first, size_t count)
{
    if (first > n || count > n - first)
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "first is %zu, count %zu, and n %zu", first, count, n);
    if (!tlc_delta_has_n(dtype, first) || !tlc_delta_has_n(dtype, count))
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "first is %zu, count %zu, and %s has two weights in a byte", first,
                        count, tlc_dtype_name(dtype));
    return TLC_OK;
}

static int overlap(const uint8_t *a, const uint8_t *b, size_t size)
{
    return a != b && (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + size;
}

/* out_name, size_name: of out and count, for messages. */
static tlc_status apply_weights(const void *src, size_t len, tlc_dtype dtype, const void *base, void *out, size_t n,
                                size_t first, size_t count, const tlc_delta_options *opt, const char *out_name,
                                const char *size_name)
{
    tlc_delta d;
    reading r = {.d = &d, .base = base, .out = out};
    tlc_status status = tlc_delta_begin(&d, dtype, n, opt);

    if (!status)
        status = tlc_delta_not_null(&d, "src", src, "len", len);
    if (!status)
        status = check_window(&d, dtype, n, first, count);
    if (!status)
        status = tlc_delta_not_null(&d, out_name, out, size_name, count);
    if (!status && base && count && overlap(base, out, (size_t)tlc_delta_size(&d, count)))
        status = TLC_FAIL(&d.why, TLC_ERR_PARAM, "base and out share memory, but are not the same");
    if (!status)
        status = tlc_delta_isa(&d);
    if (status)
        return status;
    tlc_float_mode mode = tlc_float_enter();
    status = read_range(&r, src, len, dtype, n, first, count);
    if (!status && count)
        apply(&r);
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_delta_apply_range(const void *src, size_t len, tlc_dtype dtype, const void *base, void *out, size_t n,
                                 size_t first, size_t count, const tlc_delta_options *opt)
{
    return apply_weights(src, len, dtype, base, out, n, first, count, opt, "out", "count");
}

tlc_status tlc_delta_apply(const void *src, size_t len, tlc_dtype dtype, void *weights, size_t n,
                           const tlc_delta_options *opt)
{
    return apply_weights(src, len, dtype, weights, weights, n, 0, n, opt, "weights", "n");
}

tlc_status tlc_delta_check(const void *src, size_t len, tlc_dtype dtype, const void *weights, size_t n,
                           const tlc_delta_options *opt)
{
    tlc_delta d;
    reading r = {.d = &d, .base = weights};
    tlc_status status = tlc_delta_begin(&d, dtype, n, opt);

    if (!status)
        status = tlc_delta_not_null(&d, "src", src, "len", len);
    if (!status)
        status = tlc_delta_not_null(&d, "weights", weights, "n", n);
    if (!status)
        status = tlc_delta_isa(&d);
    if (status)
        return status;
    tlc_float_mode mode = tlc_float_enter();
    status = read_range(&r, src, len, dtype, n, 0, n);
    tlc_float_leave(mode);
    return status;
}

/* Reads and checks a whole frame for any weights. r->d: an empty delta. */
static tlc_status inspect(reading *r, const void *src, size_t len)
{
    tlc_status status = read_frame(r->d, src, len, NULL, TLC_F32);

    if (status)
        return status;
    take_weights(r, 0, (size_t)r->d->n);
    tlc_float_mode mode = tlc_float_enter();
    status = check(r);
    tlc_float_leave(mode);
    return status;
}

/* What head and blocks say. r: NULL, or a reading that has passed the check. */
static void describe(const tlc_delta *d, const reading *r, tlc_delta_info *info)
{
    const int is_same = (d->flags & TLC_DELTA_FLAG_SAME) != 0;
    tlc_delta_info ours = {
        .version = tlc_delta_version(d),
        .dtype = d->dtype,
        .n = d->n,
        .has_base = !(d->flags & TLC_DELTA_FLAG_NO_BASE),
        .has_digests = (d->flags & TLC_DELTA_FLAG_DIGESTS) != 0,
        .base_digest = d->base_digest,
        .result_digest = d->result_digest,
    };

    if (r) {
        for (size_t kind = 0; kind < 4; kind++)
            ours.blocks[kind] = is_same ? 0 : r->blocks[0][kind];
        if (is_same)
            ours.blocks[TLC_DELTA_SAME] = tlc_delta_blocks(d);
        ours.changed = r->changed[0];
    }
    tlc_export(info, &ours, sizeof ours);
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
    if (!status)
        describe(&d, &r, info);
    return status;
}

tlc_status tlc_delta_peek(const void *src, size_t len, tlc_delta_info *info)
{
    tlc_delta d;
    tlc_status status, expected;
    size_t at;

    if ((!src && len) || !info || info->struct_size < sizeof info->struct_size)
        return TLC_ERR_PARAM;
    (void)tlc_delta_begin(&d, TLC_F32, 0, NULL);
    status = check_format(&d, src, len, TLC_DELTA_HEAD_MIN);
    if (!status && !read_head(&d, src, len, &at, NULL, TLC_F32, &expected))
        status = TLC_ERR_CORRUPT;
    if (!status)
        describe(&d, NULL, info);
    return status;
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
