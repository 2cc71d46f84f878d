/* SPDX-License-Identifier: MIT
 *
 * From a base and a message to the next model, in files of its own.
 */
#ifndef DELTA_APPLY_H
#define DELTA_APPLY_H

#include "run.h"

typedef struct apply_paths {
    const char *message;
    const char *base; /* NULL: the message has all weights */
    const char *out;
    bool force; /* out may be there */
} apply_paths;

bool apply_message(const run *r, const apply_paths *p, char *why);

/* Makes all weights, but writes nothing. */
bool apply_verify(const run *r, const char *message, const char *base, char *why);
#endif
