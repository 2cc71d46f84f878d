/* SPDX-License-Identifier: MIT */
#include "../frames/formats.h"

tlc_status tlc_explain(const void *src, size_t len, tlc_format format, char *message, size_t cap)
{
    tlc_text w = tlc_text_in(message, cap);

    if (!src && len)
        return TLC_FAIL(&w, TLC_ERR_PARAM, "src is NULL, but len is %zu", len);
    switch (format) {
    case TLC_FORMAT_FRAME: return tlc_frame_explain(src, len, &w);
#ifdef TLC_NO_DELTA
    case TLC_FORMAT_DELTA:
        return TLC_FAIL(&w, TLC_ERR_UNSUPPORTED, "this build of the library lacks deltas of weights");
#else
    case TLC_FORMAT_DELTA: return tlc_delta_explain(src, len, &w);
#endif
    case TLC_FORMAT_BUNDLE: return tlc_bundle_explain(src, len, &w);
    case TLC_FORMAT_STATE: return tlc_state_explain(src, len, &w);
    }
    return TLC_FAIL(&w, TLC_ERR_PARAM, "format is %d: TLC_FORMAT_FRAME (0) to TLC_FORMAT_STATE (3)", (int)format);
}
