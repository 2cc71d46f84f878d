/* SPDX-License-Identifier: MIT
 *
 * E3: any bytes are safe. Messages and states are altered, their checksum is made right again, and they lie between
 * guard pages, as results do. Nothing outside is touched, what is refused changes nothing, and the object goes on.
 */
#include "../support/exchange_view.h"
#include "../support/float_modes.h"

enum { RANKS = 3 };

/* An object that waits for a message. */
typedef struct siege {
    fleet f;
    arena mail, out;
    void *outs[TENSORS];
    tlc_message from[RANKS]; /* the valid messages of the call */
    tlc_message before;      /* the state of the object before the step */
    watch w;                 /* the object */
    size_t refused, taken;
} siege;

/* ---- alterations ------------------------------------------------------------------------------------------------- */

typedef struct buffer {
    uint8_t bytes[8192];
    size_t len;
} buffer;

static void copy(buffer *b, tlc_message m)
{
    require(m.len + 16 <= sizeof b->bytes);
    memcpy(b->bytes, m.data, m.len);
    b->len = m.len;
}

/* Another number in LEB128 in place of the byte at i. */
static void put_number(buffer *b, size_t i, uint64_t value)
{
    uint8_t number[10];
    size_t size = 0;

    for (; value > 0x7f; value >>= 7)
        number[size++] = (uint8_t)(value | 0x80);
    number[size++] = (uint8_t)value;
    memmove(b->bytes + i + size, b->bytes + i + 1, b->len - i - 1);
    memcpy(b->bytes + i, number, size);
    b->len += size - 1;
}

static const uint8_t flips[] = {0x01, 0x80, 0xff, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x7f};
static const uint64_t numbers[] = {UINT64_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 63) - 1, UINT32_MAX,
                                   128,        UINT64_C(1) << 63, (UINT64_C(1) << 31) - 1, 16384};

/* All alterations of a valid message or state, one after the other; then it comes as it was. */
static void attack(siege *s, member m, tlc_message valid, void (*receive)(siege *s, tlc_message message))
{
    size_t some = quick() ? 2 : COUNT(flips), few = quick() ? 2 : COUNT(numbers), stride = quick() ? 3 : 1, turn = 0;
    static buffer b;

    watch_open(&s->w, &s->f, m, 0);
    for (size_t i = 0; i < valid.len; i += stride)
        for (size_t how = 0; how < some + few + 1; how++, turn++) {
            copy(&b, valid);
            if (how < some)
                b.bytes[i] ^= flips[how];
            else if (how < some + few)
                put_number(&b, i, numbers[how - some]);
            else
                b.len = i; /* truncated */
            blob_seal(b.bytes, b.len);
            at.i = i;
            at.n = how;
            const uint8_t *bytes_now = arena_copy(&s->mail, b.bytes, b.len, (int)(turn % 2));
            receive(s, (tlc_message){b.len ? bytes_now : NULL, b.len});
            require(arena_intact(&s->mail) && arena_intact(&s->out));
        }
    require(s->refused > valid.len / stride);
    watch_close(&s->w);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Results lie one after the other, up to a guard page. */
static void lay_out(siege *s)
{
    size_t size = 0, used = 0;

    for (size_t t = 0; t < TENSORS; t++)
        size += fleet_bytes(&s->f, t);
    arena_open(&s->mail, sizeof((buffer *)0)->bytes);
    arena_open(&s->out, size);
    uint8_t *p = arena_take(&s->out, size, 1);
    memset(p, OUT_FILL, size);
    for (size_t t = 0; t < TENSORS; t++) {
        s->outs[t] = p + used;
        used += fleet_bytes(&s->f, t);
    }
}

static void wipe(siege *s)
{
    memset(s->out.given, OUT_FILL, s->out.given_size);
}

/* Counts, and says if the message was taken. What was refused has written nothing. */
static int was_taken(siege *s, tlc_status status)
{
    int taken = status == TLC_OK || status == TLC_ERR_STEP;

    require(status <= TLC_ERR_ORDER);
    s->taken += (size_t)taken;
    s->refused += (size_t)!taken;
    require(status == TLC_OK || all_bytes(s->out.given, s->out.given_size, OUT_FILL));
    if (!taken)
        require_unchanged(&s->w);
    return taken;
}

static void siege_open(siege *s, fleet_kind kind, const char *codec, int sum)
{
    tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);

    at.codec = codec;
    cfg.push = codec;
    cfg.sum = sum;
    *s = (siege){.refused = 0};
    fleet_open(&s->f, &cfg, small_tensors, 0);
    lay_out(s);
    for (uint32_t w = 0; w < RANKS; w++)
        s->f.weight[w] = sum ? 1 : 1.5;
    fleet_step(&s->f, 1);
    require_pulled(&s->f, TLC_OK);
    fleet_gradients(&s->f, 2);
}

static void siege_close(siege *s)
{
    blob_free(&s->before);
    arena_close(&s->mail);
    arena_close(&s->out);
    fleet_close(&s->f);
}

/* The results of worker 0, after valid messages, are those of worker 1. */
static void require_results(siege *s)
{
    require_status(fleet_pull_one(&s->f, 1), TLC_OK);
    for (size_t t = 0; t < TENSORS; t++)
        require(same(s->outs[t], s->f.out[TENSORS + t], fleet_bytes(&s->f, t)));
}

/* ---- pulls ------------------------------------------------------------------------------------------------------- */

static uint32_t hostile; /* who sends what was altered */

static tlc_status pull(siege *s, const tlc_message *from)
{
    wipe(s);
    return member_pull(s->f.worker[0], from, s->outs);
}

/* Worker 0 is where it was before it was attacked. */
static void restore(siege *s)
{
    require_status(member_load(s->f.worker[0], s->before), TLC_OK);
    require_status(fleet_push_one(&s->f, 0), TLC_OK);
    if (s->f.owners && !s->f.cfg.servers)
        require_status(fleet_reduce_one(&s->f, 0), TLC_OK);
}

static void receive_pull(siege *s, tlc_message message)
{
    tlc_message from[RANKS];

    memcpy(from, s->from, sizeof from);
    from[hostile] = message;
    if (!was_taken(s, pull(s, from)))
        return;
    restore(s);
    watch_again(&s->w);
}

/* Worker 0 gets altered answers, or with gather altered pushes, from each who sends some. */
static void attack_pull(fleet_kind kind, const char *codec)
{
    tlc_message copies[RANKS];
    siege s;

    siege_open(&s, kind, codec, 0);
    s.before = member_save(s.f.worker[0]);
    fleet_push(&s.f);
    fleet_reduce(&s.f);
    for (uint32_t i = 0; i < s.f.lanes; i++)
        s.from[i] = copies[i] = blob_copy(kind == GATHERED ? s.f.push[i * RANKS] : s.f.answer[i]);
    for (hostile = 0; hostile < s.f.lanes; hostile++)
        attack(&s, s.f.worker[0], s.from[hostile], receive_pull);
    require_status(pull(&s, s.from), TLC_OK);
    require_results(&s);
    for (uint32_t i = 0; i < s.f.lanes; i++)
        blob_free(&copies[i]);
    siege_close(&s);
}

/* ---- pushes ------------------------------------------------------------------------------------------------------ */

static void receive_push(siege *s, tlc_message message)
{
    tlc_push_info info = {.struct_size = sizeof info};
    tlc_server *server = s->f.owner[0].server;
    tlc_status status = tlc_server_push(server, message, &info);

    if (!was_taken(s, status))
        return;
    if (!info.late) {
        (void)tlc_server_push(server, s->f.push[s->f.lanes], NULL); /* beside a valid one */
        status = tlc_server_reduce(server);
        require(status == TLC_OK || status == TLC_ERR_STEP);
        require_status(tlc_server_answer(server, NULL, &s->f.answer[0]), TLC_OK);
        require_status(member_load(s->f.owner[0], s->before), TLC_OK);
    }
    watch_again(&s->w);
}

/* Server 0 gets altered pushes. */
static void attack_server(fleet_kind kind, const char *codec, int sum)
{
    siege s;

    siege_open(&s, kind, codec, sum);
    s.before = member_save(s.f.owner[0]);
    fleet_push(&s.f);
    attack(&s, s.f.owner[0], s.f.push[0], receive_push);
    fleet_reduce(&s.f);
    fleet_pull(&s.f);
    require_pulled(&s.f, TLC_OK);
    siege_close(&s);
}

/* It always succeeds; its message says whether the step failed. */
static void receive_reduce(siege *s, tlc_message message)
{
    tlc_message from[RANKS], answer;
    tlc_allreduce *rank = s->f.worker[0].rank;

    memcpy(from, s->from, sizeof from);
    from[1] = message;
    require_status(tlc_allreduce_reduce(rank, from, &answer), TLC_OK);
    require(answer.len > 0);
    s->refused++;
    require_status(tlc_allreduce_cancel(rank), TLC_OK);
    require_status(member_load(s->f.worker[0], s->before), TLC_OK);
    require_status(fleet_push_one(&s->f, 0), TLC_OK);
}

/* Rank 0 reduces an altered push of rank 1. */
static void attack_owner(const char *codec, int sum)
{
    siege s;

    siege_open(&s, SHARDED, codec, sum);
    s.before = member_save(s.f.worker[0]);
    fleet_push(&s.f);
    for (uint32_t w = 0; w < RANKS; w++)
        s.from[w] = s.f.push[w * s.f.lanes];
    attack(&s, s.f.worker[0], s.from[1], receive_reduce);
    fleet_reduce(&s.f);
    fleet_pull(&s.f);
    require_pulled(&s.f, TLC_OK);
    siege_close(&s);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static member besieged;

static int beside; /* the altered state comes after a valid one */

/* A state that is taken is used for a push, or an answer. */
static void receive_state(siege *s, tlc_message message)
{
    const tlc_message both[2] = {s->before, message};
    member m = besieged;
    tlc_message answer;

    if (!was_taken(s, beside ? MEMBER(m, state_load, both, 2) : member_load(m, message)))
        return;
    if (m.server) {
        (void)tlc_server_push(m.server, s->f.push[0], NULL);
        if (tlc_server_reduce(m.server) != TLC_ERR_ORDER)
            require_status(tlc_server_answer(m.server, NULL, &answer), TLC_OK);
    } else {
        require_status(fleet_push_one(&s->f, 0), TLC_OK);
        if (m.rank)
            require_status(tlc_allreduce_cancel(m.rank), TLC_OK);
        else
            (void)tlc_worker_join(m.worker, member_step(m) + 1, NULL);
    }
    require_status(member_load(m, s->before), TLC_OK);
    watch_again(&s->w);
}

static void attack_state(fleet_kind kind, const char *codec, int server)
{
    siege s;

    siege_open(&s, kind, codec, 0);
    besieged = server ? s.f.owner[0] : s.f.worker[0];
    s.before = member_save(besieged);
    if (server)
        require_status(fleet_push_one(&s.f, 0), TLC_OK);
    beside = 0;
    attack(&s, besieged, s.before, receive_state);
    if (kind == SHARDED || kind == THREE_SERVERS) {
        tlc_message other = member_save(server ? s.f.owner[1] : s.f.worker[1]);
        beside = 1;
        attack(&s, besieged, other, receive_state);
        blob_free(&other);
    }
    require_status(member_load(besieged, s.before), TLC_OK);
    require_state(besieged, s.before);
    siege_close(&s);
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static const char *const texts[] = {"3lc", "topk:p=0.3,bits=2+golomb", "raw", "natural"};

TEST(e3_pull)
{
    FOR_EACH_KIND(kind)
        for (size_t c = 0; c < COUNT(texts); c++)
            attack_pull(kind, texts[c]);
}

TEST(e3_push)
{
    for (size_t c = 0; c < COUNT(texts); c++)
        for (int sum = 0; sum < 2; sum++) {
            attack_server(ONE_SERVER, texts[c], sum);
            attack_server(THREE_SERVERS, texts[c], sum);
            attack_owner(texts[c], sum);
        }
}

TEST(e3_state)
{
    FOR_EACH_KIND(kind)
        for (int server = 0; server < (kind >= ONE_SERVER ? 2 : 1); server++)
            attack_state(kind, kind % 2 ? "3lc" : "topk:p=0.3,bits=2+golomb", server);
}

/* Numbers that are no weight. */
TEST(e3_weight)
{
    static const uint64_t weights[] = {UINT64_C(0x7ff8000000000000),
                                       UINT64_C(0x7ff4000000000000),
                                       UINT64_C(0x7ff0000000000000),
                                       UINT64_C(0xfff0000000000000),
                                       UINT64_C(0xbff8000000000000),
                                       0,
                                       UINT64_C(1),
                                       UINT64_C(0x3ccfffffffffffff),
                                       UINT64_C(0x4310000000000001)};
    enum { PLACE = 15 }; /* in a push of a small worker to a small server in a small step: format.md */
    static buffer b;
    siege s;

    siege_open(&s, ONE_SERVER, "3lc", 0);
    fleet_push(&s.f);
    for (float_mode mode = MODE_DEFAULT; mode < MODE_COUNT; mode++)
        for (size_t i = 0; i < COUNT(weights); i++) {
            copy(&b, s.f.push[0]);
            require(b.bytes[PLACE + 7] == 0x3f && b.bytes[PLACE + 6] == 0xf8); /* 1.5 */
            for (size_t k = 0; k < 8; k++)
                b.bytes[PLACE + k] = (uint8_t)(weights[i] >> 8 * k);
            blob_seal(b.bytes, b.len);
            at.i = i;
            at.n = (size_t)mode;
            if (has_mode(mode)) {
                (void)mode_enter(mode);
                tlc_status status = tlc_server_push(s.f.owner[0].server, (tlc_message){b.bytes, b.len}, NULL);
                mode_leave();
                require_status(status, TLC_ERR_CORRUPT);
            }
        }
    siege_close(&s);
}
