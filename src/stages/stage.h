/* SPDX-License-Identifier: MIT
 *
 * What a stage is. Each file of this folder defines two constants, tlc_stage_NAME and tlc_words_NAME. TLC_STAGES lists
 * them.
 *
 * A stage has one role:
 *   quantizer   floats to symbols, to members or to codes
 *   packer      symbols or members to bytes
 *   shrinker    bytes to fewer bytes
 * Stages know nothing of residuals, frames, threads or outputs. coding/ calls them for one chunk of values after the
 * other, and keeps what was not sent. Only a quantizer whose scalars need more than the maximum reads all of x.
 *
 * Positions have their callbacks in positions/positions.h. A callback may be NULL where its comment says so.
 */
#ifndef TLC_STAGE_H
#define TLC_STAGE_H

#include "../common/built.h"
#include "../positions/positions.h"
#include "../values/selection.h"

#define TLC_MAX_SCALARS 2
#define TLC_MAX_PARAMS 3

/* What one stage gives to the next. A stage may take several kinds. */
typedef enum tlc_kind {
    TLC_KIND_FLOATS = 1,
    TLC_KIND_TERNARY = 2, /* symbols -1, 0, 1 */
    TLC_KIND_BINARY = 4,  /* symbols 0, 1 */
    TLC_KIND_QUARTIC = 8,
    TLC_KIND_BYTES = 16,
    TLC_KIND_MEMBERS = 32 /* positions, and a value for each */
} tlc_kind;

/* Can a codec end with a stage that gives this? */
static inline int tlc_kind_is_payload(tlc_kind kind)
{
    return kind == TLC_KIND_BYTES || kind == TLC_KIND_QUARTIC || kind == TLC_KIND_MEMBERS;
}

/* A parameter of a codec string. */
typedef struct tlc_param {
    const char *key;
    const char *const *words;       /* the values that it can have, then NULL; kept as an index. NULL: it is a number */
    int mantissa;                   /* of a number: 24 rounds it to binary32, 53 to binary64; 0: a whole number */
    double least, below, fallback;  /* least <= value < below; fallback is the default */
    unsigned wire_shift, wire_bits; /* its bits in byte 3 of the header; 0 bits: decoders need not know it */
    const char *range;              /* text for the user */
} tlc_param;

/* ---- what a stage works on --------------------------------------------------------------------------------------- */

typedef struct tlc_quantizer tlc_quantizer;

/* A block, or the tensor if there are no blocks. It has its own scalars and payload. */
typedef struct tlc_unit {
    const tlc_kernels *k;
    const tlc_quantizer *quantizer;
    const double *params; /* of the quantizer */
    uint64_t n;           /* values in the unit */
    size_t first;         /* index of its first value in the tensor */
    tlc_dtype dtype;      /* of the gradients */
    float scalars[TLC_MAX_SCALARS];
    /* only for encoding: */
    const tlc_input *input; /* of the whole tensor */
    const tlc_random *random;
    tlc_selection selection;
} tlc_unit;

/* Up to TLC_CHUNK values of a unit, and the results of the quantizer. */
typedef struct tlc_chunk {
    size_t at, count;
    const float *x;
    int8_t *symbols;   /* TLC_MAKES_SYMBOLS */
    uint64_t *mask;    /* TLC_MAKES_MEMBERS: ceil(count / 64) words; bits beyond count are 0 */
    float *values;     /* what the members decode to, in order; set if the quantizer sends values */
    uint8_t *codes[2]; /* TLC_MAKES_CODES: where the codes of this chunk begin in each plane */
} tlc_chunk;

/* Returns x of some values: in place, or computed in buf. */
static inline const float *tlc_unit_values(const tlc_unit *u, size_t at, size_t count, float *buf)
{
    return tlc_input_wanted(u->input, u->first + at, count, buf);
}

/* The random words of some values. */
static inline void tlc_unit_words(const tlc_unit *u, size_t at, size_t count, uint32_t *words)
{
    u->k->philox(u->random->seed, u->random->step, u->random->from + u->first + at, count, words);
}

/* ---- quantizers -------------------------------------------------------------------------------------------------- */

typedef enum tlc_makes {
    TLC_MAKES_SYMBOLS, /* -1, 0 or 1 for each value; it decodes to symbol * scalars[0] */
    TLC_MAKES_MEMBERS, /* the values that are sent; the others decode to 0 */
    TLC_MAKES_CODES    /* some bits for each value, which are the payload */
} tlc_makes;

/* How the scalars and the selection of a quantizer are found. */
typedef enum tlc_chooses {
    TLC_CHOOSES_SCALE,        /* scalars[0], if there is one, is scale() of the largest magnitude */
    TLC_CHOOSES_IN_ONE_SWEEP, /* choose() reads x once, and finds the largest magnitude too */
    TLC_CHOOSES_BY_VALUES     /* choose() reads x several times; the residual, if there is one, must hold x */
} tlc_chooses;

/* Codes are stored in planes. Plane i has bits[i] bits for each value; 0 bits fill its last byte. */
typedef struct tlc_layout {
    unsigned bits[2]; /* 1, 2, 4 or a multiple of 8; bits[1] is 0 if there is one plane */
    int counted;      /* before the planes is a u32: the sum of what encode returned, at most 2^32 - 1 */
} tlc_layout;

struct tlc_quantizer {
    tlc_makes makes;
    tlc_chooses chooses;
    unsigned scalars; /* how many floats of a unit travel beside the payload; each is finite. See tlc_scalar_count */
    int any_sign;     /* scalars may be negative; else their sign bits are 0 */
    int feedback;     /* error feedback is on by default */
    int exact;        /* without error feedback the codes are the bytes of the gradient, whatever these are */
    int has_zero;     /* a value can decode to 0: by a symbol, by a code, or because it is not a member */
    int unbiased;     /* what a value decodes to is the value, on average; natural: unless it rounds to the nearest */

    /* The scale of values whose largest magnitude is max. It must be finite, else they cannot be sent. NULL: max. Both
     * are bits: on i386 a float that a function returns goes through the x87 unit, where a subnormal one may trap. */
    uint32_t (*scale)(const double *params, tlc_dtype dtype, uint32_t max);
    /* Sets scalars and selection, and returns the largest magnitude as bits (BY_VALUES: anything). NULL: scale()
     * does. */
    uint32_t (*choose)(tlc_unit *u);
    /* The largest number of members that n values can have. NULL: makes no members. */
    uint64_t (*members_max)(const double *params, uint64_t n);
    /* The bits of a member's value: 32 for an f32. Otherwise 1 or 2: bit 0 is its sign, and its magnitude is
     * scalars[bit 1]. NULL: all members decode to scalars[0]. */
    unsigned (*value_bits)(const double *params);
    tlc_layout (*layout)(const double *params, tlc_dtype dtype); /* NULL: makes no codes */
    /* Makes the symbols, members or codes of a chunk. Returns the number of members, or of clipped values. */
    uint64_t (*encode)(const tlc_unit *u, const tlc_chunk *c);
    /* Writes the values of count <= TLC_CHUNK codes. NULL: makes no codes. */
    void (*decode)(const tlc_unit *u, const uint8_t *const codes[2], size_t count, float *out);
    /* Are these the codes of a unit? Lengths and padding bits were checked before. NULL: all codes are valid. */
    int (*valid)(const tlc_unit *u, const uint8_t *const codes[2]);
};

/* The bits of a member's value; 0 if it has none of its own. */
static inline unsigned tlc_value_bits(const tlc_quantizer *q, const double *params)
{
    return TLC_IS_BUILT(TLC_WITH_MEMBERS) && q->value_bits ? q->value_bits(params) : 0;
}

/* What a member x decodes to whose value has 1 or 2 bits. */
static inline float tlc_few_bits_value(const tlc_unit *u, unsigned bits, float x)
{
    int larger = bits == 2 && (int32_t)tlc_selection_key(&u->selection, x) >= u->selection.split;
    return tlc_bits_float(tlc_float_bits(u->scalars[larger]) | (tlc_float_bits(x) & ~TLC_F32_ABS));
}

/* How many scalars a unit has: if members have values of a few bits, a scalar for each magnitude. */
static inline unsigned tlc_scalar_count(const tlc_quantizer *q, const double *params)
{
    unsigned bits = tlc_value_bits(q, params);
    return bits == 1 || bits == 2 ? bits : q->scalars;
}

/* ---- packers and shrinkers --------------------------------------------------------------------------------------- */

enum { TLC_STREAMS_MAX = 8 };

/* Puts one symbol of each stream into a byte. The streams are contiguous partitions of ceil(n / streams) symbols.
 * A symbol q is the digit q + 1. Where the last streams have no symbols left, the digit is 0. */
typedef struct tlc_packer {
    size_t streams;
    uint8_t place[TLC_STREAMS_MAX]; /* byte = sum of place * digit, and digit = byte / place % base */
    uint8_t base, largest;          /* the largest byte; bytes up to it are valid, if padding is digit 0 */
    uint8_t zero;                   /* the byte whose symbols are all 0; shrinkers make runs of it shorter */

    void (*encode)(const tlc_kernels *k, const int8_t *const *q, size_t count, uint8_t *dst);
    void (*decode)(const tlc_kernels *k, const uint8_t *src, size_t count, int8_t *const *q);
} tlc_packer;

/* Makes runs of the packer's zero byte shorter. The result is never longer than the input. Each of its bytes stands for
 * one or more bytes, independently of the others, so a payload can be decoded in parts. */
enum {
    TLC_EXPANSION_MAX = 16, /* bytes that one byte can stand for */
    TLC_SHRINKER_ROOM = 64  /* decode may read 64 bytes after src, and overwrite 64 bytes after its output */
};
typedef struct tlc_shrinker {
    /* Shrinks *run zero bytes and then the len bytes of src. Zero bytes at the end are not written: *run becomes their
     * number. src NULL: writes the *run zero bytes. Returns the bytes written, at most *run + len. */
    size_t (*encode)(const tlc_kernels *k, size_t *run, const uint8_t *src, size_t len, uint8_t *dst);
    size_t (*decode)(const tlc_kernels *k, const uint8_t *src, size_t len,
                     uint8_t *dst);                                         /* returns the bytes written */
    uint64_t (*size)(const tlc_kernels *k, const uint8_t *src, size_t len); /* that decode would write */
    unsigned (*expansion)(uint8_t byte);                                    /* size of one byte */
} tlc_shrinker;

/* ---- the descriptor ---------------------------------------------------------------------------------------------- */

typedef struct tlc_stage tlc_stage;
struct tlc_stage {
    const char *name;
    uint8_t id; /* in the header of frames, in the field of its role; never reused, never 0. Stages that decode in the
                   same way have the same id; decoders then name the first of them in TLC_STAGES */
    uint8_t takes; /* kinds */
    uint8_t param_count;
    tlc_kind gives; /* a quantizer whose kind is a payload needs no packer in the codec string */
    const tlc_param *params;

    const tlc_quantizer *quantize; /* NULL if the stage has another role */
    const tlc_packer *pack;
    const tlc_positions *positions; /* how a packer, or a quantizer without a packer, packs members */
    const tlc_stage *fallback;      /* the packer whose bytes are sent if positions would not be shorter */
    const tlc_shrinker *shrink;
};

/* Is the stage part of this build? */
static inline int tlc_stage_built(const tlc_stage *stage)
{
    return stage->quantize || stage->pack || stage->positions || stage->shrink;
}

/* The kernels of this machine, or NULL: a stage that is not built has none. */
static inline const tlc_kernels *tlc_stage_kernels(const tlc_stage *stage)
{
    return tlc_stage_built(stage) ? tlc_kernels_for(TLC_ISA_AUTO) : NULL;
}

/* All stages, in the order of tlc_codec_list. To add a stage, add a line here and a file. */
#define TLC_STAGES(STAGE)                                                                                              \
    STAGE(ternary)                                                                                                     \
    STAGE(stochastic_ternary)                                                                                          \
    STAGE(sparse_binary)                                                                                               \
    STAGE(quartic)                                                                                                     \
    STAGE(zerorun)                                                                                                     \
    STAGE(golomb)                                                                                                      \
    STAGE(natural)                                                                                                     \
    STAGE(int8)                                                                                                        \
    STAGE(qsgd)                                                                                                        \
    STAGE(onebit)                                                                                                      \
    STAGE(topk)                                                                                                        \
    STAGE(random_sparse)                                                                                               \
    STAGE(raw)

/* What tlc_codec_list tells of a stage. It is apart from the stage, as programs that do not ask do not link it. */
typedef struct tlc_stage_words {
    const char *meaning, *source;       /* source may be NULL */
    const char *params[TLC_MAX_PARAMS]; /* their meanings */
} tlc_stage_words;

#define TLC_DECLARE_STAGE(name)                                                                                        \
    extern const tlc_stage tlc_stage_##name;                                                                           \
    extern const tlc_stage_words tlc_words_##name;
TLC_STAGES(TLC_DECLARE_STAGE)

/* The parameters of natural, in their order. */
enum { TLC_NATURAL_BITS, TLC_NATURAL_ROUNDING, TLC_NATURAL_SHIFT };

/* The parameter p of sparse quantizers. */
#define TLC_FRACTION_PARAM(standard)                                                                                   \
    {.key = "p",                                                                                                       \
     .mantissa = 53,                                                                                                   \
     .least = 0x1p-1074,                                                                                               \
     .below = 1.0 + DBL_EPSILON,                                                                                       \
     .fallback = (standard),                                                                                           \
     .range = "0 < p <= 1, default " #standard}
#endif
