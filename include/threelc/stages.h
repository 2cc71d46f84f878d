/* SPDX-License-Identifier: MIT
 *
 * Every stage alone, as a plain function over the caller's arrays, for users who compose by hand. The arithmetic is that
 * of the codecs, bit for bit; the best ISA of the machine is used. Buffers must not overlap unless a comment allows it.
 * Failure, threads, alignment and float mode: as threelc.h says.
 *
 * Functions with many parameters take a struct. Start from {.struct_size = sizeof(...)}: a field that is 0 has its
 * default. A smaller struct_size than the library's leaves the missing fields 0; in a larger one the extra bytes must be 0,
 * else TLC_ERR_PARAM.
 */
#ifndef THREELC_STAGES_H
#define THREELC_STAGES_H

#include <threelc/threelc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 3-value quantization with sparsity multiplication (3LC, section 3.2): M = s * max|x|, t = M / 2,
 * q[i] = +1 if x[i] > t, -1 if x[i] < -t, else 0. residual, if not NULL, gets x[i] - M * q[i]; it may be x itself. *M
 * gets M. x, q and residual hold n values each.
 * TLC_ERR_PARAM: s is not in [1, 2). TLC_ERR_NONFINITE: a value or M is not finite. */
TLC_API tlc_status tlc_ternary_encode(const float *x, size_t n, float s, int8_t *q, float *residual, float *M);

/* out[i] = M * q[i], +0 for q[i] = 0. TLC_ERR_PARAM: a symbol is not -1, 0 or 1, or M is negative or not finite. */
TLC_API tlc_status tlc_ternary_decode(const int8_t *q, size_t n, float M, float *out);

/* sum[i] += w * q[i]; sum[i] stays untouched where q[i] = 0. TLC_ERR_PARAM: a symbol is not -1, 0 or 1, w not finite. */
TLC_API tlc_status tlc_ternary_add(const int8_t *q, size_t n, float w, float *sum);

/* Quartic encoding (3LC, section 3.3): n symbols of -1, 0, 1 become ceil(n / 5) bytes of 0..242: digits q + 1, padded
 * with digit 0 to 5 L, five contiguous partitions of L digits, byte i = 81 p0[i] + 27 p1[i] + 9 p2[i] + 3 p3[i] + p4[i].
 * TLC_ERR_CAPACITY: cap < ceil(n / 5). TLC_ERR_PARAM: a symbol is not -1, 0 or 1. */
TLC_API size_t tlc_quartic_size(size_t n); /* ceil(n / 5) */
TLC_API tlc_status tlc_quartic_encode(const int8_t *q, size_t n, void *dst, size_t cap, size_t *written);

/* The inverse, n symbols from exactly ceil(n / 5) bytes. src may be any bytes: TLC_ERR_SIZE: len is not ceil(n / 5);
 * TLC_ERR_CORRUPT: a byte above 242, or padding digits that are not 0. */
TLC_API tlc_status tlc_quartic_decode(const void *src, size_t len, int8_t *q, size_t n);

/* Zero-run encoding (3LC, section 3.4): a maximal run of k bytes 121 becomes floor(k / 14) bytes 255, then for the rest
 * c = k mod 14 nothing (c = 0), one byte 121 (c = 1) or one byte 243 + (c - 2); other bytes are copied, and must be at
 * most 242 (TLC_ERR_PARAM). TLC_ERR_CAPACITY: cap < len. Bytes of dst beyond *written may be overwritten. */
TLC_API tlc_status tlc_zerorun_encode(const void *src, size_t len, void *dst, size_t cap, size_t *written);

/* The inverse, for any bytes. TLC_ERR_CAPACITY: they expand to more than cap bytes. */
TLC_API uint64_t tlc_zerorun_decoded_size(const void *src, size_t len);
TLC_API tlc_status tlc_zerorun_decode(const void *src, size_t len, void *dst, size_t cap, size_t *written);

/* Random words: words[i] is the word of element first + i of a tensor (Philox 4x32-10 of Salmon et al., 2011, with the key
 * seed and the counter {element / 4, step}), the same on every machine. All stages below have first = 0. */
TLC_API tlc_status tlc_philox(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *words);

/* In the stages below:
 * - residual, if not NULL, gets what is not sent, x[i] - decoded[i]; it may be x itself.
 * - seed and step choose the random numbers, as tlc_philox does.
 * - TLC_ERR_NONFINITE: a value of x is not finite. */

typedef enum tlc_rounding {
    TLC_ROUND_RANDOM = 0, /* up or down at random, without bias */
    TLC_ROUND_NEAREST = 1
} tlc_rounding;

/* Stochastic 3-value quantization (3LC, section 5.1; TernGrad without clipping): *M = max|x|, q[i] = the sign of x[i] with
 * probability |x[i]| / M, else 0. Decoded as ternary is. params NULL: all 0. */
typedef struct tlc_stochastic_ternary_params {
    size_t struct_size;
    uint64_t seed, step;
    float *residual;
} tlc_stochastic_ternary_params;
TLC_API tlc_status tlc_stochastic_ternary_encode(const float *x, size_t n, const tlc_stochastic_ternary_params *params,
                                                 int8_t *q, float *M);

/* Sparse binarisation (SBC, algorithm 2): of the k = max(1, rint(p n)) largest values the positive ones, or of the k
 * smallest the negative ones, whichever have the larger mean, get q[i] = 1 and decode to that mean; the others 0.
 * TLC_ERR_PARAM: p is not in (0, 1]. */
TLC_API tlc_status tlc_sparse_binary_encode(const float *x, size_t n, double p, int8_t *q, float *residual, float *mean);

/* out[i] = mean where q[i] is 1, +0 where it is 0. TLC_ERR_PARAM: another symbol, or mean is not finite. */
TLC_API tlc_status tlc_sparse_binary_decode(const int8_t *q, size_t n, float mean, float *out);

/* Golomb-coded positions of the symbols that are not 0 (SBC, algorithms 3 and 4): LEB128 of their number k, a byte b, then
 * distances; with TLC_GOLOMB_SIGNED a sign bit after each distance. TLC_GOLOMB_UNSIGNED takes symbols 0 and 1 only.
 * scratch: 2 ceil(n / 64) words. tlc_golomb_size is the most bytes that k symbols of n, or fewer, can need.
 * TLC_ERR_CAPACITY: they need more than cap bytes. TLC_ERR_PARAM: a symbol that is not allowed. Bytes of dst beyond *written
 * may be overwritten. */
typedef enum tlc_golomb_signs { TLC_GOLOMB_UNSIGNED = 0, TLC_GOLOMB_SIGNED = 1 } tlc_golomb_signs;
typedef struct tlc_golomb_params {
    size_t struct_size;
    tlc_golomb_signs signs;
    uint64_t *scratch;
} tlc_golomb_params;
TLC_API size_t tlc_golomb_size(size_t n, size_t k, tlc_golomb_signs signs); /* SIZE_MAX on overflow */
TLC_API tlc_status tlc_golomb_encode(const int8_t *q, size_t n, const tlc_golomb_params *params, void *dst, size_t cap,
                                     size_t *written);

/* The inverse, for any bytes, all of which must be the code of n symbols: else TLC_ERR_CORRUPT. */
TLC_API tlc_status tlc_golomb_decode(const void *src, size_t len, tlc_golomb_signs signs, int8_t *q, size_t n);

/* 2 K + 1 uniform levels of x / max|x|: q[i] = x[i] / max K, rounded to the nearest (3LC's 8-bit int) or at random (QSGD with
 * the maximum norm). *max gets max|x|. TLC_ERR_PARAM: a number that is not in the enums. */
typedef enum tlc_levels { TLC_LEVELS_255 = 127, TLC_LEVELS_15 = 7 } tlc_levels; /* K */
typedef struct tlc_levels_params {
    size_t struct_size;
    tlc_levels levels; /* 0: TLC_LEVELS_255 */
    tlc_rounding rounding;
    uint64_t seed, step;
    float *residual;
} tlc_levels_params;
TLC_API tlc_status tlc_levels_encode(const float *x, size_t n, const tlc_levels_params *params, int8_t *q, float *max);

/* out[i] = max * (q[i] / K). TLC_ERR_PARAM: |q[i]| > K, another K, or max is negative or not finite. */
TLC_API tlc_status tlc_levels_decode(const int8_t *q, size_t n, tlc_levels levels, float max, float *out);

/* Natural compression (Horvath et al., 2019, section 2): powers of two.
 * TLC_NATURAL_8: n bytes, sign << 7 | (e + 50), exponents e in -50..10, 0x40 for 0.
 * TLC_NATURAL_9: n bytes e + 127 (0 for 0), then ceil(n / 8) bytes of signs.
 * A code is +-2^(e + shift), 0 <= shift <= 117. *clipped, if not NULL, gets how many exponents were out of range.
 * TLC_ERR_CAPACITY: cap < n, or n + ceil(n / 8). TLC_ERR_PARAM: a number that is not in the enums, or another shift. */
typedef enum tlc_natural_bits { TLC_NATURAL_8 = 8, TLC_NATURAL_9 = 9 } tlc_natural_bits;
typedef struct tlc_natural_params {
    size_t struct_size;
    tlc_natural_bits bits; /* 0: TLC_NATURAL_8 */
    tlc_rounding rounding;
    int shift;
    uint64_t seed, step;
    float *residual;
} tlc_natural_params;
TLC_API tlc_status tlc_natural_encode(const float *x, size_t n, const tlc_natural_params *params, void *codes, size_t cap,
                                      uint64_t *clipped);

/* The inverse, for any bytes. TLC_ERR_SIZE: another len; TLC_ERR_CORRUPT: a byte that is no code. */
TLC_API tlc_status tlc_natural_decode(const void *codes, size_t len, tlc_natural_bits bits, int shift, float *out, size_t n);

/* Adds count natural frames of the same n, bits and shift, not blocked, in their order from +0 on, and compresses the sum
 * again with random numbers of its own into one frame (IntML's aggregator): its dtype and whether it has a checksum are the
 * first frame's. cap: what tlc_codec_bound says. A sum that overflows is clipped like any large value. params NULL: all 0.
 * TLC_ERR_SIZE: another n; TLC_ERR_PARAM: other bits or shift; TLC_ERR_UNSUPPORTED: not natural, or blocked; else as
 * tlc_decompress. dst must not overlap a frame. */
typedef struct tlc_natural_aggregate_params {
    size_t struct_size;
    uint64_t seed, step;
} tlc_natural_aggregate_params;
TLC_API tlc_status tlc_natural_aggregate(const tlc_message *frames, size_t count, const tlc_natural_aggregate_params *params,
                                         void *dst, size_t cap, size_t *written);

/* One bit a value, x[i] >= 0 or not (bit i % 8 of byte i / 8, ceil(n / 8) bytes); mean[0] is the mean of the former, mean[1]
 * of the others (1-bit SGD with minimum squared error). Sums are binary64, in chunks of 4096 values: within one 16 lanes
 * (index mod 16), folded 16-8-4-2-1, then the chunks in rising order. */
TLC_API tlc_status tlc_onebit_encode(const float *x, size_t n, void *bits, float *residual, float mean[2]);

/* out[i] = mean[0] where the bit is 1, else mean[1]. bits: len bytes. TLC_ERR_SIZE: len is not ceil(n / 8); TLC_ERR_PARAM: a
 * mean is not finite; TLC_ERR_CORRUPT: a bit beyond n is 1. */
TLC_API tlc_status tlc_onebit_decode(const void *bits, size_t len, const float mean[2], float *out, size_t n);

/* About the largest p of the magnitudes (3LC, section 5.1), by a threshold from min(n, 4096) sampled values: a bitmap of
 * ceil(n / 8) bytes, then the values as f32. TLC_ERR_CAPACITY: cap < ceil(n / 8) + 4 min(n, 2 ceil(p n)).
 * TLC_ERR_PARAM: p is not in (0, 1]. */
typedef struct tlc_topk_params {
    size_t struct_size;
    double p;
    uint64_t seed, step;
    float *residual;
} tlc_topk_params;
TLC_API tlc_status tlc_topk_encode(const float *x, size_t n, const tlc_topk_params *params, void *dst, size_t cap,
                                   size_t *written);
TLC_API tlc_status tlc_topk_decode(const void *src, size_t len, float *out, size_t n); /* TLC_ERR_CORRUPT */

/* x / p with probability p, else 0 (Tang et al., DCD-PSGD, 2018, footnote 2): Golomb-coded positions, then the values as
 * f32. scratch: ceil(n / 64) words. TLC_ERR_CAPACITY: cap < tlc_golomb_size(n, n, TLC_GOLOMB_UNSIGNED) + 4 n.
 * TLC_ERR_PARAM: p is not in (0, 1]. */
typedef struct tlc_random_sparse_params {
    size_t struct_size;
    double p;
    uint64_t seed, step;
    uint64_t *scratch;
    float *residual;
} tlc_random_sparse_params;
TLC_API tlc_status tlc_random_sparse_encode(const float *x, size_t n, const tlc_random_sparse_params *params, void *dst,
                                            size_t cap, size_t *written);
TLC_API tlc_status tlc_random_sparse_decode(const void *src, size_t len, float *out, size_t n); /* TLC_ERR_CORRUPT */

/* n values from one dtype to another: widening is exact, narrowing rounds half to even and overflows to infinity; a NaN
 * stays a NaN, made quiet when the dtype changes, with its sign and as much of its payload as fits. Equal dtypes copy the
 * bits. TLC_ERR_PARAM: an unknown dtype. */
TLC_API tlc_status tlc_convert(const void *src, tlc_dtype from, void *dst, tlc_dtype to, size_t n);

#ifdef __cplusplus
}
#endif
#endif
