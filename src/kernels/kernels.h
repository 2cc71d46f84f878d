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

#include "../float_rules.h"
#include <threelc/threelc.h>

#define TLC_QUARTIC_ZERO 121 /* five digits 1: five symbols 0 */
#define TLC_QUARTIC_MAX 242
#define TLC_RUN_MAX 14       /* a byte 255 */
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

/* The functions of every <stage>_<isa>.c: feedback, ternary, quartic, ternary_quartic, zerorun, convert. */
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
