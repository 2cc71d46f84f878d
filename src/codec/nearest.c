/* SPDX-License-Identifier: MIT */
#include "nearest.h"
#include <string.h>

enum { MOST_LETTERS = 32, FEWEST_LETTERS = 3, MOST_MISTAKES = 3 };

static char small(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static int same(char a, char b)
{
    return small(a) == small(b);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The Damerau-Levenshtein distance in which no letter is changed twice. Neither text has more than MOST_LETTERS. */
static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
    unsigned rows[3][MOST_LETTERS + 1], *before = rows[0], *last = rows[1], *row = rows[2];

    for (size_t k = 0; k <= m; k++)
        last[k] = before[k] = (unsigned)k;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (unsigned)i;
        for (size_t k = 1; k <= m; k++) {
            row[k] = least(least(last[k], row[k - 1]) + 1, last[k - 1] + !same(a[i - 1], b[k - 1]));
            if (i > 1 && k > 1 && same(a[i - 1], b[k - 2]) && same(a[i - 2], b[k - 1]))
                row[k] = least(row[k], before[k - 2] + 1);
        }
        unsigned *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[m];
}

static int begins(const char *word, const char *text, size_t len)
{
    size_t i = 0;

    while (i < len && word[i] && same(word[i], text[i]))
        i++;
    return i == len;
}

tlc_nearest tlc_nearest_to(const char *text, size_t len)
{
    const size_t allowed = len < FEWEST_LETTERS ? 0 : (len + 1) / 3;

    return (tlc_nearest){text, len, NULL, (unsigned)(allowed < MOST_MISTAKES ? allowed : MOST_MISTAKES) + 1};
}

void tlc_nearest_offer(tlc_nearest *nearest, const char *word)
{
    const size_t len = strlen(word);
    unsigned mistakes;

    if (!nearest->len || nearest->len > MOST_LETTERS || len > MOST_LETTERS)
        return;
    mistakes = distance(nearest->text, nearest->len, word, len);
    if (nearest->len >= FEWEST_LETTERS && mistakes && begins(word, nearest->text, nearest->len))
        mistakes = 1;
    if (mistakes < nearest->mistakes) {
        nearest->mistakes = mistakes;
        nearest->word = word;
    }
}
