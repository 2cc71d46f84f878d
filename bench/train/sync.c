/* SPDX-License-Identifier: MIT
 *
 * One kind after the other: how its handles are made, and what a step is. Then what they have in common: residuals,
 * statistics.
 */
#include "sync.h"
#include "../lib/codecs.h"
#include "../lib/explain.h"
#include <stdlib.h>
#include <string.h>

/* ---- making handles ---------------------------------------------------------------------------------------------- */

/* Where the values of each tensor are in a flat array; NULL: nowhere. */
static void locate(const classifier *model, const float *flat, const float *at[CLASSIFIER_TENSORS])
{
    for (size_t t = 0; t < model->tensors; t++)
        at[t] = flat ? flat + model->tensor[t].first : NULL;
}

static void locate_out(const classifier *model, float *flat, void *at[CLASSIFIER_TENSORS])
{
    for (size_t t = 0; t < model->tensors; t++)
        at[t] = flat + model->tensor[t].first;
}

static void list_tensors(syncer *s)
{
    const bool feedback = s->o.kind != SYNC_GOSSIP && codec_has_residual(s->o.push, -1);

    for (size_t t = 0; t < s->model->tensors; t++) {
        const classifier_tensor *tensor = &s->model->tensor[t];
        s->tensor[t] = (tlc_tensor){.struct_size = sizeof s->tensor[t],
                                    .name = tensor->name,
                                    .n = tensor->n,
                                    .residual = feedback ? s->residual + tensor->first : NULL,
                                    .only = TLC_NOBODY};
    }
}

/* The servers are the last ranks. */
static bool is_server(const syncer *s)
{
    return s->o.kind == SYNC_SERVER && s->rank >= s->ranks - (int)s->o.servers;
}

/* An owner: the optimiser turns the means of its parts into changes. */
static tlc_status change_parts(void *arg, const tlc_allreduce *allreduce, float *const *delta)
{
    const sync_owner *o = arg;
    const sync_options *options = &o->s->o;
    tlc_part part = {.struct_size = sizeof part};

    for (size_t i = 0; i < tlc_allreduce_parts(allreduce) && !tlc_allreduce_part(allreduce, i, &part); i++) {
        const size_t first = o->s->model->tensor[o->first + part.tensor].first + part.first;
        memset(delta[i], 0, part.n * sizeof *delta[i]);
        options->update(options->arg, first, part.n, part.mean, delta[i]);
    }
    return TLC_OK;
}

static tlc_status make_handle(syncer *s, const tlc_mpi_config *cfg, const float *weights)
{
    const float *at[CLASSIFIER_TENSORS];
    tlc_mpi **out = &s->handle[s->handles];
    tlc_status status;

    switch (s->o.kind) {
    case SYNC_SERVER:
        status = s->handles ? tlc_mpi_server_create(out, cfg, s->handle[0]) : tlc_mpi_worker_create(out, cfg);
        break;
    case SYNC_GOSSIP:
        locate(s->model, weights, at);
        status = tlc_mpi_gossip_create(out, cfg, s->o.algorithm, at);
        break;
    case SYNC_OWNERS:
        s->owner[s->handles] = (sync_owner){s, s->handles};
        status = tlc_mpi_owners_create(out, cfg, change_parts, &s->owner[s->handles]);
        break;
    default: status = tlc_mpi_allreduce_create(out, cfg); break;
    }
    s->handles += !status;
    return status;
}

static tlc_status make_graph(syncer *s)
{
    const tlc_graph graph = {.struct_size = sizeof graph, .kind = s->o.graph};
    const tlc_status status = tlc_mpi_graph_create(s->comm, &graph, &s->graph);

    s->has_graph = !status;
    return status;
}

static bool make_handles(syncer *s, const float *weights, char *why)
{
    tlc_exchange_config exchange;
    tlc_mpi_config cfg;
    tlc_outcome outcome = {.struct_size = sizeof outcome};
    const size_t wanted = s->o.layers ? s->model->tensors : is_server(s) ? 2 : 1;
    tlc_status status = TLC_OK;

    if (s->o.kind == SYNC_GOSSIP)
        status = make_graph(s);
    if (status)
        return explain(why, "the graph: %s", tlc_status_string(status));
    tlc_exchange_config_init(&exchange, sizeof exchange);
    exchange.workers = (uint32_t)s->ranks;
    exchange.servers = s->o.kind == SYNC_SERVER ? s->o.servers : 0;
    exchange.gather = s->o.kind == SYNC_GATHER;
    exchange.push = s->o.push;
    exchange.pull = s->o.pull;
    exchange.reserve = s->o.floats_too ? "raw" : NULL;
    tlc_mpi_config_init(&cfg, sizeof cfg, s->has_graph ? s->graph : s->comm);
    cfg.exchange = &exchange;
    cfg.outcome = &outcome;
    for (size_t i = 0; !status && i < wanted; i++) {
        exchange.seed = s->o.seed + i;
        cfg.tensors = s->o.layers ? &s->tensor[i] : s->tensor;
        cfg.count = s->o.layers ? 1 : s->model->tensors;
        status = make_handle(s, &cfg, weights);
    }
    snprintf(s->advice, sizeof s->advice, "%s", outcome.sentence);
    return !status || explain(why, "%s", outcome.sentence);
}

bool sync_open(syncer *s, const sync_options *o, const classifier *model, const float *weights, MPI_Comm comm,
               char *why)
{
    *s = (syncer){.o = *o, .model = model, .comm = comm};
    MPI_Comm_rank(comm, &s->rank);
    MPI_Comm_size(comm, &s->ranks);
    s->residual = calloc(model->values, sizeof *s->residual);
    s->change = calloc(model->values, sizeof *s->change);
    int ok = s->residual && s->change;
    MPI_Allreduce(MPI_IN_PLACE, &ok, 1, MPI_INT, MPI_MIN, comm);
    if (!ok)
        return explain(why, "out of memory");
    list_tensors(s);
    return o->kind == SYNC_MPI || make_handles(s, weights, why);
}

void sync_close(syncer *s)
{
    for (size_t i = 0; i < s->handles; i++)
        tlc_mpi_destroy(s->handle[i]);
    if (s->has_graph)
        MPI_Comm_free(&s->graph);
    free(s->residual);
    free(s->change);
}

/* What a call returned, and what the handles say of it. */
static sync_result result_of(const syncer *s, tlc_status status, char *why)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};

    if (!status)
        return SYNC_DONE;
    if (status == TLC_ERR_STEP)
        return SYNC_SKIPPED;
    explain(why, "%s", tlc_status_string(status));
    for (size_t i = 0; i < s->handles; i++)
        if (!tlc_mpi_outcome(s->handle[i], &outcome) && outcome.status == status)
            explain(why, "%s", outcome.sentence);
    return SYNC_FAILED;
}

/* ---- warm-up ----------------------------------------------------------------------------------------------------- */

static tlc_status set_codecs(const syncer *s, size_t i, const char *push, const char *pull)
{
    if (s->o.kind != SYNC_SERVER)
        return tlc_allreduce_set_codec(tlc_mpi_allreduce_object(s->handle[i]), TLC_ALL, push, pull);
    return i ? tlc_server_set_codec(tlc_mpi_server_object(s->handle[i]), TLC_ALL, pull)
             : tlc_worker_set_codec(tlc_mpi_worker_object(s->handle[i]), TLC_ALL, push);
}

bool sync_as_floats(syncer *s, bool on, char *why)
{
    const char *push = on ? "raw" : s->o.push, *pull = on ? "raw" : s->o.pull ? s->o.pull : tlc_pull_codec(s->o.push);
    tlc_status status = TLC_OK;

    for (size_t i = 0; i < s->handles && !status; i++)
        status = set_codecs(s, i, push, pull);
    return result_of(s, status, why) == SYNC_DONE;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* What the library is compared with: the mean of floats. Ranks that have nothing count as zeros, and are not counted.
 */
static sync_result mean_of_floats(syncer *s, const float *values, float *out)
{
    const size_t n = s->model->values;
    int present = values != NULL;

    if (values)
        memcpy(out, values, n * sizeof *out);
    else
        memset(out, 0, n * sizeof *out);
    MPI_Allreduce(MPI_IN_PLACE, out, (int)n, MPI_FLOAT, MPI_SUM, s->comm);
    MPI_Allreduce(MPI_IN_PLACE, &present, 1, MPI_INT, MPI_SUM, s->comm);
    for (size_t i = 0; i < n && present > 1; i++)
        out[i] /= (float)present;
    return SYNC_DONE;
}

/* A server: the optimiser turns the means of its parts into changes. */
static tlc_status answer_with_changes(syncer *s)
{
    const tlc_server *server = tlc_mpi_server_object(s->handle[1]);
    const size_t parts = tlc_server_parts(server);
    const float **change = calloc(parts + 1, sizeof *change);
    tlc_part part = {.struct_size = sizeof part};

    if (!change)
        return TLC_ERR_NOMEM;
    memset(s->change, 0, s->model->values * sizeof *s->change);
    for (size_t i = 0; i < parts && !tlc_server_part(server, i, &part); i++) {
        const size_t first = s->model->tensor[part.tensor].first + part.first;
        s->o.update(s->o.arg, first, part.n, part.mean, s->change + first);
        change[i] = s->change + first;
    }
    tlc_status status = tlc_mpi_server_answer(s->handle[1], change);
    free(change);
    return status;
}

/* A server's part of a step. If it failed, the answer says so. */
static tlc_status serve(syncer *s)
{
    tlc_status status = tlc_mpi_server_start(s->handle[1]);

    if (!status)
        status = tlc_mpi_wait(s->handle[1]);
    if (status && status != TLC_ERR_STEP)
        return status;
    return !status && s->o.update ? answer_with_changes(s) : tlc_mpi_server_answer(s->handle[1], NULL);
}

static sync_result mean_of_server(syncer *s, const float *values, float *out, char *why)
{
    const float *in_at[CLASSIFIER_TENSORS];
    void *out_at[CLASSIFIER_TENSORS];

    locate(s->model, values, in_at);
    locate_out(s->model, out, out_at);
    memset(out, 0, s->model->values * sizeof *out);
    tlc_status status = tlc_mpi_worker_start(s->handle[0], values ? (const void *const *)in_at : NULL, 1, out_at);
    if (!status && is_server(s))
        status = serve(s);
    return result_of(s, status ? status : tlc_mpi_wait(s->handle[0]), why);
}

bool sync_start_tensor(syncer *s, size_t tensor, const float *values, float *out, char *why)
{
    const void *from = values ? values + s->model->tensor[tensor].first : NULL;
    void *to = out + s->model->tensor[tensor].first;
    tlc_status status = tlc_mpi_allreduce_start(s->handle[tensor], values ? &from : NULL, 1, &to);

    return result_of(s, status, why) == SYNC_DONE;
}

void sync_progress(syncer *s)
{
    tlc_mpi_progress(s->handle, s->handles);
}

sync_result sync_wait(syncer *s, char *why)
{
    return result_of(s, tlc_mpi_wait_all(s->handle, s->handles), why);
}

static sync_result mean_of_all(syncer *s, const float *values, float *out, char *why)
{
    const float *in_at[CLASSIFIER_TENSORS];
    void *out_at[CLASSIFIER_TENSORS];

    locate(s->model, values, in_at);
    locate_out(s->model, out, out_at);
    tlc_status status = tlc_mpi_allreduce_start(s->handle[0], values ? (const void *const *)in_at : NULL, 1, out_at);
    return status ? result_of(s, status, why) : sync_wait(s, why);
}

sync_result sync_mean(syncer *s, const float *values, float *out, char *why)
{
    switch (s->o.kind) {
    case SYNC_MPI: return mean_of_floats(s, values, out);
    case SYNC_SERVER: return mean_of_server(s, values, out, why);
    default: break;
    }
    if (!s->o.layers)
        return mean_of_all(s, values, out, why);
    for (size_t t = s->model->tensors; t-- > 0;)
        if (!sync_start_tensor(s, t, values, out, why))
            return SYNC_FAILED;
    return sync_wait(s, why);
}

/* ---- gossip ------------------------------------------------------------------------------------------------------ */

static void copy_tensors(const syncer *s, bool mean, float *to)
{
    tlc_gossip *object = tlc_mpi_gossip_object(s->handle[0]);

    for (size_t t = 0; t < s->model->tensors; t++) {
        const classifier_tensor *tensor = &s->model->tensor[t];
        const float *values = mean ? tlc_gossip_mean(object, t) : tlc_gossip_model(object, t);
        if (values)
            memcpy(to + tensor->first, values, tensor->n * sizeof *to);
    }
}

void sync_gossip_mean(const syncer *s, float *mean)
{
    copy_tensors(s, true, mean);
}

void sync_gossip_model(const syncer *s, float *weights)
{
    copy_tensors(s, false, weights);
}

sync_result sync_gossip_move(syncer *s, const float *moved, float *weights, char *why)
{
    const float *at[CLASSIFIER_TENSORS];

    locate(s->model, moved, at);
    tlc_status status = tlc_mpi_gossip_start(s->handle[0], at);
    if (!status)
        status = tlc_mpi_wait(s->handle[0]);
    if (status)
        return result_of(s, status, why);
    sync_gossip_model(s, weights);
    tlc_outcome outcome = {.struct_size = sizeof outcome};
    return !tlc_mpi_outcome(s->handle[0], &outcome) && outcome.cause == TLC_ERR_NONFINITE ? SYNC_SKIPPED : SYNC_DONE;
}

/* ---- momentum ---------------------------------------------------------------------------------------------------- */

void sync_mask(syncer *s, float *momentum)
{
    float *at[CLASSIFIER_TENSORS];

    for (size_t t = 0; t < s->model->tensors; t++)
        at[t] = momentum + s->model->tensor[t].first;
    if (s->o.kind == SYNC_SERVER)
        tlc_worker_mask(tlc_mpi_worker_object(s->handle[0]), at);
    else if (s->o.kind != SYNC_MPI && s->o.kind != SYNC_GOSSIP)
        for (size_t i = 0; i < s->handles; i++) /* of all tensors, or of one each */
            tlc_allreduce_mask(tlc_mpi_allreduce_object(s->handle[i]), at + i);
}

/* ---- what servers and owners have -------------------------------------------------------------------------------- */

/* Part k of those that this rank owns, over all handles. first: in a flat array. */
static bool own_part(const syncer *s, size_t k, tlc_part *part, size_t *first)
{
    *part = (tlc_part){.struct_size = sizeof *part};
    if (s->o.kind == SYNC_SERVER) {
        if (!is_server(s) || tlc_server_part(tlc_mpi_server_object(s->handle[1]), k, part))
            return false;
        *first = s->model->tensor[part->tensor].first + part->first;
        return true;
    }
    const bool owners = s->o.kind == SYNC_ALL_REDUCE || s->o.kind == SYNC_OWNERS;
    for (size_t i = 0; owners && i < s->handles; i++) {
        const tlc_allreduce *object = tlc_mpi_allreduce_object(s->handle[i]);
        if (k < tlc_allreduce_parts(object) && !tlc_allreduce_part(object, k, part)) {
            *first = s->model->tensor[i + part->tensor].first + part->first;
            return true;
        }
        k -= tlc_allreduce_parts(object);
    }
    return false;
}

void sync_keep_own(const syncer *s, float *values)
{
    const size_t size = s->model->values * sizeof *values;
    tlc_part part;
    size_t first;

    memcpy(s->change, values, size);
    memset(values, 0, size);
    for (size_t k = 0; own_part(s, k, &part, &first); k++)
        memcpy(values + first, s->change + first, part.n * sizeof *values);
}

void sync_residuals(syncer *s, double *pushes, double *answers)
{
    const size_t n = s->model->values;
    tlc_part part;
    size_t first;

    for (size_t i = 0; i < n; i++) {
        pushes[i] = (double)s->residual[i] / s->ranks;
        answers[i] = 0;
    }
    for (size_t k = 0; own_part(s, k, &part, &first); k++)
        for (size_t i = 0; part.residual && i < part.n; i++)
            answers[first + i] = (double)part.residual[i];
    MPI_Allreduce(MPI_IN_PLACE, pushes, (int)n, MPI_DOUBLE, MPI_SUM, s->comm);
    MPI_Allreduce(MPI_IN_PLACE, answers, (int)n, MPI_DOUBLE, MPI_SUM, s->comm);
}

static void add_norms(tlc_mpi *handle, double squares[4])
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats};

    /* those of other kinds refuse NULL */
    if (tlc_allreduce_stats(tlc_mpi_allreduce_object(handle), &stats) &&
        tlc_worker_stats(tlc_mpi_worker_object(handle), &stats))
        (void)tlc_server_stats(tlc_mpi_server_object(handle), &stats);
    squares[0] += stats.push_signal_squares;
    squares[1] += stats.push_residual_squares;
    squares[2] += stats.pull_signal_squares;
    squares[3] += stats.pull_residual_squares;
}

void sync_norms(const syncer *s, double squares[4])
{
    memset(squares, 0, 4 * sizeof *squares);
    for (size_t i = 0; i < s->handles; i++)
        add_norms(s->handle[i], squares);
}

void sync_stats(const syncer *s, tlc_mpi_stats *stats)
{
    *stats = (tlc_mpi_stats){.struct_size = sizeof *stats};
    for (size_t i = 0; i < s->handles; i++) {
        tlc_mpi_stats one = {.struct_size = sizeof one};
        tlc_mpi_get_stats(s->handle[i], &one);
        stats->sent += one.sent;
        stats->received += one.received;
        stats->messages += one.messages;
        stats->codec += one.codec;
        stats->waiting += one.waiting;
    }
}
