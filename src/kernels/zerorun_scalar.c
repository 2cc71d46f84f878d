/* SPDX-License-Identifier: MIT */
#include "kernels.h"

size_t tlc_zerorun_encode_scalar(size_t *run, const uint8_t *in, size_t len, uint8_t *out)
{
    size_t zeros = *run, at = 0;

    for (size_t i = 0; i < len; i++) {
        if (in[i] == TLC_QUARTIC_ZERO) {
            zeros++;
            continue;
        }
        if (zeros) {
            at += tlc_zerorun_flush(zeros, out + at);
            zeros = 0;
        }
        out[at++] = in[i];
    }
    *run = zeros;
    return at;
}

size_t tlc_zerorun_decode_scalar(const uint8_t *in, size_t len, uint8_t *out)
{
    size_t at = 0;

    for (size_t i = 0; i < len; i++) {
        if (in[i] <= TLC_QUARTIC_MAX) {
            out[at++] = in[i];
            continue;
        }
        memset(out + at, TLC_QUARTIC_ZERO, TLC_RUN_MAX); /* there is room */
        at += in[i] - 241u;                              /* 243 is a run of 2 */
    }
    return at;
}

uint64_t tlc_zerorun_size_scalar(const uint8_t *in, size_t len)
{
    uint64_t size = len;

    for (size_t i = 0; i < len; i++)
        size += in[i] > TLC_QUARTIC_MAX ? in[i] - (unsigned)TLC_QUARTIC_MAX : 0u;
    return size;
}
