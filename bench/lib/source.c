/* SPDX-License-Identifier: MIT
 *
 * Gradients and residuals from files and folders.
 */
#include "source.h"
#include "explain.h"
#include "npy.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <threelc/stages.h>
#include <unistd.h>

#define RESIDUAL ".residual.npy"

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

tensor *source_add_tensor(source *s, char *path)
{
    tensor *tensors = realloc(s->tensors, (s->count + 1) * sizeof *tensors);

    if (!tensors)
        return NULL;
    s->tensors = tensors;
    tensors[s->count] = (tensor){.path = path};
    return &tensors[s->count++];
}

void source_remove_tensor(source *s, size_t i)
{
    free(s->tensors[i].path);
    free(s->tensors[i].name);
    s->count--;
    memmove(&s->tensors[i], &s->tensors[i + 1], (s->count - i) * sizeof *s->tensors);
}

bool tensor_allocate(tensor *t, tlc_dtype dtype)
{
    size_t row, size;

    if (__builtin_mul_overflow(t->n, dtype_size(dtype), &row) || row > SIZE_MAX - 64)
        return false;
    row = dtype_bytes(dtype, t->n);
    t->stride = row ? round_up_64(row) : 0;
    if (__builtin_mul_overflow(t->stride, t->steps, &size) || size > SIZE_MAX - 64)
        return false;
    t->data = aligned_alloc(64, round_up_64(size));
    return t->data != NULL;
}

/* Notes the first value that is not finite in the dtype. wide: count values from index first on, as they were read. */
static void look_for_nonfinite(tensor *t, tlc_dtype dtype, size_t step, size_t first, const float *wide, size_t count)
{
    float kept[SOURCE_CHUNK];
    const unsigned char *stored = tensor_step(t, step);

    tlc_convert(dtype, stored + first * dtype_size(dtype), TLC_F32, kept, count);
    for (size_t i = 0; i < count && !t->nonfinite; i++) {
        if (!isfinite(kept[i])) {
            t->nonfinite = true;
            t->bad_step = step;
            t->bad_index = first + i;
            t->bad_value = (double)wide[i];
        }
    }
}

void tensor_store(tensor *t, tlc_dtype dtype, size_t step, size_t first, const void *values, tlc_dtype from,
                  size_t count)
{
    float wide[SOURCE_CHUNK];

    tlc_convert(from, values, dtype, t->data + step * t->stride + first * dtype_size(dtype), count);
    tlc_convert(from, values, TLC_F32, wide, count);
    look_for_nonfinite(t, dtype, step, first, wide, count);
}

bool source_check_finite(const source *s, char *why)
{
    for (size_t i = 0; i < s->count; i++) {
        const tensor *t = &s->tensors[i];
        if (!t->nonfinite)
            continue;
        if (isfinite(t->bad_value))
            return explain(why, "%s: row %zu, index %zu (from 0): %g is beyond the dtype's largest value", t->path,
                           t->bad_step, t->bad_index, t->bad_value);
        return explain(why, "%s: row %zu, index %zu (from 0) is %s; only raw takes that", t->path, t->bad_step,
                       t->bad_index, isnan(t->bad_value) ? "NaN" : "infinite");
    }
    return true;
}

void source_drop_values(source *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->tensors[i].data);
        free(s->tensors[i].residual);
        s->tensors[i].data = NULL;
        s->tensors[i].residual = NULL;
    }
}

void source_free(source *s)
{
    source_drop_values(s);
    for (size_t i = 0; i < s->count; i++) {
        free(s->tensors[i].path);
        free(s->tensors[i].name);
    }
    free(s->tensors);
    free(s->run);
    *s = (source){.dtype = TLC_F32};
}

/* ---- what is left out -------------------------------------------------------------------------------------------- */

static void add_name(name_list *l, const char *path, const char *what)
{
    char *end = l->text + strlen(l->text);
    const size_t room = sizeof l->text - (size_t)(end - l->text);

    if (snprintf(end, room, "%s%s (%s)", *l->text ? ", " : "", path, what) >= (int)room)
        *end = '\0'; /* only those that fit are named */
    l->count++;
}

void source_leave_out(source *s, const char *path, const char *dtype)
{
    add_name(&s->left_out, path, dtype);
}

void source_note_trailing(source *s, const char *path, const npy_file *file)
{
    char what[48];

    snprintf(what, sizeof what, "%" PRIu64 " byte%s", file->header.trailing, file->header.trailing == 1 ? "" : "s");
    if (file->header.trailing)
        add_name(&s->read_partly, path, what);
}

static void tell(const name_list *l, const char *program, const char *what)
{
    if (l->count)
        fprintf(stderr, "%s: %zu file%s %s: %s\n", program, l->count, l->count == 1 ? "" : "s", what, l->text);
}

void source_tell_left_out(const source *s, const char *program)
{
    tell(&s->left_out, program, "left out, of another dtype");
    tell(&s->read_partly, program, "read without what follows the first array");
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool has_extension(const char *path, const char *extension)
{
    size_t len = strlen(path), tail = strlen(extension);

    return len > tail && !strcmp(path + len - tail, extension);
}

/* Of a file without a header. */
static bool is_raw(const char *path, tlc_dtype *dtype)
{
    static const char *const extensions[] = {[TLC_F32] = ".f32", [TLC_F16] = ".f16", [TLC_BF16] = ".bf16"};
    bool is = false;

    for (int i = TLC_F32; i <= TLC_BF16; i++) {
        if (has_extension(path, extensions[i])) {
            *dtype = (tlc_dtype)i;
            is = true;
        }
    }
    return is;
}

bool source_is_values(const char *name)
{
    tlc_dtype dtype;

    return name[0] != '.' && !has_extension(name, RESIDUAL) && (has_extension(name, ".npy") || is_raw(name, &dtype));
}

static char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *start = slash ? slash + 1 : path, *dot = strrchr(start, '.');

    return strndup(start, dot && dot > start ? (size_t)(dot - start) : strlen(start));
}

static bool decide_steps(tensor *t, uint64_t rows, size_t wanted, char *why)
{
    if (!rows)
        return explain(why, "has no rows");
    if (wanted > rows)
        return explain(why, "has %" PRIu64 " step%s, --steps asks for %zu", rows, rows == 1 ? "" : "s", wanted);
    if (!wanted && rows > SOURCE_MAX_STEPS)
        return explain(why, "has %" PRIu64 " steps; take at most %zu with --steps", rows, SOURCE_MAX_STEPS);
    t->steps = wanted ? wanted : (size_t)rows;
    return true;
}

static bool load_rows(tensor *t, npy_file *file, tlc_dtype dtype, char *why)
{
    tlc_dtype from = file->header.dtype;
    unsigned char *row = malloc(t->n * file->header.width + 1);
    bool ok = true;

    if (!row || !tensor_allocate(t, dtype))
        ok = explain(why, "is too large for the memory");
    for (size_t step = 0; ok && step < t->steps; step++) {
        ok = npy_read_row(file, row, why);
        for (size_t i = 0; ok && i < t->n; i += SOURCE_CHUNK)
            tensor_store(t, dtype, step, i, row + i * file->header.width, from,
                         t->n - i < SOURCE_CHUNK ? t->n - i : SOURCE_CHUNK);
    }
    free(row);
    return ok;
}

/* Reads the n values of an open residual file. */
static bool read_residual(tensor *t, npy_file *file, char *why)
{
    const npy_header *h = &file->header;

    if (h->dtype != TLC_F32)
        return explain(why, "is %s; a residual is float32", h->dtype == TLC_F16 ? "float16" : "bfloat16");
    if (h->rows * h->cols != t->n)
        return explain(why, "has %" PRIu64 " values; a step of %s has %zu", h->rows * h->cols, t->name, t->n);
    t->residual = malloc(t->n * sizeof *t->residual + 1);
    if (!t->residual)
        return explain(why, "is too large for the memory");
    for (uint64_t row = 0; row < h->rows; row++) {
        if (!npy_read_row(file, t->residual + row * h->cols, why))
            return false;
    }
    for (size_t i = 0; i < t->n; i++) {
        if (!isfinite(t->residual[i]))
            return explain(why, "index %zu (from 0) is not finite", i);
    }
    return true;
}

/* NAME.residual.npy beside the gradients, if there is one. */
static bool load_residual(source *s, tensor *t, char *why)
{
    char reason[WHY_SIZE];
    size_t stem = (size_t)(strrchr(t->path, '.') - t->path);
    char *path = malloc(stem + sizeof RESIDUAL);
    npy_file file;
    bool ok;

    if (!path)
        return explain(why, "%s: out of memory", t->path);
    snprintf(path, stem + sizeof RESIDUAL, "%.*s%s", (int)stem, t->path, RESIDUAL);
    if (access(path, F_OK) != 0) {
        free(path);
        return true;
    }
    ok = npy_open(&file, path, reason);
    if (ok) {
        ok = read_residual(t, &file, reason);
        source_note_trailing(s, path, &file);
        npy_close(&file);
    }
    if (!ok)
        explain(why, "%s: %s", path, reason);
    free(path);
    return ok;
}

bool tensor_open(tensor *t, npy_file *file, size_t row_values, char *why)
{
    tlc_dtype dtype;

    if (!t->name)
        t->name = base_name(t->path);
    if (!t->name)
        return explain(why, "out of memory");
    if (has_extension(t->path, ".npy"))
        return npy_open(file, t->path, why);
    if (is_raw(t->path, &dtype))
        return npy_open_raw(file, t->path, dtype, row_values, why);
    return explain(why, "is no .npy, .f32, .f16 or .bf16 file");
}

static bool load_file(source *s, tensor *t, const source_options *options, char *why)
{
    npy_file file;
    bool ok;

    if (!tensor_open(t, &file, options->values, why))
        return false;
    t->n = (size_t)file.header.cols;
    ok = file.header.dims <= 2 ||
         explain(why, "has %u dimensions; gradients have at most 2, steps and values", file.header.dims);
    ok = ok && decide_steps(t, file.header.rows, options->steps, why);
    ok = ok && load_rows(t, &file, options->dtype, why);
    source_note_trailing(s, t->path, &file);
    npy_close(&file);
    return ok;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static int is_values(const struct dirent *entry)
{
    return source_is_values(entry->d_name);
}

/* Not alphasort, whose order depends on the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Adds a file of a folder, unless its dtype is another one. */
static bool add_entry(source *s, const char *folder, const char *name, char *why)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size), descr[sizeof((npy_header *)0)->descr];

    if (path) {
        snprintf(path, size, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
        if (has_extension(name, ".npy") && npy_has_other_dtype(path, descr)) {
            source_leave_out(s, path, descr);
            free(path);
            return true;
        }
        if (source_add_tensor(s, path))
            return true;
    }
    free(path);
    return explain(why, "%s: out of memory", folder);
}

static bool add_folder(source *s, const char *folder, char *why)
{
    const size_t before = s->count;
    struct dirent **entries;
    int count = scandir(folder, &entries, is_values, by_name);
    bool ok = count > 0;

    if (count < 0)
        return explain(why, "%s: %s", folder, strerror(errno));
    if (!count)
        explain(why, "%s: there is no .npy, .f32, .f16 or .bf16 file with values in it", folder);
    for (int i = 0; i < count; i++) {
        ok = ok && add_entry(s, folder, entries[i]->d_name, why);
        free(entries[i]);
    }
    free(entries);
    return ok && (s->count > before ||
                  explain(why, "%s: no file in it has a dtype that is read: %s", folder, s->left_out.text));
}

static bool add_path(source *s, const char *path, char *why)
{
    struct stat st;
    char *copy;

    if (stat(path, &st) != 0)
        return explain(why, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return add_folder(s, path, why);
    if (has_extension(path, RESIDUAL)) /* it is read with its gradients; a pattern as *.npy names it, too */
        return true;
    copy = strdup(path);
    if (copy && source_add_tensor(s, copy))
        return true;
    free(copy);
    return explain(why, "%s: out of memory", path);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static bool check_steps(const source *s, char *why)
{
    for (size_t i = 1; i < s->count; i++) {
        const tensor *first = s->tensors, *t = &s->tensors[i];
        if (t->steps != first->steps)
            return explain(why, "%s: has %zu step%s where %s has %zu (--steps takes the first ones)", t->path, t->steps,
                           t->steps == 1 ? "" : "s", first->path, first->steps);
    }
    return true;
}

/* --values is for raw files only. */
static bool check_values(const source *s, const source_options *options, char *why)
{
    if (!options->has_values)
        return true;
    if (!options->values)
        return explain(why, "--values: a row of 0 values cannot be read");
    for (size_t i = 0; i < s->count; i++) {
        tlc_dtype dtype;
        if (is_raw(s->tensors[i].path, &dtype))
            return true;
    }
    return explain(why, "--values goes with --synthetic or raw files (.f32, .f16, .bf16)");
}

bool source_list(source *s, char *const *paths, size_t count, char *why)
{
    bool ok = true;

    for (size_t i = 0; ok && i < count; i++)
        ok = add_path(s, paths[i], why);
    return ok && (s->count || explain(why, "%s: is a residual; name the file with the gradients", paths[0]));
}

bool source_load(source *s, char *const *paths, size_t count, const source_options *options, char *why)
{
    char reason[WHY_SIZE];

    *s = (source){.dtype = options->dtype};
    bool ok = source_list(s, paths, count, why) && check_values(s, options, why);
    for (size_t i = 0; ok && i < s->count; i++) {
        tensor *t = &s->tensors[i];
        ok = load_file(s, t, options, reason) || explain(why, "%s: %s", t->path, reason);
        ok = ok && (options->cold || load_residual(s, t, why));
        if (ok && __builtin_add_overflow(s->values, t->n, &s->values))
            ok = explain(why, "%s: is too large", t->path);
    }
    ok = ok && check_steps(s, why);
    if (ok)
        s->steps = s->tensors[0].steps;
    else
        source_free(s);
    return ok;
}
