/* SPDX-License-Identifier: MIT
 *
 * Every call of exchange.h that fails leaves a sentence that names who was called, the argument, the tensor, what was
 * given and what is allowed. (`_create`: test_exchange_create.c.)
 */
#include "../support/gossip_run.h"
#include <math.h>

enum { RANKS = 3, CONV_T = 1, WIDE_T = 3 };

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

static void other_codecs(const fleet *f, member m)
{
    CALL(member_set_codec(m, CONV_T, "4lc"), TLC_ERR_PARAM, "tensor 1 (\"conv\")|at 0: \"4lc\"");
    CALL(member_set_codec(m, 99, "3lc"), TLC_ERR_PARAM, "there is no tensor 99; there are 7");
    CALL(member_set_codec(m, 0, "3lc"), TLC_ERR_PARAM, "tensor 0 (|min_n, 5");
    CALL(member_set_codec(m, TLC_ALL, "raw:block=1"), TLC_ERR_CAPACITY, "tensor |\"raw:block=1\"|\"3lc\"|reserve");
    if (!m.rank)
        CALL(member_set_codec(m, CONV_T, NULL), TLC_ERR_PARAM, "codec is NULL");
}

static void parts(const fleet *f, member m)
{
    tlc_part p = {.struct_size = 1};

    if (!member_parts(m)) {
        p.struct_size = sizeof p;
        CALL(tlc_allreduce_part(m.rank, 0, &p), TLC_ERR_PARAM, "no part 0|owns none");
        return;
    }
    CALL(member_ask_part(m, 0, NULL), TLC_ERR_PARAM, "part|struct_size");
    CALL(member_ask_part(m, 0, &p), TLC_ERR_PARAM, "part|struct_size");
    p.struct_size = sizeof p;
    CALL(member_ask_part(m, 77, &p), TLC_ERR_PARAM, "there is no part 77; there are ");
}

static void pushes(fleet *f, member m, uint32_t index, int idle)
{
    const void *grads[TENSORS];
    tlc_message to[RANKS];

    for (size_t t = 0; t < TENSORS; t++)
        grads[t] = f->grad[index * TENSORS + t];
    CALL(member_push(m, grads, 1, NULL), TLC_ERR_PARAM, "to is NULL");
    CALL(member_push(m, grads, 0, to), TLC_ERR_PARAM, "weight is 0; it is 2^-50 to 2^50");
    CALL(member_push(m, grads, 1.5e60, to), TLC_ERR_PARAM, "weight is 1.5e+60;");
    CALL(member_push(m, grads, -0.125, to), TLC_ERR_PARAM, "weight is -0.125;");
    CALL(member_push(m, grads, NAN, to), TLC_ERR_PARAM, "weight is nan;");
    grads[WIDE_T] = NULL;
    CALL(member_push(m, grads, 1, to), TLC_ERR_PARAM, "tensor 3 (\"|grads is NULL");
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
        CALL(member_push(m, NULL, 1, to), TLC_ERR_ORDER, "push was called again|step 2");
}

static void pulls(const fleet *f, member m, uint32_t index, int idle)
{
    const tlc_message none[RANKS] = {{NULL, 0}};
    void *out[TENSORS];

    memcpy(out, &f->out[index * TENSORS], sizeof out);
    CALL(member_pull(m, NULL, out), TLC_ERR_PARAM, "from is NULL");
    CALL(member_pull(m, none, NULL), TLC_ERR_PARAM, "tensor 0 (|out is NULL");
    if (idle && m.rank)
        CALL(member_pull(m, none, out), TLC_ERR_ORDER, "pull was called before push|step 2");
    out[WIDE_T] = NULL;
    CALL(member_pull(m, none, out), TLC_ERR_PARAM, "tensor 3 (|its entry of out is NULL");
    CALL(member_mask(m, NULL), TLC_ERR_PARAM, "momentum is NULL");
}

static void ranks(const fleet *f, member m, int idle)
{
    const tlc_message none[RANKS] = {{NULL, 0}};
    tlc_message message;
    const int owner = member_parts(m) > 0;

    CALL(tlc_allreduce_reduce(m.rank, NULL, &message), TLC_ERR_PARAM, "from is NULL");
    CALL(tlc_allreduce_reduce(m.rank, none, NULL), TLC_ERR_PARAM, "to_all is NULL");
    tlc_message frames[16 * RANKS];
    float factors[16 * RANKS];
    CALL(tlc_allreduce_owned_frames(m.rank, NULL, frames, factors), TLC_ERR_PARAM, "from is NULL");
    CALL(tlc_allreduce_owned_frames(m.rank, none, NULL, factors), TLC_ERR_PARAM, "frames is NULL");
    CALL(tlc_allreduce_owned_frames(m.rank, none, frames, NULL), TLC_ERR_PARAM, "factors is NULL");
    CALL(tlc_allreduce_reduce_frames(m.rank, none, NULL, &message), TLC_ERR_PARAM, "frames is NULL");
    if (is_gathered(f)) {
        CALL(tlc_allreduce_reduce(m.rank, none, &message), TLC_ERR_ORDER, "reduce|gather|step 2");
        CALL(tlc_allreduce_owned_frames(m.rank, none, frames, factors), TLC_ERR_ORDER, "owned_frames|gather|step 2");
    } else if (idle) {
        CALL(tlc_allreduce_reduce(m.rank, none, &message), TLC_ERR_ORDER, "reduce was called before push|step 2");
        CALL(tlc_allreduce_owned_frames(m.rank, none, frames, factors), TLC_ERR_ORDER,
             "owned_frames was called before push|step 2");
    } else if (owner) {
        tlc_message given[16];
        for (size_t i = 0; i < 16; i++) /* parts that share a frame have none */
            given[i] = (tlc_message){none, 3};
        CALL(tlc_allreduce_reduce_frames(m.rank, none, given, &message), TLC_ERR_PARAM, "tensor |frame |values|");
    }
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
    CALL(tlc_worker_join(m.worker, 0, NULL), TLC_ERR_PARAM, "step 0|1 to 2^62");
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

static void node_says(const network *net, tlc_status want, const char *words, const char *call)
{
    const tlc_outcome o = node_outcome(net, 0);

    require_sentence(&o, want, words, call);
    require_words(o.sentence, "node 0", call);
    require(o.step == tlc_gossip_step(net->node[0].g));
}

/* It changes nothing else, either. */
#define NODE(call, want, words)                                                                                        \
    do {                                                                                                               \
        NODE_REFUSED(net, 0, call, want);                                                                              \
        node_says(net, want, words, #call);                                                                            \
    } while (0)

static void gossip_calls(network *net, int idle)
{
    tlc_gossip *g = net->node[0].g;
    tlc_exchange_stats stats = {.struct_size = 1};
    size_t size = tlc_gossip_state_size(g), written = 77;
    uint8_t *state = bytes(size);
    const float *moved[NET_TENSORS] = {NULL};
    tlc_message message, none = {NULL, 0}, frames[3] = {{"", 1}};
    tlc_part part = {.struct_size = sizeof part};

    NODE(tlc_gossip_stats(g, &stats), TLC_ERR_PARAM, "stats|struct_size");
    NODE(tlc_gossip_hello(g, 0, NULL), TLC_ERR_PARAM, "to_all is NULL");
    NODE(tlc_gossip_greet(g, NULL), TLC_ERR_PARAM, "from is NULL");
    NODE(tlc_gossip_push(g, moved, NULL), TLC_ERR_PARAM, "to_all is NULL");
    NODE(tlc_gossip_push(g, moved, &message), TLC_ERR_PARAM, "tensor 0 (|its entry of moved is NULL");
    NODE(tlc_gossip_push(g, NULL, &message), TLC_ERR_PARAM, "tensor 0 (|moved is NULL");
    NODE(tlc_gossip_push_frames(g, NULL, frames, &message), TLC_ERR_PARAM, "moved is NULL");
    NODE(tlc_gossip_push_frames(g, moved, NULL, &message), TLC_ERR_PARAM, "frames is NULL");
    NODE(tlc_gossip_push_frames(g, moved, frames, &message), TLC_ERR_PARAM, "tensor 1 (|frame 0|48 values|qsgd");
    NODE(tlc_gossip_pushed_part(g, 77, &part), TLC_ERR_PARAM, "no pushed part 77; there are 3");
    NODE(tlc_gossip_pushed_part(g, 0, NULL), TLC_ERR_PARAM, "part|struct_size");
    NODE(tlc_gossip_pull(g, NULL), TLC_ERR_PARAM, "from is NULL");
    NODE(tlc_gossip_again(g, 9, &message), TLC_ERR_ORDER, "no message of step 9");
    NODE(tlc_gossip_again(g, 0, &message), TLC_ERR_PARAM, "step 0 is not kept");
    NODE(tlc_gossip_again(g, 1, NULL), TLC_ERR_PARAM, "is NULL");
    NODE(tlc_gossip_lose(g, 2), TLC_ERR_PARAM, "no neighbour 2; there are 2");
    NODE(tlc_gossip_join(g, 0, NULL), TLC_ERR_PARAM, "step 0|1 to 2^62");
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
    require(written == 77);
    free(state);
}

TEST(nodes)
{
    FOR_EACH_GOSSIP(kind) {
        network ring, *net = &ring;
        network_ring(net, kind, 3, "qsgd:bits=8", 2);
        gossip_calls(net, 1);
        network_move(net, 3);
        require_status(push_node(net, 0), TLC_OK);
        gossip_calls(net, 0);
        NODE(push_node(net, 0), TLC_ERR_ORDER, "push was called again");
        network_close(net);
    }
}
