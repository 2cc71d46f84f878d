/* SPDX-License-Identifier: MIT
 *
 * Lossless deltas of weights: what a machine needs to go from the weights that it has to those of a later step.
 *
 * After a step few weights differ, and most of these by one unit in the last place. Weights are read as integers that
 * order like the floats, and the difference of each weight is coded: Golomb-coded positions with a sign, larger
 * differences after them; or a prefix code of all differences where many weights differ. Any bits come out as they
 * went in: NaN payloads, -0, infinities.
 *
 * Weights have any dtype of tlc_dtype. Those of integers, and f64, differ modulo 2^width. Where two weights share a
 * byte (TLC_F4_E2M1, TLC_U4), n is even, else TLC_ERR_PARAM. What is not listed, such as weights of 16 bits that are no
 * floats, can go as TLC_U8, n bytes.
 *
 * A chain: compress(w0, w1), compress(w1, w2), and so on; a machine with w0 applies them in turn. A machine without
 * weights begins with a frame that has no base (base NULL), which has all weights, losslessly packed.
 *
 * Units, buffers, failure, stack and threads are as in threelc.h; `check_result` is an exception, too. Nothing is
 * allocated, and calls keep no state.
 *
 * The page format.md, which is installed in share/doc/threelc, draws the bytes of a frame.
 */
#ifndef THREELC_DELTA_H
#define THREELC_DELTA_H

#include <threelc/threelc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start from tlc_delta_options_init. struct_size means what it means in tlc_config. */
typedef struct tlc_delta_options {
    size_t struct_size;
    tlc_isa isa;         /* default TLC_ISA_AUTO */
    int without_digests; /* 1: the frame has no digests, so tlc_delta_apply cannot tell whether the base is right. Only
                            for tlc_delta_compress. It saves a sweep over both weights, and one over those of apply */
    tlc_parallel parallel; /* the threads of the call */
    char *message;         /* message_cap bytes: why the call failed, but for a bad struct_size; or NULL. As in
                      tlc_decode_options */
    size_t message_cap;    /* bytes of message */
    int block_digests;     /* 1: the frame also has digests of each 65,536 weights, 16 bytes for these, so that
                              tlc_delta_repair can complete a call of tlc_delta_apply that was broken off. Only for
                              tlc_delta_compress */
    int check_result;      /* 1: what was written is compared with the digest of the result that the frame has: another
                              sweep over the weights. Only for tlc_delta_apply, and tlc_delta_apply_range of all
                              weights */
} tlc_delta_options;
TLC_API tlc_status tlc_delta_options_init(tlc_delta_options *opt, size_t struct_size);

/* What tlc_delta_inspect tells about a frame. struct_size is as in tlc_frame_info. */
typedef struct tlc_delta_info {
    size_t struct_size;
    uint32_t version;       /* of the format */
    tlc_dtype dtype;        /* of the weights */
    uint64_t n;             /* weights */
    int has_base;           /* 0: the frame has all weights */
    int has_digests;        /* 0: both digests below are 0 */
    uint64_t base_digest;   /* of the weights that tlc_delta_apply takes; 0 without a base */
    uint64_t result_digest; /* of the weights that it makes */
    uint64_t blocks[4];     /* how many: unchanged, sparse, dense, raw */
    uint64_t changed;       /* weights that differ in sparse blocks alone; of 64 bits halves of them */
} tlc_delta_info;
TLC_API tlc_status tlc_delta_info_init(tlc_delta_info *info, size_t struct_size);

/* *bound: the capacity that tlc_delta_compress needs. A frame has at most 34 bytes more than the weights, and for each
 * 65,536 of these 4 more (of 64 bits 8), with block_digests another 16.
 * TLC_ERR_PARAM: a bad dtype, or NULL. TLC_ERR_SIZE: overflow. */
TLC_API tlc_status tlc_delta_bound(tlc_dtype dtype, size_t n, size_t *bound);

/* Writes a frame that makes next of base. base, next: n weights of dtype; base NULL: the frame has all weights. They
 * may be the same memory. opt NULL: the defaults.
 * dst: cap bytes, at least tlc_delta_bound, else TLC_ERR_CAPACITY. *written: the bytes of the frame. The bytes of dst
 * after them may be overwritten. */
TLC_API tlc_status tlc_delta_compress(tlc_dtype dtype, const void *base, const void *next, size_t n, void *dst,
                                      size_t cap, size_t *written, const tlc_delta_options *opt);

/* Makes the next weights of the base, in place. src may be any bytes. Frame and base are checked before the first
 * write. If the frame has no base, weights may be anything. Errors, in this order: TLC_ERR_PARAM, TLC_ERR_UNSUPPORTED,
 * TLC_ERR_CORRUPT (too short for a header, or no delta), TLC_ERR_VERSION, TLC_ERR_CHECKSUM, TLC_ERR_SIZE (the frame has
 * another n), TLC_ERR_PARAM (another dtype), TLC_ERR_CORRUPT (anything else), TLC_ERR_BASE (the weights are not the
 * base).
 * A frame whose checksum and base are right makes the weights that its sender had, but if the sender gave others
 * digests (tlc_delta_from_changes), or memory fails. opt->check_result finds this, or tlc_delta_digest at any
 * time: it is info.result_digest. TLC_ERR_CHECKSUM: it is not. Then all weights have been written, are not to be used,
 * and no delta goes on from them: take a frame without base. */
TLC_API tlc_status tlc_delta_apply(const void *src, size_t len, tlc_dtype dtype, void *weights, size_t n,
                                   const tlc_delta_options *opt);

/* The same of the weights first .. first + count - 1 alone, such as a shard: base and out have count weights, and out
 * is the base, or memory apart from it. n: all weights. base may be NULL if the frame has none. The checksum is that
 * of the whole frame, but only the payloads of blocks of 65,536 weights that have some of these are decoded. A digest
 * is of all weights, so the base of a part is not checked. Where two weights share a byte, first and count are even.
 * Errors are those of tlc_delta_apply, TLC_ERR_PARAM also for a range that n weights do not have. */
TLC_API tlc_status tlc_delta_apply_range(const void *src, size_t len, tlc_dtype dtype, const void *base, void *out,
                                         size_t n, size_t first, size_t count, const tlc_delta_options *opt);

/* All that tlc_delta_apply checks, with its errors. TLC_OK: it would succeed. Nothing is written. */
TLC_API tlc_status tlc_delta_check(const void *src, size_t len, tlc_dtype dtype, const void *weights, size_t n,
                                   const tlc_delta_options *opt);

/* Completes a call of tlc_delta_apply that ended at any moment, as when a process is killed that writes to a mapped
 * file, from the same frame, which has block_digests: each block of 65,536 weights is at its base, or at its result, or
 * the call ended within it, and it is found how far it came (of weights of 64 bits such a block is lost). All blocks
 * are looked at before the first write. Weights that are the base, or the result, will do, too.
 * found: NULL, or 3 numbers: the blocks that are at the result, at the base, between them.
 * Errors are those of tlc_delta_apply; TLC_ERR_BASE: a block is none of these; TLC_ERR_PARAM: the frame has no digests
 * of blocks. Against a machine that loses power this helps only if what was written before is on the disk: then write
 * the result beside the file, and rename it. */
TLC_API tlc_status tlc_delta_repair(const void *src, size_t len, tlc_dtype dtype, void *weights, size_t n,
                                    uint64_t *found, const tlc_delta_options *opt);

/* *bound: the capacity that tlc_delta_from_changes needs. TLC_ERR_PARAM: a bad dtype, k > n, or NULL. TLC_ERR_SIZE:
 * overflow. */
TLC_API tlc_status tlc_delta_changes_bound(tlc_dtype dtype, size_t k, size_t n, size_t *bound);

/* Writes the frame that tlc_delta_compress would write, of the k weights of n that differ. positions: they rise, and
 * are below n, else TLC_ERR_PARAM. before, after: k weights of dtype; of 4 bits one in the lower half of each byte.
 * Weights that are listed may be equal. digests: those of base and result (tlc_delta_digest), or NULL: the frame has
 * none, as with without_digests.
 * A block of 65,536 weights in which differences would be longer than the weights has these only if all of them are
 * listed; else it is longer than they are, up to 1.6 times.
 * dst: cap bytes, at least tlc_delta_changes_bound, else TLC_ERR_CAPACITY. *written: the bytes of the frame. The bytes
 * of dst after them are overwritten. The time does not depend on n, but for 4 bytes for each block. */
TLC_API tlc_status tlc_delta_from_changes(tlc_dtype dtype, const uint64_t *positions, const void *before,
                                          const void *after, size_t k, size_t n, const uint64_t *digests, void *dst,
                                          size_t cap, size_t *written, const tlc_delta_options *opt);

/* What tlc_delta_changes reads. Start from tlc_delta_piece_init. k and are_values are the library's. */
typedef struct tlc_delta_piece {
    size_t struct_size;
    uint64_t next, end; /* the weights that are asked for: next .. end - 1, at first 0 and n for all. A call moves next;
                            next == end: nothing is left */
    uint64_t state;     /* 0 at first; then the library's */
    uint64_t *positions; /* cap of them; they rise */
    void *values;        /* cap weights of dtype; of 4 bits a byte each */
    size_t cap;          /* at least 65,536, or end - next if that is less */
    size_t k;            /* how many came */
    int are_values; /* what came. 0: differences. 1: the next weights themselves. Of 64 bits 1: the lower halves are
                            those of the next weights; 2: the upper ones; 3: both; the others are differences */
} tlc_delta_piece;
TLC_API tlc_status tlc_delta_piece_init(tlc_delta_piece *piece, size_t struct_size);

/* Reads the weights that differ, from the frame alone, some at a time: while piece->next is below piece->end. A call
 * may bring none. A difference is d = ordered(next) - ordered(base), as two's complement (4 bits: of 8). ordered(x) of
 * floats of 4 to 32 bits is x, as an unsigned integer, with all bits but the sign inverted if the sign is 1; the same
 * turns a sum back into a weight. ordered(x) of others is x. Halves of 64 bits have differences of 32 bits each. The
 * first call checks the checksum of the frame, each call the blocks that it reads. Errors are those of tlc_delta_apply,
 * but that no base is checked; TLC_ERR_PARAM: a bad piece; TLC_ERR_CAPACITY. */
TLC_API tlc_status tlc_delta_changes(const void *src, size_t len, tlc_dtype dtype, size_t n, tlc_delta_piece *piece,
                                     const tlc_delta_options *opt);

/* *bound: the capacity that tlc_delta_fold needs for `count` frames of n weights. TLC_ERR_PARAM, TLC_ERR_SIZE as
 * tlc_delta_bound. */
TLC_API tlc_status tlc_delta_fold_bound(tlc_dtype dtype, size_t n, size_t count, size_t *bound);

/* Makes one frame of a chain of `count` frames of the same weights, without the weights: it takes them from the base of
 * the first frame to the result of the last, in the bytes that tlc_delta_compress would write for these, but for blocks
 * of 65,536 weights of which a frame has the weights themselves: such a block stays one. If a frame has no base, those
 * before it do not matter, and neither has the result. lens: the bytes of each frame. dtype and n are those of the
 * first frame; tlc_delta_peek tells them. Digests are those of the ends of the chain, of blocks, too, if both ends have
 * them. dst: cap bytes, at least tlc_delta_fold_bound, else TLC_ERR_CAPACITY; all of it may be overwritten. *written:
 * the bytes of the frame. Errors are those of tlc_delta_apply of the first frame that is refused, which the message
 * names. TLC_ERR_BASE: a frame has another base than the result of the one before it. */
TLC_API tlc_status tlc_delta_fold(const void *const *frames, const size_t *lens, size_t count, void *dst, size_t cap,
                                  size_t *written, const tlc_delta_options *opt);

#define TLC_DELTA_HEAD_MAX 30 /* bytes of the longest head of a frame */

/* What the head of a frame tells, of its first TLC_DELTA_HEAD_MAX bytes, or of all of a shorter one: the rest of the
 * frame is not looked at, and may not have come yet. blocks and changed are 0. TLC_ERR_PARAM, TLC_ERR_CORRUPT,
 * TLC_ERR_VERSION. */
TLC_API tlc_status tlc_delta_peek(const void *src, size_t len, tlc_delta_info *info);

/* Checks the whole frame as tlc_delta_apply does, except n and dtype, and describes it. tlc_explain says why a frame is
 * refused. */
TLC_API tlc_status tlc_delta_inspect(const void *src, size_t len, tlc_delta_info *info);

/* *digest: what frames carry of n weights: the sum of XXH3_64bits_withSeed of their pieces of 4,096 weights, as
 * little-endian bytes; the seed is the number of the piece. With it a machine finds the delta that it needs. */
TLC_API tlc_status tlc_delta_digest(tlc_dtype dtype, const void *weights, size_t n, uint64_t *digest,
                                    const tlc_delta_options *opt);

/* The same of a part of the weights: n of them, from number `first` on, a multiple of 4,096. The digest of all is the
 * sum, modulo 2^64, of those of parts that each begin where the one before ends. So a GPU may have made some of them.
 * TLC_ERR_PARAM: first is no such number. */
TLC_API tlc_status tlc_delta_digest_part(tlc_dtype dtype, const void *weights, size_t n, uint64_t first,
                                         uint64_t *digest, const tlc_delta_options *opt);

#ifdef __cplusplus
}
#endif
#endif
