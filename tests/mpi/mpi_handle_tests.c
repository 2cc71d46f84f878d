/* SPDX-License-Identifier: MIT
 *
 * What handles say: results of steps that end without a wait, and statistics. All ranks fail together here, so that
 * nobody waits. MPI may keep messages of handles that broke.
 */
#include "mpi_scene.h"
#include <math.h>

/* ---- tlc_mpi_test ------------------------------------------------------------------------------------------------ */

/* Asks until the step has ended. */
static tlc_status test_to_end(tlc_mpi *h)
{
    tlc_status status;
    int done = 0;

    do {
        status = tlc_mpi_test(h, &done);
        require(done == 1 || (!done && !status));
    } while (!done);
    return status;
}

/* The same of a worker and a server. */
static void servers_tested(void)
{
    tlc_mpi *worker = NULL, *server = NULL;
    int done = 7;
    scene s;

    scene_set(&s);
    s.exchange.servers = s.exchange.workers = (uint32_t)ranks;
    require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
    require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_OK);
    for (int step = 0; step < 2; step++) {
        require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
        require_status(tlc_mpi_server_start(server), TLC_OK);
        require_status(test_to_end(server), TLC_OK);
        require_status(tlc_mpi_test(server, &done), TLC_ERR_ORDER);
        require(!done);
        require_status(tlc_mpi_server_answer(server, NULL), TLC_OK);
        require_status(test_to_end(worker), TLC_OK);
        require_status(tlc_mpi_test(worker, &done), TLC_ERR_ORDER);
        require(!done);
    }
    tlc_mpi_destroy(worker);
    tlc_mpi_destroy(server);
    require(!s.memory.used);
}

static void steps_tested(void)
{
    const tlc_status no_memory = ranks > 1 ? TLC_ERR_NOMEM : TLC_OK;
    tlc_outcome found = {.struct_size = sizeof found};
    tlc_mpi *h = NULL;
    int done = 7;
    scene s;

    scene_set(&s);
    s.exchange.gather = 1;
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    require_status(tlc_mpi_test(h, &done), TLC_ERR_ORDER);
    require(!done && status_of(h) == TLC_ERR_ORDER);
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    scene_memory(&s, 0);
    tlc_status status = TLC_OK;
    for (done = 0; !done && !status;)
        status = tlc_mpi_test(h, &done);
    require(status == no_memory && done == !status && status_of(h) == status);
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    require(!status || strstr(found.sentence, "there is no memory for a message that came; the next call goes on"));
    scene_memory(&s, -1);
    if (status) {
        do
            require_status(tlc_mpi_test(h, &done), TLC_OK);
        while (!done);
        require(done == 1 && !status_of(h)); /* what was refused is forgotten */
    }
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    require_status(tlc_allreduce_cancel(tlc_mpi_allreduce_object(h)), TLC_OK);
    require_status(test_to_end(h), TLC_ERR_ORDER);
    require_status(tlc_mpi_test(h, &done), TLC_ERR_ORDER); /* it is broken, and says so always */
    require_status(tlc_mpi_wait(h), TLC_ERR_ORDER);
    tlc_mpi_destroy(h);
}

/* ---- calls of the object that fail ------------------------------------------------------------------------------- */

static tlc_status keep(void *arg, const tlc_allreduce *allreduce, float *const *delta)
{
    (void)allreduce;
    (void)delta;
    *(int *)arg = 1;
    return TLC_OK;
}

/* An owner whose object takes no pushes breaks, whatever it makes of them. All ranks are owners. */
static void owner_breaks(int has_update)
{
    tlc_mpi *h = NULL;
    int called = 0;
    scene s;

    scene_set(&s);
    s.exchange.split_n = 1;
    require_status(has_update ? tlc_mpi_owners_create(&h, &s.cfg, keep, &called) : tlc_mpi_allreduce_create(&h, &s.cfg),
                   TLC_OK);
    require(tlc_allreduce_parts(tlc_mpi_allreduce_object(h)));
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    require_status(tlc_allreduce_cancel(tlc_mpi_allreduce_object(h)), TLC_OK);
    require_status(tlc_mpi_wait(h), TLC_ERR_ORDER);
    require(!called && status_of(h) == TLC_ERR_ORDER);
    tlc_mpi_destroy(h);
}

/* The state of a worker that has made a step, alone with the server of rank `of`. */
static void step_alone(const scene *s, uint32_t of, tlc_message *state)
{
    tlc_message push, answer;
    tlc_worker *w = NULL;
    tlc_server *server = NULL;
    tlc_exchange_config cfg = s->exchange;
    float values[400] = {0};
    void *const out[] = {values, values};

    cfg.alloc = (tlc_allocator){NULL, NULL, NULL};
    require_status(tlc_worker_create(&w, &cfg, of, s->tensors, 2), TLC_OK);
    require_status(tlc_server_create(&server, &cfg, 0, s->tensors, 2), TLC_OK);
    require_status(tlc_worker_push(w, s->grads, 1, &push), TLC_OK);
    require_status(tlc_server_push(server, push, NULL), TLC_OK);
    require_status(tlc_server_reduce(server), TLC_OK);
    require_status(tlc_server_answer(server, NULL, &answer), TLC_OK);
    require_status(tlc_worker_pull(w, &answer, out), TLC_OK);
    size_t size = tlc_worker_state_size(w);
    void *bytes = malloc(size);
    require(bytes);
    require_status(tlc_worker_state_save(w, bytes, size, &size), TLC_OK);
    *state = (tlc_message){bytes, size};
    tlc_worker_destroy(w);
    tlc_server_destroy(server);
}

/* Workers that are a step ahead: their server breaks, and says so. They hear that it has ended. */
static void worker_is_ahead(int runs)
{
    tlc_outcome found = {.struct_size = sizeof found};
    scene s;

    if (ranks < 2)
        return;
    tlc_mpi *h = scene_server(&s);
    if (rank == ranks - 1) {
        if (runs)
            require_status(tlc_mpi_server_run(h, NULL, NULL), TLC_ERR_ORDER);
        else {
            require_status(tlc_mpi_server_start(h), TLC_OK);
            require_status(tlc_mpi_wait(h), TLC_ERR_ORDER);
        }
        require_status(tlc_mpi_outcome(h, &found), TLC_OK);
        require(found.status == TLC_ERR_ORDER && strstr(found.sentence, "sent step 2, this is step 1"));
        require_status(tlc_mpi_server_start(h), TLC_ERR_ORDER);
        require_status(tlc_mpi_server_answer(h, NULL), TLC_ERR_ORDER);
        require_status(tlc_mpi_server_run(h, NULL, NULL), TLC_ERR_ORDER);
    } else {
        tlc_message state;
        step_alone(&s, (uint32_t)rank, &state);
        require_status(tlc_worker_state_load(tlc_mpi_worker_object(h), &state, 1), TLC_OK);
        free((void *)(uintptr_t)state.data);
        scene_server_gone(&s, h);
    }
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

static void objects_fail(void)
{
    owner_breaks(0);
    owner_breaks(1);
    worker_is_ahead(0);
    worker_is_ahead(1);
}

/* ---- a server's optimizer --------------------------------------------------------------------------------------- */

static tlc_status count_steps(void *arg, const tlc_server *server, float *const *delta)
{
    tlc_part part = {.struct_size = sizeof part};

    for (size_t i = 0; !tlc_server_part(server, i, &part); i++)
        for (size_t k = 0; k < part.n; k++)
            delta[i][k] = (float)i + 1;
    ++*(int *)arg;
    return TLC_OK;
}

/* A server that has no memory for deltas has not begun: it serves when it has. In a step that fails there are none. */
static void server_runs(void)
{
    const float nans[400] = {NAN};
    int steps = 0;
    scene s;

    if (ranks < 2)
        return;
    tlc_mpi *h = scene_server(&s);
    if (rank == ranks - 1) {
        tlc_outcome found = {.struct_size = sizeof found};
        scene_memory(&s, 0);
        require_status(tlc_mpi_server_run(h, count_steps, &steps), TLC_ERR_NOMEM);
        require_status(tlc_mpi_outcome(h, &found), TLC_OK);
        require(found.status == TLC_ERR_NOMEM && strstr(found.sentence, ": there is no memory for the deltas"));
        scene_memory(&s, -1);
        require_status(tlc_mpi_server_run(h, count_steps, &steps), TLC_OK);
        require(steps == 2 && !status_of(h));
    } else
        for (int step = 0; step < 3; step++) {
            const void *const bad[] = {nans, nans};
            require_status(tlc_mpi_worker_start(h, step == 1 ? bad : s.grads, 1, s.out), TLC_OK);
            require_status(tlc_mpi_wait(h), step == 1 ? TLC_ERR_STEP : TLC_OK);
            require(step == 1 || (s.values[0] > 1.9f && s.values[0] < 2.1f)); /* of both tensors, the last one wrote */
        }
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

/* ---- tensors without values -------------------------------------------------------------------------------------- */

static tlc_status fail_if_called(void *arg, const tlc_allreduce *allreduce, float *const *delta)
{
    (void)allreduce;
    (void)delta;
    ++*(int *)arg;
    return TLC_ERR_PARAM;
}

static void no_values(void)
{
    tlc_mpi *h = NULL;
    int called = 0;
    scene s;

    scene_set(&s);
    s.tensors[0].n = 0;
    void *const second[] = {NULL, s.values};
    const void *const grads[] = {NULL, s.values};
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    require_status(tlc_mpi_allreduce(h, grads, second), TLC_OK);
    require_status(tlc_mpi_allreduce(h, grads, NULL), TLC_ERR_PARAM);
    tlc_mpi_destroy(h);
    s.tensors[1].n = 0;
    for (s.cfg.count = 0; s.cfg.count <= 2; s.cfg.count++) {
        require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
        require_status(tlc_mpi_allreduce(h, grads, NULL), TLC_OK);
        tlc_mpi_destroy(h);
        require_status(tlc_mpi_owners_create(&h, &s.cfg, fail_if_called, &called), TLC_OK);
        require_status(tlc_mpi_allreduce(h, grads, NULL), TLC_OK);
        tlc_mpi_destroy(h);
    }
    require(!called); /* nobody owns anything */
    require(!s.memory.used);
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

/* Makes steps with pieces of this size, and counts. A short message has one piece that is not full, or is empty. */
static void traffic(size_t chunk)
{
    uint64_t sums[2];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.cfg.chunk = chunk;
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    sends = (mpi_sends){.left = -1, .first = -1};
    for (int step = 0; step < 3; step++)
        require_status(tlc_mpi_allreduce(h, s.grads, s.out), TLC_OK);
    const tlc_mpi_stats stats = stats_of(h);
    require(stats.sent == sends.bytes && stats.messages == sends.messages);
    require(stats.codec > 0 && stats.codec < 60 && stats.waiting >= 0 && stats.waiting < 60);
    sums[0] = stats.sent;
    sums[1] = stats.received;
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    require(sums[0] == sums[1] && (sums[0] > 0) == (ranks > 1));
    tlc_mpi_stats first = {.struct_size = offsetof(tlc_mpi_stats, received)}, none = {.struct_size = 7};
    require_status(tlc_mpi_get_stats(h, &first), TLC_OK);
    require(first.sent == stats.sent && !first.received && !first.messages);
    require_status(tlc_mpi_get_stats(h, &none), TLC_ERR_PARAM);
    none.struct_size = 8;
    require_status(tlc_mpi_get_stats(h, &none), TLC_OK);
    require(!none.sent);
    tlc_mpi_destroy(h);
}

static void statistics(void)
{
    traffic(1);
    traffic(7);
    traffic(1 << 30);
}

/* Room to send is for pieces, not for bytes: a handle takes little more than its messages. */
static void room(void)
{
    enum { VALUES = 100000 };
    tlc_mpi *h = NULL;
    scene s;

    if (ranks < 2)
        return;
    scene_set(&s);
    s.exchange.servers = 1;
    s.exchange.workers = (uint32_t)ranks - 1;
    s.exchange.push = s.exchange.pull = "raw";
    s.tensors[0].n = VALUES;
    require_status(rank == ranks - 1 ? tlc_mpi_server_create(&h, &s.cfg, NULL) : tlc_mpi_worker_create(&h, &s.cfg),
                   TLC_OK);
    require(s.memory.largest < 8 * VALUES * sizeof(float));
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

/* Room for a message grows to twice as much each time: many pieces need few allocations, and little more than they
 * are. */
static void room_grows(void)
{
    enum { PIECE = 16, TIMES = 9, MOST = PIECE << (TIMES - 1) };
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.cfg.chunk = PIECE;
    s.exchange.gather = 1;
    s.exchange.push = "raw"; /* 2800 bytes, and little more */
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    scene_memory(&s, TIMES * (ranks - 1));
    s.memory.largest = 0;
    require_status(tlc_mpi_wait(h), TLC_OK);
    require(!s.memory.left && s.memory.largest == (ranks > 1 ? MOST : 0));
    scene_memory(&s, -1);
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

/* Ranks that are workers and servers send pieces of a byte, and what a rank gets is larger or smaller than what it
 * sends. There is room for both kinds of messages. */
static void room_for_both(void)
{
    for (int i = 0; i < 2; i++) {
        tlc_mpi *worker = NULL, *server = NULL;
        scene s;
        scene_set(&s);
        s.cfg.chunk = 1;
        s.exchange.servers = s.exchange.workers = (uint32_t)ranks;
        s.exchange.push = i ? "raw" : "onebit";
        s.exchange.pull = i ? "onebit" : "raw";
        s.exchange.split_n = 1;
        s.exchange.min_n = 0;
        require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
        require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_OK);
        require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
        require_status(tlc_mpi_server_start(server), TLC_OK);
        require_status(tlc_mpi_wait(server), TLC_OK);
        require_status(tlc_mpi_server_answer(server, NULL), TLC_OK);
        require_status(tlc_mpi_wait(worker), TLC_OK);
        tlc_mpi_destroy(worker);
        tlc_mpi_destroy(server);
        require(!s.memory.used);
    }
}

/* An outcome of another release, of steps and of refused calls. */
static void outcomes(void)
{
    tlc_outcome found;
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.tensors[1].name = "~\x7f\n\x1f\xff w";
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    void *const one[] = {s.values, NULL};
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, one), TLC_ERR_PARAM);
    found = (tlc_outcome){.struct_size = sizeof found};
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    require(strstr(found.sentence, ": tensor 1 (\"~???? w\"): its entry of out is NULL"));
    found = (tlc_outcome){.struct_size = offsetof(tlc_outcome, tensor), .sentence = "as before"};
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    require(found.status == TLC_ERR_PARAM && strcmp(found.sentence, "as before") == 0);
    found.struct_size = 7;
    require_status(tlc_mpi_outcome(h, &found), TLC_ERR_PARAM);
    found.struct_size = 8;
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    tlc_mpi_destroy(h);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

/* In all kinds, each rank sends to the next one first. */
static void require_next(const char *kind, int to, int first)
{
    at.note = kind;
    require(to == first);
}

static void turns(void)
{
    const tlc_graph complete = {.struct_size = sizeof complete, .kind = TLC_GRAPH_COMPLETE};
    const int next = (rank + 1) % ranks;
    tlc_mpi *worker = NULL, *server = NULL, *h = NULL;
    int first;
    MPI_Comm comm;
    scene s;

    if (ranks < 3)
        return;
    scene_set(&s);
    const float *const model[] = {s.values, s.values};
    s.exchange.split_n = 1;
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    sends.first = -1;
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    require_next("pushes", sends.first, next);
    sends.first = -1;
    require_status(tlc_mpi_wait(h), TLC_OK);
    require_next("answers", sends.first, next);
    tlc_mpi_destroy(h);
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &complete, &comm), TLC_OK);
    s.cfg.comm = comm;
    sends.first = -1;
    require_status(tlc_mpi_gossip_create(&h, &s.cfg, TLC_GOSSIP_DCD, model), TLC_OK);
    first = sends.first;
    sends.first = -1;
    require_status(tlc_mpi_gossip_start(h, model), TLC_OK);
    require(first == sends.first && first >= 0 && first != rank); /* a neighbour by its place in the list */
    require_status(tlc_mpi_wait(h), TLC_OK);
    MPI_Comm_free(&comm);
    tlc_mpi_destroy(h);
    s.cfg.comm = MPI_COMM_WORLD;
    s.exchange.servers = s.exchange.workers = (uint32_t)ranks;
    require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
    require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_OK);
    sends.first = -1;
    require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
    require_next("worker", sends.first, next);
    require_status(tlc_mpi_server_start(server), TLC_OK);
    require_status(tlc_mpi_wait(server), TLC_OK);
    sends.first = -1;
    require_status(tlc_mpi_server_answer(server, NULL), TLC_OK);
    require_next("server", sends.first, next);
    require_status(tlc_mpi_wait(worker), TLC_OK);
    tlc_mpi_destroy(worker);
    tlc_mpi_destroy(server);
    require(!s.memory.used);
}

const mpi_test handle_tests[] = {
    {"steps that are tested", steps_tested},
    {"steps of servers that are tested", servers_tested},
    {"objects that do not take what came", objects_fail},
    {"a server and its optimizer", server_runs},
    {"tensors without values", no_values},
    {"statistics", statistics},
    {"room for messages", room},
    {"room that grows", room_grows},
    {"room for messages to workers and servers", room_for_both},
    {"outcomes of handles", outcomes},
    {"all kinds send to the next rank first", turns},
    {NULL, NULL},
};
