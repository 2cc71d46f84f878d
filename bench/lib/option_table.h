/* SPDX-License-Identifier: MIT
 *
 * A table of options describes them to the parser and to --help, so that both have the same options.
 */
#ifndef BENCH_OPTION_TABLE_H
#define BENCH_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a program is asked for. */
typedef enum command { COMMAND_RUN, COMMAND_HELP, COMMAND_LIST, COMMAND_VERSION } command;

/* What the value of an option is, and the member of the program's options that gets it. */
typedef enum option_type {
    OPTION_OWN,     /* .take has the options and the value */
    OPTION_WHICH,   /* .take_which also has .which */
    OPTION_ITEMS,   /* .take has each item of a list with commas */
    OPTION_FLAG,    /* bool: true; it has no value */
    OPTION_COMMAND, /* command: .which; it has no value */
    OPTION_TEXT,    /* const char * */
    OPTION_PATH,    /* const char *, not empty */
    OPTION_CHOICE,  /* int or an enum: the index among .names */
    OPTION_SWITCH,  /* bool: whether it is the second of .names */
    OPTION_COUNT,   /* size_t from .least to .most, digits */
    OPTION_SIZE,    /* size_t from .least to .most, also with suffixes */
    OPTION_LIST,    /* size_list, each from .least to .most */
    OPTION_SEED,    /* uint64_t */
    OPTION_FLOAT,   /* float above 0 */
    OPTION_NUMBER,  /* double above 0 */
    OPTION_TIME,    /* double, seconds; a bare number is milliseconds */
    OPTION_LINK,    /* two doubles: bytes a second up and down */
    OPTION_ISA,     /* tlc_isa */
    OPTION_FORMAT   /* report_format */
} option_type;

typedef struct option_entry {
    int letter;                         /* 0: it has none */
    const char *name, *argument, *help; /* argument: NULL: none; "[...]": it may be left out */
    option_type type;
    size_t at; /* of the member */
    size_t least, most;
    const char *const *names; /* NULL ends them */
    int which;
    /* false: why says what is wrong. What was given is put before it. */
    bool (*take)(void *options, const char *value, char *why);
    bool (*take_which)(void *options, int which, const char *value, char *why);
} option_entry;

/* The last words of an entry. OPTIONS: the type of the program's options. */
#define OPTION_AT(option_type_, member) .type = OPTION_##option_type_, .at = offsetof(OPTIONS, member)
#define OPTION_IN(option_type_, member, from, to) OPTION_AT(option_type_, member), .least = (from), .most = (to)
#define OPTION_OF(option_type_, member, words) OPTION_AT(option_type_, member), .names = (words)
#define OPTION_BY(function) .type = OPTION_OWN, .take = (function)
#define OPTION_EACH(function) .type = OPTION_ITEMS, .take = (function)

typedef struct option_table {
    const char *usage; /* what --help says before the options */
    const option_entry *entries;
    size_t count;
    const char *notes;    /* and after them */
    const char *no_files; /* the program takes options only: what is wrong with another argument; or NULL */
} option_table;

void option_table_print(FILE *f, const option_table *t);

/* Takes all options. The files begin at argv[optind]. false: why says what is wrong. */
bool option_table_parse(const option_table *t, void *options, int argc, char **argv, char *why);
#endif
