/* SPDX-License-Identifier: MIT
 *
 * What one would use in place of 3LC, as rows of tlc-bench: general compressors on the floats themselves and on quartic
 * bytes (what zero-run encoding is worth), half precision, and 3LC as one would write it in an afternoon. float32 only;
 * buffers are aligned as malloc's.
 */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <threelc/threelc.h>

typedef struct peer peer;

struct peer {
    const char *name;
    bool feedback; /* what compress leaves out is kept and added to the next gradient: residual() is what is kept */
    bool exact;    /* decompress gives the gradient's very bits; others take finite gradients only */

    /* The capacity that compress wants for n values. false: a size overflows or is more than the library takes. */
    bool (*bound)(const peer *p, size_t n, size_t *cap);

    /* What serves one tensor of n values, its residual zeroed. isa, as in tlc_config, is that of libthreelc's stages; f16
     * is converted with AVX-512 unless it names another. NULL: no memory, too large, or an ISA this machine lacks. */
    void *(*open)(const peer *p, size_t n, tlc_isa isa);
    void (*close)(void *state); /* NULL is fine */

    /* g: n values. false: it failed (cap < bound, or what the library says), and dst and the residual are undefined. */
    bool (*compress)(void *state, const float *g, size_t n, void *dst, size_t cap, size_t *len);
    /* false: not the bytes of n values. */
    bool (*decompress)(void *state, const void *src, size_t len, float *out, size_t n);

    const float *(*residual)(const void *state); /* n floats; NULL where feedback is false */

    const struct peer_library *library; /* what peer_general.c compresses with */
};

/* Those whose library was there at build time (HAVE_ZSTD, HAVE_LZ4, HAVE_SNAPPY) and whose instructions this CPU has. */
const peer *const *peers(size_t *count);

/* peer_general.c, where the library is there */
extern const peer peer_zstd, peer_lz4, peer_snappy;                         /* on the floats */
extern const peer peer_quartic_zstd, peer_quartic_lz4, peer_quartic_snappy; /* on ternary+quartic frames */
extern const peer peer_naive; /* peer_naive.c */
extern const peer peer_f16;   /* peer_f16.c, on x86-64 */
#endif
