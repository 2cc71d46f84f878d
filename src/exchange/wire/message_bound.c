/* SPDX-License-Identifier: MIT */
#include "message_bound.h"
#include "../../codec/codec.h"
#include "../../common/sizes.h"
#include "../../frames/bounds.h"
#include "../../frames/frame.h"

/* Of the codecs, with ';' between them, or NULL. All have passed the check of the configuration. */
static uint64_t frame_bound(const char *codecs, size_t n)
{
    uint64_t most = 0;

    for (const char *at = codecs && *codecs ? codecs : NULL; at;) {
        size_t len = strcspn(at, ";"), bound = SIZE_MAX;
        tlc_codec codec;
        if (tlc_codec_parse(&codec, at, len, NULL) || tlc_frame_bound(&codec, TLC_F32, 0, n, &bound))
            return UINT64_MAX;
        most = bound > most ? bound : most;
        at = at[len] ? at + len + 1 : NULL;
    }
    return most;
}

/* Of a frame with the parts of a group. */
static uint64_t group_bound(const tlc_setup *x, tlc_direction direction, const tlc_ownership_group *group)
{
    const tlc_grouping *g = &x->ownership.grouping[direction];
    const tlc_setup_tensor *t = &x->tensors[x->ownership.parts[g->order[group->begin]].tensor];
    uint64_t own = frame_bound(t->codec[direction], group->n);
    uint64_t reserved = group->shared ? 0 : frame_bound(x->cfg.reserve, group->n);

    return own > reserved ? own : reserved;
}

size_t tlc_message_bound(const tlc_setup *x, tlc_direction direction, uint32_t owner)
{
    const tlc_grouping *g = &x->ownership.grouping[direction];
    const size_t from = g->begin[owner], to = g->begin[owner + 1];
    const uint64_t groups = to - from;
    uint64_t frames = 0;
    size_t bundle;

    for (size_t i = from; i < to; i++)
        frames = tlc_sum(frames, group_bound(x, direction, &g->groups[i]));
    if (frames > SIZE_MAX || groups > UINT32_MAX || tlc_bundle_bound((uint32_t)groups, (size_t)frames, &bundle))
        return SIZE_MAX;
    const size_t room = tlc_message_room(x, direction == TLC_PUSH ? TLC_PHASE_PUSH : TLC_PHASE_ANSWER);
    const uint64_t bound = tlc_sum(bundle, room + TLC_CHECKSUM_SIZE);
    return bound > SIZE_MAX ? SIZE_MAX : (size_t)bound;
}

size_t tlc_message_answers_bound(const tlc_setup *x)
{
    size_t most = 0;

    for (uint32_t owner = 0; owner < x->owners; owner++) {
        size_t bound = tlc_message_bound(x, TLC_PULL, owner);
        most = bound > most ? bound : most;
    }
    return most;
}
