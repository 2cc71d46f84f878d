/* SPDX-License-Identifier: MIT */
#include "info.h"
#include "../lib/explain.h"
#include "models/dtypes.h"
#include "models/message.h"
#include "models/model.h"
#include "models/note.h"
#include "models/printable.h"
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

enum { PIECE = 65536 }; /* weights that are read at once */

static uint64_t positions[PIECE], values[PIECE]; /* of weights that differ */

typedef struct report {
    message_in in;
    model files;                                                /* of the note */
    uint64_t model_bytes, without_base, changed, changed_bytes; /* of frames whose changes are counted */
} report;

/* What is told of an entry. */
typedef struct info_row {
    tlc_weights_entry entry;
    tlc_delta_info frame;
    bool is_counted;  /* without a base, or where the frame has the weights themselves, nobody knows how many differ */
    uint64_t changed; /* weights */
} info_row;

/* Counts the weights that differ. */
static bool count(info_row *row, const void *frame, char *why)
{
    char text[PRINTABLE_SIZE], message[TLC_MESSAGE_SIZE] = "";
    tlc_delta_options options;
    tlc_delta_piece piece = {.struct_size = sizeof piece,
                             .end = row->entry.n,
                             .positions = positions,
                             .values = values,
                             .cap = PIECE};

    (void)tlc_delta_options_init(&options, sizeof options);
    options.message = message;
    options.message_cap = sizeof message;
    row->changed = 0;
    row->is_counted = row->entry.has_base;
    while (row->is_counted && piece.next < piece.end) {
        if (tlc_delta_changes(frame, (size_t)row->entry.frame_len, row->entry.dtype, (size_t)row->entry.n, &piece,
                              &options) != TLC_OK)
            return explain(why, "%s: %s", printable(text, row->entry.name), message);
        row->is_counted = !piece.are_values;
        row->changed += piece.k;
    }
    return true;
}

static bool read_row(report *r, uint64_t i, info_row *row, char *why)
{
    char text[PRINTABLE_SIZE];
    const void *frame;

    if (!message_in_at(&r->in, i, &row->entry, &frame, why))
        return false;
    (void)tlc_delta_info_init(&row->frame, sizeof row->frame);
    const tlc_status status = tlc_delta_inspect(frame, (size_t)row->entry.frame_len, &row->frame);
    if (status)
        return explain(why, "%s: %s", printable(text, row->entry.name), tlc_status_string(status));
    return count(row, frame, why);
}

static bool read_all(report *r, char *why)
{
    for (uint64_t i = 0; i < r->in.info.count; i++) {
        info_row row;
        if (!read_row(r, i, &row, why))
            return false;
        r->without_base += !row.entry.has_base;
        if (row.is_counted) {
            r->changed += row.changed;
            r->changed_bytes += row.entry.frame_len;
        }
    }
    for (size_t i = 0; i < r->files.file_count; i++)
        r->model_bytes += r->files.files[i].size;
    return true;
}

/* Bits for each changed weight; 0 if none is counted. */
static double bits(uint64_t bytes, uint64_t changed)
{
    return changed ? 8 * (double)bytes / (double)changed : 0;
}

static void hex(const unsigned char *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void print_shape(const tlc_weights_entry *e)
{
    if (!e->dims)
        printf("scalar");
    for (size_t i = 0; i < e->dims; i++)
        printf("%s%" PRIu64, i ? "x" : "", e->shape[i]);
}

static void print_row(const info_row *row)
{
    char name[PRINTABLE_SIZE];

    printf("%12" PRIu64 " ", row->entry.frame_len);
    if (!row->is_counted)
        printf("%12s %7s ", row->entry.has_base ? "many" : "all", "");
    else if (!row->changed)
        printf("%12s %7s ", "none", "");
    else
        printf("%12" PRIu64 " %7.2f ", row->changed, bits(row->entry.frame_len, row->changed));
    printf("%-8s %s ", dtype_names[row->entry.dtype], printable(name, row->entry.name));
    print_shape(&row->entry);
    putchar('\n');
}

static bool print_text(report *r, char *why)
{
    const tlc_weights_info *i = &r->in.info;
    char trainer[2 * TLC_WEIGHTS_TRAINER_SIZE + 1];

    hex(i->trainer, sizeof i->trainer, trainer);
    printf("message      %" PRIu64 " of trainer %s\n", i->sequence, trainer);
    printf("bytes        %" PRIu64 ", %.3f%% of the %" PRIu64 " of %s\n", i->size,
           r->model_bytes ? 100 * (double)i->size / (double)r->model_bytes : 0, r->model_bytes,
           r->files.is_folder ? "the folder" : "the file");
    printf("files        %zu\n", r->files.file_count);
    printf("entries      %" PRIu64 ", %" PRIu64 " of them without a base\n", i->count, r->without_base);
    if (i->full)
        printf("base         none: it has all weights\n");
    else
        printf("base         %016" PRIx64 "\n", i->base_digest);
    printf("result       %016" PRIx64 "\n", i->result_digest);
    if (r->changed)
        printf("changed      %" PRIu64 " weights, %.2f bits for each\n", r->changed,
               bits(r->changed_bytes, r->changed));
    printf("\n       bytes      changed    bits dtype    entry, shape\n");
    for (uint64_t k = 0; k < i->count; k++) {
        info_row row;
        if (!read_row(r, k, &row, why))
            return false;
        print_row(&row);
    }
    return true;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *json_digest(uint64_t digest)
{
    char text[17];

    snprintf(text, sizeof text, "%016" PRIx64, digest);
    return json_string(text);
}

static json_t *json_row(const info_row *row)
{
    const tlc_weights_entry *e = &row->entry;
    json_t *shape = json_array();

    for (size_t i = 0; i < e->dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)e->shape[i]));
    return json_pack("{s:s, s:s, s:o, s:I, s:o, s:o, s:[I,I,I,I], s:o}", "name", e->name, "dtype",
                     dtype_names[e->dtype], "shape", shape, "bytes", (json_int_t)e->frame_len, "base_digest",
                     e->has_base ? json_digest(e->base_digest) : json_null(), "result_digest",
                     json_digest(e->result_digest), "blocks", (json_int_t)row->frame.blocks[0],
                     (json_int_t)row->frame.blocks[1], (json_int_t)row->frame.blocks[2],
                     (json_int_t)row->frame.blocks[3], "changed",
                     row->is_counted ? json_integer((json_int_t)row->changed) : json_null());
}

static json_t *json_files(const model *m)
{
    json_t *files = json_array();

    for (size_t i = 0; i < m->file_count; i++)
        json_array_append_new(files, json_pack("{s:s, s:s, s:I}", "path", m->files[i].path, "kind",
                                               note_kind(&m->files[i]), "size", (json_int_t)m->files[i].size));
    return files;
}

static bool print_json(report *r, char *why)
{
    const tlc_weights_info *i = &r->in.info;
    char trainer[2 * TLC_WEIGHTS_TRAINER_SIZE + 1];
    json_t *entries = json_array();
    bool ok = true;

    for (uint64_t k = 0; ok && k < i->count; k++) {
        info_row row;
        ok = read_row(r, k, &row, why) &&
             (json_array_append_new(entries, json_row(&row)) == 0 || explain(why, "out of memory"));
    }
    hex(i->trainer, sizeof i->trainer, trainer);
    json_t *root = json_pack("{s:s, s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o}", "trainer", trainer, "sequence",
                             (json_int_t)i->sequence, "bytes", (json_int_t)i->size, "model_bytes",
                             (json_int_t)r->model_bytes, "folder", (int)r->files.is_folder, "base_digest",
                             i->full ? json_null() : json_digest(i->base_digest), "result_digest",
                             json_digest(i->result_digest), "files", json_files(&r->files), "entries", entries);
    if (ok)
        ok = (root && json_dumpf(root, stdout, JSON_INDENT(1)) == 0) || explain(why, "out of memory");
    json_decref(root);
    putchar('\n');
    return ok;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

bool info_print(const char *path, bool json, char *why)
{
    char text[PRINTABLE_SIZE], reason[WHY_SIZE];
    report r = {.model_bytes = 0};

    if (!message_in_open(&r.in, path, why))
        return false;
    const bool ok = note_of(&r.in, &r.files, reason) && read_all(&r, reason) &&
                    (json ? print_json(&r, reason) : print_text(&r, reason));
    model_close(&r.files);
    message_in_close(&r.in);
    return ok || explain(why, "%s: %.1000s", printable(text, path), reason);
}
