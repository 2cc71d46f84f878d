/* SPDX-License-Identifier: MIT
 *
 * What is written stands beside its place until it is whole: PATH.part, which is locked against others. Then it is
 * brought to the disk and renamed. A run that is killed leaves PATH.part, and the next one begins anew.
 */
#ifndef DELTA_OUTPUT_H
#define DELTA_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct output {
    char path[PATH_MAX], part[PATH_MAX];
    bool is_folder;
    int fd; /* of the part: a file, or the folder */
} output;

/* Begins a file or a folder. What is at PATH stays until output_end. force: a file there is replaced; else, and if
 * it is a folder with files, that is an error. */
bool output_begin(output *o, const char *path, bool folder, bool force, char *why);

/* Of a folder: makes a file in it, and the folders above it. -1: why says what is wrong. The caller passes the
 * descriptor to output_close_file. */
int output_open_file(const output *o, const char *path, char *why);
bool output_close_file(int fd, char *why);

/* Writes all bytes at an offset. */
bool output_write(int fd, const void *bytes, size_t len, uint64_t offset, char *why);

/* A complete output takes its place. false: it is not complete, or that failed; then nothing of it is left. */
bool output_end(output *o, bool complete, char *why);
#endif
