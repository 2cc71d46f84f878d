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
#include "payloads/blocks.h"
#include "payloads/weights.h"
#include <threelc/delta.h>

#define TLC_DELTA_MAGIC 'D'
/* Version 1 has the dtypes of gradients in its flags; version 2 has a byte for all others; version 3, which has a
 * digest of each block, has it for all. */
enum {
    TLC_DELTA_VERSION_1 = 1,
    TLC_DELTA_VERSION_2 = 2,
    TLC_DELTA_VERSION_3 = 3,
    TLC_DELTA_FLAG_DTYPE = 0x03,
    TLC_DELTA_FLAG_DIGESTS = 0x04,
    TLC_DELTA_FLAG_NO_BASE = 0x08,
    TLC_DELTA_FLAG_SAME = 0x10,
    TLC_DELTA_FLAG_BLOCK_DIGESTS = 0x20,
    TLC_DELTA_FLAG_LOWER = 0x40, /* of weights of 64 bits no upper half differs: they have no entries in the table */
    TLC_DELTA_DIGEST_SIZE = 8,
    TLC_DELTA_ENTRY_SIZE = 4,
    TLC_DELTA_HEAD_MIN = 4 /* with n = 0 */
};
_Static_assert(TLC_DELTA_HEAD_MAX == 4 + TLC_VARINT_MAX + 2 * TLC_DELTA_DIGEST_SIZE, "the longest head");
#define TLC_DELTA_ENTRY_LENGTH ((UINT32_C(1) << 30) - 1)

/* A frame of any weights, to be written or read. */
typedef struct tlc_delta {
    tlc_delta_options options;
    tlc_text why; /* where a call that fails says why */
    const tlc_kernels *k;
    tlc_dtype dtype;
    tlc_weight_unit unit;
    unsigned flags;
    uint64_t n, base_digest, result_digest;
    uint64_t piece; /* the number of the first piece: not 0 where these weights are a part, of which a digest is made */
    const uint8_t *table, *digests, *payloads; /* of a frame that is read. digests: of blocks, or NULL */
    size_t payloads_size;
    tlc_ranges ranges; /* of blocks */
} tlc_delta;

/* Begins with the options of a call. It fails if they or dtype are wrong, but not if the machine lacks the ISA. */
tlc_status tlc_delta_begin(tlc_delta *d, tlc_dtype dtype, uint64_t n, const tlc_delta_options *opt);

/* Sets dtype, n, and what follows from them. dtype: a valid one. */
void tlc_delta_of(tlc_delta *d, tlc_dtype dtype, uint64_t n);

/* Can n weights of a valid dtype be? Weights of 4 bits come in pairs. */
static inline int tlc_delta_has_n(tlc_dtype dtype, uint64_t n)
{
    return tlc_unit_width(tlc_delta_unit(dtype)) != 4 || n % 2 == 0;
}

/* Does the machine have the ISA? This is asked when all arguments were checked. */
tlc_status tlc_delta_isa(tlc_delta *d);

/* TLC_ERR_PARAM: p is NULL, but its size is not 0. */
tlc_status tlc_delta_not_null(tlc_delta *d, const char *name, const void *p, const char *size, size_t count);

/* Divides so many blocks into ranges. */
void tlc_delta_split(tlc_delta *d, size_t blocks);

/* The digest of all weights. */
uint64_t tlc_delta_digest_all(const tlc_delta *d, const void *weights);

enum { TLC_DELTA_PIECE = 4096 /* weights that are hashed at once */ };

/* Its part of the `count` weights of a piece, whose first one is number `first`. */
uint64_t tlc_delta_digest_piece(const tlc_delta *d, const uint8_t *piece, size_t first, size_t count);

/* Its part of block b. Both halves of weights of 64 bits are in that of their lower ones. */
uint64_t tlc_delta_digest_block(const tlc_delta *d, const uint8_t *weights, size_t b);

/* Sets the flags of a frame that is written. */
void tlc_delta_set_flags(tlc_delta *d, int has_base, int digests, int block_digests);

/* Completes a frame with head and checksum, around the `len` bytes after the head. 0: nothing differs. Returns the
 * bytes of the frame. */
size_t tlc_delta_finish(tlc_delta *d, uint8_t *dst, size_t len);

static inline void tlc_delta_put_entry(uint8_t *table, size_t b, tlc_delta_kind kind, size_t len)
{
    tlc_store32(table + b * TLC_DELTA_ENTRY_SIZE, (uint32_t)kind << 30 | (uint32_t)len);
}

static inline unsigned tlc_delta_version(const tlc_delta *d)
{
    if (d->flags & TLC_DELTA_FLAG_BLOCK_DIGESTS)
        return TLC_DELTA_VERSION_3;
    return d->dtype <= TLC_BF16 ? TLC_DELTA_VERSION_1 : TLC_DELTA_VERSION_2;
}

/* Blocks of weights of 64 bits come in twos: of up to TLC_DELTA_BLOCK weights the lower halves, then the upper ones. */
static inline size_t tlc_delta_planes(const tlc_delta *d)
{
    return d->unit == TLC_UNIT_HALF ? 2 : 1;
}

static inline size_t tlc_delta_blocks(const tlc_delta *d)
{
    return (size_t)tlc_ceil_div(d->n, TLC_DELTA_BLOCK) * tlc_delta_planes(d);
}

/* The bytes of all entries of the table. */
static inline size_t tlc_delta_entries_size(const tlc_delta *d)
{
    return tlc_delta_blocks(d) / (d->flags & TLC_DELTA_FLAG_LOWER ? 2 : 1) * TLC_DELTA_ENTRY_SIZE;
}

/* The first weight of block b, and how many it has. */
static inline size_t tlc_delta_first(const tlc_delta *d, size_t b)
{
    return b / tlc_delta_planes(d) * TLC_DELTA_BLOCK;
}

static inline size_t tlc_delta_count(const tlc_delta *d, size_t b)
{
    return tlc_smaller((size_t)d->n - tlc_delta_first(d, b), TLC_DELTA_BLOCK);
}

/* The bytes of n weights; UINT64_MAX: too many. */
static inline uint64_t tlc_delta_size(const tlc_delta *d, uint64_t n)
{
    return tlc_unit_width(d->unit) == 4 ? n / 2 : tlc_product(n, tlc_unit_width(d->unit) / 8 * tlc_delta_planes(d));
}

/* Where the units of block b are in their weights, in bytes. */
static inline size_t tlc_delta_plane_offset(const tlc_delta *d, size_t b)
{
    const int big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;

    return tlc_delta_planes(d) == 2 && (b % 2 != 0) != big_endian ? 4 : 0;
}

/* Where the units of block b begin among all weights, in bytes. */
static inline size_t tlc_delta_block_start(const tlc_delta *d, size_t b)
{
    return (size_t)tlc_delta_size(d, tlc_delta_first(d, b)) + tlc_delta_plane_offset(d, b);
}

/* The same if all units were in the order of blocks. */
static inline size_t tlc_delta_payload_start(const tlc_delta *d, size_t b)
{
    const size_t start = (size_t)tlc_delta_size(d, tlc_delta_first(d, b));

    return b % tlc_delta_planes(d) != 0 ? start + tlc_unit_bytes(d->unit, tlc_delta_count(d, b)) : start;
}

/* The weights of block b. */
static inline tlc_delta_weights tlc_delta_weights_of(const tlc_delta *d, const uint8_t *base, size_t b)
{
    return (tlc_delta_weights){d->k, d->dtype, base ? base + tlc_delta_block_start(d, b) : NULL, tlc_delta_count(d, b)};
}

static inline int tlc_delta_has_base(const tlc_delta *d)
{
    return !(d->flags & TLC_DELTA_FLAG_NO_BASE);
}

/* The digests of block b of a frame: of its base, if there is one, and of its result. */
static inline size_t tlc_delta_digests_size(const tlc_delta *d)
{
    return tlc_delta_has_base(d) ? 2 * TLC_DELTA_DIGEST_SIZE : TLC_DELTA_DIGEST_SIZE;
}

/* The bytes between head and payloads. */
static inline size_t tlc_delta_table_size(const tlc_delta *d)
{
    const size_t blocks = tlc_delta_blocks(d);

    return tlc_delta_entries_size(d) +
           (d->flags & TLC_DELTA_FLAG_BLOCK_DIGESTS ? blocks / tlc_delta_planes(d) * tlc_delta_digests_size(d) : 0);
}

static inline size_t tlc_delta_head_size(const tlc_delta *d)
{
    return (tlc_delta_version(d) == TLC_DELTA_VERSION_1 ? 3 : 4) + tlc_varint_size(d->n) +
           (d->flags & TLC_DELTA_FLAG_DIGESTS
                ? (d->flags & TLC_DELTA_FLAG_NO_BASE ? TLC_DELTA_DIGEST_SIZE : 2 * TLC_DELTA_DIGEST_SIZE)
                : 0);
}
#endif
