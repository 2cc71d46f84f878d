/* SPDX-License-Identifier: MIT */
#include "codec.h"
#include <stdarg.h>

tlc_text tlc_text_in(char *message, size_t cap)
{
    tlc_text w = {message, 0, message ? cap : 0};

    tlc_text_put(&w, "", 0);
    return w;
}

void tlc_text_put(tlc_text *w, const char *text, size_t len)
{
    size_t room = w->cap - w->at - 1;

    if (!w->cap)
        return;
    if (len > room)
        len = room;
    memcpy(w->to + w->at, text, len);
    w->at += len;
    w->to[w->at] = 0;
}

void tlc_text_say(tlc_text *w, const char *text)
{
    tlc_text_put(w, text, strlen(text));
}

void tlc_text_number(tlc_text *w, uint64_t number)
{
    char digits[20];
    size_t len = tlc_put_number(digits, number);

    tlc_text_put(w, digits, len);
}

static void put_printable(tlc_text *w, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        tlc_text_put(w, text[i] >= ' ' && text[i] <= '~' ? text + i : "?", 1);
}

void tlc_text_quoted(tlc_text *w, const char *text, size_t len)
{
    tlc_text_say(w, "\"");
    put_printable(w, text, len);
    tlc_text_say(w, "\"");
}

static void put_signed(tlc_text *w, int number)
{
    if (number < 0)
        tlc_text_say(w, "-");
    tlc_text_number(w, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

void tlc_text_format(tlc_text *w, const char *format, ...)
{
    const char *text;
    va_list args;

    if (!w || !w->cap)
        return;
    va_start(args, format);
    for (; *format; format++) {
        if (*format != '%') {
            tlc_text_put(w, format, 1);
            continue;
        }
        switch (*++format) {
        case 'd': put_signed(w, va_arg(args, int)); break;
        case 's':
            text = va_arg(args, const char *);
            put_printable(w, text, strlen(text));
            break;
        case 'z': /* %zu */
            format++;
            tlc_text_number(w, va_arg(args, size_t));
            break;
        default: /* %llu */
            format += 2;
            tlc_text_number(w, va_arg(args, unsigned long long));
            break;
        }
    }
    va_end(args);
}
