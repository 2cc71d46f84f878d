/* SPDX-License-Identifier: MIT */
#include "options_parse.h"
#include "../lib/common_options.h"
#include "../lib/explain.h"
#include "options_check.h"
#include <glob.h>
#include <string.h>

enum { /* of its own options without a letter */
       KEY_SYNTHETIC = OWN_KEY,
       KEY_VALUES,
       KEY_DTYPE,
       KEY_FEEDBACK,
       KEY_CHECKSUM,
       KEY_PER_TENSOR,
       KEY_ROOFLINE,
       KEY_SMALL,
       KEY_DENSITY,
       KEY_SIZES,
       KEY_THREADS,
       KEY_ASSUME_FINITE,
       KEY_PEERS,
       KEY_DELAY,
       KEY_AGGREGATE,
       KEY_FRAMES,
       KEY_EXCHANGE,
       KEY_SHAPES,
       KEY_ALGORITHM,
       KEY_OWNERS,
       KEY_DELTA,
       KEY_DEFAULTS
};

static const option_entry entries[] = {
    {'c', "codec", "CODEC",
     "a codec to measure, all, or papers (the designs of the papers\n"
     "under their names); repeat it for more\n"
     "(default: 3lc, 3lc:s=1.75, ternary+quartic, raw)"},
    {KEY_LIST, "list", NULL,
     "print names, parameters and papers of all codecs, and what\n"
     "all and papers stand for, and exit"},
    ENTRY_COLD,
    ENTRY_WIDE,
    {KEY_PEERS, "peers", NULL,
     "add rows for general compressors, f16 and a simple 3LC;\n"
     "only for f32, one thread and no --delay"},
    {KEY_ROOFLINE, "roofline", NULL,
     "speeds at 4Ki to 64Mi laplace values, compared with memory\n"
     "(defaults: 3lc and 3lc:block=65536, each also with\n"
     "assume_finite; 4 steps, 2 from 16Mi on; --warmup 50, -t 0.5)"},
    {KEY_SMALL, "small", NULL, "time of a call at 1 to 1024 values (defaults: 3lc, raw)"},
    {KEY_DENSITY, "density", NULL, "speeds of 3lc when 0.01% to 30% of the symbols are not 0"},
    {KEY_AGGREGATE, "aggregate", "[LIST]",
     "speed of tlc_natural_aggregate for these numbers of frames\n"
     "(defaults: 4,8 frames of 25Mi laplace values; -t 0.5)"},
    {KEY_FRAMES, "frames", "[LIST]",
     "speed of adding these numbers of frames in one sweep, compared\n"
     "with a call for each; 4 of the frames are different ones, the\n"
     "others copies (defaults: 2,8,32 frames of 1Mi and 16Mi laplace\n"
     "values; 3lc, 3lc:s=1.75, sbc, natural; --warmup 50, -t 0.5)"},
    {KEY_EXCHANGE, "exchange", "[LIST]",
     "what these numbers of machines send to each other, and the time\n"
     "that this takes; needs --shapes (defaults: 2,8; gradients made\n"
     "of laplace values; 3lc; --warmup 50, -t 0.5)"},
    {KEY_SHAPES, "shapes", "FILE", "a list of tensors, as in bench/shapes; repeat it for more"},
    {KEY_ALGORITHM, "algorithm", "NAME", "all-reduce, gather or server; repeat it for more (default: all)"},
    {KEY_OWNERS, "owners", "LIST", "also all-reduces with so few owners (default 8)"},
    {KEY_DELTA, "delta", NULL,
     "weights that have moved, sent without loss (threelc/delta.h):\n"
     "from BASE to each NEXT, files or folders; or drawn, with\n"
     "--synthetic adam (defaults: 16Mi weights, --dtype bf16, -t 0.5)"},
    {KEY_DEFAULTS, "defaults", "DIR",
     "what bench/run does: without files the input is DIR/data, of\n"
     "--delta the weights in it, with --peers; the models of --exchange\n"
     "are in DIR/shapes"},
    {KEY_SIZES, "sizes", "LIST",
     "values in a step, as 4Ki,1Mi; for --roofline, --small,\n"
     "--density, --aggregate, --frames, --synthetic and --delta"},
    {KEY_THREADS, "threads", "LIST", "rows for each number of threads, as 1,2 (default 1)"},
    {KEY_ASSUME_FINITE, "assume-finite", NULL, "add a row with assume_finite for each codec but raw"},
    {KEY_DELAY, "delay", "K",
     "local steps: send one frame for K steps;\n"
     "for codecs with error feedback"},
    {KEY_SYNTHETIC, "synthetic", "NAME",
     "draw the gradients: gauss or laplace; for --delta the weights:\n"
     "adam:lr=NUMBER, or adam for several rates"},
    {KEY_VALUES, "values", "N",
     "values to draw in a step; suffixes Ki, Mi, Gi (default 1Mi);\n"
     "for .f32 files the values in a row (default: all)"},
    ENTRY_STEPS,
    {KEY_SEED, "seed", "N", "for drawn gradients and stochastic codecs (default 1)"},
    {KEY_DTYPE, "dtype", "NAME", "convert the gradients to f32, f16 or bf16 (default f32)"},
    ENTRY_ISA,
    {KEY_FEEDBACK, "feedback", "on|off", "error feedback for all codecs (default: that of each codec)"},
    {KEY_CHECKSUM, "checksum", NULL, "frames with a checksum"},
    {'t', "time", "TIME",
     "measure each row at least this long, as 2s or 30ms (bare:\n"
     "seconds; default 1.0), and for at least 5 rounds"},
    {KEY_WARMUP, "warmup", "STEPS", "steps before measuring, at least one pass (default one pass)"},
    ENTRY_FORMAT,
    {KEY_PER_TENSOR, "per-tensor", NULL, "add a table for each file"},
    ENTRY_QUIET,
    ENTRY_HELP,
    ENTRY_VERSION,
};

static bool take(void *options, int key, const char *value, char *why);
static const option_table table = {entries, sizeof entries / sizeof entries[0], take};

/* ---- help ------------------------------------------------------------------------------------------------------- */

void options_print_help(FILE *f)
{
    fputs("usage: tlc-bench [OPTION]... FILE|FOLDER...\n"
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
          f);
    option_table_print(f, &table);
    fputs("\n"
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
          f);
}

/* ---- values of options ------------------------------------------------------------------------------------------ */

/* There can be only one view. */
static bool set_view(options *o, report_view view, char *why)
{
    if (o->view != VIEW_CODECS && o->view != view)
        return explain(why, "it does not go with --%s", options_view_name(o->view));
    o->view = view;
    return true;
}

static bool add_shapes(options *o, const char *path, char *why)
{
    if (o->shape_count == MAX_SHAPES)
        return explain(why, "there may be %d lists of tensors", MAX_SHAPES);
    o->shapes[o->shape_count++] = path;
    return true;
}

static bool add_algorithm(options *o, const char *name, char *why)
{
    static const char *const names[] = {"all-reduce", "gather", "server", NULL};
    static const algorithm algorithms[] = {ALL_REDUCE, GATHER, SERVER};
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

static bool add_codecs(options *o, const char *codec, char *why)
{
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
static bool choose_drawn(options *o, const char *name, char *why)
{
    static const char *const names[] = {"gauss", "laplace", "adam", "adam:lr=NUMBER", NULL};
    int choice;

    o->synthetic = name;
    if (source_knows(name) || weights_parse(name, &o->moves))
        return true;
    if (!strncmp(name, "adam:", 5))
        return explain(why, "it is adam:lr=NUMBER with a number above 0");
    return parse_choice(name, names, &choice, why);
}

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

static bool take(void *options_, int key, const char *value, char *why)
{
    static const char *const dtypes[] = {"f32", "f16", "bf16", NULL};
    static const char *const switches[] = {"off", "on", NULL};
    options *o = options_;
    const common_options common = {.command = &o->command,
                                   .source = &o->source,
                                   .isa = &o->channel.isa,
                                   .format = &o->format,
                                   .wide = &o->wide,
                                   .quiet = &o->quiet};
    int choice;

    switch (key) {
    case 'c': return add_codecs(o, value, why);
    case 't': return parse_time(value, 1, &o->seconds, why);
    case KEY_WARMUP: return parse_size(value, 0, SIZE_MAX - 1, &o->warmup, why);
    case KEY_SYNTHETIC: return choose_drawn(o, value, why);
    case KEY_VALUES: o->source.has_values = true; return parse_size(value, 0, SIZE_MAX, &o->source.values, why);
    case KEY_FEEDBACK: return parse_choice(value, switches, &o->channel.feedback, why);
    case KEY_CHECKSUM: o->channel.checksum = 1; return true;
    case KEY_ROOFLINE: return set_view(o, VIEW_ROOFLINE, why);
    case KEY_SMALL: return set_view(o, VIEW_SMALL, why);
    case KEY_DENSITY: return set_view(o, VIEW_DENSITY, why);
    case KEY_AGGREGATE:
        return set_view(o, VIEW_AGGREGATE, why) && (!value || parse_list(value, 1, MAX_INPUTS, &o->inputs, why));
    case KEY_FRAMES:
        return set_view(o, VIEW_FRAMES, why) && (!value || parse_list(value, 1, MAX_FRAMES, &o->frames, why));
    case KEY_EXCHANGE:
        return set_view(o, VIEW_EXCHANGE, why) && (!value || parse_list(value, 1, MAX_RANKS, &o->ranks, why));
    case KEY_DELTA: return set_view(o, VIEW_DELTA, why);
    case KEY_SHAPES: return add_shapes(o, value, why);
    case KEY_ALGORITHM: return add_algorithm(o, value, why);
    case KEY_OWNERS: return parse_list(value, 1, MAX_RANKS, &o->owners, why);
    case KEY_DELAY: return parse_size(value, 1, SOURCE_MAX_STEPS, &o->channel.delay, why);
    case KEY_SIZES: return parse_list(value, 0, SIZE_MAX, &o->sizes, why);
    case KEY_THREADS: return parse_list(value, 1, MAX_THREADS, &o->threads, why);
    case KEY_ASSUME_FINITE: o->assume_finite = true; return true;
    case KEY_PEERS: o->peers = true; return true;
    case KEY_DEFAULTS: o->defaults = value; return true;
    case KEY_PER_TENSOR: o->per_tensor = true; return true;
    case KEY_DTYPE:
        if (!parse_choice(value, dtypes, &choice, why))
            return false;
        o->source.dtype = (tlc_dtype)choice;
        o->has_dtype = true;
        return true;
    default: return common_options_take(&common, key, value, why);
    }
}

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
    int files;

    *o = (options){.view = VIEW_CODECS,
                   .source.seed = 1,
                   .channel.feedback = -1,
                   .seconds = -1,
                   .warmup = WARMUP_BY_DEFAULT};
    if (!option_table_parse(&table, o, argc, argv, &files, why))
        return false;
    o->paths = argv + files;
    o->path_count = (size_t)(argc - files);
    if (o->command != COMMAND_RUN)
        return true;
    if (!set_default_inputs(o, why) || !options_check(o, why))
        return false;
    set_defaults(o);
    return true;
}
