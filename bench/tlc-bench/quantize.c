/* SPDX-License-Identifier: MIT */
#include "quantize.h"
#include "../lib/source.h"
#include <math.h>
#include <threelc/stages.h>

#define LARGEST 6 /* standard deviations */

/* A small float: bits of its mantissa, the exponent of its smallest normal numbers, its largest value. */
typedef struct small_float {
    int mantissa, least;
    double largest;
} small_float;

/* Its bits without the sign. */
static unsigned magnitude_bits(small_float f, double x)
{
    int exponent;

    x = fmin(x, f.largest);
    (void)frexp(x, &exponent); /* x = 0.5..1 times 2^exponent */
    exponent = exponent - 1 < f.least ? f.least : exponent - 1;
    /* in units of its last place; one more than the largest mantissa is the next exponent */
    return ((unsigned)(exponent - f.least) << f.mantissa) + (unsigned)rint(ldexp(x, f.mantissa - exponent));
}

static unsigned code_of(tlc_dtype dtype, double x)
{
    static const small_float e4m3 = {3, -6, 448}, e5m2 = {2, -14, 57344}, e2m1 = {1, 0, 6};
    const small_float *f = dtype == TLC_F8_E4M3 ? &e4m3 : dtype == TLC_F8_E5M2 ? &e5m2 : &e2m1;

    if (dtype == TLC_U8)
        return (unsigned)(int)rint(fmax(fmin(x * 127 / LARGEST, 127), -127)) & 255;
    if (dtype == TLC_U4)
        return (unsigned)(int)rint(fmax(fmin(x * 7 / LARGEST, 7), -7)) & 15;
    return (signbit(x) ? 1u << (dtype == TLC_F4_E2M1 ? 3 : 7) : 0) | magnitude_bits(*f, fabs(x) * f->largest / LARGEST);
}

void quantize(tlc_dtype dtype, const float *values, double deviation, unsigned char *weights, size_t first,
              size_t count)
{
    unsigned char *to = weights + dtype_bytes(dtype, first);

    if (dtype <= TLC_BF16) {
        (void)tlc_convert(TLC_F32, values, dtype, to, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const unsigned code = code_of(dtype, (double)values[i] / deviation);
        if (!dtype_is_paired(dtype))
            to[i] = (unsigned char)code;
        else if (i % 2)
            to[i / 2] = (unsigned char)(to[i / 2] | code << 4);
        else
            to[i / 2] = (unsigned char)code;
    }
}
