/* SPDX-License-Identifier: MIT
 *
 * The untimed pass over all steps that verifies every round trip and tells sizes and errors.
 */
#ifndef BENCH_VERIFY_H
#define BENCH_VERIFY_H

#include "channel.h"

typedef struct verified {
    tlc_isa isa;          /* that was used; TLC_ISA_AUTO for peers */
    bool feedback;        /* whether there is a residual */
    uint64_t values;      /* in all steps of all tensors */
    uint64_t input_bytes;
    uint64_t frame_bytes;
    uint64_t *step_bytes; /* of the frames of each step */
    uint64_t nonzero;     /* values that decode to other than 0 */
    uint64_t clipped;     /* values that were out of the codec's range, as tlc_inspect counts them */
    double entropy_bits;  /* of the symbols of all frames, frame by frame; 0 for codecs without such symbols */
    uint32_t crc;         /* CRC-32 of all frames in order: for each step, for each tensor */
    double step_error;    /* ||x - decoded|| / ||x|| of a step, x = residual + gradient; mean over the steps sent */
    double sum_error;     /* ||sum of g - (sum of decoded + residual)|| / ||sum of g|| over all steps */
    double residual_norm; /* ||residual|| after the last step */
    double grad_norm;     /* ||g|| of a step; mean over the steps */
} verified;

/* Sends all steps of the channels, which are fresh, and checks of each frame that
 * - it is no larger than tlc_bound and tlc_codec_bound, and tlc_inspect knows its dtype, n and number of non-zero values;
 * - decoded + new residual = old residual + gradient, but for the roundings of both sides (P6); raw without feedback
 *   gives the gradient's very bits;
 * - decoding to the dtype is decoding to f32, then tlc_convert; tlc_decompress_add with weight 1 adds just these values
 *   and, if the codec has a zero, leaves the sum alone where they are 0;
 * of steps that are only accumulated (channel_options.delay) that the residual is the sum, rounded once;
 * and of the sums over all steps that nothing was lost. Of peers, that exact ones give the gradient's very bits and that
 * nothing is lost by those with feedback. Appends the frames to frames.
 * Norms are over all tensors together, in binary64; errors are NaN where they are 0 / 0. Values that are not finite (raw
 * only) are left out of them. Whether or not it succeeds, result is to be freed. */
bool verify(const channel *channels, size_t count, tlc_dtype dtype, const channel_options *options, frame_store *frames,
            verified *result, char *why);
void verified_free(verified *result);
#endif
