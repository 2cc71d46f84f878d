/* SPDX-License-Identifier: MIT */
#include "mpi_run.h"
#include <math.h>
#include <stdio.h>

int rank, ranks;
mpi_sends sends = {.left = -1, .first = -1};

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    if (sends.left == 0)
        return MPI_ERR_NO_MEM;
    sends.left -= sends.left > 0;
    if (sends.first < 0)
        sends.first = dest;
    if (dest != rank) {
        sends.messages++;
        sends.bytes += (uint64_t)count;
    }
    return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

/* The longest text that MPI may have. */
int MPI_Error_string(int code, char *text, int *len)
{
    const int status = PMPI_Error_string(code, text, len);

    memset(text + *len, '~', (size_t)(MPI_MAX_ERROR_STRING - 1 - *len));
    text[ *len = MPI_MAX_ERROR_STRING - 1] = 0;
    return status;
}

static int number; /* of the last test */

static void run(const mpi_test *tests)
{
    for (; tests->name; tests++) {
        tests->run();
        MPI_Barrier(MPI_COMM_WORLD);
        number++;
        if (rank == 0)
            printf("ok %d - %s, %d ranks\n", number, tests->name, ranks);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    run(allreduce_tests);
    run(server_tests);
    run(gossip_tests);
    run(graph_tests);
    run(message_tests);
    run(create_tests);
    run(compare_tests);
    run(config_tests);
    run(failure_tests);
    run(handle_tests);
    run(several_tests);
    run(kinds_tests);
    run(memory_tests);
    run(mode_tests);
    if (rank == 0)
        printf("1..%d\n", number);
    MPI_Finalize();
    return 0;
}

void require_same_text(const char *text)
{
    char first[256] = "";

    snprintf(first, sizeof first, "%s", text);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    require(strcmp(first, text) == 0);
}

tlc_mpi_config mpi_config(const tlc_exchange_config *exchange, const tlc_tensor *tensors, size_t count)
{
    tlc_mpi_config cfg;

    require_status(tlc_mpi_config_init(&cfg, sizeof cfg, MPI_COMM_WORLD), TLC_OK);
    cfg.exchange = exchange;
    cfg.tensors = tensors;
    cfg.count = count;
    return cfg;
}

/* ---- the same run in one process --------------------------------------------------------------------------------- */

const void *const *grads_of(const fleet *f, const void *grads[TENSORS])
{
    if (f->absent[rank])
        return NULL;
    for (size_t t = 0; t < TENSORS; t++)
        grads[t] = f->grad[(size_t)rank * TENSORS + t];
    return grads;
}

int update_fails(uint64_t step, uint32_t owner, uint32_t owners)
{
    return step == BAD_UPDATE && owner == BAD_UPDATE % owners;
}

const float *const *half_or_nan(fleet *f, uint32_t owner)
{
    const float *const *delta = fleet_half(f, owner);

    if (update_fails(member_step(f->owner[owner]), owner, f->owners) && member_parts(f->owner[owner]))
        f->half[owner][0] = NAN;
    return delta;
}

void results_open(results *r, const fleet *f)
{
    for (size_t t = 0; t < TENSORS; t++) {
        r->out[t] = malloc(fleet_bytes(f, t) + 1);
        require(r->out[t]);
    }
    results_wipe(r, f);
}

void results_wipe(results *r, const fleet *f)
{
    for (size_t t = 0; t < TENSORS; t++)
        memset(r->out[t], OUT_FILL, fleet_bytes(f, t));
}

void results_close(results *r)
{
    for (size_t t = 0; t < TENSORS; t++)
        free(r->out[t]);
}

void require_results(const results *r, const fleet *f)
{
    for (size_t t = 0; t < TENSORS; t++)
        require(same(r->out[t], f->out[(size_t)rank * TENSORS + t], fleet_bytes(f, t)));
}
