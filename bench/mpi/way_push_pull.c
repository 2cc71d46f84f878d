/* SPDX-License-Identifier: MIT
 *
 * A parameter server of floats: each server owns a slice of all values, gets it from each worker, averages in the order
 * of workers, and sends the mean to all. Messages of a rank to itself are copies.
 */
#include "../channel.h"
#include "../explain.h"
#include "../measure.h"
#include "flat.h"
#include "ranks.h"
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_PUSH = 1, TAG_PULL };

typedef struct push_pull_way {
    flat flat;
    size_t servers, me;
    MPI_Comm comm;
    float *came; /* server: its slice from each worker */
    MPI_Request *pushes, *came_requests, *answers, *means;
    double sent, messages;
} push_pull_way;

/* ---- who has what ------------------------------------------------------------------------------------------------ */

static size_t slice_at(const push_pull_way *w, size_t server)
{
    return (size_t)((double)w->flat.n * (double)server / (double)w->servers);
}

static size_t slice_length(const push_pull_way *w, size_t server)
{
    return slice_at(w, server + 1) - slice_at(w, server);
}

static size_t rank_of(const push_pull_way *w, size_t server)
{
    return ranks_count() - w->servers + server;
}

static bool is_server(const push_pull_way *w)
{
    return w->me >= rank_of(w, 0);
}

static size_t own_slice(const push_pull_way *w)
{
    return w->me - rank_of(w, 0);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void close_way(void *way)
{
    push_pull_way *w = way;

    if (w->comm != MPI_COMM_NULL)
        MPI_Comm_free(&w->comm);
    flat_close(&w->flat);
    free(w->came);
    free(w->pushes);
    free(w->came_requests);
    free(w->answers);
    free(w->means);
    free(w);
}

static bool allocate(push_pull_way *w)
{
    size_t ranks = ranks_count(), own = is_server(w) ? slice_length(w, own_slice(w)) : 0;

    w->came = channel_buffer(own * ranks * sizeof *w->came);
    w->pushes = calloc(ranks, sizeof *w->pushes);
    w->came_requests = calloc(ranks, sizeof *w->came_requests);
    w->answers = calloc(ranks, sizeof *w->answers);
    w->means = calloc(ranks, sizeof *w->means);
    return w->came && w->pushes && w->came_requests && w->answers && w->means;
}

static void *open_way(const way_options *o, char *why)
{
    push_pull_way *w = calloc(1, sizeof *w);

    if (!ranks_agree(w || explain(why, "out of memory"), why)) {
        free(w);
        return NULL;
    }
    w->comm = MPI_COMM_NULL;
    w->me = ranks_me();
    w->servers = o->servers ? o->servers : ranks_count();
    if (flat_open(&w->flat, o, why) && ranks_agree(allocate(w) || explain(why, "out of memory"), why) &&
        !MPI_Comm_dup(MPI_COMM_WORLD, &w->comm))
        return w;
    close_way(w);
    return NULL;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static void take(void *way, const float *grads)
{
    flat_take(&((push_pull_way *)way)->flat, grads);
}

static MPI_Request send(push_pull_way *w, const float *values, size_t n, size_t to, int tag)
{
    MPI_Request request;

    MPI_Isend(values, (int)n, MPI_FLOAT, (int)to, tag, w->comm, &request);
    w->sent += (double)n * sizeof *values;
    w->messages++;
    return request;
}

static MPI_Request receive(const push_pull_way *w, float *values, size_t n, size_t from, int tag)
{
    MPI_Request request;

    MPI_Irecv(values, (int)n, MPI_FLOAT, (int)from, tag, w->comm, &request);
    return request;
}

/* Ranks begin with different servers. Returns how many requests there are of each kind. */
static int push(push_pull_way *w)
{
    int count = 0;

    for (size_t i = 0; i < w->servers; i++) {
        size_t server = (w->me + i) % w->servers, to = rank_of(w, server), at = slice_at(w, server);
        if (to == w->me)
            continue;
        w->means[count] = receive(w, w->flat.mean + at, slice_length(w, server), to, TAG_PULL);
        w->pushes[count++] = send(w, w->flat.grads + at, slice_length(w, server), to, TAG_PUSH);
    }
    return count;
}

static int expect_pushes(push_pull_way *w)
{
    size_t own = slice_length(w, own_slice(w));
    int count = 0;

    for (size_t worker = 0; worker < w->flat.o->workers; worker++) {
        if (worker != w->me)
            w->came_requests[count++] = receive(w, w->came + worker * own, own, worker, TAG_PUSH);
    }
    return count;
}

static void average(push_pull_way *w)
{
    size_t own = slice_length(w, own_slice(w)), at = slice_at(w, own_slice(w)), workers = w->flat.o->workers;
    float *mean = w->flat.mean + at, factor = 1 / (float)workers;
    double start = measure_now();

    for (size_t worker = 0; worker < workers; worker++) {
        const float *values = worker == w->me ? w->flat.grads + at : w->came + worker * own;
        for (size_t i = 0; i < own; i++)
            mean[i] = worker ? mean[i] + values[i] : values[i];
    }
    for (size_t i = 0; i < own; i++)
        mean[i] *= factor;
    w->flat.codec += measure_now() - start;
}

static int send_means(push_pull_way *w)
{
    size_t own = slice_length(w, own_slice(w)), workers = w->flat.o->workers;
    int count = 0;

    for (size_t i = 1; i <= workers; i++) {
        size_t worker = (w->me + i) % workers;
        if (worker != w->me)
            w->answers[count++] = send(w, w->flat.mean + slice_at(w, own_slice(w)), own, worker, TAG_PULL);
    }
    return count;
}

static bool step(void *way, char *why)
{
    push_pull_way *w = way;
    int pushed = 0, came, answered = 0, error = 0;

    came = is_server(w) ? expect_pushes(w) : 0;
    if (way_is_worker(w->flat.o, w->me)) {
        flat_compute(&w->flat);
        pushed = push(w);
    }
    if (is_server(w)) {
        error = MPI_Waitall(came, w->came_requests, MPI_STATUSES_IGNORE);
        average(w);
        answered = send_means(w);
    }
    error = MPI_Waitall(pushed, w->pushes, MPI_STATUSES_IGNORE) || error;
    error = MPI_Waitall(pushed, w->means, MPI_STATUSES_IGNORE) || error;
    error = MPI_Waitall(answered, w->answers, MPI_STATUSES_IGNORE) || error;
    return !error || explain(why, "a push or pull of floats failed");
}

/* ---- what it gave ------------------------------------------------------------------------------------------------ */

static const float *result(void *way)
{
    push_pull_way *w = way;

    return way_is_worker(w->flat.o, w->me) ? flat_result(&w->flat) : NULL;
}

static way_cost cost(const void *way)
{
    const push_pull_way *w = way;

    return (way_cost){.sent = w->sent, .messages = w->messages, .codec = w->flat.codec, .waiting = NAN};
}

static double error_of(const way_options *o, double *least)
{
    *least = 0;
    return ((double)o->workers + 2) * 0x1p-24;
}

const way_method way_of_push_pull = {.open = open_way,
                                     .close = close_way,
                                     .take = take,
                                     .step = step,
                                     .result = result,
                                     .cost = cost,
                                     .error = error_of};
