/* SPDX-License-Identifier: MIT
 *
 * A folder with all that is in it: see ../posix.h.
 */
#ifndef BENCH_WINDOWS_FTW_H
#define BENCH_WINDOWS_FTW_H

#include "../posix.h"

enum { FTW_F, FTW_D, FTW_DP };
enum { FTW_PHYS = 1, FTW_DEPTH = 2 };

struct FTW {
    int base; /* where the last part of the path begins */
    int level;
};

#define nftw posix_nftw /* MinGW has one of this name, too */

/* Links are not followed. open is not asked. */
int nftw(const char *path, int (*visit)(const char *, const struct stat *, int, struct FTW *), int open, int flags);
#endif
