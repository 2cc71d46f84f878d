/* SPDX-License-Identifier: MIT
 *
 * Tests of libthreelc-mpi: all ranks of MPI_COMM_WORLD run the same tests. `require` on any rank ends the job.
 */
#ifndef TLC_TEST_MPI_RUN_H
#define TLC_TEST_MPI_RUN_H

#include "../support/exchange_run.h"
#include <threelc/mpi.h>

extern int rank, ranks; /* of MPI_COMM_WORLD */

/* What the library sends: MPI's profiling interface sees it. */
typedef struct mpi_sends {
    int left;                 /* that succeed; -1: all do */
    int first;                /* to whom the first one went; -1: none did yet */
    uint64_t messages, bytes; /* to others */
} mpi_sends;
extern mpi_sends sends;

typedef struct mpi_test {
    const char *name;
    void (*run)(void);
} mpi_test;

/* each up to NULL */
extern const mpi_test allreduce_tests[], server_tests[], gossip_tests[], message_tests[], create_tests[],
    compare_tests[], config_tests[], failure_tests[], graph_tests[], handle_tests[], kinds_tests[], memory_tests[],
    mode_tests[], several_tests[];

/* The same text on all ranks. */
void require_same_text(const char *text);

tlc_mpi_config mpi_config(const tlc_exchange_config *exchange, const tlc_tensor *tensors, size_t count);

/* ---- the same run in one process -----------------------------------------------------------------------------------
 *
 * Each rank also plays the whole exchange by itself, as a fleet, and compares bit for bit. */

/* What worker `rank` of the fleet pushes; the pointers lie in grads. */
const void *const *grads_of(const fleet *f, const void *grads[TENSORS]);

/* In one step the optimizer of one owner cannot go on. */
enum { BAD_UPDATE = 11 };
int update_fails(uint64_t step, uint32_t owner, uint32_t owners);

/* fleet_half, but for that owner in that step: one of its deltas is not finite. */
const float *const *half_or_nan(fleet *f, uint32_t owner);

/* Results of this rank. */
typedef struct results {
    void *out[TENSORS];
} results;
void results_open(results *r, const fleet *f);
void results_wipe(results *r, const fleet *f); /* fills them with OUT_FILL, as fleet_pull does first */
void results_close(results *r);
void require_results(const results *r, const fleet *f); /* they are those of worker `rank` */
#endif
