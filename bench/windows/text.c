/* SPDX-License-Identifier: MIT */
#include "posix.h"

char *strndup(const char *text, size_t most)
{
    const size_t len = strnlen(text, most);
    char *copy = malloc(len + 1);

    if (copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits around a difference are compared as numbers; those that begin with 0 as if a decimal point were before them,
 * and zeros alone come after what continues them: 000, 00, 01, 010, 09, 0, 1, 9, 10. */
int strverscmp(const char *a, const char *b)
{
    size_t at = 0, start, zeros;

    while (a[at] && a[at] == b[at])
        at++;
    const int order = (unsigned char)a[at] - (unsigned char)b[at];
    for (start = at; start && is_digit(a[start - 1]);)
        start--;
    if (!order || !is_digit(a[start]) || !is_digit(b[start]))
        return order;
    if (a[start] == '0' || b[start] == '0') {
        for (zeros = start; zeros < at && a[zeros] == '0';)
            zeros++;
        return zeros == at && is_digit(a[at]) != is_digit(b[at]) ? is_digit(b[at]) - is_digit(a[at]) : order;
    }
    const size_t a_len = strspn(a + start, "0123456789"), b_len = strspn(b + start, "0123456789");
    return a_len == b_len ? order : a_len < b_len ? -1 : 1;
}

char *strcasestr(const char *text, const char *part)
{
    const size_t len = strlen(part);

    for (; strncasecmp(text, part, len) != 0; text++) {
        if (!*text)
            return NULL;
    }
    return (char *)(uintptr_t)text;
}
