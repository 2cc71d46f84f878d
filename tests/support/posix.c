/* SPDX-License-Identifier: MIT */
#include "posix.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *memmem(const void *all, size_t size, const void *part, size_t len)
{
    const char *from = all;

    for (size_t i = 0; i + len <= size; i++)
        if (memcmp(from + i, part, len) == 0)
            return (void *)(from + i);
    return NULL;
}

char *strsep(char **rest, const char *separators)
{
    char *word = *rest;

    if (word) {
        *rest += strcspn(word, separators);
        if (**rest)
            *(*rest)++ = 0;
        else
            *rest = NULL;
    }
    return word;
}

ptrdiff_t getline(char **line, size_t *room, FILE *file)
{
    size_t len = 0;

    for (int c; (c = getc(file)) != EOF;) {
        if (len + 2 > *room) {
            char *larger = realloc(*line, 2 * (len + 2));
            if (!larger)
                return -1;
            *line = larger;
            *room = 2 * (len + 2);
        }
        (*line)[len++] = (char)c;
        (*line)[len] = 0;
        if (c == '\n')
            break;
    }
    return len ? (ptrdiff_t)len : -1;
}

/* The product is exact in a double. The sum is rounded to odd: if it is not exact its last bit is 1, so that the second
 * rounding sees that there is something below it (Boldo and Melquiond, Emulation of a FMA and correctly rounded sums,
 * 2008). */
float fused_multiply_add(float a, float b, float c)
{
    const double product = (double)a * b, sum = product + c, part = sum - product;
    const double rest = (product - (sum - part)) + (c - part);
    int64_t bits;
    double odd;

    memcpy(&bits, &sum, sizeof bits);
    if (rest != 0 && __builtin_isfinite(rest) && !(bits & 1))
        bits += (rest > 0) == (sum > 0) ? 1 : -1;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}
