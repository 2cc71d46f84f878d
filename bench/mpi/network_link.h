/* SPDX-License-Identifier: MIT
 *
 * The link that bench/network/run has made, as it says in the environment.
 */
#ifndef NETWORK_LINK_H
#define NETWORK_LINK_H

#include "../sim/link_model.h"

typedef struct network_link {
    bool known; /* the program runs on the hosts of bench/network/run */
    model_link link;
    double latency; /* seconds */
} network_link;

/* false: TLC_NETWORK_RATE or TLC_NETWORK_LATENCY cannot be understood. */
bool network_link_ask(network_link *network, char *why);
#endif
