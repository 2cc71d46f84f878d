/* SPDX-License-Identifier: MIT */
#include "halves.h"
#include <string.h>

/* ---- in portable C ----------------------------------------------------------------------------------------------- */

static uint16_t narrow(float value)
{
    uint32_t bits, sign;

    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x477ff000) /* 65520 is rounded up to 65536 */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) { /* subnormal: the last bit of 0.5 + value is worth 2^-24, as that of the result */
        float sum;
        memcpy(&sum, &bits, sizeof sum);
        sum += 0.5f;
        memcpy(&bits, &sum, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

static float widen(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff, bits;
    float value = (float)fraction * 0x1p-24f;

    if (!exponent)
        return sign ? -value : value;
    bits = sign | (exponent == 0x1f ? 0xffu : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- with the instructions of x86-64 ----------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include "../peers/peers.h"

bool halves_have_f16c(void)
{
    return tlc_isa_supported(TLC_ISA_AVX2); /* AVX2 machines have F16C */
}

static void *state_of_peer(void)
{
    static void *state; /* two pointers to functions, for all calls */

    if (!state)
        state = peer_f16.open(&peer_f16, 1, TLC_ISA_AUTO);
    return state;
}

static bool narrow_f16c(const float *in, size_t n, uint16_t *out)
{
    size_t len;

    return state_of_peer() && peer_f16.compress(state_of_peer(), in, n, out, n * sizeof *out, &len);
}

static bool widen_f16c(const uint16_t *in, size_t n, float *out)
{
    return state_of_peer() && peer_f16.decompress(state_of_peer(), in, n * sizeof *in, out, n);
}
#else
bool halves_have_f16c(void)
{
    return false;
}

static bool narrow_f16c(const float *in, size_t n, uint16_t *out)
{
    (void)in;
    (void)n;
    (void)out;
    return false;
}

static bool widen_f16c(const uint16_t *in, size_t n, float *out)
{
    (void)in;
    (void)n;
    (void)out;
    return false;
}
#endif

/* ---- either ------------------------------------------------------------------------------------------------------ */

void halves_narrow(const float *in, size_t n, uint16_t *out, bool f16c)
{
    if (f16c && narrow_f16c(in, n, out))
        return;
    for (size_t i = 0; i < n; i++)
        out[i] = narrow(in[i]);
}

void halves_widen(const uint16_t *in, size_t n, float *out, bool f16c)
{
    if (f16c && widen_f16c(in, n, out))
        return;
    for (size_t i = 0; i < n; i++)
        out[i] = widen(in[i]);
}

void halves_add(const uint16_t *in, uint16_t *sum, size_t n, bool f16c)
{
    enum { BLOCK = 1024 };
    float a[BLOCK], b[BLOCK];

    for (size_t at = 0, count; at < n; at += count) {
        count = n - at < BLOCK ? n - at : BLOCK;
        halves_widen(in + at, count, a, f16c);
        halves_widen(sum + at, count, b, f16c);
        for (size_t i = 0; i < count; i++)
            b[i] += a[i];
        halves_narrow(b, count, sum + at, f16c);
    }
}
