/* SPDX-License-Identifier: MIT */
#include "network.h"

typedef struct network {
    packet *heap; /* the first one to arrive is first */
    size_t count, room;
    uint64_t now, number;
} network;

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

blob *blob_copy(run *r, tlc_message message)
{
    blob *b = take(r, sizeof *b + message.len);

    b->len = message.len;
    b->users = 1;
    if (message.len)
        memcpy(b->data, message.data, message.len);
    return b;
}

blob *blob_keep(blob *b)
{
    if (b)
        b->users++;
    return b;
}

void blob_drop(run *r, blob *b)
{
    if (b && --b->users == 0)
        give(r, b);
}

/* ---- what is under way ------------------------------------------------------------------------------------------- */

void network_open(run *r)
{
    r->net = take(r, sizeof *r->net);
}

void network_close(run *r)
{
    packet p;

    while (network_next(r, &p))
        blob_drop(r, p.bytes);
    give(r, r->net->heap);
    give(r, r->net);
    r->net = NULL;
}

static int is_earlier(const packet *a, const packet *b)
{
    return a->time != b->time ? a->time < b->time : a->number < b->number;
}

static void make_room(run *r)
{
    network *net = r->net;
    packet *larger;

    if (net->count < net->room)
        return;
    net->room = net->room ? 2 * net->room : 64;
    larger = take(r, net->room * sizeof *larger);
    if (net->count)
        memcpy(larger, net->heap, net->count * sizeof *larger);
    give(r, net->heap);
    net->heap = larger;
}

void network_deliver(run *r, packet p)
{
    network *net = r->net;
    uint64_t delay = 1;
    size_t i;

    if (falls(drawn(r->play.order, ABOUT_DELAY, net->number, p.kind, 0), r->sc.rate[FAULT_DELAY])) {
        delay += below(drawn(r->play.order, ABOUT_DELAY, net->number, p.kind, 1), 60);
        r->found->injected[FAULT_DELAY]++;
    }
    p.time = net->now + delay;
    p.number = net->number++;
    make_room(r);
    for (i = net->count++; i && is_earlier(&p, &net->heap[(i - 1) / 2]); i = (i - 1) / 2)
        net->heap[i] = net->heap[(i - 1) / 2];
    net->heap[i] = p;
}

int network_next(run *r, packet *p)
{
    network *net = r->net;
    size_t i = 0;

    if (!net->count)
        return 0;
    *p = net->heap[0];
    net->now = p->time;
    const packet last = net->heap[--net->count];
    for (size_t child = 1; child < net->count; child = 2 * i + 1) {
        if (child + 1 < net->count && is_earlier(&net->heap[child + 1], &net->heap[child]))
            child++;
        if (!is_earlier(&net->heap[child], &last))
            break;
        net->heap[i] = net->heap[child];
        i = child;
    }
    net->heap[i] = last;
    return 1;
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

/* A copy with one to three bits flipped. */
static blob *altered(run *r, const blob *b, uint64_t draw)
{
    blob *copy = blob_copy(r, blob_message(b));

    for (uint64_t flips = 1 + below(draw, 3); flips--; draw = mixed(draw))
        copy->data[below(draw, copy->len)] ^= (uint8_t)(1u << (draw >> 61));
    if (copy->len && !memcmp(copy->data, b->data, b->len)) /* two flips of the same bit */
        copy->data[0] ^= 1;
    return copy;
}

static blob *cut(run *r, const blob *b, uint64_t draw)
{
    return blob_copy(r, (tlc_message){b->data, 1 + (size_t)below(draw, b->len - 1)});
}

static void replace_bytes(run *r, packet *p, blob *bytes, fault_kind f)
{
    blob_drop(r, p->bytes);
    p->bytes = bytes;
    p->condition = DAMAGED;
    r->found->injected[f]++;
}

void network_send(run *r, packet p)
{
    uint64_t about = p.step << 8 | (uint64_t)p.kind << 4 | p.tries, ends = (uint64_t)p.from << 32 | p.to;
    uint64_t damage = drawn(r->sc.seed, ABOUT_DAMAGE, about, ends, 0);
    int spared = p.tries >= MOST_TRIES || p.kind == PACKET_WAKE;
#define HAPPENS(f) (!spared && falls(drawn(r->sc.seed, ABOUT_FATE, about, ends, f), r->sc.rate[f]))

    p.condition = WHOLE;
    if (HAPPENS(FAULT_DROP)) {
        blob_drop(r, p.bytes);
        p.bytes = NULL;
        p.condition = LOST;
        r->found->injected[FAULT_DROP]++;
    } else if (p.bytes && p.bytes->len > 1 && HAPPENS(FAULT_ALTER))
        replace_bytes(r, &p, altered(r, p.bytes, damage), FAULT_ALTER);
    else if (p.bytes && p.bytes->len > 1 && HAPPENS(FAULT_CUT))
        replace_bytes(r, &p, cut(r, p.bytes, damage), FAULT_CUT);
    if (HAPPENS(FAULT_REPEAT)) {
        packet again = p;
        blob_keep(again.bytes);
        r->found->injected[FAULT_REPEAT]++;
        network_deliver(r, again);
    }
    network_deliver(r, p);
#undef HAPPENS
}
