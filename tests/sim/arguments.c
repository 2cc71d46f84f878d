/* SPDX-License-Identifier: MIT */
#include "arguments.h"

/* Structs that a newer caller has made larger: their extra bytes become 0. */
static void check_larger_structs(object *o)
{
    struct {
        tlc_outcome outcome;
        uint64_t extra;
    } outcome = {.outcome = {.struct_size = sizeof outcome}, .extra = 77};
    struct {
        tlc_exchange_stats stats;
        uint64_t extra;
    } stats = {.stats = {.struct_size = sizeof stats}, .extra = 77};

    must(o->run, CALLS, !object_ask_outcome(o, 0, &outcome.outcome), "outcome");
    must(o->run, CALLS, !OBJECT(o, stats, &stats.stats), "stats");
    must(o->run, CALLS, !outcome.extra && !stats.extra, "extra bytes of a struct are not 0");
}

/* What all objects have. */
static void refuse_any(object *o)
{
    tlc_outcome outcome = {.struct_size = sizeof(size_t) - 1};
    tlc_exchange_stats stats = {.struct_size = sizeof(size_t) - 1};
    tlc_message message = {NULL, 0};
    const object none = {.role = o->role};
    uint8_t byte;
    size_t written;

    must_refuse(o, object_ask_outcome(o, 0, &outcome), TLC_ERR_PARAM);
    must_refuse(o, object_ask_outcome(o, 0, NULL), TLC_ERR_PARAM);
    must_refuse(o, OBJECT(o, stats, &stats), TLC_ERR_PARAM);
    must_refuse(o, OBJECT(o, state_load, NULL, 1), TLC_ERR_PARAM);
    must_refuse(o, OBJECT(&none, state_save, &byte, 1, &written), TLC_ERR_PARAM);
    must_refuse(o, OBJECT(&none, state_load, &message, 1), TLC_ERR_PARAM);
}

static void refuse_rank(object *o)
{
    tlc_part part = {.struct_size = sizeof(size_t) - 1};
    tlc_message message = {NULL, 0};
    tlc_allreduce *none = NULL;

    must_refuse(o, tlc_allreduce_part(o->it, 0, &part), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_reduce(o->it, NULL, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_average(o->it, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_answer(o->it, NULL, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_pull(o->it, NULL, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_again(o->it, 1, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_push(none, NULL, 1, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_reduce(none, &message, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_average(none, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_answer(none, NULL, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_pull(none, &message, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_again(none, 1, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_cancel(none), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_mask(none, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_set_codec(none, TLC_ALL, "raw", NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_residual_scale(none, 1), TLC_ERR_PARAM);
    must(o->run, CALLS, !tlc_allreduce_step(none) && !tlc_allreduce_parts(none) && !tlc_allreduce_state_size(none),
         "NULL has a step, parts or a state");
    tlc_allreduce_destroy(none);
}

static void refuse_worker(object *o)
{
    tlc_message message = {NULL, 0};
    tlc_worker *none = NULL;

    must_refuse(o, tlc_worker_pull(o->it, NULL, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_worker_set_codec(o->it, TLC_ALL, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_worker_push(none, NULL, 1, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_worker_pull(none, &message, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_worker_mask(none, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_worker_join(none, 1, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_worker_set_codec(none, TLC_ALL, "raw"), TLC_ERR_PARAM);
    must_refuse(o, tlc_worker_residual_scale(none, 1), TLC_ERR_PARAM);
    must(o->run, CALLS, !tlc_worker_step(none) && !tlc_worker_state_size(none), "NULL has a step or a state");
    tlc_worker_destroy(none);
}

static void refuse_server(object *o)
{
    tlc_part part = {.struct_size = sizeof(size_t) - 1};
    tlc_push_info info = {.struct_size = sizeof(size_t) - 1};
    tlc_message message = {NULL, 0};
    tlc_server *none = NULL;
    uint64_t step;

    must_refuse(o, tlc_server_part(o->it, 0, &part), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_push(o->it, message, &info), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_answer(o->it, NULL, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_again(o->it, 1, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_taken(o->it, o->group->workers, &step), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_taken(o->it, 0, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_set_codec(o->it, TLC_ALL, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_push(none, message, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_reduce(none), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_answer(none, NULL, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_again(none, 1, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_taken(none, 0, &step), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_set_codec(none, TLC_ALL, "raw"), TLC_ERR_PARAM);
    must_refuse(o, tlc_server_residual_scale(none, 1), TLC_ERR_PARAM);
    must(o->run, CALLS,
         !tlc_server_step(none) && !tlc_server_parts(none) && !tlc_server_state_size(none) && !tlc_server_ready(none),
         "NULL has a step, parts or a state, or is ready");
    tlc_server_destroy(none);
}

static void refuse_node(object *o)
{
    tlc_message message = {NULL, 0};
    tlc_gossip *none = NULL;
    size_t written;

    must_refuse(o, tlc_gossip_again(o->it, 1, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_state_save(o->it, NULL, 1, &written), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_set_codec(o->it, TLC_ALL, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_set_codec(o->it, TLC_ALL, "no codec"), TLC_ERR_PARAM);
    if (o->group->edges[o->rank].degree) {
        must_refuse(o, tlc_gossip_pull(o->it, NULL), TLC_ERR_PARAM);
        must_refuse(o, tlc_gossip_greet(o->it, NULL), TLC_ERR_PARAM);
    }
    must_refuse(o, tlc_gossip_push(none, NULL, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_pull(none, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_hello(none, 0, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_greet(none, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_again(none, 1, &message), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_lose(none, 0), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_join(none, 1, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_set_codec(none, TLC_ALL, "raw"), TLC_ERR_PARAM);
    must(o->run, CALLS,
         !tlc_gossip_step(none) && !tlc_gossip_state_size(none) && !tlc_gossip_lost(none, 0) &&
             !tlc_gossip_mean(none, 0) && !tlc_gossip_model(none, 0),
         "NULL has a step, a state, a model or a mean");
    tlc_gossip_destroy(none);
}

void refuse_arguments(object *o)
{
    check_larger_structs(o);
    refuse_any(o);
    switch (o->role) {
    case ROLE_RANK: refuse_rank(o); break;
    case ROLE_WORKER: refuse_worker(o); break;
    case ROLE_NODE: refuse_node(o); break;
    default: refuse_server(o); break;
    }
}
