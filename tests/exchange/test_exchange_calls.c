/* SPDX-License-Identifier: MIT
 *
 * The calls of exchange.h that come between steps: other codecs, masks, scaled residuals, statistics, sentences.
 */
#include "../support/exchange_ledger.h"
#include <math.h>

enum { RANKS = 3, CONV = 1, WIDE = 3, OWN = 5 };

/* A push that does not arrive. */
static uint32_t lost_from, lost_to;

static tlc_message lose(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    (void)f;
    return on == TO_OWNER && from == lost_from && to == lost_to ? (tlc_message){NULL, 0} : message;
}

/* The codecs of single ranks change, then those of all tensors that have the common one. */
TEST(other_codecs)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet f;
        ledger l;
        cfg.reserve = "raw;sbc:p=0.5";
        fleet_open(&f, &cfg, small_tensors, 1);
        ledger_open(&l, &f);
        for (uint64_t step = 1; step <= 4; step++) {
            static const char *const texts[] = {"3lc", "raw", "sbc:p=0.5", "3lc:s=1.9"};
            for (uint32_t w = 0; w < RANKS; w++) {
                const char *text = texts[(step - 1 + w) % COUNT(texts)];
                const size_t t = step % 2 ? TLC_ALL : WIDE;
                require_status(cfg.servers ? tlc_worker_set_codec(f.worker[w].worker, t, text)
                                           : tlc_allreduce_set_codec(f.worker[w].rank, t, text, texts[step - 1]),
                               TLC_OK);
            }
            for (uint32_t i = 0; i < cfg.servers; i++)
                require_status(tlc_server_set_codec(f.owner[i].server, TLC_ALL, texts[step - 1]), TLC_OK);
            ledger_step(&l, step);
            require_pulled(&f, TLC_OK);
            ledger_check(&l);
            for (uint32_t w = 0; w < RANKS; w++) { /* raw leaves nothing */
                const size_t first = w * TENSORS, size = small_tensors[WIDE].n * sizeof(float);
                require(all_bytes(f.residual[first + WIDE], size, 0) == ((step - 1 + w) % COUNT(texts) == 1));
                require(!all_bytes(f.residual[first + OWN], small_tensors[OWN].n * sizeof(float), 0));
            }
        }
        ledger_close(&l);
        fleet_close(&f);
    }
}

/* Momentum is 0 where the last push sent a value, if it was taken there. After a state was loaded there is no push. */
TEST(masks)
{
    FOR_EACH_KIND(kind)
        for (int loses = 0; loses < 2; loses++) {
            tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
            float *momentum[TENSORS], *x[TENSORS];
            size_t masked = 0;
            fleet f;
            ledger l;
            fleet_open(&f, &cfg, small_tensors, 1);
            ledger_open(&l, &f); /* it knows the owners */
            fleet_step(&f, 1);
            lost_from = 1;
            lost_to = 0;
            f.via = loses ? lose : NULL;
            fleet_gradients(&f, 2);
            for (size_t t = 0; t < TENSORS; t++) {
                momentum[t] = floats(small_tensors[t].n);
                x[t] = floats(small_tensors[t].n);
                for (size_t i = 0; i < small_tensors[t].n; i++) {
                    momentum[t][i] = 1;
                    x[t][i] = f.residual[TENSORS + t][i] + fleet_grad(&f, 1, t, i);
                }
            }
            fleet_push(&f);
            float *sent[TENSORS];
            for (size_t t = 0; t < TENSORS; t++) {
                sent[t] = floats(small_tensors[t].n);
                for (size_t i = 0; i < small_tensors[t].n; i++)
                    sent[t][i] = x[t][i] - f.residual[TENSORS + t][i];
            }
            fleet_reduce(&f);
            fleet_pull(&f);
            float *conv = momentum[CONV];
            momentum[CONV] = NULL;                                                   /* left out */
            require_status(MEMBER(f.worker[1], state_load, NULL, 1), TLC_ERR_PARAM); /* it changes nothing */
            require_status(member_mask(f.worker[1], momentum), TLC_OK);
            momentum[CONV] = conv;
            for (size_t t = 0; t < TENSORS; t++) {
                for (size_t i = 0; i < small_tensors[t].n; i++) {
                    int lost = loses && kind != GATHERED && (!cfg.servers || l.owner[l.begin[t] + i] == 0);
                    int zero = (t == WIDE || t == OWN) && fabsf(sent[t][i]) > 0 && !lost;
                    masked += (size_t)zero;
                    require(float_bits(momentum[t][i]) == (zero ? 0 : float_bits(1)));
                    momentum[t][i] = 1;
                }
            }
            require(masked > 0 || loses);
            tlc_message saved = member_save(f.worker[1]);
            require_status(member_load(f.worker[1], saved), TLC_OK);
            blob_free(&saved);
            require_status(member_mask(f.worker[1], momentum), TLC_OK);
            for (size_t t = 0; t < TENSORS; t++) {
                for (size_t i = 0; i < small_tensors[t].n; i++)
                    require(float_bits(momentum[t][i]) == float_bits(1));
                free(momentum[t]);
                free(x[t]);
                free(sent[t]);
            }
            ledger_close(&l);
            fleet_close(&f);
        }
}

/* The smallest and the largest weight. */
TEST(weights)
{
    FOR_EACH_KIND(kind)
        for (int sum = 0; sum < 2; sum++) {
            tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
            fleet f;
            ledger l;
            cfg.sum = sum;
            fleet_open(&f, &cfg, small_tensors, 1);
            ledger_open(&l, &f);
            for (uint64_t step = 1; step <= 6; step++) {
                f.weight[step % RANKS] = 0x1p-50;
                f.weight[(step + 1) % RANKS] = step % 2 ? 0x1p50 : 1;
                f.weight[(step + 2) % RANKS] = step < 4 ? 0x1.8p-49 : 7;
                ledger_step(&l, step);
                require_pulled(&f, TLC_OK);
                ledger_check(&l);
            }
            ledger_close(&l);
            fleet_close(&f);
        }
}

TEST(scaled_residuals)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet f;
        float *was = floats(small_tensors[WIDE].n);
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_step(&f, 1);
        memcpy(was, f.residual[TENSORS + WIDE], small_tensors[WIDE].n * sizeof *was);
        require_status(MEMBER(f.worker[1], residual_scale, 0.3f), TLC_OK);
        for (size_t i = 0; i < small_tensors[WIDE].n; i++)
            require(float_bits(f.residual[TENSORS + WIDE][i]) == float_bits(was[i] * 0.3f));
        for (uint32_t o = 0; o < f.owners; o++) {
            tlc_part part = member_part(f.owner[o], 0);
            memcpy(was, part.residual, part.n * sizeof *was);
            require_status(MEMBER(f.owner[o], residual_scale, -2.5f), TLC_OK);
            for (size_t i = 0; i < part.n; i++)
                require(float_bits(part.residual[i]) == float_bits(was[i] * -2.5f));
        }
        free(was);
        fleet_close(&f);
    }
}

/* The bytes of the values that worker w sends to others in a step, as they come. */
static uint64_t pushed_bytes(const fleet *f, uint32_t w)
{
    uint64_t values = 0;

    for (size_t t = 0; t < TENSORS; t++) {
        uint64_t own = 0; /* what it owns itself */
        for (size_t i = 0; i < member_parts(f->worker[w]); i++)
            own += member_part(f->worker[w], i).tensor == t ? member_part(f->worker[w], i).n : 0;
        if (is_sent(&f->tensors[t], w))
            values += f->tensors[t].n - own;
    }
    return values * dtype_size[f->cfg.dtype] * (is_gathered(f) ? RANKS - 1 : 1);
}

/* The bytes of the values that an owner answers, as floats. */
static uint64_t answered_bytes(const fleet *f, member m)
{
    uint64_t values = 0;

    for (size_t i = 0; i < member_parts(m); i++)
        values += member_part(m, i).n;
    return values * sizeof(float) * (f->cfg.servers ? RANKS : RANKS - 1);
}

static void require_float_bytes(const fleet *f, uint64_t steps)
{
    for (uint32_t w = 0; w < RANKS; w++)
        require(member_stats(f->worker[w]).float_bytes ==
                steps * (pushed_bytes(f, w) + answered_bytes(f, f->worker[w])));
    for (uint32_t i = 0; i < f->cfg.servers; i++)
        require(member_stats(f->owner[i]).float_bytes == steps * answered_bytes(f, f->owner[i]));
}

static void require_well(const fleet *f)
{
    for (uint32_t i = 0; i < RANKS + f->cfg.servers; i++)
        for (uint32_t s = 0; s < (i < RANKS && f->cfg.servers ? f->cfg.servers : 1); s++) {
            tlc_outcome o = member_outcome(i < RANKS ? f->worker[i] : f->owner[i - RANKS], s);
            require(o.status == TLC_OK && !strcmp(o.sentence, "nothing is wrong"));
        }
}

/* What all send to others is what all receive. Dropped gradients and failed answers do not count as sent floats. */
TEST(statistics)
{
    const uint16_t nan[2] = {0x7fc0, 0x7fc0}; /* of any dtype */

    FOR_EACH_KIND(kind)
        FOR_EACH_DTYPE(dtype) {
            tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
            uint64_t sent = 0, received = 0;
            fleet f;
            cfg.dtype = dtype;
            fleet_open(&f, &cfg, small_tensors, 0);
            for (uint64_t step = 1; step <= 4; step++)
                fleet_step(&f, step);
            require_float_bytes(&f, 4);
            require_well(&f);
            fleet_gradients(&f, 5);
            for (uint32_t w = 0; w < RANKS; w++)
                memcpy(f.grad[w * TENSORS + WIDE], nan, dtype_size[dtype]);
            fleet_push(&f);
            fleet_reduce(&f);
            fleet_pull(&f);
            require_pulled(&f, TLC_ERR_STEP);
            require_float_bytes(&f, 4);
            for (uint32_t i = 0; i < RANKS + cfg.servers; i++) {
                tlc_exchange_stats s = member_stats(i < RANKS ? f.worker[i] : f.owner[i - RANKS]);
                sent += s.sent;
                received += s.received;
                require(s.steps == 5 && s.failed == 1 && !s.late && !s.dropped);
            }
            require(sent == received && sent > 0);
            fleet_close(&f);
        }
}

/* ---- states of other runs ---------------------------------------------------------------------------------------- */

/* Workers may be in different steps. Each goes on with the latest of those whose residuals it takes over. */
TEST(steps_of_states)
{
    static const uint64_t steps[RANKS] = {4, 9, 6}, want[][4] = {{6, 9}, {4, 9, 6, 9}};
    tlc_exchange_config cfg = fleet_config(THREE_SERVERS, RANKS, small_tensors);
    tlc_message states[RANKS];
    fleet f;

    fleet_open(&f, &cfg, small_tensors, 0);
    for (uint32_t w = 0; w < RANKS; w++) {
        member_move(f.worker[w], steps[w]);
        states[w] = member_save(f.worker[w]);
    }
    for (cfg.workers = 2; cfg.workers <= 4; cfg.workers += 2)
        for (uint32_t w = 0; w < cfg.workers; w++) {
            member heir = {.rank = NULL};
            require_status(fleet_make(&f, &cfg, w, 0, &heir), TLC_OK);
            require_status(MEMBER(heir, state_load, states, RANKS), TLC_OK);
            require(member_step(heir) == want[cfg.workers == 4][w]);
            member_destroy(heir);
        }
    for (uint32_t w = 0; w < RANKS; w++)
        blob_free(&states[w]);
    fleet_close(&f);
}

/* A server knows whose pushes it took, but not if it goes on with another number of workers. */
/* Whatever step a run begins with, its messages can carry those that follow. */
TEST(first_and_last_steps)
{
    const uint64_t last = UINT64_C(1) << 62;
    tlc_exchange_config cfg = fleet_config(THREE_SERVERS, RANKS, small_tensors);
    fleet f;

    fleet_open(&f, &cfg, small_tensors, 0);
    for (uint32_t w = 0; w < RANKS; w++) {
        tlc_worker *worker = f.worker[w].worker;
        require_status(tlc_worker_join(worker, UINT64_C(0x7fffffffffffffff), NULL), TLC_ERR_PARAM);
        require_status(tlc_worker_join(worker, last + 1, NULL), TLC_ERR_PARAM);
        require_status(tlc_worker_join(worker, last, NULL), TLC_OK);
    }
    for (uint32_t i = 0; i < cfg.servers; i++) {
        tlc_message saved = member_save(f.owner[i]);
        uint8_t *bytes_of = (uint8_t *)(uintptr_t)saved.data;
        memcpy(bytes_of + 8, "\1\0\0\0\0\0\0\x40", 8); /* the step: last + 1 */
        blob_seal(bytes_of, saved.len);
        require_status(member_load(f.owner[i], saved), TLC_ERR_CORRUPT);
        blob_free(&saved);
        member_move(f.owner[i], last);
    }
    for (int step = 0; step < 3; step++) {
        fleet_step(&f, (uint64_t)step);
        require_pulled(&f, TLC_OK);
        for (size_t i = 0; i < (size_t)cfg.servers * RANKS; i++)
            require_status(f.came[i], TLC_OK);
    }
    fleet_close(&f);
}

TEST(taken_of_states)
{
    tlc_exchange_config cfg = fleet_config(ONE_SERVER, RANKS, small_tensors);
    fleet f;

    fleet_open(&f, &cfg, small_tensors, 0);
    fleet_step(&f, 1);
    tlc_message own = member_save(f.owner[0]), of_less;
    member less = {.rank = NULL};
    uint64_t step = 77;
    cfg.workers--;
    require_status(fleet_make(&f, &cfg, 0, 1, &less), TLC_OK);
    of_less = member_save(less);
    require_status(tlc_server_taken(f.owner[0].server, 2, &step), TLC_OK);
    require(step == 1);
    require_status(member_load(f.owner[0], own), TLC_OK);
    require_status(tlc_server_taken(f.owner[0].server, 2, &step), TLC_OK);
    require(step == 1);
    require_status(member_load(f.owner[0], of_less), TLC_OK);
    require_status(tlc_server_taken(f.owner[0].server, 2, &step), TLC_OK);
    require(step == 0);
    member_destroy(less);
    blob_free(&own);
    blob_free(&of_less);
    fleet_close(&f);
}

/* The first of two tensors, as states have them: by owner. */
static size_t first_of(const fleet *f, size_t a, size_t b)
{
    for (uint32_t o = 0; o < f->owners; o++)
        for (size_t i = 0; i < member_parts(f->owner[o]); i++) {
            size_t t = member_part(f->owner[o], i).tensor;
            if (t == a || t == b)
                return t;
        }
    return TLC_ALL;
}

/* The first name that has no place is told, for each server. */
TEST(names_of_states)
{
    tlc_exchange_config cfg = fleet_config(THREE_SERVERS, RANKS, small_tensors);
    member other = {.rank = NULL};
    tlc_message saved;
    fleet f;

    fleet_open(&f, &cfg, small_tensors, 0);
    saved = member_save(f.worker[0]);
    char want[200];
    require_status(member_load(f.worker[0], saved), TLC_OK);
    require(!strcmp(member_outcome(f.worker[0], 0).sentence,
                    "entries of the states without a place here: 0; tensors in no state: 0"));
    snprintf(want, sizeof want,
             "entries of the states without a place here: 2, first \"%s\"; tensors in no state: 2, first \"first\"",
             small_tensors[first_of(&f, CONV, OWN)].name);
    f.tensors[CONV].name = "first";
    f.tensors[OWN].name = "last";
    require_status(fleet_make(&f, &cfg, 0, 0, &other), TLC_OK);
    require_status(member_load(other, saved), TLC_OK);
    for (uint32_t server = 0; server < cfg.servers; server++) {
        tlc_outcome o = member_outcome(other, server);
        require(o.status == TLC_OK && o.unknown == 2 && o.missing == 2 && o.tensor == CONV);
        require(!strcmp(o.sentence, want));
    }
    member_destroy(other);
    blob_free(&saved);
    fleet_close(&f);
}

/* A caller may know only the first fields of a struct, or more than there are. */
TEST(sizes_of_results)
{
    tlc_exchange_config cfg = fleet_config(ONE_SERVER, RANKS, small_tensors);
    struct {
        tlc_outcome outcome;
        uint8_t more[8];
    } newer;
    tlc_outcome o = {.struct_size = sizeof o.struct_size};
    tlc_exchange_stats s = {.struct_size = sizeof s.struct_size};
    tlc_part p = {.struct_size = sizeof p.struct_size};
    tlc_push_info info = {.struct_size = sizeof info.struct_size};
    fleet f;

    fleet_open(&f, &cfg, small_tensors, 0);
    fleet_step(&f, 1);
    fleet_push(&f);
    require_status(tlc_worker_outcome(f.worker[0].worker, 0, &o), TLC_OK);
    require_status(tlc_worker_stats(f.worker[0].worker, &s), TLC_OK);
    require_status(tlc_server_part(f.owner[0].server, 0, &p), TLC_OK);
    require_status(tlc_server_push(f.owner[0].server, f.push[1], &info), TLC_OK);
    require(!o.step && !o.sentence[0] && !s.steps && !p.n && !info.step);
    memset(&newer, OUT_FILL, sizeof newer);
    newer.outcome.struct_size = sizeof newer;
    require_status(tlc_worker_outcome(f.worker[0].worker, 0, &newer.outcome), TLC_OK);
    require(newer.outcome.step == 2 && all_bytes(newer.more, sizeof newer.more, 0));
    fleet_close(&f);
}

/* A step without tensors, with gather or without, or with a server. There is nothing to mask. */
TEST(no_tensors)
{
    const void *const grads[] = {NULL};

    for (int gather = 0; gather < 2; gather++) {
        tlc_allreduce *rank[2];
        tlc_message to[2][2], from[2], answers[2];
        tlc_exchange_config cfg;
        require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
        cfg.workers = 2;
        cfg.gather = gather;
        for (uint32_t r = 0; r < 2; r++) {
            require_status(tlc_allreduce_create(&rank[r], &cfg, r, NULL, 0), TLC_OK);
            require_status(tlc_allreduce_push(rank[r], grads, 1, to[r]), TLC_OK);
            answers[r] = to[r][0];
        }
        for (uint32_t r = 0; !gather && r < 2; r++) {
            from[0] = to[0][r];
            from[1] = to[1][r];
            require_status(tlc_allreduce_reduce(rank[r], from, &answers[r]), TLC_OK);
        }
        for (uint32_t r = 0; r < 2; r++) {
            require_status(tlc_allreduce_pull(rank[r], answers, NULL), TLC_OK);
            require_status(tlc_allreduce_mask(rank[r], NULL), TLC_OK);
            require(tlc_allreduce_step(rank[r]) == 2);
        }
        for (uint32_t r = 0; r < 2; r++)
            tlc_allreduce_destroy(rank[r]);
    }
    tlc_exchange_config cfg;
    tlc_message push, answer;
    tlc_worker *worker;
    tlc_server *server;
    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = cfg.servers = 1;
    require_status(tlc_worker_create(&worker, &cfg, 0, NULL, 0), TLC_OK);
    require_status(tlc_server_create(&server, &cfg, 0, NULL, 0), TLC_OK);
    require_status(tlc_worker_push(worker, grads, 1, &push), TLC_OK);
    require_status(tlc_server_push(server, push, NULL), TLC_OK);
    require_status(tlc_server_reduce(server), TLC_OK);
    require_status(tlc_server_answer(server, NULL, &answer), TLC_OK);
    require_status(tlc_worker_pull(worker, &answer, NULL), TLC_OK);
    require_status(tlc_worker_mask(worker, NULL), TLC_OK);
    require(tlc_worker_step(worker) == 2);
    tlc_worker_destroy(worker);
    tlc_server_destroy(server);
}

/* A long name is cut, and what is not printable in it is replaced. */
TEST(long_names)
{
    const float bad = NAN;
    char name[300], want[200];

    memset(name, 'n', sizeof name);
    memcpy(name, "conv\n\xc3\xa9", 7);
    name[sizeof name - 1] = 0;
    snprintf(want, sizeof want, "rank 0: NaN or infinity in the gradient of tensor \"conv???%.56s\"", name + 7);
    for (fleet_kind kind = SHARDED; kind <= GATHERED; kind++) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        tlc_tensor list[TENSORS];
        fleet f;
        memcpy(list, small_tensors, sizeof list);
        list[CONV].name = name;
        fleet_open(&f, &cfg, list, 0);
        fleet_gradients(&f, 1);
        memcpy(f.grad[CONV], &bad, sizeof bad);
        fleet_push(&f);
        fleet_reduce(&f);
        fleet_pull(&f);
        for (uint32_t w = 0; w < RANKS; w++)
            require(!strcmp(member_outcome(f.worker[w], 0).sentence, want));
        fleet_close(&f);
    }
}
