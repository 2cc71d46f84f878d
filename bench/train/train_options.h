/* SPDX-License-Identifier: MIT
 *
 * The command line of tlc-mpi-train.
 */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include "../lib/program.h"
#include "optimiser.h"
#include "sync.h"

typedef struct train_options {
    command command;
    const char *data; /* folder of MNIST's files; NULL: images are drawn */
    classifier_kind model;
    sync_options sync;
    const char *kind; /* as it was given */
    bool changes;     /* send changes of the model; else gradients */
    bool mask;        /* momentum masking */
    float correction; /* momentum correction: the momentum; 0: there is none */
    optimiser_kind optimiser;
    float rate;
    bool constant;      /* the rate; else it falls linearly to 0 */
    size_t rate_warmup; /* steps at the start in which the rate rises linearly */
    size_t warmup;      /* steps at the start that are sent as raw */
    bool flush;         /* at the end what residuals hold is sent */
    size_t batch;       /* images of a rank in a step */
    size_t steps;
    size_t local_steps;  /* from one exchange to the next */
    size_t participants; /* ranks in a round; 0: all */
    size_t classes;      /* that the images of a rank have; 0: all, i.i.d. */
    uint64_t seed;
    const char *checkpoint; /* folder; NULL: none */
    size_t every;           /* steps from one checkpoint to the next */
    bool resume;
    bool has_algorithm; /* --algorithm was given */
    const char *csv;
    bool quiet;
} train_options;

/* ranks: of the communicator. false: why (WHY_SIZE bytes) says what is wrong. */
bool train_options_parse(train_options *o, int argc, char **argv, int ranks, char *why);

extern const option_table train_options_table;

/* The option --kind of such an exchange. text: KIND_SIZE bytes. false: there is none of these numbers. */
enum { KIND_SIZE = 32 };
bool train_kind(uint64_t kind, uint64_t graph, char *text);

/* What a run and its checkpoints have in common, with the names: columns of a CSV. Kind, ranks and steps are not among
 * them. */
extern const char train_settings_names[];
enum { SETTINGS_SIZE = 1024 };
void train_settings(const train_options *o, char *text);

/* Of two texts of train_settings the first option that differs, as "with --pull raw, this one without --pull". text:
 * WHY_SIZE bytes. */
void train_settings_compare(const char *theirs, const char *ours, char *text);
#endif
