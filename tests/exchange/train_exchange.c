/* SPDX-License-Identifier: MIT */
#include "train_exchange.h"
#include "../../bench/sim/groups_fleet.h"
#include "../support/exchange_run.h"

enum { SERVERS = 2 };

const char *const cluster_names[CLUSTER_KINDS] = {"all-reduce", "gathered", "means", "deltas", "groups"};

struct cluster {
    cluster_options o;
    const model *m;
    size_t ranks;
    fleet fleet;                               /* of all kinds but CLUSTER_GROUPED, */
    groups_fleet groups;                       /* which has this */
    uint64_t sent_inside, sent_between;        /* by groups */
    float forgotten[MOST_RANKS][MOST_VALUES];  /* their residuals of pushes, with forget */
    float model[MOST_VALUES];                  /* of the servers; each changes its parts */
    float delta[MOST_VALUES];                  /* in the same places */
    const float *parts[SERVERS][MOST_TENSORS]; /* of delta */
    float factor;                              /* of this exchange */
    float out[MOST_RANKS][MOST_VALUES];
};

static int has_servers(const cluster *c)
{
    return c->o.kind == CLUSTER_MEANS || c->o.kind == CLUSTER_DELTAS;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void describe(const cluster *c, tlc_tensor *tensors, float *residual)
{
    for (size_t t = 0; t < MOST_TENSORS && t < c->m->count; t++) /* gcc -O3 warns without this limit */
        tensors[t] = (tlc_tensor){.struct_size = sizeof *tensors,
                                  .name = c->m->tensors[t].name,
                                  .n = c->m->tensors[t].n,
                                  .residual = residual ? residual + c->m->tensors[t].first : NULL,
                                  .only = TLC_NOBODY};
}

static const tlc_tensor *tensors_of(void *arg, uint32_t r)
{
    static tlc_tensor tensors[MOST_TENSORS];
    cluster *c = arg;

    describe(c, tensors, c->o.forget ? c->forgotten[r] : NULL);
    return tensors;
}

/* Sites differ by a rank at most. */
static void open_groups(cluster *c, const tlc_exchange_config *cfg)
{
    const uint32_t sites = c->o.sites ? c->o.sites : c->ranks > 1 ? 2 : 1, servers = (uint32_t)c->ranks / sites;
    tlc_exchange_config inside = *cfg, between = *cfg;
    uint32_t ranks[MOST_RANKS];

    for (uint32_t s = 0; s < sites; s++)
        ranks[s] = servers + (s < c->ranks % sites);
    if (c->o.inside)
        inside.push = c->o.inside;
    between.split_n = SIZE_MAX; /* parts of tensors are not cut again */
    const groups_fleet_options o = {.sites = sites,
                                    .servers = servers,
                                    .ranks = ranks,
                                    .inside = &inside,
                                    .between = &between,
                                    .tensors = tensors_of,
                                    .arg = c,
                                    .count = c->m->count};
    require_status(groups_fleet_open(&c->groups, &o), TLC_OK);
}

/* The server's part of SGD: it changes its parts of the model, and answers with the changes. */
static const float *const *make_deltas(fleet *f, uint32_t server)
{
    cluster *c = f->arg;

    require(member_parts(f->owner[server]) <= MOST_TENSORS);
    for (size_t i = 0; i < member_parts(f->owner[server]); i++) {
        const tlc_part part = member_part(f->owner[server], i);
        const size_t first = c->m->tensors[part.tensor].first + part.first;
        for (size_t j = 0; j < part.n; j++) {
            float before = c->model[first + j];
            c->model[first + j] += c->factor * part.mean[j];
            c->delta[first + j] = c->model[first + j] - before;
        }
        c->parts[server][i] = c->delta + first;
    }
    return c->parts[server];
}

cluster *cluster_open(const cluster_options *o, const model *m, size_t ranks, const float *weights)
{
    cluster *c = calloc(1, sizeof *c);
    tlc_tensor tensors[TENSORS] = {{.name = NULL}};
    tlc_exchange_config cfg;

    require(c != NULL);
    c->o = *o;
    c->m = m;
    c->ranks = ranks;
    memcpy(c->model, weights, m->values * sizeof *weights);
    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = (uint32_t)ranks;
    cfg.servers = has_servers(c) ? SERVERS : 0;
    cfg.gather = o->kind == CLUSTER_GATHERED;
    cfg.push = o->codec;
    cfg.split_n = 128; /* the largest tensor is split */
    cfg.seed = 1;
    if (o->kind == CLUSTER_GROUPED) {
        open_groups(c, &cfg);
        return c;
    }
    describe(c, tensors, NULL);
    fleet_open(&c->fleet, &cfg, tensors, o->forget);
    c->fleet.delta = o->kind == CLUSTER_DELTAS ? make_deltas : NULL;
    c->fleet.arg = c;
    return c;
}

void cluster_close(cluster *c)
{
    if (c->o.kind == CLUSTER_GROUPED)
        groups_fleet_close(&c->groups);
    else
        fleet_close(&c->fleet);
    free(c);
}

/* ---- the exchange ------------------------------------------------------------------------------------------------ */

static void exchange_groups(cluster *c, const float *const *given)
{
    const void *grads[MOST_TENSORS];
    void *out[MOST_TENSORS];

    memset(c->forgotten, 0, sizeof c->forgotten);
    for (uint32_t r = 0; r < c->ranks; r++) {
        for (size_t t = 0; given[r] && t < c->m->count; t++)
            grads[t] = given[r] + c->m->tensors[t].first;
        require_status(groups_fleet_push(&c->groups, r, given[r] ? grads : NULL), TLC_OK);
    }
    require_status(groups_fleet_exchange(&c->groups), TLC_OK);
    for (uint32_t r = 0; r < c->ranks; r++) {
        c->sent_inside += groups_fleet_sent_inside(&c->groups, r);
        c->sent_between += groups_fleet_sent_between(&c->groups, r);
        for (size_t t = 0; t < c->m->count; t++)
            out[t] = c->out[r] + c->m->tensors[t].first;
        require_status(groups_fleet_pull(&c->groups, r, out), TLC_OK);
        require(same(c->out[r], c->out[0], c->m->values * sizeof **c->out));
    }
}

static void exchange_fleet(cluster *c, const float *const *given)
{
    fleet *f = &c->fleet;

    for (size_t i = 0; i < c->ranks * TENSORS; i++) {
        const size_t r = i / TENSORS, t = i % TENSORS;
        if (t < f->count && given[r])
            memcpy(f->grad[i], given[r] + c->m->tensors[t].first, fleet_bytes(f, t));
        if (c->o.forget)
            memset(f->residual[i], 0, fleet_bytes(f, t));
        f->absent[r] = !given[r];
    }
    fleet_push(f);
    fleet_reduce(f);
    for (size_t i = 0; i < c->ranks * f->cfg.servers; i++)
        require_status(f->came[i], TLC_OK);
    fleet_pull(f);
    require_pulled(f, TLC_OK);
    for (size_t t = 0; t < f->count; t++)
        memcpy(c->out[0] + c->m->tensors[t].first, f->out[t], fleet_bytes(f, t));
}

void cluster_exchange(cluster *c, const float *const *given, float factor, float *change)
{
    c->factor = factor;
    if (c->o.kind == CLUSTER_GROUPED)
        exchange_groups(c, given);
    else
        exchange_fleet(c, given);
    for (size_t i = 0; i < c->m->values; i++)
        change[i] = c->o.kind == CLUSTER_DELTAS ? c->out[0][i] : factor * c->out[0][i];
}

void cluster_mask(cluster *c, size_t rank, float *momentum)
{
    float *tensors[MOST_TENSORS];

    for (size_t t = 0; t < c->m->count; t++)
        tensors[t] = momentum + c->m->tensors[t].first;
    if (c->o.kind == CLUSTER_GROUPED)
        require_status(tlc_worker_mask(c->groups.rank[rank].inside.worker, tensors), TLC_OK);
    else if (has_servers(c))
        require_status(tlc_worker_mask(c->fleet.worker[rank].worker, tensors), TLC_OK);
    else
        require_status(tlc_allreduce_mask(c->fleet.worker[rank].rank, tensors), TLC_OK);
}

/* ---- what was sent ----------------------------------------------------------------------------------------------- */

static double sent_by(member m)
{
    const tlc_exchange_stats stats = member_stats(m);

    require(!stats.failed && !stats.late && !stats.dropped);
    return (double)stats.sent;
}

double cluster_rank_sent(const cluster *c)
{
    double sum = 0;

    if (c->o.kind == CLUSTER_GROUPED)
        return (double)c->sent_inside / (double)c->ranks;
    for (size_t r = 0; r < c->ranks; r++)
        sum += sent_by(c->fleet.worker[r]);
    return sum / (double)c->ranks;
}

double cluster_server_sent(const cluster *c)
{
    double sum = 0;

    if (c->o.kind == CLUSTER_GROUPED)
        return (double)c->sent_between / (double)c->ranks;
    for (size_t s = 0; has_servers(c) && s < SERVERS; s++)
        sum += sent_by(c->fleet.owner[s]);
    return sum / (double)SERVERS;
}
