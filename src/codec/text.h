/* SPDX-License-Identifier: MIT
 *
 * Sentences for people.
 */
#ifndef TLC_TEXT_H
#define TLC_TEXT_H

#include "../common/float_rules.h"
#include <stdarg.h>
#include <threelc/threelc.h>

/* A buffer of cap bytes. What does not fit is cut, and the text ends with "...", if there is room for that. A NUL
 * always follows the text. cap 0: nothing is written. */
typedef struct tlc_text {
    char *to;
    size_t at, cap;
} tlc_text;

/* An empty text in the caller's buffer, which may be NULL. */
tlc_text tlc_text_in(char *message, size_t cap);

void tlc_text_put(tlc_text *w, const char *text, size_t len);
void tlc_text_say(tlc_text *w, const char *text);
void tlc_text_cut(tlc_text *w, size_t at); /* ends the text at an earlier place */
void tlc_text_number(tlc_text *w, uint64_t number);

/* Text of the caller. Bytes that are not printable become '?', because a terminal might obey them. */
void tlc_text_quoted(tlc_text *w, const char *text, size_t len);

/* The same with conversions of printf: %s, %.Ns, %d, %u, %zu and %llu, and no others. Texts become printable as
 * above, without the quotes. The locale changes nothing. w NULL: nothing is written. */
#if defined(__clang__)
#define TLC_PRINTF(words, first) __attribute__((format(printf, words, first)))
#else
#define TLC_PRINTF(words, first) __attribute__((format(gnu_printf, words, first)))
#endif
void tlc_text_format(tlc_text *w, const char *format, ...) TLC_PRINTF(2, 3);
void tlc_text_vformat(tlc_text *w, const char *format, va_list arguments) TLC_PRINTF(2, 0);

/* A real number for %s, of up to 6 digits: 0.25, -1.5e+60, inf, nan. There is no %g, as programs whose sentences have
 * no real numbers would link it. */
typedef struct tlc_real {
    char text[16];
} tlc_real;
tlc_real tlc_text_real(double number);

/* Explains a status by a sentence, as tlc_text_format writes it, and is that status. */
#define TLC_FAIL(w, status, ...) (tlc_text_format((w), __VA_ARGS__), (tlc_status)(status))
#endif
