/* SPDX-License-Identifier: MIT
 *
 * A trial runs the machines of an exchange step by step on gradients of their own, and measures one of them: rank 0, or
 * the server. Its codec calls are made once more without the exchange, in the same steps and on the same memory. So is
 * the check for finite values, a loop that reads them once (roofline.h): of gradients unless the caller has checked
 * them, and of means.
 * Nothing is in the caches when a call is timed. Times are those of the thread.
 *
 * In each step it checks that
 * - all ranks get the same bits;
 * - the calls without the exchange give the same frames and the same bits (but codecs with a seed, which the
 *   exchange chooses);
 * - the bytes of messages are those that the machines count.
 */
#ifndef BENCH_TRIAL_H
#define BENCH_TRIAL_H

#include "../lib/fleet.h"
#include "../lib/measure.h"
#include "../lib/source.h"

typedef struct trial_options {
    fleet_options fleet;
    const source *from; /* gradients are made of it */
    const shape_list *model;
    size_t warmup;  /* steps before anything is counted */
    double seconds; /* measure at least this long, and at least 16 steps */
    size_t cache;   /* bytes of the last-level cache; 0: not known */
} trial_options;

typedef struct trial_result {
    tlc_isa isa;
    bool feedback;
    size_t steps;           /* that were counted */
    uint64_t whole_bytes;   /* frames of whole tensors of rank 0, in all steps */
    uint64_t sent_bytes;    /* by all machines to others */
    uint64_t busiest_bytes; /* by the machine that sent most */
    uint64_t frame_bytes;   /* in the messages of the machine: its pushes and its answer, */
    uint64_t message_bytes; /* and these messages */
    timing step;            /* the calls of the exchange */
    timing codec;           /* the codec calls and the check for finite values, without the exchange */
    timing add;             /* of these, tlc_decompress_add_many of what others pushed */
    double other;           /* median of step / codec - 1 of the same step */
    double other_best;      /* the same of the best times */
} trial_result;

bool trial_run(const trial_options *o, trial_result *result, char *why);
#endif
