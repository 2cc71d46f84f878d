/* SPDX-License-Identifier: MIT
 *
 * The command line.
 */
#ifndef OPTIMISERS_OPTIONS_H
#define OPTIMISERS_OPTIONS_H

#include "trainer.h"
#include <stdio.h>

typedef struct options {
    const char *data; /* NULL: drawn images */
    bool help;
    training_options training;
} options;

bool options_parse(options *o, int argc, char **argv, char *why);
void options_print_help(FILE *f);
#endif
