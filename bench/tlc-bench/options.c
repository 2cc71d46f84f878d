/* SPDX-License-Identifier: MIT */
#include "options.h"

channel_options options_channel(const options *o, const design *d)
{
    channel_options sent = o->channel;

    sent.codec = d->codec;
    if (d->feedback >= 0)
        sent.feedback = d->feedback;
    if (d->delay)
        sent.delay = d->delay;
    return sent;
}

const char *options_view_name(report_view view)
{
    switch (view) {
    case VIEW_ROOFLINE: return "roofline";
    case VIEW_SMALL: return "small";
    case VIEW_DENSITY: return "density";
    case VIEW_AGGREGATE: return "aggregate";
    case VIEW_FRAMES: return "frames";
    case VIEW_EXCHANGE: return "exchange";
    case VIEW_DELTA: return "delta";
    default: return NULL;
    }
}

bool options_have_papers(const options *o)
{
    bool has = false;

    for (size_t i = 0; i < o->codec_count; i++)
        has = has || o->codecs[i].paper;
    return has;
}
