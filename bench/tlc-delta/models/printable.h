/* SPDX-License-Identifier: MIT
 *
 * Names in messages: files and messages may have any bytes in them.
 */
#ifndef DELTA_PRINTABLE_H
#define DELTA_PRINTABLE_H

#include <stddef.h>
#include <string.h>

enum { PRINTABLE_SIZE = 300 };

/* A name, cut, with ? for all but printable ASCII. Returns dst. */
static inline const char *printable(char dst[PRINTABLE_SIZE], const char *name)
{
    const size_t len = strlen(name);
    const size_t kept = len < PRINTABLE_SIZE ? len : PRINTABLE_SIZE - 4;

    for (size_t i = 0; i < kept; i++)
        dst[i] = name[i] < ' ' || name[i] > '~' ? '?' : name[i];
    memcpy(dst + kept, kept < len ? "..." : "", kept < len ? 4 : 1);
    return dst;
}
#endif
