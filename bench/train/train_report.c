/* SPDX-License-Identifier: MIT */
#include "train_report.h"
#include "../lib/explain.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* Each rank has a stretch of the test images. */
static double accuracy_of(trainer *t, const image_set *test)
{
    const uint64_t ranks = (uint64_t)t->ranks, rank = (uint64_t)t->rank;
    const uint32_t first = (uint32_t)(test->count * rank / ranks), last = (uint32_t)(test->count * (rank + 1) / ranks);
    const float *weights = trainer_result(t);
    double right = (double)classifier_right(&t->model, weights, test, first, last - first);

    MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return 100 * right / test->count;
}

/* Of a rank in a step, if all ranks send floats in every step: to its owners and back as in an all-reduce or with
 * servers, to all others, or to its neighbours. */
static double floats_of(const trainer *t)
{
    const double all = 4.0 * (double)t->model.values, ranks = t->ranks;
    int sources = 0, neighbours = 0, weighted;

    if (t->o->sync.kind == SYNC_GATHER)
        return all * (ranks - 1);
    if (t->o->sync.kind != SYNC_GOSSIP)
        return 2 * all * (ranks - 1) / ranks;
    MPI_Dist_graph_neighbors_count(t->sync.graph, &sources, &neighbours, &weighted);
    return all * neighbours;
}

/* 2-norms. */
static double residual_to_signal(double residual, double signal)
{
    return signal > 0 ? sqrt(residual / signal) : 0;
}

train_report report_make(trainer *t, const image_set *test)
{
    const trainer_totals own = trainer_count(t);
    const double floats = floats_of(t) * (double)(t->step - own.first);
    const bool counted = t->o->sync.kind != SYNC_MPI; /* MPI does not say what it sends */
    double sums[] = {counted ? own.sent : floats, counted ? own.received : floats, floats, own.loss,
                     (double)own.batches};
    double squares[4];
    double most[] = {own.codec, own.wait, own.compute, own.rounds, (double)own.skipped};

    MPI_Allreduce(MPI_IN_PLACE, sums, sizeof sums / sizeof *sums, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, most, sizeof most / sizeof *most, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    sync_norms(&t->sync, squares);
    MPI_Allreduce(MPI_IN_PLACE, squares, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    t->totals.loss = 0;
    t->totals.batches = 0;
    return (train_report){.batches = sums[4],
                          .loss = sums[3] / sums[4],
                          .accuracy = test ? accuracy_of(t, test) : 0,
                          .sent = sums[0] / t->ranks,
                          .received = sums[1] / t->ranks,
                          .floats = sums[2] / t->ranks,
                          .codec = most[0],
                          .wait = most[1],
                          .compute = most[2],
                          .rounds = most[3],
                          .skipped = most[4],
                          .push_residual = residual_to_signal(squares[1], squares[0]),
                          .pull_residual = residual_to_signal(squares[3], squares[2])};
}

bool report_is_finite(const train_report *r)
{
    return !(r->batches > 0) || isfinite(r->loss);
}

bool report_digest(trainer *t, unsigned long *crc)
{
    const float *weights = trainer_result(t);
    unsigned long ends[2];

    *crc = crc32_z(0, (const unsigned char *)weights, t->model.values * sizeof *weights);
    ends[0] = *crc;
    ends[1] = ~*crc;
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UNSIGNED_LONG, MPI_MAX, MPI_COMM_WORLD);
    return ends[0] == ~ends[1];
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static double ratio(const train_report *r)
{
    return r->sent > 0 ? r->floats / r->sent : 0;
}

enum { LOSS_SIZE = 32 };

/* Empty where there was no batch. */
static const char *loss_of(const train_report *r, const char *format, char *text)
{
    *text = '\0';
    if (r->batches > 0)
        snprintf(text, LOSS_SIZE, format, r->loss);
    return text;
}

static bool is_silent(const trainer *t)
{
    return t->rank || t->o->quiet;
}

void report_head(const trainer *t)
{
    if (!t->rank && *t->sync.advice)
        fprintf(stderr, "%s\n", t->sync.advice);
    if (!is_silent(t))
        printf("%8s %10s %9s %12s %9s %9s %9s %9s %9s\n", "step", "loss", "accuracy", "sent", "ratio", "codec s",
               "wait s", "compute s", "all s");
}

void report_line(const trainer *t, const train_report *r)
{
    char loss[LOSS_SIZE];

    if (is_silent(t))
        return;
    printf("%8zu %10s %8.2f%% %12.0f %9.1f %9.3f %9.3f %9.3f %9.3f\n", t->step, loss_of(r, "%.6f", loss), r->accuracy,
           r->sent, ratio(r), r->codec, r->wait, r->compute, r->rounds);
    fflush(stdout);
}

enum { STARVES_AFTER = 2 }; /* reports in a row */

void report_starving(const trainer *t, const train_report *r, int *starving)
{
    if (t->rank || *starving == STARVES_AFTER)
        return;
    *starving = r->pull_residual > TLC_STARVES_FROM ? *starving + 1 : 0;
    if (*starving < STARVES_AFTER)
        return;
    fflush(stdout);
    fprintf(
        stderr,
        "step %zu: what answers leave for later is %.0f times what they are made of: the training starves; a --pull "
        "that sends more keeps up, or the kind gather\n",
        t->step, r->pull_residual);
}

void report_residuals(const trainer *t, const char *when, const resume_residuals *r)
{
    if (is_silent(t))
        return;
    printf("step %zu, %s by %d ranks; residuals of pushes: sum %.9g, norm %.9g; of answers: sum %.9g, norm %.9g\n",
           t->step, when, t->ranks, r->push_sum, r->push_norm, r->answer_sum, r->answer_norm);
    fflush(stdout);
}

static void print_csv(FILE *f, const trainer *t, const train_report *r, unsigned long crc)
{
    char settings[SETTINGS_SIZE], loss[LOSS_SIZE];

    train_settings(t->o, settings);
    fprintf(f,
            "kind,ranks,steps,%s,loss,accuracy,sent_bytes,received_bytes,float_bytes,ratio,codec_s,wait_s,compute_s,"
            "seconds,skipped,weights,push_residual,pull_residual\n",
            train_settings_names);
    fprintf(f, "%s,%d,%zu,%s,%s,", t->o->kind, t->ranks, t->step, settings, loss_of(r, "%.9g", loss));
    if (report_is_finite(r))
        fprintf(f, "%.2f", r->accuracy);
    else
        fputs("diverged", f);
    fprintf(f, ",%.0f,%.0f,%.0f,%.2f,%.3f,%.3f,%.3f,%.3f,%.0f,%08lx,%.3g,%.3g\n", r->sent, r->received, r->floats,
            ratio(r), r->codec, r->wait, r->compute, r->rounds, r->skipped, crc, r->push_residual, r->pull_residual);
}

bool report_csv(const trainer *t, const train_report *r, unsigned long crc, char *why)
{
    FILE *f = fopen(t->o->csv, "w");
    bool ok;

    if (!f)
        return explain(why, "%s: %s", t->o->csv, strerror(errno));
    print_csv(f, t, r, crc);
    ok = !ferror(f);
    return (!fclose(f) && ok) || explain(why, "%s: cannot be written", t->o->csv);
}
