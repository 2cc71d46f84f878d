/* SPDX-License-Identifier: MIT
 *
 * A parameter server and two workers, here in one process: your program carries the messages.
 */
#include <stdio.h>
#include <threelc/exchange.h>

enum { N = 100000 };
static float model[N], grad[N], mean[N];
static const void *grads[] = {grad}; /* one pointer for each tensor */
static void *means[] = {mean};
static tlc_tensor tensor;

int main(void)
{
    tlc_exchange_stats stats;
    tlc_exchange_config cfg;
    tlc_worker *worker[2];
    tlc_server *server;
    tlc_message push, answer;

    tlc_exchange_stats_init(&stats, sizeof stats);
    tlc_tensor_init(&tensor, sizeof tensor);
    tensor.name = "weights";
    tensor.n = N;
    tlc_exchange_config_init(&cfg, sizeof cfg); /* 3lc in both directions */
    cfg.workers = 2;
    cfg.servers = 1;
    if (tlc_server_create(&server, &cfg, 0, &tensor, 1) || tlc_worker_create(&worker[0], &cfg, 0, &tensor, 1) ||
        tlc_worker_create(&worker[1], &cfg, 1, &tensor, 1))
        return 1;
    for (int step = 1; step <= 40; step++) {
        for (int w = 0; w < 2; w++) {
            for (int i = 0; i < N; i++) /* your gradient; here worker 1 wants larger weights than worker 0 */
                grad[i] = model[i] - (float)(i % 1009 + (w ? 1 : -1) * (i % 7)) / 512;
            if (tlc_worker_push(worker[w], grads, 1, &push) || tlc_server_push(server, push, NULL))
                return 1;
        }
        if (tlc_server_reduce(server) || tlc_server_answer(server, NULL, &answer) ||
            tlc_worker_pull(worker[0], &answer, means) || tlc_worker_pull(worker[1], &answer, means))
            return 1;
        for (int i = 0; i < N; i++) /* on both workers, with the same bits */
            model[i] -= 0.25f / (float)(1 << step / 10) * mean[i];
        if (step % 10 == 0 && !tlc_worker_stats(worker[0], &stats))
            printf("step %d: weight 768 is %.3f, %d bytes were sent\n", step, model[768], (int)stats.sent);
    }
    tlc_worker_destroy(worker[0]);
    tlc_worker_destroy(worker[1]);
    tlc_server_destroy(server);
    return 0;
}
