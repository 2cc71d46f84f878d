/* SPDX-License-Identifier: MIT */
#include "train_options.h"
#include "../lib/codecs.h"
#include "../lib/common_options.h"
#include "../lib/explain.h"
#include "../lib/parse.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { /* of its own options without a letter */
       KEY_DATA = OWN_KEY,
       KEY_MODEL,
       KEY_KIND,
       KEY_ALGORITHM,
       KEY_PULL,
       KEY_SEND,
       KEY_MASK,
       KEY_CORRECTION,
       KEY_LAYERS,
       KEY_OPTIMISER,
       KEY_RATE,
       KEY_DECAY,
       KEY_RATE_WARMUP,
       KEY_FLUSH,
       KEY_BATCH,
       KEY_LOCAL_STEPS,
       KEY_PARTICIPANTS,
       KEY_NON_IID,
       KEY_CHECKPOINT,
       KEY_EVERY,
       KEY_RESUME,
       KEY_CSV
};

static const option_entry entries[] = {
    {KEY_DATA, "data", "DIR", "the four idx files of MNIST, .gz or not (default: drawn images)"},
    {KEY_MODEL, "model", "NAME", "mlp or lenet5 (default lenet5)"},
    {KEY_KIND, "kind", "KIND",
     "all-reduce, owners (an all-reduce with the optimiser of each part at\n"
     "its owner), gather, server or server:S (the last S ranks are\n"
     "servers, too), gossip or gossip:GRAPH (ring, torus, complete), or\n"
     "mpi: MPI_Allreduce of floats, without the library (default\n"
     "all-reduce)"},
    {KEY_ALGORITHM, "algorithm", "NAME", "of gossip: dcd or ecd (default dcd)"},
    {'c', "codec", "CODEC", "of what ranks send (default 3lc; of gossip qsgd:bits=8)"},
    {KEY_PULL, "pull", "CODEC", "of the results (default: one that keeps up with --codec)"},
    {KEY_SEND, "send", "WHAT", "gradients, or changes of the model (default gradients)"},
    {KEY_MASK, "mask-momentum", NULL, "with changes: no momentum for values that were sent"},
    {KEY_CORRECTION, "momentum-correction", "M",
     "with gradients: each rank sends them with momentum M, and has none for\n"
     "values that were sent; the optimiser has none"},
    {KEY_LAYERS, "layers", NULL, "send each layer as soon as its gradient is known"},
    {KEY_OPTIMISER, "optimiser", "NAME", "momentum, rmsprop or adam (default momentum)"},
    {KEY_RATE, "rate", "X", "learning rate (default 0.05; of rmsprop and adam 0.001)"},
    {KEY_DECAY, "decay", "NAME", "of the rate: linear to 0, or constant (default linear)"},
    {KEY_RATE_WARMUP, "rate-warmup", "N", "in the first N steps the rate rises linearly (default 0)"},
    {KEY_WARMUP, "warmup", "N", "send the first N steps as raw (default 0)"},
    {KEY_FLUSH, "flush", NULL, "at the end send what residuals hold, as raw"},
    {KEY_BATCH, "batch", "N", "images of a rank in a step (default 32)"},
    {KEY_STEPS, "steps", "N",
     "steps of a rank (default 1000); with a constant rate a run that is\nresumed may have more"},
    {KEY_LOCAL_STEPS, "local-steps", "N", "send once in N steps (default 1)"},
    {KEY_PARTICIPANTS, "participants", "N", "so many ranks take part in a round (default: all)"},
    {KEY_NON_IID, "non-iid", "N", "the images of a rank are of N classes (default: of all)"},
    {KEY_SEED, "seed", "N", "of model, images, rounds and codecs (default 1)"},
    {KEY_CHECKPOINT, "checkpoint", "DIR", "write checkpoints here"},
    {KEY_EVERY, "every", "N", "steps from one to the next (default 100)"},
    {KEY_RESUME, "resume", NULL, "go on from the last one, with any number of ranks"},
    {KEY_CSV, "csv", "FILE", "write a line with the result here"},
    ENTRY_LIST,
    {'q', "quiet", NULL, "print nothing on the way"},
    ENTRY_HELP,
    ENTRY_VERSION,
};

static bool take(void *options, int key, const char *value, char *why);
static const option_table table = {entries, sizeof entries / sizeof entries[0], take};

void train_options_print_help(FILE *f)
{
    fputs("usage: mpirun -n RANKS tlc-mpi-train [OPTION]...\n"
          "\n"
          "Trains a model on images of digits, each rank with its own images. What ranks send is compressed by\n"
          "libthreelc.\n"
          "\n",
          f);
    option_table_print(f, &table);
    fputs("\n"
          "loss      mean of the batches of all ranks since the line before\n"
          "accuracy  percent of the test images\n"
          "sent      bytes that a rank has sent to others, the mean over ranks, and times as little as floats\n"
          "codec     seconds in the codecs, wait: for others; of the busiest rank, as all times\n"
          "\n"
          "Exit status: 0 on success, 1 if the training or the output fails, 2 for bad files or options.\n",
          f);
}

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

static bool take_count(const char *text, size_t most, size_t *count, char *why)
{
    uint64_t number;

    if (!parse_number(text, 1, most, &number, why))
        return false;
    *count = (size_t)number;
    return true;
}

/* server:2 and gossip:ring have something after the name. */
static bool take_kind(train_options *o, const char *text, char *why)
{
    char name[16], reason[WHY_SIZE] = "nothing comes here";
    const size_t length = strcspn(text, ":");
    const char *more = text[length] ? text + length + 1 : NULL;
    size_t servers = 1;
    int kind, graph = TLC_GRAPH_RING;

    snprintf(name, sizeof name, "%.*s", (int)length, text);
    if (!parse_choice(name, kinds, &kind, why))
        return false;
    if (more && !(kind == SYNC_SERVER   ? take_count(more, 1 << 20, &servers, reason)
                  : kind == SYNC_GOSSIP ? parse_choice(more, graphs, &graph, reason)
                                        : false))
        return explain(why, "after the colon, %.4000s", reason);
    o->kind = text;
    o->sync.kind = (sync_kind)kind;
    o->sync.servers = kind == SYNC_SERVER ? (uint32_t)servers : 0;
    o->sync.graph = (tlc_graph_kind)graph;
    return true;
}

static bool take_rate(const char *text, float *rate, char *why)
{
    double number;

    if (!parse_positive(text, &number, why))
        return false;
    *rate = strtof(text, NULL);
    return (isfinite(*rate) && *rate > 0) || explain(why, "it is a number above 0 that a float can hold");
}

static bool take_correction(const char *text, float *momentum, char *why)
{
    double number;

    if (!parse_positive(text, &number, why))
        return false;
    *momentum = strtof(text, NULL);
    return (*momentum > 0 && *momentum < 1) || explain(why, "it is above 0 and below 1");
}

/* Those that choose a name. */
static bool take_choice(train_options *o, int key, const char *value, char *why)
{
    int choice = 0;
    bool ok;

    switch (key) {
    case KEY_MODEL:
        ok = parse_choice(value, models, &choice, why);
        o->model = (classifier_kind)choice;
        return ok;
    case KEY_ALGORITHM:
        ok = parse_choice(value, algorithms, &choice, why);
        o->sync.algorithm = (tlc_gossip_kind)choice;
        o->has_algorithm = true;
        return ok;
    case KEY_SEND:
        ok = parse_choice(value, sends, &choice, why);
        o->changes = choice;
        return ok;
    case KEY_OPTIMISER:
        ok = parse_choice(value, optimisers, &choice, why);
        o->optimiser = (optimiser_kind)choice;
        return ok;
    default:
        ok = parse_choice(value, decays, &choice, why);
        o->constant = choice;
        return ok;
    }
}

static bool take(void *options, int key, const char *value, char *why)
{
    train_options *o = options;
    const common_options common = {.command = &o->command, .quiet = &o->quiet};

    switch (key) {
    case KEY_DATA: o->data = value; return true;
    case KEY_KIND: return take_kind(o, value, why);
    case 'c': o->sync.push = value; return true;
    case KEY_PULL: o->sync.pull = value; return true;
    case KEY_MASK: o->mask = true; return true;
    case KEY_CORRECTION: return take_correction(value, &o->correction, why);
    case KEY_LAYERS: o->sync.layers = true; return true;
    case KEY_RATE: return take_rate(value, &o->rate, why);
    case KEY_RATE_WARMUP: return parse_size(value, 0, 1 << 30, &o->rate_warmup, why);
    case KEY_WARMUP: return parse_size(value, 0, 1 << 30, &o->warmup, why);
    case KEY_FLUSH: o->flush = true; return true;
    case KEY_BATCH: return take_count(value, 1 << 16, &o->batch, why);
    case KEY_STEPS: return take_count(value, 1 << 30, &o->steps, why);
    case KEY_LOCAL_STEPS: return take_count(value, 1 << 30, &o->local_steps, why);
    case KEY_PARTICIPANTS: return take_count(value, 1 << 20, &o->participants, why);
    case KEY_NON_IID: return take_count(value, CLASSES, &o->classes, why);
    case KEY_SEED: return parse_number(value, 0, UINT64_MAX, &o->seed, why);
    case KEY_CHECKPOINT: o->checkpoint = value; return true;
    case KEY_EVERY: return take_count(value, 1 << 30, &o->every, why);
    case KEY_RESUME: o->resume = true; return true;
    case KEY_CSV: o->csv = value; return true;
    case KEY_MODEL:
    case KEY_ALGORITHM:
    case KEY_SEND:
    case KEY_OPTIMISER:
    case KEY_DECAY: return take_choice(o, key, value, why);
    default: return common_options_take(&common, key, value, why);
    }
}

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
    int files;

    *o = (train_options){.command = COMMAND_RUN,
                         .model = CLASSIFIER_LENET5,
                         .sync = {.kind = SYNC_ALL_REDUCE},
                         .kind = "all-reduce",
                         .batch = 32,
                         .steps = 1000,
                         .local_steps = 1,
                         .seed = 1};
    if (!option_table_parse(&table, o, argc, argv, &files, why))
        return false;
    if (o->command != COMMAND_RUN)
        return true;
    if (files < argc)
        return explain(why, "%s: there are options only", argv[files]);
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

/* A column, without quotes. *at: moves behind it. */
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
