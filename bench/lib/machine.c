/* SPDX-License-Identifier: MIT
 *
 * Only the dynamic loader of glibc (2.33 and later) tells the threshold.
 */
#include "machine.h"
#include <stdio.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"

static size_t ask_streaming(void)
{
    size_t streaming = 0;
    char line[256];
    FILE *tunables;

    if (access(LOADER, X_OK) != 0)
        return 0;
    /* NOLINTNEXTLINE(cert-env33-c): the command is constant */
    tunables = popen(LOADER " --list-tunables 2>/dev/null", "r");
    while (tunables && fgets(line, sizeof line, tunables))
        /* NOLINTNEXTLINE(cert-err33-c,cert-err34-c): other lines do not match */
        sscanf(line, "glibc.cpu.x86_non_temporal_threshold: %zx", &streaming);
    if (tunables)
        pclose(tunables);
    return streaming;
}
#else
static size_t ask_streaming(void)
{
    return 0;
}
#endif

void machine_ask(machine *m)
{
    long cache = -1;

#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    m->cache = cache > 0 ? (size_t)cache : 0;
    m->streaming = ask_streaming();
}
