/* SPDX-License-Identifier: MIT
 *
 * What the tests share: the lists that they run over, data, buffers that end at a guard page, ways to run tasks.
 *
 * TLC_TEST_QUICK=1 in the environment makes the tests smaller, for emulators and checkers; TLC_TEST_DATA names a
 * directory of .npy traces.
 */
#ifndef TLC_TEST_SUPPORT_H
#define TLC_TEST_SUPPORT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "guard.h"
#include <threelc/stages.h>
#include <threelc/threelc.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* ---- the lists --------------------------------------------------------------------------------------------------- */

/* A new codec joins every test with a line in support.c. */
typedef struct codec_case {
    const char *text;
    const char *decoding;   /* its decoding form, as tlc_inspect tells it */
    int feedback;           /* error feedback by default */
    int exact;              /* sends any bits without feedback, NaN included */
    int lossless;           /* what is finite arrives as it is, but for narrowing, so the residual stays 0 */
    int has_zero;           /* tlc_mask works */
    int symbols;            /* sends symbols times a scalar; else a value each */
    size_t random;          /* frames depend on seed and step, from this many values on; 0: they do not */
    int clips;              /* large and tiny values are sent as others */
    unsigned scalars;       /* f32 in the header, or in each entry of the block table */
    int any_sign;           /* they may be negative */
    unsigned scratch;       /* bits a value that a context keeps for coding */
    unsigned together;      /* values that are coded as one; 0: 1. Tensors must be so much larger to be shared out */
    enum { BOUND_ALWAYS, BOUND_BY_TIES, BOUND_BY_PLACES, BOUND_BY_CHANCE } bound; /* what makes the largest frame */
} codec_case;

extern const codec_case codecs[];
extern const size_t codec_count;

extern const tlc_dtype dtypes[3];
extern const char *const dtype_name[3];
extern const size_t dtype_size[3];

/* The block=B of a codec string, or 0. */
size_t block_of(const char *text);
/* Words of scratch that a context of n values needs for a codec, without tlc_parallel. */
size_t scratch_words(const codec_case *c, size_t n);
/* Every codec of the list, and raw:block=1, for tlc_config.reserve. */
const char *reserve_all(void);

/* NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names to declare */
#define FOR_EACH_CODEC(c) for (const codec_case *c = codecs; c < codecs + codec_count; c++)
#define FOR_EACH_DTYPE(t) for (tlc_dtype t = TLC_F32; t <= TLC_BF16; t++)
/* Those that this machine supports. */
#define FOR_EACH_ISA(isa)                                                                                               \
    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++)                                                      \
        if (tlc_isa_supported(isa))
/* NOLINTEND(bugprone-macro-parentheses) */

int quick(void); /* is TLC_TEST_QUICK set? */
void print_isas(void);

/* ---- where a test is, for its messages --------------------------------------------------------------------------- */

typedef struct place {
    const char *codec, *note; /* or NULL */
    tlc_dtype dtype;
    tlc_isa isa;
    size_t n, i;
} place;
extern place at; /* of the main thread */

/* Fails the test, and says where it was. Main thread only. */
#define require(condition) ((condition) ? (void)0 : require_failed(#condition, __FILE__, __LINE__))
#define require_status(call, want) require_status_is(#call, call, want, __FILE__, __LINE__)
_Noreturn void require_failed(const char *what, const char *file, int line);
void require_status_is(const char *what, tlc_status got, tlc_status want, const char *file, int line);

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

tlc_config config(const char *codec, tlc_dtype dtype, tlc_isa isa); /* the rest default */
tlc_ctx *create(const tlc_config *cfg, size_t n);
/* tlc_compress with all of tlc_bound; returns the frame's length. */
size_t compress(tlc_ctx *ctx, const void *grad, void *dst);

/* All that a failed call must not change: codec, seed, step, residual. */
typedef struct snapshot {
    uint8_t *state;
    size_t size, bound;
} snapshot;
snapshot snap(const tlc_ctx *ctx);
void require_same_state(tlc_ctx *ctx, const snapshot *before);
void snap_free(snapshot *s);

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea, Flood, 2014): any seed is good. */
typedef struct rng {
    uint64_t state;
} rng;
uint64_t rng_next(rng *r);
size_t rng_below(rng *r, size_t n);  /* 0 <= result < n; n > 0 */
double rng_double(rng *r);           /* 0 < result < 1 */

typedef enum data_kind {
    DATA_LAPLACE,
    DATA_ZERO,
    DATA_SPARSE, /* stretches of zeros up to thousands long between short Laplace ones: runs cross every border */
    DATA_DENSE,  /* no symbol is 0, nothing can be shrunk: the largest frames */
    DATA_TINY,   /* subnormals */
    DATA_POSITIVE,
    DATA_NEGATIVE,
    DATA_TIES,   /* a few magnitudes, again and again, and zeros of both signs */
    DATA_WIDE,   /* exponents from -149 to 90 */
    DATA_COUNT
} data_kind;
void fill(data_kind kind, uint64_t seed, float *x, size_t n);
void fill_grad(data_kind kind, uint64_t seed, tlc_dtype dtype, void *grad, size_t n); /* narrowed; no alignment needed */

float *floats(size_t n);  /* malloc or failure; n = 0 is fine */
uint8_t *bytes(size_t n);
int all_bytes(const void *p, size_t len, uint8_t value);
int same(const void *a, const void *b, size_t len); /* NULL is fine for len = 0 */

/* The value at index i of an array of any dtype and alignment as binary32 bits, made here without the library. */
uint32_t widened(tlc_dtype dtype, const void *src, size_t i);
float bits_float(uint32_t bits);
uint32_t float_bits(float x);

/* Calls test for every .npy of float32 in TLC_TEST_DATA; rows are steps. Returns how many there were. */
size_t each_trace(void (*test)(const char *name, const float *values, size_t rows, size_t cols));

/* ---- guarded buffers --------------------------------------------------------------------------------------------- */

/* Pages between two that cannot be touched. A buffer lies at either end; the margin on its open side is checked. */
typedef struct arena {
    guard_buffer pages;
    uint8_t *given;
    size_t given_size;
} arena;
void arena_open(arena *a, size_t size);
void arena_close(arena *a);
/* size bytes. end: one byte further is a fault, and they are aligned as size is; else one byte before is a fault. */
uint8_t *arena_take(arena *a, size_t size, int end);
uint8_t *arena_copy(arena *a, const void *src, size_t size, int end);
int arena_intact(const arena *a); /* is the margin as it was? */
void arena_readonly(arena *a, int on);

/* ---- ways to run tasks ------------------------------------------------------------------------------------------- */

typedef struct runner {
    const char *name;
    tlc_parallel parallel;
} runner;
extern const runner runners[]; /* the first is none */
extern const size_t runner_count;
extern size_t most_tasks;      /* in one run() since the test set it to 0: were there any to share? */

/* ---- parameters of stages.h -------------------------------------------------------------------------------------- */

/* PARAMS(levels, .seed = 1): a tlc_levels_params with its size */
#define PARAMS(stage, ...)                                                                                             \
    &(tlc_##stage##_params)                                                                                            \
    {                                                                                                                  \
        .struct_size = sizeof(tlc_##stage##_params), __VA_ARGS__                                                       \
    }

#endif
