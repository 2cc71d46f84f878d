/* SPDX-License-Identifier: MIT */
#include "exchange_view.h"

static void add_state(watch *w)
{
    size_t size = member_state_size(w->m), written = 0;
    uint8_t *state = bytes(size);

    add_number(&w->seen, (uint64_t)MEMBER(w->m, state_save, state, size, &written));
    add_bytes(&w->seen, state, written);
    free(state);
}

static void add_stats(watch *w)
{
    const tlc_exchange_stats s = member_stats(w->m);
    const uint64_t numbers[] = {s.steps, s.failed, s.late, s.float_bytes, s.sent, s.received, s.dropped};

    add_bytes(&w->seen, numbers, sizeof numbers);
}

static void add_parts(watch *w)
{
    for (size_t i = 0; i < member_parts(w->m); i++) {
        tlc_part part = member_part(w->m, i);
        add_bytes(&w->seen, part.mean, part.n * sizeof *part.mean);
        if (part.residual)
            add_bytes(&w->seen, part.residual, part.n * sizeof *part.residual);
    }
}

/* Messages that can be fetched again. */
static void add_kept(watch *w)
{
    for (uint64_t back = 0, step = member_step(w->m); back < 6 && back < step; back++) {
        tlc_message kept = {NULL, 0};
        tlc_status status = w->m.rank ? tlc_allreduce_again(w->m.rank, step - back, &kept)
                                      : tlc_server_again(w->m.server, step - back, &kept);
        add_number(&w->seen, (uint64_t)status);
        add_bytes(&w->seen, kept.data, kept.len);
    }
}

static void add_server(watch *w)
{
    uint64_t taken;

    add_number(&w->seen, (uint64_t)tlc_server_ready(w->m.server));
    for (uint32_t i = 0; i < w->f->workers; i++) {
        require_status(tlc_server_taken(w->m.server, i, &taken), TLC_OK);
        add_number(&w->seen, taken);
    }
}

static void add_worker(watch *w)
{
    const fleet *f = w->f;

    for (size_t t = 0; t < TENSORS; t++) {
        size_t i = w->index * TENSORS + t;
        add_bytes(&w->seen, f->out[i], fleet_bytes(f, t));
        add_bytes(&w->seen, f->grad[i], fleet_bytes(f, t));
        if (f->residual)
            add_bytes(&w->seen, f->residual[i], f->tensors[t].n * sizeof(float));
    }
    for (uint32_t i = 0; i < f->lanes; i++) {
        tlc_message m = f->push[w->index * f->lanes + i];
        add_bytes(&w->seen, m.data, m.len);
    }
}

static void look(watch *w)
{
    w->seen.len = 0;
    add_number(&w->seen, member_step(w->m));
    add_stats(w);
    add_state(w);
    add_parts(w);
    if (!w->m.worker)
        add_kept(w);
    if (w->m.server)
        add_server(w);
    else
        add_worker(w);
}

void watch_open(watch *w, fleet *f, member m, uint32_t index)
{
    *w = (watch){.f = f, .m = m, .index = index};
    look(w);
}

void watch_close(watch *w)
{
    free(w->seen.p);
}

void watch_again(watch *w)
{
    look(w);
}

void require_unchanged(watch *w)
{
    tlc_message before = blob_copy((tlc_message){w->seen.p, w->seen.len});

    look(w);
    require(blob_same(before, (tlc_message){w->seen.p, w->seen.len}));
    blob_free(&before);
}

tlc_status take_push(call *c, tlc_message message)
{
    return tlc_server_push(c->w.m.server, message, NULL);
}

tlc_status take_answer(call *c, tlc_message message)
{
    void *const *out = (void *const *)&c->w.f->out[c->w.index * TENSORS];
    tlc_message from[MOST_SENDERS];

    memcpy(from, c->from, sizeof from);
    from[c->turn] = message;
    return member_pull(c->w.m, from, out);
}

tlc_status take_state(call *c, tlc_message message)
{
    return member_load(c->w.m, message);
}
