/* SPDX-License-Identifier: MIT */
#include "creation.h"
#include "arguments.h"
#include "tasks.h"
#include "values.h"
#include <math.h>

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static const char *copy_string(creation *c, const char *text)
{
    char *copy = c->text + c->used;

    if (!text)
        return NULL;
    c->used += strlen(text) + 1;
    return strcpy(copy, text);
}

static void fill_config(creation *c, const object *o)
{
    run *r = o->run;
    const scenario *sc = &r->sc;
    const group *g = o->group;
    int ring = o->role == ROLE_RANK, with_servers = o->role == ROLE_WORKER || o->role == ROLE_SERVER;
    tlc_exchange_config *cfg = &c->cfg;

    must(r, CALLS, !tlc_exchange_config_init(cfg, sizeof *cfg), "tlc_exchange_config_init");
    must(r, CALLS,
         cfg->keep == 4 && cfg->min_n == 256 && cfg->split_n == 65536 && !cfg->push && !cfg->pull && !cfg->backup &&
             !cfg->sum && !cfg->gather && !cfg->servers && !cfg->owners && !cfg->reserve,
         "tlc_exchange_config_init: other defaults");
    cfg->workers = g->workers;
    cfg->servers = with_servers ? g->servers : 0;
    cfg->owners = ring ? sc->owners : 0;
    cfg->keep = sc->keep;
    cfg->backup = with_servers && sc->backup < g->workers ? sc->backup : 0;
    cfg->gather = ring && sc->family == FAMILY_GATHERED;
    cfg->sum = sc->sum ^ (g->stranger == OTHER_SUM);
    cfg->push = copy_string(c, sc->codec[PUSH]->text);
    cfg->pull = copy_string(c, sc->codec[PULL] ? sc->codec[PULL]->text : NULL);
    cfg->reserve = copy_string(c, *sc->reserve_text ? sc->reserve_text : NULL);
    cfg->min_n = sc->min_n;
    cfg->split_n = sc->split_n;
    cfg->assume_finite = sc->assume_finite;
    cfg->dtype = o->dtype;
    cfg->seed = sc->seed;
    cfg->isa = isa_of(r, o->role, o->rank);
    cfg->alloc = counted(r);
    cfg->parallel = tasks_of(r, o->role, o->rank);
}

static void fill_tensors(creation *c, const object *o)
{
    const scenario *sc = &o->run->sc;

    c->count = sc->count;
    for (size_t i = 0; i < sc->count; i++) {
        const tensor_plan *t = &sc->tensor[i];
        c->tensors[i] = (tlc_tensor){.struct_size = sizeof *c->tensors,
                                     .name = copy_string(c, t->name),
                                     .n = t->n,
                                     .push = copy_string(c, t->own[PUSH] ? t->own[PUSH]->text : NULL),
                                     .pull = copy_string(c, t->own[PULL] ? t->own[PULL]->text : NULL),
                                     .residual = o->role != ROLE_SERVER && t->theirs ? o->residual + t->at : NULL,
                                     .only = o->group->only[i] - 1};
    }
}

static void fill_node(creation *c, const object *o)
{
    const scenario *sc = &o->run->sc;

    c->kind = o->group->stranger == OTHER_ALGORITHM ? (tlc_gossip_kind)!sc->kind : sc->kind;
    c->edges = o->group->edges[o->rank];
    for (size_t t = 0; t <= sc->count; t++) { /* the last one is for one more tensor */
        size_t n = t < sc->count ? sc->tensor[t].n + 1 : 3;
        c->model[t] = take(o->run, n * sizeof(float));
        if (t < sc->count)
            memcpy(c->model[t], o->group->model + sc->tensor[t].at, sc->tensor[t].n * sizeof(float));
    }
}

/* Changes what makes the object of another run. */
static void make_strange(creation *c, strangeness how)
{
    tlc_tensor *t = &c->tensors[0];

    if (how == NO_STRANGER || how == OTHER_ALGORITHM || how == OTHER_WORKERS || how == OTHER_SUM)
        return;
    if (how == OTHER_TENSORS || !c->count)
        c->tensors[c->count++] =
            (tlc_tensor){.struct_size = sizeof *t, .name = copy_string(c, "one more"), .n = 3, .only = TLC_NOBODY};
    else if (how == OTHER_NAME)
        t->name = copy_string(c, "another");
    else if (how == OTHER_N) {
        t->n++;
        t->residual = NULL; /* the codec may be another */
    } else if (how == OTHER_ONLY)
        t->only = t->only == TLC_NOBODY ? c->cfg.workers - 1 : TLC_NOBODY;
    else if (how == OTHER_PUSH) {
        t->push = copy_string(c, "raw:block=7");
        t->residual = NULL;
    } else
        t->pull = copy_string(c, "raw:block=7");
}

void creation_fill(creation *c, const object *o)
{
    *c = (creation){.role = o->role, .rank = o->rank};
    fill_config(c, o);
    fill_tensors(c, o);
    if (o->role == ROLE_NODE)
        fill_node(c, o);
    make_strange(c, o->group->stranger);
}

static tlc_status create_node(creation *c, void **out)
{
    return tlc_gossip_create((tlc_gossip **)out, &c->cfg, c->kind, c->rank, c->edges.neighbour, c->edges.weight,
                             c->edges.degree, c->tensors, c->count, (const float *const *)c->model);
}

tlc_status creation_call(run *r, creation *c, void **out)
{
    tlc_status status;

    may_allocate(r, 1);
    switch (c->role) {
    case ROLE_RANK: status = tlc_allreduce_create((tlc_allreduce **)out, &c->cfg, c->rank, c->tensors, c->count); break;
    case ROLE_WORKER: status = tlc_worker_create((tlc_worker **)out, &c->cfg, c->rank, c->tensors, c->count); break;
    case ROLE_NODE: status = create_node(c, out); break;
    default: status = tlc_server_create((tlc_server **)out, &c->cfg, c->rank, c->tensors, c->count); break;
    }
    may_allocate(r, 0);
    memset(c->text, '?', sizeof c->text);
    memset(c->tensors, 0x55, sizeof c->tensors);
    memset(&c->edges, 0x55, sizeof c->edges);
    for (size_t i = 0; i < COUNT(c->model); i++) {
        give(r, c->model[i]);
        c->model[i] = NULL;
    }
    return status;
}

/* ---- make -------------------------------------------------------------------------------------------------------- */

static tlc_dtype dtype_of(const run *r, const group *g, object_role role, uint32_t rank)
{
    if (g->plain)
        return TLC_F32;
    return r->sc.mixed_dtypes ? dtypes[below(drawn(r->sc.seed, ABOUT_DTYPE, role, rank, 0), 3)] : r->sc.dtype;
}

object *object_create(run *r, const group *g, object_role role, uint32_t rank, float *residual)
{
    object *o = take(r, sizeof *o);
    creation c;
    tlc_status status;

    *o = (object){.run = r, .group = g, .role = role, .rank = rank, .dtype = dtype_of(r, g, role, rank), .step = 1};
    o->residual = residual ? residual : new_values(r);
    for (size_t t = 0; t < r->sc.count; t++)
        for (int d = PUSH; d <= PULL; d++) {
            int small;
            o->codec[d][t] = scenario_codec(&r->sc, t, d, &small);
            o->feedback[d][t] = scenario_feedback(&r->sc, t, d);
        }
    creation_fill(&c, o);
    status = creation_call(r, &c, &o->it);
    must(r, CALLS, !status && o->it, "an object was not made: %s", tlc_status_string(status));
    object_check(o);
    return o;
}

/* ---- wrong arguments --------------------------------------------------------------------------------------------- */

enum { WRONG_ARGUMENTS = 26, WRONG_OF_NODES = 12 };

/* Makes one argument wrong. Returns the status that it must give, or TLC_OK if it cannot be wrong here. */
static tlc_status make_wrong(creation *c, const object *o, uint64_t which)
{
    tlc_exchange_config *cfg = &c->cfg;
    tlc_tensor *t = &c->tensors[0];
    int servers = c->role == ROLE_WORKER || c->role == ROLE_SERVER;

    if (which >= 19 && !c->count)
        return TLC_OK;
    switch (which) {
    case 0: cfg->workers = 0; break;
    case 1: cfg->workers = (1 << 20) + 1; break;
    case 2: c->rank = c->role == ROLE_SERVER ? cfg->servers : cfg->workers; break;
    case 3: cfg->keep = 0; break;
    case 4: cfg->sum = 2; break;
    case 5: cfg->assume_finite = -1; break;
    case 6: cfg->split_n = 0; break;
    case 7: cfg->dtype = (tlc_dtype)3; break;
    case 8: cfg->isa = (tlc_isa)(TLC_ISA_NEON + 1); break;
    case 9: cfg->push = "no codec"; break;
    case 10: cfg->pull = "3lc:s=2"; break;
    case 11: cfg->reserve = "raw;no codec"; break;
    case 12: cfg->alloc.free = NULL; break;
    case 13: cfg->backup = servers ? cfg->workers : 1; break;
    case 14: cfg->servers = servers ? 0 : 1; break;
    case 15: cfg->gather = servers ? 1 : 2; break;
    case 16: cfg->servers = (1 << 20) + 1; break;
    case 17: cfg->struct_size = sizeof cfg->struct_size - 1; break;
    case 18:
        cfg->owners = 1;
        cfg->gather = 1; /* with servers both are wrong */
        break;
    case 19: t->name = NULL; break;
    case 20: t->name = ""; break;
    case 21: t->only = cfg->workers; break;
    case 22: t->push = "3lc+"; break;
    case 23: t->pull = "sbc:p=2"; break;
    case 24: /* a residual, where none is kept */
        if (c->role == ROLE_SERVER || o->feedback[PUSH][0])
            return TLC_OK;
        t->residual = o->residual;
        break;
    default:
        if (c->count < 2)
            return TLC_OK;
        c->tensors[1].name = t->name;
        break;
    }
    return TLC_ERR_PARAM;
}

static void refuse(run *r, creation *c, tlc_status want, uint64_t which)
{
    size_t pieces = pieces_of_objects(r);
    void *out = r;
    tlc_status status = creation_call(r, c, &out);

    must(r, CALLS, status == want, "create with wrong argument %llu: %s", (unsigned long long)which,
         tlc_status_string(status));
    must(r, E1, out == r, "create failed and wrote its result");
    must(r, E5, pieces_of_objects(r) == pieces, "create failed and kept memory");
}

/* What only nodes of gossip have. */
static tlc_status make_wrong_node(creation *c, const object *o, uint64_t draw)
{
    edges *e = &c->edges;
    const tensor_plan *t = &o->run->sc.tensor[0];

    switch (draw % WRONG_OF_NODES) {
    case 0: c->kind = (tlc_gossip_kind)2; break;
    case 1: c->cfg.dtype = TLC_F16; break;
    case 2: c->cfg.push = "sbc"; break;
    case 3: c->cfg.reserve = "raw;natural:rounding=nearest"; break;
    case 4: c->cfg.pull = "raw"; break;
    case 5: c->cfg.sum = 1; break;
    case 6: e->weight[e->degree] = -e->weight[e->degree] - 0x1p-30; break;
    case 7: e->weight[e->degree] += 0x1p-18; break;
    case 8: e->weight[0] = NAN; break;
    case 9:
        if (!c->count || !t->n)
            return TLC_OK;
        c->model[0][below(mixed(draw), t->n)] = draw >> 63 ? NAN : -INFINITY;
        return TLC_ERR_NONFINITE;
    default:
        if (!e->degree)
            return TLC_OK;
        e->neighbour[e->degree - 1] = draw >> 62 == 0                    ? c->cfg.workers
                                      : draw >> 62 == 1 || e->degree < 2 ? c->rank
                                                                         : e->neighbour[0];
        break;
    }
    return TLC_ERR_PARAM;
}

void refuse_creations(run *r, const group *g, object_role role, uint32_t rank)
{
    uint64_t draw = drawn(r->sc.seed, ABOUT_WRONG_CALL, role, rank, 100);
    object *o;
    creation c;
    tlc_status want;

    if (!falls(draw, r->sc.rate[FAULT_WRONG]))
        return;
    o = object_create(r, g, role, rank, NULL);
    refuse_arguments(o);
    creation_fill(&c, o);
    want = make_wrong(&c, o, draw % WRONG_ARGUMENTS);
    if (want)
        refuse(r, &c, want, draw % WRONG_ARGUMENTS);
    creation_fill(&c, o);
    want = role == ROLE_NODE ? make_wrong_node(&c, o, mixed(draw)) : TLC_OK;
    if (want)
        refuse(r, &c, want, WRONG_ARGUMENTS + mixed(draw) % WRONG_OF_NODES);
    creation_fill(&c, o);
    r->allocations_left = 1 + below(mixed(draw), 12); /* any object needs more */
    refuse(r, &c, TLC_ERR_NOMEM, UINT64_MAX);
    r->allocations_left = 0;
    object_destroy(o);
}
