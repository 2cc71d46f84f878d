/* SPDX-License-Identifier: MIT */
#include "text.h"
#include "codec.h"

void tlc_text_put(tlc_text *w, const char *text, size_t len)
{
    size_t room = w->cap - w->at - 1;

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

void tlc_text_quoted(tlc_text *w, const char *text, size_t len)
{
    tlc_text_say(w, "\"");
    for (size_t i = 0; i < len; i++)
        tlc_text_put(w, text[i] >= ' ' && text[i] <= '~' ? text + i : "?", 1);
    tlc_text_say(w, "\"");
}
