/* SPDX-License-Identifier: MIT
 *
 * Runs a list of stages over a tensor, forward into a frame and back.
 *
 * How a failed compression leaves everything as it was: before the first byte is written, one sweep takes the largest
 * magnitude of all of x = residual + gradient, which shows any NaN or infinity and whether any scale overflows, with
 * blocks too (no block's maximum is larger). Stages that read x more than once have it added up in the residual then. It keeps the maxima of up to 1024 blocks, so that the second sweep is the
 * last one; smaller blocks are measured again, in the cache. With assume_finite the first sweep stores x in the residual
 * instead, and with blocks as well there is no such sweep: each block is accumulated and coded while it is in the cache.
 *
 * How results stay the same for any number of threads: a tensor, or each block of it, is cut into ranges of positions by
 * its size alone, each range is coded alone, and the ends of neighbouring ranges are joined in order.
 */
#ifndef TLC_PIPELINE_H
#define TLC_PIPELINE_H

#include "frame.h"
#include "../stages/stage.h"

#define TLC_BLOCK_SECOND (1u << 31) /* in a block's payload length: the payload has its coder's second form */

/* What is compressed, and how. */
typedef struct tlc_job {
    const tlc_codec *codec;
    tlc_input input;
    size_t n;
    uint64_t seed, step;
    uint64_t *scratch;   /* tlc_codec_scratch bytes, of TLC_RANGES_MAX units if parallel */
    int checksum, assume_finite;
    const tlc_parallel *parallel;
} tlc_job;

/* dst has room for the codec's frame bound. */
tlc_status tlc_pipeline_forward(const tlc_job *job, uint8_t *dst, size_t *written);

/* residual += gradient, or TLC_ERR_NONFINITE. */
tlc_status tlc_pipeline_accumulate(const tlc_job *job);

/* Is the payload of a frame whose header was read sound to the last bit? */
int tlc_pipeline_check(const tlc_kernels *k, const tlc_frame *f);

/* Of a frame that passed the check: its non-zero symbols or values, or TLC_UNKNOWN; and how many were clipped. */
uint64_t tlc_pipeline_nonzero(const tlc_kernels *k, const tlc_frame *f);
uint64_t tlc_pipeline_clipped(const tlc_frame *f);

/* Decodes a frame that passed the check. */
void tlc_pipeline_backward(const tlc_kernels *k, const tlc_frame *f, const tlc_sink *sink,
                           const tlc_parallel *parallel);
#endif
