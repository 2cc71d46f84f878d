/* SPDX-License-Identifier: MIT
 *
 * Frames that are made without a context: of values that were quantized elsewhere, and of the sum of other frames.
 * Failure, threads, alignment and float mode: as threelc.h says.
 *
 * Parameters are in a struct. Start from its `_init`. A field that is 0 has its default. If struct_size is smaller than
 * the library's, the missing fields are 0. If it is larger, the extra bytes must be 0, else TLC_ERR_PARAM.
 */
#ifndef THREELC_FRAMES_H
#define THREELC_FRAMES_H

#include <threelc/threelc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The frame of values that were quantized elsewhere, as on a GPU: the one that tlc_compress makes of them, if it finds
 * these symbols. quartic: what tlc_quartic_encode (threelc/stages.h) makes of the symbols, len bytes; of a codec with
 * blocks that of each block, one after the other. scales: M of tlc_ternary_encode, one, or one for each block.
 * codec: a codec of 3-value symbols: 3lc, 3lc-golomb, ternary:block=4096+golomb and so on; s is not used. dtype: of the
 * values before. codec has no default. scratch: tlc_quartic_scratch bytes, with the alignment of malloc.
 * dst: cap bytes, as many as tlc_codec_bound says, else TLC_ERR_CAPACITY. The bytes of dst after *written may be
 * overwritten.
 * TLC_ERR_PARAM: another codec. TLC_ERR_SIZE: another len. TLC_ERR_NONFINITE: a scale is negative or not finite.
 * TLC_ERR_CORRUPT: quartic bytes that are none. */
typedef struct tlc_quartic_params {
    size_t struct_size;
    const char *codec;  /* of 3-value symbols; there is no default */
    tlc_dtype dtype;    /* of the values before */
    int checksum;       /* 1: the frame ends with a checksum */
    void *scratch;      /* tlc_quartic_scratch bytes */
    char *message;      /* message_cap bytes: why the call failed; or NULL. As in tlc_decode_options */
    size_t message_cap; /* bytes of message */
} tlc_quartic_params;
TLC_API tlc_status tlc_quartic_params_init(tlc_quartic_params *params, size_t struct_size);
TLC_API size_t tlc_quartic_scratch(const char *codec, size_t n); /* 0: none is needed */
TLC_API tlc_status tlc_compress_quartic(const void *quartic, size_t len, const float *scales, size_t n,
                                        const tlc_quartic_params *params, void *dst, size_t cap, size_t *written);

/* The other way round, for who decodes elsewhere: the symbols of a frame as quartic bytes, and what a symbol 1 decodes
 * to. src, len, n, opt: as in tlc_decompress; parallel is not used. quartic, scales: as above, with room for cap bytes
 * and for count floats. block of tlc_frame_info tells how many are needed.
 * TLC_ERR_CAPACITY: there are more. TLC_ERR_UNSUPPORTED: a frame without 3-value symbols. Else the errors of
 * tlc_decompress. */
TLC_API tlc_status tlc_decompress_quartic(const void *src, size_t len, size_t n, void *quartic, size_t cap,
                                          float *scales, size_t count, const tlc_decode_options *opt);

/* The frame of a payload that was made elsewhere, as on a GPU: the one that tlc_compress makes, if it makes this
 * payload. codec: any; there is no default. payload: len bytes, as src/docs/format.md draws them, with blocks the table
 * and all payloads: what follows header_size of tlc_frame_info in a frame. Unblocked ternary+golomb: quartic bytes, if
 * these are not more than the codes would be; a payload of so many bytes is taken for them.
 * scalars: those of an unblocked frame, 1 of 3-value symbols (M), int8 and qsgd (the largest magnitude), sparse-binary
 * (the mean), 2 of onebit (the means), 0 to 2 of topk; of other codecs, and with blocks, it may be NULL. params: dtype
 * is of the values before; scratch is not used. The payload may be any bytes: it is checked as tlc_decompress does it.
 * The other way round, tlc_inspect checks a frame and tells where its payload is; the scalars are the last bytes before
 * it, little-endian.
 * dst: cap bytes, as many as the frame has; tlc_codec_bound says enough. It must not overlap the payload, and is not
 * written if the call fails.
 * TLC_ERR_PARAM: no codec. TLC_ERR_CORRUPT: a payload or scalars that no frame has. */
TLC_API tlc_status tlc_compress_payload(const void *payload, size_t len, const float *scalars, size_t n,
                                        const tlc_quartic_params *params, void *dst, size_t cap, size_t *written);

/* The frame of some of n values that were chosen elsewhere, as on a GPU: the one that tlc_compress makes of all values,
 * if it chooses these. positions: k of them; they rise. values: x of each, gradient and residual added.
 * codec: of topk or sparse-binary (sbc): topk:p=0.01,bits=1+golomb and so on; there is no default. Or
 * of random-sparse: then values are x / p. sparse-binary: the members of both sides come (tlc_sparse_binary_encode in
 * threelc/stages.h), and the side is found whose mean is larger. dtype: of the gradients.
 * sent: NULL, or room for k floats, which may be values: what each value decodes to; 0: it is not sent. x minus it is
 * what is left.
 * scratch: tlc_members_scratch bytes, with the alignment of malloc.
 * dst: cap bytes, as many as tlc_codec_bound says, else TLC_ERR_CAPACITY. The bytes of dst after *written may be
 * overwritten.
 * TLC_ERR_PARAM: another codec; positions that do not rise, or are not below n; a value that is 0; more values than
 * the codec sends of a tensor, or of a block. TLC_ERR_NONFINITE: a value is not finite. */
typedef struct tlc_members_params {
    size_t struct_size;
    const char *codec;  /* there is no default */
    tlc_dtype dtype;    /* of the gradients */
    int checksum;       /* 1: the frame ends with a checksum */
    void *scratch;      /* tlc_members_scratch bytes */
    float *sent;        /* k floats, or NULL: what the values decode to */
    char *message;      /* message_cap bytes: why the call failed; or NULL. As in tlc_decode_options */
    size_t message_cap; /* bytes of message */
} tlc_members_params;
TLC_API tlc_status tlc_members_params_init(tlc_members_params *params, size_t struct_size);
TLC_API size_t tlc_members_scratch(const char *codec, size_t n); /* 0: none is needed */
TLC_API tlc_status tlc_compress_members(const uint64_t *positions, const float *values, size_t k, size_t n,
                                        const tlc_members_params *params, void *dst, size_t cap, size_t *written);

/* The other way round, for who decodes elsewhere: the positions of a frame, which rise, and what the value at each
 * decodes to; the others are 0. src, len, n, opt: as in tlc_decompress; parallel is not used. positions, values: room
 * for cap of each. *k: how many came; nonzero of tlc_frame_info tells it before.
 * TLC_ERR_CAPACITY: there are more. TLC_ERR_UNSUPPORTED: a frame of another codec. Else the errors of
 * tlc_decompress. */
TLC_API tlc_status tlc_decompress_members(const void *src, size_t len, size_t n, uint64_t *positions, float *values,
                                          size_t cap, size_t *k, const tlc_decode_options *opt);

/* How a value becomes one of the two numbers around it. */
typedef enum tlc_rounding {
    TLC_ROUND_RANDOM = 0, /* up or down at random, without bias where no exponent is clipped */
    TLC_ROUND_NEAREST = 1 /* to the nearer one */
} tlc_rounding;

/* Adds natural frames and compresses the sum into one frame (IntML's aggregator). The count frames must have the same
 * n, bits and shift, and no blocks. They are added in their order, from +0 on. The new frame has the dtype of the first
 * one, and a checksum if that has one. A sum that overflows is clipped like any large value. params NULL: all fields 0.
 * Random words: value i of the sum has word 2^63 + i of seed and step (tlc_philox). Senders never use these words, so
 * the seed and step of a sender are allowed. But if an aggregator takes frames of other aggregators, it needs a seed of
 * its own, because equal words would be used twice.
 * dst: cap bytes, as many as tlc_codec_bound says; it must not overlap a frame.
 * TLC_ERR_SIZE: another n. TLC_ERR_PARAM: other bits or another shift, or a rounding that is not in the enum.
 * TLC_ERR_UNSUPPORTED: a frame that is not of natural, or blocked. Else the errors of tlc_decompress. */
typedef struct tlc_natural_aggregate_params {
    size_t struct_size;
    uint64_t seed, step;   /* of the random words (tlc_philox) */
    tlc_rounding rounding; /* of the sum */
    char *message;         /* message_cap bytes: why the call failed, and which frame is at fault; or NULL. As in
                      tlc_decode_options */
    size_t message_cap;    /* bytes of message */
} tlc_natural_aggregate_params;
TLC_API tlc_status tlc_natural_aggregate_params_init(tlc_natural_aggregate_params *params, size_t struct_size);
TLC_API tlc_status tlc_natural_aggregate(const tlc_message *frames, size_t count,
                                         const tlc_natural_aggregate_params *params, void *dst, size_t cap,
                                         size_t *written);

#ifdef __cplusplus
}
#endif
#endif
