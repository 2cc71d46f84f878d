/* SPDX-License-Identifier: MIT
 *
 * The head of a bundle as threelc/bundle.h draws it, without the library's code.
 */
#ifndef TLC_TEST_BUNDLE_FORMAT_H
#define TLC_TEST_BUNDLE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* Returns the bytes of the number. */
static inline size_t put_number(uint8_t *dst, uint64_t v)
{
    size_t size = 0;

    do {
        dst[size++] = (uint8_t)(v % 128 + (v < 128 ? 0 : 128));
    } while (v /= 128);
    return size;
}

/* Returns the bytes of the head. */
static inline size_t put_head(uint8_t *dst, const size_t *length, size_t count)
{
    size_t size = 2;

    dst[0] = 'B';
    dst[1] = 2;
    size += put_number(dst + size, count);
    for (size_t i = 0; i < count; i++)
        size += put_number(dst + size, length[i]);
    return size;
}
#endif
