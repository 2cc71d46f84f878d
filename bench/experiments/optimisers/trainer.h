/* SPDX-License-Identifier: MIT
 *
 * Data-parallel training in one process. Every worker computes gradients of its own part of each batch.
 */
#ifndef OPTIMISERS_TRAINER_H
#define OPTIMISERS_TRAINER_H

#include "../../train/images.h"
#include "../../train/optimiser.h"
#include <stddef.h>

/* What workers send. */
typedef enum sent_kind {
    SEND_GRADIENTS, /* the mean goes through one optimiser, as if each worker had a copy of it */
    SEND_CHANGES    /* each worker's optimiser makes local steps; the change of its weights since the last exchange */
} sent_kind;

/* What goes back, of gradients that were sent. Compressed answers have the library's codec, that of tlc_pull_codec. */
typedef enum answer_kind {
    ANSWER_FLOATS, /* the mean, as floats, which are not counted */
    ANSWER_MEANS,  /* the mean, to workers with an optimiser each */
    ANSWER_CHANGES /* the change of the model, of the server that has the optimiser (3LC) */
} answer_kind;

typedef struct training_options {
    optimiser_kind optimiser;
    float rate;
    const char *codec; /* NULL: without the library */
    sent_kind sent;
    answer_kind answer; /* ANSWER_FLOATS with SEND_CHANGES */
    size_t local_steps; /* from one exchange to the next; 1 with SEND_GRADIENTS */
    size_t warmup;      /* steps at the start that are sent as raw */
    size_t rate_warmup; /* steps at the start in which the rate rises linearly */
    size_t steps;       /* a multiple of local_steps */
    size_t batch;       /* images of a worker in a step */
    size_t workers;
    uint64_t seed;
} training_options;

typedef struct training_result {
    size_t diverged; /* the step at which a loss or a value to send was not finite; 0: none was */
    double loss;     /* the last that was printed */
    double accuracy; /* percent of the test images */
    double ratio; /* bytes of floats in each step from each worker, and to it, if answers are compressed / bytes of all
                     frames; 0: none */
    double seconds, exchange_seconds; /* of one core */
} training_result;

/* Trains, and prints the mean loss of each tenth of the steps. */
bool train(const training_options *o, const image_set *images, const image_set *test, training_result *r, char *why);
#endif
