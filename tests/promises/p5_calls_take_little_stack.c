/* SPDX-License-Identifier: MIT
 *
 * P5: no call takes more stack than threelc.h says, on any ISA, with large tensors, many frames, all kinds of deltas,
 * messages of weights, local steps. (All programs that count allocations measure it, too: support/no_memory.c.)
 */
#include "../delta/sample.h"
#include "../support/exchange_run.h"
#include "../support/gossip_run.h"
#include "../support/stack.h"
#include "../weights/model.h"
#include <threelc/frames.h>
#include <threelc/local.h>

#define MEASURED(call, want)                                                                                           \
    do {                                                                                                               \
        stack_paint();                                                                                                 \
        tlc_status status_ = (call);                                                                                   \
        stack_check();                                                                                                 \
        require_status_is(#call, status_, want, __FILE__, __LINE__);                                                   \
    } while (0)

/* ---- contexts and decoders --------------------------------------------------------------------------------------- */

enum { N = 20000, FRAMES = 40 };

static float sum[N];

static void decode(const uint8_t *frame, size_t len, const codec_case *c, tlc_isa isa)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
    tlc_frame_info info = {.struct_size = sizeof info};
    tlc_message frames[FRAMES];
    uint8_t *out = bytes(4 * (size_t)N + 1);

    FOR_EACH_DTYPE(to)
        MEASURED(tlc_decompress(frame, len, to, out + 1, N, &opt), TLC_OK);
    MEASURED(tlc_decompress(frame, len, TLC_F32, sum, N, &opt), TLC_OK);
    MEASURED(tlc_decompress_add(frame, len, 0.5f, sum, N, &opt), TLC_OK);
    MEASURED(tlc_mask(frame, len, sum, N, &opt), c->has_zero ? TLC_OK : TLC_ERR_UNSUPPORTED);
    MEASURED(tlc_inspect(frame, len, &info), TLC_OK);
    for (size_t i = 0; i < FRAMES; i++)
        frames[i] = (tlc_message){frame, len};
    for (size_t count = 1; count <= FRAMES; count += 13)
        MEASURED(tlc_decompress_add_many(frames, NULL, count, sum, N, NULL, &opt), TLC_OK);
    free(out);
}

static void with_context(const codec_case *c, tlc_dtype dtype, tlc_isa isa, int feedback)
{
    tlc_config cfg = config(c->text, dtype, isa);
    uint8_t *grad = bytes(4 * (size_t)N + 1), *frame;
    size_t len, cap;

    at = (place){.codec = c->text, .dtype = dtype, .isa = isa, .n = N};
    cfg.feedback = feedback;
    tlc_ctx *ctx = create(&cfg, N);
    frame = bytes(cap = tlc_bound(ctx));
    fill_grad(DATA_SPARSE, 1, dtype, grad + 1, N);
    MEASURED(tlc_compress(ctx, grad + 1, frame, cap, &len), TLC_OK);
    fill_grad(DATA_LAPLACE, 2, dtype, grad, N);
    MEASURED(tlc_compress(ctx, grad, frame, cap, &len), TLC_OK);
    decode(frame, len, c, isa);
    tlc_destroy(ctx);
    free(grad);
    free(frame);
}

TEST(p5_stack_of_contexts)
{
    size_t turn = 0;

    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa)
            FOR_EACH_DTYPE(dtype)
                if (!quick() || turn++ % 7 == 0)
                    with_context(c, dtype, isa, (int)turn % 2);
}

/* Frames of all codecs, in one call. */
TEST(p5_stack_of_mixed_frames)
{
    tlc_message *frames = (tlc_message *)(void *)bytes(codec_count * sizeof *frames);
    float *values = floats(N);

    fill(DATA_LAPLACE, 3, values, N);
    for (size_t i = 0; i < codec_count; i++) {
        tlc_config cfg = config(codecs[i].text, TLC_F32, TLC_ISA_AUTO);
        tlc_ctx *ctx = create(&cfg, N);
        uint8_t *frame = bytes(tlc_bound(ctx));
        frames[i] = (tlc_message){frame, compress(ctx, values, frame)};
        tlc_destroy(ctx);
    }
    FOR_EACH_ISA(isa) {
        const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
        at = (place){.note = "mixed", .isa = isa, .n = N};
        MEASURED(tlc_decompress_add_many(frames, NULL, codec_count, sum, N, NULL, &opt), TLC_OK);
    }
    for (size_t i = 0; i < codec_count; i++)
        free((void *)(uintptr_t)frames[i].data);
    free(frames);
    free(values);
}

/* ---- deltas ------------------------------------------------------------------------------------------------------ */

static void read_list(const sample *s, const tlc_delta_options *opt)
{
    tlc_delta_piece piece = {.struct_size = sizeof piece, .end = s->n, .cap = 4 * BLOCK};
    uint8_t *frame;
    size_t bound, len;
    uint64_t *positions = (uint64_t *)(void *)bytes(s->n * sizeof *positions);

    piece.positions = (uint64_t *)(void *)bytes(piece.cap * sizeof *positions);
    piece.values = bytes(piece.cap * 8);
    while (piece.next < piece.end)
        MEASURED(tlc_delta_changes(s->frame, s->len, s->dtype, s->n, &piece, opt), TLC_OK);
    for (size_t i = 0; i < s->n; i++)
        positions[i] = i;
    require_status(tlc_delta_changes_bound(s->dtype, BLOCK, s->n, &bound), TLC_OK);
    frame = bytes(bound);
    uint8_t *before = bytes(8 * (size_t)BLOCK), *after = bytes(8 * (size_t)BLOCK);
    memset(before, 0, 8 * (size_t)BLOCK);
    memset(after, 1, 8 * (size_t)BLOCK);
    MEASURED(tlc_delta_from_changes(s->dtype, positions, before, after, BLOCK, s->n, NULL, frame, bound, &len, opt),
             TLC_OK);
    free(before);
    free(after);
    free(frame);
    free(positions);
    free(piece.positions);
    free(piece.values);
}

static void fold(const sample *s, const tlc_delta_options *opt)
{
    const void *frames[] = {s->frame, NULL};
    size_t lens[] = {s->len, 0}, bound, written;
    uint8_t *back = sample_frame(s->dtype, s->next, s->base, s->n, &lens[1], NULL);

    frames[1] = back;
    require_status(tlc_delta_fold_bound(s->dtype, s->n, 2, &bound), TLC_OK);
    uint8_t *dst = bytes(bound);
    MEASURED(tlc_delta_fold(frames, lens, 2, dst, bound, &written, opt), TLC_OK);
    free(dst);
    free(back);
}

static void with_weights(tlc_dtype dtype, tlc_isa isa, int rarely)
{
    const tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa};
    const tlc_delta_options blocks = {.struct_size = sizeof opt, .isa = isa, .block_digests = 1};
    sample s = sample_made(dtype, SAMPLE_MOST, rarely, 1);
    const size_t size = weights_size(dtype, s.n);
    uint8_t *weights = bytes(size), *frame;
    tlc_delta_info info = {.struct_size = sizeof info};
    size_t bound, len;
    uint64_t digest;

    at = (place){.note = "delta", .dtype = dtype, .isa = isa, .n = s.n};
    require_status(tlc_delta_bound(dtype, s.n, &bound), TLC_OK);
    frame = bytes(bound + 64 * 8);
    MEASURED(tlc_delta_compress(dtype, NULL, s.next, s.n, frame, bound, &len, &opt), TLC_OK);
    MEASURED(tlc_delta_compress(dtype, s.base, s.next, s.n, frame, bound, &len, &blocks), TLC_OK);
    memcpy(weights, s.base, size);
    MEASURED(tlc_delta_check(frame, len, dtype, weights, s.n, &opt), TLC_OK);
    MEASURED(tlc_delta_repair(frame, len, dtype, weights, s.n, NULL, &opt), TLC_OK);
    memcpy(weights, s.base, size);
    MEASURED(tlc_delta_apply(frame, len, dtype, weights, s.n, &opt), TLC_OK);
    MEASURED(tlc_delta_apply_range(frame, len, dtype, s.base, weights, s.n, 0, s.n, &opt), TLC_OK);
    MEASURED(tlc_delta_inspect(frame, len, &info), TLC_OK);
    MEASURED(tlc_delta_digest(dtype, weights, s.n, &digest, &opt), TLC_OK);
    read_list(&s, &opt);
    fold(&s, &opt);
    free(weights);
    free(frame);
    sample_discard(&s);
}

TEST(p5_stack_of_deltas)
{
    FOR_EACH_ISA(isa)
        FOR_EACH_WEIGHT_DTYPE(dtype)
            for (int rarely = 0; rarely < 2; rarely++)
                if (!quick() || rarely)
                    with_weights(dtype, isa, rarely);
}

/* ---- the exchange ------------------------------------------------------------------------------------------------ */

static void around_fleet(fleet *f, int before)
{
    (void)f;
    if (before)
        stack_paint();
    else
        stack_check();
}

static void around_network(network *net, int before)
{
    (void)net;
    if (before)
        stack_paint();
    else
        stack_check();
}

TEST(p5_stack_of_exchanges)
{
    for (size_t turn = 0; turn < codec_count; turn += quick() ? 9 : 1)
        FOR_EACH_KIND(kind) {
            tlc_exchange_config cfg = fleet_config(kind, 3, large_tensors);
            fleet f;
            cfg.push = at.codec = codecs[turn].text;
            cfg.pull = codecs[turn * 3 % codec_count].text;
            cfg.dtype = dtypes[turn % 3];
            fleet_open(&f, &cfg, large_tensors, 0);
            f.around = around_fleet;
            fleet_step(&f, turn);
            fleet_close(&f);
        }
}

TEST(p5_stack_of_gossip)
{
    for (const char *const *codec = unbiased_codecs(); *codec; codec++)
        FOR_EACH_GOSSIP(kind) {
            tlc_exchange_config cfg = network_config(kind, 3);
            network net;
            cfg.push = at.codec = *codec;
            network_open_with(&net, &cfg, kind, NULL, N, around_network);
            network_hello(&net, 1);
            network_greet(&net);
            for (uint64_t step = 0; step < 2; step++)
                network_step(&net, step);
            network_close(&net);
        }
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

TEST(p5_stack_of_weights)
{
    model base, next, out;
    mail m = {.room = 0};
    tlc_weights_writer *w;
    tlc_weights_info info = {.struct_size = sizeof info};

    at = (place){.note = "weights"};
    model_open(&base, 1);
    model_copy(&next, &base);
    model_step(&next, 2);
    model_copy(&out, &base);
    const tlc_weights_writer_config cfg = {.struct_size = sizeof cfg,
                                           .write = mail_write,
                                           .opaque = &m,
                                           .sequence = 1,
                                           .count = next.count};
    MEASURED(tlc_weights_writer_create(&w, &cfg), TLC_OK);
    for (size_t i = 0; i < next.count; i++) {
        size_t len = 0;
        uint8_t *frame = next.tensors[i].entry.is_view ? NULL : frame_of(&base.tensors[i], &next.tensors[i], &len);
        MEASURED(tlc_weights_add(w, &next.tensors[i].entry, frame, len), TLC_OK);
        free(frame);
    }
    MEASURED(tlc_weights_finish(w), TLC_OK);
    tlc_weights_writer_destroy(w);
    FOR_EACH_ISA(isa) {
        receiver to = {.base = &out, .out = &out};
        tlc_weights_reader *r;
        const tlc_weights_reader_config read = {.struct_size = sizeof read,
                                                .read = mail_read,
                                                .opaque = &m,
                                                .size = m.len,
                                                .isa = isa};
        MEASURED(tlc_weights_open(&r, &read), TLC_OK);
        MEASURED(tlc_weights_describe(r, &info), TLC_OK);
        uint8_t *frame = bytes((size_t)info.frame_max);
        MEASURED(tlc_weights_apply(r, receiver_find, &to, frame, (size_t)info.frame_max), TLC_OK);
        MEASURED(tlc_weights_apply(r, receiver_find, &to, frame, (size_t)info.frame_max), TLC_OK); /* it has them */
        require(model_same(&out, &next));
        free(frame);
        tlc_weights_close(r);
    }
    mail_close(&m);
    model_close(&base);
    model_close(&next);
    model_close(&out);
}

TEST(p5_stack_of_local_steps)
{
    static float common[N], momentum[N], residual[N], weights[N], change[N];
    tlc_local_config cfg;
    tlc_local_tensor t;

    (void)tlc_local_config_init(&cfg, sizeof cfg);
    (void)tlc_local_tensor_init(&t, sizeof t);
    cfg.momentum = cfg.mix = 0.5f;
    t = (tlc_local_tensor){sizeof t, N, common, momentum, residual, weights, TLC_BF16};
    at = (place){.note = "local steps", .n = N};
    MEASURED(tlc_local_start(&cfg, &t), TLC_OK);
    MEASURED(tlc_local_change(&cfg, &t, change), TLC_OK);
    MEASURED(tlc_local_outer(&cfg, &t, change), TLC_OK);
}

/* Frames without a context, and sentences. */
TEST(p5_stack_of_frames)
{
    const tlc_config cfg = config("natural:bits=9", TLC_F32, TLC_ISA_AUTO);
    uint8_t *grad = bytes(4 * (size_t)N), *quartic = bytes(N);
    char message[TLC_MESSAGE_SIZE];
    tlc_quartic_params params;
    const float scale = 1;
    size_t len, made;
    float back;

    at = (place){.codec = cfg.codec, .n = N};
    tlc_ctx *ctx = create(&cfg, N);
    const size_t cap = tlc_bound(ctx);
    uint8_t *frame = bytes(cap), *sums = bytes(cap);
    fill_grad(DATA_LAPLACE, 1, TLC_F32, grad, N);
    MEASURED(tlc_compress(ctx, grad, frame, cap, &len), TLC_OK);
    const tlc_message frames[] = {{frame, len}, {frame, len}, {frame, len}};
    MEASURED(tlc_natural_aggregate(frames, 3, NULL, sums, cap, &made), TLC_OK);
    MEASURED(tlc_explain(frame, len, TLC_FORMAT_FRAME, message, sizeof message), TLC_OK);
    frame[len / 2] ^= 1;
    MEASURED(tlc_explain(frame, len, TLC_FORMAT_DELTA, message, sizeof message), TLC_ERR_CORRUPT);
    tlc_destroy(ctx);
    free(frame);
    free(sums);
    (void)tlc_quartic_params_init(&params, sizeof params);
    params.codec = at.codec = "3lc-golomb";
    memset(quartic, 121, N);
    params.scratch = malloc(tlc_quartic_scratch(params.codec, N));
    frame = bytes(8 * (size_t)N);
    require(params.scratch);
    quartic[7]++;
    MEASURED(tlc_compress_quartic(quartic, N / 5, &scale, N, &params, frame, 4 * (size_t)N, &len), TLC_OK);
    MEASURED(tlc_decompress_quartic(frame, len, N, quartic, N / 5, &back, 1, NULL), TLC_OK);
    params.codec = at.codec = "3lc";
    MEASURED(tlc_compress_quartic(quartic, N / 5, &scale, N, &params, frame, 4 * (size_t)N, &len), TLC_OK);
    MEASURED(tlc_decompress_quartic(frame, len, N, quartic, N / 5, &back, 1, NULL), TLC_OK);
    MEASURED(tlc_compress_payload(quartic, N / 5, &scale, N, &params, frame, 4 * (size_t)N, &len), TLC_OK);
    params.codec = at.codec = "int8";
    MEASURED(tlc_compress_payload(quartic, N, &scale, N, &params, frame, 4 * (size_t)N, &len), TLC_OK);
    for (size_t i = 0; i < 2; i++) {
        const char *const codecs_of_members[] = {"topk:p=1,bits=2", "sbc:p=1"};
        uint64_t position = 7;
        tlc_members_params members = {.struct_size = sizeof members, .scratch = params.scratch};
        members.codec = at.codec = codecs_of_members[i];
        require(tlc_members_scratch(members.codec, N) <= tlc_quartic_scratch("3lc-golomb", N));
        MEASURED(tlc_compress_members(&position, &scale, 1, N, &members, frame, 8 * (size_t)N, &len), TLC_OK);
        MEASURED(tlc_decompress_members(frame, len, N, &position, &back, 1, &made, NULL), TLC_OK);
    }
    free(params.scratch);
    free(frame);
    free(quartic);
    free(grad);
}

SETUP(print_isas)
