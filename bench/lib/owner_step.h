/* SPDX-License-Identifier: MIT
 *
 * The optimizer of an owner: momentum SGD on the means of its parts. Answers carry what it makes of them, the changes
 * of the model (3LC, section 2). The rate is 1: it scales all changes alike, and so the scales in frames.
 */
#ifndef BENCH_OWNER_STEP_H
#define BENCH_OWNER_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <threelc/exchange.h>

typedef struct owner_step {
    float *velocity; /* of all parts, one after the other; NULL: there was no step */
    float *changes;  /* the same, for owner_step_room */
    float **at;      /* changes, by part */
} owner_step;

/* A step on the means that tlc_allreduce_average has made: changes[i] are those of part i. false: no memory. */
bool owner_step_take(owner_step *s, const tlc_allreduce *owner, float *const *changes);
/* Room for such changes. It stays as it is between steps. NULL: no memory. */
float *const *owner_step_room(owner_step *s, const tlc_allreduce *owner);
void owner_step_close(owner_step *s);

/* Bytes of the steps of all owners of a model of n values, with room for the changes. */
static inline size_t owner_step_memory(size_t n)
{
    return 2 * n * sizeof(float);
}
#endif
