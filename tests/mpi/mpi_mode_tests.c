/* SPDX-License-Identifier: MIT
 *
 * E7 over MPI: one rank is in another float mode from create to destroy, and all have the bits of the usual one.
 */
#include "../support/float_modes.h"
#include "mpi_scene.h"

enum { STEPS = 3, VALUES = 700 };

/* What a rank has after some steps. */
typedef struct mode_results {
    float values[VALUES];
} mode_results;

/* No call leaves another mode behind. */
static void enter(float_mode in, uint64_t *mode)
{
    (void)mode_enter(in);
    *mode = mode_read();
}

static void leave(uint64_t mode)
{
    const int same_mode = mode_read() == mode;

    mode_leave();
    require(same_mode);
}

static void set_values(scene *s, int step)
{
    for (int i = 0; i < 400; i++)
        s->values[i] = (float)(i * (rank + 1) + step) / 1024;
}

/* `in` is what this rank enters for the calls of the library. */
static void allreduce(float_mode in, mode_results *r)
{
    uint64_t mode = 0;
    tlc_mpi *h = NULL;
    const volatile double weight = 1.0 / (3 + rank); /* volatile: it is computed before the mode changes */
    scene s;

    scene_set(&s);
    void *const out[] = {r->values, r->values + 300};
    enter(in, &mode);
    tlc_status status = tlc_mpi_allreduce_create(&h, &s.cfg);
    for (int step = 0; step < STEPS && !status; step++) {
        leave(mode);
        set_values(&s, step);
        enter(in, &mode);
        status = tlc_mpi_allreduce_start(h, s.grads, weight, out);
        if (!status)
            status = tlc_mpi_wait(h);
    }
    tlc_mpi_destroy(h);
    leave(mode);
    require_status(status, TLC_OK);
}

static void gossip(float_mode in, mode_results *r)
{
    const tlc_graph ring = {.struct_size = sizeof ring, .kind = TLC_GRAPH_RING};
    MPI_Comm comm = MPI_COMM_NULL;
    uint64_t mode = 0;
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    set_values(&s, 0);
    memset(s.values, 0, sizeof s.values); /* all nodes start with the same model */
    const float *const model[] = {s.values, s.values};
    enter(in, &mode);
    tlc_status status = tlc_mpi_graph_create(MPI_COMM_WORLD, &ring, &comm);
    s.cfg.comm = comm;
    if (!status)
        status = tlc_mpi_gossip_create(&h, &s.cfg, TLC_GOSSIP_DCD, model);
    for (int step = 0; step < STEPS && !status; step++) {
        leave(mode);
        set_values(&s, step);
        enter(in, &mode);
        status = tlc_mpi_gossip_start(h, model);
        if (!status)
            status = tlc_mpi_wait(h);
    }
    leave(mode);
    require_status(status, TLC_OK);
    memcpy(r->values, tlc_gossip_model(tlc_mpi_gossip_object(h), 0), 300 * sizeof(float));
    memcpy(r->values + 300, tlc_gossip_model(tlc_mpi_gossip_object(h), 1), 400 * sizeof(float));
    tlc_mpi_destroy(h);
    MPI_Comm_free(&comm);
}

static void same_bits(void (*play)(float_mode in, mode_results *r))
{
    mode_results usual, odd;

    play(MODE_DEFAULT, &usual);
    for (float_mode mode = MODE_UPWARD; mode < MODE_COUNT; mode++) {
        if (!has_mode(mode))
            continue;
        play(rank == ranks - 1 ? mode : MODE_DEFAULT, &odd);
        require(same(usual.values, odd.values, sizeof usual.values));
    }
}

static void modes_of_allreduce(void)
{
    same_bits(allreduce);
}

static void modes_of_gossip(void)
{
    same_bits(gossip);
}

const mpi_test mode_tests[] = {
    {"float modes of a rank, all-reduce", modes_of_allreduce},
    {"float modes of a rank, gossip", modes_of_gossip},
    {NULL, NULL},
};
