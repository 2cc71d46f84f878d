/* SPDX-License-Identifier: MIT */
#include "train_exchange.h"
#include "../bench/sim/groups_fleet.h"

enum { SERVERS = 2 };

const char *const cluster_names[CLUSTER_KINDS] = {"all-reduce", "gathered", "means", "deltas", "groups"};

struct cluster {
    cluster_options o;
    const model *m;
    size_t ranks;
    tlc_allreduce *rank[MOST_RANKS];
    tlc_worker *worker[MOST_RANKS];
    tlc_server *server[SERVERS];
    groups_fleet groups;
    uint64_t sent_inside, sent_between;       /* by groups */
    float model[MOST_VALUES];                 /* of the servers; each changes its parts */
    float delta[MOST_VALUES];                 /* in the same places */
    float forgotten[MOST_RANKS][MOST_VALUES]; /* residuals of pushes, with forget */
    float out[MOST_RANKS][MOST_VALUES];
};

static int has_servers(const cluster *c)
{
    return c->o.kind == CLUSTER_MEANS || c->o.kind == CLUSTER_DELTAS;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void describe(cluster *c, size_t r, tlc_tensor *tensors)
{
    for (size_t t = 0; t < MOST_TENSORS && t < c->m->count; t++) /* gcc -O3 warns without this limit */
        tensors[t] = (tlc_tensor){.struct_size = sizeof *tensors,
                                  .name = c->m->tensors[t].name,
                                  .n = c->m->tensors[t].n,
                                  .residual = c->o.forget ? c->forgotten[r] + c->m->tensors[t].first : NULL};
}

static const tlc_tensor *tensors_of(void *arg, uint32_t r)
{
    static tlc_tensor tensors[MOST_TENSORS];

    describe(arg, r, tensors);
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

static void open_rank(cluster *c, const tlc_exchange_config *cfg, const tlc_tensor *tensors, uint32_t r)
{
    if (has_servers(c))
        require_status(tlc_worker_create(&c->worker[r], cfg, r, tensors, c->m->count), TLC_OK);
    else
        require_status(tlc_allreduce_create(&c->rank[r], cfg, r, tensors, c->m->count), TLC_OK);
}

cluster *cluster_open(const cluster_options *o, const model *m, size_t ranks, const float *weights)
{
    cluster *c = calloc(1, sizeof *c);
    tlc_tensor tensors[MOST_TENSORS];
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
    for (uint32_t r = 0; r < ranks; r++) {
        describe(c, r, tensors);
        open_rank(c, &cfg, tensors, r);
    }
    for (uint32_t s = 0; s < cfg.servers; s++)
        require_status(tlc_server_create(&c->server[s], &cfg, s, tensors, m->count), TLC_OK);
    return c;
}

void cluster_close(cluster *c)
{
    for (size_t r = 0; r < MOST_RANKS; r++) {
        tlc_allreduce_destroy(c->rank[r]);
        tlc_worker_destroy(c->worker[r]);
    }
    for (size_t s = 0; s < SERVERS; s++)
        tlc_server_destroy(c->server[s]);
    if (c->o.kind == CLUSTER_GROUPED)
        groups_fleet_close(&c->groups);
    free(c);
}

/* ---- the exchange ------------------------------------------------------------------------------------------------ */

static void push(cluster *c, size_t r, const float *values, tlc_message *to)
{
    const void *grads[MOST_TENSORS];

    for (size_t t = 0; values && t < c->m->count; t++)
        grads[t] = values + c->m->tensors[t].first;
    memset(c->forgotten[r], 0, sizeof c->forgotten[r]);
    if (c->o.kind == CLUSTER_GROUPED)
        require_status(groups_fleet_push(&c->groups, (uint32_t)r, values ? grads : NULL), TLC_OK);
    else if (has_servers(c))
        require_status(tlc_worker_push(c->worker[r], values ? grads : NULL, 1, to), TLC_OK);
    else
        require_status(tlc_allreduce_push(c->rank[r], values ? grads : NULL, 1, to), TLC_OK);
}

static void pull(cluster *c, size_t r, const tlc_message *from)
{
    void *out[MOST_TENSORS];

    for (size_t t = 0; t < c->m->count; t++)
        out[t] = c->out[r] + c->m->tensors[t].first;
    if (c->o.kind == CLUSTER_GROUPED)
        require_status(groups_fleet_pull(&c->groups, (uint32_t)r, out), TLC_OK);
    else if (has_servers(c))
        require_status(tlc_worker_pull(c->worker[r], from, out), TLC_OK);
    else
        require_status(tlc_allreduce_pull(c->rank[r], from, out), TLC_OK);
    require(same(c->out[r], c->out[0], c->m->values * sizeof **c->out));
}

static void all_reduce(cluster *c, const float *const *given)
{
    tlc_message to[MOST_RANKS][MOST_RANKS], from[MOST_RANKS], all[MOST_RANKS];

    for (size_t r = 0; r < c->ranks; r++) {
        push(c, r, given[r], to[r]);
        all[r] = to[r][0];
    }
    for (size_t r = 0; r < c->ranks && c->o.kind == CLUSTER_SHARDED; r++) {
        for (size_t i = 0; i < c->ranks; i++)
            from[i] = to[i][r];
        require_status(tlc_allreduce_reduce(c->rank[r], from, &all[r]), TLC_OK);
    }
    for (size_t r = 0; r < c->ranks; r++)
        pull(c, r, all);
}

/* The server's part of SGD: it changes its parts of the model, and answers with the changes. */
static void answer_deltas(cluster *c, tlc_server *server, float factor, tlc_message *answer)
{
    const float *delta[MOST_TENSORS];

    require(tlc_server_parts(server) <= COUNT(delta));
    for (size_t i = 0; i < tlc_server_parts(server); i++) {
        tlc_part part = {.struct_size = sizeof part};
        require_status(tlc_server_part(server, i, &part), TLC_OK);
        size_t first = c->m->tensors[part.tensor].first + part.first;
        for (size_t j = 0; j < part.n; j++) {
            float before = c->model[first + j];
            c->model[first + j] += factor * part.mean[j];
            c->delta[first + j] = c->model[first + j] - before;
        }
        delta[i] = c->delta + first;
    }
    require_status(tlc_server_answer(server, delta, answer), TLC_OK);
}

static void ask_servers(cluster *c, const float *const *given, float factor)
{
    tlc_message to[MOST_RANKS][SERVERS] = {{{NULL, 0}}}, answers[SERVERS];

    for (size_t r = 0; r < c->ranks; r++)
        push(c, r, given[r], to[r]);
    for (size_t s = 0; s < SERVERS; s++) {
        for (size_t r = 0; r < c->ranks; r++)
            require_status(tlc_server_push(c->server[s], to[r][s], NULL), TLC_OK);
        require(tlc_server_ready(c->server[s]));
        require_status(tlc_server_reduce(c->server[s]), TLC_OK);
        if (c->o.kind == CLUSTER_DELTAS)
            answer_deltas(c, c->server[s], factor, &answers[s]);
        else
            require_status(tlc_server_answer(c->server[s], NULL, &answers[s]), TLC_OK);
    }
    for (size_t r = 0; r < c->ranks; r++)
        pull(c, r, answers);
}

static void exchange_groups(cluster *c, const float *const *given)
{
    for (size_t r = 0; r < c->ranks; r++)
        push(c, r, given[r], NULL);
    require_status(groups_fleet_exchange(&c->groups), TLC_OK);
    for (size_t r = 0; r < c->ranks; r++) {
        c->sent_inside += groups_fleet_sent_inside(&c->groups, (uint32_t)r);
        c->sent_between += groups_fleet_sent_between(&c->groups, (uint32_t)r);
        pull(c, r, NULL);
    }
}

void cluster_exchange(cluster *c, const float *const *given, float factor, float *change)
{
    if (c->o.kind == CLUSTER_GROUPED)
        exchange_groups(c, given);
    else if (has_servers(c))
        ask_servers(c, given, factor);
    else
        all_reduce(c, given);
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
        require_status(tlc_worker_mask(c->worker[rank], tensors), TLC_OK);
    else
        require_status(tlc_allreduce_mask(c->rank[rank], tensors), TLC_OK);
}

/* ---- what was sent ----------------------------------------------------------------------------------------------- */

double cluster_rank_sent(const cluster *c)
{
    double sum = 0;

    if (c->o.kind == CLUSTER_GROUPED)
        return (double)c->sent_inside / (double)c->ranks;
    for (size_t r = 0; r < c->ranks; r++) {
        tlc_exchange_stats stats = {.struct_size = sizeof stats};
        if (has_servers(c))
            require_status(tlc_worker_stats(c->worker[r], &stats), TLC_OK);
        else
            require_status(tlc_allreduce_stats(c->rank[r], &stats), TLC_OK);
        require(!stats.failed && !stats.late && !stats.dropped);
        sum += (double)stats.sent;
    }
    return sum / (double)c->ranks;
}

double cluster_server_sent(const cluster *c)
{
    double sum = 0;

    if (c->o.kind == CLUSTER_GROUPED)
        return (double)c->sent_between / (double)c->ranks;
    for (size_t s = 0; has_servers(c) && s < SERVERS; s++) {
        tlc_exchange_stats stats = {.struct_size = sizeof stats};
        require_status(tlc_server_stats(c->server[s], &stats), TLC_OK);
        require(!stats.failed && !stats.late && !stats.dropped);
        sum += (double)stats.sent;
    }
    return sum / (double)SERVERS;
}
