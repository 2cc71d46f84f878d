/* SPDX-License-Identifier: MIT
 *
 * What the CPU and its operating system support. An ISA whose registers the OS does not save must not be used however
 * loudly CPUID advertises it, so XCR0 is read as well; libcpuid does not do that, and leaves AVX-512 out on AMD.
 */
#include "kernels.h"
#include <stdatomic.h>

#if defined(__x86_64__)
#include <libcpuid/libcpuid.h>

#define XCR0_AVX 0x06u    /* XMM, YMM */
#define XCR0_AVX512 0xe6u /* and opmask, ZMM */
#define BITS(value, mask) (((value) & (mask)) == (mask))

static uint32_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static unsigned detect(void)
{
    const uint32_t popcnt_osxsave_f16c = 1u << 23 | 1u << 27 | 1u << 29, avx2 = 1u << 5;
    const uint32_t avx512f_bw_vl = 1u << 16 | 1u << 30 | 1u << 31, vbmi_vbmi2 = 1u << 1 | 1u << 6;
    struct cpu_raw_data_t raw;
    unsigned isas = 0;

    if (cpuid_get_raw_data(&raw) != 0 || raw.basic_cpuid[0][EAX] < 7 ||
        !BITS(raw.basic_cpuid[1][ECX], popcnt_osxsave_f16c))
        return 0;
    uint32_t xcr0 = read_xcr0();
    if (!BITS(xcr0, XCR0_AVX) || !BITS(raw.basic_cpuid[7][EBX], avx2))
        return 0;
    isas |= 1u << TLC_ISA_AVX2;
    if (BITS(xcr0, XCR0_AVX512) && BITS(raw.basic_cpuid[7][EBX], avx512f_bw_vl) &&
        BITS(raw.basic_cpuid[7][ECX], vbmi_vbmi2))
        isas |= 1u << TLC_ISA_AVX512;
    return isas;
}
#elif defined(__aarch64__)
static unsigned detect(void)
{
    return 1u << TLC_ISA_NEON;
}
#else
static unsigned detect(void)
{
    return 0;
}
#endif

unsigned tlc_cpu_isas(void)
{
    static atomic_uint known; /* 0: not asked yet; two threads that ask at once find the same */
    unsigned isas = atomic_load_explicit(&known, memory_order_relaxed);

    if (!isas) {
        isas = 1u << TLC_ISA_SCALAR | detect();
        atomic_store_explicit(&known, isas, memory_order_relaxed);
    }
    return isas;
}
