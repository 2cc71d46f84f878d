/* SPDX-License-Identifier: MIT
 *
 * E6: nothing is lost over many steps in which whatever can go wrong does: gradients that are not finite, messages that
 * are altered, lost or late, ranks that are not in the round, steps that are cancelled, deltas that are not finite;
 * with servers workers that go away, fall behind and join. exchange_ledger.h has the books and derives the limits.
 */
#include "../support/exchange_ledger.h"
#include <math.h>

enum { WORKERS = 9, KEEP = 4, CHECK = 25 /* steps between looks at the books */ };

typedef struct course {
    fleet f;
    ledger l;
    rng r;
    uint32_t from, to;     /* whose message is at fault, and for whom; TLC_NOBODY: none is */
    uint8_t altered[8192]; /* this message; or it is lost */
    int lost;
    uint8_t slow[WORKERS][3]; /* by server: the push comes late */
    uint32_t away[WORKERS];   /* steps until the worker comes back */
    uint32_t bad_delta;       /* of this owner, or TLC_NOBODY */
    size_t failed, cancelled, repeated, late, caught_up, joined, listened, dropped; /* how often */
} course;

static int one_in(course *c, size_t n)
{
    return rng_below(&c->r, n) == 0;
}

static tlc_message spoil(course *c, tlc_message m)
{
    require(m.len && m.len <= sizeof c->altered);
    if (c->lost)
        return (tlc_message){NULL, 0};
    memcpy(c->altered, m.data, m.len);
    c->altered[rng_below(&c->r, m.len)] ^= 1;
    return (tlc_message){c->altered, m.len};
}

/* gradient *= scale; then one value may become NaN or infinite. */
static void change_gradient(fleet *f, uint32_t w, size_t t, float scale, float bad, size_t where)
{
    float *x = floats(f->tensors[t].n);

    for (size_t k = 0; k < f->tensors[t].n; k++)
        x[k] = k == where ? bad : fleet_grad(f, w, t, k) * scale;
    require_status(tlc_convert(TLC_F32, x, f->cfg.dtype, f->grad[w * TENSORS + t], f->tensors[t].n), TLC_OK);
    free(x);
}

/* Gradients of very different sizes, and weights. */
static void draw(course *c, uint64_t step)
{
    static const double weights[] = {1, 1, 0.5, 3, 0.1};
    fleet *f = &c->f;

    fleet_gradients(f, step);
    for (uint32_t w = 0; w < WORKERS; w++) {
        float scale = (float)(1 << rng_below(&c->r, 10)) * 0.3f;
        f->weight[w] = weights[rng_below(&c->r, COUNT(weights))];
        f->absent[w] = one_in(c, 8);
        for (size_t t = 0; t < TENSORS; t++)
            change_gradient(f, w, t, scale, 0, SIZE_MAX);
    }
    if (one_in(c, 20)) {
        uint32_t w = (uint32_t)rng_below(&c->r, WORKERS);
        size_t t = one_in(c, 2) ? 1 : 3;
        const float bad = one_in(c, 2) ? NAN : -INFINITY;
        change_gradient(f, w, t, 1, bad, rng_below(&c->r, f->tensors[t].n));
        c->dropped += !f->absent[w];
    }
}

/* Owners answer with deltas or means. */
static const float *const *delta_of(fleet *f, uint32_t owner)
{
    course *c = f->arg;

    if (c->bad_delta != owner && one_in(c, 4))
        return NULL;
    const float *const *delta = fleet_half(f, owner);
    if (c->bad_delta == owner && member_parts(f->owner[owner])) /* not of a rank that owns nothing */
        f->half[owner][0] = NAN;
    return delta;
}

/* ---- all-reduce -------------------------------------------------------------------------------------------------- */

static tlc_message rank_mail(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    course *c = f->arg;
    leg hit = is_gathered(f) ? TO_WORKER : TO_OWNER;

    return on == hit && from == c->from && to == c->to && message.len ? spoil(c, message) : message;
}

/* All ranks give up. */
static void cancel(course *c)
{
    for (uint32_t w = 0; w < WORKERS; w++) {
        require_status(tlc_allreduce_cancel(c->f.worker[w].rank), TLC_OK);
        ledger_settle(&c->l, w, 1);
    }
    c->cancelled++;
}

/* Pulls with all ranks. Messages at fault are fetched again. */
static void pull_all(course *c)
{
    for (uint32_t w = 0; w < WORKERS; w++) {
        tlc_status status = ledger_pull(&c->l, w);
        if (status != TLC_OK && status != TLC_ERR_STEP) {
            require(is_gathered(&c->f) && w == c->to && member_outcome(c->f.worker[w], 0).rank == c->from);
            c->from = TLC_NOBODY;
            c->repeated++;
            status = ledger_pull(&c->l, w);
        }
        require(status == c->f.pulled[0]);
    }
    c->failed += c->f.pulled[0] == TLC_ERR_STEP;
    ledger_end(&c->l, 0, 0);
}

static void rank_step(course *c)
{
    size_t give_up = rng_below(&c->r, 60); /* 0: after the pushes. 1: after the answers */

    c->from = one_in(c, 15) ? (uint32_t)rng_below(&c->r, WORKERS) : TLC_NOBODY;
    c->to = (uint32_t)rng_below(&c->r, WORKERS);
    for (uint32_t w = 0; w < WORKERS; w++)
        (void)ledger_push(&c->l, w);
    if (give_up == 0) {
        cancel(c);
        return;
    }
    c->bad_delta = one_in(c, 30) ? (uint32_t)rng_below(&c->r, WORKERS) : TLC_NOBODY;
    for (uint32_t o = 0; o < c->f.owners; o++) {
        const tlc_status status = ledger_reduce(&c->l, o);
        require(status == TLC_OK || status == TLC_ERR_STEP);
    }
    if (give_up == 1) {
        cancel(c);
        ledger_end(&c->l, 0, 1);
    } else
        pull_all(c);
}

/* ---- servers ----------------------------------------------------------------------------------------------------- */

/* Pushes that did not come are left out. Workers fetch the answer of their step. */
static tlc_message server_mail(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    course *c = f->arg;

    if (on == TO_WORKER) {
        tlc_message kept;
        require_status(tlc_server_again(f->owner[from].server, member_step(f->worker[to]), &kept), TLC_OK);
        return kept;
    }
    if (c->l.worker[from].step != member_step(f->owner[to]) || c->slow[from][to])
        return (tlc_message){NULL, 0};
    return from == c->from && to == c->to ? spoil(c, message) : message;
}

/* Pushes that come when their step is over: they change nothing. */
static void come_late(course *c)
{
    const fleet *f = &c->f;

    for (uint32_t w = 0; w < WORKERS; w++)
        for (uint32_t s = 0; s < f->cfg.servers; s++) {
            tlc_push_info info = {.struct_size = sizeof info};
            if (!c->slow[w][s] || !c->l.worker[w].step)
                continue;
            require_status(tlc_server_push(f->owner[s].server, f->push[w * f->lanes + s], &info), TLC_OK);
            require(info.late && !info.repeated && info.worker == w && info.step + 1 == member_step(f->owner[s]));
            c->late++;
        }
}

/* A worker comes back. It takes the answers that are kept, or a new model. */
static void come_back(course *c, uint32_t w)
{
    const fleet *f = &c->f;
    uint64_t now = member_step(f->owner[0]), taken[3] = {0};
    worker_book *b = &c->l.worker[w];

    if (now - member_step(f->worker[w]) <= KEEP) {
        while (member_step(f->worker[w]) < now)
            (void)ledger_pull(&c->l, w);
        c->caught_up++;
        return;
    }
    for (uint32_t s = 0; s < f->cfg.servers; s++) {
        require_status(tlc_server_taken(f->owner[s].server, w, &taken[s]), TLC_OK);
        require(!b->step || (taken[s] == b->step) == b->counts[s]);
    }
    require_status(tlc_worker_join(f->worker[w].worker, now, taken), TLC_OK);
    ledger_settle(&c->l, w, 0);
    c->joined++;
    c->listened += !f->absent[w];
}

static void server_step(course *c)
{
    fleet *f = &c->f;

    c->from = one_in(c, 10) ? 1 + (uint32_t)rng_below(&c->r, WORKERS - 1) : TLC_NOBODY;
    c->to = (uint32_t)rng_below(&c->r, f->cfg.servers);
    c->bad_delta = one_in(c, 30) ? (uint32_t)rng_below(&c->r, f->cfg.servers) : TLC_NOBODY;
    for (uint32_t w = 0; w < WORKERS; w++) {
        if (c->away[w] && --c->away[w] == 0)
            come_back(c, w);
        if (c->away[w])
            continue;
        (void)ledger_push(&c->l, w);
        for (uint32_t s = 0; s < f->cfg.servers; s++)
            c->slow[w][s] = w && one_in(c, 12);
        if (w && one_in(c, 15)) /* its push is on its way */
            c->away[w] = 1 + (uint32_t)rng_below(&c->r, 2 * KEEP);
    }
    for (uint32_t s = 0; s < f->cfg.servers; s++)
        (void)ledger_reduce(&c->l, s);
    come_late(c);
    for (uint32_t w = 0; w < WORKERS; w++)
        if (!c->away[w])
            (void)ledger_pull(&c->l, w);
    c->failed += f->pulled[0] == TLC_ERR_STEP;
    ledger_end(&c->l, 0, 0);
    for (uint32_t w = 0; w < WORKERS; w++)
        memset(c->slow[w], 0, sizeof c->slow[w]);
}

/* ---- the runs ---------------------------------------------------------------------------------------------------- */

static void run(fleet_kind kind, const char *codec, tlc_dtype dtype, uint64_t seed)
{
    static course c;
    uint64_t steps = quick() ? 100 : 1000;
    tlc_exchange_config cfg = fleet_config(kind, WORKERS, small_tensors);

    c = (course){.r = {seed}};
    cfg.push = at.codec = codec;
    cfg.dtype = at.dtype = dtype;
    cfg.reserve = "3lc"; /* all tensors have residuals */
    cfg.keep = KEEP;
    cfg.backup = kind >= ONE_SERVER ? 2 : 0;
    cfg.sum = (int)(seed % 2);
    fleet_open(&c.f, &cfg, small_tensors, 1);
    ledger_open(&c.l, &c.f);
    c.f.arg = &c;
    c.f.via = kind >= ONE_SERVER ? server_mail : rank_mail;
    c.f.delta = delta_of;
    for (uint64_t step = 1; step <= steps; step++) {
        at.n = (size_t)step;
        draw(&c, seed * 5000 + step);
        c.lost = one_in(&c, 2);
        if (kind >= ONE_SERVER)
            server_step(&c);
        else
            rank_step(&c);
        if (step % CHECK == 0)
            ledger_check(&c.l);
    }
    require(c.l.means > steps / 3);
    if (!quick()) { /* all of these happened */
        require(c.dropped && c.failed && (kind != GATHERED || c.repeated));
        require(kind >= ONE_SERVER ? c.late && c.caught_up && c.joined && c.listened : c.cancelled);
    }
    ledger_close(&c.l);
    fleet_close(&c.f);
}

static void e6(fleet_kind kind)
{
    static const char *const texts[] = {"3lc", "3lc-golomb", "sbc:p=0.1", "topk:p=0.1,bits=2+golomb", "onebit", "raw"};

    for (size_t i = 0; i < COUNT(texts); i++)
        run(kind, texts[i], dtypes[(i + (size_t)kind) % 3], 10 * (uint64_t)kind + i);
}

TEST(e6_sharded)
{
    e6(SHARDED);
}

TEST(e6_gathered)
{
    e6(GATHERED);
}

TEST(e6_one_server)
{
    e6(ONE_SERVER);
}

TEST(e6_three_servers)
{
    e6(THREE_SERVERS);
}
