/* SPDX-License-Identifier: MIT
 *
 * Frames that are made of a list of the weights that differ.
 */
#include "../codec/arguments.h"
#include "../common/bytes.h"
#include "differences.h"

typedef struct listing {
    const tlc_delta *d;
    const uint64_t *positions;
    const uint8_t *before, *after;
    size_t k, first[TLC_DELTA_DIFFERENCES_RANGES]; /* first: of the positions of a range */
    tlc_delta_rooms rooms;
} listing;

/* The first position from `weight` on. */
static size_t find(const listing *l, size_t weight)
{
    size_t low = 0, high = l->k;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (l->positions[middle] < weight)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Changes of one block. */
typedef struct segment {
    const uint64_t *positions;
    const uint8_t *before, *after; /* of all changes: of weights of 64 bits the halves of the block */
    size_t first, end;             /* which of all changes these are */
    size_t start;                  /* the first weight of the block */
} segment;

/* Those of 4 bits have a byte each. */
TLC_DELTA_INLINE uint32_t listed(const uint8_t *weights, size_t j, tlc_weight_unit unit)
{
    return tlc_unit_width(unit) == 4 ? weights[j] & 15 : tlc_weight_load(weights, j, unit);
}

/* The units of a block are close together. */
TLC_DELTA_INLINE tlc_weight_unit coded(tlc_weight_unit unit)
{
    return unit == TLC_UNIT_HALF ? TLC_UNIT_U32 : unit;
}

/* There are no branches on the data, neither here nor in mark: where changes are is hardly predictable. */
TLC_DELTA_INLINE void list(const segment *s, tlc_delta_list *l, tlc_weight_unit unit)
{
    const segment c = *s; /* in registers: what is stored might be of the segment */
    size_t k = 0, large_k = 0, next = c.start, next_large = 0;

    for (size_t j = c.first; j < c.end; j++) {
        const size_t at = (size_t)c.positions[j];
        const int32_t d = tlc_difference(listed(c.before, j, unit), listed(c.after, j, unit), unit);
        const size_t differs = d != 0, is_large = (uint32_t)d + 1 > 2;
        l->gap[k] = (uint32_t)(at - next) << 1 | (uint32_t)d >> 31;
        l->large_gap[large_k] = (uint32_t)(k - next_large);
        l->magnitude[large_k] = tlc_magnitude(d);
        next = differs ? at + 1 : next;
        next_large = is_large ? k + 1 : next_large;
        k += differs;
        large_k += is_large;
    }
    l->k = k;
    l->large_k = large_k;
}

/* Sets masks and units of a block, which are 0 before. A word is stored again for each of its changes, so that none
 * waits for a load of it. */
TLC_DELTA_INLINE void mark(const segment *s, tlc_delta_masks *m, uint8_t *units, tlc_weight_unit unit)
{
    const segment c = *s; /* in registers: a store of a byte might be to the segment */
    uint64_t changed = 0, negative = 0, large = 0, among = 0, k = 0, large_k = 0;
    size_t word = 0;

    for (size_t j = c.first; j < c.end; j++) {
        const size_t i = (size_t)c.positions[j] - c.start;
        const uint32_t d = (uint32_t)tlc_difference(listed(c.before, j, unit), listed(c.after, j, unit), unit);
        const uint64_t same_word = 0 - (uint64_t)(i / 64 == word), is_large = d + 1 > 2;
        word = i / 64;
        changed = (changed & same_word) | (uint64_t)(d != 0) << i % 64;
        negative = (negative & same_word) | (uint64_t)(d >> 31) << i % 64;
        large = (large & same_word) | is_large << i % 64;
        among = (among & (0 - (uint64_t)(k % 64 != 0))) | is_large << k % 64;
        m->changed[word] = changed;
        m->negative[word] = negative;
        m->large[word] = large;
        m->among[k / 64] = among;
        k += d != 0;
        large_k += is_large;
        tlc_weight_store(units, i, coded(unit), tlc_ordered(d & tlc_unit_mask(unit), unit));
    }
    m->k = k;
    m->large_k = large_k;
    m->has_among = 1;
}

/* The next weights of a block of which all are listed. */
TLC_DELTA_INLINE void copy(const segment *s, uint8_t *units, tlc_weight_unit unit)
{
    for (size_t j = s->first; j < s->end; j++)
        tlc_weight_store(units, j - s->first, coded(unit), listed(s->after, j, unit));
}

typedef union differing {
    tlc_delta_list list;
    tlc_delta_masks masks;
} differing;

/* units are 0 before and after. */
TLC_DELTA_INLINE void write_masks(listing *l, const segment *s, size_t range, size_t b, tlc_delta_masks *m,
                                  uint8_t *units, tlc_weight_unit unit)
{
    const size_t n = tlc_delta_count(l->d, b);

    memset(m, 0, sizeof *m);
    mark(s, m, units, unit);
    if (!tlc_delta_rooms_write(&l->rooms, l->d, range, b, m, units, s->end - s->first == n)) {
        copy(s, units, unit);
        tlc_delta_rooms_write_raw(&l->rooms, l->d, range, b, units);
    }
    memset(units, 0, tlc_unit_bytes(coded(unit), n));
}

TLC_DELTA_INLINE void write_units(listing *l, const segment *s, size_t range, size_t b, differing *m, uint8_t *units,
                                  tlc_weight_unit unit)
{
    const size_t count = s->end - s->first;

    if (count <= TLC_DELTA_LISTED && tlc_delta_is_sparse(count, tlc_delta_count(l->d, b))) {
        list(s, &m->list, unit);
        if (tlc_delta_rooms_write_list(&l->rooms, l->d, range, b, &m->list))
            return;
    }
    write_masks(l, s, range, b, &m->masks, units, unit);
}

static void write_block(listing *l, const segment *s, size_t range, size_t b, differing *m, uint8_t *units)
{
    switch (l->d->unit) {
    case TLC_UNIT_F32: write_units(l, s, range, b, m, units, TLC_UNIT_F32); break;
    case TLC_UNIT_F16: write_units(l, s, range, b, m, units, TLC_UNIT_F16); break;
    case TLC_UNIT_F8: write_units(l, s, range, b, m, units, TLC_UNIT_F8); break;
    case TLC_UNIT_F4: write_units(l, s, range, b, m, units, TLC_UNIT_F4); break;
    case TLC_UNIT_U32: write_units(l, s, range, b, m, units, TLC_UNIT_U32); break;
    case TLC_UNIT_U8: write_units(l, s, range, b, m, units, TLC_UNIT_U8); break;
    case TLC_UNIT_U4: write_units(l, s, range, b, m, units, TLC_UNIT_U4); break;
    case TLC_UNIT_HALF: write_units(l, s, range, b, m, units, TLC_UNIT_HALF); break;
    }
}

static void write_range(void *arg, size_t i)
{
    listing *l = arg;
    const tlc_delta *d = l->d;
    const size_t planes = tlc_delta_planes(d);
    uint8_t *units = tlc_delta_rooms_clear(&l->rooms, d, i);
    segment s = {.positions = l->positions, .end = l->first[i]};
    differing differ;

    for (size_t b = planes * tlc_range_start(&d->ranges, i); b < planes * tlc_range_start(&d->ranges, i + 1); b++) {
        if (b % planes == 0) {
            s.start = tlc_delta_first(d, b);
            s.first = s.end;
            while (s.end < l->k && l->positions[s.end] - s.start < TLC_DELTA_BLOCK)
                s.end++;
        }
        s.before = l->before + tlc_delta_plane_offset(d, b);
        s.after = l->after + tlc_delta_plane_offset(d, b);
        write_block(l, &s, i, b, &differ, units);
    }
}

/* Are these positions of weights, in rising order? */
static tlc_status check_positions(tlc_delta *d, const uint64_t *positions, size_t k)
{
    for (size_t j = 0; j < k; j++) {
        if (positions[j] >= d->n)
            return TLC_FAIL(&d->why, TLC_ERR_PARAM, "positions[%zu] is %llu, and n %llu", j,
                            (unsigned long long)positions[j], (unsigned long long)d->n);
        if (j && positions[j - 1] >= positions[j])
            return TLC_FAIL(&d->why, TLC_ERR_PARAM, "positions[%zu] is %llu, after %llu: they rise", j,
                            (unsigned long long)positions[j], (unsigned long long)positions[j - 1]);
    }
    return TLC_OK;
}

static tlc_status check_bound(tlc_delta *d, size_t k, size_t cap)
{
    size_t bound;

    if (tlc_delta_changes_bound(d->dtype, k, (size_t)d->n, &bound))
        return TLC_FAIL(&d->why, TLC_ERR_SIZE, "n is %llu: the address space is too small for it",
                        (unsigned long long)d->n);
    return cap < bound
               ? TLC_FAIL(&d->why, TLC_ERR_CAPACITY, "cap is %zu bytes, tlc_delta_changes_bound is %zu", cap, bound)
               : TLC_OK;
}

tlc_status tlc_delta_changes_bound(tlc_dtype dtype, size_t k, size_t n, size_t *bound)
{
    tlc_delta d = {0};

    if (!bound || (unsigned)dtype > TLC_F64 || !tlc_delta_has_n(dtype, n) || k > n)
        return TLC_ERR_PARAM;
    tlc_delta_of(&d, dtype, n);
    const uint64_t most = tlc_delta_differences_bound(&d, k);
    if (most >= SIZE_MAX)
        return TLC_ERR_SIZE;
    *bound = (size_t)most;
    return TLC_OK;
}

tlc_status tlc_delta_from_changes(tlc_dtype dtype, const uint64_t *positions, const void *before, const void *after,
                                  size_t k, size_t n, const uint64_t *digests, void *dst, size_t cap, size_t *written,
                                  const tlc_delta_options *opt)
{
    tlc_threads threads;
    tlc_delta d;
    listing l = {.d = &d, .positions = positions, .before = before, .after = after, .k = k};
    tlc_status status = tlc_delta_begin(&d, dtype, n, opt);

    if (!status && (!dst || !written))
        status = TLC_FAIL(&d.why, TLC_ERR_PARAM, "%s is NULL", dst ? "written" : "dst");
    if (!status)
        status = tlc_delta_not_null(&d, "positions", positions, "k", k);
    if (!status)
        status = tlc_delta_not_null(&d, "before", before, "k", k);
    if (!status)
        status = tlc_delta_not_null(&d, "after", after, "k", k);
    if (!status)
        status = check_positions(&d, positions, k);
    if (!status)
        status = tlc_delta_isa(&d);
    if (!status)
        status = check_bound(&d, k, cap);
    if (status)
        return status;
    tlc_delta_set_flags(&d, 1, digests != NULL, 0);
    d.base_digest = digests ? digests[0] : 0;
    d.result_digest = digests ? digests[1] : 0;
    if (!k) { /* and there may be no arrays */
        *written = tlc_delta_finish(&d, dst, 0);
        return TLC_OK;
    }
    tlc_delta_differences_split(&d, &d.options.parallel);
    for (size_t i = 0; i < d.ranges.count; i++) {
        const size_t start = tlc_range_start(&d.ranges, i), end = tlc_range_start(&d.ranges, i + 1);
        l.first[i] = find(&l, start * TLC_DELTA_BLOCK);
        const size_t last = i + 1 < d.ranges.count ? find(&l, end * TLC_DELTA_BLOCK) : k;
        l.rooms.start[i + 1] = tlc_delta_differences_room(&d, last - l.first[i], end - start);
    }
    tlc_delta_rooms_place(&l.rooms, &d, dst);
    tlc_threads_enter(&threads, &d.options.parallel);
    tlc_ranges_run(&d.options.parallel, d.ranges.count, write_range, &l);
    tlc_threads_leave(&threads);
    *written = tlc_delta_rooms_finish(&l.rooms, &d);
    return TLC_OK;
}
