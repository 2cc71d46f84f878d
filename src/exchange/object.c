/* SPDX-License-Identifier: MIT */
#include "object.h"
#include "../common/structs.h"

/* Is this a codec, and a tensor whose codec may change? */
static int may_change(const tlc_setup *x, tlc_direction direction, size_t tensor, const char *codec)
{
    return !tlc_codec_check(codec, NULL, 0) &&
           (tensor == TLC_ALL || (tensor < x->count && !x->tensors[tensor].small[direction]));
}

tlc_status tlc_object_set_codec(const tlc_object *o, size_t tensor, const char *push, const char *pull)
{
    tlc_status status = TLC_OK;

    if ((push && !may_change(o->x, TLC_PUSH, tensor, push)) || (pull && !may_change(o->x, TLC_PULL, tensor, pull)))
        return TLC_ERR_PARAM;
    for (int check_only = 1; !status && check_only >= 0; check_only--) {
        if (o->push && push)
            status = tlc_sender_set_codec(o->push, tensor, push, check_only);
        if (!status && o->pull && pull)
            status = tlc_sender_set_codec(o->pull, tensor, pull, check_only);
    }
    return status;
}

tlc_status tlc_object_scale(const tlc_object *o, float factor)
{
    tlc_status status = TLC_OK;

    if (!tlc_finite(factor))
        return TLC_ERR_PARAM;
    for (int check_only = 1; !status && check_only >= 0; check_only--) {
        if (o->push)
            status = tlc_sender_scale(o->push, factor, check_only);
        if (!status && o->pull)
            status = tlc_sender_scale(o->pull, factor, check_only);
    }
    return status;
}

tlc_status tlc_stats_export(tlc_exchange_stats *theirs, const tlc_exchange_stats *ours)
{
    if (!theirs || theirs->struct_size < sizeof theirs->struct_size)
        return TLC_ERR_PARAM;
    tlc_export(theirs, ours, sizeof *ours);
    return TLC_OK;
}
