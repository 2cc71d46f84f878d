/* SPDX-License-Identifier: MIT */
#include "patch.h"
#include "../lib/explain.h"
#include "models/dtypes.h"
#include "models/note.h"
#include "models/printable.h"
#include <string.h>

/* ---- opening ----------------------------------------------------------------------------------------------------- */

bool patch_open(patch *p, const run *r, const char *message, char *why)
{
    char text[PRINTABLE_SIZE], reason[WHY_SIZE];

    *p = (patch){.run = r, .path = message};
    if (!message_in_open(&p->in, message, why))
        return false;
    if (note_of(&p->in, &p->next, reason))
        return true;
    patch_close(p);
    return explain(why, "%s: %.1000s", printable(text, message), reason);
}

bool patch_open_base(patch *p, const char *base, char *why)
{
    char text[PRINTABLE_SIZE];

    if (base)
        return model_open(&p->base, base, p->run->has_dtype ? &p->run->dtype : NULL, why);
    return p->in.info.full || explain(why, "%s: it is a delta, so it needs the base", printable(text, p->path));
}

void patch_close(patch *p)
{
    message_in_close(&p->in);
    model_close(&p->base);
    model_close(&p->next);
    buffer_free(&p->weights);
    buffer_free(&p->base_weights);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

bool patch_refuse(const patch *p, const char *name, const char *reason, char *why)
{
    char path[PRINTABLE_SIZE], text[PRINTABLE_SIZE];

    return explain(why, "%s: %s: %.1000s", printable(path, p->path), printable(text, name), reason);
}

/* *weights: those of entry e of the base. NULL: it does not have it. */
static bool find_base(patch *p, const tlc_weights_entry *entry, const model_entry *e, const uint8_t **weights,
                      char *why)
{
    if (!e)
        return patch_refuse(p, entry->name, "the base does not have it", why);
    const layout_tensor t = model_tensor(&p->base, e);
    if (t.dtype != entry->dtype || t.n != entry->n)
        return patch_refuse(p, entry->name, "in the base it has another dtype or shape", why);
    *weights = model_weights(&p->base, e);
    if (*weights)
        return true;
    if (!buffer_reserve(&p->base_weights, t.size, why))
        return false;
    model_load(&p->base, e, p->base_weights.bytes);
    *weights = p->base_weights.bytes;
    return true;
}

/* Makes the weights of an entry, `size` bytes, in p->weights. */
static bool make_weights(patch *p, const tlc_weights_entry *entry, const void *frame, uint64_t size, char *why)
{
    char message[TLC_MESSAGE_SIZE] = "";
    const tlc_delta_options options = run_options(p->run, message);
    const model_entry *before = entry->has_base ? model_find(&p->base, entry->name) : NULL;
    const uint8_t *base = NULL;

    if ((entry->has_base && !find_base(p, entry, before, &base, why)) || !buffer_reserve(&p->weights, size, why))
        return false;
    const tlc_status status = tlc_delta_apply_range(frame, (size_t)entry->frame_len, entry->dtype, base,
                                                    p->weights.bytes, (size_t)entry->n, 0, (size_t)entry->n, &options);
    if (before)
        model_release(&p->base, before);
    if (status)
        return patch_refuse(p, entry->name, message, why);
    dtype_turn(entry->dtype, p->weights.bytes, (size_t)size);
    return true;
}

/* The file of which an entry is the rest; NULL: it is of no file. */
static model_file *file_of(const patch *p, const tlc_weights_entry *entry)
{
    const size_t len = strlen(MODEL_REST_PREFIX);

    if (strncmp(entry->name, MODEL_REST_PREFIX, len) != 0)
        return NULL;
    model_file *file = model_find_file(&p->next, entry->name + len);
    return file && file->kind != FILE_RAW ? file : NULL;
}

bool patch_rest_at(patch *p, uint64_t i, tlc_weights_entry *entry, const void **frame, model_file **file, char *why)
{
    if (!message_in_at(&p->in, i, entry, frame, why))
        return false;
    *file = file_of(p, entry);
    return !*file || (entry->dtype == TLC_U8 && entry->n <= MODEL_REST_MAX && entry->n <= (*file)->size) ||
           patch_refuse(p, entry->name, "it is no header", why);
}

bool patch_lay_out(patch *p, model_file *file, const tlc_weights_entry *entry, const uint8_t *rest, char *why)
{
    char reason[WHY_SIZE];

    if (!model_lay_out(file, rest, entry->n, reason))
        return patch_refuse(p, entry->name, reason, why);
    return file->layout.rest == entry->n ||
           patch_refuse(p, entry->name, "its length is not what it says of the file", why);
}

bool patch_list(patch *p, char *why)
{
    char text[PRINTABLE_SIZE], reason[WHY_SIZE];

    for (size_t i = 0; i < p->next.file_count; i++) {
        if (!p->next.files[i].is_laid_out)
            return patch_refuse(p, p->next.files[i].path, "the message lacks its header", why);
    }
    if (!model_list(&p->next, reason))
        return explain(why, "%s: %.1000s", printable(text, p->path), reason);
    return p->next.count == p->in.info.count ||
           explain(why, "%s: it has %llu entries, its files %zu", printable(text, p->path),
                   (unsigned long long)p->in.info.count, p->next.count);
}

bool patch_at(patch *p, size_t i, tlc_weights_entry *entry, const void **frame, char *why)
{
    const model_entry *e = &p->next.entries[i];

    if (!message_in_at(&p->in, i, entry, frame, why))
        return false;
    if (strcmp(e->name, entry->name) != 0)
        return patch_refuse(p, entry->name, "its files do not have it", why);
    const layout_tensor t = model_tensor(&p->next, e);
    return (t.dtype == entry->dtype && t.dims == entry->dims && t.n == entry->n &&
            !memcmp(t.shape, entry->shape, t.dims * sizeof *t.shape)) ||
           patch_refuse(p, entry->name, "its dtype or shape are not those of the file", why);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static bool make_rest(patch *p, uint64_t i, patch_take take, void *opaque, char *why)
{
    tlc_weights_entry entry;
    const void *frame;
    model_file *file;

    if (!patch_rest_at(p, i, &entry, &frame, &file, why))
        return false;
    if (!file)
        return true;
    if (!make_weights(p, &entry, frame, entry.n, why) || !patch_lay_out(p, file, &entry, p->weights.bytes, why))
        return false;
    const model_entry e = {.file = (size_t)(file - p->next.files), .tensor = MODEL_REST};
    return take(opaque, p, &e, p->weights.bytes, why);
}

static bool make_tensor(patch *p, size_t i, const char *what, patch_take take, void *opaque, char *why)
{
    const model_entry *e = &p->next.entries[i];
    tlc_weights_entry entry;
    const void *frame;

    if (!run_goes_on(p->run, i, p->next.count, e->name, what, why) || !patch_at(p, i, &entry, &frame, why))
        return false;
    return e->tensor == MODEL_REST || (make_weights(p, &entry, frame, model_tensor(&p->next, e).size, why) &&
                                       take(opaque, p, e, p->weights.bytes, why));
}

bool patch_make(patch *p, const char *what, patch_take take, void *opaque, char *why)
{
    bool ok = true;

    for (uint64_t i = 0; ok && i < p->in.info.count; i++)
        ok = make_rest(p, i, take, opaque, why);
    ok = ok && patch_list(p, why);
    for (size_t i = 0; ok && i < p->next.count; i++)
        ok = make_tensor(p, i, what, take, opaque, why);
    run_done(p->run);
    return ok;
}
