/* SPDX-License-Identifier: MIT
 *
 * The command line.
 */
#ifndef OPTIMISERS_OPTIONS_H
#define OPTIMISERS_OPTIONS_H

#include "../../lib/option_table.h"
#include "trainer.h"

typedef struct options {
    const char *data; /* NULL: drawn images */
    command command;
    training_options training;
} options;

bool options_parse(options *o, int argc, char **argv, char *why);
extern const option_table options_table;
#endif
