/* SPDX-License-Identifier: MIT */
#include "network_link.h"
#include "../lib/explain.h"
#include "../lib/parse.h"
#include <stdlib.h>

bool network_link_ask(network_link *network, char *why)
{
    const char *rate = getenv("TLC_NETWORK_RATE"), *latency = getenv("TLC_NETWORK_LATENCY");
    model_link *link = &network->link;
    char reason[WHY_SIZE];

    *network = (network_link){.known = rate && latency};
    if (!rate || !latency)
        return true;
    if (!parse_link(rate, &link->up, &link->down, reason))
        return explain(why, "TLC_NETWORK_RATE %s: %.4000s", rate, reason);
    return parse_time(latency, 1e-3, &network->latency, reason) ||
           explain(why, "TLC_NETWORK_LATENCY %s: %.4000s", latency, reason);
}
