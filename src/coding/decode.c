/* SPDX-License-Identifier: MIT */
#include "decode.h"
#include "../common/bytes.h"
#include "../common/sizes.h"

static void begin_unit(tlc_coding *c, const tlc_kernels *k, const tlc_frame *f, const tlc_output *output)
{
    const tlc_stage *packer = f->fallback ? f->codec.packer->fallback : f->codec.packer;
    tlc_unit *u = &c->unit;

    c->codec = &f->codec;
    c->fused = tlc_fused_of(f->codec.quantizer, packer);
    c->fallback = f->fallback;
    c->parallel = NULL;
    c->without_count = 0;
    c->scratch = NULL;
    c->output = output;
    u->k = k;
    u->quantizer = f->codec.quantizer->quantize;
    u->params = f->codec.params;
    u->n = f->n;
    u->first = 0;
    u->dtype = f->dtype;
    memcpy(u->scalars, f->scalars, sizeof u->scalars);
    u->input = NULL;
    u->random = NULL;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Goes over the blocks of a frame. */
typedef struct block_walk {
    tlc_coding coding; /* of the present block */
    const tlc_frame *frame;
    uint64_t blocks, next;     /* how many there are; the next one */
    size_t scalars;            /* of a block */
    size_t entry, offset, len; /* bytes of a table entry; where the payload of the present block is, and its length */
} block_walk;

static void walk_start(block_walk *w, const tlc_kernels *k, const tlc_frame *f, const tlc_output *output)
{
    begin_unit(&w->coding, k, f, output);
    w->frame = f;
    w->blocks = f->codec.block ? tlc_ceil_div(f->n, f->codec.block) : 0;
    w->next = 0;
    w->scalars = tlc_scalar_count(f->codec.quantizer->quantize, f->codec.params);
    w->entry = tlc_table_entry_size(&f->codec);
    w->offset = (size_t)w->blocks * w->entry; /* right if the table fits the frame */
    w->len = 0;
}

/* Goes to the next block. The table fits the frame, and there is a next block. */
static void walk_next(block_walk *w)
{
    size_t block = w->frame->codec.block;
    const uint8_t *entry = w->frame->payload + (size_t)w->next * w->entry;
    uint64_t first = w->next++ * block;
    tlc_coding *c = &w->coding;

    for (size_t i = 0; i < w->scalars; i++)
        c->unit.scalars[i] = tlc_bits_float(tlc_load32(entry + 4 * i));
    c->unit.first = (size_t)first;
    c->unit.n = w->frame->n - first < block ? w->frame->n - first : block;
    w->offset += w->len;
    uint32_t len = tlc_load32(entry + w->entry - 4);
    w->len = len & ~TLC_BLOCK_FALLBACK;
    c->fallback = (len & TLC_BLOCK_FALLBACK) != 0;
    if (tlc_codec_has_fallback(c->codec))
        c->fused = tlc_fused_of(c->codec->quantizer, c->fallback ? c->codec->packer->fallback : c->codec->packer);
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

/* A block; the scalars of a tensor that is not blocked are in its header. */
static int check_block(const tlc_coding *c, const uint8_t *src, size_t len)
{
    if (!tlc_scalars_valid(c->codec, c->unit.scalars) || (c->fallback && !tlc_codec_has_fallback(c->codec)))
        return 0;
    return tlc_coder_for(c->codec)->check(c, src, len);
}

int tlc_decode_check(const tlc_kernels *k, const tlc_frame *f)
{
    block_walk w;

    if (!f->n)
        return !f->payload_size;
    if (!f->codec.block) {
        begin_unit(&w.coding, k, f, NULL);
        return tlc_coder_for(&f->codec)->check(&w.coding, f->payload, f->payload_size);
    }
    walk_start(&w, k, f, NULL);
    if (w.blocks > f->payload_size / w.entry)
        return 0;
    while (w.next < w.blocks) {
        walk_next(&w);
        if (w.offset > f->payload_size || w.len > f->payload_size - w.offset ||
            !check_block(&w.coding, f->payload + w.offset, w.len))
            return 0;
    }
    return w.offset + w.len == f->payload_size;
}

uint64_t tlc_decode_clipped(const tlc_frame *f)
{
    const tlc_quantizer *q = f->codec.quantizer->quantize;
    uint64_t sum = 0;
    block_walk w;

    if (!f->n || !q->layout || !q->layout(f->codec.params, f->dtype).counted)
        return 0;
    if (!f->codec.block)
        return tlc_load32(f->payload);
    walk_start(&w, NULL, f, NULL);
    while (w.next < w.blocks) {
        walk_next(&w);
        sum += tlc_load32(f->payload + w.offset);
    }
    return sum;
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

typedef struct blocks_work {
    tlc_ranges ranges; /* of blocks */
    block_walk walk[TLC_RANGES_MAX];
} blocks_work;

static void decode_blocks(void *arg, size_t i)
{
    blocks_work *b = arg;
    block_walk *w = &b->walk[i];

    for (uint64_t end = tlc_range_start(&b->ranges, i + 1); w->next < end;) {
        walk_next(w);
        tlc_coder_for(w->coding.codec)->decode(&w->coding, w->frame->payload + w->offset, w->len);
    }
}

static void decode_blocked(const tlc_frame *f, const tlc_output *output, const tlc_parallel *parallel)
{
    blocks_work b;
    block_walk w;

    walk_start(&w, output->k, f, output);
    b.ranges = tlc_ranges_split(parallel, (size_t)w.blocks, TLC_RANGE_MIN / f->codec.block + 1);
    for (size_t i = 0; i < b.ranges.count; i++) {
        while (w.next < tlc_range_start(&b.ranges, i))
            walk_next(&w);
        b.walk[i] = w;
    }
    tlc_ranges_run(parallel, b.ranges.count, decode_blocks, &b);
}

void tlc_decode_frame(const tlc_frame *f, tlc_output *output, const tlc_parallel *parallel)
{
    const tlc_quantizer *q = f->codec.quantizer->quantize;
    tlc_coding c;

    output->is_symbols = q->makes == TLC_MAKES_SYMBOLS || (q->makes == TLC_MAKES_MEMBERS && !q->value_bits);
    output->has_zero = q->has_zero;
    if (!f->n)
        return;
    if (f->codec.block) {
        decode_blocked(f, output, parallel);
        return;
    }
    begin_unit(&c, output->k, f, output);
    c.parallel = parallel;
    tlc_coder_for(&f->codec)->decode(&c, f->payload, f->payload_size);
}
