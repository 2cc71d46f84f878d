/* SPDX-License-Identifier: MIT
 *
 * tlc_natural_aggregate decodes and adds the frames in their order, then compresses the sum. The values of its frame
 * are those of plain arithmetic on floats; to the nearest, a context makes the same frame of the sum.
 */
#include "../support/support.h"
#include <math.h>

#define MOST 9

typedef struct inputs {
    tlc_message frames[MOST];
    size_t count, n;
    float *sum; /* starting at +0, in the order of the frames */
} inputs;

/* Frames of gradients of this magnitude. */
static inputs make(const char *codec, size_t count, size_t n, int checksum, float scale)
{
    inputs in = {.count = count, .n = n, .sum = floats(n)};
    float *grad = floats(n);

    memset(in.sum, 0, n * sizeof *in.sum);
    for (size_t i = 0; i < count; i++) {
        tlc_config cfg = config(codec, i % 2 ? TLC_F32 : TLC_BF16, TLC_ISA_AUTO);
        cfg.seed = 100 + i;
        cfg.checksum = checksum;
        tlc_ctx *ctx = create(&cfg, n);
        uint8_t *frame = bytes(tlc_bound(ctx));
        fill(i == 3 ? DATA_SPARSE : DATA_LAPLACE, i, grad, n);
        for (size_t k = 0; k < n; k++)
            grad[k] *= scale;
        uint8_t *narrow = bytes(n * sizeof *grad);
        require_status(tlc_convert(TLC_F32, grad, cfg.dtype, narrow, n), TLC_OK);
        in.frames[i] = (tlc_message){frame, compress(ctx, narrow, frame)};
        require_status(tlc_decompress_add(frame, in.frames[i].len, 1.0f, in.sum, n, NULL), TLC_OK);
        free(narrow);
        tlc_destroy(ctx);
    }
    free(grad);
    return in;
}

static void release(inputs *in)
{
    for (size_t i = 0; i < in->count; i++)
        free((void *)(uintptr_t)in->frames[i].data);
    free(in->sum);
}

/* The frame that a context makes of the sum, to the nearest. */
static size_t expected(const inputs *in, const char *codec, int checksum, uint8_t *frame)
{
    char nearest[64];

    (void)snprintf(nearest, sizeof nearest, "%s%crounding=nearest", codec, strchr(codec, ':') ? ',' : ':');
    tlc_config cfg = config(nearest, TLC_F32, TLC_ISA_SCALAR);
    cfg.checksum = checksum;
    tlc_ctx *ctx = create(&cfg, in->n);
    size_t len = compress(ctx, in->sum, frame);
    tlc_destroy(ctx);
    frame[1] = (uint8_t)((frame[1] & ~3u) | TLC_BF16); /* the first frame's dtype */
    return len;
}

static size_t capacity(const char *codec, size_t n)
{
    size_t bound = 0;

    require_status(tlc_codec_bound(codec, TLC_F32, n, &bound), TLC_OK);
    return bound;
}

static const char *const natural_codecs[] = {"natural", "natural:bits=9", "natural:shift=6", "natural:bits=9,shift=70"};

/* x rounded up to a power of two with a chance of its mantissa, as the random word says, else down. */
static float rounded(float x, uint32_t word)
{
    int exponent;
    float fraction = 2.0f * frexpf(fabsf(x), &exponent) - 1.0f;

    if (x == 0)
        return 0.0f;
    return copysignf(ldexpf(1.0f, exponent - 1 + ((word >> 9) < (uint32_t)(fraction * 0x1p23f))), x);
}

/* All sums are in the range of exponents. */
static void check_random(const inputs *in, const float *got, uint64_t seed, uint64_t step)
{
    for (size_t i = 0; i < in->n; i++) {
        uint32_t word;
        require_status(tlc_philox(seed, step, (UINT64_C(1) << 63) + i, 1, &word), TLC_OK);
        at.i = i;
        require(got[i] == rounded(in->sum[i], word));
    }
}

static void check_sum(const char *codec, size_t count, size_t n, int checksum, unsigned step)
{
    inputs in = make(codec, count, n, checksum, 1.0f);
    size_t cap = capacity(codec, n), written = 0, len;
    uint8_t *got = bytes(cap), *want = bytes(cap);
    float *values = floats(n);

    at.codec = codec;
    at.n = n;
    at.i = count;
    len = expected(&in, codec, checksum, want);
    const tlc_natural_aggregate_params *params = PARAMS(natural_aggregate, .rounding = TLC_ROUND_NEAREST);
    require_status(tlc_natural_aggregate(in.frames, count, params, got, cap, &written), TLC_OK);
    require(written == len && same(got, want, len - (checksum ? 4 : 0)));
    params = PARAMS(natural_aggregate, .seed = 7, .step = step);
    require_status(tlc_natural_aggregate(in.frames, count, params, got, cap, &written), TLC_OK);
    tlc_frame_info info = {.struct_size = sizeof info};
    require_status(tlc_inspect(got, written, &info), TLC_OK);
    require(written == len && info.checksum == checksum && info.n == n && info.dtype == TLC_BF16);
    require_status(tlc_decompress(got, written, TLC_F32, values, n, NULL), TLC_OK);
    require(info.clipped == 0);
    check_random(&in, values, 7, step);
    free(values);
    free(got);
    free(want);
    release(&in);
}

TEST(aggregates)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 1023, 1024, 1025, 5000};

    for (size_t c = 0; c < COUNT(natural_codecs); c++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (size_t count = 1; count <= MOST; count += 4)
                check_sum(natural_codecs[c], count, sizes[i], (int)(i & 1), (unsigned)(i % 3));
}

static double mean_of(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

/* 1.5 is sent as 1 or 2. With 1 that makes 2, or 3, which becomes 2 or 4. If the sum were rounded with the words of the
 * sender, 3 would always become 4. */
TEST(without_bias)
{
    const size_t n = 40000;
    float *grad = floats(n), *out = floats(n);
    size_t cap = capacity("natural", n), written;
    tlc_message frames[2];

    for (unsigned i = 0; i < 2; i++) {
        tlc_config cfg = config("natural", TLC_F32, TLC_ISA_AUTO);
        uint8_t *frame = bytes(cap);
        cfg.seed = 5;
        tlc_ctx *ctx = create(&cfg, n);
        for (size_t k = 0; k < n; k++)
            grad[k] = i ? 1.0f : 1.5f;
        frames[i] = (tlc_message){frame, compress(ctx, grad, frame)};
        tlc_destroy(ctx);
    }
    uint8_t *got = bytes(cap);
    require_status(tlc_natural_aggregate(frames, 2, PARAMS(natural_aggregate, .seed = 5), got, cap, &written), TLC_OK);
    require_status(tlc_decompress(got, written, TLC_F32, out, n, NULL), TLC_OK);
    require(fabs(mean_of(out, n) - 2.5) < 0.025); /* 6 standard deviations */
    require_status(tlc_natural_aggregate(frames, 2, PARAMS(natural_aggregate, .rounding = TLC_ROUND_NEAREST), got, cap,
                                         &written),
                   TLC_OK);
    require_status(tlc_decompress(got, written, TLC_F32, out, n, NULL), TLC_OK);
    require(fabs(mean_of(out, n) - 3.0) < 0.03); /* a mantissa of one half is rounded up: 2 or 4 */
    for (unsigned i = 0; i < 2; i++)
        free((void *)(uintptr_t)frames[i].data);
    free(got);
    free(grad);
    free(out);
}

/* Sums that overflow binary32 are clipped and counted, as all sums that are too large. */
TEST(overflowing_sums)
{
    const size_t n = 50;
    float *grad = floats(n), *out = floats(n);
    size_t cap = capacity("natural:bits=9", n), len = 0, written = 0;
    uint8_t *frame = bytes(cap), *got = bytes(cap);
    tlc_frame_info info = {.struct_size = sizeof info};

    for (size_t i = 0; i < n; i++)
        grad[i] = i % 2 ? 0x1p127f : -0x1p127f;
    tlc_config cfg = config("natural:bits=9", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, n);
    len = compress(ctx, grad, frame);
    const tlc_message frames[4] = {{frame, len}, {frame, len}, {frame, len}, {frame, len}};
    require_status(tlc_natural_aggregate(frames, 4, PARAMS(natural_aggregate, .seed = 1), got, cap, &written), TLC_OK);
    require_status(tlc_inspect(got, written, &info), TLC_OK);
    require(info.clipped == n);
    require_status(tlc_decompress(got, written, TLC_F32, out, n, NULL), TLC_OK);
    require(same(out, grad, n * sizeof *out)); /* 2^127 is where they are clipped */
    tlc_destroy(ctx);
    free(grad);
    free(out);
    free(frame);
    free(got);
}

/* Frames that cannot be added up are refused; dst and *written stay as they were. */
static void refused(const inputs *in, tlc_message other, tlc_status want)
{
    const tlc_message frames[2] = {in->frames[0], other};
    size_t cap = capacity("natural:bits=9", 2 * in->n), written = 77;
    uint8_t *got = bytes(cap);

    memset(got, 0x5a, cap);
    require_status(tlc_natural_aggregate(frames, 2, NULL, got, cap, &written), want);
    require(written == 77 && all_bytes(got, cap, 0x5a));
    free(got);
}

/* A frame without a checksum with a byte that is no code. */
static void refused_codes(void)
{
    inputs in = make("natural", 2, 40, 0, 1.0f), other = make("natural", 1, 40, 0, 1.0f);
    const tlc_message good = other.frames[0];
    uint8_t *frame = bytes(good.len);

    memcpy(frame, good.data, good.len);
    frame[good.len - 1] = 0x7f;
    refused(&in, (tlc_message){frame, good.len}, TLC_ERR_CORRUPT);
    free(frame);
    release(&other);
    release(&in);
}

TEST(refuses)
{
    static const struct {
        const char *codec;
        size_t n;
        tlc_status status;
    } others[] = {
        {"natural:shift=1", 40, TLC_ERR_PARAM}, {"natural:bits=9", 40, TLC_ERR_PARAM},
        {"natural", 41, TLC_ERR_SIZE},          {"natural:block=8", 40, TLC_ERR_UNSUPPORTED},
        {"int8", 40, TLC_ERR_UNSUPPORTED},      {"3lc", 40, TLC_ERR_UNSUPPORTED},
    };
    inputs in = make("natural", 2, 40, 1, 1.0f);

    for (size_t i = 0; i < COUNT(others); i++) {
        at.codec = others[i].codec;
        inputs other = make(others[i].codec, 1, others[i].n, 0, 1.0f);
        refused(&in, other.frames[0], others[i].status);
        release(&other);
    }
    for (size_t len = 0; len < in.frames[1].len; len++)
        refused(&in, (tlc_message){in.frames[1].data, len}, len < 9 ? TLC_ERR_CORRUPT : TLC_ERR_CHECKSUM);
    refused(&in, (tlc_message){NULL, 5}, TLC_ERR_PARAM);
    refused(&in, (tlc_message){NULL, 0}, TLC_ERR_CORRUPT);
    refused_codes();

    size_t written, cap = capacity("natural", 40);
    uint8_t *got = bytes(cap);
    require_status(tlc_natural_aggregate(in.frames, 0, NULL, got, cap, &written), TLC_ERR_PARAM);
    require_status(tlc_natural_aggregate(NULL, 2, NULL, got, cap, &written), TLC_ERR_PARAM);
    require_status(tlc_natural_aggregate(in.frames, 2, NULL, NULL, cap, &written), TLC_ERR_PARAM);
    require_status(tlc_natural_aggregate(in.frames, 2, NULL, got, cap, NULL), TLC_ERR_PARAM);
    require_status(tlc_natural_aggregate(in.frames, 2, NULL, got, cap - 1, &written), TLC_ERR_CAPACITY);
    for (int rounding = -1; rounding <= 2; rounding += 3)
        require_status(tlc_natural_aggregate(in.frames, 2,
                                             PARAMS(natural_aggregate, .rounding = (tlc_rounding)rounding), got, cap,
                                             &written),
                       TLC_ERR_PARAM);
    require_status(tlc_natural_aggregate(in.frames, 2, NULL, got, cap, &written), TLC_OK);
    free(got);
    release(&in);
}
