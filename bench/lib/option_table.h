/* SPDX-License-Identifier: MIT
 *
 * A table of options describes them to the parser and to --help, so that both have the same options.
 */
#ifndef BENCH_OPTION_TABLE_H
#define BENCH_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { OPTION_KEY = 256 }; /* the first key of options without a letter */

typedef struct option_entry {
    int key;                            /* below OPTION_KEY: its letter */
    const char *name, *argument, *help; /* argument: NULL: none; "[...]": it may be left out */
} option_entry;

typedef struct option_table {
    const option_entry *entries;
    size_t count;
    /* Takes one option. false: why says what is wrong, behind the option and its value. */
    bool (*take)(void *options, int key, const char *value, char *why);
} option_table;

void option_table_print(FILE *f, const option_table *t);

/* Takes all options. *files: the index of the first argument that is none. false: why says what is wrong. */
bool option_table_parse(const option_table *t, void *options, int argc, char **argv, int *files, char *why);
#endif
