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
 * Units, buffers, failure and threads are as in threelc.h. Nothing is allocated, and calls keep no state. They use up
 * to 60 KiB of stack.
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

/* *bound: the capacity that tlc_delta_compress needs. A frame is at most 0.01% larger than the weights, and 40 bytes.
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
 * base). */
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

#ifdef __cplusplus
}
#endif
#endif
