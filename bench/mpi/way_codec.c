/* SPDX-License-Identifier: MIT
 *
 * A codec in an exchange of libthreelc-mpi. The model is cut into pieces with a handle each, or, on a rank that is a
 * server, too, with two. They start as their gradients are computed, the last piece first.
 *
 * Owners of parts and servers take turns: the first of them in a piece is the second one in the next piece, by a
 * communicator of its own. Else rank 0 would own all small pieces.
 */
#include "../lib/channel.h"
#include "../lib/codecs.h"
#include "../lib/explain.h"
#include "../lib/fleet.h"
#include "../lib/gradients.h"
#include "../lib/owner_step.h"
#include "../sim/warm.h"
#include "compute.h"
#include "ranks.h"
#include "way.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/mpi.h>

static const float RATE = 0.01f; /* of the local step of gossip, as in tlc-sim */

/* Consecutive tensors that one handle exchanges. */
typedef struct piece {
    size_t first, count;
} piece;

typedef struct codec_way {
    const way_options *o;
    piece *pieces;
    size_t count;
    tlc_mpi **workers; /* by piece; NULL: this rank is none. Also nodes of gossip and ranks of all-reduce */
    tlc_mpi **servers; /* by piece, the same */
    bool *answered;    /* by piece: the server has answered in this step */
    owner_step *steps; /* by piece: the optimizer of this rank, where owners have one */
    size_t started;    /* pieces count - started .. count - 1 have a step under way */
    MPI_Comm *turns;   /* by turn of owners or servers */
    size_t turn_count;
    tlc_tensor *tensors;
    float *residual, *out, *moved; /* of all tensors at their offsets; moved: gossip */
    const void **grads;            /* by tensor */
    void **out_at;
    const float **moved_at;
} codec_way;

/* At most `count` pieces of about the same number of values; 0: one for each tensor. *made: how many; at least 1. The
 * caller frees them. NULL: no memory. */
static piece *cut_pieces(const shape_list *model, size_t count, size_t *made)
{
    size_t most = count && count < model->count ? count : model->count, seen = 0, next = 0;
    piece *pieces = calloc(most, sizeof *pieces);

    *made = 0;
    for (size_t i = 0; pieces && i < model->count; i++) {
        if (i == next)
            pieces[(*made)++].first = i;
        pieces[*made - 1].count++;
        seen += model->shapes[i].n;
        /* the next piece begins where its share does, or where each tensor that is left has one */
        if (*made < most && ((double)seen * (double)most >= (double)model->values * (double)*made ||
                             model->count - i - 1 == most - *made))
            next = i + 1;
    }
    return pieces;
}

static bool is_gossip(const codec_way *w)
{
    return w->o->kind.kind->has_graph;
}

static bool has_optimizers(const way_options *o)
{
    return o->kind.kind == &layout_owners;
}

/* The codec of answers. NULL: the library's choice, or there are none. */
static const char *answers_of(const way_options *o)
{
    const char *pull = o->all->pull;

    if (!pull || o->kind.kind->has_graph || o->kind.kind == &layout_gather)
        return NULL;
    return strcmp(pull, PULL_SAME) != 0 ? pull : o->codec;
}

static bool is_server(const codec_way *w)
{
    return ranks_me() >= ranks_count() - w->o->servers;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool allocate(codec_way *w)
{
    const shape_list *model = w->o->model;
    size_t size = model->room * sizeof(float), tensors = model->count;

    w->pieces = cut_pieces(model, w->o->handles, &w->count);
    w->workers = calloc(w->count, sizeof(tlc_mpi *));
    w->servers = calloc(w->count, sizeof(tlc_mpi *));
    w->answered = calloc(w->count, sizeof *w->answered);
    w->steps = calloc(w->count, sizeof *w->steps);
    w->tensors = calloc(tensors, sizeof *w->tensors);
    w->grads = calloc(tensors, sizeof *w->grads);
    w->out_at = calloc(tensors, sizeof *w->out_at);
    w->moved_at = calloc(tensors, sizeof *w->moved_at);
    w->out = channel_buffer(size);
    w->moved = is_gossip(w) ? channel_buffer(size) : NULL;
    if (!is_gossip(w) && codec_has_residual(w->o->codec, -1) && !(w->residual = channel_buffer(size)))
        return false;
    return w->pieces && w->workers && w->servers && w->answered && w->steps && w->tensors && w->grads && w->out_at &&
           w->moved_at && w->out && (w->moved || !is_gossip(w));
}

static bool describe(codec_way *w, char *why)
{
    const shape_list *model = w->o->model;
    const mpi_options *all = w->o->all;

    if (source_is_drawn(w->o->from) && !warm_residuals(w->o->from, w->o->codec, all->isa, all->source.seed, why))
        return false;
    if (w->residual)
        gradients_start(w->o->from, model, all->source.seed, ranks_me(), w->residual);
    fleet_describe(model, w->residual, w->tensors);
    for (size_t i = 0; i < model->count; i++) {
        w->out_at[i] = w->out + model->shapes[i].offset;
        w->moved_at[i] = w->moved ? w->moved + model->shapes[i].offset : NULL;
    }
    return true;
}

/* In turn t the owners or servers are the same ranks, but the first of them is number t of turn 0. */
static bool make_turns(codec_way *w)
{
    size_t ranks = ranks_count(), me = ranks_me(), turning = w->o->servers ? w->o->servers : ranks;
    size_t still = ranks - turning, turns = w->count < turning ? w->count : turning;

    w->turns = calloc(turns, sizeof(MPI_Comm));
    if (!w->turns)
        return false;
    for (; w->turn_count < turns; w->turn_count++) {
        size_t at = me < still ? me : still + (me - still + turning - w->turn_count) % turning;
        MPI_Comm_split(MPI_COMM_WORLD, 0, (int)at, &w->turns[w->turn_count]);
    }
    return true;
}

static bool make_graph(codec_way *w, char *why)
{
    const tlc_graph graph = {.struct_size = sizeof graph, .kind = w->o->kind.graph, .nodes = (uint32_t)ranks_count()};
    tlc_status status;

    w->turns = calloc(1, sizeof(MPI_Comm));
    if (!w->turns)
        return explain(why, "out of memory");
    status = tlc_mpi_graph_create(MPI_COMM_WORLD, &graph, w->turns);
    w->turn_count = !status;
    return !status || explain(why, "tlc_mpi_graph_create: %s", tlc_status_string(status));
}

static tlc_exchange_config configure(const codec_way *w)
{
    const way_options *o = w->o;
    tlc_exchange_config cfg;

    (void)tlc_exchange_config_init(&cfg, sizeof cfg);
    cfg.workers = (uint32_t)o->workers;
    cfg.servers = (uint32_t)o->servers;
    cfg.owners = (uint32_t)o->kind.owners;
    cfg.gather = o->kind.kind == &layout_gather;
    cfg.push = o->codec;
    cfg.pull = answers_of(o);
    cfg.isa = o->all->isa;
    cfg.seed = o->all->source.seed;
    return cfg;
}

static tlc_status make_servant(codec_way *w, size_t i, const tlc_mpi_config *cfg)
{
    tlc_status status = way_is_worker(w->o, ranks_me()) ? tlc_mpi_worker_create(&w->workers[i], cfg) : TLC_OK;

    if (!status && is_server(w))
        status = tlc_mpi_server_create(&w->servers[i], cfg, w->workers[i]);
    return status;
}

/* Of the owner of parts of a piece. */
static tlc_status update(void *step, const tlc_allreduce *owner, float *const *delta)
{
    return owner_step_take(step, owner, delta) ? TLC_OK : TLC_ERR_NOMEM;
}

static bool make_handle(codec_way *w, size_t i, char *why)
{
    const tlc_exchange_config exchange = configure(w);
    tlc_outcome found = {.struct_size = sizeof found};
    tlc_mpi_config cfg;
    tlc_status status;

    (void)tlc_mpi_config_init(&cfg, sizeof cfg, w->turns[(w->count - 1 - i) % w->turn_count]);
    cfg.exchange = &exchange;
    cfg.tensors = w->tensors + w->pieces[i].first;
    cfg.count = w->pieces[i].count;
    cfg.outcome = &found;
    if (is_gossip(w))
        status = tlc_mpi_gossip_create(&w->workers[i], &cfg, TLC_GOSSIP_DCD, w->moved_at + w->pieces[i].first);
    else if (w->o->servers)
        status = make_servant(w, i, &cfg);
    else if (has_optimizers(w->o))
        status = tlc_mpi_owners_create(&w->workers[i], &cfg, update, &w->steps[i]);
    else
        status = tlc_mpi_allreduce_create(&w->workers[i], &cfg);
    return !status || explain(why, "%s: %s: %s", w->o->codec, tlc_status_string(status), found.sentence);
}

static void close_way(void *way)
{
    codec_way *w = way;

    for (size_t i = 0; w->workers && w->servers && i < w->count; i++) {
        tlc_mpi_destroy(w->workers[i]);
        tlc_mpi_destroy(w->servers[i]);
    }
    for (size_t i = 0; w->steps && i < w->count; i++)
        owner_step_close(&w->steps[i]);
    for (size_t i = 0; i < w->turn_count; i++)
        MPI_Comm_free(&w->turns[i]);
    free(w->turns);
    free(w->pieces);
    free(w->workers);
    free(w->servers);
    free(w->answered);
    free(w->steps);
    free(w->tensors);
    free(w->grads);
    free(w->out_at);
    free(w->moved_at);
    free(w->out);
    free(w->moved);
    free(w->residual);
    free(w);
}

static void *open_way(const way_options *o, char *why)
{
    codec_way *w = calloc(1, sizeof *w);
    bool ok = w != NULL;

    if (w) {
        w->o = o;
        ok = allocate(w);
    }
    ok = ranks_agree((ok || explain(why, "out of memory")) && describe(w, why), why);
    ok = ok && ranks_agree(is_gossip(w) ? make_graph(w, why) : make_turns(w) || explain(why, "out of memory"), why);
    for (size_t i = 0; ok && i < w->count; i++)
        ok = ranks_agree(make_handle(w, i, why), why);
    if (ok)
        return w;
    if (w)
        close_way(w);
    return NULL;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static void take_gradient(void *way, const float *grads)
{
    codec_way *w = way;

    for (size_t i = 0; i < w->o->model->count; i++)
        w->grads[i] = grads + w->o->model->shapes[i].offset;
}

static bool failed(const codec_way *w, const tlc_mpi *handle, tlc_status status, char *why)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};

    (void)tlc_mpi_outcome(handle, &outcome);
    return explain(why, "rank %zu: %s: %s: %s", ranks_me(), w->o->codec, tlc_status_string(status), outcome.sentence);
}

/* The local step of gossip, for the tensors of a piece. */
static void move(codec_way *w, size_t i)
{
    tlc_gossip *g = tlc_mpi_gossip_object(w->workers[i]);

    for (size_t t = 0; t < w->pieces[i].count; t++) {
        const shape *s = &w->o->model->shapes[w->pieces[i].first + t];
        const float *mean = tlc_gossip_mean(g, t), *grad = w->grads[w->pieces[i].first + t];
        float *moved = w->moved + s->offset;
        for (size_t j = 0; j < s->n; j++)
            moved[j] = mean[j] - RATE * grad[j];
    }
}

static tlc_status start_worker(codec_way *w, size_t i)
{
    const void *const *grads = w->grads + w->pieces[i].first;
    void *const *out = w->out_at + w->pieces[i].first;
    tlc_mpi *handle = w->workers[i];

    if (w->o->servers)
        return tlc_mpi_worker_start(handle, grads, 1, out);
    if (!is_gossip(w))
        return tlc_mpi_allreduce_start(handle, grads, 1, out);
    move(w, i);
    return tlc_mpi_gossip_start(handle, w->moved_at + w->pieces[i].first);
}

static bool start(codec_way *w, size_t i, char *why)
{
    tlc_status status = w->workers[i] ? start_worker(w, i) : TLC_OK;

    if (status)
        return failed(w, w->workers[i], status, why);
    w->answered[i] = !w->servers[i];
    status = w->servers[i] ? tlc_mpi_server_start(w->servers[i]) : TLC_OK;
    w->started++;
    return !status || failed(w, w->servers[i], status, why);
}

/* Answers for a server whose step has ended. last: it waits for the end. */
static bool answer(codec_way *w, size_t i, bool last, char *why)
{
    tlc_mpi *server = w->servers[i];
    tlc_status status;
    int done = 1;

    if (w->answered[i])
        return true;
    status = last ? tlc_mpi_wait(server) : tlc_mpi_test(server, &done);
    if (!status && done) {
        status = tlc_mpi_server_answer(server, NULL);
        w->answered[i] = true;
    }
    return !status || failed(w, server, status, why);
}

/* What can be done for pieces under way without waiting. */
static bool progress(codec_way *w, char *why)
{
    size_t first = w->count - w->started;
    tlc_status status = tlc_mpi_progress(w->workers + first, w->started);
    bool ok = !status || explain(why, "tlc_mpi_progress: %s", tlc_status_string(status));

    for (size_t i = w->count; ok && w->o->servers && i-- > first;)
        ok = answer(w, i, false, why);
    return ok;
}

/* Of the tensors of a piece, the last one first. */
static bool compute(codec_way *w, size_t i, compute_clock *c, char *why)
{
    bool ok = true;

    for (size_t t = w->pieces[i].count; ok && t-- > 0;) {
        compute_tensor(c, w->pieces[i].first + t);
        ok = progress(w, why);
    }
    return ok;
}

static bool finish(codec_way *w, char *why)
{
    tlc_status status;
    bool ok = true;

    for (size_t i = w->count; ok && w->o->servers && i-- > 0;)
        ok = answer(w, i, true, why) && progress(w, why);
    if (!ok || !way_is_worker(w->o, ranks_me()))
        return ok;
    status = tlc_mpi_wait_all(w->workers, w->count);
    for (size_t i = 0; ok && status && i < w->count; i++) {
        tlc_outcome outcome = {.struct_size = sizeof outcome};
        if (!tlc_mpi_outcome(w->workers[i], &outcome) && outcome.status)
            ok = failed(w, w->workers[i], outcome.status, why);
    }
    return ok && (!status || explain(why, "tlc_mpi_wait_all: %s", tlc_status_string(status)));
}

static bool step(void *way, char *why)
{
    codec_way *w = way;
    bool computes = w->o->all->compute > 0 && way_is_worker(w->o, ranks_me()), ok = true;
    compute_clock c = compute_begin(w->o->all, w->o->model);

    w->started = 0;
    for (size_t i = w->count; ok && i-- > 0;)
        ok = (!computes || compute(w, i, &c, why)) && start(w, i, why);
    return ok && finish(w, why);
}

/* ---- what it gave ------------------------------------------------------------------------------------------------ */

static const float *result(void *way)
{
    const codec_way *w = way;

    return is_gossip(w) || !way_is_worker(w->o, ranks_me()) ? NULL : w->out;
}

/* Gossip: neighbours compare models and replicas. */
static bool check(void *way, char *why)
{
    codec_way *w = way;
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && is_gossip(w) && i < w->count; i++) {
        status = tlc_mpi_gossip_hello(w->workers[i], 0);
        if (status)
            return failed(w, w->workers[i], status, why);
    }
    return true;
}

static void add_cost(way_cost *sum, const tlc_mpi *handle)
{
    tlc_mpi_stats stats = {.struct_size = sizeof stats};

    if (!handle || tlc_mpi_get_stats(handle, &stats))
        return;
    sum->sent += (double)stats.sent;
    sum->messages += (double)stats.messages;
    sum->codec += stats.codec;
    sum->waiting += stats.waiting;
}

static way_cost cost(const void *way)
{
    const codec_way *w = way;
    way_cost sum = {.sent = 0};

    for (size_t i = 0; i < w->count; i++) {
        add_cost(&sum, w->workers[i]);
        add_cost(&sum, w->servers[i]);
    }
    if (w->count > 1) /* handles wait at once, and each counts it */
        sum.waiting = NAN;
    return sum;
}

/* Raw means are sums of floats. Owners with optimizers answer with something else. */
static double error(const way_options *o, double *least)
{
    const char *answers = answers_of(o);

    *least = 0;
    return codec_is_raw(o->codec) && (!answers || codec_is_raw(answers)) && !o->kind.kind->has_graph &&
                   !has_optimizers(o)
               ? ((double)o->workers + 2) * 0x1p-24
               : 0;
}

const way_method way_of_codec = {.open = open_way,
                                 .close = close_way,
                                 .take = take_gradient,
                                 .step = step,
                                 .result = result,
                                 .check = check,
                                 .cost = cost,
                                 .error = error};
