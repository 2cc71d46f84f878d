/* SPDX-License-Identifier: MIT
 *
 * An all-reduce over MPI. One call takes the place of MPI_Allreduce: mpiexec -n 4 ./mpi
 */
#include <stdio.h>
#include <threelc/mpi.h>

enum { N = 100000 };
static float model[N], grad[N];
static const void *grads[] = {grad}; /* one pointer for each tensor */
static void *means[] = {grad};       /* the mean takes the place of the gradient */
static tlc_tensor tensor;

int main(int argc, char **argv)
{
    tlc_outcome outcome;
    tlc_mpi_stats stats;
    tlc_exchange_config exchange;
    tlc_mpi_config cfg;
    tlc_mpi *handle;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    tlc_outcome_init(&outcome, sizeof outcome);
    tlc_mpi_stats_init(&stats, sizeof stats);
    tlc_tensor_init(&tensor, sizeof tensor);
    tensor.name = "weights";
    tensor.n = N;
    tlc_exchange_config_init(&exchange, sizeof exchange); /* 3lc in both directions */
    tlc_mpi_config_init(&cfg, sizeof cfg, MPI_COMM_WORLD);
    cfg.exchange = &exchange;
    cfg.tensors = &tensor;
    cfg.count = 1;
    cfg.outcome = &outcome;
    if (tlc_mpi_allreduce_create(&handle, &cfg)) { /* on all ranks, and all get the same sentence */
        fprintf(stderr, "%s\n", outcome.sentence);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int step = 1; step <= 40; step++) {
        for (int i = 0; i < N; i++) /* your gradient; here each rank wants other weights */
            grad[i] = model[i] - (float)(i % 1009 + (2 * rank - 3) * (i % 7)) / 512;
        if (tlc_mpi_allreduce(handle, grads, means) == TLC_OK)
            for (int i = 0; i < N; i++) /* on all ranks, with the same bits */
                model[i] -= 0.25f / (float)(1 << step / 10) * grad[i];
        if (rank == 0 && step % 10 == 0 && !tlc_mpi_get_stats(handle, &stats))
            printf("step %d: weight 768 is %.3f, %d bytes were sent\n", step, model[768], (int)stats.sent);
    }
    tlc_mpi_destroy(handle);
    MPI_Finalize();
    return 0;
}
