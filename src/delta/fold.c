/* SPDX-License-Identifier: MIT
 *
 * A chain of frames becomes one frame.
 *
 * The frames are applied to blocks of zeros: differences add up, modulo 2^width, as they do on weights. A block that
 * has the weights themselves takes the place of all before it.
 */
#include "../codec/arguments.h"
#include "../common/bytes.h"
#include "differences.h"
#include "reading.h"

typedef struct link {
    tlc_delta d;
    size_t offset[TLC_DELTA_DIFFERENCES_RANGES]; /* of the next payload of a range */
} link;

typedef struct folding {
    tlc_delta d;         /* of the result */
    link *chain;         /* in the caller's memory */
    size_t first, count; /* what is before the first link does not matter */
    tlc_delta_rooms rooms;
} folding;

/* Of the links, which are aligned. */
static uint64_t links_size(size_t count)
{
    return tlc_sum(tlc_product(count, sizeof(link)), _Alignof(link));
}

tlc_status tlc_delta_fold_bound(tlc_dtype dtype, size_t n, size_t count, size_t *bound)
{
    tlc_delta d = {.flags = TLC_DELTA_FLAG_BLOCK_DIGESTS};

    if (!bound || (unsigned)dtype > TLC_F64 || !tlc_delta_has_n(dtype, n))
        return TLC_ERR_PARAM;
    tlc_delta_of(&d, dtype, n);
    const uint64_t most = tlc_sum(tlc_delta_differences_bound(&d, UINT64_MAX), links_size(count));
    if (most >= SIZE_MAX)
        return TLC_ERR_SIZE;
    *bound = (size_t)most;
    return TLC_OK;
}

/* Block b after all frames. Returns whether these are weights, not differences. */
static int sum_block(folding *f, size_t range, size_t b, uint8_t *units)
{
    int is_absolute = 0;

    for (size_t i = f->first; i < f->count; i++) {
        link *l = &f->chain[i];
        if (l->d.flags & TLC_DELTA_FLAG_SAME)
            continue;
        tlc_delta_block block = tlc_delta_block_at(&l->d, b, l->offset[range]);
        block.weights.dtype = tlc_delta_coded(&l->d);
        tlc_delta_block_apply(&block, (tlc_delta_window){0, block.weights.n}, units);
        is_absolute |= block.kind == TLC_DELTA_RAW;
        l->offset[range] += block.len;
    }
    return is_absolute;
}

static void fold_block(folding *f, size_t range, size_t b, uint8_t *units)
{
    tlc_delta_masks masks;
    const tlc_delta_weights w = {f->d.k, tlc_delta_coded(&f->d), f->rooms.zeros, tlc_delta_count(&f->d, b)};
    const int is_absolute = sum_block(f, range, b, units);

    if (!tlc_delta_has_base(&f->d))
        tlc_delta_rooms_write_all(&f->rooms, &f->d, range, b, units);
    else if (is_absolute)
        tlc_delta_rooms_write_raw(&f->rooms, &f->d, range, b, units);
    else {
        (void)tlc_delta_compare(&w, units, &masks);
        (void)tlc_delta_rooms_write(&f->rooms, &f->d, range, b, &masks, units, 0);
    }
}

static void fold_range(void *arg, size_t i)
{
    folding *f = arg;
    const size_t planes = tlc_delta_planes(&f->d);

    for (size_t b = planes * tlc_range_start(&f->d.ranges, i); b < planes * tlc_range_start(&f->d.ranges, i + 1); b++)
        fold_block(f, i, b, tlc_delta_rooms_clear(&f->rooms, &f->d, i));
}

/* Where the payloads of each range of the result begin. */
static void find_offsets(link *l, const tlc_delta *result)
{
    const size_t planes = tlc_delta_planes(&l->d);
    size_t at = 0, i = 0;

    for (size_t b = 0; b < tlc_delta_blocks(&l->d); b++) {
        if (i < result->ranges.count && b == planes * tlc_range_start(&result->ranges, i))
            l->offset[i++] = at;
        at += tlc_delta_payload_size(&l->d, b);
    }
}

/* Reads and checks a frame, which has the dtype and the n of the result. */
static tlc_status open_link(folding *f, link *l, const void *src, size_t len)
{
    tlc_delta_reading r = {.d = &l->d};
    const size_t n = (size_t)f->d.n;

    l->d = (tlc_delta){.options = f->d.options, .k = f->d.k, .why = f->d.why};
    tlc_status status = tlc_delta_read_frame(&l->d, src, len, &n, f->d.dtype, 0);
    if (status)
        return status;
    tlc_delta_take(&r, 0, (size_t)l->d.n);
    return tlc_delta_check_blocks(&r);
}

/* Does it begin where the link before it ends? */
static tlc_status check_link(folding *f, size_t i)
{
    const tlc_delta *d = &f->chain[i].d, *before = i ? &f->chain[i - 1].d : NULL;

    if (!before || !tlc_delta_has_base(d) || !(d->flags & before->flags & TLC_DELTA_FLAG_DIGESTS) ||
        d->base_digest == before->result_digest)
        return TLC_OK;
    return TLC_FAIL(&f->d.why, TLC_ERR_BASE,
                    "frames[%zu] has a base with digest %llu, the one before it ends with %llu", i,
                    (unsigned long long)d->base_digest, (unsigned long long)before->result_digest);
}

static tlc_status open_chain(folding *f, const void *const *frames, const size_t *lens)
{
    for (size_t i = 0; i < f->count; i++) {
        const size_t at = f->d.why.at;
        tlc_text_format(&f->d.why, "frames[%zu]: ", i);
        tlc_status status = open_link(f, &f->chain[i], frames[i], lens[i]);
        if (status)
            return status;
        tlc_text_cut(&f->d.why, at);
        status = check_link(f, i);
        if (status)
            return status;
        if (!tlc_delta_has_base(&f->chain[i].d))
            f->first = i;
    }
    return TLC_OK;
}

/* The first and the last link in which something differs, or NULL. */
static void find_ends(const folding *f, const link **first, const link **last)
{
    *first = *last = NULL;
    for (size_t i = f->first; i < f->count; i++)
        if (!(f->chain[i].d.flags & TLC_DELTA_FLAG_SAME)) {
            *last = &f->chain[i];
            *first = *first ? *first : *last;
        }
}

/* Digests of base and result, of all weights and of blocks, are those of the ends if these have them. */
static void set_digests(folding *f, const link *first, const link *last)
{
    const tlc_delta *start = &f->chain[f->first].d, *end = &f->chain[f->count - 1].d;
    const int has_base = tlc_delta_has_base(start);
    const int digests = !f->d.options.without_digests && (start->flags & end->flags & TLC_DELTA_FLAG_DIGESTS) != 0;

    /* A frame in which nothing differs might have two digests, of which the other frames have one. */
    const int of_blocks = digests && first && first->d.digests && last->d.digests &&
                          (!has_base || start->base_digest == first->d.base_digest) &&
                          end->result_digest == last->d.result_digest;

    tlc_delta_set_flags(&f->d, has_base, digests, of_blocks);
    f->d.base_digest = start->base_digest;
    f->d.result_digest = end->result_digest;
}

static void copy_block_digests(const folding *f, const link *first, const link *last)
{
    const size_t size = tlc_delta_digests_size(&f->d), result = size - TLC_DELTA_DIGEST_SIZE;
    uint8_t *digests = f->rooms.table + tlc_delta_entries_size(&f->d);

    for (size_t b = 0; b < tlc_delta_weight_blocks(&f->d); b++, digests += size) {
        const size_t at = b * tlc_delta_digests_size(&last->d) + tlc_delta_digests_size(&last->d) -
                          TLC_DELTA_DIGEST_SIZE;
        if (result)
            memcpy(digests, first->d.digests + b * size, TLC_DELTA_DIGEST_SIZE);
        memcpy(digests + result, last->d.digests + at, TLC_DELTA_DIGEST_SIZE);
    }
}

/* Writes the frame at dst. */
static size_t write_fold(folding *f, uint8_t *dst)
{
    const link *first, *last;

    find_ends(f, &first, &last);
    set_digests(f, first, last);
    if (!first)
        return tlc_delta_finish(&f->d, dst, 0);
    tlc_delta_differences_split(&f->d, &f->d.options.parallel);
    for (size_t i = f->first; i < f->count; i++)
        if (!(f->chain[i].d.flags & TLC_DELTA_FLAG_SAME))
            find_offsets(&f->chain[i], &f->d);
    for (size_t i = 0; i < f->d.ranges.count; i++)
        f->rooms.start[i + 1] = tlc_delta_differences_room(&f->d, UINT64_MAX,
                                                           tlc_range_start(&f->d.ranges, i + 1) -
                                                               tlc_range_start(&f->d.ranges, i));
    tlc_delta_rooms_place(&f->rooms, &f->d, dst);
    tlc_ranges_run(&f->d.options.parallel, f->d.ranges.count, fold_range, f);
    if (f->d.flags & TLC_DELTA_FLAG_BLOCK_DIGESTS)
        copy_block_digests(f, first, last);
    return tlc_delta_rooms_finish(&f->rooms, &f->d);
}

/* dtype and n of the first frame, by its head. */
static tlc_status read_first(tlc_delta *d, const uint8_t *src, size_t len)
{
    tlc_delta first = {.why = d->why};
    tlc_status expected, status = tlc_delta_check_format(&first, src, len, TLC_DELTA_HEAD_MIN + TLC_CHECKSUM_SIZE);
    size_t at;

    if (status)
        return status;
    if (!tlc_delta_read_head(&first, src, len - TLC_CHECKSUM_SIZE, &at, NULL, TLC_F32, &expected))
        return tlc_delta_is_corrupt(&first, "its head is invalid");
    tlc_delta_of(d, first.dtype, first.n);
    return TLC_OK;
}

static tlc_status check_frames(tlc_delta *d, const void *const *frames, const size_t *lens, size_t count)
{
    if (!count || !frames || !lens)
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "%s",
                        !count    ? "count is 0"
                        : !frames ? "frames is NULL"
                                  : "lens is NULL");
    for (size_t i = 0; i < count; i++)
        if (!frames[i] && lens[i])
            return TLC_FAIL(&d->why, TLC_ERR_PARAM, "frames[%zu] is NULL, but lens[%zu] is %zu", i, i, lens[i]);
    return TLC_OK;
}

/* The links lie at the end of the room that there must be. */
static tlc_status place_chain(folding *f, uint8_t *dst, size_t cap)
{
    size_t bound;

    if (tlc_delta_fold_bound(f->d.dtype, (size_t)f->d.n, f->count, &bound))
        return TLC_FAIL(&f->d.why, TLC_ERR_SIZE, "n is %llu: the address space is too small for it",
                        (unsigned long long)f->d.n);
    if (cap < bound)
        return TLC_FAIL(&f->d.why, TLC_ERR_CAPACITY, "cap is %zu bytes, tlc_delta_fold_bound is %zu", cap, bound);
    dst += bound - (size_t)links_size(f->count);
    f->chain = (void *)(dst + (-(uintptr_t)dst & (_Alignof(link) - 1)));
    return TLC_OK;
}

tlc_status tlc_delta_fold(const void *const *frames, const size_t *lens, size_t count, void *dst, size_t cap,
                          size_t *written, const tlc_delta_options *opt)
{
    tlc_threads threads;
    folding f = {.count = count};
    tlc_status status = tlc_delta_begin(&f.d, TLC_F32, 0, opt);

    if (!status && (!dst || !written))
        status = TLC_FAIL(&f.d.why, TLC_ERR_PARAM, "%s is NULL", dst ? "written" : "dst");
    if (!status)
        status = check_frames(&f.d, frames, lens, count);
    if (!status)
        status = tlc_delta_isa(&f.d);
    if (!status)
        status = read_first(&f.d, frames[0], lens[0]);
    if (!status)
        status = place_chain(&f, dst, cap);
    if (status)
        return status;
    tlc_threads_enter(&threads, &f.d.options.parallel);
    status = open_chain(&f, frames, lens);
    if (!status)
        *written = write_fold(&f, dst);
    tlc_threads_leave(&threads);
    return status;
}
