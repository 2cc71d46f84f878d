/* SPDX-License-Identifier: MIT
 *
 * All-reduce over MPI gives the bits that the same objects give in one process: results, states and outcomes, also in
 * steps that fail.
 */
#include "mpi_run.h"
#include <math.h>

enum { STEPS = 100, BAD_STEP = 7 };

/* ---- optimizers at the owners ------------------------------------------------------------------------------------ */

/* What fleet_half does. */
static tlc_status halve(void *arg, const tlc_allreduce *a, float *const *delta)
{
    tlc_part part = {.struct_size = sizeof part};

    for (size_t p = 0; !tlc_allreduce_part(a, p, &part); p++)
        for (size_t i = 0; i < part.n; i++)
            delta[p][i] = 0.5f * part.mean[i];
    ++*(size_t *)arg;
    return update_fails(tlc_allreduce_step(a), (uint32_t)rank, (uint32_t)ranks) ? TLC_ERR_NOMEM : TLC_OK;
}

/* ---- the same in one process ------------------------------------------------------------------------------------- */

/* updates: NULL, or how often the optimizer of this rank was called. */
static tlc_mpi *open_handle(const fleet *f, size_t chunk, size_t *updates)
{
    tlc_mpi_config cfg = mpi_config(&f->cfg, f->tensors, TENSORS);
    tlc_mpi *h = NULL;

    cfg.chunk = chunk;
    require_status(updates ? tlc_mpi_owners_create(&h, &cfg, halve, updates) : tlc_mpi_allreduce_create(&h, &cfg),
                   TLC_OK);
    return h;
}

static void require_same_outcome(const tlc_mpi *h, const fleet *f)
{
    tlc_outcome ours = {.struct_size = sizeof ours}, theirs = member_outcome(f->worker[rank], 0);

    require_status(tlc_mpi_outcome(h, &ours), TLC_OK);
    require(ours.status == theirs.status && ours.cause == theirs.cause && ours.rank == theirs.rank);
    require(ours.step == theirs.step && strcmp(ours.sentence, theirs.sentence) == 0);
}

/* In one step somebody's gradient is not finite, in others somebody is not in the round. */
static void set_scene(fleet *f, uint64_t step)
{
    const uint32_t odd = (uint32_t)(step % f->workers);

    fleet_gradients(f, step);
    for (uint32_t i = 0; i < f->workers; i++) {
        f->absent[i] = step % 5 == 0 && i == odd;
        f->weight[i] = step % 3 == 0 ? 1 + i : 1;
    }
    if (step == BAD_STEP) {
        const float nan = NAN;
        memcpy(f->grad[odd * TENSORS + 1], &nan, sizeof nan);
    }
}

/* The step fails on all ranks, and the fleet knows. */
static int step_fails(const fleet *f, uint64_t step)
{
    return step == BAD_STEP || (f->delta && step == BAD_UPDATE && member_parts(f->owner[BAD_UPDATE % f->owners]));
}

static void play_fleet(fleet *f, size_t chunk, size_t *updates, uint64_t steps)
{
    results r;

    results_open(&r, f);
    tlc_mpi *h = open_handle(f, chunk, updates);
    for (uint64_t step = 1; step <= steps; step++) {
        const void *grads[TENSORS];
        set_scene(f, step);
        results_wipe(&r, f);
        require_status(tlc_mpi_allreduce_start(h, grads_of(f, grads), f->weight[rank], r.out), TLC_OK);
        fleet_push(f);
        fleet_reduce(f);
        fleet_pull(f);
        require(f->pulled[rank] == (step_fails(f, step) ? TLC_ERR_STEP : TLC_OK));
        require_status(tlc_mpi_wait(h), f->pulled[rank]);
        require_results(&r, f);
        require_same_outcome(h, f);
    }
    require_same_states((member){.rank = tlc_mpi_allreduce_object(h)}, f->worker[rank]);
    tlc_mpi_destroy(h);
    results_close(&r);
}

static void play(fleet_kind kind, const tlc_tensor *tensors, const char *codec, size_t chunk, uint64_t steps)
{
    tlc_exchange_config cfg = fleet_config(kind, (uint32_t)ranks, tensors);
    fleet f;

    cfg.push = codec;
    fleet_open(&f, &cfg, tensors, 0);
    play_fleet(&f, chunk, NULL, steps);
    fleet_close(&f);
}

/* Owners answer with deltas. The optimizer is called in each step that has not failed by then. */
static void owners(void)
{
    static const char *const texts[] = {"3lc", "raw"};
    enum { UPDATES = 20 };

    for (size_t c = 0; c < COUNT(texts); c++) {
        tlc_exchange_config cfg = fleet_config(SHARDED, (uint32_t)ranks, small_tensors);
        size_t updates = 0;
        fleet f;
        cfg.push = texts[c];
        cfg.owners = (uint32_t)(c ? ranks : (ranks + 1) / 2);
        fleet_open(&f, &cfg, small_tensors, 0);
        f.delta = half_or_nan;
        play_fleet(&f, 1 << 30, &updates, UPDATES);
        require(updates == (member_parts(f.owner[rank]) ? UPDATES - 1 : 0));
        fleet_close(&f);
    }
}

static void sharded(void)
{
    play(SHARDED, large_tensors, "3lc", 1 << 30, STEPS);
    play(SHARDED, small_tensors, "sbc:p=0.1", 1 << 30, 20);
    play(SHARDED, small_tensors, "natural", 1, 4);
}

static void gathered(void)
{
    play(GATHERED, large_tensors, "3lc-golomb", 1 << 30, STEPS);
    play(GATHERED, small_tensors, "qsgd:bits=4", 3, 20);
}

/* Results may be written over the gradients. A rank of its own communicator has a rank of its own. */
static void in_place(void)
{
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "w", .n = 3, .only = TLC_NOBODY};
    tlc_exchange_config cfg;
    float values[3] = {1, -2, (float)rank};
    void *out[] = {values};
    const void *grads[] = {values};
    MPI_Comm half;
    tlc_mpi *h = NULL;
    int size;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.sum = 1;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_size(half, &size);
    tlc_mpi_config job = mpi_config(&cfg, &tensor, 1);
    require_status(tlc_mpi_config_init_fortran(&job, sizeof job, MPI_Comm_c2f(half)), TLC_OK);
    job.exchange = &cfg;
    job.tensors = &tensor;
    job.count = 1;
    require_status(tlc_mpi_allreduce_create(&h, &job), TLC_OK);
    MPI_Comm_free(&half); /* the handle has its own */
    require_status(tlc_mpi_allreduce(h, grads, out), TLC_OK);
    float sum = 0;
    for (int i = rank % 2; i < ranks; i += 2)
        sum += (float)i;
    require(values[0] == (float)size && values[1] == -2 * (float)size && values[2] == sum);
    tlc_mpi_destroy(h);
}

const mpi_test allreduce_tests[] = {
    {"sharded all-reduce", sharded},
    {"gathered all-reduce", gathered},
    {"all-reduce with optimizers at the owners", owners},
    {"in place, by a Fortran handle", in_place},
    {NULL, NULL},
};
