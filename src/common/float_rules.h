/* SPDX-License-Identifier: MIT
 *
 * The float rules. Every source that computes with floats includes this file, because other builds do not have our
 * flags. All arithmetic is IEEE binary32 or binary64 as written: no contraction, no excess precision, no fast-math. It
 * runs in the default float mode (round to nearest even, subnormals kept, traps masked), whatever mode the caller has.
 * (The name float.h would hide <float.h> in builds with -Isrc.)
 */
#ifndef TLC_FLOAT_RULES_H
#define TLC_FLOAT_RULES_H

/* Flags that change float results are refused, or switched off for the file.
 * gcc tells of nearly all by __GCC_IEC_559: -ffast-math, -Ofast, -funsafe-math-optimizations, -fassociative-math,
 * -freciprocal-math, -ffinite-math-only, -fno-signed-zeros, -fsingle-precision-constant, -std=c11 -ffp-contract=fast.
 * With gnu11 contraction is switched off.
 * clang tells of -ffast-math and -ffinite-math-only. Its pragma switches off the parts: -fassociative-math,
 * -freciprocal-math, -fno-signed-zeros, -fapprox-func, -fno-honor-infinities. It does not switch off -fno-honor-nans
 * and -ffp-contract=fast: kernels/self_test.c finds what they change when the library runs.
 * The others change nothing here: -fno-math-errno, -fno-trapping-math, -frounding-math, -fsignaling-nans, -mrecip,
 * -fdenormal-fp-math. tests/scripts/float-flags.sh tries them all. */
#if defined(__FAST_MATH__) || (__FINITE_MATH_ONLY__ + 0) || (defined(__GCC_IEC_559) && __GCC_IEC_559 == 0)
#error "libthreelc must not be built with a part of -ffast-math, or in ISO C with contraction: frames would differ"
#endif
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wignored-pragmas" /* older clang lacks it for some machines */
#pragma float_control(precise, on)
#pragma clang diagnostic pop
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#else
#error "libthreelc is built with gcc or clang"
#endif

#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16 /* 16: _Float16 too has its own precision, as -mavx512fp16 makes it */
#error "libthreelc needs FLT_EVAL_METHOD 0: use -std=gnu11, and on i386 -msse2 -mfpmath=sse"
#endif

_Static_assert(sizeof(float) == 4 && FLT_MANT_DIG == 24 && CHAR_BIT == 8, "float must be IEEE binary32");

#define TLC_F32_ABS 0x7fffffffu
#define TLC_F32_INF 0x7f800000u
#define TLC_F32_NAN 0x7fc00000u /* every new NaN that the library stores */

static inline uint32_t tlc_float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float tlc_bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline int tlc_finite(float x)
{
    return (tlc_float_bits(x) & TLC_F32_ABS) < TLC_F32_INF;
}

/* The caller's float mode and exception flags, saved while the library computes. */
#if defined(__SSE2__)
#include <emmintrin.h>
typedef struct tlc_float_mode {
    unsigned mxcsr;
} tlc_float_mode;
#define TLC_MXCSR 0x1f80u
#define TLC_MXCSR_FLAGS 0x3fu /* the exception flags: no mode, but they belong to the caller too */
/* Writing the register costs some 20 ns, and the flags differ as soon as anything was rounded. So it is written only if
 * the mode must change, or the flags must be restored. */
static inline tlc_float_mode tlc_float_enter(void)
{
    tlc_float_mode saved = {_mm_getcsr()};
    if ((saved.mxcsr & ~TLC_MXCSR_FLAGS) != TLC_MXCSR)
        _mm_setcsr(TLC_MXCSR);
    return saved;
}
static inline void tlc_float_leave(tlc_float_mode saved)
{
    if (_mm_getcsr() != saved.mxcsr)
        _mm_setcsr(saved.mxcsr);
}
#elif defined(__aarch64__)
typedef struct tlc_float_mode {
    uint64_t fpcr, fpsr;
} tlc_float_mode;
static inline tlc_float_mode tlc_float_enter(void)
{
    tlc_float_mode saved;
    __asm__ __volatile__("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(saved.fpcr), "=r"(saved.fpsr) : : "memory");
    if (saved.fpcr)
        __asm__ __volatile__("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return saved;
}
static inline void tlc_float_leave(tlc_float_mode saved)
{
    if (saved.fpcr)
        __asm__ __volatile__("msr fpcr, %0" : : "r"(saved.fpcr) : "memory");
    __asm__ __volatile__("msr fpsr, %0" : : "r"(saved.fpsr) : "memory");
}
#else
#include <fenv.h>
typedef struct tlc_float_mode {
    fenv_t env;
} tlc_float_mode;
static inline tlc_float_mode tlc_float_enter(void)
{
    tlc_float_mode saved;
    (void)feholdexcept(&saved.env);
    (void)fesetround(FE_TONEAREST);
    return saved;
}
static inline void tlc_float_leave(tlc_float_mode saved)
{
    (void)fesetenv(&saved.env);
}
#endif
#endif
