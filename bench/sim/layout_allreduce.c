/* SPDX-License-Identifier: MIT
 *
 * all-reduce: each rank, or only so many of them, owns a part of the model, averages it, and answers all others.
 * owners: the same, but owners have the optimizer, and answer with the change of the model.
 */
#include "layout_fleet.h"

enum { PUSH, REDUCE, PULL, PHASES };

static const layout_phase phases[PHASES] = {
    [PUSH] = {.call = "push"},
    [REDUCE] = {.call = "reduce"},
    [PULL] = {.call = "pull", .pulls = true},
};

static size_t all_reduce_memory(const layout_options *o)
{
    return layout_fleet_memory(o, ALL_REDUCE);
}

static size_t owners_memory(const layout_options *o)
{
    return layout_fleet_memory(o, OWNERS);
}

static void *open_all_reduce(const layout_options *o, char *why)
{
    return layout_fleet_open(o, ALL_REDUCE, why);
}

static void *open_owners(const layout_options *o, char *why)
{
    return layout_fleet_open(o, OWNERS, why);
}

static bool call(void *layout, size_t phase, size_t machine, const layout_values *values, char *why)
{
    switch (phase) {
    case PUSH: return fleet_push(layout, machine, values->grads, why);
    case REDUCE: return fleet_reduce(layout, machine, why);
    default: return fleet_pull(layout, machine, values->out, why);
    }
}

static traffic sent(const void *layout, size_t phase, size_t machine)
{
    const fleet *f = layout;
    size_t ranks = f->options.ranks;
    traffic t = {.out = 0};

    for (size_t i = 0; phase != PULL && i < ranks; i++) {
        if (i == machine)
            continue;
        traffic_add(&t, phase == PUSH ? f->push[machine * ranks + i] : f->answer[machine], true);
        traffic_add(&t, phase == PUSH ? f->push[i * ranks + machine] : f->answer[i], false);
    }
    return t;
}

/* They differ in the optimizer alone. */
#define KIND(NAME, PREFIX)                                                                                             \
    {.name = (NAME),                                                                                                   \
     .has_owners = true,                                                                                               \
     .phases = phases,                                                                                                 \
     .phase_count = PHASES,                                                                                            \
     .most_whole = SIZE_MAX,                                                                                           \
     .memory = PREFIX##_memory,                                                                                        \
     .open = open_##PREFIX,                                                                                            \
     .close = layout_fleet_close,                                                                                      \
     .residual = layout_fleet_residual,                                                                                \
     .begin = layout_fleet_begin,                                                                                      \
     .call = call,                                                                                                     \
     .sent = sent,                                                                                                     \
     .kept = layout_fleet_kept}

const layout_kind layout_all_reduce = KIND("all-reduce", all_reduce);
const layout_kind layout_owners = KIND("owners", owners);
