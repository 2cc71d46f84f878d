/* SPDX-License-Identifier: MIT */
#include "output.h"
#include "../lib/disk.h"
#include "../lib/explain.h"
#include "models/printable.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_OPEN = 16 }; /* while a folder is walked */

static const char ending[] = ".part";

static bool failed(const char *path, char *why)
{
    char text[PRINTABLE_SIZE];

    return explain(why, "%s: %s", printable(text, path), strerror(errno));
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)st;
    (void)type;
    return place->level ? remove(path) : 0;
}

/* Removes all that is in a folder. */
static bool empty_folder(const char *path, char *why)
{
    return nftw(path, remove_one, FILES_OPEN, FTW_DEPTH | FTW_PHYS) == 0 || failed(path, why);
}

static bool is_empty_folder(const char *path)
{
    size_t names = 0;
    DIR *dir = opendir(path);

    while (dir && names <= 2 && readdir(dir)) /* . and .. */
        names++;
    if (dir)
        closedir(dir);
    return dir && names <= 2;
}

static int sync_one(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)st;
    (void)place;
    return type == FTW_DP && !disk_sync_folder(path) ? -1 : 0;
}

/* ---- the part ---------------------------------------------------------------------------------------------------- */

/* Whether the path still leads to the file: another run may have renamed it before it was locked. */
static bool is_at(int fd, const char *path)
{
    struct stat here = {0}, there = {0};

    return fstat(fd, &here) == 0 && lstat(path, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

/* Opens the part, which a run before may have left, and locks it. */
static bool open_part(output *o, char *why)
{
    char text[PRINTABLE_SIZE];

    for (;;) {
        if (o->is_folder && mkdir(o->part, 0777) != 0 && errno != EEXIST)
            return failed(o->part, why);
        o->fd = open(o->part,
                     o->is_folder ? O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
                                  : O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                     0666);
        if (o->fd < 0)
            return failed(o->part, why);
        if (flock(o->fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK)
                explain(why, "%s: another run writes it", printable(text, o->part));
            else
                failed(o->part, why);
            break;
        }
        if (is_at(o->fd, o->part)) {
            if (o->is_folder ? empty_folder(o->part, why) : ftruncate(o->fd, 0) == 0 || failed(o->part, why))
                return true;
            break;
        }
        close(o->fd);
    }
    close(o->fd);
    return false;
}

/* A device, a pipe or a socket, or a link to one. */
static bool is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Whether the output may take its place. */
static bool may_replace(const output *o, bool force, char *why)
{
    char text[PRINTABLE_SIZE];
    struct stat st;

    if (lstat(o->path, &st) != 0)
        return errno == ENOENT || failed(o->path, why);
    if (o->is_folder)
        return (S_ISDIR(st.st_mode) && is_empty_folder(o->path)) || /* rename replaces it */
               explain(why, "%s: it is there already; choose another name, or remove it", printable(text, o->path));
    if (S_ISDIR(st.st_mode))
        return explain(why, "%s: it is a folder", printable(text, o->path));
    if (is_special(o->path)) /* other programs need it where it is */
        return explain(why, "%s: it is not a file; choose another name", printable(text, o->path));
    return force || explain(why, "%s: it is there already (--force replaces it)", printable(text, o->path));
}

bool output_begin(output *o, const char *path, bool folder, bool force, char *why)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    if (!len || len + sizeof ending > sizeof o->path)
        return explain(why, "the name of the output is empty or too long");
    *o = (output){.is_folder = folder, .fd = -1};
    memcpy(o->path, path, len);
    memcpy(o->part, path, len);
    memcpy(o->part + len, ending, sizeof ending);
    return may_replace(o, force, why) && open_part(o, why);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

int output_open_file(const output *o, const char *path, char *why)
{
    char text[PATH_MAX];
#if defined(_WIN32)
    char shown[PRINTABLE_SIZE];
#endif
    const size_t start = (size_t)snprintf(text, sizeof text, "%s/", o->part);

    if (start + strlen(path) >= sizeof text) {
        explain(why, "the path of a file is too long");
        return -1;
    }
    memcpy(text + start, path, strlen(path) + 1);
    for (char *slash = text + start; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(text, 0777) != 0 && errno != EEXIST) {
            failed(text, why);
            return -1;
        }
        *slash = '/';
    }
    const int fd = open(text, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        failed(text, why);
#if defined(_WIN32)
    else if (!posix_is_named(fd, path)) {
        explain(why, "%s: this system takes another name for the same one", printable(shown, path));
        close(fd);
        return -1;
    }
#endif
    return fd;
}

bool output_close_file(int fd, char *why)
{
    const bool ok = fsync(fd) == 0 || errno == EINVAL || explain(why, "%s", strerror(errno));

    return close(fd) == 0 ? ok : explain(why, "%s", strerror(errno));
}

bool output_write(int fd, const void *bytes, size_t len, uint64_t offset, char *why)
{
    const char *at = bytes;

    while (len) {
        const ssize_t wrote = pwrite(fd, at, len, (off_t)offset);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return explain(why, "%s", strerror(wrote ? errno : ENOSPC));
        at += wrote;
        len -= (size_t)wrote;
        offset += (uint64_t)wrote;
    }
    return true;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static bool bring_to_disk(const output *o, char *why)
{
    if (o->is_folder)
        return nftw(o->part, sync_one, FILES_OPEN, FTW_DEPTH | FTW_PHYS) == 0 || failed(o->part, why);
    return fsync(o->fd) == 0 || errno == EINVAL || failed(o->part, why);
}

/* Removes the part. */
static void abandon(output *o)
{
    char why[WHY_SIZE];

    if (o->is_folder)
        (void)empty_folder(o->part, why);
    (void)remove(o->part);
    close(o->fd);
}

bool output_end(output *o, bool complete, char *why)
{
    if (!complete || !bring_to_disk(o, why) || (rename(o->part, o->path) != 0 && !failed(o->path, why))) {
        abandon(o);
        return false;
    }
    close(o->fd);
    return disk_sync_parent(o->path) || failed(o->path, why);
}
