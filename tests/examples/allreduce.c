/* SPDX-License-Identifier: MIT
 *
 * An all-reduce between processes, without MPI: sockets.h carries the messages, to any number of ranks.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <threelc/exchange.h>
#include "sockets.h"

enum { WEIGHTS = 99000, BIAS = 1000, N = WEIGHTS + BIAS };
static float model[N], grad[N];

int main(void)
{
    tlc_message to[RANKS], from[RANKS], answer;
    tlc_exchange_stats stats;
    tlc_exchange_config cfg;
    tlc_allreduce *object;
    tlc_tensor tensors[2];
    void *parts[2]; /* of grad */
    const int rank = start();

    tlc_exchange_stats_init(&stats, sizeof stats);
    for (int t = 0; t < 2; t++) {
        tlc_tensor_init(&tensors[t], sizeof tensors[t]);
        tensors[t].name = t ? "bias" : "weights";
        tensors[t].n = t ? BIAS : WEIGHTS;
    }
    need(!tlc_tensor_pointers(grad, TLC_F32, tensors, 2, parts));
    tlc_exchange_config_init(&cfg, sizeof cfg); /* 3lc in both directions */
    cfg.workers = RANKS;
    need(!tlc_allreduce_create(&object, &cfg, (uint32_t)rank, tensors, 2));
    largest = tlc_allreduce_message_bound(object);
    for (int i = 0; i < RANKS; i++)
        need((inbox[i] = malloc(largest)) != NULL);
    for (int step = 1; step <= 40; step++) {
        for (int i = 0; i < N; i++) /* your gradient; here ranks want different weights */
            grad[i] = model[i] - (float)(i % 1009 + (rank - 1) * (i % 7)) / 512;
        need(!tlc_allreduce_push(object, (const void *const *)parts, 1, to));
        carry(to, from);
        need(!tlc_allreduce_reduce(object, from, &answer)); /* the mean of the parts that this rank owns */
        for (int i = 0; i < RANKS; i++)
            to[i] = answer;
        carry(to, from);
        need(!tlc_allreduce_pull(object, from, parts));
        for (int i = 0; i < N; i++) /* on all ranks, with the same bits */
            model[i] -= 0.25f / (float)(1 << step / 10) * grad[i];
        if (rank == 0 && step % 10 == 0 && !tlc_allreduce_stats(object, &stats))
            printf("step %d: weight 768 is %.3f, %d bytes were sent\n", step, model[768], (int)stats.sent);
    }
    tlc_allreduce_destroy(object);
    for (int i = 0; i < RANKS; i++)
        free(inbox[i]);
    for (int i = 1, status = 0; rank == 0 && i < RANKS; i++)
        need(wait(&status) > 0 && !status);
    return 0;
}
