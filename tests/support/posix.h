/* SPDX-License-Identifier: MIT
 *
 * What tests use of POSIX and GNU, where the C library of Windows lacks it.
 */
#ifndef TLC_TEST_POSIX_H
#define TLC_TEST_POSIX_H

#if defined(_WIN32)
#include <math.h>
#include <stddef.h>
#include <stdio.h>

void *memmem(const void *all, size_t size, const void *part, size_t len);
char *strsep(char **rest, const char *separators);
ptrdiff_t getline(char **line, size_t *room, FILE *file);

/* That of MinGW rounds twice. */
float fused_multiply_add(float a, float b, float c);
#define fmaf fused_multiply_add
#endif
#endif
