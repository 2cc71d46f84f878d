/* SPDX-License-Identifier: MIT
 *
 * The command line of tlc-bench.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "channel.h"
#include "measure.h"
#include "report.h"
#include "source.h"

enum { MAX_CODECS = 64 };

typedef enum command { COMMAND_RUN, COMMAND_HELP, COMMAND_VERSION } command;

typedef struct options {
    command command;
    const char *codecs[MAX_CODECS];
    size_t codec_count;
    const char *synthetic;     /* NULL: files */
    char *const *paths;
    size_t path_count;
    source_options source;
    channel_options channel;
    measure_options measure;
    report_format format;
    bool per_tensor, quiet;
} options;

/* false: why (WHY_SIZE bytes, explain.h) says what is wrong. The strings of o are argv's. */
bool options_parse(options *o, int argc, char **argv, char *why);

void options_print_help(FILE *stream);
void options_print_version(FILE *stream);
#endif
