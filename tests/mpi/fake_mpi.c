/* SPDX-License-Identifier: MIT */
#include "../support/support.h"
#include "fake_turns.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE = 20, POLLS = 4, ERRORS_MAX = 3000, COMMS = 256, SLOTS = 512, DATA = 1024, NEIGHBOURS = 8 };

/* ---- turns ------------------------------------------------------------------------------------------------------- */

typedef enum shape { BCAST, ALLREDUCE, DUP, GRAPH, GATHER } shape;

/* A collective call, the n-th one of a communicator. */
typedef struct slot {
    int arrived, has[FAKE_RANKS]; /* ranks */
    shape shape;
    int count, root, made; /* made: the new communicator */
    unsigned char data[FAKE_RANKS][DATA];
} slot;

typedef struct comm {
    int is_graph, calls[FAKE_RANKS], freed[FAKE_RANKS], failed[FAKE_RANKS];
    int degree[FAKE_RANKS], neighbour[FAKE_RANKS][NEIGHBOURS];
    slot *slots[SLOTS];
} comm;

static struct {
    int ranks, left, turn, quiet, is_broken, was_hit;
    fake_fault fault;
    void (*play)(int rank, int ranks);
    int calls[FAKE_RANKS], errors[FAKE_RANKS], is_done[FAKE_RANKS];
    const char *call[FAKE_RANKS], *failed[FAKE_RANKS]; /* the last call; the one in which it was told first */
    double clock[FAKE_RANKS];
    int comms;
    comm comm[COMMS];
    pthread_mutex_t lock;
    pthread_cond_t wake[FAKE_RANKS];
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int me;

/* The next rank goes on, until it is the turn of this one again. */
static void pass(void)
{
    int next = me;

    do
        next = (next + 1) % fake.ranks;
    while (fake.is_done[next] && next != me);
    fake.turn = next;
    pthread_cond_signal(&fake.wake[next]);
    while (fake.turn != me && !fake.is_done[me])
        pthread_cond_wait(&fake.wake[me], &fake.lock);
}

_Noreturn static void wrong(const char *what)
{
    fprintf(stderr, "rank %d, after call %d fails on rank %d: %s\n", me, fake.fault.call, fake.fault.rank, what);
    require_failed("the ranks", __FILE__, __LINE__);
}

static int told(void)
{
    if (++fake.errors[me] > ERRORS_MAX)
        wrong("goes on and on, though MPI fails");
    if (fake.errors[me] == 1)
        fake.failed[me] = fake.call[me];
    return fake.errors[me] == 1 ? FAKE_ERROR : MPI_ERR_INTERN;
}

void fake_pause(void)
{
    if (++fake.quiet > PATIENCE * fake.ranks) {
        if (!fake.was_hit)
            wrong("ranks wait for each other");
        fake.is_broken = 1;
        fake.quiet = 0;
    }
    if (fake.quiet % POLLS == 0)
        pass();
}

int fake_stall(void)
{
    fake_pause();
    return fake.is_broken ? told() : MPI_SUCCESS;
}

void fake_dawdle(int times)
{
    for (int i = 0; i < times * POLLS; i++)
        fake_pause();
}

void fake_moved(void)
{
    fake.quiet = 0;
}

int fake_rank(void)
{
    return me;
}

int fake_is_broken(void)
{
    return fake.is_broken;
}

int fake_was_hit(void)
{
    return fake.was_hit;
}

int fake_keeps(void)
{
    return fake.was_hit && fake.fault.keeps;
}

int fake_begin(const char *call)
{
    const int is_fault = me == fake.fault.rank && ++fake.calls[me] == fake.fault.call;

    fake.call[me] = call;
    fake.was_hit |= is_fault;
    return is_fault || fake.is_broken ? told() : MPI_SUCCESS;
}

static void *rank_main(void *arg)
{
    me = (int)(intptr_t)arg;
    pthread_mutex_lock(&fake.lock);
    while (fake.turn != me)
        pthread_cond_wait(&fake.wake[me], &fake.lock);
    fake.play(me, fake.ranks);
    fake.quiet = 0;
    fake.is_done[me] = 1;
    fake.left--;
    if (fake.left)
        pass();
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}

static void clear(void)
{
    for (int c = 0; c < fake.comms; c++) {
        for (int i = 0; i < SLOTS; i++)
            free(fake.comm[c].slots[i]);
        for (int r = 0; r < fake.ranks && c && !fake.was_hit; r++)
            require(fake.comm[c].freed[r]);
    }
    fake_end_requests();
    memset(fake.comm, 0, sizeof fake.comm);
}

int fake_run(int ranks, fake_fault fault, void (*play)(int rank, int ranks))
{
    pthread_t thread[FAKE_RANKS];

    fake.ranks = fake.left = ranks;
    fake.turn = fake.quiet = fake.is_broken = fake.was_hit = 0;
    fake.fault = fault;
    fake.play = play;
    fake.comms = 1;
    memset(fake.calls, 0, sizeof fake.calls);
    memset(fake.errors, 0, sizeof fake.errors);
    memset(fake.is_done, 0, sizeof fake.is_done);
    memset(fake.clock, 0, sizeof fake.clock);
    for (int i = 0; i < ranks; i++) {
        pthread_cond_init(&fake.wake[i], NULL);
        require(!pthread_create(&thread[i], NULL, rank_main, (void *)(intptr_t)i));
    }
    for (int i = 0; i < ranks; i++)
        pthread_join(thread[i], NULL);
    clear();
    return fake.was_hit ? -1 : fake.calls[fault.rank];
}

int fake_was_told(void)
{
    return fake.errors[me] > 0;
}

/* ---- communicators ----------------------------------------------------------------------------------------------- */

static MPI_Comm comm_of(int i)
{
    return (MPI_Comm)(intptr_t)(0x1000 + i);
}

static comm *comm_at(MPI_Comm c)
{
    comm *found = NULL;

    for (int i = 0; i < fake.comms; i++)
        if (comm_of(i) == c)
            found = &fake.comm[i];
    require(found && !found->freed[me]);
    return found;
}

/* Others do not know that it failed, and may wait: the rank makes no other call in which they take part. */
static comm *whole_comm(MPI_Comm c)
{
    comm *where = comm_at(c);

    if (where->failed[me])
        wrong("a communicator is used after it has failed");
    return where;
}

int fake_begin_in(MPI_Comm c, const char *call)
{
    comm *where = whole_comm(c);
    const int code = fake_begin(call);

    where->failed[me] |= code != MPI_SUCCESS;
    return code;
}

int fake_comm(MPI_Comm c)
{
    return (int)(comm_at(c) - fake.comm);
}

void fake_fails_in(int c)
{
    fake.comm[c].failed[me] = 1;
}

MPI_Comm fake_world(void)
{
    return comm_of(0);
}

int MPI_Comm_rank(MPI_Comm c, int *rank)
{
    const int code = fake_begin(__func__);

    (void)comm_at(c);
    if (!code)
        *rank = me;
    return code;
}

int MPI_Comm_size(MPI_Comm c, int *size)
{
    const int code = fake_begin(__func__);

    (void)comm_at(c);
    if (!code)
        *size = fake.ranks;
    return code;
}

int MPI_Comm_free(MPI_Comm *c)
{
    const int code = fake_begin_in(*c, NULL);

    if (code) /* it is gone all the same: nobody has to say so */
        fake.errors[me]--;
    comm_at(*c)->freed[me] = 1;
    *c = MPI_COMM_NULL;
    return code;
}

/* ---- collective calls -------------------------------------------------------------------------------------------- */

/* Joins the next collective call of a communicator, and waits for the root, or for all (root -1). */
static int join(MPI_Comm c, shape what, const void *data, int size, int root, slot **joined)
{
    static const char *const calls[] = {"MPI_Bcast", "MPI_Allreduce", "MPI_Comm_dup", "MPI_Dist_graph_create_adjacent",
                                        "MPI_Neighbor_allgather"};
    const int code = fake_begin_in(c, calls[what]);
    comm *where = comm_at(c);
    const int n = where->calls[me]++;

    if (code)
        return code;
    require(n < SLOTS && size <= DATA);
    slot *s = where->slots[n];
    if (!s) {
        s = where->slots[n] = calloc(1, sizeof *s);
        require(s);
        *s = (slot){.shape = what, .count = size, .root = root};
        if (what == DUP || what == GRAPH) {
            require(fake.comms < COMMS);
            s->made = fake.comms++;
        }
    }
    if (s->shape != what || s->count != size || s->root != root)
        wrong("ranks make different collective calls");
    if (size)
        memcpy(s->data[me], data, (size_t)size);
    s->has[me] = 1;
    s->arrived++;
    fake.quiet = 0;
    while (root >= 0 ? !s->has[root] : s->arrived < fake.ranks) {
        const int failed = fake_stall();
        where->failed[me] |= failed != MPI_SUCCESS;
        if (failed)
            return failed;
    }
    *joined = s;
    return MPI_SUCCESS;
}

int fake_size(MPI_Datatype type, int count)
{
    return count * (type == MPI_INT ? (int)sizeof(int) : type == MPI_BYTE || type == MPI_CHAR ? 1 : 8);
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm c)
{
    slot *s;
    const int size = fake_size(type, count), code = join(c, BCAST, data, size, root, &s);

    if (!code)
        memcpy(data, s->data[root], (size_t)size);
    return code;
}

int MPI_Allreduce(const void *in, void *data, int count, MPI_Datatype type, MPI_Op op, MPI_Comm c)
{
    slot *s;
    const int code = join(c, ALLREDUCE, data, fake_size(type, count), -1, &s);

    require(in == MPI_IN_PLACE);
    for (int r = 0; r < fake.ranks && !code; r++)
        for (int i = 0; i < count; i++) {
            if (type == MPI_INT && op == MPI_MIN) {
                int theirs, *ours = (int *)data + i;
                memcpy(&theirs, s->data[r] + (size_t)i * sizeof theirs, sizeof theirs);
                *ours = theirs < *ours ? theirs : *ours;
            } else {
                uint64_t theirs, *ours = (uint64_t *)data + i;
                require(type == MPI_UINT64_T && op == MPI_MAX);
                memcpy(&theirs, s->data[r] + (size_t)i * sizeof theirs, sizeof theirs);
                *ours = theirs > *ours ? theirs : *ours;
            }
        }
    return code;
}

int MPI_Comm_dup(MPI_Comm c, MPI_Comm *made)
{
    slot *s;
    const int code = join(c, DUP, NULL, 0, -1, &s);

    if (code)
        return code;
    comm *to = &fake.comm[s->made], *from = comm_at(c);
    to->is_graph = from->is_graph;
    to->degree[me] = from->degree[me];
    memcpy(to->neighbour[me], from->neighbour[me], sizeof to->neighbour[me]);
    *made = comm_of(s->made);
    return MPI_SUCCESS;
}

int MPI_Dist_graph_create_adjacent(MPI_Comm c, int in, const int *from, const int *in_weights, int out, const int *to,
                                   const int *out_weights, MPI_Info info, int reorder, MPI_Comm *made)
{
    slot *s;
    const int code = join(c, GRAPH, NULL, 0, -1, &s);

    (void)in_weights;
    (void)out_weights;
    (void)info;
    require(in == out && in <= NEIGHBOURS && !reorder && (!in || !memcmp(from, to, (size_t)in * sizeof *from)));
    if (code)
        return code;
    comm *graph = &fake.comm[s->made];
    graph->is_graph = 1;
    graph->degree[me] = in;
    if (in)
        memcpy(graph->neighbour[me], from, (size_t)in * sizeof *from);
    *made = comm_of(s->made);
    return MPI_SUCCESS;
}

int MPI_Topo_test(MPI_Comm c, int *topology)
{
    const int code = fake_begin(__func__);

    if (!code)
        *topology = comm_at(c)->is_graph ? MPI_DIST_GRAPH : MPI_UNDEFINED;
    return code;
}

int MPI_Dist_graph_neighbors_count(MPI_Comm c, int *in, int *out, int *weighted)
{
    const int code = fake_begin(__func__);

    if (!code) {
        *in = *out = comm_at(c)->degree[me];
        *weighted = 0;
    }
    return code;
}

/* The graph has no weights, so anything may be in their place. */
int MPI_Dist_graph_neighbors(MPI_Comm c, int in, int *from, int *in_weights, int out, int *to, int *out_weights)
{
    const int code = fake_begin(__func__);

    for (int i = 0; i < in && i < out && !code; i++) {
        from[i] = to[i] = comm_at(c)->neighbour[me][i];
        in_weights[i] = 11 + i;
        out_weights[i] = -i;
    }
    return code;
}

int MPI_Neighbor_allgather(const void *data, int count, MPI_Datatype type, void *all, int all_count,
                           MPI_Datatype all_type, MPI_Comm c)
{
    slot *s;
    const int size = fake_size(type, count), code = join(c, GATHER, data, size, -1, &s);

    require(count == all_count && type == all_type);
    for (int i = 0; i < comm_at(c)->degree[me] && !code; i++)
        memcpy((char *)all + (ptrdiff_t)i * size, s->data[comm_at(c)->neighbour[me][i]], (size_t)size);
    return code;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

const char *fake_sentence(void)
{
    static char text[2][80];

    snprintf(text[0], sizeof text[0], "the fake fails with %d", FAKE_ERROR);
    snprintf(text[1], sizeof text[1], "MPI failed with the code %d", FAKE_ERROR);
    return text[fake.fault.says != FAKE_TEXT];
}

const char *fake_call(int rank)
{
    return fake.failed[rank];
}

int MPI_Error_string(int code, char *text, int *len)
{
    if (fake.fault.says == FAKE_FAILS)
        return MPI_ERR_OTHER;
    *len = 0;
    if (fake.fault.says == FAKE_TEXT)
        *len = snprintf(text, MPI_MAX_ERROR_STRING, "the fake fails with %d", code);
    return MPI_SUCCESS;
}

/* The clock of a rank goes on by 1 whenever it is read. */
double MPI_Wtime(void)
{
    return fake.clock[me]++;
}
