/* SPDX-License-Identifier: MIT
 *
 * Public structs that begin with their size, which is that of the caller's version.
 */
#ifndef TLC_STRUCTS_H
#define TLC_STRUCTS_H

#include "float_rules.h"
#include <threelc/threelc.h>

/* Copies the caller's struct of `given` bytes to ours, which has `size` bytes and holds the defaults. Missing fields
 * keep their defaults. Returns 0 if extra bytes are not 0, or if `given` is smaller than the field for it. */
static inline int tlc_import_sized(void *ours, size_t size, const void *theirs, size_t given)
{
    const uint8_t *from = theirs;

    if (given < sizeof given)
        return 0;
    for (size_t i = size; i < given; i++)
        if (from[i])
            return 0;
    memcpy(ours, theirs, given < size ? given : size);
    return 1;
}

/* The same for a struct whose first field is its size. */
static inline int tlc_import(void *ours, size_t size, const void *theirs)
{
    size_t given;

    memcpy(&given, theirs, sizeof given);
    return tlc_import_sized(ours, size, theirs, given);
}

/* Sets the caller's struct of `given` bytes to the defaults, of `size` bytes, then zeros, and its first field to its
 * size. TLC_ERR_PARAM: there is none, or its size does not fit. */
static inline tlc_status tlc_init(void *theirs, size_t given, const void *defaults, size_t size)
{
    if (!theirs || given < sizeof given)
        return TLC_ERR_PARAM;
    memset(theirs, 0, given);
    memcpy(theirs, defaults, given < size ? given : size);
    memcpy(theirs, &given, sizeof given);
    return TLC_OK;
}

/* Copies ours, of `size` bytes, to the caller's struct. Its extra bytes become 0. */
static inline void tlc_export(void *theirs, const void *ours, size_t size)
{
    size_t given;

    memcpy(&given, theirs, sizeof given);
    memset(theirs, 0, given);
    memcpy(theirs, ours, given < size ? given : size);
    memcpy(theirs, &given, sizeof given);
}
#endif
