/* SPDX-License-Identifier: MIT
 *
 * A file as memory.
 */
#ifndef DELTA_MAPPED_H
#define DELTA_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mapped_file {
    uint8_t *bytes;
    uint64_t size;
} mapped_file;

/* Maps a regular file: writable ones share what is written with the file. false: why says what is wrong, without the
 * name of the file. */
bool mapped_open(mapped_file *m, const char *path, bool writable, char *why);
void mapped_close(mapped_file *m);

/* These bytes are not needed for now: they stay in the file, and in the memory of the system as long as it likes. */
void mapped_release(const mapped_file *m, uint64_t offset, uint64_t len);
#endif
