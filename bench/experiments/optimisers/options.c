/* SPDX-License-Identifier: MIT
 *
 * Reads the command line. Learning rates are those that README.md's grid found best for floats.
 */
#include "options.h"
#include "../../lib/common_options.h"
#include "../../lib/explain.h"
#include "exchange.h"
#include <string.h>

#define OPTIONS options

static const char *const optimisers[] = {[MOMENTUM] = "momentum", [RMSPROP] = "rmsprop", [ADAM] = "adam", NULL};
static const float rates[] = {[MOMENTUM] = 0.1f, [RMSPROP] = 0.005f, [ADAM] = 0.005f};
static const char *const sends[] = {[SEND_GRADIENTS] = "gradients", [SEND_CHANGES] = "changes", NULL};
static const char *const answers[] =
    {[ANSWER_FLOATS] = "floats", [ANSWER_MEANS] = "means", [ANSWER_CHANGES] = "changes", NULL};

static bool take_codec(void *o, const char *value, char *why)
{
    (void)why;
    ((options *)o)->training.codec = strcmp(value, "none") != 0 ? value : NULL;
    return true;
}

static const option_entry entries[] = {
    {0, "data", "DIR", "the four idx files of MNIST, .gz or not (default: drawn images)", OPTION_AT(PATH, data)},
    {0, "optimiser", "NAME", "momentum, rmsprop or adam (default adam)",
     OPTION_OF(CHOICE, training.optimiser, optimisers)},
    {0, "rate", "X", "learning rate (default: the best one for floats)", OPTION_AT(FLOAT, training.rate)},
    {'c', "codec", "CODEC", "a codec, or none: training without the library (default 3lc)", OPTION_BY(take_codec)},
    {0, "send", "WHAT", "gradients, or changes of the model (default gradients)",
     OPTION_OF(CHOICE, training.sent, sends)},
    {0, "answer", "WHAT", "to gradients: floats, or means or changes of the model, compressed (default floats)",
     OPTION_OF(CHOICE, training.answer, answers)},
    {0, "local-steps", "K", "with changes: send once in K steps, 1 to 1000 (default 1)",
     OPTION_IN(SIZE, training.local_steps, 1, 1000)},
    {0, "warmup", "K", "send the first K steps as raw (default 0)", OPTION_IN(SIZE, training.warmup, 0, 1000000)},
    {0, "rate-warmup", "K", "in the first K steps the rate rises linearly (default 0)",
     OPTION_IN(SIZE, training.rate_warmup, 0, 1000000)},
    {0, "steps", "N", "1 to 1000000 (default 3000)", OPTION_IN(SIZE, training.steps, 1, 1000000)},
    {0, "batch", "N", "images of a worker in a step, 1 to 1000 (default 16)", OPTION_IN(SIZE, training.batch, 1, 1000)},
    {0, "workers", "N", "1 to 16 (default 2)", OPTION_IN(SIZE, training.workers, 1, MOST_WORKERS)},
    {0, "seed", "N", "of model, order, codecs and drawn images (default 1)", OPTION_AT(SEED, training.seed)},
    ENTRY_HELP,
};

const option_table options_table = {
    .usage = "usage: optimisers [OPTION]...\n"
             "\n"
             "Trains 784-100-10 on images of digits, with compressed gradients or changes of the model.\n"
             "\n",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .notes = "",
    .no_files = "there are options only",
};

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
    *o = (options){.training = {.optimiser = ADAM,
                                .codec = "3lc",
                                .sent = SEND_GRADIENTS,
                                .local_steps = 1,
                                .steps = 3000,
                                .batch = 16,
                                .workers = 2,
                                .seed = 1}};
    if (!option_table_parse(&options_table, o, argc, argv, why))
        return false;
    if (o->training.rate == 0)
        o->training.rate = rates[o->training.optimiser];
    return check(&o->training, why);
}
