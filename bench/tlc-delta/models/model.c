/* SPDX-License-Identifier: MIT */
#include "model.h"
#include "../../lib/explain.h"
#include "dtypes.h"
#include "printable.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */

bool model_add_file(model *m, const model_file *file, char *why)
{
    if ((m->file_count & (m->file_count - 1)) == 0) { /* full at powers of two */
        model_file *more = realloc(m->files, (m->file_count ? 2 * m->file_count : 1) * sizeof *more);
        if (!more)
            return explain(why, "out of memory");
        m->files = more;
    }
    m->files[m->file_count] = *file;
    m->files[m->file_count].path = strdup(file->path);
    if (!m->files[m->file_count].path)
        return explain(why, "out of memory");
    m->file_count++;
    return true;
}

bool model_lay_out(model_file *file, const uint8_t *bytes, uint64_t len, char *why)
{
    if (!kind_find(file->kind, file->dtype, bytes, len, file->size, &file->layout, why))
        return false;
    file->is_laid_out = true;
    return file->layout.rest <= MODEL_REST_MAX ||
           explain(why, "%" PRIu64 " bytes of it are in no tensor, more than a header has", file->layout.rest);
}

void model_close(model *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->entries[i].name);
    free(m->entries);
    for (size_t i = 0; i < m->file_count; i++) {
        mapped_close(&m->files[i].map);
        layout_free(&m->files[i].layout);
        free(m->files[i].path);
    }
    free(m->files);
    *m = (model){.count = 0};
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* Gives an entry the name before/after, or one of them. */
static bool name_entry(model_entry *e, const char *before, const char *between, const char *after, char *why)
{
    const size_t size = strlen(before) + strlen(between) + strlen(after) + 1;
    char *name = size <= TLC_WEIGHTS_NAME_MAX + 1 ? malloc(size) : NULL;

    if (size > TLC_WEIGHTS_NAME_MAX + 1)
        return explain(why, "a name has more than %d bytes", TLC_WEIGHTS_NAME_MAX);
    if (!name)
        return explain(why, "out of memory");
    snprintf(name, size, "%s%s%s", before, between, after);
    free(e->name);
    e->name = name;
    return true;
}

static bool add_entry(model *m, size_t file, size_t index, const char *before, const char *name, char *why)
{
    model_entry *e = &m->entries[m->count];

    *e = (model_entry){.file = file, .tensor = index};
    if (!name_entry(e, before, "", name, why))
        return false;
    m->count++;
    return true;
}

static bool add_entries(model *m, char *why)
{
    size_t count = 0;

    for (size_t i = 0; i < m->file_count; i++)
        count += m->files[i].layout.count + 1;
    m->entries = calloc(count + 1, sizeof *m->entries);
    if (!m->entries)
        return explain(why, "out of memory");
    for (size_t i = 0; i < m->file_count; i++) {
        const model_file *file = &m->files[i];
        for (size_t k = 0; k < file->layout.count; k++) {
            const char *name = file->layout.tensors[k].name;
            if (!add_entry(m, i, k, "", name ? name : file->path, why))
                return false;
        }
        if (file->kind != FILE_RAW && !add_entry(m, i, MODEL_REST, MODEL_REST_PREFIX, file->path, why))
            return false;
    }
    return true;
}

static int by_name(const void *left, const void *right)
{
    const model_entry *a = left, *b = right;

    return strcmp(a->name, b->name);
}

/* Tensors that several files have are called PATH/NAME. */
static bool tell_apart(model *m, char *why)
{
    for (size_t i = 0, end; i < m->count; i = end) {
        for (end = i + 1; end < m->count && !strcmp(m->entries[i].name, m->entries[end].name);)
            end++;
        for (size_t k = i; k < end && end > i + 1; k++) {
            model_entry *e = &m->entries[k];
            const model_file *file = &m->files[e->file];
            const char *name = e->tensor == MODEL_REST ? NULL : file->layout.tensors[e->tensor].name;
            if (name && !name_entry(e, file->path, "/", name, why))
                return false;
        }
    }
    return true;
}

bool model_list(model *m, char *why)
{
    char text[PRINTABLE_SIZE];

    if (!add_entries(m, why))
        return false;
    qsort(m->entries, m->count, sizeof *m->entries, by_name);
    if (!tell_apart(m, why))
        return false;
    qsort(m->entries, m->count, sizeof *m->entries, by_name);
    for (size_t i = 1; i < m->count; i++) {
        if (!strcmp(m->entries[i - 1].name, m->entries[i].name))
            return explain(why, "two entries would be called %s", printable(text, m->entries[i].name));
    }
    return true;
}

static int by_path(const void *left, const void *right)
{
    const model_file *a = left, *b = right;

    return strcmp(a->path, b->path);
}

void model_sort_files(model *m)
{
    qsort(m->files, m->file_count, sizeof *m->files, by_path);
}

model_file *model_find_file(const model *m, const char *path)
{
    const model_file key = {.path = (char *)(uintptr_t)path};

    return m->file_count ? bsearch(&key, m->files, m->file_count, sizeof key, by_path) : NULL;
}

const model_entry *model_find(const model *m, const char *name)
{
    const model_entry key = {.name = (char *)(uintptr_t)name};

    return m->count ? bsearch(&key, m->entries, m->count, sizeof key, by_name) : NULL;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

layout_tensor model_tensor(const model *m, const model_entry *e)
{
    const layout *l = &m->files[e->file].layout;

    if (e->tensor == MODEL_REST)
        return (layout_tensor){.dtype = TLC_U8,
                               .dims = 1,
                               .shape = (uint64_t *)(uintptr_t)&l->rest,
                               .n = l->rest,
                               .size = l->rest};
    return l->tensors[e->tensor];
}

bool model_part(const model *m, const model_entry *e, size_t *at, uint64_t *offset, uint64_t *len)
{
    const model_file *file = &m->files[e->file];

    if (e->tensor == MODEL_REST)
        return layout_rest(&file->layout, file->size, at, offset, len);
    *offset = file->layout.tensors[e->tensor].offset;
    *len = file->layout.tensors[e->tensor].size;
    return !(*at)++ && *len;
}

uint8_t *model_weights(const model *m, const model_entry *e)
{
    static uint8_t none; /* where files without a byte begin */
    const model_file *file = &m->files[e->file];
    const layout_tensor t = model_tensor(m, e);
    uint64_t offset = 0, len = 0;
    size_t at = 0;

    if (!t.size)
        return &none;
    (void)model_part(m, e, &at, &offset, &len);
    return dtype_is_same(t.dtype) && len == t.size ? file->map.bytes + offset : NULL;
}

void model_load(const model *m, const model_entry *e, uint8_t *weights)
{
    const model_file *file = &m->files[e->file];
    const layout_tensor t = model_tensor(m, e);
    uint64_t offset, len, done = 0;

    for (size_t at = 0; model_part(m, e, &at, &offset, &len); done += len)
        memcpy(weights + done, file->map.bytes + offset, (size_t)len);
    dtype_turn(t.dtype, weights, (size_t)t.size);
}

void model_release(const model *m, const model_entry *e)
{
    uint64_t offset, len;

    for (size_t at = 0; model_part(m, e, &at, &offset, &len);)
        mapped_release(&m->files[e->file].map, offset, len);
}
