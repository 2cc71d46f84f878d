/* SPDX-License-Identifier: MIT
 *
 * Reads the command line. Learning rates are those that README.md's grid found best for floats.
 */
#include "options.h"
#include "../../lib/explain.h"
#include "../../lib/option_table.h"
#include "../../lib/parse.h"
#include "exchange.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    float rate;
} optimisers[] = {[MOMENTUM] = {"momentum", 0.1f}, [RMSPROP] = {"rmsprop", 0.005f}, [ADAM] = {"adam", 0.005f}};

enum { OPTIMISERS = sizeof optimisers / sizeof *optimisers };

enum { /* of options without a letter */
       KEY_DATA = OPTION_KEY,
       KEY_OPTIMISER,
       KEY_RATE,
       KEY_SEND,
       KEY_ANSWER,
       KEY_LOCAL_STEPS,
       KEY_WARMUP,
       KEY_RATE_WARMUP,
       KEY_STEPS,
       KEY_BATCH,
       KEY_WORKERS,
       KEY_SEED
};

static const option_entry entries[] = {
    {KEY_DATA, "data", "DIR", "the four idx files of MNIST, .gz or not (default: drawn images)"},
    {KEY_OPTIMISER, "optimiser", "NAME", "momentum, rmsprop or adam (default adam)"},
    {KEY_RATE, "rate", "X", "learning rate (default: the best one for floats)"},
    {'c', "codec", "CODEC", "a codec, or none: training without the library (default 3lc)"},
    {KEY_SEND, "send", "WHAT", "gradients, or changes of the model (default gradients)"},
    {KEY_ANSWER, "answer", "WHAT",
     "to gradients: floats, or means or changes of the model, compressed (default floats)"},
    {KEY_LOCAL_STEPS, "local-steps", "K", "with changes: send once in K steps, 1 to 1000 (default 1)"},
    {KEY_WARMUP, "warmup", "K", "send the first K steps as raw (default 0)"},
    {KEY_RATE_WARMUP, "rate-warmup", "K", "in the first K steps the rate rises linearly (default 0)"},
    {KEY_STEPS, "steps", "N", "1 to 1000000 (default 3000)"},
    {KEY_BATCH, "batch", "N", "images of a worker in a step, 1 to 1000 (default 16)"},
    {KEY_WORKERS, "workers", "N", "1 to 16 (default 2)"},
    {KEY_SEED, "seed", "N", "of model, order, codecs and drawn images (default 1)"},
    {'h', "help", NULL, "print this and exit"},
};

static bool take(void *options_, int key, const char *value, char *why);
static const option_table table = {entries, sizeof entries / sizeof entries[0], take};

void options_print_help(FILE *f)
{
    fputs("usage: optimisers [OPTION]...\n"
          "\n"
          "Trains 784-100-10 on images of digits, with compressed gradients or changes of the model.\n"
          "\n",
          f);
    option_table_print(f, &table);
}

static bool take_optimiser(training_options *t, const char *text, char *why)
{
    const char *names[OPTIMISERS + 1] = {NULL};
    int choice;

    for (int i = 0; i < OPTIMISERS; i++)
        names[i] = optimisers[i].name;
    if (!parse_choice(text, names, &choice, why))
        return false;
    t->optimiser = (optimiser_kind)choice;
    return true;
}

static bool take_rate(training_options *t, const char *text, char *why)
{
    double rate;

    if (!parse_positive(text, &rate, why))
        return false;
    t->rate = strtof(text, NULL);
    return (isfinite(t->rate) && t->rate > 0) || explain(why, "it is a number above 0 that a float can hold");
}

static bool take_sent(training_options *t, const char *text, char *why)
{
    static const char *const names[] = {"gradients", "changes", NULL};
    int choice;

    if (!parse_choice(text, names, &choice, why))
        return false;
    t->sent = choice ? SEND_CHANGES : SEND_GRADIENTS;
    return true;
}

static bool take_answer(training_options *t, const char *text, char *why)
{
    static const char *const names[] =
        {[ANSWER_FLOATS] = "floats", [ANSWER_MEANS] = "means", [ANSWER_CHANGES] = "changes", NULL};
    int choice;

    if (!parse_choice(text, names, &choice, why))
        return false;
    t->answer = (answer_kind)choice;
    return true;
}

static bool take(void *options_, int key, const char *value, char *why)
{
    options *o = options_;
    training_options *t = &o->training;

    switch (key) {
    case KEY_DATA: o->data = value; return true;
    case KEY_OPTIMISER: return take_optimiser(t, value, why);
    case KEY_RATE: return take_rate(t, value, why);
    case 'c': t->codec = strcmp(value, "none") ? value : NULL; return true;
    case KEY_SEND: return take_sent(t, value, why);
    case KEY_ANSWER: return take_answer(t, value, why);
    case KEY_LOCAL_STEPS: return parse_size(value, 1, 1000, &t->local_steps, why);
    case KEY_WARMUP: return parse_size(value, 0, 1000000, &t->warmup, why);
    case KEY_RATE_WARMUP: return parse_size(value, 0, 1000000, &t->rate_warmup, why);
    case KEY_STEPS: return parse_size(value, 1, 1000000, &t->steps, why);
    case KEY_BATCH: return parse_size(value, 1, 1000, &t->batch, why);
    case KEY_WORKERS: return parse_size(value, 1, MOST_WORKERS, &t->workers, why);
    case KEY_SEED: return parse_number(value, 0, UINT64_MAX, &t->seed, why);
    default: o->help = true; return true;
    }
}

static bool check(const training_options *t, char *why)
{
    char message[1024];

    if (t->codec && tlc_codec_check(t->codec, message, sizeof message))
        return explain(why, "--codec %s: %s", t->codec, message);
    if (t->answer != ANSWER_FLOATS && (t->sent == SEND_CHANGES || !t->codec))
        return explain(why, "--answer goes with --send gradients, and with a codec");
    if (t->sent == SEND_GRADIENTS && t->local_steps > 1)
        return explain(why, "--local-steps goes with --send changes");
    if (t->steps % t->local_steps)
        return explain(why, "--steps %zu: not a multiple of --local-steps %zu", t->steps, t->local_steps);
    if (t->warmup % t->local_steps)
        return explain(why, "--warmup %zu: not a multiple of --local-steps %zu", t->warmup, t->local_steps);
    return true;
}

bool options_parse(options *o, int argc, char **argv, char *why)
{
    int files;

    *o = (options){.training = {.optimiser = ADAM,
                                .codec = "3lc",
                                .sent = SEND_GRADIENTS,
                                .local_steps = 1,
                                .steps = 3000,
                                .batch = 16,
                                .workers = 2,
                                .seed = 1}};
    if (!option_table_parse(&table, o, argc, argv, &files, why))
        return false;
    if (files < argc && !o->help)
        return explain(why, "%s: there are only options", argv[files]);
    if (o->training.rate == 0)
        o->training.rate = optimisers[o->training.optimiser].rate;
    return check(&o->training, why);
}
