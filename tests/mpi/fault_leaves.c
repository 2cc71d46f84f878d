/* SPDX-License-Identifier: MIT
 *
 * Handles that leave while others go on, in the middle of a step or between steps.
 */
#include "fault_scene.h"
#include <sched.h>

/* What others wait for. */
static tlc_status tell(int from)
{
    int word = 1;

    return MPI_Bcast(&word, 1, MPI_INT, from, fake_world()) ? TLC_ERR_TRANSPORT : TLC_OK;
}

static tlc_status step(const scene *s, tlc_mpi *worker)
{
    const tlc_status status = went(worker, tlc_mpi_worker_start(worker, s->grads, 1, s->out));
    return status ? status : await(worker);
}

/* The server takes what comes meanwhile. Others go on in it. */
static void take_pushes(tlc_mpi *server)
{
    for (int i = 0; i < 8; i++) {
        require_status(tlc_mpi_progress(&server, 1), TLC_OK);
        (void)sched_yield();
    }
}

/* The server ends while the first worker waits for it and the others have not pushed, which they do after the first
 * one has heard: a server waits for no pushes any more. */
void play_server_gone(int rank, int ranks)
{
    const int is_server = rank == ranks - 1;
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks - 1, 1);
    s.cfg.chunk = 1 << 20; /* no push is longer on its way */
    tlc_status status = created(&s, is_server ? tlc_mpi_server_create(&h, &s.cfg, NULL)
                                              : tlc_mpi_worker_create(&h, &s.cfg));
    const int is_made = !status;
    if (is_server && !status)
        status = went(h, tlc_mpi_server_start(h));
    if (is_server && !status)
        take_pushes(h);
    if (is_server) {
        tlc_mpi_destroy(h);
        h = NULL;
    }
    if (rank == 0 && !status)
        require(step(&s, h) != TLC_OK);
    if (is_made && tell(0))
        status = TLC_ERR_TRANSPORT;
    if (rank && !is_server && !status)
        require(step(&s, h) != TLC_OK);
    tlc_mpi_destroy(h);
    close_scene(&s);
}

/* The last rank's worker leaves after a step. The pushes of others for the next step have come: its server takes them
 * when it goes on. */
void play_worker_gone(int rank, int ranks)
{
    const int is_server = rank == ranks - 1;
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks, 1);
    s.cfg.chunk = 1 << 20; /* no push is longer on its way */
    tlc_status status = created(&s, tlc_mpi_worker_create(&worker, &s.cfg));
    if (!status && is_server)
        status = created(&s, tlc_mpi_server_create(&server, &s.cfg, worker));
    if (!status)
        status = went(worker, tlc_mpi_worker_start(worker, s.grads, 1, s.out));
    if (!status && is_server)
        status = went(server, tlc_mpi_server_start(server));
    if (!status && is_server)
        status = await(server);
    if (!status && is_server)
        status = went(server, tlc_mpi_server_answer(server, NULL));
    if (!status)
        status = await(worker);
    for (int i = 0; i < 2 && !status && !is_server; i++)
        status = step(&s, worker);
    if (is_server)
        fake_dawdle(4);
    tlc_mpi_destroy(worker);
    while (!status && is_server) {
        status = went(server, tlc_mpi_server_run(server, NULL, NULL));
        if (!status)
            break;
        if (status == TLC_ERR_NOMEM)
            status = TLC_OK;
    }
    require(!is_server || !server || status || tlc_server_step(tlc_mpi_server_object(server)) == 4);
    tlc_mpi_destroy(server);
    close_scene(&s);
}

/* The second rank's server ends, which breaks the worker of the last rank. Its own server has the push of that worker,
 * and has not answered. The worker leaves first. */
void play_worker_broken(int rank, int ranks)
{
    tlc_mpi *worker = NULL, *server = NULL;
    int done = 0;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks, 2);
    s.cfg.chunk = 1 << 20; /* no push is longer on its way */
    tlc_status status = created(&s, tlc_mpi_worker_create(&worker, &s.cfg));
    if (!status && rank > 0)
        status = created(&s, tlc_mpi_server_create(&server, &s.cfg, worker));
    if (!status && rank != 1)
        status = went(worker, tlc_mpi_worker_start(worker, s.grads, 1, s.out));
    if (!status && rank == 2)
        status = went(server, tlc_mpi_server_start(server));
    if (!status && rank == 2)
        take_pushes(server);
    if (rank == 1) {
        fake_dawdle(4);
        tlc_mpi_destroy(server);
        server = NULL;
    }
    if (!status && rank == 0)
        require(await(worker) != TLC_OK);
    while (!status && !done && rank == 2) {
        status = went(worker, tlc_mpi_test(worker, &done));
        status = status == TLC_ERR_NOMEM ? TLC_OK : status;
        fake_dawdle(1);
        (void)sched_yield();
    }
    require(rank != 2 || status);
    tlc_mpi_destroy(worker);
    tlc_mpi_destroy(server);
    close_scene(&s);
}

/* A server that has ended has seen its worker off, too: other servers do not wait for the rank. */
void play_servers_first(int rank, int ranks)
{
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks, 2);
    tlc_status status = created(&s, tlc_mpi_worker_create(&worker, &s.cfg));
    if (!status && rank > 0)
        status = created(&s, tlc_mpi_server_create(&server, &s.cfg, worker));
    fake_dawdle(rank == 2 ? 2 : 0);
    tlc_mpi_destroy(server);
    if (!status && rank == 1)
        (void)tell(2);
    tlc_mpi_destroy(worker);
    if (!status && rank != 1)
        (void)tell(2);
    close_scene(&s);
}

/* One server ends while the answer of the other one is half there. That breaks the worker, which takes the rest when it
 * leaves. */
void play_half_answered(int rank, int ranks)
{
    tlc_mpi *h = NULL;
    scene s;

    (void)ranks;
    scene_set(&s, rank, 1, 2);
    s.exchange.split_n = 1;
    tlc_status status = created(&s, rank ? tlc_mpi_server_create(&h, &s.cfg, NULL) : tlc_mpi_worker_create(&h, &s.cfg));
    if (!status && !rank) {
        status = went(h, tlc_mpi_worker_start(h, s.grads, 1, s.out));
        fake_dawdle(4);
        require(status || await(h) != TLC_OK);
    }
    if (!status && rank == 2)
        status = went(h, tlc_mpi_server_start(h));
    if (!status && rank == 2)
        status = await(h);
    if (!status && rank == 2)
        (void)went(h, tlc_mpi_server_answer(h, NULL));
    tlc_mpi_destroy(h);
    close_scene(&s);
}

/* Each rank's gradients, whose means are in the same place after a step. */
static void set_values(scene *s, int value)
{
    for (int i = 0; i < 40; i++)
        s->values[i] = (float)value;
}

/* A step ends in destroy, which tries again if there was no memory: others wait for this rank. */
void play_at_once(int rank, int ranks)
{
    tlc_mpi *h = NULL;
    scene s;

    (void)ranks;
    scene_set(&s, rank, 0, 0);
    set_values(&s, rank);
    const tlc_status status = created(&s, tlc_mpi_allreduce_create(&h, &s.cfg));
    if (!status)
        (void)went(h, tlc_mpi_allreduce_start(h, s.grads, 1, s.out));
    tlc_mpi_destroy(h);
    require(status || fake_was_hit() || (s.values[0] == 1 && s.values[39] == 1));
    close_scene(&s);
}

/* The same of a worker. */
void play_worker_at_once(int rank, int ranks)
{
    const int is_server = rank == ranks - 1;
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks - 1, 1);
    set_values(&s, 2 * rank);
    tlc_status status = created(&s, is_server ? tlc_mpi_server_create(&h, &s.cfg, NULL)
                                              : tlc_mpi_worker_create(&h, &s.cfg));
    if (!status && is_server)
        while (went(h, tlc_mpi_server_run(h, NULL, NULL)) == TLC_ERR_NOMEM) {
        }
    else if (!status)
        (void)went(h, tlc_mpi_worker_start(h, s.grads, 1, s.out));
    tlc_mpi_destroy(h);
    require(status || is_server || fake_was_hit() || (s.values[0] == 1 && s.values[39] == 1));
    close_scene(&s);
}
