/* SPDX-License-Identifier: MIT
 *
 * E1: messages and states that were altered or cut change nothing. Afterwards the same object takes the right ones,
 * with the very bytes of a twin that was left alone.
 */
#include "../support/exchange_view.h"

enum { RANKS = MOST_SENDERS, SHORTEST = 18 }; /* bytes: a shorter message has no place for what each must have */

/* ---- twins ------------------------------------------------------------------------------------------------------- */

static void require_same_fleets(const fleet *a, const fleet *b)
{
    for (uint32_t i = 0; i < RANKS + a->cfg.servers; i++) {
        int server = i >= RANKS;
        require_same_states(server ? a->owner[i - RANKS] : a->worker[i], server ? b->owner[i - RANKS] : b->worker[i]);
    }
    for (size_t i = 0; i < (size_t)RANKS * TENSORS; i++)
        require(same(a->out[i], b->out[i], fleet_bytes(a, i % TENSORS)));
}

/* Two fleets after a step. One will be left alone. */
static void open_twins(fleet *a, fleet *b, fleet_kind kind)
{
    tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);

    fleet_open(a, &cfg, small_tensors, 1);
    fleet_open(b, &cfg, small_tensors, 1);
    fleet_step(a, 1);
    fleet_step(b, 1);
}

/* After step 2 of both. */
static void close_twins(fleet *a, fleet *b)
{
    require_pulled(a, TLC_OK);
    require_same_fleets(a, b);
    fleet_close(a);
    fleet_close(b);
}

/* ---- one message ------------------------------------------------------------------------------------------------- */

/* Gives altered forms of a valid message to a call. */
typedef void altering(call *c, tlc_message valid);

/* Of the push of a worker to a server, if there are servers. */
static void alter_push(fleet *f, uint32_t server, uint32_t worker, altering *alter)
{
    call c = {.take = take_push};

    if (server >= f->cfg.servers)
        return;
    watch_open(&c.w, f, f->owner[server], server);
    alter(&c, f->push[worker * f->lanes + server]);
    watch_close(&c.w);
}

/* Of the message of an owner (with gather: the push of a rank) to one who pulls. */
static void alter_answer(fleet *f, uint32_t worker, uint32_t owner, altering *alter)
{
    call c = {.take = take_answer, .turn = owner};

    for (uint32_t i = 0; i < f->lanes; i++)
        c.from[i] = is_gathered(f) ? f->push[i * f->lanes] : f->answer[i];
    watch_open(&c.w, f, f->worker[worker], worker);
    alter(&c, c.from[owner]);
    watch_close(&c.w);
}

/* ---- any byte ---------------------------------------------------------------------------------------------------- */

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

TEST(e1_altered_messages)
{
    FOR_EACH_KIND(kind) {
        fleet a, b;
        open_twins(&a, &b, kind);
        fleet_gradients(&a, 2);
        fleet_push(&a);
        for (uint32_t w = 0; w < RANKS; w++)
            for (uint32_t server = 0; server < a.cfg.servers; server++)
                alter_push(&a, server, w, alter_message);
        fleet_reduce(&a);
        for (uint32_t w = 0; w < RANKS; w++)
            for (uint32_t owner = 0; owner < a.lanes; owner++)
                alter_answer(&a, w, owner, alter_message);
        fleet_pull(&a);
        fleet_step(&b, 2);
        close_twins(&a, &b);
    }
}

/* ---- with a right checksum --------------------------------------------------------------------------------------- */

/* No other flags make sense of the bytes of a push, or of an answer, with frames. */
static void alter_flags(call *c, tlc_message valid)
{
    enum { FLAGS = 3 }; /* their place: format.md */
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

/* An answer with a weight before its bits, as in a push. */
static void add_weight(call *c, tlc_message valid)
{
    enum { FLAGS = 3, WEIGHT = 4, PLACE = 14 }; /* format.md */
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

/* An answer without frames, as a push of a worker that is not in the round is. */
static void say_absent(call *c, tlc_message valid)
{
    enum { FLAGS = 3, ABSENT = 2, PLACE = 14, CHECKSUM = 4 }; /* format.md */
    uint8_t p[PLACE + CHECKSUM];

    memcpy(p, valid.data, PLACE);
    p[FLAGS] = ABSENT;
    blob_seal(p, sizeof p);
    REFUSED(&c->w, c->take(c, (tlc_message){p, sizeof p}), TLC_ERR_CORRUPT);
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
TEST(e1_lengths)
{
    const uint32_t nan = 0x7fc00000u;

    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet f;
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_gradients(&f, 1);
        memcpy(f.grad[3], &nan, sizeof nan);
        memcpy(f.grad[TENSORS + 3], &nan, sizeof nan);
        f.absent[2] = 1;
        fleet_push(&f);
        for (uint32_t w = 0; w < RANKS; w++)
            alter_push(&f, 0, w, alter_length);
        fleet_reduce(&f);
        for (uint32_t owner = 0; owner < f.lanes; owner++)
            alter_answer(&f, 1, owner, alter_length);
        fleet_pull(&f);
        require_pulled(&f, TLC_ERR_STEP);
        fleet_close(&f);
    }
}

/* A message that says why there are no frames. */
static void alter_finding(call *c, tlc_message valid)
{
    enum { CAUSE, REASON, RANK, TENSOR, PLACE = 14 };    /* format.md */
    const size_t begin = PLACE + (c->take == take_push); /* after the receiver */
    static const struct {
        size_t field;
        uint8_t value;
    } wrong[] = {{CAUSE, TLC_OK}, {CAUSE, TLC_ERR_ORDER + 1}, {REASON, 0}, {REASON, 0x7f}, {TENSOR, TENSORS + 1}};

    for (size_t i = 0; i < COUNT(wrong); i++) {
        tlc_message altered = blob_copy(valid);
        uint8_t *p = (uint8_t *)(uintptr_t)altered.data;
        require(p[begin + CAUSE] == TLC_ERR_NONFINITE && p[begin + RANK] == 2 && p[begin + TENSOR] == TENSORS);
        p[begin + wrong[i].field] = wrong[i].value;
        blob_seal(p, altered.len);
        at.i = i;
        REFUSED(&c->w, c->take(c, altered), TLC_ERR_CORRUPT);
        blob_free(&altered);
    }
}

/* Rank 1 has a NaN in the last tensor. */
TEST(e1_findings)
{
    const uint32_t nan = 0x7fc00000u;

    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet f;
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_gradients(&f, 1);
        memcpy(f.grad[2 * TENSORS - 1], &nan, sizeof nan);
        fleet_push(&f);
        alter_push(&f, 0, 1, alter_finding);
        fleet_reduce(&f);
        alter_answer(&f, 0, is_gathered(&f) ? 1 : 0, alter_finding);
        fleet_pull(&f);
        require_pulled(&f, cfg.servers ? TLC_OK : TLC_ERR_STEP);
        fleet_close(&f);
    }
}

TEST(e1_flags)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet f;
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_gradients(&f, 1);
        fleet_push(&f);
        alter_push(&f, 0, 1, alter_flags);
        alter_push(&f, 0, 1, cut);
        fleet_reduce(&f);
        alter_answer(&f, 1, 0, alter_flags);
        alter_answer(&f, 1, 0, cut);
        if (!is_gathered(&f)) {
            alter_answer(&f, 1, 0, add_weight);
            alter_answer(&f, 1, 0, say_absent);
        }
        fleet_pull(&f);
        require_pulled(&f, TLC_OK);
        fleet_close(&f);
    }
}

/* So many workers that their bits in an answer are more bytes than the checksum after them. */
TEST(e1_many_workers)
{
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "bias", .n = 4, .only = TLC_NOBODY};
    const float grad[4] = {1, 2, 3, 4};
    const void *const grads[] = {grad};
    float result[4] = {0};
    void *const out[] = {result};
    tlc_exchange_config cfg;
    tlc_message push, answer;
    guard_buffer guard;
    tlc_worker *w;
    tlc_server *s;

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

/* The numbers after the fixed part of a state are a byte each here. One has two bytes, or they end too early. */
static void alter_numbers(call *c, tlc_message valid)
{
    enum { FIXED = 16, NUMBERS = 4, CHECKSUM = 4 }; /* object_state.c */
    uint8_t *p = bytes(valid.len + 1);

    for (size_t i = FIXED; i < FIXED + NUMBERS; i++) {
        memcpy(p, valid.data, i + 1);
        memcpy(p + i + 1, (const uint8_t *)valid.data + i, valid.len - i);
        p[i] |= 0x80;
        p[i + 1] = 0;
        blob_seal(p, valid.len + 1);
        at.i = i;
        REFUSED(&c->w, c->take(c, (tlc_message){p, valid.len + 1}), TLC_ERR_CORRUPT);
    }
    memcpy(p, valid.data, FIXED + NUMBERS);
    for (size_t i = FIXED + NUMBERS; i-- > FIXED;) {
        p[i] |= 0x80;
        blob_seal(p, FIXED + NUMBERS + CHECKSUM);
        at.i = i;
        REFUSED(&c->w, c->take(c, (tlc_message){p, FIXED + NUMBERS + CHECKSUM}), TLC_ERR_CORRUPT);
    }
    free(p);
}

/* Every byte of a state is altered, and it is cut everywhere. */
static void alter_state(fleet *f, member m, uint32_t index)
{
    enum { LEAST = 24 }; /* bytes of a state: src/exchange/objects/object_state.c */
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
    alter_numbers(&c, valid);
    require_status(c.take(&c, valid), TLC_OK);
    watch_close(&c.w);
    blob_free(&valid);
    free(p);
}

TEST(e1_altered_states)
{
    FOR_EACH_KIND(kind) {
        fleet a, b;
        open_twins(&a, &b, kind);
        for (uint32_t w = 0; w < RANKS; w++)
            alter_state(&a, a.worker[w], w);
        for (uint32_t s = 0; s < a.cfg.servers; s++)
            alter_state(&a, a.owner[s], s);
        fleet_step(&a, 2);
        fleet_step(&b, 2);
        close_twins(&a, &b);
    }
}
