/* SPDX-License-Identifier: MIT */
#include "wide.h"
#include "posix.h"
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

int wide_failed(void)
{
    static const struct {
        DWORD windows;
        int posix;
    } errors[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},
        {ERROR_BAD_PATHNAME, ENOENT},
        {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_BAD_NET_NAME, ENOENT},
        {ERROR_INVALID_DRIVE, ENOENT},
        {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EACCES},
        {ERROR_LOCK_VIOLATION, EACCES},
        {ERROR_USER_MAPPED_FILE, EACCES},
        {ERROR_WRITE_PROTECT, EROFS},
        {ERROR_ALREADY_EXISTS, EEXIST},
        {ERROR_FILE_EXISTS, EEXIST},
        {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
        {ERROR_DIRECTORY, ENOTDIR},
        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
        {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_COMMITMENT_LIMIT, ENOMEM},
        {ERROR_NOT_SAME_DEVICE, EXDEV},
        {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
        {ERROR_NO_UNICODE_TRANSLATION, EILSEQ},
        {ERROR_INVALID_FUNCTION, EINVAL},
        {ERROR_INVALID_PARAMETER, EINVAL},
        {ERROR_NOT_SUPPORTED, EINVAL},
    };
    const DWORD error = GetLastError();

    errno = EIO;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].windows == error)
            errno = errors[i].posix;
    return -1;
}

static wchar_t *wide_text(const char *text)
{
    const int len = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = len > 0 ? malloc((size_t)len * sizeof *wide) : NULL;

    if (wide)
        (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, len);
    else if (len > 0)
        errno = ENOMEM;
    else
        (void)wide_failed();
    return wide;
}

wchar_t *wide_path(const char *path)
{
    static const wchar_t prefix[] = L"\\\\?\\", of_servers[] = L"\\\\?\\UNC\\";
    enum { PREFIX_MAX = sizeof of_servers / sizeof of_servers[0] - 1 };
    wchar_t *given = wide_text(path), *whole = NULL;
    const DWORD size = given ? GetFullPathNameW(given, 0, NULL, NULL) : 0;

    if (size && !(whole = malloc((PREFIX_MAX + size) * sizeof *whole)))
        errno = ENOMEM;
    else if (given && (!size || !GetFullPathNameW(given, size, whole + PREFIX_MAX, NULL)))
        (void)wide_failed();
    else if (given) {
        const wchar_t *from = whole + PREFIX_MAX, *put = prefix;
        if (!wcsncmp(from, L"\\\\?\\", 4) || !wcsncmp(from, L"\\\\.\\", 4))
            put = L"";
        else if (!wcsncmp(from, L"\\\\", 2)) {
            put = of_servers;
            from += 2;
        }
        memcpy(whole, put, wcslen(put) * sizeof *whole);
        memmove(whole + wcslen(put), from, (wcslen(from) + 1) * sizeof *whole);
        free(given);
        return whole;
    }
    free(given);
    free(whole);
    return NULL;
}

char *narrow_text(const wchar_t *text)
{
    const int len = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *narrow = len > 0 ? malloc((size_t)len) : NULL;

    if (narrow)
        (void)WideCharToMultiByte(CP_UTF8, 0, text, -1, narrow, len, NULL, NULL);
    return narrow;
}
