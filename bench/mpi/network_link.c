/* SPDX-License-Identifier: MIT */
#include "network_link.h"
#include "../explain.h"
#include "../sim/rate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 10mbit: for bench/network and tc units are lower case. */
static bool parse_rate(const char *text, model_link *link)
{
    char copy[RATE_TEXT];
    char *unit;

    if (strlen(text) >= sizeof copy)
        return false;
    memcpy(copy, text, strlen(text) + 1);
    unit = copy + strspn(copy, "0123456789.");
    if (*unit == 'm' || *unit == 'g')
        *unit = *unit == 'm' ? 'M' : 'G';
    return rate_parse_link(copy, link);
}

static bool parse_latency(const char *text, double *seconds)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
    char *unit;
    double number;

    if (*text < '0' || *text > '9')
        return false;
    number = strtod(text, &unit);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!strcmp(unit, units[i].name)) {
            *seconds = number * units[i].seconds;
            return isfinite(*seconds);
        }
    }
    return false;
}

bool network_link_ask(network_link *network, char *why)
{
    const char *rate = getenv("TLC_NETWORK_RATE"), *latency = getenv("TLC_NETWORK_LATENCY");

    *network = (network_link){.known = rate && latency};
    if (!rate || !latency)
        return true;
    if (!parse_rate(rate, &network->link))
        return explain(why, "TLC_NETWORK_RATE is %s, which is no speed of a link", rate);
    return parse_latency(latency, &network->latency) ||
           explain(why, "TLC_NETWORK_LATENCY is %s, which is no time", latency);
}
