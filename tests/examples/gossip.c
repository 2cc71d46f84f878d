/* SPDX-License-Identifier: MIT
 *
 * Gossip: four nodes in a ring, here in one process. There is no common model. Each node talks to its two neighbours.
 */
#include <stdio.h>
#include <threelc/gossip.h>

enum { NODES = 4, N = 100000 };
static float start[N], moved[N];
static const float *model[] = {start}, *result[] = {moved}; /* one pointer for each tensor */
static tlc_gossip *node[NODES];
static uint32_t neighbours[NODES][2];

static int make_nodes(void)
{
    tlc_exchange_config cfg;
    tlc_tensor tensor;
    tlc_graph ring;
    double weights[3];
    size_t degree;

    tlc_graph_init(&ring, sizeof ring);
    ring.kind = TLC_GRAPH_RING;
    ring.nodes = NODES;
    tlc_tensor_init(&tensor, sizeof tensor);
    tensor.name = "weights";
    tensor.n = N;
    tlc_exchange_config_init(&cfg, sizeof cfg); /* qsgd:bits=8: gossip needs codecs without bias */
    cfg.workers = NODES;
    for (uint32_t i = 0; i < NODES; i++)
        if (tlc_graph_neighbours(&ring, i, neighbours[i], weights, 2, &degree) ||
            tlc_gossip_create(&node[i], &cfg, TLC_GOSSIP_DCD, i, neighbours[i], weights, degree, &tensor, 1, model))
            return 1;
    return 0;
}

int main(void)
{
    tlc_message message[NODES], from[2];
    tlc_exchange_stats stats;

    tlc_exchange_stats_init(&stats, sizeof stats);
    if (make_nodes())
        return 1;
    for (int step = 1; step <= 40; step++) {
        for (int i = 0; i < NODES; i++) {
            const float *mean = tlc_gossip_mean(node[i], 0), *own = tlc_gossip_model(node[i], 0);
            for (int k = 0; k < N; k++) { /* your gradient; here each node wants other weights */
                float gradient = own[k] - (float)(k % 1009 + (2 * i - 3) * (k % 7)) / 512;
                moved[k] = mean[k] - 0.25f / (float)(1 << step / 10) * gradient;
            }
            if (tlc_gossip_push(node[i], result, &message[i]))
                return 1;
        }
        for (int i = 0; i < NODES; i++) { /* node i needs what its neighbours have sent */
            from[0] = message[neighbours[i][0]];
            from[1] = message[neighbours[i][1]];
            if (tlc_gossip_pull(node[i], from))
                return 1;
        }
        if (step % 10 == 0 && !tlc_gossip_stats(node[0], &stats)) {
            float sum = 0;
            for (int i = 0; i < NODES; i++) /* the result of a training is the mean of all models */
                sum += tlc_gossip_model(node[i], 0)[768];
            printf("step %d: weight 768 is %.3f, node 0 sent %d bytes\n", step, sum / NODES, (int)stats.sent);
        }
    }
    for (int i = 0; i < NODES; i++)
        tlc_gossip_destroy(node[i]);
    return 0;
}
