/* SPDX-License-Identifier: MIT
 *
 * What tlc_create and the calls with a context say when they fail: for every way to fail a sentence with the argument,
 * what was given and what is allowed.
 */
#include "../support/support.h"
#include <math.h>

enum { N = 60 };

static char message[TLC_MESSAGE_SIZE];

/* ---- tlc_create -------------------------------------------------------------------------------------------------- */

static void create_says(tlc_config bad, size_t n, tlc_status status, const char *words)
{
    tlc_ctx *ctx = NULL;

    memset(message, 'x', sizeof message);
    bad.message = message;
    bad.message_cap = sizeof message;
    require_status(tlc_create(&ctx, &bad, n), status);
    require(!ctx);
    require_says(message, words);
}

TEST(every_refusal_of_create)
{
    const tlc_config good = config("3lc", TLC_F32, TLC_ISA_AUTO);
    float residual[N + 1];
    char words[100];
    tlc_config bad;

#define SAYS(change, n, status, words)                                                                                 \
    bad = good;                                                                                                        \
    change;                                                                                                            \
    create_says(bad, n, status, words)
    SAYS(bad.codec = NULL, N, TLC_ERR_PARAM, "codec is NULL");
    SAYS(bad.codec = "3lc:s=3", N, TLC_ERR_PARAM, "codec \"3lc:s=3\" at 6: \"3\": s is 1 <= s < 2");
    SAYS(bad.codec = "3cl", N, TLC_ERR_PARAM, "codec \"3cl\" at 0: ... there are 3lc, ");
    SAYS(bad.codec = "", N, TLC_ERR_PARAM, "codec \"\" at 0");
    SAYS(bad.reserve = "raw;3lc:s=3", N, TLC_ERR_PARAM, "reserve: codec \"3lc:s=3\" at 6: \"3\": s is 1 <= s < 2");
    SAYS(bad.reserve = "raw;", N, TLC_ERR_PARAM, "reserve: codec \"\" at 0");
    SAYS(bad.reserve = ";raw", N, TLC_ERR_PARAM, "reserve: codec \"\" at 0");
    SAYS(bad.dtype = (tlc_dtype)7, N, TLC_ERR_PARAM, "dtype is 7: ... TLC_F32 ... TLC_F16 ... TLC_BF16");
    SAYS(bad.dtype = (tlc_dtype)-1, N, TLC_ERR_PARAM, "dtype is -1: ");
    SAYS(bad.feedback = 5, N, TLC_ERR_PARAM, "feedback is 5: -1, 0 or 1");
    SAYS(bad.feedback = INT32_MIN, N, TLC_ERR_PARAM, "feedback is -2147483648: -1, 0 or 1");
    SAYS(bad.checksum = 2, N, TLC_ERR_PARAM, "checksum is 2: 0 or 1");
    SAYS(bad.assume_finite = -3, N, TLC_ERR_PARAM, "assume_finite is -3: 0 or 1");
    SAYS(bad.isa = (tlc_isa)9, N, TLC_ERR_PARAM, "isa is 9: ... (0) to ... (4)");
    SAYS(bad.residual = residual;
         bad.feedback = 0, N, TLC_ERR_PARAM, "residual is given ... no error feedback: feedback is 0");
    SAYS(bad.residual = residual; bad.codec = "raw", N, TLC_ERR_PARAM,
                                  "residual is given ... no error feedback: the codec ... unless feedback is 1");
    SAYS(bad.residual = (float *)(void *)((char *)residual + 2), N, TLC_ERR_PARAM,
         "residual is not aligned to 4 bytes");
    SAYS(bad.alloc.alloc = no_allocator.alloc, N, TLC_ERR_PARAM, "alloc has alloc, but no free");
    SAYS(bad.alloc.free = no_allocator.free, N, TLC_ERR_PARAM, "alloc has free, but no alloc");
    SAYS(bad.alloc = no_allocator, N, TLC_ERR_NOMEM, "allocator ... bytes");
    snprintf(words, sizeof words, "codec \"raw\": ... %zu values", SIZE_MAX);
    SAYS(bad.codec = "raw", SIZE_MAX, TLC_ERR_SIZE, words);
    snprintf(words, sizeof words, "reserve: codec \"raw\": ... %zu values", SIZE_MAX / 4);
    SAYS(bad.reserve = "raw", SIZE_MAX / 4, TLC_ERR_SIZE, words);
    snprintf(words, sizeof words, "n is %zu: ... residual", SIZE_MAX / 4);
    SAYS(bad.codec = "3lc", SIZE_MAX / 4, TLC_ERR_SIZE, words);
    if (missing_isa()) {
        snprintf(words, sizeof words, "isa is %s, ... does not have", tlc_isa_name(missing_isa()));
        SAYS(bad.isa = missing_isa(), N, TLC_ERR_UNSUPPORTED, words);
    }
#undef SAYS
    bad = good;
    bad.message = message;
    bad.message_cap = sizeof message;
    require_status(tlc_create(NULL, &bad, N), TLC_ERR_PARAM);
    require_says(message, "out is NULL");
}

/* The message is empty after a success. It is not written if there is none, or if the struct is not understood. */
TEST(messages_that_are_not_written)
{
    tlc_config cfg = config("3lc:s=9", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = NULL;

    memset(message, 'x', sizeof message);
    cfg.message_cap = 100; /* but no message */
    require_status(tlc_create(&ctx, &cfg, N), TLC_ERR_PARAM);
    cfg.message = message;
    cfg.message_cap = 0;
    require_status(tlc_create(&ctx, &cfg, N), TLC_ERR_PARAM);
    cfg.message_cap = sizeof message;
    cfg.struct_size = offsetof(tlc_config, message); /* of a caller who does not know messages */
    require_status(tlc_create(&ctx, &cfg, N), TLC_ERR_PARAM);
    cfg.struct_size = 0;
    require_status(tlc_create(&ctx, &cfg, N), TLC_ERR_PARAM);
    require(!ctx && all_bytes(message, sizeof message, 'x'));
    cfg.struct_size = sizeof cfg;
    cfg.codec = "3lc";
    require_status(tlc_create(&ctx, &cfg, N), TLC_OK);
    require(!*message && !*tlc_last_error(ctx));
    tlc_destroy(ctx);
}

/* ---- calls with a context ---------------------------------------------------------------------------------------- */

/* A call that fails says why, and changes nothing else. */
#define CALL_SAYS(ctx, call, status, words)                                                                            \
    do {                                                                                                               \
        snapshot before_ = snap(ctx);                                                                                  \
        require_status(call, status);                                                                                  \
        require_says(tlc_last_error(ctx), words);                                                                      \
        require_same_state(ctx, &before_);                                                                             \
        snap_free(&before_);                                                                                           \
    } while (0)

TEST(compression)
{
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    float g[N] = {0};
    uint8_t dst[1024];
    char words[100];
    size_t written;

    tlc_ctx *ctx = create(&cfg, N);
    snprintf(words, sizeof words, "cap is 7 bytes, tlc_bound is %zu", tlc_bound(ctx));
    CALL_SAYS(ctx, tlc_compress(ctx, g, dst, 7, &written), TLC_ERR_CAPACITY, words);
    CALL_SAYS(ctx, tlc_compress(ctx, g, NULL, sizeof dst, &written), TLC_ERR_PARAM, "dst is NULL");
    CALL_SAYS(ctx, tlc_compress(ctx, g, dst, sizeof dst, NULL), TLC_ERR_PARAM, "written is NULL");
    CALL_SAYS(ctx, tlc_accumulate(ctx, NULL), TLC_ERR_PARAM, "grad is NULL ... 60 values");
    compress(ctx, g, dst);
    require_says(tlc_last_error(ctx), "grad is NULL"); /* of the last call that failed */
    CALL_SAYS(ctx, tlc_residual_scale(ctx, INFINITY), TLC_ERR_PARAM, "factor is infinity: a finite number");
    CALL_SAYS(ctx, tlc_residual_scale(ctx, -INFINITY), TLC_ERR_PARAM, "factor is -infinity: a finite number");
    CALL_SAYS(ctx, tlc_residual_scale(ctx, NAN), TLC_ERR_PARAM, "factor is NaN: a finite number");
    tlc_residual(ctx)[41] = 1e30f;
    CALL_SAYS(ctx, tlc_residual_scale(ctx, 1e30f), TLC_ERR_NONFINITE, "residual[41] * factor is infinite");
    tlc_residual(ctx)[40] = NAN;
    CALL_SAYS(ctx, tlc_residual_scale(ctx, 1), TLC_ERR_NONFINITE, "residual[40] is not finite");
    tlc_destroy(ctx);

    cfg.feedback = 0;
    ctx = create(&cfg, N);
    CALL_SAYS(ctx, tlc_compress(ctx, NULL, dst, sizeof dst, &written), TLC_ERR_UNSUPPORTED,
              "grad is NULL ... no residual ... feedback is 0");
    CALL_SAYS(ctx, tlc_accumulate(ctx, g), TLC_ERR_UNSUPPORTED, "no residual ... feedback is 0");
    CALL_SAYS(ctx, tlc_residual_scale(ctx, 1), TLC_ERR_UNSUPPORTED, "no residual ... feedback is 0");
    tlc_destroy(ctx);
    require(!strcmp(tlc_last_error(NULL), ""));
}

/* The first value that is not finite is named, wherever it is, in every codec and dtype, also where the gradient was
 * added to the residual before anybody looked. */
TEST(values_that_are_not_finite)
{
    enum { MANY = 3000 };
    static const size_t places[] = {0, 1, 1023, 1024, MANY - 1};
    static const uint32_t wrong[3][3] = {{0x7fc00000, 0x7f800000, 0xff800000},
                                         {0x7e00, 0x7c00, 0xfc00},
                                         {0x7fc0, 0x7f80, 0xff80}};
    static const char *const name[] = {"NaN", "infinity", "-infinity"};
    uint8_t *grad = bytes(MANY * 4);
    char words[100];

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            for (int finite = 0; finite <= 1; finite++) {
                tlc_config cfg = config(c->text, dtype, TLC_ISA_AUTO);
                cfg.assume_finite = finite;
                if (c->exact && !c->feedback)
                    cfg.feedback = 1; /* else it sends any values */
                tlc_ctx *ctx = create(&cfg, MANY);
                uint8_t *dst = bytes(tlc_bound(ctx));
                for (size_t i = 0; i < 2 * COUNT(places); i++) {
                    const size_t first = places[i / 2], size = dtype_size[dtype];
                    const int which = (int)(i % 3);
                    at = (place){.codec = c->text, .dtype = dtype, .n = MANY, .i = i};
                    fill_grad(DATA_LAPLACE, i, dtype, grad, MANY);
                    for (size_t more = first; more < MANY; more += 700) {
                        const uint32_t bits = wrong[dtype][more == first ? which : 0];
                        const uint16_t half = (uint16_t)bits;
                        memcpy(grad + more * size, size == 4 ? (const void *)&bits : &half, size);
                    }
                    size_t written;
                    require_status(tlc_compress(ctx, grad, dst, tlc_bound(ctx), &written), TLC_ERR_NONFINITE);
                    snprintf(words, sizeof words, "value %zu of the gradient is %s", first, name[which]);
                    require(!strcmp(tlc_last_error(ctx), words));
                    if (finite)
                        tlc_reset(ctx);
                    if (!tlc_residual(ctx))
                        continue;
                    require_status(tlc_accumulate(ctx, grad), TLC_ERR_NONFINITE);
                    require(!strcmp(tlc_last_error(ctx), words));
                    if (finite)
                        tlc_reset(ctx);
                }
                free(dst);
                tlc_destroy(ctx);
            }
    free(grad);
}

TEST(sums_and_scales_that_are_not_finite)
{
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    float g[N] = {[17] = 3e38f};
    uint16_t narrow[N] = {[5] = 0x7bff}; /* 65504 */
    uint8_t dst[1024];
    size_t written;

    for (int finite = 0; finite <= 1; finite++) {
        cfg.assume_finite = finite;
        tlc_ctx *ctx = create(&cfg, N);
        tlc_residual(ctx)[17] = 2e38f;
        require_status(tlc_compress(ctx, g, dst, sizeof dst, &written), TLC_ERR_NONFINITE);
        require_says(tlc_last_error(ctx), "value 17 of residual + gradient is infinity");
        tlc_reset(ctx);
        tlc_residual(ctx)[3] = NAN;
        require_status(tlc_compress(ctx, NULL, dst, sizeof dst, &written), TLC_ERR_NONFINITE);
        require_says(tlc_last_error(ctx), "value 3 of the residual is NaN");
        tlc_destroy(ctx);
    }
    cfg.assume_finite = 0;
    cfg.codec = "3lc:s=1.75"; /* M is infinite */
    tlc_ctx *ctx = create(&cfg, N);
    CALL_SAYS(ctx, tlc_compress(ctx, g, dst, sizeof dst, &written), TLC_ERR_NONFINITE,
              "value 17 of residual + gradient ... largest magnitude ... too large for codec \"3lc:s=1.75\" and f32");
    tlc_destroy(ctx);
    cfg.codec = "raw";
    cfg.dtype = TLC_F16;
    cfg.feedback = 1;
    ctx = create(&cfg, N);
    tlc_residual(ctx)[5] = 100;
    CALL_SAYS(ctx, tlc_compress(ctx, narrow, dst, sizeof dst, &written), TLC_ERR_NONFINITE,
              "value 5 of residual + gradient ... too large for codec \"raw\" and f16");
    tlc_destroy(ctx);
}

TEST(codec_changes)
{
    const tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, N);
    char words[200];
    size_t raw = 0;

    CALL_SAYS(ctx, tlc_set_codec(ctx, NULL), TLC_ERR_PARAM, "codec is NULL");
    CALL_SAYS(ctx, tlc_set_codec(ctx, "3lc:s=2"), TLC_ERR_PARAM, "codec \"3lc:s=2\" at 6: \"2\": s is 1 <= s < 2");
    require_status(tlc_codec_bound("raw", TLC_F32, N, &raw), TLC_OK);
    snprintf(
        words, sizeof words,
        "codec \"raw\" needs frames of up to %zu bytes, the context with codec \"3lc\" has room for %zu: ... reserve",
        raw - 4, tlc_bound(ctx));
    CALL_SAYS(ctx, tlc_set_codec(ctx, "raw"), TLC_ERR_CAPACITY, words);
    CALL_SAYS(ctx, tlc_set_codec(ctx, "3lc-golomb"), TLC_ERR_CAPACITY,
              "codec \"3lc-golomb\" needs scratch memory of 16 bytes, ... has room for 0: ... reserve");
    tlc_destroy(ctx);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

TEST(states)
{
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO), other;
    uint8_t saved[600], more[600];
    size_t len, raw_len;

    tlc_ctx *ctx = create(&cfg, 100);
    require_status(tlc_state_save(ctx, saved, sizeof saved, &len), TLC_OK);
    char words[100];
    snprintf(words, sizeof words, "cap is 3 bytes, tlc_state_size is %zu", len);
    CALL_SAYS(ctx, tlc_state_save(ctx, more, 3, &raw_len), TLC_ERR_CAPACITY, words);
    CALL_SAYS(ctx, tlc_state_save(ctx, NULL, 600, &raw_len), TLC_ERR_PARAM, "dst is NULL");
    CALL_SAYS(ctx, tlc_state_save(ctx, more, 600, NULL), TLC_ERR_PARAM, "written is NULL");
    CALL_SAYS(ctx, tlc_state_load(ctx, NULL, 5), TLC_ERR_PARAM, "src is NULL, but len is 5");
    CALL_SAYS(ctx, tlc_state_load(ctx, NULL, 0), TLC_ERR_CORRUPT, "no bytes, where a state of a context");
    CALL_SAYS(ctx, tlc_state_load(ctx, saved, 20), TLC_ERR_CORRUPT, "20 bytes are too few for a state of a context");
    CALL_SAYS(ctx, tlc_state_load(ctx, saved, len - 1), TLC_ERR_CHECKSUM, "checksum of the state");
    memcpy(more, saved, len);
    more[4] = 3;
    CALL_SAYS(ctx, tlc_state_load(ctx, more, len), TLC_ERR_VERSION,
              "byte 4 ... version of a state of a context ... is 3: this library reads 1");
    more[0] = 'X';
    CALL_SAYS(ctx, tlc_state_load(ctx, more, len), TLC_ERR_CORRUPT,
              "not the bytes of a state of a context ... \"TLCS\"");

    tlc_ctx *shorter = create(&cfg, 99);
    CALL_SAYS(shorter, tlc_state_load(shorter, saved, len), TLC_ERR_SIZE, "state is of 100 values, the context of 99");
    tlc_destroy(shorter);
    other = cfg;
    other.dtype = TLC_BF16;
    tlc_ctx *narrow = create(&other, 100);
    CALL_SAYS(narrow, tlc_state_load(narrow, saved, len), TLC_ERR_PARAM,
              "state is of f32 gradients, the context of bf16");
    tlc_destroy(narrow);
    other = cfg;
    other.feedback = 0;
    tlc_ctx *without = create(&other, 100);
    CALL_SAYS(without, tlc_state_load(without, saved, len), TLC_ERR_PARAM, "state has feedback 1, the context 0");
    tlc_destroy(without);
    other = cfg;
    other.codec = "raw";
    other.feedback = 1;
    tlc_ctx *raw = create(&other, 100);
    require_status(tlc_state_save(raw, more, sizeof more, &raw_len), TLC_OK);
    CALL_SAYS(
        ctx, tlc_state_load(ctx, more, raw_len), TLC_ERR_CAPACITY,
        "the state's codec \"raw\" needs frames of up to 405 bytes ... codec \"3lc\" ... room for 29: ... reserve");
    require_status(tlc_state_load(raw, saved, len), TLC_OK); /* 3lc needs no more than raw */
    tlc_destroy(raw);
    tlc_destroy(ctx);
}

/* ---- the buffers ------------------------------------------------------------------------------------------------- */

/* Messages of every room, from 0 bytes on, are the whole one, or its beginning and "...", with a NUL. */
TEST(every_room)
{
    tlc_config cfg = config("3lc:s=\033[2J", TLC_F32, TLC_ISA_AUTO);
    guard_buffer b;
    tlc_ctx *ctx;

    require(!guard_alloc(&b, TLC_MESSAGE_SIZE + 1));
    cfg.message = message;
    cfg.message_cap = sizeof message;
    require_status(tlc_create(&ctx, &cfg, N), TLC_ERR_PARAM);
    require_says(message, "codec \"3lc:s=?[2J\" at 6: \"?[2J\": s is");
    for (size_t cap = 0; cap <= strlen(message) + 3; cap++) {
        cfg.message = (char *)guard_at_end(&b, cap);
        cfg.message_cap = cap;
        memset(b.start, 'x', (size_t)(b.end - b.start));
        require_status(tlc_create(&ctx, &cfg, N), TLC_ERR_PARAM);
        require(all_bytes(b.start, (size_t)((uint8_t *)cfg.message - b.start), 'x'));
        require(!cap || is_shortened(cfg.message, cap, message));
    }
    guard_free(&b);
}

/* Codecs of any bytes and any length give sentences that are printable and whole. */
TEST(hostile_codecs)
{
    static const char *const names[] = {"3lc", "ternary", "quartic", "natural", "+", ":", ",", "=", "s", "block", "\n"};
    const tlc_config good = config("3lc", TLC_F32, TLC_ISA_AUTO);
    rng r = {7};

    tlc_ctx *ctx = create(&good, N);
    for (int i = 0; i < (quick() ? 300 : 3000); i++) {
        char text[400];
        size_t len = 0, most = rng_below(&r, sizeof text - 20);
        while (len < most) {
            const char *name = names[rng_below(&r, COUNT(names))];
            if (rng_below(&r, 2))
                len += (size_t)sprintf(text + len, "%s", name);
            else
                text[len++] = (char)(1 + rng_below(&r, 255));
        }
        text[len] = 0;
        if (!tlc_codec_check(text, NULL, 0))
            continue;
        tlc_config bad = good;
        bad.codec = text;
        create_says(bad, N, TLC_ERR_PARAM, "codec \" ... at ");
        require_status(tlc_set_codec(ctx, text), TLC_ERR_PARAM);
        require_says(tlc_last_error(ctx), "codec \" ... at ");
    }
    tlc_destroy(ctx);
}
