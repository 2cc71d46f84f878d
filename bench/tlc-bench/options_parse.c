/* SPDX-License-Identifier: MIT */
#include "options_parse.h"
#include "../lib/common_options.h"
#include "../lib/explain.h"
#include "options_check.h"
#include <getopt.h>
#include <glob.h>
#include <string.h>

#define OPTIONS options
#define BY_VIEW(view) .type = OPTION_WHICH, .which = (view), .take_which = take_view

/* ---- values of options ------------------------------------------------------------------------------------------ */

/* There can be only one view. Some take a list. */
static bool take_view(void *options_, int view, const char *value, char *why)
{
    options *o = options_;

    if (o->view != VIEW_CODECS && o->view != (report_view)view)
        return explain(why, "it does not go with --%s", options_view_name(o->view));
    o->view = (report_view)view;
    if (!value)
        return true;
    return view == VIEW_AGGREGATE ? parse_list(value, 1, MAX_INPUTS, &o->inputs, why)
           : view == VIEW_FRAMES  ? parse_list(value, 1, MAX_FRAMES, &o->frames, why)
                                  : parse_list(value, 1, MAX_RANKS, &o->ranks, why);
}

static bool add_shapes(void *options_, const char *path, char *why)
{
    options *o = options_;

    if (o->shape_count == MAX_SHAPES)
        return explain(why, "there may be %d lists of tensors", MAX_SHAPES);
    o->shapes[o->shape_count++] = path;
    return true;
}

static bool add_algorithm(void *options_, const char *name, char *why)
{
    static const char *const names[] = {"all-reduce", "gather", "server", NULL};
    static const algorithm algorithms[] = {ALL_REDUCE, GATHER, SERVER};
    options *o = options_;
    int choice;

    if (!parse_choice(name, names, &choice, why))
        return false;
    o->algorithms |= algorithms[choice];
    return true;
}

static bool add_design(options *o, const design *d, char *why)
{
    if (o->codec_count == MAX_CODECS)
        return explain(why, "there may be %d codecs", MAX_CODECS);
    o->codecs[o->codec_count++] = *d;
    return true;
}

static bool add_codec(options *o, const char *codec, char *why)
{
    return add_design(o, &(design){.codec = codec, .feedback = -1}, why);
}

static bool add_papers(options *o, char *why)
{
    size_t count;
    const design *all = papers(&count);
    bool ok = true, again = options_have_papers(o);

    for (size_t i = 0; ok && !again && i < count; i++)
        ok = add_design(o, &all[i], why);
    return ok;
}

static bool add_codecs(void *options_, const char *codec, char *why)
{
    options *o = options_;
    bool ok = true;

    if (!strcmp(codec, "papers"))
        return add_papers(o, why);
    if (strcmp(codec, "all") != 0)
        return add_codec(o, codec, why);
    if (o->all.count)
        return true;
    ok = codecs_all(&o->all) || explain(why, "there may be %d codecs", MAX_CODECS);
    for (size_t i = 0; ok && i < o->all.count; i++)
        ok = add_codec(o, o->all.codecs[i], why);
    return ok;
}

/* What is drawn: gradients, or weights that move. */
static bool choose_drawn(void *options_, const char *name, char *why)
{
    static const char *const names[] = {"gauss", "laplace", "adam", "adam:lr=NUMBER", NULL};
    options *o = options_;
    int choice;

    o->synthetic = name;
    if (source_knows(name) || weights_parse(name, &o->moves))
        return true;
    if (!strncmp(name, "adam:", 5))
        return explain(why, "it is adam:lr=NUMBER with a number above 0");
    return parse_choice(name, names, &choice, why);
}

static bool take_values(void *options_, const char *value, char *why)
{
    options *o = options_;

    o->source.has_values = true;
    return parse_size(value, 0, SIZE_MAX, &o->source.values, why);
}

static bool take_dtype(void *options_, const char *name, char *why)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16", "f8_e4m3", "f8_e5m2", "f4_e2m1", "u8", "u4", NULL};
    options *o = options_;
    int choice = TLC_F32;

    o->has_dtype = parse_choice(name, dtypes, &choice, why);
    o->source.dtype = (tlc_dtype)choice;
    return o->has_dtype;
}

static bool take_seconds(void *options_, const char *value, char *why)
{
    return parse_time(value, 1, &((options *)options_)->seconds, why);
}

static const char *const switches[] = {"off", "on", NULL};

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const option_entry entries[] = {
    {'c', "codec", "CODEC",
     "a codec to measure, all, or papers (the designs of the papers\n"
     "under their names); repeat it for more\n"
     "(default: 3lc, 3lc:s=1.75, ternary+quartic, raw)",
     OPTION_BY(add_codecs)},
    {0, "list", NULL,
     "print names, parameters and papers of all codecs, and what\n"
     "all and papers stand for, and exit",
     OPTION_AT(COMMAND, command), .which = COMMAND_LIST},
    ENTRY_COLD,
    ENTRY_WIDE,
    {0, "peers", NULL,
     "add rows for general compressors, f16 and a simple 3LC;\n"
     "only for f32, one thread and no --delay",
     OPTION_AT(FLAG, peers)},
    {0, "roofline", NULL,
     "speeds at 4Ki to 64Mi laplace values, compared with memory\n"
     "(defaults: 3lc and 3lc:block=65536, each also with\n"
     "assume_finite; 4 steps, 2 from 16Mi on; --warmup 50, -t 0.5)",
     BY_VIEW(VIEW_ROOFLINE)},
    {0, "small", NULL, "time of a call at 1 to 1024 values (defaults: 3lc, raw)", BY_VIEW(VIEW_SMALL)},
    {0, "density", NULL, "speeds of 3lc when 0.01% to 30% of the symbols are not 0", BY_VIEW(VIEW_DENSITY)},
    {0, "aggregate", "[LIST]",
     "speed of tlc_natural_aggregate for these numbers of frames\n"
     "(defaults: 4,8 frames of 25Mi laplace values; -t 0.5)",
     BY_VIEW(VIEW_AGGREGATE)},
    {0, "frames", "[LIST]",
     "speed of adding these numbers of frames in one sweep, compared\n"
     "with a call for each; 4 of the frames are different ones, the\n"
     "others copies (defaults: 2,8,32 frames of 1Mi and 16Mi laplace\n"
     "values; 3lc, 3lc:s=1.75, sbc, natural; --warmup 50, -t 0.5)",
     BY_VIEW(VIEW_FRAMES)},
    {0, "exchange", "[LIST]",
     "what these numbers of machines send to each other, and the time\n"
     "that this takes; needs --shapes (defaults: 2,8; gradients made\n"
     "of laplace values; 3lc; --warmup 50, -t 0.5)",
     BY_VIEW(VIEW_EXCHANGE)},
    {0, "shapes", "FILE", "a list of tensors, as in bench/shapes; repeat it for more", OPTION_BY(add_shapes)},
    {0, "algorithm", "NAME", "all-reduce, gather or server; repeat it for more (default: all)",
     OPTION_BY(add_algorithm)},
    {0, "owners", "LIST", "also all-reduces with only this many owners (default 8)",
     OPTION_IN(LIST, owners, 1, MAX_RANKS)},
    {0, "delta", NULL,
     "weights that have moved, sent without loss (threelc/delta.h):\n"
     "from BASE to each NEXT, files or folders; or drawn, with\n"
     "--synthetic adam (defaults: 16Mi weights, --dtype bf16, -t 0.5)",
     BY_VIEW(VIEW_DELTA)},
    {0, "defaults", "DIR",
     "what bench/run does: without files the input is DIR/data, of\n"
     "--delta the weights in it, with --peers; the models of --exchange\n"
     "are in DIR/shapes",
     OPTION_AT(TEXT, defaults)},
    {0, "sizes", "LIST",
     "values in a step, as 4Ki,1Mi; for --roofline, --small,\n"
     "--density, --aggregate, --frames, --synthetic and --delta",
     OPTION_IN(LIST, sizes, 0, SIZE_MAX)},
    {0, "threads", "LIST", "rows for each number of threads, as 1,2 (default 1)",
     OPTION_IN(LIST, threads, 1, MAX_THREADS)},
    {0, "assume-finite", NULL, "add a row with assume_finite for each codec but raw", OPTION_AT(FLAG, assume_finite)},
    {0, "delay", "K",
     "local steps: send one frame for K steps;\n"
     "for codecs with error feedback",
     OPTION_IN(SIZE, channel.delay, 1, SOURCE_MAX_STEPS)},
    {0, "synthetic", "NAME",
     "draw the gradients: gauss or laplace; for --delta the weights:\n"
     "adam:lr=NUMBER, or adam for several rates",
     OPTION_BY(choose_drawn)},
    {0, "values", "N",
     "values to draw in a step; suffixes Ki, Mi, Gi (default 1Mi);\n"
     "for .f32 files the values in a row (default: all)",
     OPTION_BY(take_values)},
    ENTRY_STEPS,
    {0, "seed", "N", "for drawn gradients and stochastic codecs (default 1)", OPTION_AT(SEED, source.seed)},
    {0, "dtype", "NAME",
     "convert the gradients to f32, f16 or bf16 (default f32); with\n"
     "--delta weights also to f8_e4m3, f8_e5m2, f4_e2m1, u8 (int8) or\n"
     "u4 (int4)",
     OPTION_BY(take_dtype)},
    ENTRY_ISA(channel.isa),
    {0, "feedback", "on|off", "error feedback for all codecs (default: that of each codec)",
     OPTION_OF(CHOICE, channel.feedback, switches)},
    {0, "checksum", NULL, "frames with a checksum", OPTION_AT(FLAG, channel.checksum)},
    {'t', "time", "TIME",
     "measure each row at least this long, as 2s or 30ms (bare:\n"
     "seconds; default 1.0), and for at least 5 rounds",
     OPTION_BY(take_seconds)},
    {0, "warmup", "STEPS", "steps before measuring, at least one pass (default one pass)",
     OPTION_IN(SIZE, warmup, 0, SIZE_MAX - 1)},
    ENTRY_FORMAT,
    {0, "per-tensor", NULL, "add a table for each file", OPTION_AT(FLAG, per_tensor)},
    ENTRIES_LAST,
};

const option_table options_table = {
    .usage =
        "usage: tlc-bench [OPTION]... FILE|FOLDER...\n"
        "       tlc-bench [OPTION]... --synthetic gauss|laplace\n"
        "       tlc-bench [OPTION]... --roofline|--small|--density|--aggregate|--frames\n"
        "       tlc-bench [OPTION]... --exchange --shapes FILE [FILE|FOLDER...]\n"
        "       tlc-bench [OPTION]... --delta BASE NEXT...|--synthetic adam[:lr=NUMBER]\n"
        "       tlc-bench --list\n"
        "\n"
        "Compresses gradients step by step, as a trainer does. It verifies every round trip, and compares the\n"
        "speeds with that of memcpy.\n"
        "\n"
        "Input: .npy files (1-D, or 2-D with a step in each row; f2 or f4), raw files, or folders of them.\n"
        "Each file is a tensor. Codecs with error feedback start from NAME.residual.npy (n values, f4) if it lies\n"
        "beside NAME.npy. A folder may also have runs in it: folders of files with names that end in -sNUMBER, the\n"
        "s of the training. A codec is then measured on the run of its s, or else on the one with the smallest s.\n"
        "\n",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .notes =
        "\n"
        "Speeds are GB/s of input (1e9 bytes), medians of rounds. Each round also has a pass of memcpy and of the\n"
        "rooflines. A roofline is the least work in memory that compress, decompress or decompress-add (\"add\")\n"
        "can do. Columns marked + need --wide.\n"
        "ratio               bytes of input / bytes of frames\n"
        "memcpy x +          speed / speed of memcpy\n"
        "roofline x          speed / speed of the roofline\n"
        "random share +      time for the random words alone / time of compress\n"
        "entropy x +         bits of frames / order-0 entropy of the symbols, for codecs that have symbols\n"
        "non-zero            decoded values that are not 0\n"
        "error of one step + ||x - decoded|| / ||x||, x = residual + gradient, mean over the steps\n"
        "error of the sum +  ||S - (sum of decoded + residual)|| / ||S||, S = first residual + sum of gradients\n"
        "residual +          ||residual|| after the last step / mean ||gradient|| of a step\n"
        "\n"
        "Exit status: 0 on success, 1 if a check or the output fails, 2 for bad files or options.\n",
};

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

static void set_defaults(options *o)
{
    static const struct defaults {
        report_view view;
        double seconds;
        size_t warmup;
        const char *codecs[5], *sizes;
    } table_of[] = {
        {VIEW_CODECS, 1, 0, {"3lc", "3lc:s=1.75", "ternary+quartic", "raw"}, NULL},
        {VIEW_ROOFLINE, 0.5, 50, {"3lc", "3lc:block=65536"}, "4Ki,64Ki,1Mi,16Mi,64Mi"},
        {VIEW_SMALL, 0.5, 50, {"3lc", "raw"}, "1,16,64,256,1024"},
        {VIEW_DENSITY, 0.5, 50, {"3lc"}, "64Ki,1Mi,16Mi"},
        {VIEW_AGGREGATE, 0.5, 0, {"natural"}, "25Mi"},
        {VIEW_FRAMES, 0.5, 50, {"3lc", "3lc:s=1.75", "sbc", "natural"}, "1Mi,16Mi"},
        {VIEW_EXCHANGE, 0.5, 50, {"3lc"}, NULL},
        {VIEW_DELTA, 0.5, 0, {NULL}, NULL},
    };
    const struct defaults *d = table_of;
    bool chosen = o->codec_count;
    char why[WHY_SIZE]; /* defaults are no errors */

    while (d->view != o->view)
        d++;
    if (o->seconds < 0)
        o->seconds = d->seconds;
    if (o->warmup == WARMUP_BY_DEFAULT)
        o->warmup = d->warmup;
    if (o->view == VIEW_ROOFLINE && !o->codec_count)
        o->assume_finite = true;
    for (size_t i = 0; !chosen && d->codecs[i]; i++) {
        if (o->channel.delay <= 1 || codec_has_residual(d->codecs[i], o->channel.feedback))
            (void)add_codec(o, d->codecs[i], why);
    }
    if (d->sizes && !o->sizes.count)
        (void)parse_list(d->sizes, 0, SIZE_MAX, &o->sizes, why);
    if (d->sizes && !o->synthetic)
        o->synthetic = o->view == VIEW_DENSITY ? "sparse" : "laplace";
    if (!o->inputs.count)
        o->inputs = (size_list){.count = 2, .items = {4, 8}};
    if (!o->frames.count)
        o->frames = (size_list){.count = 3, .items = {2, 8, 32}};
    if (o->view == VIEW_DELTA && o->synthetic && !o->sizes.count)
        o->sizes = (size_list){.count = 1, .items = {(size_t)16 << 20}};
    if (o->view == VIEW_DELTA && !o->has_dtype)
        o->source.dtype = TLC_BF16;
    if (o->view == VIEW_EXCHANGE && !o->path_count && !o->synthetic)
        o->synthetic = "laplace";
    if (!o->ranks.count)
        o->ranks = (size_list){.count = 2, .items = {2, 8}};
    if (!o->owners.count)
        o->owners = (size_list){.count = 1, .items = {8}};
    if (!o->algorithms)
        o->algorithms = ALL_REDUCE | GATHER | SERVER;
    if (!o->threads.count)
        o->threads = (size_list){.count = 1, .items = {1}};
    o->channel.seed = o->source.seed;
}

/* ---- --defaults -------------------------------------------------------------------------------------------------- */

/* The names must last as long as the options: they are never freed. */
static glob_t default_names;

/* Adds what is there of this name, a pattern; or the name, if nothing is. */
static bool add_default(const options *o, const char *name, char *why)
{
    char path[4096];
    const int flags = GLOB_NOCHECK | (default_names.gl_pathc ? GLOB_APPEND : 0);

    snprintf(path, sizeof path, "%s/%s", o->defaults, name);
    return !glob(path, flags, NULL, &default_names) || explain(why, "out of memory");
}

static bool add_default_files(options *o, char *why)
{
    const bool weights = o->view == VIEW_DELTA;
    const size_t first = default_names.gl_pathc;

    if (weights ? !add_default(o, "data/gpt-weights/base", why) || !add_default(o, "data/gpt-weights/lr*", why)
                : !add_default(o, "data", why))
        return false;
    o->paths = default_names.gl_pathv + first;
    o->path_count = default_names.gl_pathc - first;
    return true;
}

static bool add_default_shapes(options *o, char *why)
{
    if (!add_default(o, "shapes/resnet110.txt", why) || !add_default(o, "shapes/resnet50.txt", why))
        return false;
    for (size_t i = default_names.gl_pathc - 2; i < default_names.gl_pathc; i++) {
        if (!add_shapes(o, default_names.gl_pathv[i], why))
            return false;
    }
    return true;
}

/* What was not named, of views that measure files. */
static bool set_default_inputs(options *o, char *why)
{
    const bool files = !o->synthetic && (o->view == VIEW_CODECS || o->view == VIEW_EXCHANGE || o->view == VIEW_DELTA);

    if (!o->defaults)
        return true;
    if (files && o->view != VIEW_EXCHANGE)
        o->peers = true;
    if (o->view == VIEW_EXCHANGE && !o->shape_count && !add_default_shapes(o, why))
        return false;
    return !files || o->path_count || add_default_files(o, why);
}

bool options_parse(options *o, int argc, char **argv, char *why)
{
    *o = (options){.view = VIEW_CODECS,
                   .source.seed = 1,
                   .channel.feedback = -1,
                   .seconds = -1,
                   .warmup = WARMUP_BY_DEFAULT};
    if (!option_table_parse(&options_table, o, argc, argv, why))
        return false;
    o->paths = argv + optind;
    o->path_count = (size_t)(argc - optind);
    if (o->command != COMMAND_RUN)
        return true;
    if (!set_default_inputs(o, why) || !options_check(o, why))
        return false;
    set_defaults(o);
    return true;
}
