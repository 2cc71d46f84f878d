/* SPDX-License-Identifier: MIT
 *
 * An experiment: does a loop of training starve? A convex problem tells it in a second. The loss is the mean over i of
 * curvature[i] x[i]^2 / 2, the curvatures go from 0.05 to 1.05, the gradients of all ranks have noise of their own, and
 * the rate of the optimiser, which has momentum 0.9, falls linearly to 0.
 */
#include "../../lib/explain.h"
#include "../../lib/option_table.h"
#include "../../lib/parse.h"
#include "../../train/random.h"
#include "loop.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct options {
    loop_options loop;
    size_t steps;
    double rate, noise;
    bool help;
} options;

/* ---- the command line -------------------------------------------------------------------------------------------- */

enum { /* of options without a letter */
       KEY_LOOP = OPTION_KEY,
       KEY_PULL,
       KEY_RANKS,
       KEY_VALUES,
       KEY_STEPS,
       KEY_RATE,
       KEY_NOISE,
       KEY_SEED
};

static const option_entry entries[] = {
    {KEY_LOOP, "loop", "NAME",
     "means (an all-reduce of gradients), gather (without answers), or\n"
     "deltas (the optimiser at the owners; default means)"},
    {'c', "codec", "CODEC", "of pushes (default 3lc)"},
    {KEY_PULL, "pull", "CODEC", "of answers (default: that of the library)"},
    {KEY_RANKS, "ranks", "N", "1 to 64 (default 4)"},
    {KEY_VALUES, "values", "N", "of the model (default 20000)"},
    {KEY_STEPS, "steps", "N", "default 600"},
    {KEY_RATE, "rate", "X", "learning rate of the first step (default 0.05)"},
    {KEY_NOISE, "noise", "X", "standard deviation, of each rank (default 0.2)"},
    {KEY_SEED, "seed", "N", "of the start, the noise and codecs (default 1)"},
    {'h', "help", NULL, "print this and exit"},
};

static const char *const kinds[] = {[LOOP_MEANS] = "means", [LOOP_GATHER] = "gather", [LOOP_DELTAS] = "deltas", NULL};

static bool take(void *options_, int key, const char *value, char *why)
{
    options *o = options_;
    int kind;

    switch (key) {
    case KEY_LOOP:
        if (!parse_choice(value, kinds, &kind, why))
            return false;
        o->loop.kind = (loop_kind)kind;
        return true;
    case 'c': o->loop.push = value; return true;
    case KEY_PULL: o->loop.pull = value; return true;
    case KEY_RANKS: return parse_size(value, 1, LOOP_RANKS_MAX, &o->loop.ranks, why);
    case KEY_VALUES: return parse_size(value, 1, 1 << 24, &o->loop.n, why);
    case KEY_STEPS: return parse_size(value, 1, 1 << 24, &o->steps, why);
    case KEY_RATE: return parse_positive(value, &o->rate, why);
    case KEY_NOISE: return parse_positive(value, &o->noise, why);
    case KEY_SEED: return parse_number(value, 0, UINT64_MAX, &o->loop.seed, why);
    default: o->help = true; return true;
    }
}

static const option_table table = {entries, sizeof entries / sizeof entries[0], take};

static bool parse(options *o, int argc, char **argv, char *why)
{
    int files;

    *o =
        (options){.loop = {.push = "3lc", .ranks = 4, .n = 20000, .seed = 1}, .steps = 600, .rate = 0.05, .noise = 0.2};
    if (!option_table_parse(&table, o, argc, argv, &files, why))
        return false;
    if (!o->help && files < argc)
        return explain(why, "%s: there are options only", argv[files]);
    if (o->loop.kind == LOOP_GATHER && o->loop.pull)
        return explain(why, "--pull goes without --loop gather, which has no answers");
    return true;
}

static void print_help(void)
{
    puts("usage: quadratic [OPTION]...\n"
         "\n"
         "Minimises a quadratic with compressed gradients. Prints the loss at the end; at half the steps the\n"
         "2-norm of residuals over that of what was compressed; and the bits of messages for each value and\n"
         "step: of the pushes of a rank, and of the answers.\n");
    option_table_print(stdout, &table);
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

typedef struct problem {
    const options *o;
    uint64_t random;
    float *model, *momentum;
    float *gradient[LOOP_RANKS_MAX];
    float rate; /* of this step */
} problem;

static float curvature(const problem *p, size_t i)
{
    return 0.05f + (float)i / (float)p->o->loop.n;
}

/* Mean 0, variance 1 (Box and Muller, 1958). */
static float normal(uint64_t *random)
{
    const double u = 1 - (double)random_unit(random), v = (double)random_unit(random);

    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

static bool open_problem(problem *p, const options *o, char *why)
{
    const size_t n = o->loop.n;
    bool ok;

    *p = (problem){.o = o,
                   .random = o->loop.seed,
                   .model = calloc(n, sizeof(float)),
                   .momentum = calloc(n, sizeof(float))};
    ok = p->model && p->momentum;
    for (size_t r = 0; ok && r < o->loop.ranks; r++)
        ok = (p->gradient[r] = calloc(n, sizeof(float))) != NULL;
    for (size_t i = 0; ok && i < n; i++)
        p->model[i] = normal(&p->random);
    return ok || explain(why, "out of memory");
}

static void close_problem(problem *p)
{
    free(p->model);
    free(p->momentum);
    for (size_t r = 0; r < p->o->loop.ranks; r++)
        free(p->gradient[r]);
}

static void draw_gradients(problem *p)
{
    for (size_t r = 0; r < p->o->loop.ranks; r++)
        for (size_t i = 0; i < p->o->loop.n; i++)
            p->gradient[r][i] = curvature(p, i) * p->model[i] + (float)p->o->noise * normal(&p->random);
}

static void update(void *arg, size_t first, size_t n, const float *mean, float *change)
{
    const problem *p = arg;
    float *momentum = p->momentum + first;

    for (size_t i = 0; i < n; i++) {
        momentum[i] = 0.9f * momentum[i] + mean[i];
        change[i] = -p->rate * momentum[i];
    }
}

static double loss(const problem *p)
{
    double sum = 0;

    for (size_t i = 0; i < p->o->loop.n; i++)
        sum += 0.5 * (double)curvature(p, i) * (double)p->model[i] * p->model[i];
    return sum / (double)p->o->loop.n;
}

/* ---- the training ------------------------------------------------------------------------------------------------ */

static bool train(problem *p, loop *l, loop_figures *half, char *why)
{
    const options *o = p->o;

    for (size_t step = 0; step < o->steps; step++) {
        draw_gradients(p);
        p->rate = (float)(o->rate * (1 - (double)step / (double)o->steps));
        if (!loop_step(l, (const float *const *)p->gradient, update, p, p->model, why))
            return false;
        if (step == o->steps / 2)
            *half = l->figures;
    }
    return true;
}

static bool run(const options *o, char *why)
{
    const double values = (double)o->steps * (double)o->loop.n;
    loop_figures half = {0, 0, 0, 0};
    problem p;
    loop l;
    bool ok = open_problem(&p, o, why);

    if (ok && loop_open(&l, &o->loop, why)) {
        ok = train(&p, &l, &half, why);
        if (ok)
            printf("loss %.3g\npush-residual %.2f\nanswer-residual %.2f\npush-bits %.3f\nanswer-bits %.3f\n", loss(&p),
                   half.push, half.answer, 8 * l.figures.push_bytes / values, 8 * l.figures.answer_bytes / values);
    } else {
        ok = false;
    }
    loop_close(&l);
    close_problem(&p);
    return ok;
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE];
    options o;
    bool ok = parse(&o, argc, argv, why);

    if (ok && o.help)
        print_help();
    else if (ok)
        ok = run(&o, why);
    if (!ok)
        fprintf(stderr, "quadratic: %s\n", why);
    else if (fflush(stdout))
        return 1;
    return ok ? 0 : 2;
}
