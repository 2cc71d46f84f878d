/* SPDX-License-Identifier: MIT */
#include "groups_world.h"

static const uint32_t ranks_of[SITES] = {3, 2, 3};

/* ---- open and close ---------------------------------------------------------------------------------------------- */

void world_init(world *w, const char *inside, const char *between)
{
    static const tlc_tensor tensors[TENSORS] = {{.name = "bias", .n = 40, .only = TLC_NOBODY},
                                                {.name = "conv", .n = 1000, .only = TLC_NOBODY},
                                                {.name = "empty", .n = 0, .only = TLC_NOBODY},
                                                {.name = "fc", .n = 300, .only = TLC_NOBODY},
                                                {.name = "norm", .n = 17, .only = TLC_NOBODY}};
    size_t values = 0;

    memset(w, 0, sizeof *w);
    require_status(tlc_exchange_config_init(&w->inside, sizeof w->inside), TLC_OK);
    w->inside.split_n = 500;
    w->inside.reserve = "3lc";
    w->inside.seed = 7;
    w->between = w->inside;
    w->between.split_n = 65536;
    w->inside.push = inside;
    w->between.push = between;
    w->count = TENSORS;
    for (size_t t = 0; t < TENSORS; t++) {
        w->tensors[t] = tensors[t];
        w->tensors[t].struct_size = sizeof *tensors;
        w->first[t] = values;
        values += tensors[t].n;
    }
    require(values == VALUES);
}

static const tlc_tensor *tensors_of(void *arg, uint32_t rank)
{
    world *w = arg;

    for (size_t t = 0; t < w->count; t++)
        w->tensors[t].residual = w->residual[rank] + w->first[t];
    return w->tensors;
}

void world_open(world *w)
{
    const groups_fleet_options o = {.sites = SITES,
                                    .servers = SERVERS,
                                    .ranks = ranks_of,
                                    .inside = &w->inside,
                                    .between = &w->between,
                                    .tensors = tensors_of,
                                    .arg = w,
                                    .count = w->count};

    require_status(groups_fleet_open(&w->f, &o), TLC_OK);
    require(groups_fleet_ranks(&w->f) == RANKS);
}

void world_close(world *w)
{
    groups_fleet_close(&w->f);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

void world_draw(world *w, uint64_t seed)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        fill(DATA_LAPLACE, seed * RANKS + r, w->grad[r], VALUES);
        w->absent[r] = 0;
    }
}

void world_push(world *w)
{
    const void *grads[TENSORS];

    for (uint32_t r = 0; r < RANKS; r++) {
        for (size_t t = 0; t < w->count; t++)
            grads[t] = w->grad[r] + w->first[t];
        require_status(groups_fleet_push(&w->f, r, w->absent[r] ? NULL : grads), TLC_OK);
    }
}

void world_pull(world *w)
{
    void *out[TENSORS];

    memset(w->out, BEFORE, sizeof w->out);
    for (uint32_t r = 0; r < RANKS; r++) {
        for (size_t t = 0; t < w->count; t++)
            out[t] = w->out[r] + w->first[t];
        w->pulled[r] = groups_fleet_pull(&w->f, r, out);
    }
}

void world_step(world *w)
{
    world_push(w);
    require_status(groups_fleet_exchange(&w->f), TLC_OK);
    world_pull(w);
}

tlc_status world_agree(const world *w)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        require_status(w->pulled[r], w->pulled[0]);
        require(same(w->out[r], w->out[0], sizeof w->out[r]));
    }
    return w->pulled[0];
}

/* ---- what waits -------------------------------------------------------------------------------------------------- */

world_part world_inside(const world *w, uint32_t site, uint32_t server, size_t i)
{
    tlc_part p = {.struct_size = sizeof p};

    require_status(tlc_server_part(groups_fleet_server(&w->f, site, server)->inside.server, i, &p), TLC_OK);
    return (world_part){w->first[p.tensor] + p.first, p.n, p.mean, p.residual};
}

world_part world_between(const world *w, uint32_t site, uint32_t server, size_t i)
{
    tlc_part p = {.struct_size = sizeof p};

    require_status(tlc_server_part(groups_fleet_server(&w->f, site, server)->between.server, i, &p), TLC_OK);
    const world_part whole = world_inside(w, site, server, p.tensor);
    return (world_part){whole.first + p.first, p.n, p.mean, p.residual};
}

static void add_part(const world_part *p, const float *values, world_adder *add, void *arg)
{
    for (size_t k = 0; k < p->n; k++)
        add(arg, p->first + k, values[k]);
}

static void add_server(const world *w, uint32_t site, uint32_t server, world_adder *add, void *arg)
{
    const groups *g = groups_fleet_server(&w->f, site, server);
    const float *pushes = g->waiting;

    for (size_t i = 0; i < g->parts; i++) {
        const world_part p = world_inside(w, site, server, i), first = world_inside(w, 0, server, i);
        require(same(p.residual, first.residual, p.n * sizeof *p.residual));
        if (site == 0)
            add_part(&p, p.residual, add, arg);
        add_part(&p, pushes, add, arg);
        pushes += p.n;
    }
    for (size_t i = 0; i < tlc_server_parts(g->between.server); i++) {
        const world_part p = world_between(w, site, server, i);
        add_part(&p, p.residual, add, arg);
    }
}

void world_waiting(const world *w, world_adder *add, void *arg)
{
    for (uint32_t r = 0; r < RANKS; r++)
        for (size_t t = 0; t < w->count; t++)
            for (size_t k = w->first[t]; k < w->first[t] + w->tensors[t].n; k++)
                add(arg, k, w->residual[r][k]);
    for (uint32_t s = 0; s < SITES; s++)
        for (uint32_t i = 0; i < SERVERS; i++)
            add_server(w, s, i, add, arg);
}
