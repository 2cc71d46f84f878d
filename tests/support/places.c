/* SPDX-License-Identifier: MIT */
#include "support.h"

/* ---- failing ----------------------------------------------------------------------------------------------------- */

place at;

void set_note(const char *text)
{
    static char note[256];

    snprintf(note, sizeof note, "%s", text);
    at.note = note;
}

static void print_place(void)
{
    print_error("  at codec %s, %s, %s, n = %zu, i = %zu%s%s\n", at.codec ? at.codec : "-", dtype_name[at.dtype],
                tlc_isa_name(at.isa), at.n, at.i, at.note ? ": " : "", at.note ? at.note : "");
}

void require_failed(const char *what, const char *file, int line)
{
    print_error("%s:%d: not true: %s\n", file, line, what);
    print_place();
    fail();
    abort(); /* not reached: cmocka does not say that fail() does not return */
}

void require_status_is(const char *what, tlc_status got, tlc_status want, const char *file, int line)
{
    if (got == want)
        return;
    print_error("%s:%d: %s: \"%s\" instead of \"%s\"\n", file, line, what, tlc_status_string(got),
                tlc_status_string(want));
    print_place();
    fail();
}

void skip_test(const char *why)
{
    print_message("# skipped: %s\n", why);
    skip();
    abort(); /* not reached */
}

/* cmocka calls this function in place of its own. cmocka 1.1.5 prints "not ok 4 # SKIP", which meson counts as
 * failed. */
void print_message(const char *format, ...)
{
    va_list arguments;

    if (!strncmp(format, "not ok", 6) && strstr(format, "# SKIP"))
        format += strlen("not ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

int holds(const char *text, const char *words)
{
    while (*words) {
        const char *gap = strstr(words, " ... ");
        size_t len = gap ? (size_t)(gap - words) : strlen(words);
        text = memmem(text, strlen(text), words, len);
        if (!text)
            return 0;
        text += len;
        words += gap ? len + 5 : len;
    }
    return 1;
}

void require_says_is(const char *text, const char *words, const char *file, int line)
{
    int printable = 1;

    for (const char *c = text; *c; c++)
        printable &= *c >= ' ' && *c <= '~';
    if (printable && *text && strlen(text) < TLC_MESSAGE_SIZE && holds(text, words))
        return;
    print_error("%s:%d: \"%s\" does not say \"%s\"\n", file, line, text, words);
    require_failed("a message", file, line);
}

int print_isas(void **state)
{
    (void)state;
    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++)
        print_message("# %s: %s\n", tlc_isa_name(isa), tlc_isa_supported(isa) ? "tested" : "this machine lacks it");
    return 0;
}
