/* SPDX-License-Identifier: MIT
 *
 * Which rank computes with which images. All of it follows from the seed, the rank and the number of the batch, so a
 * run that is resumed needs no state.
 */
#ifndef TRAIN_DEAL_H
#define TRAIN_DEAL_H

#include "images.h"
#include <stddef.h>

typedef struct deal {
    uint64_t seed;
    size_t ranks;
    uint32_t *order; /* the images, rank after rank */
    size_t *first;   /* of each rank in the order; then how many there are */
    uint32_t *pass;  /* the images of a rank as they are shuffled in a pass over them */
    size_t pass_rank;
    uint64_t pass_number; /* from 1; 0: none yet */
} deal;

/* classes 0: every rank gets an equal share of shuffled images (i.i.d.). Else images are sorted by class and cut into
 * ranks x classes shards of equal size, and every rank gets `classes` of them, far apart, as in federated learning
 * (McMahan et al., 2016, section 3). A shard may hold the end of one class and the beginning of the next. There must be
 * an image for each shard. */
bool deal_open(deal *d, const image_set *s, size_t ranks, size_t classes, uint64_t seed, char *why);
void deal_close(deal *d);

/* The images of a rank: *count of them. */
const uint32_t *deal_share(const deal *d, size_t rank, size_t *count);

/* Batch `number`, from 0, of a rank: the next `count` of its images, which are shuffled anew in each pass over them. */
void deal_batch(deal *d, size_t rank, uint64_t number, size_t count, uint32_t *index);

/* in[r]: whether rank r takes part in the round: `participants` ranks do. */
void deal_round(uint64_t seed, uint64_t round, size_t ranks, size_t participants, bool *in);
#endif
