/* SPDX-License-Identifier: MIT
 *
 * Names that match a pattern: see ../posix.h.
 */
#ifndef BENCH_WINDOWS_GLOB_H
#define BENCH_WINDOWS_GLOB_H

#include <stddef.h>

enum { GLOB_NOCHECK = 1, GLOB_APPEND = 2 };
enum { GLOB_NOSPACE = 1 };

typedef struct posix_glob {
    size_t gl_pathc;
    char **gl_pathv;
} glob_t;

/* With GLOB_NOCHECK; patterns have * in their last part alone. */
int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *found);
#endif
