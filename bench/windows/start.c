/* SPDX-License-Identifier: MIT */
#include "posix.h"
#include "wide.h"
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <shellapi.h>
#undef main

static UINT code_page; /* of the console, before */

static void restore(void)
{
    (void)SetConsoleOutputCP(code_page);
}

/* Words of the command line. They are never freed. */
static char **words(int *count)
{
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), count);
    char **list = wide ? calloc((size_t)*count + 1, sizeof *list) : NULL;

    for (int i = 0; list && i < *count; i++) {
        if (!(list[i] = narrow_text(wide[i])))
            return NULL;
        for (char *c = list[i]; (c = strchr(c, '\\'));)
            *c = '/';
    }
    return list;
}

int main(void)
{
    int count;
    char **list = words(&count);

    if (!list)
        return EXIT_FAILURE;
    (void)_setmode(STDOUT_FILENO, _O_BINARY);
    (void)_setmode(STDERR_FILENO, _O_BINARY);
    code_page = GetConsoleOutputCP();
    if (code_page && SetConsoleOutputCP(CP_UTF8)) /* 0: there is no console */
        (void)atexit(restore);
    return posix_main(count, list);
}
