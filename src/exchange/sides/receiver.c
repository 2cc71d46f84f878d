/* SPDX-License-Identifier: MIT */
#include "receiver.h"
#include "../../common/structs.h"
#include "../../frames/decode.h"
#include "../../values/dtype.h"
#include "../plan/refusal.h"

void tlc_receiver_init(tlc_receiver *r, tlc_setup *x, uint32_t owners, size_t scratch)
{
    *r = (tlc_receiver){.x = x};
    r->answer = tlc_memory_take(&x->memory, owners, sizeof *r->answer);
    r->scratch = tlc_memory_take(&x->memory, scratch, sizeof *r->scratch);
}

void tlc_receiver_open(tlc_receiver *r, tlc_setup *x)
{
    const tlc_grouping *g = &x->ownership.grouping[TLC_PULL];

    r->open = tlc_memory_take(&x->memory, g->count, sizeof *r->open);
    for (size_t i = 0; !x->memory.status && i < g->count; i++)
        if (!g->groups[i].shared)
            r->open[r->open_count++] = i;
}

tlc_status tlc_receiver_part(const tlc_receiver *r, size_t i, tlc_part *part)
{
    const tlc_grouping *g = &r->x->ownership.grouping[TLC_PULL];

    if (!part || part->struct_size < sizeof part->struct_size)
        return tlc_refuse_struct(r->x, "part");
    if (i >= r->open_count)
        return tlc_refuse(r->x, TLC_ERR_PARAM, TLC_ALL, "there is no pulled part %zu; there are %zu", i, r->open_count);
    const tlc_ownership_part *found = &r->x->ownership.parts[g->order[g->groups[r->open[i]].begin]];
    const tlc_part ours = {.tensor = found->tensor, .first = found->first, .n = found->n};
    tlc_export(part, &ours, sizeof ours);
    return TLC_OK;
}

tlc_status tlc_receiver_check(const tlc_receiver *r, const tlc_message *from, void *const *out, int takes_frames)
{
    if (!from)
        return tlc_refuse_null(r->x, "from");
    for (size_t t = 0; t < r->x->count; t++)
        if (r->x->tensors[t].n && (!out || (!out[t] && !(takes_frames && !r->x->tensors[t].small[TLC_PULL]))))
            return tlc_refuse(r->x, TLC_ERR_PARAM, t, out ? "its entry of out is NULL" : "out is NULL");
    return TLC_OK;
}

/* ---- read -------------------------------------------------------------------------------------------------------- */

static tlc_status open_frame(const tlc_setup *x, tlc_message message, size_t n, tlc_frame *f)
{
    tlc_status status = tlc_frame_read(f, message.data, message.len, &n, 1);
    return status || tlc_decode_check(x->k, f) ? status : TLC_ERR_CORRUPT;
}

tlc_status tlc_frames_check(const tlc_setup *x, tlc_direction direction, uint32_t owner, tlc_bundle_reader frames,
                            tlc_finding *finding)
{
    const tlc_grouping *g = &x->ownership.grouping[direction];
    tlc_status status = TLC_OK;

    for (size_t i = g->begin[owner]; !status && i < g->begin[owner + 1]; i++) {
        tlc_message frame;
        tlc_frame f;
        (void)tlc_bundle_next(&frames, &frame.data, &frame.len);
        status = open_frame(x, frame, g->groups[i].n, &f);
        if (status) {
            *finding = tlc_finding_of(TLC_REASON_FRAME);
            finding->cause = status;
            finding->tensor = x->ownership.parts[g->order[g->groups[i].begin]].tensor;
        }
    }
    return status;
}

void tlc_receiver_read(tlc_receiver *r, uint32_t owner, uint64_t step, tlc_message message)
{
    const tlc_setup *x = r->x;
    const tlc_expected expected = {TLC_PHASE_ANSWER, owner, step};
    tlc_answer *a = &r->answer[owner];

    a->status = tlc_message_read(x, &expected, message, &a->head, &a->frames, &a->finding);
    if (a->status || a->head.failed)
        return;
    a->status = tlc_frames_check(x, TLC_PULL, owner, a->frames, &a->finding);
    if (a->status) {
        a->finding.role = tlc_setup_owner(x);
        a->finding.rank = owner;
    }
}

/* ---- write ------------------------------------------------------------------------------------------------------- */

static void *part_at(const tlc_setup *x, const tlc_ownership_part *part, void *const *out)
{
    return (uint8_t *)out[part->tensor] + part->first * tlc_dtype_size(x->cfg.dtype);
}

/* Decodes a frame that has passed the check. */
static void decode(const tlc_setup *x, tlc_message message, tlc_dtype dtype, void *out, size_t n)
{
    tlc_output output = {.k = x->k, .mode = TLC_OUTPUT_WRITE, .dtype = dtype, .out = out};
    tlc_parallel parallel = x->cfg.parallel;
    tlc_threads threads;
    tlc_frame f;

    output.bypass = n >= tlc_cpu_uncached_threshold() / tlc_dtype_size(dtype);
    (void)tlc_frame_read(&f, message.data, message.len, &n, 0);
    tlc_threads_enter(&threads, &parallel);
    tlc_decode_frame(&f, &output, &parallel);
    tlc_threads_leave(&threads);
}

/* Writes the values of a group to its parts. */
static void narrow_group(const tlc_setup *x, const tlc_grouping *g, const tlc_ownership_group *group,
                         const float *values, void *const *out)
{
    tlc_float_mode mode = tlc_float_enter();

    for (size_t i = 0; i < group->count; i++) {
        const tlc_ownership_part *part = &x->ownership.parts[g->order[group->begin + i]];
        tlc_narrow(x->k, values, part->n, x->cfg.dtype, part_at(x, part, out));
        values += part->n;
    }
    tlc_float_leave(mode);
}

size_t tlc_receiver_write(const tlc_receiver *r, uint32_t owner, void *const *out, tlc_message *frames)
{
    const tlc_setup *x = r->x;
    const tlc_grouping *g = &x->ownership.grouping[TLC_PULL];
    tlc_bundle_reader answer = r->answer[owner].frames;
    size_t opened = 0;

    for (size_t i = g->begin[owner]; i < g->begin[owner + 1]; i++) {
        const tlc_ownership_group *group = &g->groups[i];
        const tlc_ownership_part *part = &x->ownership.parts[g->order[group->begin]];
        tlc_message frame;
        (void)tlc_bundle_next(&answer, &frame.data, &frame.len);
        if (group->shared) {
            decode(x, frame, TLC_F32, r->scratch, group->n);
            narrow_group(x, g, group, r->scratch, out);
            continue;
        }
        const int is_given = frames && !out[part->tensor];
        if (frames)
            frames[opened] = is_given ? frame : (tlc_message){NULL, 0};
        if (!is_given)
            decode(x, frame, x->cfg.dtype, part_at(x, part, out), group->n);
        opened++;
    }
    return opened;
}

size_t tlc_receiver_write_none(const tlc_receiver *r, uint32_t owner, tlc_message *frames)
{
    const tlc_grouping *g = &r->x->ownership.grouping[TLC_PULL];
    size_t opened = 0;

    for (size_t i = g->begin[owner]; i < g->begin[owner + 1]; i++)
        if (!g->groups[i].shared)
            frames[opened++] = (tlc_message){NULL, 0};
    return opened;
}

void tlc_receiver_write_mean(const tlc_receiver *r, tlc_round *round, void *const *out)
{
    const tlc_setup *x = r->x;
    const tlc_grouping *g = &x->ownership.grouping[TLC_PUSH];

    tlc_round_start(round);
    for (size_t i = 0; i < tlc_round_groups(round); i++) {
        tlc_round_next(round);
        const tlc_ownership_group *group = tlc_round_group(round);
        void *place = part_at(x, &x->ownership.parts[g->order[group->begin]], out);
        if (!group->shared && tlc_is_floats(x->cfg.dtype, place)) {
            tlc_round_add(round, place);
            continue;
        }
        tlc_round_add(round, r->scratch);
        narrow_group(x, g, group, r->scratch, out);
    }
}
