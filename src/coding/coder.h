/* SPDX-License-Identifier: MIT
 *
 * Coders write the payload of a unit, and read it. There are three: for symbols, for members and for codes. They call
 * the stages for one chunk after the other, share the work among threads, update the residual (feedback.h) and use
 * fused kernels (fused.h).
 */
#ifndef TLC_CODER_H
#define TLC_CODER_H

#include "../codec/codec.h"
#include "../common/sizes.h"
#include "../values/output.h"
#include "fused.h"
#include "ranges.h"

/* A unit that is encoded or decoded. */
typedef struct tlc_coding {
    tlc_unit unit;
    const tlc_codec *codec;
    const tlc_fused *fused; /* or NULL */
    int fallback;           /* the payload has the bytes of the packer's fallback; encode sets it */
    int without_count;      /* codes: the payload has no count before the planes */
    /* only for encoding: */
    const tlc_parallel *parallel; /* NULL: this thread only */
    uint64_t *scratch;            /* tlc_unit_scratch bytes */
    uint64_t clipped;             /* how many values were clipped; the coder of codes sets it */
    /* only for decoding: */
    const uint8_t *payload;
    size_t len;
    const tlc_output *output;
} tlc_coding;

/* A place in a payload, from which decoding can go on. All 0: its start. */
typedef union tlc_place {
    tlc_golomb_run positions;
    struct {
        uint64_t offset; /* of the next shrunk byte */
        uint64_t zeros;  /* zero bytes that the byte before it still stands for */
    } shrunk;
} tlc_place;

/* Decoding can be cut into parts at multiples of TLC_PART_COLUMNS columns. A column is a value of each stream. */
enum { TLC_PART_COLUMNS = 64 };

typedef struct tlc_coder {
    /* The largest payload; UINT64_MAX on overflow. */
    uint64_t (*bound)(const tlc_codec *codec, tlc_dtype dtype, uint64_t n);
    /* tlc_unit_scratch. NULL: needs none. */
    uint64_t (*scratch)(const tlc_codec *codec, uint64_t n);
    /* Writes the payload of a unit and returns its length. Scalars and selection are set, and n > 0. */
    size_t (*encode)(tlc_coding *c, uint8_t *dst);
    /* Is it a payload of the unit? Any bytes. */
    int (*check)(const tlc_coding *c);
    /* For payloads that have passed the check: */
    size_t (*streams)(const tlc_coding *c); /* the unit has ceil(n / streams) columns */
    void (*skip)(const tlc_coding *c, tlc_place *place, size_t from, size_t to); /* NULL: places are not needed */
    void (*decode)(const tlc_coding *c, tlc_place *place, size_t from, size_t to);
    /* Does decode() have a faster way if it is called once for all columns? NULL: no. */
    int (*is_slow_in_parts)(const tlc_coding *c);
} tlc_coder;

extern const tlc_coder tlc_coder_of_symbols, tlc_coder_of_members, tlc_coder_of_codes;

static inline const tlc_coder *tlc_coder_for(const tlc_codec *codec)
{
    if (tlc_codec_positions(codec))
        return TLC_IF_BUILT(TLC_WITH_MEMBERS, &tlc_coder_of_members);
    return codec->packer ? TLC_IF_BUILT(TLC_WITH_QUARTIC, &tlc_coder_of_symbols) : &tlc_coder_of_codes;
}

/* Bytes of scratch memory that encoding n values needs. */
static inline uint64_t tlc_unit_scratch(const tlc_codec *codec, uint64_t n)
{
    const tlc_coder *coder = tlc_coder_for(codec);
    return TLC_IS_BUILT(TLC_WITH_MEMBERS) && coder->scratch ? coder->scratch(codec, n) : 0;
}

static inline size_t tlc_columns(const tlc_coding *c)
{
    return (size_t)tlc_ceil_div(c->unit.n, tlc_coder_for(c->codec)->streams(c));
}

/* coder_codes.c: where the planes of a payload of n codes begin. Returns the payload's length. */
uint64_t tlc_codes_planes(const tlc_layout *layout, uint64_t n, const uint8_t *payload, const uint8_t *planes[2]);

/* unpack.c: decode() of payloads of symbols with equally many streams, which are added to the same sum, one after the
 * other. It is no entry of tlc_coder, as programs that decode one frame at a time do not link it. */
void tlc_unpack_many(const tlc_coding *const *c, tlc_place *places, size_t count, size_t from, size_t to);

/* unpack.c: expands a shrunk array into dst, whose size is exactly that of the result. */
void tlc_shrunk_expand(const tlc_shrinker *shrinker, const tlc_kernels *k, const uint8_t *src, size_t len,
                       uint8_t *dst);
#endif
