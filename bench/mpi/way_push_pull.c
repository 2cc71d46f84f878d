/* SPDX-License-Identifier: MIT
 *
 * A parameter server of floats: each server owns a slice of all values, gets it from each worker, averages in the order
 * of workers, and sends the mean to all.
 *
 * Slices travel in pieces that MPI sends at once (Open MPI: "eager", up to 64 KiB over TCP). It asks before it sends
 * larger messages, and on a slow link in use in both directions the answers wait for data: such a baseline would
 * take twice as long.
 */
#include "../lib/channel.h"
#include "../lib/explain.h"
#include "../lib/measure.h"
#include "flat.h"
#include "ranks.h"
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_PUSH = 1, TAG_PULL, PIECE = 8192 }; /* values */

/* Messages under way, of one kind. */
typedef struct messages {
    MPI_Request *requests;
    int count;
} messages;

typedef struct push_pull_way {
    flat flat;
    size_t servers, me;
    MPI_Comm comm;
    float *came;                             /* server: its slice from each worker */
    messages pushes, pushed, answers, means; /* sent, received, sent, received */
    double sent, count;
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
    free(w->pushes.requests);
    free(w->pushed.requests);
    free(w->answers.requests);
    free(w->means.requests);
    free(w);
}

static bool allocate(push_pull_way *w)
{
    size_t ranks = ranks_count(), own = is_server(w) ? slice_length(w, own_slice(w)) : 0;
    size_t most = ranks * (w->flat.n / w->servers / PIECE + 2); /* of one kind */

    w->came = channel_buffer(own * ranks * sizeof *w->came);
    w->pushes.requests = calloc(most, sizeof(MPI_Request));
    w->pushed.requests = calloc(most, sizeof(MPI_Request));
    w->answers.requests = calloc(most, sizeof(MPI_Request));
    w->means.requests = calloc(most, sizeof(MPI_Request));
    return w->came && w->pushes.requests && w->pushed.requests && w->answers.requests && w->means.requests;
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

/* Piece i of n values. */
static size_t piece_length(size_t n, size_t i)
{
    return n - i * PIECE < PIECE ? n - i * PIECE : PIECE;
}

static void send(push_pull_way *w, messages *m, const float *values, size_t n, size_t i, size_t to, int tag)
{
    size_t count = piece_length(n, i);

    MPI_Isend(values + i * PIECE, (int)count, MPI_FLOAT, (int)to, tag, w->comm, &m->requests[m->count++]);
    w->sent += (double)(count * sizeof *values);
    w->count++;
}

static void receive(const push_pull_way *w, messages *m, float *values, size_t n, size_t from, int tag)
{
    for (size_t i = 0; i * PIECE < n; i++)
        MPI_Irecv(values + i * PIECE, (int)piece_length(n, i), MPI_FLOAT, (int)from, tag, w->comm,
                  &m->requests[m->count++]);
}

static int end(messages *m)
{
    MPI_Status *volatile ignore = MPI_STATUSES_IGNORE; /* volatile: gcc would take it for the address of an array */
    int error = MPI_Waitall(m->count, m->requests, ignore);

    m->count = 0;
    return error;
}

static void expect(push_pull_way *w)
{
    size_t own = is_server(w) ? slice_length(w, own_slice(w)) : 0, workers = w->flat.o->workers;

    for (size_t worker = 0; own && worker < workers; worker++) {
        if (worker != w->me)
            receive(w, &w->pushed, w->came + worker * own, own, worker, TAG_PUSH);
    }
    for (size_t server = 0; way_is_worker(w->flat.o, w->me) && server < w->servers; server++) {
        if (rank_of(w, server) != w->me)
            receive(w, &w->means, w->flat.mean + slice_at(w, server), slice_length(w, server), rank_of(w, server),
                    TAG_PULL);
    }
}

/* Ranks begin with different servers. */
static void push(push_pull_way *w)
{
    size_t longest = w->flat.n / w->servers + 1;

    for (size_t i = 0; i * PIECE < longest; i++) {
        for (size_t s = 0; s < w->servers; s++) {
            size_t server = (w->me + s) % w->servers, n = slice_length(w, server);
            if (rank_of(w, server) != w->me && i * PIECE < n)
                send(w, &w->pushes, w->flat.grads + slice_at(w, server), n, i, rank_of(w, server), TAG_PUSH);
        }
    }
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

static void send_means(push_pull_way *w)
{
    size_t own = slice_length(w, own_slice(w)), workers = w->flat.o->workers;

    for (size_t i = 0; i * PIECE < own; i++) {
        for (size_t k = 1; k <= workers; k++) {
            size_t worker = (w->me + k) % workers;
            if (worker != w->me)
                send(w, &w->answers, w->flat.mean + slice_at(w, own_slice(w)), own, i, worker, TAG_PULL);
        }
    }
}

static bool step(void *way, char *why)
{
    push_pull_way *w = way;
    int error = 0;

    expect(w);
    if (way_is_worker(w->flat.o, w->me)) {
        flat_compute(&w->flat);
        push(w);
    }
    if (is_server(w)) {
        error = end(&w->pushed);
        average(w);
        send_means(w);
    }
    error = end(&w->pushes) || error;
    error = end(&w->means) || error;
    error = end(&w->answers) || error;
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

    return (way_cost){.sent = w->sent, .messages = w->count, .codec = w->flat.codec, .waiting = NAN};
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
