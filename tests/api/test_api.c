/* SPDX-License-Identifier: MIT
 *
 * The public functions and their rules: configuration, contexts, error feedback, codec changes. (Codec strings:
 * test_codec.c; what decoders give: test_decode.c; failed calls: p1_failed_calls_change_nothing.c.)
 */
#include "../support/support.h"
#include <float.h>
#include <limits.h>
#include <math.h>

enum { N = 60 };

/* ---- version, status, ISA ---------------------------------------------------------------------------------------- */

TEST(version)
{
    char text[32];

    require(tlc_version() == TLC_VERSION);
    snprintf(text, sizeof text, "%d.%d.%d", TLC_VERSION / 10000, TLC_VERSION / 100 % 100, TLC_VERSION % 100);
    require(!strcmp(tlc_version_string(), text));
}

TEST(status_strings)
{
    static const int others[] = {-1, TLC_ERR_UNSUPPORTED + 1, 1000, INT_MAX, INT_MIN};

    require(TLC_OK == 0 && TLC_ERR_PARAM == 1 && TLC_ERR_NOMEM == 2 && TLC_ERR_CAPACITY == 3 &&
            TLC_ERR_NONFINITE == 4 && TLC_ERR_CORRUPT == 5 && TLC_ERR_CHECKSUM == 6 && TLC_ERR_VERSION == 7 &&
            TLC_ERR_SIZE == 8 && TLC_ERR_UNSUPPORTED == 9); /* the ABI */
    for (int i = TLC_OK; i <= TLC_ERR_UNSUPPORTED; i++) {
        const char *s = tlc_status_string((tlc_status)i);
        require(s && *s && !strchr(s, '\n'));
        for (int j = TLC_OK; j < i; j++)
            require(strcmp(s, tlc_status_string((tlc_status)j)) != 0);
        for (size_t j = 0; j < COUNT(others); j++)
            require(strcmp(s, tlc_status_string((tlc_status)others[j])) != 0); /* never NULL */
    }
}

TEST(isas)
{
    static const char *const names[] = {"auto", "scalar", "avx2", "avx512", "neon"};
    static const int others[] = {-1, TLC_ISA_NEON + 1, INT_MAX, INT_MIN};

    require(tlc_isa_supported(TLC_ISA_AUTO) == 1 && tlc_isa_supported(TLC_ISA_SCALAR) == 1);
    require(tlc_isa_used(NULL) == TLC_ISA_AUTO);
    for (int i = TLC_ISA_AUTO; i <= TLC_ISA_NEON; i++) {
        tlc_isa isa = (tlc_isa)i;
        tlc_config cfg = config("3lc", TLC_F32, isa);
        tlc_ctx *ctx = NULL;
        require(!strcmp(tlc_isa_name(isa), names[i]));
        require_status(tlc_create(&ctx, &cfg, N), tlc_isa_supported(isa) ? TLC_OK : TLC_ERR_UNSUPPORTED);
        require(!ctx == !tlc_isa_supported(isa));
        if (ctx)
            require(i == TLC_ISA_AUTO ? tlc_isa_used(ctx) != TLC_ISA_AUTO && tlc_isa_supported(tlc_isa_used(ctx))
                                      : tlc_isa_used(ctx) == isa);
        tlc_destroy(ctx);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        tlc_config cfg = config("3lc", TLC_F32, (tlc_isa)others[i]);
        tlc_ctx *ctx = NULL;
        require(!strcmp(tlc_isa_name((tlc_isa)others[i]), "unknown"));
        require(tlc_isa_supported((tlc_isa)others[i]) == 0);
        require_status(tlc_create(&ctx, &cfg, N), TLC_ERR_PARAM);
    }
}

/* ---- configuration ----------------------------------------------------------------------------------------------- */

TEST(config_defaults)
{
    tlc_config cfg;

    memset(&cfg, 0xa5, sizeof cfg);
    require_status(tlc_config_init(&cfg, sizeof cfg), TLC_OK);
    require(cfg.struct_size == sizeof cfg && !strcmp(cfg.codec, "3lc") && !cfg.reserve && cfg.dtype == TLC_F32);
    require(cfg.feedback == -1 && cfg.seed == 0 && cfg.isa == TLC_ISA_AUTO && !cfg.checksum && !cfg.assume_finite);
    require(!cfg.residual && !cfg.alloc.alloc && !cfg.alloc.free && !cfg.alloc.opaque);
    require(!cfg.parallel.run && !cfg.parallel.opaque);
    require_status(tlc_config_init(NULL, sizeof cfg), TLC_ERR_PARAM);
    for (size_t size = 0; size < sizeof cfg.struct_size; size++)
        require_status(tlc_config_init(&cfg, size), TLC_ERR_PARAM);

    tlc_ctx *by_default = NULL, *by_null = NULL;
    require_status(tlc_create(&by_default, &cfg, N), TLC_OK);
    require_status(tlc_create(&by_null, NULL, N), TLC_OK);
    snapshot s = snap(by_default);
    require_same_state(by_null, &s);
    snap_free(&s);
    tlc_destroy(by_default);
    tlc_destroy(by_null);
}

/* A caller that was built with an older header knows fewer fields, one with a newer header more. */
TEST(config_sizes)
{
    static const size_t ends[] = {offsetof(tlc_config, codec),
                                  offsetof(tlc_config, reserve),
                                  offsetof(tlc_config, dtype),
                                  offsetof(tlc_config, feedback),
                                  offsetof(tlc_config, seed),
                                  offsetof(tlc_config, isa),
                                  offsetof(tlc_config, checksum),
                                  offsetof(tlc_config, residual),
                                  offsetof(tlc_config, alloc),
                                  offsetof(tlc_config, parallel),
                                  sizeof(tlc_config)};
    struct {
        tlc_config cfg;
        uint8_t more[24];
    } newer;
    tlc_ctx *ctx = NULL;

    for (size_t e = 0; e < COUNT(ends); e++) {
        at.i = e;
        memset(&newer, 0xa5, sizeof newer); /* fields that the caller does not know are not zero */
        require_status(tlc_config_init(&newer.cfg, ends[e]), TLC_OK);
        require(all_bytes((uint8_t *)&newer + ends[e], sizeof newer - ends[e], 0xa5));
        require_status(tlc_create(&ctx, &newer.cfg, N), TLC_OK);
        require(tlc_residual(ctx) != NULL); /* 3lc's default */
        tlc_destroy(ctx);
    }
    memset(&newer, 0xa5, sizeof newer);
    require_status(tlc_config_init(&newer.cfg, sizeof newer), TLC_OK);
    require(newer.cfg.struct_size == sizeof newer && all_bytes(newer.more, sizeof newer.more, 0));
    require_status(tlc_create(&ctx, &newer.cfg, N), TLC_OK);
    tlc_destroy(ctx);
    for (size_t i = 0; i < sizeof newer.more; i++) {
        ctx = NULL;
        newer.more[i] = 1;
        require_status(tlc_create(&ctx, &newer.cfg, N), TLC_ERR_PARAM);
        require(ctx == NULL);
        newer.more[i] = 0;
    }
    newer.cfg.struct_size = sizeof(size_t) - 1;
    require_status(tlc_create(&ctx, &newer.cfg, N), TLC_ERR_PARAM);
    newer.cfg.struct_size = 0;
    require_status(tlc_create(&ctx, &newer.cfg, N), TLC_ERR_PARAM);
}

static void *some_alloc(void *opaque, size_t size)
{
    (void)opaque;
    return malloc(size);
}

TEST(config_refusals)
{
    const tlc_config good = config("3lc", TLC_F32, TLC_ISA_AUTO);
    float residual[N + 1];
    tlc_ctx *ctx = NULL;
    tlc_config bad;

#define REFUSED(change, status)                                                                                        \
    bad = good;                                                                                                        \
    change;                                                                                                            \
    require_status(tlc_create(&ctx, &bad, N), status);                                                                 \
    require(ctx == NULL)
    REFUSED(bad.codec = NULL, TLC_ERR_PARAM);
    REFUSED(bad.codec = "", TLC_ERR_PARAM);
    REFUSED(bad.reserve = "no such codec", TLC_ERR_PARAM);
    REFUSED(bad.reserve = "raw;no such codec", TLC_ERR_PARAM);
    REFUSED(bad.dtype = (tlc_dtype)3, TLC_ERR_PARAM);
    REFUSED(bad.dtype = (tlc_dtype)-1, TLC_ERR_PARAM);
    REFUSED(bad.feedback = 2, TLC_ERR_PARAM);
    REFUSED(bad.feedback = -2, TLC_ERR_PARAM);
    REFUSED(bad.checksum = 2, TLC_ERR_PARAM);
    REFUSED(bad.checksum = -1, TLC_ERR_PARAM);
    REFUSED(bad.assume_finite = 2, TLC_ERR_PARAM);
    REFUSED(bad.assume_finite = -1, TLC_ERR_PARAM);
    REFUSED(bad.residual = residual; bad.feedback = 0, TLC_ERR_PARAM);
    REFUSED(bad.residual = residual; bad.codec = "raw", TLC_ERR_PARAM);
    REFUSED(bad.residual = (float *)(void *)((char *)residual + 2), TLC_ERR_PARAM);
    REFUSED(bad.alloc.alloc = some_alloc, TLC_ERR_PARAM); /* alloc without free */
#undef REFUSED
    bad = good;
    require_status(tlc_create(NULL, &bad, N), TLC_ERR_PARAM);
    tlc_destroy(NULL);
    tlc_reset(NULL);
    require(tlc_bound(NULL) == 0 && tlc_residual(NULL) == NULL);
    require_status(tlc_accumulate(NULL, residual), TLC_ERR_PARAM);
    require_status(tlc_residual_scale(NULL, 1), TLC_ERR_PARAM);
    require_status(tlc_set_codec(NULL, "raw"), TLC_ERR_PARAM);
}

/* The caller may change strings and structs after the call. */
TEST(config_is_copied)
{
    char codec[] = "3lc:s=1.5", reserve[] = "raw;ternary+quartic", next[] = "raw";
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);

    cfg.reserve = reserve;
    tlc_ctx *ctx = create(&cfg, N);
    snapshot s = snap(ctx);
    memset(codec, 'x', sizeof codec - 1);
    memset(reserve, 'x', sizeof reserve - 1);
    memset(&cfg, 0xa5, sizeof cfg);
    require_same_state(ctx, &s);
    require_status(tlc_set_codec(ctx, next), TLC_OK);
    snap_free(&s);
    s = snap(ctx);
    memset(next, 'x', sizeof next - 1);
    require_same_state(ctx, &s);
    snap_free(&s);
    tlc_destroy(ctx);
}

/* ---- codec changes ----------------------------------------------------------------------------------------------- */

TEST(codec_changes)
{
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    float g[N];
    uint8_t dst[1024];
    tlc_frame_info info = {.struct_size = sizeof info};
    size_t bound, len, raw = 0;

    at = (place){.n = N};
    fill(DATA_LAPLACE, 1, g, N);
    tlc_ctx *ctx = create(&cfg, N);
    bound = tlc_bound(ctx);
    require_status(tlc_set_codec(ctx, "raw"), TLC_ERR_CAPACITY); /* not reserved */
    require_status(tlc_set_codec(ctx, "3lc:s=1.9"), TLC_OK);     /* it needs no more room */
    require_status(tlc_set_codec(ctx, "ternary+quartic"), TLC_OK);
    require(tlc_bound(ctx) == bound);
    compress(ctx, g, dst);
    tlc_destroy(ctx);

    cfg.reserve = ""; /* nothing */
    ctx = create(&cfg, N);
    require(tlc_bound(ctx) == bound);
    tlc_destroy(ctx);

    cfg.reserve = "ternary:block=16+quartic;raw";
    ctx = create(&cfg, N);
    bound = tlc_bound(ctx);
    require_status(tlc_codec_bound("raw", TLC_F32, N, &raw), TLC_OK);
    require(bound == raw - 4); /* raw's is the largest of the three bounds; here without a checksum */
    compress(ctx, g, dst);
    float before[N];
    memcpy(before, tlc_residual(ctx), sizeof before);
    FOR_EACH_CODEC(c) {
        tlc_status status = tlc_set_codec(ctx, c->text);
        size_t needs = 0;
        at.codec = c->text;
        require_status(tlc_codec_bound(c->text, TLC_F32, N, &needs), TLC_OK);
        require_status(status, needs - 4 <= bound && !c->scratch ? TLC_OK : TLC_ERR_CAPACITY);
        require(same(before, tlc_residual(ctx), sizeof before) && tlc_bound(ctx) == bound);
    }
    require_status(tlc_set_codec(ctx, "raw"), TLC_OK);
    len = compress(ctx, g, dst);
    require_status(tlc_inspect(dst, len, &info), TLC_OK);
    require(!strcmp(info.codec, "raw") && len == bound);
    require(all_bytes(tlc_residual(ctx), N * 4, 0)); /* raw has sent all of the residual */
    tlc_destroy(ctx);
}

/* Besides room for frames, sparse codecs need scratch for the masks of a block. */
TEST(codec_changes_with_scratch)
{
    float g[N];
    uint8_t dst[2048];

    fill(DATA_LAPLACE, 1, g, N);
    FOR_EACH_CODEC(first)
        FOR_EACH_CODEC(second) {
            tlc_config cfg = config(first->text, TLC_F32, TLC_ISA_AUTO);
            at = (place){.codec = first->text, .n = N, .note = second->text};
            cfg.reserve = "raw:block=1"; /* the largest frames, no scratch */
            tlc_ctx *ctx = create(&cfg, N);
            int fits = scratch_words(second, N) <= scratch_words(first, N);
            snapshot before = snap(ctx);
            require_status(tlc_set_codec(ctx, second->text), fits ? TLC_OK : TLC_ERR_CAPACITY);
            if (!fits)
                require_same_state(ctx, &before);
            compress(ctx, g, dst);
            snap_free(&before);
            tlc_destroy(ctx);

            char both[256];
            snprintf(both, sizeof both, "raw:block=1;%s", second->text);
            cfg.reserve = both;
            ctx = create(&cfg, N);
            require_status(tlc_set_codec(ctx, second->text), TLC_OK);
            compress(ctx, g, dst);
            require_status(tlc_set_codec(ctx, first->text), TLC_OK);
            compress(ctx, g, dst);
            tlc_destroy(ctx);
        }
}

/* Whether there is error feedback is decided by tlc_create. Another codec does not change it. */
TEST(codec_changes_keep_feedback)
{
    tlc_config cfg = config("raw", TLC_F32, TLC_ISA_AUTO);
    float g[N];
    uint8_t dst[1024];

    fill(DATA_LAPLACE, 1, g, N);
    tlc_ctx *ctx = create(&cfg, N);
    require_status(tlc_set_codec(ctx, "3lc"), TLC_OK);
    compress(ctx, g, dst);
    require(tlc_residual(ctx) == NULL);
    tlc_destroy(ctx);
    cfg.codec = "3lc";
    cfg.reserve = "raw";
    ctx = create(&cfg, N);
    require_status(tlc_set_codec(ctx, "raw"), TLC_OK);
    require(tlc_residual(ctx) != NULL);
    tlc_destroy(ctx);
}

/* A block table can make a frame longer than another codec's frame. The checksum counts, too. */
TEST(codec_changes_with_a_checksum)
{
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    size_t plain;

    tlc_ctx *ctx = create(&cfg, N);
    plain = tlc_bound(ctx);
    require_status(tlc_set_codec(ctx, "3lc:block=60"), TLC_ERR_CAPACITY);
    tlc_destroy(ctx);
    cfg.checksum = 1;
    cfg.reserve = "3lc:block=60";
    ctx = create(&cfg, N);
    require(tlc_bound(ctx) == plain + 4 + 1 + 4); /* B, the block's length */
    require_status(tlc_set_codec(ctx, "3lc:block=60"), TLC_OK);
    tlc_destroy(ctx);
}
