/* SPDX-License-Identifier: MIT
 *
 * Rank 0 of an all-reduce, whose device adds the pushes to its parts and makes answers: what crosses, and what its host
 * does, as src/python/threelc/torch/_device/answers.py. Contexts of the codec of answers stand for the device. Messages
 * are the same as without a device.
 */
#ifndef SIM_FLEET_ANSWERS_H
#define SIM_FLEET_ANSWERS_H

#include "../lib/fleet.h"
#include "link_model.h"
#include <stdbool.h>

typedef struct fleet_answers fleet_answers;

/* The fleet must outlive it. NULL: no memory. */
fleet_answers *fleet_answers_open(fleet *f);
void fleet_answers_close(fleet_answers *a); /* NULL is allowed */

/* What the device does with the pushes that came. Nothing: other kinds, and codecs without kernels for it. */
bool fleet_answers_quantize(fleet_answers *a, char *why);
/* What the host does: fleet_reduce of rank 0. */
bool fleet_answers_reduce(fleet_answers *a, char *why);
/* What rank 0 moved in the last reduce. */
model_device_load fleet_answers_moved(const fleet_answers *a);
#endif
