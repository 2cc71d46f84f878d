/* SPDX-License-Identifier: MIT */
#include "ownership.h"
#include "sort.h"

#define UNIT 16  /* values: pieces of a tensor begin at multiples of it */
#define FINE 256 /* costs are counted in parts of a byte */

static int is_split(const tlc_ownership_tensor *t, size_t split_n)
{
    return t->n && t->n >= split_n;
}

static uint64_t units_of(const tlc_ownership_tensor *t)
{
    return tlc_ceil_div(t->n, UNIT);
}

static uint64_t unit_cost(const tlc_ownership_tensor *t)
{
    const uint64_t each = tlc_ceil_div(tlc_product(t->cost, FINE), units_of(t));
    return each < UINT64_MAX ? each + 1 : each;
}

static uint64_t split_cost(const tlc_ownership_tensor *t)
{
    return tlc_product(units_of(t), unit_cost(t));
}

/* ---- who gets what ----------------------------------------------------------------------------------------------- */

/* Is tensor a dealt out before b? */
static int is_costlier(const void *arg, size_t a, size_t b)
{
    const tlc_ownership_tensor *tensors = arg;
    return tensors[a].cost != tensors[b].cost ? tensors[a].cost > tensors[b].cost : a < b;
}

/* Does owner b get something before a? */
static int has_more(const void *arg, size_t a, size_t b)
{
    const uint64_t *load = arg;
    return load[a] != load[b] ? load[a] > load[b] : a > b;
}

/* owner[t]: who gets tensor t, if it is not split. load: what owners have then. */
static void deal_out(const tlc_ownership_tensor *tensors, size_t count, uint32_t owners, size_t split_n,
                     uint32_t *owner, uint64_t *load, tlc_memory *m)
{
    size_t *list = tlc_memory_take(m, count, sizeof *list), *least = tlc_memory_take(m, owners, sizeof *least);
    size_t whole = 0;

    if (m->status)
        return;
    for (size_t t = 0; t < count; t++)
        if (!is_split(&tensors[t], split_n))
            list[whole++] = t;
    tlc_sort(list, whole, is_costlier, tensors);
    for (uint32_t o = 0; o < owners; o++)
        least[o] = o; /* a heap: all have nothing, and the first one is the next one */
    for (size_t i = 0; i < whole; i++) {
        const size_t o = least[0];
        owner[list[i]] = (uint32_t)o;
        load[o] = tlc_sum(load[o], tlc_product(tensors[list[i]].cost, FINE));
        tlc_sift(least, owners, 0, has_more, load);
    }
}

/* What owners have room for below a level. */
static uint64_t room_below(const uint64_t *load, uint32_t owners, uint64_t level)
{
    uint64_t room = 0;

    for (uint32_t o = 0; o < owners; o++)
        room = tlc_sum(room, level > load[o] ? level - load[o] : 0);
    return room;
}

/* The split tensors are laid end to end and cut. end[o]: their cost up to where the stretch of owner o ends. All owners
 * are filled up to the same level, if the split tensors are enough for that. */
static void plan_cuts(const tlc_ownership_tensor *tensors, size_t count, uint32_t owners, size_t split_n,
                      const uint64_t *load, uint64_t *end)
{
    uint64_t cost = 0, low = 0, high = UINT64_MAX / 2;

    for (size_t t = 0; t < count; t++)
        if (is_split(&tensors[t], split_n))
            cost = tlc_sum(cost, split_cost(&tensors[t]));
    while (low < high) { /* the lowest level with room for all */
        uint64_t middle = low + (high - low) / 2;
        if (room_below(load, owners, middle) < cost)
            low = middle + 1;
        else
            high = middle;
    }
    for (uint32_t o = 0; o < owners; o++)
        end[o] = tlc_sum(o ? end[o - 1] : 0, low > load[o] ? low - load[o] : 0);
    end[owners - 1] = UINT64_MAX; /* the last one takes what rounding left */
}

/* The value of a split tensor where a stretch ends. before: the cost of the split tensors before it. */
static size_t cut_at(const tlc_ownership_tensor *t, uint64_t before, uint64_t end)
{
    uint64_t unit = end > before ? (end - before - 1) / unit_cost(t) + 1 : 0;

    return unit < units_of(t) ? (size_t)(unit * UNIT) : t->n;
}

/* ---- parts that share a frame ------------------------------------------------------------------------------------ */

/* Adds a group to the grouping. */
static void add_group(tlc_grouping *g, size_t begin, uint32_t pusher, int shared)
{
    g->groups[g->count++] = (tlc_ownership_group){.begin = begin, .pusher = pusher, .shared = shared};
}

static void add_part(tlc_grouping *g, const tlc_ownership *own, size_t part)
{
    tlc_ownership_group *group = &g->groups[g->count - 1];

    g->order[group->begin + group->count++] = part;
    group->n += own->parts[part].n;
}

/* What decides which parts share a frame. */
typedef struct sharing {
    const tlc_ownership *own;
    const tlc_ownership_tensor *tensors;
    tlc_direction direction;
} sharing;

/* Answers are for all workers, whoever pushed. */
static uint32_t pusher_of(const sharing *s, size_t part)
{
    return s->direction == TLC_PUSH ? s->tensors[s->own->parts[part].tensor].pusher : 0;
}

static int is_in_frame_before(const void *arg, size_t a, size_t b)
{
    const uint32_t first = pusher_of(arg, a), second = pusher_of(arg, b);
    return first != second ? first < second : a < b;
}

/* Makes the groups of one owner: parts with a frame of their own first, then the shared frames by pusher. */
static void group_owner(tlc_grouping *g, const sharing *s, uint32_t owner)
{
    const tlc_ownership *own = s->own;
    const size_t from = own->begin[owner], to = own->begin[owner + 1];
    size_t at = from, small = 0;

    for (size_t p = from; p < to; p++) {
        if (s->tensors[own->parts[p].tensor].small[s->direction])
            continue;
        add_group(g, at++, pusher_of(s, p), 0);
        add_part(g, own, p);
    }
    for (size_t p = from; p < to; p++)
        if (s->tensors[own->parts[p].tensor].small[s->direction])
            g->order[at + small++] = p;
    tlc_sort(g->order + at, small, is_in_frame_before, s);
    for (size_t i = 0; i < small; i++) {
        const size_t p = g->order[at + i];
        if (!i || pusher_of(s, p) != g->groups[g->count - 1].pusher)
            add_group(g, at + i, pusher_of(s, p), 1);
        add_part(g, own, p);
        if (g->groups[g->count - 1].n > g->shared_n)
            g->shared_n = g->groups[g->count - 1].n;
    }
}

static void group_parts(tlc_ownership *own, tlc_direction direction, const tlc_ownership_tensor *tensors,
                        uint32_t owners, tlc_memory *m)
{
    tlc_grouping *g = &own->grouping[direction];

    g->order = tlc_memory_take(m, own->count, sizeof *g->order);
    g->groups = tlc_memory_take(m, own->count, sizeof *g->groups);
    g->begin = tlc_memory_take(m, (uint64_t)owners + 1, sizeof *g->begin);
    if (m->status)
        return;
    const sharing s = {own, tensors, direction};
    for (uint32_t o = 0; o < owners; o++) {
        g->begin[o] = g->count;
        group_owner(g, &s, o);
    }
    g->begin[owners] = g->count;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* The parts of all owners, tensor by tensor. place 0: counts them, those of owner o in begin[o + 2]. Else begin[o + 1]
 * is where the next part of owner o goes. */
static void walk_parts(tlc_ownership *own, const tlc_ownership_tensor *tensors, size_t count, uint32_t owners,
                       size_t split_n, const uint32_t *owner, const uint64_t *end, int place)
{
    uint32_t first = 0; /* the first owner whose stretch ends after what came before */
    uint64_t before = 0;
    size_t placed = 0;

    for (size_t t = 0; t < count; t++) {
        const int split = is_split(&tensors[t], split_n);
        const uint64_t cost = split ? split_cost(&tensors[t]) : 0;
        uint32_t o = split ? first : owner[t];
        own->of_tensor[t] = placed;
        for (size_t from = 0, to; from < tensors[t].n && o < owners; from = to, o++) {
            to = split ? cut_at(&tensors[t], before, end[o]) : tensors[t].n;
            if (from >= to)
                continue;
            if (place) {
                own->by_tensor[placed++] = own->begin[o + 1];
                own->parts[own->begin[o + 1]++] = (tlc_ownership_part){t, from, to - from, o};
            } else
                own->begin[o + 2]++;
        }
        before = tlc_sum(before, cost);
        while (first + 1 < owners && end[first] <= before)
            first++;
    }
    own->of_tensor[count] = placed;
}

static void make_parts(tlc_ownership *own, const tlc_ownership_tensor *tensors, size_t count, uint32_t owners,
                       size_t split_n, const uint32_t *owner, const uint64_t *end, tlc_memory *m)
{
    walk_parts(own, tensors, count, owners, split_n, owner, end, 0);
    for (uint32_t o = 0; o < owners; o++)
        own->begin[o + 2] += own->begin[o + 1];
    own->count = own->begin[owners + 1];
    own->parts = tlc_memory_take(m, own->count, sizeof *own->parts);
    own->by_tensor = tlc_memory_take(m, own->count, sizeof *own->by_tensor);
    if (!m->status)
        walk_parts(own, tensors, count, owners, split_n, owner, end, 1);
}

void tlc_ownership_plan(tlc_ownership *own, const tlc_ownership_tensor *tensors, size_t count, uint32_t owners,
                        size_t split_n, tlc_memory *m)
{
    uint32_t *owner = tlc_memory_take(m, count, sizeof *owner);
    uint64_t *load = tlc_memory_take(m, owners, sizeof *load), *end = tlc_memory_take(m, owners, sizeof *end);

    *own = (tlc_ownership){.count = 0};
    own->begin = tlc_memory_take(m, (uint64_t)owners + 2, sizeof *own->begin);
    own->of_tensor = tlc_memory_take(m, tlc_sum(count, 1), sizeof *own->of_tensor);
    if (m->status)
        return;
    deal_out(tensors, count, owners, split_n, owner, load, m);
    if (m->status)
        return;
    plan_cuts(tensors, count, owners, split_n, load, end);
    make_parts(own, tensors, count, owners, split_n, owner, end, m);
    for (int d = TLC_PUSH; !m->status && d <= TLC_PULL; d++)
        group_parts(own, (tlc_direction)d, tensors, owners, m);
}
