/* SPDX-License-Identifier: MIT
 *
 * Peers: what else one could use, for rows of tlc-bench. They are general compressors, half precision, and a simple
 * 3LC. General compressors get the floats themselves, or quartic bytes, where they take the place of zero-run
 * encoding. Peers take float32 only. Buffers are aligned as those of malloc.
 */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <threelc/threelc.h>

typedef struct peer peer;

struct peer {
    const char *name;
    bool feedback; /* compress keeps what it does not send, and adds it to the next gradient; residual() gives it */
    bool exact;    /* decompress gives the very bits of the gradient; other peers take finite gradients only */

    /* The capacity that compress needs for n values. false: a size overflows or is too large for the library. */
    bool (*bound)(const peer *p, size_t n, size_t *cap);

    /* The state of one tensor of n values, its residual zero. isa is as in tlc_config, for the stages of libthreelc;
     * for f16, auto is AVX-512 where there is one. NULL: no memory, n is too large, or this machine lacks the ISA. */
    void *(*open)(const peer *p, size_t n, tlc_isa isa);
    void (*close)(void *state); /* NULL is fine */

    /* g: n values. false: it failed (cap < bound, or what the library says), and dst and the residual are undefined. */
    bool (*compress)(void *state, const float *g, size_t n, void *dst, size_t cap, size_t *len);
    /* false: not the bytes of n values. */
    bool (*decompress)(void *state, const void *src, size_t len, float *out, size_t n);

    /* n floats, which may be written between two calls. NULL where feedback is false. */
    float *(*residual)(const void *state);

    const struct general *library; /* what peer_general.c compresses with */
};

/* The peers of this build and CPU: a library may be missing (HAVE_ZSTD, HAVE_LZ4, HAVE_SNAPPY), or F16C. */
const peer *const *peers(size_t *count);

/* peer_general.c, where the library is there */
extern const peer peer_zstd, peer_lz4, peer_snappy;                         /* on the floats */
extern const peer peer_quartic_zstd, peer_quartic_lz4, peer_quartic_snappy; /* on ternary+quartic frames */
extern const peer peer_naive;                                               /* peer_naive.c */
extern const peer peer_f16;                                                 /* peer_f16.c, on x86-64 */
#endif
