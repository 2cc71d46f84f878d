/* SPDX-License-Identifier: MIT
 *
 * What the tests share: the codecs, dtypes and ISAs, data, buffers that end at a guard page, ways to run tasks.
 *
 * With TLC_TEST_QUICK=1 in the environment the tests are smaller, for emulators and checkers. TLC_TEST_DATA names a
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
#include "posix.h"
#include <threelc/stages.h>
#include <threelc/threelc.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* ---- the lists --------------------------------------------------------------------------------------------------- */

/* What becomes of a frame when its decoded values are encoded again. */
typedef enum again_law {
    NOTHING,  /* it is rounded at random: no law */
    STABLE,   /* the values may change once, not twice */
    EXACT,    /* the same values */
    IDENTICAL /* the same bytes */
} again_law;

/* A line of codecs.def. */
typedef struct codec_case {
    const char *text;
    const char *decoding; /* its decoding form, as tlc_inspect tells it */
    int feedback;         /* error feedback by default */
    int exact;            /* sends any bits without feedback, NaN included */
    int lossless;         /* finite values arrive as they are, except for narrowing; the residual stays 0 */
    int has_zero;         /* tlc_mask works */
    int symbols;          /* sends symbols times a scalar; else a value each */
    size_t random;        /* frames of this many values or more depend on seed and step; 0: none do */
    int clips;            /* large and tiny values are sent as others */
    unsigned scalars;     /* f32 in the header, or in each entry of the block table */
    int any_sign;         /* they may be negative */
    unsigned scratch;     /* bits a value that a context keeps for coding */
    unsigned together;    /* values that are coded as one; 0: 1. Tensors must be so much larger for several tasks */
    enum { BOUND_ALWAYS, BOUND_BY_TIES, BOUND_BY_PLACES, BOUND_BY_CHANCE } bound; /* what makes the largest frame */
    /* These three are the same for all codecs whose decoding form begins with the same stage. */
    again_law law;
    const char *again; /* parameters to encode again with, beside those of the decoding form; NULL: none */
    size_t again_most; /* the law holds for up to this many values; 0: for any number */
} codec_case;

extern const codec_case codecs[];
extern const size_t codec_count;

extern const tlc_dtype dtypes[3];
extern const char *const dtype_name[11]; /* of weights, too */
extern const size_t dtype_size[3];

/* A codec whose decoding form begins with the same stage as this decoding form; NULL if there is none. */
const codec_case *codec_by_form(const char *form);
/* The block=B of a codec string, or 0. */
size_t block_of(const char *text);
/* The scalars that the header of a frame has, if its codec ends with the quantizer. Returns how many. */
size_t header_scalars(const tlc_frame_info *info, const uint8_t *frame, float scalars[2]);
/* Words of scratch that a context of n values needs for a codec, without tlc_parallel. */
size_t scratch_words(const codec_case *c, size_t n);
/* Every codec of the list, and raw:block=1, for tlc_config.reserve. */
const char *reserve_all(void);

/* NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names to declare */
#define FOR_EACH_CODEC(c) for (const codec_case *c = codecs; c < codecs + codec_count; c++)
#define FOR_EACH_DTYPE(t) for (tlc_dtype t = TLC_F32; t <= TLC_BF16; t++)
#define FOR_EACH_WEIGHT_DTYPE(t) for (tlc_dtype t = TLC_F32; t <= TLC_F64; t++)
/* Those that this machine supports. */
#define FOR_EACH_ISA(isa)                                                                                              \
    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++)                                                     \
        if (tlc_isa_supported(isa))
/* NOLINTEND(bugprone-macro-parentheses) */
/* One that it lacks, or TLC_ISA_AUTO. */
tlc_isa missing_isa(void);

int quick(void); /* is TLC_TEST_QUICK set? */

/* ---- the tests of a program -------------------------------------------------------------------------------------- */

/* NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names to declare */

/* TEST(what_holds) { ... } is a test. A program runs those of its file from top to bottom; each is a line of output. */
#define TEST(name)                                                                                                     \
    static void name(void **state);                                                                                    \
    __attribute__((constructor)) static void add_test_##name(void)                                                     \
    {                                                                                                                  \
        add_test(#name, name, __LINE__);                                                                               \
    }                                                                                                                  \
    static void name(__attribute__((unused)) void **state)

/* A function that runs before them all, and returns 0. */
#define SETUP(name)                                                                                                    \
    __attribute__((constructor)) static void set_setup_##name(void)                                                    \
    {                                                                                                                  \
        set_setup(name);                                                                                               \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

void add_test(const char *name, void (*test)(void **state), int line);
void set_setup(int (*function)(void **state));
extern const char *test_argument; /* the first argument of the program, or NULL */

int print_isas(void **state); /* a SETUP: comments come after the first lines of TAP */

/* ---- where a test is, for its messages --------------------------------------------------------------------------- */

typedef struct place {
    const char *codec, *note; /* or NULL */
    tlc_dtype dtype;
    tlc_isa isa;
    size_t n, i;
} place;
extern place at;                 /* of the main thread */
void set_note(const char *text); /* at.note of a text that may not live as long: a copy */

/* Fails the test, and says where it was. Main thread only. */
#define require(condition) ((condition) ? (void)0 : require_failed(#condition, __FILE__, __LINE__))
#define require_status(call, want) require_status_is(#call, call, want, __FILE__, __LINE__)
_Noreturn void require_failed(const char *what, const char *file, int line);
void require_status_is(const char *what, tlc_status got, tlc_status want, const char *file, int line);
/* Ends the test as skipped. For a test that checks nothing on this machine; one that leaves out a part has passed. */
_Noreturn void skip_test(const char *why);

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Does text hold the parts of words, which " ... " separates, in their order? */
int holds(const char *text, const char *words);
/* Fails the test unless it does, and unless text is printable ASCII. */
#define require_says(text, words) require_says_is(text, words, __FILE__, __LINE__)
void require_says_is(const char *text, const char *words, const char *file, int line);

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

tlc_config config(const char *codec, tlc_dtype dtype, tlc_isa isa); /* the rest default */
tlc_ctx *create(const tlc_config *cfg, size_t n);
/* tlc_compress with all of tlc_bound; returns the frame's length. */
size_t compress(tlc_ctx *ctx, const void *grad, void *dst);

extern const tlc_allocator no_allocator;    /* it has no memory */
extern size_t refused_times, refused_bytes; /* its calls so far, and the size of the last one */

/* What a failed call must not change: codec, seed, step, residual, bound. */
typedef struct snapshot {
    uint8_t *state;
    size_t size, bound;
} snapshot;
snapshot snap(const tlc_ctx *ctx);
void require_same_state(const tlc_ctx *ctx, const snapshot *before);
void snap_free(snapshot *s);

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea, Flood, 2014): any seed is good. */
typedef struct rng {
    uint64_t state;
} rng;
uint64_t rng_next(rng *r);
size_t rng_below(rng *r, size_t n); /* 0 <= result < n; n > 0 */
double rng_double(rng *r);          /* 0 < result < 1 */

typedef enum data_kind {
    DATA_LAPLACE,
    DATA_ZERO,
    DATA_SPARSE, /* thousands of zeros, then a few Laplace values, and so on: runs cross every border */
    DATA_DENSE,  /* no symbol is 0: the largest frames */
    DATA_TINY,   /* subnormals */
    DATA_POSITIVE,
    DATA_NEGATIVE,
    DATA_TIES, /* a few magnitudes, again and again, and zeros of both signs */
    DATA_WIDE, /* exponents from -149 to 90 */
    DATA_COUNT
} data_kind;
void fill(data_kind kind, uint64_t seed, float *x, size_t n);
/* The same, narrowed to dtype; grad needs no alignment. */
void fill_grad(data_kind kind, uint64_t seed, tlc_dtype dtype, void *grad, size_t n);

/* Weights of any dtype that deltas know: bits and bytes, one of them as its bits, and some as trained models have. */
unsigned weight_bits(tlc_dtype dtype);
size_t weights_size(tlc_dtype dtype, size_t n);
uint64_t weight_at(tlc_dtype dtype, const void *weights, size_t i);
void put_weight(tlc_dtype dtype, void *weights, size_t i, uint64_t x);
void fill_weights(uint64_t seed, tlc_dtype dtype, void *weights, size_t n);

float *floats(size_t n); /* malloc or failure; n = 0 is fine */
uint8_t *bytes(size_t n);
int all_bytes(const void *p, size_t len, uint8_t value);
/* Is `part` what is left of `whole` in cap bytes, at least 1: all of it, all but the list of codecs, or its beginning
 * and "..."? */
int is_shortened(const char *part, size_t cap, const char *whole);
int same(const void *a, const void *b, size_t len); /* NULL is fine for len = 0 */

/* The value at index i of an array of any dtype and alignment, as binary32 bits. Does not use the library. */
uint32_t widened(tlc_dtype dtype, const void *src, size_t i);
void widen(tlc_dtype dtype, const void *src, float *x, size_t n); /* n values */
float bits_float(uint32_t bits);
uint32_t float_bits(float x);

/* Recorded gradients: rows (steps) of cols values, and the residual before the first step. */
typedef struct trace {
    const char *name; /* FOLDER/FILE */
    double s;         /* that the run was trained with: the folder's name ends in -sNUMBER */
    size_t rows, cols;
    const float *values, *residual;
} trace;

/* Calls test for every NAME.npy in the folders of TLC_TEST_DATA. Each must be float32, and have NAME.residual.npy
 * beside it. Returns how many there were. */
size_t each_trace(void (*test)(const trace *t));

/* ---- guarded buffers --------------------------------------------------------------------------------------------- */

/* Pages between two guard pages. A buffer lies at either end of them; the margin on its other side is checked. */
typedef struct arena {
    guard_buffer pages;
    uint8_t *given;
    size_t given_size;
} arena;
void arena_open(arena *a, size_t size);
void arena_close(arena *a);
/* A buffer of size bytes. end: it ends at a guard page; otherwise it begins after one. */
uint8_t *arena_take(arena *a, size_t size, int end);
uint8_t *arena_copy(arena *a, const void *src, size_t size, int end);
int arena_intact(const arena *a); /* is the margin unchanged? */
void arena_readonly(arena *a, int on);

/* ---- ways to run tasks ------------------------------------------------------------------------------------------- */

typedef struct runner {
    const char *name;
    tlc_parallel parallel;
} runner;
extern const runner runners[]; /* the first is none */
extern const size_t runner_count;
extern size_t most_tasks; /* the largest number of tasks in one run() since the test set it to 0 */

/* ---- parameters of stages.h -------------------------------------------------------------------------------------- */

/* PARAMS(levels, .seed = 1): a tlc_levels_params with its size */
#define PARAMS(stage, ...)                                                                                             \
    &(tlc_##stage##_params)                                                                                            \
    {                                                                                                                  \
        .struct_size = sizeof(tlc_##stage##_params), __VA_ARGS__                                                       \
    }

#endif
