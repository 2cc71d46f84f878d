/* SPDX-License-Identifier: MIT
 *
 * Lossless deltas of weights: frames, and the public functions.
 */
#include "coding/frame.h"
#include "coding/ranges.h"
#include "common/bytes.h"
#include "common/sizes.h"
#include "common/structs.h"
#include "common/varint.h"
#include "delta/blocks.h"
#include "delta/weights.h"
#include <threelc/delta.h>
#include <xxhash.h>

#define DELTA_MAGIC 'D'
#define DELTA_VERSION 1

enum {
    FLAG_DTYPE = 0x03,
    FLAG_DIGESTS = 0x04,
    FLAG_NO_BASE = 0x08,
    FLAG_SAME = 0x10,
    FLAGS = 0x1f,
    DIGEST_SIZE = 8,
    ENTRY_SIZE = 4,
    HEAD_MIN = 4, /* with n = 0 */
    HEAD_MAX = 3 + TLC_VARINT_MAX + 2 * DIGEST_SIZE,
    PIECE = 4096 /* weights that are hashed at once */
};
#define ENTRY_LENGTH ((UINT32_C(1) << 30) - 1)

/* A frame of any weights, to be written or read. */
typedef struct delta {
    tlc_delta_options options;
    const tlc_kernels *k;
    tlc_dtype dtype;
    unsigned flags;
    uint64_t n, base_digest, result_digest;
    const uint8_t *table, *payloads; /* of a frame that is read */
    size_t payloads_size;
    tlc_ranges ranges; /* of blocks */
} delta;

static size_t blocks_of(uint64_t n)
{
    return (size_t)tlc_ceil_div(n, TLC_DELTA_BLOCK);
}

static tlc_status options_of(delta *d, tlc_dtype dtype, uint64_t n, const tlc_delta_options *opt)
{
    memset(d, 0, sizeof *d);
    if ((opt && !tlc_import(&d->options, sizeof d->options, opt)) || (unsigned)dtype > TLC_BF16)
        return TLC_ERR_PARAM;
    if ((int)d->options.isa < TLC_ISA_AUTO || d->options.isa > TLC_ISA_NEON || d->options.without_digests >> 1)
        return TLC_ERR_PARAM;
    d->k = tlc_kernels_for(d->options.isa);
    d->dtype = dtype;
    d->n = n;
    return d->k ? TLC_OK : TLC_ERR_UNSUPPORTED;
}

/* Blocks of a range are checked together, so a range has as many as that, if there are 16 such ranges. */
static void split(delta *d)
{
    const size_t blocks = blocks_of(d->n), each = tlc_smaller(blocks / 16, TLC_DELTA_TOGETHER);

    d->ranges = tlc_ranges_split(&d->options.parallel, blocks, each ? each : 1);
}

/* The weights of block b. */
static tlc_delta_weights weights_of(const delta *d, const uint8_t *base, size_t b)
{
    const size_t first = b * TLC_DELTA_BLOCK, bytes = tlc_delta_width(d->dtype) / 8;

    return (tlc_delta_weights){d->k, d->dtype, base ? base + first * bytes : NULL,
                               tlc_smaller((size_t)d->n - first, TLC_DELTA_BLOCK)};
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

/* Of n weights, which are those from value `first` on. */
static uint64_t digest_of(const uint8_t *weights, size_t first, size_t n, unsigned width)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i += PIECE) {
        const size_t count = tlc_smaller(n - i, PIECE), bytes = width / 8;
        const uint8_t *piece = weights + i * bytes;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        uint8_t swapped[PIECE * 4];
        tlc_weights_convert(swapped, piece, count, width);
        piece = swapped;
#endif
        sum += XXH3_64bits_withSeed(piece, count * bytes, (first + i) / PIECE);
    }
    return sum;
}

typedef struct digesting {
    const delta *d;
    const uint8_t *weights;
    uint64_t sums[TLC_RANGES_MAX];
} digesting;

static void digest_range(void *arg, size_t i)
{
    digesting *g = arg;
    const delta *d = g->d;
    const size_t bytes = tlc_delta_width(d->dtype) / 8, first = tlc_range_start(&d->ranges, i) * TLC_DELTA_BLOCK;
    const size_t end = tlc_smaller(tlc_range_start(&d->ranges, i + 1) * TLC_DELTA_BLOCK, (size_t)d->n);

    g->sums[i] = digest_of(g->weights + first * bytes, first, end - first, tlc_delta_width(d->dtype));
}

static uint64_t digest_all(const delta *d, const void *weights)
{
    digesting g = {.d = d, .weights = weights};
    uint64_t sum = 0;

    if (!d->n)
        return 0;
    tlc_ranges_run(&d->options.parallel, d->ranges.count, digest_range, &g);
    for (size_t i = 0; i < d->ranges.count; i++)
        sum += g.sums[i];
    return sum;
}

tlc_status tlc_delta_digest(const void *weights, size_t n, tlc_dtype dtype, uint64_t *digest,
                            const tlc_delta_options *opt)
{
    delta d;
    tlc_status status = options_of(&d, dtype, n, opt);

    if (!digest || (!weights && n))
        return TLC_ERR_PARAM;
    if (status)
        return status;
    split(&d);
    *digest = digest_all(&d, weights);
    return TLC_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

tlc_status tlc_delta_bound(tlc_dtype dtype, size_t n, size_t *bound)
{
    if ((unsigned)dtype > TLC_BF16 || !bound)
        return TLC_ERR_PARAM;
    uint64_t most = tlc_sum(tlc_product(n, tlc_delta_width(dtype) / 8), (uint64_t)blocks_of(n) * ENTRY_SIZE);
    most = tlc_sum(most, HEAD_MAX + TLC_CHECKSUM_SIZE);
    if (most >= SIZE_MAX) /* or more than 64 bits */
        return TLC_ERR_SIZE;
    *bound = (size_t)most;
    return TLC_OK;
}

typedef struct writing {
    const delta *d;
    const uint8_t *base, *next;
    uint8_t *table, *payloads; /* a range begins where its weights would */
    size_t len[TLC_RANGES_MAX];
    uint64_t base_sums[TLC_RANGES_MAX], result_sums[TLC_RANGES_MAX];
} writing;

static size_t range_offset(const delta *d, size_t i)
{
    return tlc_range_start(&d->ranges, i) * TLC_DELTA_BLOCK * (tlc_delta_width(d->dtype) / 8);
}

/* A block is hashed while it is in the cache. */
static void write_range(void *arg, size_t i)
{
    writing *w = arg;
    const delta *d = w->d;
    const unsigned width = tlc_delta_width(d->dtype);
    uint8_t *dst = w->payloads + range_offset(d, i);

    w->len[i] = 0;
    w->base_sums[i] = w->result_sums[i] = 0;
    for (size_t b = tlc_range_start(&d->ranges, i); b < tlc_range_start(&d->ranges, i + 1); b++) {
        const size_t first = b * TLC_DELTA_BLOCK;
        const uint8_t *next = w->next + first * (width / 8);
        tlc_delta_weights block = weights_of(d, w->base, b);
        size_t len;
        tlc_delta_kind kind = tlc_delta_block_write(&block, next, dst + w->len[i], &len);

        tlc_store32(w->table + b * ENTRY_SIZE, (uint32_t)kind << 30 | (uint32_t)len);
        w->len[i] += len;
        if (!(d->flags & FLAG_DIGESTS))
            continue;
        w->result_sums[i] += digest_of(next, first, block.n, width);
        if (block.base)
            w->base_sums[i] += digest_of(block.base, first, block.n, width);
    }
}

/* Writes table and payloads at dst. Returns their bytes: 0 if nothing differs. */
static size_t write_blocks(delta *d, writing *w, uint8_t *dst)
{
    size_t at = 0;

    w->table = dst;
    w->payloads = dst + blocks_of(d->n) * ENTRY_SIZE;
    tlc_ranges_run(&d->options.parallel, d->ranges.count, write_range, w);
    for (size_t i = 0; i < d->ranges.count; i++) {
        memmove(w->payloads + at, w->payloads + range_offset(d, i), w->len[i]);
        at += w->len[i];
        d->base_digest += w->base_sums[i];
        d->result_digest += w->result_sums[i];
    }
    return at ? blocks_of(d->n) * ENTRY_SIZE + at : 0;
}

static size_t head_size(const delta *d)
{
    return 3 + tlc_varint_size(d->n) +
           (d->flags & FLAG_DIGESTS ? (d->flags & FLAG_NO_BASE ? DIGEST_SIZE : 2 * DIGEST_SIZE) : 0);
}

static void write_head(const delta *d, uint8_t *dst)
{
    *dst++ = DELTA_MAGIC;
    *dst++ = DELTA_VERSION;
    *dst++ = (uint8_t)d->flags;
    dst += tlc_varint_write(dst, d->n);
    if (!(d->flags & FLAG_DIGESTS))
        return;
    if (!(d->flags & FLAG_NO_BASE)) {
        tlc_store64(dst, d->base_digest);
        dst += DIGEST_SIZE;
    }
    tlc_store64(dst, d->result_digest);
}

tlc_status tlc_delta_compress(const void *base, const void *next, size_t n, tlc_dtype dtype, void *dst, size_t cap,
                              size_t *written, const tlc_delta_options *opt)
{
    writing w = {.base = base, .next = next};
    size_t bound, at;
    delta d;
    tlc_status status = options_of(&d, dtype, n, opt);

    if (!dst || !written || (!next && n))
        return TLC_ERR_PARAM;
    if (!status)
        status = tlc_delta_bound(dtype, n, &bound);
    if (status)
        return status;
    if (cap < bound)
        return TLC_ERR_CAPACITY;
    d.flags = (unsigned)dtype | (d.options.without_digests ? 0 : FLAG_DIGESTS) | (base ? 0 : FLAG_NO_BASE);
    w.d = &d;
    split(&d);
    at = head_size(&d);
    tlc_float_mode mode = tlc_float_enter();
    size_t len = n ? write_blocks(&d, &w, (uint8_t *)dst + at) : 0;
    tlc_float_leave(mode);
    if (!len)
        d.flags |= FLAG_SAME;
    write_head(&d, dst);
    at += len;
    tlc_frame_seal(dst, at);
    *written = at + TLC_CHECKSUM_SIZE;
    return TLC_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads head and checksum. n and dtype: those that are expected, or n NULL. */
static tlc_status read_frame(delta *d, const void *src, size_t len, const size_t *n, tlc_dtype dtype)
{
    const uint8_t *p = src;
    size_t at = 3, end;
    int read;

    if (len < HEAD_MIN + TLC_CHECKSUM_SIZE || p[0] != DELTA_MAGIC)
        return TLC_ERR_CORRUPT;
    if (p[1] != DELTA_VERSION)
        return TLC_ERR_VERSION;
    end = len - TLC_CHECKSUM_SIZE;
    if (tlc_load32(p + end) != tlc_checksum(p, end))
        return TLC_ERR_CHECKSUM;
    d->flags = p[2];
    d->dtype = (tlc_dtype)(d->flags & FLAG_DTYPE);
    read = tlc_varint_read(p, end, &at, &d->n);
    if (read && n && d->n != *n)
        return TLC_ERR_SIZE;
    if (n && d->dtype != dtype)
        return TLC_ERR_PARAM;
    if (!read || d->flags & ~(unsigned)FLAGS || d->dtype > TLC_BF16 ||
        tlc_product(d->n, tlc_delta_width(d->dtype) / 8) > SIZE_MAX)
        return TLC_ERR_CORRUPT;
    if (end < head_size(d))
        return TLC_ERR_CORRUPT;
    if (d->flags & FLAG_DIGESTS) {
        if (!(d->flags & FLAG_NO_BASE)) {
            d->base_digest = tlc_load64(p + at);
            at += DIGEST_SIZE;
        }
        d->result_digest = tlc_load64(p + at);
        at += DIGEST_SIZE;
    }
    d->table = p + at;
    if (d->flags & FLAG_SAME)
        return at == end && (!d->n || !(d->flags & FLAG_NO_BASE)) ? TLC_OK : TLC_ERR_CORRUPT;
    if (!d->n || (end - at) / ENTRY_SIZE < blocks_of(d->n))
        return TLC_ERR_CORRUPT;
    at += blocks_of(d->n) * ENTRY_SIZE;
    d->payloads = p + at;
    d->payloads_size = end - at;
    return TLC_OK;
}

typedef struct reading {
    const delta *d;
    uint8_t *weights;              /* NULL: they are only checked */
    size_t offset[TLC_RANGES_MAX]; /* of the first payload of a range */
    int valid[TLC_RANGES_MAX];
    uint64_t changed[TLC_RANGES_MAX], blocks[TLC_RANGES_MAX][4];
} reading;

/* Block b, whose payload is at `at`. */
static tlc_delta_block block_of(const reading *r, size_t b, size_t at)
{
    static const uint8_t some_base[1];
    const delta *d = r->d;
    const uint32_t entry = tlc_load32(d->table + b * ENTRY_SIZE);
    const uint8_t *base = r->weights ? r->weights : some_base;

    tlc_delta_block block = {weights_of(d, NULL, b), (tlc_delta_kind)(entry >> 30), d->payloads + at,
                             entry & ENTRY_LENGTH};
    block.weights.base = d->flags & FLAG_NO_BASE ? NULL : base; /* whether there is one is all that matters */
    return block;
}

static void check_range(void *arg, size_t i)
{
    reading *r = arg;
    const delta *d = r->d;
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
    const delta *d = r->d;
    size_t at = r->offset[i];

    for (size_t b = tlc_range_start(&d->ranges, i); b < tlc_range_start(&d->ranges, i + 1); b++) {
        const tlc_delta_block block = block_of(r, b, at);
        tlc_delta_block_apply(&block, r->weights + b * TLC_DELTA_BLOCK * (tlc_delta_width(d->dtype) / 8));
        at += block.len;
    }
}

/* Finds where the payloads of each range begin. Returns 0 if all together are not as long as they should be. */
static int find_offsets(reading *r)
{
    const delta *d = r->d;
    uint64_t at = 0;

    for (size_t i = 0; i < d->ranges.count; i++) {
        r->offset[i] = (size_t)at;
        for (size_t b = tlc_range_start(&d->ranges, i); b < tlc_range_start(&d->ranges, i + 1); b++)
            at += tlc_load32(d->table + b * ENTRY_SIZE) & ENTRY_LENGTH;
        if (at > d->payloads_size)
            return 0;
    }
    return at == d->payloads_size;
}

/* Checks all blocks. */
static tlc_status check(reading *r)
{
    const delta *d = r->d;

    if (d->flags & FLAG_SAME)
        return TLC_OK;
    if (!find_offsets(r))
        return TLC_ERR_CORRUPT;
    tlc_ranges_run(&d->options.parallel, d->ranges.count, check_range, r);
    for (size_t i = 0; i < d->ranges.count; i++)
        if (!r->valid[i])
            return TLC_ERR_CORRUPT;
    return TLC_OK;
}

static tlc_status apply(delta *d, uint8_t *weights)
{
    reading r = {.d = d};
    tlc_status status;

    split(d);
    status = check(&r);
    if (status)
        return status;
    if (d->flags & FLAG_DIGESTS && !(d->flags & FLAG_NO_BASE) && digest_all(d, weights) != d->base_digest)
        return TLC_ERR_BASE;
    if (d->flags & FLAG_SAME)
        return TLC_OK;
    r.weights = weights;
    tlc_ranges_run(&d->options.parallel, d->ranges.count, apply_range, &r);
    return TLC_OK;
}

tlc_status tlc_delta_apply(const void *src, size_t len, void *weights, size_t n, tlc_dtype dtype,
                           const tlc_delta_options *opt)
{
    delta d;
    tlc_status status = options_of(&d, dtype, n, opt);

    if ((!src && len) || (!weights && n))
        return TLC_ERR_PARAM;
    if (!status)
        status = read_frame(&d, src, len, &n, dtype);
    if (status)
        return status;
    tlc_float_mode mode = tlc_float_enter();
    status = apply(&d, weights);
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_delta_inspect(const void *src, size_t len, tlc_delta_info *info)
{
    delta d;
    reading r = {.d = &d};
    tlc_status status;

    if ((!src && len) || !info || info->struct_size < sizeof info->struct_size)
        return TLC_ERR_PARAM;
    (void)options_of(&d, TLC_F32, 0, NULL);
    status = read_frame(&d, src, len, NULL, TLC_F32);
    if (status)
        return status;
    split(&d);
    tlc_float_mode mode = tlc_float_enter();
    status = check(&r);
    tlc_float_leave(mode);
    if (status)
        return status;
    tlc_delta_info ours = {
        .version = DELTA_VERSION,
        .dtype = d.dtype,
        .n = d.n,
        .has_base = !(d.flags & FLAG_NO_BASE),
        .has_digests = (d.flags & FLAG_DIGESTS) != 0,
        .base_digest = d.base_digest,
        .result_digest = d.result_digest,
        .blocks = {d.flags & FLAG_SAME ? blocks_of(d.n) : r.blocks[0][0], r.blocks[0][1], r.blocks[0][2],
                   r.blocks[0][3]},
        .changed = r.changed[0],
    };
    tlc_export(info, &ours, sizeof ours);
    return TLC_OK;
}
