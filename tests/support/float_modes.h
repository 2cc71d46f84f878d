/* SPDX-License-Identifier: MIT
 *
 * The float modes that a caller may be in: flush-to-zero, other rounding, unmasked traps. Tests of promise P7.
 */
#ifndef TLC_TEST_FLOAT_MODES_H
#define TLC_TEST_FLOAT_MODES_H

#include <fenv.h>
#include <stdint.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef enum float_mode {
    MODE_DEFAULT,
    MODE_UPWARD,
    MODE_DOWNWARD,
    MODE_TOWARDZERO,
    MODE_FLUSH, /* subnormals to zero, in and out */
    MODE_TRAPS, /* every exception is SIGFPE */
    MODE_COUNT
} float_mode;

static const char *const mode_name[MODE_COUNT] = {"default mode", "upward",        "downward",
                                                  "toward zero",  "flush to zero", "traps"};

/* The control bits of the mode in force, without the sticky flags. */
static inline uint64_t mode_read(void)
{
#if defined(__SSE2__)
    uint16_t x87 = 0; /* MemorySanitizer does not see what assembly writes */
    __asm__ __volatile__("fnstcw %0" : "=m"(x87));
    return (uint64_t)x87 << 32 | (_mm_getcsr() & 0xffc0u);
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(fpcr) : : "memory");
    return fpcr;
#else
    return (uint64_t)fegetround() << 32 | (uint64_t)fegetexcept();
#endif
}

static inline int mode_flush(void)
{
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8040u); /* FTZ, DAZ */
    return 1;
#elif defined(__aarch64__)
    __asm__ __volatile__("msr fpcr, %0" : : "r"(mode_read() | UINT64_C(1) << 24) : "memory"); /* FZ */
    return 1;
#else
    return 0;
#endif
}

static inline int mode_traps(void)
{
#if defined(__GLIBC__)
    (void)feclearexcept(FE_ALL_EXCEPT);
    if (feenableexcept(FE_ALL_EXCEPT) == -1 || fegetexcept() != FE_ALL_EXCEPT)
        return 0;
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() & ~0x1fffu); /* fenv.h has no name for the exception of subnormal operands */
#endif
    return 1;
#else
    return 0;
#endif
}

/* Returns 0 if the machine has no such mode. Only the calls under test may run in it. */
static inline int mode_enter(float_mode m)
{
    switch (m) {
    case MODE_UPWARD: return !fesetround(FE_UPWARD);
    case MODE_DOWNWARD: return !fesetround(FE_DOWNWARD);
    case MODE_TOWARDZERO: return !fesetround(FE_TOWARDZERO);
    case MODE_FLUSH: return mode_flush();
    case MODE_TRAPS: return mode_traps();
    default: return 1;
    }
}

static inline void mode_leave(void)
{
    (void)fesetenv(FE_DFL_ENV);
#if defined(__SSE2__)
    _mm_setcsr(0x1f80u); /* MinGW leaves it as it is */
#endif
}

static inline int has_mode(float_mode m)
{
    int has = mode_enter(m);

    mode_leave();
    return has;
}

/* Before a call: enters the mode. After it: leaves it. Returns 0 if the call did not leave the mode as it was. */
static inline int mode_around(float_mode m, int before)
{
    static uint64_t was;
    uint64_t is = 0;

    if (before) {
        (void)mode_enter(m);
        was = mode_read();
        return 1;
    }
    is = mode_read();
    mode_leave();
    return is == was;
}

#endif
