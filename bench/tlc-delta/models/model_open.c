/* SPDX-License-Identifier: MIT
 *
 * Models that are there: files and folders.
 */
#include "../../lib/explain.h"
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

    return size % (dtype_bits(dtype) / 8) == 0 ? dtype : TLC_U8;
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

/* Folders that are still to be read. */
typedef struct folders {
    size_t count;
    char **paths;
} folders;

static bool add_folder(folders *list, const char *path, char *why)
{
    char **more = realloc(list->paths, (list->count + 1) * sizeof *more);

    if (!more)
        return explain(why, "out of memory");
    list->paths = more;
    more[list->count] = strdup(path);
    return more[list->count++] || explain(why, "out of memory");
}

static void free_folders(folders *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
}

/* Adds a file, or puts a folder on the list. label: where the path in the model begins. */
static bool add_either(model *m, folders *list, const char *path, size_t label, char *why)
{
    char text[PRINTABLE_SIZE];
    unsigned depth = 0;
    struct stat st;

    if (lstat(path, &st) != 0)
        return explain(why, "%s: %s", printable(text, path), strerror(errno));
    if (!S_ISDIR(st.st_mode)) /* links to folders are refused: they may lead round in circles */
        return add(m, path, path + label, NULL, why);
    for (const char *slash = path + label; (slash = strchr(slash, '/')); slash++)
        depth++;
    return depth < DEPTH_MAX
               ? add_folder(list, path, why)
               : explain(why, "%s: there are more than %d folders in folders", printable(text, path), DEPTH_MAX);
}

static bool read_folder(model *m, folders *list, const char *folder, size_t label, char *why)
{
    char path[PATH_MAX], text[PRINTABLE_SIZE];
    bool ok = true;
    DIR *dir = opendir(folder);

    if (!dir)
        return explain(why, "%s: %s", printable(text, folder), strerror(errno));
    for (const struct dirent *d; ok && (errno = 0, d = readdir(dir));) {
        if (d->d_name[0] == '.')
            continue;
        ok = snprintf(path, sizeof path, "%s/%s", folder, d->d_name) < (int)sizeof path
                 ? add_either(m, list, path, label, why)
                 : explain(why, "%s: its path is too long", printable(text, folder));
    }
    if (ok && errno)
        ok = explain(why, "%s: %s", printable(text, folder), strerror(errno));
    closedir(dir);
    return ok;
}

/* A folder with all that is in it. */
static bool add_all_of(model *m, const char *path, char *why)
{
    folders list = {.count = 0};
    bool ok = add_folder(&list, path, why);

    for (size_t i = 0; ok && i < list.count; i++) /* it grows */
        ok = read_folder(m, &list, list.paths[i], strlen(path) + 1, why);
    free_folders(&list);
    return ok;
}

static bool add_all(model *m, const char *path, const tlc_dtype *raw, char *why)
{
    char text[PRINTABLE_SIZE], reason[WHY_SIZE];
    struct stat st;

    if (stat(path, &st) != 0)
        return explain(why, "%s: %s", printable(text, path), strerror(errno));
    m->is_folder = S_ISDIR(st.st_mode);
    if (!(m->is_folder ? add_all_of(m, path, why) : add(m, path, "data", raw, why)))
        return false;
    if (!m->file_count)
        return explain(why, "%s: there is no file in it", printable(text, path));
    model_sort_files(m);
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
