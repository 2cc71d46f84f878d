/* SPDX-License-Identifier: MIT
 *
 * tlc_compress_quartic makes the frames of tlc_compress, of symbols that were found elsewhere, and
 * tlc_decompress_quartic takes them apart again; and what they refuse.
 */
#include "../support/support.h"
#include <math.h>

enum { LARGEST = 70001 };
static const size_t sizes[] = {0, 1, 4, 5, 6, 99, 100, 101, 250, 1000, 5003, LARGEST};

/* What a device would send: the symbols of each unit as quartic bytes, and its scale. */
typedef struct quantized {
    float scales[LARGEST];
    uint8_t quartic[LARGEST];
    size_t len, units;
} quantized;

static void quantize(quantized *found, const float *x, size_t n, size_t block, float s)
{
    const size_t unit = block ? block : n;

    found->len = found->units = 0;
    for (size_t at_value = 0, i = 0; at_value < n; at_value += unit, i++) {
        const size_t count = n - at_value < unit ? n - at_value : unit;
        int8_t *q = (int8_t *)bytes(count);
        size_t len;
        require_status(tlc_ternary_encode(x + at_value, count, s, q, NULL, &found->scales[i]), TLC_OK);
        require_status(tlc_quartic_encode(q, count, found->quartic + found->len, LARGEST - found->len, &len), TLC_OK);
        found->len += len;
        found->units++;
        free(q);
    }
}

static float multiplier(const char *codec)
{
    const char *s = strstr(codec, "s=");
    return s ? strtof(s + 2, NULL) : 1.0f;
}

/* The frame gives back the symbols and the scales, on every ISA, into room that has not a byte more. */
static void gives_back(const quantized *made, const uint8_t *frame, size_t len, size_t n)
{
    uint8_t *quartic = bytes(made->len);
    float *scales = floats(made->units);

    FOR_EACH_ISA(isa) {
        const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
        memset(quartic, 0xaa, made->len);
        require_status(tlc_decompress_quartic(frame, len, n, quartic, made->len, scales, made->units, &opt), TLC_OK);
        require(same(quartic, made->quartic, made->len) && same(scales, made->scales, made->units * sizeof(float)));
    }
    free(quartic);
    free(scales);
}

static void same_frames(quantized *found, const codec_case *c, tlc_dtype dtype, data_kind kind, size_t n, int checksum)
{
    tlc_config cfg = config(c->text, dtype, TLC_ISA_AUTO);
    uint8_t *grad = bytes(n * dtype_size[dtype]), *scratch = bytes(tlc_quartic_scratch(c->text, n));
    float *x = floats(n);
    size_t len = 0;

    at = (place){.codec = c->text, .dtype = dtype, .n = n, .i = kind};
    cfg.feedback = 0;
    cfg.checksum = checksum;
    tlc_ctx *ctx = create(&cfg, n);
    fill_grad(kind, n + kind, dtype, grad, n);
    widen(dtype, grad, x, n);
    uint8_t *want = bytes(tlc_bound(ctx)), *got = bytes(tlc_bound(ctx));
    const size_t wanted = compress(ctx, grad, want);
    quantize(found, x, n, block_of(c->text), multiplier(c->text));
    require_status(tlc_compress_quartic(found->quartic, found->len, found->scales, n,
                                        PARAMS(quartic, .codec = c->text, .dtype = dtype, .checksum = checksum,
                                               .scratch = scratch),
                                        got, tlc_bound(ctx), &len),
                   TLC_OK);
    require(len == wanted && same(got, want, len));
    gives_back(found, got, len, n);
    tlc_destroy(ctx);
    free(grad);
    free(scratch);
    free(x);
    free(want);
    free(got);
}

TEST(frames)
{
    quantized *found = (quantized *)(void *)bytes(sizeof *found);
    size_t seen = 0;

    FOR_EACH_CODEC(c) {
        if (strncmp(c->decoding, "ternary", 7) != 0 || c->random)
            continue;
        seen++;
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (data_kind kind = DATA_LAPLACE; kind < DATA_COUNT; kind++)
                FOR_EACH_DTYPE(dtype)
                    if (sizes[i] < LARGEST || kind == DATA_SPARSE)
                        same_frames(found, c, dtype, kind, sizes[i], (int)(i + kind) % 2);
    }
    require(seen >= 8);
    free(found);
}

TEST(refusals)
{
    static const uint8_t quartic[] = {120, 201, 39, 120}; /* of 16 values, or of two blocks of 8 */
    const float one[] = {1, 1}, infinite[] = {1, INFINITY}, negative[] = {-1, 1};
    const tlc_quartic_params *plain = PARAMS(quartic, .codec = "3lc"),
                             *blocks = PARAMS(quartic, .codec = "ternary:block=8+quartic+zerorun", .checksum = 1);
    uint8_t dst[64];
    size_t len = 77, bound;

    at = (place){.note = "refusals"};
    require_status(tlc_codec_bound(blocks->codec, TLC_F32, 16, &bound), TLC_OK);
    memset(dst, 0xaa, sizeof dst);
    require_status(tlc_compress_quartic(quartic, 4, one, 16, NULL, dst, 64, &len), TLC_ERR_PARAM);
    require_status(tlc_compress_quartic(quartic, 4, one, 16, PARAMS(quartic, .codec = NULL), dst, 64, &len),
                   TLC_ERR_PARAM);
    require_status(tlc_compress_quartic(quartic, 4, one, 16, PARAMS(quartic, .codec = "sbc"), dst, 64, &len),
                   TLC_ERR_PARAM);
    require_status(tlc_compress_quartic(quartic, 4, one, 16, PARAMS(quartic, .codec = "3lc", .dtype = (tlc_dtype)3),
                                        dst, 64, &len),
                   TLC_ERR_PARAM);
    require_status(tlc_compress_quartic(quartic, 4, one, 16, PARAMS(quartic, .codec = "3lc-golomb"), dst, 64, &len),
                   TLC_ERR_PARAM); /* no scratch */
    require_status(tlc_compress_quartic(NULL, 4, one, 16, plain, dst, 64, &len), TLC_ERR_PARAM);
    require_status(tlc_compress_quartic(quartic, 4, NULL, 16, plain, dst, 64, &len), TLC_ERR_PARAM);
    require_status(tlc_compress_quartic(quartic, 4, one, 16, plain, NULL, 64, &len), TLC_ERR_PARAM);
    require_status(tlc_compress_quartic(quartic, 4, one, 16, plain, dst, 64, NULL), TLC_ERR_PARAM);
    require_status(tlc_compress_quartic(quartic, 3, one, 16, plain, dst, 64, &len), TLC_ERR_SIZE);
    require_status(tlc_compress_quartic(quartic, 4, one, 21, plain, dst, 64, &len), TLC_ERR_SIZE);
    require_status(tlc_compress_quartic("\xf3\x78\x78\x78", 4, one, 16, plain, dst, 64, &len), TLC_ERR_CORRUPT);
    require_status(tlc_compress_quartic("\x79\x79\x79\x79", 4, one, 16, plain, dst, 64, &len), TLC_ERR_CORRUPT);
    require_status(tlc_compress_quartic(quartic, 4, negative, 16, blocks, dst, 64, &len), TLC_ERR_NONFINITE);
    require_status(tlc_compress_quartic(quartic, 4, infinite, 16, blocks, dst, 64, &len), TLC_ERR_NONFINITE);
    require_status(tlc_compress_quartic(quartic, 4, one, 16, blocks, dst, bound - 1, &len), TLC_ERR_CAPACITY);
    require(len == 77 && all_bytes(dst, sizeof dst, 0xaa));
    require(tlc_quartic_scratch("3lc", 1000) == 0 && tlc_quartic_scratch("nonsense", 1000) == 0 &&
            tlc_quartic_scratch("3lc-golomb", 1000) >= 1000);
}

static size_t frame_of(const char *codec, uint8_t *frame)
{
    static const float x[16] = {1, 0, -1, 0.25f, 0, 0, 2, 0, 0, 0, 0, -2, 0, 0, 0, 1};
    const tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, 16);
    const size_t len = compress(ctx, x, frame);

    tlc_destroy(ctx);
    return len;
}

TEST(refusals_of_frames)
{
    uint8_t frame[256], sparse[256], quartic[8];
    const size_t len = frame_of("ternary:block=8+golomb", frame), other = frame_of("sbc:p=0.2", sparse);
    float scales[3];

    at = (place){.note = "refusals of frames"};
    memset(quartic, 0xaa, sizeof quartic);
    memset(scales, 0xaa, sizeof scales);
    require_status(tlc_decompress_quartic(NULL, len, 16, quartic, 4, scales, 2, NULL), TLC_ERR_PARAM);
    require_status(tlc_decompress_quartic(frame, len, 16, NULL, 4, scales, 2, NULL), TLC_ERR_PARAM);
    require_status(tlc_decompress_quartic(frame, len, 16, quartic, 4, NULL, 2, NULL), TLC_ERR_PARAM);
    require_status(tlc_decompress_quartic(frame, len, 16, quartic, 3, scales, 2, NULL), TLC_ERR_CAPACITY);
    require_status(tlc_decompress_quartic(frame, len, 16, quartic, 4, scales, 1, NULL), TLC_ERR_CAPACITY);
    require_status(tlc_decompress_quartic(frame, len, 15, quartic, 4, scales, 2, NULL), TLC_ERR_SIZE);
    require_status(tlc_decompress_quartic(frame, len - 1, 16, quartic, 4, scales, 2, NULL), TLC_ERR_CORRUPT);
    require_status(tlc_decompress_quartic(sparse, other, 16, quartic, 4, scales, 2, NULL), TLC_ERR_UNSUPPORTED);
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = (tlc_isa)99};
    require_status(tlc_decompress_quartic(frame, len, 16, quartic, 4, scales, 2, &opt), TLC_ERR_PARAM);
    require(all_bytes(quartic, sizeof quartic, 0xaa) && all_bytes(scales, sizeof scales, 0xaa));
    require_status(tlc_decompress_quartic(frame, len, 16, quartic, 8, scales, 3, NULL), TLC_OK);
    require(all_bytes(quartic + 4, 4, 0xaa) && all_bytes(scales + 2, 4, 0xaa) && scales[0] == 2 && scales[1] == 2);
}

SETUP(print_isas)
