/* SPDX-License-Identifier: MIT
 *
 * From gradient and residual to a frame. plan.h says which sweeps are made.
 *
 * The results are the same for any number of threads: how a tensor is cut into ranges depends on its size alone, each
 * range is encoded independently, and then the ranges are joined in order.
 */
#ifndef TLC_ENCODE_H
#define TLC_ENCODE_H

#include "../coding/coder.h"

/* All that one compression needs. */
typedef struct tlc_job {
    const tlc_codec *codec;
    tlc_input input;
    size_t n;
    tlc_random random;
    uint64_t *scratch; /* tlc_scratch_size bytes, of TLC_RANGES_MAX units if parallel */
    int checksum, assume_finite;
    const tlc_parallel *parallel;
} tlc_job;

/* Writes a frame; dst has room for tlc_frame_bound. It may change the input of the job, as tlc_encode_begin does. */
tlc_status tlc_encode_frame(tlc_job *job, uint8_t *dst, size_t *written);

/* residual += gradient, or TLC_ERR_NONFINITE. */
tlc_status tlc_encode_accumulate(const tlc_job *job);

/* Makes the sweeps before the encoding of a tensor that is not blocked, and sets scalars and selection of c->unit. n >
 * 0. The unit refers to the job. If the gradient is now in the residual, job->input.grad becomes NULL.
 * TLC_ERR_NONFINITE. */
tlc_status tlc_encode_begin(tlc_job *job, tlc_coding *c);
#endif
