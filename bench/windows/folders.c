/* SPDX-License-Identifier: MIT */
#include "include/dirent.h"
#include "include/ftw.h"
#include "include/glob.h"
#include "wide.h"
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

/* ---- one name after the other ------------------------------------------------------------------------------------ */

struct posix_dir {
    wchar_t *pattern;
    HANDLE found; /* INVALID_HANDLE_VALUE: nothing is found */
    WIN32_FIND_DATAW next;
    bool has_next;
    struct dirent entry;
};

static void find_first(DIR *dir)
{
    dir->found = FindFirstFileW(dir->pattern, &dir->next);
    dir->has_next = dir->found != INVALID_HANDLE_VALUE;
}

/* What matches a pattern. NULL: errno says why; ENOENT if nothing does. */
static DIR *find(const char *pattern)
{
    DIR *dir = calloc(1, sizeof *dir);

    if (!dir)
        return NULL;
    if ((dir->pattern = wide_path(pattern)))
        find_first(dir);
    if (dir->has_next)
        return dir;
    if (dir->pattern)
        (void)wide_failed();
    free(dir->pattern);
    free(dir);
    return NULL;
}

DIR *opendir(const char *path)
{
    char pattern[PATH_MAX];

    if (snprintf(pattern, sizeof pattern, "%s/*", path) < (int)sizeof pattern)
        return find(pattern);
    errno = ENAMETOOLONG;
    return NULL;
}

struct dirent *readdir(DIR *dir)
{
    char *name;

    if (!dir->has_next)
        return NULL;
    if (!(name = narrow_text(dir->next.cFileName))) {
        errno = ENOMEM;
        return NULL;
    }
    (void)snprintf(dir->entry.d_name, sizeof dir->entry.d_name, "%s", name);
    free(name);
    const DWORD type = dir->next.dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT);
    dir->entry.d_type = !type ? DT_REG : type == FILE_ATTRIBUTE_DIRECTORY ? DT_DIR : DT_UNKNOWN;
    dir->has_next = FindNextFileW(dir->found, &dir->next);
    if (!dir->has_next && GetLastError() != ERROR_NO_MORE_FILES)
        (void)wide_failed();
    return &dir->entry;
}

void rewinddir(DIR *dir)
{
    (void)FindClose(dir->found);
    find_first(dir);
}

int closedir(DIR *dir)
{
    (void)FindClose(dir->found);
    free(dir->pattern);
    free(dir);
    return 0;
}

/* ---- lists of names ---------------------------------------------------------------------------------------------- */

int alphasort(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int versionsort(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

typedef int compare(const struct dirent **, const struct dirent **);
static compare *order_of_list; /* qsort passes nothing on */

static int by_order(const void *a_, const void *b_)
{
    const struct dirent *a = *(struct dirent *const *)a_, *b = *(struct dirent *const *)b_;

    return order_of_list(&a, &b);
}

static void free_list(struct dirent **list, int count)
{
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
}

int scandir(const char *path, struct dirent ***names, int (*wanted)(const struct dirent *), compare *order)
{
    struct dirent **list = malloc(sizeof *list), **longer;
    DIR *dir = list ? opendir(path) : NULL;
    int count = 0;
    bool ok = dir;

    for (const struct dirent *d; ok && (errno = 0, d = readdir(dir));) {
        if (wanted && !wanted(d))
            continue;
        ok = (longer = realloc(list, ((size_t)count + 2) * sizeof *list));
        list = ok ? longer : list;
        ok = ok && (list[count] = malloc(sizeof *d));
        if (ok)
            *list[count++] = *d;
    }
    ok = ok && !errno;
    const int error = errno;
    if (dir)
        (void)closedir(dir);
    errno = error;
    if (!ok) {
        free_list(list, count);
        return -1;
    }
    order_of_list = order;
    qsort(list, (size_t)count, sizeof *list, by_order);
    *names = list;
    return count;
}

/* ---- trees ------------------------------------------------------------------------------------------------------- */

typedef int visitor(const char *, const struct stat *, int, struct FTW *);

static int is_name(const struct dirent *d)
{
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int walk(const char *path, visitor *visit, int flags, int level)
{
    const char *slash = strrchr(path, '/');
    struct FTW place = {.base = slash ? (int)(slash + 1 - path) : 0, .level = level};
    struct dirent **names = NULL;
    char below[PATH_MAX];
    struct stat st;
    int count = 0, status = 0;

    if (lstat(path, &st) != 0)
        return -1;
    if (!S_ISDIR(st.st_mode))
        return visit(path, &st, FTW_F, &place);
    if (!(flags & FTW_DEPTH))
        status = visit(path, &st, FTW_D, &place);
    if (!status && (count = scandir(path, &names, is_name, alphasort)) < 0)
        return -1;
    for (int i = 0; !status && i < count; i++) {
        if (snprintf(below, sizeof below, "%s/%s", path, names[i]->d_name) < (int)sizeof below)
            status = walk(below, visit, flags, level + 1);
        else {
            errno = ENAMETOOLONG;
            status = -1;
        }
    }
    free_list(names, count);
    return !status && flags & FTW_DEPTH ? visit(path, &st, FTW_DP, &place) : status;
}

int nftw(const char *path, visitor *visit, int open_at_once, int flags)
{
    (void)open_at_once;
    return walk(path, visit, flags, 0);
}

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the first `start` bytes of a path and a name. */
static bool add(glob_t *list, const char *path, size_t start, const char *name)
{
    const size_t size = start + strlen(name) + 1;
    char **more = realloc(list->gl_pathv, (list->gl_pathc + 2) * sizeof *more);

    if (!more)
        return false;
    list->gl_pathv = more;
    if (!(more[list->gl_pathc] = malloc(size)))
        return false;
    (void)snprintf(more[list->gl_pathc++], size, "%.*s%s", (int)start, path, name);
    more[list->gl_pathc] = NULL;
    return true;
}

int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *list)
{
    const char *slash = strrchr(pattern, '/');
    const size_t start = slash ? (size_t)(slash + 1 - pattern) : 0;
    DIR *dir = strchr(pattern + start, '*') ? find(pattern) : NULL;
    bool ok = true;

    (void)failed;
    if (!(flags & GLOB_APPEND))
        *list = (glob_t){.gl_pathc = 0};
    const size_t before = list->gl_pathc;
    for (const struct dirent *d; dir && ok && (d = readdir(dir));)
        ok = d->d_name[0] == '.' || add(list, pattern, start, d->d_name);
    if (dir)
        (void)closedir(dir);
    if (list->gl_pathc > before)
        qsort(list->gl_pathv + before, list->gl_pathc - before, sizeof *list->gl_pathv, by_name);
    else
        ok = ok && add(list, "", 0, pattern);
    return ok ? 0 : GLOB_NOSPACE;
}
