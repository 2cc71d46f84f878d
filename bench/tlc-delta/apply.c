/* SPDX-License-Identifier: MIT */
#include "apply.h"
#include "../lib/explain.h"
#include "output.h"
#include "patch.h"
#include "models/printable.h"

/* Where entries are written. Neighbours are often in the same file, so one stays open. */
typedef struct applying {
    const output *out;
    int fd; /* -1: none is open */
    size_t file;
} applying;

static bool close_file(applying *a, char *why)
{
    const int fd = a->fd;

    a->fd = -1;
    return fd < 0 || output_close_file(fd, why);
}

static bool use_file(applying *a, const patch *p, size_t file, char *why)
{
    if (a->fd >= 0 && a->file == file)
        return true;
    if (!close_file(a, why))
        return false;
    a->fd = output_open_file(a->out, p->next.files[file].path, why);
    a->file = file;
    return a->fd >= 0;
}

static bool write_entry(void *opaque, const patch *p, const model_entry *e, const uint8_t *weights, char *why)
{
    char text[PRINTABLE_SIZE], reason[WHY_SIZE];
    applying *a = opaque;
    uint64_t offset, len;

    if (a->out->is_folder && !use_file(a, p, e->file, why))
        return false;
    for (size_t at = 0; model_part(&p->next, e, &at, &offset, &len); weights += len) {
        if (!output_write(a->out->is_folder ? a->fd : a->out->fd, weights, (size_t)len, offset, reason))
            return explain(why, "%s: %.1000s", printable(text, a->out->part), reason);
    }
    return true;
}

/* Files without a byte have no entry that makes them. */
static bool make_empty_files(applying *a, const patch *p, char *why)
{
    for (size_t i = 0; a->out->is_folder && i < p->next.file_count; i++) {
        if (!p->next.files[i].size && !use_file(a, p, i, why))
            return false;
    }
    return close_file(a, why);
}

static bool write_model(patch *p, const output *out, char *why)
{
    applying a = {.out = out, .fd = -1};
    char ignored[WHY_SIZE];

    if (patch_make(p, "apply", write_entry, &a, why))
        return make_empty_files(&a, p, why);
    (void)close_file(&a, ignored);
    return false;
}

bool apply_message(const run *r, const apply_paths *paths, char *why)
{
    output out;
    patch p;

    if (!patch_open(&p, r, paths->message, why))
        return false;
    bool ok = patch_open_base(&p, paths->base, why) &&
              output_begin(&out, paths->out, p.next.is_folder, paths->force, why);
    ok = ok && output_end(&out, write_model(&p, &out, why), why);
    patch_close(&p);
    return ok;
}

static bool ignore_entry(void *opaque, const patch *p, const model_entry *e, const uint8_t *weights, char *why)
{
    (void)opaque;
    (void)p;
    (void)e;
    (void)weights;
    (void)why;
    return true;
}

bool apply_verify(const run *r, const char *message, const char *base, char *why)
{
    patch p;

    if (!patch_open(&p, r, message, why))
        return false;
    const bool ok = patch_open_base(&p, base, why) && patch_make(&p, "verify", ignore_entry, NULL, why);
    patch_close(&p);
    return ok;
}
