/* SPDX-License-Identifier: MIT */
#include "train_options.h"
#include "../lib/codecs.h"
#include "../lib/common_options.h"
#include "../lib/explain.h"
#include "../lib/parse.h"
#include <stdlib.h>
#include <string.h>

#define OPTIONS train_options

/* ---- values of options ------------------------------------------------------------------------------------------- */

static const char *const models[] = {[CLASSIFIER_MLP] = "mlp", [CLASSIFIER_LENET5] = "lenet5", NULL};
static const char *const kinds[] = {[SYNC_MPI] = "mpi",
                                    [SYNC_ALL_REDUCE] = "all-reduce",
                                    [SYNC_GATHER] = "gather",
                                    [SYNC_SERVER] = "server",
                                    [SYNC_GOSSIP] = "gossip",
                                    [SYNC_OWNERS] = "owners",
                                    NULL};
static const char *const graphs[] =
    {[TLC_GRAPH_RING] = "ring", [TLC_GRAPH_TORUS] = "torus", [TLC_GRAPH_COMPLETE] = "complete", NULL};
static const char *const algorithms[] = {[TLC_GOSSIP_DCD] = "dcd", [TLC_GOSSIP_ECD] = "ecd", NULL};
static const char *const sends[] = {"gradients", "changes", NULL};
static const char *const optimisers[] = {[MOMENTUM] = "momentum", [RMSPROP] = "rmsprop", [ADAM] = "adam", NULL};
static const char *const decays[] = {"linear", "constant", NULL};

/* server:2 and gossip:ring have something after the name. */
static bool take_kind(void *options, const char *text, char *why)
{
    train_options *o = options;
    char name[16], reason[WHY_SIZE] = "nothing comes here";
    const size_t length = strcspn(text, ":");
    const char *more = text[length] ? text + length + 1 : NULL;
    uint64_t servers = 1;
    int kind, graph = TLC_GRAPH_RING;

    snprintf(name, sizeof name, "%.*s", (int)length, text);
    if (!parse_choice(name, kinds, &kind, why))
        return false;
    if (more && !(kind == SYNC_SERVER   ? parse_number(more, 1, 1 << 20, &servers, reason)
                  : kind == SYNC_GOSSIP ? parse_choice(more, graphs, &graph, reason)
                                        : false))
        return explain(why, "after the colon, %.4000s", reason);
    o->kind = text;
    o->sync.kind = (sync_kind)kind;
    o->sync.servers = kind == SYNC_SERVER ? (uint32_t)servers : 0;
    o->sync.graph = (tlc_graph_kind)graph;
    return true;
}

static bool take_correction(void *options, const char *text, char *why)
{
    float *momentum = &((train_options *)options)->correction;
    double number;

    if (!parse_positive(text, &number, why))
        return false;
    *momentum = strtof(text, NULL);
    return (*momentum > 0 && *momentum < 1) || explain(why, "it is above 0 and below 1");
}

static bool take_algorithm(void *options, const char *text, char *why)
{
    train_options *o = options;
    int choice = 0;

    o->has_algorithm = parse_choice(text, algorithms, &choice, why);
    o->sync.algorithm = (tlc_gossip_kind)choice;
    return o->has_algorithm;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const option_entry entries[] = {
    {0, "data", "DIR", "the four idx files of MNIST, .gz or not (default: drawn images)", OPTION_AT(PATH, data)},
    {0, "model", "NAME", "mlp or lenet5 (default lenet5)", OPTION_OF(CHOICE, model, models)},
    {0, "kind", "KIND",
     "all-reduce, owners (an all-reduce with the optimiser of each part at\n"
     "its owner), gather, server or server:S (the last S ranks are\n"
     "servers, too), gossip or gossip:GRAPH (ring, torus, complete), or\n"
     "mpi: MPI_Allreduce of floats, without the library (default\n"
     "all-reduce)",
     OPTION_BY(take_kind)},
    {0, "algorithm", "NAME", "of gossip: dcd or ecd (default dcd)", OPTION_BY(take_algorithm)},
    {'c', "codec", "CODEC", "of what ranks send (default 3lc; of gossip qsgd:bits=8)", OPTION_AT(TEXT, sync.push)},
    {0, "pull", "CODEC", "of the results (default: one that keeps up with --codec)", OPTION_AT(TEXT, sync.pull)},
    {0, "send", "WHAT", "gradients, or changes of the model (default gradients)", OPTION_OF(SWITCH, changes, sends)},
    {0, "mask-momentum", NULL, "with changes: no momentum for values that were sent", OPTION_AT(FLAG, mask)},
    {0, "momentum-correction", "M",
     "with gradients: each rank sends them with momentum M, and has none for\n"
     "values that were sent; the optimiser has none",
     OPTION_BY(take_correction)},
    {0, "layers", NULL, "send each layer as soon as its gradient is known", OPTION_AT(FLAG, sync.layers)},
    {0, "optimiser", "NAME", "momentum, rmsprop or adam (default momentum)", OPTION_OF(CHOICE, optimiser, optimisers)},
    {0, "rate", "X", "learning rate (default 0.05; of rmsprop and adam 0.001)", OPTION_AT(FLOAT, rate)},
    {0, "decay", "NAME", "of the rate: linear to 0, or constant (default linear)", OPTION_OF(SWITCH, constant, decays)},
    {0, "rate-warmup", "N", "in the first N steps the rate rises linearly (default 0)",
     OPTION_IN(SIZE, rate_warmup, 0, 1 << 30)},
    {0, "warmup", "N", "send the first N steps as raw (default 0)", OPTION_IN(SIZE, warmup, 0, 1 << 30)},
    {0, "flush", NULL, "at the end send what residuals hold, as raw", OPTION_AT(FLAG, flush)},
    {0, "batch", "N", "images of a rank in a step (default 32)", OPTION_IN(COUNT, batch, 1, 1 << 16)},
    {0, "steps", "N", "steps of a rank (default 1000); with a constant rate a run that is\nresumed may have more",
     OPTION_IN(COUNT, steps, 1, 1 << 30)},
    {0, "local-steps", "N", "send once in N steps (default 1)", OPTION_IN(COUNT, local_steps, 1, 1 << 30)},
    {0, "participants", "N", "N ranks take part in a round (default: all)", OPTION_IN(COUNT, participants, 1, 1 << 20)},
    {0, "non-iid", "N", "the images of a rank are of N classes (default: of all)",
     OPTION_IN(COUNT, classes, 1, CLASSES)},
    {0, "seed", "N", "of model, images, rounds and codecs (default 1)", OPTION_AT(SEED, seed)},
    {0, "checkpoint", "DIR", "write checkpoints here", OPTION_AT(PATH, checkpoint)},
    {0, "every", "N", "steps from one to the next (default 100)", OPTION_IN(COUNT, every, 1, 1 << 30)},
    {0, "resume", NULL, "go on from the last one, with any number of ranks", OPTION_AT(FLAG, resume)},
    {0, "csv", "FILE", "write a line with the result here", OPTION_AT(PATH, csv)},
    ENTRY_LIST,
    {'q', "quiet", NULL, "print nothing on the way", OPTION_AT(FLAG, quiet)},
    ENTRY_HELP,
    ENTRY_VERSION,
};

const option_table train_options_table = {
    .usage = "usage: mpirun -n RANKS tlc-mpi-train [OPTION]...\n"
             "\n"
             "Trains a model on images of digits, each rank with its own images. What ranks send is compressed by\n"
             "libthreelc.\n"
             "\n",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .notes =
        "\n"
        "loss      mean of the batches of all ranks since the line before\n"
        "accuracy  percent of the test images\n"
        "sent      bytes that a rank has sent to others, the mean over ranks, and how many times less than floats\n"
        "codec     seconds in the codecs, wait: for others; all times are of the busiest rank\n"
        "\n"
        "Exit status: 0 on success, 1 if the training or the output fails, 2 for bad files or options.\n",
    .no_files = "there are options only",
};

/* ---- what goes together ------------------------------------------------------------------------------------------ */

/* Momentum correction is of gradients and of momentum, where something is kept back. */
static bool check_correction(const train_options *o, char *why)
{
    const sync_kind kind = o->sync.kind;

    if (kind == SYNC_MPI || kind == SYNC_GOSSIP)
        return explain(why, "--momentum-correction goes without --kind %s, which %s", o->kind,
                       kind == SYNC_MPI ? "sends all values" : "has no residuals");
    if (o->changes)
        return explain(why, "--momentum-correction goes without --send changes, whose optimisers have the momentum: "
                            "--mask-momentum clears it");
    return o->optimiser == MOMENTUM ||
           explain(why, "--momentum-correction goes with --optimiser momentum, whose momentum ranks then have");
}

/* Options that would have no effect. */
static bool check_effects(const train_options *o, char *why)
{
    const sync_options *s = &o->sync;

    if (s->kind == SYNC_MPI && (s->push || s->pull))
        return explain(why, "--%s goes without --kind mpi, which sends floats", s->push ? "codec" : "pull");
    if (s->kind == SYNC_MPI && o->mask)
        return explain(why, "--mask-momentum goes without --kind mpi, which sends all values");
    if (o->optimiser == RMSPROP && o->mask)
        return explain(why, "--mask-momentum goes without --optimiser rmsprop, which has no momentum");
    if ((s->kind == SYNC_MPI || s->kind == SYNC_GOSSIP) && (o->warmup || o->flush))
        return explain(why, "--%s goes without --kind %s, which %s", o->warmup ? "warmup" : "flush", o->kind,
                       s->kind == SYNC_MPI ? "sends floats" : "has no residuals");
    if (o->correction > 0 && !check_correction(o, why))
        return false;
    if (s->kind == SYNC_GATHER && s->pull)
        return explain(why, "--pull goes without --kind gather, where all ranks compute the results");
    if (s->kind != SYNC_GOSSIP && o->has_algorithm)
        return explain(why, "--algorithm goes with --kind gossip");
    return !o->every || o->checkpoint || explain(why, "--every goes with --checkpoint");
}

static bool check(const train_options *o, int ranks, char *why)
{
    const sync_options *s = &o->sync;

    if (!codec_check("--codec", s->push, NULL, why) || (s->pull && !codec_check("--pull", s->pull, NULL, why)))
        return false;
    if (o->correction > 0 && !codec_has_residual(s->push, -1))
        return explain(why, "--momentum-correction goes without --codec %s, which keeps nothing back", s->push);
    if (s->kind == SYNC_SERVER && s->servers > (uint32_t)ranks)
        return explain(why, "--kind %s: there are %d ranks", o->kind, ranks);
    if (o->participants > (size_t)ranks)
        return explain(why, "--participants %zu: there are %d ranks", o->participants, ranks);
    if (s->kind == SYNC_GOSSIP && (o->changes || o->participants || s->pull || o->local_steps > 1))
        return explain(why, "gossip goes without --send changes, --participants, --local-steps and --pull");
    if (s->kind == SYNC_GOSSIP && !codec_suits_gossip(s->push))
        return explain(why, "--kind %s: it needs a codec without bias and error feedback, as qsgd:bits=8", o->kind);
    if (s->kind == SYNC_OWNERS && o->changes)
        return explain(why, "--kind owners goes without --send changes, which have been through an optimiser");
    if (s->layers && s->kind != SYNC_ALL_REDUCE && s->kind != SYNC_GATHER && s->kind != SYNC_OWNERS)
        return explain(why, "--layers goes with all-reduce, owners and gather");
    if (s->layers && o->local_steps > 1)
        return explain(why, "--layers goes without --local-steps, which add up gradients of all layers");
    if (!o->changes && o->mask)
        return explain(why, "--mask-momentum goes with --send changes");
    if (o->steps % o->local_steps || o->every % o->local_steps || o->warmup % o->local_steps)
        return explain(why, "--steps, --every and --warmup must be multiples of --local-steps %zu", o->local_steps);
    if (o->resume && !o->checkpoint)
        return explain(why, "--resume: from which --checkpoint?");
    return true;
}

bool train_options_parse(train_options *o, int argc, char **argv, int ranks, char *why)
{
    *o = (train_options){.command = COMMAND_RUN,
                         .model = CLASSIFIER_LENET5,
                         .sync = {.kind = SYNC_ALL_REDUCE},
                         .kind = "all-reduce",
                         .batch = 32,
                         .steps = 1000,
                         .local_steps = 1,
                         .seed = 1};
    if (!option_table_parse(&train_options_table, o, argc, argv, why))
        return false;
    if (o->command != COMMAND_RUN)
        return true;
    if (!check_effects(o, why))
        return false;
    if (!o->sync.push)
        o->sync.push = o->sync.kind == SYNC_GOSSIP ? "qsgd:bits=8" : o->sync.kind == SYNC_MPI ? "raw" : "3lc";
    if (!(o->rate > 0))
        o->rate = o->optimiser == MOMENTUM ? 0.05f : 0.001f;
    if (!o->every)
        o->every = o->local_steps > 100 ? o->local_steps : 100 / o->local_steps * o->local_steps;
    o->sync.seed = o->seed;
    return check(o, ranks, why);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

bool train_kind(uint64_t kind, uint64_t graph, char *text)
{
    if (kind > SYNC_OWNERS || graph > TLC_GRAPH_COMPLETE)
        return false;
    if (kind == SYNC_GOSSIP)
        snprintf(text, KIND_SIZE, "gossip:%s", graphs[graph]);
    else
        snprintf(text, KIND_SIZE, "%s", kinds[kind]);
    return true;
}

const char train_settings_names[] = "model,algorithm,codec,pull,layers,send,mask,momentum_correction,optimiser,"
                                    "rate,decay,rate_warmup,warmup,flush,batch,local_steps,participants,classes,seed";

void train_settings(const train_options *o, char *text)
{
    const bool gossip = o->sync.kind == SYNC_GOSSIP;

    snprintf(text, SETTINGS_SIZE, "%s,%s,\"%s\",\"%s\",%d,%s,%d,%g,%s,%g,%s,%zu,%zu,%d,%zu,%zu,%zu,%zu,%llu",
             models[o->model], gossip ? algorithms[o->sync.algorithm] : "", o->sync.push,
             o->sync.pull ? o->sync.pull : "", o->sync.layers, sends[o->changes], o->mask, (double)o->correction,
             optimisers[o->optimiser], (double)o->rate, decays[o->constant], o->rate_warmup, o->warmup, o->flush,
             o->batch, o->local_steps, o->participants, o->classes, (unsigned long long)o->seed);
}

/* The options that the columns stand for, and how a column says that its option was not given; NULL: it always has a
 * value. */
static const struct {
    const char *option, *absent;
    bool flag; /* it takes no value */
} columns[] = {
    {"model", NULL, false},       {"algorithm", "", false},
    {"codec", NULL, false},       {"pull", "", false},
    {"layers", "0", true},        {"send", NULL, false},
    {"mask-momentum", "0", true}, {"momentum-correction", "0", false},
    {"optimiser", NULL, false},   {"rate", NULL, false},
    {"decay", NULL, false},       {"rate-warmup", "0", false},
    {"warmup", "0", false},       {"flush", "0", true},
    {"batch", NULL, false},       {"local-steps", NULL, false},
    {"participants", "0", false}, {"non-iid", "0", false},
    {"seed", NULL, false},
};

/* A column, without quotes. *at: moves past it. */
static void cut_column(const char **at, char *value, size_t size)
{
    const bool quoted = **at == '"';
    const char *start = *at + quoted;
    const size_t len = strcspn(start, quoted ? "\"" : ",");

    snprintf(value, size, "%.*s", (int)len, start);
    *at = start + len;
    *at += quoted && **at;
    *at += **at == ',';
}

static void describe(size_t column, const char *value, char *text, size_t size)
{
    const char *option = columns[column].option, *absent = columns[column].absent;

    if (absent && !strcmp(value, absent))
        snprintf(text, size, "without --%s", option);
    else
        snprintf(text, size, "with --%s%s%s", option, columns[column].flag ? "" : " ",
                 columns[column].flag ? "" : value);
}

void train_settings_compare(const char *theirs, const char *ours, char *text)
{
    char a[SETTINGS_SIZE], b[SETTINGS_SIZE], first[SETTINGS_SIZE + 32], second[SETTINGS_SIZE + 32];

    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        cut_column(&theirs, a, sizeof a);
        cut_column(&ours, b, sizeof b);
        if (strcmp(a, b) != 0) {
            describe(i, a, first, sizeof first);
            describe(i, b, second, sizeof second);
            snprintf(text, WHY_SIZE, "%s, this one %s", first, second);
            return;
        }
    }
    snprintf(text, WHY_SIZE, "of another version");
}
