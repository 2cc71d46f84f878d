/* SPDX-License-Identifier: MIT
 *
 * Frames that are read as lists of the weights that differ.
 */
#include "../codec/arguments.h"
#include "../common/structs.h"
#include "reading.h"

/* What a piece gets of a block of weights. */
typedef struct filling {
    const tlc_delta *d;
    tlc_delta_piece *piece;
    size_t first;            /* weight of the block */
    tlc_delta_window window; /* of the weights of the block that are asked for */
    size_t size;             /* bytes of a value */
    uint8_t *values;         /* of these weights */
    /* of weights of 64 bits: which halves come, and which weights have come */
    size_t half;
    uint64_t came[TLC_DELTA_BLOCK / 64];
} filling;

static size_t value_size(const tlc_delta *d)
{
    return tlc_unit_width(d->unit) == 4 ? 1 : (size_t)tlc_delta_size(d, 1);
}

static int is_asked(const filling *f, size_t index)
{
    return index - f->window.first < f->window.end - f->window.first;
}

static void put_value(uint8_t *values, size_t i, uint32_t x, size_t size)
{
    switch (size) {
    case 1: values[i] = (uint8_t)x; break;
    case 2: tlc_weight_store(values, i, TLC_UNIT_F16, x); break;
    default: tlc_weight_store(values, i, TLC_UNIT_U32, x);
    }
}

static int take_differences(void *arg, const size_t *index, const uint32_t *difference, size_t count)
{
    filling *f = arg;
    tlc_delta_piece *piece = f->piece;

    for (size_t i = 0; i < count; i++)
        if (is_asked(f, index[i])) {
            piece->positions[piece->k] = f->first + index[i];
            put_value(piece->values, piece->k++, difference[i], f->size);
        }
    return index[count - 1] < f->window.end;
}

static int take_halves(void *arg, const size_t *index, const uint32_t *difference, size_t count)
{
    filling *f = arg;

    for (size_t i = 0; i < count; i++)
        if (is_asked(f, index[i])) {
            const size_t at = index[i] - f->window.first;
            f->came[at / 64] |= (uint64_t)1 << at % 64;
            tlc_weight_store(f->values + f->half, at, TLC_UNIT_HALF, difference[i]);
        }
    return index[count - 1] < f->window.end;
}

/* Is it of the next weights themselves? */
static int has_values(const tlc_delta_block *b)
{
    return b->kind == TLC_DELTA_RAW || !b->weights.base;
}

/* Two values of 4 bits in a byte get a byte each. */
static void spread(uint8_t *values, size_t count)
{
    for (size_t i = count; i--;)
        values[i] = values[i / 2] >> i % 2 * 4 & 15;
}

static void fill_values(filling *f, const tlc_delta_block *block)
{
    const size_t count = f->window.end - f->window.first;

    tlc_delta_block_apply(block, f->window, f->values);
    if (tlc_unit_width(f->d->unit) == 4)
        spread(f->values, count);
    for (size_t i = 0; i < count; i++)
        f->piece->positions[f->piece->k++] = f->first + f->window.first + i;
}

/* Weights of 64 bits: both halves are put where all weights would be, then those that came are put together. */
static void fill_halves(filling *f, const tlc_delta_block *blocks, size_t b)
{
    const size_t count = f->window.end - f->window.first;
    tlc_delta_piece *piece = f->piece;

    memset(f->came, 0, sizeof f->came);
    memset(f->values, 0, 8 * count);
    for (size_t plane = 0; plane < 2; plane++) {
        f->half = tlc_delta_plane_offset(f->d, b + plane);
        if (has_values(&blocks[plane])) {
            tlc_delta_block_apply(&blocks[plane], f->window, f->values + f->half);
            memset(f->came, -1, sizeof f->came);
        } else if (blocks[plane].kind != TLC_DELTA_SAME)
            (void)tlc_delta_block_changes(&blocks[plane], take_halves, f);
    }
    for (size_t i = 0; i < count; i++)
        if (f->came[i / 64] >> i % 64 & 1) {
            piece->positions[piece->k] = f->first + f->window.first + i;
            memmove((uint8_t *)piece->values + 8 * piece->k++, f->values + 8 * i, 8);
        }
}

static void fill(filling *f, const tlc_delta_block *blocks, size_t b)
{
    f->values = (uint8_t *)f->piece->values + f->size * f->piece->k;
    if (tlc_delta_planes(f->d) == 2)
        fill_halves(f, blocks, b);
    else if (has_values(blocks))
        fill_values(f, blocks);
    else
        (void)tlc_delta_block_changes(blocks, take_differences, f);
}

/* Reads the payloads of the block of weights that begins with block b, from byte *at of the payloads on. */
static tlc_status read_blocks(tlc_delta *d, size_t b, uint64_t *at, tlc_delta_block *blocks)
{
    uint64_t changed;

    for (size_t plane = 0; plane < tlc_delta_planes(d); plane++) {
        const size_t len = tlc_delta_payload_size(d, b + plane);
        if (*at > d->payloads_size || len > d->payloads_size - *at)
            return tlc_delta_is_corrupt(d, "a block ends after the last one");
        blocks[plane] = tlc_delta_block_at(d, b + plane, (size_t)*at);
        *at += len;
    }
    return tlc_delta_blocks_check(blocks, tlc_delta_planes(d), &changed)
               ? TLC_OK
               : tlc_delta_is_corrupt(d, "a block is invalid");
}

/* One block of weights after the other, while they fit and have the same halves. */
static tlc_status fill_piece(tlc_delta *d, tlc_delta_piece *piece, uint64_t *at)
{
    filling f = {.d = d, .piece = piece, .size = value_size(d)};
    tlc_delta_block blocks[2] = {{.kind = TLC_DELTA_SAME}};

    while (piece->next < piece->end) {
        const size_t b = (size_t)(piece->next / TLC_DELTA_BLOCK) * tlc_delta_planes(d);
        uint64_t after = *at;
        int is_same = 1, values = 0;

        f.first = tlc_delta_first(d, b);
        f.window.first = (size_t)piece->next - f.first;
        f.window.end = tlc_smaller((size_t)piece->end - f.first, tlc_delta_count(d, b));
        if (f.window.end - f.window.first > piece->cap - piece->k)
            break;
        tlc_status status = read_blocks(d, b, &after, blocks);
        if (status)
            return status;
        for (size_t plane = 0; plane < tlc_delta_planes(d); plane++) {
            is_same &= blocks[plane].kind == TLC_DELTA_SAME;
            values |= has_values(&blocks[plane]) << plane;
        }
        if (piece->k && !is_same && values != piece->are_values)
            break;
        if (!is_same) {
            piece->are_values = values;
            fill(&f, blocks, b);
        }
        piece->next = f.first + f.window.end;
        *at = after;
    }
    return TLC_OK;
}

/* Where the payloads of the block of weights begin that has this weight; sets *fits to 0 if those of all blocks are not
 * as long as they should be. */
static uint64_t find_payload(const tlc_delta *d, uint64_t weight, int *fits)
{
    const size_t block = (size_t)(weight / TLC_DELTA_BLOCK) * tlc_delta_planes(d);
    uint64_t at = 0, found = 0;

    for (size_t b = 0; b < tlc_delta_blocks(d); b++) {
        found = b == block ? at : found;
        at += tlc_delta_payload_size(d, b);
    }
    *fits = at == d->payloads_size;
    return found;
}

static tlc_status check_piece(tlc_delta *d, const tlc_delta_piece *p, size_t n)
{
    if (!p || p->struct_size < sizeof *p)
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "piece %s", p ? "has a bad struct_size" : "is NULL");
    if (p->next > p->end || p->end > n)
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "next is %llu, end %llu, and n %zu", (unsigned long long)p->next,
                        (unsigned long long)p->end, n);
    if (!tlc_delta_has_n(d->dtype, p->next) || !tlc_delta_has_n(d->dtype, p->end))
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "next is %llu, end %llu, and %s has two weights in a byte",
                        (unsigned long long)p->next, (unsigned long long)p->end, tlc_dtype_name(d->dtype));
    tlc_status status = tlc_delta_not_null(d, "positions", p->positions, "cap", p->cap);
    if (!status)
        status = tlc_delta_not_null(d, "values", p->values, "cap", p->cap);
    if (!status && p->cap < TLC_DELTA_BLOCK && p->cap < p->end - p->next)
        status = TLC_FAIL(&d->why, TLC_ERR_CAPACITY,
                          "cap is %zu: a block of %d weights, or all that are left, may come", p->cap, TLC_DELTA_BLOCK);
    return status;
}

tlc_status tlc_delta_changes(const void *src, size_t len, tlc_dtype dtype, size_t n, tlc_delta_piece *piece,
                             const tlc_delta_options *opt)
{
    tlc_delta d;
    tlc_status status = tlc_delta_begin(&d, dtype, n, opt);

    if (!status)
        status = tlc_delta_not_null(&d, "src", src, "len", len);
    if (!status)
        status = check_piece(&d, piece, n);
    if (!status)
        status = tlc_delta_isa(&d);
    if (!status)
        status = tlc_delta_read_frame(&d, src, len, &n, dtype, piece->state != 0);
    if (status)
        return status;
    piece->k = 0;
    piece->are_values = 0;
    int fits = 1;
    uint64_t at = piece->state - 1;
    if (d.flags & TLC_DELTA_FLAG_SAME) {
        piece->next = piece->end;
        return TLC_OK;
    }
    if (!piece->state)
        at = find_payload(&d, piece->next, &fits);
    if (!fits)
        return tlc_delta_is_corrupt(&d, "its blocks do not end where it ends");
    tlc_float_mode mode = tlc_float_enter();
    status = fill_piece(&d, piece, &at);
    tlc_float_leave(mode);
    piece->state = at + 1;
    return status;
}
