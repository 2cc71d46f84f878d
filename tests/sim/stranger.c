/* SPDX-License-Identifier: MIT */
#include "stranger.h"
#include "creation.h"
#include "values.h"

enum { OWNERS = MOST_RANKS > MOST_SERVERS ? MOST_RANKS : MOST_SERVERS };

/* An object of another group, which must live as long as the object. */
static object *make(run *r, group *g, object_role role, uint32_t rank, strangeness how)
{
    g->stranger = how == OTHER_WORKERS && g->workers == MOST_RANKS ? OTHER_TENSORS : how;
    if (role == ROLE_NODE && (how == OTHER_ONLY || how == OTHER_PULL || how == OTHER_SUM)) /* nodes have none */
        g->stranger = OTHER_PUSH;
    if (g->stranger == OTHER_WORKERS)
        g->workers++;
    if (g->stranger == OTHER_ALGORITHM && role != ROLE_NODE) {
        role = role == ROLE_RANK ? ROLE_WORKER : ROLE_RANK;
        g->servers = role == ROLE_WORKER;
    }
    return object_create(r, g, role, rank, NULL);
}

/* A node that stays where it is. */
static tlc_status push_model(object *o, tlc_message *to)
{
    const float *model[MOST_TENSORS + 1];

    for (size_t t = 0; t <= o->run->sc.count; t++)
        model[t] = tlc_gossip_model(o->it, t);
    return tlc_gossip_push(o->it, model, to);
}

/* Nobody pushes: so there is no gradient to make. */
static void push_nothing(object *o, tlc_message *to)
{
    tlc_status status = o->role == ROLE_NODE   ? push_model(o, to)
                        : o->role == ROLE_RANK ? tlc_allreduce_push(o->it, NULL, 1, to)
                                               : tlc_worker_push(o->it, NULL, 1, to);

    must(o->run, CALLS, !status, "push without a gradient: %s", tlc_status_string(status));
}

blob *stranger_push(run *r, const group *g, object_role role, uint32_t rank, uint64_t draw)
{
    tlc_message to[OWNERS];
    group other = *g;
    object *o = make(r, &other, role, rank, (strangeness)(1 + draw % (STRANGENESSES - 1)));
    blob *b = NULL;

    push_nothing(o, to);
    for (uint32_t i = 0; !b && i < (o->role == ROLE_RANK   ? other.workers
                                    : o->role == ROLE_NODE ? 1
                                                           : other.servers);
         i++)
        if (to[i].len)
            b = blob_copy(r, to[i]);
    object_destroy(o);
    return b;
}

static void answer_rank(object *o, tlc_message *answer)
{
    const tlc_message from[OWNERS] = {{NULL, 0}};
    tlc_message to[OWNERS];

    push_nothing(o, to);
    must(o->run, CALLS, !tlc_allreduce_reduce(o->it, from, answer), "reduce without messages");
}

static void answer_server(object *o, tlc_message *answer)
{
    tlc_message to[OWNERS];
    object *worker = object_create(o->run, o->group, ROLE_WORKER, 0, NULL);

    push_nothing(worker, to);
    must(o->run, CALLS, !tlc_server_push(o->it, to[o->rank], NULL), "push to a server");
    must(o->run, CALLS, !tlc_server_reduce(o->it), "reduce without gradients");
    must(o->run, CALLS, !tlc_server_answer(o->it, NULL, answer), "answer");
    object_destroy(worker);
}

blob *stranger_answer(run *r, const group *g, object_role role, uint32_t rank, uint64_t draw)
{
    tlc_message answer;
    group other = *g;
    object *o = make(r, &other, role, rank, (strangeness)(1 + draw % (OTHER_ALGORITHM - 1)));
    blob *b;

    if (role == ROLE_RANK)
        answer_rank(o, &answer);
    else
        answer_server(o, &answer);
    b = answer.len ? blob_copy(r, answer) : NULL;
    object_destroy(o);
    return b;
}

/* A hello of an object, which is destroyed. */
static blob *hello_of(object *o, int full)
{
    tlc_message hello;
    blob *b;

    must(o->run, CALLS, !tlc_gossip_hello(o->it, full, &hello), "hello");
    b = blob_copy(o->run, hello);
    object_destroy(o);
    return b;
}

blob *stranger_hello(run *r, const group *g, uint32_t rank, uint64_t draw)
{
    group other = *g;

    return hello_of(make(r, &other, ROLE_NODE, rank, (strangeness)(1 + draw % (STRANGENESSES - 1))), (int)(draw >> 63));
}

blob *stranger_row(run *r, const group *g, uint32_t rank, uint32_t to)
{
    group other = *g;
    edges *e = memcpy(take(r, g->workers * sizeof *e), g->edges, g->workers * sizeof *e), *row = &e[rank];
    size_t i = 0;

    while (row->neighbour[i] != to)
        i++;
    if (row->weight[row->degree] < 0x1p-10)
        return NULL;
    row->weight[i] += 0x1p-12;
    row->weight[row->degree] -= 0x1p-12;
    other.edges = e;
    return hello_of(object_create(r, &other, ROLE_NODE, rank, NULL), 0);
}
