/* SPDX-License-Identifier: MIT
 *
 * server: the ranks are workers. Servers average what they push, each its part of the model, and answer all of them.
 */
#include "layout_fleet.h"

enum { PUSH, SERVE, PULL, PHASES };

static const layout_phase phases[PHASES] = {
    [PUSH] = {.call = "push"},
    [SERVE] = {.call = "reduce", .by_servers = true},
    [PULL] = {.call = "pull", .pulls = true},
};

static size_t memory(const layout_options *o)
{
    return layout_fleet_memory(o, SERVER);
}

static void *open_layout(const layout_options *o, char *why)
{
    return layout_fleet_open(o, SERVER, why);
}

static bool call(void *layout, size_t phase, size_t machine, const layout_values *values, char *why)
{
    const fleet *f = layout;

    switch (phase) {
    case PUSH: return fleet_push(layout, machine, values->grads, why);
    case SERVE: return fleet_serve(layout, machine - f->options.ranks, why);
    default: return fleet_pull(layout, machine, values->out, why);
    }
}

/* Workers send in PUSH what servers get, and servers in SERVE what workers get. */
static traffic sent(const void *layout, size_t phase, size_t machine)
{
    const fleet *f = layout;
    size_t ranks = f->options.ranks, servers = f->options.servers;
    bool is_server = machine >= ranks, out = is_server == (phase == SERVE);
    traffic t = {.out = 0};

    for (size_t i = 0; phase != PULL && i < (is_server ? ranks : servers); i++) {
        size_t rank = is_server ? i : machine, server = is_server ? machine - ranks : i;
        traffic_add(&t, phase == PUSH ? f->push[rank * servers + server] : f->answer[server], out);
    }
    return t;
}

const layout_kind layout_server = {.name = "server",
                                   .has_servers = true,
                                   .phases = phases,
                                   .phase_count = PHASES,
                                   .most_whole = SIZE_MAX,
                                   .memory = memory,
                                   .open = open_layout,
                                   .close = layout_fleet_close,
                                   .residual = layout_fleet_residual,
                                   .begin = layout_fleet_begin,
                                   .call = call,
                                   .sent = sent,
                                   .kept = layout_fleet_kept};
