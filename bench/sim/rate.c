/* SPDX-License-Identifier: MIT */
#include "rate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct unit {
    const char *name;
    double bits;
} units[] = {{"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"Tbit", 1e12}};
enum { UNITS = sizeof units / sizeof units[0] };

/* *end: where the rate ends. */
static bool parse_rate(const char *text, double *bytes, const char **end)
{
    char *unit;
    double number;

    if (*text < '0' || *text > '9')
        return false;
    number = strtod(text, &unit);
    for (size_t i = 0; number > 0 && i < UNITS; i++) {
        size_t len = strlen(units[i].name);
        if (strncmp(unit, units[i].name, len) != 0)
            continue;
        *bytes = number * units[i].bits / 8;
        *end = unit + len;
        return isfinite(*bytes);
    }
    return false;
}

bool rate_parse_link(const char *text, model_link *link)
{
    const char *end;

    if (!parse_rate(text, &link->up, &end))
        return false;
    link->down = link->up;
    return !*end || (*end == '/' && parse_rate(end + 1, &link->down, &end) && !*end);
}

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
