/* SPDX-License-Identifier: MIT */
#include "ownership.h"

#define UNIT 16  /* values: pieces of a tensor begin at multiples of it */
#define FINE 256 /* costs are counted in parts of a byte */

static int is_split(const tlc_ownership_tensor *t, size_t split_n)
{
    return t->n >= split_n;
}

static uint64_t units_of(const tlc_ownership_tensor *t)
{
    return tlc_ceil_div(t->n, UNIT);
}

static uint64_t unit_cost(const tlc_ownership_tensor *t)
{
    return tlc_ceil_div(tlc_product(t->cost, FINE), units_of(t)) + 1;
}

static uint64_t split_cost(const tlc_ownership_tensor *t)
{
    return tlc_product(units_of(t), unit_cost(t));
}

/* Is tensor a dealt out before b? */
static int is_before(const tlc_ownership_tensor *tensors, size_t a, size_t b)
{
    return tensors[a].cost != tensors[b].cost ? tensors[a].cost > tensors[b].cost : a < b;
}

/* Restores the heap below `at`: each element is dealt out after its children. */
static void sift(size_t *heap, size_t count, size_t at, const tlc_ownership_tensor *tensors)
{
    for (size_t child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
        if (child + 1 < count && is_before(tensors, heap[child], heap[child + 1]))
            child++;
        if (is_before(tensors, heap[child], heap[at]))
            return;
        size_t moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static void sort_by_cost(size_t *list, size_t count, const tlc_ownership_tensor *tensors)
{
    for (size_t i = count / 2; i-- > 0;)
        sift(list, count, i, tensors);
    for (size_t end = count; end-- > 1;) {
        size_t last = list[0];
        list[0] = list[end];
        list[end] = last;
        sift(list, end, 0, tensors);
    }
}

/* owner[t]: who gets tensor t, if it is not split. load: what owners have then. */
static void deal_out(const tlc_ownership_tensor *tensors, size_t count, uint32_t owners, size_t split_n,
                     uint32_t *owner, uint64_t *load, tlc_memory *m)
{
    size_t *list = tlc_memory_take(m, count, sizeof *list), whole = 0;

    if (m->status)
        return;
    for (size_t t = 0; t < count; t++)
        if (!is_split(&tensors[t], split_n))
            list[whole++] = t;
    sort_by_cost(list, whole, tensors);
    for (size_t i = 0; i < whole; i++) {
        uint32_t least = 0;
        for (uint32_t o = 1; o < owners; o++)
            if (load[o] < load[least])
                least = o;
        owner[list[i]] = least;
        load[least] = tlc_sum(load[least], tlc_product(tensors[list[i]].cost, FINE));
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

/* Adds a group to the grouping. */
static tlc_ownership_group *add_group(tlc_grouping *g, size_t begin, uint32_t pusher, int shared)
{
    tlc_ownership_group *group = &g->groups[g->count++];

    *group = (tlc_ownership_group){.begin = begin, .pusher = pusher, .shared = shared};
    return group;
}

static void add_part(tlc_grouping *g, const tlc_ownership *own, size_t part)
{
    tlc_ownership_group *group = &g->groups[g->count - 1];

    g->order[group->begin + group->count++] = part;
    group->n += own->parts[part].n;
}

/* Makes the groups of one owner: parts with a frame of their own first, then the shared frames by pusher. */
static void group_owner(tlc_grouping *g, const tlc_ownership *own, uint32_t owner, const tlc_ownership_tensor *tensors,
                        tlc_direction direction)
{
    size_t from = own->begin[owner], to = own->begin[owner + 1], at = from;
    uint64_t last = 0;

    for (size_t p = from; p < to; p++) {
        const tlc_ownership_tensor *t = &tensors[own->parts[p].tensor];
        if (t->small[direction])
            continue;
        add_group(g, at++, direction == TLC_PUSH ? t->pusher : 0, 0);
        add_part(g, own, p);
    }
    /* answers are for all workers, whoever pushed */
    for (uint64_t next = 0; at < to; next = last + 1) {
        last = UINT64_MAX;
        for (size_t p = from; p < to; p++) {
            const tlc_ownership_tensor *t = &tensors[own->parts[p].tensor];
            uint32_t pusher = direction == TLC_PUSH ? t->pusher : 0;
            if (t->small[direction] && pusher >= next && pusher < last)
                last = pusher;
        }
        const tlc_ownership_group *group = add_group(g, at, (uint32_t)last, 1);
        for (size_t p = from; p < to; p++) {
            const tlc_ownership_tensor *t = &tensors[own->parts[p].tensor];
            if (t->small[direction] && (direction == TLC_PULL || t->pusher == last))
                add_part(g, own, p);
        }
        at += group->count;
        if (group->n > g->shared_n)
            g->shared_n = group->n;
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
    for (uint32_t o = 0; o < owners; o++) {
        g->begin[o] = g->count;
        group_owner(g, own, o, tensors, direction);
    }
    g->begin[owners] = g->count;
}

/* Makes the parts of all owners. */
static void make_parts(tlc_ownership *own, const tlc_ownership_tensor *tensors, size_t count, uint32_t owners,
                       size_t split_n, const uint32_t *owner, const uint64_t *end)
{
    for (uint32_t o = 0; o < owners; o++) {
        uint64_t before = 0;
        own->begin[o] = own->count;
        for (size_t t = 0; t < count; t++) {
            size_t from = 0, to = tensors[t].n;
            if (is_split(&tensors[t], split_n)) {
                from = o ? cut_at(&tensors[t], before, end[o - 1]) : 0;
                to = cut_at(&tensors[t], before, end[o]);
                before = tlc_sum(before, split_cost(&tensors[t]));
            } else if (owner[t] != o)
                continue;
            if (from < to)
                own->parts[own->count++] = (tlc_ownership_part){t, from, to - from, o};
        }
    }
    own->begin[owners] = own->count;
}

void tlc_ownership_plan(tlc_ownership *own, const tlc_ownership_tensor *tensors, size_t count, uint32_t owners,
                        size_t split_n, tlc_memory *m)
{
    uint32_t *owner = tlc_memory_take(m, count, sizeof *owner);
    uint64_t *load = tlc_memory_take(m, owners, sizeof *load), *end = tlc_memory_take(m, owners, sizeof *end);

    *own = (tlc_ownership){.count = 0};
    own->parts = tlc_memory_take(m, tlc_sum(count, owners), sizeof *own->parts); /* a part more for each cut */
    own->begin = tlc_memory_take(m, (uint64_t)owners + 1, sizeof *own->begin);
    if (m->status)
        return;
    deal_out(tensors, count, owners, split_n, owner, load, m);
    plan_cuts(tensors, count, owners, split_n, load, end);
    make_parts(own, tensors, count, owners, split_n, owner, end);
    for (int d = TLC_PUSH; d <= TLC_PULL; d++)
        group_parts(own, (tlc_direction)d, tensors, owners, m);
}
