/* SPDX-License-Identifier: MIT
 *
 * Between UTF-8 and the wide characters of Windows.
 */
#ifndef BENCH_WINDOWS_WIDE_H
#define BENCH_WINDOWS_WIDE_H

#include <wchar.h>

/* The whole path of a file, with the prefix that lets it be longer than 260 characters. The caller frees it. NULL:
 * errno says why. */
wchar_t *wide_path(const char *path);

/* A text in UTF-8, which the caller frees, with U+FFFD for halves of characters. NULL: no memory. */
char *narrow_text(const wchar_t *text);

/* Sets errno as the last call of Windows failed. Returns -1. */
int wide_failed(void);
#endif
