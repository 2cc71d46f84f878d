/* SPDX-License-Identifier: MIT
 *
 * See ../../posix.h.
 */
#ifndef BENCH_WINDOWS_RANDOM_H
#define BENCH_WINDOWS_RANDOM_H

#include <stddef.h>
#include <sys/types.h>

ssize_t getrandom(void *bytes, size_t len, unsigned flags);
#endif
