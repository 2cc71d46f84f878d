/* SPDX-License-Identifier: MIT
 *
 * Whole steps, and the last ones of a run.
 */
#include "gossip_calls.h"

void run_round(run *r, const movement *m)
{
    for (uint32_t i = 0; i < r->nodes; i++)
        run_push(r, i, m);
    for (uint32_t i = 0; i < r->nodes; i++)
        (void)run_pull(r, i);
    for (uint32_t i = 0; i < r->nodes; i++)
        run_mean(r, i);
}

void run_meet(run *r, int full)
{
    for (uint32_t i = 0; i < r->nodes; i++)
        run_hello(r, i, full);
    for (uint32_t i = 0; i < r->nodes; i++)
        (void)run_greet(r, i, ~0U);
}

/* All have the codecs of the plan again. */
static void reset_codecs(run *r, uint32_t i)
{
    for (size_t t = 0; t < r->plan.common.count; t++) {
        const char *own = r->plan.common.tensor[t].push, *codec = own ? own : r->plan.common.cfg.push;
        fuzz_fold_number(tlc_gossip_set_codec(r->node[i].it, t, codec));
    }
    r->known[i].codecs = 1;
}

/* Nobody lost anybody, and all replicas are the models. */
static void require_together(const run *r)
{
    for (uint32_t i = 0; i < r->nodes; i++)
        for (size_t k = 0; k < r->plan.row[i].degree; k++) {
            const uint32_t j = r->plan.row[i].neighbour[k];
            require(!r->known[i].lost[j] && r->known[i].replica[j] == r->known[j].own);
        }
}

void run_finish(run *r)
{
    const movement some = {.way = DENSE, .seed = 7, .from_mean = 1};
    uint64_t last = 0;

    for (uint32_t i = 0; i < r->nodes; i++)
        if (party_step(&r->node[i]) > last)
            last = party_step(&r->node[i]);
    for (uint32_t i = 0; i < r->nodes; i++) {
        run_join(r, i, last + 1, NULL);
        reset_codecs(r, i);
    }
    run_meet(r, 1);
    for (uint64_t round = 0; round < 2; round++) {
        run_round(r, &some);
        for (uint32_t i = 0; i < r->nodes; i++)
            require(r->node[i].turn == IDLE && party_step(&r->node[i]) == last + 2 + round);
    }
    run_meet(r, 0);
    if (!r->plan.skewed)
        require_together(r);
}
