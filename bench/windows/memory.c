/* SPDX-License-Identifier: MIT */
#include "include/sys/mman.h"
#include "posix.h"
#include "wide.h"
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

/* A map that is written: its file is flushed, too, and its descriptor may be closed by then. */
typedef struct map {
    struct map *next;
    void *at;
    HANDLE file;
} map;

static map *written; /* by one thread */

static map **find(const void *at)
{
    map **m = &written;

    while (*m && (*m)->at != at)
        m = &(*m)->next;
    return m;
}

static int keep_file(void *at, HANDLE file)
{
    map *m = malloc(sizeof *m);

    if (!m)
        return -1;
    *m = (map){.next = written, .at = at};
    if (!DuplicateHandle(GetCurrentProcess(), file, GetCurrentProcess(), &m->file, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
        free(m);
        return wide_failed();
    }
    written = m;
    return 0;
}

void *mmap(void *at, size_t len, int access, int flags, int fd, off_t offset)
{
    const bool writes = access & PROT_WRITE;
    const HANDLE file = (HANDLE)_get_osfhandle(fd);
    const HANDLE object = CreateFileMappingW(file, NULL, writes ? PAGE_READWRITE : PAGE_READONLY, 0, 0, NULL);

    (void)flags;
    (void)offset;
    at = object ? MapViewOfFile(object, writes ? FILE_MAP_WRITE : FILE_MAP_READ, 0, 0, len) : NULL;
    if (!at)
        (void)wide_failed();
    if (object)
        (void)CloseHandle(object);
    if (at && writes && keep_file(at, file) != 0) {
        (void)UnmapViewOfFile(at);
        at = NULL;
    }
    return at ? at : MAP_FAILED;
}

int munmap(void *at, size_t len)
{
    map **place = find(at), *m = *place;

    (void)len;
    if (m) {
        *place = m->next;
        (void)CloseHandle(m->file);
        free(m);
    }
    return UnmapViewOfFile(at) ? 0 : wide_failed();
}

int msync(void *at, size_t len, int flags)
{
    const map *m = *find(at);

    (void)flags;
    return FlushViewOfFile(at, len) && (!m || FlushFileBuffers(m->file)) ? 0 : wide_failed();
}

/* Pages that are not locked leave the working set. */
int madvise(void *at, size_t len, int advice)
{
    (void)advice;
    (void)VirtualUnlock(at, len);
    return 0;
}
