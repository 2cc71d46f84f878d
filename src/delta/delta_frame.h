/* SPDX-License-Identifier: MIT
 *
 * A frame of a delta while it is written or read. src/docs/format.md draws it.
 */
#ifndef TLC_DELTA_FRAME_H
#define TLC_DELTA_FRAME_H

#include "../frames/frame.h"
#include "../coding/ranges.h"
#include "../common/sizes.h"
#include "../common/varint.h"
#include "blocks.h"
#include "weights.h"
#include <threelc/delta.h>

#define TLC_DELTA_MAGIC 'D'
#define TLC_DELTA_VERSION 1

enum {
    TLC_DELTA_FLAG_DTYPE = 0x03,
    TLC_DELTA_FLAG_DIGESTS = 0x04,
    TLC_DELTA_FLAG_NO_BASE = 0x08,
    TLC_DELTA_FLAG_SAME = 0x10,
    TLC_DELTA_FLAGS = 0x1f,
    TLC_DELTA_DIGEST_SIZE = 8,
    TLC_DELTA_ENTRY_SIZE = 4,
    TLC_DELTA_HEAD_MIN = 4, /* with n = 0 */
    TLC_DELTA_HEAD_MAX = 3 + TLC_VARINT_MAX + 2 * TLC_DELTA_DIGEST_SIZE
};
#define TLC_DELTA_ENTRY_LENGTH ((UINT32_C(1) << 30) - 1)

/* A frame of any weights, to be written or read. */
typedef struct tlc_delta {
    tlc_delta_options options;
    tlc_text why; /* where a call that fails says why */
    const tlc_kernels *k;
    tlc_dtype dtype;
    unsigned flags;
    uint64_t n, base_digest, result_digest;
    const uint8_t *table, *payloads; /* of a frame that is read */
    size_t payloads_size;
    tlc_ranges ranges; /* of blocks */
} tlc_delta;

/* Begins with the options of a call. It fails if they or dtype are wrong, but not if the machine lacks the ISA. */
tlc_status tlc_delta_begin(tlc_delta *d, tlc_dtype dtype, uint64_t n, const tlc_delta_options *opt);

/* Does the machine have the ISA? This is asked when all arguments were checked. */
tlc_status tlc_delta_isa(tlc_delta *d);

/* TLC_ERR_PARAM: p is NULL, but its size is not 0. */
tlc_status tlc_delta_not_null(tlc_delta *d, const char *name, const void *p, const char *size, size_t count);

/* Divides the blocks into ranges. */
void tlc_delta_split(tlc_delta *d);

/* The digest of all weights. */
uint64_t tlc_delta_digest_all(const tlc_delta *d, const void *weights);

static inline size_t tlc_delta_blocks_of(uint64_t n)
{
    return (size_t)tlc_ceil_div(n, TLC_DELTA_BLOCK);
}

/* The weights of block b. */
static inline tlc_delta_weights tlc_delta_weights_of(const tlc_delta *d, const uint8_t *base, size_t b)
{
    const size_t first = b * TLC_DELTA_BLOCK, bytes = tlc_delta_width(d->dtype) / 8;

    return (tlc_delta_weights){d->k, d->dtype, base ? base + first * bytes : NULL,
                               tlc_smaller((size_t)d->n - first, TLC_DELTA_BLOCK)};
}

static inline size_t tlc_delta_head_size(const tlc_delta *d)
{
    return 3 + tlc_varint_size(d->n) +
           (d->flags & TLC_DELTA_FLAG_DIGESTS
                ? (d->flags & TLC_DELTA_FLAG_NO_BASE ? TLC_DELTA_DIGEST_SIZE : 2 * TLC_DELTA_DIGEST_SIZE)
                : 0);
}
#endif
