/* SPDX-License-Identifier: MIT
 *
 * A configuration with two tensors and an allocator that counts, and what all ranks are told.
 */
#ifndef TLC_MPI_SCENE_H
#define TLC_MPI_SCENE_H

#include "heap.h"
#include "mpi_run.h"

typedef struct scene {
    tlc_tensor tensors[2]; /* conv, 300 values, and fc, 400 */
    tlc_exchange_config exchange;
    tlc_mpi_config cfg;
    tlc_outcome found;
    heap memory;
    float values[400]; /* of both tensors; grads and out point to them */
    const void *grads[2];
    void *out[2];
} scene;

void scene_set(scene *s);
/* From now on it has memory for this many allocations; -1: for any number. */
void scene_memory(scene *s, int allocations);

/* One server, on the last rank, and workers on the others. Makes the handle of this rank. */
tlc_mpi *scene_server(scene *s);

/* A worker starts a step, and is told that a server was destroyed before it. */
void scene_server_gone(scene *s, tlc_mpi *h);

/* What a handle says of its last step or call. */
tlc_status status_of(const tlc_mpi *h);
tlc_mpi_stats stats_of(const tlc_mpi *h);

/* All ranks get the same status, rank, tensor and sentence. */
void require_all_told(const scene *s, tlc_status got, tlc_status status, uint32_t at_fault, size_t tensor,
                      const char *sentence);
#endif
