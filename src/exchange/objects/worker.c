/* SPDX-License-Identifier: MIT
 *
 * A worker of a parameter server (3LC, section 2): it pushes gradients, and pulls what the servers make of them.
 */
#include "../../common/structs.h"
#include "object_state.h"
#include "../sides/pushing.h"
#include "../sides/receiver.h"
#include "../plan/refusal.h"
#include "../plan/setup_make.h"
#include "../wire/message_bound.h"

struct tlc_worker {
    tlc_setup setup; /* comes first: tlc_setup_create */
    tlc_pushing push;
    tlc_receiver in;
    tlc_report *report; /* by server */
    tlc_exchange_stats stats;
    uint64_t step, history;
    int joined; /* it listens in this step */
    int *taken; /* by server: it took the last push */
};

/* ---- make -------------------------------------------------------------------------------------------------------- */

static tlc_status make(tlc_worker *w)
{
    tlc_setup *x = &w->setup;
    tlc_memory *m = &x->memory;
    uint32_t servers = x->cfg.servers;
    tlc_status status = tlc_pushing_init(&w->push, x, servers, 1);

    w->step = 1;
    x->message_bound = tlc_message_answers_bound(x);
    tlc_receiver_init(&w->in, x, servers, x->ownership.grouping[TLC_PULL].shared_n);
    tlc_receiver_open(&w->in, x);
    w->report = tlc_memory_take(m, servers, sizeof *w->report);
    w->taken = tlc_memory_take(m, servers, sizeof *w->taken);
    for (uint32_t i = 0; !m->status && i < servers; i++) {
        w->report[i].finding = tlc_finding_of(TLC_REASON_NONE);
        w->report[i].taken = tlc_memory_take(m, TLC_BITMAP(x->cfg.workers), 1);
    }
    status = status ? status : m->status;
    if (status)
        return status;
    x->report = w->report;
    x->reports = servers;
    x->step = &w->step;
    return TLC_OK;
}

tlc_status tlc_worker_create(tlc_worker **out, const tlc_exchange_config *cfg, uint32_t worker,
                             const tlc_tensor *tensors, size_t count)
{
    tlc_report report = {.step = 0};
    void *made = NULL;
    tlc_status status = tlc_setup_create(&made, sizeof **out, cfg, TLC_EXCHANGE_SERVERS, TLC_ROLE_WORKER, worker,
                                         tensors, count, &report);
    tlc_worker *w = made;

    if (!status)
        status = out ? make(w) : tlc_refuse_null(&w->setup, "the place for the object");
    status = tlc_setup_end(cfg, w ? &w->setup : NULL, status, &report);
    if (status)
        tlc_worker_destroy(w);
    else
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): calls that refuse do not return TLC_OK */
        *out = w;
    return status;
}

void tlc_worker_destroy(tlc_worker *w)
{
    if (!w)
        return;
    tlc_memory memory = w->setup.memory; /* holds w itself */
    tlc_sender_free(&w->push.sender);
    tlc_memory_free(&memory);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* The same report for all servers. Returns the status. */
static tlc_status tell_all(tlc_worker *w, tlc_status status, const tlc_finding *finding)
{
    for (uint32_t i = 0; i < w->setup.cfg.servers; i++)
        tlc_report_set(&w->report[i], w->step, status, finding);
    return status;
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

static tlc_status push(tlc_worker *w, const void *const *grads, double weight, tlc_message *to)
{
    const tlc_status status = tlc_pushing_check(&w->push, grads, weight, to);
    if (status)
        return status;
    tlc_pushing_make(&w->push, w->step, grads, weight, w->joined, &w->stats.dropped);
    const int has_frames = grads && !w->joined && w->push.finding.reason == TLC_REASON_NONE;
    for (uint32_t i = 0; i < w->setup.cfg.servers; i++) {
        w->taken[i] = 0;
        to[i] = tlc_pushing_message(&w->push, i);
        w->stats.sent += to[i].len;
        w->stats.float_bytes += has_frames ? tlc_sender_float_bytes(&w->push.sender, i) : 0;
    }
    return tell_all(w, TLC_OK, &w->push.finding);
}

tlc_status tlc_worker_push(tlc_worker *w, const void *const *grads, double weight, tlc_message *to)
{
    return w ? push(w, grads, weight, to) : TLC_ERR_PARAM;
}

tlc_status tlc_worker_push_frames(tlc_worker *w, const void *const *grads, const tlc_message *frames, double weight,
                                  tlc_message *to)
{
    if (!w)
        return TLC_ERR_PARAM;
    if (!grads || !frames)
        return tlc_refuse_null(&w->setup, grads ? "frames" : "grads");
    if (w->joined) /* a frame has no values that could wait in a residual */
        return tlc_refuse_turn(&w->setup, "push_frames was called after join, but the worker only listens");
    tlc_status status = tlc_pushing_give(&w->push, frames);
    if (status)
        return status;
    status = push(w, grads, weight, to);
    tlc_sender_forget_given(&w->push.sender);
    return status;
}

size_t tlc_worker_pushed_parts(const tlc_worker *w)
{
    return w ? w->push.open_count : 0;
}

tlc_status tlc_worker_pushed_part(const tlc_worker *w, size_t i, tlc_part *part)
{
    return w ? tlc_pushing_part(&w->push, i, part) : TLC_ERR_PARAM;
}

/* ---- pull -------------------------------------------------------------------------------------------------------- */

/* The push to server i was not taken. */
static void take_back(tlc_worker *w, uint32_t i)
{
    const tlc_outgoing *out = tlc_sender_find(&w->push.sender, w->push.step, i);

    if (out && out->bundle.len) {
        w->stats.late++;
        w->stats.dropped += tlc_sender_return(&w->push.sender, w->push.step, i);
    }
}

/* What came in a step that failed on no server. If it failed on some, they and the others know different steps. */
static void remember(tlc_worker *w, const tlc_message *from)
{
    const uint32_t servers = w->setup.cfg.servers;
    uint64_t sum = 0;
    uint32_t failed = 0;

    for (uint32_t i = 0; i < servers; i++) {
        failed += w->in.answer[i].head.failed != 0;
        sum += tlc_message_history(from[i]);
    }
    if (failed < servers)
        w->history = failed ? 0 : sum;
}

/* Ends the step as far as server i is concerned. frames: NULL, or for its open groups. Returns how many these are. */
static size_t end_step(tlc_worker *w, uint32_t i, void *const *out, tlc_message *frames)
{
    const tlc_setup *x = &w->setup;
    const tlc_head *head = &w->in.answer[i].head;
    int taken = !head->failed && (head->taken[x->rank / 8] >> x->rank % 8 & 1);
    tlc_report *r = &w->report[i];

    w->taken[i] = taken && w->push.under_way;
    if (w->push.under_way && !taken)
        take_back(w, i);
    tlc_report_set(r, w->step, head->failed ? TLC_ERR_STEP : TLC_OK, &head->finding);
    if (head->failed)
        return frames ? tlc_receiver_write_none(&w->in, i, frames) : 0;
    memcpy(r->taken, head->taken, TLC_BITMAP(x->cfg.workers));
    r->has_taken = 1;
    return tlc_receiver_write(&w->in, i, out, frames);
}

/* frames: NULL, or for each open group. */
static tlc_status pull(tlc_worker *w, const tlc_message *from, void *const *out, tlc_message *frames)
{
    const uint32_t servers = w->setup.cfg.servers;
    tlc_status status = tlc_receiver_check(&w->in, from, out, frames != NULL);

    if (status)
        return status;
    for (uint32_t i = 0; i < servers; i++) {
        tlc_receiver_read(&w->in, i, w->step, from[i]);
        status = status ? status : w->in.answer[i].status;
    }
    if (status) {
        for (uint32_t i = 0; i < servers; i++)
            tlc_report_set(&w->report[i], w->step, w->in.answer[i].status, &w->in.answer[i].finding);
        return status;
    }
    for (uint32_t i = 0; i < servers; i++) {
        w->stats.received += from[i].len;
        const size_t opened = end_step(w, i, out, frames);
        if (frames)
            frames += opened;
        status = status ? status : w->report[i].status;
    }
    remember(w, from);
    w->step++;
    w->stats.steps++;
    w->stats.failed += status != TLC_OK;
    w->push.under_way = w->joined = 0;
    return status;
}

tlc_status tlc_worker_pull(tlc_worker *w, const tlc_message *from, void *const *out)
{
    return w ? pull(w, from, out, NULL) : TLC_ERR_PARAM;
}

tlc_status tlc_worker_pull_frames(tlc_worker *w, const tlc_message *from, void *const *out, tlc_message *frames)
{
    if (!w)
        return TLC_ERR_PARAM;
    return frames ? pull(w, from, out, frames) : tlc_refuse_null(&w->setup, "frames");
}

size_t tlc_worker_pulled_parts(const tlc_worker *w)
{
    return w ? w->in.open_count : 0;
}

tlc_status tlc_worker_pulled_part(const tlc_worker *w, size_t i, tlc_part *part)
{
    return w ? tlc_receiver_part(&w->in, i, part) : TLC_ERR_PARAM;
}

tlc_status tlc_worker_mask(tlc_worker *w, float *const *momentum)
{
    if (!w)
        return TLC_ERR_PARAM;
    if (!momentum && w->setup.count)
        return tlc_refuse_null(&w->setup, "momentum");
    for (uint32_t i = 0; i < w->setup.cfg.servers; i++)
        if (w->taken[i])
            tlc_sender_mask(&w->push.sender, w->push.step, i, momentum);
    return TLC_OK;
}

tlc_status tlc_worker_join(tlc_worker *w, uint64_t step, const uint64_t *taken)
{
    const tlc_finding none = tlc_finding_of(TLC_REASON_NONE);

    if (!w)
        return TLC_ERR_PARAM;
    if (!tlc_step_starts(step))
        return tlc_refuse(&w->setup, TLC_ERR_PARAM, TLC_ALL, "join was called with step %llu; it is 1 to 2^62",
                          (unsigned long long)step);
    if (w->push.under_way && step <= w->step)
        return tlc_refuse(&w->setup, TLC_ERR_ORDER, TLC_ALL,
                          "join was called with step %llu, but the push of step %llu has no answer yet",
                          (unsigned long long)step, (unsigned long long)w->step);
    for (uint32_t i = 0; i < w->setup.cfg.servers; i++) {
        if (w->push.under_way && taken && taken[i] != w->step)
            take_back(w, i);
        w->taken[i] = 0;
    }
    w->push.under_way = 0;
    w->joined = 1;
    w->step = step;
    w->history = 0;
    return tell_all(w, TLC_OK, &none);
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

size_t tlc_worker_message_bound(const tlc_worker *w)
{
    return w ? w->setup.message_bound : 0;
}

uint64_t tlc_worker_step(const tlc_worker *w)
{
    return w ? w->step : 0;
}

uint64_t tlc_worker_history(const tlc_worker *w)
{
    return w ? w->history : 0;
}

static tlc_object object_of(const tlc_worker *w)
{
    /* the sender is only changed by loading */
    return (tlc_object){.push = (tlc_sender *)(uintptr_t)&w->push.sender,
                        .x = &w->setup,
                        .step = w->step,
                        .history = w->history};
}

tlc_status tlc_worker_set_codec(tlc_worker *w, size_t tensor, const char *codec)
{
    if (!w)
        return TLC_ERR_PARAM;
    if (!codec)
        return tlc_refuse_null(&w->setup, "codec");
    const tlc_object o = object_of(w);
    return tlc_object_set_codec(&o, tensor, codec, NULL);
}

tlc_status tlc_worker_residual_scale(tlc_worker *w, float factor)
{
    if (!w)
        return TLC_ERR_PARAM;
    if (w->push.under_way)
        return tlc_refuse_step(&w->setup, "residual_scale");
    const tlc_object o = object_of(w);
    return tlc_object_scale(&o, factor);
}

tlc_status tlc_worker_outcome(const tlc_worker *w, uint32_t server, tlc_outcome *outcome)
{
    if (!w || server >= w->setup.cfg.servers)
        return TLC_ERR_PARAM;
    return tlc_setup_outcome(&w->setup, &w->report[server], outcome);
}

tlc_status tlc_worker_stats(const tlc_worker *w, tlc_exchange_stats *stats)
{
    return w ? tlc_stats_export(&w->setup, stats, &w->stats, &w->push.sender, NULL) : TLC_ERR_PARAM;
}

size_t tlc_worker_state_size(const tlc_worker *w)
{
    if (!w)
        return 0;
    const tlc_object o = object_of(w);
    return tlc_object_state_size(&o);
}

tlc_status tlc_worker_state_save(const tlc_worker *w, void *dst, size_t cap, size_t *written)
{
    if (!w)
        return TLC_ERR_PARAM;
    if (w->push.under_way)
        return tlc_refuse_step(&w->setup, "state_save");
    const tlc_object o = object_of(w);
    return tlc_object_state_save(&o, dst, cap, written);
}

static tlc_status load(tlc_worker *w, const tlc_message *states, size_t count, int lost)
{
    if (!w)
        return TLC_ERR_PARAM;
    if (w->push.under_way)
        return tlc_refuse_step(&w->setup, "state_load");
    tlc_object o = object_of(w);
    tlc_status status = tlc_object_state_load(&o, states, count, lost);
    if (status)
        return status;
    w->step = o.step;
    w->joined = 0;
    w->history = o.history;
    return TLC_OK;
}

tlc_status tlc_worker_state_load(tlc_worker *w, const tlc_message *states, size_t count)
{
    return load(w, states, count, 0);
}

tlc_status tlc_worker_state_salvage(tlc_worker *w, const tlc_message *states, size_t count)
{
    return load(w, states, count, 1);
}
