/* SPDX-License-Identifier: MIT
 *
 * Messages of weights: taken by a receiver, all of them or none.
 */
#include "../codec/arguments.h"
#include "../common/bytes.h"
#include "../delta/delta_frame.h"
#include "weights_reader.h"
#include "weights_view.h"

typedef struct applying {
    tlc_weights_reader *r;
    tlc_weights_find find;
    void *opaque;
    void *frame; /* memory for one */
    size_t cap;
    int has_results; /* a tensor has its result already */
} applying;

/* What each entry goes through, for which the receiver has a place; the entry is in r->slot. */
typedef tlc_status pass(applying *a, const tlc_weights_place *place);

/* Asks the receiver where the entry of a slot goes. */
static tlc_status find_place(applying *a, const tlc_weights_slot *slot, tlc_weights_place *place)
{
    const tlc_weights_entry *e = &slot->entry;
    tlc_text *why = &a->r->why;
    tlc_delta d;

    *place = (tlc_weights_place){0};
    const int failed = a->find(a->opaque, e, place);
    if (failed)
        return TLC_FAIL(why, TLC_ERR_TRANSPORT, "%.200s: find failed with %d", e->name, failed);
    if (!place->out)
        return TLC_OK;
    if (place->first > e->n || place->count > e->n - place->first || (e->is_view && place->count != e->n))
        return TLC_FAIL(why, TLC_ERR_PARAM, "%.200s: first is %zu, count %zu, and it has %llu weights%s", e->name,
                        place->first, place->count, (unsigned long long)e->n, e->is_view ? ", a view" : "");
    if (!tlc_delta_has_n(e->dtype, place->first) || !tlc_delta_has_n(e->dtype, place->count))
        return TLC_FAIL(why, TLC_ERR_PARAM, "%.200s: first is %zu, count %zu, and %s has two weights in a byte",
                        e->name, place->first, place->count, tlc_dtype_name(e->dtype));
    if (e->is_view || !e->has_base || !place->count)
        return TLC_OK;
    if (!place->base)
        return TLC_FAIL(why, TLC_ERR_PARAM, "%.200s: base is NULL, but the delta has one", e->name);
    tlc_delta_of(&d, e->dtype, e->n);
    return tlc_overlap(place->base, place->out, (size_t)tlc_delta_size(&d, place->count))
               ? TLC_FAIL(why, TLC_ERR_PARAM, "%.200s: base and out share memory, but are not the same", e->name)
               : TLC_OK;
}

/* The options of a call for one frame, which says why it fails in `message`. */
static tlc_delta_options options_of(applying *a, char message[TLC_MESSAGE_SIZE])
{
    return (tlc_delta_options){.struct_size = sizeof(tlc_delta_options),
                               .isa = a->r->config.isa,
                               .parallel = a->r->config.parallel,
                               .message = message,
                               .message_cap = TLC_MESSAGE_SIZE};
}

static tlc_status frame_fails(applying *a, tlc_status status, const char *message)
{
    return status ? TLC_FAIL(&a->r->why, status, "%.200s: %s", a->r->slot.name, message) : TLC_OK;
}

/* Whether a tensor has its result already, as after a call that was cut off. */
static int has_result(applying *a, const tlc_weights_place *place)
{
    const tlc_weights_entry *e = &a->r->slot.entry;
    char message[TLC_MESSAGE_SIZE];
    const tlc_delta_options opt = options_of(a, message);
    uint64_t digest;

    return e->has_base && place->base == place->out && place->count == e->n &&
           !tlc_delta_digest(e->dtype, place->out, place->count, &digest, &opt) && digest == e->result_digest;
}

static tlc_status check_frame(applying *a, const tlc_weights_place *place)
{
    const tlc_weights_entry *e = &a->r->slot.entry;
    char message[TLC_MESSAGE_SIZE];
    const tlc_delta_options opt = options_of(a, message);
    const void *frame;

    tlc_status status = tlc_weights_frame_of(a->r, a->frame, a->cap, &frame);
    if (status)
        return status;
    const size_t len = (size_t)e->frame_len, n = (size_t)e->n;
    if (place->count == n) {
        status = tlc_delta_check(frame, len, e->dtype, e->has_base ? place->base : place->out, n, &opt);
        if (status == TLC_ERR_BASE && has_result(a, place)) {
            a->has_results = 1;
            return TLC_OK;
        }
        return frame_fails(a, status, message);
    }
    tlc_delta_info info = {.struct_size = sizeof info};
    status = tlc_delta_inspect(frame, len, &info);
    return frame_fails(a, status, "the delta was altered");
}

/* A view is made of all values of its root, which the receiver has then. */
static tlc_status check_view(applying *a)
{
    tlc_weights_place root;

    tlc_status status = tlc_weights_root_of(a->r);
    if (!status)
        status = find_place(a, &a->r->root, &root);
    if (!status && (!root.out || root.count != a->r->root.entry.n))
        status = TLC_FAIL(&a->r->why, TLC_ERR_PARAM, "%.200s is a view of %.200s, of which the receiver has not all",
                          a->r->slot.name, a->r->root.name);
    return status;
}

static tlc_status check_entry(applying *a, const tlc_weights_place *place)
{
    return a->r->slot.entry.is_view ? check_view(a) : check_frame(a, place);
}

static tlc_status apply_frame(applying *a, const tlc_weights_place *place)
{
    const tlc_weights_entry *e = &a->r->slot.entry;
    char message[TLC_MESSAGE_SIZE];
    const tlc_delta_options opt = options_of(a, message);
    const void *frame;

    if (e->is_view || (a->has_results && has_result(a, place)))
        return TLC_OK;
    tlc_status status = tlc_weights_frame_of(a->r, a->frame, a->cap, &frame);
    if (!status)
        status = frame_fails(a,
                             tlc_delta_apply_range(frame, (size_t)e->frame_len, e->dtype, place->base, place->out,
                                                   (size_t)e->n, place->first, place->count, &opt),
                             message);
    return status;
}

static tlc_status copy_view(applying *a, const tlc_weights_place *place)
{
    tlc_weights_place root;

    if (!a->r->slot.entry.is_view)
        return TLC_OK;
    tlc_status status = tlc_weights_root_of(a->r);
    if (!status)
        status = find_place(a, &a->r->root, &root);
    if (!status)
        tlc_weights_view_copy(&a->r->slot.entry, &a->r->root.entry, root.out, place->out);
    return status;
}

static tlc_status each_entry(applying *a, pass *next)
{
    tlc_status status = TLC_OK;

    for (uint64_t i = 0; i < a->r->info.count && !status; i++) {
        tlc_weights_place place;
        status = tlc_weights_entry_at(a->r, i, &a->r->slot);
        if (!status)
            status = find_place(a, &a->r->slot, &place);
        if (!status && place.out)
            status = next(a, &place);
    }
    return status;
}

tlc_status tlc_weights_apply(tlc_weights_reader *r, tlc_weights_find find, void *opaque, void *frame, size_t cap)
{
    applying a = {.r = r, .find = find, .opaque = opaque, .frame = frame, .cap = cap};
    tlc_status status = tlc_weights_begin(r);

    if (!status && !find)
        status = TLC_FAIL(&r->why, TLC_ERR_PARAM, "find is NULL");
    if (!status)
        status = each_entry(&a, check_entry);
    if (!status)
        status = each_entry(&a, apply_frame);
    if (!status)
        status = each_entry(&a, copy_view); /* of roots that may come after them */
    return status;
}

tlc_status tlc_weights_follows(const tlc_weights_info *info, const tlc_weights_heard *heard, char *message,
                               size_t message_cap)
{
    tlc_text why = tlc_text_in(message, message_cap);

    if (!info || info->struct_size < sizeof *info || !heard)
        return TLC_FAIL(&why, TLC_ERR_PARAM, "info or heard is NULL, or info has no struct_size");
    const int is_same = !memcmp(info->trainer, heard->trainer, sizeof info->trainer);
    const unsigned long long came = info->sequence, last = heard->sequence;
    if (!last || (info->full && !is_same))
        return TLC_OK;
    if (!is_same)
        return TLC_FAIL(&why, TLC_ERR_BASE,
                        "the message is of another trainer than the one before, and does not have "
                        "all weights");
    if (came <= last)
        return TLC_FAIL(&why, TLC_ERR_ORDER,
                        "the message is number %llu of its trainer, and number %llu has been "
                        "received: it is old, or came twice",
                        came, last);
    if (came > last + 1 && !info->full)
        return TLC_FAIL(&why, TLC_ERR_BASE, "the message is number %llu of its trainer, and number %llu was missed",
                        came, last + 1);
    return TLC_OK;
}
