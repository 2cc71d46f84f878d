/* SPDX-License-Identifier: MIT
 *
 * libthreelc: compression of the tensors that machines exchange while they train a model together.
 *
 * A trainer makes one context for each tensor. It calls tlc_compress() on what it is about to send, and
 * tlc_decompress() or tlc_decompress_add() on what it received. With error feedback, what was not sent stays in the
 * context's residual and is sent later.
 *
 * Units: n, counts and indices are in values. len, cap, written and bounds are in bytes.
 * Buffers: `const void *` and `void *` arguments need no alignment, `float *` arguments need 4 bytes. A pointer may be
 * NULL where its size is 0. The buffers of a call must not overlap. Gradients are in the byte order of the machine.
 * Frames and states are the same bytes on every machine.
 * Structs: those that begin with struct_size have a function, the name of the struct and _init, that sets all other
 * fields to their defaults. Start from it. The defaults are 0 where nothing else is said. struct_size: the caller's
 * sizeof, by which the library knows which fields the caller has. TLC_ERR_PARAM: NULL, or less than the first field.
 * Failure: every function that can fail returns a tlc_status. A failed call changes neither output, residual nor state;
 * tlc_config.assume_finite is the one exception. No function aborts, prints or starts a thread. Only tlc_create()
 * allocates.
 * Messages: one sentence says why a call failed: which argument, what was given and what is allowed. It is printable
 * ASCII, whatever the arguments are, and has at most TLC_MESSAGE_SIZE bytes with its NUL. tlc_create, decoders and
 * deltas write it where the field `message` of their struct says: message_cap bytes; a longer text is cut and ends with
 * "..."; NULL or 0: no message. After a success the message is empty. A context keeps that of the last call with it
 * that failed: tlc_last_error. tlc_explain tells it of bytes that were refused. Where there is no place for a message,
 * the comment of the function names the cause of each status. The message is neither output nor state.
 * Stack: a call takes at most 80 KiB, and so does each task of tlc_parallel; built with sanitizers, more.
 * Threads: a context serves one thread at a time. Different contexts are independent. Decoding keeps no state.
 * Float mode: functions that compute save the caller's rounding mode, flush-to-zero bits and trap masks, work in the
 * default mode, and restore them. Functions of the caller run in the caller's mode.
 */
#ifndef THREELC_THREELC_H
#define THREELC_THREELC_H

#include <stddef.h>
#include <stdint.h>

/* Windows: TLC_BUILD_DLL is set while the DLL is compiled, and nowhere else. Programs need no macro, whether they link
 * with the DLL or with the static library. */
#if defined(_WIN32) || defined(__CYGWIN__)
#if defined(TLC_BUILD_DLL)
#define TLC_API __declspec(dllexport)
#else
#define TLC_API
#endif
#elif defined(__GNUC__)
#define TLC_API __attribute__((visibility("default")))
#else
#define TLC_API
#endif

#define TLC_VERSION 501      /* 0.5.1: major * 10000 + minor * 100 + patch */
#define TLC_FRAME_VERSION 1  /* the version of frames that this library writes and reads */
#define TLC_MESSAGE_SIZE 512 /* bytes that hold every message of this header, of delta.h and weights.h, with its NUL */

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are part of the ABI and never change. */
typedef enum tlc_status {
    TLC_OK = 0,              /* it is done */
    TLC_ERR_PARAM = 1,       /* an argument is out of its range */
    TLC_ERR_NOMEM = 2,       /* the allocator returned NULL */
    TLC_ERR_CAPACITY = 3,    /* a buffer is too small, or the context was created for smaller frames */
    TLC_ERR_NONFINITE = 4,   /* NaN or infinity in the gradient, in residual + gradient, or in the scale */
    TLC_ERR_CORRUPT = 5,     /* the bytes are no frame, state or bundle: truncated or altered */
    TLC_ERR_CHECKSUM = 6,    /* the checksum does not match */
    TLC_ERR_VERSION = 7,     /* written by another version of the format, or not of this format at all */
    TLC_ERR_SIZE = 8,        /* the frame or state has another n, or a size overflows */
    TLC_ERR_UNSUPPORTED = 9, /* a codec, ISA or operation that is not available here */
    TLC_ERR_STEP = 10,       /* exchange: the step failed, for all; nothing is lost */
    TLC_ERR_ORDER = 11,      /* exchange: a call out of turn, or a message of another step */
    TLC_ERR_TRANSPORT = 12,  /* what carries messages failed: MPI, or a callback of weights.h */
    TLC_ERR_BASE = 13        /* delta: the weights are not those that it begins with */
} tlc_status;

/* What values are. Those from TLC_F8_E4M3 on are for weights (threelc/delta.h) only: they are no gradients. */
typedef enum tlc_dtype {
    TLC_F32 = 0,     /* IEEE binary32: float */
    TLC_F16 = 1,     /* IEEE binary16: half */
    TLC_BF16 = 2,    /* bfloat16: the upper half of a binary32 */
    TLC_F8_E4M3 = 3, /* 8 bits: sign, 4 of the exponent, 3 of the mantissa; all its variants */
    TLC_F8_E5M2 = 4, /* 8 bits: sign, 5 of the exponent, 2 of the mantissa; all its variants */
    TLC_F4_E2M1 = 5, /* 4 bits: sign, 2 of the exponent, 1 of the mantissa; two in a byte, as of TLC_U4 */
    TLC_U8 = 6,      /* bytes: integers, exponents (e8m0), booleans, anything */
    TLC_U4 = 7,      /* integers of 4 bits, two in a byte, the first in its lower half */
    TLC_I32 = 8,     /* 32 bits: integers, or packed smaller ones */
    TLC_I64 = 9,     /* 64 bits */
    TLC_F64 = 10     /* IEEE binary64: double */
} tlc_dtype;

/* The instructions that kernels use. All have the same results. */
typedef enum tlc_isa {
    TLC_ISA_AUTO = 0,   /* the best that this machine supports */
    TLC_ISA_SCALAR = 1, /* C without vectors, on every machine */
    TLC_ISA_AVX2 = 2,   /* AVX2 and F16C */
    TLC_ISA_AVX512 = 3, /* AVX-512 F, BW, VL, VBMI and VBMI2 */
    TLC_ISA_NEON = 4    /* AArch64 */
} tlc_isa;

/* A context: compresses one tensor, step after step, and keeps its residual. */
typedef struct tlc_ctx tlc_ctx;

/* Where the memory of a context comes from. Set both functions, or none for malloc and free. alloc returns NULL or
 * memory with the alignment of malloc. */
typedef struct tlc_allocator {
    void *(*alloc)(void *opaque, size_t size); /* as malloc */
    void (*free)(void *opaque, void *ptr);     /* as free */
    void *opaque;                              /* the first argument of both */
} tlc_allocator;

/* The caller's threads. run() calls task(arg, i) once for each i < count, in any order and on any threads, and returns
 * when all calls have returned. All fields 0: everything runs on the calling thread. The results are the same bytes
 * either way. Tasks that it has not called by then, as it had no memory for them, the library calls itself.
 *
 * run() should return. If it has too few threads, it calls the tasks itself, and what it must tell the caller waits
 * until the call has returned. Where it leaves by longjmp or an exception all the same, no task may run then or later:
 * tasks use the stack of the call. The float mode is the caller's, and no memory is lost. What the call was to write
 * holds anything, and of the object of the call only `_destroy` may be used, of a context tlc_reset, too. An exception
 * gets through C code only where that has unwind tables, as on x86-64 and AArch64 by default. */
typedef struct tlc_parallel {
    void (*run)(void *opaque, size_t count, void (*task)(void *arg, size_t i), void *arg); /* see above */
    void *opaque; /* the first argument of run */
} tlc_parallel;

/* The configuration of a context. Always start from tlc_config_init(). If struct_size is smaller than the library's,
 * the missing fields have their defaults. If it is larger, the extra bytes must be 0, else TLC_ERR_PARAM. */
typedef struct tlc_config {
    size_t struct_size;    /* set by tlc_config_init */
    const char *codec;     /* "3lc:s=1.75", "sbc:p=0.001", "natural", "ternary:s=1.5,block=65536+golomb", ...: see
                              tlc_codec_check and tlc_codec_list. Default "3lc". The text is copied */
    const char *reserve;   /* codecs that tlc_set_codec must be able to switch to, with ';' between them; or NULL, "" */
    tlc_dtype dtype;       /* of the gradients. Default TLC_F32 */
    int feedback;          /* error feedback: 0 off, 1 on, -1 (default) as `codec` has it. tlc_set_codec does not change
                              it: for a run that starts with raw and later switches to 3lc, set 1 */
    uint64_t seed;         /* for stochastic codecs. A random number is a function of seed, step (the number of
                              compressions that succeeded) and the index of the value, the same on every machine. The
                              seed is saved with the state.
                              WARNING: give every machine and every tensor its own seed. Machines with equal seeds draw
                              equal random numbers, so their rounding errors are equal and do not average out */
    tlc_isa isa;           /* default TLC_ISA_AUTO. TLC_ERR_UNSUPPORTED if the machine does not have it */
    int checksum;          /* 1: frames end with a checksum, 4 bytes of XXH3. Default 0 */
    int assume_finite;     /* 1: the caller has checked the gradients, as loss scalers do. Compression is then faster.
                              NaN and infinity are still reported, but then the residual is undefined until tlc_reset */
    float *residual;       /* NULL: the context has a residual of its own, at first 0. Else n floats of the caller, used
                              as they are. They must outlive the context. TLC_ERR_PARAM: there is no error feedback */
    tlc_allocator alloc;   /* used only by tlc_create and tlc_destroy */
    tlc_parallel parallel; /* used by tlc_accumulate and tlc_compress */
    char *message;         /* message_cap bytes: why tlc_create failed, but for a bad struct_size; or NULL */
    size_t message_cap;    /* bytes of message */
} tlc_config;

/* Start from tlc_decode_options_init. struct_size means what it means in tlc_config. */
typedef struct tlc_decode_options {
    size_t struct_size;
    tlc_isa isa;           /* default TLC_ISA_AUTO. TLC_ERR_UNSUPPORTED if the machine does not have it */
    tlc_parallel parallel; /* the threads of the call */
    int from_zero; /* 1: tlc_decompress_add and tlc_decompress_add_many begin with a sum of +0, whatever sum holds */
    char *message; /* message_cap bytes: why decoding failed, but for a bad struct_size; or NULL. Threads that decode at
                      the same time need messages of their own */
    size_t message_cap; /* bytes of message */
} tlc_decode_options;
TLC_API tlc_status tlc_decode_options_init(tlc_decode_options *opt, size_t struct_size);

/* A typed constant, which generators of bindings read, and a macro, which is a constant expression in C, too. */
static const uint64_t TLC_UNKNOWN = 18446744073709551615ull;
#define TLC_UNKNOWN ((uint64_t)-1)

/* What tlc_inspect and tlc_peek tell about a frame. The caller sets struct_size. If it is smaller than the library's,
 * only the fields that fit are written. If it is larger, the extra bytes become 0. */
typedef struct tlc_frame_info {
    size_t struct_size;
    uint32_t version;      /* of the frame format */
    tlc_dtype dtype;       /* of the gradients that were compressed */
    int checksum;          /* 1: the frame has a checksum */
    char codec[128];       /* what a decoder must know of the codec: "ternary+quartic+zerorun", "raw:block=4096" */
    uint64_t n;            /* values */
    uint64_t block;        /* values in a block; 0: not blocked */
    uint64_t nonzero;      /* symbols that are not 0, or decoded values if the codec has no symbols; TLC_UNKNOWN for
                              codecs without a zero (raw, onebit) and from tlc_peek */
    uint64_t header_size;  /* bytes before the payload (before the block table if the frame is blocked) */
    uint64_t payload_size; /* bytes of the payload, with the block table, without the checksum */
    uint64_t clipped;      /* natural: values whose exponent was clipped, so that they have a bias; else 0; TLC_UNKNOWN
                              from tlc_peek */
} tlc_frame_info;
TLC_API tlc_status tlc_frame_info_init(tlc_frame_info *info, size_t struct_size);

/* Bytes of the caller, for example a frame. */
typedef struct tlc_message {
    const void *data; /* where they are */
    size_t len;       /* how many */
} tlc_message;

/* ---- version, status, ISA ------------------------------------------------------------------------------------- */

TLC_API uint32_t tlc_version(void);                  /* TLC_VERSION of the library that runs */
TLC_API const char *tlc_version_string(void);        /* "0.5.1" */
TLC_API const char *tlc_status_string(tlc_status s); /* one line of text; never NULL, for any s */
TLC_API int tlc_isa_supported(tlc_isa isa);          /* 1 if it is built in, and the CPU and its OS can run it */
TLC_API const char *tlc_isa_name(tlc_isa isa);       /* "auto", "scalar", "avx2", "avx512", "neon"; else "unknown" */

/* ---- contexts -------------------------------------------------------------------------------------------------- */

/* Sets *cfg to the defaults above. struct_size: the caller's sizeof(tlc_config).
 * TLC_ERR_PARAM: cfg is NULL, or struct_size is smaller than the first field. */
TLC_API tlc_status tlc_config_init(tlc_config *cfg, size_t struct_size);

/* Makes a context for a tensor of n values; n may be 0. cfg NULL: the defaults. One allocation holds the context, its
 * scratch memory and, unless cfg->residual is given, the n floats of the residual. On failure *out does not change.
 * TLC_ERR_PARAM: a bad field or codec string. TLC_ERR_UNSUPPORTED: the machine does not have the ISA. TLC_ERR_SIZE: a
 * size overflows. TLC_ERR_NOMEM. */
TLC_API tlc_status tlc_create(tlc_ctx **out, const tlc_config *cfg, size_t n);
TLC_API void tlc_destroy(tlc_ctx *ctx); /* NULL is allowed */

/* Why the last call with this context that failed did so: "value 17 of the gradient is NaN", "cap is 10 bytes,
 * tlc_bound is 32". "" if none has failed, or for NULL. The text is in the context. The next call that fails changes
 * it. */
TLC_API const char *tlc_last_error(const tlc_ctx *ctx);

/* The largest frame, in bytes, of the context's codec and of the reserved codecs: the capacity that tlc_compress needs.
 * It never changes. 0 for NULL. */
TLC_API size_t tlc_bound(const tlc_ctx *ctx);

/* The same without a context, for receivers. It includes a checksum.
 * TLC_ERR_PARAM: a bad codec string (tlc_codec_check says why), a bad dtype, or NULL. TLC_ERR_SIZE: overflow. */
TLC_API tlc_status tlc_codec_bound(const char *codec, tlc_dtype dtype, size_t n, size_t *bound);

/* Checks a codec string. TLC_OK: it is one, and message becomes empty. TLC_ERR_PARAM: message says what is wrong and
 * where ("at 8: ..." counts characters from 0). cap: bytes of message with its NUL; where they are too few,
 * the list of all names is left out, and what is still longer is cut and ends with "..."; 0: no message. The message is
 * printable ASCII, for any codec. */
TLC_API tlc_status tlc_codec_check(const char *codec, char *message, size_t cap);

/* A parameter of a codec string. The text is constant. */
typedef struct tlc_codec_param {
    const char *key, *range, *meaning; /* "s", "1 <= s < 2, default 1", what it does */
} tlc_codec_param;

/* What an entry of tlc_codec_list is. */
typedef enum tlc_entry_kind {
    TLC_ENTRY_SHORT_NAME = 0, /* stands for a list of stages */
    TLC_ENTRY_QUANTIZER = 1,  /* a stage that takes floats; every codec begins with one */
    TLC_ENTRY_PACKER = 2,     /* a stage that turns symbols into bytes */
    TLC_ENTRY_SHRINKER = 3    /* a stage that turns bytes into fewer bytes */
} tlc_entry_kind;

/* Describes a short name or a stage. The text is constant. */
typedef struct tlc_codec_entry {
    size_t struct_size;       /* set by the caller, as for tlc_frame_info */
    const char *name;         /* "3lc", "ternary", "golomb" */
    const char *list;         /* of a short name: the stages that it stands for; of a stage: NULL */
    const char *takes;        /* in words: "floats", "3-value or binary symbols", ... */
    const char *gives;        /* in words */
    const char *meaning;      /* one line */
    const char *source;       /* paper and section; "" if none */
    int feedback;             /* 1: error feedback by default */
    size_t param_count;       /* without the parameter block, which every short name and quantizer has */
    tlc_codec_param param[4]; /* of which param_count are used */
    tlc_entry_kind kind;      /* a short name, or the role of a stage */
    int codec;                /* 1: the name alone is a codec string */
    int symbols;              /* 1: every decoded value is a scale times -1, 0 or 1 */
    int sparse;               /* 1: some values are sent, the others decode to 0 (sparse-binary, topk, random-sparse) */
} tlc_codec_entry;
TLC_API tlc_status tlc_codec_entry_init(tlc_codec_entry *entry, size_t struct_size);

/* The i-th entry; short names come first. TLC_ERR_SIZE: there are no more than i entries. TLC_ERR_PARAM: a bad
 * argument. On failure *entry does not change. */
TLC_API tlc_status tlc_codec_list(size_t i, tlc_codec_entry *entry);

/* residual += grad, and nothing is sent: a local step between two compressions (SBC, section "communication delay").
 * grad: n values of the context's dtype. TLC_ERR_UNSUPPORTED: no error feedback. TLC_ERR_NONFINITE. */
TLC_API tlc_status tlc_accumulate(tlc_ctx *ctx, const void *grad);

/* Compresses residual + grad, or grad alone without error feedback, into one frame. What was not sent stays in the
 * residual. (3LC, sections 3.1 to 3.3: error accumulation, 3-value quantization, quartic encoding, zero-run encoding.
 * tlc_codec_list has the papers of the other codecs.)
 * grad: n values of the context's dtype, never written. NULL: the residual alone is sent; TLC_ERR_UNSUPPORTED without
 * error feedback.
 * dst: cap bytes, at least tlc_bound(ctx), else TLC_ERR_CAPACITY. *written: the bytes of the frame. The bytes of dst
 * after them may be overwritten.
 * TLC_ERR_NONFINITE: residual + grad or a scale is not finite. Also raw with error feedback, if a value becomes
 * infinite in the dtype; and random-sparse, if max|x| / p is infinite. raw without error feedback takes any values. */
TLC_API tlc_status tlc_compress(tlc_ctx *ctx, const void *grad, void *dst, size_t cap, size_t *written);

/* Changes the codec between two compressions, for warm-up and schedules. The residual stays.
 * TLC_ERR_PARAM: a bad string. TLC_ERR_CAPACITY: the codec was not reserved, and needs a larger frame than
 * tlc_bound(ctx), or more scratch memory than the context has (sparse codecs need one or two bits a value). */
TLC_API tlc_status tlc_set_codec(tlc_ctx *ctx, const char *codec);

/* n floats, which the caller may read and write between calls. NULL without error feedback. */
TLC_API float *tlc_residual(tlc_ctx *ctx);

/* residual *= factor, for a new loss scale or learning rate. TLC_ERR_UNSUPPORTED: no error feedback. TLC_ERR_PARAM:
 * factor is not finite. TLC_ERR_NONFINITE: a product is not finite. */
TLC_API tlc_status tlc_residual_scale(tlc_ctx *ctx, float factor);
TLC_API void tlc_reset(tlc_ctx *ctx);             /* residual and step become 0; NULL is allowed */
TLC_API tlc_isa tlc_isa_used(const tlc_ctx *ctx); /* TLC_ISA_AUTO only for NULL */

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

/* The bytes that tlc_state_save writes now. tlc_set_codec may change it. 0 for NULL. */
TLC_API size_t tlc_state_size(const tlc_ctx *ctx);

/* Writes codec, n, dtype, feedback, seed, step and residual, with a version and a checksum. The bytes are the same on
 * every machine. TLC_ERR_CAPACITY: cap < tlc_state_size(ctx). */
TLC_API tlc_status tlc_state_save(const tlc_ctx *ctx, void *dst, size_t cap, size_t *written);

/* Restores a saved state; src may be any bytes. Then the context has the codec of the state, by the rules of
 * tlc_set_codec. Errors, in this order: TLC_ERR_CORRUPT (too short, no state), TLC_ERR_VERSION, TLC_ERR_CHECKSUM,
 * TLC_ERR_SIZE (another n), TLC_ERR_PARAM (another dtype or feedback), TLC_ERR_CORRUPT (anything else), then those of
 * tlc_set_codec. */
TLC_API tlc_status tlc_state_load(tlc_ctx *ctx, const void *src, size_t len);

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* Decoders need no context and allocate nothing. src may be any bytes; len must be the exact length of the frame. opt
 * NULL: the defaults. The whole frame is checked before the first value is written, in time O(n + len). Errors, in this
 * order: TLC_ERR_PARAM (arguments), TLC_ERR_UNSUPPORTED (opt->isa), TLC_ERR_CORRUPT (too short for a header),
 * TLC_ERR_VERSION, TLC_ERR_UNSUPPORTED (codec), TLC_ERR_CHECKSUM, TLC_ERR_SIZE (the frame has another n),
 * TLC_ERR_CORRUPT (anything else, trailing bytes too). */

/* out[i] = value i, in dtype. Narrowing rounds half to even and overflows to infinity. */
TLC_API tlc_status tlc_decompress(const void *src, size_t len, tlc_dtype dtype, void *out, size_t n,
                                  const tlc_decode_options *opt);

/* sum[i] += weight * value i. TLC_ERR_PARAM: weight is not finite.
 *
 *                         | codecs of symbols: ternary,           | codecs of values:
 *                         | stochastic-ternary, sparse-binary     | the others
 *   ----------------------+---------------------------------------+---------------------------------------------
 *   what is added         | w or -w, with w = weight * scale      | weight * value, rounded for each value
 *                         | rounded once                          |
 *   symbol or value is 0  | sum[i] keeps its bits                 | sum[i] keeps its bits; but raw, onebit add +-0
 *   sum[i] is a NaN       | it stays this NaN, made quiet         | it becomes 0x7fc00000
 *   a new NaN (inf - inf) | 0x7fc00000                            | 0x7fc00000
 */
TLC_API tlc_status tlc_decompress_add(const void *src, size_t len, float weight, float *sum, size_t n,
                                      const tlc_decode_options *opt);

/* sum[i] += weights[j] * value i of frame j, for all count frames in their order: the same bits as count calls of
 * tlc_decompress_add, but in one sweep over the sum, which is faster. Frames may be of different codecs; it is fastest
 * if neighbours have the same one. weights NULL: all are 1.
 * All frames are checked first. If one is at fault, the sum does not change, the status is the first such frame's, and
 * *bad, if bad is not NULL, its number. If the fault is in no frame and no weight, *bad becomes count. */
TLC_API tlc_status tlc_decompress_add_many(const tlc_message *frames, const float *weights, size_t count, float *sum,
                                           size_t n, size_t *bad, const tlc_decode_options *opt);

/* momentum[i] = +0 where symbol or value i of the frame is not 0 (SBC's momentum masking). TLC_ERR_UNSUPPORTED, after
 * all other checks: the codec has no zero (raw, onebit). */
TLC_API tlc_status tlc_mask(const void *src, size_t len, float *momentum, size_t n, const tlc_decode_options *opt);

/* Checks the whole frame as the decoders do, except n, and describes it. O(len). */
TLC_API tlc_status tlc_inspect(const void *src, size_t len, tlc_frame_info *info);

/* Describes a frame by its header alone, in O(1), for receivers that choose by n, dtype or codec what to do with it. It
 * checks neither payload nor checksum, so decoders may refuse the frame later. Errors are those of the decoders for the
 * header, without TLC_ERR_CHECKSUM and TLC_ERR_SIZE. */
TLC_API tlc_status tlc_peek(const void *src, size_t len, tlc_frame_info *info);

/* What bytes should be. */
typedef enum tlc_format {
    TLC_FORMAT_FRAME = 0,  /* of values: tlc_compress */
    TLC_FORMAT_DELTA = 1,  /* of weights: threelc/delta.h */
    TLC_FORMAT_BUNDLE = 2, /* threelc/bundle.h */
    TLC_FORMAT_STATE = 3   /* of a context: tlc_state_save */
} tlc_format;

/* Says why bytes are refused: "these are the bytes of a delta of weights (threelc/delta.h), not of a frame". src may be
 * any bytes. The status is that of tlc_inspect, tlc_delta_inspect, tlc_bundle_open or tlc_state_load, without what
 * these ask of a context: n, dtype, feedback, room for the codec. TLC_OK: the bytes are not refused, and the message is
 * empty. cap: bytes of message with its NUL; a longer text is cut and ends with "..."; 0: no message.
 * TLC_ERR_PARAM: src is NULL, or a format that is not in the enum. O(len). */
TLC_API tlc_status tlc_explain(const void *src, size_t len, tlc_format format, char *message, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
