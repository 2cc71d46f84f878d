/* SPDX-License-Identifier: MIT
 *
 * Processors, memory, the console and chance.
 */
#define _CRT_RAND_S
#include "posix.h"
#include "include/sys/random.h"
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

long posix_sysconf(int what)
{
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    SYSTEM_INFO info;

    GetSystemInfo(&info);
    if (what == _SC_PAGESIZE)
        return (long)info.dwPageSize;
    const DWORDLONG pages = GlobalMemoryStatusEx(&memory) ? memory.ullTotalPhys / info.dwPageSize : 0;
    return !pages ? -1 : pages < LONG_MAX ? (long)pages : LONG_MAX;
}

int sched_getcpu(void)
{
    return (int)GetCurrentProcessorNumber();
}

int sched_getaffinity(int process, size_t size, cpu_set_t *set)
{
    DWORD_PTR own, all;

    (void)process;
    (void)size;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all))
        return -1;
    set->bits = own;
    return 0;
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
    (void)size;
    return SetThreadAffinityMask((HANDLE)pthread_gethandle(thread), (DWORD_PTR)set->bits) ? 0 : EINVAL;
}

int posix_isatty(int fd)
{
    const HANDLE console = (HANDLE)_get_osfhandle(fd);
    DWORD mode;

    return GetConsoleMode(console, &mode) && SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    unsigned char *to = bytes;
    unsigned word;

    (void)flags;
    for (size_t i = 0; i < len; i += sizeof word) {
        if (rand_s(&word) != 0)
            return -1;
        memcpy(to + i, &word, len - i < sizeof word ? len - i : sizeof word);
    }
    return (ssize_t)len;
}
