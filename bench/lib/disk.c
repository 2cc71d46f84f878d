/* SPDX-License-Identifier: MIT */
#include "disk.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

bool disk_sync_folder(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return false;
    const bool ok = fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP;
    const int why = errno;
    close(fd);
    errno = why;
    return ok;
}

bool disk_sync_parent(const char *path)
{
    char parent[PATH_MAX];

    snprintf(parent, sizeof parent, "%s", path);
    for (size_t len = strlen(parent); len > 1 && parent[len - 1] == '/'; len--)
        parent[len - 1] = '\0';
    char *slash = strrchr(parent, '/');
    if (!slash)
        snprintf(parent, sizeof parent, ".");
    else
        slash[slash == parent] = '\0';
    return disk_sync_folder(parent);
}

bool disk_take_place(FILE *file, const char *part, const char *path)
{
    const bool is_whole = fflush(file) == 0 && (fsync(fileno(file)) == 0 || errno == EINVAL);
    const int why = errno;

    if (fclose(file) != 0 && is_whole)
        return false;
    errno = why;
    return is_whole && rename(part, path) == 0 && disk_sync_parent(path);
}
