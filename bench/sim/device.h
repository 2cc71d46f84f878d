/* SPDX-License-Identifier: MIT
 *
 * Devices as the command line names them: h100, h100:50GB/s with another bus, or 3350GB/s:25GB/s, memory and bus.
 */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include "link_model.h"
#include <stdbool.h>

/* false: why (WHY_SIZE bytes) says what is wrong. */
bool device_parse(const char *text, model_device *device, char *why);
#endif
