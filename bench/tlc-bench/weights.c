/* SPDX-License-Identifier: MIT */
#include "weights.h"
#include "../lib/explain.h"
#include "quantize.h"
#include "weights_model.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEVIATION 0.02
#define SPREAD 0.3 /* of a step */

enum { CHUNK = 4096 };

static const weight_moves usual = {6,
                                   {"lr=1e-7", "lr=3e-7", "lr=1e-6", "lr=3e-6", "lr=1e-5", "lr=1e-4"},
                                   {1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 1e-4}};

bool weights_parse(const char *text, weight_moves *moves)
{
    static const char prefix[] = "adam:";
    char *end;

    *moves = usual;
    if (!strcmp(text, "adam"))
        return true;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0 || strncmp(text + sizeof prefix - 1, "lr=", 3) != 0)
        return false;
    *moves = (weight_moves){.count = 1, .name = {text + sizeof prefix - 1}};
    moves->rate[0] = strtod(moves->name[0] + 3, &end);
    return *end == '\0' && end > moves->name[0] + 3 && isfinite(moves->rate[0]) && moves->rate[0] > 0;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* How many weights there are of each dtype, as the headers say. The dtype of the source is that of the first tensor. */
static bool count_dtypes(source *s, uint64_t count[TLC_BF16 + 1], char *why)
{
    char reason[WHY_SIZE];

    for (size_t i = 0; i < s->count; i++) {
        tensor *t = &s->tensors[i];
        npy_file file;
        if (!tensor_open(t, &file, 0, reason))
            return explain(why, "%s: %s", t->path, reason);
        count[file.header.dtype] += file.header.rows * file.header.cols;
        s->dtype = i ? s->dtype : file.header.dtype;
        npy_close(&file);
    }
    return true;
}

static bool read_tensor(tensor *t, npy_file *file, char *why)
{
    const npy_header *h = &file->header;
    bool ok = true;

    t->n = (size_t)(h->rows * h->cols);
    t->steps = 1;
    if (!tensor_allocate(t, h->dtype))
        return explain(why, "is too large for the memory");
    for (uint64_t row = 0; ok && row < h->rows; row++)
        ok = npy_read_row(file, t->data + row * h->cols * h->width, why);
    return ok;
}

/* The dtype that most weights have; of several the first. */
static bool choose_dtype(source *s, char *why)
{
    uint64_t count[TLC_BF16 + 1] = {0};

    if (!count_dtypes(s, count, why))
        return false;
    for (tlc_dtype d = TLC_F32; d <= TLC_BF16; d = (tlc_dtype)(d + 1))
        s->dtype = count[d] > count[s->dtype] ? d : s->dtype;
    return true;
}

/* Reads tensor i, or leaves it out if it has another dtype: then the next one is in its place. */
static bool load_tensor(source *s, size_t i, char *why)
{
    tensor *t = &s->tensors[i];
    npy_file file;
    bool ok = tensor_open(t, &file, 0, why);

    if (!ok)
        return false;
    if (file.header.dtype == s->dtype) {
        ok = read_tensor(t, &file, why);
        source_note_trailing(s, t->path, &file);
        s->values += t->n;
    } else {
        source_leave_out(s, t->path, dtype_name(file.header.dtype));
        source_remove_tensor(s, i);
    }
    npy_close(&file);
    return ok;
}

/* The last part of a path. */
static char *last_part(const char *path)
{
    size_t end = strlen(path), start;

    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start && path[start - 1] != '/';)
        start--;
    return strndup(path + start, end - start);
}

bool weights_load(source *s, char *path, char *why)
{
    char reason[WHY_SIZE];
    bool ok;

    s->run = last_part(path);
    if (!s->run)
        return explain(why, "out of memory");
    if (weights_is_model(path))
        return weights_load_model(s, path, why);
    ok = source_list(s, &path, 1, why) && choose_dtype(s, why);
    for (size_t i = 0, left; ok && i < s->count; i += s->count == left) {
        left = s->count;
        ok = load_tensor(s, i, reason) || explain(why, "%s: %s", s->tensors[i].path, reason);
    }
    s->steps = 1;
    return ok;
}

bool weights_match(const source *base, const source *next, char *why)
{
    if (base->dtype != next->dtype)
        return explain(why, "%s: is %s, %s is %s", next->tensors->path, dtype_name(next->dtype), base->tensors->path,
                       dtype_name(base->dtype));
    for (size_t i = 0; i < base->count || i < next->count; i++) {
        const tensor *a = &base->tensors[i], *b = &next->tensors[i];
        if (i == base->count || i == next->count)
            return explain(why, "%s: there is no such tensor %s", (i == base->count ? b : a)->path,
                           i == base->count ? "in the base" : "in the next weights");
        if (base->count > 1 && strcmp(a->name, b->name) != 0)
            return explain(why, "%s: the base has %s in its place", b->path, a->name);
        if (a->n != b->n)
            return explain(why, "%s: has %zu weights, %s has %zu", b->path, b->n, a->path, a->n);
    }
    return true;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* The weights z of the first step of `drawn`, moved by rate as its other two steps say. */
static void move(const source *drawn, double rate, tensor *t, tlc_dtype dtype)
{
    const tensor *from = drawn->tensors;
    const float *weight = tensor_step(from, 0), *by = tensor_step(from, 1), *sign = tensor_step(from, 2);
    float moved[CHUNK];

    for (size_t i = 0, count; i < t->n; i += count) {
        count = t->n - i < CHUNK ? t->n - i : CHUNK;
        for (size_t k = 0; k < count; k++) {
            const double step = rate * (1 + SPREAD * (double)by[i + k]);
            const double x = (double)(float)(DEVIATION * (double)weight[i + k]);
            moved[k] = (float)(sign[i + k] < 0 ? x - step : x + step);
        }
        quantize(dtype, moved, DEVIATION, t->data, i, count);
    }
}

/* A source of one tensor, its values not yet written. */
static bool make_source(source *s, const char *name, size_t n, tlc_dtype dtype)
{
    *s = (source){.dtype = dtype, .count = 1, .steps = 1, .values = n, .tensors = calloc(1, sizeof *s->tensors)};
    if (!s->tensors)
        return false;
    s->tensors[0].name = strdup(name);
    s->tensors[0].n = n;
    s->tensors[0].steps = 1;
    return s->tensors[0].name && tensor_allocate(s->tensors, dtype);
}

bool weights_draw(source *s, const weight_moves *moves, size_t n, tlc_dtype dtype, uint64_t seed, char *why)
{
    const source_options wanted = {.dtype = TLC_F32, .steps = 3, .has_values = true, .values = n, .seed = seed};
    source drawn;
    bool ok = source_draw(&drawn, "gauss", &wanted, why);

    for (size_t i = 0; ok && i <= moves->count; i++) {
        ok = make_source(&s[i], i ? moves->name[i - 1] : "adam", n, dtype) || explain(why, "out of memory");
        if (ok)
            move(&drawn, i ? moves->rate[i - 1] : 0, s[i].tensors, dtype);
    }
    source_free(&drawn);
    return ok;
}
