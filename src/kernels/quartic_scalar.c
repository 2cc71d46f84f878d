/* SPDX-License-Identifier: MIT */
#include "kernels.h"

void tlc_quartic_encode_scalar(const int8_t *const q[5], size_t len, uint8_t *out)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)(TLC_QUARTIC_ZERO + 81 * q[0][i] + 27 * q[1][i] + 9 * q[2][i] + 3 * q[3][i] + q[4][i]);
}

void tlc_quartic_decode_scalar(const uint8_t *in, size_t len, int8_t *const q[5])
{
    for (size_t i = 0; i < len; i++) {
        unsigned rest = in[i];

        for (int k = 4; k >= 0; k--) {
            q[k][i] = (int8_t)((int)(rest % 3) - 1);
            rest /= 3;
        }
    }
}

uint8_t tlc_bytes_max_scalar(const uint8_t *in, size_t len)
{
    uint8_t max = 0;

    for (size_t i = 0; i < len; i++)
        max = in[i] > max ? in[i] : max;
    return max;
}

int tlc_bytes_allowed_scalar(const uint8_t *in, size_t len, const tlc_bytes_rule *rule)
{
    unsigned bad = 0;

    for (size_t i = 0; i < len; i++)
        bad |= (uint8_t)((in[i] & rule->keep) - rule->least) > rule->above && in[i] != rule->other;
    return !bad;
}
