/* SPDX-License-Identifier: MIT */
#include "option_table.h"
#include "explain.h"
#include <getopt.h>
#include <string.h>

enum { MAX_ENTRIES = 64 };

static bool is_optional(const option_entry *e)
{
    return e->argument && *e->argument == '[';
}

/* ---- help ------------------------------------------------------------------------------------------------------- */

static void print_entry(FILE *f, const option_entry *e)
{
    char left[32];

    snprintf(left, sizeof left, "--%s%s%s", e->name, e->argument ? " " : "", e->argument ? e->argument : "");
    if (e->key < OPTION_KEY)
        fprintf(f, "  -%c, %-20s ", e->key, left);
    else
        fprintf(f, "      %-20s ", left);
    for (const char *c = e->help; *c; c++) {
        fputc(*c, f);
        if (*c == '\n')
            fprintf(f, "%27s", "");
    }
    fputc('\n', f);
}

void option_table_print(FILE *f, const option_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        print_entry(f, &t->entries[i]);
}

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

static const option_entry *find_entry(const option_table *t, int key)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->entries[i].key == key)
            return &t->entries[i];
    }
    return NULL;
}

/* The table in the form that getopt_long takes. */
static void describe(const option_table *t, struct option longs[MAX_ENTRIES + 1], char shorts[2 * MAX_ENTRIES + 2])
{
    *shorts++ = ':';
    for (size_t i = 0; i < t->count; i++) {
        const option_entry *e = &t->entries[i];
        longs[i] = (struct option){
            .name = e->name,
            .has_arg = is_optional(e) ? optional_argument
                       : e->argument  ? required_argument
                                      : no_argument,
            .val = e->key,
        };
        if (e->key < OPTION_KEY) {
            *shorts++ = (char)e->key;
            if (e->argument)
                *shorts++ = ':';
        }
    }
    longs[t->count] = (struct option){.name = NULL};
    *shorts = '\0';
}

/* Whether the argument after an option that takes [LIST] is its list. With these options it cannot be a file. */
static bool list_follows(const option_entry *e, int argc, char **argv)
{
    return is_optional(e) && !strchr(argv[optind - 1], '=') && optind < argc && argv[optind][0] >= '0' &&
           argv[optind][0] <= '9';
}

bool option_table_parse(const option_table *t, void *options, int argc, char **argv, int *files, char *why)
{
    struct option longs[MAX_ENTRIES + 1];
    char shorts[2 * MAX_ENTRIES + 2];
    int key;

    if (t->count > MAX_ENTRIES)
        return explain(why, "there are too many options");
    describe(t, longs, shorts);
    opterr = 0;
    while ((key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        /* optopt is the option that getopt refuses; it is 0 if the option is long and unknown */
        const option_entry *e = find_entry(t, key == '?' || key == ':' ? optopt : key);
        if (key == ':')
            return explain(why, "%s: it needs a value", argv[optind - 1]);
        if (key == '?' && e)
            return explain(why, "%s: it takes no value", argv[optind - 1]);
        if (key == '?' && optopt)
            return explain(why, "-%c: there is no such option", optopt);
        if (key == '?')
            return explain(why, "%s: there is no such option", argv[optind - 1]);
        if (list_follows(e, argc, argv))
            optarg = argv[optind++];
        *why = '\0';
        if (t->take(options, key, optarg, why))
            continue;
        return *why ? false : explain(why, "--%s %s: not one of its values (--help lists them)", e->name, optarg);
    }
    *files = optind;
    return true;
}
