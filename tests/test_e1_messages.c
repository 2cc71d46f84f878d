/* SPDX-License-Identifier: MIT
 *
 * E1: messages and states at fault change nothing, and the outcome says what is wrong with them. Afterwards the same
 * object takes the valid ones, with the very bytes of a twin that was left alone.
 */
#include "exchange_view.h"

enum { RANKS = 3, SHORTEST = 18 }; /* bytes: a shorter message has no place for what each must have */

/* ---- alterations ------------------------------------------------------------------------------------------------- */

/* A call that takes a message, with all else as it should be. */
typedef struct call {
    watch w;
    tlc_message from[RANKS]; /* of a pull */
    size_t turn;             /* which of them */
    tlc_status (*take)(struct call *c, tlc_message message);
} call;

static tlc_status take_push(call *c, tlc_message message)
{
    return tlc_server_push(c->w.m.server, message, NULL);
}

static tlc_status take_answer(call *c, tlc_message message)
{
    void *const *out = (void *const *)&c->w.f->out[c->w.index * TENSORS];
    tlc_message from[RANKS];

    memcpy(from, c->from, sizeof from);
    from[c->turn] = message;
    return c->w.m.rank ? tlc_allreduce_pull(c->w.m.rank, from, out) : tlc_worker_pull(c->w.m.worker, from, out);
}

static tlc_status take_state(call *c, tlc_message message)
{
    return member_load(c->w.m, message);
}

/* Every byte of a message is altered, it is cut everywhere, and a byte is added. */
static void alter_message(call *c, tlc_message valid)
{
    static const uint8_t flips[] = {0x01, 0x80, 0xff};
    uint8_t *p = bytes(valid.len + 1);

    memcpy(p, valid.data, valid.len);
    p[valid.len] = 0;
    REFUSED(&c->w, c->take(c, (tlc_message){p, valid.len + 1}), TLC_ERR_CHECKSUM);
    REFUSED(&c->w, c->take(c, (tlc_message){NULL, valid.len}), TLC_ERR_CORRUPT);
    for (size_t i = 0; i < valid.len; i += quick() ? 5 : 1) {
        at.i = i;
        REFUSED(&c->w, c->take(c, (tlc_message){p, i}), i < SHORTEST ? TLC_ERR_CORRUPT : TLC_ERR_CHECKSUM);
        for (size_t k = 0; k < COUNT(flips); k++) {
            p[i] ^= flips[k];
            REFUSED(&c->w, c->take(c, (tlc_message){p, valid.len}),
                    i == 0   ? TLC_ERR_CORRUPT
                    : i == 1 ? TLC_ERR_VERSION
                             : TLC_ERR_CHECKSUM);
            p[i] ^= flips[k];
        }
    }
    free(p);
}

/* All pushes to all servers. */
static void alter_pushes(fleet *f)
{
    for (uint32_t s = 0; s < f->cfg.servers; s++) {
        call c = {.take = take_push};
        watch_open(&c.w, f, f->owner[s], s);
        for (uint32_t w = 0; w < RANKS; w++)
            alter_message(&c, f->push[w * f->lanes + s]);
        watch_close(&c.w);
    }
}

/* All messages to all who pull. */
static void alter_answers(fleet *f)
{
    for (uint32_t w = 0; w < RANKS; w++) {
        call c = {.take = take_answer};
        for (uint32_t i = 0; i < f->lanes; i++)
            c.from[i] = is_gathered(f) ? f->push[i * f->lanes] : f->answer[i];
        watch_open(&c.w, f, f->worker[w], w);
        for (c.turn = 0; c.turn < f->lanes; c.turn++)
            alter_message(&c, c.from[c.turn]);
        watch_close(&c.w);
    }
}

static void require_same_fleets(const fleet *a, const fleet *b)
{
    for (uint32_t i = 0; i < RANKS + a->cfg.servers; i++) {
        int server = i >= RANKS;
        tlc_message one = member_save(server ? a->owner[i - RANKS] : a->worker[i]);
        tlc_message other = member_save(server ? b->owner[i - RANKS] : b->worker[i]);
        require(blob_same(one, other));
        blob_free(&one);
        blob_free(&other);
    }
    for (size_t i = 0; i < (size_t)RANKS * TENSORS; i++)
        require(same(a->out[i], b->out[i], fleet_bytes(a, i % TENSORS)));
}

static void e1_altered_messages(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet a, b;
        fleet_open(&a, &cfg, small_tensors, 1);
        fleet_open(&b, &cfg, small_tensors, 1);
        fleet_step(&a, 1);
        fleet_step(&b, 1);
        fleet_gradients(&a, 2);
        fleet_push(&a);
        alter_pushes(&a);
        fleet_reduce(&a);
        alter_answers(&a);
        fleet_pull(&a);
        require_pulled(&a, TLC_OK);
        fleet_step(&b, 2);
        require_same_fleets(&a, &b);
        fleet_close(&a);
        fleet_close(&b);
    }
}

/* ---- messages of others ------------------------------------------------------------------------------------------ */

/* What a call must return, and what its outcome must tell. */
static void misdeliver(call *c, tlc_message message, tlc_status want, uint32_t rank, const char *sentence)
{
    REFUSED(&c->w, c->take(c, message), want);
    tlc_outcome o = member_outcome(c->w.m, (uint32_t)c->turn);
    if (strcmp(o.sentence, sentence) != 0)
        print_error("\"%s\" instead of \"%s\"\n", o.sentence, sentence);
    require(!strcmp(o.sentence, sentence) && o.status == want && o.cause == want && o.rank == rank);
    require(o.tensor == TLC_ALL && !o.taken && o.step == member_step(c->w.m));
}

/* A fleet that is like another one, and in its step 3. */
static void open_like(fleet *f, const fleet *other, size_t split_n)
{
    tlc_exchange_config cfg = other->cfg;

    cfg.split_n = split_n;
    fleet_open(f, &cfg, small_tensors, 1);
    for (uint64_t step = 1; step <= 2; step++)
        fleet_step(f, step);
    fleet_gradients(f, 33);
    fleet_push(f);
    fleet_reduce(f);
}

/* Pushes at a server in step 3. */
static void e1_wrong_pushes(void **state)
{
    tlc_exchange_config cfg = fleet_config(THREE_SERVERS, RANKS, small_tensors);
    call c = {.take = take_push};
    tlc_push_info info = {.struct_size = sizeof info};
    fleet f, stranger, other;

    (void)state;
    fleet_open(&f, &cfg, small_tensors, 1);
    open_like(&stranger, &f, 48);
    open_like(&other, &f, cfg.split_n);
    for (uint64_t step = 1; step <= 2; step++)
        fleet_step(&f, step);
    fleet_gradients(&f, 3);
    fleet_push(&f);
    watch_open(&c.w, &f, f.owner[0], 0);
    misdeliver(&c, f.push[1], TLC_ERR_PARAM, 0, "the message of worker 0 is for number 1");
    misdeliver(&c, f.answer[0], TLC_ERR_PARAM, TLC_NOBODY, "the message of unknown worker is of another kind");
    misdeliver(&c, stranger.push[3], TLC_ERR_PARAM, TLC_NOBODY, "unknown worker has other tensors, codecs or settings");
    fleet_pull(&other); /* to step 4 */
    require_status(fleet_push_one(&other, 2), TLC_OK);
    misdeliver(&c, other.push[6], TLC_ERR_ORDER, 2, "worker 2 sent step 4, this is step 3");
    require_status(tlc_server_push(f.owner[0].server, f.push[0], &info), TLC_OK);
    require(!info.late && !info.repeated && info.worker == 0 && info.step == 3);
    watch_again(&c.w);
    member_move(other.worker[0], 3);
    require_status(fleet_push_one(&other, 0), TLC_OK);
    misdeliver(&c, other.push[0], TLC_ERR_ORDER, 0, "worker 0 sent two different messages for step 3");
    REFUSED(&c.w, tlc_server_push(f.owner[0].server, f.push[0], &info), TLC_OK); /* once more the same */
    require(info.repeated && !info.late);
    watch_close(&c.w);
    fleet_close(&f);
    fleet_close(&stranger);
    fleet_close(&other);
}

/* Answers at a worker or a rank in step 3, or pushes with gather. */
static void wrong_answers(fleet_kind kind)
{
    tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
    const char *who = cfg.servers ? "server" : "rank";
    tlc_message old, own;
    call c = {.take = take_answer, .turn = 1};
    fleet f, stranger;
    char text[100];

    fleet_open(&f, &cfg, small_tensors, 1);
    open_like(&stranger, &f, 48);
    fleet_step(&f, 1);
    fleet_step(&f, 2);
    old = blob_copy(kind == GATHERED ? f.push[RANKS] : f.answer[1]);
    fleet_gradients(&f, 3);
    fleet_push(&f);
    fleet_reduce(&f);
    for (uint32_t i = 0; i < f.lanes; i++)
        c.from[i] = kind == GATHERED ? f.push[i * RANKS] : f.answer[i];
    watch_open(&c.w, &f, f.worker[0], 0);
    snprintf(text, sizeof text, "the message of %s 1 was made by number 2", who);
    misdeliver(&c, c.from[2], TLC_ERR_PARAM, 1, text);
    snprintf(text, sizeof text, "no message came from %s 1", who);
    misdeliver(&c, (tlc_message){NULL, 0}, TLC_ERR_CORRUPT, 1, text);
    snprintf(text, sizeof text, "%s 1 sent step 2, this is step 3", who);
    misdeliver(&c, old, TLC_ERR_ORDER, 1, text);
    if (kind != GATHERED) {
        snprintf(text, sizeof text, "the message of %s 1 is of another kind", who);
        misdeliver(&c, f.push[f.lanes], TLC_ERR_PARAM, 1, text);
    }
    own = kind == GATHERED ? stranger.push[RANKS] : stranger.answer[1];
    snprintf(text, sizeof text, "%s 1 has other tensors, codecs or settings", who);
    misdeliver(&c, own, TLC_ERR_PARAM, 1, text);
    watch_close(&c.w);
    blob_free(&old);
    fleet_pull(&f);
    require_pulled(&f, TLC_OK);
    fleet_close(&f);
    fleet_close(&stranger);
}

static void e1_wrong_answers(void **state)
{
    (void)state;
    wrong_answers(SHARDED);
    wrong_answers(GATHERED);
    wrong_answers(THREE_SERVERS);
}

/* An owner that says that others took part than the other owners say. The first who differs is named. */
static void e1_taken(void **state)
{
    tlc_exchange_config cfg = fleet_config(SHARDED, RANKS, small_tensors);
    fleet f;
    enum { PLACE = 14 }; /* of the bits, in a small rank's answer of a small step: message.h */

    (void)state;
    fleet_open(&f, &cfg, small_tensors, 1);
    fleet_gradients(&f, 1);
    fleet_push(&f);
    fleet_reduce(&f);
    for (uint32_t liar = 0; liar < RANKS; liar++) {
        call c = {.take = take_answer, .turn = liar};
        tlc_message altered = blob_copy(f.answer[liar]);
        uint8_t *p = (uint8_t *)(uintptr_t)altered.data;
        uint32_t named = liar ? liar : 1;
        char text[100];
        memcpy(c.from, f.answer, sizeof c.from);
        require(p[PLACE] == 7);
        p[PLACE] = 5;
        blob_seal(p, altered.len);
        snprintf(text, sizeof text, "rank %u says that others took part than the rest says", named);
        watch_open(&c.w, &f, f.worker[1], 1);
        misdeliver(&c, altered, TLC_ERR_CORRUPT, named, text);
        watch_close(&c.w);
        blob_free(&altered);
    }
    fleet_pull(&f);
    require_pulled(&f, TLC_OK);
    fleet_close(&f);
}

/* ---- flags ------------------------------------------------------------------------------------------------------- */

/* No other flags make sense of the bytes of a push, or of an answer, with frames. */
static void alter_flags(call *c, tlc_message valid)
{
    enum { FLAGS = 3 }; /* their place: message.h */
    tlc_message altered = blob_copy(valid);
    uint8_t *p = (uint8_t *)(uintptr_t)altered.data;

    for (unsigned flags = 1; flags < 256; flags++) {
        at.i = flags;
        p[FLAGS] = (uint8_t)flags;
        blob_seal(p, altered.len);
        REFUSED(&c->w, c->take(c, altered), TLC_ERR_CORRUPT);
    }
    blob_free(&altered);
}

/* An answer with a weight before its bits, as a push has it. */
static void add_weight(call *c, tlc_message valid)
{
    enum { FLAGS = 3, WEIGHT = 4, PLACE = 14 }; /* message.h */
    const double weight = 1;
    uint8_t *p = bytes(valid.len + sizeof weight);

    memcpy(p, valid.data, PLACE);
    p[FLAGS] |= WEIGHT;
    memcpy(p + PLACE, &weight, sizeof weight);
    memcpy(p + PLACE + sizeof weight, (const uint8_t *)valid.data + PLACE, valid.len - PLACE);
    blob_seal(p, valid.len + sizeof weight);
    REFUSED(&c->w, c->take(c, (tlc_message){p, valid.len + sizeof weight}), TLC_ERR_CORRUPT);
    free(p);
}

/* A message with frames that ends too early, before memory that nobody may read. */
static void cut(call *c, tlc_message valid)
{
    guard_buffer guard;

    require(guard_alloc(&guard, valid.len) == 0);
    for (size_t len = 1; len < valid.len; len++) {
        uint8_t *p = guard_at_end(&guard, len);
        memcpy(p, valid.data, len);
        blob_seal(p, len);
        at.i = len;
        REFUSED(&c->w, c->take(c, (tlc_message){p, len}), TLC_ERR_CORRUPT);
    }
    guard_free(&guard);
}

/* A message without frames, in which bytes before the checksum are missing, or too many. */
static void alter_length(call *c, tlc_message valid)
{
    enum { CHECKSUM = 4 };
    uint8_t *p = bytes(valid.len + 1);

    memset(p, 0, valid.len + 1);
    memcpy(p, valid.data, valid.len - CHECKSUM);
    for (size_t len = 1; len <= valid.len + 1; len++) {
        if (len == valid.len)
            continue;
        uint8_t *copy = bytes(len);
        memcpy(copy, p, len);
        blob_seal(copy, len);
        at.i = len;
        REFUSED(&c->w, c->take(c, (tlc_message){copy, len}), TLC_ERR_CORRUPT);
        free(copy);
    }
    free(p);
}

/* Pushes that say that a gradient was dropped, or that a worker is not in the round, and the answers to them. */
static void e1_lengths(void **state)
{
    const uint32_t nan = 0x7fc00000u;

    (void)state;
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        call push = {.take = take_push}, pull = {.take = take_answer};
        fleet f;
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_gradients(&f, 1);
        memcpy(f.grad[3], &nan, sizeof nan);
        memcpy(f.grad[TENSORS + 3], &nan, sizeof nan);
        f.absent[2] = 1;
        fleet_push(&f);
        if (cfg.servers) {
            watch_open(&push.w, &f, f.owner[0], 0);
            for (uint32_t w = 0; w < RANKS; w++)
                alter_length(&push, f.push[w * f.lanes]);
            watch_close(&push.w);
        }
        fleet_reduce(&f);
        for (uint32_t i = 0; i < f.lanes; i++)
            pull.from[i] = is_gathered(&f) ? f.push[i * f.lanes] : f.answer[i];
        watch_open(&pull.w, &f, f.worker[1], 1);
        for (pull.turn = 0; pull.turn < f.lanes; pull.turn++)
            alter_length(&pull, pull.from[pull.turn]);
        watch_close(&pull.w);
        fleet_pull(&f);
        require_pulled(&f, TLC_ERR_STEP);
        fleet_close(&f);
    }
}

static void e1_flags(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        call push = {.take = take_push}, pull = {.take = take_answer};
        fleet f;
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_gradients(&f, 1);
        fleet_push(&f);
        if (cfg.servers) {
            watch_open(&push.w, &f, f.owner[0], 0);
            alter_flags(&push, f.push[f.lanes]);
            cut(&push, f.push[f.lanes]);
            watch_close(&push.w);
        }
        fleet_reduce(&f);
        for (uint32_t i = 0; i < f.lanes; i++)
            pull.from[i] = is_gathered(&f) ? f.push[i * f.lanes] : f.answer[i];
        watch_open(&pull.w, &f, f.worker[1], 1);
        alter_flags(&pull, pull.from[0]);
        cut(&pull, pull.from[0]);
        if (!is_gathered(&f))
            add_weight(&pull, pull.from[0]);
        watch_close(&pull.w);
        fleet_pull(&f);
        require_pulled(&f, TLC_OK);
        fleet_close(&f);
    }
}

/* So many workers that their bits in an answer are more bytes than the checksum behind them. */
static void e1_many_workers(void **state)
{
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "bias", .n = 4};
    const float grad[4] = {1, 2, 3, 4};
    const void *const grads[] = {grad};
    float result[4] = {0};
    void *const out[] = {result};
    tlc_exchange_config cfg;
    tlc_message push, answer;
    guard_buffer guard;
    tlc_worker *w;
    tlc_server *s;

    (void)state;
    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = 47;
    cfg.servers = 1;
    cfg.backup = 46;
    require_status(tlc_worker_create(&w, &cfg, 0, &tensor, 1), TLC_OK);
    require_status(tlc_server_create(&s, &cfg, 0, &tensor, 1), TLC_OK);
    require_status(tlc_worker_push(w, grads, 1, &push), TLC_OK);
    require_status(tlc_server_push(s, push, NULL), TLC_OK);
    require_status(tlc_server_reduce(s), TLC_OK);
    require_status(tlc_server_answer(s, NULL, &answer), TLC_OK);
    require(guard_alloc(&guard, answer.len) == 0);
    for (size_t len = 1; len <= answer.len; len++) {
        uint8_t *p = guard_at_end(&guard, len);
        tlc_message message = {p, len};
        memcpy(p, answer.data, len);
        blob_seal(p, len);
        require_status(tlc_worker_pull(w, &message, out), len < answer.len ? TLC_ERR_CORRUPT : TLC_OK);
        for (size_t i = 0; i < COUNT(result); i++)
            require(len < answer.len ? all_bytes(&result[i], sizeof *result, 0)
                                     : float_bits(result[i]) == float_bits(grad[i]));
    }
    guard_free(&guard);
    tlc_worker_destroy(w);
    tlc_server_destroy(s);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* Every byte of a state is altered, and it is cut everywhere. */
static void alter_state(fleet *f, member m, uint32_t index)
{
    enum { LEAST = 24 }; /* bytes of a state: src/exchange/object_state.c */
    call c = {.take = take_state};
    tlc_message valid = member_save(m);
    uint8_t *p = bytes(valid.len + 1);

    watch_open(&c.w, f, m, index);
    memcpy(p, valid.data, valid.len);
    p[valid.len] = 0;
    REFUSED(&c.w, c.take(&c, (tlc_message){p, valid.len + 1}), TLC_ERR_CHECKSUM);
    for (size_t i = 0; i < valid.len; i += quick() ? 5 : 1) {
        tlc_status cut = c.take(&c, (tlc_message){p, i});
        at.i = i;
        require(cut == TLC_ERR_CORRUPT || cut == TLC_ERR_CHECKSUM);
        if (i < LEAST) { /* too short to say of which version it is */
            p[4]++;
            require_status(c.take(&c, (tlc_message){p, i}), TLC_ERR_CORRUPT);
            p[4]--;
        }
        require_unchanged(&c.w);
        p[i] ^= 0x41;
        tlc_status status = c.take(&c, (tlc_message){p, valid.len});
        require(i < 4    ? status == TLC_ERR_CORRUPT
                : i == 4 ? status == TLC_ERR_VERSION
                         : status == TLC_ERR_CHECKSUM || status == TLC_ERR_CORRUPT);
        require_unchanged(&c.w);
        p[i] ^= 0x41;
    }
    require_status(c.take(&c, valid), TLC_OK);
    watch_close(&c.w);
    blob_free(&valid);
    free(p);
}

static void e1_altered_states(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet a, b;
        fleet_open(&a, &cfg, small_tensors, 1);
        fleet_open(&b, &cfg, small_tensors, 1);
        fleet_step(&a, 1);
        fleet_step(&b, 1);
        for (uint32_t w = 0; w < RANKS; w++)
            alter_state(&a, a.worker[w], w);
        for (uint32_t s = 0; s < cfg.servers; s++)
            alter_state(&a, a.owner[s], s);
        fleet_step(&a, 2);
        fleet_step(&b, 2);
        require_pulled(&a, TLC_OK);
        require_same_fleets(&a, &b);
        fleet_close(&a);
        fleet_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(e1_altered_messages),
        cmocka_unit_test(e1_wrong_pushes),
        cmocka_unit_test(e1_wrong_answers),
        cmocka_unit_test(e1_taken),
        cmocka_unit_test(e1_flags),
        cmocka_unit_test(e1_lengths),
        cmocka_unit_test(e1_many_workers),
        cmocka_unit_test(e1_altered_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
