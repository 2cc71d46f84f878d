/* SPDX-License-Identifier: MIT */
#include "object.h"
#include "../../common/structs.h"
#include "../plan/refusal.h"

/* Is this a codec, and a tensor whose codec may change? If not, the call is refused. */
static tlc_status check_change(const tlc_setup *x, tlc_direction direction, size_t tensor, const char *codec)
{
    if (tensor != TLC_ALL && tensor >= x->count)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "there is no tensor %zu; there are %zu", tensor, x->count);
    if (tensor != TLC_ALL && x->tensors[tensor].small[direction])
        return tlc_refuse(x, TLC_ERR_PARAM, tensor,
                          "its codec cannot change: it has %zu values, fewer than min_n, %zu, and is sent raw",
                          x->tensors[tensor].n, x->cfg.min_n);
    return tlc_refuse_codec(x, tensor, direction == TLC_PUSH ? "push" : "pull", codec);
}

tlc_status tlc_object_set_codec(const tlc_object *o, size_t tensor, const char *push, const char *pull)
{
    tlc_status status = TLC_OK;

    if (push)
        status = check_change(o->x, TLC_PUSH, tensor, push);
    if (!status && pull)
        status = check_change(o->x, TLC_PULL, tensor, pull);
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
        return tlc_refuse(o->x, TLC_ERR_PARAM, TLC_ALL, "factor is %s; it is finite",
                          tlc_text_real((double)factor).text);
    for (int check_only = 1; !status && check_only >= 0; check_only--) {
        if (o->push)
            status = tlc_sender_scale(o->push, factor, check_only);
        if (!status && o->pull)
            status = tlc_sender_scale(o->pull, factor, check_only);
    }
    return status;
}

tlc_status tlc_stats_export(const tlc_setup *x, tlc_exchange_stats *theirs, const tlc_exchange_stats *ours,
                            const tlc_sender *push, const tlc_sender *pull)
{
    tlc_exchange_stats all = *ours;

    if (!theirs || theirs->struct_size < sizeof theirs->struct_size)
        return tlc_refuse_struct(x, "stats");
    if (push) {
        all.push_signal_squares = push->norms.signal;
        all.push_residual_squares = push->norms.residual;
    }
    if (pull) {
        all.pull_signal_squares = pull->norms.signal;
        all.pull_residual_squares = pull->norms.residual;
    }
    tlc_export(theirs, &all, sizeof all);
    return TLC_OK;
}

tlc_status tlc_save_check(const tlc_setup *x, const void *dst, size_t cap, const size_t *written, size_t size)
{
    if (!dst || !written)
        return tlc_refuse_null(x, dst ? "written" : "dst");
    if (cap < size)
        return tlc_refuse(x, TLC_ERR_CAPACITY, TLC_ALL, "cap is %zu, but the state has %zu bytes", cap, size);
    return TLC_OK;
}
