/* SPDX-License-Identifier: MIT
 *
 * Public structs that start with their own size, as the caller knows them.
 */
#ifndef TLC_STRUCTS_H
#define TLC_STRUCTS_H

#include "float_rules.h"

/* Copies the caller's struct into ours of size bytes, which holds the defaults: missing fields keep them, extra bytes must
 * be 0. Returns 0 if they are not, or if the caller's size is smaller than its own field. */
static inline int tlc_import(void *ours, size_t size, const void *theirs)
{
    const uint8_t *from = theirs;
    size_t given;

    memcpy(&given, theirs, sizeof given);
    if (given < sizeof given)
        return 0;
    for (size_t i = size; i < given; i++)
        if (from[i])
            return 0;
    memcpy(ours, theirs, given < size ? given : size);
    return 1;
}

/* Fills the caller's struct from ours of size bytes; its extra bytes become 0. */
static inline void tlc_export(void *theirs, const void *ours, size_t size)
{
    size_t given;

    memcpy(&given, theirs, sizeof given);
    memset(theirs, 0, given);
    memcpy(theirs, ours, given < size ? given : size);
    memcpy(theirs, &given, sizeof given);
}
#endif
