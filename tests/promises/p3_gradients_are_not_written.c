/* SPDX-License-Identifier: MIT
 *
 * P3: the gradient is never written. void * arguments need no alignment, float * arguments 4 bytes. n may be 0 or more,
 * and pointers may be NULL if n is 0.
 */
#include "../support/support.h"

/* ---- every size -------------------------------------------------------------------------------------------------- */

/* The results of a step, to compare with those of the same step done in another way. */
typedef struct result {
    uint8_t *frame, *out, *state;
    size_t len, state_len;
} result;

static void result_free(result *r)
{
    free(r->frame);
    free(r->out);
    free(r->state);
}

/* Two steps. All buffers begin `offset` bytes after a malloc'ed address, float * arguments four times that. */
static result two_steps(const tlc_config *given, size_t n, size_t offset)
{
    tlc_config cfg = *given;
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = cfg.isa};
    size_t size = dtype_size[cfg.dtype], written = 0;
    float *residual = floats(n + offset), *sum = floats(n + offset);
    uint8_t *grad = bytes(n * size + offset), *copy = bytes(n * size), *frame, *out = bytes(n * size + offset), *state;
    result r = {NULL, bytes(n * (size + 4)), NULL, 0, 0};

    memset(residual, 0, 4 * (n + offset));
    cfg.residual = cfg.feedback ? residual + offset : NULL;
    tlc_ctx *ctx = create(&cfg, n);
    r.frame = bytes(tlc_bound(ctx));
    frame = bytes(tlc_bound(ctx) + offset);
    for (uint64_t step = 0; step < 2; step++) {
        fill_grad(step ? (data_kind)(n % DATA_COUNT) : DATA_LAPLACE, n + step, cfg.dtype, grad + offset, n);
        memcpy(copy, grad + offset, n * size);
        r.len = compress(ctx, grad + offset, frame + offset);
        require(same(copy, grad + offset, n * size));
    }
    memcpy(r.frame, frame + offset, r.len);
    require_status(tlc_decompress(frame + offset, r.len, cfg.dtype, out + offset, n, &opt), TLC_OK);
    memcpy(r.out, out + offset, n * size);
    fill(DATA_LAPLACE, n, sum + offset, n);
    require_status(tlc_decompress_add(frame + offset, r.len, 0.3f, sum + offset, n, &opt), TLC_OK);
    const tlc_message frames[2] = {{frame + offset, r.len}, {frame + offset, r.len}};
    require_status(tlc_decompress_add_many(frames, NULL, 2, sum + offset, n, NULL, &opt), TLC_OK);
    if (tlc_mask(frame + offset, r.len, sum + offset, n / 2, &opt) == TLC_OK)
        require(n == 0);
    memcpy(r.out + n * size, sum + offset, 4 * n);
    state = bytes(tlc_state_size(ctx) + offset);
    r.state = bytes(tlc_state_size(ctx));
    require_status(tlc_state_save(ctx, state + offset, tlc_state_size(ctx), &written), TLC_OK);
    require_status(tlc_state_load(ctx, state + offset, written), TLC_OK);
    memcpy(r.state, state + offset, written);
    r.state_len = written;
    tlc_destroy(ctx);
    free(residual);
    free(sum);
    free(grad);
    free(copy);
    free(frame);
    free(out);
    free(state);
    return r;
}

static void require_same_result(const result *a, const result *b, size_t n, tlc_dtype dtype)
{
    require(a->len == b->len && same(a->frame, b->frame, a->len));
    require(same(a->out, b->out, n * (dtype_size[dtype] + 4)));
    require(a->state_len == b->state_len && same(a->state, b->state, a->state_len));
}

/* The results must be those of the scalar ISA with aligned buffers, for every offset. */
static void each_offset(const tlc_config *given, size_t n, size_t offsets)
{
    tlc_config cfg = *given;
    result want;

    at = (place){.codec = cfg.codec, .dtype = cfg.dtype, .isa = cfg.isa, .n = n, .note = "offset"};
    cfg.isa = TLC_ISA_SCALAR;
    want = two_steps(&cfg, n, 0);
    for (at.i = 0; at.i < offsets; at.i++) {
        result got = two_steps(given, n, at.i);
        require_same_result(&got, &want, n, cfg.dtype);
        result_free(&got);
    }
    result_free(&want);
}

TEST(p3_every_size)
{
    static const size_t more[] = {255, 256, 257, 1023, 1024, 1025, 5120, 5121, 20479, 20480, 20485};
    size_t count = 201 + (quick() ? 6 : COUNT(more));

    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa)
            for (size_t i = 0; i < count; i += quick() && i < 195 ? 5 : 1) {
                size_t n = i <= 200 ? i : more[i - 201];
                tlc_config cfg = config(c->text, dtypes[n % 3], isa);
                cfg.feedback = n / 3 % 2;
                each_offset(&cfg, n, 2);
            }
}

TEST(p3_every_alignment)
{
    static const size_t sizes[] = {3, 64, 171, 330};

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa)
                for (size_t s = 0; s < COUNT(sizes); s++) {
                    tlc_config cfg = config(c->text, dtype, isa);
                    cfg.feedback = (c->feedback + (int)s) % 2;
                    each_offset(&cfg, sizes[s], quick() ? 4 : 17);
                }
}

/* ---- the gradient ------------------------------------------------------------------------------------------------ */

TEST(p3_gradient_is_never_written)
{
    size_t n = quick() ? 16384 * 2 + 3 : 16384 * 5 + 3;
    arena grad;

    arena_open(&grad, 4 * n);
    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa)
            FOR_EACH_DTYPE(dtype) {
                tlc_config cfg = config(c->text, dtype, isa);
                at = (place){.codec = c->text, .dtype = dtype, .isa = isa, .n = n};
                cfg.feedback = ((int)isa + c->feedback) % 2;
                cfg.assume_finite = dtype == TLC_F32;
                cfg.parallel = runners[(size_t)isa % runner_count].parallel;
                tlc_ctx *ctx = create(&cfg, n);
                uint8_t *dst = bytes(tlc_bound(ctx)), *g = arena_take(&grad, n * dtype_size[dtype], isa % 2);
                fill_grad(dtype == TLC_BF16 ? DATA_TIES : DATA_SPARSE, 3, dtype, g, n);
                arena_readonly(&grad, 1); /* a write is a fault */
                compress(ctx, g, dst);
                if (cfg.feedback)
                    require_status(tlc_accumulate(ctx, g), TLC_OK);
                arena_readonly(&grad, 0);
                tlc_destroy(ctx);
                free(dst);
            }
    arena_close(&grad);
}

/* ---- nothing ----------------------------------------------------------------------------------------------------- */

TEST(p3_no_values)
{
    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            for (int feedback = 0; feedback < 2; feedback++) {
                tlc_config cfg = config(c->text, dtype, TLC_ISA_AUTO);
                tlc_frame_info info = {.struct_size = sizeof info};
                uint8_t dst[64];
                size_t written = 0;
                cfg.feedback = feedback;
                cfg.checksum = feedback;
                tlc_ctx *ctx = create(&cfg, 0);
                at = (place){.codec = c->text, .dtype = dtype};
                require(tlc_bound(ctx) <= 16);
                require_status(tlc_compress(ctx, NULL, dst, tlc_bound(ctx), &written), TLC_OK);
                require(written == tlc_bound(ctx)); /* a header alone */
                require_status(tlc_accumulate(ctx, NULL), feedback ? TLC_OK : TLC_ERR_UNSUPPORTED);
                require_status(tlc_residual_scale(ctx, 2), feedback ? TLC_OK : TLC_ERR_UNSUPPORTED);
                FOR_EACH_DTYPE(out)
                    require_status(tlc_decompress(dst, written, out, NULL, 0, NULL), TLC_OK);
                require_status(tlc_decompress_add(dst, written, 1, NULL, 0, NULL), TLC_OK);
                require_status(tlc_mask(dst, written, NULL, 0, NULL), c->has_zero ? TLC_OK : TLC_ERR_UNSUPPORTED);
                require_status(tlc_inspect(dst, written, &info), TLC_OK);
                require(info.n == 0 && info.payload_size == 0 && info.clipped == 0);
                require(info.nonzero == (c->has_zero ? 0 : TLC_UNKNOWN) && !strcmp(info.codec, c->decoding));
                require_status(tlc_decompress(dst, written, TLC_F32, dst, 1, NULL), TLC_ERR_SIZE);
                snapshot s = snap(ctx);
                tlc_reset(ctx);
                require_status(tlc_state_load(ctx, s.state, s.size), TLC_OK);
                require_same_state(ctx, &s);
                snap_free(&s);
                tlc_destroy(ctx);
            }
}

TEST(p3_no_values_for_the_stages)
{
    size_t written = 77;
    float M = 77;

    at = (place){.note = "stages"};
    require_status(tlc_ternary_encode(NULL, 0, 1, NULL, NULL, &M), TLC_OK);
    require(float_bits(M) == 0);
    require_status(tlc_ternary_decode(NULL, 0, 1, NULL), TLC_OK);
    require_status(tlc_ternary_add(NULL, 0, 1, NULL), TLC_OK);
    require(tlc_quartic_size(0) == 0);
    require_status(tlc_quartic_encode(NULL, 0, NULL, 0, &written), TLC_OK);
    require(written == 0);
    require_status(tlc_quartic_decode(NULL, 0, NULL, 0), TLC_OK);
    written = 77;
    require_status(tlc_zerorun_encode(NULL, 0, NULL, 0, &written), TLC_OK);
    require(written == 0);
    require(tlc_zerorun_decoded_size(NULL, 0) == 0);
    written = 77;
    require_status(tlc_zerorun_decode(NULL, 0, NULL, 0, &written), TLC_OK);
    require(written == 0);
    FOR_EACH_DTYPE(from)
        FOR_EACH_DTYPE(to)
            require_status(tlc_convert(from, NULL, to, NULL, 0), TLC_OK);
}

SETUP(print_isas)
