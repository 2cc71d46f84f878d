/* SPDX-License-Identifier: MIT
 *
 * groups: an exchange in each site, and one between the sites (groups.h). Machines are the ranks. Each rank is a server
 * of its site, so all of them make the calls of servers, too. The codec is the same in sites and between them.
 */
#include "../lib/channel.h"
#include "../lib/codecs.h"
#include "../lib/explain.h"
#include "../lib/fleet.h"
#include "groups_fleet.h"
#include "layout.h"
#include <stdlib.h>

enum { PUSH, REDUCE, REDUCE_SITES, ANSWER, PULL, PHASES };

static const layout_phase phases[PHASES] = {
    [PUSH] = {.call = "push", .inside = true}, [REDUCE] = {.call = "reduce"},
    [REDUCE_SITES] = {.call = "reduce sites"}, [ANSWER] = {.call = "answer", .inside = true},
    [PULL] = {.call = "pull", .pulls = true},
};

typedef struct composed {
    layout_options options;
    groups_fleet fleet;
    tlc_tensor *tensors; /* of a rank */
    float **residual;    /* by rank; NULL: the codec keeps none */
} composed;

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static uint32_t sites_of(const layout_options *o)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a site has ranks */
    return (uint32_t)(o->ranks / o->site);
}

static tlc_exchange_config configure(const layout_options *o)
{
    tlc_exchange_config cfg;

    (void)tlc_exchange_config_init(&cfg, sizeof cfg);
    cfg.push = o->codec;
    cfg.isa = o->isa;
    cfg.seed = o->seed;
    return cfg;
}

static const tlc_tensor *tensors_of(void *layout, uint32_t rank)
{
    composed *c = layout;

    fleet_describe(c->options.model, c->residual[rank], c->tensors);
    return c->tensors;
}

static bool allocate(composed *c)
{
    const layout_options *o = &c->options;

    c->tensors = calloc(o->model->count, sizeof *c->tensors);
    c->residual = calloc(o->ranks, sizeof *c->residual);
    if (!c->tensors || !c->residual)
        return false;
    for (size_t r = 0; codec_has_residual(o->codec, -1) && r < o->ranks; r++) {
        c->residual[r] = channel_buffer(o->model->room * sizeof(float));
        if (!c->residual[r])
            return false;
    }
    return true;
}

static bool open_fleet(composed *c, char *why)
{
    const layout_options *o = &c->options;
    const tlc_exchange_config cfg = configure(o);
    const uint32_t sites = sites_of(o);
    uint32_t ranks[MAX_RANKS];
    tlc_status status;

    for (uint32_t s = 0; s < sites; s++)
        ranks[s] = (uint32_t)o->site;
    status = groups_fleet_open(&c->fleet, &(groups_fleet_options){.sites = sites,
                                                                  .servers = (uint32_t)o->site,
                                                                  .ranks = ranks,
                                                                  .inside = &cfg,
                                                                  .between = &cfg,
                                                                  .tensors = tensors_of,
                                                                  .arg = c,
                                                                  .count = o->model->count});
    return !status || explain(why, "groups_fleet_open: %s", tlc_status_string(status));
}

static void close_layout(void *layout)
{
    composed *c = layout;

    if (!c)
        return;
    groups_fleet_close(&c->fleet);
    for (size_t r = 0; c->residual && r < c->options.ranks; r++)
        free(c->residual[r]);
    free(c->residual);
    free(c->tensors);
    free(c);
}

static void *open_layout(const layout_options *o, char *why)
{
    composed *c = calloc(1, sizeof *c);

    if (!c) {
        explain(why, "out of memory");
        return NULL;
    }
    c->options = *o;
    if ((allocate(c) || explain(why, "out of memory")) && open_fleet(c, why))
        return c;
    close_layout(c);
    return NULL;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The ranks of the first site are made one after the other. Their objects keep residuals of their own. */
static size_t memory(const layout_options *o)
{
    size_t sum = 0;
    tlc_exchange_config cfg = configure(o);
    tlc_tensor *tensors = calloc(o->model->count, sizeof *tensors);
    tlc_status status = tensors ? TLC_OK : TLC_ERR_NOMEM;

    cfg.alloc = fleet_counter(&sum);
    if (tensors)
        fleet_describe(o->model, NULL, tensors);
    for (size_t r = 0; !status && r < o->site; r++) {
        const groups_place place = {sites_of(o), 0, (uint32_t)o->site, (uint32_t)r, (uint32_t)o->site};
        groups g;
        status = groups_open(&g, &place, &cfg, &cfg, tensors, o->model->count);
        sum += (3 * g.values + 3) * sizeof(float); /* delta, waiting, before */
        groups_close(&g);
    }
    free(tensors);
    return status ? SIZE_MAX : sum * sites_of(o);
}

/* It cannot be replayed. */
static size_t replay_memory(const layout_options *o)
{
    (void)o;
    return SIZE_MAX;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static float *residual(void *layout, size_t rank)
{
    const composed *c = layout;

    return c->residual[rank];
}

static tlc_status make_call(composed *c, size_t phase, uint32_t rank, const layout_values *values)
{
    uint32_t group = (uint32_t)c->options.site, site = rank / group, i = rank % group;
    groups_fleet *f = &c->fleet;
    tlc_status status;

    switch (phase) {
    case PUSH: return groups_fleet_push(f, rank, values->grads);
    case REDUCE: status = groups_fleet_take(f, site, i); return status ? status : groups_fleet_reduce(f, site, i);
    case REDUCE_SITES:
        status = groups_fleet_take_sites(f, site, i);
        return status ? status : groups_fleet_reduce_sites(f, site, i);
    case ANSWER: return groups_fleet_answer(f, site, i);
    default: return groups_fleet_pull(f, rank, values->out);
    }
}

static bool call(void *layout, size_t phase, size_t machine, const layout_values *values, char *why)
{
    tlc_status status = make_call(layout, phase, (uint32_t)machine, values);

    return !status || explain(why, "%s: %s", phases[phase].call, tlc_status_string(status));
}

/* Between two ranks of a site. */
static tlc_message message_inside(const groups_fleet *f, size_t phase, size_t from, size_t to)
{
    return phase == PUSH ? f->push[from * f->servers + to % f->servers] : f->answer[from];
}

/* Between the servers i of two sites. */
static tlc_message message_between(const groups_fleet *f, size_t phase, size_t i, size_t from, size_t to)
{
    return phase == REDUCE ? f->across[(from * f->servers + i) * f->sites + to] : f->reduced[i * f->sites + from];
}

static traffic sent(const void *layout, size_t phase, size_t machine)
{
    const composed *c = layout;
    const groups_fleet *f = &c->fleet;
    size_t site = machine / f->servers, i = machine % f->servers;
    traffic t = {.out = 0};

    for (size_t r = f->first[site]; phases[phase].inside && r < f->first[site + 1]; r++) {
        if (r == machine)
            continue;
        traffic_add(&t, message_inside(f, phase, machine, r), true);
        traffic_add(&t, message_inside(f, phase, r, machine), false);
    }
    for (size_t s = 0; (phase == REDUCE || phase == REDUCE_SITES) && s < f->sites; s++) {
        if (s == site)
            continue;
        traffic_add(&t, message_between(f, phase, i, site, s), true);
        traffic_add(&t, message_between(f, phase, i, s, site), false);
    }
    return t;
}

const layout_kind layout_groups = {.name = "groups",
                                   .has_site = true,
                                   .phases = phases,
                                   .phase_count = PHASES,
                                   .most_whole = SIZE_MAX,
                                   .memory = memory,
                                   .replay_memory = replay_memory,
                                   .open = open_layout,
                                   .close = close_layout,
                                   .residual = residual,
                                   .call = call,
                                   .sent = sent};
