/* SPDX-License-Identifier: MIT */
#include "text.h"

enum { DOTS = 3 }; /* characters that show that a text is cut */

/* Writes at most 20 decimal digits without a NUL; returns how many. */
static size_t put_number(char *to, uint64_t value)
{
    char digits[20];
    size_t d = sizeof digits;

    do
        digits[--d] = (char)('0' + value % 10);
    while (value /= 10);
    memcpy(to, digits + d, sizeof digits - d);
    return sizeof digits - d;
}

tlc_text tlc_text_in(char *message, size_t cap)
{
    tlc_text w = {message, 0, message ? cap : 0};

    tlc_text_put(&w, "", 0);
    return w;
}

void tlc_text_put(tlc_text *w, const char *text, size_t len)
{
    const size_t room = w->cap - w->at - 1;

    if (!w->cap)
        return;
    if (len > room) {
        memcpy(w->to + w->at, text, room);
        w->at += room;
        if (w->at >= DOTS)
            memcpy(w->to + w->at - DOTS, "...", DOTS);
    } else {
        memcpy(w->to + w->at, text, len);
        w->at += len;
    }
    w->to[w->at] = 0;
}

void tlc_text_say(tlc_text *w, const char *text)
{
    tlc_text_put(w, text, strlen(text));
}

void tlc_text_cut(tlc_text *w, size_t at)
{
    w->at = at;
    tlc_text_put(w, "", 0);
}

void tlc_text_number(tlc_text *w, uint64_t number)
{
    char digits[20];
    size_t len = put_number(digits, number);

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

/* ---- reals ------------------------------------------------------------------------------------------------------- */

enum { DIGITS = 6 };

/* digits: DIGITS of them, the first one of which counts 10^exponent. */
static void put_decimal(tlc_text *w, const char *digits, int exponent)
{
    int scientific = exponent < -4 || exponent >= DIGITS, last = DIGITS - 1, point = scientific ? 0 : exponent;

    while (last > 0 && last > point && digits[last] == '0')
        last--;
    if (point < 0)
        tlc_text_put(w, "0.000", (size_t)(1 - point));
    for (int i = 0; i <= last; i++) {
        tlc_text_put(w, digits + i, 1);
        if (i == point && i < last)
            tlc_text_say(w, ".");
    }
    if (!scientific)
        return;
    tlc_text_say(w, exponent < 0 ? "e-" : "e+");
    tlc_text_number(w, (uint64_t)(exponent < 0 ? -exponent : exponent));
}

static void put_positive(tlc_text *w, double number)
{
    char digits[20];
    int exponent = 0;

    for (; number >= 10; exponent++)
        number /= 10;
    for (; number < 1; exponent--)
        number *= 10;
    uint64_t rounded = (uint64_t)(number * 1e5 + 0.5);
    if (rounded >= 1000000) {
        rounded /= 10;
        exponent++;
    }
    (void)put_number(digits, rounded);
    put_decimal(w, digits, exponent);
}

tlc_real tlc_text_real(double number)
{
    const uint64_t infinite = UINT64_C(0x7ff) << 52, sign = UINT64_C(1) << 63;
    tlc_real real = {""};
    tlc_text w = tlc_text_in(real.text, sizeof real.text);
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits); /* a NaN is not compared, which may trap */
    if ((bits & ~sign) > infinite) {
        tlc_text_say(&w, "nan");
        return real;
    }
    tlc_text_say(&w, bits & sign ? "-" : "");
    bits &= ~sign;
    if (!bits || bits == infinite) {
        tlc_text_say(&w, bits ? "inf" : "0");
        return real;
    }
    memcpy(&number, &bits, sizeof number);
    tlc_float_mode mode = tlc_float_enter();
    put_positive(&w, number);
    tlc_float_leave(mode);
    return real;
}

/* ---- formats ----------------------------------------------------------------------------------------------------- */

static void put_signed(tlc_text *w, int number)
{
    if (number < 0)
        tlc_text_say(w, "-");
    tlc_text_number(w, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

/* A conversion, from the character after its '%' on. Returns its last character. */
static const char *convert(tlc_text *w, const char *format, va_list *arguments)
{
    size_t most = SIZE_MAX, len = 0;
    const char *text;

    if (*format == '.')
        for (most = 0, format++; *format >= '0' && *format <= '9'; format++)
            most = most * 10 + (size_t)(*format - '0');
    switch (*format) {
    case 'd': put_signed(w, va_arg(*arguments, int)); return format;
    case 'u': tlc_text_number(w, va_arg(*arguments, unsigned)); return format;
    case 's':
        text = va_arg(*arguments, const char *);
        while (len < most && text[len])
            len++;
        put_printable(w, text, len);
        return format;
    case 'z': /* %zu */ tlc_text_number(w, va_arg(*arguments, size_t)); return format + 1;
    default: /* %llu */ tlc_text_number(w, va_arg(*arguments, unsigned long long)); return format + 2;
    }
}

void tlc_text_vformat(tlc_text *w, const char *format, va_list arguments)
{
    va_list rest;

    if (!w || !w->cap)
        return;
    va_copy(rest, arguments);
    for (; *format; format++)
        if (*format == '%')
            format = convert(w, format + 1, &rest);
        else
            tlc_text_put(w, format, 1);
    va_end(rest);
}

void tlc_text_format(tlc_text *w, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    tlc_text_vformat(w, format, arguments);
    va_end(arguments);
}
