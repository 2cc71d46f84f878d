/* SPDX-License-Identifier: MIT
 *
 * What goes wrong in steps is told by the status of a call, and in words.
 */
#include "mpi_scene.h"

/* A rank without room for what comes can go on as soon as there is room. */
static void room_later(void)
{
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "w", .n = 5000, .only = TLC_NOBODY};
    float *values = calloc(5000, sizeof *values);
    const void *grads[] = {values};
    void *out[] = {values};
    tlc_status status;
    tlc_mpi *h = NULL;
    scene s;

    require(values);
    scene_set(&s);
    s.cfg.tensors = &tensor;
    s.cfg.count = 1;
    s.exchange.gather = 1;
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    require_status(tlc_mpi_allreduce_start(h, grads, 1, out), TLC_OK);
    scene_memory(&s, rank == 0 ? 0 : -1);
    status = tlc_mpi_wait(h);
    require_status(status, rank == 0 && ranks > 1 ? TLC_ERR_NOMEM : TLC_OK);
    scene_memory(&s, -1);
    if (status)
        require_status(tlc_mpi_wait(h), TLC_OK);
    tlc_mpi_destroy(h);
    require(!s.memory.used);
    free(values);
}

/* MPI fails, and its error handler returns: so do calls of the handle, from then on. */
static void broken(void)
{
    tlc_outcome found = {.struct_size = sizeof found};
    char text[MPI_MAX_ERROR_STRING];
    tlc_mpi *h = NULL;
    int len, done;
    scene s;

    if (ranks < 2)
        return;
    scene_set(&s);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    sends.left = 0; /* on all ranks, so that nobody waits */
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_ERR_TRANSPORT);
    sends.left = -1;
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    MPI_Error_string(MPI_ERR_NO_MEM, text, &len);
    require(found.status == TLC_ERR_TRANSPORT && strncmp(found.sentence, text, 199) == 0);
    require(len > 199 && strlen(found.sentence) == 199);
    require_status(tlc_mpi_wait(h), TLC_ERR_TRANSPORT);
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_ERR_TRANSPORT);
    require_status(tlc_mpi_test(h, &done), TLC_ERR_TRANSPORT);
    tlc_mpi_destroy(h);
}

/* The object of the last rank does not take what came: its handle is of no use from then on. That of others is. */
static void pull_fails(void)
{
    const tlc_status status = rank == ranks - 1 ? TLC_ERR_ORDER : TLC_OK;
    tlc_outcome found = {.struct_size = sizeof found};
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.exchange.gather = 1;
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    if (status)
        require_status(tlc_allreduce_cancel(tlc_mpi_allreduce_object(h)), TLC_OK);
    for (int i = 0; i < 2 && (status || !i); i++) {
        require_status(tlc_mpi_wait(h), status);
        require_status(tlc_mpi_outcome(h, &found), TLC_OK);
        require(found.status == status && (!status || strstr(found.sentence, "pull was called before push")));
    }
    if (status)
        require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), status);
    tlc_mpi_destroy(h);
}

/* The last call of the handle was refused: the outcome says so, and names this rank. */
static void refused(const tlc_mpi *h, tlc_status got, tlc_status want, size_t tensor, const char *sentence)
{
    tlc_outcome found = {.struct_size = sizeof found};
    char whole[300];

    require_status(got, want);
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    snprintf(whole, sizeof whole, "rank %d: %s", rank, sentence);
    if (strcmp(found.sentence, whole) != 0)
        fprintf(stderr, "\"%s\" instead of \"%s\"\n", found.sentence, whole);
    require(strcmp(found.sentence, whole) == 0);
    require(found.status == want && found.cause == want && found.rank == (uint32_t)rank && found.tensor == tensor);
}

/* Calls out of turn, and with handles of another kind. */
static void turns(void)
{
    const float *const *none = NULL;
    tlc_mpi *h = NULL, *nobody = NULL;
    int done;
    scene s;

    scene_set(&s);
    void *const one[] = {s.values, NULL};
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
#define REFUSED(call, want, tensor, sentence) refused(h, call, want, tensor, sentence)
#define OTHER_KIND(call, name)                                                                                         \
    REFUSED(call, TLC_ERR_PARAM, TLC_ALL, name " was called with the handle of an all-reduce")
    const char *const nothing = "tlc_mpi_wait was called, but no step was started";
    tlc_mpi_stats stats = {.struct_size = 1};
    REFUSED(tlc_mpi_wait(h), TLC_ERR_ORDER, TLC_ALL, nothing);
    REFUSED(tlc_mpi_wait_all(&h, 1), TLC_ERR_ORDER, TLC_ALL, nothing);
    require_status(tlc_mpi_wait_all(&h, 0), TLC_ERR_ORDER);
    REFUSED(tlc_mpi_test(h, &done), TLC_ERR_ORDER, TLC_ALL, "tlc_mpi_test was called, but no step was started");
    REFUSED(tlc_mpi_test(h, NULL), TLC_ERR_PARAM, TLC_ALL, "done is NULL");
    REFUSED(tlc_mpi_get_stats(h, &stats), TLC_ERR_PARAM, TLC_ALL,
            "stats is NULL, or its struct_size is smaller than 8");
    require_status(tlc_mpi_progress(&h, 1), TLC_OK);
    require_status(tlc_mpi_progress(&nobody, 1), TLC_OK);
    require_status(tlc_mpi_progress(NULL, 1), TLC_ERR_PARAM);
    REFUSED(tlc_mpi_allreduce_start(h, s.grads, 1, one), TLC_ERR_PARAM, 1,
            "tensor 1 (\"fc\"): its entry of out is NULL");
    REFUSED(tlc_mpi_allreduce_start(h, s.grads, 1, NULL), TLC_ERR_PARAM, 0, "tensor 0 (\"conv\"): out is NULL");
    REFUSED(tlc_mpi_allreduce_start(h, s.grads, 0, s.out), TLC_ERR_PARAM, TLC_ALL, "weight is 0; it is 2^-50 to 2^50");
    REFUSED(tlc_mpi_allreduce_start(h, (const void *const *)one, 1, s.out), TLC_ERR_PARAM, 1,
            "tensor 1 (\"fc\"): its entry of grads is NULL");
    OTHER_KIND(tlc_mpi_worker_start(h, s.grads, 1, s.out), "tlc_mpi_worker_start");
    OTHER_KIND(tlc_mpi_server_start(h), "tlc_mpi_server_start");
    OTHER_KIND(tlc_mpi_server_answer(h, none), "tlc_mpi_server_answer");
    OTHER_KIND(tlc_mpi_server_run(h, NULL, NULL), "tlc_mpi_server_run");
    OTHER_KIND(tlc_mpi_gossip_start(h, none), "tlc_mpi_gossip_start");
    OTHER_KIND(tlc_mpi_gossip_hello(h, 0), "tlc_mpi_gossip_hello");
    require(!tlc_mpi_worker_object(h) && !tlc_mpi_server_object(h) && !tlc_mpi_gossip_object(h));
    require(tlc_mpi_allreduce_object(h) && !tlc_mpi_allreduce_object(NULL));
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    require(!status_of(h)); /* what was refused before is forgotten */
    REFUSED(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_ERR_ORDER, TLC_ALL,
            "tlc_mpi_allreduce_start was called before tlc_mpi_wait has ended the last step");
    require_status(tlc_mpi_progress(&h, 1),
                   TLC_OK); /* alone, a rank ends the step here, but its result was not taken */
    REFUSED(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_ERR_ORDER, TLC_ALL,
            "tlc_mpi_allreduce_start was called before tlc_mpi_wait has ended the last step");
    require_status(tlc_mpi_wait(h), TLC_OK);
    tlc_outcome found = {.struct_size = sizeof found};
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    require(strcmp(found.sentence, "nothing is wrong") == 0); /* what was refused before is forgotten */
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    tlc_mpi_destroy(h); /* ends the step */
    tlc_mpi_destroy(NULL);
}

/* Calls of a rank that is worker and server which would wait for the rank itself: they are refused, and it goes on. */
static void waits_for_itself(void)
{
    tlc_mpi *worker = NULL, *server = NULL, *both[2];
    scene s;

    scene_set(&s);
    s.exchange.servers = s.exchange.workers = (uint32_t)ranks;
    require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
    require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_OK);
    both[0] = server;
    both[1] = worker;
    const char *const waits =
        "tlc_mpi_wait of the worker was called before tlc_mpi_server_answer of step 1 on this rank";
    tlc_mpi *h = server;
    REFUSED(
        tlc_mpi_server_run(server, NULL, NULL), TLC_ERR_PARAM, TLC_ALL,
        "tlc_mpi_server_run would wait for the worker of this rank; start the worker, then the server, in each step");
    REFUSED(tlc_mpi_server_answer(server, NULL), TLC_ERR_ORDER, TLC_ALL,
            "tlc_mpi_server_answer was called, but tlc_mpi_server_start and tlc_mpi_wait come first");
    require_status(tlc_mpi_server_start(server), TLC_OK);
    REFUSED(tlc_mpi_wait(server), TLC_ERR_ORDER, TLC_ALL,
            "tlc_mpi_wait of the server was called before tlc_mpi_worker_start of step 1 on this rank");
    h = worker;
    require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
    REFUSED(tlc_mpi_wait(worker), TLC_ERR_ORDER, TLC_ALL, waits);
    REFUSED(tlc_mpi_wait_all(both, 2), TLC_ERR_ORDER, TLC_ALL, waits);
    require_status(tlc_mpi_wait(server), TLC_OK);
    REFUSED(tlc_mpi_wait(worker), TLC_ERR_ORDER, TLC_ALL, waits);
    h = server;
    REFUSED(tlc_mpi_server_start(server), TLC_ERR_ORDER, TLC_ALL,
            "tlc_mpi_server_start was called before tlc_mpi_server_answer");
    REFUSED(tlc_mpi_wait(server), TLC_ERR_ORDER, TLC_ALL,
            "tlc_mpi_wait was called, but tlc_mpi_server_answer comes first");
    const float *const nothing[8] = {NULL};
    if (tlc_server_parts(tlc_mpi_server_object(server)))
        require_status(tlc_mpi_server_answer(server, nothing), TLC_ERR_PARAM); /* nothing was sent */
    require_status(tlc_mpi_server_answer(server, NULL), TLC_OK);
    require_status(tlc_mpi_wait(worker), TLC_OK);
    require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
    if (ranks == 1) { /* progress ends the server's step: it needs no wait, and the next one may start */
        require_status(tlc_mpi_server_start(server), TLC_OK);
        for (int i = 0; i < 3; i++)
            require_status(tlc_mpi_progress(both, 2), TLC_OK);
        require_status(tlc_mpi_server_answer(server, NULL), TLC_OK);
        require_status(tlc_mpi_wait(worker), TLC_OK);
        require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
        require_status(tlc_mpi_server_start(server), TLC_OK);
    }
    tlc_mpi_destroy(worker); /* in the middle of a step */
    tlc_mpi_destroy(server);
    require(!s.memory.used);
}

/* With backup workers, a server must not get ahead of the worker of its rank by more than the answers that it keeps. */
static void ahead_of_itself(void)
{
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    if (ranks < 2)
        return;
    scene_set(&s);
    s.exchange.servers = s.exchange.backup = 1;
    s.exchange.keep = 2;
    s.exchange.workers = (uint32_t)ranks;
    require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
    if (rank == ranks - 1)
        require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_OK);
    for (int step = 1; step <= 3; step++) {
        tlc_mpi *h = server;
        if (!server) {
            require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
            require_status(tlc_mpi_wait(worker), TLC_OK);
            continue;
        }
        require_status(tlc_mpi_server_start(server), TLC_OK);
        require_status(tlc_mpi_wait(server), TLC_OK);
        if (step == 3) {
            REFUSED(
                tlc_mpi_server_answer(server, NULL), TLC_ERR_ORDER, TLC_ALL,
                "tlc_mpi_server_answer was called, but the worker of this rank has not started step 1, whose answer "
                "is replaced");
            require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
        }
        require_status(tlc_mpi_server_answer(server, NULL), TLC_OK);
        if (step == 3)
            require_status(tlc_mpi_wait(worker), TLC_OK);
    }
    tlc_mpi_destroy(worker);
    tlc_mpi_destroy(server);
    require(!s.memory.used);
}

/* A server that ends while workers go on: they are told. */
static void server_ends(void)
{
    scene s;

    if (ranks < 2)
        return;
    tlc_mpi *h = scene_server(&s);
    if (rank < ranks - 1)
        scene_server_gone(&s, h);
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

/* Workers that leave in a step which the server of the last rank has answered, but no other one: nobody needs that
 * answer any more. */
static void answer_too_late(void)
{
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    scene_set(&s);
    s.exchange.servers = s.exchange.workers = (uint32_t)ranks;
    require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
    require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_OK);
    require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
    if (rank == ranks - 1) {
        require_status(tlc_mpi_server_start(server), TLC_OK);
        require_status(tlc_mpi_wait(server), TLC_OK);
        require_status(tlc_mpi_server_answer(server, NULL), TLC_OK);
    }
    tlc_mpi_destroy(worker);
    tlc_mpi_destroy(server);
    require(!s.memory.used);
}

/* A server that waits for pushes of workers that have all gone. */
static void workers_gone(void)
{
    tlc_outcome found = {.struct_size = sizeof found};
    scene s;

    if (ranks < 2)
        return;
    tlc_mpi *h = scene_server(&s);
    if (rank == ranks - 1) {
        require_status(tlc_mpi_server_start(h), TLC_OK);
        refused(h, tlc_mpi_wait(h), TLC_ERR_ORDER, TLC_ALL, "all workers have destroyed their handles");
        require_status(tlc_mpi_server_run(h, NULL, NULL), TLC_OK); /* as it should end: nothing is wrong */
        require_status(tlc_mpi_outcome(h, &found), TLC_OK);
        require(found.status == TLC_OK);
    }
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

static tlc_status give_up(void *arg, const tlc_server *server, float *const *delta)
{
    int *steps = arg;

    (void)server;
    (void)delta;
    return ++*steps < 3 ? TLC_OK : TLC_ERR_STEP;
}

/* An optimizer that fails, with any status, ends the server; its workers are told. */
static void optimizer_fails(void)
{
    int steps = 0;
    scene s;

    if (ranks < 2)
        return;
    tlc_mpi *h = scene_server(&s);
    if (rank == ranks - 1) {
        require_status(tlc_mpi_server_run(h, give_up, &steps), TLC_ERR_STEP);
        require(steps == 3);
    } else
        for (steps = 1; steps <= 3; steps++) {
            require_status(tlc_mpi_worker_start(h, s.grads, 1, s.out), TLC_OK);
            require_status(tlc_mpi_wait(h), steps < 3 ? TLC_OK : TLC_ERR_ORDER);
        }
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

const mpi_test failure_tests[] = {
    {"a rank with memory later", room_later},
    {"MPI fails", broken},
    {"a message that the object does not take", pull_fails},
    {"calls out of turn", turns},
    {"a rank that would wait for itself", waits_for_itself},
    {"a server ahead of the worker of its rank", ahead_of_itself},
    {"a server that ends", server_ends},
    {"an answer that comes too late", answer_too_late},
    {"workers that are gone", workers_gone},
    {"an optimizer that fails", optimizer_fails},
    {NULL, NULL},
};
