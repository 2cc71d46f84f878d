/* SPDX-License-Identifier: MIT
 *
 * tlc_natural_aggregate decodes and adds the frames in their order, then compresses the sum with the aggregator's seed
 * and step. A context makes the same frame of the sum.
 */
#include "support.h"

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
        require_status(tlc_convert(grad, TLC_F32, narrow, cfg.dtype, n), TLC_OK);
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

/* The frame that a context makes at this step. */
static size_t expected(const inputs *in, const char *codec, int checksum, uint64_t seed, unsigned step, uint8_t *frame)
{
    tlc_config cfg = config(codec, TLC_BF16, TLC_ISA_SCALAR);
    size_t len = 0;

    cfg.dtype = TLC_F32;
    cfg.seed = seed;
    cfg.checksum = checksum;
    tlc_ctx *ctx = create(&cfg, in->n);
    for (unsigned i = 0; i <= step; i++)
        len = compress(ctx, in->sum, frame);
    tlc_destroy(ctx);
    return len;
}

static size_t capacity(const char *codec, size_t n)
{
    size_t bound = 0;

    require_status(tlc_codec_bound(codec, TLC_F32, n, &bound), TLC_OK);
    return bound;
}

static const char *const natural_codecs[] = {"natural", "natural:bits=9", "natural:shift=6", "natural:bits=9,shift=70"};

static void check_sum(const char *codec, size_t count, size_t n, int checksum, unsigned step)
{
    inputs in = make(codec, count, n, checksum, 1.0f);
    size_t cap = capacity(codec, n), written = 0, len;
    uint8_t *got = bytes(cap), *want = bytes(cap);

    at.codec = codec;
    at.n = n;
    at.i = count;
    len = expected(&in, codec, checksum, 7, step, want);
    const tlc_natural_aggregate_params *params = PARAMS(natural_aggregate, .seed = 7, .step = step);
    require_status(tlc_natural_aggregate(in.frames, count, params, got, cap, &written), TLC_OK);
    require(written == len);
    want[1] = (uint8_t)((want[1] & ~3u) | TLC_BF16); /* the first frame's dtype */
    size_t body = len - (checksum ? 4 : 0);
    require(same(got, want, body));
    tlc_frame_info info = {.struct_size = sizeof info};
    require_status(tlc_inspect(got, written, &info), TLC_OK);
    require(info.checksum == checksum && info.n == n && info.dtype == TLC_BF16);
    free(got);
    free(want);
    release(&in);
}

static void aggregates(void **state)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 1023, 1024, 1025, 5000};

    (void)state;
    for (size_t c = 0; c < COUNT(natural_codecs); c++)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (size_t count = 1; count <= MOST; count += 4)
                check_sum(natural_codecs[c], count, sizes[i], (int)(i & 1), (unsigned)(i % 3));
}

/* Sums that overflow binary32 are clipped and counted, as all sums that are too large. */
static void overflowing_sums(void **state)
{
    const size_t n = 50;
    float *grad = floats(n), *out = floats(n);
    size_t cap = capacity("natural:bits=9", n), len = 0, written = 0;
    uint8_t *frame = bytes(cap), *got = bytes(cap);
    tlc_frame_info info = {.struct_size = sizeof info};

    (void)state;
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

static void refuses(void **state)
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

    (void)state;
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
    require_status(tlc_natural_aggregate(in.frames, 2, NULL, got, cap, &written), TLC_OK);
    free(got);
    release(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aggregates),
        cmocka_unit_test(overflowing_sums),
        cmocka_unit_test(refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
