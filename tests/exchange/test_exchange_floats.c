/* SPDX-License-Identifier: MIT
 *
 * float_bytes of statistics: what `sent` is with the codec raw, without heads. So it can be compared with `sent`,
 * whatever the kind of exchange and the number of ranks.
 */
#include "../support/gossip_run.h"
#include <math.h>

enum { MOST_RANKS = 5, STEPS = 3, N = 4000 };

/* Two tensors that are cut among owners, and one that is not. */
static const tlc_tensor wide[TENSORS] = {
    {.struct_size = sizeof(tlc_tensor), .name = "a", .n = 20 * N, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "b", .n = N, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "c", .n = N, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "d", .n = 20 * N, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "e", .n = 300, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "f", .n = 1, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "g", .n = 0, .only = TLC_NOBODY},
};
enum { VALUES = 2 * 20 * N + 2 * N + 301 };

static tlc_exchange_config wide_config(fleet_kind kind, uint32_t ranks, const char *codec, tlc_dtype dtype)
{
    tlc_exchange_config cfg = fleet_config(kind, ranks, wide);

    cfg.min_n = 256;
    cfg.split_n = 2 * N;
    cfg.push = codec;
    cfg.dtype = dtype;
    return cfg;
}

/* What raw frames would be in a step, over all ranks: values times receivers that are others. */
static uint64_t expected(const tlc_exchange_config *cfg)
{
    const uint64_t size = dtype_size[cfg->dtype], ranks = cfg->workers;

    if (cfg->gather)
        return ranks * (ranks - 1) * VALUES * size;
    if (cfg->servers)
        return ranks * VALUES * (size + sizeof(float));
    /* whoever owns a part, all others push it, and get it back */
    return (ranks - 1) * VALUES * (size + sizeof(float));
}

static tlc_exchange_stats total_of(const fleet *f)
{
    tlc_exchange_stats sum = {.steps = 0};

    for (uint32_t i = 0; i < f->workers + f->cfg.servers; i++) {
        const tlc_exchange_stats s = member_stats(i < f->workers ? f->worker[i] : f->owner[i - f->workers]);
        sum.float_bytes += s.float_bytes;
        sum.sent += s.sent;
        /* each by itself, too */
        if (!strcmp(f->cfg.push, "raw"))
            require(s.sent >= s.float_bytes && s.sent <= s.float_bytes + s.float_bytes / 50 + 400 * s.steps * 8);
    }
    return sum;
}

static void play(const tlc_exchange_config *cfg)
{
    const int raw = !strcmp(cfg->push, "raw");
    tlc_exchange_stats sum;
    fleet f;

    fleet_open(&f, cfg, wide, 0);
    for (uint64_t step = 1; step <= STEPS; step++)
        fleet_step(&f, step);
    require_pulled(&f, TLC_OK);
    sum = total_of(&f);
    require(sum.float_bytes == STEPS * expected(cfg));
    if (raw)
        require((double)sum.sent <= 1.02 * (double)sum.float_bytes + 0.1);
    else if (sum.sent)
        require(sum.float_bytes > 5 * sum.sent);
    fleet_close(&f);
}

TEST(exchanges)
{
    static const char *const list[] = {"raw", "3lc"};

    for (uint32_t ranks = quick() ? 3 : 1; ranks <= (quick() ? 3 : MOST_RANKS); ranks++)
        for (size_t c = 0; c < COUNT(list); c++)
            FOR_EACH_KIND(kind)
                FOR_EACH_DTYPE(dtype) {
                    tlc_exchange_config cfg = wide_config(kind, ranks, list[c], dtype);
                    play(&cfg);
                    if (kind != SHARDED)
                        continue;
                    cfg.owners = (ranks + 1) / 2;
                    play(&cfg);
                }
}

/* Who sends no values in a step counts none: the gradient is not finite, or the rank is not in the round. */
TEST(without_values)
{
    FOR_EACH_KIND(kind) {
        const tlc_exchange_config cfg = wide_config(kind, 3, "raw", TLC_F32);
        const float nan = NAN;
        fleet f;
        fleet_open(&f, &cfg, wide, 0);
        fleet_gradients(&f, 1);
        for (uint32_t w = 0; w < 3; w++)
            memcpy(f.grad[w * TENSORS], &nan, sizeof nan);
        fleet_push(&f);
        fleet_reduce(&f);
        fleet_pull(&f);
        require_pulled(&f, TLC_ERR_STEP);
        require(total_of(&f).float_bytes == 0);
        fleet_gradients(&f, 2);
        f.absent[0] = f.absent[1] = f.absent[2] = 1;
        fleet_push(&f);
        for (uint32_t w = 0; w < 3; w++)
            require(member_stats(f.worker[w]).float_bytes == 0);
        fleet_close(&f);
    }
}

TEST(gossip)
{
    for (uint32_t ranks = 1; ranks <= MOST_RANKS; ranks++)
        FOR_EACH_GOSSIP(kind) {
            network net;
            uint64_t values = 0;
            network_ring(&net, kind, ranks, "raw", STEPS);
            for (size_t t = 0; t < NET_TENSORS; t++)
                values += net.tensors[t].n;
            for (uint32_t i = 0; i < ranks; i++) {
                tlc_exchange_stats s = {.struct_size = sizeof s};
                require_status(tlc_gossip_stats(net.node[i].g, &s), TLC_OK);
                require(s.float_bytes == STEPS * values * sizeof(float) * net.node[i].degree);
            }
            network_close(&net);
        }
}
