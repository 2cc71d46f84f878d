/* SPDX-License-Identifier: MIT
 *
 * Promise E2: a fleet after two steps, and what must be told of the next one.
 */
#ifndef TLC_TEST_EXCHANGE_SCENE_H
#define TLC_TEST_EXCHANGE_SCENE_H

#include "exchange_ledger.h"

enum { RANKS = 3, CONV = 1, WIDE = 3, OWN = 5, GAIN = 6 }; /* tensors */

/* A fleet after two steps, and its books. */
typedef struct scene {
    fleet f;
    ledger l;
    uint64_t failed[RANKS], steps[RANKS]; /* of the workers before the failure */
} scene;

/* What an outcome must be. */
typedef struct want {
    tlc_status status, cause;
    uint32_t rank;
    size_t tensor;
    char sentence[200];
} want;

void scene_open(scene *s, const tlc_exchange_config *cfg, const tlc_tensor *tensors);
/* The books are right, and so is another step. */
void scene_close(scene *s);

/* How many steps of each worker have ended since, and how many of these failed. */
void require_steps(const scene *s, uint64_t steps, uint64_t failed);

void require_outcome(member m, uint32_t server, const want *told);
void each_outcome(const scene *s, const want *told);

/* What workers are called, and the end of a sentence about `who` that `owner` has found. */
const char *role(const fleet *f);
const char *says(const fleet *f, uint32_t who, uint32_t owner);

/* Sets the last value of a gradient. */
void poison(fleet *f, uint32_t w, size_t t, float value);

/* Sets the first value of a residual of pushes, and the books. */
void grow(scene *s, uint32_t w, size_t t, float value);
#endif
