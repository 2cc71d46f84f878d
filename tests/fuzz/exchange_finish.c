/* SPDX-License-Identifier: MIT
 *
 * Whole steps, and the last ones of a run.
 */
#include "exchange_calls.h"

enum { MOST_BEHIND = 8 };

static const values nothing = {NOBODY, 0, 1}, something = {DENSE, 7, 1};

static void serve(run *r, party *server)
{
    for (uint32_t w = 0; w < r->plan.cfg.workers; w++)
        (void)run_deliver(r, server, w);
    (void)run_reduce(r, server);
    (void)run_answer(r, server, 0, nothing);
}

tlc_status run_round(run *r, values v)
{
    const uint32_t workers = r->plan.cfg.workers;
    tlc_status first = TLC_OK;

    for (uint32_t i = 0; i < workers; i++)
        (void)run_push(r, &r->party[i], v);
    for (uint32_t i = 0; i < r->plan.cfg.servers; i++)
        serve(r, run_server(r, i));
    for (uint32_t i = 0; !r->plan.cfg.servers && !r->plan.cfg.gather && i < workers; i++)
        (void)run_reduce(r, &r->party[i]);
    for (uint32_t i = 0; i < workers; i++) {
        const tlc_status status = run_pull(r, &r->party[i]);
        first = first ? first : status;
    }
    return first;
}

/* The earliest step of these, and how many steps the last one is ahead. */
static uint64_t behind(const party *p, size_t count, uint64_t *earliest)
{
    uint64_t last = party_step(p);

    *earliest = last;
    for (size_t i = 1; i < count; i++) {
        const uint64_t step = party_step(&p[i]);
        *earliest = step < *earliest ? step : *earliest;
        last = step > last ? step : last;
    }
    return last - *earliest;
}

/* Ranks that are behind push nothing and cancel. */
static int gather_ranks(run *r)
{
    uint64_t earliest;

    for (size_t i = 0; i < r->parties; i++)
        if (r->party[i].turn != IDLE)
            (void)run_cancel(&r->party[i]);
    const uint64_t most = behind(r->party, r->parties, &earliest);
    for (size_t i = 0; most <= MOST_BEHIND && i < r->parties; i++)
        while (party_step(&r->party[i]) < earliest + most) {
            (void)run_push(r, &r->party[i], nothing);
            (void)run_cancel(&r->party[i]);
        }
    return most <= MOST_BEHIND;
}

/* A worker that begins anew leads the servers that are behind to the step of the others, and the workers join. A worker
 * can join only a step after that of its push. */
static int gather_servers(run *r)
{
    party *helper = &r->party[0];
    uint64_t earliest, first;

    for (uint32_t i = 0; i < r->plan.cfg.servers; i++) {
        (void)run_reduce(r, run_server(r, i));
        (void)run_answer(r, run_server(r, i), 0, nothing);
    }
    run_restart(r, helper);
    (void)behind(run_server(r, 0), r->plan.cfg.servers, &first);
    if (run_join(r, helper, first, 0) || behind(r->party, r->parties, &earliest) > MOST_BEHIND)
        return 0;
    const uint64_t last = earliest + behind(r->party, r->parties, &earliest) + 1;
    for (uint64_t step = first; step < last; step++) {
        require_status(run_join(r, helper, step, 0), TLC_OK);
        require_status(run_push(r, helper, nothing), TLC_OK);
        for (uint32_t i = 0; i < r->plan.cfg.servers; i++)
            if (party_step(run_server(r, i)) == step) {
                require_status(run_deliver(r, run_server(r, i), 0), TLC_OK);
                (void)run_reduce(r, run_server(r, i));
                require_status(run_answer(r, run_server(r, i), 0, nothing), TLC_OK);
            }
    }
    for (uint32_t i = 0; i < r->plan.cfg.workers; i++)
        require_status(run_join(r, &r->party[i], last, i % 2), TLC_OK);
    return 1;
}

void run_finish(run *r)
{
    if (r->plan.cfg.servers ? !gather_servers(r) : !gather_ranks(r))
        return;
    /* workers that joined only listen in the first step */
    for (uint32_t round = 0; round < 1 + (r->plan.cfg.servers > 0); round++) {
        const uint64_t step = party_step(&r->party[0]);
        const tlc_status status = run_round(r, something);
        require(status == TLC_OK || (status == TLC_ERR_STEP && !r->calm));
        for (size_t i = 0; i < r->parties; i++)
            require(party_step(&r->party[i]) == step + 1);
    }
}
