/* SPDX-License-Identifier: MIT
 *
 * What the CPU and its operating system support. An ISA must not be used if the OS does not save its registers,
 * whatever CPUID says. So XCR0 is read as well: libcpuid does not do that, and it never reports AVX-512 on AMD.
 *
 * Both answers are found once. Two threads that ask at the same time find the same.
 */
#include "kernels.h"
#include <stdatomic.h>

#if defined(__x86_64__)
#include <libcpuid/libcpuid.h>
#include <string.h>

#define XCR0_AVX 0x06u    /* XMM, YMM */
#define XCR0_AVX512 0xe6u /* and opmask, ZMM */
#define BITS(value, mask) (((value) & (mask)) == (mask))

/* Fills with zeros first: MemorySanitizer does not see what libcpuid, built without it, writes. */
static int read_cpuid(struct cpu_raw_data_t *raw)
{
    memset(raw, 0, sizeof *raw);
    return cpuid_get_raw_data(raw) == 0;
}

static uint32_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static int has_avx2(const struct cpu_raw_data_t *raw)
{
    const uint32_t popcnt_osxsave_f16c = 1u << 23 | 1u << 27 | 1u << 29, bmi_avx2_bmi2 = 1u << 3 | 1u << 5 | 1u << 8;
    const uint32_t lzcnt = 1u << 5;

    return raw->basic_cpuid[0][EAX] >= 7 && BITS(raw->basic_cpuid[1][ECX], popcnt_osxsave_f16c) &&
           BITS(read_xcr0(), XCR0_AVX) && BITS(raw->basic_cpuid[7][EBX], bmi_avx2_bmi2) &&
           BITS(raw->ext_cpuid[1][ECX], lzcnt);
}

/* What AVX-512 needs in addition to AVX2. */
static int has_avx512(const struct cpu_raw_data_t *raw)
{
    const uint32_t f_cd_bw_vl = 1u << 16 | 1u << 28 | 1u << 30 | 1u << 31, vbmi_vbmi2 = 1u << 1 | 1u << 6;

    return BITS(read_xcr0(), XCR0_AVX512) && BITS(raw->basic_cpuid[7][EBX], f_cd_bw_vl) &&
           BITS(raw->basic_cpuid[7][ECX], vbmi_vbmi2);
}

static unsigned detect(void)
{
    struct cpu_raw_data_t raw;

    if (!read_cpuid(&raw) || !has_avx2(&raw))
        return 0;
    return 1u << TLC_ISA_AVX2 | (has_avx512(&raw) ? 1u << TLC_ISA_AVX512 : 0u);
}

/* The size of a cache from the registers of CPUID leaf 4 (Intel's) or 0x8000001d (AMD's, in the same form). */
static size_t cache_size(const uint32_t r[4])
{
    size_t ways = (r[EBX] >> 22) + 1, partitions = (r[EBX] >> 12 & 0x3ff) + 1, line = (r[EBX] & 0xfff) + 1;
    return r[EAX] & 0x1f ? ways * partitions * line * ((size_t)r[ECX] + 1) : 0; /* 0: there are no more caches */
}

/* The size of the largest cache, or 0 if CPUID does not tell. */
static size_t last_level_cache(void)
{
    struct cpu_raw_data_t raw;
    size_t largest = 0;

    if (!read_cpuid(&raw))
        return 0;
    for (int i = 0; i < MAX_INTELFN4_LEVEL && i < MAX_AMDFN8000001DH_LEVEL; i++) {
        size_t intel = raw.basic_cpuid[0][EAX] >= 4 ? cache_size(raw.intel_fn4[i]) : 0;
        size_t amd = raw.ext_cpuid[0][EAX] >= 0x8000001d ? cache_size(raw.amd_fn8000001dh[i]) : 0;
        largest = intel > largest ? intel : largest;
        largest = amd > largest ? amd : largest;
    }
    return largest;
}
#else
static unsigned detect(void)
{
#if defined(__aarch64__)
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
