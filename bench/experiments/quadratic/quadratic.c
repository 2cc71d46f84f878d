/* SPDX-License-Identifier: MIT
 *
 * An experiment: does a loop of training starve? A convex problem tells it in a second. The loss is the mean over i of
 * curvature[i] x[i]^2 / 2, the curvatures go from 0.05 to 1.05, the gradients of all ranks have noise of their own, and
 * the rate of the optimiser, which has momentum 0.9, falls linearly to 0. With local steps every rank makes some
 * without momentum, and the mean of what they change is added to the model.
 */
#include "../../lib/common_options.h"
#include "../../lib/explain.h"
#include "../../train/random.h"
#include "loop.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What becomes of what a rank did not send in a round. */
typedef enum error_way {
    ERROR_RESET,    /* it stays in the rank's weights (CSER, section 3) */
    ERROR_FEEDBACK, /* it only joins the next change */
    ERROR_DEFAULT   /* --error was not given: as ERROR_RESET */
} error_way;

typedef struct options {
    loop_options loop;
    size_t steps, local_steps;
    double rate, noise;
    error_way error;
    command command;
} options;

/* ---- the command line -------------------------------------------------------------------------------------------- */

#define OPTIONS options

static const char *const kinds[] = {[LOOP_MEANS] = "means", [LOOP_GATHER] = "gather", [LOOP_DELTAS] = "deltas", NULL};

static const char *const error_ways[] = {[ERROR_RESET] = "reset", [ERROR_FEEDBACK] = "feedback", NULL};

static const option_entry entries[] = {
    {0, "loop", "NAME",
     "means (an all-reduce of gradients), gather (without answers), or\n"
     "deltas (the optimiser at the owners; default means)",
     OPTION_OF(CHOICE, loop.kind, kinds)},
    {'c', "codec", "CODEC", "of pushes (default 3lc)", OPTION_AT(TEXT, loop.push)},
    {0, "pull", "CODEC", "of answers (default: that of the library)", OPTION_AT(TEXT, loop.pull)},
    {0, "ranks", "N", "1 to 64 (default 4)", OPTION_IN(SIZE, loop.ranks, 1, LOOP_RANKS_MAX)},
    {0, "values", "N", "of the model (default 20000)", OPTION_IN(SIZE, loop.n, 1, 1 << 24)},
    {0, "steps", "N", "default 600", OPTION_IN(SIZE, steps, 1, 1 << 24)},
    {0, "local-steps", "N",
     "of each rank before an exchange of changes; --steps is a multiple of it\n"
     "(default 1: gradients are exchanged)",
     OPTION_IN(SIZE, local_steps, 1, 1 << 24)},
    {0, "error", "NAME",
     "with local steps, what was not sent: reset (it stays in the weights of the\n"
     "rank; default), or feedback (it only joins the next change)",
     OPTION_OF(CHOICE, error, error_ways)},
    {0, "rate", "X", "learning rate of the first step (default 0.05)", OPTION_AT(NUMBER, rate)},
    {0, "noise", "X", "standard deviation, of each rank (default 0.2)", OPTION_AT(NUMBER, noise)},
    {0, "seed", "N", "of the start, the noise and codecs (default 1)", OPTION_AT(SEED, loop.seed)},
    ENTRY_HELP,
};

static const option_table options_table = {
    .usage = "usage: quadratic [OPTION]...\n"
             "\n"
             "Minimises a quadratic with compressed gradients. Prints the loss at the end; at half the steps the\n"
             "2-norm of residuals over that of what was compressed; and the bits of messages for each value and\n"
             "step: of the pushes of a rank, and of the answers.\n"
             "\n",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .notes = "",
    .no_files = "there are options only",
};

static bool parse(options *o, int argc, char **argv, char *why)
{
    *o = (options){.loop = {.push = "3lc", .ranks = 4, .n = 20000, .seed = 1},
                   .steps = 600,
                   .local_steps = 1,
                   .error = ERROR_DEFAULT,
                   .rate = 0.05,
                   .noise = 0.2};
    if (!option_table_parse(&options_table, o, argc, argv, why))
        return false;
    if (o->loop.kind == LOOP_GATHER && o->loop.pull)
        return explain(why, "--pull goes without --loop gather, which has no answers");
    if (o->local_steps > 1 && o->loop.kind == LOOP_DELTAS)
        return explain(why, "--local-steps goes without --loop deltas: ranks have the optimiser");
    if (o->local_steps == 1 && o->error != ERROR_DEFAULT)
        return explain(why, "--error goes with --local-steps of 2 or more");
    if (o->local_steps > 1 && o->steps % o->local_steps)
        return explain(why, "--steps should be a multiple of --local-steps %zu", o->local_steps);
    return true;
}

/* ---- the problem ------------------------------------------------------------------------------------------------- */

typedef struct problem {
    const options *o;
    uint64_t random;
    float *model, *momentum;
    float *gradient[LOOP_RANKS_MAX]; /* or change */
    float *local;                    /* weights of a rank */
    float rate;                      /* of this step */
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
                   .momentum = calloc(n, sizeof(float)),
                   .local = calloc(n, sizeof(float))};
    ok = p->model && p->momentum && p->local;
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
    free(p->local);
    for (size_t r = 0; r < p->o->loop.ranks; r++)
        free(p->gradient[r]);
}

static float gradient(problem *p, const float *weights, size_t i)
{
    return curvature(p, i) * weights[i] + (float)p->o->noise * normal(&p->random);
}

static void draw_gradients(problem *p)
{
    for (size_t r = 0; r < p->o->loop.ranks; r++)
        for (size_t i = 0; i < p->o->loop.n; i++)
            p->gradient[r][i] = gradient(p, p->model, i);
}

static float rate_of(const options *o, size_t step)
{
    return (float)(o->rate * (1 - (double)step / (double)o->steps));
}

/* Those of rank r, from `step` on. kept: what it did not send. */
static void make_local_steps(problem *p, size_t step, size_t r, const float *kept)
{
    const options *o = p->o;
    float *change = p->gradient[r];

    for (size_t i = 0; i < o->loop.n; i++)
        p->local[i] = p->model[i] + (kept ? kept[i] : 0);
    memcpy(change, p->local, o->loop.n * sizeof *change);
    for (size_t k = 0; k < o->local_steps; k++)
        for (size_t i = 0; i < o->loop.n; i++)
            p->local[i] -= rate_of(o, step + k) * gradient(p, p->local, i);
    for (size_t i = 0; i < o->loop.n; i++)
        change[i] = p->local[i] - change[i];
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

/* The mean of changes. */
static void add_mean(void *arg, size_t first, size_t n, const float *mean, float *change)
{
    (void)arg;
    (void)first;
    memcpy(change, mean, n * sizeof *change);
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
    const bool changes = o->local_steps > 1;

    for (size_t step = 0; step < o->steps; step += o->local_steps) {
        for (size_t r = 0; changes && r < o->loop.ranks; r++)
            make_local_steps(p, step, r, o->error == ERROR_FEEDBACK ? NULL : l->residual[r]);
        if (!changes)
            draw_gradients(p);
        p->rate = rate_of(o, step);
        if (!loop_step(l, (const float *const *)p->gradient, changes ? add_mean : update, p, p->model, why))
            return false;
        if (step <= o->steps / 2)
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

    if (ok && o.command == COMMAND_HELP)
        option_table_print(stdout, &options_table);
    else if (ok)
        ok = run(&o, why);
    return ok ? program_close_output("quadratic") : program_fail("quadratic", EXIT_USAGE, why);
}
