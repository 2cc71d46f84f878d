/* SPDX-License-Identifier: MIT
 *
 * Frames that are written without the weights, of differences alone. A block of units that were 0 gets ordered(d)
 * where d is not 0: it has the payload of the real weights. Only raw payloads need these.
 */
#ifndef TLC_DELTA_DIFFERENCES_H
#define TLC_DELTA_DIFFERENCES_H

#include "delta_frame.h"

enum {
    TLC_DELTA_CHANGE_MAX = 32,        /* bytes of a sparse payload for each unit that differs, and more */
    TLC_DELTA_DIFFERENCES_HEAD = 192, /* bytes of a dense payload beside those of units */
    TLC_DELTA_DIFFERENCES_RANGES = 16
};

/* Where a frame is written: the head at dst, then the table, room for the payloads of each range, a block of units for
 * each, and one of zeros. */
typedef struct tlc_delta_rooms {
    uint8_t *dst, *table, *payloads, *work;
    const uint8_t *zeros;                             /* a block of units that are 0 */
    uint64_t start[TLC_DELTA_DIFFERENCES_RANGES + 1]; /* of the payloads of a range; the last is the end */
    size_t len[TLC_DELTA_DIFFERENCES_RANGES];         /* of those that were written */
} tlc_delta_rooms;

/* Both halves of weights of 64 bits are coded as a block of these. */
static inline tlc_dtype tlc_delta_coded(const tlc_delta *d)
{
    return tlc_delta_planes(d) == 2 ? TLC_I32 : d->dtype;
}

/* Blocks of weights; those of 64 bits have two payloads. */
static inline size_t tlc_delta_weight_blocks(const tlc_delta *d)
{
    return tlc_delta_blocks(d) / tlc_delta_planes(d);
}

/* Divides the blocks of weights into ranges. */
void tlc_delta_differences_split(tlc_delta *d, const tlc_parallel *parallel);

/* The room for the payloads of these blocks of weights, of which k differ; UINT64_MAX: too much. */
uint64_t tlc_delta_differences_room(const tlc_delta *d, uint64_t k, size_t blocks);

/* The bytes that a frame and its blocks of units need at most, whether there are threads or not; UINT64_MAX: too many.
 * k: the weights that differ. */
uint64_t tlc_delta_differences_bound(const tlc_delta *d, uint64_t k);

/* Places table, rooms and blocks at dst. start has the room of range i at i + 1. The flags are set. */
void tlc_delta_rooms_place(tlc_delta_rooms *r, const tlc_delta *d, uint8_t *dst);

/* A block of units, of which all bytes are 0. */
uint8_t *tlc_delta_rooms_clear(const tlc_delta_rooms *r, const tlc_delta *d, size_t range);

/* Writes block b after those that its range has, as it would be for the real weights. masks: what differs, which may
 * be nothing. If these would have a raw payload: returns 0 if the caller has it (raw), else it becomes longer than
 * that. */
int tlc_delta_rooms_write(tlc_delta_rooms *r, const tlc_delta *d, size_t range, size_t b, tlc_delta_masks *masks,
                          const uint8_t *units, int raw);

/* The same of a block that is sparse. Returns 0 if its payload would be raw. */
int tlc_delta_rooms_write_list(tlc_delta_rooms *r, const tlc_delta *d, size_t range, size_t b,
                               const tlc_delta_list *list);

/* The same with a raw payload of these units. */
void tlc_delta_rooms_write_raw(tlc_delta_rooms *r, const tlc_delta *d, size_t range, size_t b, const uint8_t *units);

/* The same of these units without a base. */
void tlc_delta_rooms_write_all(tlc_delta_rooms *r, const tlc_delta *d, size_t range, size_t b, const uint8_t *units);

/* Completes the frame. Returns its bytes. */
size_t tlc_delta_rooms_finish(tlc_delta_rooms *r, tlc_delta *d);
#endif
