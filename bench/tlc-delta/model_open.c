/* SPDX-License-Identifier: MIT
 *
 * Models that are there: files and folders.
 */
#include "../lib/explain.h"
#include "dtypes.h"
#include "model.h"
#include "printable.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH_MAX = 16 }; /* of folders in folders */

static tlc_dtype dtype_of(const char *path)
{
    static const tlc_dtype named[] = {TLC_F32, TLC_F16, TLC_BF16};
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < sizeof named / sizeof named[0]; i++) {
        if (!strcmp(dot + 1, dtype_names[named[i]]))
            return named[i];
    }
    return TLC_U8;
}

/* A file may be called .f32 and be something else. */
static tlc_dtype dtype_by_name(const char *path, uint64_t size)
{
    const tlc_dtype dtype = dtype_of(path);

    return size % (dtype_bits(dtype) / 8) ? TLC_U8 : dtype;
}

/* label: its path in the model. */
static bool add(model *m, const char *path, const char *label, const tlc_dtype *raw, char *why)
{
    char reason[WHY_SIZE], text[PRINTABLE_SIZE];
    mapped_file map;

    if (!mapped_open(&map, path, false, reason))
        return explain(why, "%s: %.1000s", printable(text, path), reason);
    model_file file = {.path = (char *)(uintptr_t)label,
                       .kind = kind_of(path, map.bytes, map.size),
                       .dtype = raw ? *raw : dtype_by_name(path, map.size),
                       .size = map.size,
                       .map = map};
    if (!model_add_file(m, &file, why)) {
        mapped_close(&map);
        return false;
    }
    return model_lay_out(&m->files[m->file_count - 1], map.bytes, map.size, reason) ||
           explain(why, "%s: %.1000s", printable(text, path), reason);
}

/* A folder with all that is in it. path: PATH_MAX bytes, of the folder. label: where in it the path in the model
 * begins. */
static bool add_folder(model *m, char *path, size_t label, unsigned depth, char *why)
{
    char text[PRINTABLE_SIZE];
    const size_t len = strlen(path);
    bool ok = true;
    DIR *dir = depth < DEPTH_MAX ? opendir(path) : NULL;

    if (depth == DEPTH_MAX)
        return explain(why, "%s: there are more than %d folders in folders", printable(text, path), DEPTH_MAX);
    if (!dir)
        return explain(why, "%s: %s", printable(text, path), strerror(errno));
    for (const struct dirent *d; ok && (errno = 0, d = readdir(dir));) {
        struct stat st;
        if (d->d_name[0] == '.')
            continue;
        if (snprintf(path + len, PATH_MAX - len, "/%s", d->d_name) >= (int)(PATH_MAX - len))
            ok = explain(why, "%s: its path is too long", printable(text, path));
        else if (lstat(path, &st) != 0)
            ok = explain(why, "%s: %s", printable(text, path), strerror(errno));
        else if (S_ISDIR(st.st_mode))
            ok = add_folder(m, path, label, depth + 1, why);
        else /* links to folders are refused: they may lead round in circles */
            ok = add(m, path, path + label, NULL, why);
        path[len] = '\0';
    }
    if (ok && errno)
        ok = explain(why, "%s: %s", printable(text, path), strerror(errno));
    closedir(dir);
    return ok;
}

static int by_path(const void *left, const void *right)
{
    const model_file *a = left, *b = right;

    return strcmp(a->path, b->path);
}

static bool add_all(model *m, const char *path, const tlc_dtype *raw, char *why)
{
    char name[PATH_MAX], text[PRINTABLE_SIZE], reason[WHY_SIZE];
    struct stat st;

    if (stat(path, &st) != 0)
        return explain(why, "%s: %s", printable(text, path), strerror(errno));
    m->is_folder = S_ISDIR(st.st_mode);
    if (m->is_folder && snprintf(name, sizeof name, "%s", path) >= (int)sizeof name - 1)
        return explain(why, "%s: its path is too long", printable(text, path));
    if (!(m->is_folder ? add_folder(m, name, strlen(name) + 1, 0, why) : add(m, path, "data", raw, why)))
        return false;
    if (!m->file_count)
        return explain(why, "%s: there is no file in it", printable(text, path));
    qsort(m->files, m->file_count, sizeof *m->files, by_path);
    return model_list(m, reason) || explain(why, "%s: %.1000s", printable(text, path), reason);
}

bool model_open(model *m, const char *path, const tlc_dtype *raw, char *why)
{
    *m = (model){.count = 0};
    if (add_all(m, path, raw, why))
        return true;
    model_close(m);
    return false;
}
