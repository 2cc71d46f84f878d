/* SPDX-License-Identifier: MIT
 *
 * What the nodes must have, as far as that is known, and what they made.
 */
#include "gossip_calls.h"
#include <math.h>
#include <xxhash.h>

uint64_t known_chain(uint64_t number, uint64_t next)
{
    const uint64_t digest = XXH3_64bits_withSeed(&next, sizeof next, number);
    return digest ? digest : 1;
}

void known_replicas(run *r, uint32_t i, uint64_t replica, int lost)
{
    for (size_t k = 0; k < run_row(r, i)->degree; k++) {
        const uint32_t j = run_row(r, i)->neighbour[k];
        r->known[i].replica[j] = replica;
        r->known[i].lost[j] = lost;
    }
}

void known_forget(run *r, uint32_t i)
{
    known *k = &r->known[i];

    k->own = r->plan.kind == TLC_GOSSIP_DCD ? node_model(&r->node[i]) : known_chain(0, ++r->forgotten);
    k->codecs = 0;
    known_replicas(r, i, 0, 0);
    for (size_t n = 0; n < run_row(r, i)->degree; n++)
        k->lost[run_row(r, i)->neighbour[n]] = tlc_gossip_lost(r->node[i].it, n);
}

void known_check(const run *r, uint32_t i)
{
    const gossip_row *row = run_row(r, i);

    require(node_model_below(&r->node[i], INFINITY));
    require(r->plan.kind == TLC_GOSSIP_ECD || r->known[i].own == node_model(&r->node[i]));
    for (size_t k = 0; k < row->degree; k++)
        require(tlc_gossip_lost(r->node[i].it, k) == r->known[i].lost[row->neighbour[k]]);
    require(!tlc_gossip_lost(r->node[i].it, row->degree));
}

made *made_add(run *r, tlc_message message, const known *before)
{
    made *m = &r->made[r->count++ % MOST_MADE];

    *m = (made){.digest = XXH3_64bits(message.data, message.len), .before = *before};
    return m;
}

const made *made_find(const run *r, const letter *l)
{
    const uint64_t digest = XXH3_64bits(l->bytes, l->len);

    for (size_t back = 1; l->genuine && back <= MOST_MADE && back <= r->count; back++)
        if (r->made[(r->count - back) % MOST_MADE].digest == digest)
            return &r->made[(r->count - back) % MOST_MADE];
    return NULL;
}
