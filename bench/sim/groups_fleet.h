/* SPDX-License-Identifier: MIT
 *
 * All ranks of all sites of an exchange in groups (groups.h) in one process. Messages stay where their senders made
 * them. Ranks are counted through all sites: first those of site 0, then those of site 1.
 */
#ifndef BENCH_GROUPS_FLEET_H
#define BENCH_GROUPS_FLEET_H

#include "groups.h"

typedef struct groups_fleet {
    uint32_t sites, servers;
    uint32_t *first;      /* the first rank of site s; first[sites]: the number of ranks */
    groups *rank;         /* by rank */
    tlc_message *push;    /* [r * servers + i]: from rank r to server i of its site */
    tlc_message *across;  /* [(s * servers + i) * sites + t]: from server i of site s to that of site t */
    tlc_message *reduced; /* [i * sites + s]: of server i of site s, to those of all sites */
    tlc_message *answer;  /* [s * servers + i]: of server i of site s, to its ranks */
} groups_fleet;

typedef struct groups_fleet_options {
    uint32_t sites, servers;
    const uint32_t *ranks; /* of each site */
    const tlc_exchange_config *inside, *between;
    const tlc_tensor *(*tensors)(void *arg, uint32_t rank); /* those of a rank, with its residuals; */
    void *arg;                                              /* called when the rank is opened */
    size_t count;                                           /* of tensors */
} groups_fleet_options;

/* Whether or not it succeeds, the fleet is to be closed. */
tlc_status groups_fleet_open(groups_fleet *f, const groups_fleet_options *o);
void groups_fleet_close(groups_fleet *f);

static inline uint32_t groups_fleet_ranks(const groups_fleet *f)
{
    return f->first[f->sites];
}
uint32_t groups_fleet_site(const groups_fleet *f, uint32_t rank);
/* Server i of a site. */
static inline groups *groups_fleet_server(const groups_fleet *f, uint32_t site, uint32_t i)
{
    return &f->rank[f->first[site] + i];
}

/* The parts of a step, each for all who take part in it: groups_push comes first, for each rank. They return the first
 * failure. */
tlc_status groups_fleet_push(groups_fleet *f, uint32_t rank, const void *const *grads);
tlc_status groups_fleet_take(groups_fleet *f);         /* all pushes */
tlc_status groups_fleet_reduce(groups_fleet *f);       /* all servers */
tlc_status groups_fleet_take_sites(groups_fleet *f);   /* all pushes of sites */
tlc_status groups_fleet_reduce_sites(groups_fleet *f); /* all servers, for all sites */
tlc_status groups_fleet_answer(groups_fleet *f);       /* all servers */
tlc_status groups_fleet_pull(groups_fleet *f, uint32_t rank, void *const *out);

/* The same for server i of a site. */
tlc_status groups_fleet_take_at(groups_fleet *f, uint32_t site, uint32_t i);
tlc_status groups_fleet_reduce_at(groups_fleet *f, uint32_t site, uint32_t i);
tlc_status groups_fleet_take_sites_at(groups_fleet *f, uint32_t site, uint32_t i);
tlc_status groups_fleet_reduce_sites_at(groups_fleet *f, uint32_t site, uint32_t i);
tlc_status groups_fleet_answer_at(groups_fleet *f, uint32_t site, uint32_t i);

/* All of these between the pushes and the pulls. */
tlc_status groups_fleet_exchange(groups_fleet *f);

/* Bytes that a rank has sent to others in the last step: in its site, and to other sites. */
uint64_t groups_fleet_sent_inside(const groups_fleet *f, uint32_t rank);
uint64_t groups_fleet_sent_between(const groups_fleet *f, uint32_t rank);
#endif
