/* SPDX-License-Identifier: MIT */
#include "formats.h"

/* A format begins with its magic, and a byte with its version follows. Frames have no magic. The formats that
 * tlc_explain does not know come last. */
static const struct {
    char magic[6];
    uint8_t oldest, newest; /* versions that this library reads */
    const char *name;
} formats[] = {
    [TLC_FORMAT_FRAME] = {"", TLC_FRAME_VERSION, TLC_FRAME_VERSION, "frame"},
    [TLC_FORMAT_DELTA] = {"D", 1, 3, "delta of weights (threelc/delta.h)"},
    [TLC_FORMAT_BUNDLE] = {"B", 2, 2, "bundle (threelc/bundle.h)"},
    [TLC_FORMAT_STATE] = {"TLCS", 1, 1, "state of a context (tlc_state_save)"},
    [TLC_FORMAT_MESSAGE] = {"E", 1, 1, "message of the exchange (threelc/exchange.h)"},
    [TLC_FORMAT_OBJECT_STATE] = {"TLCX", 1, 2, "state of a worker, a server or a rank (threelc/exchange.h)"},
    [TLC_FORMAT_NODE_STATE] = {"TLCG", 1, 1, "state of a node (threelc/gossip.h)"},
    [TLC_FORMAT_WEIGHTS] = {"W", 1, 1, "message of weights (threelc/weights.h)"},
};

static int has_version(size_t format, unsigned version)
{
    return version >= formats[format].oldest && version <= formats[format].newest;
}

static int begins_with_magic(size_t format, const uint8_t *p, size_t len)
{
    const size_t magic = strlen(formats[format].magic);
    return len > magic && memcmp(p, formats[format].magic, magic) == 0;
}

int tlc_format_is(unsigned format, const void *src, size_t len)
{
    const uint8_t *p = src;
    tlc_frame f;

    if (!begins_with_magic(format, p, len) || !has_version(format, p[strlen(formats[format].magic)]))
        return 0;
    return format != TLC_FORMAT_FRAME || !tlc_frame_read(&f, p, len, NULL, 0);
}

unsigned tlc_format_of(const void *src, size_t len)
{
    for (unsigned i = TLC_FORMATS; i-- > 0;) /* frames, which have no magic, last */
        if (tlc_format_is(i, src, len))
            return i;
    return TLC_FORMATS;
}

const char *tlc_format_name(unsigned format)
{
    return format < TLC_FORMATS ? formats[format].name : "message of another library";
}

void tlc_format_say(tlc_text *w, unsigned wanted, const void *src, size_t len)
{
    const size_t magic = strlen(formats[wanted].magic);
    const uint8_t *p = src;

    if (!w || !w->cap)
        return;
    for (unsigned i = 0; i < TLC_FORMATS; i++)
        if (i != wanted && tlc_format_is(i, p, len)) {
            tlc_text_format(w, "these are the bytes of a %s, not of a %s", formats[i].name, formats[wanted].name);
            return;
        }
    if (!len)
        tlc_text_format(w, "there are no bytes, where a %s should be", formats[wanted].name);
    else if (!begins_with_magic(wanted, p, len) && len > magic)
        tlc_text_format(w, "these are not the bytes of a %s, which begins with \"%s\"", formats[wanted].name,
                        formats[wanted].magic);
    else if (len > magic && !has_version(wanted, p[magic]))
        tlc_text_format(w, "byte %zu, the format version of a %s, is %d: this library reads %s%d", magic,
                        formats[wanted].name, p[magic], formats[wanted].oldest < formats[wanted].newest ? "1 to " : "",
                        formats[wanted].newest);
    else
        tlc_text_format(w, "%zu bytes are too few for a %s", len, formats[wanted].name);
}
