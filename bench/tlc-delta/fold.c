/* SPDX-License-Identifier: MIT */
#include "fold.h"
#include "../lib/explain.h"
#include "models/message.h"
#include "output.h"
#include "models/printable.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A message of the chain, and how far it was read: names rise in all of them. */
typedef struct link {
    const char *path;
    message_in in;
    uint64_t at;
} link;

typedef struct folding {
    const run *run;
    size_t count;
    link *links;
    const void **frames; /* of an entry, and their lengths */
    size_t *lens;
    buffer frame;
    message_out out;
} folding;

/* ---- an entry ---------------------------------------------------------------------------------------------------- */

static bool refuse(const link *l, const char *name, const char *reason, char *why)
{
    char path[PRINTABLE_SIZE], text[PRINTABLE_SIZE];

    return explain(why, "%s: %s: %s", printable(path, l->path), printable(text, name), reason);
}

/* Reads the entry of this name, if the message has it. */
static bool find(link *l, const char *name, tlc_weights_entry *entry, const void **frame, char *why)
{
    char path[PRINTABLE_SIZE], reason[WHY_SIZE];

    for (*frame = NULL; l->at < l->in.info.count; l->at++) {
        if (!message_in_at(&l->in, l->at, entry, frame, reason))
            return explain(why, "%s: %.1000s", printable(path, l->path), reason);
        const int order = strcmp(entry->name, name);
        if (order == 0)
            return true;
        *frame = NULL;
        if (order > 0)
            return true;
    }
    return true;
}

/* Collects the frames of an entry of the last message: back to one without a base, or to the first message. *first: the
 * message of the first one. */
static bool collect(folding *f, const tlc_weights_entry *last, const void *frame, size_t *first, char *why)
{
    bool has_base = last->has_base;
    uint64_t base_digest = last->base_digest;
    size_t i = f->count - 1;

    f->frames[i] = frame;
    f->lens[i] = (size_t)last->frame_len;
    while (i > 0 && has_base) {
        tlc_weights_entry entry;
        i--;
        if (!find(&f->links[i], last->name, &entry, &f->frames[i], why))
            return false;
        if (!f->frames[i])
            return refuse(&f->links[i], last->name, "it does not have it, but a message after it changes it", why);
        if (entry.dtype != last->dtype || entry.n != last->n)
            return refuse(&f->links[i], last->name, "it has another dtype or shape than after it", why);
        if (entry.result_digest != base_digest)
            return refuse(&f->links[i + 1], last->name, "its base is not what the message before it makes", why);
        f->lens[i] = (size_t)entry.frame_len;
        has_base = entry.has_base;
        base_digest = entry.base_digest;
    }
    *first = i;
    return true;
}

/* Makes one frame of those that were collected, from `first` on. */
static bool fold(folding *f, const tlc_weights_entry *entry, size_t first, size_t *len, char *why)
{
    char message[TLC_MESSAGE_SIZE] = "", text[PRINTABLE_SIZE];
    const tlc_delta_options options = run_options(f->run, message);
    const size_t count = f->count - first;
    size_t bound;

    tlc_status status = tlc_delta_fold_bound(entry->dtype, (size_t)entry->n, count, &bound);
    if (status)
        return explain(why, "%s: %s", printable(text, entry->name), tlc_status_string(status));
    if (!buffer_reserve(&f->frame, bound, why))
        return false;
    status = tlc_delta_fold(f->frames + first, f->lens + first, count, f->frame.bytes, f->frame.size, len, &options);
    return !status || explain(why, "%s: %s", printable(text, entry->name), message);
}

static bool fold_entry(folding *f, uint64_t i, char *why)
{
    link *last = &f->links[f->count - 1];
    tlc_weights_entry entry;
    const void *frame;
    size_t first = 0, len = 0;

    if (!message_in_at(&last->in, i, &entry, &frame, why))
        return false;
    if (!run_goes_on(f->run, i, last->in.info.count, entry.name, "fold", why))
        return false;
    const layout_tensor t = {.dtype = entry.dtype, .dims = entry.dims, .shape = (uint64_t *)(uintptr_t)entry.shape};
    return collect(f, &entry, frame, &first, why) && fold(f, &entry, first, &len, why) &&
           message_out_add(&f->out, entry.name, &t, f->frame.bytes, len, why);
}

/* ---- the message ------------------------------------------------------------------------------------------------- */

static bool write_entries(folding *f, int fd, const void *note, char *why)
{
    const tlc_weights_info *last = &f->links[f->count - 1].in.info;
    message_id id = {.sequence = last->sequence};
    uint64_t size;

    memcpy(id.trainer, last->trainer, sizeof id.trainer);
    bool ok = message_out_begin(&f->out, fd, &id, last->count, note, (size_t)last->note_len, why);
    for (uint64_t i = 0; ok && i < last->count; i++)
        ok = fold_entry(f, i, why);
    ok = ok && message_out_finish(&f->out, &size, why);
    message_out_close(&f->out);
    run_done(f->run);
    return ok;
}

static bool write_message(folding *f, const char *path, bool force, char *why)
{
    message_in *last = &f->links[f->count - 1].in;
    uint8_t *note = malloc((size_t)last->info.note_len + 1);
    output out;
    bool ok = (note || explain(why, "out of memory")) &&
              (tlc_weights_note(last->reader, note, (size_t)last->info.note_len) == TLC_OK ||
               explain(why, "%s", last->message)) &&
              output_begin(&out, path, false, force, why);

    ok = ok && output_end(&out, write_entries(f, out.fd, note, why), why);
    free(note);
    return ok;
}

bool fold_messages(const run *r, char *const *paths, size_t count, const char *out, bool force, char *why)
{
    folding f = {.run = r,
                 .links = calloc(count, sizeof *f.links),
                 .frames = calloc(count, sizeof *f.frames),
                 .lens = calloc(count, sizeof *f.lens)};
    bool ok = (f.links && f.frames && f.lens) || explain(why, "out of memory");

    for (; ok && f.count < count; f.count += ok) {
        f.links[f.count].path = paths[f.count];
        ok = message_in_open(&f.links[f.count].in, paths[f.count], why);
    }
    ok = ok && write_message(&f, out, force, why);
    for (size_t i = 0; i < f.count; i++)
        message_in_close(&f.links[i].in);
    buffer_free(&f.frame);
    free(f.links);
    free(f.frames);
    free(f.lens);
    return ok;
}
