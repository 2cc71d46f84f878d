/* SPDX-License-Identifier: MIT
 *
 * States of the exchange: a run goes on with the same bits, or with another number of ranks and the same means; names
 * that find nothing are reported; states at fault are refused.
 */
#include "../support/support.h"
#include <float.h>
#include <math.h>
#include <threelc/exchange.h>

enum { TENSORS = 5, RANKS_MAX = 13, STATE_MAX = 200000 };

static const char *const names[TENSORS] = {"conv.weight", "conv.bias", "norm.mean", "fc.weight", "fc.bias"};
static const size_t sizes[TENSORS] = {3000, 20, 30, 5000, 10};

/* A run in one process: an all-reduce, or workers and servers. */
typedef struct run {
    tlc_exchange_config cfg;
    tlc_tensor tensors[TENSORS];
    tlc_allreduce *rank[RANKS_MAX];
    tlc_worker *worker[RANKS_MAX];
    tlc_server *server[RANKS_MAX];
    float *residual[RANKS_MAX][TENSORS]; /* of pushes */
    float *out[TENSORS];                 /* of the last step, the same for all */
} run;

typedef struct saved {
    unsigned char *bytes[RANKS_MAX];
    tlc_message state[RANKS_MAX];
    size_t count;
} saved;

static run *make_run(uint32_t workers, uint32_t servers, int gather, const char *codec, int sum)
{
    run *r = calloc(1, sizeof *r);

    tlc_exchange_config_init(&r->cfg, sizeof r->cfg);
    r->cfg.workers = workers;
    r->cfg.servers = servers;
    r->cfg.gather = gather;
    r->cfg.push = codec;
    r->cfg.sum = sum;
    r->cfg.split_n = 1000;
    r->cfg.reserve = "raw;topk:p=0.1";
    r->cfg.seed = 5;
    for (size_t t = 0; t < TENSORS; t++) {
        r->tensors[t] = (tlc_tensor){.struct_size = sizeof(tlc_tensor), .name = names[t], .n = sizes[t]};
        r->out[t] = calloc(sizes[t], sizeof(float));
    }
    r->tensors[2].only = 1;
    for (uint32_t i = 0; i < workers; i++) {
        for (size_t t = 0; t < TENSORS; t++)
            r->tensors[t].residual = r->residual[i][t] = calloc(sizes[t], sizeof(float));
        if (servers)
            assert_int_equal(tlc_worker_create(&r->worker[i], &r->cfg, i, r->tensors, TENSORS), TLC_OK);
        else
            assert_int_equal(tlc_allreduce_create(&r->rank[i], &r->cfg, i, r->tensors, TENSORS), TLC_OK);
    }
    for (uint32_t i = 0; i < servers; i++)
        assert_int_equal(tlc_server_create(&r->server[i], &r->cfg, i, r->tensors, TENSORS), TLC_OK);
    return r;
}

static void free_run(run *r)
{
    for (size_t i = 0; i < RANKS_MAX; i++) {
        tlc_allreduce_destroy(r->rank[i]);
        tlc_worker_destroy(r->worker[i]);
        tlc_server_destroy(r->server[i]);
        for (size_t t = 0; t < TENSORS; t++)
            free(r->residual[i][t]);
    }
    for (size_t t = 0; t < TENSORS; t++)
        free(r->out[t]);
    free(r);
}

static void fill_gradients(float *grads[TENSORS], uint64_t step, uint32_t rank)
{
    rng g = {step * 1000 + rank};

    for (size_t t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < sizes[t]; i++)
            grads[t][i] = (float)(rng_double(&g) - 0.5) * (i % 7 ? 1.0f : 5.0f);
}

/* One step of all. Adds the hashes of all messages to *hash. */
static void step(run *r, uint64_t number, uint64_t *hash)
{
    static float memory[TENSORS][5000];
    float *grads[TENSORS];
    tlc_message to[RANKS_MAX][RANKS_MAX], from[RANKS_MAX], all[RANKS_MAX];
    uint32_t n = r->cfg.workers, servers = r->cfg.servers;

    for (size_t t = 0; t < TENSORS; t++)
        grads[t] = memory[t];
    for (uint32_t i = 0; i < n; i++) {
        fill_gradients(grads, number, i);
        if (servers)
            assert_int_equal(tlc_worker_push(r->worker[i], (const void *const *)grads, 1, to[i]), TLC_OK);
        else
            assert_int_equal(tlc_allreduce_push(r->rank[i], (const void *const *)grads, 1, to[i]), TLC_OK);
        all[i] = to[i][0];
    }
    for (uint32_t j = 0; j < (servers ? servers : r->cfg.gather ? 0 : n); j++) {
        for (uint32_t i = 0; i < n; i++) {
            from[i] = to[i][j];
            if (servers)
                assert_int_equal(tlc_server_push(r->server[j], from[i], NULL), TLC_OK);
        }
        if (servers) {
            assert_int_equal(tlc_server_reduce(r->server[j]), TLC_OK);
            assert_int_equal(tlc_server_answer(r->server[j], NULL, &all[j]), TLC_OK);
        } else
            assert_int_equal(tlc_allreduce_reduce(r->rank[j], from, &all[j]), TLC_OK);
    }
    for (uint32_t j = 0; j < (servers ? servers : n); j++)
        for (size_t i = 0; hash && i < all[j].len; i++)
            *hash = (*hash ^ ((const unsigned char *)all[j].data)[i]) * UINT64_C(0x100000001b3);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(servers ? tlc_worker_pull(r->worker[i], all, (void *const *)r->out)
                                 : tlc_allreduce_pull(r->rank[i], all, (void *const *)r->out),
                         TLC_OK);
}

static saved save(const run *r, int servers)
{
    saved s = {.count = servers ? r->cfg.servers : r->cfg.workers};

    for (size_t i = 0; i < s.count; i++) {
        size_t size = servers          ? tlc_server_state_size(r->server[i])
                      : r->cfg.servers ? tlc_worker_state_size(r->worker[i])
                                       : tlc_allreduce_state_size(r->rank[i]);
        size_t written = 0;
        s.bytes[i] = malloc(size);
        assert_int_equal(servers          ? tlc_server_state_save(r->server[i], s.bytes[i], size, &written)
                         : r->cfg.servers ? tlc_worker_state_save(r->worker[i], s.bytes[i], size, &written)
                                          : tlc_allreduce_state_save(r->rank[i], s.bytes[i], size, &written),
                         TLC_OK);
        assert_int_equal(written, size);
        s.state[i] = (tlc_message){s.bytes[i], size};
    }
    return s;
}

static void free_saved(saved *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->bytes[i]);
}

/* Loads the states of another run into all objects. own: each gets only its own. */
static void load(run *r, const saved *workers, const saved *servers, int own)
{
    for (uint32_t i = 0; i < r->cfg.workers; i++) {
        const tlc_message *states = own ? &workers->state[i] : workers->state;
        size_t count = own ? 1 : workers->count;
        assert_int_equal(r->cfg.servers ? tlc_worker_state_load(r->worker[i], states, count)
                                        : tlc_allreduce_state_load(r->rank[i], states, count),
                         TLC_OK);
    }
    for (uint32_t i = 0; i < r->cfg.servers; i++)
        assert_int_equal(tlc_server_state_load(r->server[i], own ? &servers->state[i] : servers->state,
                                               own ? 1 : servers->count),
                         TLC_OK);
}

/* Of value i of a tensor: what all residuals together will still add to a result. */
static double waiting(const run *r, size_t tensor, size_t value)
{
    double sum = 0;

    for (uint32_t w = 0; w < r->cfg.workers; w++)
        sum += r->residual[w][tensor][value];
    return r->cfg.sum || r->tensors[tensor].only ? sum : sum / r->cfg.workers;
}

static double owned(const run *r, size_t tensor, size_t value)
{
    for (uint32_t i = 0; i < (r->cfg.servers ? r->cfg.servers : r->cfg.workers); i++) {
        size_t parts = r->cfg.servers ? tlc_server_parts(r->server[i]) : tlc_allreduce_parts(r->rank[i]);
        for (size_t p = 0; p < parts; p++) {
            tlc_part part = {.struct_size = sizeof part};
            assert_int_equal(r->cfg.servers ? tlc_server_part(r->server[i], p, &part)
                                            : tlc_allreduce_part(r->rank[i], p, &part),
                             TLC_OK);
            if (part.tensor == tensor && part.first <= value && value < part.first + part.n && part.residual)
                return part.residual[value - part.first];
        }
    }
    return 0;
}

/* Every kind goes on with the same bits, with own states or with all. */
static void goes_on(void **state)
{
    (void)state;
    static const char *const list[] = {"3lc", "3lc-golomb", "topk:p=0.05", "qsgd", "natural", "raw"};
    for (size_t c = 0; c < sizeof list / sizeof list[0]; c++)
        for (int kind = 0; kind < 3; kind++)
            for (int own = 0; own < 2; own++) {
                run *a = make_run(3, kind == 2 ? 2 : 0, kind == 1, list[c], 0);
                run *b = make_run(3, kind == 2 ? 2 : 0, kind == 1, list[c], 0);
                uint64_t hash_a = 0, hash_b = 0;
                for (uint64_t s = 1; s <= 4; s++)
                    step(a, s, NULL);
                saved workers = save(a, 0), servers = save(a, 1);
                load(b, &workers, &servers, own);
                for (size_t t = 0; t < TENSORS; t++)
                    for (uint32_t w = 0; w < 3; w++)
                        assert_memory_equal(a->residual[w][t], b->residual[w][t], sizes[t] * sizeof(float));
                for (uint64_t s = 5; s <= 7; s++) {
                    step(a, s, &hash_a);
                    step(b, s, &hash_b);
                }
                assert_true(hash_a == hash_b);
                for (size_t t = 0; t < TENSORS; t++)
                    assert_memory_equal(a->out[t], b->out[t], sizes[t] * sizeof(float));
                free_saved(&workers);
                free_saved(&servers);
                free_run(a);
                free_run(b);
            }
}

/* 8 ranks become 5, 13, 1 or 8; results get from the residuals what they would have got. */
static void other_numbers(void **state)
{
    (void)state;
    static const uint32_t numbers[] = {5, 13, 1, 8};
    for (int kind = 0; kind < 3; kind++)
        for (int sum = 0; sum < 2; sum++)
            for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
                run *a = make_run(8, kind == 2 ? 3 : 0, kind == 1, "3lc:s=1.5", sum);
                run *b = make_run(numbers[k], kind == 2 ? 1 + numbers[k] / 4 : 0, kind == 1, "3lc:s=1.5", sum);
                for (uint64_t s = 1; s <= 3; s++)
                    step(a, s, NULL);
                saved workers = save(a, 0), servers = save(a, 1);
                load(b, &workers, &servers, 0);
                for (size_t t = 0; t < TENSORS; t++)
                    for (size_t i = 0; i < sizes[t]; i++) {
                        double before = waiting(a, t, i), after = waiting(b, t, i);
                        if (fabs(before - after) > 1e-5 * (1 + fabs(before)))
                            fail_msg("kind %d, %u ranks, tensor %zu, value %zu: %g becomes %g", kind, numbers[k], t, i,
                                     before, after);
                        assert_true(owned(a, t, i) == owned(b, t, i)); /* bit for bit, but for the sign of 0 */
                    }
                step(b, 4, NULL);
                assert_int_equal(b->cfg.servers ? tlc_worker_step(b->worker[0]) : tlc_allreduce_step(b->rank[0]), 5);
                free_saved(&workers);
                free_saved(&servers);
                free_run(a);
                free_run(b);
            }
}

/* A codec that was set is in the state; it must be reserved where the state is loaded. */
/* Sums of residuals near the largest float stay finite: such a run goes on. */
static void residuals_stay_finite(void **state)
{
    (void)state;
    run *three = make_run(3, 0, 0, "3lc", 1), *one = make_run(1, 0, 0, "3lc", 1), *two = make_run(2, 0, 0, "3lc", 0),
        *four = make_run(4, 0, 0, "3lc", 0);

    for (int i = 0; i < 3; i++) {
        three->residual[i][0][0] = i < 2 ? FLT_MAX : -FLT_MAX;
        three->residual[i][0][1] = -FLT_MAX;
        three->residual[i][0][2] = 0.25f * FLT_MAX;
    }
    saved s = save(three, 0);
    load(one, &s, &s, 0);
    assert_true(one->residual[0][0][0] == 0);
    assert_true(one->residual[0][0][1] == -FLT_MAX);
    assert_true(one->residual[0][0][2] == 0.75f * FLT_MAX);
    two->residual[0][0][0] = -0.75f * FLT_MAX; /* times 4 / 2 */
    saved s_two = save(two, 0);
    load(four, &s_two, &s_two, 0);
    assert_true(four->residual[0][0][0] == -FLT_MAX);
    free_saved(&s);
    free_saved(&s_two);
    free_run(three);
    free_run(one);
    free_run(two);
    free_run(four);
}

static void codecs_go_along(void **state)
{
    tlc_outcome o = {.struct_size = sizeof o};
    (void)state;
    run *a = make_run(2, 0, 0, "3lc", 0), *b = make_run(2, 0, 0, "3lc", 0);
    uint64_t hash_a = 0, hash_b = 0;
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(tlc_allreduce_set_codec(a->rank[i], TLC_ALL, "topk:p=0.1", "raw"), TLC_OK);
    step(a, 1, NULL);
    saved s = save(a, 0), none = {.count = 0};
    load(b, &s, &none, 1);
    step(a, 2, &hash_a);
    step(b, 2, &hash_b);
    assert_true(hash_a == hash_b);
    free_run(b);
    b = make_run(2, 0, 0, "3lc", 0);
    b->cfg.reserve = NULL;
    tlc_allreduce_destroy(b->rank[0]);
    assert_int_equal(tlc_allreduce_create(&b->rank[0], &b->cfg, 0, b->tensors, TENSORS), TLC_OK);
    assert_int_equal(tlc_allreduce_state_load(b->rank[0], s.state, 1), TLC_ERR_CAPACITY);
    assert_int_equal(tlc_allreduce_outcome(b->rank[0], &o), TLC_OK);
    assert_int_equal(o.cause, TLC_ERR_CAPACITY);
    assert_int_equal(o.tensor, 0);
    assert_string_equal(o.sentence,
                        "rank 0: tensor 0 (\"conv.weight\"): the codec of state 0, \"topk:p=0.1\", does not "
                        "fit here, where there is \"3lc\"; name it in reserve");
    free_saved(&s);
    free_run(a);
    free_run(b);
}

/* Names that find nothing are reported; the others are found wherever they stand in the list. */
static void names_are_reported(void **state)
{
    tlc_outcome o = {.struct_size = sizeof o};
    tlc_tensor other[TENSORS];
    tlc_allreduce *b;
    (void)state;
    run *a = make_run(1, 0, 0, "3lc", 0);
    step(a, 1, NULL);
    saved s = save(a, 0);
    static float residual[5000];
    for (size_t t = 0; t < TENSORS; t++)
        other[t] = a->tensors[TENSORS - 1 - t];
    other[0].name = "head.bias";
    other[1].residual = residual;
    assert_int_equal(tlc_allreduce_create(&b, &a->cfg, 0, other, TENSORS), TLC_OK);
    assert_int_equal(tlc_allreduce_state_load(b, s.state, 1), TLC_OK);
    assert_int_equal(tlc_allreduce_outcome(b, &o), TLC_OK);
    assert_int_equal(o.status, TLC_OK);
    assert_int_equal(o.cause, TLC_OK);
    assert_int_equal(o.unknown, 2); /* fc.bias of pushes and of answers */
    assert_int_equal(o.missing, 1);
    assert_int_equal(o.tensor, 0);
    assert_string_equal(o.sentence, "entries of the states without a place here: 2, first \"fc.bias\"; "
                                    "tensors in no state: 1, first \"head.bias\"");
    assert_memory_equal(residual, a->residual[0][3], sizes[3] * sizeof(float));

    /* what an earlier state had does not count */
    size_t size = tlc_allreduce_state_size(b), written = 0;
    unsigned char *bytes = malloc(size);
    assert_int_equal(tlc_allreduce_state_save(b, bytes, size, &written), TLC_OK);
    assert_int_equal(tlc_allreduce_state_load(a->rank[0], s.state, 1), TLC_OK);
    assert_int_equal(tlc_allreduce_outcome(a->rank[0], &o), TLC_OK);
    assert_int_equal(o.unknown + o.missing, 0);
    assert_int_equal(tlc_allreduce_state_load(a->rank[0], &(tlc_message){bytes, written}, 1), TLC_OK);
    assert_int_equal(tlc_allreduce_outcome(a->rank[0], &o), TLC_OK);
    assert_int_equal(o.missing, 1);
    assert_int_equal(o.tensor, 4);
    free(bytes);
    tlc_allreduce_destroy(b);
    free_saved(&s);
    free_run(a);
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

static void refused(void **state)
{
    (void)state;
    run *a = make_run(3, 0, 0, "3lc", 0), *b = make_run(3, 0, 0, "3lc", 0), *gather = make_run(3, 0, 1, "3lc", 0),
        *two = make_run(2, 0, 0, "3lc", 0), *sum = make_run(3, 0, 0, "3lc", 1), *ps = make_run(3, 1, 0, "3lc", 0);
    const float *residual = b->residual[0][0];
    tlc_allreduce *rank = b->rank[0];
    step(b, 1, NULL);
    saved first = save(a, 0);
    step(a, 1, NULL);
    step(two, 1, NULL);
    saved s = save(a, 0), s_gather = save(gather, 0), s_two = save(two, 0), s_sum = save(sum, 0), s_ps = save(ps, 0);
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
    s.bytes[1][100] ^= 1;
    require_refused(rank, residual, s.state, 3, TLC_ERR_CHECKSUM, "rank 0: state 1: the checksum does not match");
    s.bytes[2][4] = 2;
    require_refused(rank, residual, &s.state[2], 1, TLC_ERR_VERSION,
                    "rank 0: state 0: byte 4, the format version of a state of a worker, a server or a rank "
                    "(threelc/exchange.h), is 2: this library reads 1");
    s.bytes[2][0] = 't';
    require_refused(rank, residual, &s.state[2], 1, TLC_ERR_CORRUPT,
                    "rank 0: state 0: these are not the bytes of a state of a worker, a server or a rank "
                    "(threelc/exchange.h), which begins with \"TLCX\"");
    require_refused(
        rank, residual, &(tlc_message){"TLCG\1", 6}, 1, TLC_ERR_CORRUPT,
        "rank 0: state 0: these are the bytes of a state of a node (threelc/exchange.h), not of a state of a "
        "worker, a server or a rank (threelc/exchange.h)");
    require_refused(rank, residual, &(tlc_message){NULL, 4}, 1, TLC_ERR_CORRUPT,
                    "rank 0: state 0: its data is NULL, but its length is 4");

    b->tensors[3].n--;
    for (size_t t = 0; t < TENSORS; t++)
        b->tensors[t].residual = b->residual[0][t];
    tlc_allreduce_destroy(rank);
    assert_int_equal(tlc_allreduce_create(&b->rank[0], &b->cfg, 0, b->tensors, TENSORS), TLC_OK);
    require_refused(b->rank[0], residual, s.state, 1, TLC_ERR_SIZE,
                    "rank 0: tensor 3 (\"fc.weight\"): it has 5000 values in state 0, and 4999 here");
    free_saved(&first);
    free_saved(&s);
    free_saved(&s_gather);
    free_saved(&s_two);
    free_saved(&s_sum);
    free_saved(&s_ps);
    free_run(a);
    free_run(b);
    free_run(gather);
    free_run(two);
    free_run(sum);
    free_run(ps);
}

/* Messages of before are not kept when a state is loaded: they may be of another run. */
static void messages_are_forgotten(void **state)
{
    tlc_message answer;
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        run *a = make_run(2, kind == 2, kind == 1, "3lc", 0);
        step(a, 1, NULL);
        saved workers = save(a, 0), servers = save(a, 1);
        assert_int_equal(a->cfg.servers ? tlc_server_again(a->server[0], 1, &answer)
                                        : tlc_allreduce_again(a->rank[0], 1, &answer),
                         TLC_OK);
        load(a, &workers, &servers, 1);
        assert_int_equal(a->cfg.servers ? tlc_server_again(a->server[0], 1, &answer)
                                        : tlc_allreduce_again(a->rank[0], 1, &answer),
                         TLC_ERR_PARAM);
        free_saved(&workers);
        free_saved(&servers);
        free_run(a);
    }
}

/* What a server knows of workers' last pushes is in its state. */
static void taken_goes_along(void **state)
{
    uint64_t taken = 0;
    (void)state;
    run *a = make_run(3, 2, 0, "3lc", 0), *b = make_run(3, 2, 0, "3lc", 0), *c = make_run(4, 2, 0, "3lc", 0);
    step(a, 1, NULL);
    step(a, 2, NULL);
    saved workers = save(a, 0), servers = save(a, 1);
    load(b, &workers, &servers, 0);
    load(c, &workers, &servers, 0);
    for (uint32_t w = 0; w < 3; w++) {
        assert_int_equal(tlc_server_taken(b->server[1], w, &taken), TLC_OK);
        assert_int_equal(taken, 2);
        assert_int_equal(tlc_server_taken(c->server[1], w, &taken), TLC_OK);
        assert_int_equal(taken, 0); /* of another number of workers */
    }
    free_saved(&workers);
    free_saved(&servers);
    free_run(a);
    free_run(b);
    free_run(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on),
        cmocka_unit_test(other_numbers),
        cmocka_unit_test(residuals_stay_finite),
        cmocka_unit_test(codecs_go_along),
        cmocka_unit_test(names_are_reported),
        cmocka_unit_test(refused),
        cmocka_unit_test(taken_goes_along),
        cmocka_unit_test(messages_are_forgotten),
    };
    return cmocka_run_group_tests_name("exchange_state", tests, NULL, NULL);
}
