/* SPDX-License-Identifier: MIT
 *
 * The input is a run: a line with a codec string, then the configuration of the context, then steps, each with its
 * gradient. One context for each ISA, and one that runs its tasks backwards, take the same steps. Their buffers have
 * exactly the sizes that the API asks for. Frames, residuals and states must be the same bits everywhere. Decoded
 * values and residual must add up. A step that fails must change nothing.
 */
#include "fuzz.h"
#include <math.h>

enum { MOST_CONTEXTS = 5, MOST_STEPS = 6, MOST_INPUT = 1 << 16 };

static const uint16_t lengths[] = {0, 1, 2, 5, 16, 64, 127, 333, 1024, 1300, 4097, 5000};

typedef struct party {
    tlc_ctx *ctx;
    tlc_isa isa;
} party;

typedef struct run {
    party parties[MOST_CONTEXTS];
    size_t count, n, bound;
    tlc_dtype dtype;
    int assume_finite, reserved;
    char codec[128];
    uint8_t *grad, *frame, *other; /* other: of all parties but the first */
    float *before, *decoded, *decoded2;
} run;

/* ---- configuration ----------------------------------------------------------------------------------------------- */

static void add_party(run *r, tlc_config *cfg, tlc_isa isa, tlc_parallel parallel)
{
    tlc_ctx *ctx = NULL;

    cfg->isa = isa;
    cfg->parallel = parallel;
    tlc_status status = tlc_create(&ctx, cfg, r->n);
    require(status == TLC_OK);
    r->parties[r->count++] = (party){ctx, isa};
}

/* Returns 0 if the codec string is none. */
static int open_run(run *r, fuzz_input *in)
{
    tlc_config cfg = config(NULL, TLC_F32, TLC_ISA_AUTO);

    memset(r, 0, sizeof *r);
    take_line(in, r->codec, sizeof r->codec);
    uint8_t flags = take_byte(in), size = take_byte(in);
    if (tlc_codec_check(r->codec, NULL, 0))
        return 0;
    r->dtype = cfg.dtype = (tlc_dtype)((flags & 3) % 3);
    cfg.feedback = (flags >> 2 & 3) % 3 - 1;
    cfg.checksum = flags >> 4 & 1;
    r->assume_finite = cfg.assume_finite = flags >> 5 & 1;
    r->reserved = flags >> 6 & 1;
    cfg.reserve = r->reserved ? reserve_all() : NULL;
    cfg.seed = take_number(in, 4);
    cfg.codec = r->codec;
    r->n = size < COUNT(lengths) ? lengths[size] : (size_t)size * 3;
    add_party(r, &cfg, TLC_ISA_SCALAR, runners[0].parallel);
    add_party(r, &cfg, TLC_ISA_AUTO, runners[1].parallel);
    FOR_EACH_ISA(isa)
        if (isa != TLC_ISA_SCALAR)
            add_party(r, &cfg, isa, runners[0].parallel);
    r->bound = tlc_bound(r->parties[0].ctx);
    r->grad = bytes(r->n * dtype_size[r->dtype]);
    r->frame = bytes(r->bound);
    r->other = bytes(r->bound);
    r->before = floats(r->n);
    r->decoded = floats(r->n);
    r->decoded2 = floats(r->n);
    at = (place){.codec = r->codec, .n = r->n, .dtype = r->dtype};
    return 1;
}

static void close_run(run *r)
{
    for (size_t i = 0; i < r->count; i++)
        tlc_destroy(r->parties[i].ctx);
    free(r->grad);
    free(r->frame);
    free(r->other);
    free(r->before);
    free(r->decoded);
    free(r->decoded2);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* Ways to make values from bytes: floats of any bits; few magnitudes, for ties; mostly zeros. They are handled as bits,
 * since an x87 register would make signalling NaN quiet. */
static uint32_t value(unsigned way, fuzz_input *data)
{
    if (way == 0)
        return take_number(data, 4);
    float x = (float)(int8_t)take_byte(data) / 128.0f;
    return way == 1 || x > 0.5f || x < -0.5f ? float_bits(x) : 0;
}

/* Repeats the bytes that are left until there are n values, so that a short input makes a long gradient. */
static void make_gradient(run *r, unsigned way, fuzz_input *in)
{
    const unsigned size = way ? 1 : 4;
    const size_t left = (size_t)(in->end - in->at);
    float *x = r->decoded; /* not in use yet */
    fuzz_input data = *in;

    for (size_t i = 0; i < r->n; i++) {
        if ((size_t)(data.end - data.at) < size && left >= size)
            data = *in;
        uint32_t bits = value(way, &data);
        memcpy(x + i, &bits, sizeof bits);
    }
    in->at += left < r->n * size ? left / 2 : r->n * size;
    require_status(tlc_convert(TLC_F32, x, r->dtype, r->grad, r->n), TLC_OK);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void same_states(run *r)
{
    snapshot first = snap(r->parties[0].ctx);

    fuzz_fold(first.state, first.size, 1);
    for (size_t i = 1; i < r->count; i++) {
        at.isa = r->parties[i].isa;
        require_same_state(r->parties[i].ctx, &first);
    }
    snap_free(&first);
}

/* After a failure under assume_finite, where the residual is undefined. */
static void start_again(run *r)
{
    for (size_t i = 0; i < r->count; i++)
        tlc_reset(r->parties[i].ctx);
}

/* One byte too few is refused, and no byte is touched. */
static void one_short(run *r, const void *grad)
{
    size_t written = 77;
    snapshot before = snap(r->parties[0].ctx);
    uint8_t *dst = bytes(r->bound - 1);

    memset(dst, 0x3c, r->bound - 1);
    require_status(tlc_compress(r->parties[0].ctx, grad, dst, r->bound - 1, &written), TLC_ERR_CAPACITY);
    require(written == 77 && all_bytes(dst, r->bound - 1, 0x3c));
    require_same_state(r->parties[0].ctx, &before);
    free(dst);
    snap_free(&before);
}

static void decode(const run *r, const uint8_t *frame, size_t len, tlc_isa isa, float *out)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
    tlc_frame_info info = {.struct_size = sizeof info};

    require_status(tlc_decompress(frame, len, TLC_F32, out, r->n, &opt), TLC_OK);
    require_status(tlc_inspect(frame, len, &info), TLC_OK);
    require(info.n == r->n && info.dtype == r->dtype);
}

/* The residual is the wanted value minus the decoded value, rounded once. */
static void nothing_lost(run *r, const void *grad)
{
    const float *residual = tlc_residual(r->parties[0].ctx);

    for (size_t i = 0; residual && i < r->n; i++) {
        float g = grad ? bits_float(widened(r->dtype, grad, i)) : 0.0f;
        float wanted = grad ? g + r->before[i] : r->before[i], rest = wanted - r->decoded[i];
        at.i = i;
        require(residual[i] == rest);
    }
}

static void compress_step(run *r, const void *grad)
{
    size_t len = 0, len2;
    const float *residual = tlc_residual(r->parties[0].ctx);
    snapshot before = snap(r->parties[0].ctx);

    if (residual && r->n)
        memcpy(r->before, residual, 4 * r->n);
    one_short(r, grad);
    memset(r->frame, 0x3c, r->bound);
    tlc_status status = tlc_compress(r->parties[0].ctx, grad, r->frame, r->bound, &len);
    fuzz_fold_number(status);
    for (size_t i = 1; i < r->count; i++) {
        at.isa = r->parties[i].isa;
        require_status(tlc_compress(r->parties[i].ctx, grad, r->other, r->bound, &len2), status);
        require(status || (len2 == len && same(r->other, r->frame, len)));
    }
    if (status == TLC_OK) {
        fuzz_fold(r->frame, len, 1);
        decode(r, r->frame, len, TLC_ISA_SCALAR, r->decoded);
        decode(r, r->frame, len, TLC_ISA_AUTO, r->decoded2);
        require(same(r->decoded, r->decoded2, 4 * r->n));
        if (residual)
            nothing_lost(r, grad);
    } else if (r->assume_finite && status == TLC_ERR_NONFINITE) {
        start_again(r);
    } else {
        require(status == TLC_ERR_NONFINITE || (!grad && status == TLC_ERR_UNSUPPORTED));
        require(all_bytes(r->frame, r->bound, 0x3c));
        require_same_state(r->parties[0].ctx, &before);
    }
    snap_free(&before);
}

/* A codec that was not reserved may fit one context and not another: contexts with tlc_parallel have more scratch. */
static const char *another_codec(const run *r, unsigned argument)
{
    return r->reserved ? codecs[argument % codec_count].text : r->codec;
}

/* Another call on all contexts. They must agree, and a call that fails must change nothing. */
static void other_step(run *r, unsigned call, unsigned argument)
{
    tlc_status first = TLC_OK;

    for (size_t i = 0; i < r->count; i++) {
        tlc_ctx *ctx = r->parties[i].ctx;
        snapshot before = snap(ctx);
        tlc_status status = call == 0   ? tlc_accumulate(ctx, r->grad)
                            : call == 1 ? tlc_set_codec(ctx, another_codec(r, argument))
                                        : tlc_residual_scale(ctx, ldexpf(1.25f, (int)(argument % 64) * 8 - 256));
        at.isa = r->parties[i].isa;
        require(i == 0 || status == first);
        require(tlc_bound(ctx) == r->bound);
        if (status && !(r->assume_finite && status == TLC_ERR_NONFINITE))
            require_same_state(ctx, &before);
        first = status;
        snap_free(&before);
    }
    fuzz_fold_number(first);
    if (first && r->assume_finite && first == TLC_ERR_NONFINITE)
        start_again(r);
}

/* Every context loads the state of the one before it. */
static void exchange_states(run *r)
{
    for (size_t i = 0; i < r->count; i++) {
        snapshot state = snap(r->parties[i].ctx);
        tlc_ctx *next = r->parties[(i + 1) % r->count].ctx;
        tlc_reset(next);
        require_status(tlc_state_load(next, state.state, state.size), TLC_OK);
        require_same_state(next, &state);
        snap_free(&state);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};
    run r;

    if (size > MOST_INPUT || !open_run(&r, &in))
        return 0;
    for (unsigned step = 0; step < MOST_STEPS && in.at < in.end; step++) {
        uint8_t op = take_byte(&in);
        at.note = "step";
        make_gradient(&r, op & 3, &in);
        switch (op >> 2 & 7) {
        case 4: compress_step(&r, NULL); break;
        case 5: other_step(&r, 0, 0); break;
        case 6: other_step(&r, op >> 5 & 1 ? 1 : 2, take_byte(&in)); break;
        case 7: exchange_states(&r); break;
        default: compress_step(&r, r.grad); break;
        }
        same_states(&r);
    }
    close_run(&r);
    return 0;
}
