/* SPDX-License-Identifier: MIT
 *
 * One rank of the fake: what it is made of, and what calls that fail tell it.
 */
#ifndef TLC_TEST_FAULT_SCENE_H
#define TLC_TEST_FAULT_SCENE_H

#include "../support/support.h"
#include "fake_mpi.h"
#include "heap.h"
#include <threelc/mpi.h>

enum { RANKS = 3 };

extern int poor, most; /* this rank has memory for so many allocations, but not for the next; -1: all have it */
extern int refused;    /* ranks that could not make their handles */
extern int lacked;     /* there was an allocation that failed */

typedef struct scene {
    heap memory;
    int rank;
    tlc_tensor tensors[2];
    tlc_exchange_config exchange;
    tlc_mpi_config cfg;
    tlc_outcome found;
    float values[40];
    const void *grads[2];
    void *out[2];
} scene;

void scene_set(scene *s, int rank, uint32_t workers, uint32_t servers);

/* The outcome is of a call of MPI that failed while all ranks made something, on the rank on which it failed and on
 * those that hear of it. */
void require_told(const tlc_outcome *found, int rank);

/* Does a create that failed say why? None succeeds on a rank on which there was no memory. */
tlc_status created(const scene *s, tlc_status status);

/* Does a call that failed say why? None succeeds on a rank on which MPI has failed. */
tlc_status went(const tlc_mpi *h, tlc_status status);

/* A step ends. The rank tries again if there was no memory for a message that came, which is told, and nothing else. */
tlc_status await(tlc_mpi *h);

/* All memory was given back, but what MPI may still use. */
void close_scene(scene *s);

/* Handles that leave while others go on (fault_leaves.c). */
void play_server_gone(int rank, int ranks);
void play_worker_gone(int rank, int ranks);
void play_worker_broken(int rank, int ranks);
void play_servers_first(int rank, int ranks);
void play_half_answered(int rank, int ranks);
void play_at_once(int rank, int ranks);
void play_worker_at_once(int rank, int ranks);

/* A rank yields as often as there is nothing to do (fault_waits.c). */
void test_waits(void);

/* Each call fails on each rank while a rank is wrong, too. */
void test_wrong(void);
#endif
