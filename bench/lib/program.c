/* SPDX-License-Identifier: MIT */
#include "program.h"
#include "codecs.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/threelc.h>
#include <unistd.h>

int program_fail(const char *program, int status, const char *why)
{
    fprintf(stderr, "%s: %s\n", program, why);
    return status;
}

int program_close_output(const char *program)
{
    int error = 0;

    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout))
        error = errno ? errno : EIO;
    if (fclose(stdout) != 0 && !error)
        error = errno;
    if (!error)
        return EXIT_SUCCESS;
    fprintf(stderr, "%s: standard output: %s\n", program, strerror(error));
    return EXIT_FAILED;
}

static void print_version(const char *program)
{
    const char *separator = "";

    printf("%s (libthreelc) %s\nISAs: ", program, tlc_version_string());
    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa = (tlc_isa)(isa + 1)) {
        if (tlc_isa_supported(isa)) {
            printf("%s%s", separator, tlc_isa_name(isa));
            separator = ", ";
        }
    }
    putchar('\n');
}

int program_answer(const char *program, command asked, const option_table *options)
{
    if (asked == COMMAND_HELP)
        option_table_print(stdout, options);
    else if (asked == COMMAND_LIST)
        codecs_print(stdout);
    else
        print_version(program);
    return program_close_output(program);
}

void program_progress(bool quiet, size_t number, size_t total, const char *name, const char *of, const char *what)
{
    if (!quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K[%zu of %zu] %.40s, %.40s: %s", number, total, name, of, what);
}

void program_progress_end(bool quiet)
{
    if (!quiet && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}
