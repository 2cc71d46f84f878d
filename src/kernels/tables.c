/* SPDX-License-Identifier: MIT
 *
 * The tables that kernel_list.h describes, best first.
 */
#include "kernels.h"

static const tlc_kernels tables[] = {
#if defined(__x86_64__)
    {
        .isa = TLC_ISA_AVX512,
#define KERNEL(returns, name, parameters, avx2, avx512, neon) .name = tlc_##name##_##avx512,
#include "kernel_list.h"
    },
    {
        .isa = TLC_ISA_AVX2,
#define KERNEL(returns, name, parameters, avx2, avx512, neon) .name = tlc_##name##_##avx2,
#include "kernel_list.h"
    },
#elif defined(__aarch64__)
    {
        .isa = TLC_ISA_NEON,
#define KERNEL(returns, name, parameters, avx2, avx512, neon) .name = tlc_##name##_##neon,
#include "kernel_list.h"
    },
#endif
    {
        .isa = TLC_ISA_SCALAR,
#define KERNEL(returns, name, parameters, avx2, avx512, neon) .name = tlc_##name##_scalar,
#include "kernel_list.h"
    },
};

const tlc_kernels *tlc_kernels_for(tlc_isa isa)
{
    unsigned supported = tlc_cpu_isas();

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if ((isa == TLC_ISA_AUTO || isa == tables[i].isa) && supported >> tables[i].isa & 1u)
            return &tables[i];
    return NULL;
}
