/* SPDX-License-Identifier: MIT
 *
 * Lossless deltas of weights: the functions that write frames and digests.
 */
#include "../codec/arguments.h"
#include "../common/bytes.h"
#include "../common/hash.h"
#include "../common/structs.h"
#include "delta_frame.h"

static tlc_status check_dtype(tlc_dtype dtype, uint64_t n, tlc_text *w)
{
    if ((unsigned)dtype > TLC_F64)
        return TLC_FAIL(w, TLC_ERR_PARAM, "dtype is %d: TLC_F32 (0) to TLC_F64 (10)", (int)dtype);
    if (!tlc_delta_has_n(dtype, n))
        return TLC_FAIL(w, TLC_ERR_PARAM, "n is %llu, an odd number, and %s has two weights in a byte",
                        (unsigned long long)n, tlc_dtype_name(dtype));
    return TLC_OK;
}

void tlc_delta_of(tlc_delta *d, tlc_dtype dtype, uint64_t n)
{
    d->dtype = dtype;
    d->unit = tlc_delta_unit(dtype);
    d->n = n;
}

tlc_status tlc_delta_begin(tlc_delta *d, tlc_dtype dtype, uint64_t n, const tlc_delta_options *opt)
{
    tlc_status status;

    memset(d, 0, sizeof *d);
    if (opt && !tlc_import(&d->options, sizeof d->options, opt))
        return TLC_ERR_PARAM;
    d->why = tlc_text_in(d->options.message, d->options.message_cap);
    d->k = tlc_kernels_for(d->options.isa);
    if ((unsigned)d->options.isa > TLC_ISA_NEON)
        return tlc_isa_check(d->options.isa, &d->why);
    status = tlc_flag_check("without_digests", d->options.without_digests, &d->why);
    if (!status)
        status = tlc_flag_check("check_result", d->options.check_result, &d->why);
    if (!status)
        status = check_dtype(dtype, n, &d->why);
    if (!status)
        tlc_delta_of(d, dtype, n);
    return status;
}

tlc_status tlc_delta_isa(tlc_delta *d)
{
    return d->k ? TLC_OK : tlc_isa_check(d->options.isa, &d->why);
}

tlc_status tlc_delta_not_null(tlc_delta *d, const char *name, const void *p, const char *size, size_t count)
{
    return p || !count ? TLC_OK : TLC_FAIL(&d->why, TLC_ERR_PARAM, "%s is NULL, but %s is %zu", name, size, count);
}

/* Blocks of a range are checked together. So a range has TLC_DELTA_TOGETHER of them if that makes 16 ranges or more. */
void tlc_delta_split(tlc_delta *d, size_t blocks)
{
    const size_t each = tlc_smaller(blocks / 16, TLC_DELTA_TOGETHER);

    d->ranges = tlc_ranges_split(&d->options.parallel, blocks, each ? each : 1);
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

uint64_t tlc_delta_digest_piece(const tlc_delta *d, const uint8_t *piece, size_t first, size_t count)
{
    const size_t size = (size_t)tlc_delta_size(d, count);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    uint8_t swapped[TLC_DELTA_PIECE * 8];
    const size_t element = tlc_unit_width(d->unit) == 4 ? 1 : (size_t)tlc_delta_size(d, 1);
    tlc_copy_le(swapped, piece, size / element, element);
    piece = swapped;
#endif
    return tlc_hash(piece, size, d->piece + first / TLC_DELTA_PIECE);
}

uint64_t tlc_delta_digest_block(const tlc_delta *d, const uint8_t *weights, size_t b)
{
    const size_t first = tlc_delta_first(d, b), n = tlc_delta_count(d, b);
    uint64_t sum = 0;

    for (size_t i = 0; i < n && b % tlc_delta_planes(d) == 0; i += TLC_DELTA_PIECE)
        sum += tlc_delta_digest_piece(d, weights + (size_t)tlc_delta_size(d, first + i), first + i,
                                      tlc_smaller(n - i, TLC_DELTA_PIECE));
    return sum;
}

typedef struct digesting {
    const tlc_delta *d;
    const uint8_t *weights;
    uint64_t sums[TLC_RANGES_MAX];
} digesting;

static void digest_range(void *arg, size_t i)
{
    digesting *g = arg;
    const tlc_delta *d = g->d;

    g->sums[i] = 0;
    for (size_t b = tlc_range_start(&d->ranges, i); b < tlc_range_start(&d->ranges, i + 1); b++)
        g->sums[i] += tlc_delta_digest_block(d, g->weights, b);
}

uint64_t tlc_delta_digest_all(const tlc_delta *d, const void *weights)
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

tlc_status tlc_delta_digest(tlc_dtype dtype, const void *weights, size_t n, uint64_t *digest,
                            const tlc_delta_options *opt)
{
    return tlc_delta_digest_part(dtype, weights, n, 0, digest, opt);
}

tlc_status tlc_delta_digest_part(tlc_dtype dtype, const void *weights, size_t n, uint64_t first, uint64_t *digest,
                                 const tlc_delta_options *opt)
{
    tlc_delta d;
    tlc_status status = tlc_delta_begin(&d, dtype, n, opt);

    if (!status)
        status = tlc_delta_not_null(&d, "digest", digest, "its size", sizeof *digest);
    if (!status)
        status = tlc_delta_not_null(&d, "weights", weights, "n", n);
    if (!status && first % TLC_DELTA_PIECE)
        status = TLC_FAIL(&d.why, TLC_ERR_PARAM, "first is %llu, no multiple of %d", (unsigned long long)first,
                          TLC_DELTA_PIECE);
    if (!status)
        status = tlc_delta_isa(&d);
    if (status)
        return status;
    d.piece = first / TLC_DELTA_PIECE;
    tlc_delta_split(&d, tlc_delta_blocks(&d));
    *digest = tlc_delta_digest_all(&d, weights);
    return TLC_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

tlc_status tlc_delta_bound(tlc_dtype dtype, size_t n, size_t *bound)
{
    tlc_delta d = {0};

    if (!bound || check_dtype(dtype, n, NULL))
        return TLC_ERR_PARAM;
    tlc_delta_of(&d, dtype, n);
    d.flags = TLC_DELTA_FLAG_BLOCK_DIGESTS;
    uint64_t most = tlc_sum(tlc_delta_size(&d, n), tlc_delta_table_size(&d));
    most = tlc_sum(most, TLC_DELTA_HEAD_MAX + TLC_CHECKSUM_SIZE);
    if (most >= SIZE_MAX) /* or more than 64 bits */
        return TLC_ERR_SIZE;
    *bound = (size_t)most;
    return TLC_OK;
}

typedef struct writing {
    const tlc_delta *d;
    const uint8_t *base, *next;
    uint8_t *table, *digests, *payloads; /* digests: of blocks, or NULL. A range begins where its weights would */
    size_t len[TLC_RANGES_MAX];
    uint64_t base_sums[TLC_RANGES_MAX], result_sums[TLC_RANGES_MAX];
} writing;

static size_t range_offset(const tlc_delta *d, size_t i)
{
    return tlc_delta_payload_start(d, tlc_range_start(&d->ranges, i));
}

/* The digests of block b, which is hashed while it is in the cache. i: the range. */
static void write_digests(writing *w, size_t i, size_t b)
{
    const tlc_delta *d = w->d;
    const uint64_t base = w->base ? tlc_delta_digest_block(d, w->base, b) : 0;
    const uint64_t result = tlc_delta_digest_block(d, w->next, b);

    w->base_sums[i] += base;
    w->result_sums[i] += result;
    if (!w->digests || b % tlc_delta_planes(d) != 0)
        return;
    uint8_t *digests = w->digests + b / tlc_delta_planes(d) * tlc_delta_digests_size(d);
    if (w->base)
        tlc_store64(digests, base);
    tlc_store64(digests + tlc_delta_digests_size(d) - TLC_DELTA_DIGEST_SIZE, result);
}

static void write_range(void *arg, size_t i)
{
    writing *w = arg;
    const tlc_delta *d = w->d;
    uint8_t *dst = w->payloads + range_offset(d, i);

    w->len[i] = 0;
    w->base_sums[i] = w->result_sums[i] = 0;
    for (size_t b = tlc_range_start(&d->ranges, i); b < tlc_range_start(&d->ranges, i + 1); b++) {
        const uint8_t *next = w->next + tlc_delta_block_start(d, b);
        tlc_delta_weights block = tlc_delta_weights_of(d, w->base, b);
        size_t len;

        const tlc_delta_kind kind = tlc_delta_block_write(&block, next, dst + w->len[i], &len);
        tlc_delta_put_entry(w->table, b, kind, len);
        w->len[i] += len;
        if (d->flags & TLC_DELTA_FLAG_DIGESTS)
            write_digests(w, i, b);
    }
}

/* Writes table and payloads at dst. Returns their bytes: 0 if nothing differs. */
static size_t write_blocks(tlc_delta *d, writing *w, uint8_t *dst)
{
    size_t at = 0;

    w->table = dst;
    w->digests = d->flags & TLC_DELTA_FLAG_BLOCK_DIGESTS ? dst + tlc_delta_entries_size(d) : NULL;
    w->payloads = dst + tlc_delta_table_size(d);
    tlc_ranges_run(&d->options.parallel, d->ranges.count, write_range, w);
    for (size_t i = 0; i < d->ranges.count; i++) {
        memmove(w->payloads + at, w->payloads + range_offset(d, i), w->len[i]);
        at += w->len[i];
        d->base_digest += w->base_sums[i];
        d->result_digest += w->result_sums[i];
    }
    return at ? tlc_delta_table_size(d) + at : 0;
}

static void write_head(const tlc_delta *d, uint8_t *dst)
{
    *dst++ = TLC_DELTA_MAGIC;
    *dst++ = (uint8_t)tlc_delta_version(d);
    *dst++ = (uint8_t)d->flags;
    if (tlc_delta_version(d) != TLC_DELTA_VERSION_1)
        *dst++ = (uint8_t)d->dtype;
    dst += tlc_varint_write(dst, d->n);
    if (!(d->flags & TLC_DELTA_FLAG_DIGESTS))
        return;
    if (tlc_delta_has_base(d)) {
        tlc_store64(dst, d->base_digest);
        dst += TLC_DELTA_DIGEST_SIZE;
    }
    tlc_store64(dst, d->result_digest);
}

void tlc_delta_set_flags(tlc_delta *d, int has_base, int digests, int block_digests)
{
    d->flags = (has_base ? 0 : TLC_DELTA_FLAG_NO_BASE) | (digests ? TLC_DELTA_FLAG_DIGESTS : 0) |
               (block_digests ? TLC_DELTA_FLAG_BLOCK_DIGESTS : 0);
    if (tlc_delta_version(d) == TLC_DELTA_VERSION_1)
        d->flags |= (unsigned)d->dtype;
}

/* If of weights of 64 bits no upper half differs, their entries leave the table. Returns the bytes after the head. */
static size_t drop_upper(tlc_delta *d, uint8_t *table, size_t len)
{
    const size_t blocks = tlc_delta_blocks(d), entries = tlc_delta_entries_size(d);

    if (tlc_delta_planes(d) == 1)
        return len;
    for (size_t b = 1; b < blocks; b += 2)
        if (tlc_load32(table + b * TLC_DELTA_ENTRY_SIZE))
            return len;
    for (size_t b = 2; b < blocks; b += 2)
        memcpy(table + b / 2 * TLC_DELTA_ENTRY_SIZE, table + b * TLC_DELTA_ENTRY_SIZE, TLC_DELTA_ENTRY_SIZE);
    memmove(table + entries / 2, table + entries, len - entries);
    d->flags |= TLC_DELTA_FLAG_LOWER;
    return len - entries / 2;
}

size_t tlc_delta_finish(tlc_delta *d, uint8_t *dst, size_t len)
{
    if (!len) {
        tlc_delta_set_flags(d, tlc_delta_has_base(d), d->flags & TLC_DELTA_FLAG_DIGESTS, 0);
        d->flags |= TLC_DELTA_FLAG_SAME;
    } else
        len = drop_upper(d, dst + tlc_delta_head_size(d), len);
    write_head(d, dst);
    len += tlc_delta_head_size(d);
    tlc_frame_seal(dst, len);
    return len + TLC_CHECKSUM_SIZE;
}

tlc_status tlc_delta_compress(tlc_dtype dtype, const void *base, const void *next, size_t n, void *dst, size_t cap,
                              size_t *written, const tlc_delta_options *opt)
{
    tlc_threads threads;
    writing w = {.base = base, .next = next};
    size_t bound;
    tlc_delta d;
    tlc_status status = tlc_delta_begin(&d, dtype, n, opt);

    if (!status && (!dst || !written))
        status = TLC_FAIL(&d.why, TLC_ERR_PARAM, "%s is NULL", dst ? "written" : "dst");
    if (!status)
        status = tlc_delta_not_null(&d, "next", next, "n", n);
    if (!status)
        status = tlc_delta_isa(&d);
    if (status)
        return status;
    if (tlc_delta_bound(dtype, n, &bound))
        return TLC_FAIL(&d.why, TLC_ERR_SIZE, "n is %zu: the weights have more bytes than the address space", n);
    if (cap < bound)
        return TLC_FAIL(&d.why, TLC_ERR_CAPACITY, "cap is %zu bytes, tlc_delta_bound is %zu", cap, bound);
    tlc_delta_set_flags(&d, base != NULL, !d.options.without_digests, d.options.block_digests);
    w.d = &d;
    tlc_delta_split(&d, tlc_delta_blocks(&d));
    tlc_threads_enter(&threads, &d.options.parallel);
    const size_t len = n ? write_blocks(&d, &w, (uint8_t *)dst + tlc_delta_head_size(&d)) : 0;
    tlc_threads_leave(&threads);
    *written = tlc_delta_finish(&d, dst, len);
    return TLC_OK;
}
