/* SPDX-License-Identifier: MIT
 *
 * libthreelc: error-feedback compression of the tensors that machines exchange while they train a model together.
 *
 * A trainer makes one context per tensor, calls tlc_compress() on what it is about to send and tlc_decompress() (or
 * tlc_decompress_add()) on what it received. What the lossy step left out stays in the context's residual and is sent
 * later.
 *
 * Units: n, counts and indices are in values; len, cap, written and bounds are in bytes.
 * Buffers: `const void *` and `void *` arguments need no alignment, `float *` ones 4 bytes; a pointer may be NULL where
 * its size is 0. Buffers of one call must not overlap. Gradients are in the byte order of the machine, frames and
 * states are the same bytes on every machine.
 * Failure: every function that can fail returns a tlc_status. A failed call changes neither output, residual nor state
 * (tlc_config.assume_finite is the one exception). No function aborts, prints, allocates after tlc_create(), or starts
 * a thread.
 * Threads: a context serves one thread at a time; different contexts are independent; decoding keeps no state.
 * Float mode: functions that compute save the caller's rounding mode, flush-to-zero bits and trap masks, work in the
 * default mode and restore them.
 */
#ifndef THREELC_THREELC_H
#define THREELC_THREELC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TLC_API __attribute__((visibility("default")))
#else
#define TLC_API
#endif

#define TLC_VERSION 200     /* 0.2.0: major * 10000 + minor * 100 + patch */
#define TLC_FRAME_VERSION 1 /* of the frame format that this library writes and reads */

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are part of the ABI and never change. */
typedef enum tlc_status {
    TLC_OK = 0,
    TLC_ERR_PARAM = 1,       /* an argument is out of its range */
    TLC_ERR_NOMEM = 2,       /* the allocator returned NULL */
    TLC_ERR_CAPACITY = 3,    /* a buffer, or the room a context was created with, is too small */
    TLC_ERR_NONFINITE = 4,   /* NaN or infinity in the gradient, in residual + gradient, or in the scale */
    TLC_ERR_CORRUPT = 5,     /* not a frame, state or bundle of this library: truncated or altered */
    TLC_ERR_CHECKSUM = 6,    /* the checksum does not match */
    TLC_ERR_VERSION = 7,     /* written by another version of the format */
    TLC_ERR_SIZE = 8,        /* n is not the frame's, or a size overflows */
    TLC_ERR_UNSUPPORTED = 9  /* a codec, ISA or operation that is not available here */
} tlc_status;

typedef enum tlc_dtype { TLC_F32 = 0, TLC_F16 = 1, TLC_BF16 = 2 } tlc_dtype;

typedef enum tlc_isa {
    TLC_ISA_AUTO = 0, /* the best that this machine supports */
    TLC_ISA_SCALAR = 1,
    TLC_ISA_AVX2 = 2,   /* AVX2 and F16C */
    TLC_ISA_AVX512 = 3, /* AVX-512 F, BW, VL, VBMI and VBMI2 */
    TLC_ISA_NEON = 4    /* AArch64 */
} tlc_isa;

typedef struct tlc_ctx tlc_ctx;

/* Where a context's memory comes from: both functions, or neither for malloc and free. alloc returns memory aligned as
 * malloc's, or NULL. */
typedef struct tlc_allocator {
    void *(*alloc)(void *opaque, size_t size);
    void (*free)(void *opaque, void *ptr);
    void *opaque;
} tlc_allocator;

/* The caller's threads. run() calls task(arg, i) once for each i < count, in any order and on any threads, and returns
 * when all are done. All zero: the calling thread. Results are the same bytes for every implementation of run(). */
typedef struct tlc_parallel {
    void (*run)(void *opaque, size_t count, void (*task)(void *arg, size_t i), void *arg);
    void *opaque;
} tlc_parallel;

/* A struct_size smaller than the library's means an older caller: missing fields take their defaults. A larger one is
 * accepted while the extra bytes are 0, else TLC_ERR_PARAM. Always start from tlc_config_init(). */
typedef struct tlc_config {
    size_t struct_size;    /* set by tlc_config_init */
    const char *codec;     /* "3lc:s=1.75", "sbc:p=0.001", "natural", "ternary:s=1.5,block=65536+golomb", ...: see
                              tlc_codec_check and tlc_codec_list; default "3lc"; copied */
    const char *reserve;   /* further codecs, ';' between them, that tlc_set_codec must be able to switch to; or NULL, "" */
    tlc_dtype dtype;       /* of the gradients passed in; default TLC_F32 */
    int feedback;          /* error feedback: -1 (default) as `codec` has it by default, 0 off, 1 on. Resolved once:
                              a run that warms up in raw and then switches to 3lc sets 1 */
    uint64_t seed;         /* of the stochastic codecs: a random number is a function of seed, step (successful
                              compressions so far) and the value's index, the same on every machine; saved with the state.
                              WARNING: give every machine, and every tensor, a seed of its own. Machines with equal seeds
                              draw equal random numbers, so their rounding errors are equal and do not average out */
    tlc_isa isa;           /* default TLC_ISA_AUTO; one the machine lacks is TLC_ERR_UNSUPPORTED */
    int checksum;          /* 1: frames end in 4 bytes of XXH3; default 0 */
    int assume_finite;     /* 1: the caller has checked (loss scalers do), so the first sweep may already write. A NaN or
                              infinity is still reported, but the residual is then undefined until tlc_reset */
    float *residual;       /* NULL: the context owns it, zeroed; else n floats of the caller's, used as found, which must
                              outlive the context. TLC_ERR_PARAM without error feedback */
    tlc_allocator alloc;   /* used by tlc_create and tlc_destroy only */
    tlc_parallel parallel; /* used by tlc_accumulate and tlc_compress */
} tlc_config;

/* struct_size as for tlc_config; start from {sizeof(tlc_decode_options)} with the rest zero. */
typedef struct tlc_decode_options {
    size_t struct_size;
    tlc_isa isa;
    tlc_parallel parallel;
} tlc_decode_options;

#define TLC_UNKNOWN UINT64_MAX

/* What tlc_inspect and tlc_peek tell about a frame. The caller sets struct_size. If it is smaller than the library's, the
 * caller gets the fields that fit; if it is larger, the extra bytes become 0. */
typedef struct tlc_frame_info {
    size_t struct_size;
    uint32_t version;      /* of the frame format */
    tlc_dtype dtype;       /* of the gradients that were compressed */
    int checksum;          /* 1: the frame has a checksum */
    char codec[128];       /* what a decoder must know, as a codec string: "ternary+quartic+zerorun", "raw:block=4096" */
    uint64_t n;            /* values */
    uint64_t block;        /* values in a block; 0: not blocked */
    uint64_t nonzero;      /* symbols, or decoded values, other than 0; TLC_UNKNOWN for codecs without a zero (raw, onebit)
                              and from tlc_peek */
    uint64_t header_size;  /* bytes before the payload (before the block table if the frame is blocked) */
    uint64_t payload_size; /* bytes of the payload, with the block table, without the checksum */
    uint64_t clipped;      /* natural: values whose exponent was clipped; else 0; TLC_UNKNOWN from tlc_peek */
} tlc_frame_info;

/* Some bytes of the caller's: a frame, a message. */
typedef struct tlc_message {
    const void *data;
    size_t len;
} tlc_message;

/* ---- version, status, ISA ------------------------------------------------------------------------------------- */

TLC_API uint32_t tlc_version(void);                    /* TLC_VERSION of the library that runs */
TLC_API const char *tlc_version_string(void);          /* "0.2.0" */
TLC_API const char *tlc_status_string(tlc_status s);   /* one line for people; never NULL, whatever s is */
TLC_API int tlc_isa_supported(tlc_isa isa);            /* 1 if built in and this machine and its OS can run it */
TLC_API const char *tlc_isa_name(tlc_isa isa);         /* "auto", "scalar", "avx2", "avx512", "neon"; else "unknown" */

/* ---- contexts -------------------------------------------------------------------------------------------------- */

/* Fills *cfg with the defaults above. struct_size is sizeof(tlc_config) as the caller knows it.
 * TLC_ERR_PARAM: cfg is NULL or struct_size is smaller than the first field. */
TLC_API tlc_status tlc_config_init(tlc_config *cfg, size_t struct_size);

/* Makes a context for a tensor of n values (0 is fine). cfg NULL means the defaults. One allocation holds the context,
 * its scratch and, unless cfg->residual is given, the n floats of the residual.
 * TLC_ERR_PARAM: a bad field or codec string; TLC_ERR_UNSUPPORTED: an ISA the machine lacks; TLC_ERR_SIZE: a size
 * overflows; TLC_ERR_NOMEM. On failure *out is untouched. */
TLC_API tlc_status tlc_create(tlc_ctx **out, const tlc_config *cfg, size_t n);
TLC_API void tlc_destroy(tlc_ctx *ctx); /* NULL is fine */

/* Largest frame, in bytes, of the context's codec and of those it reserved: the capacity that tlc_compress wants. It
 * does not change while the context lives. 0 for NULL. */
TLC_API size_t tlc_bound(const tlc_ctx *ctx);

/* The same for a receiver, who knows the codec string and n but has no context; a checksum is counted in.
 * TLC_ERR_PARAM: bad codec string or dtype; TLC_ERR_SIZE: overflow. */
TLC_API tlc_status tlc_codec_bound(const char *codec, tlc_dtype dtype, size_t n, size_t *bound);

/* Is this a codec string? TLC_OK and an empty message; or TLC_ERR_PARAM, and message says in words why not and where
 * ("at 8: ..." counts characters from 0). cap: bytes of message, its NUL counted; a longer text is cut; 0: none. It is
 * printable ASCII, whatever codec holds. */
TLC_API tlc_status tlc_codec_check(const char *codec, char *message, size_t cap);

typedef struct tlc_codec_param {
    const char *key, *range, *meaning; /* "s", "1 <= s < 2, default 1", what it does */
} tlc_codec_param;

typedef enum tlc_entry_kind {
    TLC_ENTRY_SHORT_NAME = 0, /* stands for a list of stages */
    TLC_ENTRY_QUANTIZER = 1,  /* a stage that takes floats: the first of every codec */
    TLC_ENTRY_PACKER = 2,     /* a stage that turns symbols into bytes */
    TLC_ENTRY_SHRINKER = 3    /* a stage that turns bytes into fewer bytes */
} tlc_entry_kind;

/* A short name or a stage, for people and for programs that build menus. All text is constant. */
typedef struct tlc_codec_entry {
    size_t struct_size;     /* set by the caller, as for tlc_frame_info */
    const char *name;       /* "3lc", "ternary", "golomb" */
    const char *list;       /* a short name: the stages that it stands for; a stage: NULL */
    const char *takes;      /* in words: "floats", "3-value or binary symbols", ... */
    const char *gives;      /* in words */
    const char *meaning;    /* one line */
    const char *source;     /* paper and section; "" if none */
    int feedback;           /* 1: error feedback by default */
    size_t param_count;     /* parameters, without block, which every short name and quantizer has */
    tlc_codec_param param[4];
    tlc_entry_kind kind;
    int codec;              /* 1: the name alone is a codec string */
    int symbols;            /* 1: every decoded value is -1, 0 or 1 times a scale */
    int sparse;             /* 1: some values are sent, the others decode to 0 (sparse-binary, topk, random-sparse) */
} tlc_codec_entry;

/* The i-th entry, short names first. TLC_ERR_SIZE from the end on, TLC_ERR_PARAM for bad arguments; *entry is untouched
 * then. */
TLC_API tlc_status tlc_codec_list(size_t i, tlc_codec_entry *entry);

/* residual += grad, nothing is sent: local steps between two compressions (SBC, section "communication delay").
 * grad: n values of the context's dtype. TLC_ERR_UNSUPPORTED without error feedback; TLC_ERR_NONFINITE. */
TLC_API tlc_status tlc_accumulate(tlc_ctx *ctx, const void *grad);

/* Compresses residual + grad (grad alone without feedback) into one frame and keeps in the residual what was not sent
 * (3LC, sections 3.1 to 3.4: error accumulation, 3-value quantization, quartic encoding, zero-run encoding; for the papers
 * of the other codecs see tlc_codec_list).
 * grad: n values of the context's dtype, never written; NULL sends from the residual alone (TLC_ERR_UNSUPPORTED without
 * feedback). dst: cap >= tlc_bound(ctx) bytes, else TLC_ERR_CAPACITY before anything is touched; bytes of dst beyond
 * *written may be overwritten. TLC_ERR_NONFINITE: residual + grad or the scale is not finite (raw with feedback:
 * or a value becomes infinite when it is narrowed to the dtype; random-sparse: or max|x| / p is infinite); nothing has
 * changed, unless assume_finite was set. raw without feedback sends any values. */
TLC_API tlc_status tlc_compress(tlc_ctx *ctx, const void *grad, void *dst, size_t cap, size_t *written);

/* Switches codec in mid-run (warm-up, schedules); the residual is kept. TLC_ERR_PARAM: bad string. TLC_ERR_CAPACITY: it
 * was not reserved and needs a larger frame than tlc_bound(ctx), or scratch memory that the context does not have (sparse
 * codecs want a bit or two a value). */
TLC_API tlc_status tlc_set_codec(tlc_ctx *ctx, const char *codec);

TLC_API float *tlc_residual(tlc_ctx *ctx); /* n floats; NULL without feedback; may be read and written between calls */

/* residual *= factor, for when a loss scale or learning rate changed. TLC_ERR_UNSUPPORTED without feedback,
 * TLC_ERR_PARAM: factor is not finite, TLC_ERR_NONFINITE: a product would not be. */
TLC_API tlc_status tlc_residual_scale(tlc_ctx *ctx, float factor);
TLC_API void tlc_reset(tlc_ctx *ctx); /* residual and step to 0; NULL is fine */
TLC_API tlc_isa tlc_isa_used(const tlc_ctx *ctx); /* never TLC_ISA_AUTO, but for NULL */

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

/* Bytes that tlc_state_save writes now: codec, n, dtype, feedback, seed, step and residual; little-endian, versioned,
 * checksummed, the same on every machine. Changes with tlc_set_codec. 0 for NULL. */
TLC_API size_t tlc_state_size(const tlc_ctx *ctx);
TLC_API tlc_status tlc_state_save(const tlc_ctx *ctx, void *dst, size_t cap, size_t *written); /* TLC_ERR_CAPACITY */

/* Takes over a saved state; src may be any bytes. The codec is adopted by the rules of tlc_set_codec. Reported in this
 * order: TLC_ERR_CORRUPT (too short, no state), TLC_ERR_VERSION, TLC_ERR_CHECKSUM, TLC_ERR_SIZE (another n),
 * TLC_ERR_PARAM (another dtype or feedback), TLC_ERR_CORRUPT (anything else), then tlc_set_codec's. */
TLC_API tlc_status tlc_state_load(tlc_ctx *ctx, const void *src, size_t len);

/* ---- decoding: no context; any bytes are safe to pass; no allocation; opt NULL means defaults -------------------- */

/* The decoders return, in this order: TLC_ERR_PARAM (arguments), TLC_ERR_UNSUPPORTED (opt->isa), TLC_ERR_CORRUPT (too short for
 * a header), TLC_ERR_VERSION, TLC_ERR_UNSUPPORTED (codec), TLC_ERR_CHECKSUM, TLC_ERR_SIZE (n is not the frame's),
 * TLC_ERR_CORRUPT (anything else). The whole frame is checked before the first value is written, in time O(n + len).
 * len must be the frame's exact length: trailing bytes are TLC_ERR_CORRUPT. */

/* out[i] = value i, as dtype: narrowing rounds half to even and overflows to infinity. */
TLC_API tlc_status tlc_decompress(const void *src, size_t len, tlc_dtype dtype, void *out, size_t n,
                                  const tlc_decode_options *opt);

/* sum[i] += weight * value i. TLC_ERR_PARAM: weight is not finite.
 *
 *                         | codecs of symbols: ternary,           | codecs of values:
 *                         | stochastic-ternary, sparse-binary     | the others
 *   ----------------------+---------------------------------------+---------------------------------------------
 *   what is added         | w = weight * M, rounded once; +w, -w  | weight * value, rounded for each value
 *   symbol or value 0     | sum[i] keeps its bits                 | sum[i] keeps its bits (raw and onebit: +-0 is added)
 *   sum[i] is a NaN       | stays that NaN, made quiet            | becomes 0x7fc00000
 *   a new NaN (inf - inf) | 0x7fc00000                            | 0x7fc00000
 */
TLC_API tlc_status tlc_decompress_add(const void *src, size_t len, float weight, float *sum, size_t n,
                                      const tlc_decode_options *opt);

/* momentum[i] = +0 wherever the frame's symbol i, or value i for codecs with a value each, is not 0 (SBC's momentum
 * masking). TLC_ERR_UNSUPPORTED, after all other checks, for codecs without a zero (raw, onebit). */
TLC_API tlc_status tlc_mask(const void *src, size_t len, float *momentum, size_t n, const tlc_decode_options *opt);

/* Checks the whole frame as the decoders do (but for n) and describes it. O(len). */
TLC_API tlc_status tlc_inspect(const void *src, size_t len, tlc_frame_info *info);

/* The same from the header alone, in O(1), for receivers that choose by n, dtype or codec what to do with a frame. Neither
 * the payload nor the checksum is looked at: what decodes may still be refused. Returns what the decoders would for the
 * header, but for TLC_ERR_CHECKSUM and TLC_ERR_SIZE. */
TLC_API tlc_status tlc_peek(const void *src, size_t len, tlc_frame_info *info);

#ifdef __cplusplus
}
#endif
#endif
