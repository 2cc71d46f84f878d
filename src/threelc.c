/* SPDX-License-Identifier: MIT
 *
 * The public functions that encode and decode: they check the arguments, set the float mode and call coding/.
 */
#include "coding/bounds.h"
#include "coding/decode_many.h"
#include "coding/encode.h"
#include "common/structs.h"
#include "context.h"

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
        [TLC_ERR_VERSION] = "written by another version of the format",
        [TLC_ERR_SIZE] = "the number of values is another, or a size overflows",
        [TLC_ERR_UNSUPPORTED] = "not supported here",
        [TLC_ERR_STEP] = "the step of the exchange failed",
        [TLC_ERR_ORDER] = "a call out of turn, or a message of another step",
        [TLC_ERR_TRANSPORT] = "messages could not be sent or received",
        [TLC_ERR_BASE] = "the weights are not the base of the delta",
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
        [TLC_ISA_AUTO] = "auto",     [TLC_ISA_SCALAR] = "scalar", [TLC_ISA_AVX2] = "avx2",
        [TLC_ISA_AVX512] = "avx512", [TLC_ISA_NEON] = "neon",
    };
    return (unsigned)isa < sizeof name / sizeof name[0] ? name[(unsigned)isa] : "unknown";
}

/* ---- encode ------------------------------------------------------------------------------------------------------ */

static tlc_job context_job(const tlc_ctx *ctx, const void *grad)
{
    return (tlc_job){
        .codec = &ctx->codec,
        .input = {.k = ctx->kernels, .dtype = ctx->dtype, .grad = grad, .residual = ctx->residual},
        .n = ctx->n,
        .random = {ctx->seed, ctx->step, 0},
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
    status = tlc_encode_accumulate(&job);
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
    status = tlc_encode_frame(&job, dst, written);
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
    return status ? status : tlc_frame_bound(&parsed, dtype, 1, n, bound);
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

static tlc_status decode_options(tlc_decode_options *ours, const tlc_kernels **k, const tlc_decode_options *opt)
{
    memset(ours, 0, sizeof *ours);
    if (opt && !tlc_import(ours, sizeof *ours, opt))
        return TLC_ERR_PARAM;
    if ((int)ours->isa < TLC_ISA_AUTO || ours->isa > TLC_ISA_NEON || ours->from_zero >> 1)
        return TLC_ERR_PARAM;
    *k = tlc_kernels_for(ours->isa);
    return *k ? TLC_OK : TLC_ERR_UNSUPPORTED;
}

/* Checks the whole frame, then decodes it. */
static tlc_status decode(const void *src, size_t len, tlc_output *output, size_t n, const tlc_decode_options *opt)
{
    tlc_decode_options options;
    tlc_frame f;
    tlc_status status;

    if ((!src && len) || (!output->out && n))
        return TLC_ERR_PARAM;
    status = decode_options(&options, &output->k, opt);
    if (!status)
        status = tlc_frame_read(&f, src, len, &n, 1);
    if (status)
        return status;
    if (!tlc_decode_check(output->k, &f))
        return TLC_ERR_CORRUPT;
    if (output->mode == TLC_OUTPUT_MASK && !f.codec.quantizer->quantize->has_zero)
        return TLC_ERR_UNSUPPORTED;
    const tlc_message message = {src, len};
    const tlc_many many = {output->k, &message, &output->weight, 1, output->out, n, 1, &options.parallel};
    tlc_float_mode mode = tlc_float_enter();
    if (output->mode == TLC_OUTPUT_ADD && options.from_zero)
        tlc_many_add(&many);
    else
        tlc_decode_frame(&f, output, &options.parallel);
    tlc_float_leave(mode);
    return TLC_OK;
}

tlc_status tlc_decompress(const void *src, size_t len, tlc_dtype dtype, void *out, size_t n,
                          const tlc_decode_options *opt)
{
    tlc_output output = {.mode = TLC_OUTPUT_WRITE, .dtype = dtype, .out = out};

    output.bypass = n >= tlc_cpu_stream_threshold() / tlc_dtype_size(dtype);
    return tlc_dtype_valid(dtype) ? decode(src, len, &output, n, opt) : TLC_ERR_PARAM;
}

tlc_status tlc_decompress_add(const void *src, size_t len, float weight, float *sum, size_t n,
                              const tlc_decode_options *opt)
{
    tlc_output output = {.mode = TLC_OUTPUT_ADD, .dtype = TLC_F32, .out = sum, .weight = weight};
    return tlc_finite(weight) ? decode(src, len, &output, n, opt) : TLC_ERR_PARAM;
}

tlc_status tlc_decompress_add_many(const tlc_message *frames, const float *weights, size_t count, float *sum, size_t n,
                                   size_t *bad, const tlc_decode_options *opt)
{
    tlc_many m = {.frames = frames, .weights = weights, .count = count, .sum = sum, .n = n};
    tlc_decode_options options = {.from_zero = 0};
    tlc_status status = TLC_ERR_PARAM;
    size_t at_fault = count;

    if ((frames || !count) && (sum || !n))
        status = decode_options(&options, &m.k, opt);
    if (!status) {
        m.from_zero = options.from_zero;
        m.parallel = &options.parallel;
        status = tlc_many_check(&m, &at_fault);
    }
    if (!status) {
        tlc_float_mode mode = tlc_float_enter();
        tlc_many_add(&m);
        tlc_float_leave(mode);
    } else if (bad)
        *bad = at_fault;
    return status;
}

tlc_status tlc_mask(const void *src, size_t len, float *momentum, size_t n, const tlc_decode_options *opt)
{
    tlc_output output = {.mode = TLC_OUTPUT_MASK, .dtype = TLC_F32, .out = momentum};
    return decode(src, len, &output, n, opt);
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
