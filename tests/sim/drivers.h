/* SPDX-License-Identifier: MIT */
#ifndef TLC_SIM_DRIVERS_H
#define TLC_SIM_DRIVERS_H

#include "run.h"

void run_allreduce(run *r);
void run_servers(run *r);
void run_gossip(run *r);

#endif
