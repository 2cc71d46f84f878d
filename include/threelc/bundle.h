/* SPDX-License-Identifier: MIT
 *
 * Many frames in one message, for transports: one bundle holds the frames of a step's tensors, in order. The frames are
 * not looked into; an entry may be empty (a tensor that was not sent).
 *
 *   byte 0        'B'
 *   byte 1        version, 1
 *   bytes 2..3    0
 *   bytes 4..7    count, little-endian
 *   count x 8     length of each frame in bytes, little-endian
 *   then          the frames, one behind the other, and nothing after the last
 */
#ifndef THREELC_BUNDLE_H
#define THREELC_BUNDLE_H

#include <threelc/threelc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A bundle in the making. The fields are the library's; the struct lives where the caller likes. */
typedef struct tlc_bundle_writer {
    unsigned char *dst;
    size_t cap, used;
    uint32_t count, index;
} tlc_bundle_writer;

/* A bundle being walked; likewise. */
typedef struct tlc_bundle_reader {
    const unsigned char *src;
    size_t len, offset;
    uint32_t count, index;
} tlc_bundle_reader;

/* Bytes of a bundle of count frames that are frame_bytes together. TLC_ERR_SIZE: overflow. */
TLC_API tlc_status tlc_bundle_bound(uint32_t count, size_t frame_bytes, size_t *bound);

/* Begins a bundle of exactly count frames in dst. TLC_ERR_CAPACITY: not even the head fits. */
TLC_API tlc_status tlc_bundle_init(tlc_bundle_writer *w, void *dst, size_t cap, uint32_t count);

/* Where the next frame goes and how many bytes are free there, to compress straight into the bundle; then tlc_bundle_commit
 * with the bytes written. TLC_ERR_PARAM: all frames are in. */
TLC_API tlc_status tlc_bundle_space(const tlc_bundle_writer *w, void **dst, size_t *cap);
TLC_API tlc_status tlc_bundle_commit(tlc_bundle_writer *w, size_t len); /* TLC_ERR_CAPACITY: more than the space */

/* Copies a finished frame in. TLC_ERR_CAPACITY, TLC_ERR_PARAM as above. */
TLC_API tlc_status tlc_bundle_add(tlc_bundle_writer *w, const void *frame, size_t len);

/* Ends the bundle; *written is its length. TLC_ERR_PARAM: frames are missing. */
TLC_API tlc_status tlc_bundle_finish(const tlc_bundle_writer *w, size_t *written);

/* Opens a bundle for walking; src may be any bytes and is checked whole: TLC_ERR_CORRUPT (too short, other magic, lengths
 * that do not add up to len), TLC_ERR_VERSION. O(count) with count bounded by len. */
TLC_API tlc_status tlc_bundle_open(tlc_bundle_reader *r, const void *src, size_t len);
TLC_API uint32_t tlc_bundle_count(const tlc_bundle_reader *r);

/* The next frame, pointing into src. TLC_ERR_PARAM: there is none left. */
TLC_API tlc_status tlc_bundle_next(tlc_bundle_reader *r, const void **frame, size_t *len);

#ifdef __cplusplus
}
#endif
#endif
