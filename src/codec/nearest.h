/* SPDX-License-Identifier: MIT
 *
 * The word that was probably meant: among the words offered, the one with the fewest typing mistakes. A mistake is a
 * letter too many or too few, another letter, or two letters in the wrong order; capitals do not count. One mistake is
 * allowed for each three letters, and three at most. A word that begins with the text counts as one mistake away.
 */
#ifndef TLC_NEAREST_H
#define TLC_NEAREST_H

#include <stddef.h>

typedef struct tlc_nearest {
    const char *text;
    size_t len;
    const char *word;  /* the nearest so far; NULL: none is near */
    unsigned mistakes; /* a word must have fewer */
} tlc_nearest;

/* text has len bytes and needs no NUL. Any bytes are safe. */
tlc_nearest tlc_nearest_to(const char *text, size_t len);
void tlc_nearest_offer(tlc_nearest *nearest, const char *word);
#endif
