/* SPDX-License-Identifier: MIT
 *
 * The header of a frame, and its checksum. src/docs/format.md draws frames.
 */
#ifndef TLC_FRAME_H
#define TLC_FRAME_H

#include "../codec/codec.h"

#define TLC_FRAME_MIN 5 /* the shortest frame: a header with n = 0 */
#define TLC_CHECKSUM_SIZE 4
#define TLC_FRAME_CHECKSUM 0x04u /* the flag */

#define TLC_BLOCK_FALLBACK (1u << 31) /* in a block's payload length */

/* What is wrong with bytes that should be a frame. */
typedef enum tlc_frame_fault {
    TLC_FAULT_SHORT,    /* for a header */
    TLC_FAULT_OTHER,    /* another version, or no frame */
    TLC_FAULT_CODEC,    /* an unknown one */
    TLC_FAULT_BUILD,    /* a codec that is not part of this build */
    TLC_FAULT_CHECKSUM, /* another one */
    TLC_FAULT_N,        /* is not a number */
    TLC_FAULT_SIZE,     /* n is not the caller's */
    TLC_FAULT_FLAGS,    /* reserved ones are set, or the dtype is invalid */
    TLC_FAULT_BLOCK,    /* the number of values in a block is invalid */
    TLC_FAULT_SCALARS,  /* cut, not finite or negative */
    TLC_FAULT_TRAILING, /* n is 0, but a payload follows */
    TLC_FAULT_TABLE,    /* of blocks: cut */
    TLC_FAULT_UNIT,     /* a payload is not what the codec makes; fault_unit tells which */
    TLC_FAULT_LENGTHS   /* the payloads of the blocks do not end where the frame does */
} tlc_frame_fault;

typedef struct tlc_frame {
    tlc_frame_fault fault; /* if reading or checking failed */
    uint64_t fault_unit;   /* the block, or 0 */
    tlc_codec codec;       /* what a decoder must know, with block */
    tlc_dtype dtype;
    int checksum;
    int fallback; /* unblocked: the payload has the bytes of the fallback */
    uint64_t n;
    size_t header_size; /* scalars included */
    float scalars[TLC_MAX_SCALARS];
    const uint8_t *payload;
    size_t payload_size;
} tlc_frame;

/* Bytes of the header before the payload, scalars included. */
size_t tlc_frame_header_size(const tlc_codec *codec, size_t n);

/* Writes the header; returns tlc_frame_header_size bytes. */
size_t tlc_frame_write(uint8_t *dst, const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n,
                       const float *scalars);

/* Changes a written header: the payload has the bytes of the fallback. */
void tlc_frame_mark_fallback(uint8_t *dst, const tlc_codec *codec);

/* Bytes of one entry of the block table. */
size_t tlc_table_entry_size(const tlc_codec *codec);

/* Appends the checksum of the len bytes at frame. */
void tlc_frame_seal(uint8_t *frame, size_t len);

/* Reads the header, in any bytes. Errors come in the order that threelc.h promises. n: the n that the caller expects,
 * or NULL. The checksum is checked only if check_sum is 1. The payload is not. */
tlc_status tlc_frame_read(tlc_frame *f, const void *src, size_t len, const size_t *n, int check_sum);

/* Are these the scalars of a unit: finite, and not negative unless the quantizer says that they may be? */
int tlc_scalars_valid(const tlc_codec *codec, const float *scalars);

uint32_t tlc_checksum(const void *bytes, size_t len); /* low 32 bits of XXH3_64bits */
#endif
