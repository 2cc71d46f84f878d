/* SPDX-License-Identifier: MIT */
#include "options.h"
#include "../lib/common_options.h"
#include "../lib/explain.h"
#include "../lib/parse.h"
#include "../lib/threads.h"
#include "models/dtypes.h"
#include <getopt.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#define OPTIONS options

static const char usage[] =
    "usage: tlc-delta make [BASE] NEXT DELTA      write what makes NEXT of BASE; without BASE all of NEXT\n"
    "       tlc-delta apply DELTA [BASE] OUT      make the files of NEXT\n"
    "       tlc-delta apply --in-place DELTA BASE change those of BASE\n"
    "       tlc-delta verify DELTA [BASE]         do all that apply does, but write nothing\n"
    "       tlc-delta info DELTA                  say what is in it\n"
    "       tlc-delta fold DELTA DELTA... OUT     make one delta of those that follow each other\n"
    "       tlc-delta keep FOLDER --out FOLDER    watch checkpoints, and write a delta for each new one\n"
    "\n"
    "Lossless deltas of models: what changed between two checkpoints, in files of 1% to 10% of their size. BASE and\n"
    "NEXT are files or folders: .safetensors, .npy, and any others, as bytes. OUT has the very bytes of NEXT.\n"
    "\n";
static const char notes[] =
    "\n"
    "What is written stands in OUT.part until it is whole, so a run that is broken off loses nothing. The exit status\n"
    "is 1 if something failed, 2 if the command line is wrong.\n";

static const option_entry entries[] = {
    {'f', "force", NULL, "make, apply, fold: replace the file OUT if it is there", OPTION_AT(FLAG, force)},
    {'a', "after", "DELTA", "make: the delta before; the number of this one is the next", OPTION_AT(PATH, after)},
    {'d', "dtype", "NAME",
     "of raw files: f32, f16, bf16, f8_e4m3, f8_e5m2, f4_e2m1, u8,\n"
     "u4, i32, i64 or f64 (default: u8, but for the names .f32, .f16\n"
     "and .bf16)",
     OPTION_OF(CHOICE, dtype, dtype_names)},
    {0, "in-place", NULL,
     "apply: change the files of BASE where they lie, with no OUT;\n"
     "what a run that was killed has begun, another one completes",
     OPTION_AT(FLAG, in_place)},
    {'b', "block-digests", NULL,
     "make, keep: with digests of each 65,536 weights, 16 bytes\n"
     "for these, by which apply --in-place completes tensors that are\n"
     "half written",
     OPTION_AT(FLAG, block_digests)},
    {0, "json", NULL, "info: print JSON", OPTION_AT(FLAG, json)},
    {'o', "out", "FOLDER", "keep: where deltas are written", OPTION_AT(PATH, out)},
    {0, "settle", "TIME",
     "keep: a checkpoint is complete when nothing in it has changed\n"
     "for so long (default 10s); new ones are looked for as often",
     OPTION_AT(TIME, settle)},
    {0, "once", NULL, "keep: write the deltas of what is there, and end", OPTION_AT(FLAG, once)},
    {'j', "threads", "N", "threads (default: one for each core)", OPTION_IN(COUNT, threads, 1, MAX_THREADS)},
    ENTRIES_LAST,
};

const option_table delta_options = {usage, entries, sizeof entries / sizeof entries[0], notes, NULL};

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static const char *const names[] = {
    [DELTA_MAKE] = "make",
    [DELTA_APPLY] = "apply",
    [DELTA_VERIFY] = "verify",
    [DELTA_INFO] = "info",
    [DELTA_FOLD] = "fold",
    [DELTA_KEEP] = "keep",
    NULL,
};

/* How many paths follow the name of a command. */
static const struct {
    size_t least, most;
    const char *what;
} wanted[] = {
    [DELTA_MAKE] = {2, 3, "it takes [BASE] NEXT DELTA"},
    [DELTA_APPLY] = {2, 3, "it takes DELTA [BASE] OUT"},
    [DELTA_VERIFY] = {1, 2, "it takes DELTA [BASE]"},
    [DELTA_INFO] = {1, 1, "it takes a DELTA"},
    [DELTA_FOLD] = {3, SIZE_MAX, "it takes DELTA DELTA... OUT"},
    [DELTA_KEEP] = {1, 1, "it takes a FOLDER"},
};

static bool is(const options *o, delta_command what)
{
    return o->what == what;
}

/* Each option is of one command or two. */
static bool check_options(const options *o, char *why)
{
    const struct {
        const char *name;
        bool given, allowed;
    } rules[] = {
        {"force", o->force, is(o, DELTA_MAKE) || is(o, DELTA_APPLY) || is(o, DELTA_FOLD)},
        {"block-digests", o->block_digests, is(o, DELTA_MAKE) || is(o, DELTA_KEEP)},
        {"in-place", o->in_place, is(o, DELTA_APPLY)},
        {"after", o->after, is(o, DELTA_MAKE)},
        {"json", o->json, is(o, DELTA_INFO)},
        {"out", o->out, is(o, DELTA_KEEP)},
        {"settle", o->settle >= 0, is(o, DELTA_KEEP)},
        {"once", o->once, is(o, DELTA_KEEP)},
        {"dtype", o->dtype >= 0, is(o, DELTA_MAKE) || is(o, DELTA_APPLY) || is(o, DELTA_VERIFY)},
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].given && !rules[i].allowed)
            return explain(why, "--%s: it is no option of %s (--help lists them)", rules[i].name, names[o->what]);
    }
    if (o->in_place && (o->path_count != 2 || o->force))
        return explain(why, "--in-place: it takes DELTA and BASE, and there is no OUT");
    if (is(o, DELTA_KEEP) && !o->out)
        return explain(why, "keep: it needs --out FOLDER");
    return true;
}

static size_t count_cores(void)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 1;
    const size_t count = (size_t)CPU_COUNT(&allowed);
    return count < MAX_THREADS ? count : MAX_THREADS;
}

bool options_parse(options *o, int argc, char **argv, char *why)
{
    char reason[WHY_SIZE];
    int what = 0;

    *o = (options){.dtype = -1, .settle = -1};
    if (!option_table_parse(&delta_options, o, argc, argv, why) || o->command != COMMAND_RUN)
        return o->command != COMMAND_RUN;
    if (optind == argc)
        return explain(why, "which command? (--help lists them)");
    if (!parse_choice(argv[optind], names, &what, reason))
        return explain(why, "%s: there is no such command: %.1000s", argv[optind], reason);
    o->what = (delta_command)what;
    o->paths = argv + optind + 1;
    o->path_count = (size_t)(argc - optind - 1);
    if (o->path_count < wanted[what].least || o->path_count > wanted[what].most)
        return explain(why, "%s: %s (--help tells more)", names[what], wanted[what].what);
    o->threads = o->threads ? o->threads : count_cores();
    return check_options(o, why);
}
