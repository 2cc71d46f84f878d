/* SPDX-License-Identifier: MIT
 *
 * The tables that kernel_list.h describes, best first.
 */
#include "../common/built.h"
#include "kernels.h"
#include <stdatomic.h>

static const tlc_kernels tables[] = {
#if defined(__x86_64__) && !defined(TLC_NO_AVX2)
#ifndef TLC_NO_AVX512
    {
        .isa = TLC_ISA_AVX512,
#define KERNEL(returns, name, parameters, avx2, avx512, neon) .name = TLC_IF_BUILT(USED_BY, tlc_##name##_##avx512),
#include "kernel_list.h"
    },
#endif
    {
        .isa = TLC_ISA_AVX2,
#define KERNEL(returns, name, parameters, avx2, avx512, neon) .name = TLC_IF_BUILT(USED_BY, tlc_##name##_##avx2),
#include "kernel_list.h"
    },
#elif defined(__aarch64__) && !defined(TLC_NO_NEON)
    {
        .isa = TLC_ISA_NEON,
#define KERNEL(returns, name, parameters, avx2, avx512, neon) .name = TLC_IF_BUILT(USED_BY, tlc_##name##_##neon),
#include "kernel_list.h"
    },
#endif
    {
        .isa = TLC_ISA_SCALAR,
#define KERNEL(returns, name, parameters, avx2, avx512, neon) .name = TLC_IF_BUILT(USED_BY, tlc_##name##_scalar),
#include "kernel_list.h"
    },
};

const char *tlc_kernels_fault(void)
{
    static atomic_int
        known; /* 0: not asked yet; 1: right; 2: wrong. Two threads that ask at the same time find the same */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);

    if (!answer) {
        unsigned supported = tlc_cpu_isas();
        answer = 1;
        for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
            if (supported >> tables[i].isa & 1u && !tlc_self_test(&tables[i]))
                answer = 2;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 1 ? NULL
                       : "libthreelc was built with flags that change float arithmetic, such as -ffp-contract=fast or "
                         "-ffast-math: build it without them";
}

const tlc_kernels *tlc_kernels_for(tlc_isa isa)
{
    unsigned supported = tlc_kernels_fault() ? 0 : tlc_cpu_isas();

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if ((isa == TLC_ISA_AUTO || isa == tables[i].isa) && supported >> tables[i].isa & 1u)
            return &tables[i];
    return NULL;
}
