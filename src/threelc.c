/* SPDX-License-Identifier: MIT
 *
 * Entry points that code and decode: they validate, set the float mode and delegate.
 */
#include "context.h"

#define STRING(x) #x
#define DOTTED(a, b, c) STRING(a) "." STRING(b) "." STRING(c)

uint32_t tlc_version(void)
{
    return TLC_VERSION_MAJOR * 10000 + TLC_VERSION_MINOR * 100 + TLC_VERSION_PATCH;
}

const char *tlc_version_string(void)
{
    return DOTTED(TLC_VERSION_MAJOR, TLC_VERSION_MINOR, TLC_VERSION_PATCH);
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
        [TLC_ERR_VERSION] = "written by another version of the format",
        [TLC_ERR_SIZE] = "the number of values is another, or a size overflows",
        [TLC_ERR_UNSUPPORTED] = "not supported here",
    };
    return (unsigned)s < sizeof text / sizeof text[0] ? text[(unsigned)s] : "unknown status";
}

int tlc_isa_supported(tlc_isa isa)
{
    return tlc_kernels_for(isa) != NULL;
}

const char *tlc_isa_name(tlc_isa isa)
{
    static const char *const name[] = {
        [TLC_ISA_AUTO] = "auto",
        [TLC_ISA_SCALAR] = "scalar",
        [TLC_ISA_AVX2] = "avx2",
        [TLC_ISA_AVX512] = "avx512",
        [TLC_ISA_NEON] = "neon",
    };
    return (unsigned)isa < sizeof name / sizeof name[0] ? name[(unsigned)isa] : "unknown";
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static tlc_job context_job(const tlc_ctx *ctx, const void *grad)
{
    return (tlc_job){
        .codec = &ctx->codec,
        .input = {.k = ctx->kernels, .dtype = ctx->dtype, .grad = grad, .residual = ctx->residual},
        .n = ctx->n,
        .seed = ctx->seed,
        .step = ctx->step,
        .scratch = ctx->scratch,
        .checksum = ctx->checksum,
        .assume_finite = ctx->assume_finite,
        .parallel = &ctx->parallel,
    };
}

tlc_status tlc_accumulate(tlc_ctx *ctx, const void *grad)
{
    tlc_status status;

    if (!ctx)
        return TLC_ERR_PARAM;
    if (!ctx->feedback)
        return TLC_ERR_UNSUPPORTED;
    if (!ctx->n)
        return TLC_OK;
    if (!grad)
        return TLC_ERR_PARAM;
    tlc_job job = context_job(ctx, grad);
    tlc_float_mode mode = tlc_float_enter();
    status = tlc_pipeline_accumulate(&job);
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_compress(tlc_ctx *ctx, const void *grad, void *dst, size_t cap, size_t *written)
{
    tlc_status status;

    if (!ctx || !dst || !written)
        return TLC_ERR_PARAM;
    if (cap < ctx->bound)
        return TLC_ERR_CAPACITY;
    if (!grad && ctx->n && !ctx->feedback)
        return TLC_ERR_UNSUPPORTED;
    tlc_job job = context_job(ctx, grad);
    tlc_float_mode mode = tlc_float_enter();
    status = tlc_pipeline_forward(&job, dst, written);
    tlc_float_leave(mode);
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
    return status ? status : tlc_codec_frame_bound(&parsed, dtype, 1, n, bound);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static tlc_status decode_options(tlc_decode_options *ours, const tlc_kernels **k, const tlc_decode_options *opt)
{
    memset(ours, 0, sizeof *ours);
    if (opt && !tlc_import(ours, sizeof *ours, opt))
        return TLC_ERR_PARAM;
    if ((int)ours->isa < TLC_ISA_AUTO || ours->isa > TLC_ISA_NEON)
        return TLC_ERR_PARAM;
    *k = tlc_kernels_for(ours->isa);
    return *k ? TLC_OK : TLC_ERR_UNSUPPORTED;
}

/* Checks all of a frame, then decodes it. */
static tlc_status decode(const void *src, size_t len, const tlc_sink *sink, size_t n, const tlc_decode_options *opt)
{
    tlc_decode_options options;
    const tlc_kernels *k;
    tlc_frame f;
    tlc_status status;

    if ((!src && len) || (!sink->out && n))
        return TLC_ERR_PARAM;
    status = decode_options(&options, &k, opt);
    if (!status)
        status = tlc_frame_read(&f, src, len, &n);
    if (status)
        return status;
    if (!tlc_pipeline_check(k, &f))
        return TLC_ERR_CORRUPT;
    if (sink->mode == TLC_SINK_MASK && !f.codec.value->value->has_zero)
        return TLC_ERR_UNSUPPORTED;
    tlc_float_mode mode = tlc_float_enter();
    tlc_pipeline_backward(k, &f, sink, &options.parallel);
    tlc_float_leave(mode);
    return TLC_OK;
}

tlc_status tlc_decompress(const void *src, size_t len, tlc_dtype dtype, void *out, size_t n,
                          const tlc_decode_options *opt)
{
    tlc_sink sink = {.mode = TLC_SINK_WRITE, .dtype = dtype, .out = out};

    sink.stream = n >= tlc_cpu_stream_threshold() / tlc_dtype_size(dtype);
    return tlc_dtype_valid(dtype) ? decode(src, len, &sink, n, opt) : TLC_ERR_PARAM;
}

tlc_status tlc_decompress_add(const void *src, size_t len, float weight, float *sum, size_t n,
                              const tlc_decode_options *opt)
{
    tlc_sink sink = {.mode = TLC_SINK_ADD, .dtype = TLC_F32, .out = sum, .weight = weight};
    return tlc_finite(weight) ? decode(src, len, &sink, n, opt) : TLC_ERR_PARAM;
}

tlc_status tlc_mask(const void *src, size_t len, float *momentum, size_t n, const tlc_decode_options *opt)
{
    tlc_sink sink = {.mode = TLC_SINK_MASK, .dtype = TLC_F32, .out = momentum};
    return decode(src, len, &sink, n, opt);
}

tlc_status tlc_inspect(const void *src, size_t len, tlc_frame_info *info)
{
    tlc_frame_info ours = {0};
    tlc_frame f;
    tlc_status status;

    if (!info || (!src && len) || info->struct_size < sizeof info->struct_size)
        return TLC_ERR_PARAM;
    status = tlc_frame_read(&f, src, len, NULL);
    if (status)
        return status;
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);
    if (!tlc_pipeline_check(k, &f))
        return TLC_ERR_CORRUPT;
    tlc_float_mode mode = tlc_float_enter(); /* parameters are doubles */
    ours.version = TLC_FRAME_VERSION;
    ours.dtype = f.dtype;
    ours.checksum = f.checksum;
    tlc_codec_describe(&f.codec, ours.codec);
    ours.n = f.n;
    ours.block = f.codec.block;
    ours.nonzero = tlc_pipeline_nonzero(k, &f);
    ours.header_size = f.header_size;
    ours.payload_size = f.payload_size;
    ours.clipped = tlc_pipeline_clipped(&f);
    tlc_float_leave(mode);
    tlc_export(info, &ours, sizeof ours);
    return TLC_OK;
}
