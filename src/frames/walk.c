/* SPDX-License-Identifier: MIT */
#include "walk.h"
#include "../common/bytes.h"
#include "../common/sizes.h"

void tlc_walk_start(tlc_walk *w, const tlc_kernels *k, const tlc_frame *f, const tlc_output *output)
{
    const tlc_stage *packer = f->fallback ? f->codec.packer->fallback : f->codec.packer;
    tlc_coding *c = &w->coding;
    tlc_unit *u = &c->unit;

    c->codec = &f->codec;
    c->fused = tlc_fused_of(f->codec.quantizer, packer);
    c->fallback = f->fallback;
    c->without_count = 0;
    c->parallel = NULL;
    c->scratch = NULL;
    c->payload = f->payload;
    c->len = f->payload_size;
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
    w->frame = f;
    w->units = f->codec.block ? tlc_ceil_div(f->n, f->codec.block) : 1;
    w->next = 0;
    w->entry = f->codec.block ? tlc_table_entry_size(&f->codec) : 0;
    w->offset = (size_t)w->units * w->entry; /* right if the table fits the frame */
    w->len = 0;
}

int tlc_walk_has_table(const tlc_walk *w)
{
    return !w->entry || w->units <= w->frame->payload_size / w->entry;
}

static const uint8_t *next_entry(const tlc_walk *w)
{
    return w->frame->payload + (size_t)w->next * w->entry;
}

static uint32_t length_in(const tlc_walk *w, const uint8_t *entry)
{
    return tlc_load32(entry + w->entry - 4);
}

/* Reads the table's entry of the next block. */
static int next_block(tlc_walk *w)
{
    const tlc_frame *f = w->frame;
    const uint8_t *entry = next_entry(w);
    uint64_t first = tlc_walk_first(w, w->next++);
    tlc_coding *c = &w->coding;

    for (size_t i = 0; i < w->entry / 4 - 1; i++)
        c->unit.scalars[i] = tlc_bits_float(tlc_load32(entry + 4 * i));
    c->unit.first = (size_t)first;
    c->unit.n = f->n - first < f->codec.block ? f->n - first : f->codec.block;
    w->offset += w->len;
    uint32_t len = length_in(w, entry);
    w->len = len & ~TLC_BLOCK_FALLBACK;
    c->fallback = (len & TLC_BLOCK_FALLBACK) != 0;
    if (c->fallback && !tlc_codec_has_fallback(c->codec))
        return 0;
    if (tlc_codec_has_fallback(c->codec))
        c->fused = tlc_fused_of(c->codec->quantizer, c->fallback ? c->codec->packer->fallback : c->codec->packer);
    if (w->offset > f->payload_size || w->len > f->payload_size - w->offset)
        return 0;
    c->payload = f->payload + w->offset;
    c->len = w->len;
    return 1;
}

int tlc_walk_next(tlc_walk *w)
{
    if (w->entry)
        return next_block(w);
    w->next++;
    w->len = w->frame->payload_size;
    return 1;
}

void tlc_walk_skip(tlc_walk *w, uint64_t to)
{
    for (; w->next < to; w->next++) {
        w->offset += w->len;
        w->len = length_in(w, next_entry(w)) & ~TLC_BLOCK_FALLBACK;
    }
}
