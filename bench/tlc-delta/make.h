/* SPDX-License-Identifier: MIT
 *
 * A message that makes one model of another.
 */
#ifndef DELTA_MAKE_H
#define DELTA_MAKE_H

#include "run.h"

typedef struct make_paths {
    const char *base; /* NULL: the message has all weights */
    const char *next;
    const char *after; /* the message before, whose trainer and number go on; or NULL: a new trainer */
    const char *out;
    bool force; /* out may be there */
} make_paths;

typedef struct make_result {
    uint64_t model_bytes, message_bytes;
    uint64_t entries, without_base; /* all, and those that have all their weights in the message */
} make_result;

bool make_delta(const run *r, const make_paths *p, make_result *result, char *why);

/* A line on stdout. */
void make_print(const make_paths *p, const make_result *result);
#endif
