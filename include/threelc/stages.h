/* SPDX-License-Identifier: MIT
 *
 * Every stage alone, as a plain function over the caller's arrays, for users who compose by hand. The arithmetic is that
 * of the codecs, bit for bit; the best ISA of the machine is used. Buffers must not overlap unless a comment allows it.
 * Failure, threads, alignment and float mode: as threelc.h says.
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

/* n values from one dtype to another: widening is exact, narrowing rounds half to even and overflows to infinity; a NaN
 * stays a NaN, made quiet when the dtype changes, with its sign and as much of its payload as fits. Equal dtypes copy the
 * bits. TLC_ERR_PARAM: an unknown dtype. */
TLC_API tlc_status tlc_convert(const void *src, tlc_dtype from, void *dst, tlc_dtype to, size_t n);

#ifdef __cplusplus
}
#endif
#endif
