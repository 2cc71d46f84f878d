/* SPDX-License-Identifier: MIT
 *
 * P7 where pieces of the work meet: zero-runs across the ranges of tlc_parallel, masks with enough words for several
 * ranges, and outputs so large that they are stored past the caches.
 */
#include "../support/support.h"

enum { RANGE = 16384, RANGES = 4, LENGTH = RANGE * RANGES }; /* in quartic bytes */

/* A gradient for chosen quartic bytes: the first of the five partitions decides, with 1 or 0. Runs of zeros begin or
 * end at the border of a range, lie across it or fill a range. Every other case has runs everywhere, for the decoder:
 * its ranges are ranges of the frame's bytes. */
static void runs_at_borders(rng *r, float *g, int scatter)
{
    for (size_t i = 0; i < LENGTH; i++)
        g[i] = 1.0f;
    for (size_t k = 1; k < RANGES; k++) {
        size_t first = RANGE * k - (rng_below(r, 3) ? 0 : rng_below(r, 31)), len = rng_below(r, 61);
        if (!scatter && rng_below(r, 8) == 0)
            len = RANGE + rng_below(r, 31);
        for (size_t i = first; i < first + len && i < LENGTH; i++)
            g[i] = 0.0f;
    }
    for (size_t i = 0; scatter && i < LENGTH; i += rng_below(r, 400))
        for (size_t len = rng_below(r, 40); len && i < LENGTH; len--)
            g[i++] = 0.0f;
}

TEST(p7_runs_at_borders)
{
    size_t n = 5 * LENGTH, cases = quick() ? 8 : 60;
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    float *g = floats(n), *out = floats(n);
    uint8_t *want, *got;
    rng r = {4};

    cfg.feedback = 0;
    tlc_ctx *alone = create(&cfg, n);
    cfg.parallel = runners[1].parallel;
    tlc_ctx *shared = create(&cfg, n);
    want = bytes(tlc_bound(alone));
    got = bytes(tlc_bound(alone));
    memset(g, 0, 4 * n);
    at = (place){.codec = "3lc", .n = n, .note = "runs at borders"};
    for (at.i = 0; at.i < cases; at.i++) {
        const tlc_decode_options opt = {.struct_size = sizeof opt,
                                        .parallel = runners[1 + at.i % (runner_count - 1)].parallel};
        runs_at_borders(&r, g, at.i % 2);
        size_t len = compress(alone, g, want), len_shared = compress(shared, g, got);
        require(len == len_shared && same(want, got, len));
        most_tasks = 0;
        require_status(tlc_decompress(want, len, TLC_F32, out, n, &opt), TLC_OK);
        require(most_tasks >= 2 || at.i % 2 == 0); /* in the other cases whole ranges may be zero */
        require(same(out, g, 4 * n));
    }
    tlc_destroy(alone);
    tlc_destroy(shared);
    free(g);
    free(out);
    free(want);
    free(got);
}

/* Tasks share masks by their words of 64 values. */
TEST(p7_ranges_of_masks)
{
    size_t n = (size_t)64 * RANGE * 2 + 77, words = 0;
    float *g = floats(n);

    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        if (c->together != 64 || block_of(c->text) || (quick() && words++))
            continue;
        at = (place){.codec = c->text, .n = n};
        fill(c->symbols && !c->any_sign ? DATA_LAPLACE : DATA_TIES, 3, g, n);
        cfg.feedback = 1;
        tlc_ctx *alone = create(&cfg, n);
        cfg.parallel = runners[runner_count - 1].parallel;
        tlc_ctx *shared = create(&cfg, n);
        uint8_t *want = bytes(tlc_bound(alone)), *got = bytes(tlc_bound(alone));
        for (size_t step = 0; step < 2; step++) {
            size_t len = compress(alone, g, want);
            require(compress(shared, g, got) == len && same(got, want, len));
            require(same(tlc_residual(shared), tlc_residual(alone), 4 * n));
        }
        tlc_destroy(alone);
        tlc_destroy(shared);
        free(want);
        free(got);
    }
    free(g);
}

/* Decodes a gradient of 1, 0 and -1 to an address that is no multiple of a cache line, on every ISA, with one task and
 * with several. */
static void large_output(const char *text, const float *g, size_t n, float *out)
{
    size_t margin = 16, turn = 0;
    tlc_config cfg = config(text, TLC_F32, TLC_ISA_AUTO);

    cfg.feedback = 0;
    tlc_ctx *ctx = create(&cfg, n);
    uint8_t *frame = bytes(tlc_bound(ctx));
    size_t len = compress(ctx, g, frame);
    FOR_EACH_ISA(isa)
        for (const runner *r = runners; r < runners + 2; r++) {
            const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa, .parallel = r->parallel};
            size_t from = (turn++ * 5 + n) % margin;

            at = (place){.codec = text, .n = n, .isa = isa, .note = r->name, .i = from};
            memset(out, 0xa5, 4 * (n + 2 * margin));
            require_status(tlc_decompress(frame, len, TLC_F32, out + from, n, &opt), TLC_OK);
            require(same(out + from, g, 4 * n));
            require(all_bytes(out, 4 * from, 0xa5) && all_bytes(out + from + n, 4 * (2 * margin - from), 0xa5));
        }
    tlc_destroy(ctx);
    free(frame);
}

/* Outputs that exceed the caches are stored by whole cache lines. The tensor and its five streams share the lines at
 * their ends with other data. */
TEST(p7_large_outputs)
{
    static const char *const texts[] = {"3lc",
                                        "3lc:block=70001",
                                        "ternary+quartic",
                                        "3lc:block=999",
                                        "3lc-golomb",
                                        "3lc-golomb:block=70001",
                                        "stochastic-ternary+golomb",
                                        "int8",
                                        "qsgd:bits=4",
                                        "natural",
                                        "natural:bits=9,block=70001",
                                        "topk:p=1",
                                        "random-sparse:p=1"};
    size_t n = ((size_t)8 << 20) + 12347;
    float *g = floats(n), *out = floats(n + 32);

    fill(DATA_SPARSE, 5, g, n);
    for (size_t i = 0; i < n; i++)
        g[i] = g[i] > 0.5f ? 1.0f : g[i] < -0.5f ? -1.0f : 0.0f;
    for (size_t t = 0; t < (quick() ? 2 : COUNT(texts)); t++)
        large_output(texts[t], g, n, out);
    /* The decoder takes 128 tokens at a time. One token of 14 quartic bytes is left for the last turn. */
    memset(g, 0, 4 * n);
    large_output("3lc", g, 5 * 14 * (128 * 937 + 1) - 2, out);
    free(g);
    free(out);
}

SETUP(print_isas)
