/* SPDX-License-Identifier: MIT
 *
 * tlc_convert, and the conversions of the decoders on every ISA. Every 16-bit value is widened. Narrowing is tested at
 * the middle between any two neighbours and on both sides of it. Rounding is monotonic, so no other value can differ.
 */
#include "../support/support.h"

enum { ALL = 65536 };

/* TLC_ISA_AUTO stands for tlc_convert itself. */
/* NOLINTBEGIN(bugprone-macro-parentheses): isa is a name to declare */
#define FOR_EACH_WAY(isa)                                                                                              \
    for (tlc_isa isa = TLC_ISA_AUTO; isa <= TLC_ISA_NEON; isa++)                                                       \
        if (tlc_isa_supported(isa))
/* NOLINTEND(bugprone-macro-parentheses) */

/* A raw frame can hold any bits, and its decoder converts with the ISA of the options. */
static void convert(tlc_isa isa, const void *in, tlc_dtype from, void *out, tlc_dtype to, size_t n)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
    tlc_config cfg = config("raw", from, isa);

    at = (place){.dtype = from, .isa = isa, .n = n};
    if (isa == TLC_ISA_AUTO) {
        require_status(tlc_convert(from, in, to, out, n), TLC_OK);
        return;
    }
    tlc_ctx *ctx = create(&cfg, n);
    uint8_t *frame = bytes(tlc_bound(ctx));
    size_t len = compress(ctx, in, frame);
    require_status(tlc_decompress(frame, len, to, out, n, &opt), TLC_OK);
    tlc_destroy(ctx);
    free(frame);
}

static uint32_t sign_of(size_t half)
{
    return (uint32_t)(half & 0x8000) << 16;
}

static size_t infinity_of(tlc_dtype dtype)
{
    return dtype == TLC_F16 ? 0x7c00 : 0x7f80;
}

static uint16_t *all_halfs(void)
{
    uint16_t *h = (uint16_t *)(void *)bytes(ALL * 2);

    for (size_t i = 0; i < ALL; i++)
        h[i] = (uint16_t)i;
    return h;
}

TEST(widening)
{
    uint16_t *halfs = all_halfs();
    float *wide = floats(ALL);

    for (tlc_dtype dtype = TLC_F16; dtype <= TLC_BF16; dtype++)
        FOR_EACH_WAY(isa) {
            convert(isa, halfs, dtype, wide, TLC_F32, ALL);
            for (at.i = 0; at.i < ALL; at.i++)
                require(widened(TLC_F32, wide, at.i) == widened(dtype, halfs, at.i));
        }
    free(halfs);
    free(wide);
}

TEST(round_trip)
{
    uint16_t *halfs = all_halfs(), *back = (uint16_t *)(void *)bytes(ALL * 2);
    float *wide = floats(ALL);

    for (tlc_dtype dtype = TLC_F16; dtype <= TLC_BF16; dtype++)
        FOR_EACH_WAY(isa) {
            size_t inf = infinity_of(dtype), quiet = dtype == TLC_F16 ? 0x200 : 0x40;
            convert(isa, halfs, dtype, wide, TLC_F32, ALL);
            convert(isa, wide, TLC_F32, back, dtype, ALL);
            for (at.i = 0; at.i < ALL; at.i++)
                require(back[at.i] == ((at.i & 0x7fff) > inf ? (at.i | quiet) : at.i));
            convert(isa, halfs, dtype, back, dtype, ALL); /* the same dtype copies the bits */
            require(same(halfs, back, ALL * 2));
        }
    free(halfs);
    free(back);
    free(wide);
}

/* The middle between the magnitudes half and half + 1, as binary32 bits. It is exact: binary32 has enough bits. */
static uint32_t middle(tlc_dtype dtype, uint16_t half)
{
    uint16_t next = (uint16_t)(half + 1);

    if (dtype == TLC_BF16)
        return (uint32_t)half << 16 | 0x8000;
    if (next == 0x7c00) /* infinity, in the place of 2^16 */
        return 0x477ff000;
    return float_bits((bits_float(widened(dtype, &half, 0)) + bits_float(widened(dtype, &next, 0))) * 0.5f);
}

TEST(narrowing)
{
    uint32_t *in = (uint32_t *)(void *)floats(3 * ALL);
    uint16_t *out = (uint16_t *)(void *)floats(3 * ALL);

    for (tlc_dtype dtype = TLC_F16; dtype <= TLC_BF16; dtype++) {
        for (size_t i = 0; i < ALL; i++)
            for (uint32_t k = 0; k < 3; k++) /* one below, the middle, one above */
                in[3 * i + k] = (i & 0x7fff) < infinity_of(dtype)
                                    ? sign_of(i) | (middle(dtype, (uint16_t)(i & 0x7fff)) + k - 1)
                                    : 0;
        FOR_EACH_WAY(isa) {
            convert(isa, in, TLC_F32, out, dtype, 3 * ALL);
            for (at.i = 0; at.i < ALL; at.i++) {
                if ((at.i & 0x7fff) >= infinity_of(dtype))
                    continue;
                require(out[3 * at.i] == at.i);
                require(out[3 * at.i + 1] == at.i + at.i % 2); /* to even */
                require(out[3 * at.i + 2] == at.i + 1);
            }
        }
    }
    free(in);
    free(out);
}

TEST(special_values)
{
    /*                              inf         overflow    quiet NaN   signalling  payload     least       zero */
    static const uint32_t in[] = {0x7f800000, 0x7f7fffff, 0x7fc00000, 0x7f800001, 0x7fabcdef, 0x00000001, 0x00000000};
    static const uint16_t f16[] = {0x7c00, 0x7c00, 0x7e00, 0x7e00, 0x7e00 | (0x2bcdef >> 13), 0, 0};
    static const uint16_t bf16[] = {0x7f80, 0x7f80, 0x7fc0, 0x7fc0, 0x7feb, 0, 0};
    uint16_t out[20];

    for (size_t i = 0; i < COUNT(in); i++)
        for (uint32_t negative = 0; negative < 2; negative++) {
            uint32_t bits[20]; /* a value in a vector and one in what is left over */
            for (size_t k = 0; k < 20; k++)
                bits[k] = in[i] | negative << 31;
            FOR_EACH_WAY(isa) {
                convert(isa, bits, TLC_F32, out, TLC_F16, 20);
                at.i = i;
                require(out[0] == (f16[i] | negative << 15) && out[19] == out[0]);
                convert(isa, bits, TLC_F32, out, TLC_BF16, 20);
                require(out[0] == (bf16[i] | negative << 15) && out[19] == out[0]);
            }
        }
}

/* A conversion from one 16-bit dtype to the other goes by way of binary32. */
TEST(between_halfs)
{
    uint16_t *halfs = all_halfs(), *direct = (uint16_t *)(void *)bytes(ALL * 2);
    uint16_t *by_way = (uint16_t *)(void *)bytes(ALL * 2);
    float *wide = floats(ALL);

    for (tlc_dtype dtype = TLC_F16; dtype <= TLC_BF16; dtype++) {
        tlc_dtype to = dtype == TLC_F16 ? TLC_BF16 : TLC_F16;
        FOR_EACH_WAY(isa) {
            convert(isa, halfs, dtype, direct, to, ALL);
            convert(isa, halfs, dtype, wide, TLC_F32, ALL);
            convert(isa, wide, TLC_F32, by_way, to, ALL);
            require(same(direct, by_way, ALL * 2));
        }
    }
    free(halfs);
    free(direct);
    free(by_way);
    free(wide);
}

/* Any alignment; exactly n values are read and written. */
TEST(sizes_and_alignments)
{
    uint8_t in[4 * 80 + 8], want[4 * 80], out[4 * 80 + 8];
    rng r = {5};

    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)rng_next(&r);
    FOR_EACH_DTYPE(from)
        FOR_EACH_DTYPE(to)
            for (size_t n = 0; n < 80; n++)
                for (size_t offset = 0; offset < 8; offset++) {
                    size_t size = n * dtype_size[to];
                    at = (place){.dtype = from, .n = n, .i = offset};
                    memmove(in + offset, in, n * dtype_size[from]);
                    require_status(tlc_convert(from, in + offset, to, want, n), TLC_OK);
                    memset(out, 0x3c, sizeof out);
                    require_status(tlc_convert(from, in + offset, to, out + offset, n), TLC_OK);
                    require(same(out + offset, want, size));
                    require(all_bytes(out, offset, 0x3c));
                    require(all_bytes(out + offset + size, sizeof out - offset - size, 0x3c));
                    for (size_t i = 0; to == TLC_F32 && i < n; i++)
                        require(widened(to, want, i) == widened(from, in + offset, i));
                }
}

TEST(refusals)
{
    uint32_t in = 1, out = 7;

    require_status(tlc_convert((tlc_dtype)3, &in, TLC_F32, &out, 1), TLC_ERR_PARAM);
    require_status(tlc_convert(TLC_F32, &in, (tlc_dtype)-1, &out, 1), TLC_ERR_PARAM);
    require_status(tlc_convert(TLC_F32, NULL, TLC_F16, &out, 1), TLC_ERR_PARAM);
    require_status(tlc_convert(TLC_F32, &in, TLC_F16, NULL, 1), TLC_ERR_PARAM);
    require(out == 7);
}

SETUP(print_isas)
