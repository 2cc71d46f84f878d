/* SPDX-License-Identifier: MIT
 *
 * The state of a node is saved.
 */
#include "../../api/context.h"
#include "../objects/object.h"
#include "gossip_state.h"

static const char magic[4] = TLC_NODE_MAGIC;

/* ---- save -------------------------------------------------------------------------------------------------------- */

/* How many arrays an entry has. */
static size_t arrays(const tlc_gossip *g)
{
    size_t count = g->estimate ? 2 : 1;

    for (size_t i = 0; i < g->degree; i++)
        count += !g->neighbour[i].lost;
    return count;
}

static size_t text_size(const char *text)
{
    return tlc_varint_size(strlen(text)) + strlen(text);
}

static const char *codec_of(const tlc_gossip *g, size_t part)
{
    return tlc_sender_context(&g->push.sender, part, &(int){0})->codec_text;
}

static uint64_t neighbour_code(const tlc_neighbour *n)
{
    return (uint64_t)n->node * 2 + (n->lost ? 1 : 0);
}

size_t tlc_gossip_state_size(const tlc_gossip *g)
{
    if (!g)
        return 0;
    size_t size = TLC_NODE_FIXED + tlc_varint_size(g->setup.cfg.workers) + tlc_varint_size(g->setup.rank) +
                  tlc_varint_size(g->degree) + tlc_varint_size(g->push.sender.part_count);

    for (size_t i = 0; i < g->degree; i++)
        size += tlc_varint_size(neighbour_code(&g->neighbour[i]));
    for (size_t p = 0; p < g->push.sender.part_count; p++) {
        const tlc_setup_tensor *t = &g->setup.tensors[tlc_sender_part(&g->push.sender, p)->tensor];
        size += text_size(t->name) + tlc_varint_size(t->n) + text_size(codec_of(g, p)) +
                arrays(g) * t->n * sizeof(float);
    }
    return size + TLC_CHECKSUM_SIZE;
}

static size_t write_values(uint8_t *p, const float *values, size_t n)
{
    tlc_copy_le(p, values, n, sizeof *values);
    return n * sizeof *values;
}

static size_t write_entry(const tlc_gossip *g, size_t part, uint8_t *p)
{
    size_t tensor = tlc_sender_part(&g->push.sender, part)->tensor, first = g->place[tensor], at = 0;
    const tlc_setup_tensor *t = &g->setup.tensors[tensor];

    at += tlc_write_text(p, t->name, strlen(t->name));
    at += tlc_varint_write(p + at, t->n);
    at += tlc_write_text(p + at, codec_of(g, part), strlen(codec_of(g, part)));
    at += write_values(p + at, g->x + first, t->n);
    if (g->estimate)
        at += write_values(p + at, g->estimate + first, t->n);
    for (size_t i = 0; i < g->degree; i++)
        if (!g->neighbour[i].lost)
            at += write_values(p + at, g->neighbour[i].replica + first, t->n);
    return at;
}

tlc_status tlc_gossip_state_save(const tlc_gossip *g, void *dst, size_t cap, size_t *written)
{
    uint8_t *p = dst;
    size_t at = TLC_NODE_FIXED;

    if (!g)
        return TLC_ERR_PARAM;
    if (g->pushed)
        return tlc_refuse_step(&g->setup, "state_save");
    tlc_status status = tlc_save_check(&g->setup, dst, cap, written, tlc_gossip_state_size(g));
    if (status)
        return status;
    memcpy(p, magic, sizeof magic);
    p[4] = TLC_NODE_VERSION;
    p[5] = (uint8_t)g->setup.kind;
    p[6] = p[7] = 0;
    tlc_store64(p + 8, g->step);
    at += tlc_varint_write(p + at, g->setup.cfg.workers);
    at += tlc_varint_write(p + at, g->setup.rank);
    at += tlc_varint_write(p + at, g->degree);
    at += tlc_varint_write(p + at, g->push.sender.part_count);
    for (size_t i = 0; i < g->degree; i++)
        at += tlc_varint_write(p + at, neighbour_code(&g->neighbour[i]));
    for (size_t part = 0; part < g->push.sender.part_count; part++)
        at += write_entry(g, part, p + at);
    tlc_store32(p + at, tlc_checksum(p, at));
    *written = at + TLC_CHECKSUM_SIZE;
    return TLC_OK;
}
