/* SPDX-License-Identifier: MIT
 *
 * gather: each rank sends its frames to all others.
 */
#include "layout_fleet.h"

enum { PUSH, PULL, PHASES };

static const layout_phase phases[PHASES] = {
    [PUSH] = {.call = "push"},
    [PULL] = {.call = "pull", .pulls = true},
};

static size_t memory(const layout_options *o)
{
    return layout_fleet_memory(o, GATHER);
}

static void *open_layout(const layout_options *o, char *why)
{
    return layout_fleet_open(o, GATHER, why);
}

static bool call(void *layout, size_t phase, size_t machine, const layout_values *values, char *why)
{
    return phase == PUSH ? fleet_push(layout, machine, values->grads, why)
                         : fleet_pull(layout, machine, values->out, why);
}

static traffic sent(const void *layout, size_t phase, size_t machine)
{
    const fleet *f = layout;
    size_t ranks = f->options.ranks;
    traffic t = {.out = 0};

    for (size_t i = 0; phase == PUSH && i < ranks; i++) {
        if (i == machine)
            continue;
        traffic_add(&t, f->push[machine * ranks + i], true);
        traffic_add(&t, f->push[i * ranks + machine], false);
    }
    return t;
}

/* most_whole: N ranks decode N messages each. */
const layout_kind layout_gather = {.name = "gather",
                                   .phases = phases,
                                   .phase_count = PHASES,
                                   .most_whole = 64,
                                   .memory = memory,
                                   .open = open_layout,
                                   .close = layout_fleet_close,
                                   .residual = layout_fleet_residual,
                                   .begin = layout_fleet_begin,
                                   .call = call,
                                   .sent = sent,
                                   .kept = layout_fleet_kept};
