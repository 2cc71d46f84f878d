/* SPDX-License-Identifier: MIT
 *
 * Many frames in one message: a bundle has the frames of all tensors of a step, in order. What is in the frames is not
 * checked. A frame may be empty, for a tensor that was not sent.
 *
 *   byte 0        'B'
 *   byte 1        version, 1
 *   bytes 2..3    0
 *   bytes 4..7    count, little-endian
 *   count x 8     length of each frame in bytes, little-endian
 *   then          the frames, one after the other, and nothing behind the last
 */
#ifndef THREELC_BUNDLE_H
#define THREELC_BUNDLE_H

#include <threelc/threelc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a bundle. The fields are for the library only. The struct needs no clean-up. */
typedef struct tlc_bundle_writer {
    unsigned char *dst;
    size_t cap, used;
    uint32_t count, index;
} tlc_bundle_writer;

/* Reads a bundle. The fields are for the library only. The struct needs no clean-up. */
typedef struct tlc_bundle_reader {
    const unsigned char *src;
    size_t len, offset;
    uint32_t count, index;
} tlc_bundle_reader;

/* *bound: the bytes of a bundle of count frames that have frame_bytes bytes together. TLC_ERR_SIZE: overflow. */
TLC_API tlc_status tlc_bundle_bound(uint32_t count, size_t frame_bytes, size_t *bound);

/* Begins a bundle of count frames in dst. TLC_ERR_CAPACITY: cap is less than the head, 8 + 8 count bytes. */
TLC_API tlc_status tlc_bundle_init(tlc_bundle_writer *w, void *dst, size_t cap, uint32_t count);

/* To write a frame directly into the bundle: tlc_bundle_space gives the address of the next frame and the bytes that
 * are free there. After that, tlc_bundle_commit takes the length of the frame. TLC_ERR_PARAM: all frames are written.
 * TLC_ERR_CAPACITY: len is larger than the free bytes. */
TLC_API tlc_status tlc_bundle_space(const tlc_bundle_writer *w, void **dst, size_t *cap);
TLC_API tlc_status tlc_bundle_commit(tlc_bundle_writer *w, size_t len);

/* Copies a frame into the bundle. TLC_ERR_CAPACITY, TLC_ERR_PARAM: as above. */
TLC_API tlc_status tlc_bundle_add(tlc_bundle_writer *w, const void *frame, size_t len);

/* Ends the bundle. *written: its length. TLC_ERR_PARAM: frames are missing. */
TLC_API tlc_status tlc_bundle_finish(const tlc_bundle_writer *w, size_t *written);

/* Opens a bundle and checks it whole, in time O(count); src may be any bytes. TLC_ERR_CORRUPT: too short, a bad head,
 * or lengths that do not add up to len. TLC_ERR_VERSION. */
TLC_API tlc_status tlc_bundle_open(tlc_bundle_reader *r, const void *src, size_t len);
TLC_API uint32_t tlc_bundle_count(const tlc_bundle_reader *r);

/* *frame: the next frame, within src. TLC_ERR_PARAM: there are no more frames. */
TLC_API tlc_status tlc_bundle_next(tlc_bundle_reader *r, const void **frame, size_t *len);

#ifdef __cplusplus
}
#endif
#endif
