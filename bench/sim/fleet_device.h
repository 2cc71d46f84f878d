/* SPDX-License-Identifier: MIT
 *
 * Rank 0 of a fleet where its gradients are on a device: what crosses, and what its host does in a step. The host makes
 * frames of what the device quantized, and takes answers apart for the device, as src/python/threelc/torch does
 * (_device/on_device.py). A context of the codec stands for the device; it has the residuals. Messages are the same as
 * without a device, but for random words of steps that are replayed.
 */
#ifndef SIM_FLEET_DEVICE_H
#define SIM_FLEET_DEVICE_H

#include "../lib/fleet.h"
#include "link_model.h"

typedef struct fleet_device fleet_device;

/* The fleet must outlive it. NULL: no memory. */
fleet_device *fleet_device_open(fleet *f);
void fleet_device_close(fleet_device *d); /* NULL is allowed */

/* What the device does before a push. grads: a pointer for each tensor. */
bool fleet_device_quantize(fleet_device *d, const void *const *grads, char *why);
/* What the host does: fleet_push and fleet_pull of rank 0. */
bool fleet_device_push(fleet_device *d, const void *const *grads, char *why);
bool fleet_device_pull(fleet_device *d, void *const *out, char *why);

/* What rank 0 moved in the last push, or pull. */
model_device_load fleet_device_pushed(const fleet_device *d);
model_device_load fleet_device_pulled(const fleet_device *d);
#endif
