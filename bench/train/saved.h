/* SPDX-License-Identifier: MIT
 *
 * The folder of checkpoints: step-N/rank-R of each rank, and `latest`, which names the last step that all ranks have
 * written. Whenever the machine stops, what `latest` names is whole. What a run leaves that was stopped has no name
 * there, and the next one removes it.
 */
#ifndef TRAIN_SAVED_H
#define TRAIN_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct saved_step {
    uint64_t step;
    int ranks;  /* that wrote it, 1 to SAVED_RANKS_MAX */
    bool again; /* its folder has another name, as `latest` named the same step of a run before */
} saved_step;

#define SAVED_RANKS_MAX (1 << 20)

/* What `latest` names. false: nothing. */
bool saved_read(const char *folder, saved_step *s);

/* Where rank i has its file. path: `size` bytes. */
void saved_file(char *path, size_t size, const char *folder, const saved_step *s, int rank);

/* Makes the folder of a step, which is not the one that `latest` names: it has no files then. */
bool saved_begin(const char *folder, const saved_step *s, char *why);

/* The step is whole: `latest` names it from now on, and no other one is left. */
bool saved_end(const char *folder, const saved_step *s, char *why);

/* Removes what runs have left that were stopped: all steps but this one, and parts of files. */
void saved_clean(const char *folder, const saved_step *s);
#endif
