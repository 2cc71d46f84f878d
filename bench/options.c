/* SPDX-License-Identifier: MIT
 *
 * One table describes the options to the parser and to --help, so that neither knows one that the other does not.
 */
#include "options.h"
#include "explain.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { /* of options without a letter */
    KEY_STEPS = 256, KEY_WARMUP, KEY_SYNTHETIC, KEY_VALUES, KEY_SEED, KEY_DTYPE, KEY_ISA, KEY_FEEDBACK, KEY_CHECKSUM,
    KEY_FORMAT, KEY_PER_TENSOR, KEY_VERSION
};

static const struct entry {
    int key; /* its letter, if below 256 */
    const char *name, *argument, *help;
} table[] = {
    {'c', "codec", "CODEC", "codec to measure; repeat it for more\n"
                            "(default: 3lc, 3lc:s=1.75, ternary+quartic, raw)"},
    {KEY_SYNTHETIC, "synthetic", "NAME", "draw the gradients: gauss or laplace"},
    {KEY_VALUES, "values", "N", "values to draw in a step; suffixes Ki, Mi (default 1Mi);\n"
                                "for .f32 files the values in a row (default: all)"},
    {KEY_STEPS, "steps", "N", "only the first N steps of files; steps to draw (default 16)"},
    {KEY_SEED, "seed", "N", "of drawn gradients and of stochastic codecs (default 1)"},
    {KEY_DTYPE, "dtype", "NAME", "convert the gradients to f32, f16 or bf16 (default f32)"},
    {KEY_ISA, "isa", "NAME", "kernels to use: auto, scalar, avx2, avx512 or neon (default auto)"},
    {KEY_FEEDBACK, "feedback", "on|off", "error feedback (default: as the codec has it)"},
    {KEY_CHECKSUM, "checksum", NULL, "frames with a checksum"},
    {'t', "time", "SECONDS", "measure each row at least this long (default 1.0), and 5 rounds"},
    {KEY_WARMUP, "warmup", "STEPS", "steps before measuring, at least one pass (default: one pass)"},
    {KEY_FORMAT, "format", "NAME", "table, markdown, csv or json (default table)"},
    {KEY_PER_TENSOR, "per-tensor", NULL, "also one group of rows for each file"},
    {'q', "quiet", NULL, "no progress on stderr"},
    {'h', "help", NULL, "print this and exit"},
    {KEY_VERSION, "version", NULL, "print the version and the ISAs that can be used here, and exit"},
};
enum { ENTRIES = sizeof table / sizeof table[0] };

/* ---- help ---------------------------------------------------------------------------------------------------------- */

static void print_entry(FILE *f, const struct entry *e)
{
    char left[32];

    snprintf(left, sizeof left, "--%s%s%s", e->name, e->argument ? " " : "", e->argument ? e->argument : "");
    if (e->key < 256)
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

void options_print_help(FILE *f)
{
    fputs("usage: tlc-bench [OPTION]... FILE|FOLDER...\n"
          "       tlc-bench [OPTION]... --synthetic gauss|laplace\n"
          "\n"
          "Compresses gradients step by step, the residual carried on, verifies every round trip, and compares the\n"
          "speeds with memcpy's. Input: .npy files (1-D, or 2-D with steps as rows; f2 or f4), raw .f32 files, or\n"
          "folders of them. Each file is a tensor; a step goes over all of them.\n"
          "\n", f);
    for (const struct entry *e = table; e < table + ENTRIES; e++)
        print_entry(f, e);
    fputs("\n"
          "Speeds are GB/s of input (1e9 bytes), medians of rounds that are interleaved with memcpy.\n"
          "error of one step   ||x - decoded|| / ||x||, x = residual + gradient, mean over the steps\n"
          "error of the sum    ||sum of gradients - (sum of decoded + residual)|| / ||sum of gradients||\n"
          "residual            ||residual|| after the last step / mean ||gradient|| of a step\n"
          "\n"
          "Exit status: 0 if all is well, 1 if a check or the output fails, 2 for bad files or options.\n", f);
}

void options_print_version(FILE *f)
{
    const char *separator = "";

    fprintf(f, "tlc-bench (libthreelc) %s\nISAs: ", tlc_version_string());
    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa = (tlc_isa)(isa + 1)) {
        if (tlc_isa_supported(isa)) {
            fprintf(f, "%s%s", separator, tlc_isa_name(isa));
            separator = ", ";
        }
    }
    fputc('\n', f);
}

/* ---- values of options ---------------------------------------------------------------------------------------------- */

/* Digits, and if suffixes are allowed then perhaps Ki or Mi. */
static bool parse_number(const char *text, bool suffixes, uint64_t *number)
{
    uint64_t unit = 1;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *number = strtoumax(text, &end, 10);
    if (suffixes && !strcmp(end, "Ki"))
        unit = 1 << 10;
    else if (suffixes && !strcmp(end, "Mi"))
        unit = 1 << 20;
    else if (*end)
        return false;
    return !errno && !__builtin_mul_overflow(*number, unit, number);
}

static bool parse_size(const char *text, size_t *size)
{
    uint64_t number;

    if (!parse_number(text, true, &number) || number > SIZE_MAX)
        return false;
    *size = (size_t)number;
    return true;
}

static bool parse_steps(const char *text, size_t *steps)
{
    return parse_size(text, steps) && *steps && *steps <= SOURCE_MAX_STEPS;
}

static bool parse_seconds(const char *text, double *seconds)
{
    char *end;

    *seconds = strtod(text, &end);
    return *text && !*end && isfinite(*seconds) && *seconds >= 0;
}

/* The index of text among names. */
static bool parse_choice(const char *text, const char *const *names, int *choice)
{
    for (*choice = 0; names[*choice]; ++*choice) {
        if (!strcmp(text, names[*choice]))
            return true;
    }
    return false;
}

static bool parse_isa(const char *text, tlc_isa *isa)
{
    for (*isa = TLC_ISA_AUTO; *isa <= TLC_ISA_NEON; *isa = (tlc_isa)(*isa + 1)) {
        if (!strcmp(text, tlc_isa_name(*isa)))
            return true;
    }
    return false;
}

static bool add_codec(options *o, const char *codec)
{
    if (o->codec_count == MAX_CODECS)
        return false;
    o->codecs[o->codec_count++] = codec;
    return true;
}

/* ---- parsing -------------------------------------------------------------------------------------------------------- */

/* Takes one option; false if its value is none. */
static bool take(options *o, int key, const char *value)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16", NULL};
    static const char *const formats[] = {"table", "markdown", "csv", "json", NULL};
    static const char *const switches[] = {"off", "on", NULL};
    int choice;

    switch (key) {
    case 'c': return add_codec(o, value);
    case 't': return parse_seconds(value, &o->measure.seconds);
    case KEY_STEPS: return parse_steps(value, &o->source.steps);
    case KEY_WARMUP: return parse_size(value, &o->measure.warmup);
    case KEY_SYNTHETIC: o->synthetic = value; return source_knows(value);
    case KEY_VALUES: o->source.has_values = true; return parse_size(value, &o->source.values);
    case KEY_SEED: return parse_number(value, false, &o->source.seed);
    case KEY_ISA: return parse_isa(value, &o->channel.isa);
    case KEY_FEEDBACK: return parse_choice(value, switches, &o->channel.feedback);
    case KEY_CHECKSUM: o->channel.checksum = 1; return true;
    case KEY_PER_TENSOR: o->per_tensor = true; return true;
    case 'q': o->quiet = true; return true;
    case 'h': o->command = COMMAND_HELP; return true;
    case KEY_VERSION: o->command = COMMAND_VERSION; return true;
    case KEY_DTYPE:
        if (!parse_choice(value, dtypes, &choice))
            return false;
        o->source.dtype = (tlc_dtype)choice;
        return true;
    case KEY_FORMAT:
        if (!parse_choice(value, formats, &choice))
            return false;
        o->format = (report_format)choice;
        return true;
    default: return false;
    }
}

static const struct entry *find_entry(int key)
{
    for (const struct entry *e = table; e < table + ENTRIES; e++) {
        if (e->key == key)
            return e;
    }
    return NULL;
}

/* What getopt_long wants of the table. */
static void describe(struct option longs[ENTRIES + 1], char shorts[2 * ENTRIES + 2])
{
    *shorts++ = ':';
    for (int i = 0; i < ENTRIES; i++) {
        longs[i] = (struct option){
            .name = table[i].name,
            .has_arg = table[i].argument ? required_argument : no_argument,
            .val = table[i].key,
        };
        if (table[i].key < 256) {
            *shorts++ = (char)table[i].key;
            if (table[i].argument)
                *shorts++ = ':';
        }
    }
    longs[ENTRIES] = (struct option){.name = NULL};
    *shorts = '\0';
}

static bool check(options *o, char *why)
{
    size_t bound;

    if (o->command != COMMAND_RUN)
        return true;
    if (o->synthetic && o->path_count)
        return explain(why, "%s: no files go with --synthetic", o->paths[0]);
    if (!o->synthetic && !o->path_count)
        return explain(why, "no input: name files or folders, or use --synthetic (--help tells more)");
    if (!tlc_isa_supported(o->channel.isa))
        return explain(why, "--isa %s: this machine or build does not support it", tlc_isa_name(o->channel.isa));
    for (size_t i = 0; i < o->codec_count; i++) {
        tlc_status status = tlc_codec_bound(o->codecs[i], o->source.dtype, 0, &bound);
        if (status)
            return explain(why, "--codec %s: %s", o->codecs[i],
                           status == TLC_ERR_PARAM ? "no such codec, or a parameter is out of range"
                                                   : tlc_status_string(status));
    }
    return true;
}

bool options_parse(options *o, int argc, char **argv, char *why)
{
    static const char *const defaults[] = {"3lc", "3lc:s=1.75", "ternary+quartic", "raw"};
    struct option longs[ENTRIES + 1];
    char shorts[2 * ENTRIES + 2];
    int key;

    *o = (options){.source.seed = 1, .channel.feedback = -1, .measure.seconds = 1};
    describe(longs, shorts);
    opterr = 0;
    while ((key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        /* getopt names an option it does not take by optopt, or, if it is long and unknown, by its place only */
        const struct entry *e = find_entry(key == '?' || key == ':' ? optopt : key);
        if (key == ':')
            return explain(why, "%s: it needs a value", argv[optind - 1]);
        if (key == '?' && e)
            return explain(why, "%s: it takes no value", argv[optind - 1]);
        if (key == '?' && optopt)
            return explain(why, "-%c: there is no such option", optopt);
        if (key == '?')
            return explain(why, "%s: there is no such option", argv[optind - 1]);
        if (!take(o, key, optarg))
            return explain(why, "--%s %s: not one of its values (--help lists them)", e->name, optarg);
    }
    for (size_t i = 0; !o->codec_count && i < sizeof defaults / sizeof defaults[0]; i++)
        o->codecs[i] = defaults[i];
    o->codec_count = o->codec_count ? o->codec_count : sizeof defaults / sizeof defaults[0];
    o->paths = argv + optind;
    o->path_count = (size_t)(argc - optind);
    o->channel.seed = o->source.seed;
    return check(o, why);
}
