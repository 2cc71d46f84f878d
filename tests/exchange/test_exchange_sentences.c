/* SPDX-License-Identifier: MIT
 *
 * Every call of exchange.h that fails leaves a sentence that names who was called, the argument, the tensor, what was
 * given and what is allowed; `_create` too.
 */
#include "../support/gossip_run.h"
#include <math.h>

enum { RANKS = 3, CONV_T = 1, WIDE_T = 3 };

/* Are all words, with '|' between them, in the text? */
static void require_words(const char *text, const char *words, const char *call)
{
    char word[128];

    for (const char *p = words; *p;) {
        size_t len = strcspn(p, "|");
        require(len < sizeof word);
        memcpy(word, p, len);
        word[len] = 0;
        if (!strstr(text, word))
            fail_msg("%s: \"%s\" does not say \"%s\"", call, text, word);
        p += len + (p[len] != 0);
    }
}

static void require_sentence(const tlc_outcome *o, tlc_status status, const char *words, const char *call)
{
    require_status_is(call, o->status, status, __FILE__, __LINE__);
    require_status_is(call, o->cause, status, __FILE__, __LINE__);
    require(strcmp(o->sentence, "nothing is wrong") != 0);
    require_words(o->sentence, words, call);
}

/* ---- create ------------------------------------------------------------------------------------------------------ */

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
        a.tensors[t].only = 0;
        a.tensors[t].push = a.tensors[t].pull = NULL;
    }
    a.neighbours[1] = 2;
    a.weights[0] = a.weights[1] = 0.25;
    a.weights[2] = 0.5;
    a.degree = 2;
    return a;
}

static tlc_status make(const attempt *a)
{
    const tlc_exchange_config *c = &a->cfg;
    const tlc_tensor *t = a->tensors;
    const float *model[TENSORS];
    member m = {NULL, NULL, NULL};
    tlc_gossip *g = NULL;
    tlc_status status;

    for (size_t i = 0; i < TENSORS; i++)
        model[i] = a->model[i] ? a->model[i] : a->values;
    if (a->kind == KIND_COUNT)
        status = tlc_gossip_create(a->nowhere ? NULL : &g, c, a->gossip, a->index, a->neighbours, a->weights, a->degree,
                                   t, a->count, model);
    else if (a->server)
        status = tlc_server_create(a->nowhere ? NULL : &m.server, c, a->index, t, a->count);
    else if (a->kind >= ONE_SERVER)
        status = tlc_worker_create(a->nowhere ? NULL : &m.worker, c, a->index, t, a->count);
    else
        status = tlc_allreduce_create(a->nowhere ? NULL : &m.rank, c, a->index, t, a->count);
    member_destroy(m);
    tlc_gossip_destroy(g);
    return status;
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
    a->cfg.outcome = NULL; /* without one, and with one that is no struct, the same */
    require_status_is(change, make(a), want, __FILE__, __LINE__);
    o.struct_size = sizeof o.struct_size - 1;
    a->cfg.outcome = &o;
    /* NOLINTNEXTLINE(clang-analyzer-core.StackAddressEscape) */
    require_status_is(change, make(a), want, __FILE__, __LINE__);
}

#define SAYS(want, words, change)                                                                                      \
    do {                                                                                                               \
        attempt a = good_attempt(kind, server);                                                                        \
        change;                                                                                                        \
        says(&a, want, words, #change);                                                                                \
    } while (0)

/* NOLINTBEGIN(bugprone-macro-parentheses): the arguments are names to declare */
#define FOR_EACH_OBJECT(kind, server)                                                                                  \
    for (fleet_kind kind = SHARDED; kind <= KIND_COUNT; kind++)                                                        \
        for (int server = 0; server < ((kind) == ONE_SERVER || (kind) == THREE_SERVERS ? 2 : 1); server++)
/* NOLINTEND(bugprone-macro-parentheses) */

TEST(configurations)
{
    FOR_EACH_OBJECT(kind, server) {
        const int servers = kind == ONE_SERVER || kind == THREE_SERVERS, gossip = kind == KIND_COUNT;
        SAYS(TLC_ERR_PARAM, "NULL", a.nowhere = 1);
        SAYS(TLC_ERR_PARAM, "workers is 0|1 to 1048576", a.cfg.workers = 0);
        SAYS(TLC_ERR_PARAM, "workers is 1048577|1 to 1048576", a.cfg.workers = 1048577);
        SAYS(TLC_ERR_PARAM, servers ? "servers is 0|1 to 1048576" : "servers is 2|it is 0",
             a.cfg.servers = servers ? 0 : 2);
        SAYS(TLC_ERR_PARAM, " is 77; |it is 0", a.index = 77);
        SAYS(TLC_ERR_PARAM, "keep is 0|1 to 4294967295", a.cfg.keep = 0);
        SAYS(TLC_ERR_PARAM, servers ? "backup is 3|0 to 2" : "backup is 3|it is 0", a.cfg.backup = 3);
        SAYS(TLC_ERR_PARAM, "gather is 2|it is 0", a.cfg.gather = 2);
        SAYS(TLC_ERR_PARAM, "sum is -1|it is 0", a.cfg.sum = -1);
        SAYS(TLC_ERR_PARAM, "assume_finite is 2|0 to 1", a.cfg.assume_finite = 2);
        SAYS(TLC_ERR_PARAM, "split_n is 0|at least 1", a.cfg.split_n = 0);
        SAYS(TLC_ERR_PARAM, gossip ? "dtype is 3|it is 0" : "dtype is 3|0 to 2", a.cfg.dtype = (tlc_dtype)3);
        SAYS(TLC_ERR_PARAM, "isa is 9|0 to 4", a.cfg.isa = (tlc_isa)9);
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
            if (!tlc_isa_supported(isa))
                SAYS(TLC_ERR_UNSUPPORTED, "this machine does not have isa ", a.cfg.isa = isa);
        if (kind != SHARDED)
            SAYS(TLC_ERR_PARAM, "owners is 2|it is 0", a.cfg.owners = 2);
        if (gossip) {
            SAYS(TLC_ERR_PARAM, "push: \"3lc\" has a bias or keeps a residual|qsgd", a.cfg.push = "3lc");
            SAYS(TLC_ERR_PARAM, "reserve: \"sbc\"", a.cfg.reserve = "raw;sbc");
        }
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
        SAYS(TLC_ERR_PARAM, "tensor 1 (\"conv\"): only is 4; it is 0 to 3", a.tensors[1].only = 4);
        SAYS(TLC_ERR_PARAM, "tensor 3 (|residual is not aligned",
             a.tensors[3].residual = (float *)(void *)((char *)residual + 1));
        SAYS(TLC_ERR_PARAM, "tensor 3 (|residual is given|\"natural\" keeps none", a.tensors[3].residual = residual;
             a.tensors[3].push = "natural");
        SAYS(TLC_ERR_PARAM, "tensor 0: struct_size is 3", a.tensors[0].struct_size = 3);
        SAYS(TLC_ERR_SIZE, "tensor 3 (|values are too many", a.tensors[3].n = SIZE_MAX; a.tensors[3].push = "raw");
        if (gossip)
            SAYS(TLC_ERR_PARAM, "tensor 1 (\"conv\"): only is set", a.tensors[1].only = 1);
    }
}

TEST(neighbours)
{
    const fleet_kind kind = KIND_COUNT;
    const int server = 0;
    float bad[256] = {0};

    bad[3] = INFINITY;
    for (tlc_gossip_kind which = TLC_DCD; which <= TLC_ECD; which++) {
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

/* What tlc_exchange_config_init makes is an exchange of every kind, if there are servers where they are needed. */
TEST(defaults_work)
{
    tlc_exchange_config cfg;
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "w", .n = 1000};
    static const float values[1000] = {0};
    const float *model[] = {values};
    const uint32_t neighbours_of[] = {0};
    const double weights[] = {0.5, 0.5};
    tlc_gossip *g = NULL;
    tlc_allreduce *a = NULL;
    tlc_message m;

    for (tlc_gossip_kind kind = TLC_DCD; kind <= TLC_ECD; kind++) {
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

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void refused(member m, uint32_t servers, tlc_status got, tlc_status want, const char *words, const char *call)
{
    require_status_is(call, got, want, __FILE__, __LINE__);
    for (uint32_t i = 0; i < (m.worker ? servers : 1); i++) {
        const tlc_outcome o = member_outcome(m, i);
        require_sentence(&o, want, words, call);
        require_words(o.sentence, m.rank ? "rank " : m.worker ? "worker " : "server ", call);
        require(o.step == member_step(m));
    }
}

#define CALL(call, want, words) refused(m, f->cfg.servers, call, want, words, #call)

static void general(const fleet *f, member m, int idle)
{
    tlc_exchange_stats stats = {.struct_size = 1};
    size_t size = member_state_size(m), written;
    uint8_t *state = bytes(size);
    const tlc_message none = {NULL, 0};

    CALL(MEMBER(m, stats, NULL), TLC_ERR_PARAM, "stats|struct_size");
    CALL(MEMBER(m, stats, &stats), TLC_ERR_PARAM, "stats|struct_size");
    if (idle) {
        CALL(MEMBER(m, state_save, NULL, size, &written), TLC_ERR_PARAM, "dst is NULL");
        CALL(MEMBER(m, state_save, state, size, NULL), TLC_ERR_PARAM, "written is NULL");
        CALL(MEMBER(m, state_save, state, 1, &written), TLC_ERR_CAPACITY, "cap is 1|bytes");
        CALL(MEMBER(m, state_load, NULL, 1), TLC_ERR_PARAM, "states is NULL");
        CALL(MEMBER(m, state_load, &none, 0), TLC_ERR_PARAM, "count is 0");
        CALL(MEMBER(m, residual_scale, INFINITY), TLC_ERR_PARAM, "factor is inf");
    } else {
        CALL(MEMBER(m, state_save, state, size, &written), TLC_ERR_ORDER, "state_save|step 2 is under way");
        CALL(MEMBER(m, state_load, &none, 1), TLC_ERR_ORDER, "state_load|step 2 is under way");
        CALL(MEMBER(m, residual_scale, 2), TLC_ERR_ORDER, "residual_scale|step 2 is under way");
    }
    free(state);
}

static tlc_status set(member m, size_t tensor, const char *codec)
{
    return m.rank     ? tlc_allreduce_set_codec(m.rank, tensor, codec, codec)
           : m.worker ? tlc_worker_set_codec(m.worker, tensor, codec)
                      : tlc_server_set_codec(m.server, tensor, codec);
}

static void other_codecs(const fleet *f, member m)
{
    CALL(set(m, CONV_T, "4lc"), TLC_ERR_PARAM, "tensor 1 (\"conv\")|at 0: \"4lc\"");
    CALL(set(m, 99, "3lc"), TLC_ERR_PARAM, "there is no tensor 99; there are 7");
    CALL(set(m, 0, "3lc"), TLC_ERR_PARAM, "tensor 0 (|min_n, 5");
    CALL(set(m, TLC_ALL, "raw:block=1"), TLC_ERR_CAPACITY, "tensor |\"raw:block=1\"|\"3lc\"|reserve");
    if (!m.rank)
        CALL(set(m, CONV_T, NULL), TLC_ERR_PARAM, "codec is NULL");
}

static void parts(const fleet *f, member m)
{
    tlc_part p = {.struct_size = 1};

    if (!member_parts(m)) {
        p.struct_size = sizeof p;
        CALL(tlc_allreduce_part(m.rank, 0, &p), TLC_ERR_PARAM, "no part 0|owns none");
        return;
    }
#define PART(i, part) (m.rank ? tlc_allreduce_part(m.rank, i, part) : tlc_server_part(m.server, i, part))
    CALL(PART(0, NULL), TLC_ERR_PARAM, "part|struct_size");
    CALL(PART(0, &p), TLC_ERR_PARAM, "part|struct_size");
    p.struct_size = sizeof p;
    CALL(PART(77, &p), TLC_ERR_PARAM, "there is no part 77; there are ");
}

static void pushes(fleet *f, member m, uint32_t index, int idle)
{
    const void *grads[TENSORS];
    tlc_message to[RANKS];

    for (size_t t = 0; t < TENSORS; t++)
        grads[t] = f->grad[index * TENSORS + t];
#define PUSH(grads, weight, to)                                                                                        \
    (m.rank ? tlc_allreduce_push(m.rank, grads, weight, to) : tlc_worker_push(m.worker, grads, weight, to))
    CALL(PUSH(grads, 1, NULL), TLC_ERR_PARAM, "to is NULL");
    CALL(PUSH(grads, 0, to), TLC_ERR_PARAM, "weight is 0; it is 2^-50 to 2^50");
    CALL(PUSH(grads, 1.5e60, to), TLC_ERR_PARAM, "weight is 1.5e+60;");
    CALL(PUSH(grads, -0.125, to), TLC_ERR_PARAM, "weight is -0.125;");
    CALL(PUSH(grads, NAN, to), TLC_ERR_PARAM, "weight is nan;");
    grads[WIDE_T] = NULL;
    CALL(PUSH(grads, 1, to), TLC_ERR_PARAM, "tensor 3 (\"|grads is NULL");
    if (m.rank) {
        CALL(tlc_allreduce_push_frames(m.rank, NULL, to, 1, to), TLC_ERR_PARAM, "grads is NULL");
        CALL(tlc_allreduce_push_frames(m.rank, grads, NULL, 1, to), TLC_ERR_PARAM, "frames is NULL");
        tlc_message frames[16] = {{grads, 3}};
        CALL(tlc_allreduce_push_frames(m.rank, grads, frames, 1, to), TLC_ERR_PARAM, "tensor |frame 0|values|3lc");
        tlc_part p = {.struct_size = sizeof p};
        CALL(tlc_allreduce_pushed_part(m.rank, 77, &p), TLC_ERR_PARAM, "no pushed part 77; there are ");
        CALL(tlc_allreduce_pushed_part(m.rank, 0, NULL), TLC_ERR_PARAM, "part|struct_size");
    }
    if (!idle)
        CALL(PUSH(NULL, 1, to), TLC_ERR_ORDER, "push was called again|step 2");
}

static void pulls(const fleet *f, member m, uint32_t index, int idle)
{
    const tlc_message none[RANKS] = {{NULL, 0}};
    void *out[TENSORS];

    memcpy(out, &f->out[index * TENSORS], sizeof out);
#define PULL(from, out) (m.rank ? tlc_allreduce_pull(m.rank, from, out) : tlc_worker_pull(m.worker, from, out))
    CALL(PULL(NULL, out), TLC_ERR_PARAM, "from is NULL");
    CALL(PULL(none, NULL), TLC_ERR_PARAM, "tensor 0 (|out is NULL");
    if (idle && m.rank)
        CALL(PULL(none, out), TLC_ERR_ORDER, "pull was called before push|step 2");
    out[WIDE_T] = NULL;
    CALL(PULL(none, out), TLC_ERR_PARAM, "tensor 3 (|its entry of out is NULL");
    CALL(m.rank ? tlc_allreduce_mask(m.rank, NULL) : tlc_worker_mask(m.worker, NULL), TLC_ERR_PARAM,
         "momentum is NULL");
}

static void ranks(const fleet *f, member m, int idle)
{
    const tlc_message none[RANKS] = {{NULL, 0}};
    tlc_message message;
    const int owner = member_parts(m) > 0;

    CALL(tlc_allreduce_reduce(m.rank, NULL, &message), TLC_ERR_PARAM, "from is NULL");
    CALL(tlc_allreduce_reduce(m.rank, none, NULL), TLC_ERR_PARAM, "to_all is NULL");
    if (is_gathered(f))
        CALL(tlc_allreduce_reduce(m.rank, none, &message), TLC_ERR_ORDER, "reduce|gather|step 2");
    else if (idle)
        CALL(tlc_allreduce_reduce(m.rank, none, &message), TLC_ERR_ORDER, "reduce was called before push|step 2");
    CALL(tlc_allreduce_average(m.rank, NULL), TLC_ERR_PARAM, "from is NULL");
    CALL(tlc_allreduce_answer(m.rank, NULL, NULL), TLC_ERR_PARAM, "to_all is NULL");
    if (is_gathered(f)) {
        CALL(tlc_allreduce_average(m.rank, none), TLC_ERR_ORDER, "average was called|gather|step 2");
        CALL(tlc_allreduce_answer(m.rank, NULL, &message), TLC_ERR_ORDER, "answer was called|gather|step 2");
    } else
        CALL(tlc_allreduce_answer(m.rank, NULL, &message), TLC_ERR_ORDER, "answer was called before average|step 2");
    if (idle && !is_gathered(f))
        CALL(tlc_allreduce_average(m.rank, none), TLC_ERR_ORDER, "average was called before push|step 2");
    if (idle)
        CALL(tlc_allreduce_cancel(m.rank), TLC_ERR_ORDER, "cancel was called before push|step 2");
    if (owner || is_gathered(f)) {
        CALL(tlc_allreduce_again(m.rank, 9, &message), TLC_ERR_ORDER, "no message of step 9 yet|step 2");
        CALL(tlc_allreduce_again(m.rank, 0, &message), TLC_ERR_PARAM, "step 0 is not kept|step 2");
        CALL(tlc_allreduce_again(m.rank, 1, NULL), TLC_ERR_PARAM, "is NULL");
    } else
        CALL(tlc_allreduce_again(m.rank, 0, &message), TLC_ERR_PARAM, "owns no parts");
    if (!is_gathered(f) && !idle && owner)
        CALL(tlc_allreduce_pull(m.rank, none, (void *const *)f->out), TLC_ERR_ORDER,
             "pull was called before reduce|step 2");
}

static void workers(const fleet *f, member m, int idle)
{
    CALL(tlc_worker_join(m.worker, 0, NULL), TLC_ERR_PARAM, "step 0|1 to 2^63 - 1");
    if (!idle)
        CALL(tlc_worker_join(m.worker, 1, NULL), TLC_ERR_ORDER, "join was called with step 1|push of step 2");
}

static void servers_idle(const fleet *f, member m)
{
    tlc_push_info info = {.struct_size = 1};
    const tlc_message none = {NULL, 0};
    tlc_message message;
    uint64_t step;

    CALL(tlc_server_push(m.server, none, &info), TLC_ERR_PARAM, "info|struct_size");
    CALL(tlc_server_reduce(m.server), TLC_ERR_ORDER, "reduce was called before any push|step 2");
    CALL(tlc_server_answer(m.server, NULL, NULL), TLC_ERR_PARAM, "to_all is NULL");
    CALL(tlc_server_answer(m.server, NULL, &message), TLC_ERR_ORDER, "answer was called before reduce|step 2");
    CALL(tlc_server_again(m.server, 9, &message), TLC_ERR_ORDER, "step 9|step 2");
    CALL(tlc_server_again(m.server, 0, &message), TLC_ERR_PARAM, "step 0 is not kept|last 4");
    CALL(tlc_server_again(m.server, 1, NULL), TLC_ERR_PARAM, "is NULL");
    CALL(tlc_server_taken(m.server, 3, &step), TLC_ERR_PARAM, "no worker 3; there are 3");
    CALL(tlc_server_taken(m.server, 0, NULL), TLC_ERR_PARAM, "step is NULL");
}

static void server_reduced(const fleet *f, member m)
{
    const float *delta[64] = {NULL};
    tlc_message message;

    CALL(tlc_server_reduce(m.server), TLC_ERR_ORDER, "reduce was called again|step 2");
    CALL(tlc_server_answer(m.server, delta, &message), TLC_ERR_PARAM, "tensor |delta is NULL|part 0");
    general(f, m, 0);
}

static void rank_averaged(const fleet *f, member m)
{
    const float *delta[64] = {NULL};
    const tlc_message none[RANKS] = {{NULL, 0}};
    tlc_message message;

    CALL(tlc_allreduce_average(m.rank, none), TLC_ERR_ORDER, "average was called again|step 2");
    CALL(tlc_allreduce_reduce(m.rank, none, &message), TLC_ERR_ORDER, "reduce was called again|step 2");
    CALL(tlc_allreduce_answer(m.rank, delta, &message), TLC_ERR_PARAM, "tensor |delta is NULL|part 0");
    CALL(tlc_allreduce_pull(m.rank, none, (void *const *)f->out), TLC_ERR_ORDER,
         "pull was called before answer|step 2");
    general(f, m, 0);
}

static const float *const *at_reduced(fleet *f, uint32_t owner)
{
    if (member_step(f->owner[owner]) != 2)
        return NULL;
    if (f->cfg.servers)
        server_reduced(f, f->owner[owner]);
    else
        rank_averaged(f, f->owner[owner]);
    return NULL;
}

static void answer_twice(const fleet *f)
{
    tlc_message message;

    for (uint32_t i = 0; i < f->owners && !f->cfg.servers; i++) {
        const member m = f->worker[i];
        CALL(tlc_allreduce_answer(m.rank, NULL, &message), TLC_ERR_ORDER, "answer was called again|step 2");
    }
}

static void pushers(fleet *f, int idle)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        const member m = f->worker[i];
        general(f, m, idle);
        other_codecs(f, m);
        pushes(f, m, i, idle);
        pulls(f, m, i, idle);
        if (m.rank) {
            parts(f, m);
            ranks(f, m, idle);
        } else
            workers(f, m, idle);
    }
}

TEST(calls)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet f;
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_step(&f, 1);
        fleet_gradients(&f, 2);
        pushers(&f, 1);
        for (uint32_t i = 0; i < cfg.servers; i++) {
            general(&f, f.owner[i], 1);
            other_codecs(&f, f.owner[i]);
            parts(&f, f.owner[i]);
            servers_idle(&f, f.owner[i]);
        }
        f.delta = at_reduced;
        fleet_push(&f);
        pushers(&f, 0);
        fleet_reduce(&f);
        answer_twice(&f);
        fleet_pull(&f);
        require_pulled(&f, TLC_OK);
        fleet_close(&f);
    }
}

/* A residual that would not be finite names its tensor. */
TEST(scales)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet opened, *f = &opened;
        fleet_open(f, &cfg, small_tensors, 1);
        const member m = f->worker[0];
        f->residual[WIDE_T][0] = 3e38f;
        CALL(MEMBER(m, residual_scale, 2), TLC_ERR_NONFINITE, "tensor 3 (|residual * 2");
        fleet_close(f);
    }
}

/* ---- gossip ------------------------------------------------------------------------------------------------------ */

static void node_refused(const tlc_gossip *g, tlc_status got, tlc_status want, const char *words, const char *call)
{
    tlc_outcome o = {.struct_size = sizeof o};

    require_status_is(call, got, want, __FILE__, __LINE__);
    require_status(tlc_gossip_outcome(g, &o), TLC_OK);
    require_sentence(&o, want, words, call);
    require_words(o.sentence, "node 0", call);
    require(o.step == tlc_gossip_step(g));
}

#define NODE(call, want, words) node_refused(g, call, want, words, #call)

static void gossip_calls(tlc_gossip *g, int idle)
{
    tlc_exchange_stats stats = {.struct_size = 1};
    size_t size = tlc_gossip_state_size(g), written;
    uint8_t *state = bytes(size);
    const float *moved[NET_TENSORS] = {NULL};
    tlc_message message, none = {NULL, 0};

    NODE(tlc_gossip_stats(g, &stats), TLC_ERR_PARAM, "stats|struct_size");
    NODE(tlc_gossip_hello(g, 0, NULL), TLC_ERR_PARAM, "to_all is NULL");
    NODE(tlc_gossip_greet(g, NULL), TLC_ERR_PARAM, "from is NULL");
    NODE(tlc_gossip_push(g, moved, NULL), TLC_ERR_PARAM, "to_all is NULL");
    NODE(tlc_gossip_push(g, moved, &message), TLC_ERR_PARAM, "tensor 0 (|its entry of moved is NULL");
    NODE(tlc_gossip_push(g, NULL, &message), TLC_ERR_PARAM, "tensor 0 (|moved is NULL");
    NODE(tlc_gossip_pull(g, NULL), TLC_ERR_PARAM, "from is NULL");
    NODE(tlc_gossip_again(g, 9, &message), TLC_ERR_ORDER, "no message of step 9");
    NODE(tlc_gossip_again(g, 0, &message), TLC_ERR_PARAM, "step 0 is not kept");
    NODE(tlc_gossip_again(g, 1, NULL), TLC_ERR_PARAM, "is NULL");
    NODE(tlc_gossip_lose(g, 2), TLC_ERR_PARAM, "no neighbour 2; there are 2");
    NODE(tlc_gossip_join(g, 0, NULL), TLC_ERR_PARAM, "step 0|1 to 2^63 - 1");
    NODE(tlc_gossip_join(g, 5, moved), TLC_ERR_PARAM, "tensor 0 (|model is NULL");
    NODE(tlc_gossip_set_codec(g, CONV, NULL), TLC_ERR_PARAM, "codec is NULL");
    NODE(tlc_gossip_set_codec(g, CONV, "3lc"), TLC_ERR_PARAM, "tensor 1 (|\"3lc\" has a bias");
    NODE(tlc_gossip_set_codec(g, CONV, "4lc"), TLC_ERR_PARAM, "tensor 1 (|at 0: \"4lc\"");
    NODE(tlc_gossip_set_codec(g, 99, "raw"), TLC_ERR_PARAM, "no tensor 99");
    NODE(tlc_gossip_state_load(g, NULL, 1), TLC_ERR_PARAM, "states is NULL");
    NODE(tlc_gossip_state_load(g, &none, 0), TLC_ERR_PARAM, "count is 0");
    if (idle) {
        NODE(tlc_gossip_state_save(g, NULL, size, &written), TLC_ERR_PARAM, "dst is NULL");
        NODE(tlc_gossip_state_save(g, state, 2, &written), TLC_ERR_CAPACITY, "cap is 2");
        NODE(tlc_gossip_pull(g, &none), TLC_ERR_ORDER, "pull was called before push");
    } else {
        NODE(tlc_gossip_state_save(g, state, size, &written), TLC_ERR_ORDER, "state_save|under way");
        NODE(tlc_gossip_hello(g, 0, &message), TLC_ERR_ORDER, "hello|under way");
        NODE(tlc_gossip_greet(g, &none), TLC_ERR_ORDER, "greet|under way");
        NODE(tlc_gossip_join(g, 1, NULL), TLC_ERR_ORDER, "join was called with step 1|under way");
        NODE(tlc_gossip_state_load(g, &none, 1), TLC_ERR_ORDER, "state_load|under way");
    }
    free(state);
}

TEST(nodes)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, 3, "qsgd:bits=8", 2);
        tlc_gossip *g = net.node[0].g;
        const float *moved[NET_TENSORS];
        tlc_message m;
        gossip_calls(g, 1);
        for (size_t t = 0; t < NET_TENSORS; t++)
            moved[t] = tlc_gossip_mean(g, t);
        require_status(tlc_gossip_push(g, moved, &m), TLC_OK);
        gossip_calls(g, 0);
        NODE(tlc_gossip_push(g, moved, &m), TLC_ERR_ORDER, "push was called again");
        network_close(&net);
    }
}
