/* SPDX-License-Identifier: MIT
 *
 * P7: run of tlc_parallel is called in the caller's float mode, by every call that has tasks. Where run never returns,
 * the mode is the caller's all the same, the object can be destroyed, and a context goes on after tlc_reset.
 */
#include "../support/float_modes.h"
#include "../support/support.h"
#include <setjmp.h>
#include <threelc/delta.h>
#include <threelc/gossip.h>

enum { N = 100000, WEIGHTS = 3 * 65536 + 7, RANKS = 2, ROOM = 16 * N };

static jmp_buf outside;
static uint64_t want;          /* the mode that run should find */
static size_t came, leaves_at; /* calls of run, from 1 */

static void run(void *opaque, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    (void)opaque;
    require(mode_read() == want);
    if (++came == leaves_at) {
        task(arg, 0);
        longjmp(outside, 1);
    }
    while (count)
        task(arg, --count);
    require(mode_read() == want);
}

static const tlc_parallel parallel = {run, NULL};
static float grads[RANKS][N], values[N];
static uint16_t weights[4][WEIGHTS];
static uint8_t frame[ROOM], other[ROOM];

/* ---- calls that have tasks --------------------------------------------------------------------------------------- */

static tlc_ctx *ctx;
static tlc_allreduce *ranks[RANKS];
static tlc_gossip *nodes[RANKS];

static void end(void)
{
    tlc_destroy(ctx);
    ctx = NULL;
    for (int i = 0; i < RANKS; i++) {
        tlc_allreduce_destroy(ranks[i]);
        tlc_gossip_destroy(nodes[i]);
        ranks[i] = NULL;
        nodes[i] = NULL;
    }
}

static void begin(const char *codec)
{
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);

    cfg.feedback = 1;
    cfg.parallel = parallel;
    ctx = create(&cfg, N);
}

static void one_tensor(const char *codec)
{
    tlc_decode_options opt = {.struct_size = sizeof opt, .parallel = parallel}, anew = opt;
    tlc_message both[] = {{frame, 0}, {frame, 0}};
    const float factors[] = {1, 2};
    size_t len;

    anew.from_zero = 1;
    begin(codec);
    require_status(tlc_accumulate(ctx, grads[0]), TLC_OK);
    require_status(tlc_compress(ctx, grads[1], frame, sizeof frame, &len), TLC_OK);
    both[0].len = both[1].len = len;
    require_status(tlc_decompress(frame, len, TLC_F32, values, N, &opt), TLC_OK);
    require_status(tlc_decompress_add(frame, len, 1, values, N, &opt), TLC_OK);
    require_status(tlc_decompress_add(frame, len, 1, values, N, &anew), TLC_OK);
    require_status(tlc_decompress_add_many(both, factors, 2, values, N, NULL, &opt), TLC_OK);
    require_status(tlc_mask(frame, len, values, N, &opt), TLC_OK);
}

static void fused(void)
{
    one_tensor("3lc");
}

static void blocked(void)
{
    one_tensor("3lc:block=1024");
}

static void members(void)
{
    one_tensor("topk:p=0.1+golomb");
}

static void deltas(void)
{
    const void *chain[] = {frame, other};
    static const uint64_t at_ends[] = {0, WEIGHTS - 1};
    static const uint16_t before[] = {1, 2}, after[] = {3, 4};
    size_t lens[2], len;
    tlc_delta_options opt;
    uint64_t digest;

    require_status(tlc_delta_options_init(&opt, sizeof opt), TLC_OK);
    opt.parallel = parallel;
    require_status(tlc_delta_digest(TLC_BF16, weights[0], WEIGHTS, &digest, &opt), TLC_OK);
    for (size_t i = 0; i < 2; i++)
        require_status(tlc_delta_compress(TLC_BF16, weights[i], weights[i + 1], WEIGHTS, i ? other : frame, ROOM,
                                          &lens[i], &opt),
                       TLC_OK);
    require_status(tlc_delta_fold(chain, lens, 2, frame + lens[0], ROOM - lens[0], &len, &opt), TLC_OK);
    memcpy(weights[3], weights[0], sizeof weights[3]);
    require_status(tlc_delta_check(frame, lens[0], TLC_BF16, weights[0], WEIGHTS, &opt), TLC_OK);
    require_status(tlc_delta_apply(frame, lens[0], TLC_BF16, weights[3], WEIGHTS, &opt), TLC_OK);
    require_status(tlc_delta_from_changes(TLC_BF16, at_ends, before, after, 2, WEIGHTS, NULL, frame, ROOM, &len, &opt),
                   TLC_OK);
    opt.block_digests = 1;
    require_status(tlc_delta_compress(TLC_BF16, weights[0], weights[1], WEIGHTS, frame, ROOM, &len, &opt), TLC_OK);
    memcpy(weights[3], weights[0], sizeof weights[3]);
    require_status(tlc_delta_repair(frame, len, TLC_BF16, weights[3], WEIGHTS, NULL, &opt), TLC_OK);
}

static void tensor_of(tlc_exchange_config *cfg, tlc_tensor *tensor)
{
    require_status(tlc_exchange_config_init(cfg, sizeof *cfg), TLC_OK);
    require_status(tlc_tensor_init(tensor, sizeof *tensor), TLC_OK);
    cfg->workers = RANKS;
    cfg->parallel = parallel;
    tensor->name = "weights";
    tensor->n = N;
}

/* A step, and one that fails in the end, so that frames go back. */
static void exchange(const char *codec, int gather)
{
    tlc_message to[RANKS][RANKS], from[RANKS][RANKS], answer[RANKS];
    tlc_exchange_config cfg;
    tlc_tensor tensor;

    tensor_of(&cfg, &tensor);
    cfg.push = cfg.pull = codec;
    cfg.gather = gather;
    for (uint32_t i = 0; i < RANKS; i++)
        require_status(tlc_allreduce_create(&ranks[i], &cfg, i, &tensor, 1), TLC_OK);
    for (int step = 1; step <= 2; step++) {
        for (uint32_t i = 0; i < RANKS; i++)
            require_status(tlc_allreduce_push(ranks[i], (const void *[]){grads[i]}, 1, to[i]), TLC_OK);
        for (uint32_t i = 0; i < RANKS * RANKS; i++)
            from[i / RANKS][i % RANKS] = to[i % RANKS][i / RANKS];
        for (uint32_t i = 0; !gather && i < RANKS; i++)
            require_status(tlc_allreduce_reduce(ranks[i], from[i], &answer[i]), TLC_OK);
        for (uint32_t i = 0; i < RANKS; i++)
            require_status(step == 2 ? tlc_allreduce_cancel(ranks[i])
                                     : tlc_allreduce_pull(ranks[i], gather ? from[i] : answer, (void *[]){values}),
                           TLC_OK);
    }
}

static void all_reduce(void)
{
    exchange("3lc", 0);
}

static void gather(void)
{
    exchange("raw", 1);
}

static void gossip(tlc_gossip_kind kind)
{
    static const double halves[] = {0.5, 0.5};
    tlc_message hello[RANKS], push[RANKS];
    tlc_exchange_config cfg;
    tlc_tensor tensor;

    tensor_of(&cfg, &tensor);
    cfg.servers = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        require_status(tlc_gossip_create(&nodes[i], &cfg, kind, i, (uint32_t[]){!i}, halves, 1, &tensor, 1,
                                         (const float *[]){grads[0]}),
                       TLC_OK);
    for (uint32_t i = 0; i < RANKS; i++)
        require_status(tlc_gossip_hello(nodes[i], 1, &hello[i]), TLC_OK);
    for (uint32_t i = 0; i < RANKS; i++)
        require_status(tlc_gossip_greet(nodes[i], &hello[!i]), TLC_OK);
    for (uint32_t i = 0; i < RANKS; i++)
        require_status(tlc_gossip_push(nodes[i], (const float *[]){grads[1]}, &push[i]), TLC_OK);
    for (uint32_t i = 0; i < RANKS; i++)
        require_status(tlc_gossip_pull(nodes[i], &push[!i]), TLC_OK);
}

static void dcd(void)
{
    gossip(TLC_GOSSIP_DCD);
}

static void ecd(void)
{
    gossip(TLC_GOSSIP_ECD);
}

static void (*const all[])(void) = {fused, blocked, members, deltas, all_reduce, gather, dcd, ecd};

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void fill_all(void)
{
    for (int i = 0; i < RANKS; i++)
        fill(DATA_LAPLACE, (uint64_t)i + 1, grads[i], N);
    for (size_t i = 0; i < WEIGHTS; i++) {
        weights[0][i] = (uint16_t)(0x3f00 + i % 113);
        weights[1][i] = (uint16_t)(weights[0][i] + (i % 7 == 0));
        weights[2][i] = (uint16_t)(weights[1][i] + (i % 5 == 0));
    }
}

/* Calls one of `all` in a mode; run number `leaves` never returns. Returns whether it came that far. */
static int call(float_mode mode, size_t which, size_t leaves)
{
    static int left; /* static: kept by longjmp */

    (void)mode_enter(mode);
    want = mode_read();
    came = 0;
    left = 0;
    leaves_at = leaves;
    if (setjmp(outside))
        left = 1;
    else
        all[which]();
    require(mode_read() == want);
    mode_leave();
    return left;
}

TEST(p7_run_is_called_in_the_callers_mode)
{
    fill_all();
    for (float_mode mode = MODE_DOWNWARD; mode <= MODE_FLUSH; mode++)
        for (size_t i = 0; has_mode(mode) && i < COUNT(all); i++) {
            require(!call(mode, i, 0));
            require(came >= 2);
            end();
        }
}

TEST(p7_a_run_that_never_returns_leaves_the_callers_mode)
{
    const float_mode mode = has_mode(MODE_FLUSH) ? MODE_FLUSH : MODE_DOWNWARD;

    fill_all();
    for (size_t i = 0; i < COUNT(all); i++) {
        size_t leaves = 1;
        for (; call(mode, i, leaves); leaves++)
            end();
        require(leaves == came + 1);
        end();
    }
}

TEST(p7_a_context_goes_on_after_a_reset)
{
    tlc_ctx *fresh;
    tlc_config cfg = config("3lc:block=1024", TLC_F32, TLC_ISA_AUTO);
    size_t len, other_len;

    fill_all();
    fresh = create(&cfg, N);
    want = mode_read();
    for (size_t leaves = 1; leaves <= 2; leaves++) {
        begin("3lc:block=1024");
        came = 0;
        leaves_at = leaves;
        if (!setjmp(outside)) {
            (void)tlc_compress(ctx, grads[0], frame, sizeof frame, &len);
            require(0);
        }
        tlc_reset(ctx);
        tlc_reset(fresh);
        for (int step = 0; step < 2; step++) {
            require_status(tlc_compress(ctx, grads[step], frame, sizeof frame, &len), TLC_OK);
            require_status(tlc_compress(fresh, grads[step], other, sizeof other, &other_len), TLC_OK);
            require(len == other_len && memcmp(frame, other, len) == 0);
        }
        require(same(tlc_residual(ctx), tlc_residual(fresh), sizeof(float) * N));
        end();
    }
    tlc_destroy(fresh);
}
