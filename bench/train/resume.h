/* SPDX-License-Identifier: MIT
 *
 * Checkpoints of a training (checkpoint.h), in a folder (saved.h). Functions are collective.
 */
#ifndef TRAIN_RESUME_H
#define TRAIN_RESUME_H

#include "trainer.h"

/* Writes the step, then removes all others. */
bool resume_save(const trainer *t, char *why);

/* Goes on from the last step. With as many ranks and servers as before with the same bits. Else each rank takes the
 * files of all: exchange.h says what becomes of residuals; of old rank i, the optimiser of local steps goes to the new
 * ranks r with r mod old ranks = i; of momentum correction all ranks get the mean of the velocities. false: why says
 * why. */
bool resume_load(trainer *t, char *why);

/* What ranks have not sent yet. */
typedef struct resume_residuals {
    double push_sum, push_norm;     /* of the mean over ranks of the residuals of pushes */
    double answer_sum, answer_norm; /* of the residuals of answers, of all owners or servers */
} resume_residuals;

bool resume_measure(trainer *t, resume_residuals *r, char *why);
#endif
