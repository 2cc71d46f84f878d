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

/* The parts of a step. groups_push comes first, for each rank. */
tlc_status groups_fleet_push(groups_fleet *f, uint32_t rank, const void *const *grads);
/* Then server i of a site: takes all pushes, reduces, takes all pushes of sites, reduces for all sites, answers. */
typedef tlc_status groups_fleet_call(groups_fleet *f, uint32_t site, uint32_t i);
groups_fleet_call groups_fleet_take, groups_fleet_reduce, groups_fleet_take_sites, groups_fleet_reduce_sites,
    groups_fleet_answer;
/* One of these calls of all servers, until one fails; and all of these calls. */
tlc_status groups_fleet_each(groups_fleet *f, groups_fleet_call *call);
tlc_status groups_fleet_exchange(groups_fleet *f);
tlc_status groups_fleet_pull(groups_fleet *f, uint32_t rank, void *const *out);

/* Bytes that a rank has sent to others in the last step: in its site, and to other sites. */
uint64_t groups_fleet_sent_inside(const groups_fleet *f, uint32_t rank);
uint64_t groups_fleet_sent_between(const groups_fleet *f, uint32_t rank);
#endif
