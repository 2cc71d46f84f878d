/* SPDX-License-Identifier: MIT
 *
 * Two levels, here in one process: two sites of two workers. The server of a site is a rank of an all-reduce between
 * the sites. So the slow line carries a value once for a site, not once for a worker.
 */
#include <stdbool.h>
#include <stdio.h>
#include <threelc/exchange.h>

enum { SITES = 2, WORKERS = 2, N = 100000 };
static float model[N], grad[N], agreed[N], result[N];
static const void *grads[] = {grad}; /* one pointer for each tensor */
static void *means[] = {agreed}, *results[] = {result};
static const float *deltas[] = {agreed};
static tlc_worker *worker[SITES][WORKERS];
static tlc_server *server[SITES];
static tlc_allreduce *between[SITES];
static size_t sent; /* by site 0 */
static bool failed;

static void make(void)
{
    tlc_exchange_config inside, outside;
    tlc_tensor tensor;

    tlc_tensor_init(&tensor, sizeof tensor);
    tensor.name = "weights";
    tensor.n = N;
    tlc_exchange_config_init(&inside, sizeof inside); /* 3lc */
    inside.workers = WORKERS;
    inside.servers = 1;
    tlc_exchange_config_init(&outside, sizeof outside);
    outside.workers = SITES;
    outside.gather = 1; /* few sites: each sends to all others */
    for (uint32_t s = 0; s < SITES && !failed; s++) {
        failed = tlc_server_create(&server[s], &inside, 0, &tensor, 1) ||
                 tlc_allreduce_create(&between[s], &outside, s, &tensor, 1);
        for (uint32_t w = 0; w < WORKERS; w++)
            failed |= tlc_worker_create(&worker[s][w], &inside, w, &tensor, 1);
    }
}

static void step(void)
{
    tlc_message push, to[SITES] = {{NULL, 0}}, from[SITES], answer;

    for (int s = 0; s < SITES && !failed; s++) { /* in each site */
        tlc_part part;
        for (int w = 0; w < WORKERS; w++) {
            for (int i = 0; i < N; i++) /* your gradient; here each worker wants other weights */
                grad[i] = model[i] - (float)(i % 1009 + (4 * s + 2 * w - 3) * (i % 7)) / 512;
            failed |= tlc_worker_push(worker[s][w], grads, 1, &push) || tlc_server_push(server[s], push, NULL);
        }
        tlc_part_init(&part, sizeof part);
        failed |= tlc_server_reduce(server[s]) || tlc_server_part(server[s], 0, &part);
        const void *mean = part.mean;
        failed |= tlc_allreduce_push(between[s], &mean, WORKERS, to);
        from[s] = to[s]; /* travels to the other site */
        sent += s == 0 ? to[s].len : 0;
    }
    for (int s = 0; s < SITES && !failed; s++) {
        failed |= tlc_allreduce_pull(between[s], from, means) || tlc_server_answer(server[s], deltas, &answer);
        for (int w = 0; w < WORKERS; w++) /* all workers of all sites get the same bits */
            failed |= tlc_worker_pull(worker[s][w], &answer, results);
    }
}

int main(void)
{
    make();
    for (int s = 1; s <= 40 && !failed; s++) {
        step();
        for (int i = 0; i < N; i++)
            model[i] -= 0.25f / (float)(1 << s / 10) * result[i];
        if (s % 10 == 0)
            printf("step %d: weight 1000 is %.3f, a site sent %d bytes\n", s, model[1000], (int)sent);
    }
    return failed;
}
