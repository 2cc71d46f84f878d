/* SPDX-License-Identifier: MIT */
#include "layout.h"
#include "../../lib/explain.h"
#include "printable.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void layout_free(layout *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->tensors[i].name);
        free(l->tensors[i].shape);
    }
    free(l->tensors);
    *l = (layout){.count = 0};
}

bool layout_rest(const layout *l, uint64_t file_size, size_t *at, uint64_t *offset, uint64_t *len)
{
    while (*at <= l->count) {
        const size_t i = (*at)++;
        const uint64_t start = i ? l->tensors[i - 1].offset + l->tensors[i - 1].size : 0;
        const uint64_t end = i < l->count ? l->tensors[i].offset : file_size;
        if (end > start) {
            *offset = start;
            *len = end - start;
            return true;
        }
    }
    return false;
}

bool layout_add(layout *l, const layout_tensor *t, const uint64_t *shape, char *why)
{
    const size_t dims = shape ? t->dims : 1;
    layout_tensor added = *t;

    if ((l->count & (l->count - 1)) == 0) { /* full at powers of two */
        layout_tensor *more = realloc(l->tensors, (l->count ? 2 * l->count : 1) * sizeof *more);
        if (!more)
            return explain(why, "out of memory");
        l->tensors = more;
    }
    added.dims = dims;
    added.name = t->name ? strdup(t->name) : NULL;
    added.shape = malloc((dims + 1) * sizeof *added.shape);
    if (!added.shape || (t->name && !added.name)) {
        free(added.name);
        free(added.shape);
        return explain(why, "out of memory");
    }
    if (shape)
        memcpy(added.shape, shape, dims * sizeof *shape);
    else
        added.shape[0] = t->n;
    l->tensors[l->count++] = added;
    return true;
}

/* Empty tensors come before the one that begins where they are. */
static int by_place(const void *left, const void *right)
{
    const layout_tensor *a = left, *b = right;

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->size > b->size) - (a->size < b->size);
}

static const char *name_of(const layout_tensor *t, char text[PRINTABLE_SIZE])
{
    return t->name ? printable(text, t->name) : "its tensor";
}

bool layout_settle(layout *l, uint64_t first, uint64_t file_size, char *why)
{
    char a[PRINTABLE_SIZE], b[PRINTABLE_SIZE];
    uint64_t end = first, used = 0;

    if (l->count)
        qsort(l->tensors, l->count, sizeof *l->tensors, by_place);
    for (size_t i = 0; i < l->count; i++) {
        const layout_tensor *t = &l->tensors[i];
        if (t->offset < first || t->offset > file_size || t->size > file_size - t->offset)
            return explain(why, "%s is at bytes %" PRIu64 " to %" PRIu64 ", the file has %" PRIu64, name_of(t, a),
                           t->offset, t->offset + t->size, file_size);
        if (t->offset < end)
            return explain(why, "%s and %s overlap", name_of(&l->tensors[i - 1], a), name_of(t, b));
        end = t->offset + t->size;
        used += t->size;
    }
    l->rest = file_size - used;
    return true;
}
