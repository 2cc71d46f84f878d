/* SPDX-License-Identifier: MIT
 *
 * Sites for the tests of groups of groups (bench/sim/groups.h): gradients, results and residuals of all ranks, and all
 * values that are not sent yet.
 */
#ifndef TLC_TEST_GROUPS_WORLD_H
#define TLC_TEST_GROUPS_WORLD_H

#include "../../bench/sim/groups_fleet.h"
#include "../support/support.h"

enum { SITES = 3, SERVERS = 2, RANKS = 8, TENSORS = 5, VALUES = 1357, BEFORE = 0x3c };

/* The arrays [VALUES] hold all tensors, one after the other. */
typedef struct world {
    groups_fleet f;
    tlc_exchange_config inside, between;
    tlc_tensor tensors[TENSORS];
    size_t first[TENSORS], count; /* of tensors */
    float grad[RANKS][VALUES], out[RANKS][VALUES], residual[RANKS][VALUES];
    int absent[RANKS];
    tlc_status pulled[RANKS];
} world;

/* The defaults of all tests; change w->inside, w->between, w->count before world_open. Every tensor keeps residuals. */
void world_init(world *w, const char *inside, const char *between);
void world_open(world *w);
void world_close(world *w);

/* Gradients of all ranks; nobody is absent. */
void world_draw(world *w, uint64_t seed);
void world_push(world *w); /* all ranks */
void world_pull(world *w); /* all ranks: w->pulled. Results that are not written have bytes of BEFORE */
void world_step(world *w); /* all that a step has */

/* All ranks have the same bytes, and the same status. Returns the status. */
tlc_status world_agree(const world *w);

/* The index of value k of part i of a server, or of part i between sites. */
typedef struct world_part {
    size_t first, n; /* among VALUES */
    const float *mean, *residual;
} world_part;
world_part world_inside(const world *w, uint32_t site, uint32_t server, size_t i);
world_part world_between(const world *w, uint32_t site, uint32_t server, size_t i);

/* Calls add for each value that waits in a residual: of a rank, of pushes or answers between sites, or of the answers
 * of site 0. Those of other sites are the same. */
typedef void world_adder(void *arg, size_t value, float waiting);
void world_waiting(const world *w, world_adder *add, void *arg);
#endif
