/* SPDX-License-Identifier: MIT */
#include "option_table.h"
#include "explain.h"
#include "grid.h"
#include "parse.h"
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 64, LONG_KEY = 256 }; /* getopt's key of an entry without a letter: LONG_KEY + its index */

static bool is_optional(const option_entry *e)
{
    return e->argument && *e->argument == '[';
}

/* ---- help ------------------------------------------------------------------------------------------------------- */

static void print_entry(FILE *f, const option_entry *e)
{
    char left[32];

    snprintf(left, sizeof left, "--%s%s%s", e->name, e->argument ? " " : "", e->argument ? e->argument : "");
    if (e->letter)
        fprintf(f, "  -%c, %-20s ", e->letter, left);
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
    fputs(t->usage, f);
    for (size_t i = 0; i < t->count; i++)
        print_entry(f, &t->entries[i]);
    fputs(t->notes, f);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

static bool take_float(const char *text, float *number, char *why)
{
    double exact;

    if (!parse_positive(text, &exact, why))
        return false;
    *number = strtof(text, NULL);
    return (isfinite(*number) && *number > 0) || explain(why, "it is a number above 0 that a float can hold");
}

static bool take_switch(const char *text, const char *const *names, bool *on, char *why)
{
    int choice;

    if (!parse_choice(text, names, &choice, why))
        return false;
    *on = choice;
    return true;
}

static bool take_count(const char *text, const option_entry *e, size_t *count, char *why)
{
    uint64_t number;

    if (!parse_number(text, e->least, e->most, &number, why))
        return false;
    *count = (size_t)number;
    return true;
}

static bool take(const option_entry *e, void *options, const char *value, char *why)
{
    void *to = (char *)options + e->at;

    switch (e->type) {
    case OPTION_OWN: return e->take(options, value, why);
    case OPTION_WHICH: return e->take_which(options, e->which, value, why);
    case OPTION_ITEMS: return parse_items(value, e->take, options, why);
    case OPTION_FLAG: *(bool *)to = true; return true;
    case OPTION_COMMAND: *(command *)to = (command)e->which; return true;
    case OPTION_TEXT: *(const char **)to = value; return true;
    case OPTION_PATH: *(const char **)to = value; return *value || explain(why, "it is the name of a folder or a file");
    case OPTION_CHOICE: return parse_choice(value, e->names, to, why);
    case OPTION_SWITCH: return take_switch(value, e->names, to, why);
    case OPTION_COUNT: return take_count(value, e, to, why);
    case OPTION_SIZE: return parse_size(value, e->least, e->most, to, why);
    case OPTION_LIST: return parse_list(value, e->least, e->most, to, why);
    case OPTION_SEED: return parse_number(value, 0, UINT64_MAX, to, why);
    case OPTION_FLOAT: return take_float(value, to, why);
    case OPTION_NUMBER: return parse_positive(value, to, why);
    case OPTION_TIME: return parse_time(value, 1e-3, to, why);
    case OPTION_LINK: return parse_link(value, to, (double *)to + 1, why);
    case OPTION_ISA: return parse_isa(value, to, why);
    default: return grid_parse_format(value, to, why);
    }
}

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

static int key_of(const option_table *t, size_t i)
{
    return t->entries[i].letter ? t->entries[i].letter : LONG_KEY + (int)i;
}

static const option_entry *find_entry(const option_table *t, int key)
{
    for (size_t i = 0; i < t->count; i++) {
        if (key_of(t, i) == key)
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
            .val = key_of(t, i),
        };
        if (e->letter) {
            *shorts++ = (char)e->letter;
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

bool option_table_parse(const option_table *t, void *options, int argc, char **argv, char *why)
{
    struct option longs[MAX_ENTRIES + 1];
    char shorts[2 * MAX_ENTRIES + 2];
    bool asked = false;
    int key;

    if (t->count > MAX_ENTRIES)
        return explain(why, "there are too many options");
    describe(t, longs, shorts);
    opterr = 0;
    while ((key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        char reason[WHY_SIZE];
        /* optopt is the option that getopt refuses; it is 0 if the option is long and unknown */
        const option_entry *e = find_entry(t, key == '?' || key == ':' ? optopt : key);
        if (key == ':' && e && e->argument) /* getopt of BSD also returns ':' for a value too many */
            return explain(why, "%s: it needs a value", argv[optind - 1]);
        if ((key == '?' || key == ':') && e)
            return explain(why, "%s: it takes no value", argv[optind - 1]);
        if (key == '?' && optopt)
            return explain(why, "-%c: there is no such option (--help lists them)", optopt);
        if (key == '?')
            return no_such_option(t, argv[optind - 1], why);
        if (list_follows(e, argc, argv))
            optarg = argv[optind++];
        if (!take(e, options, optarg, reason))
            return explain(why, "--%s%s%s: %.4000s", e->name, optarg ? " " : "", optarg ? optarg : "", reason);
        asked = asked || e->type == OPTION_COMMAND;
    }
    return !t->no_files || asked || optind == argc || explain(why, "%s: %s", argv[optind], t->no_files);
}
