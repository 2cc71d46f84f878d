/* SPDX-License-Identifier: MIT */
#include "option_table.h"
#include "explain.h"
#include "parse.h"
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

/* The option that getopt does not know: none begins so, or several do. */
static bool no_such_option(const option_table *t, const char *given, char *why)
{
    const char *name = given + strspn(given, "-"), *names[MAX_ENTRIES + 1] = {NULL};
    char text[64];
    size_t several = 0;

    snprintf(text, sizeof text, "%.*s", (int)strcspn(name, "="), name);
    explain(why, "%s: it may be", given);
    for (size_t i = 0; i < t->count; i++) {
        const size_t len = strlen(why);
        names[i] = t->entries[i].name;
        if (!strncmp(names[i], text, strlen(text)))
            snprintf(why + len, WHY_SIZE - len, "%s --%s", several++ ? " or" : "", names[i]);
    }
    if (several)
        return false;
    explain(why, "%s: there is no such option", given);
    if (!parse_suggest(text, "--", names, why))
        explain(why, "%s: there is no such option (--help lists them)", given);
    return false;
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
        char reason[WHY_SIZE];
        /* optopt is the option that getopt refuses; it is 0 if the option is long and unknown */
        const option_entry *e = find_entry(t, key == '?' || key == ':' ? optopt : key);
        if (key == ':')
            return explain(why, "%s: it needs a value", argv[optind - 1]);
        if (key == '?' && e)
            return explain(why, "%s: it takes no value", argv[optind - 1]);
        if (key == '?' && optopt)
            return explain(why, "-%c: there is no such option (--help lists them)", optopt);
        if (key == '?')
            return no_such_option(t, argv[optind - 1], why);
        if (list_follows(e, argc, argv))
            optarg = argv[optind++];
        if (!t->take(options, key, optarg, reason))
            return explain(why, "--%s%s%s: %.4000s", e->name, optarg ? " " : "", optarg ? optarg : "", reason);
    }
    *files = optind;
    return true;
}
