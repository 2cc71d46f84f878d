/* SPDX-License-Identifier: MIT
 *
 * What the CPU and its operating system support. An ISA must not be used if the OS does not save its registers,
 * whatever CPUID says. So XCR0 is read as well.
 *
 * Both answers are found once. Two threads that ask at the same time find the same.
 */
#include "../common/built.h"
#include "cpu_leaves.h"
#include "kernels.h"
#include <stdatomic.h>

/* Scalar kernels need no CPU, and store nothing past its caches. */
#if defined(__x86_64__) && !defined(TLC_NO_AVX2)
#define XCR0_AVX 0x06u    /* XMM, YMM */
#define XCR0_AVX512 0xe6u /* and opmask, ZMM */
#define BITS(value, mask) (((value) & (mask)) == (mask))

static uint32_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int has_avx2(const tlc_cpuid *c)
{
    const uint32_t popcnt_osxsave_f16c = 1u << 23 | 1u << 27 | 1u << 29, bmi_avx2_bmi2 = 1u << 3 | 1u << 5 | 1u << 8;
    const uint32_t lzcnt = 1u << 5;

    return BITS(c->features[TLC_ECX], popcnt_osxsave_f16c) && BITS(read_xcr0(), XCR0_AVX) &&
           BITS(c->more_features[TLC_EBX], bmi_avx2_bmi2) && BITS(c->extended_features[TLC_ECX], lzcnt);
}

/* What AVX-512 needs in addition to AVX2. */
static int has_avx512(const tlc_cpuid *c)
{
    const uint32_t f_cd_bw_vl = 1u << 16 | 1u << 28 | 1u << 30 | 1u << 31, vbmi_vbmi2 = 1u << 1 | 1u << 6;

    return BITS(read_xcr0(), XCR0_AVX512) && BITS(c->more_features[TLC_EBX], f_cd_bw_vl) &&
           BITS(c->more_features[TLC_ECX], vbmi_vbmi2);
}

static unsigned detect(void)
{
    tlc_cpuid c;

    if (!tlc_cpuid_read(&c) || !has_avx2(&c))
        return 0;
    return 1u << TLC_ISA_AVX2 | (has_avx512(&c) ? 1u << TLC_ISA_AVX512 : 0u);
}

/* The size of a cache from the registers of CPUID leaf 4 (Intel's) or 0x8000001d (AMD's, in the same form). */
static size_t cache_size(const uint32_t r[4])
{
    size_t ways = (r[TLC_EBX] >> 22) + 1, partitions = (r[TLC_EBX] >> 12 & 0x3ff) + 1, line = (r[TLC_EBX] & 0xfff) + 1;
    return r[TLC_EAX] & 0x1f ? ways * partitions * line * ((size_t)r[TLC_ECX] + 1)
                             : 0; /* 0: there are no more caches */
}

/* The size of the largest cache, or 0 if CPUID does not tell. */
static size_t last_level_cache(void)
{
    tlc_cpuid c;
    size_t largest = 0;

    if (!tlc_cpuid_read(&c))
        return 0;
    for (size_t i = 0; i < TLC_CPUID_CACHES; i++) {
        const size_t intel = cache_size(c.intel_caches[i]), amd = cache_size(c.amd_caches[i]);
        largest = intel > largest ? intel : largest;
        largest = amd > largest ? amd : largest;
    }
    return largest;
}
#else
static unsigned detect(void)
{
#if defined(__aarch64__) && !defined(TLC_NO_NEON)
    return 1u << TLC_ISA_NEON;
#else
    return 0;
#endif
}

static size_t last_level_cache(void)
{
    return 0;
}
#endif

size_t tlc_cpu_uncached_threshold(void)
{
    /* Many cores share a larger cache, and the share of one core is soon used up. With a cache of 480 MiB uncached
     * stores are as fast at 16 MiB and faster at 32 MiB. */
    const size_t most = (size_t)32 << 20;
    static atomic_size_t known;
    size_t threshold = atomic_load_explicit(&known, memory_order_relaxed);

    if (!threshold) {
        size_t cache = last_level_cache();
        threshold = cache && cache < most ? cache : most;
        atomic_store_explicit(&known, threshold, memory_order_relaxed);
    }
    return threshold;
}

unsigned tlc_cpu_isas(void)
{
    static atomic_uint known; /* 0: not asked yet */
    unsigned isas = atomic_load_explicit(&known, memory_order_relaxed);

    if (!isas) {
        isas = 1u << TLC_ISA_SCALAR | detect();
        atomic_store_explicit(&known, isas, memory_order_relaxed);
    }
    return isas;
}
