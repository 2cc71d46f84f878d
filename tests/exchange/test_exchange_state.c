/* SPDX-License-Identifier: MIT
 *
 * States of the exchange: a run goes on with the same bits, or with another number of ranks and the same means; names
 * that find nothing are reported; states at fault are refused.
 */
#include "../support/exchange_run.h"
#include <float.h>
#include <math.h>

enum { RANKS_MAX = 13 };

static const tlc_tensor tensors[TENSORS] = {
    {.struct_size = sizeof(tlc_tensor), .name = "conv.weight", .n = 3000, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "conv.bias", .n = 20, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "norm.mean", .n = 30, .only = 0},
    {.struct_size = sizeof(tlc_tensor), .name = "fc.weight", .n = 5000, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "fc.bias", .n = 10, .only = TLC_NOBODY},
};

/* States of all workers or of all servers. */
typedef struct saved {
    tlc_message state[RANKS_MAX];
    size_t count;
} saved;

static fleet open_fleet(uint32_t workers, uint32_t servers, int gather, const char *codec, int sum)
{
    tlc_exchange_config cfg;
    fleet f;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = workers;
    cfg.servers = servers;
    cfg.gather = gather;
    cfg.push = codec;
    cfg.sum = sum;
    cfg.split_n = 1000;
    cfg.reserve = "raw;topk:p=0.1";
    cfg.seed = 5;
    fleet_open(&f, &cfg, tensors, 1);
    return f;
}

/* One step of all. */
static void step(fleet *f, uint64_t number)
{
    fleet_step(f, number);
    for (size_t i = 0; i < (size_t)f->workers * f->cfg.servers; i++)
        require_status(f->came[i], TLC_OK);
    for (uint32_t o = 0; o < f->owners; o++)
        require_status(f->reduced[o], TLC_OK);
    require_pulled(f, TLC_OK);
}

/* One step of two runs, with the same messages and results. */
static void same_step(fleet *a, fleet *b, uint64_t number)
{
    step(a, number);
    step(b, number);
    for (size_t i = 0; i < (size_t)a->workers * a->lanes; i++)
        require(blob_same(a->push[i], b->push[i]));
    for (uint32_t o = 0; o < a->owners; o++)
        require(blob_same(a->answer[o], b->answer[o]));
    for (size_t t = 0; t < a->count; t++)
        require(same(a->out[t], b->out[t], fleet_bytes(a, t)));
}

static saved save(const fleet *f, int servers)
{
    saved s = {.count = servers ? f->cfg.servers : f->workers};

    for (size_t i = 0; i < s.count; i++)
        s.state[i] = member_save(servers ? f->owner[i] : f->worker[i]);
    return s;
}

static void free_saved(saved *s)
{
    for (size_t i = 0; i < s->count; i++)
        blob_free(&s->state[i]);
}

static uint8_t *byte_of(saved *s, size_t i, size_t at_byte)
{
    return (uint8_t *)(uintptr_t)s->state[i].data + at_byte;
}

/* Loads the states of another run into all objects. own: each gets only its own. */
static void load(fleet *f, const saved *workers, const saved *servers, int own)
{
    for (uint32_t i = 0; i < f->workers; i++)
        require_status(MEMBER(f->worker[i], state_load, own ? &workers->state[i] : workers->state,
                              own ? 1 : workers->count),
                       TLC_OK);
    for (uint32_t i = 0; i < f->cfg.servers; i++)
        require_status(MEMBER(f->owner[i], state_load, own ? &servers->state[i] : servers->state,
                              own ? 1 : servers->count),
                       TLC_OK);
}

/* Of value i of a tensor: what all residuals together will still add to a result. */
static double waiting(const fleet *f, size_t tensor, size_t value)
{
    double sum = 0;

    for (uint32_t w = 0; w < f->workers; w++)
        sum += f->residual[w * TENSORS + tensor][value];
    return f->cfg.sum || f->tensors[tensor].only != TLC_NOBODY ? sum : sum / f->workers;
}

static double owned(const fleet *f, size_t tensor, size_t value)
{
    for (uint32_t o = 0; o < f->lanes; o++)
        for (size_t p = 0; p < member_parts(f->owner[o]); p++) {
            const tlc_part part = member_part(f->owner[o], p);
            if (part.tensor == tensor && part.first <= value && value < part.first + part.n && part.residual)
                return part.residual[value - part.first];
        }
    return 0;
}

/* Every kind goes on with the same bits, with own states or with all. */
TEST(goes_on)
{
    static const char *const list[] = {"3lc", "3lc-golomb", "topk:p=0.05", "qsgd", "natural", "raw"};
    for (size_t c = 0; c < sizeof list / sizeof list[0]; c++)
        for (int kind = 0; kind < 3; kind++)
            for (int own = 0; own < 2; own++) {
                fleet a = open_fleet(3, kind == 2 ? 2 : 0, kind == 1, list[c], 0);
                fleet b = open_fleet(3, kind == 2 ? 2 : 0, kind == 1, list[c], 0);
                for (uint64_t s = 1; s <= 4; s++)
                    step(&a, s);
                saved workers = save(&a, 0), servers = save(&a, 1);
                load(&b, &workers, &servers, own);
                for (size_t i = 0; i < (size_t)a.workers * TENSORS; i++)
                    require(same(a.residual[i], b.residual[i], fleet_bytes(&a, i % TENSORS)));
                for (uint64_t s = 5; s <= 7; s++)
                    same_step(&a, &b, s);
                free_saved(&workers);
                free_saved(&servers);
                fleet_close(&a);
                fleet_close(&b);
            }
}

/* 8 ranks become 5, 13, 1 or 8; results get from the residuals what they would have got. */
TEST(other_numbers)
{
    static const uint32_t numbers[] = {5, 13, 1, 8};
    for (int kind = 0; kind < 3; kind++)
        for (int sum = 0; sum < 2; sum++)
            for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
                fleet a = open_fleet(8, kind == 2 ? 3 : 0, kind == 1, "3lc:s=1.5", sum);
                fleet b = open_fleet(numbers[k], kind == 2 ? 1 + numbers[k] / 4 : 0, kind == 1, "3lc:s=1.5", sum);
                for (uint64_t s = 1; s <= 3; s++)
                    step(&a, s);
                saved workers = save(&a, 0), servers = save(&a, 1);
                load(&b, &workers, &servers, 0);
                for (size_t t = 0; t < a.count; t++)
                    for (size_t i = 0; i < a.tensors[t].n; i++) {
                        double before = waiting(&a, t, i), after = waiting(&b, t, i);
                        if (fabs(before - after) > 1e-5 * (1 + fabs(before)))
                            fail_msg("kind %d, %u ranks, tensor %zu, value %zu: %g becomes %g", kind, numbers[k], t, i,
                                     before, after);
                        assert_true(owned(&a, t, i) == owned(&b, t, i)); /* bit for bit, but for the sign of 0 */
                    }
                step(&b, 4);
                assert_int_equal(member_step(b.worker[0]), 5);
                free_saved(&workers);
                free_saved(&servers);
                fleet_close(&a);
                fleet_close(&b);
            }
}

/* Sums of residuals near the largest float stay finite: such a run goes on. */
TEST(residuals_stay_finite)
{
    fleet three = open_fleet(3, 0, 0, "3lc", 1), one = open_fleet(1, 0, 0, "3lc", 1),
          two = open_fleet(2, 0, 0, "3lc", 0), four = open_fleet(4, 0, 0, "3lc", 0);

    for (int i = 0; i < 3; i++) {
        three.residual[i * TENSORS][0] = i < 2 ? FLT_MAX : -FLT_MAX;
        three.residual[i * TENSORS][1] = -FLT_MAX;
        three.residual[i * TENSORS][2] = 0.25f * FLT_MAX;
    }
    saved s = save(&three, 0);
    load(&one, &s, &s, 0);
    assert_true(one.residual[0][0] == 0);
    assert_true(one.residual[0][1] == -FLT_MAX);
    assert_true(one.residual[0][2] == 0.75f * FLT_MAX);
    two.residual[0][0] = -0.75f * FLT_MAX; /* times 4 / 2 */
    saved s_two = save(&two, 0);
    load(&four, &s_two, &s_two, 0);
    assert_true(four.residual[0][0] == -FLT_MAX);
    free_saved(&s);
    free_saved(&s_two);
    fleet_close(&three);
    fleet_close(&one);
    fleet_close(&two);
    fleet_close(&four);
}

/* A codec that was set is in the state; it must be reserved where the state is loaded. */
TEST(codecs_go_along)
{
    tlc_outcome o = {.struct_size = sizeof o};
    fleet a = open_fleet(2, 0, 0, "3lc", 0), b = open_fleet(2, 0, 0, "3lc", 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(tlc_allreduce_set_codec(a.worker[i].rank, TLC_ALL, "topk:p=0.1", "raw"), TLC_OK);
    step(&a, 1);
    saved s = save(&a, 0), none = {.count = 0};
    load(&b, &s, &none, 1);
    same_step(&a, &b, 2);
    fleet_close(&b);
    b = open_fleet(2, 0, 0, "3lc", 0);
    b.cfg.reserve = NULL;
    tlc_allreduce_destroy(b.worker[0].rank);
    assert_int_equal(tlc_allreduce_create(&b.worker[0].rank, &b.cfg, 0, b.tensors, b.count), TLC_OK);
    assert_int_equal(tlc_allreduce_state_load(b.worker[0].rank, s.state, 1), TLC_ERR_CAPACITY);
    assert_int_equal(tlc_allreduce_outcome(b.worker[0].rank, &o), TLC_OK);
    assert_int_equal(o.cause, TLC_ERR_CAPACITY);
    assert_int_equal(o.tensor, 0);
    assert_string_equal(o.sentence,
                        "rank 0: tensor 0 (\"conv.weight\"): the codec of state 0, \"topk:p=0.1\", does not "
                        "fit here, where there is \"3lc\"; name it in reserve");
    free_saved(&s);
    fleet_close(&a);
    fleet_close(&b);
}

/* Names that find nothing are reported; the others are found wherever they stand in the list. */
TEST(names_are_reported)
{
    tlc_outcome o = {.struct_size = sizeof o};
    tlc_tensor other[TENSORS];
    tlc_allreduce *b;
    fleet a = open_fleet(1, 0, 0, "3lc", 0);
    step(&a, 1);
    saved s = save(&a, 0);
    static float residual[5000];
    for (size_t t = 0; t < a.count; t++)
        other[t] = a.tensors[a.count - 1 - t];
    other[0].name = "head.bias";
    other[1].residual = residual;
    assert_int_equal(tlc_allreduce_create(&b, &a.cfg, 0, other, a.count), TLC_OK);
    assert_int_equal(tlc_allreduce_state_load(b, s.state, 1), TLC_OK);
    assert_int_equal(tlc_allreduce_outcome(b, &o), TLC_OK);
    assert_int_equal(o.status, TLC_OK);
    assert_int_equal(o.cause, TLC_OK);
    assert_int_equal(o.unknown, 2); /* fc.bias of pushes and of answers */
    assert_int_equal(o.missing, 1);
    assert_int_equal(o.tensor, 0);
    assert_string_equal(o.sentence, "entries of the states without a place here: 2, first \"fc.bias\"; "
                                    "tensors in no state: 1, first \"head.bias\"");
    require(same(residual, a.residual[3], sizeof residual));

    /* what an earlier state had does not count */
    tlc_message its = member_save((member){.rank = b});
    assert_int_equal(tlc_allreduce_state_load(a.worker[0].rank, s.state, 1), TLC_OK);
    assert_int_equal(tlc_allreduce_outcome(a.worker[0].rank, &o), TLC_OK);
    assert_int_equal(o.unknown + o.missing, 0);
    assert_int_equal(tlc_allreduce_state_load(a.worker[0].rank, &its, 1), TLC_OK);
    assert_int_equal(tlc_allreduce_outcome(a.worker[0].rank, &o), TLC_OK);
    assert_int_equal(o.missing, 1);
    assert_int_equal(o.tensor, 4);
    blob_free(&its);
    tlc_allreduce_destroy(b);
    free_saved(&s);
    fleet_close(&a);
}

/* Loads states into a rank, which must fail and leave the residual and the step. */
static void require_refused(tlc_allreduce *a, const float *residual, const tlc_message *states, size_t count,
                            tlc_status status, const char *sentence)
{
    static float before[3000];
    tlc_outcome o = {.struct_size = sizeof o};
    uint64_t number = tlc_allreduce_step(a);

    memcpy(before, residual, sizeof before);
    assert_int_equal(tlc_allreduce_state_load(a, states, count), status);
    assert_memory_equal(before, residual, sizeof before);
    assert_int_equal(tlc_allreduce_step(a), number);
    assert_int_equal(tlc_allreduce_outcome(a, &o), TLC_OK);
    assert_int_equal(o.status, status);
    assert_string_equal(o.sentence, sentence);
}

TEST(refused)
{
    fleet a = open_fleet(3, 0, 0, "3lc", 0), b = open_fleet(3, 0, 0, "3lc", 0), gather = open_fleet(3, 0, 1, "3lc", 0),
          two = open_fleet(2, 0, 0, "3lc", 0), sum = open_fleet(3, 0, 0, "3lc", 1), ps = open_fleet(3, 1, 0, "3lc", 0);
    const float *residual = b.residual[0];
    tlc_allreduce *rank = b.worker[0].rank;
    step(&b, 1);
    saved first = save(&a, 0);
    step(&a, 1);
    step(&two, 1);
    saved s = save(&a, 0), s_gather = save(&gather, 0), s_two = save(&two, 0), s_sum = save(&sum, 0),
          s_ps = save(&ps, 0);
    tlc_message pair[2] = {s.state[0], s.state[0]};

    require_refused(rank, residual, NULL, 1, TLC_ERR_PARAM, "rank 0: states is NULL");
    require_refused(rank, residual, s.state, 0, TLC_ERR_PARAM, "rank 0: count is 0; at least one state is needed");
    require_refused(rank, residual, s_gather.state, 3, TLC_ERR_PARAM,
                    "rank 0: state 0 is of a rank in an all-reduce with gather, not of a rank in an all-reduce");
    require_refused(rank, residual, s_ps.state, 3, TLC_ERR_PARAM,
                    "rank 0: state 0 is of a worker in an exchange with servers, not of a rank in an all-reduce");
    require_refused(rank, residual, s_sum.state, 3, TLC_ERR_PARAM,
                    "rank 0: state 0 is of a run with sum 1, here sum is 0");
    require_refused(rank, residual, pair, 2, TLC_ERR_PARAM, "rank 0 has two states");
    pair[1] = s_two.state[1];
    require_refused(rank, residual, pair, 2, TLC_ERR_PARAM,
                    "rank 0: state 1 is of a run of 2 workers and 0 servers, state 0 of one of 3 and 0");
    pair[1] = first.state[1];
    require_refused(rank, residual, pair, 2, TLC_ERR_PARAM,
                    "rank 1: its state is of step 1, that of another is of step 2");
    *byte_of(&s, 1, 100) ^= 1;
    require_refused(rank, residual, s.state, 3, TLC_ERR_CHECKSUM, "rank 0: state 1: the checksum does not match");
    *byte_of(&s, 2, 4) = 3;
    require_refused(rank, residual, &s.state[2], 1, TLC_ERR_VERSION,
                    "rank 0: state 0: byte 4, the format version of a state of a worker, a server or a rank "
                    "(threelc/exchange.h), is 3: this library reads 1 to 2");
    *byte_of(&s, 2, 0) = 't';
    require_refused(rank, residual, &s.state[2], 1, TLC_ERR_CORRUPT,
                    "rank 0: state 0: these are not the bytes of a state of a worker, a server or a rank "
                    "(threelc/exchange.h), which begins with \"TLCX\"");
    require_refused(rank, residual, &(tlc_message){"TLCG\1", 6}, 1, TLC_ERR_CORRUPT,
                    "rank 0: state 0: these are the bytes of a state of a node (threelc/gossip.h), not of a state of a "
                    "worker, a server or a rank (threelc/exchange.h)");
    require_refused(rank, residual, &(tlc_message){NULL, 4}, 1, TLC_ERR_CORRUPT,
                    "rank 0: state 0: its data is NULL, but its length is 4");

    b.tensors[3].n--;
    for (size_t t = 0; t < b.count; t++)
        b.tensors[t].residual = b.residual[t];
    tlc_allreduce_destroy(rank);
    assert_int_equal(tlc_allreduce_create(&b.worker[0].rank, &b.cfg, 0, b.tensors, b.count), TLC_OK);
    require_refused(b.worker[0].rank, residual, s.state, 1, TLC_ERR_SIZE,
                    "rank 0: tensor 3 (\"fc.weight\"): it has 5000 values in state 0, and 4999 here");
    free_saved(&first);
    free_saved(&s);
    free_saved(&s_gather);
    free_saved(&s_two);
    free_saved(&s_sum);
    free_saved(&s_ps);
    fleet_close(&a);
    fleet_close(&b);
    fleet_close(&gather);
    fleet_close(&two);
    fleet_close(&sum);
    fleet_close(&ps);
}

/* Earlier messages are not kept when a state is loaded: they may be of another run. */
TEST(messages_are_forgotten)
{
    tlc_message answer;
    for (int kind = 0; kind < 3; kind++) {
        fleet a = open_fleet(2, kind == 2, kind == 1, "3lc", 0);
        step(&a, 1);
        saved workers = save(&a, 0), servers = save(&a, 1);
        assert_int_equal(a.cfg.servers ? tlc_server_again(a.owner[0].server, 1, &answer)
                                       : tlc_allreduce_again(a.worker[0].rank, 1, &answer),
                         TLC_OK);
        load(&a, &workers, &servers, 1);
        assert_int_equal(a.cfg.servers ? tlc_server_again(a.owner[0].server, 1, &answer)
                                       : tlc_allreduce_again(a.worker[0].rank, 1, &answer),
                         TLC_ERR_PARAM);
        free_saved(&workers);
        free_saved(&servers);
        fleet_close(&a);
    }
}

/* What a server knows of workers' last pushes is in its state. */
TEST(taken_goes_along)
{
    uint64_t taken = 0;
    fleet a = open_fleet(3, 2, 0, "3lc", 0), b = open_fleet(3, 2, 0, "3lc", 0), c = open_fleet(4, 2, 0, "3lc", 0);
    step(&a, 1);
    step(&a, 2);
    saved workers = save(&a, 0), servers = save(&a, 1);
    load(&b, &workers, &servers, 0);
    load(&c, &workers, &servers, 0);
    for (uint32_t w = 0; w < 3; w++) {
        assert_int_equal(tlc_server_taken(b.owner[1].server, w, &taken), TLC_OK);
        assert_int_equal(taken, 2);
        assert_int_equal(tlc_server_taken(c.owner[1].server, w, &taken), TLC_OK);
        assert_int_equal(taken, 0); /* of another number of workers */
    }
    free_saved(&workers);
    free_saved(&servers);
    fleet_close(&a);
    fleet_close(&b);
    fleet_close(&c);
}
