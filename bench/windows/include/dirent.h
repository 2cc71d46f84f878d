/* SPDX-License-Identifier: MIT
 *
 * Folders: see ../posix.h.
 */
#ifndef BENCH_WINDOWS_DIRENT_H
#define BENCH_WINDOWS_DIRENT_H

#include "../posix.h"

enum { DT_UNKNOWN, DT_DIR, DT_REG };

struct dirent {
    unsigned char d_type;
    char d_name[NAME_MAX + 1];
};
typedef struct posix_dir DIR;

/* MinGW has functions of the first four names, of another struct dirent. */
#define opendir posix_opendir
#define readdir posix_readdir
#define rewinddir posix_rewinddir
#define closedir posix_closedir
DIR *opendir(const char *path);
struct dirent *readdir(DIR *dir);
void rewinddir(DIR *dir);
int closedir(DIR *dir);
int scandir(const char *path, struct dirent ***names, int (*wanted)(const struct dirent *),
            int (*order)(const struct dirent **, const struct dirent **));
int alphasort(const struct dirent **a, const struct dirent **b);
int versionsort(const struct dirent **a, const struct dirent **b);
#endif
