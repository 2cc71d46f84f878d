/* SPDX-License-Identifier: MIT
 *
 * Parameter servers over MPI give the bits that the same objects give in one process, on ranks of their own or beside
 * workers.
 */
#include "mpi_scene.h"
#include <math.h>

enum { STEPS = 25, BAD_STEP = 7 };

typedef struct layout {
    uint32_t workers, servers;
} layout;

static int is_worker(layout l)
{
    return rank < (int)l.workers;
}

static int server_of(layout l)
{
    return rank - (ranks - (int)l.servers);
}

typedef struct world {
    layout l;
    fleet f;
    results r;
    tlc_mpi *worker, *server;
    float *delta[64], values[2048];
} world;

static void world_open(world *w, layout l, uint32_t backup)
{
    tlc_exchange_config cfg = fleet_config(l.servers == 1 ? ONE_SERVER : THREE_SERVERS, l.workers, large_tensors);
    float *next = w->values;

    memset(w, 0, sizeof *w);
    w->l = l;
    cfg.servers = l.servers;
    cfg.backup = backup;
    fleet_open(&w->f, &cfg, large_tensors, 0);
    w->f.delta = half_or_nan;
    results_open(&w->r, &w->f);
    tlc_mpi_config job = mpi_config(&w->f.cfg, w->f.tensors, TENSORS);
    if (is_worker(l))
        require_status(tlc_mpi_worker_create(&w->worker, &job), TLC_OK);
    if (server_of(l) >= 0)
        require_status(tlc_mpi_server_create(&w->server, &job, w->worker), TLC_OK);
    tlc_server *s = tlc_mpi_server_object(w->server);
    require(tlc_server_parts(s) <= COUNT(w->delta));
    for (size_t i = 0; i < tlc_server_parts(s); i++) {
        w->delta[i] = next;
        next += member_part((member){.server = s}, i).n;
    }
    require(next <= w->values + COUNT(w->values));
}

static void world_close(world *w)
{
    tlc_mpi_destroy(w->worker);
    tlc_mpi_destroy(w->server);
    results_close(&w->r);
    fleet_close(&w->f);
}

static tlc_status halve(void *arg, const tlc_server *s, float *const *delta)
{
    tlc_part part = {.struct_size = sizeof part};

    for (size_t i = 0; i < tlc_server_parts(s); i++) {
        require_status(tlc_server_part(s, i, &part), TLC_OK);
        for (size_t k = 0; k < part.n; k++)
            delta[i][k] = 0.5f * part.mean[k];
    }
    ++*(uint64_t *)arg;
    return TLC_OK;
}

/* Gradients of a step, on all ranks, and what the fleet makes of them. */
static void play_alone(world *w, uint64_t step)
{
    fleet *f = &w->f;
    const uint32_t odd = (uint32_t)(step % f->workers);

    fleet_gradients(f, step);
    for (uint32_t i = 0; i < f->workers; i++)
        f->absent[i] = step % 5 == 0 && i == odd;
    if (step == BAD_STEP) {
        const float nan = NAN;
        memcpy(f->grad[odd * TENSORS + 1], &nan, sizeof nan);
    }
    fleet_push(f);
    fleet_reduce(f);
    fleet_pull(f);
}

/* What all ranks have sent to others is what others have received. A rank alone sends nothing. */
static void require_traffic(const world *w)
{
    uint64_t traffic[2] = {0, 0};

    for (int i = 0; i < 2; i++) {
        const tlc_mpi *h = i ? w->server : w->worker;
        tlc_mpi_stats stats = {.struct_size = sizeof stats};
        if (h)
            require_status(tlc_mpi_get_stats(h, &stats), TLC_OK);
        traffic[0] += stats.sent;
        traffic[1] += stats.received;
    }
    MPI_Allreduce(MPI_IN_PLACE, traffic, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    require(traffic[0] == traffic[1] && (ranks == 1) == !traffic[0]);
}

/* The outcome is that of the first server that has something to say. */
static void require_outcome(const world *w)
{
    const member alone = w->f.worker[rank];
    tlc_outcome ours = {.struct_size = sizeof ours}, theirs = member_outcome(alone, 0);

    for (uint32_t i = 1; i < w->l.servers && !theirs.status && !theirs.cause; i++)
        theirs = member_outcome(alone, i);
    require_status(tlc_mpi_outcome(w->worker, &ours), TLC_OK);
    require(ours.status == theirs.status && ours.cause == theirs.cause && ours.rank == theirs.rank);
    require(ours.status == w->f.pulled[rank] && strcmp(ours.sentence, theirs.sentence) == 0);
}

/* A rank that is a worker, a server, or both, step by step. */
static void play(layout l)
{
    uint64_t updates = 0;
    world w;

    world_open(&w, l, 0);
    for (uint64_t step = 1; step <= STEPS; step++) {
        const void *grads[TENSORS];
        play_alone(&w, step);
        results_wipe(&w.r, &w.f);
        if (w.worker)
            require_status(tlc_mpi_worker_start(w.worker, grads_of(&w.f, grads), 1, w.r.out), TLC_OK);
        if (w.server) {
            tlc_status status = w.f.reduced[server_of(l)];
            require_status(tlc_mpi_server_start(w.server), TLC_OK);
            require_status(tlc_mpi_wait(w.server), status);
            require_status(halve(&updates, tlc_mpi_server_object(w.server), w.delta), TLC_OK);
            if (update_fails(step, (uint32_t)server_of(l), l.servers))
                w.delta[0][0] = NAN;
            require_status(tlc_mpi_server_answer(w.server, (const float *const *)w.delta), TLC_OK);
        }
        if (w.worker) {
            require_status(tlc_mpi_wait(w.worker), w.f.pulled[rank]);
            require_results(&w.r, &w.f);
            require_outcome(&w);
        }
    }
    if (w.worker)
        require_same_states((member){.worker = tlc_mpi_worker_object(w.worker)}, w.f.worker[rank]);
    if (w.server)
        require_same_states((member){.server = tlc_mpi_server_object(w.server)}, w.f.owner[server_of(l)]);
    require_traffic(&w);
    world_close(&w);
}

static void beside(void)
{
    play((layout){(uint32_t)ranks, 1});
    if (ranks >= 3)
        play((layout){(uint32_t)ranks, 3});
    if (ranks >= 4)
        play((layout){(uint32_t)ranks - 1, 3}); /* two are both, one is a server only, others are workers */
}

static void apart(void)
{
    if (ranks >= 2)
        play((layout){(uint32_t)ranks - 1, 1});
    if (ranks >= 4)
        play((layout){(uint32_t)ranks - 3, 3});
}

/* Servers that run until their workers have left. Workers take different numbers of steps; who has left is not waited
 * for. */
static void run_servers(void)
{
    const layout l = {(uint32_t)ranks - 1, 1};
    const uint64_t steps = 5;
    uint64_t updates = 0;
    world w;

    if (ranks < 2)
        return;
    world_open(&w, l, 0);
    if (w.server) {
        require_status(tlc_mpi_server_run(w.server, halve, &updates), TLC_OK);
        require(updates == steps + l.workers - 1);
    }
    for (uint64_t step = 1; w.worker && step <= steps + (uint64_t)rank; step++) {
        const void *grads[TENSORS];
        fleet_gradients(&w.f, step);
        require_status(tlc_mpi_worker_start(w.worker, grads_of(&w.f, grads), 1, w.r.out), TLC_OK);
        require_status(tlc_mpi_wait(w.worker), TLC_OK);
        tlc_outcome o = {.struct_size = sizeof o};
        require_status(tlc_mpi_outcome(w.worker, &o), TLC_OK);
        for (int i = 0; i < (int)l.workers; i++)
            require((o.taken[i / 8] >> i % 8 & 1) == (step <= steps + (uint64_t)i));
    }
    world_close(&w);
}

/* With backup workers nobody waits for the slowest one. It gets all answers, in order. */
static void backups(void)
{
    const layout l = {(uint32_t)ranks - 1, 1};
    const int slow = (int)l.workers - 1;
    const uint64_t steps = 4; /* as many answers as servers keep: nobody waits for the slow one */
    world w;

    if (ranks < 3)
        return;
    world_open(&w, l, 1);
    if (w.server)
        require_status(tlc_mpi_server_run(w.server, NULL, NULL), TLC_OK);
    if (w.worker && rank == slow) /* comes after the others have done all steps */
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (uint64_t step = 1; w.worker && step <= steps; step++) {
        const void *grads[TENSORS];
        fleet_gradients(&w.f, step);
        require_status(tlc_mpi_worker_start(w.worker, grads_of(&w.f, grads), 1, w.r.out), TLC_OK);
        require_status(tlc_mpi_wait(w.worker), TLC_OK);
    }
    if (w.worker && rank == 0)
        MPI_Send(NULL, 0, MPI_BYTE, slow, 1, MPI_COMM_WORLD);
    if (w.worker) {
        tlc_exchange_stats stats = member_stats((member){.worker = tlc_mpi_worker_object(w.worker)});
        require(stats.late == (rank == slow ? steps : 0));
    }
    world_close(&w);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static tlc_allocator behind;

static void *take_little(void *opaque, size_t size)
{
    return size < 1 << 20 ? behind.alloc(opaque, size) : NULL;
}

/* More answers to keep than there is memory for. All ranks hear of it, and what was taken is given back. */
static void keeps_too_much(void)
{
    char sentence[60];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.exchange.servers = 1;
    s.exchange.workers = (uint32_t)ranks - 1;
    s.exchange.keep = UINT32_MAX;
    behind = s.exchange.alloc;
    s.exchange.alloc.alloc = take_little;
    if (ranks < 2)
        return;
    snprintf(sentence, sizeof sentence, "rank %d: out of memory", ranks - 1);
    require_all_told(&s,
                     rank == ranks - 1 ? tlc_mpi_server_create(&h, &s.cfg, NULL) : tlc_mpi_worker_create(&h, &s.cfg),
                     TLC_ERR_NOMEM, (uint32_t)ranks - 1, TLC_ALL, sentence);
    require(!h && !s.memory.used);
}

const mpi_test server_tests[] = {
    {"workers that are servers", beside},          {"servers on ranks of their own", apart},
    {"tlc_mpi_server_run", run_servers},           {"backup workers", backups},
    {"answers that have no room", keeps_too_much}, {NULL, NULL},
};
