/* SPDX-License-Identifier: MIT
 *
 * Files as memory: see ../../posix.h.
 */
#ifndef BENCH_WINDOWS_MMAN_H
#define BENCH_WINDOWS_MMAN_H

#include <stddef.h>
#include <sys/types.h>

enum { PROT_READ = 1, PROT_WRITE = 2 };
enum { MAP_SHARED = 1, MAP_PRIVATE = 2 };
enum { MS_SYNC = 1 };
enum { MADV_DONTNEED = 1 };
#define MAP_FAILED ((void *)-1)

/* From the start of a file. Its length cannot change while it is mapped. */
void *mmap(void *at, size_t len, int access, int flags, int fd, off_t offset);
int munmap(void *at, size_t len);
int msync(void *at, size_t len, int flags);    /* of the whole map */
int madvise(void *at, size_t len, int advice); /* MADV_DONTNEED: the memory of the process shrinks */
#endif
