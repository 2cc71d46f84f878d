/* SPDX-License-Identifier: MIT
 *
 * The options of tlc-delta.
 */
#ifndef DELTA_OPTIONS_H
#define DELTA_OPTIONS_H

#include "../lib/option_table.h"
#include <threelc/threelc.h>

typedef enum delta_command { DELTA_MAKE, DELTA_APPLY, DELTA_VERIFY, DELTA_INFO, DELTA_FOLD, DELTA_KEEP } delta_command;

typedef struct options {
    command command; /* of the options --help and --version */
    delta_command what;
    char **paths;
    size_t path_count;
    const char *after, *out;
    int dtype; /* -1: by the names of files */
    bool force, in_place, block_digests, json, once, quiet;
    size_t threads;
    double settle; /* below 0: not given */
} options;

extern const option_table delta_options;

bool options_parse(options *o, int argc, char **argv, char *why);
#endif
