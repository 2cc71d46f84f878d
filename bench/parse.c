/* SPDX-License-Identifier: MIT */
#include "parse.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool parse_number(const char *text, bool suffixes, uint64_t *number)
{
    uint64_t unit = 1;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoumax(text, &end, 10);
    if (suffixes && !strcmp(end, "Ki"))
        unit = 1 << 10;
    else if (suffixes && !strcmp(end, "Mi"))
        unit = 1 << 20;
    else if (*end)
        return false;
    return !errno && !__builtin_mul_overflow(*number, unit, number);
}

bool parse_size(const char *text, size_t *size)
{
    uint64_t number;

    if (!parse_number(text, true, &number) || number > SIZE_MAX)
        return false;
    *size = (size_t)number;
    return true;
}

bool parse_list(const char *text, size_list *l)
{
    char item[32];
    size_t len;

    for (l->count = 0; l->count < MAX_LIST; text += len + 1) {
        len = strcspn(text, ",");
        if (len >= sizeof item)
            return false;
        memcpy(item, text, len);
        item[len] = '\0';
        if (!parse_size(item, &l->items[l->count++]))
            return false;
        if (!text[len])
            return true;
    }
    return false;
}

bool parse_counts(const char *text, size_t most, size_list *l)
{
    if (!parse_list(text, l))
        return false;
    for (size_t i = 0; i < l->count; i++) {
        if (!l->items[i] || l->items[i] > most)
            return false;
    }
    return true;
}

bool parse_seconds(const char *text, double *seconds)
{
    char *end;

    *seconds = strtod(text, &end);
    return *text && !*end && isfinite(*seconds) && *seconds >= 0;
}

bool parse_choice(const char *text, const char *const *names, int *choice)
{
    for (*choice = 0; names[*choice]; ++*choice) {
        if (!strcmp(text, names[*choice]))
            return true;
    }
    return false;
}

bool parse_isa(const char *text, tlc_isa *isa)
{
    for (*isa = TLC_ISA_AUTO; *isa <= TLC_ISA_NEON; *isa = (tlc_isa)(*isa + 1)) {
        if (!strcmp(text, tlc_isa_name(*isa)))
            return true;
    }
    return false;
}

bool parse_milliseconds(const char *text, double *seconds)
{
    bool ok = parse_seconds(text, seconds);

    *seconds *= 1e-3;
    return ok;
}

bool parse_items(const char *text, bool (*take)(void *to, const char *item), void *to)
{
    char item[64];
    size_t len;

    for (;; text += len + 1) {
        len = strcspn(text, ",");
        if (len >= sizeof item)
            return false;
        memcpy(item, text, len);
        item[len] = '\0';
        if (!take(to, item))
            return false;
        if (!text[len])
            return true;
    }
}
