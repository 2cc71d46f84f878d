/* SPDX-License-Identifier: MIT
 *
 * The inner loops, in one table of function pointers for each ISA. The scalar kernels are the specification: every
 * other kernel equals its scalar version bit for bit, for every length and alignment. Kernels choose no ISA and detect
 * no CPU; tables.c and cpu.c do that. kernel_list.h says what each kernel does.
 *
 * float pointers are 4-byte aligned, byte pointers need no alignment. A kernel reads and writes nothing outside the
 * sizes given. Kernels run in the default float mode. Values are finite unless a comment says otherwise.
 */
#ifndef TLC_KERNELS_H
#define TLC_KERNELS_H

#include "../common/stack.h"
#include "../common/float_rules.h"
#include <threelc/threelc.h>

#define TLC_QUARTIC_ZERO 121 /* five digits 1: five symbols 0 */
#define TLC_QUARTIC_MAX 242
#define TLC_RUN_MAX 14 /* a byte 255 */
#define TLC_NATURAL_ZERO 0x40
#define TLC_NATURAL_LEAST (-50) /* exponents of an 8-bit code */
#define TLC_NATURAL_MOST 10
#define TLC_SUM_CHUNK 4096  /* values that are summed on their own: a mean adds the sums of chunks */
#define TLC_ZERORUN_ROOM 64 /* bytes that zerorun_decode may read after its tokens and overwrite after its result */

/* The state of quartic_ternary_decode_uncached between its calls. */
typedef struct tlc_lines {
    int open;          /* the call before was not the last one */
    float left[5][16]; /* if so, what the kernel keeps of cache lines that are not full yet */
} tlc_lines;

#define TLC_TOGETHER_MAX 8 /* frames of quartic_ternary_add_many */

#define TLC_GOLOMB_LANES 16   /* of golomb_skip */
#define TLC_GOLOMB_LONGEST 57 /* bits of a code that a word has, wherever in a byte it begins */

/* Golomb codes, one after the other. b <= 20; signs: 0 or 1 bit each. */
typedef struct tlc_golomb_codes {
    const uint8_t *bytes;
    size_t size; /* bytes */
    unsigned b, signs;
} tlc_golomb_codes;

/* How far codes were read. */
typedef struct tlc_golomb_run {
    uint64_t bit;   /* where the next code begins */
    uint64_t count; /* codes before it */
    uint64_t next;  /* the sum of their d: the least index that the next position can have */
} tlc_golomb_run;

/* Which bytes bytes_allowed allows. */
typedef struct tlc_bytes_rule {
    uint8_t keep, least, above, other;
} tlc_bytes_rule;

/* NOLINTBEGIN(bugprone-macro-parentheses): the arguments are types, names and parameters to declare */
typedef struct tlc_kernels {
    tlc_isa isa;
#define KERNEL(returns, name, parameters, avx2, avx512, neon) returns(*name) parameters;
#include "kernel_list.h"
} tlc_kernels;

/* tlc_<kernel>_<isa> of every kernel and ISA. Those that the list names exist. */
#define KERNEL(returns, name, parameters, avx2, avx512, neon) returns tlc_##name##_scalar parameters;
#include "kernel_list.h"
#if defined(__x86_64__)
#define KERNEL(returns, name, parameters, avx2, avx512, neon) returns tlc_##name##_avx2 parameters;
#include "kernel_list.h"
#define KERNEL(returns, name, parameters, avx2, avx512, neon) returns tlc_##name##_avx512 parameters;
#include "kernel_list.h"
#elif defined(__aarch64__)
#define KERNEL(returns, name, parameters, avx2, avx512, neon) returns tlc_##name##_neon parameters;
#include "kernel_list.h"
#endif
/* NOLINTEND(bugprone-macro-parentheses) */

/* Writes the tokens of a run of bytes 121. Returns the bytes written, at most `run` of them. */
static inline size_t tlc_zerorun_flush(size_t run, uint8_t *out)
{
    size_t size = 0;

    if (run >= TLC_RUN_MAX) {
        size = run / TLC_RUN_MAX;
        run %= TLC_RUN_MAX;
        memset(out, 255, size);
    }
    if (run)
        out[size++] = (uint8_t)(run == 1 ? TLC_QUARTIC_ZERO : 243 + (run - 2));
    return size;
}

/* memcpy for few bytes. Where gcc knows that they are few it makes memcpy a rep movs, which is short, but slow to
 * start. */
static inline void tlc_copy_few(void *dst, const void *src, size_t size)
{
#if defined(__OPTIMIZE_SIZE__)
    memcpy(dst, src, size);
#else
    const uint8_t *from = src;
    uint8_t *to = dst;

    for (; size >= 16; size -= 16, from += 16, to += 16)
        memcpy(to, from, 16);
    for (; size >= 4; size -= 4, from += 4, to += 4)
        memcpy(to, from, 4);
    while (size--)
        *to++ = *from++;
#endif
}

/* tables.c: returns the table of an ISA that is built in and that this machine supports (TLC_ISA_AUTO: the best
 * one), else NULL. If the build does not keep the float rules, there is none at all: TLC_ERR_UNSUPPORTED. */
const tlc_kernels *tlc_kernels_for(tlc_isa isa);

/* tables.c: NULL, or a sentence why tlc_kernels_for has no table at all. Found once, then cached. */
const char *tlc_kernels_fault(void);

/* self_test.c: do the kernels compute as the float rules say? */
int tlc_self_test(const tlc_kernels *kernels);

/* cpu.c: a bit (1 << tlc_isa) for each ISA that the CPU and its OS support. Found once, then cached. */
unsigned tlc_cpu_isas(void);

/* cpu.c: outputs of at least this many bytes should bypass the caches. Found once, then cached. */
size_t tlc_cpu_uncached_threshold(void);

/* ---- for kernels only ---- */

/* Hides from the compiler how a vector was made. Without this clang turns "x or x + v" into "x + (-0 or v)", which
 * differs for signalling NaNs. */
#if defined(__x86_64__)
#define TLC_OPAQUE(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define TLC_OPAQUE(v) __asm__("" : "+w"(v))
#endif

/* Before a loop over vectors or streams that have to stay in registers. */
#if defined(__clang__)
#define TLC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TLC_UNROLL _Pragma("GCC unroll 8")
#endif

/* Which of the two addends of x a kernel has. */
typedef enum tlc_addends { TLC_HAS_G = 1, TLC_HAS_R = 2, TLC_HAS_BOTH = TLC_HAS_G | TLC_HAS_R } tlc_addends;

/* Calls loop(has, g, r, ...) for the addends that are not NULL. The loop is inlined once for each of the three. */
#define TLC_WITH_ADDENDS(loop, g, r, ...)                                                                              \
    (!(r)   ? loop(TLC_HAS_G, g, NULL, __VA_ARGS__)                                                                    \
     : !(g) ? loop(TLC_HAS_R, NULL, r, __VA_ARGS__)                                                                    \
            : loop(TLC_HAS_BOTH, g, r, __VA_ARGS__))
#endif
