/* SPDX-License-Identifier: MIT
 *
 * Runs: folders with the gradients of one training each. The name of a run ends in -sNUMBER, the s that it was
 * trained with ("resnet20-cifar10-s1.75"). Gradients and residuals depend on that s, so a codec is measured on the
 * run of its own s.
 */
#ifndef BENCH_RUNS_H
#define BENCH_RUNS_H

#include "source.h"

enum { MAX_RUNS = 16 };

typedef struct run_list {
    size_t count; /* 0: the folder is not a folder of runs */
    char *paths[MAX_RUNS];
    double s[MAX_RUNS]; /* in ascending order */
} run_list;

/* Looks for runs in a folder: it has no gradient files, but folders with names of runs. A path that is not a folder
 * has none; that is not a failure. false: two runs have the same s, there are too many, or no memory. */
bool runs_find(run_list *runs, const char *folder, char *why);
void runs_free(run_list *runs);

/* Loads each run, in the order of the list, into sources (count of them). false: a file is bad, or the runs do not
 * have the same tensors. Whether or not it succeeds, the sources are to be freed. */
bool runs_load(const run_list *runs, source *sources, const source_options *options, char *why);

/* The index of the run of this codec's s. Codecs without s, and those with an s that no run has, get 0, the run with
 * the smallest s. *own: whether the run has the codec's s. */
size_t runs_choose(const source *sources, size_t count, const char *codec, bool *own);
#endif
