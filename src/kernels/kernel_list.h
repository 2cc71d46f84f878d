/* SPDX-License-Identifier: MIT
 *
 * The list of kernels. From these rows kernels.h makes the members of tlc_kernels and the prototypes, tables.c makes
 * the tables, and check_kernels its names. A new kernel is one row and its functions tlc_<kernel>_<isa>.
 *
 *   KERNEL(what it returns, name, parameters, AVX2, AVX-512, NEON)
 *
 * The last three columns name the ISA whose function the table of AVX2, of AVX-512 and of NEON takes. An ISA without
 * a version of its own takes the next best one: avx2 or scalar for AVX-512, scalar for AVX2 and NEON. Every kernel
 * has a scalar version. USED_BY says which parts of the library call the kernels that follow. Define KERNEL before
 * including this file; it is undefined at the end.
 */
/* clang-format off */

/* ---- convert ---- */
#define USED_BY (TLC_WITH_ALL)

/* Conversions round half to even and overflow to infinity. A NaN becomes quiet and keeps its sign; its payload is
 * cut or shifted. They take any values. The 16-bit side may be unaligned and is in the machine's byte order. */
KERNEL(void, f16_to_f32, (const void *in, size_t n, float *out), avx2, avx512, neon)
KERNEL(void, f32_to_f16, (const float *in, size_t n, void *out), avx2, avx512, neon)
KERNEL(void, bf16_to_f32, (const void *in, size_t n, float *out), avx2, avx512, neon)
KERNEL(void, f32_to_bf16, (const float *in, size_t n, void *out), avx2, avx512, neon)

/* ---- feedback ---- */

/* Returns the largest |g[i] + r[i]| as its bits (r NULL: |g[i]|; g NULL: |r[i]|), and 0 for n = 0. Bits order like
 * magnitudes, so a NaN or an infinity shows as a result >= TLC_F32_INF. Which NaN's bits are returned is not specified.
 * Takes any values. */
KERNEL(uint32_t, absmax, (const float *g, const float *r, size_t n), avx2, avx512, neon)

/* r[i] += g[i]. Returns the largest magnitude of the new r, as absmax does. Takes any values. */
KERNEL(uint32_t, accumulate, (float *r, const float *g, size_t n), avx2, avx512, neon)

/* ---- values ---- */

/* sum += weight * v. Product and sum are rounded, and a NaN is stored as TLC_F32_NAN. With skip sum stays as it is
 * where v is 0. */
KERNEL(void, values_add, (const float *v, size_t n, float weight, int skip, float *sum), avx2, avx512, neon)

/* ---- bytes ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_QUARTIC | TLC_WITH_NATURAL)

/* The largest byte; 0 for len = 0. */
KERNEL(uint8_t, bytes_max, (const uint8_t *in, size_t len), avx2, avx512, neon)

#undef USED_BY
#define USED_BY (TLC_WITH_NATURAL | TLC_WITH_LEVELS)

/* Is each byte x one with (uint8_t)((x & keep) - least) <= above, or x == other? */
KERNEL(int, bytes_allowed, (const uint8_t *in, size_t len, const tlc_bytes_rule *rule), avx2, avx512, neon)

/* ---- philox ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_RANDOM)

/* Random words (Philox 4x32-10). out[i] is the word of element first + i: output word (first + i) mod 4 for key {seed}
 * and counter {(first + i) / 4, step}, low halves first. */
KERNEL(void, philox, (uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *out), avx2, avx512, neon)

/* ---- ternary ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_SYMBOLS)

/* x = g + r (r NULL: g; g NULL: r). q is +1 where x > M/2, -1 where x < -M/2, else 0. r, if any, becomes x - M q. */
KERNEL(void, ternary_encode, (const float *g, float *r, size_t n, float M, int8_t *q), avx2, avx512, neon)

/* out = M q, and +0 for q = 0. q is -1, 0 or 1. */
KERNEL(void, ternary_decode, (const int8_t *q, size_t n, float M, float *out), avx2, avx512, neon)

/* sum += w q. The bits of sum stay as they are where q is 0. */
KERNEL(void, ternary_add, (const int8_t *q, size_t n, float w, float *sum), avx2, avx512, neon)

/* ---- quartic ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_QUARTIC)

/* out[i] = 121 + 81 q[0][i] + 27 q[1][i] + 9 q[2][i] + 3 q[3][i] + q[4][i]. */
KERNEL(void, quartic_encode, (const int8_t *const q[5], size_t len, uint8_t *out), avx2, avx512, neon)

/* The inverse of quartic_encode. in[i] <= 242. */
KERNEL(void, quartic_decode, (const uint8_t *in, size_t len, int8_t *const q[5]), avx2, avx512, neon)

/* ---- ternary_quartic ---- */

/* ternary_encode of five streams of len values, then quartic_encode of the symbols, in one sweep. g or r may be NULL as
 * in ternary_encode. */
KERNEL(void, ternary_quartic_encode, (const float *const *g, float *const *r, size_t len, float M, uint8_t *out),
       avx2, avx512, neon)

/* quartic_decode, then ternary_decode, in one sweep. in[i] <= 242. */
KERNEL(void, quartic_ternary_decode, (const uint8_t *in, size_t len, float M, float *const out[5]), avx2, avx512, neon)

/* quartic_decode, then ternary_add, in one sweep. in[i] <= 242. */
KERNEL(void, quartic_ternary_add, (const uint8_t *in, size_t len, float w, float *const sum[5]), avx2, avx512, neon)

/* quartic_ternary_add of `frames` arrays of len bytes, one after the other: in[f] with the weight w[f]. */
KERNEL(void, quartic_ternary_add_many, (const uint8_t *const *in, const float *w, size_t frames, size_t len,
                                        float *const sum[5]), avx2, avx512, neon)

/* quartic_ternary_decode for outputs that exceed the caches. It stores past the caches where the machine can. An
 * array may be written in several calls: len is a multiple of 16 in all but the last, and may be 0 in the last.
 * After the last call the stores are in order for other threads. */
KERNEL(void, quartic_ternary_decode_uncached, (const uint8_t *in, size_t len, float M, float *const out[5],
                                               tlc_lines *lines, int last), avx2, avx512, neon)

/* ---- zerorun ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_ZERORUN)

/* Zero-run encodes len bytes (<= 242). They follow *run bytes 121 that are not written yet. Leaves the run that is
 * open at the end in *run, and returns the bytes written. out has room for *run + len bytes, all of which may be
 * overwritten. tlc_zerorun_flush writes the open run. */
KERNEL(size_t, zerorun_encode, (size_t *run, const uint8_t *in, size_t len, uint8_t *out), avx2, avx512, neon)

/* Expands len tokens and returns the number of bytes that they make. TLC_ZERORUN_ROOM more bytes must exist after
 * both: those of in may be read, those of out may be overwritten. AVX-512 takes AVX2's 32 bytes at a time: what is
 * stored again after each run crosses fewer cache lines than 64 bytes would. */
KERNEL(size_t, zerorun_decode, (const uint8_t *in, size_t len, uint8_t *out), avx2, avx512, neon)

/* The number of bytes that len tokens expand to. */
KERNEL(uint64_t, zerorun_size, (const uint8_t *in, size_t len), avx2, avx512, neon)

/* ---- stochastic ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_STOCHASTIC_TERNARY)

/* q = sign(x) if (word >> 8) 2^-24 * max < |x|, else 0. The product is rounded. */
KERNEL(void, stochastic_encode, (const float *x, const uint32_t *words, size_t n, float max, int8_t *q),
       avx2, avx512, neon)

/* ---- levels ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_LEVELS)

/* y = x / max * K, rounded twice. Without words (NULL) q = y rounded half to even. With words q = floor(y), plus one if
 * (word >> 8) 2^-24 < y - floor(y). |x| <= max, max > 0, K is 127 or 7. */
KERNEL(void, levels_encode, (const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q),
       avx2, avx512, neon)

/* out = max * (q / K), rounded twice. K is 127 or 7. */
KERNEL(void, levels_decode, (const int8_t *q, size_t n, float max, float K, float *out), avx2, avx512, neon)

/* Packs two q of -8..7 into a byte: the even index into the low half. If n is odd, the last high half is 0. */
KERNEL(void, nibbles_pack, (const int8_t *q, size_t n, uint8_t *out), avx2, avx512, neon)

/* The inverse of nibbles_pack. */
KERNEL(void, nibbles_unpack, (const uint8_t *in, size_t n, int8_t *q), avx2, avx512, neon)

/* ---- onebit ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_ONEBIT)

/* Sums over a chunk of n <= TLC_SUM_CHUNK values x = g + r, with g or r NULL as in absmax. sums[0] is the sum of x >=
 * 0, sums[1] the sum of x < 0, each over 16 lanes (index mod 16) folded 16-8-4-2-1. *count is the number of x >= 0.
 * Returns what absmax returns. Takes any values; the sums mean nothing if one of them is not finite. */
KERNEL(uint32_t, side_sums, (const float *g, const float *r, size_t n, double sums[2], uint32_t *count),
       avx2, avx512, neon)

/* Bit i % 8 of bits[i / 8] is 1 if x >= 0; bits beyond n are 0. r, if any, becomes x - mean[0] there and x - mean[1]
 * elsewhere. */
KERNEL(void, onebit_encode, (const float *g, float *r, size_t n, const float mean[2], uint8_t *bits),
       avx2, avx512, neon)

/* out[i] is mean[0] where bit i is 1, else mean[1]. */
KERNEL(void, onebit_decode, (const uint8_t *bits, size_t n, const float mean[2], float *out), avx2, avx512, neon)

/* onebit_decode with sum += mean. A NaN is stored as TLC_F32_NAN. */
KERNEL(void, onebit_add, (const uint8_t *bits, size_t n, const float mean[2], float *sum), avx2, avx512, neon)

/* ---- natural ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_NATURAL)

/* Rounds to powers of two. |x| = 2^a (1 + m / 2^23) goes to e = a + 1 if (word >> 9) < m (words NULL: if m >= 2^22),
 * else to e = a. e - shift is clipped to -50..10. out = sign << 7 | (e + 50), and 0x40 for 0. Returns how many were
 * clipped. An infinity counts as 2^128. 0 <= shift <= 117. */
KERNEL(uint64_t, natural_encode, (const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out),
       avx2, avx512, neon)

/* out is 2^(e + shift) with its sign, and +0 for 0x40. */
KERNEL(void, natural_decode, (const uint8_t *in, size_t n, int shift, float *out), avx2, avx512, neon)

/* sum += weight * value, as in values_add, for the values of natural_decode. sum stays as it is for 0x40. */
KERNEL(void, natural_add, (const uint8_t *in, size_t n, int shift, float weight, float *sum), avx2, avx512, neon)

/* natural_encode with e clipped to -126..127 - shift. out = e + 127, and 0 for 0. Bit i % 8 of signs[i / 8] is 1 if
 * x[i] is negative and not 0; bits beyond n are 0. */
KERNEL(uint64_t, natural9_encode, (const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out,
                                   uint8_t *signs), avx2, avx512, neon)

/* The inverse of natural9_encode, as natural_decode is of natural_encode. */
KERNEL(void, natural9_decode, (const uint8_t *in, const uint8_t *signs, size_t n, int shift, float *out),
       avx2, avx512, neon)

/* ---- masks ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_MEMBERS)

/* Bit i % 64 of nonzero[i / 64] is 1 if q[i] is not 0, and of negative[i / 64] if q[i] is -1. Bits beyond n are 0.
 * negative may be NULL. Returns how many q are not 0. */
KERNEL(uint64_t, symbol_masks, (const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative), avx2, avx512, neon)

/* Bit i % 64 of mask[i / 64] is 1 if (((bits of x[i]) ^ flip) & keep) >= least, as signed integers. Bits beyond n
 * are 0. Returns how many are 1. */
KERNEL(uint64_t, threshold_mask, (const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least,
                                  uint64_t *mask), avx2, avx512, neon)

/* The same for (words[i] >> 8) < limit and x[i] not 0. */
KERNEL(uint64_t, random_mask, (const float *x, const uint32_t *words, size_t n, uint32_t limit, uint64_t *mask),
       avx2, avx512, neon)

/* The values x[i] with (((bits of x[i]) ^ flip) & keep) >= least, as signed integers, in order. Returns how many there
 * are. out has room for n values, all of which may be overwritten. */
KERNEL(size_t, threshold_values, (const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least, float *out),
       avx2, avx512, scalar)

/* Counts the bits that are 1 in len bytes. */
KERNEL(uint64_t, count_ones, (const uint8_t *bits, size_t len), avx2, avx2, neon)

/* out[i] is the next of the values where bit i of mask is 1, else 0. Returns how many values were taken. There are
 * `have` values, and they are enough. They have any bits, may be unaligned, and are in the machine's byte order. */
KERNEL(size_t, expand, (const uint64_t *mask, size_t n, const void *values, size_t have, float *out),
       avx2, avx512, neon)

/* expand with sum[i] += weight * value where bit i is 1; elsewhere sum[i] stays as it is. Product and sum are
 * rounded, and a NaN is stored as TLC_F32_NAN. */
KERNEL(size_t, expand_add, (const uint64_t *mask, size_t n, const void *values, size_t have, float weight, float *sum),
       avx2, avx512, neon)

/* The inverse of expand: the values x[i] where bit i of mask is 1, in order. Nothing is written after the last of
 * them. Returns how many there are. Takes any values. */
KERNEL(size_t, compact, (const float *x, const uint64_t *mask, size_t n, float *out), scalar, avx512, scalar)

/* ---- golomb ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_POSITIONS | TLC_WITH_DELTA)

/* Moves each of TLC_GOLOMB_LANES lanes forward over the codes that end at or before its end. It stops before a code of
 * more than TLC_GOLOMB_LONGEST bits. If a lane begins before its end, the 8 bytes from that end on exist. */
KERNEL(void, golomb_skip, (const tlc_golomb_codes *codes, tlc_golomb_run *lanes, const uint64_t *end),
       scalar, avx512, scalar)

/* Reads at most cap codes: the positions in rising order, and 1 for negative ones if there are signs. It stops where a
 * few codes together are long, and near the end of the bytes. Returns how many codes it read. */
KERNEL(size_t, golomb_read, (const tlc_golomb_codes *codes, tlc_golomb_run *run, size_t *index, uint8_t *negative,
                             size_t cap), avx2, avx2, scalar)

/* ---- delta ---- */
#undef USED_BY
#define USED_BY (TLC_WITH_DELTA)

/* Compares weights of 16 bits. d = ordered(next) - ordered(base) as signed integers that wrap; ordered(x) is x with all
 * bits but the sign inverted if the sign is 1. Bit i % 64 of changed[i / 64] is 1 if d is not 0, of negative if d < 0,
 * of large if |d| > 1; bits beyond n are 0. Returns how many d are not 0. Weights may be unaligned, and are in the
 * machine's byte order. */
KERNEL(uint64_t, delta16, (const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                           uint64_t *large), avx2, avx512, neon)

/* The same for weights of 32, 8 and 4 bits. Of 4 bits the first one of a byte is its lower half, and n is even. */
KERNEL(uint64_t, delta32, (const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                           uint64_t *large), avx2, avx512, neon)
KERNEL(uint64_t, delta8, (const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                          uint64_t *large), avx2, avx512, neon)
KERNEL(uint64_t, delta4, (const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                          uint64_t *large), avx2, avx512, neon)

/* The same for integers, where ordered(x) is x. */
KERNEL(uint64_t, delta_u32, (const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                             uint64_t *large), avx2, avx512, neon)
KERNEL(uint64_t, delta_u8, (const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                            uint64_t *large), avx2, avx512, neon)
KERNEL(uint64_t, delta_u4, (const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                            uint64_t *large), avx2, avx512, neon)

/* Moves those of n weights whose bit of changed is 1: ordered(x) becomes ordered(x) + 1, or ordered(x) - 1 where the
 * bit of negative is 1, too. Masks are as delta16 makes them. */
KERNEL(void, delta_move16, (void *weights, size_t n, const uint64_t *changed, const uint64_t *negative), avx2, avx512,
       neon)

/* The same for weights of 32 bits. */
KERNEL(void, delta_move32, (void *weights, size_t n, const uint64_t *changed, const uint64_t *negative), avx2, avx512,
       neon)

/* Weights of 16 bits as classes and extra bits (delta/payloads/dense.c, with a base), one of each for a weight: class
 * is the number of bits of |d|, bits are |d|, without its leading one where d > 0. */
KERNEL(void, delta_classes16, (const void *base, const void *next, size_t n, uint8_t *class, uint32_t *bits), avx2,
       avx2, scalar)

/* Moves n weights of 16 bits by their classes, at most 16, and by the extra bits in `size` bytes, from `bit` on.
 * 0 bits follow the bytes. Returns the bit after those that were read. */
KERNEL(uint64_t, delta_extras16, (const uint8_t *bytes, size_t size, uint64_t bit, const uint8_t *class, size_t n,
                                  void *weights), avx2, avx512, scalar)
/* clang-format on */

#undef KERNEL
#undef USED_BY
