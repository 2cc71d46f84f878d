/* SPDX-License-Identifier: MIT
 *
 * Ways to bring weights that have moved to a machine that has those from before: deltas of libthreelc, and what else
 * one could send. All are lossless.
 */
#ifndef BENCH_DELTA_WAYS_H
#define BENCH_DELTA_WAYS_H

#include "../peers/general.h"
#include <threelc/delta.h>

typedef struct delta_way delta_way;

/* One tensor. base and next: n weights of the dtype. */
typedef struct delta_tensor {
    tlc_dtype dtype;
    size_t n;
    tlc_delta_options options; /* of ways that are deltas of libthreelc */
    unsigned char *scratch;    /* as many bytes as the weights; NULL for deltas of libthreelc */
    void *coder;               /* of the general compressor */
} delta_tensor;

struct delta_way {
    const char *name;
    bool own;              /* a delta of libthreelc; other ways have one thread */
    bool without_digests;  /* of libthreelc */
    const general *packer; /* on the XOR; NULL: none */

    /* The capacity that compress needs. false: a size overflows. */
    bool (*bound)(const delta_way *w, tlc_dtype dtype, size_t n, size_t *cap);
    bool (*compress)(const delta_way *w, const delta_tensor *t, const void *base, const void *next, void *dst,
                     size_t cap, size_t *len);
    /* In place. src is what compress made. */
    bool (*apply)(const delta_way *w, const delta_tensor *t, const void *src, size_t len, void *weights);
};

/* Deltas of libthreelc first. peers: the others, too. */
const delta_way *delta_ways(bool with_peers, size_t *count);
#endif
