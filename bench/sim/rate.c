/* SPDX-License-Identifier: MIT */
#include "rate.h"
#include <stdio.h>
#include <string.h>

static const struct unit {
    const char *name;
    double bits;
} units[] = {{"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"Tbit", 1e12}};
enum { UNITS = sizeof units / sizeof units[0] };

const char *rate_text(double bytes, char *buffer)
{
    size_t unit = UNITS - 1;

    while (unit && bytes * 8 < units[unit].bits * 0.99995)
        unit--;
    snprintf(buffer, RATE_TEXT, "%.4g%s", bytes * 8 / units[unit].bits, units[unit].name);
    return buffer;
}

const char *rate_link_text(const model_link *link, char *buffer)
{
    char down[RATE_TEXT];
    size_t len;

    rate_text(link->up, buffer);
    if (link->down != link->up) {
        len = strlen(buffer);
        snprintf(buffer + len, RATE_TEXT - len, "/%s", rate_text(link->down, down));
    }
    return buffer;
}
