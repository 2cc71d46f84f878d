/* SPDX-License-Identifier: MIT
 *
 * Watches a folder of checkpoints, and writes a message for each.
 */
#ifndef DELTA_KEEP_H
#define DELTA_KEEP_H

#include "run.h"

typedef struct keep_options {
    const char *folder; /* of checkpoints: folders and .safetensors files. Their order is that of their names, in which
                           numbers count as numbers */
    const char *out;    /* NAME.delta for each checkpoint */
    bool once;
    double settle; /* seconds: a checkpoint is complete when nothing in it has changed for so long */
} keep_options;

/* A checkpoint has a delta against the one before it; without one, as at first, and where it was removed, it has all
 * weights. A checkpoint that comes after one of a greater name has none. Without `once` it ends with a signal. */
bool keep_deltas(const run *r, const keep_options *o, char *why);
#endif
