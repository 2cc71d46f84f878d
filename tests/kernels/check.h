/* SPDX-License-Identifier: MIT
 *
 * What the parts of check_kernels share. A check_kernel describes a kernel of kernel_list.h: its operands, how to fill
 * them, and how to call it. The driver (check_kernels.c) and the benchmark (check_bench.c) know nothing else about it.
 */
#ifndef TLC_TEST_CHECK_H
#define TLC_TEST_CHECK_H

#include "../../src/kernels/kernels.h"

enum { CHECK_SLOTS = 11, CHECK_OPERANDS = 5, CHECK_EXTRA = 2048 };

typedef enum value_type { F32 = 1, HALF, BYTE, SYMBOL, WORD, BITS, MASK, NIBBLE } value_type;

enum { /* operand.io */
       IN = 1,
       OUT = 2,
       MAYBE = 4, /* may be NULL, but not together with the other such operand */
       PREFIX = 8 /* only the first result.value[0] bytes are defined, the rest may hold anything */
};

typedef struct operand {
    const char *name;
    value_type type;
    unsigned io;
    unsigned streams; /* pointers: 1 or 5 */
} operand;

typedef struct check_args {
    void *p[CHECK_SLOTS];     /* one for each stream of each operand, in order; n + CHECK_EXTRA values can be filled */
    size_t size[CHECK_SLOTS]; /* bytes: n values, unless fill says otherwise */
    size_t n;
    float scale;                /* M, w or max */
    float K;                    /* levels */
    int shift;                  /* natural */
    float mean[2];              /* onebit */
    uint32_t flip, keep, limit; /* masks */
    int32_t least;
    uint64_t philox[3]; /* seed, step, first */
    size_t run;         /* zerorun_encode: carried in */
    size_t cut;         /* zerorun_encode: where the work is split into two calls, 0 for one call */
    size_t tokens;      /* zerorun_decode: how many; TLC_ZERORUN_ROOM bytes follow them */
    uint64_t base;      /* conversions: where in the sweep */
} check_args;

typedef struct check_result {
    uint64_t value[2];
} check_result;

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define RESULT(number) ((check_result){{(number), 0}})
#define NOTHING RESULT(0)

/* check_kernel.call of kernels that return nothing or a number: CALL(philox, philox(a->n, a->p[0])). */
#define CALL(name, expression)                                                                                         \
    static check_result call_##name(const tlc_kernels *k, const check_args *a)                                         \
    {                                                                                                                  \
        k->expression;                                                                                                 \
        return NOTHING;                                                                                                \
    }
#define CALL_RESULT(name, expression)                                                                                  \
    static check_result call_##name(const tlc_kernels *k, const check_args *a)                                         \
    {                                                                                                                  \
        return RESULT(k->expression);                                                                                  \
    }

enum {                /* check_kernel.flags */
       ANY_NAN = 1,   /* a NaN equals any other NaN */
       MAGNITUDE = 2, /* the result is a magnitude's bits: everything from TLC_F32_INF up is equal */
       BYTE_SIDE = 4  /* speeds are in bytes of the byte side: there is no float side */
};

enum { KIND_BENCH = -1 }; /* typical data, for timing */

/* The kernels of tlc_kernels. */
typedef enum kernel_id {
#define KERNEL(returns, name, parameters, avx2, avx512, neon) KERNEL_##name,
#include "../../src/kernels/kernel_list.h"
    KERNEL_COUNT
} kernel_id;

extern const char *const kernel_names[];
/* Do both tables take the same function? */
int same_kernel(const tlc_kernels *a, const tlc_kernels *b, kernel_id kernel);

/* The first two members of a check_kernel: for a kernel, and for the same with random words. */
#define OF(kernel) #kernel, KERNEL_##kernel
#define RANDOM_OF(kernel) #kernel "_random", KERNEL_##kernel

typedef struct check_kernel {
    const char *name;
    kernel_id kernel;
    operand operand[CHECK_OPERANDS]; /* up to the first without a type */
    unsigned flags;
    const char *const *kinds; /* names of the kinds of input, and their number */
    int kind_count;
    int (*fill)(check_args *a, int kind); /* 0: there is no such data here */
    check_result (*call)(const tlc_kernels *k, const check_args *a);
    uint64_t (*sweep)(void); /* NULL, or the number of values of kind 0 that must all be seen, from base 0 up */
} check_kernel;

extern const check_kernel check_kernel_list[]; /* up to the first without a name */
extern const check_kernel check_level_kernels[], check_mask_kernels[], check_golomb_kernels[], check_byte_kernels[],
    check_delta_kernels[];
const check_kernel *check_kernel_at(size_t index); /* the index-th of all lists; NULL past the end */

typedef enum check_effort { FULL, QUICK, QUICKER } check_effort;

typedef struct check_options {
    check_effort effort;
    int exhaustive;
    uint64_t seed;
    const char *isa, *kernel, *except, *data;
} check_options;

extern check_options check_opt;

static inline size_t type_size(value_type type)
{
    return type == MASK ? 8 : type == F32 || type == WORD ? 4 : type == HALF ? 2 : 1;
}

/* Of n values; BITS is a bit for each in bytes, MASK in words of 64, NIBBLE half a byte, for an even number. */
static inline size_t type_bytes(value_type type, size_t n)
{
    return type == BITS ? (n + 7) / 8 : type == NIBBLE ? n / 2 : type == MASK ? (n + 63) / 64 * 8 : n * type_size(type);
}

/* check_inputs.c */
uint64_t rng(void);
void rng_seed(uint64_t seed);
static inline size_t rng_below(size_t n)
{
    return (size_t)(rng() >> 16) % n;
}
int inputs_load(const char *directory); /* the number of real values found */
void inputs_init(void);

extern const char *const float_kinds[];
enum { FLOAT_KINDS = 8, FLOAT_KINDS_ANY = 10 }; /* the last two hold values that are not finite */
/* Chooses M for this kind of input; floats_fill then fills g and r (or g, r NULL) so that g, r and g + r are finite. */
int floats_begin(int kind, float *M);
void floats_fill(uint32_t *g, uint32_t *r, size_t n);
void fill_laplace(uint32_t *x, uint32_t *y, size_t n); /* floats_fill of typical data */
uint32_t any_float(void);
uint32_t finite_float(void);
void fill_sum(uint32_t *sum, size_t n); /* what a caller's sum may hold: anything */
uint32_t sweep_float(uint64_t i);       /* every exponent, rounding ties at every bit, their neighbours, random bits */

/* check_kernels.c: check_begin once, then each kernel. Returns whether it equals the scalar one. The scalar one itself
 * is not compared, but must not change its inputs, nor touch what is around its buffers. */
void check_begin(void);
int check_kernel_isa(const check_kernel *kernel, const tlc_kernels *tables, const char *isa);

/* check_bench.c; the first of the tables is the scalar one */
void check_bench(const tlc_kernels *const *tables, const char *const *names, size_t count);
#endif
