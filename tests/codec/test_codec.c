/* SPDX-License-Identifier: MIT
 *
 * Codec strings, the numbers in them, and bounds of frames. (Messages about codec strings: test_codec_words.c.)
 */
#include "../support/support.h"
#include <locale.h>
#include <math.h>

static tlc_status parse(const char *text)
{
    size_t bound = 77;
    tlc_status status = tlc_codec_bound(text, TLC_F32, 10, &bound);
    tlc_ctx *ctx = NULL;
    tlc_config cfg = config(text, TLC_F32, TLC_ISA_AUTO);

    set_note(text);
    require((status == TLC_OK) == (bound != 77));
    require_status(tlc_create(&ctx, &cfg, 10), status); /* the same grammar as tlc_codec_check */
    tlc_destroy(ctx);
    cfg = config("raw", TLC_F32, TLC_ISA_AUTO);
    if (*text && !strchr(text, ';')) { /* reserve takes lists */
        cfg.reserve = text;
        ctx = NULL;
        require_status(tlc_create(&ctx, &cfg, 10), status);
        if (ctx)
            require_status(tlc_set_codec(ctx, text), TLC_OK);
        tlc_destroy(ctx);
    }
    cfg.reserve = "onebit:block=1;3lc-golomb"; /* room and scratch for every codec */
    ctx = create(&cfg, 10);
    require_status(tlc_set_codec(ctx, text), status);
    tlc_destroy(ctx);
    require_status(tlc_codec_check(text, NULL, 0), status);
    return status;
}

TEST(good_strings)
{
    /* clang-format off */
    static const char *const good[] = {
        "3lc", "3lc:s=1", "3lc:s=1.0", "3lc:s=01.5", "3lc:s=1.75,block=5", "3lc:block=5,s=1.75", "3lc:block=1",
        "ternary+quartic", "ternary+quartic+zerorun", "ternary:s=1.5+quartic+zerorun",
        "ternary:block=9,s=1.5+quartic", "raw", "raw:block=7", "3lc:block=268435456",
        "3lc:s=1.9999999",                  /* below 2 - 2^-24: not rounded up to 2 */
        "3lc:s=0.99999999999",              /* rounds to 1 */
        "3lc:s=1.00000000000000000000000",  /* zeros at the end change nothing */
        "3lc-golomb", "3lc-golomb:s=1.5,block=9", "ternary+golomb", "ternary:block=9,s=1.5+golomb",
        "stochastic-ternary+quartic", "stochastic-ternary:block=5+golomb", "stochastic-ternary+quartic+zerorun",
        "sbc", "sbc:p=1", "sbc:p=1.0", "sbc:p=0.5,block=3", "sbc:block=3,p=0.000000001", "sparse-binary:p=0.3+golomb",
        "sbc:p=01.000", "sbc:p=0.99999999999999999999", /* rounds to 1 */
        "sbc:p=1.0000000000000001110223024625156540423631668090820312500", /* 1 + 2^-53 is a tie: to 1 */
        "topk", "topk:p=0.25", "random-sparse:p=0.5,block=7", "random-sparse", "onebit", "onebit:block=1", "int8",
        "int8:block=268435456", "qsgd", "qsgd:bits=8", "qsgd:bits=4", "qsgd:block=3,bits=4", "natural",
        "natural:bits=8", "natural:bits=9", "natural:rounding=random", "natural:rounding=nearest", "natural:shift=0",
        "natural:shift=117", "natural:shift=007", "natural:block=3,shift=117,rounding=nearest,bits=9",
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT(good); i++)
        require_status(parse(good[i]), TLC_OK);
    FOR_EACH_CODEC(c)
        require_status(parse(c->text), TLC_OK);
}

TEST(bad_strings)
{
    /* clang-format off */
    static const char *const bad[] = {
        /* names and their order */
        "", " ", "+", ":", ",", "=", ";", "3LC", "3l", "3lcc", " 3lc", "3lc ", "3lc\n", "\t3lc", "+3lc", "3lc+",
        "3lc:+",
        "3lc+zerorun", "3lc+3lc", "3lc+raw", "raw+3lc", "raw+quartic", "raw+zerorun", "raw+raw", "quartic", "zerorun",
        "quartic+zerorun", "quartic+ternary", "ternary", "ternary:s=1.5", "ternary+", "ternary++quartic",
        "ternary+zerorun",
        "ternary+quartic+", "ternary +quartic", "ternary+ quartic", "ternary+quartic+quartic", "ternary+quartic+raw",
        "ternary+quartic+zerorun+zerorun", "ternary+ternary+quartic", "ternary+quartic+zerorun+quartic", "3lc;raw",
        /* parameters */
        "3lc:", "3lc:s", "3lc:s=", "3lc:=1", "3lc:=", "3lc:,", "3lc:s=1,", "3lc:,s=1", "3lc:s=1,,block=5",
        "3lc:s=1:block=5",
        "3lc:s=1,s=1", "3lc:block=5,block=5", "3lc:S=1", "3lc: s=1", "3lc:s =1", "3lc:s= 1", "3lc:s=1 ", "3lc:x=1",
        "raw:s=1",
        "3lc-golomb:p=0.5", "sbc:s=1", "sbc:p", "sbc:p=", "sbc:p=0.1,p=0.1", "sbc:p=0.1,block=2,p=0.2", "sbc:P=0.1",
        "sparse-binary+golomb:p=0.1", "sbc+golomb", "sbc+quartic", "3lc-golomb+golomb", "int8:bits=8", "int8:p=1",
        "onebit:p=0.5", "qsgd:p=1", "stochastic-ternary:s=1+quartic", "natural:bits=9,bits=9", "natural:bits=8,bits=9",
        "natural:shift=1,bits=9,shift=1", "qsgd:bits=8,bits=8", "int8:block=3,block=3", "raw:shift=0", "raw:seed=1",
        "ternary+quartic:s=1", "ternary+quartic:block=5", "ternary+quartic+zerorun:block=5", "ternary:+quartic",
        "3lc:s==1",
        /* numbers */
        "3lc:s=2", "3lc:s=0", "3lc:s=0.99", "3lc:s=2.5", "3lc:s=-1", "3lc:s=+1", "3lc:s=1e0", "3lc:s=0x1", "3lc:s=nan",
        "3lc:s=inf", "3lc:s=.", "3lc:s=1.", "3lc:s=.5", "3lc:s=1..5", "3lc:s=1.5.5", "3lc:s=1,5", "3lc:s=1'5",
        "3lc:s=1_5",
        "3lc:s=1.99999999", /* rounds to 2 */
        "sbc:p=0", "sbc:p=0.0", "sbc:p=1.1", "sbc:p=2", "sbc:p=-0.1", "sbc:p=.1", "sbc:p=1.", "sbc:p=1e-3", "sbc:p=1%",
        "sbc:p=1.0000000000000001110223024625156540423631668090820312501", "sbc:p=1.0000000000000003", "topk:p=0",
        "topk:p=1.0001", "random-sparse:p=0", "random-sparse:p=1.5", "random-sparse:p=nan", "sbc:p=0.1 ", "sbc:p= 0.1",
        "natural:bits=", "natural:bits=7", "natural:bits=10", "natural:bits=08", "natural:bits=8.0", "natural:bits=9 ",
        "natural:bits=89", "natural:rounding=", "natural:rounding=Random", "natural:rounding=near",
        "natural:rounding=nearest1", "natural:rounding=0", "natural:rounding=randomnearest", "natural:shift=118",
        "natural:shift=-1", "natural:shift=1.0", "natural:shift=1.5", "natural:shift=", "natural:shift=1e1",
        "natural:shift=18446744073709551616", "natural:shift=18446744073709551617", "qsgd:bits=9", "qsgd:bits=2",
        "qsgd:bits=", "qsgd:bits=4.0", "qsgd:bits=04",
        "3lc:s=18446744073709551616", "3lc:s=18446744073709551617", "3lc:s=99999999999999999999999999",
        "3lc:block=0", "3lc:block=00", "3lc:block=-1", "3lc:block=1.0", "3lc:block=1.", "3lc:block=1.5", "3lc:block=",
        "3lc:block=268435457", "3lc:block=4294967297", "3lc:block=18446744073709551617", "3lc:block=1e3", "raw:block=0",
    };
    /* clang-format on */

    for (size_t i = 0; i < COUNT(bad); i++)
        require_status(parse(bad[i]), TLC_ERR_PARAM);
    require_status(tlc_codec_bound(NULL, TLC_F32, 10, &(size_t){0}), TLC_ERR_PARAM);
    require_status(tlc_codec_bound("3lc", (tlc_dtype)3, 10, &(size_t){0}), TLC_ERR_PARAM);
    require_status(tlc_codec_bound("3lc", TLC_F32, 10, NULL), TLC_ERR_PARAM);
}

/* A codec string has at most 127 characters. */
TEST(long_strings)
{
    char text[200];

    for (size_t len = 120; len < 140; len++) {
        strcpy(text, "3lc:s=1.5");
        memset(text + 9, '0', len - 9);
        text[len] = 0;
        at.i = len;
        require_status(parse(text), len <= 127 ? TLC_OK : TLC_ERR_PARAM);
    }
    memset(text, 'x', 199);
    text[199] = 0;
    require_status(parse(text), TLC_ERR_PARAM);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* With a gradient whose largest magnitude is 1, M is s, and a value decodes to it. */
static uint32_t parsed_s(const char *digits)
{
    char text[128];
    uint8_t frame[32];
    const float one = 1.0f;
    float out = 0;

    snprintf(text, sizeof text, "3lc:s=%s", digits);
    tlc_config cfg = config(text, TLC_F32, TLC_ISA_AUTO);
    set_note(text);
    tlc_ctx *ctx = create(&cfg, 1);
    size_t len = compress(ctx, &one, frame);
    require_status(tlc_decompress(frame, len, TLC_F32, &out, 1, NULL), TLC_OK);
    tlc_destroy(ctx);
    at.note = NULL;
    return float_bits(out);
}

/* Decimals from 1 to 2: any; in the middle between two neighbours, which takes 24 digits; very close to the middle. */
static void make_digits(rng *r, size_t kind, char digits[120])
{
    double middle = 1 + ((double)rng_below(r, 8388607) + 0.5) / 8388608.0;
    int places = 1 + (int)rng_below(r, 100);

    if (kind == 0) {
        strcpy(digits, "1.");
        for (int i = 0; i < places; i++)
            digits[2 + i] = (char)('0' + rng_below(r, 10));
        digits[2 + places] = 0;
    } else if (kind == 1)
        snprintf(digits, 120, "%.*f", 8 + (int)rng_below(r, 17), middle);
    else
        snprintf(digits, 120, "%.24f%0*d", middle, 1 + (int)rng_below(r, 80), (int)rng_below(r, 2));
}

TEST(numbers_are_rounded_right)
{
    char digits[120];
    rng r = {12};

    for (at.i = 0; at.i < (quick() ? 600u : 6000u); at.i++) {
        make_digits(&r, at.i % 3, digits);
        float want = strtof(digits, NULL);
        if (want < 2)
            require(parsed_s(digits) == float_bits(want));
    }
}

/* The program has set a locale with a decimal comma. */
TEST(numbers_know_no_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE",
                                        "fr_FR.UTF-8", "fr_FR.utf8", "nl_NL.UTF-8"};
    size_t i = 0;

    while (i < COUNT(names) && !setlocale(LC_ALL, names[i]))
        i++;
    if (i == COUNT(names))
        skip_test("no locale with a decimal comma is installed");
    require(parsed_s("1.75") == 0x3fe00000u);
    require_status(parse("3lc:s=1,75"), TLC_ERR_PARAM);
    setlocale(LC_ALL, "C");
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

/* The frame of a gradient with ones as the last k values of each whole block and as the last `others` values of the
 * rest. No other positions of the same number have a longer code. */
static size_t frame_of_places(tlc_ctx *ctx, size_t n, size_t block, size_t k, size_t others, uint8_t *dst)
{
    size_t whole = block ? n / block * block : 0;
    float *x = floats(n);

    for (size_t i = 0; i < n; i++)
        x[i] = (i < whole ? i % block >= block - k : i >= n - others) ? 1.0f : 0.0f;
    size_t len = compress(ctx, x, dst);
    free(x);
    return len;
}

/* Finds the longest payload: that of whole blocks and that of the rest are independent. */
static size_t largest_of_places(tlc_ctx *ctx, size_t n, size_t block, uint8_t *dst)
{
    size_t none = frame_of_places(ctx, n, block, 0, 0, dst), most = none, most_others = none;

    for (size_t k = 1; block && k <= block && block <= n; k++) {
        size_t len = frame_of_places(ctx, n, block, k, 0, dst);
        most = len > most ? len : most;
    }
    for (size_t k = 1; k <= (block ? n % block : n); k++) {
        size_t len = frame_of_places(ctx, n, block, 0, k, dst);
        most_others = len > most_others ? len : most_others;
    }
    return most + most_others - none;
}

static size_t largest_frame(const codec_case *c, tlc_ctx *ctx, tlc_dtype dtype, size_t n)
{
    uint8_t *grad = bytes(4 * n), *dst = bytes(tlc_bound(ctx));
    float *ones = floats(n);
    size_t len;

    for (size_t i = 0; i < n; i++)
        ones[i] = i % 3 ? 1.0f : -1.0f;
    fill_grad(DATA_DENSE, n, dtype, grad, n);
    if (c->bound == BOUND_BY_TIES)
        require_status(tlc_convert(TLC_F32, ones, dtype, grad, n), TLC_OK);
    len = c->bound == BOUND_BY_PLACES ? largest_of_places(ctx, n, block_of(c->text), dst) : compress(ctx, grad, dst);
    free(grad);
    free(dst);
    free(ones);
    return len;
}

/* The worst data make a frame as long as the bound, so the bound is exact. Where positions and values are sent the
 * bound counts the most values and the longest code of positions, which is a few bytes too many. */
TEST(bounds_are_exact)
{
    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            for (size_t n = 0; n < 300; n += n < 90 ? 1 : 37)
                for (int checksum = 0; checksum < 2; checksum++) {
                    tlc_config cfg = config(c->text, dtype, TLC_ISA_AUTO);
                    size_t bound = 0;
                    if (c->bound == BOUND_BY_PLACES && (dtype != TLC_F32 || checksum))
                        continue;
                    cfg.checksum = checksum;
                    cfg.feedback = 0;
                    at = (place){.codec = c->text, .dtype = dtype, .n = n};
                    tlc_ctx *ctx = create(&cfg, n);
                    size_t largest = largest_frame(c, ctx, dtype, n);
                    if (c->bound == BOUND_BY_CHANCE)
                        require(!c->lossless || tlc_bound(ctx) - largest <= n / 64 + 3);
                    else if (c->bound == BOUND_BY_PLACES && !c->symbols)
                        require(tlc_bound(ctx) >= largest && tlc_bound(ctx) - largest <= n / 64 + 3);
                    else
                        require(largest == tlc_bound(ctx));
                    require_status(tlc_codec_bound(c->text, dtype, n, &bound), TLC_OK);
                    require(bound == tlc_bound(ctx) + (checksum ? 0 : 4)); /* tlc_codec_bound counts a checksum */
                    tlc_destroy(ctx);
                }
}

TEST(headers_are_small)
{
    for (size_t bits = 0; bits < 28; bits++) {
        size_t n = ((size_t)2 << bits) - 1, bound = 0;
        require_status(tlc_codec_bound("3lc", TLC_F32, n, &bound), TLC_OK);
        require(bound - 4 - tlc_quartic_size(n) <= 12);
    }
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    uint8_t frame[64];
    float zeros[70] = {0};
    tlc_ctx *ctx = create(&cfg, 70);
    require(compress(ctx, zeros, frame) == 10); /* a token stands for 14 bytes of five zeros */
    tlc_destroy(ctx);
}

static tlc_status create_huge(const char *codec, tlc_dtype dtype, int feedback, size_t n)
{
    tlc_ctx *ctx = NULL;
    tlc_config cfg = config(codec, dtype, TLC_ISA_AUTO);

    cfg.feedback = feedback;
    cfg.alloc = no_allocator;
    refused_times = 0;
    tlc_status status = tlc_create(&ctx, &cfg, n);
    require(ctx == NULL && refused_times == (status == TLC_ERR_NOMEM));
    return status;
}

TEST(sizes_overflow)
{
    const size_t huge[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 4 + 1, SIZE_MAX / 4};
    size_t bound = 77;

    at = (place){.note = "overflow"};
    for (at.i = 0; at.i < COUNT(huge); at.i++) {
        size_t n = huge[at.i];
        require_status(tlc_codec_bound("raw", TLC_F32, n, &bound), TLC_ERR_SIZE); /* the header is too much */
        require_status(tlc_codec_bound("raw:block=1", TLC_F16, n, &bound), TLC_ERR_SIZE);
        require_status(tlc_codec_bound("3lc:block=1", TLC_F32, n, &bound), TLC_ERR_SIZE);
        require_status(create_huge("3lc", TLC_F32, -1, n), TLC_ERR_SIZE); /* its residual is */
        require_status(create_huge("raw", TLC_F32, 0, n), TLC_ERR_SIZE);
        require_status(create_huge("raw", TLC_BF16, 1, n), TLC_ERR_SIZE);
    }
    require(bound == 77);
    require_status(tlc_codec_bound("raw", TLC_F16, SIZE_MAX, &bound), TLC_ERR_SIZE);
    require_status(tlc_codec_bound("raw", TLC_F32, SIZE_MAX / 4 - 10, &bound), TLC_OK);
    require_status(tlc_codec_bound("3lc", TLC_F32, SIZE_MAX, &bound), TLC_OK);
    require(bound > SIZE_MAX / 5 && bound < SIZE_MAX / 5 + 40);
    require_status(create_huge("3lc", TLC_F32, 0, SIZE_MAX), TLC_ERR_NOMEM); /* too large for memory, not for size_t */
    require_status(create_huge("3lc", TLC_F32, 1, SIZE_MAX / 4 - 4096), TLC_ERR_NOMEM);
    require_status(create_huge("3lc-golomb", TLC_F32, 0, SIZE_MAX), TLC_ERR_NOMEM); /* scratch and all */
    require_status(create_huge("onebit", TLC_F32, 0, SIZE_MAX), TLC_ERR_NOMEM);
    require_status(create_huge("sbc", TLC_F32, -1, SIZE_MAX / 4 - 1), TLC_ERR_SIZE); /* residual and scratch */
    require_status(create_huge("random-sparse", TLC_F32, 0, SIZE_MAX / 4), TLC_ERR_SIZE);
}

/* Bounds of tensors that fit in no memory; n is in units of SIZE_MAX / 64. */
TEST(huge_bounds)
{
    static const struct {
        const char *codec;
        size_t n, least, most; /* of the bound; 0: it overflows */
    } cases[] = {
        {"3lc-golomb", 64, 12, 13},
        {"ternary+golomb", 64, 12, 13},
        {"stochastic-ternary+golomb", 64, 12, 13},
        {"sbc", 64, 0, 1},
        {"sbc:p=0.5", 32, 0, 8},
        {"int8", 63, 63, 64},
        {"int8", 64, 0, 0},
        {"qsgd", 63, 63, 64},
        {"qsgd", 64, 0, 0},
        {"qsgd:bits=4", 64, 32, 33},
        {"natural", 63, 63, 64},
        {"natural", 64, 0, 0},
        {"natural:bits=9", 56, 63, 64},
        {"natural:bits=9", 57, 0, 0},
        {"onebit", 64, 8, 9},
        {"topk", 64, 33, 35},
        {"topk:p=1", 15, 61, 63},
        {"topk:p=1", 16, 0, 0},
        {"topk:p=0.5", 15, 61, 63},
        {"random-sparse", 15, 61, 63},
        {"random-sparse:p=0.001", 16, 0, 0},
        {"int8:block=1", 6, 0, 60},
        {"int8:block=1", 8, 0, 0},
        {"onebit:block=1", 4, 0, 60},
        {"onebit:block=1", 6, 0, 0},
        {"natural:block=1", 8, 0, 0},
    };
    const size_t unit = SIZE_MAX / 64;

    for (at = (place){.note = "huge"}; at.i < COUNT(cases); at.i++) {
        size_t n = cases[at.i].n == 64 ? SIZE_MAX : cases[at.i].n * unit, bound = 77;
        tlc_status status = tlc_codec_bound(cases[at.i].codec, TLC_F32, n, &bound);
        at.codec = cases[at.i].codec;
        if (cases[at.i].most)
            require(!status && bound >= cases[at.i].least * unit && bound / unit <= cases[at.i].most);
        else
            require(status == TLC_ERR_SIZE && bound == 77);
    }
}
