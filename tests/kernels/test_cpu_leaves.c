/* SPDX-License-Identifier: MIT
 *
 * libcpuid and the compiler's own way tell the same of this CPU. The row cpus of tests/matrix asks all that QEMU has.
 */
#include "../support/support.h"

#undef TLC_LIBCPUID
#define tlc_cpuid_read tlc_cpuid_read_here
#include "../../src/kernels/cpu_leaves.c"
#undef tlc_cpuid_read
#define TLC_LIBCPUID
#define tlc_cpuid_read tlc_cpuid_read_by_library
int tlc_cpuid_read_by_library(tlc_cpuid *c);
#include "../../src/kernels/cpu_leaves.c"

TEST(both_ways)
{
    tlc_cpuid here, library;

    require(tlc_cpuid_read_here(&here) && tlc_cpuid_read_by_library(&library));
    here.features[TLC_EBX] &= 0xffffff; /* above that is the core on which this runs */
    library.features[TLC_EBX] &= 0xffffff;
    require(here.basic[TLC_EAX] > 0 && here.features[TLC_EDX] & 1u << 26 /* SSE2, which all have */);
    for (int i = 0; i < 4; i++) {
        require(here.basic[i] == library.basic[i] && here.features[i] == library.features[i]);
        require(here.more_features[i] == library.more_features[i]);
        require(here.extended_features[i] == library.extended_features[i]);
        for (int c = 0; c < TLC_CPUID_CACHES; c++) {
            require(here.intel_caches[c][i] == library.intel_caches[c][i]);
            require(here.amd_caches[c][i] == library.amd_caches[c][i]);
        }
    }
}
