/* SPDX-License-Identifier: MIT
 *
 * Apart from guard.h, as the headers of Windows have names that tests use.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "guard.h"

#if defined(_WIN32)
#include <windows.h>

static size_t page_size(void)
{
    SYSTEM_INFO info;

    GetSystemInfo(&info);
    return info.dwPageSize;
}

static uint8_t *reserve(size_t size)
{
    return VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_NOACCESS);
}

static int commit(uint8_t *p, size_t size)
{
    return VirtualAlloc(p, size, MEM_COMMIT, PAGE_READWRITE) ? 0 : -1;
}

static void release(uint8_t *map, size_t size)
{
    (void)size;
    (void)VirtualFree(map, 0, MEM_RELEASE);
}

int guard_readonly(const guard_buffer *b, int on)
{
    DWORD before;

    return VirtualProtect(b->start, (size_t)(b->end - b->start), on ? PAGE_READONLY : PAGE_READWRITE, &before) ? 0 : -1;
}
#else
#include <sys/mman.h>
#include <unistd.h>

#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static uint8_t *reserve(size_t size)
{
    void *map = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return map == MAP_FAILED ? NULL : map;
}

static int commit(uint8_t *p, size_t size)
{
    return mprotect(p, size, PROT_READ | PROT_WRITE);
}

static void release(uint8_t *map, size_t size)
{
    (void)munmap(map, size);
}

int guard_readonly(const guard_buffer *b, int on)
{
    return mprotect(b->start, (size_t)(b->end - b->start), on ? PROT_READ : PROT_READ | PROT_WRITE);
}
#endif

int guard_alloc(guard_buffer *b, size_t capacity)
{
    size_t page = page_size(), usable = (capacity + page) / page * page;
    uint8_t *map = reserve(usable + 2 * page);

    if (!map)
        return -1;
    if (commit(map + page, usable)) {
        release(map, usable + 2 * page);
        return -1;
    }
    *b = (guard_buffer){map + page, map + page + usable, page};
    return 0;
}

void guard_free(guard_buffer *b)
{
    release(b->start - b->page, (size_t)(b->end - b->start) + 2 * b->page);
}
