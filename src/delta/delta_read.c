/* SPDX-License-Identifier: MIT
 *
 * Lossless deltas of weights: the functions that read frames.
 */
#include "../codec/arguments.h"
#include "../common/bytes.h"
#include "../common/structs.h"
#include "../frames/formats.h"
#include "reading.h"
#include "repair.h"

/* The weights of block b that the caller has, as units of the block. */
static tlc_delta_window window_of(const tlc_delta_reading *r, size_t b)
{
    const size_t first = tlc_delta_first(r->d, b), n = tlc_delta_count(r->d, b);

    return (tlc_delta_window){r->first > first ? r->first - first : 0, tlc_smaller(r->first + r->count - first, n)};
}

/* Where weight i of the tensor is in base and out, in bytes. */
static size_t place_of(const tlc_delta_reading *r, size_t i)
{
    return (size_t)tlc_delta_size(r->d, i - r->first);
}

/* Halves of weights of 64 bits are made one after the other, so all of these weights are copied before. */
static void copy_range(void *arg, size_t i)
{
    const tlc_delta_reading *r = arg;

    for (size_t b = tlc_delta_range_start(r, i); b < tlc_delta_range_start(r, i + 1); b++) {
        const tlc_delta_window w = window_of(r, b);
        const size_t at = place_of(r, tlc_delta_first(r->d, b) + w.first);
        if (b % tlc_delta_planes(r->d) == 0)
            memcpy(r->out + at, r->base + at, (size_t)tlc_delta_size(r->d, w.end - w.first));
    }
}

static void apply_range(void *arg, size_t i)
{
    tlc_delta_reading *r = arg;
    const tlc_delta *d = r->d;
    const int has_halves = tlc_delta_planes(d) == 2;
    size_t at = r->offset[i];

    r->hashed[i] = 0;
    for (size_t b = tlc_delta_range_start(r, i); b < tlc_delta_range_start(r, i + 1); b++) {
        const tlc_delta_block block = tlc_delta_block_at(r->d, b, at);
        const tlc_delta_window w = window_of(r, b);
        const size_t place = place_of(r, tlc_delta_first(d, b) + w.first);
        if (r->base != r->out && block.weights.base && !has_halves)
            memcpy(r->out + place, r->base + place, (size_t)tlc_delta_size(d, w.end - w.first));
        if (d->digests && r->base == r->out && r->count == d->n)
            tlc_delta_apply_in_order(&block, r->out + place + tlc_delta_plane_offset(d, b), 0);
        else
            tlc_delta_block_apply(&block, w, r->out + place + tlc_delta_plane_offset(d, b));
        if (r->hashes) /* while it is in the cache */
            r->hashed[i] += tlc_delta_digest_block(d, r->out, b);
        at += block.len;
    }
}

/* Says what weights are that are not the base. */
static tlc_status is_other_base(tlc_delta_reading *r, uint64_t digest)
{
    tlc_delta *d = r->d;
    uint64_t count[4];

    if (digest == d->result_digest)
        return TLC_FAIL(&d->why, TLC_ERR_BASE, "the weights are the result of the delta already");
    if (d->digests) {
        tlc_delta_count_states(r, count);
        if (!count[3])
            return TLC_FAIL(&d->why, TLC_ERR_BASE,
                            "a call ended before all weights were changed: %llu blocks are at the result, %llu at the "
                            "base, %llu between them; tlc_delta_repair completes it",
                            (unsigned long long)count[0], (unsigned long long)count[1], (unsigned long long)count[2]);
    }
    return TLC_FAIL(&d->why, TLC_ERR_BASE,
                    "the weights are not the base of the delta, which has digest %llu: theirs is %llu",
                    (unsigned long long)d->base_digest, (unsigned long long)digest);
}

/* A part of the weights has no digest. */
static tlc_status check_base(tlc_delta_reading *r)
{
    tlc_delta *d = r->d;

    if (!tlc_delta_has_base(d))
        return TLC_OK;
    if (!r->base && r->count)
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "base is NULL, but the delta has one");
    if (!(d->flags & TLC_DELTA_FLAG_DIGESTS) || r->count != d->n)
        return TLC_OK;
    const uint64_t digest = tlc_delta_digest_all(d, r->base);
    return digest == d->base_digest ? TLC_OK : is_other_base(r, digest);
}

static tlc_status check_result(const tlc_delta_reading *r)
{
    tlc_delta *d = r->d;
    uint64_t digest = r->hashes ? 0 : tlc_delta_digest_all(d, r->out);

    for (size_t i = 0; r->hashes && i < d->ranges.count; i++)
        digest += r->hashed[i];
    return digest == d->result_digest
               ? TLC_OK
               : TLC_FAIL(&d->why, TLC_ERR_CHECKSUM,
                          "the weights that were made are not those of the sender, which have digest %llu: theirs is "
                          "%llu",
                          (unsigned long long)d->result_digest, (unsigned long long)digest);
}

static tlc_status apply(tlc_delta_reading *r)
{
    tlc_delta *d = r->d;
    const int has_base = tlc_delta_has_base(d), is_same = (d->flags & TLC_DELTA_FLAG_SAME) != 0;

    const int checks = d->options.check_result && (d->flags & TLC_DELTA_FLAG_DIGESTS) && r->count == d->n;

    r->hashes = checks && !is_same && tlc_delta_planes(d) == 1; /* another range may have the other half of a block */

    if (r->base != r->out && has_base && (is_same || tlc_delta_planes(d) == 2))
        tlc_ranges_run(&d->options.parallel, d->ranges.count, copy_range, r);
    if (!is_same)
        tlc_ranges_run(&d->options.parallel, d->ranges.count, apply_range, r);
    return checks ? check_result(r) : TLC_OK;
}

/* Reads a frame and checks it for a range of weights, and the base if that is all of them. */
static tlc_status read_range(tlc_delta_reading *r, const void *src, size_t len, tlc_dtype dtype, size_t n, size_t first,
                             size_t count)
{
    tlc_status status = tlc_delta_read_frame(r->d, src, len, &n, dtype, 0);

    if (status)
        return status;
    tlc_delta_take(r, first, count);
    status = tlc_delta_check_blocks(r);
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

/* out_name, size_name: of out and count, for messages. */
static tlc_status apply_weights(const void *src, size_t len, tlc_dtype dtype, const void *base, void *out, size_t n,
                                size_t first, size_t count, const tlc_delta_options *opt, const char *out_name,
                                const char *size_name)
{
    tlc_threads threads;
    tlc_delta d;
    tlc_delta_reading r = {.d = &d, .base = base, .out = out};
    tlc_status status = tlc_delta_begin(&d, dtype, n, opt);

    if (!status)
        status = tlc_delta_not_null(&d, "src", src, "len", len);
    if (!status)
        status = check_window(&d, dtype, n, first, count);
    if (!status)
        status = tlc_delta_not_null(&d, out_name, out, size_name, count);
    if (!status && base && tlc_overlap(base, out, (size_t)tlc_delta_size(&d, count)))
        status = TLC_FAIL(&d.why, TLC_ERR_PARAM, "base and out share memory, but are not the same");
    if (!status)
        status = tlc_delta_isa(&d);
    if (status)
        return status;
    tlc_threads_enter(&threads, &d.options.parallel);
    status = read_range(&r, src, len, dtype, n, first, count);
    if (!status)
        status = apply(&r);
    tlc_threads_leave(&threads);
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
    tlc_threads threads;
    tlc_delta d;
    tlc_delta_reading r = {.d = &d, .base = weights};
    tlc_status status = tlc_delta_begin_reading(&d, src, len, dtype, weights, n, opt);

    if (status)
        return status;
    tlc_threads_enter(&threads, &d.options.parallel);
    status = read_range(&r, src, len, dtype, n, 0, n);
    tlc_threads_leave(&threads);
    return status;
}

/* Reads and checks a whole frame for any weights. r->d: an empty delta. */
static tlc_status inspect(tlc_delta_reading *r, const void *src, size_t len)
{
    tlc_threads threads;
    tlc_status status = tlc_delta_read_frame(r->d, src, len, NULL, TLC_F32, 0);

    if (status)
        return status;
    tlc_delta_take(r, 0, (size_t)r->d->n);
    tlc_threads_enter(&threads, &r->d->options.parallel);
    status = tlc_delta_check_blocks(r);
    tlc_threads_leave(&threads);
    return status;
}

/* What head and blocks say. r: NULL, or a reading that has passed the check. */
static void describe(const tlc_delta *d, const tlc_delta_reading *r, tlc_delta_info *info)
{
    const int is_same = (d->flags & TLC_DELTA_FLAG_SAME) != 0;
    tlc_delta_info ours = {
        .version = tlc_delta_version(d),
        .dtype = d->dtype,
        .n = d->n,
        .has_base = tlc_delta_has_base(d),
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
    tlc_delta_reading r = {.d = &d};
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
    status = tlc_delta_check_format(&d, src, len, TLC_DELTA_HEAD_MIN);
    if (!status && !tlc_delta_read_head(&d, src, len, &at, NULL, TLC_F32, &expected))
        status = TLC_ERR_CORRUPT;
    if (!status)
        describe(&d, NULL, info);
    return status;
}

tlc_status tlc_delta_explain(const void *src, size_t len, const tlc_text *w)
{
    tlc_delta d;
    tlc_delta_reading r = {.d = &d};

    (void)tlc_delta_begin(&d, TLC_F32, 0, NULL);
    d.why = *w;
    tlc_status status = tlc_delta_isa(&d);
    return status ? status : inspect(&r, src, len);
}
