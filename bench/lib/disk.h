/* SPDX-License-Identifier: MIT
 *
 * What outlasts a power cut. A file is on the disk when it was synchronised, its name when the folder was. Functions
 * return false with errno set.
 */
#ifndef BENCH_DISK_H
#define BENCH_DISK_H

#include <stdbool.h>
#include <stdio.h>

/* Brings the names in a folder to the disk. Not every file system can: that is no failure. */
bool disk_sync_folder(const char *path);

/* The same of the folder that a path is in. */
bool disk_sync_parent(const char *path);

/* A file that was written as `part`, in the same folder, takes the place of `path`: it is on the disk before its name
 * is, and both are when this returns. Closes the file. false: `path` is as it was, or its new name may be lost. */
bool disk_take_place(FILE *file, const char *part, const char *path);
#endif
