/* SPDX-License-Identifier: MIT */
#include "neon.h"

#if defined(__aarch64__)

#define ONE_BIT_A_BYTE 0x1111111111111111u

/* A word with bit 4 k set if byte k is not 121. NEON has no movemask; narrowing shifts give four bits a byte. */
TLC_NEON_INLINE uint64_t other_bytes(uint8x16_t bytes)
{
    uint8x16_t zero = vceqq_u8(bytes, vdupq_n_u8(TLC_QUARTIC_ZERO));

    return ~vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(zero), 4)), 0) & ONE_BIT_A_BYTE;
}

/* Writes the tokens of a run, which is often short or empty. Needs one byte of room after the tokens. Returns the bytes
 * written. */
TLC_NEON_INLINE size_t put_run(size_t run, uint8_t *out)
{
    static const uint8_t token[TLC_RUN_MAX] =
        {0, TLC_QUARTIC_ZERO, 243, 244, 245, 246, 247, 248, 249, 250, 251, 252, 253, 254};

    if (run >= TLC_RUN_MAX)
        return tlc_zerorun_flush(run, out);
    *out = token[run];
    return run > 0;
}

size_t tlc_zerorun_encode_neon(size_t *run, const uint8_t *in, size_t len, uint8_t *out)
{
    size_t open = 0 - *run; /* where the open run began, modulo 2^64: it may be before in */
    size_t i = 0, at = 0;

    for (; len - i >= 16; i += 16) {
        uint8x16_t bytes = vld1q_u8(in + i);
        uint64_t others = other_bytes(bytes);

        if (others == ONE_BIT_A_BYTE) { /* there is room for the run and the 16 bytes */
            at += put_run(i - open, out + at);
            vst1q_u8(out + at, bytes);
            at += 16;
            open = i + 16;
            continue;
        }
        for (; others; others &= others - 1) {
            size_t here = i + ((size_t)__builtin_ctzll(others) >> 2);

            at += put_run(here - open, out + at);
            out[at++] = in[here];
            open = here + 1;
        }
    }
    *run = i - open;
    return at + tlc_zerorun_encode_scalar(run, in + i, len - i, out + at);
}

/* Expands one token. There is room for 16 bytes. Returns how many of them count. There is no branch: which tokens
 * are runs cannot be predicted. */
TLC_NEON_INLINE size_t expand(uint8_t token, uint8_t *out)
{
    unsigned all = 0u - (token > TLC_QUARTIC_MAX); /* all bits set for a run */

    vst1q_u8(out, vdupq_n_u8((uint8_t)(token ^ ((token ^ TLC_QUARTIC_ZERO) & all))));
    return 1 + ((token - (unsigned)TLC_QUARTIC_MAX) & all);
}

size_t tlc_zerorun_decode_neon(const uint8_t *in, size_t len, uint8_t *out)
{
    size_t i = 0, at = 0;

    for (; len - i >= 16; i += 16) {
        uint8x16_t tokens = vld1q_u8(in + i);

        if (vmaxvq_u8(tokens) <= TLC_QUARTIC_MAX) {
            vst1q_u8(out + at, tokens);
            at += 16;
        } else {
            for (int k = 0; k < 16; k++)
                at += expand(in[i + (size_t)k], out + at);
        }
    }
    for (; i < len; i++)
        at += expand(in[i], out + at);
    return at;
}

uint64_t tlc_zerorun_size_neon(const uint8_t *in, size_t len)
{
    const size_t most = 2048; /* a 16-bit lane takes 2520 pairs of at most 13 + 13 */
    uint64_t size = len;
    size_t i = 0;

    while (len - i >= 16) {
        size_t vectors = (len - i) / 16 < most ? (len - i) / 16 : most;
        uint16x8_t sums = vdupq_n_u16(0);

        for (; vectors; vectors--, i += 16)
            sums = vpadalq_u8(sums, vqsubq_u8(vld1q_u8(in + i), vdupq_n_u8(TLC_QUARTIC_MAX)));
        size += vaddlvq_u16(sums);
    }
    return size - (len - i) + tlc_zerorun_size_scalar(in + i, len - i);
}
#endif
