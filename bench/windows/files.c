/* SPDX-License-Identifier: MIT
 *
 * Files are opened so that others may read, write, rename and remove them meanwhile, as in POSIX.
 */
#include "posix.h"
#include "wide.h"
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

enum { SHARED = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

/* With BACKUP_SEMANTICS folders are opened, too. */
static HANDLE open_path(const char *path, DWORD access, DWORD how, DWORD flags)
{
    wchar_t *wide = wide_path(path);
    HANDLE file = INVALID_HANDLE_VALUE;

    if (!wide)
        return file;
    file = CreateFileW(wide, access, SHARED, NULL, how, FILE_FLAG_BACKUP_SEMANTICS | flags, NULL);
    if (file == INVALID_HANDLE_VALUE)
        (void)wide_failed();
    free(wide);
    return file;
}

static HANDLE handle_of(int fd)
{
    return (HANDLE)_get_osfhandle(fd);
}

/* ---- what files are ---------------------------------------------------------------------------------------------- */

static uint64_t pair(DWORD high, DWORD low)
{
    return (uint64_t)high << 32 | low;
}

static time_t seconds(FILETIME time)
{
    return (time_t)(pair(time.dwHighDateTime, time.dwLowDateTime) / 10000000) - INT64_C(11644473600); /* since 1601 */
}

static bool is_link(HANDLE file, const BY_HANDLE_FILE_INFORMATION *info)
{
    FILE_ATTRIBUTE_TAG_INFO tag;

    return info->dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT &&
           GetFileInformationByHandleEx(file, FileAttributeTagInfo, &tag, sizeof tag) &&
           IsReparseTagNameSurrogate(tag.ReparseTag);
}

static int describe(HANDLE file, struct posix_stat *st)
{
    BY_HANDLE_FILE_INFORMATION info;

    *st = (struct posix_stat){.st_mode = S_IFCHR};
    if (GetFileType(file) != FILE_TYPE_DISK)
        return 0;
    if (!GetFileInformationByHandle(file, &info))
        return wide_failed();
    *st = (struct posix_stat){.st_dev = info.dwVolumeSerialNumber,
                              .st_ino = pair(info.nFileIndexHigh, info.nFileIndexLow),
                              .st_mode = is_link(file, &info)                                 ? 0
                                         : (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) ? S_IFDIR
                                                                                              : S_IFREG,
                              .st_size = (int64_t)pair(info.nFileSizeHigh, info.nFileSizeLow),
                              .st_mtime = seconds(info.ftLastWriteTime),
                              .st_ctime = seconds(info.ftCreationTime)};
    return 0;
}

static int describe_path(const char *path, DWORD flags, struct posix_stat *st)
{
    const HANDLE file = open_path(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING, flags);

    if (file == INVALID_HANDLE_VALUE)
        return -1;
    const int status = describe(file, st);
    (void)CloseHandle(file);
    return status;
}

int posix_stat(const char *path, struct posix_stat *st)
{
    return describe_path(path, 0, st);
}

int posix_lstat(const char *path, struct posix_stat *st)
{
    return describe_path(path, FILE_FLAG_OPEN_REPARSE_POINT, st);
}

int posix_fstat(int fd, struct posix_stat *st)
{
    return describe(handle_of(fd), st);
}

int posix_access(const char *path, int what)
{
    struct posix_stat st;

    (void)what;
    return posix_stat(path, &st);
}

bool posix_is_named(int fd, const char *path)
{
    enum { MOST = 32768 };
    wchar_t *wide = malloc(MOST * sizeof *wide);
    const DWORD size = wide ? GetFinalPathNameByHandleW(handle_of(fd), wide, MOST, FILE_NAME_NORMALIZED) : 0;
    char *name = size && size < MOST ? narrow_text(wide) : NULL;
    const size_t len = name ? strlen(name) : 0, tail = strlen(path);
    bool same = len > tail && name[len - tail - 1] == '\\';

    for (size_t i = 0; same && i < tail; i++)
        same = name[len - tail + i] == (path[i] == '/' ? '\\' : path[i]);
    free(name);
    free(wide);
    return same;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

enum { FDS = 2048 }; /* the C library has no more */

static HANDLE locks[FDS];

/* A folder is opened for writing, as only then its names can be brought to the disk. */
static HANDLE open_folder(const char *path, DWORD flags)
{
    const HANDLE folder = open_path(path, FILE_LIST_DIRECTORY | FILE_ADD_FILE | FILE_READ_ATTRIBUTES | SYNCHRONIZE,
                                    OPEN_EXISTING, flags);

    return folder != INVALID_HANDLE_VALUE || errno != EACCES ? folder
                                                             : open_path(path, GENERIC_READ, OPEN_EXISTING, flags);
}

/* Refuses what the flags exclude. */
static int check_type(HANDLE file, int flags)
{
    struct posix_stat st;

    if (!(flags & (O_DIRECTORY | O_NOFOLLOW)))
        return 0;
    if (describe(file, &st) != 0)
        return -1;
    if (flags & O_DIRECTORY ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode))
        return 0;
    errno = flags & O_DIRECTORY ? ENOTDIR : EINVAL;
    return -1;
}

int posix_open(const char *path, int flags, ...)
{
    const DWORD access = (flags & _O_RDWR) ? GENERIC_READ | GENERIC_WRITE : GENERIC_READ;
    const DWORD link = flags & O_NOFOLLOW ? FILE_FLAG_OPEN_REPARSE_POINT : 0;
    const HANDLE file = flags & O_DIRECTORY
                            ? open_folder(path, link)
                            : open_path(path, access, (flags & _O_CREAT) ? OPEN_ALWAYS : OPEN_EXISTING, link);
    int fd;

    if (file == INVALID_HANDLE_VALUE)
        return -1;
    fd = check_type(file, flags) == 0 ? _open_osfhandle((intptr_t)file, _O_BINARY | (flags & _O_NOINHERIT)) : -1;
    if (fd < 0)
        (void)CloseHandle(file);
    return fd;
}

int posix_close(int fd)
{
    if (fd >= 0 && fd < FDS && locks[fd]) {
        (void)CloseHandle(locks[fd]);
        locks[fd] = NULL;
    }
    return _close(fd);
}

FILE *posix_fopen(const char *path, const char *mode)
{
    const wchar_t binary[] = {(wchar_t)*mode, L'b', L'\0'};
    wchar_t *wide = wide_path(path);
    FILE *file = wide ? _wfopen(wide, binary) : NULL;

    free(wide);
    return file;
}

/* Windows locks no folders. A mutex of this name exists as long as the process that made it has it open. */
int posix_flock(int fd, int what)
{
    struct posix_stat st;
    wchar_t name[64];

    (void)what;
    if (fd >= FDS || posix_fstat(fd, &st) != 0)
        return -1;
    (void)_snwprintf(name, sizeof name / sizeof name[0], L"Global\\tlc-%I64x-%I64x", st.st_dev, st.st_ino);
    const HANDLE lock = CreateMutexW(NULL, FALSE, name);
    const DWORD error = GetLastError();
    if (lock && error != ERROR_ALREADY_EXISTS) {
        locks[fd] = lock;
        return 0;
    }
    if (lock)
        (void)CloseHandle(lock);
    errno = EWOULDBLOCK; /* ERROR_ACCESS_DENIED: it is another user's */
    return -1;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

ssize_t posix_pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    enum { MOST = 1 << 30 };
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)((uint64_t)offset >> 32)};
    DWORD wrote;

    if (!WriteFile(handle_of(fd), bytes, len < MOST ? (DWORD)len : MOST, &wrote, &at))
        return wide_failed();
    return (ssize_t)wrote;
}

int posix_fsync(int fd)
{
    if (FlushFileBuffers(handle_of(fd)))
        return 0;
    if (GetLastError() == ERROR_ACCESS_DENIED) /* a folder that was opened for reading */
        SetLastError(ERROR_NOT_SUPPORTED);
    return wide_failed();
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

int posix_mkdir(const char *path, int mode)
{
    wchar_t *wide = wide_path(path);
    int status = -1;

    (void)mode;
    if (wide)
        status = CreateDirectoryW(wide, NULL) ? 0 : wide_failed();
    free(wide);
    return status;
}

static bool is_folder(const wchar_t *path)
{
    const DWORD attributes = GetFileAttributesW(path);

    return attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY;
}

int posix_remove(const char *path)
{
    wchar_t *wide = wide_path(path);
    int status = -1;

    if (wide)
        status = (is_folder(wide) ? RemoveDirectoryW(wide) : DeleteFileW(wide)) ? 0 : wide_failed();
    free(wide);
    return status;
}

int posix_rename(const char *from, const char *to)
{
    wchar_t *old = wide_path(from), *new = wide_path(to);
    int status = -1;

    if (old && new) {
        const bool place = !is_folder(old) || !is_folder(new) || RemoveDirectoryW(new);
        status = place && MoveFileExW(old, new, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? 0 : wide_failed();
    }
    free(old);
    free(new);
    return status;
}
