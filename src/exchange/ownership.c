/* SPDX-License-Identifier: MIT */
#include "ownership.h"

#define UNIT 16    /* values: pieces of a tensor begin at multiples of it */
#define PASSES 4   /* how many stretches of the split tensors an owner has, at most */
#define SHORT 4096 /* values: shorter stretches do not pay */
#define FINE 256   /* costs are counted in parts of a byte */

/* How the split tensors are cut: they are laid end to end, and cut into stretches that the owners take in turns. Owner
 * o ends at the same cost in each pass, so that those have more who got less of the whole tensors. */
typedef struct cuts {
    uint64_t *end; /* by owner: the cost where its stretch of the first pass ends */
    uint64_t pass; /* the cost of a pass */
    uint32_t passes, owners;
} cuts;

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

/* Plans the cuts. All owners are filled up to the same level, if the split tensors are enough for that. */
static cuts plan_cuts(const tlc_ownership_tensor *tensors, size_t count, uint32_t owners, size_t split_n,
                      const uint64_t *load, tlc_memory *m)
{
    cuts c = {.end = tlc_memory_take(m, owners, sizeof *c.end), .passes = 1, .owners = owners};
    uint64_t cost = 0, values = 0, low = 0, high = UINT64_MAX / 2;

    if (m->status)
        return c;
    for (size_t t = 0; t < count; t++)
        if (is_split(&tensors[t], split_n)) {
            cost = tlc_sum(cost, tlc_product(units_of(&tensors[t]), unit_cost(&tensors[t])));
            values = tlc_sum(values, tensors[t].n);
        }
    while (c.passes < PASSES && values / owners / (c.passes + 1) >= SHORT)
        c.passes++;
    while (low < high) { /* the lowest level with room for all */
        uint64_t middle = low + (high - low) / 2;
        if (room_below(load, owners, middle) < cost)
            low = middle + 1;
        else
            high = middle;
    }
    for (uint32_t o = 0; o < owners; o++) {
        c.pass = tlc_sum(c.pass, (low > load[o] ? low - load[o] : 0) / c.passes);
        c.end[o] = c.pass;
    }
    return c;
}

/* Where the stretch of owner o in a pass begins. */
static uint64_t stretch_begin(const cuts *c, uint32_t pass, uint32_t o)
{
    return tlc_sum(tlc_product(pass, c->pass), o ? c->end[o - 1] : 0);
}

/* The value of a split tensor where the stretch begins, or ends if it is the next one's begin. before: the cost of the
 * split tensors before it. */
static size_t cut_at(const tlc_ownership_tensor *t, uint64_t before, uint64_t cost)
{
    uint64_t unit = cost > before ? (cost - before + unit_cost(t) / 2) / unit_cost(t) : 0;

    return unit < units_of(t) && unit * UNIT < t->n ? (size_t)(unit * UNIT) : t->n;
}

/* The last stretch ends where the tensors end. */
static size_t stretch_end(const cuts *c, uint32_t pass, uint32_t o, const tlc_ownership_tensor *t, uint64_t before)
{
    if (o + 1 < c->owners)
        return cut_at(t, before, stretch_begin(c, pass, o + 1));
    return pass + 1 < c->passes ? cut_at(t, before, stretch_begin(c, pass + 1, 0)) : t->n;
}

/* Adds a group to the grouping. */
static tlc_ownership_group *add_group(tlc_grouping *g, size_t begin, uint32_t only, int shared)
{
    tlc_ownership_group *group = &g->groups[g->count++];

    *group = (tlc_ownership_group){.begin = begin, .only = only, .shared = shared};
    return group;
}

static void add_part(tlc_grouping *g, const tlc_ownership *own, size_t part)
{
    tlc_ownership_group *group = &g->groups[g->count - 1];

    g->order[group->begin + group->count++] = part;
    group->n += own->parts[part].n;
}

/* Makes the groups of one owner: parts with a frame of their own first, then the shared frames by `only`. */
static void group_owner(tlc_grouping *g, const tlc_ownership *own, uint32_t owner, const tlc_ownership_tensor *tensors,
                        tlc_direction direction)
{
    size_t from = own->begin[owner], to = own->begin[owner + 1], at = from;
    uint64_t last = 0;

    for (size_t p = from; p < to; p++) {
        const tlc_ownership_tensor *t = &tensors[own->parts[p].tensor];
        if (t->small[direction])
            continue;
        add_group(g, at++, direction == TLC_PUSH ? t->only : 0, 0);
        add_part(g, own, p);
    }
    /* answers are for all workers, whoever pushed */
    for (uint64_t next = 0; at < to; next = last + 1) {
        last = UINT64_MAX;
        for (size_t p = from; p < to; p++) {
            const tlc_ownership_tensor *t = &tensors[own->parts[p].tensor];
            uint32_t only = direction == TLC_PUSH ? t->only : 0;
            if (t->small[direction] && only >= next && only < last)
                last = only;
        }
        tlc_ownership_group *group = add_group(g, at, (uint32_t)last, 1);
        for (size_t p = from; p < to; p++) {
            const tlc_ownership_tensor *t = &tensors[own->parts[p].tensor];
            if (t->small[direction] && (direction == TLC_PULL || t->only == last))
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

/* Adds values from .. to - 1 of a tensor to the parts of an owner. */
static void own_part(tlc_ownership *own, uint32_t owner, size_t tensor, size_t from, size_t to)
{
    tlc_ownership_part *next = &own->parts[own->count];

    if (from >= to)
        return;
    if (own->count && next[-1].owner == owner && next[-1].tensor == tensor && next[-1].first + next[-1].n == from)
        next[-1].n += to - from;
    else {
        *next = (tlc_ownership_part){tensor, from, to - from, owner};
        own->count++;
    }
}

/* Makes the parts of all owners. */
static void make_parts(tlc_ownership *own, const tlc_ownership_tensor *tensors, size_t count, size_t split_n,
                       const uint32_t *owner, const cuts *c)
{
    for (uint32_t o = 0; o < c->owners; o++) {
        uint64_t before = 0;
        own->begin[o] = own->count;
        for (size_t t = 0; t < count; t++) {
            if (!is_split(&tensors[t], split_n)) {
                own_part(own, o, t, 0, owner[t] == o ? tensors[t].n : 0);
                continue;
            }
            for (uint32_t pass = 0; pass < c->passes; pass++)
                own_part(own, o, t, cut_at(&tensors[t], before, stretch_begin(c, pass, o)),
                         stretch_end(c, pass, o, &tensors[t], before));
            before = tlc_sum(before, tlc_product(units_of(&tensors[t]), unit_cost(&tensors[t])));
        }
    }
    own->begin[c->owners] = own->count;
}

void tlc_ownership_plan(tlc_ownership *own, const tlc_ownership_tensor *tensors, size_t count, uint32_t owners,
                        size_t split_n, tlc_memory *m)
{
    uint32_t *owner = tlc_memory_take(m, count, sizeof *owner);
    uint64_t *load = tlc_memory_take(m, owners, sizeof *load);

    *own = (tlc_ownership){.count = 0};
    /* each tensor, and a part more for each cut */
    own->parts = tlc_memory_take(m, tlc_sum(count, (uint64_t)owners * PASSES), sizeof *own->parts);
    own->begin = tlc_memory_take(m, (uint64_t)owners + 1, sizeof *own->begin);
    if (m->status)
        return;
    deal_out(tensors, count, owners, split_n, owner, load, m);
    const cuts c = plan_cuts(tensors, count, owners, split_n, load, m);
    if (m->status)
        return;
    make_parts(own, tensors, count, split_n, owner, &c);
    for (int d = TLC_PUSH; d <= TLC_PULL; d++)
        group_parts(own, (tlc_direction)d, tensors, owners, m);
}
