/* SPDX-License-Identifier: MIT
 *
 * E2: if one fails, all who wait for it know in the same step, with the same cause, and nothing is lost. The books of
 * exchange_ledger.h are checked after each failure: frames go back to those who pushed, unless the owner of their parts
 * has reduced them; then they are in the residual of the owner. Afterwards all go on.
 */
#include "../support/exchange_scene.h"
#include <threelc/bundle.h>
#include <math.h>

static uint8_t taken_by(member m, uint32_t server)
{
    tlc_outcome o = member_outcome(m, server);

    require(o.taken && o.workers == RANKS);
    return *o.taken;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* What the push of `who` tells its caller, before anybody else knows. */
static void require_dropped(scene *s, uint32_t who, const want *told)
{
    want early = *told;
    char *end = strstr(early.sentence, ", says");

    early.status = TLC_OK;
    if (end)
        *end = 0;
    require_status(ledger_push(&s->l, who), TLC_OK);
    require_outcome(s->f.worker[who], 0, &early);
    require_outcome(s->f.worker[who], s->f.cfg.servers ? s->f.cfg.servers - 1 : 0, &early);
}

/* A step in which the push of `who` is dropped. In an all-reduce all fail. Servers go on. */
static void dropped_push(scene *s, uint32_t who, const want *told)
{
    fleet *f = &s->f;

    fleet_wipe(f);
    require_dropped(s, who, told);
    for (uint32_t w = 0; w < RANKS; w++)
        if (w != who)
            (void)ledger_push(&s->l, w);
    for (uint32_t o = 0; o < f->owners; o++)
        require_status(ledger_reduce(&s->l, o), TLC_OK);
    for (uint32_t w = 0; w < RANKS; w++)
        (void)ledger_pull(&s->l, w);
    ledger_end(&s->l, 0, 0);
    require_pulled(f, told->status);
    each_outcome(s, told);
    require_steps(s, 1, told->status != TLC_OK);
    for (uint32_t o = 0; o < f->owners; o++)
        require((member_outcome(f->owner[o], 0).taken != NULL) == (f->cfg.servers != 0));
    for (uint32_t i = 0; i < f->cfg.servers; i++)
        require(taken_by(f->worker[0], i) == (7 ^ 1 << who) && taken_by(f->owner[i], 0) == (7 ^ 1 << who));
}

TEST(e2_gradient)
{
    static const size_t tensors[] = {0, CONV, WIDE, OWN, GAIN};
    size_t turn = 0;

    FOR_EACH_KIND(kind)
        for (uint32_t who = 0; who < RANKS; who++)
            for (size_t i = 0; i < COUNT(tensors); i++, turn++) {
                tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
                want told = {cfg.servers ? TLC_OK : TLC_ERR_STEP, TLC_ERR_NONFINITE, who, tensors[i], ""};
                scene s;
                scene_open(&s, &cfg, small_tensors);
                fleet_gradients(&s.f, 3);
                poison(&s.f, who, tensors[i], turn % 2 ? NAN : turn % 4 ? INFINITY : -INFINITY);
                snprintf(told.sentence, sizeof told.sentence,
                         "%s %u: NaN or infinity in the gradient of tensor \"%s\"%s", role(&s.f), who,
                         s.f.tensors[told.tensor].name, says(&s.f, who, 0));
                dropped_push(&s, who, &told);
                scene_close(&s);
            }
}

/* value: in the gradient and in the residual of one tensor. Their sum cannot be sent. */
static void residual_and_gradient(fleet_kind kind, tlc_dtype dtype, uint32_t who, size_t tensor, float value)
{
    tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
    want told = {cfg.servers ? TLC_OK : TLC_ERR_STEP, TLC_ERR_NONFINITE, who, tensor, ""};
    scene s;

    cfg.dtype = dtype;
    scene_open(&s, &cfg, small_tensors);
    fleet_gradients(&s.f, 3);
    grow(&s, who, tensor, value);
    require_status(tlc_convert(TLC_F32, &value, dtype, s.f.grad[who * TENSORS + tensor], 1), TLC_OK);
    snprintf(told.sentence, sizeof told.sentence, "%s %u: residual + gradient of tensor \"%s\" is not finite%s",
             role(&s.f), who, s.f.tensors[told.tensor].name, says(&s.f, who, 0));
    dropped_push(&s, who, &told);
    grow(&s, who, tensor, 0);
    scene_close(&s);
}

TEST(e2_residual_and_gradient)
{
    static const size_t tensors[] = {0, CONV, WIDE, OWN, GAIN};

    FOR_EACH_KIND(kind)
        for (uint32_t who = 0; who < RANKS; who++)
            for (size_t i = 0; i < COUNT(tensors); i++) {
                residual_and_gradient(kind, TLC_F32, who, tensors[i], 2e38f);
                if (tensors[i] == 0 || tensors[i] == GAIN) /* they are raw, in one frame: 2 * 6e4 is no f16 */
                    residual_and_gradient(kind, TLC_F16, who, tensors[i], 6e4f);
            }
}

/* ---- pushes that do not arrive ----------------------------------------------------------------------------------- */

typedef enum fate { ALTERED, LOST, STALE, FATES } fate;

/* What happens to the push of `from` on its way to `to`. */
typedef struct accident {
    uint32_t from, to; /* to RANKS: to all */
    fate what;
    tlc_message old[RANKS]; /* by owner: the push of the step before */
    uint8_t copy[4096];
} accident;

static tlc_message happen(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    accident *a = f->arg;

    if (on != TO_OWNER || from != a->from || (to != a->to && a->to != RANKS) || !message.len)
        return message;
    require(message.len <= sizeof a->copy);
    memcpy(a->copy, message.data, message.len);
    a->copy[message.len / 2] ^= 0x10;
    if (a->what == STALE)
        return a->old[to];
    return a->what == LOST ? (tlc_message){NULL, 0} : (tlc_message){a->copy, message.len};
}

static want describe(const fleet *f, const accident *a)
{
    static const tlc_status causes[] = {TLC_ERR_CHECKSUM, TLC_ERR_CORRUPT, TLC_ERR_ORDER};
    const char *end = says(f, a->from, a->to == RANKS ? 0 : a->to); /* the first who tells */
    want told = {TLC_ERR_STEP, causes[a->what], a->from, TLC_ALL, ""};
    size_t size = sizeof told.sentence;

    if (a->what == ALTERED)
        snprintf(told.sentence, size, "the message of %s %u has a wrong checksum%s", role(f), a->from, end);
    else if (a->what == LOST)
        snprintf(told.sentence, size, "no message came from %s %u%s", role(f), a->from, end);
    else
        snprintf(told.sentence, size, "%s %u sent step 2, this is step 3%s", role(f), a->from, end);
    return told;
}

/* One owner does not get a push. */
static void missed_push(fleet_kind kind, uint32_t owners, accident *a)
{
    tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
    want told;
    scene s;

    cfg.owners = owners;
    scene_open(&s, &cfg, small_tensors);
    for (uint32_t o = 0; o < s.f.lanes; o++)
        a->old[o] = blob_copy(s.f.push[a->from * s.f.lanes + o]);
    s.f.via = happen;
    s.f.arg = a;
    ledger_step(&s.l, 3);
    told = describe(&s.f, a);
    if (!cfg.servers) {
        require_pulled(&s.f, TLC_ERR_STEP);
        each_outcome(&s, &told);
        require_steps(&s, 1, 1);
        for (uint32_t o = 0; o < RANKS; o++) /* the others have reduced */
            require(s.l.ok[o] == (o != a->to && a->to != RANKS && (o < owners || !owners)));
    } else {
        require_pulled(&s.f, TLC_OK);
        require_steps(&s, 1, 0);
        for (uint32_t o = 0; o < cfg.servers; o++) {
            int missed = o == a->to || a->to == RANKS;
            require_status(s.f.came[o * RANKS + a->from], missed && a->what != STALE ? told.cause : TLC_OK);
            require(taken_by(s.f.worker[0], o) == (missed ? 7 ^ 1 << a->from : 7));
            require(member_stats(s.f.owner[o]).late == (missed && a->what == STALE));
        }
        require(member_stats(s.f.worker[a->from]).late == (a->to == RANKS ? cfg.servers : 1));
    }
    scene_close(&s);
    for (uint32_t o = 0; o < s.f.lanes; o++)
        blob_free(&a->old[o]);
}

TEST(e2_push_to_one_owner)
{
    FOR_EACH_KIND(kind)
        for (uint32_t from = 0; from < RANKS; from++)
            for (uint32_t to = 0; to <= RANKS; to += kind == ONE_SERVER ? RANKS : 1)
                for (fate what = ALTERED; what < FATES && kind != GATHERED; what++) {
                    accident a = {.from = from, .to = to, .what = what};
                    missed_push(kind, 0, &a);
                    if (kind == SHARDED && (to < 2 || to == RANKS)) /* rank 2 owns nothing */
                        missed_push(kind, 2, &a);
                }
}

/* With gather each rank fetches what it did not get. */
static tlc_message happen_to_one(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    return happen(f, on == TO_WORKER ? TO_OWNER : TO_WORKER, from, to, message);
}

TEST(e2_gathered_push)
{
    for (uint32_t from = 0; from < RANKS; from++)
        for (uint32_t to = 0; to < RANKS; to++)
            for (fate what = ALTERED; what < FATES; what++) {
                tlc_exchange_config cfg = fleet_config(GATHERED, RANKS, small_tensors);
                accident a = {.from = from, .to = to, .what = what};
                want told;
                scene s;
                scene_open(&s, &cfg, small_tensors);
                a.old[to] = blob_copy(s.f.push[from * RANKS]);
                s.f.via = happen_to_one;
                s.f.arg = &a;
                ledger_step(&s.l, 3);
                told = describe(&s.f, &a);
                told.status = told.cause;
                for (uint32_t w = 0; w < RANKS; w++)
                    require_status(s.f.pulled[w], w == to ? told.cause : TLC_OK);
                require_outcome(s.f.worker[to], 0, &told);
                s.f.via = NULL;
                require_status(ledger_pull(&s.l, to), TLC_OK);
                require_pulled(&s.f, TLC_OK);
                require_steps(&s, 1, 0);
                scene_close(&s);
                blob_free(&a.old[to]);
            }
}

/* One rank has dropped its gradient, and the message of a later rank does not arrive: the message is at fault. */
TEST(e2_gathered_twice)
{
    tlc_exchange_config cfg = fleet_config(GATHERED, RANKS, small_tensors);
    accident a = {.from = 2, .to = 1, .what = ALTERED};
    want told;
    scene s;

    scene_open(&s, &cfg, small_tensors);
    fleet_gradients(&s.f, 3);
    poison(&s.f, 0, CONV, NAN);
    s.f.via = happen_to_one;
    s.f.arg = &a;
    for (uint32_t w = 0; w < RANKS; w++)
        (void)ledger_push(&s.l, w);
    fleet_wipe(&s.f);
    told = describe(&s.f, &a);
    told.status = told.cause;
    for (uint32_t w = 0; w < RANKS; w++)
        require_status(ledger_pull(&s.l, w), w == 1 ? told.cause : TLC_ERR_STEP);
    require_outcome(s.f.worker[1], 0, &told);
    s.f.via = NULL;
    require_status(ledger_pull(&s.l, 1), TLC_ERR_STEP);
    require_steps(&s, 1, 1);
    scene_close(&s);
}

/* All that is left is to cancel the step. */
static void cancel_all(scene *s)
{
    for (uint32_t w = 0; w < RANKS; w++) {
        require_status(tlc_allreduce_cancel(s->f.worker[w].rank), TLC_OK);
        ledger_settle(&s->l, w, 1);
    }
    ledger_end(&s->l, 0, 1);
}

/* ---- frames that are none ---------------------------------------------------------------------------------------- */

/* Alters the first frame in a message, which is of "conv". Returns what its decoder says. */
static tlc_status break_frame(const fleet *f, leg on, uint8_t *message, size_t len)
{
    const size_t head = on == TO_OWNER && is_gathered(f) ? 14 : 15; /* of these small numbers: format.md */
    float out[17];
    tlc_bundle_reader r;
    const void *frame;
    size_t size;

    require(small_tensors[CONV].n == COUNT(out));
    require_status(tlc_bundle_open(&r, message + head, len - head - 4), TLC_OK);
    require_status(tlc_bundle_next(&r, &frame, &size), TLC_OK);
    message[(const uint8_t *)frame - message] ^= 0xff;
    blob_seal(message, len);
    return tlc_decompress(frame, size, TLC_F32, out, COUNT(out), NULL);
}

static tlc_status broken;

static tlc_message break_push(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    static uint8_t copy[4096];
    leg hit = is_gathered(f) ? TO_WORKER : TO_OWNER;

    (void)to;
    if (on != hit || from != 1 || !message.len)
        return message;
    require(message.len <= sizeof copy);
    memcpy(copy, message.data, message.len);
    broken = break_frame(f, TO_OWNER, copy, message.len);
    require(broken != TLC_OK);
    return (tlc_message){copy, message.len};
}

/* The checksum of a push is right, but a frame in it is bad. It is found when it is decoded. */
TEST(e2_bad_push_frame)
{
    for (fleet_kind kind = SHARDED; kind <= ONE_SERVER; kind++) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        scene s;
        cfg.owners = kind == SHARDED;
        scene_open(&s, &cfg, small_tensors);
        s.f.via = break_push;
        ledger_step(&s.l, 3);
        want told = {cfg.servers ? TLC_OK : TLC_ERR_STEP, broken, 1, CONV, ""};
        snprintf(told.sentence, sizeof told.sentence, "%s 1: a bad frame of tensor \"conv\": %s%s", role(&s.f),
                 tlc_status_string(broken), says(&s.f, 1, 0));
        if (kind == GATHERED) { /* everybody fetches it again, but it is no better */
            told.status = broken;
            require_pulled(&s.f, broken);
            each_outcome(&s, &told);
            cancel_all(&s);
        } else {
            require_pulled(&s.f, told.status);
            each_outcome(&s, &told);
            require(!cfg.servers || (taken_by(s.f.worker[1], 0) == 5 && s.f.came[1] == TLC_OK));
        }
        scene_close(&s);
    }
}

/* A bad frame in an answer fails the pull, until the answer comes as it is. */
TEST(e2_bad_answer_frame)
{
    for (fleet_kind kind = SHARDED; kind <= ONE_SERVER; kind++) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        scene s;
        if (kind == GATHERED)
            continue;
        cfg.owners = kind == SHARDED;
        scene_open(&s, &cfg, small_tensors);
        fleet_gradients(&s.f, 3);
        for (uint32_t w = 0; w < RANKS; w++)
            (void)ledger_push(&s.l, w);
        for (uint32_t o = 0; o < s.f.owners; o++)
            require_status(ledger_reduce(&s.l, o), TLC_OK);
        fleet_wipe(&s.f);
        tlc_message good = s.f.answer[0], bad = blob_copy(good);
        broken = break_frame(&s.f, TO_WORKER, (uint8_t *)(uintptr_t)bad.data, bad.len);
        want told = {broken, broken, 0, CONV, ""};
        snprintf(told.sentence, sizeof told.sentence, "%s 0: a bad frame of tensor \"conv\": %s",
                 cfg.servers ? "server" : "rank", tlc_status_string(broken));
        s.f.answer[0] = bad;
        for (uint32_t w = 0; w < RANKS; w++)
            require_status(ledger_pull(&s.l, w), broken);
        require_pulled(&s.f, broken);
        each_outcome(&s, &told);
        s.f.answer[0] = good;
        for (uint32_t w = 0; w < RANKS; w++)
            require_status(ledger_pull(&s.l, w), TLC_OK);
        ledger_end(&s.l, 0, 0);
        require_steps(&s, 1, 0);
        blob_free(&bad);
        scene_close(&s);
    }
}

/* ---- ranks that do not fit --------------------------------------------------------------------------------------- */

/* Another object takes the place of rank `who`, with the same state. */
static void replace(scene *s, uint32_t who, const tlc_exchange_config *cfg)
{
    tlc_message was = member_save(s->f.worker[who]);

    member_destroy(s->f.worker[who]);
    s->f.worker[who] = (member){.rank = NULL};
    require_status(fleet_make(&s->f, cfg, who, 0, &s->f.worker[who]), TLC_OK);
    require_status(member_load(s->f.worker[who], was), TLC_OK);
    s->steps[who] = s->failed[who] = 0;
    blob_free(&was);
}

TEST(e2_other_settings)
{
    for (fleet_kind kind = SHARDED; kind <= GATHERED; kind++)
        for (uint32_t who = 0; who < RANKS; who++) {
            tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors), other = cfg;
            scene s;
            scene_open(&s, &cfg, small_tensors);
            other.split_n++;
            replace(&s, who, &other);
            ledger_step(&s.l, 3);
            require_pulled(&s.f, kind == SHARDED ? TLC_ERR_STEP : TLC_ERR_PARAM);
            for (uint32_t w = 0; w < RANKS; w++) {
                tlc_outcome o = member_outcome(s.f.worker[w], 0);
                require(o.cause == TLC_ERR_PARAM && o.tensor == TLC_ALL);
                require(w == who ? o.rank != who : o.rank == who);
                require(strstr(o.sentence, " has other tensors, codecs or settings") != NULL);
            }
            if (kind == GATHERED)
                cancel_all(&s);
            replace(&s, who, &cfg);
            scene_close(&s);
        }
}

/* A rank in another step fails the step of the others. If it is an owner they wait for its answer, until all cancel. */
TEST(e2_other_step)
{
    for (uint32_t owners = 2; owners <= RANKS; owners++) {
        tlc_exchange_config cfg = fleet_config(SHARDED, RANKS, small_tensors);
        const uint32_t who = RANKS - 1;
        scene s;
        cfg.owners = owners;
        scene_open(&s, &cfg, small_tensors);
        member_move(s.f.worker[who], 4);
        ledger_step(&s.l, 3);
        for (uint32_t w = 0; w < RANKS; w++) {
            tlc_outcome o = member_outcome(s.f.worker[w], 0);
            int ended = owners == 2 && w != who;
            at.i = w;
            require_status(s.f.pulled[w], ended ? TLC_ERR_STEP : TLC_ERR_ORDER);
            require(o.cause == TLC_ERR_ORDER && (w == who ? o.rank != who : o.rank == who));
            if (!ended) {
                require_status(tlc_allreduce_cancel(s.f.worker[w].rank), TLC_OK);
                ledger_settle(&s.l, w, 1);
            }
        }
        ledger_check(&s.l);
        member_move(s.f.worker[who], 4);
        scene_close(&s);
    }
}
