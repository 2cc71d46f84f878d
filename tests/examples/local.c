/* SPDX-License-Identifier: MIT
 *
 * Two ranks train alone for 20 steps, then exchange the changes of their weights (DiLoCo), here in one process: your
 * program carries the messages.
 */
#include <stdio.h>
#include <threelc/exchange.h>
#include <threelc/local.h>

enum { RANKS = 2, N = 100000, ROUNDS = 40, EVERY = 20 };
static float weights[RANKS][N], common[RANKS][N], momentum[RANKS][N], residual[RANKS][N], change[N];

/* Your training; here rank 1 wants larger weights than rank 0. */
static void train(int rank)
{
    for (int step = 0; step < EVERY; step++)
        for (int i = 0; i < N; i++)
            weights[rank][i] -= 0.01f * (weights[rank][i] - (float)(i % 1009 + (rank ? 1 : -1) * (i % 7)) / 512);
}

int main(void)
{
    const void *pushed[] = {change};
    void *pulled[] = {change};
    tlc_message to[RANKS][RANKS], from[RANKS];
    tlc_local_tensor local[RANKS];
    tlc_local_config cfg;
    tlc_exchange_config exchange;
    tlc_exchange_stats stats;
    tlc_allreduce *object[RANKS];
    tlc_tensor tensor;

    tlc_exchange_stats_init(&stats, sizeof stats);
    tlc_local_config_init(&cfg, sizeof cfg);
    cfg.rate = 0.7f;
    cfg.momentum = 0.6f;
    cfg.nesterov = 1;
    tlc_exchange_config_init(&exchange, sizeof exchange);
    exchange.workers = RANKS;
    exchange.gather = 1; /* changes are compressed once */
    exchange.push = "topk:p=0.1,bits=2,block=4096+golomb";
    tlc_tensor_init(&tensor, sizeof tensor);
    tensor.name = "weights";
    tensor.n = N;
    for (int r = 0; r < RANKS; r++) {
        tensor.residual = residual[r];
        if (tlc_allreduce_create(&object[r], &exchange, (uint32_t)r, &tensor, 1))
            return 1;
        tlc_local_tensor_init(&local[r], sizeof local[r]);
        local[r].n = N;
        local[r].common = common[r]; /* the same start on all ranks, here 0 */
        local[r].momentum = momentum[r];
        local[r].residual = residual[r];
        local[r].weights = weights[r];
    }
    for (int round = 1; round <= ROUNDS; round++) {
        for (int r = 0; r < RANKS; r++) {
            train(r);
            if (tlc_local_change(&cfg, &local[r], change) || tlc_allreduce_push(object[r], pushed, 1, to[r]))
                return 1;
        }
        for (int r = 0; r < RANKS; r++)
            from[r] = to[r][0]; /* with gather all get the same message */
        for (int r = 0; r < RANKS; r++)
            if (tlc_allreduce_pull(object[r], from, pulled) || tlc_local_outer(&cfg, &local[r], change) ||
                tlc_local_start(&cfg, &local[r]))
                return 1;
        if (round % 10 == 0 && !tlc_allreduce_stats(object[0], &stats))
            printf("round %d: weight 768 is %.3f, %d bytes were sent\n", round, common[0][768], (int)stats.sent);
    }
    for (int r = 0; r < RANKS; r++)
        tlc_allreduce_destroy(object[r]);
    return 0;
}
