/* SPDX-License-Identifier: MIT
 *
 * The formats of the library's bytes: which one bytes have, by their first bytes.
 */
#ifndef TLC_FORMATS_H
#define TLC_FORMATS_H

#include "coding/frame.h"

/* Says why bytes cannot be of the format `wanted`: they are too short, of another version, or of another format. */
void tlc_format_say(tlc_text *w, tlc_format wanted, const void *src, size_t len);

/* Says why tlc_frame_read or tlc_decode_check refused a frame. n: as for tlc_frame_read. */
void tlc_frame_say_fault(tlc_text *w, const tlc_frame *f, const void *src, size_t len, const size_t *n);

/* Why a reader refuses bytes, whatever n and dtype they have. TLC_OK: it does not. */
tlc_status tlc_frame_explain(const void *src, size_t len, tlc_text *w);
tlc_status tlc_delta_explain(const void *src, size_t len, const tlc_text *w);
tlc_status tlc_bundle_explain(const void *src, size_t len, tlc_text *w);
tlc_status tlc_state_explain(const void *src, size_t len, tlc_text *w);
#endif
