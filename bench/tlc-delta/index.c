/* SPDX-License-Identifier: MIT */
#include "index.h"
#include "../lib/explain.h"
#include "models/json.h"
#include "models/printable.h"
#include <limits.h>
#include <string.h>

static bool is_index(const char *path)
{
    static const char end[] = ".safetensors.index.json";
    const size_t len = strlen(path);

    return len >= sizeof end && !strcmp(path + len + 1 - sizeof end, end);
}

/* name: of a file in the folder of the index. */
static bool is_there(const model *m, const char *index, const char *name)
{
    char path[PATH_MAX];
    const char *slash = strrchr(index, '/');
    const int folder = slash ? (int)(slash + 1 - index) : 0;

    return snprintf(path, sizeof path, "%.*s%s", folder, index, name) < (int)sizeof path && model_find_file(m, path);
}

static bool check(const model *m, const model_file *index, char *why)
{
    char text[PRINTABLE_SIZE], missing[PRINTABLE_SIZE], ignored[WHY_SIZE];
    json_t *root = json_read(index->map.bytes, (size_t)index->map.size, ignored), *file;
    const char *name;
    bool ok = true;

    json_object_foreach(json_object_get(root, "weight_map"), name, file)
    {
        const char *path = json_string_value(file);
        if (ok && path && !is_there(m, index->path, path))
            ok = explain(why, "%s: it names %s, which is not there", printable(text, index->path),
                         printable(missing, path));
    }
    json_decref(root);
    return ok;
}

bool index_check(const model *m, char *why)
{
    for (size_t i = 0; i < m->file_count; i++) {
        if (is_index(m->files[i].path) && !check(m, &m->files[i], why))
            return false;
    }
    return true;
}
