/* SPDX-License-Identifier: MIT
 *
 * What a stage is. Each stages/<stage>.c defines one constant tlc_stage; codec.c lists them.
 *
 * A list of stages runs over a unit: a block, or the whole tensor. The coder lays the unit's values out in positions (a
 * byte of quartic, a value of raw); any range of positions can be coded alone, which is how a unit is shared out among
 * threads and how the stages hand data on while it is in the cache.
 */
#ifndef TLC_STAGE_H
#define TLC_STAGE_H

#include "../codec.h"
#include "../feedback.h"

typedef enum tlc_kind { TLC_KIND_FLOATS, TLC_KIND_TERNARY, TLC_KIND_QUARTIC, TLC_KIND_BYTES } tlc_kind;

typedef enum tlc_sink_mode { TLC_SINK_WRITE, TLC_SINK_ADD, TLC_SINK_MASK } tlc_sink_mode;

/* Where decoded values go. */
typedef struct tlc_sink {
    tlc_sink_mode mode;
    tlc_dtype dtype; /* WRITE; the others are f32 */
    void *out;       /* of the whole tensor */
    float weight;    /* ADD */
    int stream;      /* WRITE: so much that it had better bypass the caches */
} tlc_sink;

typedef struct tlc_unit {
    const tlc_kernels *k;
    const tlc_codec *codec;
    uint64_t n;                     /* values in the unit */
    size_t first;                   /* index of its first value in the tensor */
    float scalars[TLC_MAX_SCALARS];
    tlc_dtype dtype;                /* of the gradients */
    tlc_input input;                /* forward: of the whole tensor */
    const tlc_sink *sink;           /* backward */
    tlc_lines *lines;               /* backward: not NULL if the sink streams and a range comes in parts, of multiples of */
    int last;                       /* 16 positions but for the last; whether this is it */
} tlc_unit;

typedef struct tlc_param {
    const char *key;
    int mantissa; /* 24: rounded to binary32, 53: to binary64 */
    double least, below, fallback;
} tlc_param;

/* Value stages. */
typedef struct tlc_value_ops {
    unsigned scalars;   /* f32 numbers per unit that travel beside the payload, each finite and >= 0 */
    int feedback;       /* error feedback by default */
    int exact;          /* without error feedback any value is sent as it is, NaN included, and no maximum is needed */
    int has_zero;       /* there is a symbol for 0: tlc_mask works */

    /* Sets the scalars from the largest magnitude (bits, finite) of the unit. TLC_ERR_NONFINITE: they overflow. */
    tlc_status (*prepare)(tlc_unit *u, uint32_t max);

    /* Kind TERNARY: the quartic bytes of five streams of len values, and the residual; g or r may be NULL as in kernels.h. */
    void (*quartic)(const tlc_unit *u, const float *const *g, float *const *r, size_t len, uint8_t *out);
} tlc_value_ops;

/* The stage that lays out the payload: packing stages, and value stages that give bytes. */
typedef struct tlc_coder_ops {
    uint64_t (*positions)(uint64_t n);
    size_t (*width)(tlc_dtype dtype); /* bytes of a position */

    void (*forward)(const tlc_unit *u, size_t from, size_t to, uint8_t *dst);
    /* Is src, of any bytes, the payload of u? */
    int (*check)(const tlc_unit *u, const uint8_t *src, size_t len);
    void (*backward)(const tlc_unit *u, size_t from, size_t to, const uint8_t *src);
    /* Counts the non-zero symbols of u's payload, shrunk or not, that passed the check; NULL where that is not cheap. */
    uint64_t (*nonzero)(const tlc_unit *u, const uint8_t *src, size_t len);
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
    uint8_t id; /* on the wire, in the field of its role; never reused, never 0 but for "none" */
    tlc_kind in, out;
    const tlc_param *params;
    size_t param_count;
    const tlc_value_ops *value;   /* each NULL where the stage does not play that role */
    const tlc_coder_ops *coder;
    const tlc_shrink_ops *shrink;
};

extern const tlc_stage tlc_stage_raw, tlc_stage_ternary, tlc_stage_quartic, tlc_stage_zerorun;

/* Values at .. at + count of the unit go to the sink: given as symbols, in mode MASK, or ADD where weight * M is infinite;
 * or given as floats, in mode WRITE or ADD. */
void tlc_sink_symbols(const tlc_unit *u, size_t at, size_t count, const int8_t *q);
void tlc_sink_floats(const tlc_unit *u, size_t at, size_t count, const float *values);

/* ternary.c: is every symbol -1, 0 or 1? */
int tlc_symbols_valid(const int8_t *q, size_t n);

/* quartic.c: do the last quartic bytes of n values, tail[0 .. min(4, ceil(n / 5))], carry padding digits 0? */
int tlc_quartic_padding(uint64_t n, const uint8_t *tail);
#endif
