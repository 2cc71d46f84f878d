/* SPDX-License-Identifier: MIT
 *
 * Lists of numbers in any order that is asked for: in place, without memory, and in time n log n for any list.
 */
#ifndef TLC_SORT_H
#define TLC_SORT_H

#include <stddef.h>

/* Does a come before b? All numbers of a list are different. */
typedef int tlc_comes_first(const void *arg, size_t a, size_t b);

void tlc_sort(size_t *list, size_t count, tlc_comes_first *before, const void *arg);

/* Restores a heap after the number at `at` has changed its place for a later one: each comes after its children. */
void tlc_sift(size_t *heap, size_t count, size_t at, tlc_comes_first *before, const void *arg);
#endif
