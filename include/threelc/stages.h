/* SPDX-License-Identifier: MIT
 *
 * Each stage as a function over the caller's arrays, for programs that compose stages themselves. The results are those
 * of the codecs, bit for bit. The best ISA of the machine is used. Buffers must not overlap unless a comment allows it.
 * Failure, threads, alignment and float mode: as threelc.h says.
 *
 * Functions with many parameters take a struct. Start from its `_init`. A field that is 0 has its default. If
 * struct_size is smaller than the library's, the missing fields are 0. If it is larger, the extra bytes must be 0, else
 * TLC_ERR_PARAM.
 *
 * TLC_ERR_PARAM is also an argument that is NULL where its size is not 0.
 */
#ifndef THREELC_STAGES_H
#define THREELC_STAGES_H

#include <threelc/frames.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 3-value quantization with sparsity multiplication (3LC, section 3.1): M = s * max|x|, t = M / 2, and q[i] = +1 if
 * x[i] > t, -1 if x[i] < -t, else 0. *M = M. residual[i] = x[i] - M * q[i]; residual may be NULL, or x itself. x, q and
 * residual have n values each.
 * TLC_ERR_PARAM: s is not in [1, 2). TLC_ERR_NONFINITE: a value or M is not finite. */
TLC_API tlc_status tlc_ternary_encode(const float *x, size_t n, float s, int8_t *q, float *residual, float *M);

/* out[i] = M * q[i], and +0 for q[i] = 0. TLC_ERR_PARAM: a symbol is not -1, 0 or 1, or M is negative or not finite. */
TLC_API tlc_status tlc_ternary_decode(const int8_t *q, size_t n, float M, float *out);

/* sum[i] += w * q[i]. Where q[i] = 0, sum[i] keeps its bits. TLC_ERR_PARAM: a symbol is not -1, 0 or 1, or w is not
 * finite. */
TLC_API tlc_status tlc_ternary_add(const int8_t *q, size_t n, float w, float *sum);

/* Quartic encoding (3LC, section 3.2): n symbols become L = ceil(n / 5) bytes of 0..242. The digits q + 1 are padded
 * with digit 0 to 5 L digits and split into five contiguous partitions p0..p4.
 * Byte i is 81 p0[i] + 27 p1[i] + 9 p2[i] + 3 p3[i] + p4[i].
 * TLC_ERR_CAPACITY: cap < ceil(n / 5). TLC_ERR_PARAM: a symbol is not -1, 0 or 1. */
TLC_API size_t tlc_quartic_size(size_t n); /* ceil(n / 5) */
TLC_API tlc_status tlc_quartic_encode(const int8_t *q, size_t n, void *dst, size_t cap, size_t *written);

/* The inverse: n symbols from ceil(n / 5) bytes, which may be any. TLC_ERR_SIZE: len is not ceil(n / 5).
 * TLC_ERR_CORRUPT: a byte is above 242, or a padding digit is not 0. */
TLC_API tlc_status tlc_quartic_decode(const void *src, size_t len, int8_t *q, size_t n);

/* Zero-run encoding (3LC, section 3.3): a maximal run of k bytes 121 becomes floor(k / 14) bytes 255, and then for the
 * rest c = k mod 14 nothing (c = 0), one byte 121 (c = 1) or one byte 243 + (c - 2). Other bytes are copied.
 * TLC_ERR_CAPACITY: cap < len. TLC_ERR_PARAM: a byte is above 242. The bytes of dst after *written may be
 * overwritten. */
TLC_API tlc_status tlc_zerorun_encode(const void *src, size_t len, void *dst, size_t cap, size_t *written);

/* The inverse, for any bytes. tlc_zerorun_decoded_size gives the bytes that they expand to. TLC_ERR_CAPACITY: these are
 * more than cap. */
TLC_API uint64_t tlc_zerorun_decoded_size(const void *src, size_t len);
TLC_API tlc_status tlc_zerorun_decode(const void *src, size_t len, void *dst, size_t cap, size_t *written);

/* Random words: words[i] is the word of value first + i of a tensor, the same on every machine. (Philox 4x32-10 of
 * Salmon et al., 2011, with the key seed and the counter {index of the value / 4, step}.) In the stages below first is
 * 0. */
TLC_API tlc_status tlc_philox(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *words);

/* In the stages below:
 * - residual[i] = x[i] - decoded[i]: what is not sent. residual may be NULL, or x itself.
 * - seed and step choose the random words (tlc_philox).
 * - TLC_ERR_NONFINITE: a value of x is not finite. */

/* Stochastic 3-value quantization (3LC, section 5.1; TernGrad without clipping): *M = max|x|, and q[i] is the sign of
 * x[i] with probability |x[i]| / M, else 0. tlc_ternary_decode decodes it. params NULL: all fields 0. */
typedef struct tlc_stochastic_ternary_params {
    size_t struct_size;
    uint64_t seed, step; /* of the random words (tlc_philox) */
    float *residual;     /* n floats, or NULL */
} tlc_stochastic_ternary_params;
TLC_API tlc_status tlc_stochastic_ternary_params_init(tlc_stochastic_ternary_params *params, size_t struct_size);
TLC_API tlc_status tlc_stochastic_ternary_encode(const float *x, size_t n, const tlc_stochastic_ternary_params *params,
                                                 int8_t *q, float *M);

/* Sparse binarisation (SBC, algorithm 2). With k = max(1, rint(p n)) there are two sides: the positive ones of the k
 * largest values, and the negative ones of the k smallest. The values of the side whose mean is larger in magnitude
 * have q[i] = 1 and decode to *mean, the mean of that side. The others have q[i] = 0.
 * TLC_ERR_PARAM: p is not in (0, 1]. */
TLC_API tlc_status tlc_sparse_binary_encode(const float *x, size_t n, double p, int8_t *q, float *residual,
                                            float *mean);

/* out[i] = mean where q[i] is 1, and +0 where it is 0. TLC_ERR_PARAM: another symbol, or mean is not finite. */
TLC_API tlc_status tlc_sparse_binary_decode(const int8_t *q, size_t n, float mean, float *out);

/* Golomb-coded positions of the symbols that are not 0 (SBC, algorithms 3 and 4): LEB128 of their number k, a byte b,
 * then the distances. With TLC_GOLOMB_SIGNED a sign bit follows each distance. With TLC_GOLOMB_UNSIGNED the symbols are
 * only 0 and 1.
 * scratch: 2 ceil(n / 64) words. tlc_golomb_size: the bytes that are enough if at most k of n symbols are not 0.
 * TLC_ERR_CAPACITY: more than cap bytes are needed. TLC_ERR_PARAM: a symbol that is not allowed. The bytes of dst
 * after *written may be overwritten. */
typedef enum tlc_golomb_signs {
    TLC_GOLOMB_UNSIGNED = 0, /* the symbols are 0 and 1 */
    TLC_GOLOMB_SIGNED = 1    /* a sign bit follows each distance */
} tlc_golomb_signs;
typedef struct tlc_golomb_params {
    size_t struct_size;
    tlc_golomb_signs signs; /* with sign bits or without */
    uint64_t *scratch;      /* 2 ceil(n / 64) words */
} tlc_golomb_params;
TLC_API tlc_status tlc_golomb_params_init(tlc_golomb_params *params, size_t struct_size);
TLC_API size_t tlc_golomb_size(size_t n, size_t k, tlc_golomb_signs signs); /* SIZE_MAX on overflow */
TLC_API tlc_status tlc_golomb_encode(const int8_t *q, size_t n, const tlc_golomb_params *params, void *dst, size_t cap,
                                     size_t *written);

/* The inverse, for any bytes. TLC_ERR_CORRUPT: they are not the code of n symbols, or bytes follow it. */
TLC_API tlc_status tlc_golomb_decode(const void *src, size_t len, tlc_golomb_signs signs, int8_t *q, size_t n);

/* 2 K + 1 uniform levels of x / max|x|: *max = max|x|, and q[i] = x[i] / max * K, rounded to the nearest (3LC's 8-bit
 * int) or at random (QSGD with the maximum norm). TLC_ERR_PARAM: a number that is not in the enums. */
typedef enum tlc_levels {
    TLC_LEVELS_255 = 127, /* 8 bits */
    TLC_LEVELS_15 = 7     /* 4 bits */
} tlc_levels;             /* K */
typedef struct tlc_levels_params {
    size_t struct_size;
    tlc_levels levels;     /* 0: TLC_LEVELS_255 */
    tlc_rounding rounding; /* at random, or to the nearest */
    uint64_t seed, step;   /* of the random words (tlc_philox) */
    float *residual;       /* n floats, or NULL */
} tlc_levels_params;
TLC_API tlc_status tlc_levels_params_init(tlc_levels_params *params, size_t struct_size);
TLC_API tlc_status tlc_levels_encode(const float *x, size_t n, const tlc_levels_params *params, int8_t *q, float *max);

/* out[i] = max * (q[i] / K). TLC_ERR_PARAM: |q[i]| > K, another K, or max is negative or not finite. */
TLC_API tlc_status tlc_levels_decode(const int8_t *q, size_t n, tlc_levels levels, float max, float *out);

/* Natural compression (Horvath et al., 2019, section 2): each value becomes a power of two, +-2^(e + shift). The shift
 * is 0 to 117.
 * TLC_NATURAL_8: n bytes sign << 7 | (e + 50), with e in -50..10; 0x40 for 0.
 * TLC_NATURAL_9: n bytes e + 127, or 0 for 0; then ceil(n / 8) bytes of signs.
 * *clipped, if not NULL: how many exponents were out of range. They become the nearest one in the range, so these
 * values have a bias.
 * TLC_ERR_CAPACITY: cap is less than these bytes. TLC_ERR_PARAM: a number that is not in the enums, or another
 * shift. */
typedef enum tlc_natural_bits {
    TLC_NATURAL_8 = 8, /* a byte for each value */
    TLC_NATURAL_9 = 9  /* a byte and a sign bit */
} tlc_natural_bits;
typedef struct tlc_natural_params {
    size_t struct_size;
    tlc_natural_bits bits; /* 0: TLC_NATURAL_8 */
    tlc_rounding rounding; /* at random, or to the nearest */
    int shift;             /* of exponents, 0 to 117 */
    uint64_t seed, step;   /* of the random words (tlc_philox) */
    float *residual;       /* n floats, or NULL */
} tlc_natural_params;
TLC_API tlc_status tlc_natural_params_init(tlc_natural_params *params, size_t struct_size);
TLC_API tlc_status tlc_natural_encode(const float *x, size_t n, const tlc_natural_params *params, void *codes,
                                      size_t cap, uint64_t *clipped);

/* The inverse, for any bytes. TLC_ERR_SIZE: another len. TLC_ERR_CORRUPT: a byte that is no code. */
TLC_API tlc_status tlc_natural_decode(const void *codes, size_t len, tlc_natural_bits bits, int shift, float *out,
                                      size_t n);

/* One bit for each value (1-bit SGD with minimum squared error): bit i % 8 of byte i / 8 is 1 if x[i] >= 0. mean[0] is
 * the mean of these values, mean[1] that of the others. bits: ceil(n / 8) bytes. Sums are binary64, over chunks of 4096
 * values: within a chunk 16 lanes (index mod 16), folded 16-8-4-2-1; then the chunks in rising order. */
TLC_API tlc_status tlc_onebit_encode(const float *x, size_t n, void *bits, float *residual, float mean[2]);

/* out[i] = mean[0] where bit i is 1, else mean[1]. TLC_ERR_SIZE: len is not ceil(n / 8). TLC_ERR_PARAM: a mean is not
 * finite. TLC_ERR_CORRUPT: a bit after the n-th is 1. */
TLC_API tlc_status tlc_onebit_decode(const void *bits, size_t len, const float mean[2], float *out, size_t n);

/* Sends the values of the largest magnitudes as they are. dst gets a bitmap of ceil(n / 8) bytes, then the values as
 * f32.
 * TLC_SELECT_SAMPLED (3LC, section 5.1): about p n values, at most 2 ceil(p n). The threshold is found in m = min(n,
 * max(4096, ceil(200 / p))) samples; the j-th is drawn from floor(j n / m) .. floor((j + 1) n / m) - 1. If at
 * most ceil(p m) of them are not 0, all values are wanted that are not 0.
 * TLC_SELECT_EXACT: max(1, rint(p n)) values, fewer if the others are 0; of equal magnitudes the first.
 * TLC_ERR_CAPACITY: cap < ceil(n / 8) + 4 k, where k is the largest number of values, at most n. TLC_ERR_PARAM: p is
 * not in (0, 1], or a number that is not in the enum. p 0 is 0.05. */
typedef enum tlc_select {
    TLC_SELECT_SAMPLED = 0, /* by a threshold from a sample */
    TLC_SELECT_EXACT = 1    /* the largest ones */
} tlc_select;
typedef struct tlc_topk_params {
    size_t struct_size;
    double p;            /* the fraction of values that is sent */
    uint64_t seed, step; /* of the random words (tlc_philox) */
    float *residual;     /* n floats, or NULL */
    tlc_select select;   /* how they are found */
} tlc_topk_params;
TLC_API tlc_status tlc_topk_params_init(tlc_topk_params *params, size_t struct_size);
TLC_API tlc_status tlc_topk_encode(const float *x, size_t n, const tlc_topk_params *params, void *dst, size_t cap,
                                   size_t *written);
TLC_API tlc_status tlc_topk_decode(const void *src, size_t len, float *out, size_t n); /* TLC_ERR_CORRUPT */

/* x / p with probability p, else 0 (Tang et al., DCD-PSGD, 2018, footnote 2). dst gets Golomb-coded positions, then the
 * values as f32. scratch: ceil(n / 64) words.
 * TLC_ERR_CAPACITY: cap < tlc_golomb_size(n, n, TLC_GOLOMB_UNSIGNED) + 4 n. TLC_ERR_PARAM: p is not in (0, 1].
 * p 0 is 0.25. */
typedef struct tlc_random_sparse_params {
    size_t struct_size;
    double p;            /* the fraction of values that is sent */
    uint64_t seed, step; /* of the random words (tlc_philox) */
    uint64_t *scratch;   /* ceil(n / 64) words */
    float *residual;     /* n floats, or NULL */
} tlc_random_sparse_params;
TLC_API tlc_status tlc_random_sparse_params_init(tlc_random_sparse_params *params, size_t struct_size);
TLC_API tlc_status tlc_random_sparse_encode(const float *x, size_t n, const tlc_random_sparse_params *params, void *dst,
                                            size_t cap, size_t *written);
TLC_API tlc_status tlc_random_sparse_decode(const void *src, size_t len, float *out, size_t n); /* TLC_ERR_CORRUPT */

/* Converts n values from one dtype to another. Widening is exact. Narrowing rounds half to even and overflows to
 * infinity. A NaN stays a NaN; if the dtype changes, it becomes quiet, and keeps its sign and as much of its payload as
 * fits. Equal dtypes copy the bits. TLC_ERR_PARAM: an unknown dtype. */
TLC_API tlc_status tlc_convert(tlc_dtype from, const void *src, tlc_dtype to, void *dst, size_t n);

#ifdef __cplusplus
}
#endif
#endif
