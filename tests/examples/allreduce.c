/* SPDX-License-Identifier: MIT
 *
 * An all-reduce between two processes, without MPI. A pair of sockets connects them; a TCP connection between machines
 * of the same byte order does as well. With more ranks, to[i] goes to rank i, and from[i] comes from it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <threelc/exchange.h>

enum { N = 100000, LARGEST = 1 << 20 };
static float model[N], grad[N];
static const void *grads[] = {grad}; /* one pointer for each tensor */
static void *means[] = {grad};
static unsigned char inbox[LARGEST];
static FILE *out, *in; /* to the other process and from it */

static void need(int fine)
{
    if (!fine)
        exit(1);
}

static tlc_message swap(int rank, tlc_message to_other)
{
    uint64_t sent = to_other.len, came = 0;
    tlc_message from_other = {inbox, 0};

    for (int turn = 0; turn < 2; turn++) /* rank 0 sends first, so no process waits forever */
        if (turn == rank)
            need(fwrite(&sent, 8, 1, out) == 1 && fwrite(to_other.data, 1, to_other.len, out) == sent && !fflush(out));
        else
            need(fread(&came, 8, 1, in) == 1 && came <= LARGEST && fread(inbox, 1, (size_t)came, in) == came);
    from_other.len = (size_t)came;
    return from_other;
}

int main(void)
{
    tlc_message to[2], from[2], answer;
    tlc_exchange_stats stats;
    tlc_exchange_config cfg;
    tlc_allreduce *object;
    tlc_tensor tensor;
    int ends[2], rank;

    need(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    rank = fork() != 0;
    need((out = fdopen(ends[rank], "wb")) && (in = fdopen(dup(ends[rank]), "rb")) && !close(ends[!rank]));
    tlc_exchange_stats_init(&stats, sizeof stats);
    tlc_tensor_init(&tensor, sizeof tensor);
    tensor.name = "weights";
    tensor.n = N;
    tlc_exchange_config_init(&cfg, sizeof cfg); /* 3lc in both directions */
    cfg.workers = 2;
    need(!tlc_allreduce_create(&object, &cfg, (uint32_t)rank, &tensor, 1));
    for (int step = 1; step <= 40; step++) {
        for (int i = 0; i < N; i++) /* your gradient; here rank 1 wants larger weights than rank 0 */
            grad[i] = model[i] - (float)(i % 1009 + (rank ? 1 : -1) * (i % 7)) / 512;
        need(!tlc_allreduce_push(object, grads, 1, to));
        from[rank] = to[rank];
        from[!rank] = swap(rank, to[!rank]);
        need(!tlc_allreduce_reduce(object, from, &answer)); /* the mean of the parts that this rank owns */
        from[rank] = answer;
        from[!rank] = swap(rank, answer);
        need(!tlc_allreduce_pull(object, from, means));
        for (int i = 0; i < N; i++) /* on both ranks, with the same bits */
            model[i] -= 0.25f / (float)(1 << step / 10) * grad[i];
        if (rank == 1 && step % 10 == 0 && !tlc_allreduce_stats(object, &stats))
            printf("step %d: weight 768 is %.3f, %d bytes were sent\n", step, model[768], (int)stats.sent);
    }
    tlc_allreduce_destroy(object);
    return rank && wait(NULL) < 0;
}
