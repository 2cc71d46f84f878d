/* SPDX-License-Identifier: MIT
 *
 * P1 for decoders: if anything is wrong with a frame or an argument, the output stays as it was.
 */
#include "../support/hostile.h"
#include <math.h>

enum { N = 73, ROOM = 2048 };

typedef struct frame {
    uint8_t bytes[ROOM];
    size_t len;
} frame;

static frame make_frame(const char *codec, tlc_dtype dtype, int checksum, data_kind kind, size_t n)
{
    tlc_config cfg = config(codec, dtype, TLC_ISA_AUTO);
    uint8_t *grad = bytes(n * 4);
    frame f = {{0}, 0};

    cfg.checksum = checksum;
    tlc_ctx *ctx = create(&cfg, n);
    require(tlc_bound(ctx) <= ROOM / 2);
    fill_grad(kind, 5, dtype, grad, n);
    f.len = compress(ctx, grad, f.bytes);
    tlc_destroy(ctx);
    free(grad);
    at = (place){.codec = codec, .dtype = dtype, .n = n, .note = checksum ? "with checksum" : "without checksum"};
    return f;
}

static const codec_case *codec_now(void)
{
    const codec_case *c = codecs;

    while (strcmp(c->text, at.codec) != 0)
        c++;
    return c;
}

static tlc_frame_info described(const frame *f)
{
    tlc_frame_info info = {.struct_size = sizeof info};

    require_status(tlc_inspect(f->bytes, f->len, &info), TLC_OK);
    return info;
}

typedef void attack_function(hostile *h, const frame *f, int checksum, size_t n, tlc_isa isa);

static void each_frame(attack_function *attack)
{
    static const data_kind kinds[] = {DATA_LAPLACE, DATA_SPARSE, DATA_ZERO, DATA_TIES, DATA_WIDE};
    static const size_t sizes[] = {0, 1, 4, 7, N};
    size_t turn = 0;
    hostile h;

    hostile_open(&h, ROOM, N + 8);
    FOR_EACH_CODEC(c)
        for (size_t s = 0; s < COUNT(sizes); s++)
            for (int checksum = 0; checksum < 2; checksum++) {
                frame f = make_frame(c->text, dtypes[turn % 3], checksum, kinds[(turn + turn / 10) % COUNT(kinds)],
                                     sizes[s]);
                turn++;
                FOR_EACH_ISA(isa) {
                    at.isa = isa;
                    require_status(hostile_decode(&h, f.bytes, f.len, sizes[s], isa), TLC_OK);
                    attack(&h, &f, checksum, sizes[s], isa);
                }
            }
    hostile_close(&h);
}

static void cut_short(hostile *h, const frame *f, int checksum, size_t n, tlc_isa isa)
{
    for (size_t len = 0; len < f->len; len++) {
        tlc_status status = hostile_decode(h, f->bytes, len, n, isa);
        at.i = len;
        require(status == TLC_ERR_CORRUPT || (checksum && status == TLC_ERR_CHECKSUM));
    }
}

TEST(p1_truncated_frames)
{
    each_frame(cut_short);
}

static void append(hostile *h, const frame *f, int checksum, size_t n, tlc_isa isa)
{
    static const uint8_t more[] = {0, 121, 242, 243, 255};

    for (size_t i = 0; i < COUNT(more); i++)
        for (size_t count = 1; count <= 8; count += count) {
            frame longer = *f;
            memset(longer.bytes + f->len, more[i], count);
            at.i = i;
            require_status(hostile_decode(h, longer.bytes, f->len + count, n, isa),
                           checksum ? TLC_ERR_CHECKSUM : TLC_ERR_CORRUPT);
        }
}

TEST(p1_trailing_bytes)
{
    each_frame(append);
}

static void flip(hostile *h, const frame *f, int checksum, size_t n, tlc_isa isa)
{
    frame flipped = *f;

    for (size_t bit = 0; bit < 8 * f->len; bit++) {
        at.i = bit;
        flipped.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        tlc_status status = hostile_decode(h, flipped.bytes, f->len, n, isa);
        require(!checksum || status != TLC_OK);
        flipped.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

TEST(p1_single_bit_flips)
{
    each_frame(flip);
}

/* The same with frames that are large enough for vectors and blocks. Each bit has one ISA in turn. */
static void flip_in_longer(hostile *h, const codec_case *c, int checksum, data_kind kind)
{
    enum { LONGER = 619 };
    tlc_config cfg = config(c->text, dtypes[(size_t)kind % 3], TLC_ISA_AUTO);
    const size_t stride = quick() ? 61 : 1;
    tlc_isa isa = TLC_ISA_NEON;

    cfg.checksum = checksum;
    tlc_ctx *ctx = create(&cfg, LONGER);
    uint8_t *grad = bytes(4 * LONGER), *src = bytes(tlc_bound(ctx));
    at = (place){.codec = c->text, .dtype = cfg.dtype, .n = LONGER, .note = "longer"};
    fill_grad(kind, 7, cfg.dtype, grad, LONGER);
    size_t len = compress(ctx, grad, src);
    for (size_t bit = 0; bit < 8 * len; bit += bit < 512 ? 1 : stride) {
        do
            isa = isa < TLC_ISA_NEON ? (tlc_isa)(isa + 1) : TLC_ISA_SCALAR;
        while (!tlc_isa_supported(isa));
        at.isa = isa;
        at.i = bit;
        src[bit / 8] ^= (uint8_t)(1u << bit % 8);
        tlc_status status = hostile_decode(h, src, len, LONGER, isa);
        require(!checksum || status != TLC_OK);
        src[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t bit = 0; checksum && bit < 8 * len; bit++) { /* each flipped bit is found */
        tlc_frame_info info = {.struct_size = sizeof info};
        at.i = bit;
        src[bit / 8] ^= (uint8_t)(1u << bit % 8);
        require(tlc_inspect(src, len, &info) != TLC_OK);
        src[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    tlc_destroy(ctx);
    free(grad);
    free(src);
}

TEST(p1_single_bit_flips_of_longer_frames)
{
    hostile h;

    hostile_open(&h, 16 * 1024, 619);
    FOR_EACH_CODEC(c)
        for (int checksum = 0; checksum < 2; checksum++)
            flip_in_longer(&h, c, checksum, (c - codecs) % 2 ? DATA_SPARSE : DATA_LAPLACE);
    hostile_close(&h);
}

static void other_size(hostile *h, const frame *f, int checksum, size_t n, tlc_isa isa)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
    uint8_t out[8];

    (void)checksum;
    for (size_t m = 0; m < N + 8; m++)
        if (m != n)
            require_status(hostile_decode(h, f->bytes, f->len, m, isa), TLC_ERR_SIZE);
    memset(out, HOSTILE_FILL, sizeof out);
    FOR_EACH_DTYPE(dtype) {
        require_status(tlc_decompress(f->bytes, f->len, dtype, out, SIZE_MAX, &opt), TLC_ERR_SIZE);
        require_status(tlc_decompress(f->bytes, f->len, dtype, out, SIZE_MAX / 8, &opt), TLC_ERR_SIZE);
    }
    require(all_bytes(out, sizeof out, HOSTILE_FILL));
}

TEST(p1_another_size)
{
    each_frame(other_size);
}

/* A negative or non-finite scalar, of a frame or of its last block. Means may be negative. */
static void bad_scalar(hostile *h, const frame *f, int checksum, size_t n, tlc_isa isa)
{
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x7f800001u, 0xffffffffu,
                                   0x80000000u, 0x80000001u, 0xbf800000u, 0xff7fffffu};
    tlc_frame_info info = described(f);
    const codec_case *c = codec_now();
    frame changed = *f;
    size_t offset = (size_t)info.header_size - 4 * c->scalars; /* src/frames/frame.h draws where they are */

    if (n == 0 || checksum)
        return;
    if (info.block)
        offset = (size_t)info.header_size + (size_t)((info.n - 1) / info.block) * (4 * c->scalars + 4);
    for (size_t s = 0; s < c->scalars; s++, offset += 4) {
        for (size_t i = 0; i < COUNT(bad); i++) {
            for (size_t k = 0; k < 4; k++)
                changed.bytes[offset + k] = (uint8_t)(bad[i] >> 8 * k);
            at.i = i;
            require_status(hostile_decode(h, changed.bytes, f->len, n, isa),
                           i >= 5 && c->any_sign ? TLC_OK : TLC_ERR_CORRUPT);
        }
        memcpy(changed.bytes + offset, f->bytes + offset, 4);
    }
}

TEST(p1_bad_scalars)
{
    each_frame(bad_scalar);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

TEST(p1_decoder_arguments)
{
    frame f = make_frame("3lc", TLC_F32, 0, DATA_LAPLACE, N);
    float out[N];
    tlc_decode_options opt = {.struct_size = sizeof opt};
    const float weights[] = {NAN, INFINITY, -INFINITY};

    memset(out, HOSTILE_FILL, sizeof out);
    for (size_t i = 0; i < COUNT(weights); i++)
        require_status(tlc_decompress_add(f.bytes, f.len, weights[i], out, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_decompress(f.bytes, f.len, (tlc_dtype)3, out, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_decompress(NULL, f.len, TLC_F32, out, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_decompress(f.bytes, f.len, TLC_F32, NULL, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_decompress_add(f.bytes, f.len, 1, NULL, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_mask(f.bytes, f.len, NULL, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_inspect(f.bytes, f.len, NULL), TLC_ERR_PARAM);
    require_status(tlc_decompress(NULL, 0, TLC_F32, out, N, NULL), TLC_ERR_CORRUPT);
    opt.isa = (tlc_isa)(TLC_ISA_NEON + 1);
    require_status(tlc_decompress(f.bytes, f.len, TLC_F32, out, N, &opt), TLC_ERR_PARAM);
    for (opt.isa = TLC_ISA_AUTO; opt.isa <= TLC_ISA_NEON; opt.isa++)
        if (!tlc_isa_supported(opt.isa)) {
            require_status(tlc_decompress(f.bytes, f.len, TLC_F32, out, N, &opt), TLC_ERR_UNSUPPORTED);
            require_status(tlc_decompress_add(f.bytes, f.len, 1, out, N, &opt), TLC_ERR_UNSUPPORTED);
            require_status(tlc_mask(f.bytes, f.len, out, N, &opt), TLC_ERR_UNSUPPORTED);
        }
    require(all_bytes(out, sizeof out, HOSTILE_FILL));
}

/* The order of reports: each fault together with all later ones. */
TEST(p1_order_of_reports)
{
    frame f = make_frame("3lc", TLC_F32, 1, DATA_LAPLACE, N);
    float out[N];

    f.bytes[f.len - 5] ^= 1; /* payload and checksum are wrong */
    require_status(tlc_decompress(f.bytes, f.len, TLC_F32, out, N + 1, NULL), TLC_ERR_CHECKSUM);
    f.bytes[2] = 0x7f;
    require_status(tlc_decompress(f.bytes, f.len, TLC_F32, out, N + 1, NULL), TLC_ERR_UNSUPPORTED);
    f.bytes[0] = TLC_FRAME_VERSION + 1;
    require_status(tlc_decompress(f.bytes, f.len, TLC_F32, out, N + 1, NULL), TLC_ERR_VERSION);
    require_status(tlc_decompress(f.bytes, 4, TLC_F32, out, N + 1, NULL), TLC_ERR_CORRUPT);
    require_status(tlc_decompress_add(f.bytes, 4, NAN, out, N + 1, NULL), TLC_ERR_PARAM);

    f = make_frame("3lc", TLC_F32, 0, DATA_LAPLACE, N);
    f.bytes[f.len - 1] ^= 0xff; /* n comes before the payload */
    require_status(tlc_decompress(f.bytes, f.len + 1, TLC_F32, out, N + 1, NULL), TLC_ERR_SIZE);
    require_status(tlc_decompress(f.bytes, f.len + 1, TLC_F32, out, N, NULL), TLC_ERR_CORRUPT);

    FOR_EACH_CODEC(c) /* tlc_mask refuses codecs without a zero last */
        if (!c->has_zero) {
            f = make_frame(c->text, TLC_F32, 0, DATA_LAPLACE, N);
            require_status(tlc_mask(f.bytes, f.len - 1, out, N, NULL), TLC_ERR_CORRUPT);
            require_status(tlc_mask(f.bytes, f.len, out, N + 1, NULL), TLC_ERR_SIZE);
            require_status(tlc_mask(f.bytes, f.len, out, N, NULL), TLC_ERR_UNSUPPORTED);
        }
}

SETUP(print_isas)
