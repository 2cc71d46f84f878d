/* SPDX-License-Identifier: MIT
 *
 * The inner loops. One table of function pointers for each ISA; the scalar one is the specification and every other
 * equals it bit for bit, for every length and alignment. Kernels choose no ISA and detect no CPU: tables.c and cpu.c do.
 *
 * float pointers are 4-byte aligned, byte pointers not at all. A kernel reads and writes nothing outside the sizes given.
 * Kernels run in the default float mode. Values they are given are finite but where a comment says otherwise.
 */
#ifndef TLC_KERNELS_H
#define TLC_KERNELS_H

#include "../common/float_rules.h"
#include <threelc/threelc.h>

#define TLC_QUARTIC_ZERO 121 /* five digits 1: five symbols 0 */
#define TLC_QUARTIC_MAX 242
#define TLC_RUN_MAX 14       /* a byte 255 */
#define TLC_NATURAL_ZERO 0x40
#define TLC_NATURAL_LEAST (-50) /* exponents of an 8-bit code */
#define TLC_NATURAL_MOST 10
#define TLC_CHUNK 4096       /* values whose sum is made on its own (design: means) */
#define TLC_ZERORUN_ROOM 64  /* bytes that expanding may read beyond its tokens, and overwrite beyond its result */

/* Five streams that are written in several calls, past the caches. */
typedef struct tlc_lines {
    int open;          /* begun and not ended */
    float left[5][16]; /* then: what the kernel keeps of the cache lines that are not whole yet */
} tlc_lines;

typedef struct tlc_kernels {
    tlc_isa isa;

    /* The largest |g[i] + r[i]| as its bits (r NULL: |g[i]|; g NULL: |r[i]|); bits order like magnitudes, so any NaN or
     * infinity shows as a result >= TLC_F32_INF (which NaN's bits is not specified). 0 for n = 0. Takes any values. */
    uint32_t (*absmax)(const float *g, const float *r, size_t n);

    /* r[i] += g[i], and the same maximum of the new r. Takes any values. */
    uint32_t (*accumulate)(float *r, const float *g, size_t n);

    /* x = g + r (r NULL: g; g NULL: r). q = +1, -1, 0 as x > M/2, x < -M/2, else. r, if any, becomes x - M q. */
    void (*ternary_encode)(const float *g, float *r, size_t n, float M, int8_t *q);
    void (*ternary_decode)(const int8_t *q, size_t n, float M, float *out); /* M q, +0 for 0; q in {-1, 0, 1} */
    void (*ternary_add)(const int8_t *q, size_t n, float w, float *sum);    /* sum += w q, bits untouched for 0 */

    /* out[i] = 121 + 81 q[0][i] + 27 q[1][i] + 9 q[2][i] + 3 q[3][i] + q[4][i], and back (in[i] <= 242). */
    void (*quartic_encode)(const int8_t *const q[5], size_t len, uint8_t *out);
    void (*quartic_decode)(const uint8_t *in, size_t len, int8_t *const q[5]);

    /* ternary_encode of five streams of len values and quartic_encode of the symbols, in one sweep. g or r may be NULL
     * as a whole, with the meaning above. */
    void (*ternary_quartic_encode)(const float *const *g, float *const *r, size_t len, float M, uint8_t *out);
    /* quartic_decode, then ternary_decode or ternary_add, in one sweep. in[i] <= 242. */
    void (*quartic_ternary_decode)(const uint8_t *in, size_t len, float M, float *const out[5]);
    void (*quartic_ternary_add)(const uint8_t *in, size_t len, float w, float *const sum[5]);
    /* As quartic_ternary_decode, but past the caches where the machine has such stores: for outputs that exceed them.
     * In all calls but the last len is a multiple of 16; the last may be empty. Memory is in order after it. */
    void (*quartic_ternary_stream)(const uint8_t *in, size_t len, float M, float *const out[5], tlc_lines *lines,
                                   int last);

    /* Zero-run encodes len bytes (<= 242) that follow *run bytes 121 which were not written yet; leaves the run that is
     * open at the end in *run and returns the bytes written. out has room for *run + len bytes, all of which may be
     * overwritten. zerorun_flush writes what is open. */
    size_t (*zerorun_encode)(size_t *run, const uint8_t *in, size_t len, uint8_t *out);

    /* Expands len tokens and returns the bytes that they are. Of both in and out TLC_ZERORUN_ROOM bytes more must exist:
     * the ones may be read, the others overwritten. */
    size_t (*zerorun_decode)(const uint8_t *in, size_t len, uint8_t *out);
    uint64_t (*zerorun_size)(const uint8_t *in, size_t len); /* bytes that len tokens expand to */
    uint8_t (*bytes_max)(const uint8_t *in, size_t len);     /* the largest byte; 0 for len = 0 */

    /* Random words (Philox 4x32-10): out[i] is the word of element first + i, that is output word (first + i) mod 4 of
     * key {seed} and counter {(first + i) / 4, step}, low halves first. */
    void (*philox)(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *out);

    /* y = x / max * K, rounded twice; q = y rounded half to even, or with words floor(y), one more if
     * (word >> 8) 2^-24 < y - floor(y). |x| <= max, max > 0; K is 127 or 7. And back: out = max * (q / K). */
    void (*levels_encode)(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q);
    void (*levels_decode)(const int8_t *q, size_t n, float max, float K, float *out);
    /* Two q of -8..7 a byte, even index in the low half; 0 beside an odd last one. */
    void (*nibbles_pack)(const int8_t *q, size_t n, uint8_t *out);
    void (*nibbles_unpack)(const uint8_t *in, size_t n, int8_t *q);

    /* Powers of two. |x| = 2^a (1 + m / 2^23) goes to e = a + 1 if (word >> 9) < m (words NULL: if m >= 2^22), else to
     * e = a; e - shift is clipped to -50..10. out: sign << 7 | (e + 50), 0x40 for 0. Returns how many were clipped.
     * An infinity is 2^128. And back: 2^(e + shift). 0 <= shift <= 117. */
    uint64_t (*natural_encode)(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out);
    void (*natural_decode)(const uint8_t *in, size_t n, int shift, float *out);
    /* The same with e clipped to -126..127 - shift; a byte e + 127, 0 for 0, and a bit that is 1 for negative (0 for 0) in
     * signs[i / 8] >> i % 8, where those beyond n become 0. */
    uint64_t (*natural9_encode)(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out, uint8_t *signs);
    void (*natural9_decode)(const uint8_t *in, const uint8_t *signs, size_t n, int shift, float *out);

    /* q = sign(x) if (word >> 8) 2^-24 * max < |x|, else 0; the product is rounded. */
    void (*stochastic_encode)(const float *x, const uint32_t *words, size_t n, float max, int8_t *q);

    /* Bit i % 64 of word i / 64 tells whether q[i] is not 0, is -1 (negative may be NULL); bits beyond n are 0. Returns how
     * many are not 0. */
    uint64_t (*symbol_masks)(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative);
    /* Such bits for ((bits of x) ^ flip) & keep >= least, as signed integers; and how many. */
    uint64_t (*threshold_mask)(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least, uint64_t *mask);
    /* Such bits for (word >> 8) < limit and x not 0; and how many. */
    uint64_t (*random_mask)(const float *x, const uint32_t *words, size_t n, uint32_t limit, uint64_t *mask);

    uint64_t (*ones)(const uint8_t *bits, size_t len); /* bits that are 1 in len bytes */
    /* out[i] is the next of the values where bit i is set, else 0; returns how many were taken. There are have of them or
     * more, which are enough; they may be unaligned and are in the machine's byte order. Any values. */
    size_t (*expand)(const uint64_t *mask, size_t n, const void *values, size_t have, float *out);
    /* The same with sum[i] += weight * value, both rounded, a NaN stored as TLC_F32_NAN, and sum[i] left as it is. */
    size_t (*expand_add)(const uint64_t *mask, size_t n, const void *values, size_t have, float weight, float *sum);

    /* A chunk of n <= TLC_CHUNK values x = g + r as in absmax, whose result is returned: sums[0] of x >= 0 and sums[1] of
     * x < 0, each over 16 lanes (index mod 16) folded 16-8-4-2-1, and the number of x >= 0. Takes any values; the sums mean
     * nothing if one is not finite. */
    uint32_t (*side_sums)(const float *g, const float *r, size_t n, double sums[2], uint32_t *count);
    /* Bit i % 8 of byte i / 8 is x >= 0, 0 beyond n; r, if any, becomes x - mean[0] there, x - mean[1] elsewhere. And back,
     * or sum += mean, where a NaN is stored as TLC_F32_NAN. */
    void (*onebit_encode)(const float *g, float *r, size_t n, const float mean[2], uint8_t *bits);
    void (*onebit_decode)(const uint8_t *bits, size_t n, const float mean[2], float *out);
    void (*onebit_add)(const uint8_t *bits, size_t n, const float mean[2], float *sum);

    /* sum += weight * v, both rounded, a NaN stored as TLC_F32_NAN; skip: where v is 0 sum stays as it is. */
    void (*values_add)(const float *v, size_t n, float weight, int skip, float *sum);

    /* Half-even, overflow to infinity; NaN made quiet, sign kept, payload cut or shifted. Any values; the 16-bit side may
     * be unaligned and is in the machine's byte order. */
    void (*f16_to_f32)(const void *in, size_t n, float *out);
    void (*f32_to_f16)(const float *in, size_t n, void *out);
    void (*bf16_to_f32)(const void *in, size_t n, float *out);
    void (*f32_to_bf16)(const float *in, size_t n, void *out);
} tlc_kernels;

/* The tokens of a run of bytes 121: returns the bytes written, at most run of them. */
static inline size_t tlc_zerorun_flush(size_t run, uint8_t *out)
{
    size_t at = 0;

    if (run >= TLC_RUN_MAX) {
        at = run / TLC_RUN_MAX;
        run %= TLC_RUN_MAX;
        memset(out, 255, at);
    }
    if (run)
        out[at++] = (uint8_t)(run == 1 ? TLC_QUARTIC_ZERO : 243 + (run - 2));
    return at;
}

/* memcpy for few bytes: where it knows that they are few, gcc takes rep movs, which is slow to start. */
static inline void tlc_copy_few(void *dst, const void *src, size_t size)
{
    const uint8_t *from = src;
    uint8_t *to = dst;

    for (; size >= 16; size -= 16, from += 16, to += 16)
        memcpy(to, from, 16);
    for (; size >= 4; size -= 4, from += 4, to += 4)
        memcpy(to, from, 4);
    while (size--)
        *to++ = *from++;
}

/* tables.c: the kernel x ISA matrix. tlc_kernels_for returns the table of an ISA that is built in and that this machine
 * supports (TLC_ISA_AUTO: the best), else NULL. */
const tlc_kernels *tlc_kernels_for(tlc_isa isa);

/* cpu.c: a bit (1 << tlc_isa) for each ISA that the CPU and its OS support; found once, then cached. */
unsigned tlc_cpu_isas(void);

/* cpu.c: outputs of so many bytes and more had better bypass the caches; found once, then cached. */
size_t tlc_cpu_stream_threshold(void);

/* Hides from the compiler how a vector was made. clang turns "x or x + v" into "x + (-0 or v)", which is the same but for
 * signalling NaNs. */
#if defined(__x86_64__)
#define TLC_OPAQUE(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define TLC_OPAQUE(v) __asm__("" : "+w"(v))
#endif

/* The functions of every <stage>_<isa>.c: feedback, ternary, quartic, ternary_quartic, zerorun, philox, levels, natural,
 * stochastic, masks, onebit, values, convert. */
#define TLC_KERNEL_PROTOTYPES(isa)                                                                                      \
    uint32_t tlc_absmax_##isa(const float *g, const float *r, size_t n);                                                \
    uint32_t tlc_accumulate_##isa(float *r, const float *g, size_t n);                                                  \
    void tlc_ternary_encode_##isa(const float *g, float *r, size_t n, float M, int8_t *q);                              \
    void tlc_ternary_decode_##isa(const int8_t *q, size_t n, float M, float *out);                                      \
    void tlc_ternary_add_##isa(const int8_t *q, size_t n, float w, float *sum);                                         \
    void tlc_quartic_encode_##isa(const int8_t *const q[5], size_t len, uint8_t *out);                                  \
    void tlc_quartic_decode_##isa(const uint8_t *in, size_t len, int8_t *const q[5]);                                   \
    uint8_t tlc_bytes_max_##isa(const uint8_t *in, size_t len);                                                         \
    void tlc_ternary_quartic_encode_##isa(const float *const *g, float *const *r, size_t len, float M, uint8_t *out);   \
    void tlc_quartic_ternary_decode_##isa(const uint8_t *in, size_t len, float M, float *const out[5]);                 \
    void tlc_quartic_ternary_add_##isa(const uint8_t *in, size_t len, float w, float *const sum[5]);                    \
    void tlc_quartic_ternary_stream_##isa(const uint8_t *in, size_t len, float M, float *const out[5],                  \
                                          tlc_lines *lines, int last);                                                  \
    size_t tlc_zerorun_encode_##isa(size_t *run, const uint8_t *in, size_t len, uint8_t *out);                          \
    size_t tlc_zerorun_decode_##isa(const uint8_t *in, size_t len, uint8_t *out);                                       \
    uint64_t tlc_zerorun_size_##isa(const uint8_t *in, size_t len);                                                     \
    void tlc_philox_##isa(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *out);                       \
    void tlc_levels_encode_##isa(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q);       \
    void tlc_levels_decode_##isa(const int8_t *q, size_t n, float max, float K, float *out);                            \
    void tlc_nibbles_pack_##isa(const int8_t *q, size_t n, uint8_t *out);                                               \
    void tlc_nibbles_unpack_##isa(const uint8_t *in, size_t n, int8_t *q);                                              \
    uint64_t tlc_natural_encode_##isa(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out);        \
    void tlc_natural_decode_##isa(const uint8_t *in, size_t n, int shift, float *out);                                  \
    uint64_t tlc_natural9_encode_##isa(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out,        \
                                       uint8_t *signs);                                                                 \
    void tlc_natural9_decode_##isa(const uint8_t *in, const uint8_t *signs, size_t n, int shift, float *out);           \
    void tlc_stochastic_encode_##isa(const float *x, const uint32_t *words, size_t n, float max, int8_t *q);            \
    uint64_t tlc_symbol_masks_##isa(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative);                  \
    uint64_t tlc_threshold_mask_##isa(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least,            \
                                      uint64_t *mask);                                                                  \
    uint64_t tlc_random_mask_##isa(const float *x, const uint32_t *words, size_t n, uint32_t limit, uint64_t *mask);    \
    uint64_t tlc_ones_##isa(const uint8_t *bits, size_t len);                                                           \
    size_t tlc_expand_##isa(const uint64_t *mask, size_t n, const void *values, size_t have, float *out);               \
    size_t tlc_expand_add_##isa(const uint64_t *mask, size_t n, const void *values, size_t have, float weight,          \
                                float *sum);                                                                            \
    uint32_t tlc_side_sums_##isa(const float *g, const float *r, size_t n, double sums[2], uint32_t *count);            \
    void tlc_onebit_encode_##isa(const float *g, float *r, size_t n, const float mean[2], uint8_t *bits);               \
    void tlc_onebit_decode_##isa(const uint8_t *bits, size_t n, const float mean[2], float *out);                       \
    void tlc_onebit_add_##isa(const uint8_t *bits, size_t n, const float mean[2], float *sum);                          \
    void tlc_values_add_##isa(const float *v, size_t n, float weight, int skip, float *sum);                            \
    void tlc_f16_to_f32_##isa(const void *in, size_t n, float *out);                                                    \
    void tlc_f32_to_f16_##isa(const float *in, size_t n, void *out);                                                    \
    void tlc_bf16_to_f32_##isa(const void *in, size_t n, float *out);                                                   \
    void tlc_f32_to_bf16_##isa(const float *in, size_t n, void *out);

TLC_KERNEL_PROTOTYPES(scalar)
#if defined(__x86_64__)
TLC_KERNEL_PROTOTYPES(avx2)
TLC_KERNEL_PROTOTYPES(avx512)
#elif defined(__aarch64__)
TLC_KERNEL_PROTOTYPES(neon)
#endif
#endif
