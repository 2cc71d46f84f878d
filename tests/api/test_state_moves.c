/* SPDX-License-Identifier: MIT
 *
 * A state moves in the middle of a run, from any ISA and tlc_parallel to any other. The run continues with the same
 * bits. A state that does not fit a context is refused, and does not change its later frames. (Between machines and
 * processes: scripts/state-exchange.sh.)
 */
#include "../support/support.h"
#include <xxhash.h>

/* A run and all its results. */
typedef struct log_bytes {
    uint8_t *bytes;
    size_t len;
} log_bytes;

static size_t run(tlc_ctx *ctx, tlc_dtype dtype, size_t n, uint64_t from, uint64_t to, uint8_t *log)
{
    uint8_t *grad = bytes(4 * n);
    size_t len = 0;

    for (uint64_t step = from; step < to; step++) {
        fill_grad(step % 2 ? DATA_SPARSE : DATA_LAPLACE, step, dtype, grad, n);
        len += compress(ctx, grad, log + len);
    }
    free(grad);
    return len;
}

/* Steps from..to, then the state. */
static log_bytes logged(tlc_ctx *ctx, tlc_dtype dtype, size_t n, uint64_t from, uint64_t to)
{
    log_bytes l = {bytes((size_t)(to - from) * tlc_bound(ctx) + tlc_state_size(ctx)), 0};
    size_t written = 0;

    l.len = run(ctx, dtype, n, from, to, l.bytes);
    require_status(tlc_state_save(ctx, l.bytes + l.len, tlc_state_size(ctx), &written), TLC_OK);
    l.len += written;
    return l;
}

static void require_same_log(log_bytes a, log_bytes b)
{
    require(a.len == b.len && same(a.bytes, b.bytes, a.len));
    free(a.bytes);
    free(b.bytes);
}

/* ---- from one way of working to another -------------------------------------------------------------------------- */

typedef struct way {
    tlc_isa isa;
    const runner *runner;
} way;

static tlc_ctx *start(const codec_case *c, tlc_dtype dtype, int feedback, const way *w, size_t n)
{
    tlc_config cfg = config(c->text, dtype, w->isa);

    cfg.feedback = feedback;
    cfg.parallel = w->runner->parallel;
    cfg.seed = (uint64_t)w->isa * 16 + (uint64_t)(w->runner - runners); /* the state has the seed */
    return create(&cfg, n);
}

static void move(const codec_case *c, tlc_dtype dtype, int feedback, const way *from, const way *to, size_t n)
{
    at = (place){.codec = c->text, .dtype = dtype, .isa = to->isa, .n = n, .note = to->runner->name};
    tlc_ctx *one = start(c, dtype, feedback, from, n), *two = start(c, dtype, feedback, to, n);
    free(logged(one, dtype, n, 0, 2).bytes);
    free(logged(two, dtype, n, 5, 6).bytes); /* earlier steps must not matter after loading */
    snapshot s = snap(one);
    require_status(tlc_state_load(two, s.state, s.size), TLC_OK);
    require_same_state(two, &s);
    require_same_log(logged(one, dtype, n, 2, 4), logged(two, dtype, n, 2, 4));
    snap_free(&s);
    tlc_destroy(one);
    tlc_destroy(two);
}

TEST(to_another_isa)
{
    size_t turn = 0;

    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(a)
            FOR_EACH_ISA(b)
                for (int feedback = 0; feedback < 2; feedback++, turn++) {
                    way from = {a, &runners[0]}, to = {b, &runners[0]};
                    move(c, dtypes[turn % 3], feedback, &from, &to, 733);
                }
}

TEST(to_another_parallel)
{
    const size_t n = (size_t)16384 * 8 * 2 + 13, pairs = runner_count * runner_count;
    size_t turn = 0;

    FOR_EACH_CODEC(c)
        for (size_t pair = 0; pair < pairs; pair++) {
            way from = {TLC_ISA_AUTO, &runners[pair / runner_count]},
                to = {TLC_ISA_AUTO, &runners[pair % runner_count]};
            if (from.runner == to.runner || turn++ % (quick() ? 23 : 5))
                continue;
            most_tasks = 0;
            move(c, dtypes[turn % 3], (int)turn / 3 % 2, &from, &to, n);
            require(most_tasks > 1);
        }
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

enum { N = 150 };

static void seal(uint8_t *state, size_t size)
{
    uint32_t sum = (uint32_t)XXH3_64bits(state, size - 4);

    for (size_t i = 0; i < 4; i++)
        state[size - 4 + i] = (uint8_t)(sum >> 8 * i);
}

static void refuse(tlc_ctx *ctx, const snapshot *s, tlc_status want)
{
    snapshot before = snap(ctx);

    require_status(tlc_state_load(ctx, s->state, s->size), want);
    require_same_state(ctx, &before);
    snap_free(&before);
}

/* Tries the state of a context that differs in one thing. */
static void refuse_other(tlc_ctx *ctx, const char *codec, tlc_dtype dtype, int feedback, size_t n, tlc_status want)
{
    tlc_config cfg = config(codec, dtype, TLC_ISA_AUTO);

    cfg.feedback = feedback;
    tlc_ctx *other = create(&cfg, n);
    free(logged(other, dtype, n, 0, 2).bytes);
    snapshot s = snap(other);
    refuse(ctx, &s, want);
    snap_free(&s);
    tlc_destroy(other);
}

static void refuse_altered(tlc_ctx *ctx)
{
    snapshot s = snap(ctx);

    for (int version = 0; version < 256; version++)
        if (version != 1) {
            s.state[4] = (uint8_t)version;
            seal(s.state, s.size);
            refuse(ctx, &s, TLC_ERR_VERSION);
        }
    s.state[4] = 1;
    seal(s.state, s.size);
    for (at.i = 0; at.i < 8 * s.size; at.i += quick() ? 7 : 1) {
        s.state[at.i / 8] ^= (uint8_t)(1u << at.i % 8);
        refuse(ctx, &s, at.i < 32 ? TLC_ERR_CORRUPT : at.i < 40 ? TLC_ERR_VERSION : TLC_ERR_CHECKSUM);
        s.state[at.i / 8] ^= (uint8_t)(1u << at.i % 8);
    }
    snap_free(&s);
}

/* A second context gets none of these states. Afterwards both make the same frames. */
TEST(refused_without_a_trace)
{
    size_t turn = 0;

    FOR_EACH_CODEC(c)
        for (int feedback = 0; feedback < 2; feedback++, turn++) {
            const tlc_dtype dtype = dtypes[turn % 3], another = dtypes[(turn + 1) % 3];
            const way w = {TLC_ISA_AUTO, &runners[0]};
            tlc_ctx *ctx = start(c, dtype, feedback, &w, N), *twin = start(c, dtype, feedback, &w, N);
            at = (place){.codec = c->text, .dtype = dtype, .n = N};
            require_same_log(logged(ctx, dtype, N, 0, 3), logged(twin, dtype, N, 0, 3));
            refuse_other(ctx, c->text, dtype, feedback, N + 1, TLC_ERR_SIZE);
            refuse_other(ctx, c->text, dtype, feedback, N - 1, TLC_ERR_SIZE);
            refuse_other(ctx, c->text, dtype, feedback, 0, TLC_ERR_SIZE);
            refuse_other(ctx, c->text, another, feedback, N, TLC_ERR_PARAM);
            refuse_other(ctx, c->text, dtype, !feedback, N, TLC_ERR_PARAM);
            refuse_other(ctx, "raw:block=1", dtype, feedback, N, TLC_ERR_CAPACITY); /* larger than any other */
            refuse_altered(ctx);
            require_same_log(logged(ctx, dtype, N, 3, 6), logged(twin, dtype, N, 3, 6));
            tlc_destroy(ctx);
            tlc_destroy(twin);
        }
}

SETUP(print_isas)
