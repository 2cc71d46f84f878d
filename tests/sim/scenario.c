/* SPDX-License-Identifier: MIT */
#include "scenario.h"
#include "random.h"

const char *const family_names[FAMILIES] = {"all-reduce", "gathered", "servers", "backup", "gossip"};
const char *const fault_names[FAULTS] = {"delay", "repeat", "drop",   "alter", "cut",  "nonfinite",
                                         "huge",  "wrong",  "forged", "late",  "death"};

static const codec_case raw_codec = {.text = "raw", .decoding = "raw", .exact = 1, .lossless = 1};

const codec_case *scenario_codec(const scenario *sc, size_t tensor, int direction, int *small)
{
    const tensor_plan *t = &sc->tensor[tensor];

    *small = !t->own[direction] && t->n < sc->min_n;
    if (t->own[direction])
        return t->own[direction];
    return *small ? &raw_codec : sc->codec[direction] ? sc->codec[direction] : sc->codec[PUSH];
}

int scenario_feedback(const scenario *sc, size_t tensor, int direction)
{
    int small, any = scenario_codec(sc, tensor, direction, &small)->feedback;

    for (size_t i = 0; i < COUNT(sc->reserve); i++)
        any |= sc->reserve[i] && sc->reserve[i]->feedback;
    return any || small;
}

/* True for one of n draws. */
static int one_of(rng *r, size_t n)
{
    return rng_below(r, n) == 0;
}

/* Gossip takes codecs without bias and without error feedback. */
static int is_allowed(const scenario *sc, const codec_case *c)
{
    return sc->family != FAMILY_GOSSIP || (!c->feedback && (c->random || c->lossless));
}

static const codec_case *any_codec(const scenario *sc, rng *r)
{
    static const char *const common[] = {"3lc", "3lc:s=1.75", "sbc", "natural", "raw"};
    const codec_case *c;

    if (one_of(r, 3)) {
        const char *text = common[rng_below(r, COUNT(common))];
        for (size_t i = 0; i < codec_count; i++)
            if (!strcmp(codecs[i].text, text) && is_allowed(sc, &codecs[i]))
                return &codecs[i];
    }
    do
        c = &codecs[rng_below(r, codec_count)];
    while (!is_allowed(sc, c));
    return c;
}

static const codec_case *natural_codec(rng *r)
{
    const codec_case *c;

    do
        c = &codecs[rng_below(r, codec_count)];
    while (strncmp(c->text, "natural", 7) != 0);
    return c;
}

/* Half of them are 1 to 3, one in some hundred is large. */
static uint32_t draw_ranks(rng *r)
{
    size_t draw = rng_below(r, 1024);

    if (draw < 3)
        return (uint32_t)(17 + rng_below(r, MOST_RANKS - 16));
    if (draw < 40)
        return (uint32_t)(9 + rng_below(r, 8));
    return (uint32_t)(draw < 400 ? 4 + rng_below(r, 5) : 1 + rng_below(r, 3));
}

static size_t draw_n(rng *r, int large)
{
    static const size_t edges[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65};
    size_t draw = rng_below(r, 256);

    if (draw < 60)
        return edges[rng_below(r, COUNT(edges))];
    if (large && draw < 100)
        return rng_below(r, 4000);
    return draw < 230 ? rng_below(r, 40) : rng_below(r, 300);
}

static void draw_name(rng *r, tensor_plan *t, size_t i)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-";
    size_t len = one_of(r, 4) ? 1 + rng_below(r, sizeof t->name - 1) : 1 + rng_below(r, 6);

    for (size_t c = 0; c < len; c++)
        t->name[c] = letters[rng_below(r, sizeof letters - 1)];
    t->name[0] = (char)('A' + i); /* so that names differ */
    t->name[len] = 0;
}

/* Tensors of this many values are shared among tasks. They are slow: there is one, and few steps. */
static void enlarge(scenario *sc, rng *r)
{
    tensor_plan *t = &sc->tensor[0];

    if (!sc->count)
        return;
    sc->count = 1;
    sc->steps = 3;
    t->n = 33000 + rng_below(r, 50000);
    t->theirs &= scenario_feedback(sc, 0, PUSH);
    sc->values = GAP + t->n + GAP;
}

static void draw_tensors(scenario *sc, rng *r)
{
    int own = one_of(r, 3), theirs = !one_of(r, 8), with_only = one_of(r, 3), large = sc->workers <= 4 && one_of(r, 16);
    size_t shared = 0; /* tensors that all push */

    sc->count = one_of(r, 40) ? 0 : one_of(r, 2) ? 1 + rng_below(r, 2) : 1 + rng_below(r, MOST_TENSORS);
    if (sc->workers > 16 && sc->count > 3)
        sc->count = 3;
    sc->values = GAP;
    for (size_t i = 0; i < sc->count; i++) {
        tensor_plan *t = &sc->tensor[i];
        draw_name(r, t, i);
        t->n = draw_n(r, large);
        t->at = sc->values;
        sc->values += t->n + GAP;
        for (int d = PUSH; d <= PULL; d++)
            t->own[d] = own && one_of(r, 2) ? any_codec(sc, r) : NULL;
        t->only = with_only && one_of(r, 3) ? 1 + (uint32_t)rng_below(r, sc->workers) : 0;
        t->theirs = theirs && !one_of(r, 12) && scenario_feedback(sc, i, PUSH);
        t->values = one_of(r, 2) ? VALUES_SMOOTH : (value_kind)rng_below(r, VALUE_KINDS);
        t->scale = one_of(r, 3) ? (int)rng_below(r, 9) - 4 : 0;
        shared += !t->only;
    }
    if (sc->count && !shared)
        sc->tensor[0].only = 0; /* create refuses tensors that are all of worker 0 */
    if (sc->workers <= 3 && one_of(r, 400))
        enlarge(sc, r);
}

/* A seed has no faults, one kind of fault, some kinds, or all. */
static void draw_faults(scenario *sc, rng *r)
{
    size_t how = rng_below(r, 8);
    unsigned faults = 0; /* bit i: there is fault i */

    if (how < 4 && how > 0)
        faults = 1u << rng_below(r, FAULTS);
    else if (how >= 4) {
        faults = (unsigned)rng_next(r);
        faults = how == 7 ? ~0u : faults & (unsigned)rng_next(r);
    }
    for (int f = 0; f < FAULTS; f++)
        if (faults >> f & 1)
            sc->rate[f] = one_of(r, 3) ? 300 : 20 + (uint32_t)rng_below(r, 100);
    sc->rate[FAULT_NONFINITE] /= 4;
    sc->rate[FAULT_FORGED] /= 4;
    sc->rate[FAULT_HUGE] /= 2;
    if (one_of(r, 2)) /* all-reduce steps of many ranks would hardly ever succeed */
        sc->rate[FAULT_WRONG] /= 4;
    if (sc->workers > 8)
        for (int f = 0; f < FAULTS; f++)
            sc->rate[f] /= sc->workers / 4;
}

static void draw_settings(scenario *sc, rng *r)
{
    sc->keep = one_of(r, 2) ? 4 : 1 + (uint32_t)rng_below(r, 6);
    sc->sum = one_of(r, 4);
    sc->assume_finite = one_of(r, 8);
    sc->codec[PUSH] = any_codec(sc, r);
    sc->codec[PULL] = one_of(r, 3) ? NULL : any_codec(sc, r);
    if (one_of(r, 3))
        for (size_t i = 0; i < 1 + rng_below(r, 2); i++)
            sc->reserve[i] = any_codec(sc, r);
    if (sc->reserve[0])
        snprintf(sc->reserve_text, sizeof sc->reserve_text, "%s%s%s", sc->reserve[0]->text, sc->reserve[1] ? ";" : "",
                 sc->reserve[1] ? sc->reserve[1]->text : "");
    if (sc->family != FAMILY_GOSSIP && one_of(r, 20)) { /* IntML: sums of natural frames */
        sc->sum = 1;
        sc->codec[PUSH] = natural_codec(r);
        sc->codec[PULL] = one_of(r, 2) ? NULL : natural_codec(r);
        memset(sc->reserve, 0, sizeof sc->reserve);
        *sc->reserve_text = 0;
    }
    sc->min_n = one_of(r, 4) ? 256 : rng_below(r, 30);
    sc->split_n = one_of(r, 3) ? 65536 : 1 + rng_below(r, 100);
    sc->dtype = one_of(r, 2) ? TLC_F32 : dtypes[rng_below(r, 3)];
    sc->mixed_dtypes = one_of(r, 12);
    sc->steps = 3 + (uint32_t)rng_below(r, one_of(r, 5) ? MOST_STEPS - 2 : 5);
    if (sc->workers > 16)
        sc->steps = 3;
    sc->weighted = one_of(r, 3);
    sc->rate_round = one_of(r, 3) ? 30 + (uint32_t)rng_below(r, 500) : 0;
    sc->rate_boundary = one_of(r, 2) ? 0 : 100;
    sc->rate_mask = one_of(r, 4) ? 300 : 20;
    sc->checkpoint = 1 + (uint32_t)rng_below(r, 3);
}

/* Gossip has no answers, owners or means of gradients. */
static void draw_gossip(scenario *sc, rng *r)
{
    sc->kind = (tlc_gossip_kind)rng_below(r, 2);
    sc->graph = (int)rng_below(r, GRAPHS);
    sc->rate_hello = one_of(r, 3) ? 0 : 50 + (uint32_t)rng_below(r, 500);
    sc->codec[PULL] = NULL;
    sc->dtype = TLC_F32;
    sc->sum = sc->weighted = sc->mixed_dtypes = 0;
    sc->rate_round = 0;
    for (size_t i = 0; i < sc->count; i++) {
        sc->tensor[i].own[PULL] = NULL;
        sc->tensor[i].only = 0;
        sc->tensor[i].theirs = 0;
    }
}

void scenario_draw(scenario *sc, uint64_t seed)
{
    rng r = {mixed(seed)};

    *sc = (scenario){.seed = seed, .family = (family)rng_below(&r, FAMILIES), .workers = draw_ranks(&r)};
    if (sc->family == FAMILY_GOSSIP && sc->workers > MOST_NODES)
        sc->workers = MOST_NODES;
    draw_settings(sc, &r);
    if (has_servers(sc))
        sc->servers = one_of(&r, 2) ? 1 : 1 + (uint32_t)rng_below(&r, MOST_SERVERS);
    if (sc->family == FAMILY_SHARDED && one_of(&r, 3))
        sc->owners = 1 + (uint32_t)rng_below(&r, sc->workers);
    if (sc->family == FAMILY_BACKUP && sc->workers == 1)
        sc->workers = 2;
    if (sc->family == FAMILY_BACKUP)
        sc->backup = 1 + (uint32_t)rng_below(&r, sc->workers - 1);
    draw_tensors(sc, &r);
    draw_faults(sc, &r);
    if (sc->family == FAMILY_GOSSIP)
        draw_gossip(sc, &r);
    sc->optimizers = sc->family == FAMILY_SHARDED && one_of(&r, 2);
}

void scenario_print(const scenario *sc)
{
    printf("seed %llu: %s, %u workers, %u servers, %u owners%s, keep %u, backup %u%s%s, %u steps\n",
           (unsigned long long)sc->seed, family_names[sc->family], sc->workers, sc->servers, sc->owners,
           sc->optimizers ? " with optimizers" : "", sc->keep, sc->backup, sc->sum ? ", sum" : "",
           sc->assume_finite ? ", assume_finite" : "", sc->steps);
    if (sc->family == FAMILY_GOSSIP)
        printf("  %s, graph %d\n", sc->kind == TLC_GOSSIP_DCD ? "DCD" : "ECD", sc->graph);
    printf("  push %s, pull %s, reserve %s, min_n %zu, split_n %zu, %s%s%s\n", sc->codec[PUSH]->text,
           sc->codec[PULL] ? sc->codec[PULL]->text : "-", *sc->reserve_text ? sc->reserve_text : "-", sc->min_n,
           sc->split_n, dtype_name[sc->dtype], sc->mixed_dtypes ? " and others" : "", sc->weighted ? ", weighted" : "");
    for (size_t i = 0; i < sc->count; i++) {
        const tensor_plan *t = &sc->tensor[i];
        printf("  tensor %zu \"%s\": n %zu, push %s, pull %s, only %u%s\n", i, t->name, t->n,
               t->own[PUSH] ? t->own[PUSH]->text : "-", t->own[PULL] ? t->own[PULL]->text : "-", t->only,
               t->theirs ? ", residual of the caller" : "");
    }
    printf("  faults of 1024:");
    for (int f = 0; f < FAULTS; f++)
        if (sc->rate[f])
            printf(" %s %u", fault_names[f], sc->rate[f]);
    printf("\n");
}
