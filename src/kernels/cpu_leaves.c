/* SPDX-License-Identifier: MIT
 *
 * With TLC_LIBCPUID libcpuid asks the CPU, else this file. Both tell the same.
 */
#include "cpu_leaves.h"
#if defined(__x86_64__)
#include <string.h>
#ifdef TLC_LIBCPUID
#include <libcpuid/libcpuid.h>

/* Leaves that a CPU does not have are 0. */
static void take(uint32_t to[4], const uint32_t from[4], uint32_t leaf, uint32_t last)
{
    if (last >= leaf)
        memcpy(to, from, 4 * sizeof *to);
}

int tlc_cpuid_read(tlc_cpuid *c)
{
    struct cpu_raw_data_t raw;

    memset(c, 0, sizeof *c);
    memset(&raw, 0, sizeof raw); /* MemorySanitizer does not see what libcpuid, built without it, writes */
    if (cpuid_get_raw_data(&raw))
        return 0;
    const uint32_t last = raw.basic_cpuid[0][TLC_EAX], last_extended = raw.ext_cpuid[0][TLC_EAX];
    take(c->basic, raw.basic_cpuid[0], 0, last);
    take(c->features, raw.basic_cpuid[1], 1, last);
    take(c->more_features, raw.basic_cpuid[7], 7, last);
    take(c->extended_features, raw.ext_cpuid[1], 0x80000001, last_extended);
    for (int i = 0; i < TLC_CPUID_CACHES; i++) {
        take(c->intel_caches[i], raw.intel_fn4[i], 4, last);
        take(c->amd_caches[i], raw.amd_fn8000001dh[i], 0x8000001d, last_extended);
    }
    return 1;
}
#else
#include <cpuid.h>

/* A CPU may answer with another leaf where it does not have this one. */
static void read_leaf(uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
    if ((uint32_t)__get_cpuid_max(leaf & 0x80000000, NULL) >= leaf) /* clang gives an int */
        __cpuid_count(leaf, subleaf, r[TLC_EAX], r[TLC_EBX], r[TLC_ECX], r[TLC_EDX]);
}

int tlc_cpuid_read(tlc_cpuid *c)
{
    memset(c, 0, sizeof *c);
    read_leaf(0, 0, c->basic);
    read_leaf(1, 0, c->features);
    read_leaf(7, 0, c->more_features);
    read_leaf(0x80000001, 0, c->extended_features);
    for (uint32_t i = 0; i < TLC_CPUID_CACHES; i++) {
        read_leaf(4, i, c->intel_caches[i]);
        read_leaf(0x8000001d, i, c->amd_caches[i]);
    }
    return 1;
}
#endif
#endif
