/* SPDX-License-Identifier: MIT */
#include "sort.h"

void tlc_sift(size_t *heap, size_t count, size_t at, tlc_comes_first *before, const void *arg)
{
    for (size_t child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
        if (child + 1 < count && before(arg, heap[child], heap[child + 1]))
            child++;
        if (before(arg, heap[child], heap[at]))
            return;
        size_t moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

void tlc_sort(size_t *list, size_t count, tlc_comes_first *before, const void *arg)
{
    for (size_t i = count / 2; i-- > 0;)
        tlc_sift(list, count, i, before, arg);
    for (size_t end = count; end-- > 1;) {
        size_t last = list[0];
        list[0] = list[end];
        list[end] = last;
        tlc_sift(list, end, 0, before, arg);
    }
}
