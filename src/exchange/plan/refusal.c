/* SPDX-License-Identifier: MIT */
#include "refusal.h"
#include "../../frames/formats.h"

void tlc_report_share(const tlc_setup *x)
{
    for (uint32_t i = 1; i < x->reports; i++)
        tlc_report_copy(&x->report[i], x->report);
}

tlc_status tlc_refuse(const tlc_setup *x, tlc_status status, size_t tensor, const char *format, ...)
{
    tlc_report *r = x->report;
    tlc_text w = {r->said, 0, sizeof r->said};
    tlc_finding f = tlc_finding_of(TLC_REASON_SAID);
    va_list arguments;

    f.cause = status;
    f.role = x->role;
    f.rank = x->rank;
    f.tensor = tensor < x->count ? tensor : TLC_ALL;
    tlc_say_who(&w, f.role, f.rank);
    tlc_text_say(&w, ": ");
    if (f.tensor != TLC_ALL) {
        const char *name = x->tensors ? x->tensors[tensor].name : NULL;
        tlc_text_say(&w, "tensor ");
        tlc_text_number(&w, tensor);
        if (name) {
            tlc_text_say(&w, " (");
            tlc_say_name(&w, name);
            tlc_text_say(&w, ")");
        }
        tlc_text_say(&w, ": ");
    }
    va_start(arguments, format);
    tlc_text_vformat(&w, format, arguments);
    va_end(arguments);
    tlc_report_set(r, x->step ? *x->step : 0, status, &f);
    tlc_report_share(x);
    return status;
}

tlc_status tlc_refuse_null(const tlc_setup *x, const char *argument)
{
    return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "%s is NULL", argument);
}

tlc_status tlc_refuse_struct(const tlc_setup *x, const char *argument)
{
    return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "%s is NULL, or its struct_size is smaller than %zu", argument,
                      sizeof(size_t));
}

tlc_status tlc_refuse_step(const tlc_setup *x, const char *call)
{
    return tlc_refuse(x, TLC_ERR_ORDER, TLC_ALL, "%s was called, but step %llu is under way", call,
                      (unsigned long long)*x->step);
}

tlc_status tlc_refuse_turn(const tlc_setup *x, const char *what)
{
    return tlc_refuse(x, TLC_ERR_ORDER, TLC_ALL, "%s in step %llu", what, (unsigned long long)*x->step);
}

tlc_status tlc_refuse_codec(const tlc_setup *x, size_t tensor, const char *what, const char *codec)
{
    char why[TLC_SENTENCE];

    if (tlc_codec_check(codec, NULL, 0)) {
        /* in the room that is left, as it names all codecs only if there is enough */
        (void)tlc_refuse(x, TLC_ERR_PARAM, tensor, "%s: ", what);
        (void)tlc_codec_check(codec, why, sizeof why - strlen(x->report->said));
        return tlc_refuse(x, TLC_ERR_PARAM, tensor, "%s: %s", what, why);
    }
    if (!tlc_setup_allows(x, codec))
        return tlc_refuse(x, TLC_ERR_PARAM, tensor,
                          "%s: \"%.40s\" has a bias or keeps a residual; gossip takes qsgd, random-sparse, natural, "
                          "stochastic-ternary and raw",
                          what, codec);
    return TLC_OK;
}

tlc_status tlc_refuse_state(const tlc_setup *x, size_t tensor, tlc_status status, size_t i, tlc_message state)
{
    const unsigned format = tlc_is_gossip(x->kind) ? TLC_FORMAT_NODE_STATE : TLC_FORMAT_OBJECT_STATE;
    char why[TLC_SENTENCE];
    tlc_text w = tlc_text_in(why, sizeof why);

    if (!state.data && state.len)
        tlc_text_format(&w, "its data is NULL, but its length is %zu", state.len);
    else if (!tlc_format_is(format, state.data, state.len))
        tlc_format_say(&w, format, state.data, state.len);
    else
        tlc_text_say(&w, tlc_status_string(status));
    (void)tlc_refuse(x, status, tensor, "state %zu: %s", i, why);
    x->report->finding.rank = TLC_NOBODY; /* no rank is at fault */
    tlc_report_share(x);
    return status;
}

/* The largest tensor, if it alone is too large. */
static size_t too_large(const tlc_setup *x)
{
    size_t largest = TLC_ALL;

    for (size_t t = 0; x->tensors && t < x->count; t++)
        if (x->tensors[t].n > SIZE_MAX / 64 && (largest == TLC_ALL || x->tensors[t].n > x->tensors[largest].n))
            largest = t;
    return largest;
}

tlc_status tlc_refuse_status(const tlc_setup *x, size_t tensor, tlc_status status)
{
    if (!status)
        return TLC_OK;
    if (status == TLC_ERR_NOMEM && x->memory.status)
        return tlc_refuse(x, status, tensor, "out of memory: the allocator has not given %llu bytes",
                          (unsigned long long)x->memory.refused);
    if (status == TLC_ERR_SIZE && tensor == TLC_ALL)
        tensor = too_large(x);
    if (status == TLC_ERR_SIZE && tensor < x->count)
        return tlc_refuse(x, status, tensor, "%zu values are too many", x->tensors[tensor].n);
    if (status == TLC_ERR_SIZE)
        return tlc_refuse(x, status, tensor, "its buffers are larger than the memory that this machine can address");
    return tlc_refuse(x, status, tensor, "%s", tlc_status_string(status));
}
