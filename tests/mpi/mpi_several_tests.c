/* SPDX-License-Identifier: MIT
 *
 * Several handles at once: which results there are, and that nothing happens to those without a step. All ranks fail
 * together here, so that nobody waits. MPI may keep messages of handles that broke.
 */
#include "mpi_scene.h"
#include <math.h>

enum { HANDLES = 4 };

/* Starts a step on all but the first handle. The second one's gradient is not finite if `fails`; the object of the
 * third one does not take what comes if `breaks`. */
static void start_all(scene *s, tlc_mpi *const *h, int fails, int breaks)
{
    float nans[400];
    const void *bad[] = {nans, nans};

    for (size_t i = 0; i < COUNT(nans); i++)
        nans[i] = NAN;
    require_status(tlc_mpi_allreduce_start(h[1], fails ? bad : s->grads, 1, s->out), TLC_OK);
    for (int i = 2; i < HANDLES; i++)
        require_status(tlc_mpi_allreduce_start(h[i], s->grads, 1, s->out), TLC_OK);
    if (breaks)
        require_status(tlc_allreduce_cancel(tlc_mpi_allreduce_object(h[2])), TLC_OK);
}

/* wait_all returns the first failure, by index, and leaves alone who has no step. */
static void waits(void)
{
    tlc_mpi *h[HANDLES] = {NULL};
    scene s;

    scene_set(&s);
    s.exchange.gather = 1;
    for (int i = 0; i < HANDLES; i++)
        require_status(tlc_mpi_allreduce_create(&h[i], &s.cfg), TLC_OK);
    tlc_mpi *const turned[] = {h[0], NULL, h[3], h[2], h[1]}, *const some[] = {NULL, h[0], h[1], h[2], h[3]};
    require_status(tlc_mpi_wait_all(NULL, 0), TLC_ERR_ORDER);
    require_status(tlc_mpi_wait_all(some, 2), TLC_ERR_ORDER);
    require_status(tlc_mpi_progress(NULL, 0), TLC_OK);
    require(status_of(h[0]) == TLC_ERR_ORDER);
    start_all(&s, h, 0, 0);
    require_status(tlc_mpi_progress(some, COUNT(some)), TLC_OK);
    require_status(tlc_mpi_wait_all(some, COUNT(some)), TLC_OK);
    require(!status_of(h[0])); /* what was refused is forgotten */
    require_status(tlc_mpi_wait_all(some, COUNT(some)), TLC_ERR_ORDER);
    for (int i = 0; i < HANDLES; i++)
        require(status_of(h[i]) == TLC_ERR_ORDER);
    start_all(&s, h, 1, 0);
    require_status(tlc_mpi_wait_all(turned, COUNT(turned)), TLC_ERR_STEP);
    require(status_of(h[1]) == TLC_ERR_STEP && !status_of(h[2]) && !status_of(h[3]) && !status_of(h[0]));
    start_all(&s, h, 1, 1);
    require_status(tlc_mpi_wait_all(some, COUNT(some)), TLC_ERR_STEP);
    require(status_of(h[1]) == TLC_ERR_STEP && status_of(h[2]) == TLC_ERR_ORDER && !status_of(h[3]));
    require_status(tlc_mpi_allreduce_start(h[1], s.grads, 1, s.out), TLC_OK);
    require_status(tlc_mpi_wait_all(turned, COUNT(turned)), TLC_ERR_ORDER); /* of the one that is broken */
    require(!status_of(h[1]));
    require_status(tlc_mpi_wait_all(turned, COUNT(turned)), TLC_ERR_ORDER);
    require(!status_of(h[1])); /* nothing was asked of it */
    for (int i = 0; i < HANDLES; i++)
        tlc_mpi_destroy(h[i]);
}

/* Lists of one handle or more that end at a guard page, or nearly, with and without a step. */
static void lists_end(void)
{
    heap memory = {.left = -1};
    const tlc_allocator a = heap_allocator(&memory);
    scene s;

    for (size_t count = 1; count <= 2; count++) {
        tlc_mpi **list = a.alloc(a.opaque, count * sizeof(void *));
        require(list);
        scene_set(&s);
        for (size_t i = 0; i < count; i++)
            require_status(tlc_mpi_allreduce_create(&list[i], &s.cfg), TLC_OK);
        require_status(tlc_mpi_wait_all(list, count), TLC_ERR_ORDER);
        for (size_t i = 0; i < count; i++)
            require_status(tlc_mpi_allreduce_start(list[i], s.grads, 1, s.out), TLC_OK);
        require_status(tlc_mpi_progress(list, count), TLC_OK);
        require_status(tlc_mpi_wait_all(list, count), TLC_OK);
        for (size_t i = 0; i < count; i++)
            tlc_mpi_destroy(list[i]);
        require(!s.memory.used);
        heap_empty(&memory);
    }
}

/* Nothing happens to handles without a step, whatever their kind. */
static void leaves_idle(tlc_mpi *const *h, size_t count)
{
    int done;

    for (size_t i = 0; i < count; i++) {
        require_status(tlc_mpi_wait(h[i]), TLC_ERR_ORDER);
        require_status(tlc_mpi_test(h[i], &done), TLC_ERR_ORDER);
        require(!done && status_of(h[i]) == TLC_ERR_ORDER);
    }
    require_status(tlc_mpi_progress(h, count), TLC_OK);
    require_status(tlc_mpi_wait_all(h, count), TLC_ERR_ORDER);
}

/* Each is refused by a function of another kind, which names its own. */
static void knows_kind(tlc_mpi *h, const char *kind, tlc_status got, const char *call)
{
    tlc_outcome found = {.struct_size = sizeof found};
    char sentence[200];

    require_status(got, TLC_ERR_PARAM);
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    snprintf(sentence, sizeof sentence, "rank %d: %s was called with the handle of %s", rank, call, kind);
    require(strcmp(found.sentence, sentence) == 0);
}

/* One step of each kind, while the others are idle. */
static void idle_handles(void)
{
    const tlc_graph ring = {.struct_size = sizeof ring, .kind = TLC_GRAPH_RING};
    tlc_mpi *h[HANDLES] = {NULL};
    MPI_Comm comm;
    scene s;

    scene_set(&s);
    const float *const model[] = {s.values, s.values};
    s.exchange.servers = s.exchange.workers = (uint32_t)ranks;
    require_status(tlc_mpi_worker_create(&h[0], &s.cfg), TLC_OK);
    require_status(tlc_mpi_server_create(&h[1], &s.cfg, h[0]), TLC_OK);
    s.exchange.servers = s.exchange.workers = 0;
    require_status(tlc_mpi_allreduce_create(&h[2], &s.cfg), TLC_OK);
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &ring, &comm), TLC_OK);
    s.cfg.comm = comm;
    require_status(tlc_mpi_gossip_create(&h[3], &s.cfg, TLC_GOSSIP_DCD, model), TLC_OK);
    MPI_Comm_free(&comm);
    knows_kind(h[0], "a worker", tlc_mpi_server_start(h[0]), "tlc_mpi_server_start");
    knows_kind(h[1], "a server", tlc_mpi_gossip_start(h[1], model), "tlc_mpi_gossip_start");
    knows_kind(h[2], "an all-reduce", tlc_mpi_server_start(h[2]), "tlc_mpi_server_start");
    knows_kind(h[3], "gossip", tlc_mpi_server_start(h[3]), "tlc_mpi_server_start");
    const double greeted = stats_of(h[3]).waiting;
    for (int step = 0; step < 2; step++) {
        leaves_idle(h, HANDLES);
        require_status(tlc_mpi_allreduce_start(h[2], s.grads, 1, s.out), TLC_OK);
        require_status(tlc_mpi_wait_all(h, HANDLES), TLC_OK);
        if (!step)
            require(stats_of(h[0]).waiting == 0 && stats_of(h[1]).waiting == 0 && stats_of(h[3]).waiting == greeted);
        leaves_idle(h, HANDLES);
        require_status(tlc_mpi_gossip_start(h[3], model), TLC_OK);
        require_status(tlc_mpi_wait_all(h, HANDLES), TLC_OK);
        leaves_idle(h, HANDLES);
        require_status(tlc_mpi_worker_start(h[0], s.grads, 1, s.out), TLC_OK);
        require_status(tlc_mpi_server_start(h[1]), TLC_OK);
        require_status(tlc_mpi_wait_all(h + 1, HANDLES - 1), TLC_OK);
        require_status(tlc_mpi_server_answer(h[1], NULL), TLC_OK);
        require_status(tlc_mpi_wait_all(h, HANDLES), TLC_OK);
    }
    for (int i = 0; i < HANDLES; i++)
        tlc_mpi_destroy(h[i]);
    require(!s.memory.used);
}

const mpi_test several_tests[] = {
    {"several handles, some of which fail", waits},
    {"lists of handles", lists_end},
    {"handles without a step", idle_handles},
    {NULL, NULL},
};
