/* SPDX-License-Identifier: MIT */
#include "owner.h"
#include "../../common/structs.h"
#include "../../api/context.h"
#include "../plan/refusal.h"
#include <threelc/frames.h>

/* ---- the frames of IntML ----------------------------------------------------------------------------------------- */

/* The part of the round's next group. TLC_ALL: it shares a frame, or there is no next one. */
static size_t next_part(const tlc_owner *o)
{
    const tlc_grouping *g = &o->x->ownership.grouping[TLC_PUSH];
    const tlc_ownership_group *next = &g->groups[g->begin[o->round.owner] + o->round.group];

    return o->round.group < tlc_round_groups(&o->round) && !next->shared ? g->order[next->begin] : TLC_ALL;
}

/* Leads the round to the group of the answer's group g, which is one part. Both have parts with frames of their own
 * first, in rising order. Returns 0 if the part has no such frame in pushes: the round stays before the parts that
 * follow. */
static int find_group(tlc_owner *o, size_t g)
{
    const size_t part = o->x->ownership.grouping[TLC_PULL].order[tlc_sender_group(&o->answer, g)->begin];

    while (next_part(o) < part)
        tlc_round_next(&o->round);
    if (next_part(o) != part)
        return 0;
    tlc_round_next(&o->round);
    return 1;
}

/* May these frames be added as IntML's server does: have they the codec of the answer, and count alike? */
static int can_aggregate(const tlc_owner *o, const tlc_ctx *ctx)
{
    const tlc_round *r = &o->round;
    char codec[TLC_CODEC_TEXT];
    tlc_float_mode mode = tlc_float_enter(); /* parameters are doubles */

    tlc_codec_describe(&ctx->codec, codec);
    tlc_float_leave(mode);
    for (size_t i = 0; i < r->count; i++) {
        tlc_frame_info info = {.struct_size = sizeof info};
        if (r->factor[i] < 1 || r->factor[i] > 1 || tlc_peek(r->frame[i].data, r->frame[i].len, &info) ||
            strcmp(info.codec, codec) != 0)
            return 0;
    }
    return r->count > 0;
}

/* Makes a frame of the sum of natural frames, if the answer's codec is natural, too (IntML, Horvath et al., 2019). */
static size_t aggregate(void *arg, size_t g, void *dst, size_t cap)
{
    tlc_owner *o = arg;
    const tlc_ctx *ctx = o->answer.ctx[g];
    const tlc_natural_aggregate_params params = {.struct_size = sizeof params,
                                                 .rounding = ctx->codec.params[TLC_NATURAL_ROUNDING] > 0
                                                                 ? TLC_ROUND_NEAREST
                                                                 : TLC_ROUND_RANDOM,
                                                 .seed = ctx->seed,
                                                 .step = ctx->step};
    size_t written;

    if (!o->x->cfg.sum || ctx->codec.quantizer != &tlc_stage_natural || ctx->codec.block || ctx->feedback ||
        !find_group(o, g) || !can_aggregate(o, ctx) ||
        tlc_natural_aggregate(o->round.frame, o->round.count, &params, dst, cap, &written))
        return 0;
    return written;
}

/* ---- make -------------------------------------------------------------------------------------------------------- */

tlc_status tlc_owner_init(tlc_owner *o, tlc_setup *x, uint32_t owner)
{
    const tlc_grouping *g = &x->ownership.grouping[TLC_PUSH];
    size_t first = x->ownership.begin[owner];
    uint64_t values = 0;
    tlc_status status = tlc_sender_init(&o->answer, x, TLC_PULL, owner, 1, x->cfg.keep);

    o->x = x;
    if (status)
        return status;
    tlc_round_init(&o->round, x, owner);
    for (size_t i = g->begin[owner]; i < g->begin[owner + 1]; i++)
        values += g->groups[i].n;
    o->mean = tlc_memory_take(&x->memory, o->answer.part_count, sizeof *o->mean);
    o->means = tlc_memory_take(&x->memory, values, sizeof *o->means);
    o->elsewhere = tlc_memory_take(&x->memory, o->answer.part_count, sizeof *o->elsewhere);
    if (x->memory.status)
        return x->memory.status;
    /* the means of a group are one after the other, as its frames have them */
    const float *at = o->means;
    for (size_t i = g->begin[owner]; i < g->begin[owner + 1]; i++)
        for (size_t p = 0; p < g->groups[i].count; p++) {
            size_t part = g->order[g->groups[i].begin + p];
            o->mean[part - first] = at;
            at += x->ownership.parts[part].n;
        }
    return TLC_OK;
}

void tlc_owner_free(tlc_owner *o)
{
    tlc_sender_free(&o->answer);
}

/* ---- frames of the caller ---------------------------------------------------------------------------------------- */

/* The part of the round's group, as the answer counts them. TLC_ALL: it shares a frame, in pushes or in answers. */
static size_t open_part(const tlc_owner *o)
{
    const tlc_ownership_group *group = tlc_round_group(&o->round);
    const size_t p = o->x->ownership.grouping[TLC_PUSH].order[group->begin] - o->answer.first_part;

    return group->shared || tlc_sender_group(&o->answer, o->answer.group_of[p])->shared ? TLC_ALL : p;
}

/* Does the caller average the round's group, or did it make the answer? */
static int is_elsewhere(const tlc_owner *o)
{
    const size_t p = open_part(o);
    return p != TLC_ALL && (o->elsewhere[p] || tlc_sender_given(&o->answer, o->answer.group_of[p]));
}

void tlc_owner_leave(tlc_owner *o, const uint8_t *elsewhere)
{
    tlc_round *r = &o->round;

    for (size_t p = 0; p < o->answer.part_count; p++)
        o->elsewhere[p] = 0;
    tlc_round_start(r);
    for (size_t g = 0; elsewhere && g < tlc_round_groups(r); g++) {
        tlc_round_next(r);
        const size_t p = open_part(o);
        if (p != TLC_ALL)
            o->elsewhere[p] = elsewhere[p] != 0;
    }
}

tlc_status tlc_owner_frames(tlc_owner *o, tlc_message *frames, float *factors, tlc_finding *finding)
{
    const uint32_t workers = o->x->cfg.workers;
    tlc_round *r = &o->round;
    tlc_status status = TLC_OK;

    for (size_t i = 0; i < o->answer.part_count * workers; i++) {
        frames[i] = (tlc_message){NULL, 0};
        factors[i] = 0;
    }
    tlc_round_start(r);
    for (size_t g = 0; !status && g < tlc_round_groups(r); g++) {
        tlc_round_next(r);
        status = tlc_round_check(r, finding);
        const size_t p = open_part(o);
        for (size_t i = 0; !status && p != TLC_ALL && i < r->count; i++) {
            frames[p * workers + r->from[i]] = r->frame[i];
            factors[p * workers + r->from[i]] = r->factor[i];
        }
    }
    return status;
}

tlc_status tlc_owner_give(tlc_owner *o, const tlc_message *frames)
{
    tlc_sender *s = &o->answer;
    tlc_status status = TLC_OK;

    for (size_t p = 0; !status && p < s->part_count; p++)
        if (!tlc_sender_group(s, s->group_of[p])->shared)
            status = tlc_sender_give(s, s->group_of[p], p, frames[p]);
    return status;
}

/* ---- reduce ------------------------------------------------------------------------------------------------------ */

/* Decodes and adds all groups that are not the caller's. Stops at a bad frame. */
static tlc_status add_groups(tlc_owner *o, tlc_finding *finding)
{
    tlc_status status = TLC_OK;
    float *at = o->means;

    tlc_round_start(&o->round);
    for (size_t g = 0; !status && g < tlc_round_groups(&o->round); g++) {
        tlc_round_next(&o->round);
        if (!is_elsewhere(o)) {
            status = tlc_round_check(&o->round, finding);
            if (!status)
                tlc_round_add(&o->round, at);
        }
        at += tlc_round_group(&o->round)->n;
    }
    return status;
}

/* Keeps what was found first. */
static void find(tlc_owner *o, const tlc_finding *finding)
{
    if (o->finding.reason == TLC_REASON_NONE)
        o->finding = *finding;
}

/* The values of part p are at fault. */
static void fail_part(tlc_owner *o, tlc_reason reason, size_t p)
{
    o->failed = 1;
    o->finding = tlc_finding_of(reason);
    o->finding.role = tlc_setup_owner(o->x);
    o->finding.rank = o->x->rank;
    o->finding.tensor = tlc_sender_part(&o->answer, p)->tensor;
}

void tlc_owner_reduce(tlc_owner *o, int all_or_nothing)
{
    tlc_round *r = &o->round;
    tlc_finding bad;
    uint32_t pushed = 0;

    o->failed = 0;
    o->finding = tlc_finding_of(TLC_REASON_NONE);
    for (uint32_t w = 0; w < o->x->cfg.workers; w++) {
        const tlc_arrival *a = &r->push[w];
        if (a->came && a->head.failed)
            find(o, &a->head.finding);
        pushed += a->came && !a->head.absent;
    }
    while (!o->failed && add_groups(o, &bad)) {
        find(o, &bad);
        tlc_round_leave(r, bad.rank);
        o->failed = all_or_nothing;
    }
    if (pushed && !r->taken)
        o->failed = 1;
    if (o->failed)
        return;
    for (size_t p = 0; p < o->answer.part_count; p++)
        o->answer.source[p] = o->elsewhere[p] ? NULL : o->mean[p];
    size_t p = tlc_sender_nonfinite(&o->answer);
    if (p != TLC_ALL)
        fail_part(o, TLC_REASON_MEAN, p);
}

/* ---- answer ------------------------------------------------------------------------------------------------------ */

tlc_status tlc_owner_check(const tlc_owner *o, const float *const *delta)
{
    const tlc_sender *s = &o->answer;

    for (size_t p = 0; p < s->part_count; p++) {
        if (tlc_sender_given(s, s->group_of[p]))
            continue;
        if (delta && !delta[p])
            return tlc_refuse(o->x, TLC_ERR_PARAM, tlc_sender_part(s, p)->tensor,
                              "its entry of delta is NULL, that of part %zu", p);
        if (!delta && o->elsewhere[p] && !o->failed)
            return tlc_refuse(o->x, TLC_ERR_PARAM, tlc_sender_part(s, p)->tensor,
                              "part %zu was averaged elsewhere, so it needs a delta or a frame", p);
    }
    return TLC_OK;
}

tlc_message tlc_owner_answer(tlc_owner *o, uint64_t step, const float *const *delta)
{
    tlc_sender *s = &o->answer;
    tlc_reason reason = delta ? TLC_REASON_DELTA : TLC_REASON_MEAN;
    size_t bad = TLC_ALL;

    for (size_t p = 0; p < s->part_count; p++)
        s->source[p] = delta ? delta[p] : o->mean[p];
    if (!o->failed && delta) {
        bad = tlc_sender_nonfinite(s);
        if (bad != TLC_ALL)
            fail_part(o, reason, bad);
    }
    s->make = delta ? NULL : aggregate;
    s->make_arg = o;
    tlc_round_start(&o->round);
    if (!o->failed && tlc_sender_encode(s, step, &bad))
        fail_part(o, reason, bad);
    tlc_head head = {.phase = TLC_PHASE_ANSWER,
                     .failed = o->failed,
                     .sender = o->x->rank,
                     .step = step,
                     .finding = o->finding,
                     .taken = o->round.bits};
    return tlc_sender_seal(s, 0, &head);
}

tlc_status tlc_owner_part(const tlc_owner *o, size_t i, tlc_part *part)
{
    if (!part || part->struct_size < sizeof part->struct_size)
        return tlc_refuse_struct(o->x, "part");
    if (i >= o->answer.part_count)
        return tlc_refuse(o->x, TLC_ERR_PARAM, TLC_ALL, "there is no part %zu; there are %zu", i, o->answer.part_count);
    const tlc_ownership_part *p = tlc_sender_part(&o->answer, i);
    const size_t g = o->answer.group_of[i];
    const tlc_part ours = {.tensor = p->tensor,
                           .first = p->first,
                           .n = p->n,
                           .mean = o->mean[i],
                           .residual = o->answer.residual[i],
                           .seed = tlc_sender_group(&o->answer, g)->shared ? 0 : o->answer.ctx[g]->seed};
    tlc_export(part, &ours, sizeof ours);
    return TLC_OK;
}
