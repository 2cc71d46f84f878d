/* SPDX-License-Identifier: MIT
 *
 * What the benchmark compresses: tensors. Each tensor has the gradients of consecutive steps. All tensors of a source
 * have the same number of steps and one dtype, and are held in memory. They are read from files or drawn at random.
 *
 * A function that fails returns false and writes the reason, with the name of the file, to why (WHY_SIZE bytes,
 * explain.h).
 */
#ifndef BENCH_SOURCE_H
#define BENCH_SOURCE_H

#include "npy.h"
#include <stdbool.h>
#include <threelc/threelc.h>

#define SOURCE_MAX_STEPS ((size_t)1 << 20)

typedef struct tensor {
    char *path; /* NULL if drawn */
    char *name; /* of the file without folder and extension, or of the distribution */
    size_t n;   /* values in a step */
    size_t steps;
    size_t stride; /* bytes from the gradient of one step to the next; each starts at a multiple of 64 */
    unsigned char *data;
    float *residual; /* n values: the residual before the first step, as recorded; NULL: there is none */
    /* The first value that is not finite in the dtype. */
    bool nonfinite;
    size_t bad_step, bad_index;
    double bad_value; /* as it was read; it is finite if only the dtype is too narrow for it */
} tensor;

/* Files to report: how many, and the names of the first ones, each with what is said of it. */
typedef struct name_list {
    size_t count;
    char text[256];
} name_list;

typedef struct source {
    char *run; /* name of the folder of a run (runs.h), or of the file or folder of weights (weights.h); else NULL */
    double s;  /* that the run was trained with */
    tlc_dtype dtype;
    size_t count, steps;
    size_t values; /* in a step, of all tensors */
    tensor *tensors;
    name_list left_out;    /* files of folders that are not read: their dtype is another one */
    name_list read_partly; /* files with bytes after the array */
} source;

typedef struct source_options {
    tlc_dtype dtype;
    size_t steps; /* 0: all that the files have, or 16 */
    bool cold;    /* leave recorded residuals aside */
    bool has_values;
    size_t values; /* to draw, or in a row of a raw file */
    uint64_t seed;
    double density; /* of "sparse" */
} source_options;

/* Whether it is the name of a file with values: .npy or raw (.f32, .f16, .bf16), not hidden, not .residual.npy. */
bool source_is_values(const char *name);

/* paths: files with values, and folders. Of a folder the files with values are read, in the order of their names, but
 * for those of a dtype that is not read, as integers. Beside NAME.npy (or a raw file) there may be NAME.residual.npy:
 * n float32 values of any shape, the residual before the first step. */
bool source_load(source *s, char *const *paths, size_t count, const source_options *options, char *why);

/* The steps of source_load: adds an empty tensor for each file; opens the file of a tensor and names the tensor
 * (row_values is for raw files, 0: all); makes room for t->steps steps of t->n values. */
bool source_list(source *s, char *const *paths, size_t count, char *why);
bool tensor_open(tensor *t, npy_file *file, size_t row_values, char *why);
bool tensor_allocate(tensor *t, tlc_dtype dtype);

/* Adds a tensor. The source then owns path, which may be NULL. NULL: there is no memory. */
tensor *source_add_tensor(source *s, char *path);
/* Removes one of which nothing was read yet. The next one is then in its place. */
void source_remove_tensor(source *s, size_t i);

/* Converts count values, at most SOURCE_CHUNK, of the dtype from, and stores them from index first on. */
enum { SOURCE_CHUNK = 4096 };
void tensor_store(tensor *t, tlc_dtype dtype, size_t step, size_t first, const void *values, tlc_dtype from,
                  size_t count);

/* Notes a file that is left out, and its dtype. */
void source_leave_out(source *s, const char *path, const char *dtype);
/* Notes a file that was read, if there are bytes after its array. */
void source_note_trailing(source *s, const char *path, const npy_file *file);
/* Says on stderr which files were left out, and which have bytes after their arrays: a line for each list of them. */
void source_tell_left_out(const source *s, const char *program);

/* One tensor of independent values. The distribution is "gauss" (mean 0, variance 1), "laplace" (density exp(-|x|) /
 * 2), or "sparse": a share of the values (the density) is 1 or -1 with equal probability, the others are 0.
 *
 * The generator is SplitMix64, its state the seed: state += 0x9e3779b97f4a7c15, z = state, z = (z ^ z >> 30) *
 * 0xbf58476d1ce4e5b9, z = (z ^ z >> 27) * 0x94d049bb133111eb, z ^= z >> 31. Values are drawn in the order of index,
 * then step. They are computed in binary64 and rounded to binary32 once: laplace: u = ((z >> 12) + 0.5) * 2^-52, x =
 * ln u if z is odd, else -ln u; gauss: Marsaglia's polar method: a, b = (z >> 11) * 2^-52 - 1 of two draws, s = a a +
 * b b; repeat unless 0 < s < 1; m = sqrt(-2 ln s / s), then m a is a value and m b the next one; sparse: 0 unless (z
 * >> 11) * 2^-53 < density, then 1 if z is odd, else -1. ln is a fixed sequence of additions, multiplications and
 * divisions, so the values are the same on every machine. */
bool source_draw(source *s, const char *distribution, const source_options *options, char *why);
bool source_knows(const char *distribution); /* "gauss" or "laplace" */

static inline bool source_is_drawn(const source *s)
{
    return !s->tensors[0].path;
}

/* Whether every value is finite in the dtype; if not, why says where the first other value is. */
bool source_check_finite(const source *s, char *why);

/* One step's gradient: n values of the dtype. After the last step comes the first one again. */
static inline const void *tensor_step(const tensor *t, size_t step)
{
    if (step >= t->steps) /* rare; a division takes as long as some calls on small tensors */
        /* cppcheck-suppress zerodivcond */
        step %= t->steps; /* NOLINT(clang-analyzer-core.DivideZero): a tensor has steps */
    return t->data + step * t->stride;
}

static inline const char *dtype_name(tlc_dtype dtype)
{
    static const char *const names[] = {"f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "f4_e2m1",
                                        "u8",  "u4",  "i32",  "i64",     "f64"};
    return names[dtype];
}

static inline size_t dtype_size(tlc_dtype dtype)
{
    return dtype == TLC_F32 ? 4 : dtype <= TLC_BF16 ? 2 : 1;
}

/* Two values share a byte, and there is an even number. Only weights (weights.h) are so. */
static inline bool dtype_is_paired(tlc_dtype dtype)
{
    return dtype == TLC_F4_E2M1 || dtype == TLC_U4;
}

/* The bytes of n values. */
static inline size_t dtype_bytes(tlc_dtype dtype, size_t n)
{
    return dtype_is_paired(dtype) ? n / 2 : n * dtype_size(dtype);
}

/* Rounds up to a size that aligned_alloc(64, ...) takes; never 0. The size must not be near SIZE_MAX. */
static inline size_t round_up_64(size_t size)
{
    return size ? (size + 63) / 64 * 64 : 64;
}

/* How many steps to draw if a few are enough. Large ones take much memory. */
static inline size_t source_few_steps(size_t values)
{
    return values < (size_t)16 << 20 ? 4 : 2;
}

void source_drop_values(source *s); /* frees gradients and residuals; names and sizes stay */
void source_free(source *s);
#endif
