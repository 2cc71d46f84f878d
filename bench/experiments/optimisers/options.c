/* SPDX-License-Identifier: MIT
 *
 * Reads the command line. Learning rates are those that README.md's grid found best for floats.
 */
#include "options.h"
#include "../../explain.h"
#include "exchange.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    float rate;
} optimisers[] = {[MOMENTUM] = {"momentum", 0.1f}, [RMSPROP] = {"rmsprop", 0.005f}, [ADAM] = {"adam", 0.005f}};

enum { OPTIMISERS = sizeof optimisers / sizeof *optimisers };

void options_print_help(FILE *f)
{
    fputs("optimisers [OPTION...]: trains 784-100-10 on images of digits, with compressed gradients or model changes\n"
          "  --data DIR         the four idx files of MNIST, .gz or not (default: drawn images)\n"
          "  --optimiser NAME   momentum, rmsprop or adam (default adam)\n"
          "  --rate X           learning rate (default: the best one for floats)\n"
          "  --codec CODEC      a codec of libthreelc, or none for training without it (default 3lc)\n"
          "  --send WHAT        gradients, or changes of the model (default gradients)\n"
          "  --local-steps K    with changes: send once in K steps (default 1)\n"
          "  --warmup K         send the first K steps as raw (default 0)\n"
          "  --steps N          (default 3000)\n"
          "  --batch N          images of a worker in a step (default 16)\n"
          "  --workers N        1 to 16 (default 2)\n"
          "  --seed N           of model, order, codecs and drawn images (default 1)\n",
          f);
}

static bool take_number(const char *text, size_t least, size_t most, size_t *number)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || *text < '0' || *text > '9' || *end || value < least || value > most)
        return false;
    *number = (size_t)value;
    return true;
}

static bool take_optimiser(training_options *t, const char *text)
{
    for (int i = 0; i < OPTIMISERS; i++)
        if (!strcmp(text, optimisers[i].name)) {
            t->optimiser = (optimiser_kind)i;
            return true;
        }
    return false;
}

static bool take_rate(training_options *t, const char *text)
{
    char *end;

    t->rate = strtof(text, &end);
    return *text && !*end && isfinite(t->rate) && t->rate > 0;
}

static bool take_sent(training_options *t, const char *text)
{
    t->sent = strcmp(text, "changes") ? SEND_GRADIENTS : SEND_CHANGES;
    return !strcmp(text, "changes") || !strcmp(text, "gradients");
}

static bool take(options *o, int key, const char *text)
{
    training_options *t = &o->training;
    size_t seed = 0;
    bool ok;

    switch (key) {
    case 'd': o->data = text; return true;
    case 'o': return take_optimiser(t, text);
    case 'r': return take_rate(t, text);
    case 'c': t->codec = strcmp(text, "none") ? text : NULL; return true;
    case 'm': return take_sent(t, text);
    case 'k': return take_number(text, 1, 1000, &t->local_steps);
    case 'u': return take_number(text, 0, 1000000, &t->warmup);
    case 'n': return take_number(text, 1, 1000000, &t->steps);
    case 'b': return take_number(text, 1, 1000, &t->batch);
    case 'w': return take_number(text, 1, MOST_WORKERS, &t->workers);
    case 's':
        ok = take_number(text, 0, SIZE_MAX, &seed);
        t->seed = seed;
        return ok;
    default: o->help = true; return true;
    }
}

static bool check(const training_options *t, char *why)
{
    char message[1024];

    if (t->codec && tlc_codec_check(t->codec, message, sizeof message))
        return explain(why, "--codec %s: %s", t->codec, message);
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
    static const struct option longs[] = {{"data", required_argument, NULL, 'd'},
                                          {"optimiser", required_argument, NULL, 'o'},
                                          {"rate", required_argument, NULL, 'r'},
                                          {"codec", required_argument, NULL, 'c'},
                                          {"send", required_argument, NULL, 'm'},
                                          {"local-steps", required_argument, NULL, 'k'},
                                          {"warmup", required_argument, NULL, 'u'},
                                          {"steps", required_argument, NULL, 'n'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"workers", required_argument, NULL, 'w'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int key, at;

    *o = (options){.training = {.optimiser = ADAM,
                                .codec = "3lc",
                                .sent = SEND_GRADIENTS,
                                .local_steps = 1,
                                .steps = 3000,
                                .batch = 16,
                                .workers = 2,
                                .seed = 1}};
    opterr = 0;
    while ((key = getopt_long(argc, argv, "h", longs, &at)) != -1) {
        if (key == '?')
            return explain(why, "%s: there is no such option, or its value is missing", argv[optind - 1]);
        if (!take(o, key, optarg))
            return explain(why, "--%s %s: not one of its values (--help lists them)", longs[at].name, optarg);
    }
    if (optind < argc)
        return explain(why, "%s: there are only options", argv[optind]);
    if (o->training.rate == 0)
        o->training.rate = optimisers[o->training.optimiser].rate;
    return check(&o->training, why);
}
