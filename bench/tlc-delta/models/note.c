/* SPDX-License-Identifier: MIT */
#include "note.h"
#include "../../lib/explain.h"
#include "dtypes.h"
#include "json.h"
#include "printable.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char format[] = "tlc-delta 1";
static const char safetensors[] = "safetensors", npy[] = "npy";

/* ---- writing ----------------------------------------------------------------------------------------------------- */

const char *note_kind(const model_file *file)
{
    return file->kind == FILE_SAFETENSORS ? safetensors : file->kind == FILE_NPY ? npy : dtype_names[file->dtype];
}

char *note_write(const model *m, char *why)
{
    char text[PRINTABLE_SIZE];
    json_t *files = json_array();
    json_t *root = json_pack("{s:s, s:b, s:o}", "format", format, "folder", (int)m->is_folder, "files", files);
    char *note = NULL;
    bool ok = true;

    for (size_t i = 0; root && ok && i < m->file_count; i++) {
        const model_file *file = &m->files[i];
        ok = json_array_append_new(files, json_pack("{s:s, s:s, s:I}", "path", file->path, "kind", note_kind(file),
                                                    "size", (json_int_t)file->size)) == 0 ||
             explain(why, "%s: its name is no UTF-8", printable(text, file->path));
    }
    if (root && ok)
        note = json_dumps(root, JSON_COMPACT);
    if (ok && !note)
        explain(why, "out of memory");
    json_decref(root);
    return note;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A path in a folder: parts between /, none of them empty or beginning with a dot. */
static bool is_inside(const char *path)
{
    if (strlen(path) >= PATH_MAX)
        return false;
#if defined(_WIN32)
    if (strpbrk(path, "\\:")) /* other folders, drives, and streams of files */
        return false;
#endif
    for (const char *part = path; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        if (*part == '.' || *part == '/' || !*part)
            return false;
    }
    return true;
}

static bool take_kind(const char *name, model_file *file)
{
    if (!strcmp(name, safetensors) || !strcmp(name, npy)) {
        file->kind = *name == *npy ? FILE_NPY : FILE_SAFETENSORS;
        return true;
    }
    for (size_t i = 0; dtype_names[i]; i++) {
        if (!strcmp(name, dtype_names[i])) {
            file->dtype = (tlc_dtype)i;
            return true;
        }
    }
    return false;
}

static bool take_file(const json_t *entry, model *m, char *why)
{
    const char *path = json_string_value(json_object_get(entry, "path"));
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    const json_t *size = json_object_get(entry, "size");
    model_file file = {.path = (char *)(uintptr_t)path};

    if (!path || !is_inside(path) || !kind || !take_kind(kind, &file) || !json_is_integer(size) ||
        json_integer_value(size) < 0)
        return explain(why, "its list of files is malformed");
    if (m->file_count && strcmp(m->files[m->file_count - 1].path, path) >= 0)
        return explain(why, "its list of files is not in order");
    file.size = (uint64_t)json_integer_value(size);
    return model_add_file(m, &file, why);
}

/* Raw files need no bytes to be laid out. */
static bool lay_out_raw(model *m, char *why)
{
    for (size_t i = 0; i < m->file_count; i++) {
        if (m->files[i].kind == FILE_RAW && !model_lay_out(&m->files[i], NULL, 0, why))
            return false;
    }
    return true;
}

bool note_read(const uint8_t *note, size_t len, model *m, char *why)
{
    json_t *root = json_read(note, len, why), *entry;
    const char *written = root ? json_string_value(json_object_get(root, "format")) : NULL;
    const json_t *files = root ? json_object_get(root, "files") : NULL;
    size_t i;
    bool ok = root != NULL;

    *m = (model){.is_folder = root && json_is_true(json_object_get(root, "folder"))};
    if (ok && (!written || strcmp(written, format) != 0))
        ok = explain(why, "it was not made by tlc-delta, or by another version");
    if (ok && (!json_array_size(files) || (!m->is_folder && json_array_size(files) > 1)))
        ok = explain(why, "its list of files is malformed");
    json_array_foreach(files, i, entry)
    {
        ok = ok && take_file(entry, m, why);
    }
    json_decref(root);
    ok = ok && lay_out_raw(m, why);
    if (!ok)
        model_close(m);
    return ok;
}

bool note_of(message_in *in, model *m, char *why)
{
    const size_t len = (size_t)in->info.note_len;
    uint8_t *note = malloc(len + 1);

    *m = (model){.count = 0};
    if (!note)
        return explain(why, "out of memory");
    const bool ok = (tlc_weights_note(in->reader, note, len) == TLC_OK || explain(why, "%s", in->message)) &&
                    note_read(note, len, m, why);
    free(note);
    return ok;
}
