/* SPDX-License-Identifier: MIT */
#include "make.h"
#include "../lib/explain.h"
#include "index.h"
#include "models/message.h"
#include "models/model.h"
#include "models/note.h"
#include "output.h"
#include "models/printable.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct making {
    const run *run;
    model base, next;
    message_out out;
    buffer base_weights, next_weights, frame; /* of an entry, where the files' own bytes cannot be used */
} making;

/* The weights of an entry, in the file or in b. NULL: out of memory. */
static const uint8_t *weights_of(const model *m, const model_entry *e, buffer *b, char *why)
{
    const uint8_t *weights = model_weights(m, e);

    if (weights)
        return weights;
    if (!buffer_reserve(b, model_tensor(m, e).size, why))
        return NULL;
    model_load(m, e, b->bytes);
    return b->bytes;
}

static bool has_same_shape(const layout_tensor *a, const layout_tensor *b)
{
    return a->dtype == b->dtype && a->dims == b->dims && !memcmp(a->shape, b->shape, a->dims * sizeof *a->shape);
}

static bool add_entry(making *m, const model_entry *e, bool *has_base, char *why)
{
    char message[TLC_MESSAGE_SIZE] = "", text[PRINTABLE_SIZE];
    const tlc_delta_options options = run_options(m->run, message);
    const layout_tensor next = model_tensor(&m->next, e);
    const model_entry *before = model_find(&m->base, e->name);
    const layout_tensor base = before ? model_tensor(&m->base, before) : (layout_tensor){.n = 0};
    const uint8_t *next_weights, *base_weights = NULL;
    size_t bound, len = 0;

    *has_base = before && has_same_shape(&base, &next);
    next_weights = weights_of(&m->next, e, &m->next_weights, why);
    if (*has_base)
        base_weights = weights_of(&m->base, before, &m->base_weights, why);
    if (!next_weights || (*has_base && !base_weights))
        return false;
    tlc_status status = tlc_delta_bound(next.dtype, (size_t)next.n, &bound);
    if (status)
        return explain(why, "%s: %s", printable(text, e->name), tlc_status_string(status));
    if (!buffer_reserve(&m->frame, bound, why))
        return false;
    status = tlc_delta_compress(next.dtype, base_weights, next_weights, (size_t)next.n, m->frame.bytes, m->frame.size,
                                &len, &options);
    model_release(&m->next, e);
    if (*has_base)
        model_release(&m->base, before);
    if (status)
        return explain(why, "%s: %s", printable(text, e->name), message);
    return message_out_add(&m->out, e->name, &next, m->frame.bytes, len, why);
}

static bool add_entries(making *m, make_result *result, char *why)
{
    for (size_t i = 0; i < m->next.count; i++) {
        const model_entry *e = &m->next.entries[i];
        bool has_base = false;
        if (!run_goes_on(m->run, i, m->next.count, e->name, "make", why) || !add_entry(m, e, &has_base, why))
            return false;
        result->without_base += !has_base;
    }
    result->entries = m->next.count;
    return true;
}

static bool open_models(making *m, const make_paths *p, char *why)
{
    const tlc_dtype *raw = m->run->has_dtype ? &m->run->dtype : NULL;

    return (!p->base || model_open(&m->base, p->base, raw, why)) && model_open(&m->next, p->next, raw, why) &&
           index_check(&m->next, why);
}

static bool write_entries(making *m, int fd, const message_id *id, const char *note, make_result *result, char *why)
{
    const bool ok = message_out_begin(&m->out, fd, id, m->next.count, note, strlen(note), why) &&
                    add_entries(m, result, why) && message_out_finish(&m->out, &result->message_bytes, why);

    message_out_close(&m->out);
    run_done(m->run);
    return ok;
}

static bool write_message(making *m, const make_paths *p, make_result *result, char *why)
{
    output out;
    message_id id;
    char *note = note_write(&m->next, why);
    bool ok = note && message_id_after(&id, p->after, why) && output_begin(&out, p->out, false, p->force, why);

    ok = ok && output_end(&out, write_entries(m, out.fd, &id, note, result, why), why);
    free(note);
    return ok;
}

bool make_delta(const run *r, const make_paths *p, make_result *result, char *why)
{
    making m = {.run = r};

    *result = (make_result){.entries = 0};
    bool ok = open_models(&m, p, why);
    for (size_t i = 0; ok && i < m.next.file_count; i++)
        result->model_bytes += m.next.files[i].size;
    ok = ok && write_message(&m, p, result, why);
    model_close(&m.base);
    model_close(&m.next);
    buffer_free(&m.base_weights);
    buffer_free(&m.next_weights);
    buffer_free(&m.frame);
    return ok;
}

void make_print(const make_paths *p, const make_result *result)
{
    char text[PRINTABLE_SIZE];

    printf("%s: %" PRIu64 " bytes, %.3f%% of %" PRIu64 "; %" PRIu64 " entries, %" PRIu64 " of them without a base\n",
           printable(text, p->out), result->message_bytes,
           result->model_bytes ? 100 * (double)result->message_bytes / (double)result->model_bytes : 0,
           result->model_bytes, result->entries, result->without_base);
    fflush(stdout);
}
