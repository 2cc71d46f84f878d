/* SPDX-License-Identifier: MIT */
#include "fleet.h"
#include "channel.h"
#include "codecs.h"
#include "explain.h"
#include <stdlib.h>
#include <string.h>

enum { MIN_N = 256 }; /* the default of tlc_exchange_config */

bool fleet_is_small(const shape *s)
{
    return s->n < MIN_N;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool allocate(fleet *f)
{
    size_t ranks = f->options.ranks;
    bool ok = true;

    f->member = calloc(ranks, sizeof(tlc_allreduce *));
    f->worker = calloc(ranks, sizeof(tlc_worker *));
    f->residual = calloc(ranks, sizeof *f->residual);
    f->push = calloc(ranks * f->receivers, sizeof *f->push);
    f->answer = calloc(f->receivers, sizeof *f->answer);
    f->came = calloc(ranks, sizeof *f->came);
    if (!f->member || !f->worker || !f->residual || !f->push || !f->answer || !f->came)
        return false;
    for (size_t r = 0; ok && codec_has_residual(f->options.codec, -1) && r < ranks; r++) {
        f->residual[r] = channel_buffer(f->model->room * sizeof(float));
        ok = f->residual[r] != NULL;
    }
    return ok;
}

static tlc_exchange_config configure(const fleet *f)
{
    const fleet_options *o = &f->options;
    tlc_exchange_config cfg;

    (void)tlc_exchange_config_init(&cfg, sizeof cfg);
    cfg.workers = (uint32_t)o->ranks;
    cfg.servers = o->algorithm == SERVER;
    cfg.owners = (uint32_t)o->owners;
    cfg.gather = o->algorithm == GATHER;
    cfg.push = o->codec;
    cfg.min_n = MIN_N;
    cfg.assume_finite = o->assume_finite;
    cfg.isa = o->isa;
    cfg.seed = o->seed;
    return cfg;
}

static void describe(const fleet *f, float *residual, tlc_tensor *tensors)
{
    for (size_t i = 0; i < f->model->count; i++) {
        const shape *s = &f->model->shapes[i];
        tensors[i] = (tlc_tensor){.struct_size = sizeof *tensors, .name = s->name, .n = s->n};
        if (residual && !fleet_is_small(s))
            tensors[i].residual = residual + s->offset;
    }
}

static tlc_status make_objects(fleet *f, tlc_tensor *tensors)
{
    const tlc_exchange_config cfg = configure(f);
    tlc_status status = TLC_OK;

    for (size_t r = 0; !status && r < f->options.ranks; r++) {
        describe(f, f->residual[r], tensors);
        status = cfg.servers ? tlc_worker_create(&f->worker[r], &cfg, (uint32_t)r, tensors, f->model->count)
                             : tlc_allreduce_create(&f->member[r], &cfg, (uint32_t)r, tensors, f->model->count);
    }
    describe(f, NULL, tensors);
    if (!status && cfg.servers)
        status = tlc_server_create(&f->server, &cfg, 0, tensors, f->model->count);
    return status;
}

bool fleet_open(fleet *f, const shape_list *model, const fleet_options *options, char *why)
{
    tlc_tensor *tensors = calloc(model->count, sizeof *tensors);
    tlc_status status = TLC_ERR_NOMEM;

    *f = (fleet){.options = *options, .model = model};
    f->receivers = options->algorithm == SERVER ? 1 : options->ranks;
    if (tensors && allocate(f))
        status = make_objects(f, tensors);
    free(tensors);
    return !status || explain(why, "%zu ranks: %s", options->ranks, tlc_status_string(status));
}

void fleet_close(fleet *f)
{
    for (size_t r = 0; r < f->options.ranks; r++) {
        if (f->member)
            tlc_allreduce_destroy(f->member[r]);
        if (f->worker)
            tlc_worker_destroy(f->worker[r]);
        if (f->residual)
            free(f->residual[r]);
    }
    tlc_server_destroy(f->server);
    free(f->member);
    free(f->worker);
    free(f->residual);
    free(f->push);
    free(f->answer);
    free(f->came);
    *f = (fleet){.model = NULL};
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static size_t parts_of(const fleet *f, size_t owner)
{
    return f->server ? tlc_server_parts(f->server) : tlc_allreduce_parts(f->member[owner]);
}

static fleet_part part_of(const fleet *f, size_t owner, size_t i)
{
    tlc_part part = {.struct_size = sizeof part};

    (void)(f->server ? tlc_server_part(f->server, i, &part) : tlc_allreduce_part(f->member[owner], i, &part));
    return (fleet_part){.tensor = part.tensor,
                        .first = part.first,
                        .n = part.n,
                        .owner = owner,
                        .mean = (float *)(uintptr_t)part.mean,
                        .residual = (float *)(uintptr_t)part.residual};
}

fleet_part *fleet_parts(const fleet *f, size_t *count)
{
    bool gathers = f->options.algorithm == GATHER;
    fleet_part *parts;

    *count = gathers ? f->model->count : 0;
    for (size_t owner = 0; owner < f->receivers; owner++)
        *count += parts_of(f, owner);
    parts = calloc(*count + 1, sizeof *parts);
    *count = 0;
    for (size_t i = 0; parts && gathers && i < f->model->count; i++)
        parts[(*count)++] = (fleet_part){.tensor = i, .n = f->model->shapes[i].n};
    for (size_t owner = 0; parts && owner < f->receivers; owner++) {
        for (size_t i = 0; i < parts_of(f, owner); i++)
            parts[(*count)++] = part_of(f, owner, i);
    }
    return parts;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* told: of the call that fills in the outcome. */
static bool fail(tlc_status status, const char *call, tlc_status told, const tlc_outcome *outcome, char *why)
{
    return explain(why, "%s: %s: %s", call, tlc_status_string(status), told ? "no outcome" : outcome->sentence);
}

static bool check_member(const fleet *f, size_t rank, tlc_status status, const char *call, char *why)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};

    return !status || fail(status, call, tlc_allreduce_outcome(f->member[rank], &outcome), &outcome, why);
}

static bool check_worker(const fleet *f, size_t rank, tlc_status status, const char *call, char *why)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};

    return !status || fail(status, call, tlc_worker_outcome(f->worker[rank], 0, &outcome), &outcome, why);
}

bool fleet_push(fleet *f, size_t rank, const void *const *grads, char *why)
{
    tlc_message *to = f->push + rank * f->receivers;

    if (f->server)
        return check_worker(f, rank, tlc_worker_push(f->worker[rank], grads, 1, to), "tlc_worker_push", why);
    return check_member(f, rank, tlc_allreduce_push(f->member[rank], grads, 1, to), "tlc_allreduce_push", why);
}

bool fleet_reduce(fleet *f, size_t rank, char *why)
{
    for (size_t r = 0; r < f->options.ranks; r++)
        f->came[r] = f->push[r * f->receivers + rank];
    return check_member(f, rank, tlc_allreduce_reduce(f->member[rank], f->came, &f->answer[rank]),
                        "tlc_allreduce_reduce", why);
}

bool fleet_serve(fleet *f, char *why)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};
    tlc_status status = TLC_OK;

    for (size_t r = 0; !status && r < f->options.ranks; r++)
        status = tlc_server_push(f->server, f->push[r], NULL);
    status = status ? status : tlc_server_reduce(f->server);
    status = status ? status : tlc_server_answer(f->server, NULL, f->answer);
    return !status || fail(status, "the server", tlc_server_outcome(f->server, &outcome), &outcome, why);
}

bool fleet_pull(fleet *f, size_t rank, void *const *out, char *why)
{
    if (f->server)
        return check_worker(f, rank, tlc_worker_pull(f->worker[rank], f->answer, out), "tlc_worker_pull", why);
    for (size_t r = 0; r < f->options.ranks; r++)
        f->came[r] = f->options.algorithm == GATHER ? f->push[r * f->receivers] : f->answer[r];
    return check_member(f, rank, tlc_allreduce_pull(f->member[rank], f->came, out), "tlc_allreduce_pull", why);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

size_t fleet_machines(const fleet *f)
{
    return f->options.ranks + (f->server ? 1 : 0);
}

uint64_t fleet_sent(const fleet *f, size_t machine)
{
    size_t ranks = f->options.ranks;
    uint64_t bytes = 0;

    if (machine == ranks) /* the server */
        return (uint64_t)f->answer->len * ranks;
    if (f->server)
        return f->push[machine].len;
    for (size_t i = 0; i < ranks; i++) {
        if (i != machine)
            bytes += f->push[machine * ranks + i].len + f->answer[machine].len;
    }
    return bytes;
}

uint64_t fleet_counted(const fleet *f, size_t machine)
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats};

    if (machine == f->options.ranks)
        (void)tlc_server_stats(f->server, &stats);
    else if (f->server)
        (void)tlc_worker_stats(f->worker[machine], &stats);
    else
        (void)tlc_allreduce_stats(f->member[machine], &stats);
    return stats.sent;
}
