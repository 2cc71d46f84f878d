/* SPDX-License-Identifier: MIT
 *
 * Weights that a call of tlc_delta_apply has left half changed, as a process that is killed leaves a mapped file.
 *
 * A block is at its base or at its result, which its digests tell, or the call ended within it. Frames with digests of
 * blocks are applied in rising order, with one store for each weight. So there is a number of changes that were made:
 * it is found by taking them back, one after the other, until the block has the digest of its base.
 */
#include "repair.h"
#include "../codec/arguments.h"

typedef enum state { AT_RESULT, AT_BASE, WITHIN, LOST } state;

/* ---- where a call ended ------------------------------------------------------------------------------------------ */

typedef struct search {
    const tlc_delta *d;
    const uint8_t *weights; /* of the block */
    size_t first, n;        /* weight of the block, and how many */
    uint64_t base;          /* digest */
    size_t piece, number;   /* the piece in `copy`, and how many changes were taken back */
    uint64_t before;        /* digest of the pieces before that one, all of whose changes were taken back */
    uint64_t after[TLC_DELTA_BLOCK / TLC_DELTA_PIECE + 1]; /* digest of the pieces from each on, as they are */
    uint8_t copy[TLC_DELTA_PIECE * 4];
    int found;
} search;

static size_t piece_count(const search *s, size_t piece)
{
    return tlc_smaller(s->n - piece * TLC_DELTA_PIECE, TLC_DELTA_PIECE);
}

static size_t piece_start(const search *s, size_t piece)
{
    return (size_t)tlc_delta_size(s->d, piece * TLC_DELTA_PIECE);
}

static uint64_t piece_digest(const search *s, const uint8_t *weights, size_t piece)
{
    return tlc_delta_digest_piece(s->d, weights, s->first + piece * TLC_DELTA_PIECE, piece_count(s, piece));
}

static void open_piece(search *s, size_t piece)
{
    s->piece = piece;
    memcpy(s->copy, s->weights + piece_start(s, piece), (size_t)tlc_delta_size(s->d, piece_count(s, piece)));
}

static int take_back(void *arg, const size_t *index, const uint32_t *difference, size_t count)
{
    search *s = arg;
    const tlc_weight_unit unit = s->d->unit;

    for (size_t i = 0; i < count && !s->found; i++) {
        const size_t piece = index[i] / TLC_DELTA_PIECE, at = index[i] % TLC_DELTA_PIECE;
        if (piece != s->piece) {
            s->before += piece_digest(s, s->copy, s->piece) + s->after[s->piece + 1] - s->after[piece];
            open_piece(s, piece);
        }
        const uint32_t ordered = tlc_ordered(tlc_weight_load(s->copy, at, unit), unit) - difference[i];
        tlc_weight_store(s->copy, at, unit, tlc_ordered(ordered & tlc_unit_mask(unit), unit));
        s->number++;
        s->found = s->before + piece_digest(s, s->copy, piece) + s->after[piece + 1] == s->base;
    }
    return !s->found;
}

/* How many changes of a block were made: 0 if no number fits. */
static size_t changes_made(const tlc_delta *d, const tlc_delta_block *block, const uint8_t *weights, size_t b,
                           uint64_t base)
{
    search s = {.d = d, .weights = weights, .first = tlc_delta_first(d, b), .n = block->weights.n, .base = base};

    for (size_t piece = (size_t)tlc_ceil_div(s.n, TLC_DELTA_PIECE); piece--;)
        s.after[piece] = s.after[piece + 1] + piece_digest(&s, weights + piece_start(&s, piece), piece);
    open_piece(&s, 0);
    (void)tlc_delta_block_changes(block, take_back, &s);
    return s.found ? s.number : 0;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* The state of the block of weights that begins with block b, whose payload is at `at`. *made: how many changes were
 * made, if WITHIN. */
static state state_of(const tlc_delta *d, const uint8_t *weights, size_t b, size_t at, size_t *made)
{
    const uint8_t *digests = d->digests + b / tlc_delta_planes(d) * tlc_delta_digests_size(d);
    const uint64_t now = tlc_delta_digest_block(d, weights, b);
    int needs_base = 0;

    if (now == tlc_load64(digests + tlc_delta_digests_size(d) - TLC_DELTA_DIGEST_SIZE))
        return AT_RESULT;
    for (size_t plane = 0, start = at; plane < tlc_delta_planes(d); plane++) {
        const tlc_delta_block block = tlc_delta_block_at(d, b + plane, start);
        needs_base |= block.weights.base && block.kind != TLC_DELTA_RAW;
        start += block.len;
    }
    if (!needs_base || now == tlc_load64(digests))
        return AT_BASE;
    const tlc_delta_block block = tlc_delta_block_at(d, b, at);
    if (tlc_delta_planes(d) == 2 || block.kind == TLC_DELTA_SAME)
        return LOST;
    *made = changes_made(d, &block, weights + tlc_delta_block_start(d, b), b, tlc_load64(digests));
    return *made ? WITHIN : LOST;
}

/* Makes the changes of a block from the `made`-th on. */
typedef struct moving {
    uint8_t *weights;
    tlc_weight_unit unit;
    size_t made;
} moving;

static int move(void *arg, const size_t *index, const uint32_t *difference, size_t count)
{
    moving *m = arg;
    const size_t skipped = tlc_smaller(m->made, count);

    m->made -= skipped;
    for (size_t i = skipped; i < count; i++) {
        const uint32_t ordered = tlc_ordered(tlc_weight_load(m->weights, index[i], m->unit), m->unit) + difference[i];
        tlc_weight_store(m->weights, index[i], m->unit, tlc_ordered(ordered & tlc_unit_mask(m->unit), m->unit));
    }
    return 1;
}

void tlc_delta_apply_in_order(const tlc_delta_block *block, uint8_t *weights, size_t made)
{
    moving m = {weights, tlc_delta_unit(block->weights.dtype), made};

    if (block->kind == TLC_DELTA_SPARSE || made)
        (void)tlc_delta_block_changes(block, move, &m);
    else
        tlc_delta_block_apply(block, (tlc_delta_window){0, block->weights.n}, weights);
}

/* ---- all weights ------------------------------------------------------------------------------------------------- */

typedef struct repairing {
    tlc_delta_reading *r;
    uint64_t count[TLC_RANGES_MAX][4]; /* of blocks of weights in each state */
} repairing;

/* One block that is lost is enough to know, so the others of its range are not looked at. */
static void count_range(void *arg, size_t i)
{
    repairing *p = arg;
    const tlc_delta *d = p->r->d;
    size_t at = p->r->offset[i], made;

    for (size_t b = tlc_delta_range_start(p->r, i); b < tlc_delta_range_start(p->r, i + 1) && !p->count[i][LOST]; b++) {
        if (b % tlc_delta_planes(d) == 0)
            p->count[i][state_of(d, p->r->base, b, at, &made)]++;
        at += tlc_delta_payload_size(d, b);
    }
}

/* The changes of a block that were not made. */
static void complete(const tlc_delta *d, uint8_t *weights, size_t b, size_t at, size_t made)
{
    for (size_t plane = 0; plane < tlc_delta_planes(d); plane++) {
        const tlc_delta_block block = tlc_delta_block_at(d, b + plane, at);
        tlc_delta_apply_in_order(&block, weights + tlc_delta_block_start(d, b + plane), made);
        at += block.len;
    }
}

static void complete_range(void *arg, size_t i)
{
    const tlc_delta_reading *r = arg;
    size_t at = r->offset[i];

    for (size_t b = tlc_delta_range_start(r, i); b < tlc_delta_range_start(r, i + 1); b++) {
        size_t made = 0;
        if (b % tlc_delta_planes(r->d) == 0 && state_of(r->d, r->out, b, at, &made) != AT_RESULT)
            complete(r->d, r->out, b, at, made);
        at += tlc_delta_payload_size(r->d, b);
    }
}

void tlc_delta_count_states(tlc_delta_reading *r, uint64_t count[4])
{
    repairing p = {.r = r};

    memset(count, 0, 4 * sizeof *count);
    tlc_ranges_run(&r->d->options.parallel, r->d->ranges.count, count_range, &p);
    for (size_t i = 0; i < r->d->ranges.count; i++)
        for (size_t k = 0; k < 4; k++)
            count[k] += p.count[i][k];
}

/* The frame has passed the checks, but has no digests of blocks: nothing differs, or it cannot be used here. */
static tlc_status repair_whole(tlc_delta_reading *r)
{
    tlc_delta *d = r->d;

    if (!(d->flags & TLC_DELTA_FLAG_SAME))
        return TLC_FAIL(&d->why, TLC_ERR_PARAM, "the delta has no digests of blocks: block_digests was not set");
    return !(d->flags & TLC_DELTA_FLAG_DIGESTS) || tlc_delta_digest_all(d, r->base) == d->base_digest
               ? TLC_OK
               : TLC_FAIL(&d->why, TLC_ERR_BASE, "the weights are not the base of the delta");
}

static tlc_status repair(tlc_delta_reading *r, uint64_t *found)
{
    uint64_t count[4] = {0};
    tlc_delta *d = r->d;

    if (!d->digests)
        return repair_whole(r);
    tlc_delta_count_states(r, count);
    if (found)
        memcpy(found, count, 3 * sizeof *found);
    if (count[LOST])
        return TLC_FAIL(&d->why, TLC_ERR_BASE,
                        "a block of weights is neither at the base of the delta nor at its "
                        "result, and no call of tlc_delta_apply has left it like that");
    tlc_ranges_run(&d->options.parallel, d->ranges.count, complete_range, r);
    return TLC_OK;
}

tlc_status tlc_delta_repair(const void *src, size_t len, tlc_dtype dtype, void *weights, size_t n, uint64_t *found,
                            const tlc_delta_options *opt)
{
    tlc_threads threads;
    tlc_delta d;
    tlc_delta_reading r = {.d = &d, .base = weights, .out = weights};
    tlc_status status = tlc_delta_begin_reading(&d, src, len, dtype, weights, n, opt);

    if (status)
        return status;
    if (found)
        memset(found, 0, 3 * sizeof *found);
    tlc_threads_enter(&threads, &d.options.parallel);
    status = tlc_delta_read_frame(&d, src, len, &n, dtype, 0);
    if (!status) {
        tlc_delta_take(&r, 0, n);
        status = tlc_delta_check_blocks(&r);
    }
    if (!status)
        status = repair(&r, found);
    tlc_threads_leave(&threads);
    return status;
}
