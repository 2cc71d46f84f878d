/* SPDX-License-Identifier: MIT
 *
 * Many frames in one message: a bundle has the frames of all tensors of a step, in order. What is in the frames is not
 * checked. A frame may be empty, for a tensor that was not sent.
 *
 * The page format.md, which is installed in share/doc/threelc, draws the bytes.
 */
#ifndef THREELC_BUNDLE_H
#define THREELC_BUNDLE_H

#include <threelc/threelc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a bundle. The fields are for the library only. The struct needs no clean-up. */
typedef struct tlc_bundle_writer {
    unsigned char *dst;    /* the caller's buffer */
    size_t cap, used;      /* its bytes; those that are written */
    uint32_t count, index; /* frames in all; the next one */
} tlc_bundle_writer;

/* Reads a bundle. The fields are for the library only. The struct needs no clean-up. */
typedef struct tlc_bundle_reader {
    const unsigned char *src;            /* the bundle */
    size_t len, next_length, next_frame; /* its bytes; where the next length and the next frame are */
    uint32_t count, index;               /* frames in all; the next one */
} tlc_bundle_reader;

/* *bound: the bytes that a writer needs for count frames that have frame_bytes bytes together. These are the frames and
 * the largest head, 7 + 10 count bytes. The bundle is shorter. TLC_ERR_SIZE: overflow. */
TLC_API tlc_status tlc_bundle_bound(uint32_t count, size_t frame_bytes, size_t *bound);

/* Begins a bundle of count frames in dst. TLC_ERR_CAPACITY: cap is less than the largest head. */
TLC_API tlc_status tlc_bundle_init(tlc_bundle_writer *w, void *dst, size_t cap, uint32_t count);

/* To write a frame directly into the bundle: tlc_bundle_space gives the address of the next frame and the bytes that
 * are free there. After that, tlc_bundle_commit takes the length of the frame. TLC_ERR_PARAM: all frames are written.
 * TLC_ERR_CAPACITY: len is larger than the free bytes. */
TLC_API tlc_status tlc_bundle_space(const tlc_bundle_writer *w, void **dst, size_t *cap);
TLC_API tlc_status tlc_bundle_commit(tlc_bundle_writer *w, size_t len);

/* Copies a frame into the bundle. TLC_ERR_CAPACITY, TLC_ERR_PARAM: as above. */
TLC_API tlc_status tlc_bundle_add(tlc_bundle_writer *w, const void *frame, size_t len);

/* Ends the bundle: its head is written right before the first frame, and no frame moves. *bundle: the bundle. It lies
 * within dst and does not begin where dst begins. Afterwards all calls with w fail with TLC_ERR_PARAM until
 * tlc_bundle_init, a second finish too. TLC_ERR_PARAM: frames are missing. */
TLC_API tlc_status tlc_bundle_finish(tlc_bundle_writer *w, tlc_message *bundle);

/* Opens a bundle and checks it whole, in time O(count); src may be any bytes. Errors, in this order: TLC_ERR_CORRUPT
 * (less than 2 bytes, or no 'B'), TLC_ERR_VERSION, TLC_ERR_CORRUPT (a bad count or length, or lengths that do not add
 * up to what is left). tlc_explain says why a bundle is refused. */
TLC_API tlc_status tlc_bundle_open(tlc_bundle_reader *r, const void *src, size_t len);
TLC_API uint32_t tlc_bundle_count(const tlc_bundle_reader *r); /* frames in all; 0 for NULL */

/* *frame: the next frame, within src. TLC_ERR_PARAM: there are no more frames. */
TLC_API tlc_status tlc_bundle_next(tlc_bundle_reader *r, const void **frame, size_t *len);

#ifdef __cplusplus
}
#endif
#endif
