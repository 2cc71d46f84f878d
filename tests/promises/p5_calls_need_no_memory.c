/* SPDX-License-Identifier: MIT
 *
 * P5 for contexts without an allocator: tlc_create calls malloc once, and fails with TLC_ERR_NOMEM if that fails. Every
 * other public function works when there is no memory at all. (With an allocator: p5_only_create_allocates.c.)
 */
#include "../support/no_memory.h"
#include <threelc/bundle.h>
#include <threelc/delta.h>

enum { SMALL = 331 };

typedef struct buffers {
    size_t n;
    uint8_t *grad, *frame, *out, *state;
} buffers;

static buffers buffers_open(size_t n)
{
    return (buffers){n, bytes(4 * n), bytes(16 * n + 64), bytes(4 * n), bytes(4 * n + 256)};
}

static void buffers_close(buffers *b)
{
    free(b->grad);
    free(b->frame);
    free(b->out);
    free(b->state);
}

/* ---- tlc_create -------------------------------------------------------------------------------------------------- */

static void created_or_not(const tlc_config *cfg, size_t n, size_t left)
{
    tlc_ctx *untouched = (tlc_ctx *)(void *)&memory, *ctx = untouched;

    at.i = left;
    starve(left);
    tlc_status status = tlc_create(&ctx, cfg, n);
    feed();
    require_status(status, left ? TLC_OK : TLC_ERR_NOMEM);
    require(memory.asked == 1 && memory.live == left);
    require(left || ctx == untouched);
    if (!left)
        return;
    starve(0);
    tlc_destroy(ctx);
    feed();
    require(memory.asked == 0 && memory.live == 0);
}

TEST(one_allocation_or_none)
{
    float residual[SMALL] = {0};

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            for (int turn = 0; turn < 8; turn++) {
                tlc_config cfg = config(c->text, dtype, TLC_ISA_AUTO);
                at = (place){.codec = c->text, .dtype = dtype, .n = turn & 4 ? SMALL : 0};
                cfg.feedback = turn & 1;
                cfg.residual = turn & 1 && turn & 2 ? residual : NULL;
                cfg.reserve = turn & 2 ? reserve_all() : NULL;
                for (size_t left = 0; left < 2; left++)
                    created_or_not(&cfg, at.n, left);
            }
}

/* A call that is refused allocates nothing. */
TEST(refused_without_asking)
{
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = NULL;

    at = (place){.note = "refused"};
    starved(tlc_create(&ctx, &cfg, SIZE_MAX), TLC_ERR_SIZE);
    starved(tlc_create(NULL, &cfg, 5), TLC_ERR_PARAM);
    cfg.codec = "4lc";
    starved(tlc_create(&ctx, &cfg, 5), TLC_ERR_PARAM);
    cfg.codec = "3lc";
    cfg.reserve = "raw;raw;nothing";
    starved(tlc_create(&ctx, &cfg, 5), TLC_ERR_PARAM);
    require(ctx == NULL);
}

/* ---- a context, and its frames ----------------------------------------------------------------------------------- */

static void decoders(const buffers *b, size_t len, const tlc_decode_options *opt)
{
    tlc_frame_info info = {.struct_size = sizeof info};
    float *sum = (float *)(void *)b->out;

    FOR_EACH_DTYPE(dtype)
        starved(tlc_decompress(b->frame, len, dtype, b->out, b->n, opt), TLC_OK);
    memset(sum, 0, 4 * b->n);
    starved(tlc_decompress_add(b->frame, len, -0.5f, sum, b->n, opt), TLC_OK);
    const tlc_message frames[3] = {{b->frame, len}, {b->frame, len}, {b->frame, len}};
    starved(tlc_decompress_add_many(frames, NULL, 3, sum, b->n, NULL, opt), TLC_OK);
    starved(tlc_decompress_add_many(frames, NULL, 3, sum, b->n + 1, NULL, opt), TLC_ERR_SIZE);
    starved(tlc_peek(b->frame, len, &info), TLC_OK);
    starved(tlc_inspect(b->frame, len, &info), TLC_OK);
    starved(tlc_mask(b->frame, len, sum, b->n, opt), info.nonzero == TLC_UNKNOWN ? TLC_ERR_UNSUPPORTED : TLC_OK);
    starved(tlc_decompress(b->frame, len - 1, TLC_F32, b->out, b->n, opt), TLC_ERR_CHECKSUM);
    starved(tlc_decompress(b->frame, len, TLC_F32, b->out, b->n + 1, opt), TLC_ERR_SIZE);
}

static void checkpoint(tlc_ctx *ctx, const buffers *b)
{
    size_t size = 0, written = 0;

    starved_run(size = tlc_state_size(ctx));
    require(size <= 4 * b->n + 256);
    starved(tlc_state_save(ctx, b->state, size, &written), TLC_OK);
    starved(tlc_state_save(ctx, b->state, size - 1, &written), TLC_ERR_CAPACITY);
    starved(tlc_state_load(ctx, b->state, size), TLC_OK);
    b->state[size - 1] ^= 1;
    starved(tlc_state_load(ctx, b->state, size), TLC_ERR_CHECKSUM);
}

static void use(tlc_ctx *ctx, const codec_case *c, const tlc_config *cfg, const buffers *b)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = cfg->isa, .parallel = cfg->parallel};
    const int feedback = cfg->feedback;
    size_t cap = 0, len = 0;
    tlc_isa isa = TLC_ISA_AUTO;
    const float *residual = NULL;

    starved_run(cap = tlc_bound(ctx));
    starved_run(isa = tlc_isa_used(ctx));
    starved_run(residual = tlc_residual(ctx));
    require(cap <= 16 * b->n + 64 && isa != TLC_ISA_AUTO && !residual == !feedback);
    for (uint64_t step = 0; step < 2; step++) {
        fill_grad(step ? DATA_SPARSE : DATA_LAPLACE, step, cfg->dtype, b->grad, b->n);
        starved(tlc_accumulate(ctx, b->grad), feedback ? TLC_OK : TLC_ERR_UNSUPPORTED);
        starved(tlc_compress(ctx, b->grad, b->frame, cap - 1, &len), TLC_ERR_CAPACITY);
        starved(tlc_compress(ctx, b->grad, b->frame, cap, &len), TLC_OK);
        decoders(b, len, &opt);
        starved(tlc_compress(ctx, NULL, b->frame, cap, &len), feedback ? TLC_OK : TLC_ERR_UNSUPPORTED);
        starved(tlc_residual_scale(ctx, 0.5f), feedback ? TLC_OK : TLC_ERR_UNSUPPORTED);
        checkpoint(ctx, b);
        memset(b->grad, 0xff, dtype_size[cfg->dtype]); /* NaN */
        starved(tlc_compress(ctx, b->grad, b->frame, cap, &len), c->exact && !feedback ? TLC_OK : TLC_ERR_NONFINITE);
        starved(tlc_set_codec(ctx, "no such codec"), TLC_ERR_PARAM);
        starved(tlc_set_codec(ctx, c->text), TLC_OK);
    }
    starved_run(tlc_reset(ctx));
}

static void with_context(const codec_case *c, tlc_dtype dtype, tlc_isa isa, const runner *r, const buffers *b)
{
    tlc_config cfg = config(c->text, dtype, isa);

    at = (place){.codec = c->text, .dtype = dtype, .isa = isa, .n = b->n, .note = r->name};
    cfg.feedback = (c->feedback + (int)dtype) % 2;
    cfg.checksum = 1;
    cfg.parallel = starved_runner(r);
    starve(1);
    tlc_ctx *ctx = NULL;
    tlc_status status = tlc_create(&ctx, &cfg, b->n);
    feed();
    require_status(status, TLC_OK);
    use(ctx, c, &cfg, b);
    starved_run(tlc_destroy(ctx));
    require(memory.live == 0);
}

TEST(contexts_and_decoders)
{
    buffers b = buffers_open(SMALL);

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa)
                with_context(c, dtype, isa, &runners[0], &b);
    buffers_close(&b);
}

TEST(with_tasks)
{
    buffers b = buffers_open(16384 * 8 * 2 + 13);
    size_t turn = 0;

    FOR_EACH_CODEC(c)
        for (size_t r = 1; r < runner_count; r++, turn++) {
            if (quick() && turn % 5)
                continue;
            most_tasks = 0;
            with_context(c, dtypes[turn % 3], TLC_ISA_AUTO, &runners[r], &b);
            require(most_tasks > 1);
        }
    buffers_close(&b);
}

/* Every codec's room is reserved, and every one is switched to. */
TEST(switches)
{
    buffers b = buffers_open(SMALL);
    tlc_config cfg = config("raw", TLC_F32, TLC_ISA_AUTO);
    size_t len = 0;

    cfg.reserve = reserve_all();
    cfg.feedback = 1;
    fill_grad(DATA_LAPLACE, 1, TLC_F32, b.grad, b.n);
    tlc_ctx *ctx = create(&cfg, b.n);
    FOR_EACH_CODEC(c) {
        at = (place){.codec = c->text, .n = b.n};
        starved(tlc_set_codec(ctx, c->text), TLC_OK);
        starved(tlc_compress(ctx, b.grad, b.frame, tlc_bound(ctx), &len), TLC_OK);
        checkpoint(ctx, &b);
    }
    tlc_destroy(ctx);
    buffers_close(&b);
}

/* ---- what has no context ----------------------------------------------------------------------------------------- */

TEST(descriptions)
{
    tlc_config cfg;
    tlc_codec_entry entry = {.struct_size = sizeof entry};
    char message[200];
    size_t bound = 0, entries = 0;
    int supported = 0;

    at = (place){.note = "descriptions"};
    starved(tlc_config_init(&cfg, sizeof cfg), TLC_OK);
    FOR_EACH_CODEC(c) {
        starved(tlc_codec_bound(c->text, TLC_BF16, 1000003, &bound), TLC_OK);
        starved(tlc_codec_check(c->text, message, sizeof message), TLC_OK);
    }
    starved(tlc_codec_check("ternary:s=9+zerorun", message, sizeof message), TLC_ERR_PARAM);
    while (!tlc_codec_list(entries, &entry))
        starved(tlc_codec_list(entries++, &entry), TLC_OK);
    starved(tlc_codec_list(entries, &entry), TLC_ERR_SIZE);
    starved_run((void)tlc_version());
    starved_run((void)tlc_version_string());
    for (int i = -1; i < 12; i++) {
        starved_run((void)tlc_status_string((tlc_status)i));
        starved_run((void)tlc_isa_name((tlc_isa)i));
        starved_run(supported += tlc_isa_supported((tlc_isa)i));
    }
    require(entries > 10 && supported >= 2 && bound > 0);
}

TEST(bundles)
{
    uint8_t bundle[200], frame[30] = {1};
    tlc_bundle_writer w;
    tlc_bundle_reader r;
    tlc_message message = {NULL, 0};
    size_t len = 0, cap = 0;
    const void *found = NULL;
    void *space = NULL;

    at = (place){.note = "bundles"};
    starved(tlc_bundle_bound(3, 60, &len), TLC_OK);
    starved(tlc_bundle_init(&w, bundle, 9, 3), TLC_ERR_CAPACITY);
    starved(tlc_bundle_init(&w, bundle, sizeof bundle, 3), TLC_OK);
    starved(tlc_bundle_add(&w, frame, sizeof frame), TLC_OK);
    starved(tlc_bundle_space(&w, &space, &cap), TLC_OK);
    starved(tlc_bundle_commit(&w, 0), TLC_OK);
    starved(tlc_bundle_add(&w, frame, cap + 1), TLC_ERR_CAPACITY);
    starved(tlc_bundle_add(&w, frame, sizeof frame), TLC_OK);
    starved(tlc_bundle_finish(&w, &message), TLC_OK);
    starved(tlc_bundle_open(&r, message.data, message.len - 1), TLC_ERR_CORRUPT);
    starved(tlc_bundle_open(&r, message.data, message.len), TLC_OK);
    starved_run((void)tlc_bundle_count(&r));
    for (size_t i = 0; i < 3; i++)
        starved(tlc_bundle_next(&r, &found, &cap), TLC_OK);
    starved(tlc_bundle_next(&r, &found, &cap), TLC_ERR_PARAM);
}

/* ---- stages alone ------------------------------------------------------------------------------------------------ */

typedef struct stage_buffers {
    float x[SMALL], residual[SMALL], out[SMALL];
    int8_t q[SMALL];
    uint8_t code[16 * SMALL], more[16 * SMALL];
    uint64_t scratch[2 * SMALL / 64 + 2 + SMALL / 8 + 1];
    uint8_t frame[8 * SMALL];
    uint32_t words[SMALL];
} stage_buffers;

/* Blocks of all kinds, with and without tasks. */
TEST(deltas)
{
    enum { BLOCK = 65536, N = 4 * BLOCK };
    static const unsigned one_in[] = {1u << 31, 50, 2, 1};
    uint8_t *base = bytes(2 * (size_t)N), *next = bytes(2 * (size_t)N), *frame;
    tlc_delta_info info = {.struct_size = sizeof info};
    size_t bound = 0, len = 0;
    uint64_t digest = 0;
    rng r = {3};

    fill_grad(DATA_LAPLACE, 1, TLC_BF16, base, N);
    memcpy(next, base, 2 * (size_t)N);
    for (size_t i = 0; i < N; i++)
        if (!rng_below(&r, one_in[i / BLOCK]))
            next[2 * i] ^= (uint8_t)(i / BLOCK < 3 ? 1 : rng_next(&r));
    starved(tlc_delta_bound(TLC_BF16, N, &bound), TLC_OK);
    frame = bytes(bound);
    for (size_t i = 0; i < runner_count; i++) {
        const tlc_delta_options opt = {.struct_size = sizeof opt, .parallel = starved_runner(&runners[i])};
        at = (place){.note = runners[i].name};
        starved(tlc_delta_compress(TLC_BF16, NULL, next, N, frame, bound, &len, &opt), TLC_OK);
        starved(tlc_delta_compress(TLC_BF16, base, next, N, frame, bound, &len, &opt), TLC_OK);
        starved(tlc_delta_inspect(frame, len, &info), TLC_OK);
        require(info.blocks[0] == 1 && info.blocks[1] && info.blocks[2]);
        starved(tlc_delta_digest(TLC_BF16, base, N, &digest, &opt), TLC_OK);
        uint8_t *weights = bytes(2 * (size_t)N);
        memcpy(weights, base, 2 * (size_t)N);
        starved(tlc_delta_apply(frame, len, TLC_BF16, weights, N, &opt), TLC_OK);
        starved(tlc_delta_apply(frame, len, TLC_BF16, weights, N, &opt), TLC_ERR_BASE);
        starved(tlc_delta_apply(frame, len - 1, TLC_BF16, weights, N, &opt), TLC_ERR_CHECKSUM);
        free(weights);
    }
    free(base);
    free(next);
    free(frame);
}

static void symbol_stages(stage_buffers *b)
{
    size_t len = 0, shrunk = 0, size = 0;
    uint64_t wide = 0, positions[] = {0, 1, SMALL - 1};
    float scalar[2], values[] = {1, -2, 3};

    starved(tlc_ternary_encode(b->x, SMALL, 1.5f, b->q, b->residual, scalar), TLC_OK);
    starved(tlc_ternary_decode(b->q, SMALL, scalar[0], b->out), TLC_OK);
    starved(tlc_ternary_add(b->q, SMALL, 0.5f, b->out), TLC_OK);
    starved_run(size = tlc_quartic_size(SMALL));
    starved(tlc_quartic_encode(b->q, SMALL, b->code, size, &len), TLC_OK);
    starved(tlc_quartic_decode(b->code, len, b->q, SMALL), TLC_OK);
    starved(tlc_zerorun_encode(b->code, len, b->more, len, &shrunk), TLC_OK);
    starved_run(wide = tlc_zerorun_decoded_size(b->more, shrunk));
    require(wide == len);
    starved(tlc_zerorun_decode(b->more, shrunk, b->code, size, &len), TLC_OK);
    const tlc_quartic_params *rest = PARAMS(quartic, .codec = "3lc-golomb", .scratch = b->scratch);
    starved_run(size = tlc_quartic_scratch(rest->codec, SMALL));
    require(size <= sizeof b->scratch);
    starved(tlc_compress_quartic(b->code, len, scalar, SMALL, rest, b->frame, sizeof b->frame, &shrunk), TLC_OK);
    starved(tlc_decompress_quartic(b->frame, shrunk, SMALL, b->code, len, scalar, 1, NULL), TLC_OK);
    starved(tlc_compress_payload(b->q, SMALL, scalar, SMALL, PARAMS(quartic, .codec = "int8"), b->frame,
                                 sizeof b->frame, &shrunk),
            TLC_OK);
    const tlc_members_params *members = PARAMS(members, .codec = "topk:p=1,bits=2+golomb", .scratch = b->scratch);
    starved_run(size = tlc_members_scratch(members->codec, SMALL));
    require(size <= sizeof b->scratch);
    starved(tlc_compress_members(positions, values, COUNT(values), SMALL, members, b->frame, sizeof b->frame, &len),
            TLC_OK);
    starved(tlc_decompress_members(b->frame, len, SMALL, positions, values, COUNT(values), &len, NULL), TLC_OK);
    const tlc_stochastic_ternary_params *ternary = PARAMS(stochastic_ternary, .residual = b->residual);
    starved(tlc_stochastic_ternary_encode(b->x, SMALL, ternary, b->q, scalar), TLC_OK);
    starved_run(size = tlc_golomb_size(SMALL, SMALL, TLC_GOLOMB_SIGNED));
    const tlc_golomb_params *golomb = PARAMS(golomb, .signs = TLC_GOLOMB_SIGNED, .scratch = b->scratch);
    starved(tlc_golomb_encode(b->q, SMALL, golomb, b->code, size, &len), TLC_OK);
    starved(tlc_golomb_decode(b->code, len, TLC_GOLOMB_SIGNED, b->q, SMALL), TLC_OK);
    starved(tlc_golomb_encode(b->q, SMALL, golomb, b->code, len - 1, &len), TLC_ERR_CAPACITY);
    starved(tlc_sparse_binary_encode(b->x, SMALL, 0.1, b->q, b->residual, scalar), TLC_OK);
    starved(tlc_sparse_binary_decode(b->q, SMALL, scalar[0], b->out), TLC_OK);
    starved(tlc_levels_encode(b->x, SMALL, PARAMS(levels, .residual = b->residual), b->q, scalar), TLC_OK);
    starved(tlc_levels_decode(b->q, SMALL, TLC_LEVELS_255, scalar[0], b->out), TLC_OK);
}

static void value_stages(stage_buffers *b)
{
    size_t len = 0;
    uint64_t clipped = 0;
    float mean[2];

    const tlc_natural_params *natural = PARAMS(natural, .bits = TLC_NATURAL_9, .residual = b->residual);
    starved(tlc_natural_encode(b->x, SMALL, natural, b->code, 2 * SMALL, &clipped), TLC_OK);
    starved(tlc_natural_decode(b->code, SMALL + (SMALL + 7) / 8, TLC_NATURAL_9, 0, b->out, SMALL), TLC_OK);
    starved(tlc_onebit_encode(b->x, SMALL, b->code, b->residual, mean), TLC_OK);
    starved(tlc_onebit_decode(b->code, (SMALL + 7) / 8, mean, b->out, SMALL), TLC_OK);
    const tlc_topk_params *topk = PARAMS(topk, .p = 0.1, .residual = b->residual);
    starved(tlc_topk_encode(b->x, SMALL, topk, b->code, sizeof b->code, &len), TLC_OK);
    starved(tlc_topk_decode(b->code, len, b->out, SMALL), TLC_OK);
    const tlc_random_sparse_params *sparse = PARAMS(random_sparse, .p = 0.1, .scratch = b->scratch,
                                                    .residual = b->residual);
    starved(tlc_random_sparse_encode(b->x, SMALL, sparse, b->code, sizeof b->code, &len), TLC_OK);
    starved(tlc_random_sparse_decode(b->code, len, b->out, SMALL), TLC_OK);
    starved(tlc_random_sparse_decode(b->code, len - 1, b->out, SMALL), TLC_ERR_CORRUPT);
    starved(tlc_philox(1, 2, 3, SMALL, b->words), TLC_OK);
    FOR_EACH_DTYPE(to)
        starved(tlc_convert(TLC_F32, b->x, to, b->code, SMALL), TLC_OK);
}

static void aggregation(stage_buffers *b)
{
    tlc_config cfg = config("natural", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, SMALL);
    size_t len = compress(ctx, b->x, b->code), written = 0;
    const tlc_message frames[] = {{b->code, len}, {b->code, len}, {b->code, len}};

    starved(tlc_natural_aggregate(frames, 3, NULL, b->more, len - 1, &written), TLC_ERR_CAPACITY);
    starved(tlc_natural_aggregate(frames, 3, NULL, b->more, len, &written), TLC_OK);
    tlc_destroy(ctx);
}

TEST(stages)
{
    stage_buffers b;

    at = (place){.note = "stages alone", .n = SMALL};
    memset(&b, 0, sizeof b);
    fill(DATA_LAPLACE, 3, b.x, SMALL);
    symbol_stages(&b);
    value_stages(&b);
    aggregation(&b);
}

SETUP(print_isas)
