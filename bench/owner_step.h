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
    float *velocity, *changes; /* of all parts, one after the other; NULL: there was no step */
    const float **at;          /* changes, by part */
} owner_step;

/* A step on the means that tlc_allreduce_average has made. What it returns is for tlc_allreduce_answer, and stays as it
 * is until the next step. NULL: no memory. */
const float *const *owner_step_take(owner_step *s, const tlc_allreduce *owner);
void owner_step_close(owner_step *s);

/* Bytes of the steps of all owners of a model of n values. */
static inline size_t owner_step_memory(size_t n)
{
    return 2 * n * sizeof(float);
}
#endif
