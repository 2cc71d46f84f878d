/* SPDX-License-Identifier: MIT */
#include "setup_make.h"
#include "../../api/context.h"
#include "../../common/structs.h"
#include "cost.h"
#include "pull_codec.h"
#include "refusal.h"
#include "setup_check.h"
#include <threelc/gossip.h>

tlc_status tlc_exchange_config_init(tlc_exchange_config *cfg, size_t struct_size)
{
    const tlc_exchange_config defaults = {.workers = 1, .keep = 4, .min_n = 256, .split_n = 65536};

    return tlc_init(cfg, struct_size, &defaults, sizeof defaults);
}

tlc_status tlc_tensor_init(tlc_tensor *tensor, size_t struct_size)
{
    const tlc_tensor defaults = {.only = TLC_NOBODY};

    return tlc_init(tensor, struct_size, &defaults, sizeof defaults);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* The codec of a tensor in one direction. */
static void choose_codec(const tlc_setup *x, tlc_setup_tensor *t, tlc_direction direction, const char *own,
                         const char *common)
{
    t->small[direction] = !own && t->n < x->cfg.min_n;
    t->common[direction] = !own && !t->small[direction];
    t->codec[direction] = own ? own : t->small[direction] ? "raw" : common;
}

/* Checks tensor i of the caller, whose name is there. */
static tlc_status check_tensor(const tlc_setup *x, size_t i, const tlc_tensor *t)
{
    const uint32_t workers = x->cfg.workers;

    if (!*t->name)
        return tlc_refuse(x, TLC_ERR_PARAM, i, "its name is empty");
    if (t->only != TLC_NOBODY && t->only >= workers)
        return tlc_refuse(x, TLC_ERR_PARAM, i, "only is %u; it is a worker, 0 to %u, or TLC_NOBODY", t->only,
                          workers - 1);
    if ((uintptr_t)t->residual % _Alignof(float))
        return tlc_refuse(x, TLC_ERR_PARAM, i, "its residual is not aligned for floats");
    if (tlc_is_gossip(x->kind) && (t->pull || t->only != TLC_NOBODY))
        return tlc_refuse(x, TLC_ERR_PARAM, i, "%s is set, which gossip does not have", t->pull ? "pull" : "only");
    return TLC_OK;
}

/* Takes tensor i of the caller. */
static tlc_status take_tensor(tlc_setup *x, size_t i, const tlc_tensor *theirs, size_t stride)
{
    tlc_setup_tensor *t = &x->tensors[i];
    tlc_tensor ours = {.only = TLC_NOBODY};

    if (!tlc_import_sized(&ours, sizeof ours, (const char *)theirs + i * stride, stride))
        return tlc_refuse(x, TLC_ERR_PARAM, i,
                          "struct_size is %zu; it is at least %zu, and what follows %zu bytes is 0", stride,
                          sizeof stride, sizeof ours);
    if (!ours.name)
        return tlc_refuse(x, TLC_ERR_PARAM, i, "its name is NULL");
    *t = (tlc_setup_tensor){.name = tlc_memory_copy(&x->memory, ours.name),
                            .residual = ours.residual,
                            .n = ours.n,
                            .pusher = ours.only + 1}; /* of TLC_NOBODY: 0 */
    choose_codec(x, t, TLC_PUSH, ours.push, x->cfg.push);
    choose_codec(x, t, TLC_PULL, ours.pull, x->cfg.pull ? x->cfg.pull : x->cfg.push);
    if (x->memory.status)
        return x->memory.status;
    tlc_status status = check_tensor(x, i, &ours);
    if (!status)
        status = tlc_refuse_codec(x, i, "push", t->codec[TLC_PUSH]);
    if (!status)
        status = tlc_refuse_codec(x, i, "pull", t->codec[TLC_PULL]);
    if (status)
        return status;
    size_t *slot = tlc_setup_slot(x, t->name, strlen(t->name));
    if (*slot)
        return tlc_refuse(x, TLC_ERR_PARAM, i, "tensor %zu has this name, too", *slot - 1);
    *slot = i + 1;
    if (t->residual && !tlc_setup_feedback(x, i, TLC_PUSH))
        return tlc_refuse(x, TLC_ERR_PARAM, i, "a residual is given, but its codec \"%.63s\" keeps none",
                          t->codec[TLC_PUSH]);
    return TLC_OK;
}

/* The values of an owner's stretch of the split tensors. */
static size_t stretch_of(const tlc_setup *x, size_t split_n)
{
    uint64_t values = 0;

    for (size_t i = 0; i < x->count; i++)
        values = tlc_sum(values, x->tensors[i].n >= split_n ? x->tensors[i].n : 0);
    return values / x->owners < SIZE_MAX ? (size_t)(values / x->owners) + 1 : SIZE_MAX;
}

#define MOST_VALUES (SIZE_MAX / sizeof(float)) /* of a tensor */

/* What the plan must know of a tensor. Its pieces are as large as a stretch, at most. TLC_ERR_SIZE: there is no room
 * for that many floats, or for a frame of them. */
static tlc_status describe_tensor(const tlc_setup_tensor *t, size_t stretch, tlc_ownership_tensor *plan)
{
    tlc_status status = t->n <= MOST_VALUES ? TLC_OK : TLC_ERR_SIZE;

    *plan = (tlc_ownership_tensor){.n = t->n, .pusher = t->pusher, .small = {t->small[TLC_PUSH], t->small[TLC_PULL]}};
    for (int d = TLC_PUSH; !status && d <= TLC_PULL; d++) {
        uint64_t cost = 0;
        status = tlc_frame_cost(t->codec[d], t->n, stretch, &cost);
        plan->cost = tlc_sum(plan->cost, cost);
    }
    return status;
}

/* Tensors that were set to 0 in place of tlc_tensor_init: all are of worker 0 alone, so no other worker counts. */
static int are_zeroed(const tlc_setup *x)
{
    size_t i = 0;

    while (i < x->count && x->tensors[i].pusher == 1)
        i++;
    return x->cfg.workers > 1 && x->count && i == x->count;
}

static tlc_status take_tensors(tlc_setup *x, const tlc_tensor *theirs)
{
    tlc_ownership_tensor *plan = tlc_memory_take(&x->memory, x->count, sizeof *plan);
    tlc_status status = x->memory.status;
    size_t stride = 0;

    if (x->count && !status)
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): calls that refuse do not return TLC_OK */
        memcpy(&stride, theirs, sizeof stride);
    for (size_t i = 0; !status && i < x->count; i++)
        status = take_tensor(x, i, theirs, stride);
    if (!status && are_zeroed(x))
        status = tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL,
                            "only is 0 in all tensors, so worker 0 alone pushes; tlc_tensor_init sets TLC_NOBODY");
    const size_t split_n = x->cfg.split_n, stretch = stretch_of(x, split_n);
    for (size_t i = 0; !status && i < x->count; i++) {
        const tlc_setup_tensor *t = &x->tensors[i];
        status = describe_tensor(t, t->n < split_n ? t->n : stretch, &plan[i]);
        if (status == TLC_ERR_SIZE && t->n > MOST_VALUES)
            (void)tlc_refuse(x, status, i, "%zu values are too many; it has at most %zu", t->n, MOST_VALUES);
        else if (status == TLC_ERR_SIZE)
            (void)tlc_refuse(x, status, i, "%zu values are too many: their frame is larger than the address space",
                             t->n);
    }
    if (!status)
        tlc_ownership_plan(&x->ownership, plan, x->count, x->owners, split_n, &x->memory);
    return status ? status : x->memory.status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static tlc_status fill(tlc_setup *x, const tlc_tensor *tensors)
{
    tlc_memory *m = &x->memory;
    tlc_status status;

    x->tensors = tlc_memory_take(m, x->count, sizeof *x->tensors);
    for (x->names = 2; x->names <= SIZE_MAX / 4 && x->names / 2 < x->count;)
        x->names *= 2;
    x->by_name = tlc_memory_take(m, x->names, sizeof *x->by_name);
    x->loaded = tlc_memory_take(m, x->count, sizeof *x->loaded);
    if (m->status)
        return m->status;
    status = take_tensors(x, tensors);
    if (!status)
        x->fingerprint = tlc_setup_fingerprint(x);
    return status;
}

static uint32_t owners_of(const tlc_setup *x)
{
    if (x->kind == TLC_EXCHANGE_SERVERS)
        return x->cfg.servers;
    if (x->kind != TLC_EXCHANGE_ALLREDUCE)
        return 1;
    return x->cfg.owners && x->cfg.owners < x->cfg.workers ? x->cfg.owners : x->cfg.workers;
}

/* Takes over the caller's configuration. NULL: the defaults. */
static tlc_status import_config(tlc_setup *x, const tlc_exchange_config *theirs)
{
    tlc_exchange_config *c = &x->cfg;

    (void)tlc_exchange_config_init(c, sizeof *c);
    if (theirs && !tlc_import(c, sizeof *c, theirs))
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL,
                          "struct_size of the configuration is %zu; it is at least %zu, and what follows %zu bytes "
                          "is 0",
                          theirs->struct_size, sizeof c->struct_size, sizeof *c);
    if (!c->push)
        c->push = tlc_is_gossip(x->kind) ? TLC_GOSSIP_CODEC : TLC_EXCHANGE_CODEC;
    c->outcome = NULL; /* the caller's, which may be gone after create */
    if (x->kind == TLC_EXCHANGE_ALLREDUCE && c->gather)
        x->kind = TLC_EXCHANGE_GATHER;
    if (!c->pull && !tlc_is_gossip(x->kind))
        c->pull = x->kind == TLC_EXCHANGE_GATHER ? c->push : tlc_pull_codec(c->push);
    return TLC_OK;
}

tlc_status tlc_setup_create(void **object, size_t size, const tlc_exchange_config *cfg, tlc_exchange_kind kind,
                            tlc_role role, uint32_t rank, const tlc_tensor *tensors, size_t count, tlc_report *report)
{
    tlc_setup x = {.report = report, .kind = kind, .role = role, .rank = rank, .count = count};
    tlc_status status = import_config(&x, cfg);

    if (!status && !tensors && count)
        status = tlc_refuse(&x, TLC_ERR_PARAM, TLC_ALL, "tensors is NULL, but their count is %zu", count);
    if (!status)
        status = tlc_setup_check(&x);
    if (status)
        return status;
    x.k = tlc_kernels_for(x.cfg.isa);
    x.memory.alloc = tlc_allocator_of(&x.cfg.alloc);
    x.owners = owners_of(&x);
    void *made = tlc_memory_take(&x.memory, 1, size);
    if (made)
        status = fill(&x, tensors);
    else
        status = x.memory.status;
    if (status) {
        (void)tlc_setup_end(NULL, &x, status, report); /* while names are there */
        tlc_memory_free(&x.memory);
        return status;
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): calls that refuse do not return TLC_OK */
    *object = memcpy(made, &x, sizeof x);
    return TLC_OK;
}

tlc_status tlc_setup_end(const tlc_exchange_config *cfg, const tlc_setup *x, tlc_status status, tlc_report *report)
{
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): calls that refuse do not return TLC_OK */
    const size_t end = offsetof(tlc_exchange_config, outcome) + sizeof cfg->outcome;
    tlc_outcome ours = {.status = status, .cause = status, .rank = TLC_NOBODY, .tensor = TLC_ALL};
    const int advises = x && !status && x->kind == TLC_EXCHANGE_ALLREDUCE;
    const char *better = advises ? tlc_pull_instead(x->cfg.pull) : NULL;

    if (!status && !better)
        return TLC_OK;
    if (status && x && report->finding.reason == TLC_REASON_NONE)
        (void)tlc_refuse_status(x, TLC_ALL, status);
    if (!cfg || cfg->struct_size < end || !cfg->outcome || cfg->outcome->struct_size < sizeof ours.struct_size)
        return status;
    if (status) {
        ours.rank = report->finding.rank;
        ours.tensor = report->finding.tensor;
        tlc_report_sentence(report, NULL, ours.sentence, sizeof ours.sentence);
    } else {
        tlc_text w = tlc_text_in(ours.sentence, sizeof ours.sentence);
        tlc_text_format(&w,
                        "pull: \"%.60s\" sends too little of the means of an all-reduce, so the residuals of owners "
                        "grow and the model learns late; \"%s\" keeps up",
                        x->cfg.pull, better);
    }
    tlc_export(cfg->outcome, &ours, sizeof ours);
    return status;
}
