/* SPDX-License-Identifier: MIT
 *
 * Layouts whose machines are one fleet (fleet.h).
 * all-reduce: each rank, or only some of them, owns a part of the model, averages it, and answers all others.
 * owners: the same, but owners have the optimizer, and answer with the change of the model.
 * gather: each rank sends its frames to all others.
 * server: the ranks are workers. Servers average what they push, each its part of the model, and answer all of them.
 */
#include "../lib/explain.h"
#include "../lib/fleet.h"
#include "fleet_answers.h"
#include "fleet_device.h"
#include "layout.h"
#include <stdlib.h>

enum { PUSH, REDUCE, PULL, PHASES };

typedef struct fleet_layout {
    fleet fleet;
    fleet_device *device; /* of rank 0; NULL: gradients are on the host */
    fleet_answers *answers;
} fleet_layout;

static const layout_phase phases[PHASES] = {{.call = "push"}, {.call = "reduce"}, {.call = "pull", .pulls = true}};
static const layout_phase gather_phases[] = {{.call = "push"}, {.call = "pull", .pulls = true}};
static const layout_phase server_phases[PHASES] = {{.call = "push"},
                                                   {.call = "reduce", .by_servers = true},
                                                   {.call = "pull", .pulls = true}};

static fleet_options options_of(const layout_options *o)
{
    return (fleet_options){.algorithm = (algorithm)o->kind->algorithm,
                           .ranks = o->ranks,
                           .servers = o->servers,
                           .owners = o->owners,
                           .one_by_one = o->replay,
                           .codec = o->codec,
                           .isa = o->isa,
                           .seed = o->seed};
}

static size_t memory(const layout_options *o)
{
    const fleet_options options = options_of(o);

    return fleet_memory(o->model, &options);
}

static void close_layout(void *layout)
{
    fleet_layout *l = layout;

    if (l) {
        fleet_device_close(l->device);
        fleet_answers_close(l->answers);
        fleet_close(&l->fleet);
    }
    free(l);
}

static bool open_device(fleet_layout *l, const layout_options *o, char *why)
{
    if (!o->on_device)
        return true;
    l->device = fleet_device_open(&l->fleet);
    l->answers = fleet_answers_open(&l->fleet);
    return (l->device && l->answers) || explain(why, "out of memory");
}

static void *open_layout(const layout_options *o, char *why)
{
    const fleet_options options = options_of(o);
    fleet_layout *l = calloc(1, sizeof *l);

    if (!l) {
        explain(why, "out of memory");
        return NULL;
    }
    if (fleet_open(&l->fleet, o->model, &options, why) && open_device(l, o, why))
        return l;
    close_layout(l);
    return NULL;
}

static float *residual(void *layout, size_t rank)
{
    const fleet *f = layout;

    return f->residual[rank];
}

static bool begin(void *layout, char *why)
{
    return fleet_begin(layout, why);
}

static size_t kept(const void *layout)
{
    const fleet *f = layout;

    return f->kept_bytes * f->options.ranks;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static bool is_pull(const fleet *f, size_t phase)
{
    return phase == PULL || (phase == REDUCE && f->options.algorithm == GATHER);
}

static bool call(void *layout, size_t phase, size_t machine, const layout_values *values, char *why)
{
    const fleet_layout *l = layout;
    const fleet *f = &l->fleet;

    if (l->device && !machine && phase == PUSH)
        return fleet_device_push(l->device, values->grads, why);
    if (l->device && !machine && phase == REDUCE && f->options.algorithm == ALL_REDUCE)
        return fleet_answers_reduce(l->answers, why);
    if (l->device && !machine && is_pull(f, phase))
        return fleet_device_pull(l->device, values->out, why);
    if (phase == PUSH)
        return fleet_push(layout, machine, values->grads, why);
    if (is_pull(f, phase))
        return fleet_pull(layout, machine, values->out, why);
    return f->options.algorithm == SERVER ? fleet_serve(layout, machine - f->options.ranks, why)
                                          : fleet_reduce(layout, machine, why);
}

static bool quantize(void *layout, size_t phase, const layout_values *values, char *why)
{
    const fleet_layout *l = layout;

    if (phase == REDUCE && l->fleet.options.algorithm == ALL_REDUCE)
        return fleet_answers_quantize(l->answers, why);
    return phase != PUSH || fleet_device_quantize(l->device, values->grads, why);
}

static model_device_load moved(const void *layout, size_t phase)
{
    const fleet_layout *l = layout;

    return phase == PUSH               ? fleet_device_pushed(l->device)
           : is_pull(&l->fleet, phase) ? fleet_device_pulled(l->device)
                                       : fleet_answers_moved(l->answers);
}

/* With gather all answers are empty. */
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

/* Workers send in PUSH what servers get, and servers in REDUCE what workers get. */
static traffic sent_with_servers(const void *layout, size_t phase, size_t machine)
{
    const fleet *f = layout;
    size_t ranks = f->options.ranks, servers = f->options.servers;
    bool is_server = machine >= ranks, out = is_server == (phase == REDUCE);
    traffic t = {.out = 0};

    for (size_t i = 0; phase != PULL && i < (is_server ? ranks : servers); i++) {
        size_t rank = is_server ? i : machine, server = is_server ? machine - ranks : i;
        traffic_add(&t, phase == PUSH ? f->push[rank * servers + server] : f->answer[server], out);
    }
    return t;
}

#define CALLS                                                                                                          \
    .memory = memory, .open = open_layout, .close = close_layout, .residual = residual, .begin = begin, .call = call,  \
    .kept = kept, .quantize = quantize, .moved = moved
#define ALL(list) .phases = (list), .phase_count = sizeof(list) / sizeof *(list)

const layout_kind layout_all_reduce = {.name = "all-reduce",
                                       .algorithm = ALL_REDUCE,
                                       .has_owners = true,
                                       ALL(phases),
                                       .most_whole = SIZE_MAX,
                                       CALLS,
                                       .sent = sent};
const layout_kind layout_owners = {.name = "owners",
                                   .algorithm = OWNERS,
                                   .has_owners = true,
                                   ALL(phases),
                                   .most_whole = SIZE_MAX,
                                   CALLS,
                                   .sent = sent};
/* most_whole: N ranks decode N messages each. */
const layout_kind layout_gather =
    {.name = "gather", .algorithm = GATHER, ALL(gather_phases), .most_whole = 64, CALLS, .sent = sent};
const layout_kind layout_server = {.name = "server",
                                   .algorithm = SERVER,
                                   .has_servers = true,
                                   ALL(server_phases),
                                   .most_whole = SIZE_MAX,
                                   CALLS,
                                   .sent = sent_with_servers};
