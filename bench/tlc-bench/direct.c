/* SPDX-License-Identifier: MIT */
#include "direct.h"
#include "../lib/channel.h"
#include "../lib/explain.h"
#include <stdlib.h>
#include <string.h>
#include <threelc/bundle.h>

static const shape *tensor_of(const direct *d, const fleet_part *part)
{
    return &d->fleet->model->shapes[part->tensor];
}

/* Where a part is, if all tensors are at their offsets. */
static size_t place_of(const direct *d, const fleet_part *part)
{
    return tensor_of(d, part)->offset + part->first;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Sorts parts into the order of frames: by owner, small ones last. */
static bool sort_parts(direct *d)
{
    size_t count, at = 0;
    fleet_part *parts = fleet_parts(d->fleet, &count);

    d->parts = calloc(count, sizeof *d->parts);
    if (!parts || !d->parts) {
        free(parts);
        return false;
    }
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from; to < count && parts[to].owner == parts[from].owner; to++) {
            if (!fleet_is_small(tensor_of(d, &parts[to])))
                d->parts[at++] = parts[to];
        }
        for (size_t i = from; i < to; i++) {
            if (fleet_is_small(tensor_of(d, &parts[i])))
                d->parts[at++] = parts[i];
        }
    }
    d->part_count = count;
    free(parts);
    return true;
}

static void make_groups(direct *d)
{
    const fleet_options *o = &d->fleet->options;

    for (size_t i = 0; i < d->part_count; i++) {
        const fleet_part *part = &d->parts[i];
        direct_group *last = d->group_count ? &d->groups[d->group_count - 1] : NULL;
        bool small = fleet_is_small(tensor_of(d, part));
        if (!last || !small || !last->together || last->owner != part->owner) {
            last = &d->groups[d->group_count++];
            *last = (direct_group){.owner = part->owner, .part = i, .together = small};
            last->averaged = o->algorithm == GATHER || part->owner == 0;
        }
        last->count++;
        last->n += part->n;
    }
}

static tlc_status make_context(tlc_ctx **ctx, const direct_group *g, const fleet_options *o, const char *codec,
                               float *residual)
{
    tlc_config cfg;

    (void)tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = g->together ? "raw" : codec;
    cfg.feedback = g->together ? 1 : -1;
    cfg.isa = o->isa;
    cfg.assume_finite = o->assume_finite;
    cfg.residual = residual;
    return tlc_create(ctx, &cfg, g->n);
}

/* Residuals and means are those of the fleet's owners. There the small parts of an owner, which share a frame, lie one
 * after the other, so a group begins where its first part does. */
static tlc_status make_contexts(direct *d)
{
    const fleet_options *o = &d->fleet->options;
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < d->group_count; i++) {
        direct_group *g = &d->groups[i];
        float *residual = g->together ? NULL : d->fleet->residual[0];
        if (o->algorithm != SERVER)
            status = make_context(&g->push, g, o, o->codec,
                                  residual ? residual + place_of(d, &d->parts[g->part]) : NULL);
        if (!status && o->algorithm != GATHER && g->averaged)
            status = make_context(&g->answer, g, o, tlc_pull_codec(o->codec), d->parts[g->part].residual);
        const size_t push = tlc_bound(g->push), answer = tlc_bound(g->answer);
        g->capacity = push > answer ? push : answer;
    }
    return status;
}

/* Memory for frames, residuals and small values. */
static bool allocate(direct *d)
{
    size_t ranks = d->fleet->options.ranks, push = 0, answer = 0, averaged = 0, small = 0;
    bool ok = true;

    for (size_t i = 0; i < d->group_count; i++) {
        const direct_group *g = &d->groups[i];
        push += g->push ? g->capacity : 0;
        answer += g->answer ? g->capacity : 0;
        averaged += g->answer ? g->n : 0;
        small += g->together ? g->n : 0;
    }
    d->weights = calloc(ranks, sizeof *d->weights);
    d->pushes = channel_buffer(push);
    d->answers = channel_buffer(answer);
    d->kept = channel_buffer(averaged * sizeof *d->kept);
    d->together = channel_buffer(small * sizeof *d->together);
    for (size_t i = 0; ok && i < d->group_count; i++) {
        d->groups[i].frames = d->groups[i].averaged ? calloc(ranks, sizeof *d->groups[i].frames) : NULL;
        ok = d->groups[i].frames || !d->groups[i].averaged;
    }
    return ok && d->weights && d->pushes && d->answers && d->kept && d->together;
}

static void lay_out(direct *d)
{
    size_t ranks = d->fleet->options.ranks;

    for (size_t i = 0; i < d->group_count; i++)
        d->groups[i].mean = d->groups[i].answer ? d->parts[d->groups[i].part].mean : NULL;
    for (size_t r = 0; r < ranks; r++)
        d->weights[r] = (float)(1.0 / (double)ranks);
}

bool direct_open(direct *d, const fleet *f, char *why)
{
    tlc_status status;

    *d = (direct){.fleet = f};
    if (!sort_parts(d))
        return explain(why, "out of memory");
    d->groups = calloc(d->part_count, sizeof *d->groups);
    if (!d->groups)
        return explain(why, "out of memory");
    make_groups(d);
    status = make_contexts(d);
    if (status)
        return explain(why, "%s", tlc_status_string(status));
    if (!allocate(d))
        return explain(why, "out of memory");
    lay_out(d);
    return true;
}

void direct_close(direct *d)
{
    for (size_t i = 0; i < d->group_count; i++) {
        tlc_destroy(d->groups[i].push);
        tlc_destroy(d->groups[i].answer);
        free(d->groups[i].frames);
    }
    free(d->parts);
    free(d->groups);
    free(d->weights);
    free(d->pushes);
    free(d->answers);
    free(d->kept);
    free(d->together);
    *d = (direct){.fleet = NULL};
}

/* ---- small parts ------------------------------------------------------------------------------------------------- */

void direct_gather(direct *d, const float *grads)
{
    float *to = d->together;

    for (size_t i = 0; i < d->part_count; i++) {
        const fleet_part *part = &d->parts[i];
        if (!fleet_is_small(tensor_of(d, part)))
            continue;
        memcpy(to, grads + place_of(d, part), part->n * sizeof *to);
        to += part->n;
    }
}

void direct_scatter(const direct *d, float *out)
{
    const float *from = d->together;

    for (size_t i = 0; i < d->part_count; i++) {
        const fleet_part *part = &d->parts[i];
        if (!fleet_is_small(tensor_of(d, part)))
            continue;
        memcpy(out + place_of(d, part), from, part->n * sizeof *out);
        from += part->n;
    }
}

/* Where the values of a group are. *small: where those of the next small group are. */
static float *values_of(const direct *d, const direct_group *g, float *all, float **small)
{
    float *values = g->together ? *small : all + place_of(d, &d->parts[g->part]);

    *small += g->together ? g->n : 0;
    return values;
}

/* ---- frames in messages ------------------------------------------------------------------------------------------ */

enum { HEAD = 256, CHECKSUM = 4 }; /* bytes before the bundle, at most, and after it */

/* Frames are in a bundle at the end of a message (src/docs/format.md). It begins where it has as many frames as there
 * are groups, and ends before the checksum. */
static bool open_message(tlc_message m, size_t groups, tlc_bundle_reader *r)
{
    for (size_t at = 0; at < HEAD && at + CHECKSUM < m.len; at++) {
        if (!tlc_bundle_open(r, (const unsigned char *)m.data + at, m.len - at - CHECKSUM) &&
            tlc_bundle_count(r) == groups)
            return true;
    }
    return false;
}

/* The groups of an owner are groups[from .. to - 1]. */
static size_t end_of_owner(const direct *d, size_t from)
{
    size_t to = from;

    while (to < d->group_count && d->groups[to].owner == d->groups[from].owner)
        to++;
    return to;
}

/* Finds the frames of groups from .. to - 1. rank: who pushed them. answer: they are an answer. */
static bool find_frames(direct *d, tlc_message m, size_t from, size_t to, size_t rank, bool answer, char *why)
{
    tlc_bundle_reader r;

    if (!open_message(m, to - from, &r))
        return explain(why, "a message has no bundle of %zu frames", to - from);
    for (size_t i = from; i < to; i++) {
        direct_group *g = &d->groups[i];
        tlc_message frame;
        if (tlc_bundle_next(&r, &frame.data, &frame.len))
            return explain(why, "a message has a bad bundle");
        if (answer)
            g->answered = frame;
        else if (g->frames)
            g->frames[rank] = frame;
        if (!answer && rank == 0)
            g->sent = frame;
        if (rank == 0)
            d->frame_bytes += frame.len;
    }
    if (rank == 0)
        d->message_bytes += m.len;
    return true;
}

bool direct_find_pushes(direct *d, char *why)
{
    const fleet *f = d->fleet;
    bool ok = true;

    for (size_t from = 0, to; ok && from < d->group_count; from = to) {
        to = end_of_owner(d, from);
        /* of other ranks only what this machine decodes */
        for (size_t r = 0; ok && r < (d->groups[from].averaged ? f->options.ranks : 1); r++)
            ok = find_frames(d, f->push[r * f->receivers + d->groups[from].owner], from, to, r, false, why);
    }
    return ok;
}

bool direct_find_answers(direct *d, char *why)
{
    bool ok = true;

    for (size_t from = 0, to; ok && from < d->group_count; from = to) {
        to = end_of_owner(d, from);
        ok = find_frames(d, d->fleet->answer[d->groups[from].owner], from, to, d->groups[from].owner, true, why);
    }
    return ok;
}

/* ---- residuals --------------------------------------------------------------------------------------------------- */

static void copy_residuals(const direct *d, bool restore)
{
    float *kept = d->kept;

    for (size_t i = 0; i < d->group_count; i++) {
        const direct_group *g = &d->groups[i];
        float *residual = d->parts[g->part].residual;
        if (!g->answer)
            continue;
        if (residual)
            memcpy(restore ? residual : kept, restore ? kept : residual, g->n * sizeof *kept);
        kept += g->n;
    }
}

void direct_keep_residuals(direct *d)
{
    copy_residuals(d, false);
}

void direct_restore_residuals(const direct *d)
{
    copy_residuals(d, true);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bool check(tlc_status status, const char *call, char *why)
{
    return !status || explain(why, "%s: %s", call, tlc_status_string(status));
}

bool direct_push(direct *d, const float *grads, char *why)
{
    unsigned char *at = d->pushes;
    float *small = d->together, *all = (float *)(uintptr_t)grads;
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < d->group_count; i++) {
        direct_group *g = &d->groups[i];
        status = tlc_compress(g->push, values_of(d, g, all, &small), at, g->capacity, &g->made);
        at += g->made;
    }
    return check(status, "tlc_compress", why);
}

static tlc_status add_group(const direct *d, const direct_group *g, float *sum)
{
    const tlc_decode_options decode = {.struct_size = sizeof decode, .isa = d->fleet->options.isa, .from_zero = 1};

    return tlc_decompress_add_many(g->frames, d->weights, d->fleet->options.ranks, sum, g->n, NULL, &decode);
}

bool direct_add(direct *d, char *why)
{
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < d->group_count; i++) {
        if (d->groups[i].mean)
            status = add_group(d, &d->groups[i], d->groups[i].mean);
    }
    return check(status, "tlc_decompress_add_many", why);
}

bool direct_answer(direct *d, char *why)
{
    unsigned char *at = d->answers;
    tlc_status status = TLC_OK;
    size_t len;

    for (size_t i = 0; !status && i < d->group_count; i++) {
        const direct_group *g = &d->groups[i];
        if (!g->answer)
            continue;
        status = tlc_compress(g->answer, g->mean, at, g->capacity, &len);
        at += len;
    }
    return check(status, "tlc_compress", why);
}

bool direct_pull(direct *d, float *out, char *why)
{
    const tlc_decode_options decode = {.struct_size = sizeof decode, .isa = d->fleet->options.isa};
    bool gathers = d->fleet->options.algorithm == GATHER;
    float *small = d->together;
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < d->group_count; i++) {
        const direct_group *g = &d->groups[i];
        float *to = values_of(d, g, out, &small);
        status = gathers ? add_group(d, g, to)
                         : tlc_decompress(g->answered.data, g->answered.len, TLC_F32, to, g->n, &decode);
    }
    return check(status, gathers ? "tlc_decompress_add_many" : "tlc_decompress", why);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static bool same(const void *made, size_t len, tlc_message sent, char *why)
{
    return (len == sent.len && !memcmp(made, sent.data, len)) || explain(why, "the exchange sent another frame");
}

bool direct_check_pushes(const direct *d, char *why)
{
    const unsigned char *at = d->pushes;
    bool ok = true;

    for (size_t i = 0; ok && i < d->group_count; i++) {
        const direct_group *g = &d->groups[i];
        ok = same(at, g->made, g->sent, why);
        at += g->made;
    }
    return ok;
}

bool direct_check_answers(const direct *d, char *why)
{
    const unsigned char *at = d->answers;
    bool ok = true;

    for (size_t i = 0; ok && i < d->group_count; i++) {
        const direct_group *g = &d->groups[i];
        if (!g->answer)
            continue;
        ok = same(at, g->answered.len, g->answered, why);
        at += g->answered.len;
    }
    return ok;
}
