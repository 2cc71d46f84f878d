/* SPDX-License-Identifier: MIT */
#include "differences.h"
#include "payloads/prefix_code.h"
#include "payloads/weights.h"

void tlc_delta_differences_split(tlc_delta *d, const tlc_parallel *parallel)
{
    const size_t blocks = tlc_delta_weight_blocks(d);
    const size_t each = (size_t)tlc_ceil_div(blocks, TLC_DELTA_DIFFERENCES_RANGES);

    d->ranges = tlc_ranges_split(parallel, blocks, each ? each : 1);
}

/* The units of the largest block. */
static size_t most_units(const tlc_delta *d)
{
    return tlc_smaller((size_t)d->n, TLC_DELTA_BLOCK);
}

/* The most bytes of a dense payload. */
static uint64_t dense_max(const tlc_delta *d)
{
    const unsigned width = tlc_unit_width(tlc_delta_unit(tlc_delta_coded(d)));

    return most_units(d) * (TLC_CODE_MAX + (width > 8 ? width - 1 : 0)) / 8 + TLC_DELTA_DIFFERENCES_HEAD;
}

uint64_t tlc_delta_differences_room(const tlc_delta *d, uint64_t k, size_t blocks)
{
    const uint64_t planes = tlc_delta_planes(d), listed = tlc_product(k, planes * TLC_DELTA_CHANGE_MAX);
    const uint64_t all = tlc_product(blocks * planes, dense_max(d));

    return tlc_sum(listed < all ? listed : all, TLC_DELTA_DIFFERENCES_HEAD);
}

static size_t units_size(const tlc_delta *d)
{
    return tlc_unit_bytes(tlc_delta_unit(tlc_delta_coded(d)), most_units(d));
}

uint64_t tlc_delta_differences_bound(const tlc_delta *d, uint64_t k)
{
    const size_t blocks = tlc_delta_weight_blocks(d);
    const uint64_t each = TLC_DELTA_DIFFERENCES_HEAD + units_size(d);
    uint64_t bound = tlc_sum(TLC_DELTA_HEAD_MAX + TLC_CHECKSUM_SIZE, tlc_delta_table_size(d));

    bound = tlc_sum(bound, tlc_delta_differences_room(d, k, blocks));
    bound = tlc_sum(bound, units_size(d));
    return tlc_sum(bound, each * (blocks < TLC_DELTA_DIFFERENCES_RANGES ? blocks : TLC_DELTA_DIFFERENCES_RANGES));
}

void tlc_delta_rooms_place(tlc_delta_rooms *r, const tlc_delta *d, uint8_t *dst)
{
    r->dst = dst;
    r->table = dst + tlc_delta_head_size(d);
    r->payloads = r->table + tlc_delta_table_size(d);
    r->start[0] = 0;
    for (size_t i = 0; i < d->ranges.count; i++)
        r->start[i + 1] += r->start[i];
    r->work = r->payloads + r->start[d->ranges.count];
    r->zeros = memset(r->work + d->ranges.count * units_size(d), 0, units_size(d));
    memset(r->len, 0, sizeof r->len);
}

uint8_t *tlc_delta_rooms_clear(const tlc_delta_rooms *r, const tlc_delta *d, size_t range)
{
    return memset(r->work + range * units_size(d), 0, units_size(d));
}

/* Where the next payload of a range begins, and the bytes that it may have there. */
static uint8_t *next_payload(const tlc_delta_rooms *r, size_t range, size_t *room)
{
    *room = (size_t)(r->start[range + 1] - r->start[range]) - r->len[range];
    return r->payloads + r->start[range] + r->len[range];
}

/* The most bytes of a payload that is not raw. */
static size_t most_coded(const tlc_delta_weights *w)
{
    return tlc_unit_bytes(tlc_delta_unit(w->dtype), w->n) - 1;
}

static void end_payload(tlc_delta_rooms *r, size_t range, size_t b, tlc_delta_kind kind, size_t len)
{
    tlc_delta_put_entry(r->table, b, kind, len);
    r->len[range] += len;
}

int tlc_delta_rooms_write(tlc_delta_rooms *r, const tlc_delta *d, size_t range, size_t b, tlc_delta_masks *masks,
                          const uint8_t *units, int raw)
{
    const tlc_delta_weights w = {d->k, tlc_delta_coded(d), r->zeros, tlc_delta_count(d, b)};
    size_t room, len = 0;
    uint8_t *dst = next_payload(r, range, &room);
    tlc_delta_kind kind = TLC_DELTA_SAME;

    if (masks->k)
        kind = tlc_delta_block_code(&w, masks, units, dst, tlc_smaller(most_coded(&w), room), &len);
    if (masks->k && !len) {
        if (raw)
            return 0;
        kind = tlc_delta_block_code(&w, masks, units, dst, room, &len);
    }
    end_payload(r, range, b, kind, len);
    return 1;
}

int tlc_delta_rooms_write_list(tlc_delta_rooms *r, const tlc_delta *d, size_t range, size_t b,
                               const tlc_delta_list *list)
{
    const tlc_delta_weights w = {d->k, tlc_delta_coded(d), r->zeros, tlc_delta_count(d, b)};
    size_t room, len = 0;
    uint8_t *dst = next_payload(r, range, &room);

    if (list->k) {
        len = tlc_delta_sparse_write_list(&w, list, dst, tlc_smaller(most_coded(&w), room));
        if (!len)
            return 0;
    }
    end_payload(r, range, b, list->k ? TLC_DELTA_SPARSE : TLC_DELTA_SAME, len);
    return 1;
}

void tlc_delta_rooms_write_raw(tlc_delta_rooms *r, const tlc_delta *d, size_t range, size_t b, const uint8_t *units)
{
    const tlc_weight_unit unit = tlc_delta_unit(tlc_delta_coded(d));
    const size_t n = tlc_delta_count(d, b);
    size_t room;

    tlc_units_pack(next_payload(r, range, &room), units, n, unit);
    end_payload(r, range, b, TLC_DELTA_RAW, tlc_unit_bytes(unit, n));
}

void tlc_delta_rooms_write_all(tlc_delta_rooms *r, const tlc_delta *d, size_t range, size_t b, const uint8_t *units)
{
    const tlc_delta_weights w = {d->k, tlc_delta_coded(d), NULL, tlc_delta_count(d, b)};
    size_t len, room;
    const tlc_delta_kind kind = tlc_delta_block_write(&w, units, next_payload(r, range, &room), &len);

    end_payload(r, range, b, kind, len);
}

size_t tlc_delta_rooms_finish(tlc_delta_rooms *r, tlc_delta *d)
{
    size_t at = 0;

    for (size_t i = 0; i < d->ranges.count; i++) {
        memmove(r->payloads + at, r->payloads + r->start[i], r->len[i]);
        at += r->len[i];
    }
    return tlc_delta_finish(d, r->dst, at ? tlc_delta_table_size(d) + at : 0);
}
