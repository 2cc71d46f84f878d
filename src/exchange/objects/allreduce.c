/* SPDX-License-Identifier: MIT
 *
 * All-reduce: every rank pushes, and owns parts of the tensors, which it averages for all. With gather every rank sends
 * its frames to all, and each averages all of them.
 */
#include "allreduce.h"
#include "../../common/structs.h"
#include "object.h"
#include "../plan/refusal.h"
#include "../plan/setup_make.h"
#include "../wire/message_bound.h"

/* ---- make -------------------------------------------------------------------------------------------------------- */

/* The values of the largest group of pushes. */
static size_t largest_group(const tlc_setup *x)
{
    const tlc_grouping *g = &x->ownership.grouping[TLC_PUSH];
    size_t largest = 0;

    for (size_t i = 0; i < g->count; i++)
        if (g->groups[i].n > largest)
            largest = g->groups[i].n;
    return largest;
}

/* Of pushes to this rank, and of answers. */
static size_t bound_of(const tlc_allreduce *a)
{
    const tlc_setup *x = &a->setup;
    const int takes_pushes = tlc_is_gather(a) || tlc_allreduce_owns(a, x->rank);
    const size_t push = takes_pushes ? tlc_message_bound(x, TLC_PUSH, tlc_is_gather(a) ? 0 : x->rank) : 0;
    const size_t answer = tlc_is_gather(a) ? 0 : tlc_message_answers_bound(x);

    return push > answer ? push : answer;
}

static tlc_status make(tlc_allreduce *a)
{
    tlc_setup *x = &a->setup;
    /* with gather a rank may be one step ahead of others, who still fetch its push again */
    uint32_t kept = tlc_is_gather(a) ? (x->cfg.keep > 1 ? x->cfg.keep : 2) : 1;
    tlc_status status = tlc_pushing_init(&a->push, x, x->owners, kept);

    a->step = 1;
    x->message_bound = bound_of(a);
    if (!status && tlc_allreduce_owns(a, x->rank))
        status = tlc_owner_init(&a->owner, x, x->rank);
    if (tlc_is_gather(a))
        tlc_round_init(&a->round, x, 0);
    tlc_receiver_init(&a->in, x, x->owners,
                      tlc_is_gather(a) ? largest_group(x) : x->ownership.grouping[TLC_PULL].shared_n);
    if (!tlc_is_gather(a))
        tlc_receiver_open(&a->in, x);
    a->report.finding = tlc_finding_of(TLC_REASON_NONE);
    a->report.taken = tlc_memory_take(&x->memory, TLC_BITMAP(x->cfg.workers), 1);
    status = status ? status : x->memory.status;
    if (status)
        return status;
    x->report = &a->report;
    x->reports = 1;
    x->step = &a->step;
    return TLC_OK;
}

tlc_status tlc_allreduce_create(tlc_allreduce **out, const tlc_exchange_config *cfg, uint32_t rank,
                                const tlc_tensor *tensors, size_t count)
{
    tlc_report report = {.step = 0};
    void *made = NULL;
    tlc_status status = tlc_setup_create(&made, sizeof **out, cfg, TLC_EXCHANGE_ALLREDUCE, TLC_ROLE_RANK, rank, tensors,
                                         count, &report);
    tlc_allreduce *a = made;

    if (!status)
        status = out ? make(a) : tlc_refuse_null(&a->setup, "the place for the object");
    status = tlc_setup_end(cfg, a ? &a->setup : NULL, status, &report);
    if (status)
        tlc_allreduce_destroy(a);
    else
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): calls that refuse do not return TLC_OK */
        *out = a;
    return status;
}

void tlc_allreduce_destroy(tlc_allreduce *a)
{
    if (!a)
        return;
    tlc_memory memory = a->setup.memory; /* holds a itself */
    tlc_sender_free(&a->push.sender);
    tlc_owner_free(&a->owner);
    tlc_memory_free(&memory);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

tlc_status tlc_allreduce_tell(tlc_allreduce *a, tlc_status status, const tlc_finding *finding)
{
    tlc_report_set(&a->report, a->step, status, finding);
    return status;
}

void tlc_allreduce_tell_taken(tlc_allreduce *a, const uint8_t *taken)
{
    memcpy(a->report.taken, taken, TLC_BITMAP(a->setup.cfg.workers));
    a->report.has_taken = 1;
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

static tlc_status push(tlc_allreduce *a, const void *const *grads, double weight, tlc_message *to)
{
    const tlc_status status = tlc_pushing_check(&a->push, grads, weight, to);
    const tlc_setup *x = &a->setup;

    if (status)
        return status;
    tlc_pushing_make(&a->push, a->step, grads, weight, 0, &a->stats.dropped);
    const int has_frames = grads && a->push.finding.reason == TLC_REASON_NONE;
    for (uint32_t i = 0; i < x->cfg.workers; i++) {
        const uint32_t message = tlc_is_gather(a) ? 0 : i;
        to[i] = (tlc_message){NULL, 0};
        if (!tlc_is_gather(a) && !tlc_allreduce_owns(a, i))
            continue;
        to[i] = tlc_pushing_message(&a->push, message);
        if (i == x->rank)
            continue;
        a->stats.sent += to[i].len;
        a->stats.float_bytes += has_frames ? tlc_sender_float_bytes(&a->push.sender, message) : 0;
    }
    a->masks = 0;
    a->state = TLC_ALLREDUCE_PUSHED;
    return tlc_allreduce_tell(a, TLC_OK, &a->push.finding);
}

tlc_status tlc_allreduce_push(tlc_allreduce *a, const void *const *grads, double weight, tlc_message *to)
{
    return a ? push(a, grads, weight, to) : TLC_ERR_PARAM;
}

tlc_status tlc_allreduce_push_frames(tlc_allreduce *a, const void *const *grads, const tlc_message *frames,
                                     double weight, tlc_message *to)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (!grads || !frames)
        return tlc_refuse_null(&a->setup, grads ? "frames" : "grads");
    tlc_status status = tlc_pushing_give(&a->push, frames);
    if (status)
        return status;
    status = push(a, grads, weight, to);
    tlc_sender_forget_given(&a->push.sender);
    return status;
}

/* ---- pushes that came -------------------------------------------------------------------------------------------- */

void tlc_allreduce_read_pushes(tlc_allreduce *a, tlc_round *round, const tlc_message *from, tlc_finding *finding,
                               tlc_finding *bad)
{
    tlc_round_clear(round);
    *finding = *bad = tlc_finding_of(TLC_REASON_NONE);
    for (uint32_t i = 0; i < a->setup.cfg.workers; i++) {
        const tlc_expected expected = {TLC_PHASE_PUSH, i, a->step};
        tlc_bundle_reader frames;
        tlc_finding wrong;
        tlc_head head;
        if (!tlc_message_read(&a->setup, &expected, from[i], &head, &frames, &wrong)) {
            tlc_round_enter(round, from[i], &head, &frames);
            wrong = head.finding;
        } else if (!bad->cause)
            *bad = wrong;
        if (!finding->cause)
            *finding = wrong;
    }
}

uint64_t tlc_allreduce_received(const tlc_allreduce *a, const tlc_message *from)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < a->setup.cfg.workers; i++)
        if (i != a->setup.rank && (a->state == TLC_ALLREDUCE_PUSHED || tlc_allreduce_owns(a, i)))
            bytes += from[i].len;
    return bytes;
}

/* ---- pull -------------------------------------------------------------------------------------------------------- */

/* What came in a step that did not fail: the answers, or with gather the pushes. */
static void remember(tlc_allreduce *a, const tlc_message *from)
{
    a->history = 0;
    for (uint32_t i = 0; i < a->setup.cfg.workers; i++)
        if (tlc_is_gather(a) || tlc_allreduce_owns(a, i))
            a->history += tlc_message_history(from[i]);
}

static void end_step(tlc_allreduce *a, int failed)
{
    a->step++;
    a->stats.steps++;
    a->stats.failed += (uint64_t)failed;
    a->masks = !failed;
    a->push.under_way = 0;
    if (tlc_allreduce_owns(a, a->setup.rank))
        tlc_sender_forget_given(&a->owner.answer);
    a->state = TLC_ALLREDUCE_IDLE;
}

/* The step failed. Owners that reduced keep what they got, the other parts return to the residuals of pushes. */
static tlc_status fail_step(tlc_allreduce *a, const tlc_finding *finding, uint64_t bytes)
{
    uint64_t dropped = 0;

    for (uint32_t i = 0; i < a->setup.owners; i++) {
        const tlc_answer *answer = &a->in.answer[i];
        int reduced = tlc_allreduce_owns(a, i) && !answer->status && !answer->head.failed;
        if (!reduced)
            dropped += tlc_sender_return(&a->push.sender, a->step, i);
    }
    if (tlc_allreduce_owns(a, a->setup.rank))
        dropped += tlc_sender_return(&a->owner.answer, a->step, 0);
    (void)tlc_allreduce_tell(a, TLC_ERR_STEP, finding);
    a->stats.dropped += dropped;
    a->stats.received += bytes;
    end_step(a, 1);
    return TLC_ERR_STEP;
}

static tlc_status pull_gathered(tlc_allreduce *a, const tlc_message *from, void *const *out)
{
    tlc_finding finding, bad;
    tlc_round *r = &a->round;

    tlc_allreduce_read_pushes(a, r, from, &finding, &bad);
    tlc_round_start(r);
    for (size_t g = 0; !bad.cause && g < tlc_round_groups(r); g++) {
        tlc_round_next(r);
        if (!tlc_round_check(r, &bad) && !finding.cause && !tlc_round_finite(r, a->in.scratch)) {
            finding = tlc_finding_of(TLC_REASON_MEAN);
            finding.tensor = tlc_round_tensor(r);
        }
    }
    if (bad.cause)
        return tlc_allreduce_tell(a, bad.cause, &bad);
    if (finding.cause)
        return fail_step(a, &finding, tlc_allreduce_received(a, from));
    tlc_receiver_write_mean(&a->in, r, out);
    (void)tlc_allreduce_tell(a, TLC_OK, &finding);
    tlc_allreduce_tell_taken(a, r->bits);
    remember(a, from);
    a->stats.received += tlc_allreduce_received(a, from);
    end_step(a, 0);
    return TLC_OK;
}

/* Reads all answers. Returns the failure of the first message at fault. *failed: an answer says that the step failed,
 * the first one as *finding tells.
 *
 * An owner with another fingerprint refused our push, and could not reduce. If others say that the step failed, it
 * needs no message that we could read; else we cannot know, and its message is at fault. */
static tlc_status read_answers(tlc_allreduce *a, const tlc_message *from, tlc_finding *finding, int *failed)
{
    const tlc_answer *first = NULL, *stranger = NULL, *bad = NULL;

    for (uint32_t i = 0; i < a->setup.owners; i++) {
        tlc_answer *answer = &a->in.answer[i];
        if (!tlc_allreduce_owns(a, i))
            continue;
        tlc_receiver_read(&a->in, i, a->step, from[i]);
        if (answer->status && answer->finding.reason == TLC_REASON_FINGERPRINT)
            stranger = stranger ? stranger : answer;
        else if (answer->status)
            bad = bad ? bad : answer;
        else if (answer->head.failed)
            first = first ? first : answer;
    }
    *failed = first != NULL;
    if (first)
        *finding = first->head.finding;
    else
        bad = bad ? bad : stranger;
    if (bad)
        *finding = bad->finding;
    return bad ? bad->status : TLC_OK;
}

/* Do all owners name the same ranks? If not, *finding tells who does not. */
static tlc_status compare_taken(tlc_allreduce *a, const uint8_t **taken, tlc_finding *finding)
{
    *taken = NULL;
    for (uint32_t i = 0; i < a->setup.owners; i++) {
        const tlc_head *head = &a->in.answer[i].head;
        if (!tlc_allreduce_owns(a, i))
            continue;
        if (!*taken)
            *taken = head->taken;
        else if (memcmp(*taken, head->taken, TLC_BITMAP(a->setup.cfg.workers)) != 0) {
            *finding = tlc_finding_of(TLC_REASON_TAKEN);
            finding->rank = i;
            return finding->cause;
        }
    }
    return TLC_OK;
}

/* frames: NULL, or for each open group. */
static tlc_status pull(tlc_allreduce *a, const tlc_message *from, void *const *out, tlc_message *frames)
{
    tlc_finding finding = tlc_finding_of(TLC_REASON_NONE);
    const uint8_t *taken = NULL;
    int failed;

    tlc_status status = tlc_receiver_check(&a->in, from, out, frames != NULL);
    if (status)
        return status;
    if (a->state == TLC_ALLREDUCE_IDLE || (tlc_allreduce_owns(a, a->setup.rank) && a->state != TLC_ALLREDUCE_REDUCED))
        return tlc_refuse_turn(&a->setup, a->state == TLC_ALLREDUCE_IDLE     ? "pull was called before push"
                                          : a->state == TLC_ALLREDUCE_PUSHED ? "pull was called before reduce"
                                                                             : "pull was called before answer");
    if (tlc_is_gather(a))
        return pull_gathered(a, from, out);
    status = read_answers(a, from, &finding, &failed);
    if (!status && !failed)
        status = compare_taken(a, &taken, &finding);
    if (status)
        return tlc_allreduce_tell(a, status, &finding);
    a->state = TLC_ALLREDUCE_REDUCED; /* that of a rank that owns nothing may be another */
    if (failed)
        return fail_step(a, &finding, tlc_allreduce_received(a, from));
    for (uint32_t i = 0; i < a->setup.owners; i++)
        if (tlc_allreduce_owns(a, i)) {
            const size_t opened = tlc_receiver_write(&a->in, i, out, frames);
            if (frames)
                frames += opened;
        }
    (void)tlc_allreduce_tell(a, TLC_OK, &finding);
    if (taken)
        tlc_allreduce_tell_taken(a, taken);
    remember(a, from);
    a->stats.received += tlc_allreduce_received(a, from);
    end_step(a, 0);
    return TLC_OK;
}

tlc_status tlc_allreduce_pull(tlc_allreduce *a, const tlc_message *from, void *const *out)
{
    return a ? pull(a, from, out, NULL) : TLC_ERR_PARAM;
}

tlc_status tlc_allreduce_pull_frames(tlc_allreduce *a, const tlc_message *from, void *const *out, tlc_message *frames)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (!frames)
        return tlc_refuse_null(&a->setup, "frames");
    if (tlc_is_gather(a))
        return tlc_refuse_turn(&a->setup, "pull_frames was called, which gather does not have,");
    return pull(a, from, out, frames);
}

tlc_status tlc_allreduce_again(const tlc_allreduce *a, uint64_t step, tlc_message *to_all)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (tlc_is_gather(a)) /* a push can be fetched as soon as it was made */
        return tlc_sender_again(&a->push.sender, a->step + (a->state == TLC_ALLREDUCE_PUSHED), step, to_all);
    if (!tlc_allreduce_owns(a, a->setup.rank))
        return tlc_refuse(&a->setup, to_all && step >= a->step ? TLC_ERR_ORDER : TLC_ERR_PARAM, TLC_ALL,
                          "again was called, but this rank owns no parts, so it makes no answers");
    return tlc_sender_again(&a->owner.answer, a->step + (a->state == TLC_ALLREDUCE_REDUCED), step, to_all);
}

tlc_status tlc_allreduce_cancel(tlc_allreduce *a)
{
    tlc_finding finding = tlc_finding_of(TLC_REASON_CANCELLED);

    if (!a)
        return TLC_ERR_PARAM;
    if (a->state == TLC_ALLREDUCE_IDLE)
        return tlc_refuse_turn(&a->setup, "cancel was called before push");
    for (uint32_t i = 0; i < a->setup.owners; i++)
        a->stats.dropped += tlc_sender_return(&a->push.sender, a->step, i);
    if (tlc_allreduce_owns(a, a->setup.rank) && a->state == TLC_ALLREDUCE_REDUCED)
        tlc_sender_undo(&a->owner.answer, a->step);
    (void)tlc_allreduce_tell(a, TLC_OK, &finding);
    end_step(a, 1);
    return TLC_OK;
}
