/* SPDX-License-Identifier: MIT
 *
 * A rank yields its processor when a look at its messages finds nothing, and at no other time. Messages of a rank to
 * itself have no other rank to wait for: the first look at a message finds nothing, each later one a piece of it, and
 * the sender hears some looks later that it came.
 */
#include "fault_scene.h"

/* Waits for a step. Returns how often the rank has yielded: that is the time that the handle has waited, by the clock
 * of the fake. */
static int yields_of(tlc_mpi *h)
{
    tlc_mpi_stats before = {.struct_size = sizeof before}, after = before;
    const int yields = fake_yields();

    require_status(tlc_mpi_get_stats(h, &before), TLC_OK);
    require_status(tlc_mpi_wait(h), TLC_OK);
    require_status(tlc_mpi_get_stats(h, &after), TLC_OK);
    require(after.waiting - before.waiting == fake_yields() - yields);
    return fake_yields() - yields;
}

/* A worker and its server on one rank. */
static void play_alone(int rank, int ranks)
{
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    (void)ranks;
    scene_set(&s, rank, 1, 1);
    require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
    require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_OK);
    for (int i = 0; i < 3; i++) {
        require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
        require_status(tlc_mpi_server_start(server), TLC_OK);
        require(yields_of(server) == 1);
        const int before = fake_yields();
        require_status(tlc_mpi_server_answer(server, NULL), TLC_OK);
        require(fake_yields() == before); /* there is room for the answer */
        require(yields_of(worker) == 1 + FAKE_LONG_WAIT);
    }
    tlc_mpi_destroy(worker);
    tlc_mpi_destroy(server);
    close_scene(&s);
}

void test_waits(void)
{
    (void)fake_run(1, (fake_fault){.rank = 0}, play_alone);
}
