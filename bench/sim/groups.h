/* SPDX-License-Identifier: MIT
 *
 * Groups of groups: an all-reduce in each site, and one between the sites, composed of objects of threelc/exchange.h. A
 * rank has a `groups`. Like those objects it does no I/O: the caller carries the messages.
 *
 *   all ranks of a site             its server i                            the servers i of all sites
 *
 *     groups_push  -> to[i]  ----->   groups_take
 *                                     groups_reduce  -> to[site]  ------->    groups_take_site
 *                                                                             groups_reduce_sites  -> to_all
 *     groups_pull  <- from[i]  <---   groups_answer  <- from[site]  <-------
 *
 * In a site every rank is a worker, and the first ranks are servers. Server i pushes its means as a worker of another
 * exchange, in which the servers i of all sites are the workers and the servers. What it pulls there is the delta that
 * it answers in its site. So a value goes to other sites once for a site, not once for a rank: if C are the frames of
 * a rank, a server sends about 2 C / servers to other sites.
 *
 * A value is compressed four times: push and push between sites, answer between sites and answer. With 3lc and s = 1
 * the last time changes nothing if the part had one owner between the sites (split_n): its values are 0 or of one
 * magnitude.
 * Two tlc_allreduce would compress it more often: results of the second one are at one rank of a site, and a third
 * exchange must tell the others. A tlc_allreduce between the sites tells too late why it fails: when what its owners
 * have reduced is in their residuals.
 *
 * Failures. Of each part all ranks of all sites get the same bits, or all get TLC_ERR_STEP, and nothing is lost:
 * - A gradient is not finite: it is dropped, and the step goes on without it, as tlc_worker_push says.
 * - tlc_server_reduce fails in a site, as all its gradients or a mean are not finite. The pushes of this server say so.
 *   All sites undo what they pushed, and answer that the step has failed. So workers take back what they sent.
 * - A mean of sites is not finite. It stays in the residuals of the sites, and the delta is 0.
 * - A message is lost or altered: the call that takes it fails and changes nothing. Send it again; tlc_server_again of
 *   inside.server and between.server has answers of steps before. A site may go on without a worker, but it cannot go
 *   on without a site.
 * Codecs that keep no residual can take nothing back. And if an answer fails, as residual and delta together are not
 * finite, workers take back what has been exchanged between the sites.
 */
#ifndef BENCH_GROUPS_H
#define BENCH_GROUPS_H

#include <stddef.h>
#include <stdint.h>
#include <threelc/exchange.h>

/* Where a rank is. */
typedef struct groups_place {
    uint32_t sites, site;
    uint32_t ranks, rank; /* of its site; sites may differ in ranks */
    uint32_t servers;     /* of each site: at least 1, at most the ranks of the smallest site */
} groups_place;

/* The worker and the server of an exchange. */
typedef struct groups_pair {
    tlc_worker *worker;
    tlc_server *server; /* NULL: the rank has none */
} groups_pair;

typedef struct groups {
    groups_place place;
    groups_pair inside, between; /* in the site; between sites, if this rank owns parts of the tensors */
    int sum;
    int spoilt;           /* a site has failed in the step that this server has not yet reduced for all sites, */
    int failed;           /* or in the step that it has reduced */
    size_t parts, values; /* that this rank owns in its site */
    float *delta;         /* by value: what the sites have reduced, */
    float *waiting;       /* the residual of pushes between sites, */
    float *before;        /* and what it was before the last push */
    /* Arguments of calls, by part. */
    const void **pushed;
    void **pulled;
    const float **answered;
    char *names; /* of the parts, as tensors of the exchange between sites */
} groups;

/* inside: workers and servers are those of the place. between: workers and servers are the sites; sum and min_n are
 * those of `inside`, dtype is f32, backup must be 0. All ranks need the same configurations, with the same seeds, and
 * the same tensors; workers of different sites draw different numbers. Codecs of tensors count between sites, too.
 * Whether or not it succeeds, groups_close follows. Failures: as tlc_server_create. */
tlc_status groups_open(groups *g, const groups_place *place, const tlc_exchange_config *inside,
                       const tlc_exchange_config *between, const tlc_tensor *tensors, size_t count);
void groups_close(groups *g);

/* to[i]: for server i of the site. grads NULL: the rank is not in the round. Means are over the ranks that took part:
 * all weights are 1. Failures: as tlc_worker_push. */
tlc_status groups_push(groups *g, const void *const *grads, tlc_message *to);

/* The calls of servers, in this order. */

/* A push of a rank of the site. info may be NULL. Failures: as tlc_server_push. */
tlc_status groups_take(groups *g, tlc_message from, tlc_push_info *info);
/* When those who are waited for have pushed. to[s]: for the server of site s, also of its own site; len 0: this server
 * owns nothing. TLC_ERR_ORDER: out of turn. */
tlc_status groups_reduce(groups *g, tlc_message *to);
/* A push of a site. One of a step before changes nothing. Failures: as tlc_server_push. */
tlc_status groups_take_site(groups *g, tlc_message from);
/* to_all: for all sites. TLC_ERR_ORDER: the push of a site is missing, or out of turn. */
tlc_status groups_reduce_sites(groups *g, tlc_message *to_all);
/* from[s]: of site s. to_all: for all ranks of the site. Failures: as tlc_worker_pull, but for TLC_ERR_STEP. */
tlc_status groups_answer(groups *g, const tlc_message *from, tlc_message *to_all);

/* from[i]: the answer of server i. Failures: as tlc_worker_pull. */
tlc_status groups_pull(groups *g, const tlc_message *from, void *const *out);
#endif
