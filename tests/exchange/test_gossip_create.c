/* SPDX-License-Identifier: MIT
 *
 * What tlc_gossip_create takes and refuses. A call that fails leaves *out as it was. (Memory:
 * e5_only_create_allocates_gossip.c.)
 */
#include "../support/gossip_run.h"
#include <math.h>

enum { NODES = 5 };

/* ---- create ------------------------------------------------------------------------------------------------------ */

/* What is created. */
typedef struct attempt {
    tlc_gossip_kind kind;
    tlc_exchange_config cfg;
    uint32_t node, neighbours[NODES];
    double weights[NODES + 1];
    size_t degree, count;
    tlc_tensor tensors[NET_TENSORS];
    float values[256];
    const float *model[NET_TENSORS];
} attempt;

/* Node 1 of 5, between 0 and 2. */
static attempt *good_attempt(tlc_gossip_kind kind)
{
    static attempt a;

    a = (attempt){.kind = kind, .node = 1, .neighbours = {0, 2}, .weights = {0.25, 0.5, 0.25}, .degree = 2};
    a.cfg = network_config(kind, NODES);
    a.count = NET_TENSORS;
    memcpy(a.tensors, net_tensors, sizeof a.tensors);
    for (size_t t = 0; t < NET_TENSORS; t++)
        a.model[t] = net_tensors[t].n ? a.values : NULL;
    return &a;
}

static tlc_status create_with(const attempt *a, const tlc_exchange_config *cfg, const tlc_tensor *tensors,
                              const float *const *model)
{
    tlc_gossip *const other = (tlc_gossip *)(uintptr_t)a, *g = other;
    tlc_status status = tlc_gossip_create(&g, cfg, a->kind, a->node, a->degree ? a->neighbours : NULL, a->weights,
                                          a->degree, tensors, a->count, model);

    require((g == other) == (status != TLC_OK));
    if (status)
        return status;
    require(tlc_gossip_step(g) == 1);
    tlc_gossip_destroy(g);
    return TLC_OK;
}

static tlc_status create_it(const attempt *a)
{
    return create_with(a, &a->cfg, a->tensors, a->model);
}

/* A good attempt, with one change. */
#define CHANGED(want, change)                                                                                          \
    do {                                                                                                               \
        attempt *a = good_attempt(kind);                                                                               \
        change;                                                                                                        \
        require_status_is(#change, create_it(a), want, __FILE__, __LINE__);                                            \
    } while (0)

TEST(configurations)
{
    FOR_EACH_GOSSIP(kind) {
        CHANGED(TLC_OK, (void)a);
        CHANGED(TLC_ERR_PARAM, a->kind = (tlc_gossip_kind)2);
        CHANGED(TLC_ERR_PARAM, a->kind = (tlc_gossip_kind)-1);
        CHANGED(TLC_ERR_PARAM, a->cfg.workers = 0);
        CHANGED(TLC_ERR_PARAM, a->cfg.workers = 2); /* neighbour 2 is none of these */
        CHANGED(TLC_OK, a->cfg.workers = 3);
        CHANGED(TLC_ERR_PARAM, a->cfg.workers = (1u << 20) + 1);
        CHANGED(TLC_ERR_PARAM, a->node = NODES);
        CHANGED(TLC_ERR_PARAM, a->node = TLC_NOBODY);
        CHANGED(TLC_ERR_PARAM, a->cfg.servers = 1);
        CHANGED(TLC_ERR_PARAM, a->cfg.owners = 1);
        CHANGED(TLC_ERR_PARAM, a->cfg.backup = 1);
        CHANGED(TLC_ERR_PARAM, a->cfg.gather = 1);
        CHANGED(TLC_ERR_PARAM, a->cfg.sum = 1);
        CHANGED(TLC_ERR_PARAM, a->cfg.pull = "qsgd");
        CHANGED(TLC_ERR_PARAM, a->cfg.dtype = TLC_F16);
        CHANGED(TLC_ERR_PARAM, a->cfg.dtype = (tlc_dtype)3);
        CHANGED(TLC_ERR_PARAM, a->cfg.keep = 0);
        CHANGED(TLC_OK, a->cfg.keep = 1);
        CHANGED(TLC_ERR_PARAM, a->cfg.assume_finite = 2);
        CHANGED(TLC_OK, a->cfg.push = NULL);
        CHANGED(TLC_ERR_PARAM, a->cfg.push = "4lc");
        CHANGED(TLC_OK, a->cfg.reserve = "");
        CHANGED(TLC_ERR_PARAM, a->cfg.isa = (tlc_isa)-1);
        CHANGED(TLC_ERR_PARAM, a->cfg.isa = (tlc_isa)(TLC_ISA_NEON + 1));
        for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++)
            CHANGED(tlc_isa_supported(isa) ? TLC_OK : TLC_ERR_UNSUPPORTED, a->cfg.isa = isa);
        CHANGED(TLC_OK, a->cfg.min_n = 0);
        CHANGED(TLC_OK, a->cfg.min_n = SIZE_MAX);
        CHANGED(TLC_OK, a->cfg.split_n = 1);
        CHANGED(TLC_OK, a->cfg.split_n = SIZE_MAX);
    }
}

/* Arguments are checked before memory is asked for. */
TEST(limits)
{
    FOR_EACH_GOSSIP(kind) {
        CHANGED(TLC_ERR_NOMEM, a->cfg.alloc = no_allocator);
        CHANGED(TLC_ERR_NOMEM, a->cfg.alloc = no_allocator; a->cfg.workers = 1u << 20);
        CHANGED(TLC_ERR_PARAM, a->cfg.alloc = no_allocator; a->cfg.workers = (1u << 20) + 1);
    }
}

TEST(rows)
{
    FOR_EACH_GOSSIP(kind) {
        CHANGED(TLC_ERR_PARAM, a->neighbours[1] = 1); /* itself */
        CHANGED(TLC_ERR_PARAM, a->neighbours[1] = 0); /* twice */
        CHANGED(TLC_ERR_PARAM, a->neighbours[1] = NODES);
        CHANGED(TLC_ERR_PARAM, a->neighbours[1] = TLC_NOBODY);
        CHANGED(TLC_OK, a->neighbours[0] = NODES - 1);
        CHANGED(TLC_OK, a->neighbours[0] = 2; a->neighbours[1] = 0); /* in any order */
        CHANGED(TLC_ERR_PARAM, a->weights[0] = 0; a->weights[2] = 0.5);
        CHANGED(TLC_ERR_PARAM, a->weights[0] = -0.25; a->weights[2] = 0.75);
        CHANGED(TLC_ERR_PARAM, a->weights[0] = NAN);
        CHANGED(TLC_ERR_PARAM, a->weights[2] = NAN);
        CHANGED(TLC_ERR_PARAM, a->weights[0] = INFINITY; a->weights[1] = -INFINITY);
        CHANGED(TLC_ERR_PARAM, a->weights[0] = 0.75; a->weights[2] = -0.25);
        CHANGED(TLC_OK, a->weights[0] = 0.5; a->weights[2] = 0);
        CHANGED(TLC_OK, a->weights[0] = 0.5; a->weights[2] = -0.0);
        CHANGED(TLC_OK, a->weights[2] = 0.25 + 0x1p-21);
        CHANGED(TLC_OK, a->weights[2] = 0.25 - 0x1p-21);
        CHANGED(TLC_ERR_PARAM, a->weights[2] = 0.25 + 0x1p-19);
        CHANGED(TLC_ERR_PARAM, a->weights[2] = 0.25 - 0x1p-19);
        CHANGED(TLC_ERR_PARAM, a->weights[2] = 0);
        CHANGED(TLC_OK, a->degree = 0; a->weights[0] = 1);
        CHANGED(TLC_ERR_PARAM, a->degree = 0);
        CHANGED(TLC_OK, a->cfg.workers = 1; a->node = 0; a->degree = 0; a->weights[0] = 1);
    }
}

/* Each of many may be named once. */
TEST(many_neighbours)
{
    enum { MANY = 40 };
    uint32_t neighbours[MANY];
    double weights[MANY];

    FOR_EACH_GOSSIP(kind)
        for (uint32_t twice = 0; twice < MANY; twice++) {
            attempt *a = good_attempt(kind);
            tlc_gossip *g = NULL;
            tlc_status status;
            a->cfg.workers = MANY;
            for (uint32_t i = 0; i < MANY; i++) {
                neighbours[i] = i < twice ? i : i + 1; /* node `twice`, and all others */
                weights[i] = 1.0 / (double)MANY;
            }
            status = tlc_gossip_create(&g, &a->cfg, kind, twice, neighbours, weights, MANY - 1, a->tensors, NET_TENSORS,
                                       a->model);
            require_status(status, TLC_OK);
            tlc_gossip_destroy(g);
            neighbours[0] = neighbours[MANY - 2 - twice / 2];
            status = tlc_gossip_create(&g, &a->cfg, kind, twice, neighbours, weights, MANY - 1, a->tensors, NET_TENSORS,
                                       a->model);
            require_status(status, TLC_ERR_PARAM);
        }
}

TEST(tensors)
{
    static float residual[256];

    FOR_EACH_GOSSIP(kind) {
        CHANGED(TLC_ERR_PARAM, a->tensors[CONV].name = NULL);
        CHANGED(TLC_ERR_PARAM, a->tensors[CONV].name = "");
        CHANGED(TLC_ERR_PARAM, a->tensors[CONV].name = "wide");
        CHANGED(TLC_ERR_PARAM, a->tensors[CONV].push = "4lc");
        CHANGED(TLC_ERR_PARAM, a->tensors[CONV].pull = "qsgd");
        CHANGED(TLC_ERR_PARAM, a->tensors[CONV].only = 1);
        CHANGED(TLC_ERR_PARAM, a->tensors[CONV].residual = residual);
        CHANGED(TLC_ERR_PARAM, a->tensors[BIAS].residual = residual);
        CHANGED(TLC_ERR_SIZE, a->tensors[CONV].n = SIZE_MAX / 2; a->tensors[CONV].push = "raw");
        CHANGED(TLC_ERR_PARAM, a->tensors[0].struct_size = 0);
        CHANGED(TLC_ERR_PARAM, a->tensors[0].struct_size = sizeof(size_t) - 1);
        CHANGED(TLC_OK, a->count = 0);
        CHANGED(TLC_OK, a->count = 1);
        CHANGED(TLC_ERR_PARAM, a->model[CONV] = NULL);
        CHANGED(TLC_OK, a->model[NONE] = a->values);
        CHANGED(TLC_ERR_NONFINITE, a->values[net_tensors[WIDE].n - 1] = NAN);
        CHANGED(TLC_ERR_NONFINITE, a->values[0] = INFINITY);
        CHANGED(TLC_OK, a->values[net_tensors[WIDE].n] = NAN); /* nobody's */
        attempt *a = good_attempt(kind);
        require_status(create_with(a, &a->cfg, NULL, a->model), TLC_ERR_PARAM);
        require_status(create_with(a, &a->cfg, a->tensors, NULL), TLC_ERR_PARAM);
        require_status(create_with(a, NULL, a->tensors, a->model), TLC_ERR_PARAM); /* the default codec is 3lc */
        a->count = 0;
        require_status(create_with(a, &a->cfg, NULL, NULL), TLC_OK);
    }
}

TEST(missing_arguments)
{
    FOR_EACH_GOSSIP(kind) {
        attempt *a = good_attempt(kind);
        tlc_gossip *g = NULL;
        require_status(tlc_gossip_create(NULL, &a->cfg, kind, 1, a->neighbours, a->weights, 2, a->tensors, NET_TENSORS,
                                         a->model),
                       TLC_ERR_PARAM);
        require_status(tlc_gossip_create(&g, &a->cfg, kind, 1, NULL, a->weights, 2, a->tensors, NET_TENSORS, a->model),
                       TLC_ERR_PARAM);
        require_status(tlc_gossip_create(&g, &a->cfg, kind, 1, a->neighbours, NULL, 2, a->tensors, NET_TENSORS,
                                         a->model),
                       TLC_ERR_PARAM);
        require_status(tlc_gossip_create(&g, &a->cfg, kind, 1, NULL, NULL, 0, a->tensors, NET_TENSORS, a->model),
                       TLC_ERR_PARAM);
        require(g == NULL);
    }
    tlc_gossip_destroy(NULL);
}

/* Structs of older and newer callers. */
TEST(sizes_of_structs)
{
    struct {
        tlc_exchange_config cfg;
        uint8_t more[8];
    } newer;
    struct {
        tlc_tensor tensor;
        uint8_t more[8];
    } wide[2];

    FOR_EACH_GOSSIP(kind) {
        attempt *a = good_attempt(kind);
        memset(&newer, 0, sizeof newer);
        newer.cfg = a->cfg;
        newer.cfg.struct_size = sizeof newer;
        require_status(create_with(a, &newer.cfg, a->tensors, a->model), TLC_OK);
        newer.more[7] = 1;
        require_status(create_with(a, &newer.cfg, a->tensors, a->model), TLC_ERR_PARAM);
        a->cfg.dtype = (tlc_dtype)77; /* not there for a caller who does not know it */
        a->cfg.struct_size = offsetof(tlc_exchange_config, dtype);
        require_status(create_it(a), TLC_OK);
        a = good_attempt(kind);
        memset(wide, 0, sizeof wide);
        for (size_t t = 0; t < 2; t++)
            wide[t].tensor = net_tensors[t];
        wide[0].tensor.struct_size = sizeof wide[0];
        a->count = 2;
        require_status(create_with(a, &a->cfg, &wide[0].tensor, a->model), TLC_OK);
        wide[1].more[0] = 1;
        require_status(create_with(a, &a->cfg, &wide[0].tensor, a->model), TLC_ERR_PARAM);
    }
}

/* ---- codecs ------------------------------------------------------------------------------------------------------ */

static const char *const biased[] = {"3lc",
                                     "sbc",
                                     "int8",
                                     "int8:block=64",
                                     "onebit",
                                     "topk",
                                     "topk:p=1",
                                     "ternary+quartic",
                                     "ternary+golomb",
                                     "sparse-binary+golomb",
                                     "natural:rounding=nearest",
                                     "natural:bits=9,rounding=nearest,shift=4",
                                     "natural:rounding=nearest,block=19"};
static const char *const unbiased[] = {"qsgd",
                                       "qsgd:bits=4,block=33",
                                       "random-sparse",
                                       "random-sparse:p=1",
                                       "natural",
                                       "natural:rounding=random",
                                       "natural:bits=9,block=70",
                                       "stochastic-ternary+quartic",
                                       "stochastic-ternary:block=9+quartic+zerorun",
                                       "stochastic-ternary+golomb",
                                       "raw",
                                       "raw:block=33"};

static void try_codec(tlc_gossip_kind kind, const char *codec, int good)
{
    const tlc_status want = good ? TLC_OK : TLC_ERR_PARAM;
    char list[128];

    at.codec = codec;
    require_status(tlc_codec_check(codec, NULL, 0), TLC_OK);
    snprintf(list, sizeof list, "qsgd;%s;raw", codec);
    CHANGED(want, a->cfg.push = codec);
    CHANGED(want, a->tensors[CONV].push = codec);
    CHANGED(want, a->tensors[NONE].push = codec);
    CHANGED(want, a->cfg.reserve = codec);
    CHANGED(want, a->cfg.reserve = list);
}

TEST(codecs_are_unbiased)
{
    FOR_EACH_GOSSIP(kind) {
        for (size_t i = 0; i < COUNT(biased); i++)
            try_codec(kind, biased[i], 0);
        for (size_t i = 0; i < COUNT(unbiased); i++)
            try_codec(kind, unbiased[i], 1);
        FOR_EACH_CODEC(c) { /* each codec that the tests know is one or the other */
            int good = 0;
            for (const char *const *u = unbiased_codecs(); *u; u++)
                good |= *u == c->text;
            try_codec(kind, c->text, good);
        }
    }
}
