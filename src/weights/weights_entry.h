/* SPDX-License-Identifier: MIT
 *
 * Messages of weights: the sizes of their parts, and the heads of their entries. src/docs/format.md draws them.
 */
#ifndef TLC_WEIGHTS_ENTRY_H
#define TLC_WEIGHTS_ENTRY_H

#include "../common/varint.h"
#include "../frames/frame.h"
#include <threelc/weights.h>

#define TLC_WEIGHTS_MAGIC 'W'
enum {
    TLC_WEIGHTS_VERSION = 1,
    TLC_WEIGHTS_HEAD_SIZE = 40, /* of a message, without its note */
    TLC_WEIGHTS_TAIL_SIZE = 36,
    TLC_WEIGHTS_OFFSET_SIZE = 8, /* of an entry, in the index */
    TLC_WEIGHTS_LENGTH_SIZE = 4, /* of the head of an entry, at its beginning */
    TLC_WEIGHTS_ENTRY_MIN = 14,  /* the shortest head of an entry: a scalar, with a name of a byte */
    TLC_WEIGHTS_DESCRIPTION_MAX = 2 + TLC_WEIGHTS_NAME_MAX + 2 + TLC_WEIGHTS_DIMS_MAX * TLC_VARINT_MAX,
    TLC_WEIGHTS_ENTRY_MAX = TLC_WEIGHTS_LENGTH_SIZE + 1 + TLC_WEIGHTS_DESCRIPTION_MAX + 2 * TLC_VARINT_MAX + 1 +
                            2 * TLC_WEIGHTS_DIMS_MAX * TLC_VARINT_MAX + TLC_CHECKSUM_SIZE /* the longest head */
};

/* What follows the description of an entry. */
typedef enum tlc_weights_kind {
    TLC_WEIGHTS_FRAME = 0,
    TLC_WEIGHTS_WHOLE = 1, /* a view of all of the root */
    TLC_WEIGHTS_PART = 2   /* a view of a part of it */
} tlc_weights_kind;

/* An entry of a message, with the memory that it points to. */
typedef struct tlc_weights_slot {
    tlc_weights_entry entry;
    uint64_t offset, end;                                      /* of the frame, or of what follows a view */
    size_t head, described;                                    /* bytes of the head; of the description in it */
    uint8_t bytes[TLC_WEIGHTS_ENTRY_MAX + TLC_DELTA_HEAD_MAX]; /* the head of the entry, then that of the frame */
    char name[TLC_WEIGHTS_NAME_MAX + 1];
    uint64_t shape[TLC_WEIGHTS_DIMS_MAX], root_strides[TLC_WEIGHTS_DIMS_MAX], strides[TLC_WEIGHTS_DIMS_MAX];
} tlc_weights_slot;

/* Is it a name: UTF-8 of 1 to TLC_WEIGHTS_NAME_MAX bytes, none of them 0? */
int tlc_weights_is_name(const char *name, size_t len);

/* The product of a shape; UINT64_MAX: it has more than 64 bits. */
uint64_t tlc_weights_count(const uint64_t *shape, size_t dims);

/* Writes the head of an entry, number `number`, to slot->bytes, and sets slot->head and described. The entry is that of
 * the caller, and was checked. */
void tlc_weights_entry_write(tlc_weights_slot *slot, const tlc_weights_entry *entry, uint64_t number,
                             uint64_t frame_len);

/* Reads the head of entry `number` at slot->bytes, whose slot->head bytes were read: the entry without what its frame
 * says. TLC_ERR_CHECKSUM; TLC_ERR_CORRUPT. */
tlc_status tlc_weights_entry_read(tlc_weights_slot *slot, uint64_t number);

/* Takes what a frame says of its weights, by its first bytes. TLC_ERR_VERSION; TLC_ERR_CORRUPT: it is not for the
 * entry, or has no digests. */
tlc_status tlc_weights_entry_peek(tlc_weights_entry *entry, const void *frame, size_t len);

/* The checksum of the tail, which knows the head's. */
uint32_t tlc_weights_tail_checksum(const uint8_t *tail, uint32_t head);

/* Goes on with the digest of a model, which begins with 0: a tensor, by its description and the digest of its weights.
 * */
uint64_t tlc_weights_digest(uint64_t model, const tlc_weights_slot *slot, uint64_t weights);
#endif
