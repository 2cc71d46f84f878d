/* SPDX-License-Identifier: MIT
 *
 * The file in which a rank keeps what it needs to go on. It is read by machines of the same byte order.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "trainer.h"

typedef struct checkpoint_head {
    char magic[8];
    uint64_t kind, graph, ranks, servers, step;
    uint64_t last;     /* step of the run, on which the learning rate depends; 0: it does not */
    uint64_t values;   /* of the model */
    uint64_t settings; /* bytes of their text (train_settings) */
    uint64_t state;    /* bytes of what sync_save wrote */
    uint64_t steps;    /* that the optimiser has made */
    trainer_totals totals;
} checkpoint_head;

typedef struct checkpoint {
    checkpoint_head head;
    const char *settings;
    const float *weights, *mean, *square; /* of the model and the optimiser */
    tlc_message state;
    void *block; /* of a file that was read: all of it */
} checkpoint;

/* Writes a new file. It is complete, and on the disk, when it has its name. */
bool checkpoint_write(const checkpoint *c, const char *path, char *why);

/* Reads a file and checks that it is whole. */
bool checkpoint_read(checkpoint *c, const char *path, char *why);
void checkpoint_free(checkpoint *c);
#endif
