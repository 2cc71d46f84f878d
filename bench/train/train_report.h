/* SPDX-License-Identifier: MIT
 *
 * What the trainer prints: a line now and then, and one with the result. Collective; rank 0 prints.
 */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include "resume.h"

typedef struct train_report {
    double batches;                      /* of all ranks since the last report */
    double loss;                         /* their mean; not a number if there are none */
    double accuracy;                     /* percent of the test images */
    double sent, received, floats;       /* bytes of a rank, the mean over ranks; floats: in every step, uncompressed */
    double codec, wait, compute, rounds; /* seconds, of the busiest rank */
    double skipped;                      /* rounds, of the rank with most of them */
    double push_residual, pull_residual; /* residual / signal of the last exchange, over all ranks; 0: no residual */
} train_report;

/* Starts a new mean of the loss. test NULL: without the accuracy. */
train_report report_make(trainer *t, const image_set *test);

/* Whether the loss is a number, or there was no batch. */
bool report_is_finite(const train_report *r);

void report_head(const trainer *t);
void report_line(const trainer *t, const train_report *r);
/* One warning on stderr if a training starves, which takes two reports: a batch with a small gradient may make a ratio
 * large. *starving: the reports in a row that said so, at first 0. */
void report_starving(const trainer *t, const train_report *r, int *starving);
void report_residuals(const trainer *t, const char *when, const resume_residuals *r);

/* The end: whether all ranks have the same weights (but for gossip), and their CRC-32. */
bool report_digest(trainer *t, unsigned long *crc);

/* A CSV of one line. On rank 0 alone. */
bool report_csv(const trainer *t, const train_report *r, unsigned long crc, char *why);
#endif
