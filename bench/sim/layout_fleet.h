/* SPDX-License-Identifier: MIT
 *
 * What layouts have in common that are one fleet (fleet.h).
 */
#ifndef SIM_LAYOUT_FLEET_H
#define SIM_LAYOUT_FLEET_H

#include "../lib/fleet.h"
#include "layout.h"

size_t layout_fleet_memory(const layout_options *o, algorithm a);
void *layout_fleet_open(const layout_options *o, algorithm a, char *why);
void layout_fleet_close(void *layout);
float *layout_fleet_residual(void *layout, size_t rank);
bool layout_fleet_begin(void *layout, char *why);
size_t layout_fleet_kept(const void *layout);
#endif
