/* SPDX-License-Identifier: MIT
 *
 * A simple 3LC, as one would write it in an afternoon: portable C, a loop for each step. It sends M in the byte order
 * of the machine, then the payload of libthreelc's frame.
 */
#include "peers.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct naive {
    float *residual;
    unsigned char *digits; /* 5 L of them, q + 1; from n on they stay 0 */
} naive;

static size_t quartic_length(size_t n)
{
    return n / 5 + (n % 5 != 0);
}

static bool naive_bound(const peer *p, size_t n, size_t *cap)
{
    (void)p;
    *cap = sizeof(float) + quartic_length(n);
    return true;
}

static void naive_close(void *state)
{
    naive *s = state;

    if (!s)
        return;
    free(s->residual);
    free(s->digits);
    free(s);
}

static void *naive_open(const peer *p, size_t n, tlc_isa isa)
{
    naive *s = malloc(sizeof *s);

    (void)p;
    (void)isa;
    if (!s)
        return NULL;
    s->residual = calloc(n ? n : 1, sizeof *s->residual);
    s->digits = calloc(n ? quartic_length(n) : 1, 5);
    if (s->residual && s->digits)
        return s;
    naive_close(s);
    return NULL;
}

/* Leaves r - M q in r and q + 1 in digits; returns M. */
static float naive_quantize(float *r, const float *g, size_t n, unsigned char *digits)
{
    float M = 0;

    for (size_t i = 0; i < n; i++) {
        r[i] += g[i];
        if (fabsf(r[i]) > M)
            M = fabsf(r[i]);
    }
    for (size_t i = 0; i < n; i++) {
        int q = M > 0 ? (int)lrintf(r[i] / M) : 0;
        r[i] -= M * (float)q;
        digits[i] = (unsigned char)(q + 1);
    }
    return M;
}

static unsigned char *naive_end_run(unsigned run, unsigned char *out)
{
    if (run)
        *out++ = run == 1 ? 121 : (unsigned char)(241 + run);
    return out;
}

static bool naive_compress(void *state, const float *g, size_t n, void *dst, size_t cap, size_t *len)
{
    naive *s = state;
    size_t L = quartic_length(n);
    unsigned char *out = dst;
    const unsigned char *d = s->digits;
    unsigned run = 0;

    if (cap < sizeof(float) + L)
        return false;
    float M = naive_quantize(s->residual, g, n, s->digits);
    memcpy(out, &M, sizeof M);
    out += sizeof M;
    for (size_t i = 0; i < L; i++) {
        int byte = 81 * d[i] + 27 * d[L + i] + 9 * d[2 * L + i] + 3 * d[3 * L + i] + d[4 * L + i];
        if (byte == 121) {
            if (++run == 14) {
                *out++ = 255;
                run = 0;
            }
        } else {
            out = naive_end_run(run, out);
            run = 0;
            *out++ = (unsigned char)byte;
        }
    }
    out = naive_end_run(run, out);
    *len = (size_t)(out - (unsigned char *)dst);
    return true;
}

/* Byte i of the L. */
static void naive_decode_byte(unsigned byte, size_t i, size_t L, float M, float *out, size_t n)
{
    for (size_t part = 5; part-- > 0; byte /= 3) {
        if (part * L + i < n)
            out[part * L + i] = M * (float)((int)(byte % 3) - 1);
    }
}

static bool naive_decompress(void *state, const void *src, size_t len, float *out, size_t n)
{
    const unsigned char *in = src, *end = in + len;
    size_t L = quartic_length(n), i = 0;
    float M;

    (void)state;
    if (len < sizeof M)
        return false;
    memcpy(&M, in, sizeof M);
    for (in += sizeof M; in < end; in++) {
        size_t run = *in > 242 ? *in - 241u : 1;
        unsigned byte = *in > 242 ? 121 : *in;
        if (run > L - i)
            return false;
        for (; run; run--)
            naive_decode_byte(byte, i++, L, M, out, n);
    }
    return i == L;
}

static float *naive_residual(const void *state)
{
    return ((const naive *)state)->residual;
}

const peer peer_naive = {.name = "naive 3LC",
                         .feedback = true,
                         .bound = naive_bound,
                         .open = naive_open,
                         .close = naive_close,
                         .compress = naive_compress,
                         .decompress = naive_decompress,
                         .residual = naive_residual};
