/* SPDX-License-Identifier: MIT
 *
 * A server of a parameter server (3LC, section 2 and Figure 2): it averages what workers push, and answers all of them
 * with one message.
 */
#include "../../common/structs.h"
#include "object_state.h"
#include "../sides/owner.h"
#include "../plan/refusal.h"
#include "../plan/setup_make.h"
#include "../wire/message_bound.h"

struct tlc_server {
    tlc_setup setup; /* comes first: tlc_setup_create */
    tlc_owner owner;
    tlc_report report;
    tlc_exchange_stats stats;
    uint64_t step, history;
    int reduced;
    uint32_t checked;     /* how many pushes had come when owned_frames checked them */
    uint64_t *last_taken; /* by worker: the last step in which its push was taken */
};

static tlc_status make(tlc_server *s)
{
    tlc_setup *x = &s->setup;
    tlc_status status = tlc_owner_init(&s->owner, x, x->rank);

    s->step = 1;
    x->message_bound = tlc_message_bound(x, TLC_PUSH, x->rank);
    s->report.finding = tlc_finding_of(TLC_REASON_NONE);
    s->report.taken = tlc_memory_take(&x->memory, TLC_BITMAP(x->cfg.workers), 1);
    s->last_taken = tlc_memory_take(&x->memory, x->cfg.workers, sizeof *s->last_taken);
    status = status ? status : x->memory.status;
    if (status)
        return status;
    x->report = &s->report;
    x->reports = 1;
    x->step = &s->step;
    return TLC_OK;
}

tlc_status tlc_server_create(tlc_server **out, const tlc_exchange_config *cfg, uint32_t server,
                             const tlc_tensor *tensors, size_t count)
{
    tlc_report report = {.step = 0};
    void *made = NULL;
    tlc_status status = tlc_setup_create(&made, sizeof **out, cfg, TLC_EXCHANGE_SERVERS, TLC_ROLE_SERVER, server,
                                         tensors, count, &report);
    tlc_server *s = made;

    if (!status)
        status = out ? make(s) : tlc_refuse_null(&s->setup, "the place for the object");
    status = tlc_setup_end(cfg, s ? &s->setup : NULL, status, &report);
    if (status)
        tlc_server_destroy(s);
    else
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): calls that refuse do not return TLC_OK */
        *out = s;
    return status;
}

void tlc_server_destroy(tlc_server *s)
{
    if (!s)
        return;
    tlc_memory memory = s->setup.memory; /* holds s itself */
    tlc_owner_free(&s->owner);
    tlc_memory_free(&memory);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static tlc_status tell(tlc_server *s, tlc_status status, const tlc_finding *finding)
{
    tlc_report_set(&s->report, s->step, status, finding);
    return status;
}

/* Reports who was taken, after a step that did not fail. */
static void tell_taken(tlc_server *s)
{
    if (s->owner.failed)
        return;
    memcpy(s->report.taken, s->owner.round.bits, TLC_BITMAP(s->setup.cfg.workers));
    s->report.has_taken = 1;
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

tlc_status tlc_server_push(tlc_server *s, tlc_message from, tlc_push_info *info)
{
    const tlc_expected any = {TLC_PHASE_PUSH, TLC_NOBODY, 0};
    tlc_push_info ours = {.late = 0};
    tlc_bundle_reader frames;
    tlc_finding finding;
    tlc_head head;

    if (!s)
        return TLC_ERR_PARAM;
    if (info && info->struct_size < sizeof info->struct_size)
        return tlc_refuse_struct(&s->setup, "info");
    if (tlc_message_read(&s->setup, &any, from, &head, &frames, &finding))
        return tell(s, finding.cause, &finding);
    const tlc_arrival *before = &s->owner.round.push[head.sender];
    ours.worker = head.sender;
    ours.step = head.step;
    ours.late = head.step < s->step || (head.step == s->step && s->reduced);
    ours.repeated = !ours.late && before->came && tlc_message_equal(before->message, from);
    if (head.step > s->step || (!ours.late && before->came && !ours.repeated)) {
        finding = tlc_finding_of(head.step > s->step ? TLC_REASON_STEP : TLC_REASON_TWICE);
        finding.role = TLC_ROLE_WORKER;
        finding.rank = head.sender;
        finding.got = head.step;
        return tell(s, finding.cause, &finding);
    }
    if (ours.late)
        s->stats.late++;
    else if (!ours.repeated) {
        tlc_round_enter(&s->owner.round, from, &head, &frames);
        s->stats.received += from.len;
    }
    if (info)
        tlc_export(info, &ours, sizeof ours);
    return tell(s, TLC_OK, &head.finding);
}

int tlc_server_ready(const tlc_server *s)
{
    return s && !s->reduced && s->owner.round.came >= s->setup.cfg.workers - s->setup.cfg.backup;
}

/* ---- reduce and answer ------------------------------------------------------------------------------------------- */

tlc_status tlc_server_owned_frames(tlc_server *s, tlc_message *frames, float *factors)
{
    tlc_finding finding = tlc_finding_of(TLC_REASON_NONE);

    if (!s)
        return TLC_ERR_PARAM;
    if (!frames || !factors)
        return tlc_refuse_null(&s->setup, frames ? "factors" : "frames");
    if (s->reduced || !s->owner.round.came)
        return tlc_refuse_turn(&s->setup, s->reduced ? "owned_frames was called after reduce"
                                                     : "owned_frames was called before any push came");
    const tlc_status status = tlc_owner_frames(&s->owner, frames, factors, &finding);
    if (!status)
        s->checked = s->owner.round.came;
    return tell(s, status ? TLC_ERR_STEP : TLC_OK, &finding);
}

static tlc_status reduce(tlc_server *s, const uint8_t *elsewhere)
{
    tlc_owner_leave(&s->owner, elsewhere);
    tlc_owner_reduce(&s->owner, 0);
    s->reduced = 1;
    (void)tell(s, s->owner.failed ? TLC_ERR_STEP : TLC_OK, &s->owner.finding);
    tell_taken(s);
    return s->report.status;
}

tlc_status tlc_server_reduce(tlc_server *s)
{
    if (!s)
        return TLC_ERR_PARAM;
    if (s->reduced || !s->owner.round.came)
        return tlc_refuse_turn(&s->setup,
                               s->reduced ? "reduce was called again" : "reduce was called before any push came");
    return reduce(s, NULL);
}

tlc_status tlc_server_reduce_rest(tlc_server *s, const uint8_t *elsewhere)
{
    if (!s)
        return TLC_ERR_PARAM;
    if (!elsewhere)
        return tlc_refuse_null(&s->setup, "elsewhere");
    if (s->reduced)
        return tlc_refuse_turn(&s->setup, "reduce_rest was called after reduce");
    if (!s->checked || s->checked != s->owner.round.came)
        return tlc_refuse_turn(&s->setup, s->checked
                                              ? "reduce_rest was called after a push that owned_frames did not see"
                                              : "reduce_rest was called before owned_frames");
    return reduce(s, elsewhere);
}

size_t tlc_server_parts(const tlc_server *s)
{
    return s ? s->owner.answer.part_count : 0;
}

tlc_status tlc_server_part(const tlc_server *s, size_t i, tlc_part *part)
{
    return s ? tlc_owner_part(&s->owner, i, part) : TLC_ERR_PARAM;
}

static tlc_status answer(tlc_server *s, const float *const *delta, tlc_message *to_all)
{
    if (!to_all)
        return tlc_refuse_null(&s->setup, "to_all");
    const tlc_status status = tlc_owner_check(&s->owner, delta);
    if (status)
        return status;
    if (!s->reduced)
        return tlc_refuse_turn(&s->setup, "answer was called before reduce");
    *to_all = tlc_owner_answer(&s->owner, s->step, delta);
    if (!s->owner.failed)
        s->history = tlc_message_history(*to_all);
    (void)tell(s, TLC_OK, &s->owner.finding);
    tell_taken(s);
    for (uint32_t w = 0; !s->owner.failed && w < s->setup.cfg.workers; w++)
        if (s->owner.round.push[w].taken)
            s->last_taken[w] = s->step;
    s->stats.steps++;
    s->stats.failed += (uint64_t)s->owner.failed;
    s->stats.float_bytes += s->owner.failed ? 0 : tlc_sender_float_bytes(&s->owner.answer, 0) * s->setup.cfg.workers;
    s->stats.sent += (uint64_t)to_all->len * s->setup.cfg.workers;
    s->step++;
    s->reduced = 0;
    s->checked = 0;
    tlc_round_clear(&s->owner.round);
    return TLC_OK;
}

tlc_status tlc_server_answer(tlc_server *s, const float *const *delta, tlc_message *to_all)
{
    return s ? answer(s, delta, to_all) : TLC_ERR_PARAM;
}

tlc_status tlc_server_answer_frames(tlc_server *s, const float *const *delta, const tlc_message *frames,
                                    tlc_message *to_all)
{
    if (!s)
        return TLC_ERR_PARAM;
    if (!frames)
        return tlc_refuse_null(&s->setup, "frames");
    tlc_status status = tlc_owner_give(&s->owner, frames);
    if (!status)
        status = answer(s, delta, to_all);
    tlc_sender_forget_given(&s->owner.answer);
    return status;
}

tlc_status tlc_server_again(const tlc_server *s, uint64_t step, tlc_message *answer)
{
    return s ? tlc_sender_again(&s->owner.answer, s->step, step, answer) : TLC_ERR_PARAM;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

tlc_status tlc_server_taken(const tlc_server *s, uint32_t worker, uint64_t *step)
{
    if (!s)
        return TLC_ERR_PARAM;
    if (!step)
        return tlc_refuse_null(&s->setup, "step");
    if (worker >= s->setup.cfg.workers)
        return tlc_refuse(&s->setup, TLC_ERR_PARAM, TLC_ALL, "there is no worker %u; there are %u", worker,
                          s->setup.cfg.workers);
    *step = s->last_taken[worker];
    return TLC_OK;
}

size_t tlc_server_message_bound(const tlc_server *s)
{
    return s ? s->setup.message_bound : 0;
}

uint64_t tlc_server_step(const tlc_server *s)
{
    return s ? s->step : 0;
}

uint64_t tlc_server_history(const tlc_server *s)
{
    return s ? s->history : 0;
}

static tlc_object object_of(const tlc_server *s)
{
    /* the sender is changed only through a server that may change */
    return (tlc_object){.x = &s->setup,
                        .pull = (tlc_sender *)(uintptr_t)&s->owner.answer,
                        .step = s->step,
                        .history = s->history,
                        .taken = s->last_taken};
}

tlc_status tlc_server_set_codec(tlc_server *s, size_t tensor, const char *codec)
{
    if (!s)
        return TLC_ERR_PARAM;
    if (!codec)
        return tlc_refuse_null(&s->setup, "codec");
    const tlc_object o = object_of(s);
    return tlc_object_set_codec(&o, tensor, NULL, codec);
}

tlc_status tlc_server_residual_scale(tlc_server *s, float factor)
{
    if (!s)
        return TLC_ERR_PARAM;
    if (s->reduced)
        return tlc_refuse_step(&s->setup, "residual_scale");
    const tlc_object o = object_of(s);
    return tlc_object_scale(&o, factor);
}

tlc_status tlc_server_outcome(const tlc_server *s, tlc_outcome *outcome)
{
    return s ? tlc_setup_outcome(&s->setup, &s->report, outcome) : TLC_ERR_PARAM;
}

tlc_status tlc_server_stats(const tlc_server *s, tlc_exchange_stats *stats)
{
    return s ? tlc_stats_export(&s->setup, stats, &s->stats, NULL, &s->owner.answer) : TLC_ERR_PARAM;
}

size_t tlc_server_state_size(const tlc_server *s)
{
    if (!s)
        return 0;
    const tlc_object o = object_of(s);
    return tlc_object_state_size(&o);
}

tlc_status tlc_server_state_save(const tlc_server *s, void *dst, size_t cap, size_t *written)
{
    if (!s)
        return TLC_ERR_PARAM;
    if (s->reduced)
        return tlc_refuse_step(&s->setup, "state_save");
    const tlc_object o = object_of(s);
    return tlc_object_state_save(&o, dst, cap, written);
}

static tlc_status load(tlc_server *s, const tlc_message *states, size_t count, int lost)
{
    if (!s)
        return TLC_ERR_PARAM;
    if (s->owner.round.came)
        return tlc_refuse_step(&s->setup, "state_load");
    tlc_object o = object_of(s);
    tlc_status status = tlc_object_state_load(&o, states, count, lost);
    s->step = o.step;
    s->history = o.history;
    return status;
}

tlc_status tlc_server_state_load(tlc_server *s, const tlc_message *states, size_t count)
{
    return load(s, states, count, 0);
}

tlc_status tlc_server_state_salvage(tlc_server *s, const tlc_message *states, size_t count)
{
    return load(s, states, count, 1);
}
