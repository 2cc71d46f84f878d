/* SPDX-License-Identifier: MIT
 *
 * Sentences for people.
 */
#ifndef TLC_TEXT_H
#define TLC_TEXT_H

#include "../common/float_rules.h"

/* A buffer of cap bytes, at least 1. What does not fit is cut. A NUL is always behind the text. */
typedef struct tlc_text {
    char *to;
    size_t at, cap;
} tlc_text;

void tlc_text_put(tlc_text *w, const char *text, size_t len);
void tlc_text_say(tlc_text *w, const char *text);
void tlc_text_number(tlc_text *w, uint64_t number);

/* Text of the caller. Bytes that are not printable become '?', because a terminal might obey them. */
void tlc_text_quoted(tlc_text *w, const char *text, size_t len);
#endif
