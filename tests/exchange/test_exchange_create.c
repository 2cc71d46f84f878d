/* SPDX-License-Identifier: MIT
 *
 * What tlc_allreduce_create, tlc_worker_create, tlc_server_create and tlc_gossip_create take and refuse, and the
 * sentence of a call that fails: it names who was called, the argument, the tensor, what was given and what is allowed.
 * *out stays as it was. (Nodes alone: test_gossip_create.c. Memory: e5_only_create_allocates.c.)
 */
#include "../support/exchange_run.h"
#include <math.h>
#include <threelc/gossip.h>

enum { RANKS = 3 };

/* What is created. */
typedef struct attempt {
    fleet_kind kind; /* KIND_COUNT: gossip */
    int server;
    uint32_t index;
    tlc_exchange_config cfg;
    tlc_tensor tensors[TENSORS];
    size_t count;
    tlc_gossip_kind gossip;
    uint32_t neighbours[RANKS];
    double weights[RANKS + 1];
    size_t degree;
    float values[256];
    const float *model[TENSORS]; /* NULL: values */
    int nowhere;                 /* no place for the object */
} attempt;

static attempt good_attempt(fleet_kind kind, int server)
{
    const int gossip = kind == KIND_COUNT;
    attempt a = {.kind = kind, .server = server, .index = 1, .count = TENSORS};

    a.cfg = fleet_config(gossip ? SHARDED : kind, RANKS, small_tensors);
    a.index = server ? 0 : 1;
    memcpy(a.tensors, small_tensors, sizeof a.tensors);
    for (size_t t = 0; gossip && t < TENSORS; t++) {
        a.tensors[t].only = TLC_NOBODY;
        a.tensors[t].push = a.tensors[t].pull = NULL;
    }
    a.neighbours[1] = 2;
    a.weights[0] = a.weights[1] = 0.25;
    a.weights[2] = 0.5;
    a.degree = 2;
    return a;
}

static tlc_status create_with(const attempt *a, const tlc_exchange_config *cfg, const tlc_tensor *tensors)
{
    void *const other = &(char){0};
    const float *model[TENSORS];
    member m = {.rank = NULL};
    tlc_gossip *g = other;
    tlc_status status;

#define OUT(object) (a->nowhere ? NULL : ((object) = other, &(object)))
    for (size_t i = 0; i < TENSORS; i++)
        model[i] = a->model[i] ? a->model[i] : a->values;
    if (a->kind == KIND_COUNT)
        status = tlc_gossip_create(OUT(g), cfg, a->gossip, a->index, a->neighbours, a->weights, a->degree, tensors,
                                   a->count, model);
    else if (a->server)
        status = tlc_server_create(OUT(m.server), cfg, a->index, tensors, a->count);
    else if (a->kind >= ONE_SERVER)
        status = tlc_worker_create(OUT(m.worker), cfg, a->index, tensors, a->count);
    else
        status = tlc_allreduce_create(OUT(m.rank), cfg, a->index, tensors, a->count);
    void *const made = a->kind == KIND_COUNT ? (void *)g
                       : m.rank              ? (void *)m.rank
                       : m.worker            ? (void *)m.worker
                                             : m.server;
    if (status) {
        require(a->nowhere || made == other);
        return status;
    }
    require((a->kind == KIND_COUNT ? tlc_gossip_step(g) : member_step(m)) == 1);
    if (a->kind == KIND_COUNT)
        tlc_gossip_destroy(g);
    else
        member_destroy(m);
    return TLC_OK;
}

static tlc_status make(const attempt *a)
{
    return create_with(a, &a->cfg, a->tensors);
}

static void says(attempt *a, tlc_status want, const char *words, const char *change)
{
    static const char *const who[] = {"rank 1: ", "rank 1: ", "worker 1: ", "worker 1: ", "node 1: "};
    tlc_outcome o = {.struct_size = sizeof o};

    a->cfg.outcome = &o;
    require_status_is(change, make(a), want, __FILE__, __LINE__);
    require_sentence(&o, want, words, change);
    if (a->index < 2)
        require_words(o.sentence, a->server ? "server 0: " : who[a->kind], change);
    a->cfg.outcome = NULL; /* the same without one, and with one that is no struct */
    require_status_is(change, make(a), want, __FILE__, __LINE__);
    o.struct_size = sizeof o.struct_size - 1;
    a->cfg.outcome = &o;
    /* NOLINTNEXTLINE(clang-analyzer-core.StackAddressEscape) */
    require_status_is(change, make(a), want, __FILE__, __LINE__);
}

/* A good attempt, with one change. */
#define CHANGED(want, change)                                                                                          \
    do {                                                                                                               \
        attempt a = good_attempt(kind, server);                                                                        \
        change;                                                                                                        \
        require_status_is(#change, make(&a), want, __FILE__, __LINE__);                                                \
    } while (0)

#define SAYS(want, words, change)                                                                                      \
    do {                                                                                                               \
        attempt a = good_attempt(kind, server);                                                                        \
        change;                                                                                                        \
        says(&a, want, words, #change);                                                                                \
    } while (0)

static int has_servers(fleet_kind kind)
{
    return kind == ONE_SERVER || kind == THREE_SERVERS;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names to declare */
#define FOR_EACH_OBJECT(kind, server)                                                                                  \
    for (fleet_kind kind = SHARDED; kind <= KIND_COUNT; kind++)                                                        \
        for (int server = 0; server < (has_servers(kind) ? 2 : 1); server++)
/* NOLINTEND(bugprone-macro-parentheses) */

TEST(configurations)
{
    FOR_EACH_OBJECT(kind, server) {
        const int servers = has_servers(kind), gossip = kind == KIND_COUNT;
        CHANGED(TLC_OK, (void)a);
        SAYS(TLC_ERR_PARAM, "NULL", a.nowhere = 1);
        SAYS(TLC_ERR_PARAM, "workers is 0|1 to 1048576", a.cfg.workers = 0);
        SAYS(TLC_ERR_PARAM, "workers is 1048577|1 to 1048576", a.cfg.workers = 1048577);
        SAYS(TLC_ERR_PARAM, servers ? "servers is 0|1 to 1048576" : "servers is 1|it is 0",
             a.cfg.servers = servers ? 0 : 1);
        CHANGED(TLC_ERR_PARAM, a.cfg.servers = (1u << 20) + 1);
        SAYS(TLC_ERR_PARAM, " is 77; |it is 0", a.index = 77);
        CHANGED(TLC_ERR_PARAM, a.index = server ? a.cfg.servers : RANKS);
        CHANGED(TLC_ERR_PARAM, a.index = TLC_NOBODY);
        SAYS(TLC_ERR_PARAM, "keep is 0|1 to 4294967295", a.cfg.keep = 0);
        SAYS(TLC_ERR_PARAM, servers ? "backup is 3|0 to 2" : "backup is 3|it is 0", a.cfg.backup = 3);
        CHANGED(servers ? TLC_OK : TLC_ERR_PARAM, a.cfg.backup = RANKS - 1);
        CHANGED(servers || gossip ? TLC_ERR_PARAM : TLC_OK, a.cfg.gather = 1);
        SAYS(TLC_ERR_PARAM, "gather is 2|it is 0", a.cfg.gather = 2);
        SAYS(TLC_ERR_PARAM, "sum is -1|it is 0", a.cfg.sum = -1);
        SAYS(TLC_ERR_PARAM, "assume_finite is 2|0 to 1", a.cfg.assume_finite = 2);
        SAYS(TLC_ERR_PARAM, "split_n is 0|at least 1", a.cfg.split_n = 0);
        SAYS(TLC_ERR_PARAM, gossip ? "dtype is 3|it is 0" : "dtype is 3|0 to 2", a.cfg.dtype = (tlc_dtype)3);
        SAYS(TLC_ERR_PARAM, "isa is 9|0 to 4", a.cfg.isa = (tlc_isa)9);
        CHANGED(TLC_ERR_PARAM, a.cfg.isa = (tlc_isa)-1);
        CHANGED(TLC_ERR_PARAM, a.cfg.isa = (tlc_isa)(TLC_ISA_NEON + 1));
        SAYS(TLC_ERR_PARAM, "of alloc, only alloc is given", a.cfg.alloc.alloc = no_allocator.alloc);
        SAYS(TLC_ERR_PARAM, "push: at 0: \"4lc\": no codec", a.cfg.push = "4lc");
        SAYS(TLC_ERR_PARAM, "push: at 6: ", a.cfg.push = "3lc:s=7");
        SAYS(TLC_ERR_PARAM, gossip ? "pull is set" : "pull: at 0: ", a.cfg.pull = "4lc");
        SAYS(TLC_ERR_PARAM, "reserve: at 0: \"4lc\": no codec", a.cfg.reserve = "raw;4lc");
        SAYS(TLC_ERR_NOMEM, "out of memory: the allocator has not given | bytes", a.cfg.alloc = no_allocator);
        SAYS(TLC_ERR_SIZE, "tensor 0 (\"|values are too many; it has at most ", a.tensors[0].n = SIZE_MAX / 2);
        SAYS(TLC_ERR_PARAM, "push: at 0: \"3cl\"|(did you mean 3lc?)", a.cfg.push = "3cl");
        SAYS(TLC_ERR_PARAM, "push: at 0: \"x; there are y\": no codec or stage has this name",
             a.cfg.push = "x; there are y");
        for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++)
            if (tlc_isa_supported(isa))
                CHANGED(TLC_OK, a.cfg.isa = isa);
            else
                SAYS(TLC_ERR_UNSUPPORTED, "this machine does not have isa ", a.cfg.isa = isa);
        if (kind == SHARDED)
            CHANGED(TLC_OK, a.cfg.owners = 2);
        else
            SAYS(TLC_ERR_PARAM, "owners is 2|it is 0", a.cfg.owners = 2);
        CHANGED(TLC_OK, a.cfg.push = NULL);
        CHANGED(TLC_ERR_PARAM, a.cfg.pull = "");
        CHANGED(TLC_OK, a.cfg.pull = NULL);
        CHANGED(TLC_OK, a.cfg.reserve = gossip ? "raw;natural" : "3lc;sbc");
        CHANGED(TLC_OK, a.cfg.reserve = "");
        CHANGED(TLC_OK, a.cfg.min_n = 0);
        CHANGED(TLC_OK, a.cfg.min_n = SIZE_MAX);
        CHANGED(TLC_OK, a.cfg.split_n = SIZE_MAX);
        CHANGED(TLC_OK, a.cfg.split_n = 1);
        CHANGED(TLC_OK, a.cfg.keep = 100);
        if (gossip) {
            SAYS(TLC_ERR_PARAM, "push: \"3lc\" has a bias or keeps a residual|qsgd", a.cfg.push = "3lc");
            SAYS(TLC_ERR_PARAM, "reserve: \"sbc\"", a.cfg.reserve = "raw;sbc");
        }
    }
}

/* As many ranks and servers as there may be: arguments are checked before memory is asked for. */
TEST(limits)
{
    FOR_EACH_OBJECT(kind, server) {
        CHANGED(TLC_ERR_NOMEM, a.cfg.alloc = no_allocator; a.cfg.workers = 1u << 20);
        CHANGED(TLC_ERR_PARAM, a.cfg.alloc = no_allocator; a.cfg.workers = (1u << 20) + 1);
        if (!has_servers(kind))
            continue;
        CHANGED(TLC_ERR_NOMEM, a.cfg.alloc = no_allocator; a.cfg.servers = 1u << 20);
        CHANGED(TLC_ERR_PARAM, a.cfg.alloc = no_allocator; a.cfg.servers = (1u << 20) + 1);
    }
}

/* As the allocator of a machine with 1 MB. */
static void *small_alloc(void *opaque, size_t size)
{
    size_t *left = opaque;

    if (!*left || size > 1 << 20)
        return NULL;
    --*left;
    return malloc(size);
}

static void small_free(void *opaque, void *ptr)
{
    (void)opaque;
    free(ptr);
}

/* Whatever the allocator refuses, its bytes are told, and the tensor if they are for one. */
TEST(memory)
{
    FOR_EACH_OBJECT(kind, server) {
        tlc_status status = TLC_ERR_NOMEM;
        size_t left = SIZE_MAX, k;
        for (k = 0; status; k++) {
            attempt a = good_attempt(kind, server);
            tlc_outcome o = {.struct_size = sizeof o};
            at.i = left = k;
            a.cfg.alloc = (tlc_allocator){small_alloc, small_free, &left};
            a.cfg.outcome = &o;
            status = make(&a);
            if (status)
                require_sentence(&o, TLC_ERR_NOMEM, "the allocator has not given | bytes", "an allocation");
        }
        require(k > 5);
        left = SIZE_MAX;
        if (kind != KIND_COUNT)
            SAYS(TLC_ERR_NOMEM, "tensor 3 (\"wide\"): |the allocator has not given | bytes", a.tensors[3].n = 1 << 24;
                 a.cfg.alloc = ((tlc_allocator){small_alloc, small_free, &left}));
    }
}

TEST(tensors)
{
    static float residual[64];

    FOR_EACH_OBJECT(kind, server) {
        const int gossip = kind == KIND_COUNT;
        SAYS(TLC_ERR_PARAM, "tensor 1: its name is NULL", a.tensors[1].name = NULL);
        SAYS(TLC_ERR_PARAM, "tensor 1 (\"\"): its name is empty", a.tensors[1].name = "");
        SAYS(TLC_ERR_PARAM, "tensor 5 (\"conv\"): tensor 1 has this name", a.tensors[5].name = "conv");
        SAYS(TLC_ERR_PARAM, "tensor 5 (|push: at 0: \"4lc\"", a.tensors[5].push = "4lc");
        SAYS(TLC_ERR_PARAM, gossip ? "tensor 2 (|pull is set" : "tensor 2 (|pull: at 0: \"4lc\"",
             a.tensors[2].pull = "4lc");
        SAYS(TLC_ERR_PARAM, "tensor 1 (\"conv\"): only is 3; it is a worker, 0 to 2, or TLC_NOBODY",
             a.tensors[1].only = 3);
        if (!gossip)
            SAYS(TLC_ERR_PARAM, "only is 0 in all tensors|tlc_tensor_init sets TLC_NOBODY",
                 for (size_t t = 0; t < TENSORS; t++) a.tensors[t].only = 0);
        SAYS(TLC_ERR_PARAM, "tensor 3 (|residual is not aligned",
             a.tensors[3].residual = (float *)(void *)((char *)residual + 1));
        SAYS(TLC_ERR_PARAM, "tensor 3 (|residual is given|\"natural\" keeps none", a.tensors[3].residual = residual;
             a.tensors[3].push = "natural");
        SAYS(TLC_ERR_PARAM, "tensor 0: struct_size is 3", a.tensors[0].struct_size = 3);
        SAYS(TLC_ERR_SIZE, "tensor 3 (|values are too many", a.tensors[3].n = SIZE_MAX; a.tensors[3].push = "raw");
        CHANGED(TLC_ERR_PARAM, a.tensors[0].struct_size = sizeof(size_t) - 1);
        CHANGED(TLC_OK, a.tensors[5].name = "con");
        CHANGED(TLC_OK, a.count = 0);
        CHANGED(TLC_OK, a.count = 1);
        attempt without = good_attempt(kind, server);
        require_status(create_with(&without, &without.cfg, NULL), TLC_ERR_PARAM);
        without.count = 0;
        require_status(create_with(&without, &without.cfg, NULL), TLC_OK);
        if (gossip) {
            SAYS(TLC_ERR_PARAM, "tensor 1 (\"conv\"): only is set", a.tensors[1].only = 1);
            continue;
        }
        CHANGED(TLC_OK, a.tensors[1].only = RANKS - 1);
        CHANGED(TLC_OK, a.tensors[3].residual = residual);
        CHANGED(TLC_OK, a.tensors[0].residual = residual); /* raw, but with a residual, as it is small */
        CHANGED(TLC_OK, a.tensors[3].residual = residual; a.tensors[3].push = "natural"; a.cfg.reserve = "3lc");
        CHANGED(TLC_ERR_PARAM, a.tensors[0].residual = residual; a.tensors[0].push = "raw");
        CHANGED(TLC_ERR_SIZE, a.tensors[3].n = SIZE_MAX; a.tensors[3].pull = "raw");
        if (kind == GATHERED || kind == ONE_SERVER) /* its residual has four bytes each */
            CHANGED(TLC_ERR_SIZE, a.tensors[5].n = SIZE_MAX / 2);
    }
}

TEST(neighbours)
{
    const fleet_kind kind = KIND_COUNT;
    const int server = 0;
    float bad[256] = {0};

    bad[3] = INFINITY;
    for (tlc_gossip_kind which = TLC_GOSSIP_DCD; which <= TLC_GOSSIP_ECD; which++) {
        SAYS(TLC_ERR_PARAM, "neighbour 1 is node 3|0 to 2", a.gossip = which; a.neighbours[1] = 3);
        SAYS(TLC_ERR_PARAM, "neighbour 1 is this node", a.gossip = which; a.neighbours[1] = 1);
        SAYS(TLC_ERR_PARAM, "neighbour 1 is node 0|earlier", a.gossip = which; a.neighbours[1] = 0);
        SAYS(TLC_ERR_PARAM, "neighbour 0, node 0, is -0.25|above 0", a.gossip = which; a.weights[0] = -0.25);
        SAYS(TLC_ERR_PARAM, "own weight|is nan|at least 0", a.gossip = which; a.weights[2] = NAN);
        SAYS(TLC_ERR_PARAM, "add up to 0.75|add up to 1", a.gossip = which; a.weights[2] = 0.25);
        SAYS(TLC_ERR_PARAM, "degree is 3|2 others", a.gossip = which; a.degree = 3);
        SAYS(TLC_ERR_NONFINITE, "tensor 1 (\"conv\"): NaN", a.gossip = which; a.model[1] = bad);
        SAYS(TLC_ERR_PARAM, "kind is 2", a.gossip = (tlc_gossip_kind)2);
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

/* What tlc_exchange_config_init makes is an exchange of every kind, if there are servers where they are needed. */
TEST(defaults_work)
{
    tlc_exchange_config cfg;
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "w", .n = 1000, .only = TLC_NOBODY};
    static const float values[1000] = {0};
    const float *model[] = {values};
    const uint32_t neighbours_of[] = {0};
    const double weights[] = {0.5, 0.5};
    tlc_gossip *g = NULL;
    tlc_allreduce *a = NULL;
    tlc_message m;

    for (tlc_gossip_kind kind = TLC_GOSSIP_DCD; kind <= TLC_GOSSIP_ECD; kind++) {
        require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
        cfg.workers = 2;
        require_status(tlc_gossip_create(&g, &cfg, kind, 1, neighbours_of, weights, 1, &tensor, 1, model), TLC_OK);
        require_status(tlc_gossip_push(g, model, &m), TLC_OK);
        require(m.len > 1000 && m.len < 1100); /* a byte for each value */
        tlc_gossip_destroy(g);
    }
    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    require_status(tlc_allreduce_create(&a, &cfg, 0, &tensor, 1), TLC_OK);
    tlc_allreduce_destroy(a);
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
    enum { OLD = offsetof(tlc_tensor, only) }; /* before there was `only`: all push such a tensor */
    _Alignas(tlc_tensor) char old[2 * OLD];
    tlc_exchange_config cfg;
    tlc_tensor tensor;

    require_status(tlc_exchange_config_init(NULL, sizeof cfg), TLC_ERR_PARAM);
    require_status(tlc_exchange_config_init(&cfg, sizeof(size_t) - 1), TLC_ERR_PARAM);
    memset(&newer, OUT_FILL, sizeof newer);
    require_status(tlc_exchange_config_init(&newer.cfg, sizeof newer), TLC_OK);
    require_status(tlc_tensor_init(&tensor, sizeof tensor), TLC_OK);
    require(tensor.struct_size == sizeof tensor && !tensor.name && tensor.only == TLC_NOBODY);
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
        require_status(make(&a), TLC_OK);
        a = good_attempt(kind, server);
        memset(wide, 0, sizeof wide);
        for (size_t t = 0; t < 2; t++)
            wide[t].tensor = small_tensors[t];
        wide[0].tensor.struct_size = sizeof wide[0];
        a.count = 2;
        require_status(create_with(&a, &a.cfg, &wide[0].tensor), TLC_OK);
        wide[1].more[0] = 1;
        require_status(create_with(&a, &a.cfg, &wide[0].tensor), TLC_ERR_PARAM);
        for (size_t t = 0; t < 2; t++) {
            tensor = small_tensors[t];
            tensor.struct_size = OLD;
            memcpy(old + t * OLD, &tensor, OLD);
        }
        require_status(create_with(&a, &a.cfg, (const tlc_tensor *)(const void *)old), TLC_OK);
    }
}

/* No configuration: a rank that is alone. */
TEST(no_configuration)
{
    tlc_allreduce *alone = NULL;

    require_status(tlc_allreduce_create(&alone, NULL, 0, small_tensors, TENSORS), TLC_OK);
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
