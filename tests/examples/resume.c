/* SPDX-License-Identifier: MIT
 *
 * A run that was saved on four ranks goes on with three: their states have all residuals, and nothing is lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <threelc/exchange.h>

enum { N = 100000, BEFORE = 4, AFTER = 3 };
static float model[N], grad[N], mean[N], rate = 0.25f;
static const void *grads[] = {grad};
static void *means[] = {mean};
static unsigned char file[BEFORE][6 * N]; /* tlc_allreduce_state_size says how much is needed */

/* All ranks of a run, here in one process. */
static void make(tlc_allreduce **rank, uint32_t ranks)
{
    tlc_tensor tensor;
    tlc_exchange_config cfg;
    tlc_tensor_init(&tensor, sizeof tensor);
    tensor.name = "weights";
    tensor.n = N;
    tlc_exchange_config_init(&cfg, sizeof cfg);
    cfg.workers = ranks;
    for (uint32_t r = 0; r < ranks; r++)
        if (tlc_allreduce_create(&rank[r], &cfg, r, &tensor, 1))
            exit(1);
}

static void step(tlc_allreduce **rank, int ranks)
{
    tlc_message to[BEFORE][BEFORE], from[BEFORE], answer[BEFORE];

    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < N; i++) /* your gradient; here each rank wants other weights */
            grad[i] = model[i] - (float)(i % 1009 + (2 * r + 1 - ranks) * (i % 7)) / 512;
        if (tlc_allreduce_push(rank[r], grads, 1, to[r]))
            exit(1);
    }
    for (int r = 0; r < ranks; r++) {
        for (int s = 0; s < ranks; s++)
            from[s] = to[s][r];
        if (tlc_allreduce_reduce(rank[r], from, &answer[r]))
            exit(1);
    }
    for (int r = 0; r < ranks; r++)
        if (tlc_allreduce_pull(rank[r], answer, means))
            exit(1);
    for (int i = 0; i < N; i++) /* on all ranks, with the same bits */
        model[i] -= rate * mean[i];
    rate *= 0.93f;
}

int main(void)
{
    tlc_allreduce *rank[BEFORE];
    tlc_message state[BEFORE];

    make(rank, BEFORE);
    for (int i = 0; i < 20; i++)
        step(rank, BEFORE);
    printf("%d ranks: weight 768 is %.2f\n", BEFORE, model[768]);
    for (int r = 0; r < BEFORE; r++) { /* each rank writes a file */
        if (tlc_allreduce_state_save(rank[r], file[r], sizeof file[r], &state[r].len))
            return 1;
        state[r].data = file[r];
        tlc_allreduce_destroy(rank[r]);
    }
    make(rank, AFTER);
    for (int r = 0; r < AFTER; r++) /* each rank reads all of them */
        if (tlc_allreduce_state_load(rank[r], state, BEFORE))
            return 1;
    for (int i = 0; i < 20; i++)
        step(rank, AFTER);
    printf("%d ranks, step %d: weight 768 is %.2f\n", AFTER, (int)tlc_allreduce_step(rank[0]) - 1, model[768]);
    for (int r = 0; r < AFTER; r++)
        tlc_allreduce_destroy(rank[r]);
    return 0;
}
