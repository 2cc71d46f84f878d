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

void tlc_zerorun_decode_scalar(tlc_zerorun_source *source, uint8_t *out, size_t len)
{
    const uint8_t *src = source->src;
    unsigned pending = source->pending;
    size_t at = 0;

    while (at < len) {
        if (!pending && *src <= TLC_QUARTIC_MAX) {
            out[at++] = *src++;
            continue;
        }
        if (!pending)
            pending = (unsigned)*src++ - 241; /* 243 is a run of 2 */
        size_t count = pending < len - at ? pending : len - at;
        memset(out + at, TLC_QUARTIC_ZERO, count);
        at += count;
        pending -= (unsigned)count;
    }
    source->src = src;
    source->pending = pending;
}

uint64_t tlc_zerorun_size_scalar(const uint8_t *in, size_t len)
{
    uint64_t size = len;

    for (size_t i = 0; i < len; i++)
        size += in[i] > TLC_QUARTIC_MAX ? in[i] - (unsigned)TLC_QUARTIC_MAX : 0u;
    return size;
}
