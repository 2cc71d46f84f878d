/* SPDX-License-Identifier: MIT */
#include "groups.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 24 }; /* of characters: '+', the digits of a size_t, and the end */

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tlc_part part_of(const groups *g, size_t i)
{
    tlc_part part = {.struct_size = sizeof part};

    (void)tlc_server_part(g->inside.server, i, &part);
    return part;
}

static tlc_status open_inside(groups *g, const tlc_exchange_config *inside, const tlc_tensor *tensors, size_t count)
{
    const groups_place *p = &g->place;
    tlc_exchange_config cfg = *inside;
    tlc_status status;

    cfg.workers = p->ranks;
    cfg.servers = p->servers;
    cfg.seed = inside->seed + UINT64_C(0x9e3779b97f4a7c15) * (p->site + UINT64_C(1)); /* a large odd number */
    status = tlc_worker_create(&g->inside.worker, &cfg, p->rank, tensors, count);
    cfg.seed = inside->seed; /* answers of all sites are the same */
    if (!status && p->rank < p->servers)
        status = tlc_server_create(&g->inside.server, &cfg, p->rank, tensors, count);
    return status;
}

static const tlc_tensor *tensor_of(const tlc_tensor *tensors, size_t i)
{
    return (const tlc_tensor *)((const char *)tensors + i * tensors->struct_size);
}

static tlc_status allocate(groups *g, const tlc_tensor *tensors)
{
    size_t letters = 0;

    for (size_t i = 0; i < g->parts; i++) {
        const tlc_part part = part_of(g, i);
        g->values += part.n;
        letters += strlen(tensor_of(tensors, part.tensor)->name) + NUMBER;
    }
    g->delta = calloc(g->values + 1, sizeof *g->delta);
    g->waiting = calloc(g->values + 1, sizeof *g->waiting);
    g->before = calloc(g->values + 1, sizeof *g->before);
    g->pushed = calloc(g->parts, sizeof *g->pushed);
    g->pulled = calloc(g->parts, sizeof *g->pulled);
    g->answered = calloc(g->parts, sizeof *g->answered);
    g->names = calloc(letters, 1);
    return g->delta && g->waiting && g->before && g->pushed && g->pulled && g->answered && g->names ? TLC_OK
                                                                                                    : TLC_ERR_NOMEM;
}

/* Gives the tensor a residual, if its codec keeps one: else no worker takes it. */
static tlc_status give_residual(tlc_tensor *t, float *residual, const tlc_exchange_config *cfg)
{
    tlc_worker *worker = NULL;
    tlc_status status;

    t->residual = residual;
    status = tlc_worker_create(&worker, cfg, 0, t, 1);
    tlc_worker_destroy(worker);
    if (status == TLC_ERR_PARAM)
        t->residual = NULL;
    return status == TLC_ERR_PARAM ? TLC_OK : status;
}

/* The parts of the inside server are tensors of the exchange between sites: "conv1.weight+4096". A part is sent raw if
 * its tensor is small, however small the part is. */
static tlc_status describe(groups *g, const tlc_exchange_config *cfg, const tlc_tensor *tensors, tlc_tensor *parts)
{
    tlc_status status = TLC_OK;
    char *name = g->names;
    size_t at = 0;

    for (size_t i = 0; !status && i < g->parts; i++) {
        const tlc_part part = part_of(g, i);
        const tlc_tensor *whole = tensor_of(tensors, part.tensor);
        const int small = whole->n < cfg->min_n;
        parts[i] = (tlc_tensor){.struct_size = sizeof *parts, .name = name, .n = part.n, .only = TLC_NOBODY};
        parts[i].push = whole->push || small ? whole->push : cfg->push;
        parts[i].pull = whole->pull || small ? whole->pull : cfg->pull ? cfg->pull : cfg->push;
        name += sprintf(name, "%s+%zu", whole->name, part.first) + 1;
        g->pulled[i] = g->delta + at;
        status = give_residual(&parts[i], g->waiting + at, cfg);
        at += part.n;
    }
    return status;
}

static tlc_status open_between(groups *g, const tlc_exchange_config *inside, const tlc_exchange_config *between,
                               const tlc_tensor *tensors)
{
    tlc_tensor *parts = calloc(g->parts, sizeof *parts);
    tlc_exchange_config cfg = *between;
    tlc_status status = parts ? allocate(g, tensors) : TLC_ERR_NOMEM;

    cfg.workers = cfg.servers = g->place.sites;
    cfg.sum = inside->sum;
    cfg.min_n = inside->min_n;
    cfg.dtype = TLC_F32;
    cfg.assume_finite = 0; /* a push that is not finite says that the site has failed */
    status = status ? status : describe(g, &cfg, tensors, parts);
    status = status ? status : tlc_worker_create(&g->between.worker, &cfg, g->place.site, parts, g->parts);
    status = status ? status : tlc_server_create(&g->between.server, &cfg, g->place.site, parts, g->parts);
    free(parts);
    return status;
}

tlc_status groups_open(groups *g, const groups_place *place, const tlc_exchange_config *inside,
                       const tlc_exchange_config *between, const tlc_tensor *tensors, size_t count)
{
    tlc_status status;

    *g = (groups){.place = *place, .sum = inside->sum};
    if (place->site >= place->sites || place->servers > place->ranks || between->backup)
        return TLC_ERR_PARAM;
    status = open_inside(g, inside, tensors, count);
    g->parts = tlc_server_parts(g->inside.server);
    return status || !g->parts ? status : open_between(g, inside, between, tensors);
}

void groups_close(groups *g)
{
    tlc_worker_destroy(g->inside.worker);
    tlc_server_destroy(g->inside.server);
    tlc_worker_destroy(g->between.worker);
    tlc_server_destroy(g->between.server);
    free(g->delta);
    free(g->waiting);
    free(g->before);
    free(g->pushed);
    free(g->pulled);
    free(g->answered);
    free(g->names);
    *g = (groups){.parts = 0};
}

/* ---- in the site ------------------------------------------------------------------------------------------------- */

tlc_status groups_push(groups *g, const void *const *grads, tlc_message *to)
{
    return tlc_worker_push(g->inside.worker, grads, 1, to);
}

tlc_status groups_take(groups *g, tlc_message from, tlc_push_info *info)
{
    return tlc_server_push(g->inside.server, from, info);
}

tlc_status groups_pull(groups *g, const tlc_message *from, void *const *out)
{
    return tlc_worker_pull(g->inside.worker, from, out);
}

/* The ranks of the site whose pushes were taken. */
static uint32_t taken_ranks(const groups *g)
{
    tlc_outcome o = {.struct_size = sizeof o};
    uint32_t taken = 0;

    (void)tlc_server_outcome(g->inside.server, &o);
    for (uint32_t r = 0; o.taken && r < o.workers; r++)
        taken += o.taken[r / 8] >> r % 8 & 1;
    return taken;
}

/* What is made of NaN says that the step has failed. */
static void set_nan(groups *g)
{
    for (size_t i = 0; i < g->values; i++)
        g->delta[i] = NAN;
    for (size_t i = 0; i < g->parts; i++)
        g->pushed[i] = g->answered[i] = g->delta; /* it is large enough for any part */
}

/* ---- between sites ----------------------------------------------------------------------------------------------- */

tlc_status groups_reduce(groups *g, tlc_message *to)
{
    tlc_status status = tlc_server_reduce(g->inside.server);
    uint32_t ranks = taken_ranks(g);

    if (status && status != TLC_ERR_STEP)
        return status;
    for (uint32_t s = 0; !g->parts && s < g->place.sites; s++)
        to[s] = (tlc_message){NULL, 0};
    if (!g->parts)
        return TLC_OK;
    for (size_t i = 0; i < g->parts; i++)
        g->pushed[i] = part_of(g, i).mean;
    if (status)
        set_nan(g);
    memcpy(g->before, g->waiting, g->values * sizeof *g->before);
    /* a site whose ranks are not in the round is not in it */
    return tlc_worker_push(g->between.worker, status || ranks ? g->pushed : NULL, g->sum || !ranks ? 1 : ranks, to);
}

tlc_status groups_take_site(groups *g, tlc_message from)
{
    tlc_push_info info = {.struct_size = sizeof info};
    tlc_outcome o = {.struct_size = sizeof o};
    tlc_status status = tlc_server_push(g->between.server, from, &info);

    if (!status && !info.late) {
        (void)tlc_server_outcome(g->between.server, &o);
        g->spoilt |= o.cause != TLC_OK;
    }
    return status;
}

tlc_status groups_reduce_sites(groups *g, tlc_message *to_all)
{
    tlc_status status;

    *to_all = (tlc_message){NULL, 0};
    if (!g->parts)
        return TLC_OK;
    if (!tlc_server_ready(g->between.server))
        return TLC_ERR_ORDER;
    status = tlc_server_reduce(g->between.server);
    if (status && status != TLC_ERR_STEP)
        return status;
    g->failed = g->spoilt;
    g->spoilt = 0;
    if (g->failed)
        set_nan(g);
    return tlc_server_answer(g->between.server, g->failed ? g->answered : NULL, to_all);
}

tlc_status groups_answer(groups *g, const tlc_message *from, tlc_message *to_all)
{
    tlc_status status;

    if (!g->parts)
        return tlc_server_answer(g->inside.server, NULL, to_all);
    memset(g->delta, 0, g->values * sizeof *g->delta); /* of parts whose mean was not finite */
    status = tlc_worker_pull(g->between.worker, from, g->pulled);
    if (status && status != TLC_ERR_STEP)
        return status;
    for (size_t i = 0; i < g->parts; i++)
        g->answered[i] = g->pulled[i];
    if (g->failed) {
        memcpy(g->waiting, g->before, g->values * sizeof *g->before);
        set_nan(g);
    }
    return tlc_server_answer(g->inside.server, g->answered, to_all);
}
