/* SPDX-License-Identifier: MIT
 *
 * The public functions that encode and decode: they check the arguments, set the float mode and call frames/.
 */
#include "../codec/arguments.h"
#include "../frames/bounds.h"
#include "../frames/decode_many.h"
#include "../frames/encode.h"
#include "../frames/nonfinite.h"
#include "../common/structs.h"
#include "context.h"
#include "decoding.h"
#include "../frames/formats.h"

uint32_t tlc_version(void)
{
    return TLC_VERSION;
}

const char *tlc_version_string(void)
{
    static const char text[] = {'0' + TLC_VERSION / 10000, '.', '0' + TLC_VERSION / 100 % 100, '.',
                                '0' + TLC_VERSION % 100,   0};

    _Static_assert(TLC_VERSION / 10000 < 10 && TLC_VERSION / 100 % 100 < 10 && TLC_VERSION % 100 < 10,
                   "one digit each");
    return text;
}

const char *tlc_status_string(tlc_status s)
{
    static const char *const text[] = {
        [TLC_OK] = "success",
        [TLC_ERR_PARAM] = "an argument is out of its range",
        [TLC_ERR_NOMEM] = "out of memory",
        [TLC_ERR_CAPACITY] = "the buffer or the context's room is too small",
        [TLC_ERR_NONFINITE] = "NaN or infinity in the values",
        [TLC_ERR_CORRUPT] = "the bytes are truncated or altered",
        [TLC_ERR_CHECKSUM] = "the checksum does not match",
        [TLC_ERR_VERSION] = "written by another version of the format, or not of this format at all",
        [TLC_ERR_SIZE] = "the number of values is another, or a size overflows",
        [TLC_ERR_UNSUPPORTED] = "not supported here",
        [TLC_ERR_STEP] = "the step of the exchange failed",
        [TLC_ERR_ORDER] = "a call out of turn, or a message of another step",
        [TLC_ERR_TRANSPORT] = "messages could not be sent or received",
        [TLC_ERR_BASE] = "the weights are not the base of the delta",
    };
    const char *fault = s == TLC_ERR_UNSUPPORTED ? tlc_kernels_fault() : NULL;

    if (fault)
        return fault;
    return (unsigned)s < sizeof text / sizeof text[0] ? text[(unsigned)s] : "unknown status";
}

int tlc_isa_supported(tlc_isa isa)
{
    return tlc_kernels_for(isa) != NULL;
}

/* ---- encode ------------------------------------------------------------------------------------------------------ */

static tlc_input context_input(const tlc_ctx *ctx, const void *grad)
{
    return (tlc_input){.k = ctx->kernels, .dtype = ctx->dtype, .grad = grad, .residual = ctx->residual};
}

/* parallel: a copy of the context's. */
static tlc_job context_job(const tlc_ctx *ctx, const void *grad, const tlc_parallel *parallel)
{
    return (tlc_job){
        .codec = &ctx->codec,
        .input = context_input(ctx, grad),
        .n = ctx->n,
        .random = {ctx->seed, ctx->step, 0},
        .scratch = ctx->scratch,
        .checksum = ctx->checksum,
        .assume_finite = ctx->assume_finite,
        .parallel = parallel,
    };
}

/* Says which value could not be sent or accumulated. It may be far away, so only calls that fail look for it. */
static void say_nonfinite(const tlc_ctx *ctx, const void *grad)
{
    const tlc_input input = context_input(ctx, grad);
    const tlc_nonfinite found = tlc_nonfinite_find(&input, ctx->n, ctx->assume_finite);
    const char *sum = !input.residual ? "the gradient" : grad ? "residual + gradient" : "the residual";
    tlc_text w = tlc_ctx_text(ctx);

    if (found.kind == TLC_NONFINITE_SCALE)
        tlc_text_format(&w, "value %zu of %s has the largest magnitude, which is too large for codec \"%s\" and %s",
                        found.at, sum, ctx->codec_text, tlc_dtype_name(ctx->dtype));
    else
        tlc_text_format(&w, "value %zu of %s is %s", found.at,
                        found.kind == TLC_NONFINITE_GRADIENT ? "the gradient" : sum, tlc_nonfinite_name(found.value));
}

tlc_status tlc_accumulate(tlc_ctx *ctx, const void *grad)
{
    tlc_threads threads;
    tlc_status status;

    if (!ctx)
        return TLC_ERR_PARAM;
    if (!ctx->feedback)
        return TLC_CTX_FAIL(ctx, TLC_ERR_UNSUPPORTED, "the context has no residual: its feedback is 0");
    if (!ctx->n)
        return TLC_OK;
    if (!grad)
        return TLC_CTX_FAIL(ctx, TLC_ERR_PARAM, "grad is NULL, the context has %zu values", ctx->n);
    tlc_parallel parallel = ctx->parallel;
    tlc_job job = context_job(ctx, grad, &parallel);
    tlc_threads_enter(&threads, &parallel);
    status = tlc_encode_accumulate(&job);
    if (status)
        say_nonfinite(ctx, grad);
    tlc_threads_leave(&threads);
    return status;
}

tlc_status tlc_compress(tlc_ctx *ctx, const void *grad, void *dst, size_t cap, size_t *written)
{
    tlc_threads threads;
    tlc_status status;

    if (!ctx)
        return TLC_ERR_PARAM;
    if (!dst || !written)
        return TLC_CTX_FAIL(ctx, TLC_ERR_PARAM, "%s is NULL", dst ? "written" : "dst");
    if (cap < ctx->bound)
        return TLC_CTX_FAIL(ctx, TLC_ERR_CAPACITY, "cap is %zu bytes, tlc_bound is %zu", cap, ctx->bound);
    if (!grad && ctx->n && !ctx->feedback)
        return TLC_CTX_FAIL(ctx, TLC_ERR_UNSUPPORTED,
                            "grad is NULL, and there is no residual to send: the context's feedback is 0");
    tlc_parallel parallel = ctx->parallel;
    tlc_job job = context_job(ctx, grad, &parallel);
    tlc_threads_enter(&threads, &parallel);
    status = tlc_encode_frame(&job, dst, written);
    if (status)
        say_nonfinite(ctx, grad);
    tlc_threads_leave(&threads);
    ctx->step += status == TLC_OK;
    return status;
}

tlc_status tlc_codec_bound(const char *codec, tlc_dtype dtype, size_t n, size_t *bound)
{
    tlc_codec parsed;
    tlc_status status;

    if (!codec || !tlc_dtype_valid(dtype) || !bound)
        return TLC_ERR_PARAM;
    status = tlc_codec_parse(&parsed, codec, strlen(codec), NULL);
    return status ? status : tlc_frame_bound(&parsed, dtype, 1, n, bound);
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

/* Decodes a frame that was checked. */
static void decode(tlc_decoding *d, const tlc_frame *f, tlc_output *output)
{
    tlc_threads threads;

    output->k = d->k;
    tlc_threads_enter(&threads, &d->options.parallel);
    tlc_decode_frame(f, output, &d->options.parallel);
    tlc_threads_leave(&threads);
}

tlc_status tlc_decompress(const void *src, size_t len, tlc_dtype dtype, void *out, size_t n,
                          const tlc_decode_options *opt)
{
    tlc_output output = {.mode = TLC_OUTPUT_WRITE, .dtype = dtype, .out = out};
    tlc_decoding d;
    tlc_frame f;
    tlc_status status = tlc_decoding_begin(&d, opt);

    output.bypass = n >= tlc_cpu_uncached_threshold() / tlc_dtype_size(dtype);
    if (!status && !tlc_dtype_valid(dtype))
        status = tlc_dtype_check(dtype, &d.why);
    if (!status)
        status = tlc_decoding_check(&d, &f, &(tlc_message){src, len}, out, "out", n);
    if (!status)
        decode(&d, &f, &output);
    return status;
}

static tlc_status weight_fails(tlc_text *w, float weight)
{
    return TLC_FAIL(w, TLC_ERR_PARAM, "weight is %s: a finite number", tlc_nonfinite_name(weight));
}

static void add_many(const tlc_many *many, tlc_parallel *parallel)
{
    tlc_threads threads;

    tlc_threads_enter(&threads, parallel);
    tlc_many_add(many);
    tlc_threads_leave(&threads);
}

tlc_status tlc_decompress_add(const void *src, size_t len, float weight, float *sum, size_t n,
                              const tlc_decode_options *opt)
{
    const tlc_message message = {src, len};
    tlc_decoding d;
    tlc_frame f;
    tlc_status status = tlc_decoding_begin(&d, opt);

    if (!status && !tlc_finite(weight))
        status = weight_fails(&d.why, weight);
    if (!status)
        status = tlc_decoding_check(&d, &f, &message, sum, "sum", n);
    if (status)
        return status;
    if (d.options.from_zero)
        add_many(&(tlc_many){d.k, &message, &weight, 1, sum, n, 1, &d.options.parallel}, &d.options.parallel);
    else
        decode(&d, &f, &(tlc_output){.mode = TLC_OUTPUT_ADD, .dtype = TLC_F32, .out = sum, .weight = weight});
    return TLC_OK;
}

/* Says why tlc_many_check refused frame i. */
static void say_frame(tlc_text *w, const tlc_many *m, size_t i)
{
    const tlc_message *frame = &m->frames[i];
    tlc_frame f;

    tlc_text_format(w, "frame %zu: ", i);
    if (m->weights && !tlc_finite(m->weights[i]))
        (void)weight_fails(w, m->weights[i]);
    else if (!frame->data && frame->len)
        (void)tlc_decoding_null(w, "data", "len", frame->len);
    else if (tlc_frame_read(&f, frame->data, frame->len, &m->n, 1) || !tlc_decode_check(m->k, &f))
        tlc_frame_say_fault(w, &f, frame->data, frame->len, &m->n);
}

tlc_status tlc_decompress_add_many(const tlc_message *frames, const float *weights, size_t count, float *sum, size_t n,
                                   size_t *bad, const tlc_decode_options *opt)
{
    tlc_many m = {.frames = frames, .weights = weights, .count = count, .sum = sum, .n = n};
    size_t at_fault = count;
    tlc_decoding d;
    tlc_status status = tlc_decoding_begin(&d, opt);

    if (!status && !frames && count)
        status = tlc_decoding_null(&d.why, "frames", "count", count);
    if (!status && !sum && n)
        status = tlc_decoding_null(&d.why, "sum", "n", n);
    if (!status && !d.k)
        status = tlc_isa_check(d.options.isa, &d.why);
    if (!status) {
        m.k = d.k;
        m.from_zero = d.options.from_zero;
        m.parallel = &d.options.parallel;
        status = tlc_many_check(&m, &at_fault);
        if (status && frames && d.why.cap)
            say_frame(&d.why, &m, at_fault);
    }
    if (!status)
        add_many(&m, &d.options.parallel);
    else if (bad)
        *bad = at_fault;
    return status;
}

tlc_status tlc_mask(const void *src, size_t len, float *momentum, size_t n, const tlc_decode_options *opt)
{
    tlc_output output = {.mode = TLC_OUTPUT_MASK, .dtype = TLC_F32, .out = momentum};
    tlc_decoding d;
    tlc_frame f;
    tlc_status status = tlc_decoding_begin(&d, opt);

    if (!status)
        status = tlc_decoding_check(&d, &f, &(tlc_message){src, len}, momentum, "momentum", n);
    if (status)
        return status;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the frame was read */
    if (!f.codec.quantizer->quantize->has_zero)
        return TLC_FAIL(&d.why, TLC_ERR_UNSUPPORTED, "a frame of codec \"%s\" has no mask: none of its values is 0",
                        f.codec.quantizer->name);
    decode(&d, &f, &output);
    return TLC_OK;
}

/* ---- what a frame is --------------------------------------------------------------------------------------------- */

/* Fills in what the header tells. */
static void describe(tlc_frame_info *info, const tlc_frame *f)
{
    memset(info, 0, sizeof *info);
    info->version = TLC_FRAME_VERSION;
    info->dtype = f->dtype;
    info->checksum = f->checksum;
    tlc_codec_describe(&f->codec, info->codec);
    info->n = f->n;
    info->block = f->codec.block;
    info->nonzero = info->clipped = TLC_UNKNOWN;
    info->header_size = f->header_size;
    info->payload_size = f->payload_size;
}

/* Describes a frame. whole: checks all of it, and reads the payload. */
static tlc_status inspect(const void *src, size_t len, tlc_frame_info *info, int whole)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);
    tlc_frame_info ours;
    tlc_frame f;
    tlc_status status;

    if (!info || (!src && len) || info->struct_size < sizeof info->struct_size)
        return TLC_ERR_PARAM;
    if (!k)
        return TLC_ERR_UNSUPPORTED;
    status = tlc_frame_read(&f, src, len, NULL, whole);
    if (!status && whole && !tlc_decode_check(k, &f))
        status = TLC_ERR_CORRUPT;
    if (status)
        return status;
    tlc_float_mode mode = tlc_float_enter(); /* describe() computes with parameters, which are doubles */
    describe(&ours, &f);
    if (whole)
        ours.clipped = tlc_decode_clipped(&f);
    if (whole && f.codec.quantizer->quantize->has_zero) {
        tlc_output count = {.k = k, .mode = TLC_OUTPUT_COUNT, .dtype = TLC_F32, .nonzero = &ours.nonzero};
        ours.nonzero = 0;
        tlc_decode_frame(&f, &count, NULL);
    }
    tlc_float_leave(mode);
    tlc_export(info, &ours, sizeof ours);
    return TLC_OK;
}

tlc_status tlc_inspect(const void *src, size_t len, tlc_frame_info *info)
{
    return inspect(src, len, info, 1);
}

tlc_status tlc_peek(const void *src, size_t len, tlc_frame_info *info)
{
    return inspect(src, len, info, 0);
}
