/* SPDX-License-Identifier: MIT */
#include "decode.h"
#include "../common/bytes.h"
#include "../common/sizes.h"
#include "walk.h"

/* ---- check ------------------------------------------------------------------------------------------------------- */

/* Checks the payloads of all units. */
static int check_units(tlc_walk *w, tlc_frame *f)
{
    while (w->next < w->units)
        if (!tlc_walk_next(w) || !tlc_scalars_valid(&f->codec, w->coding.unit.scalars) ||
            !tlc_coder_for(&f->codec)->check(&w->coding)) {
            f->fault = TLC_FAULT_UNIT;
            f->fault_unit = w->next - 1;
            return 0;
        }
    f->fault = TLC_FAULT_LENGTHS;
    return w->offset + w->len == f->payload_size;
}

int tlc_decode_check(const tlc_kernels *k, tlc_frame *f)
{
    tlc_walk w;

    f->fault = f->n ? TLC_FAULT_TABLE : TLC_FAULT_TRAILING;
    if (!f->n)
        return !f->payload_size;
    tlc_walk_start(&w, k, f, NULL);
    return tlc_walk_has_table(&w) && check_units(&w, f);
}

uint64_t tlc_decode_clipped(const tlc_frame *f)
{
    const tlc_quantizer *q = f->codec.quantizer->quantize;
    uint64_t sum = 0;
    tlc_walk w;

    if (!f->n || !q->layout || !q->layout(f->codec.params, f->dtype).counted)
        return 0;
    tlc_walk_start(&w, NULL, f, NULL);
    while (w.next < w.units) {
        (void)tlc_walk_next(&w);
        sum += tlc_load32(w.coding.payload);
    }
    return sum;
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

void tlc_output_for(tlc_output *output, const tlc_frame *f)
{
    const tlc_quantizer *q = f->codec.quantizer->quantize;

    output->is_symbols = q->makes == TLC_MAKES_SYMBOLS || (q->makes == TLC_MAKES_MEMBERS && !q->value_bits);
    output->has_zero = q->has_zero;
}

/* Ranges of blocks. */
typedef struct blocks_work {
    tlc_ranges ranges;
    tlc_walk walk[TLC_RANGES_MAX];
} blocks_work;

static void decode_blocks(void *arg, size_t i)
{
    blocks_work *b = arg;
    tlc_walk *w = &b->walk[i];

    for (uint64_t end = tlc_range_start(&b->ranges, i + 1); w->next < end;) {
        tlc_place start = {.positions = {0, 0, 0}};
        (void)tlc_walk_next(w);
        tlc_coder_for(w->coding.codec)->decode(&w->coding, &start, 0, tlc_columns(&w->coding));
    }
}

static void decode_blocked(tlc_walk *w, const tlc_parallel *parallel)
{
    blocks_work b;

    b.ranges = tlc_ranges_split(parallel, (size_t)w->units, TLC_RANGE_MIN / w->frame->codec.block + 1);
    for (size_t i = 0; i < b.ranges.count; i++) {
        tlc_walk_skip(w, tlc_range_start(&b.ranges, i));
        b.walk[i] = *w;
    }
    tlc_ranges_run(parallel, b.ranges.count, decode_blocks, &b);
}

/* Ranges of columns, in multiples of TLC_PART_COLUMNS. */
typedef struct parts_work {
    const tlc_coding *c;
    tlc_ranges ranges;
    tlc_place place[TLC_RANGES_MAX];
} parts_work;

static size_t part_start(const parts_work *p, size_t i)
{
    return tlc_smaller(tlc_range_start(&p->ranges, i) * TLC_PART_COLUMNS, tlc_columns(p->c));
}

static void decode_part(void *arg, size_t i)
{
    parts_work *p = arg;
    tlc_coder_for(p->c->codec)->decode(p->c, &p->place[i], part_start(p, i), part_start(p, i + 1));
}

static void decode_tensor(const tlc_coding *c, const tlc_parallel *parallel)
{
    const tlc_coder *coder = tlc_coder_for(c->codec);
    parts_work p;

    p.c = c;
    p.ranges = tlc_ranges_split(parallel, (size_t)tlc_ceil_div(tlc_columns(c), TLC_PART_COLUMNS),
                                TLC_RANGE_MIN / TLC_PART_COLUMNS);
    memset(&p.place[0], 0, sizeof p.place[0]);
    for (size_t i = 0; i + 1 < p.ranges.count; i++) {
        p.place[i + 1] = p.place[i];
        if (coder->skip)
            coder->skip(c, &p.place[i + 1], part_start(&p, i), part_start(&p, i + 1));
    }
    tlc_ranges_run(parallel, p.ranges.count, decode_part, &p);
}

void tlc_decode_frame(const tlc_frame *f, tlc_output *output, const tlc_parallel *parallel)
{
    tlc_walk w;

    tlc_output_for(output, f);
    if (!f->n)
        return;
    tlc_walk_start(&w, output->k, f, output);
    if (f->codec.block)
        decode_blocked(&w, parallel);
    else
        decode_tensor(&w.coding, parallel);
}
