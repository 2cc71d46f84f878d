/* SPDX-License-Identifier: MIT
 *
 * What a stage is. Each stages/<stage>.c defines one constant tlc_stage; codec.c lists them.
 *
 * A list of stages runs over a unit: a block, or the whole tensor. The coder lays the unit's values out in positions (a
 * byte of quartic, a value of raw, 64 values of a mask); any range of positions can be coded alone, which is how a unit is
 * shared out among threads and how the stages hand data on while it is in the cache.
 */
#ifndef TLC_STAGE_H
#define TLC_STAGE_H

#include "../common/bytes.h"
#include "../codec/codec.h"
#include "../values/input.h"

/* What flows between stages; a stage may take several kinds. */
typedef enum tlc_kind {
    TLC_KIND_FLOATS = 1,
    TLC_KIND_TERNARY = 2, /* symbols -1, 0, 1 */
    TLC_KIND_BINARY = 4,  /* symbols 0, 1 */
    TLC_KIND_QUARTIC = 8,
    TLC_KIND_BYTES = 16
} tlc_kind;

typedef enum tlc_sink_mode { TLC_SINK_WRITE, TLC_SINK_ADD, TLC_SINK_MASK } tlc_sink_mode;

/* Where decoded values go. */
typedef struct tlc_sink {
    tlc_sink_mode mode;
    tlc_dtype dtype; /* WRITE; the others are f32 */
    void *out;       /* of the whole tensor */
    float weight;    /* ADD */
    int stream;      /* WRITE: so much that it had better bypass the caches */
} tlc_sink;

/* The values that a sparse stage sends: ((bits of x) ^ flip) & keep >= least, as signed integers; of those that are equal
 * to least only the ones up to index last of the unit. */
typedef struct tlc_members {
    uint32_t flip, keep;
    int32_t least;
    uint64_t last;
} tlc_members;

/* What coding forward needs besides the values. */
typedef struct tlc_work {
    uint64_t seed, step;  /* of random words */
    uint64_t *scratch;    /* what the coder's scratch asks for */
    tlc_members members;  /* what prepare chose */
} tlc_work;

/* Kept below the size from which compilers clear it by string instructions, which cost a small tensor 12 ns. */
typedef struct tlc_unit {
    const tlc_kernels *k;
    const tlc_codec *codec;
    uint64_t n;   /* values in the unit */
    size_t first; /* index of its first value in the tensor */
    float scalars[TLC_MAX_SCALARS];
    tlc_dtype dtype; /* of the gradients */
    int second;      /* the payload has the coder's second form; finish sets it */
    union {
        struct { /* forward */
            tlc_input input; /* of the whole tensor */
            tlc_work *work;
        };
        struct { /* backward */
            const tlc_sink *sink;
            tlc_lines *lines; /* not NULL if the sink streams and a range comes in parts, of multiples of 16 positions */
            int last;         /* but for the last; whether this is it */
        };
    };
} tlc_unit;

_Static_assert(sizeof(tlc_unit) <= 96, "see above");

typedef struct tlc_param {
    const char *key;
    const char *const *words;      /* what its value may be, up to a NULL, and then stands for as an index; or NULL: */
    int mantissa;                  /* a number rounded to binary32 (24) or binary64 (53), or a whole one (0) */
    double least, below, fallback; /* least <= value < below */
    int decoding;                  /* the decoder must know it: it is part of the frame's form */
    const char *range, *meaning;   /* for people */
} tlc_param;

/* Value stages. */
typedef struct tlc_value_ops {
    unsigned scalars;   /* f32 numbers per unit that travel beside the payload, each finite */
    int any_sign;       /* they may be negative; else neither that nor -0 */
    int feedback;       /* error feedback by default */
    int exact;          /* without error feedback any value is sent as it is, NaN included, and no maximum is needed */
    int has_zero;       /* there is a symbol, or a value, for 0: tlc_mask works */
    int accumulates;    /* x is read more than once: with error feedback residual += gradient comes first */

    /* Can a unit be coded whose largest magnitude is max (bits, finite)? NULL: always. */
    tlc_status (*check)(const tlc_codec *codec, tlc_dtype dtype, uint32_t max);
    /* The largest magnitude of the unit, as tlc_input_absmax, and whatever else can be had in that sweep; or NULL. */
    uint32_t (*measure)(tlc_unit *u);
    /* Sets what the unit is coded with (scalars, members), where measure did not. NULL: nothing. */
    void (*prepare)(tlc_unit *u, uint32_t max);

    /* Kind TERNARY: the symbols of count <= TLC_PIECE values from at on, and their residual. */
    void (*symbols)(const tlc_unit *u, size_t at, size_t count, int8_t *q);
    /* Kind TERNARY, or NULL: all that in one sweep for the quartic bytes of five streams of len values; g or r may be NULL
     * as in kernels.h. */
    void (*quartic)(const tlc_unit *u, const float *const *g, float *const *r, size_t len, uint8_t *out);
    /* Kind BINARY: the most symbols that are not 0; and a bit for each of count <= TLC_PIECE values from at on, as the kernel threshold_mask gives them and counts them; and residuals. */
    uint64_t (*most)(const tlc_codec *codec, uint64_t n);
    uint64_t (*mask)(const tlc_unit *u, size_t at, size_t count, uint64_t *mask);
} tlc_value_ops;

/* The stage that lays out the payload: packing stages, and value stages that give bytes. A payload starts with head
 * bytes, then come the positions, of width bytes each; what lies where is otherwise the stage's matter. */
typedef struct tlc_coder_ops {
    uint64_t (*bound)(const tlc_codec *codec, tlc_dtype dtype, uint64_t n); /* largest payload; UINT64_MAX on overflow */
    uint64_t (*scratch)(const tlc_codec *codec, uint64_t n); /* bytes that forward needs for a unit; NULL: none */
    uint64_t (*positions)(const tlc_codec *codec, uint64_t n);
    size_t (*width)(const tlc_codec *codec, tlc_dtype dtype);
    size_t head;
    int (*has_second)(const tlc_codec *codec); /* may a payload have a second form? The frame tells. NULL: no */

    /* Codes a range of positions; returns a count whose sum finish is told. NULL: finish does it all. */
    uint64_t (*forward)(const tlc_unit *u, size_t from, size_t to, uint8_t *dst);
    /* Ends the payload and returns its length. NULL: that is the bound. */
    size_t (*finish)(tlc_unit *u, uint8_t *payload, uint64_t count);

    /* Is src, of any bytes, the payload of u? */
    int (*check)(const tlc_unit *u, const uint8_t *src, size_t len);
    /* Decodes a range of positions, or, where positions have no place of their own, all of the payload. */
    void (*backward)(const tlc_unit *u, size_t from, size_t to, const uint8_t *src);
    void (*backward_all)(const tlc_unit *u, const uint8_t *src, size_t len);

    /* Counts the non-zero symbols or values of u's payload, shrunk or not, that passed the check; NULL: has no zero. */
    uint64_t (*nonzero)(const tlc_unit *u, const uint8_t *src, size_t len);
    uint64_t (*clipped)(const uint8_t *src); /* values that were clipped; NULL: none ever */
} tlc_coder_ops;

/* A shrunk range of positions, before it is joined to its neighbours. */
typedef struct tlc_piece {
    size_t lead;  /* positions at its start that only the join can write */
    size_t len;   /* bytes written */
    size_t trail; /* positions at its end that only the join can write; a range that is all lead has none */
} tlc_piece;

/* Shrinking stages. A shrunk payload is never longer than what it came from. */
typedef struct tlc_shrink_ops {
    tlc_piece (*forward)(const tlc_unit *u, size_t from, size_t to, uint8_t *dst);
    /* Appends a piece to the at bytes at dst, of which *open positions are not written yet; returns the new at. */
    size_t (*join)(uint8_t *dst, size_t at, size_t *open, const tlc_piece *piece, const uint8_t *src);
    size_t (*finish)(uint8_t *dst, size_t at, size_t open);

    int (*check)(const tlc_unit *u, const uint8_t *src, size_t len);
    uint64_t (*positions)(const tlc_kernels *k, const uint8_t *src, size_t len); /* that len bytes expand to */
    void (*backward)(const tlc_unit *u, size_t from, size_t to, const uint8_t *src, size_t len);
} tlc_shrink_ops;

struct tlc_stage {
    const char *name;
    uint8_t id; /* on the wire, in the field of its role; never reused, never 0 but for "none". Stages that differ only
                   for the encoder share one: the first of them in the registry stands for all */
    unsigned in; /* kinds that it takes */
    tlc_kind out;
    const tlc_param *params;
    size_t param_count;
    const tlc_value_ops *value;   /* each NULL where the stage does not play that role */
    const tlc_coder_ops *coder;
    const tlc_shrink_ops *shrink;
    /* Value stages that are coders, with parameters that the decoder must know: as a byte of the header, and back (0: no
     * such form). NULL: the byte is 0. */
    unsigned (*form)(const tlc_codec *codec);
    int (*from_form)(tlc_codec *codec, unsigned form);
    const char *meaning, *source; /* for people */
};

extern const tlc_stage tlc_stage_golomb, tlc_stage_int8, tlc_stage_natural, tlc_stage_onebit, tlc_stage_qsgd,
    tlc_stage_quartic, tlc_stage_random_sparse, tlc_stage_raw, tlc_stage_sparse_binary, tlc_stage_stochastic_ternary,
    tlc_stage_ternary, tlc_stage_topk, tlc_stage_zerorun;

/* layout.c: positions and width of payloads that have a position for each value, a byte for each position, or no place
 * of their own for positions. */
uint64_t tlc_layout_values(const tlc_codec *codec, uint64_t n);
size_t tlc_layout_bytes(const tlc_codec *codec, tlc_dtype dtype);
size_t tlc_layout_none(const tlc_codec *codec, tlc_dtype dtype);

/* The random words of values at .. at + count of the unit. */
void tlc_unit_words(const tlc_unit *u, size_t at, size_t count, uint32_t *words);

/* Values at .. at + count of the unit go to the sink: given as symbols, in mode MASK, or ADD where weight * M is infinite;
 * or given as floats, in any mode. */
void tlc_sink_symbols(const tlc_unit *u, size_t at, size_t count, const int8_t *q);
void tlc_sink_floats(const tlc_unit *u, size_t at, size_t count, const float *values);

/* ternary.c: is every symbol -1, 0 or 1? */
int tlc_symbols_valid(const int8_t *q, size_t n);

/* quartic.c: do the last quartic bytes of n values, tail[0 .. min(4, ceil(n / 5))], carry padding digits 0? */
int tlc_quartic_padding(uint64_t n, const uint8_t *tail);
#endif
