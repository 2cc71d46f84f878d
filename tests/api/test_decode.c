/* SPDX-License-Identifier: MIT
 *
 * What decoders give for a good frame: values in any dtype, weighted sums, masks, and tlc_inspect's description.
 */
#include "../support/support.h"
#include <float.h>
#include <math.h>

enum { N = 317 };

static uint8_t frame[16 * N + 64];

static size_t make_frame(const codec_case *c, tlc_dtype dtype, int checksum, data_kind kind)
{
    tlc_config cfg = config(c->text, dtype, TLC_ISA_AUTO);
    uint8_t grad[4 * N];

    at = (place){.codec = c->text, .dtype = dtype, .n = N};
    cfg.checksum = checksum;
    cfg.feedback = 0;
    fill_grad(kind, 4, dtype, grad, N);
    tlc_ctx *ctx = create(&cfg, N);
    size_t len = compress(ctx, grad, frame);
    tlc_destroy(ctx);
    return len;
}

TEST(into_every_dtype)
{
    float values[N];
    uint8_t out[4 * N], want[4 * N];

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(from)
            FOR_EACH_ISA(isa) {
                const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
                size_t len = make_frame(c, from, 0, DATA_LAPLACE);
                require_status(tlc_decompress(frame, len, TLC_F32, values, N, &opt), TLC_OK);
                FOR_EACH_DTYPE(to) {
                    require_status(tlc_convert(TLC_F32, values, to, want, N), TLC_OK);
                    require_status(tlc_decompress(frame, len, to, out, N, &opt), TLC_OK);
                    require(same(out, want, N * dtype_size[to]));
                }
            }
}

/* A value that is too large for the output becomes infinity, and is no error. The largest value of natural with 8 bits
 * is 1024. */
TEST(overflow_to_infinity)
{
    float g[N], values[N];
    uint16_t out[N];
    size_t written = 0;

    for (size_t i = 0; i < N; i++)
        g[i] = i % 3 ? 1e37f : -1e37f;
    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        size_t infinite = 0;
        at = (place){.codec = c->text};
        tlc_ctx *ctx = create(&cfg, N);
        require_status(tlc_compress(ctx, g, frame, tlc_bound(ctx), &written), TLC_OK);
        require_status(tlc_decompress(frame, written, TLC_F32, values, N, NULL), TLC_OK);
        require_status(tlc_decompress(frame, written, TLC_F16, out, N, NULL), TLC_OK);
        for (at.i = 0; at.i < N; at.i++)
            if (fabsf(values[at.i]) > 65536) {
                require(out[at.i] == (values[at.i] < 0 ? 0xfc00 : 0x7c00));
                infinite++;
            }
        require(infinite || !strcmp(c->decoding, "natural"));
        require(infinite == N || c->random || c->clips || c->bound == BOUND_BY_TIES || c->bound == BOUND_BY_PLACES);
        tlc_destroy(ctx);
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Maps each NaN that an operation makes to one bit pattern: machines make different ones. */
static uint32_t sum_bits(float sum, float product)
{
    volatile float x = sum + product;
    return x == x ? float_bits(x) : 0x7fc00000u;
}

TEST(weighted_sums)
{
    static const float weights[] = {1.0f, -1.0f, 0.3f, 0.0f, -0.0f, 1e-42f, 1e38f, FLT_MAX};
    static const data_kind kinds[] = {DATA_LAPLACE, DATA_TIES, DATA_TINY, DATA_WIDE};
    float values[N], sum[N], before[N];

    FOR_EACH_CODEC(c)
        for (size_t k = 0; k < COUNT(weights) * COUNT(kinds); k++)
            FOR_EACH_ISA(isa) {
                const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
                float weight = weights[k / COUNT(kinds)];
                size_t len = make_frame(c, TLC_F32, 0, kinds[k % COUNT(kinds)]);
                at.isa = isa;
                require_status(tlc_decompress(frame, len, TLC_F32, values, N, NULL), TLC_OK);
                fill(DATA_LAPLACE, 8, before, N);
                memcpy(sum, before, sizeof sum);
                require_status(tlc_decompress_add(frame, len, weight, sum, N, &opt), TLC_OK);
                for (at.i = 0; at.i < N; at.i++) { /* +-M * weight rounds as M * weight does */
                    volatile float product = weight * values[at.i];
                    uint32_t want = c->has_zero && values[at.i] == 0 ? float_bits(before[at.i])
                                                                     : sum_bits(before[at.i], product);
                    require(float_bits(sum[at.i]) == want);
                }
            }
}

/* A zero symbol leaves any bits as they are: NaN, infinities and -0. Other symbols keep a NaN and make it quiet, or
 * make it the one NaN of codecs that send a value each. */
TEST(sums_beside_zeros)
{
    static const uint32_t odd[] = {0x7fc00000u, 0xffc12345u, 0x7f800000u, 0xff800000u, 0x80000000u, 1u, 0xff812345u};
    float values[N], sum[N], before[N];

    for (size_t i = 0; i < N; i++)
        before[i] = bits_float(odd[i % COUNT(odd)]);
    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa) {
            const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
            size_t len = make_frame(c, TLC_F32, 0, DATA_LAPLACE);
            at.isa = isa;
            require_status(tlc_decompress(frame, len, TLC_F32, values, N, NULL), TLC_OK);
            memcpy(sum, before, sizeof sum);
            require_status(tlc_decompress_add(frame, len, 1.0f, sum, N, &opt), TLC_OK);
            for (at.i = 0; at.i < N; at.i++)
                if (values[at.i] == 0 && c->has_zero)
                    require(same(&sum[at.i], &before[at.i], 4));
                else if (before[at.i] != before[at.i])
                    require(float_bits(sum[at.i]) ==
                            (c->symbols ? float_bits(before[at.i]) | 0x00400000u : 0x7fc00000u));
                else
                    require(float_bits(sum[at.i]) == sum_bits(before[at.i], values[at.i]));
        }
}

/* weight * M, or weight times a value, overflows. Infinities are added; infinity - infinity is the one NaN. */
TEST(infinite_weights)
{
    static const float sum[5] = {1, 1, -INFINITY, INFINITY, -0.0f};
    float g[5 * 40], values[5 * 40], x[5 * 40];
    size_t n = COUNT(g), written = 0;

    for (size_t i = 0; i < n; i++)
        g[i] = i % 5 == 4 ? 0 : i % 2 ? -1e37f : 1e37f;
    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa) {
            const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
            tlc_config cfg = config(c->text, TLC_F32, isa);
            size_t overflows = 0;
            at = (place){.codec = c->text, .isa = isa};
            tlc_ctx *ctx = create(&cfg, n);
            for (size_t i = 0; i < n; i++)
                x[i] = sum[i % 5];
            require_status(tlc_compress(ctx, g, frame, tlc_bound(ctx), &written), TLC_OK);
            require_status(tlc_decompress(frame, written, TLC_F32, values, n, &opt), TLC_OK);
            require_status(tlc_decompress_add(frame, written, FLT_MAX, x, n, &opt), TLC_OK);
            for (at.i = 0; at.i < n; at.i++) {
                float v = values[at.i], was = sum[at.i % 5];
                uint32_t want = v == 0 && c->has_zero                   ? float_bits(was)
                                : v == 0                                ? sum_bits(was, 0)
                                : was == (v > 0 ? -INFINITY : INFINITY) ? 0x7fc00000u
                                : v > 0                                 ? 0x7f800000u
                                                                        : 0xff800000u;
                require(float_bits(x[at.i]) == want);
                overflows += v != 0;
            }
            require(overflows >= 1);
            tlc_destroy(ctx);
        }
}

TEST(masks)
{
    float values[N], momentum[N], before[N];

    for (size_t i = 0; i < N; i++)
        before[i] = i % 3 ? -1.5f : bits_float(0xffc00001u);
    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa) {
            const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
            size_t len = make_frame(c, TLC_F16, 1, DATA_LAPLACE);
            at.isa = isa;
            memcpy(momentum, before, sizeof momentum);
            require_status(tlc_decompress(frame, len, TLC_F32, values, N, &opt), TLC_OK);
            require_status(tlc_mask(frame, len, momentum, N, &opt), c->has_zero ? TLC_OK : TLC_ERR_UNSUPPORTED);
            for (at.i = 0; at.i < N; at.i++)
                if (c->has_zero && values[at.i] != 0)
                    require(float_bits(momentum[at.i]) == 0);
                else
                    require(same(&momentum[at.i], &before[at.i], 4));
        }
}

/* ---- options and descriptions ------------------------------------------------------------------------------------ */

TEST(option_sizes)
{
    struct {
        tlc_decode_options opt;
        uint8_t more[16];
    } newer;
    size_t len = make_frame(&codecs[0], TLC_F32, 0, DATA_LAPLACE);
    float want[N], out[N];
    const size_t ends[] = {offsetof(tlc_decode_options, isa), offsetof(tlc_decode_options, parallel), sizeof newer.opt};

    require_status(tlc_decompress(frame, len, TLC_F32, want, N, NULL), TLC_OK);
    for (size_t i = 0; i < COUNT(ends); i++) {
        memset(&newer, 0xa5, sizeof newer);
        memset(&newer, 0, ends[i]);
        newer.opt.struct_size = ends[i];
        memset(out, 0, sizeof out);
        require_status(tlc_decompress(frame, len, TLC_F32, out, N, &newer.opt), TLC_OK);
        require(same(want, out, sizeof out));
    }
    memset(&newer, 0, sizeof newer);
    newer.opt.struct_size = sizeof newer;
    require_status(tlc_decompress(frame, len, TLC_F32, out, N, &newer.opt), TLC_OK);
    newer.more[15] = 1;
    require_status(tlc_decompress(frame, len, TLC_F32, out, N, &newer.opt), TLC_ERR_PARAM);
    newer.opt.struct_size = 1;
    require_status(tlc_decompress(frame, len, TLC_F32, out, N, &newer.opt), TLC_ERR_PARAM);
}

TEST(inspect_fields)
{
    float values[N];

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            for (int kind = 0; kind < DATA_COUNT; kind++)
                for (int checksum = 0; checksum < 2; checksum++) {
                    size_t len = make_frame(c, dtype, checksum, (data_kind)kind), nonzero = 0;
                    tlc_frame_info info;
                    memset(&info, 0xa5, sizeof info);
                    info.struct_size = sizeof info;
                    require_status(tlc_inspect(frame, len, &info), TLC_OK);
                    require_status(tlc_decompress(frame, len, TLC_F32, values, N, NULL), TLC_OK);
                    for (size_t i = 0; i < N; i++)
                        nonzero += values[i] != 0;
                    require(info.struct_size == sizeof info && info.version == TLC_FRAME_VERSION);
                    require(info.dtype == dtype && info.checksum == checksum && info.n == N);
                    require(!strcmp(info.codec, c->decoding));
                    require(info.block == block_of(c->text));
                    require(info.nonzero == (c->has_zero ? nonzero : TLC_UNKNOWN));
                    require(info.clipped == 0 || c->clips);
                    require(info.header_size + info.payload_size + (checksum ? 4 : 0) == len);
                    require_status(tlc_codec_bound(info.codec, dtype, N, &(size_t){0}), TLC_OK); /* a codec string */
                }
}

/* Are the first size bytes of two infos the same? struct_size and the padding after codec do not count. */
static int same_fields(const tlc_frame_info *a, const tlc_frame_info *b, size_t size)
{
    const size_t first = sizeof a->struct_size, pad = offsetof(tlc_frame_info, codec) + sizeof a->codec;
    const size_t rest = offsetof(tlc_frame_info, n);

    return same((const uint8_t *)a + first, (const uint8_t *)b + first, (size < pad ? size : pad) - first) &&
           (size <= rest || same((const uint8_t *)a + rest, (const uint8_t *)b + rest, size - rest));
}

TEST(inspect_sizes)
{
    static const size_t ends[] = {offsetof(tlc_frame_info, version),  offsetof(tlc_frame_info, dtype),
                                  offsetof(tlc_frame_info, checksum), offsetof(tlc_frame_info, codec),
                                  offsetof(tlc_frame_info, n),        offsetof(tlc_frame_info, nonzero),
                                  offsetof(tlc_frame_info, clipped),  sizeof(tlc_frame_info)};
    size_t len = make_frame(&codecs[0], TLC_F16, 1, DATA_LAPLACE);
    tlc_frame_info full = {.struct_size = sizeof full};
    struct {
        tlc_frame_info info;
        uint8_t more[16];
    } other;

    require_status(tlc_inspect(frame, len, &full), TLC_OK);
    for (at.i = 0; at.i < COUNT(ends); at.i++) {
        memset(&other, 0xa5, sizeof other);
        other.info.struct_size = ends[at.i];
        require_status(tlc_inspect(frame, len, &other.info), TLC_OK);
        require(other.info.struct_size == ends[at.i]);
        require(same_fields(&other.info, &full, ends[at.i]));
        require(all_bytes((uint8_t *)&other + ends[at.i], sizeof other - ends[at.i], 0xa5));
    }
    memset(&other, 0xa5, sizeof other);
    other.info.struct_size = sizeof other;
    require_status(tlc_inspect(frame, len, &other.info), TLC_OK);
    require(other.info.struct_size == sizeof other && all_bytes(other.more, sizeof other.more, 0));
    require(other.info.n == N && other.info.payload_size == full.payload_size);
    for (other.info.struct_size = 0; other.info.struct_size < sizeof(size_t); other.info.struct_size++)
        require_status(tlc_inspect(frame, len, &other.info), TLC_ERR_PARAM);
    require_status(tlc_inspect(frame, len, NULL), TLC_ERR_PARAM);
    require_status(tlc_inspect(NULL, len, &other.info), TLC_ERR_PARAM);
    require_status(tlc_inspect(NULL, 0, &other.info), TLC_ERR_CORRUPT);
}

SETUP(print_isas)
