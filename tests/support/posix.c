/* SPDX-License-Identifier: MIT */
#include "posix.h"
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
