/* SPDX-License-Identifier: MIT
 *
 * Groups of groups (bench/sim/groups.h): nothing is lost over many steps in which sites fail, and messages are lost or
 * altered; each call that takes a message.
 */
#include "groups_world.h"
#include <math.h>

static world w;

static int one_in(rng *r, size_t n)
{
    return rng_below(r, n) == 0;
}

/* ---- messages at fault ------------------------------------------------------------------------------------------- */

/* A call that takes a message, for the server or rank `to`. */
typedef tlc_status taker(uint32_t to, tlc_message message);

/* Altered or lost, the message is refused; as it was, it is taken. */
static void take_at_last(rng *r, taker *take, uint32_t to, tlc_message message)
{
    static uint8_t altered[1 << 14];

    require(message.len && message.len <= sizeof altered);
    memcpy(altered, message.data, message.len);
    altered[rng_below(r, message.len)] ^= (uint8_t)(1 << rng_below(r, 8));
    const tlc_message wrong[] = {{altered, message.len}, {altered, rng_below(r, message.len)}, {NULL, 0}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        tlc_status status = take(to, wrong[i]);
        require(status != TLC_OK && status != TLC_ERR_STEP);
    }
    require_status(take(to, message), TLC_OK);
}

static tlc_status take_push(uint32_t to, tlc_message message)
{
    return groups_take(&w.f.rank[to], message, NULL);
}

static tlc_status take_site(uint32_t to, tlc_message message)
{
    return groups_take_site(&w.f.rank[to], message);
}

/* Where a call that takes many messages finds the one in question. */
static tlc_message *slot;

static tlc_status replace(uint32_t to, tlc_message message, tlc_status call(uint32_t to))
{
    const tlc_message kept = *slot;

    *slot = message;
    tlc_status status = call(to);
    *slot = kept;
    return status;
}

static tlc_status answer(uint32_t to)
{
    const uint32_t site = groups_fleet_site(&w.f, to), own = to - w.f.first[site];

    return groups_answer(&w.f.rank[to], w.f.reduced + (size_t)own * SITES, &w.f.answer[site * SERVERS + own]);
}

static tlc_status take_reduced(uint32_t to, tlc_message message)
{
    return replace(to, message, answer);
}

static tlc_status pull(uint32_t to)
{
    void *out[TENSORS];

    for (size_t t = 0; t < w.count; t++)
        out[t] = w.out[to] + w.first[t];
    w.pulled[to] = groups_fleet_pull(&w.f, to, out);
    return w.pulled[to] == TLC_ERR_STEP ? TLC_OK : w.pulled[to];
}

static tlc_status take_answer(uint32_t to, tlc_message message)
{
    return replace(to, message, pull);
}

/* ---- steps in which messages are at fault ------------------------------------------------------------------------ */

static groups *server(uint32_t site, uint32_t i)
{
    return groups_fleet_server(&w.f, site, i);
}

/* lost[r][i]: the push of rank r does not come to server i. */
static void take_pushes(rng *r, int lost[RANKS][SERVERS])
{
    tlc_message to[SITES];

    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < SERVERS; i++) {
            const uint32_t to_rank = w.f.first[groups_fleet_site(&w.f, rank)] + i;
            const tlc_message message = w.f.push[rank * SERVERS + i];
            if (lost && lost[rank][i])
                continue;
            if (one_in(r, 10))
                take_at_last(r, take_push, to_rank, message);
            require_status(take_push(to_rank, message), TLC_OK); /* it may come again */
        }
    require_status(groups_fleet_each(&w.f, groups_fleet_reduce), TLC_OK);
    require_status(groups_reduce(server(0, 0), to), TLC_ERR_ORDER);
}

static void take_sites(rng *r)
{
    tlc_message to_all;

    for (uint32_t s = 0; s < SITES; s++)
        for (uint32_t i = 0; i < SERVERS; i++) {
            groups *g = server(s, i);
            for (uint32_t from = 0; g->parts && from < SITES; from++) {
                const tlc_message message = w.f.across[(from * SERVERS + i) * SITES + s];
                require_status(groups_reduce_sites(g, &to_all), TLC_ERR_ORDER); /* one is missing */
                if (one_in(r, 5))
                    take_at_last(r, take_site, w.f.first[s] + i, message);
                require_status(take_site(w.f.first[s] + i, message), TLC_OK);
            }
        }
    require_status(groups_fleet_each(&w.f, groups_fleet_reduce_sites), TLC_OK);
}

static void take_reductions(rng *r)
{
    for (uint32_t s = 0; s < SITES; s++)
        for (uint32_t i = 0; i < SERVERS; i++) {
            slot = &w.f.reduced[i * SITES + rng_below(r, SITES)];
            if (server(s, i)->parts && one_in(r, 3))
                take_at_last(r, take_reduced, w.f.first[s] + i, *slot);
            else
                require_status(answer(w.f.first[s] + i), TLC_OK);
        }
}

static void take_answers(rng *r)
{
    memset(w.out, BEFORE, sizeof w.out);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        slot = &w.f.answer[groups_fleet_site(&w.f, rank) * SERVERS + rng_below(r, SERVERS)];
        if (one_in(r, 3))
            take_at_last(r, take_answer, rank, *slot);
        else
            require_status(pull(rank), TLC_OK);
    }
}

static void stumble(rng *r, int lost[RANKS][SERVERS])
{
    world_push(&w);
    take_pushes(r, lost);
    take_sites(r);
    take_reductions(r);
    take_answers(r);
}

/* What is refused changes nothing: the results are those of a fleet whose messages all arrive. */
TEST(bad_messages_change_nothing)
{
    static float out[20][RANKS][VALUES];
    rng r = {1};

    for (int bad = 0; bad < 2; bad++) {
        world_init(&w, "3lc", "3lc-golomb");
        world_open(&w);
        for (size_t step = 0; step < COUNT(out); step++) {
            world_draw(&w, step);
            for (uint32_t rank = 0; step % 5 == 4 && rank < w.f.first[1]; rank++)
                w.grad[rank][0] = NAN; /* site 0 fails */
            if (bad)
                stumble(&r, NULL);
            else
                world_step(&w);
            require_status(world_agree(&w), step % 5 == 4 ? TLC_ERR_STEP : TLC_OK);
            if (bad)
                require(same(out[step], w.out, sizeof w.out));
            memcpy(out[step], w.out, sizeof w.out);
        }
        world_close(&w);
    }
}

/* Answers of a step before can be fetched again. */
TEST(answers_are_kept)
{
    rng r = {2};
    tlc_message kept;

    world_init(&w, "3lc", "3lc");
    world_open(&w);
    world_draw(&w, 1);
    world_push(&w);
    take_pushes(&r, NULL);
    take_sites(&r);
    for (uint32_t s = 0; s < SITES; s++)
        for (uint32_t i = 0; i < SERVERS; i++) {
            require_status(tlc_server_again(server(s, i)->between.server, 1, &kept), TLC_OK);
            require(kept.len && same(kept.data, w.f.reduced[i * SITES + s].data, kept.len));
        }
    take_reductions(&r);
    for (uint32_t s = 0; s < SITES; s++)
        for (uint32_t i = 0; i < SERVERS; i++) {
            require_status(tlc_server_again(server(s, i)->inside.server, 1, &kept), TLC_OK);
            w.f.answer[s * SERVERS + i] = kept;
        }
    take_answers(&r);
    require_status(world_agree(&w), TLC_OK);
    world_close(&w);
}

/* ---- books ------------------------------------------------------------------------------------------------------- */

/* By value: sums of gradients that were not dropped, and of results; what waits. magnitude: of all that a step rounds.
 */
typedef struct books {
    double given[VALUES], got[VALUES], waiting[VALUES], magnitude[VALUES], limit[VALUES];
    size_t values; /* of the tensors of the world */
    size_t failed, lost;
} books;

static void add_waiting(void *arg, size_t value, float waiting)
{
    books *b = arg;

    b->waiting[value] += waiting;
    b->magnitude[value] += fabs((double)waiting);
}

static void look_at_waiting(books *b)
{
    memset(b->waiting, 0, sizeof b->waiting);
    world_waiting(&w, add_waiting, b);
}

/* Whoever is not in the round, whose gradient is dropped, whose pushes are lost. */
static void draw_step(rng *r, books *b, uint64_t seed, int lost[RANKS][SERVERS])
{
    const uint32_t bad_site = one_in(r, 8) ? (uint32_t)rng_below(r, SITES) : SITES;

    world_draw(&w, seed);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const int bad = groups_fleet_site(&w.f, rank) == bad_site || one_in(r, 12);
        w.absent[rank] = !bad && one_in(r, 8);
        for (size_t k = 0; !bad && !w.absent[rank] && k < b->values; k++) {
            b->given[k] += w.grad[rank][k];
            b->magnitude[k] += fabs((double)w.grad[rank][k]);
        }
        if (bad)
            w.grad[rank][rng_below(r, b->values)] = one_in(r, 2) ? NAN : INFINITY;
        for (uint32_t i = 0; i < SERVERS; i++) /* a server has at least one push */
            b->lost += (size_t)(lost[rank][i] = !bad && i + 1 != SERVERS &&
                                                rank != w.f.first[groups_fleet_site(&w.f, rank)] && one_in(r, 6));
    }
}

/* A value is rounded fewer than 4 * RANKS times in a step, each time to something that is at most 4 times as large as
 * all gradients and residuals together. */
static void check(books *b)
{
    for (size_t k = 0; k < b->values; k++) {
        b->limit[k] += 0x1p-24 * 4 * (double)RANKS * 4 * b->magnitude[k];
        b->magnitude[k] = 0;
        at.i = k;
        require(fabs(b->given[k] - b->got[k] - b->waiting[k]) <= b->limit[k]);
    }
}

static int is_untouched(size_t value)
{
    return all_bytes(&w.out[0][value], sizeof w.out[0][value], BEFORE);
}

/* With sums, gradients that were not dropped = results + all residuals. */
static void keep_books(const char *inside, const char *between, size_t tensors, uint64_t seed)
{
    static books b;
    int lost[RANKS][SERVERS];
    rng r = {seed};

    memset(&b, 0, sizeof b);
    world_init(&w, inside, between);
    at.codec = between;
    w.inside.sum = 1;
    w.count = tensors;
    w.between.split_n = seed % 2 ? 150 : 65536;
    for (size_t t = 0; t < tensors; t++)
        b.values += w.tensors[t].n;
    world_open(&w);
    for (uint64_t step = 1; step <= (quick() ? 30 : 200); step++) {
        at.n = (size_t)step;
        look_at_waiting(&b);
        draw_step(&r, &b, seed * 1000 + step, lost);
        stumble(&r, lost);
        b.failed += world_agree(&w) != TLC_OK;
        for (size_t k = 0; k < b.values; k++) {
            b.got[k] += is_untouched(k) ? 0 : w.out[0][k];
            b.magnitude[k] += is_untouched(k) ? 0 : fabs((double)w.out[0][k]);
        }
        look_at_waiting(&b);
        check(&b);
    }
    require(b.failed && b.lost);
    world_close(&w);
}

TEST(nothing_is_lost)
{
    keep_books("3lc", "3lc", TENSORS, 1);
    keep_books("3lc-golomb", "sbc:p=0.1", TENSORS, 2);
    keep_books("raw", "3lc:s=1.75", TENSORS, 3);
    keep_books("topk:p=0.1,bits=2+golomb", "raw", TENSORS, 4);
    keep_books("3lc", "onebit", 1, 5); /* a small tensor alone: server 1 owns nothing */
}
