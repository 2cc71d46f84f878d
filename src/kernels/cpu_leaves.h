/* SPDX-License-Identifier: MIT
 *
 * What the instruction CPUID of x86-64 tells. cpu_leaves.c asks it, itself or by libcpuid.
 */
#ifndef TLC_CPU_LEAVES_H
#define TLC_CPU_LEAVES_H

#include <stdint.h>

enum { TLC_EAX, TLC_EBX, TLC_ECX, TLC_EDX };
enum { TLC_CPUID_CACHES = 4 }; /* subleaves */

/* Registers of leaves; 0 where the CPU has no such leaf. */
typedef struct tlc_cpuid {
    uint32_t basic[4];                          /* leaf 0: EAX is the last basic leaf */
    uint32_t features[4], more_features[4];     /* 1 and 7 */
    uint32_t extended_features[4];              /* 0x80000001 */
    uint32_t intel_caches[TLC_CPUID_CACHES][4]; /* 4 */
    uint32_t amd_caches[TLC_CPUID_CACHES][4];   /* 0x8000001d */
} tlc_cpuid;

/* Returns 0 if it cannot be asked. */
int tlc_cpuid_read(tlc_cpuid *c);
#endif
