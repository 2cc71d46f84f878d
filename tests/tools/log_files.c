/* SPDX-License-Identifier: MIT
 *
 * Preloaded into a program: writes to the folder LOG_FILES what the program does to files below the folder LOGGED, a
 * line for each call in `calls`, and what files have when they are brought to the disk.
 */
#undef _FILE_OFFSET_BITS /* it would give two functions one name */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The C library's function. By an integer, as ISO C forbids the cast. */
#define REAL(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))

static const char *below(const char *path, char whole[PATH_MAX])
{
    const char *logged = getenv("LOGGED");
    char here[PATH_MAX];

    if (path[0] == '/')
        snprintf(whole, PATH_MAX, "%s", path);
    else if (getcwd(here, sizeof here) && strlen(here) + strlen(path) + 2 <= PATH_MAX)
        memcpy(stpcpy(stpcpy(whole, here), "/"), path, strlen(path) + 1);
    return logged && !strncmp(whole, logged, strlen(logged)) && whole[strlen(logged)] == '/'
               ? whole + strlen(logged) + 1
               : NULL;
}

static void log_line(const char *call, const char *path, const char *other)
{
    char name[PATH_MAX], line[3 * PATH_MAX], whole[PATH_MAX], second[PATH_MAX];
    const char *in = below(path, whole), *to = other ? below(other, second) : NULL;

    if (!in || !getenv("LOG_FILES"))
        return;
    snprintf(name, sizeof name, "%s/calls", getenv("LOG_FILES"));
    const int fd = REAL(open)(name, O_WRONLY | O_APPEND | O_CREAT, 0666);
    const int len = snprintf(line, sizeof line, "%s\t%s\t%s\n", call, in, to ? to : "");
    if (fd < 0 || write(fd, line, (size_t)len) != len)
        abort();
    close(fd);
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): those of the C library are reserved */
/* ---- files ------------------------------------------------------------------------------------------------------- */

int open(const char *path, int flags, ...)
{
    va_list rest;

    va_start(rest, flags);
    const int mode = (flags & O_CREAT) ? va_arg(rest, int) : 0;
    va_end(rest);
    const int fd = REAL(open)(path, flags, mode);
    if (fd >= 0 && flags & (O_CREAT | O_TRUNC))
        log_line("write", path, NULL);
    return fd;
}

int open64(const char *path, int flags, ...)
{
    va_list rest;

    va_start(rest, flags);
    const int mode = (flags & O_CREAT) ? va_arg(rest, int) : 0;
    va_end(rest);
    return open(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    FILE *f = REAL(fopen)(path, mode);

    if (f && *mode == 'w')
        log_line("write", path, NULL);
    return f;
}

FILE *fopen64(const char *path, const char *mode)
{
    return fopen(path, mode);
}

/* Keeps what the file has now. */
static void keep(int fd, const char *path)
{
    static int kept;
    char name[PATH_MAX], copy[PATH_MAX + 64], buffer[65536];
    ssize_t got;

    snprintf(copy, sizeof copy, "%s/%d.%d", getenv("LOG_FILES"), (int)getpid(), kept++);
    const int out = REAL(open)(copy, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    for (off_t at = 0; (got = pread(fd, buffer, sizeof buffer, at)) > 0; at += got)
        if (write(out, buffer, (size_t)got) != got)
            abort();
    close(out);
    snprintf(name, sizeof name, "sync %s", strrchr(copy, '/') + 1);
    log_line(name, path, NULL);
}

int fsync(int fd)
{
    char by_fd[64], path[PATH_MAX], whole[PATH_MAX];
    const char *logged = getenv("LOGGED");
    struct stat st;

    snprintf(by_fd, sizeof by_fd, "/proc/self/fd/%d", fd);
    /* NOLINTNEXTLINE(readability-suspicious-call-argument): it has the right order */
    const ssize_t len = readlink(by_fd, path, sizeof path - 2);
    path[len > 0 ? len : 0] = '\0';
    if (logged && !strcmp(path, logged))
        strcat(path, "/");
    if (below(path, whole) && !fstat(fd, &st)) {
        if (S_ISDIR(st.st_mode))
            log_line("sync-folder", path, NULL);
        else {
            const int again = REAL(open)(by_fd, O_RDONLY);
            keep(again, path);
            close(again);
        }
    }
    return REAL(fsync)(fd);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

int rename(const char *from, const char *to)
{
    const int failed = REAL(rename)(from, to);

    if (!failed)
        log_line("rename", from, to);
    return failed;
}

int mkdir(const char *path, mode_t mode)
{
    const int failed = REAL(mkdir)(path, mode);

    if (!failed)
        log_line("mkdir", path, NULL);
    return failed;
}

int unlink(const char *path)
{
    const int failed = REAL(unlink)(path);

    if (!failed)
        log_line("remove", path, NULL);
    return failed;
}

int rmdir(const char *path)
{
    const int failed = REAL(rmdir)(path);

    if (!failed)
        log_line("remove", path, NULL);
    return failed;
}

int remove(const char *path)
{
    const int failed = REAL(remove)(path); /* its own unlink and rmdir are not seen */

    if (!failed)
        log_line("remove", path, NULL);
    return failed;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
