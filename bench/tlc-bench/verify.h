/* SPDX-License-Identifier: MIT
 *
 * The pass over all steps that verifies every round trip, and finds sizes and errors. It is not timed.
 */
#ifndef BENCH_VERIFY_H
#define BENCH_VERIFY_H

#include "../lib/channel.h"

/* What the residuals were before the first step: those of all tensors, of some, or of none were recorded. */
typedef enum start_kind { START_NO_RESIDUAL, START_ZERO, START_MIXED, START_RECORDED } start_kind;

typedef struct verified {
    tlc_isa isa;   /* that was used; TLC_ISA_AUTO for peers */
    bool feedback; /* whether there is a residual */
    start_kind start;
    uint64_t values; /* in all steps of all tensors */
    uint64_t input_bytes;
    uint64_t frame_bytes;
    uint64_t *step_bytes; /* of the frames of each step */
    uint64_t nonzero;     /* decoded values that are not 0 */
    uint64_t clipped;     /* values that were out of the codec's range, as tlc_inspect counts them */
    double entropy_bits;  /* of the symbols of all frames, frame by frame; 0 for codecs without such symbols */
    uint32_t crc;         /* CRC-32 of all frames in order: for each step, for each tensor */
    double step_error;    /* ||x - decoded|| / ||x||, x = residual + gradient; mean over the steps with a frame */
    double sum_error;     /* ||S - (sum of decoded + residual)|| / ||S||, S = first residual + sum of g, of all steps */
    double residual_norm; /* ||residual|| after the last step */
    double grad_norm;     /* ||g|| of a step; mean over the steps */
} verified;

/* Sends all steps of new channels, and appends the frames to frames. It checks each frame:
 * - it is not larger than tlc_bound and tlc_codec_bound; tlc_inspect gives its dtype, n and number of non-zero values;
 * - decoded + new residual = old residual + gradient, to rounding (P6); raw without feedback gives the very bits of the
 *   gradient;
 * - decoding to the dtype gives the same as decoding to f32 and tlc_convert;
 * - tlc_decompress_add with weight 1 adds the decoded values. If the codec has a zero, it does not touch the sum at
 *   zeros.
 * After a step that is only accumulated (channel_options.delay), the residual is the sum, rounded once. Over all steps
 * nothing is lost. Of peers it checks that exact ones give the very bits of the gradient, and that those with feedback
 * lose nothing.
 * Norms are over all tensors together, in binary64. An error of 0 / 0 is NaN. Values that are not finite (raw only)
 * are left out. result must be freed, also after a failure. */
bool verify(const channel *channels, size_t count, tlc_dtype dtype, const channel_options *options, frame_store *frames,
            verified *result, char *why);
void verified_free(verified *result);
#endif
