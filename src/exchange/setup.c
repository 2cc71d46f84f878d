/* SPDX-License-Identifier: MIT */
#include "setup.h"
#include "../codec/codec.h"
#include "../common/bytes.h"
#include "../common/structs.h"
#include "../context.h"
#include "cost.h"
#include <xxhash.h>

tlc_status tlc_exchange_config_init(tlc_exchange_config *cfg, size_t struct_size)
{
    tlc_exchange_config defaults =
        {.struct_size = struct_size, .workers = 1, .keep = 4, .push = "3lc", .min_n = 256, .split_n = 65536};

    if (!cfg || struct_size < sizeof cfg->struct_size)
        return TLC_ERR_PARAM;
    memset(cfg, 0, struct_size);
    memcpy(cfg, &defaults, struct_size < sizeof defaults ? struct_size : sizeof defaults);
    return TLC_OK;
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

static int is_bool(int value)
{
    return value == 0 || value == 1;
}

/* Are the fields as the kind needs them? */
static int suits(const tlc_exchange_config *c, tlc_exchange_kind kind)
{
    if (kind == TLC_EXCHANGE_SERVERS)
        return c->servers && !c->owners && !c->gather && c->backup < c->workers;
    if (tlc_is_gossip(kind))
        return !c->servers && !c->owners && !c->gather && !c->backup && !c->sum && !c->pull && c->dtype == TLC_F32;
    return !c->servers && !c->backup && !(c->gather && c->owners);
}

static tlc_status check_config(const tlc_exchange_config *c, tlc_exchange_kind kind, tlc_role role, uint32_t rank)
{
    uint32_t ranks = role == TLC_ROLE_SERVER ? c->servers : c->workers;

    if (!c->workers || c->workers > TLC_RANKS_MAX || c->servers > TLC_RANKS_MAX || rank >= ranks || !c->keep ||
        !is_bool(c->gather) || !is_bool(c->sum) || !is_bool(c->assume_finite) || !c->push || !c->split_n ||
        !suits(c, kind))
        return TLC_ERR_PARAM;
    if (!tlc_dtype_valid(c->dtype) || (int)c->isa < TLC_ISA_AUTO || c->isa > TLC_ISA_NEON ||
        !c->alloc.alloc != !c->alloc.free)
        return TLC_ERR_PARAM;
    return tlc_kernels_for(c->isa) ? TLC_OK : TLC_ERR_UNSUPPORTED;
}

enum { FEEDBACK = 1, BIAS = 2, NO_CODEC = 4 };

/* Does one of these codecs, with ';' between them, have error feedback by default, or a bias, or is it no codec? */
static int traits_of(const char *list)
{
    int traits = 0;

    for (const char *at = list && *list ? list : NULL; at && !(traits & NO_CODEC);) {
        size_t len = strcspn(at, ";");
        tlc_codec codec;
        if (tlc_codec_parse(&codec, at, len, NULL))
            traits = NO_CODEC;
        else
            traits |= (codec.quantizer->quantize->feedback ? FEEDBACK : 0) | (tlc_codec_unbiased(&codec) ? 0 : BIAS);
        at = at[len] ? at + len + 1 : NULL;
    }
    return traits;
}

int tlc_setup_feedback(const tlc_setup *x, size_t tensor, tlc_direction direction)
{
    const tlc_setup_tensor *t = &x->tensors[tensor];
    int traits = traits_of(t->codec[direction]) | traits_of(x->cfg.reserve);

    return !tlc_is_gossip(x->kind) && (t->small[direction] || (traits & FEEDBACK));
}

int tlc_setup_allows(const tlc_setup *x, const char *codecs)
{
    return !(traits_of(codecs) & (tlc_is_gossip(x->kind) ? FEEDBACK | BIAS | NO_CODEC : NO_CODEC));
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static size_t *name_slot(const tlc_setup *x, const char *name, size_t len)
{
    size_t at = (size_t)XXH3_64bits(name, len);

    for (;; at++) {
        size_t *slot = &x->by_name[at & (x->names - 1)];
        const char *found = *slot ? x->tensors[*slot - 1].name : NULL;
        if (!found || (strlen(found) == len && memcmp(found, name, len) == 0))
            return slot;
    }
}

size_t tlc_setup_find(const tlc_setup *x, const char *name, size_t len)
{
    return *name_slot(x, name, len) - 1; /* 0 - 1 is TLC_ALL */
}

/* The codec of a tensor in one direction. */
static void choose_codec(const tlc_setup *x, tlc_setup_tensor *t, tlc_direction direction, const char *own,
                         const char *common)
{
    t->small[direction] = !own && t->n < x->cfg.min_n;
    t->common[direction] = !own && !t->small[direction];
    t->codec[direction] = own ? own : t->small[direction] ? "raw" : common;
}

/* Takes tensor i of the caller. */
static tlc_status take_tensor(tlc_setup *x, size_t i, const tlc_tensor *theirs, size_t stride)
{
    tlc_setup_tensor *t = &x->tensors[i];
    tlc_tensor ours = {.name = NULL};

    if (!tlc_import_sized(&ours, sizeof ours, (const char *)theirs + i * stride, stride) || !ours.name || !*ours.name ||
        ours.only > x->cfg.workers || (uintptr_t)ours.residual % _Alignof(float) ||
        (tlc_is_gossip(x->kind) && (ours.pull || ours.only)))
        return TLC_ERR_PARAM;
    *t = (tlc_setup_tensor){.name = tlc_memory_copy(&x->memory, ours.name),
                            .residual = ours.residual,
                            .n = ours.n,
                            .only = ours.only};
    choose_codec(x, t, TLC_PUSH, ours.push, x->cfg.push);
    choose_codec(x, t, TLC_PULL, ours.pull, x->cfg.pull ? x->cfg.pull : x->cfg.push);
    if (x->memory.status)
        return x->memory.status;
    size_t *slot = name_slot(x, t->name, strlen(t->name));
    if (*slot)
        return TLC_ERR_PARAM;
    *slot = i + 1;
    if ((t->residual && !tlc_setup_feedback(x, i, TLC_PUSH)) || !tlc_setup_allows(x, t->codec[TLC_PUSH]))
        return TLC_ERR_PARAM;
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

/* What the plan must know of a tensor. Its pieces are as large as a stretch, at most. */
static tlc_status describe_tensor(const tlc_setup_tensor *t, size_t stretch, tlc_ownership_tensor *plan)
{
    tlc_status status = TLC_OK;

    *plan = (tlc_ownership_tensor){.n = t->n, .only = t->only, .small = {t->small[TLC_PUSH], t->small[TLC_PULL]}};
    for (int d = TLC_PUSH; !status && d <= TLC_PULL; d++) {
        uint64_t cost = 0;
        status = tlc_frame_cost(t->codec[d], t->n, stretch, &cost);
        plan->cost = tlc_sum(plan->cost, cost);
    }
    return status;
}

static tlc_status take_tensors(tlc_setup *x, const tlc_tensor *theirs)
{
    tlc_ownership_tensor *plan = tlc_memory_take(&x->memory, x->count, sizeof *plan);
    tlc_status status = x->memory.status;
    size_t stride = 0;

    if (x->count && !status)
        memcpy(&stride, theirs, sizeof stride);
    for (size_t i = 0; !status && i < x->count; i++)
        status = take_tensor(x, i, theirs, stride);
    const size_t split_n = x->cfg.split_n, stretch = stretch_of(x, split_n);
    for (size_t i = 0; !status && i < x->count; i++) {
        const tlc_setup_tensor *t = &x->tensors[i];
        status = describe_tensor(t, t->n < split_n ? t->n : stretch, &plan[i]);
    }
    if (!status)
        tlc_ownership_plan(&x->ownership, plan, x->count, x->owners, split_n, &x->memory);
    return status ? status : x->memory.status;
}

/* ---- hashes ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    return XXH3_64bits_withSeed(bytes, len, hash);
}

static uint64_t mix_number(uint64_t hash, uint64_t number)
{
    uint8_t bytes[8];

    tlc_store64(bytes, number);
    return mix(hash, bytes, sizeof bytes);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    return mix(mix_number(hash, strlen(text)), text, strlen(text));
}

/* All that must be equal on all machines. */
static uint64_t fingerprint(const tlc_setup *x)
{
    uint64_t split_n = x->cfg.split_n < UINT32_MAX ? x->cfg.split_n : UINT32_MAX; /* SIZE_MAX differs */
    const uint64_t numbers[] = {x->kind, x->cfg.workers, x->cfg.servers, x->owners, (uint64_t)x->cfg.sum,
                                split_n, x->count};
    uint64_t hash = TLC_MESSAGE_VERSION;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        hash = mix_number(hash, numbers[i]);
    for (size_t i = 0; i < x->count; i++) {
        const tlc_setup_tensor *t = &x->tensors[i];
        hash = mix_number(mix_number(mix_text(hash, t->name), t->n), t->only);
        for (int d = TLC_PUSH; d <= TLC_PULL; d++)
            hash = mix_number(mix_text(hash, t->codec[d]), (uint64_t)t->small[d]);
    }
    return hash;
}

uint64_t tlc_setup_seed(const tlc_setup *x, const tlc_ownership_part *part, tlc_direction direction)
{
    uint64_t hash = mix_number(mix_number(mix_number(x->cfg.seed, x->rank), direction), part->first);

    return mix_text(hash, x->tensors[part->tensor].name);
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
    x->seen = tlc_memory_take(m, x->count, sizeof *x->seen);
    if (m->status)
        return m->status;
    if (!tlc_setup_allows(x, x->cfg.push) || !tlc_setup_allows(x, x->cfg.pull) || !tlc_setup_allows(x, x->cfg.reserve))
        return TLC_ERR_PARAM;
    status = take_tensors(x, tensors);
    if (!status)
        x->fingerprint = fingerprint(x);
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

tlc_status tlc_setup_create(void **object, size_t size, const tlc_exchange_config *cfg, tlc_exchange_kind kind,
                            tlc_role role, uint32_t rank, const tlc_tensor *tensors, size_t count)
{
    tlc_setup x = {.kind = kind, .role = role, .rank = rank, .count = count};
    tlc_status status;

    (void)tlc_exchange_config_init(&x.cfg, sizeof x.cfg);
    if ((cfg && !tlc_import(&x.cfg, sizeof x.cfg, cfg)) || (!tensors && count))
        return TLC_ERR_PARAM;
    status = check_config(&x.cfg, kind, role, rank);
    if (status)
        return status;
    x.k = tlc_kernels_for(x.cfg.isa);
    x.memory.alloc = tlc_allocator_of(&x.cfg.alloc);
    if (kind == TLC_EXCHANGE_ALLREDUCE && x.cfg.gather)
        x.kind = TLC_EXCHANGE_GATHER;
    x.owners = owners_of(&x);
    void *made = tlc_memory_take(&x.memory, 1, size);
    if (!made)
        return x.memory.status;
    status = fill(&x, tensors);
    if (status) {
        tlc_memory_free(&x.memory);
        return status;
    }
    *object = memcpy(made, &x, sizeof x);
    return TLC_OK;
}

tlc_status tlc_setup_outcome(const tlc_setup *x, const tlc_report *r, tlc_outcome *outcome)
{
    tlc_outcome ours = {.status = r->status,
                        .cause = r->finding.cause,
                        .step = r->step,
                        .rank = r->finding.rank,
                        .tensor = r->finding.tensor,
                        .taken = r->has_taken ? r->taken : NULL,
                        .workers = x->cfg.workers,
                        .unknown = r->unknown,
                        .missing = r->missing};

    if (!outcome || outcome->struct_size < sizeof outcome->struct_size)
        return TLC_ERR_PARAM;
    const char *name = ours.tensor < x->count ? x->tensors[ours.tensor].name : NULL;
    tlc_report_sentence(r, name, ours.sentence, sizeof ours.sentence);
    tlc_export(outcome, &ours, sizeof ours);
    return TLC_OK;
}
