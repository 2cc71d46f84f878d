/* SPDX-License-Identifier: MIT
 *
 * tlc-mpi-train trains a small model on several machines, and sends what libthreelc makes of the gradients. It is an
 * example of how to link the library into a trainer, and a measure of what it gains. What concerns the library is in
 * sync.c.
 */
#include "../lib/codecs.h"
#include "../lib/explain.h"
#include "../mpi/ranks.h"
#include "train_report.h"
#include <stdlib.h>
#include <unistd.h>

static const char program[] = "tlc-mpi-train";

enum { DRAWN_IMAGES = 6000, DRAWN_TEST = 1000, REPORTS = 10 };

/* ---- data -------------------------------------------------------------------------------------------------------- */

typedef struct image_data {
    image_set images, test;
} image_data;

/* Every rank reads all files: they are small, and a rank uses the images that are dealt to it. */
static bool load_data(image_data *d, const train_options *o, char *why)
{
    return o->data ? images_read(&d->images, o->data, "train", why) && images_read(&d->test, o->data, "t10k", why)
                   : images_draw(&d->images, DRAWN_IMAGES, o->seed, o->seed + 1, why) &&
                         images_draw(&d->test, DRAWN_TEST, o->seed, o->seed + 2, why);
}

/* ---- the training ------------------------------------------------------------------------------------------------ */

static void show_progress(const trainer *t)
{
    if (!t->rank && !t->o->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[Kstep %zu of %zu\r", t->step, t->o->steps);
}

/* Whether a multiple of `every` was reached or passed in this round. */
static bool is_due(const trainer *t, size_t every)
{
    return t->step / every != (t->step - t->o->local_steps) / every;
}

static bool save(trainer *t, char *why)
{
    resume_residuals left;

    if (!resume_measure(t, &left, why) || !resume_save(t, why))
        return false;
    report_residuals(t, "saved", &left);
    return true;
}

static bool resume(trainer *t, char *why)
{
    resume_residuals left;

    if (!resume_load(t, why) || !resume_measure(t, &left, why))
        return false;
    report_residuals(t, "loaded", &left);
    return true;
}

/* One rank that cannot go on ends the job, as others wait for it. */
static void round_or_abort(trainer *t)
{
    char why[WHY_SIZE];

    if (!trainer_round(t, why))
        ranks_abort(program, why);
}

/* What residuals hold, and that nothing is left. */
static bool flush(trainer *t, char *why)
{
    resume_residuals left;

    if (!t->o->flush)
        return true;
    if (!trainer_flush(t, why))
        ranks_abort(program, why);
    if (!resume_measure(t, &left, why))
        return false;
    report_residuals(t, "flushed", &left);
    return true;
}

/* The last report is that of the result. It ends early if the loss is not a number. */
static bool train(trainer *t, const image_set *test, train_report *r, char *why)
{
    int starving = 0;
    const size_t tenth = t->o->steps / REPORTS ? t->o->steps / REPORTS : 1;

    report_head(t);
    if (t->step == t->o->steps) {
        if (!flush(t, why))
            return false;
        *r = report_make(t, test);
        report_line(t, r);
    }
    while (t->step < t->o->steps) {
        round_or_abort(t);
        show_progress(t);
        if (t->o->checkpoint && is_due(t, t->o->every) && !save(t, why))
            return false;
        const bool last = t->step == t->o->steps;
        if (last && !flush(t, why))
            return false;
        if (!last && !is_due(t, tenth))
            continue;
        *r = report_make(t, last || !t->o->quiet ? test : NULL);
        report_line(t, r);
        report_starving(t, r, &starving);
        if (!report_is_finite(r))
            break;
    }
    return true;
}

static bool finish(trainer *t, const train_report *r, char *why)
{
    unsigned long crc;

    if (!report_digest(t, &crc) && report_is_finite(r) && t->o->sync.kind != SYNC_GOSSIP)
        return explain(why, "ranks have different weights");
    if (t->rank)
        return true;
    if (!t->o->quiet)
        printf("%sweights %08lx\n", report_is_finite(r) ? "" : "the loss is not a number: the training diverged; ",
               crc);
    return !t->o->csv || report_csv(t, r, crc, why);
}

static bool run(const train_options *o, const image_data *data, char *why)
{
    trainer t;
    train_report r;
    bool ok;

    ok = trainer_open(&t, o, &data->images, why) && (!o->resume || resume(&t, why)) &&
         train(&t, &data->test, &r, why) && ranks_agree(finish(&t, &r, why), why);
    trainer_close(&t);
    return ok;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

/* All ranks fail alike; one says why. */
static int fail(int rank, int status, const char *why)
{
    return rank ? status : program_fail(program, status, why);
}

static int run_all(const train_options *o, int rank)
{
    char why[WHY_SIZE];
    image_data data = {.images = {.count = 0}, .test = {.count = 0}};
    int status = EXIT_SUCCESS;

    if (!ranks_agree(load_data(&data, o, why), why))
        status = fail(rank, EXIT_USAGE, why);
    else if (!run(o, &data, why))
        status = fail(rank, EXIT_FAILED, why);
    images_free(&data.images);
    images_free(&data.test);
    return status;
}

static int act(int argc, char **argv)
{
    char why[WHY_SIZE];
    train_options o;
    int rank, ranks;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!train_options_parse(&o, argc, argv, ranks, why))
        return fail(rank, EXIT_USAGE, why);
    if (o.command == COMMAND_RUN)
        return run_all(&o, rank);
    return rank ? EXIT_SUCCESS : program_answer(program, o.command, &train_options_table); /* rank 0 answers for all */
}

int main(int argc, char **argv)
{
    int status;

    MPI_Init(&argc, &argv);
    status = act(argc, argv);
    MPI_Finalize();
    return status;
}
