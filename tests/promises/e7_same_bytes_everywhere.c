/* SPDX-License-Identifier: MIT
 *
 * E7: messages, results and states are the same bytes for any order in which pushes arrive, any tlc_parallel, any ISA
 * and any float mode of the caller. A digest of all of them is the same on every machine.
 */
#include "../support/exchange_run.h"
#include "../support/float_modes.h"
#include <inttypes.h>
#include <xxhash.h>

enum { WORKERS = 3, STEPS = 5 };

/* Of fixed runs with all codecs, by kind. The test prints them. They change with the lines CODEC of codecs.def, and
 * with the plan of who owns what. */
static const uint64_t digests[KIND_COUNT] = {0x6e401a859a59aca0, 0xd1e1cb4af8c2582a, 0x20ccb67386e72f96,
                                             0x118a6f2e93d90036};
static const uint64_t digest_of_deltas = 0xda56cbbec04b8e3a; /* of SHARDED */

/* How a run is made. The results may not depend on it. */
typedef struct way {
    tlc_isa isa;
    const runner *runner;
    float_mode mode;
    int order; /* in which pushes reach servers: rising, falling, another one in each step */
} way;

static const way plain = {TLC_ISA_SCALAR, &runners[0], MODE_DEFAULT, 0};

/* What a run is about. */
typedef struct input {
    fleet_kind kind;
    const tlc_tensor *tensors;
    const char *push, *pull;
    tlc_dtype dtype;
    int sum;
    uint32_t workers;
    uint64_t steps;
    int means; /* owners answer with means, not with deltas */
} input;

/* ---- digests ----------------------------------------------------------------------------------------------------- */

static void fold(uint64_t *digest, tlc_message m)
{
    *digest = XXH3_64bits_withSeed(m.data, m.len, *digest);
}

/* Values as they would be on a little-endian machine. */
static void fold_values(uint64_t *digest, const fleet *f, uint32_t w, size_t t)
{
    size_t n = f->tensors[t].n;
    uint8_t *p = bytes(4 * n);

    for (size_t i = 0; i < 4 * n; i++)
        p[i] = (uint8_t)(widened(f->cfg.dtype, f->out[w * TENSORS + t], i / 4) >> i % 4 * 8);
    fold(digest, (tlc_message){p, 4 * n});
    free(p);
}

static void fold_step(uint64_t *digest, const fleet *f)
{
    for (size_t i = 0; i < (size_t)f->workers * f->lanes; i++)
        fold(digest, f->push[i]);
    for (uint32_t o = 0; o < f->owners; o++)
        fold(digest, f->answer[o]);
    for (size_t i = 0; i < (size_t)f->workers * TENSORS; i++)
        fold_values(digest, f, (uint32_t)(i / TENSORS), i % TENSORS);
}

static void fold_state(uint64_t *digest, member m)
{
    tlc_message state = member_save(m);

    fold(digest, state);
    blob_free(&state);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static float_mode mode_now;

static void in_mode(fleet *f, int before)
{
    (void)f;
    require(mode_around(mode_now, before));
}

static void order_pushes(fleet *f, int order, uint64_t step)
{
    for (uint32_t i = 0; i < f->workers; i++)
        f->order[i] = order == 0 ? i : order == 1 ? f->workers - 1 - i : (i + (uint32_t)step) % f->workers;
}

/* A NaN in any dtype, on any machine. */
static void spoil(fleet *f, uint32_t w, size_t t)
{
    const uint16_t half = 0x7fc0, both[2] = {half, half};

    memcpy(f->grad[w * TENSORS + t], both, dtype_size[f->cfg.dtype]);
}

/* Residuals are scaled, and a run with a worker less takes over the states. */
static void between(uint64_t *digest, fleet *f)
{
    tlc_exchange_config cfg = f->cfg;
    tlc_message states[WORKERS];
    member heir = {.rank = NULL};
    tlc_status status;

    FLEET_CALL(f, status = MEMBER(f->worker[0], residual_scale, 0.7f));
    require_status(status, TLC_OK);
    for (uint32_t w = 0; w < f->workers; w++)
        states[w] = member_save(f->worker[w]);
    cfg.workers--;
    require_status(fleet_make(f, &cfg, 0, 0, &heir), TLC_OK);
    FLEET_CALL(f, status = MEMBER(heir, state_load, states, f->workers));
    require_status(status, TLC_OK);
    fold_state(digest, heir);
    member_destroy(heir);
    for (uint32_t w = 0; w < f->workers; w++)
        blob_free(&states[w]);
}

/* Weights, ranks that are not in the round, a step that fails, residuals that are scaled. */
static uint64_t run(const input *in, const way *how)
{
    tlc_exchange_config cfg = fleet_config(in->kind, in->workers, in->tensors);
    uint64_t digest = 0;
    fleet f;

    at.codec = in->push;
    at.dtype = in->dtype;
    at.isa = how->isa;
    at.n = (size_t)how->mode;
    cfg.push = in->push;
    cfg.pull = in->pull;
    cfg.dtype = in->dtype;
    cfg.sum = in->sum;
    cfg.seed = 7;
    cfg.isa = how->isa;
    cfg.parallel = how->runner->parallel;
    fleet_open(&f, &cfg, in->tensors, 0);
    f.around = in_mode;
    f.delta = in->means ? NULL : fleet_half;
    mode_now = how->mode;
    for (uint64_t step = 1; step <= in->steps; step++) {
        at.i = (size_t)step;
        order_pushes(&f, how->order, step);
        fleet_gradients(&f, step);
        for (uint32_t w = 0; w < f.workers; w++) {
            f.weight[w] = step == 2 ? 0.7 * (w + 1) : 1;
            f.absent[w] = step == 4 && w == 1;
        }
        if (step == 3)
            spoil(&f, 0, 3);
        fleet_push(&f);
        fleet_reduce(&f);
        fleet_pull(&f);
        fold_step(&digest, &f);
        if (step == 4)
            between(&digest, &f);
    }
    for (uint32_t w = 0; w < f.workers; w++)
        fold_state(&digest, f.worker[w]);
    for (uint32_t i = 0; i < cfg.servers; i++)
        fold_state(&digest, f.owner[i]);
    fleet_close(&f);
    return digest;
}

static input input_of(fleet_kind kind, size_t c)
{
    return (input){kind,    large_tensors, codecs[c].text, codecs[c].text, dtypes[c % 3], (int)(c / 3 % 2),
                   WORKERS, STEPS,         kind == SHARDED};
}

/* ---- any machine ------------------------------------------------------------------------------------------------- */

static int is_digest(fleet_kind kind, int deltas, uint64_t want)
{
    uint64_t digest = 0;

    for (size_t c = 0; c < codec_count; c++) {
        input in = input_of(kind, c);
        in.means &= !deltas;
        digest = digest * UINT64_C(0x9e3779b97f4a7c15) ^ run(&in, &plain);
    }
    print_message("# %s%s: 0x%016" PRIx64 "\n", kind_name[kind], deltas ? " with deltas" : "", digest);
    return digest == want;
}

TEST(e7_digests)
{
    int right = is_digest(SHARDED, 1, digest_of_deltas);
    FOR_EACH_KIND(kind)
        right &= is_digest(kind, 0, digests[kind]);
    require(right);
}

/* ---- any way ----------------------------------------------------------------------------------------------------- */

TEST(e7_ways)
{
    size_t turn = 0, step = quick() ? 9 : 1;

    for (size_t c = 0; c < codec_count; c += step)
        FOR_EACH_KIND(kind) {
            input in = input_of(kind, c);
            in.means &= (int)(c / step % 2);
            uint64_t want = run(&in, &plain);
            FOR_EACH_ISA(isa) {
                way how = {isa, &runners[0], (float_mode)(turn % MODE_COUNT), (int)(turn % 3)};
                turn++;
                require(!has_mode(how.mode) || run(&in, &how) == want);
            }
        }
}

/* All modes, with weights that are rounded. */
TEST(e7_float_modes)
{
    static const char *const texts[] = {"3lc", "raw", "natural", "topk:p=0.1,bits=2+golomb"};

    for (size_t c = 0; c < COUNT(texts); c++)
        FOR_EACH_KIND(kind) {
            const input in = {kind, small_tensors, texts[c], texts[c], TLC_F32, 0, WORKERS, STEPS, 0};
            uint64_t want = run(&in, &plain);
            for (float_mode mode = MODE_UPWARD; mode < MODE_COUNT; mode++) {
                const way how = {TLC_ISA_AUTO, &runners[0], mode, 0};
                require(!has_mode(mode) || run(&in, &how) == want);
            }
        }
}

/* Tensors that are so large that tasks share them. */
TEST(e7_tasks)
{
    static const char *const texts[] = {"3lc", "sbc", "natural", "qsgd", "raw", "3lc-golomb", "onebit", "topk"};
    tlc_tensor tensors[TENSORS];

    memcpy(tensors, large_tensors, sizeof tensors);
    tensors[3].n = 300000; /* two ranges of the codec that needs most, with two owners */
    for (size_t c = 0; c < COUNT(texts); c += quick() ? COUNT(texts) : 1)
        FOR_EACH_KIND(kind) {
            const input in = {kind, tensors, texts[c], texts[c], dtypes[c % 3], 0, 2, 1, 0};
            if (c && (size_t)kind != c % KIND_COUNT)
                continue;
            uint64_t want = run(&in, &plain);
            for (size_t r = 1; r < runner_count; r++) {
                const way how = {TLC_ISA_AUTO, &runners[r], MODE_DEFAULT, 0};
                most_tasks = 0;
                require(run(&in, &how) == want);
                require(most_tasks > 1);
            }
        }
}

/* No tensor is split, whatever the largest size_t is on a machine. */
TEST(e7_unsplit)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, WORKERS, small_tensors);
        fleet narrow, wide;
        cfg.split_n = UINT32_MAX;
        fleet_open(&narrow, &cfg, small_tensors, 0);
        cfg.split_n = SIZE_MAX;
        fleet_open(&wide, &cfg, small_tensors, 0);
        fleet_step(&narrow, 1);
        fleet_step(&wide, 1);
        for (size_t i = 0; i < (size_t)narrow.workers * narrow.lanes; i++)
            require(blob_same(narrow.push[i], wide.push[i]));
        for (uint32_t o = 0; o < narrow.owners; o++)
            require(blob_same(narrow.answer[o], wide.answer[o]));
        fleet_close(&narrow);
        fleet_close(&wide);
    }
}

SETUP(print_isas)
