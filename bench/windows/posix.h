/* SPDX-License-Identifier: MIT
 *
 * The programs are written for POSIX. On Windows this header comes before each of their files, and gives them the
 * functions that Windows lacks or has in another form. Names of files are UTF-8, whatever the code page is, and may be
 * as long as the file system allows: every call takes the wide form of Windows, which has had it since NT, and not an
 * application manifest with UTF-8 as code page, which Windows 10 of 2019 was the first to read. Files are binary.
 * include/ has the headers that Windows lacks.
 *
 * Functions are as in POSIX, for what the programs ask of them; comments say where they are not.
 */
#ifndef BENCH_WINDOWS_POSIX_H
#define BENCH_WINDOWS_POSIX_H

#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- the start --------------------------------------------------------------------------------------------------- */

/* start.c has the main function that Windows calls. It calls this one, with arguments in UTF-8 and / for \ in them. */
#define main posix_main
int main(int argc, char **argv);

/* ---- files ------------------------------------------------------------------------------------------------------- */

#undef PATH_MAX
#define PATH_MAX 4096
#undef NAME_MAX
#define NAME_MAX 765 /* 255 characters of 3 bytes */

#define O_CLOEXEC _O_NOINHERIT
#define O_NONBLOCK 0
#define O_DIRECTORY 0x100000
#define O_NOFOLLOW 0x200000
enum { LOCK_EX = 1, LOCK_NB = 2 };

struct posix_stat {
    uint64_t st_dev, st_ino;
    int st_mode; /* lstat: of links no type that S_ISDIR or S_ISREG knows */
    int64_t st_size;
    time_t st_mtime, st_ctime; /* st_ctime: of the file, so a copy that keeps st_mtime is new here */
};

int posix_open(const char *path, int flags, ...);
int posix_close(int fd);
FILE *posix_fopen(const char *path, const char *mode);
int posix_stat(const char *path, struct posix_stat *st);
int posix_lstat(const char *path, struct posix_stat *st);
int posix_fstat(int fd, struct posix_stat *st);
int posix_access(const char *path, int what); /* whether it is there */
int posix_mkdir(const char *path, int mode);
int posix_remove(const char *path);

/* What is written in between is on the disk when it returns. A folder takes the place of an empty one, but not at once:
 * there may be none after a power cut. A file that is open does not lose its place: that is EACCES. */
int posix_rename(const char *from, const char *to);
int posix_fsync(int fd); /* EINVAL: it cannot be done to this file or folder */
ssize_t posix_pwrite(int fd, const void *bytes, size_t len, off_t offset);

/* LOCK_EX | LOCK_NB, of a file or folder, against processes of this machine. */
int posix_flock(int fd, int what);

/* Whether the name of an open file ends with these parts. Windows opens it by other names, too: those with another
 * case, with dots at the end, short ones. */
bool posix_is_named(int fd, const char *path);

#undef stat
#undef fstat
#define open posix_open
#define close posix_close
#define fopen posix_fopen
#define stat posix_stat
#define lstat posix_lstat
#define fstat posix_fstat
#define access posix_access
#define mkdir posix_mkdir
#define remove posix_remove
#define rename posix_rename
#define fsync posix_fsync
#define pwrite posix_pwrite
#define flock posix_flock

/* ---- the machine ------------------------------------------------------------------------------------------------- */

enum { _SC_PAGESIZE, _SC_PHYS_PAGES };
long posix_sysconf(int what);

/* Whether it is a terminal that follows escape sequences. */
int posix_isatty(int fd);

/* Processors of the first group, of 64 at most. */
enum { CPU_SETSIZE = 64 };
typedef struct posix_cpu_set {
    uint64_t bits;
} cpu_set_t;
#define CPU_ZERO(set) ((void)((set)->bits = 0))
#define CPU_SET(i, set) ((void)((set)->bits |= UINT64_C(1) << (i)))
#define CPU_ISSET(i, set) ((int)((set)->bits >> (i) & 1))
#define CPU_COUNT(set) __builtin_popcountll((set)->bits)
int sched_getcpu(void);
int sched_getaffinity(int process, size_t size, cpu_set_t *set); /* of the calling one */
int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set);

/* free takes no memory of another alignment than that of malloc, 16 bytes. */
static inline void *posix_aligned_alloc(size_t alignment, size_t size)
{
    (void)alignment;
    return malloc(size);
}
#define sysconf posix_sysconf
#define isatty posix_isatty
#define aligned_alloc posix_aligned_alloc

/* ---- signals ----------------------------------------------------------------------------------------------------- */

/* Windows has none of these; a write to a pipe that is closed fails, as one to a full disk does. */
#define SIGHUP 101
#define SIGBUS 102
#define SIGPIPE 103
#define SIGXFSZ 104
enum { SA_RESETHAND = 1 };

struct sigaction {
    void (*sa_handler)(int number); /* another thread calls it; that of SIGBUS the one with the error */
    int sa_flags;
};

/* SIGINT is ctrl-C, SIGTERM ctrl-break, SIGHUP a console that is closed, or the end of a session; SIGBUS an error of
 * the disk where a file is memory. Others do not come. */
int sigaction(int number, const struct sigaction *action, struct sigaction *before);
const char *strsignal(int number);

/* Ends early, as in POSIX, when a signal comes. */
int posix_nanosleep(const struct timespec *time, struct timespec *rest);

static inline void *posix_signal(int number, void (*handler)(int number))
{
    const struct sigaction action = {.sa_handler = handler};

    (void)sigaction(number, &action, NULL);
    return NULL;
}
#define nanosleep posix_nanosleep
#define signal posix_signal

/* ---- texts ------------------------------------------------------------------------------------------------------- */

char *strndup(const char *text, size_t most);
int strverscmp(const char *a, const char *b);
char *strcasestr(const char *text, const char *part); /* of ASCII */

/* ---- headers of Windows ------------------------------------------------------------------------------------------ */

/* Its macros convert double to float where they do not use it, of which the compiler warns. */
#undef isfinite
#define isfinite(x) __builtin_isfinite(x)
#undef isnan
#define isnan(x) __builtin_isnan(x)
#undef isinf
#define isinf(x) __builtin_isinf(x)
#undef signbit
#define signbit(x) (__builtin_signbit(x) != 0)

/* A function of theirs, and another one of a program. */
#define tell posix_tell
#endif
