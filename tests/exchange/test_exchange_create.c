/* SPDX-License-Identifier: MIT
 *
 * What tlc_worker_create, tlc_server_create and tlc_allreduce_create take and refuse. A call that fails leaves *out as
 * it was. (Memory: e5_only_create_allocates.c.)
 */
#include "../support/exchange_run.h"

enum { RANKS = 3 };

/* What is created. */
typedef struct attempt {
    fleet_kind kind;
    int server;
    uint32_t index;
    tlc_exchange_config cfg;
    tlc_tensor tensors[TENSORS];
    size_t count;
} attempt;

static attempt good_attempt(fleet_kind kind, int server)
{
    attempt a = {.kind = kind, .server = server, .count = TENSORS};

    a.cfg = fleet_config(kind, RANKS, small_tensors);
    memcpy(a.tensors, small_tensors, sizeof a.tensors);
    return a;
}

static tlc_status create_with(const attempt *a, const tlc_exchange_config *cfg, const tlc_tensor *tensors)
{
    void *const other = &(char){0};
    member m = {other, other, other};
    tlc_status status = a->server               ? tlc_server_create(&m.server, cfg, a->index, tensors, a->count)
                        : a->kind >= ONE_SERVER ? tlc_worker_create(&m.worker, cfg, a->index, tensors, a->count)
                                                : tlc_allreduce_create(&m.rank, cfg, a->index, tensors, a->count);

    if (status) {
        require((void *)m.rank == other && (void *)m.worker == other && (void *)m.server == other);
        return status;
    }
    m.rank = a->server || a->kind >= ONE_SERVER ? NULL : m.rank;
    m.worker = a->server || a->kind < ONE_SERVER ? NULL : m.worker;
    m.server = a->server ? m.server : NULL;
    require(member_step(m) == 1);
    member_destroy(m);
    return TLC_OK;
}

static tlc_status create_it(const attempt *a)
{
    return create_with(a, &a->cfg, a->tensors);
}

/* A good attempt, with one change. */
#define CHANGED(want, change)                                                                                          \
    do {                                                                                                               \
        attempt a = good_attempt(kind, server);                                                                        \
        change;                                                                                                        \
        require_status_is(#change, create_it(&a), want, __FILE__, __LINE__);                                           \
    } while (0)

/* NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names to declare */
#define FOR_EACH_OBJECT(kind, server)                                                                                  \
    FOR_EACH_KIND(kind)                                                                                                \
        for (int server = 0; server < ((kind) >= ONE_SERVER ? 2 : 1); server++)
/* NOLINTEND(bugprone-macro-parentheses) */

TEST(configurations)
{
    FOR_EACH_OBJECT(kind, server) {
        int servers = kind >= ONE_SERVER;
        CHANGED(TLC_OK, (void)a);
        CHANGED(TLC_ERR_PARAM, a.cfg.workers = 0);
        CHANGED(TLC_ERR_PARAM, a.cfg.workers = (1u << 20) + 1);
        CHANGED(TLC_ERR_PARAM, a.cfg.servers = (1u << 20) + 1);
        CHANGED(TLC_ERR_PARAM, a.cfg.servers = servers ? 0 : 1);
        CHANGED(TLC_ERR_PARAM, a.index = server ? a.cfg.servers : RANKS);
        CHANGED(TLC_ERR_PARAM, a.index = TLC_NOBODY);
        CHANGED(TLC_ERR_PARAM, a.cfg.keep = 0);
        CHANGED(TLC_ERR_PARAM, a.cfg.backup = servers ? RANKS : 1);
        CHANGED(servers ? TLC_OK : TLC_ERR_PARAM, a.cfg.backup = RANKS - 1);
        CHANGED(kind == SHARDED ? TLC_OK : TLC_ERR_PARAM, a.cfg.owners = 2);
        CHANGED(servers ? TLC_ERR_PARAM : TLC_OK, a.cfg.gather = 1);
        CHANGED(TLC_ERR_PARAM, a.cfg.gather = 2);
        CHANGED(TLC_ERR_PARAM, a.cfg.sum = -1);
        CHANGED(TLC_ERR_PARAM, a.cfg.assume_finite = 2);
        CHANGED(TLC_ERR_PARAM, a.cfg.split_n = 0);
        CHANGED(TLC_OK, a.cfg.push = NULL);
        CHANGED(TLC_ERR_PARAM, a.cfg.push = "4lc");
        CHANGED(TLC_ERR_PARAM, a.cfg.pull = "");
        CHANGED(TLC_OK, a.cfg.pull = NULL);
        CHANGED(TLC_ERR_PARAM, a.cfg.reserve = "3lc;4lc");
        CHANGED(TLC_OK, a.cfg.reserve = "3lc;sbc");
        CHANGED(TLC_OK, a.cfg.reserve = "");
        CHANGED(TLC_ERR_PARAM, a.cfg.dtype = (tlc_dtype)3);
        CHANGED(TLC_ERR_PARAM, a.cfg.isa = (tlc_isa)-1);
        CHANGED(TLC_ERR_PARAM, a.cfg.isa = (tlc_isa)(TLC_ISA_NEON + 1));
        for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++)
            CHANGED(tlc_isa_supported(isa) ? TLC_OK : TLC_ERR_UNSUPPORTED, a.cfg.isa = isa);
        CHANGED(TLC_OK, a.cfg.min_n = 0);
        CHANGED(TLC_OK, a.cfg.min_n = SIZE_MAX);
        CHANGED(TLC_OK, a.cfg.split_n = SIZE_MAX);
        CHANGED(TLC_OK, a.cfg.split_n = 1);
        CHANGED(TLC_OK, a.cfg.keep = 100);
    }
}

/* As many ranks and servers as there may be: arguments are checked before memory is asked for. */
TEST(limits)
{
    FOR_EACH_OBJECT(kind, server) {
        CHANGED(TLC_ERR_NOMEM, a.cfg.alloc = no_allocator);
        CHANGED(TLC_ERR_NOMEM, a.cfg.alloc = no_allocator; a.cfg.workers = 1u << 20);
        CHANGED(TLC_ERR_PARAM, a.cfg.alloc = no_allocator; a.cfg.workers = (1u << 20) + 1);
        if (kind < ONE_SERVER)
            continue;
        CHANGED(TLC_ERR_NOMEM, a.cfg.alloc = no_allocator; a.cfg.servers = 1u << 20);
        CHANGED(TLC_ERR_PARAM, a.cfg.alloc = no_allocator; a.cfg.servers = (1u << 20) + 1);
    }
}

TEST(tensors)
{
    float residual[64] = {0};

    FOR_EACH_OBJECT(kind, server) {
        CHANGED(TLC_ERR_PARAM, a.tensors[1].name = NULL);
        CHANGED(TLC_ERR_PARAM, a.tensors[1].name = "");
        CHANGED(TLC_ERR_PARAM, a.tensors[5].name = "conv");
        CHANGED(TLC_OK, a.tensors[5].name = "con");
        CHANGED(TLC_ERR_PARAM, a.tensors[5].push = "4lc");
        CHANGED(TLC_ERR_PARAM, a.tensors[2].pull = "4lc"); /* though it has no values */
        CHANGED(TLC_ERR_PARAM, a.tensors[1].only = RANKS + 1);
        CHANGED(TLC_OK, a.tensors[1].only = RANKS);
        CHANGED(TLC_OK, a.tensors[3].residual = residual);
        CHANGED(TLC_OK, a.tensors[0].residual = residual); /* raw, but with a residual, as it is small */
        CHANGED(TLC_ERR_PARAM, a.tensors[3].residual = (float *)(void *)((char *)residual + 1));
        CHANGED(TLC_ERR_PARAM, a.tensors[3].residual = residual; a.tensors[3].push = "natural");
        CHANGED(TLC_OK, a.tensors[3].residual = residual; a.tensors[3].push = "natural"; a.cfg.reserve = "3lc");
        CHANGED(TLC_ERR_PARAM, a.tensors[0].residual = residual; a.tensors[0].push = "raw");
        CHANGED(TLC_ERR_SIZE, a.tensors[3].n = SIZE_MAX; a.tensors[3].pull = "raw");
        if (kind == GATHERED || kind == ONE_SERVER) /* its residual has four bytes each */
            CHANGED(TLC_ERR_SIZE, a.tensors[5].n = SIZE_MAX / 2);
        CHANGED(TLC_ERR_PARAM, a.tensors[0].struct_size = 0);
        CHANGED(TLC_ERR_PARAM, a.tensors[0].struct_size = sizeof(size_t) - 1);
        CHANGED(TLC_OK, a.count = 0);
        CHANGED(TLC_OK, a.count = 1);
        attempt a = good_attempt(kind, server);
        require_status(create_with(&a, &a.cfg, NULL), TLC_ERR_PARAM);
        a.count = 0;
        require_status(create_with(&a, &a.cfg, NULL), TLC_OK);
    }
}

TEST(defaults)
{
    tlc_exchange_config cfg;

    memset(&cfg, OUT_FILL, sizeof cfg);
    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    require(cfg.struct_size == sizeof cfg && cfg.workers == 1 && !cfg.servers && !cfg.owners && cfg.keep == 4);
    require(!cfg.backup && !cfg.gather && !cfg.sum && !cfg.push && !cfg.pull && !cfg.reserve);
    require(cfg.min_n == 256 && cfg.split_n == 65536 && !cfg.assume_finite && cfg.dtype == TLC_F32 && !cfg.seed);
    require(cfg.isa == TLC_ISA_AUTO && !cfg.alloc.alloc && !cfg.alloc.free && !cfg.parallel.run && !cfg.outcome);
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
    tlc_exchange_config cfg;

    require_status(tlc_exchange_config_init(NULL, sizeof cfg), TLC_ERR_PARAM);
    require_status(tlc_exchange_config_init(&cfg, sizeof(size_t) - 1), TLC_ERR_PARAM);
    memset(&newer, OUT_FILL, sizeof newer);
    require_status(tlc_exchange_config_init(&newer.cfg, sizeof newer), TLC_OK);
    require(newer.cfg.struct_size == sizeof newer && all_bytes(newer.more, sizeof newer.more, 0));
    FOR_EACH_OBJECT(kind, server) {
        attempt a = good_attempt(kind, server);
        memset(&newer, 0, sizeof newer);
        newer.cfg = a.cfg;
        newer.cfg.struct_size = sizeof newer;
        require_status(create_with(&a, &newer.cfg, a.tensors), TLC_OK);
        newer.more[7] = 1;
        require_status(create_with(&a, &newer.cfg, a.tensors), TLC_ERR_PARAM);
        a.cfg.alloc.opaque = &a;
        a.cfg.dtype = (tlc_dtype)77; /* not there for a caller who does not know it */
        a.cfg.struct_size = offsetof(tlc_exchange_config, dtype);
        require_status(create_it(&a), TLC_OK);
        a = good_attempt(kind, server);
        memset(wide, 0, sizeof wide);
        for (size_t t = 0; t < 2; t++)
            wide[t].tensor = small_tensors[t];
        wide[0].tensor.struct_size = sizeof wide[0];
        a.count = 2;
        require_status(create_with(&a, &a.cfg, &wide[0].tensor), TLC_OK);
        wide[1].more[0] = 1;
        require_status(create_with(&a, &a.cfg, &wide[0].tensor), TLC_ERR_PARAM);
    }
}

/* No *out, and no configuration: a rank that is alone. */
TEST(missing_arguments)
{
    tlc_allreduce *alone = NULL;
    attempt ranks = good_attempt(SHARDED, 0), servers = good_attempt(ONE_SERVER, 0);

    require_status(tlc_allreduce_create(NULL, &ranks.cfg, 0, ranks.tensors, TENSORS), TLC_ERR_PARAM);
    require_status(tlc_worker_create(NULL, &servers.cfg, 0, servers.tensors, TENSORS), TLC_ERR_PARAM);
    require_status(tlc_server_create(NULL, &servers.cfg, 0, servers.tensors, TENSORS), TLC_ERR_PARAM);
    require_status(tlc_allreduce_create(&alone, NULL, 0, ranks.tensors, TENSORS), TLC_OK);
    tlc_allreduce_destroy(alone);
}

/* An exchange of nothing has steps, too. */
TEST(nothing_to_exchange)
{
    FOR_EACH_KIND(kind)
        for (int count = 0; count < 2; count++) {
            tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
            tlc_tensor list[TENSORS];
            fleet f;
            memcpy(list, small_tensors, sizeof list);
            for (size_t t = 0; t < TENSORS; t++)
                list[t].n = t == 1 ? (size_t)count : 0; /* nothing, or one value */
            fleet_open(&f, &cfg, list, 1);
            for (uint64_t step = 1; step <= 3; step++) {
                fleet_step(&f, step);
                for (uint32_t w = 0; w < RANKS; w++)
                    require_status(f.pulled[w], TLC_OK);
                for (uint32_t w = 0; w < RANKS; w++)
                    require(fleet_same_out(&f, w, 0));
            }
            tlc_message saved = member_save(f.worker[2]);
            require_status(member_load(f.worker[2], saved), TLC_OK);
            require(member_step(f.worker[2]) == 4);
            blob_free(&saved);
            fleet_close(&f);
        }
}
