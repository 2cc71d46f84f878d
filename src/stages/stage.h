/* SPDX-License-Identifier: MIT
 *
 * What a stage is. Each file of this folder defines one constant tlc_stage; TLC_STAGES lists them.
 *
 * A stage plays one role:
 *   quantizer   floats to symbols, to members or to codes
 *   packer      symbols or members to bytes
 *   shrinker    bytes to fewer bytes
 * Stages know nothing of residuals, frames, blocks, threads or outputs: coding/ drives them, a chunk of values at a time,
 * and keeps what was not sent. Only a quantizer whose scalars are more than a function of the maximum reads x itself.
 *
 * The callbacks are 7 of a quantizer, 2 of a packer of symbols, 4 of a code of positions (positions/positions.h) and 3 of a
 * shrinker. NULL where a comment says so.
 */
#ifndef TLC_STAGE_H
#define TLC_STAGE_H

#include "../positions/positions.h"
#include "../values/input.h"

#define TLC_MAX_SCALARS 2
#define TLC_MAX_PARAMS 3

/* What flows between stages in a codec string; a stage may take several kinds. */
typedef enum tlc_kind {
    TLC_KIND_FLOATS = 1,
    TLC_KIND_TERNARY = 2, /* symbols -1, 0, 1 */
    TLC_KIND_BINARY = 4,  /* symbols 0, 1 */
    TLC_KIND_QUARTIC = 8,
    TLC_KIND_BYTES = 16
} tlc_kind;

/* A parameter of a codec string. */
typedef struct tlc_param {
    const char *key;
    const char *const *words;      /* the values it can have, up to a NULL; it is kept as an index. NULL: a number, */
    int mantissa;                  /* rounded to binary32 (24) or binary64 (53), or a whole one (0), with */
    double least, below, fallback; /* least <= value < below; fallback: the default */
    unsigned wire_shift, wire_bits; /* its bits in byte 3 of the frame's header; no bits: decoders need not know it */
    const char *range, *meaning;   /* for people */
} tlc_param;

/* ---- what a stage works on --------------------------------------------------------------------------------------- */

/* Which values a sparse quantizer sends: those with ((bits of x) ^ flip) & keep >= least, as signed integers; of those that
 * are equal to least, the ones with an index of at most last. */
typedef struct tlc_selection {
    uint32_t flip, keep;
    int32_t least;
    uint64_t last; /* in the unit */
} tlc_selection;

/* Where random numbers come from: the word of value i of a tensor is a function of these and i. */
typedef struct tlc_random {
    uint64_t seed, step;
} tlc_random;

typedef struct tlc_quantizer tlc_quantizer;

/* A block, or the whole tensor if there are no blocks: what has scalars and a payload of its own. */
typedef struct tlc_unit {
    const tlc_kernels *k;
    const tlc_quantizer *quantizer;
    const double *params; /* of the quantizer */
    uint64_t n;           /* values in the unit */
    size_t first;         /* index of its first value in the tensor */
    tlc_dtype dtype;      /* of the gradients */
    float scalars[TLC_MAX_SCALARS];
    /* while it is encoded: */
    const tlc_input *input; /* of the whole tensor */
    const tlc_random *random;
    tlc_selection selection;
} tlc_unit;

/* Up to TLC_PIECE values of a unit, and what a quantizer makes of them. */
typedef struct tlc_chunk {
    size_t at, count;
    const float *x;
    int8_t *symbols;   /* TLC_MAKES_SYMBOLS */
    uint64_t *mask;    /* TLC_MAKES_MEMBERS: ceil(count / 64) words; bits beyond count are 0 */
    float *values;     /* and what the members decode to, in order, if the quantizer sends values */
    uint8_t *codes[2]; /* TLC_MAKES_CODES: where those of this chunk begin in each plane */
} tlc_chunk;

/* x of some values: in place, or made in buf. */
static inline const float *tlc_unit_values(const tlc_unit *u, size_t at, size_t count, float *buf)
{
    return tlc_input_wanted(u->input, u->first + at, count, buf);
}

/* The random words of some values. */
static inline void tlc_unit_words(const tlc_unit *u, size_t at, size_t count, uint32_t *words)
{
    u->k->philox(u->random->seed, u->random->step, (uint64_t)u->first + at, count, words);
}

/* ---- quantizers -------------------------------------------------------------------------------------------------- */

typedef enum tlc_makes {
    TLC_MAKES_SYMBOLS, /* -1, 0 or 1 for each value; decoded to scalars[0] times it */
    TLC_MAKES_MEMBERS, /* values that are sent; the others decode to 0 */
    TLC_MAKES_CODES    /* the payload itself: some bits for each value */
} tlc_makes;

/* How a quantizer's scalars and selection are found. */
typedef enum tlc_chooses {
    TLC_CHOOSES_SCALE,       /* scalars[0], if it has one, is the scale of the largest magnitude */
    TLC_CHOOSES_IN_ONE_SWEEP, /* choose reads x once, and gives the largest magnitude too */
    TLC_CHOOSES_BY_VALUES    /* choose reads x several times, so that x must lie in the residual if there is one */
} tlc_chooses;

/* Codes lie in planes: plane i has bits[i] bits for each value, padded with 0 bits to whole bytes. */
typedef struct tlc_layout {
    unsigned bits[2]; /* 1, 2, 4 or a multiple of 8; bits[1] is 0 if there is one plane */
    int counted;      /* a u32 before the planes holds the sum of what encode returned, at most 2^32 - 1 */
} tlc_layout;

struct tlc_quantizer {
    tlc_makes makes;
    tlc_chooses chooses;
    unsigned scalars; /* f32 numbers of a unit that travel beside the payload, each finite */
    int any_sign;     /* they may be negative; else their sign bits are 0 */
    int feedback;     /* error feedback by default */
    int exact;        /* without error feedback the gradient's bytes are the codes, whatever they are */
    int has_zero;     /* there is a symbol, a code or a missing member for 0 */
    int sends_values; /* TLC_MAKES_MEMBERS: a f32 for each member; else all members decode to scalars[0] */

    /* What values of this largest magnitude are scaled by; they can be sent if it is finite. NULL: max itself. */
    float (*scale)(const double *params, tlc_dtype dtype, float max);
    /* Sets scalars and selection, and returns the largest magnitude as bits (BY_VALUES: anything). NULL: by scale. */
    uint32_t (*choose)(tlc_unit *u);
    /* The most members that n values can have. NULL: makes no members. */
    uint64_t (*members_max)(const double *params, uint64_t n);
    tlc_layout (*layout)(const double *params, tlc_dtype dtype); /* NULL: makes no codes */
    /* Makes symbols, members or codes of a chunk. Returns how many members it has, or how many values were clipped. */
    uint64_t (*encode)(const tlc_unit *u, const tlc_chunk *c);
    /* The values of count <= TLC_PIECE codes. NULL: makes no codes. */
    void (*decode)(const tlc_unit *u, const uint8_t *const codes[2], size_t count, float *out);
    /* Are these the codes of a unit? Lengths and padding bits were checked. NULL: any are. */
    int (*valid)(const tlc_unit *u, const uint8_t *const codes[2]);
};

/* ---- packers and shrinkers --------------------------------------------------------------------------------------- */

enum { TLC_STREAMS_MAX = 8 };

/* Puts one symbol of each of several streams into a byte. The streams are contiguous partitions of ceil(n / streams)
 * symbols; what the last ones lack is digit 0. A symbol q is the digit q + 1. */
typedef struct tlc_packer {
    size_t streams;
    uint8_t weight[TLC_STREAMS_MAX]; /* byte = sum of weight * digit; a digit is byte / weight % base */
    uint8_t base, largest;           /* the largest byte of all; bytes up to it are valid, but for padding */
    uint8_t zero;                    /* all symbols 0: what a shrinker may make shorter */

    void (*encode)(const tlc_kernels *k, const int8_t *const *q, size_t count, uint8_t *dst);
    void (*decode)(const tlc_kernels *k, const uint8_t *src, size_t count, int8_t *const *q);
} tlc_packer;

/* Makes runs of the packer's zero byte shorter. Each byte of a shrunk payload stands for one byte or more on its own, so it
 * can be cut anywhere; it is never longer than what it stands for. */
enum {
    TLC_EXPANSION_MAX = 16, /* bytes that one byte can stand for */
    TLC_SHRINKER_ROOM = 64  /* bytes behind src that decode may read, and behind its output that it may overwrite */
};
typedef struct tlc_shrinker {
    /* Shrinks len bytes that follow *run zero bytes which were not written yet, and leaves the run that is open at the
     * end in *run. src NULL: writes the open run. Returns the bytes written, at most *run + len. */
    size_t (*encode)(const tlc_kernels *k, size_t *run, const uint8_t *src, size_t len, uint8_t *dst);
    size_t (*decode)(const tlc_kernels *k, const uint8_t *src, size_t len, uint8_t *dst); /* returns the bytes written */
    uint64_t (*size)(const tlc_kernels *k, const uint8_t *src, size_t len);               /* that decode would write */
} tlc_shrinker;

/* ---- the descriptor ---------------------------------------------------------------------------------------------- */

typedef struct tlc_stage tlc_stage;
struct tlc_stage {
    const char *name;
    uint8_t id; /* on the wire, in the field of its role; never reused, never 0. Stages that only encode differently share
                   one: the first of them in the registry stands for all */
    unsigned takes; /* kinds */
    tlc_kind gives; /* a quantizer that gives bytes needs no packer in the codec string */
    const tlc_param *params;
    size_t param_count;
    const char *meaning, *source; /* for people; source may be NULL */

    const tlc_quantizer *quantize; /* NULL where the stage has another role */
    const tlc_packer *pack;
    const tlc_positions *positions; /* a packer of members, or how a quantizer that gives bytes packs its own */
    const tlc_stage *fallback;      /* the packer of symbols whose bytes are sent where positions would take as many */
    const tlc_shrinker *shrink;
};

/* All stages, in the order of tlc_codec_list. A new stage is a line here, and its file. */
#define TLC_STAGES(STAGE)                                                                                               \
    STAGE(ternary)                                                                                                      \
    STAGE(stochastic_ternary)                                                                                           \
    STAGE(sparse_binary)                                                                                                \
    STAGE(quartic)                                                                                                      \
    STAGE(zerorun)                                                                                                      \
    STAGE(golomb)                                                                                                       \
    STAGE(natural)                                                                                                      \
    STAGE(int8)                                                                                                         \
    STAGE(qsgd)                                                                                                         \
    STAGE(onebit)                                                                                                       \
    STAGE(topk)                                                                                                         \
    STAGE(random_sparse)                                                                                                \
    STAGE(raw)

#define TLC_DECLARE_STAGE(name) extern const tlc_stage tlc_stage_##name;
TLC_STAGES(TLC_DECLARE_STAGE)

/* The parameter p of sparse quantizers. */
#define TLC_FRACTION_PARAM(standard, what)                                                                              \
    {                                                                                                                   \
        .key = "p", .mantissa = 53, .least = 0x1p-1074, .below = 1.0 + DBL_EPSILON, .fallback = (standard),             \
        .range = "0 < p <= 1, default " #standard, .meaning = (what)                                                    \
    }
#endif
