/* SPDX-License-Identifier: MIT
 *
 * tlc_state_save and tlc_state_load: a loaded run continues as if it had never stopped. A refused state changes
 * nothing.
 */
#include "../support/support.h"
#include <xxhash.h>

enum { N = 150, ROOM = 4096, HEAD = 32 };

typedef struct state_bytes {
    uint8_t bytes[ROOM];
    size_t len;
} state_bytes;

static state_bytes save(const tlc_ctx *ctx)
{
    state_bytes s = {{0}, 0};

    require(tlc_state_size(ctx) <= ROOM);
    require_status(tlc_state_save(ctx, s.bytes, tlc_state_size(ctx), &s.len), TLC_OK);
    require(s.len == tlc_state_size(ctx));
    return s;
}

/* The steps from..to of a run. Writes their frames one after the other to log; returns its length. */
static size_t steps(tlc_ctx *ctx, uint64_t from, uint64_t to, tlc_dtype dtype, uint8_t *log)
{
    uint8_t grad[4 * N];
    size_t len = 0;

    for (uint64_t step = from; step < to; step++) {
        fill_grad(DATA_LAPLACE, step, dtype, grad, N);
        len += compress(ctx, grad, log + len);
    }
    return len;
}

TEST(state_continues)
{
    uint8_t log1[4 * ROOM], log2[4 * ROOM];

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa)
                for (int feedback = 0; feedback < 2; feedback++) {
                    tlc_config cfg = config(c->text, dtype, isa);
                    at = (place){.codec = c->text, .dtype = dtype, .isa = isa, .n = N};
                    cfg.feedback = feedback;
                    cfg.seed = UINT64_C(0x123456789abcdef0);
                    tlc_ctx *one = create(&cfg, N);
                    steps(one, 0, 3, dtype, log1);
                    state_bytes saved = save(one);
                    cfg.seed = 1; /* the state has the seed */
                    cfg.isa = TLC_ISA_SCALAR;
                    tlc_ctx *two = create(&cfg, N);
                    steps(two, 7, 8, dtype, log2); /* earlier steps must not matter after loading */
                    require_status(tlc_state_load(two, saved.bytes, saved.len), TLC_OK);
                    size_t len1 = steps(one, 3, 6, dtype, log1), len2 = steps(two, 3, 6, dtype, log2);
                    require(len1 == len2 && same(log1, log2, len1));
                    state_bytes end1 = save(one), end2 = save(two);
                    require(end1.len == end2.len && same(end1.bytes, end2.bytes, end1.len));
                    tlc_destroy(one);
                    tlc_destroy(two);
                }
}

/* Byte by byte, as src/docs/format.md draws it: it is the same on every machine. */
TEST(state_as_drawn)
{
    static const uint8_t head[] = {'T', 'L', 'C', 'S', 1,   0,   1,   10,  2,   0,   0,   0,   0,   0,
                                   0,   0,   8,   7,   6,   5,   4,   3,   2,   1,   1,   0,   0,   0,
                                   0,   0,   0,   0,   '3', 'l', 'c', ':', 's', '=', '1', '.', '7', '5'};
    static const uint8_t residual[] = {0, 0, 0x80, 0xbe, 0, 0, 0x80, 0x3e}; /* -0.25, 0.25 */
    const float g[2] = {0.25f, 0.25f};
    tlc_config cfg = config("3lc:s=1.75", TLC_F32, TLC_ISA_AUTO);
    uint8_t frame[64];

    cfg.seed = UINT64_C(0x0102030405060708);
    tlc_ctx *ctx = create(&cfg, 2);
    tlc_residual(ctx)[0] = 0.75f; /* x = 1, 0.25: M = 1.75, t = 0.875, r = -0.75, 0.25 */
    compress(ctx, g, frame);
    tlc_residual(ctx)[0] += 0.5f;
    state_bytes s = save(ctx);
    require(s.len == sizeof head + sizeof residual + 4);
    require(same(s.bytes, head, sizeof head) && same(s.bytes + sizeof head, residual, sizeof residual));
    uint32_t sum = (uint32_t)XXH3_64bits(s.bytes, s.len - 4);
    for (size_t i = 0; i < 4; i++)
        require(s.bytes[s.len - 4 + i] == (uint8_t)(sum >> 8 * i));
    tlc_destroy(ctx);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

/* Loads from a buffer that ends at a guard page. A refused state must change nothing. */
static tlc_status try_load(arena *a, tlc_ctx *ctx, const uint8_t *src, size_t len)
{
    snapshot before = snap(ctx);
    tlc_status status = tlc_state_load(ctx, arena_copy(a, src, len, 1), len);

    if (status)
        require_same_state(ctx, &before);
    snap_free(&before);
    return status;
}

typedef struct fixture {
    tlc_ctx *ctx; /* another one, in the middle of its own run */
    state_bytes saved;
    arena a;
} fixture;

static fixture set_up(const char *codec)
{
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    uint8_t log[4 * ROOM];
    fixture f;

    at = (place){.codec = codec, .n = N};
    tlc_ctx *other = create(&cfg, N);
    steps(other, 0, 2, TLC_F32, log);
    f.saved = save(other);
    tlc_destroy(other);
    f.ctx = create(&cfg, N);
    steps(f.ctx, 5, 8, TLC_F32, log);
    arena_open(&f.a, ROOM);
    return f;
}

static void tear_down(fixture *f)
{
    tlc_destroy(f->ctx);
    arena_close(&f->a);
}

TEST(state_truncated_or_longer)
{
    FOR_EACH_CODEC(c) {
        fixture f = set_up(c->text);
        for (at.i = 0; at.i < f.saved.len; at.i++) {
            tlc_status status = try_load(&f.a, f.ctx, f.saved.bytes, at.i);
            require(status == (at.i < HEAD + 4 ? TLC_ERR_CORRUPT : TLC_ERR_CHECKSUM));
        }
        for (at.i = 1; at.i < 9; at.i++)
            require_status(try_load(&f.a, f.ctx, f.saved.bytes, f.saved.len + at.i), TLC_ERR_CHECKSUM);
        require_status(try_load(&f.a, f.ctx, f.saved.bytes, f.saved.len), TLC_OK);
        tear_down(&f);
    }
}

TEST(state_single_bit_flips)
{
    FOR_EACH_CODEC(c) {
        fixture f = set_up(c->text);
        for (at.i = 0; at.i < 8 * f.saved.len; at.i += quick() && at.i > 8 * 60 ? 17 : 1) {
            f.saved.bytes[at.i / 8] ^= (uint8_t)(1u << at.i % 8);
            require_status(try_load(&f.a, f.ctx, f.saved.bytes, f.saved.len), at.i / 8 < 4    ? TLC_ERR_CORRUPT
                                                                              : at.i / 8 == 4 ? TLC_ERR_VERSION
                                                                                              : TLC_ERR_CHECKSUM);
            f.saved.bytes[at.i / 8] ^= (uint8_t)(1u << at.i % 8);
        }
        tear_down(&f);
    }
}

/* With the right checksum: an attacker can compute it. */
static void reseal(state_bytes *s)
{
    uint32_t sum = (uint32_t)XXH3_64bits(s->bytes, s->len - 4);

    for (size_t i = 0; i < 4; i++)
        s->bytes[s->len - 4 + i] = (uint8_t)(sum >> 8 * i);
}

static tlc_status with_byte(fixture *f, size_t i, uint8_t value)
{
    state_bytes s = f->saved;

    at.i = i;
    s.bytes[i] = value;
    reseal(&s);
    return try_load(&f->a, f->ctx, s.bytes, s.len);
}

TEST(state_altered_and_sealed)
{
    fixture f = set_up("3lc:s=1.75");

    for (size_t i = 8; i < 16; i++)
        require_status(with_byte(&f, i, (uint8_t)(f.saved.bytes[i] + 1)), TLC_ERR_SIZE);
    require_status(with_byte(&f, 5, 1), TLC_ERR_PARAM); /* dtype */
    require_status(with_byte(&f, 5, 77), TLC_ERR_PARAM);
    require_status(with_byte(&f, 6, 0), TLC_ERR_PARAM); /* feedback */
    require_status(with_byte(&f, 6, 2), TLC_ERR_PARAM);
    for (unsigned len = 0; len < 256; len++) /* of the codec string */
        if (len != f.saved.bytes[7])
            require_status(with_byte(&f, 7, (uint8_t)len), TLC_ERR_CORRUPT);
    require_status(with_byte(&f, HEAD, 0), TLC_ERR_PARAM);   /* a NUL in the string */
    require_status(with_byte(&f, HEAD, '4'), TLC_ERR_PARAM); /* no such codec */
    require_status(with_byte(&f, HEAD + 6, '2'), TLC_ERR_PARAM);
    for (size_t len = HEAD + 4; len < f.saved.len; len++) {
        state_bytes cut = f.saved;
        cut.len = at.i = len;
        reseal(&cut);
        require_status(try_load(&f.a, f.ctx, cut.bytes, cut.len), TLC_ERR_CORRUPT);
    }
    state_bytes longer = f.saved;
    longer.len++;
    reseal(&longer);
    require_status(try_load(&f.a, f.ctx, longer.bytes, longer.len), TLC_ERR_CORRUPT);
    require_status(with_byte(&f, 16, 99), TLC_OK);   /* any seed */
    require_status(with_byte(&f, 31, 0xff), TLC_OK); /* any step */
    tear_down(&f);
}

TEST(state_random_bytes)
{
    fixture f = set_up("3lc");
    rng r = {11};

    for (size_t i = 0; i < (quick() ? 500u : 5000u); i++) {
        state_bytes s = f.saved;
        for (size_t edits = 1 + rng_below(&r, 4); edits--;)
            s.bytes[4 + rng_below(&r, rng_below(&r, 2) ? 40 : s.len - 8)] = (uint8_t)rng_next(&r);
        if (rng_below(&r, 3) == 0)
            s.len = HEAD + 4 + rng_below(&r, s.len - HEAD - 4);
        reseal(&s);
        (void)try_load(&f.a, f.ctx, s.bytes, s.len);
    }
    tear_down(&f);
}

/* ---- the codec --------------------------------------------------------------------------------------------------- */

TEST(state_brings_its_codec)
{
    uint8_t log1[4 * ROOM], log2[4 * ROOM];

    FOR_EACH_CODEC(from)
        FOR_EACH_CODEC(to) {
            tlc_config cfg = config(from->text, TLC_F32, TLC_ISA_AUTO);
            at = (place){.codec = from->text, .n = N, .note = to->text};
            cfg.feedback = 1;
            cfg.seed = 3;
            tlc_ctx *one = create(&cfg, N);
            steps(one, 0, 2, TLC_F32, log1);
            state_bytes saved = save(one);

            cfg.codec = to->text;
            cfg.seed = 4;
            tlc_ctx *small = create(&cfg, N);
            snapshot before = snap(small);
            tlc_status status = tlc_state_load(small, saved.bytes, saved.len);
            int fits = tlc_bound(one) <= tlc_bound(small) && scratch_words(from, N) <= scratch_words(to, N);
            require_status(status, fits ? TLC_OK : TLC_ERR_CAPACITY);
            if (status)
                require_same_state(small, &before);
            cfg.reserve = from->text;
            tlc_ctx *two = create(&cfg, N);
            require_status(tlc_state_load(two, saved.bytes, saved.len), TLC_OK);
            size_t len1 = steps(one, 2, 4, TLC_F32, log1), len2 = steps(two, 2, 4, TLC_F32, log2);
            require(len1 == len2 && same(log1, log2, len1));
            snap_free(&before);
            tlc_destroy(one);
            tlc_destroy(small);
            tlc_destroy(two);
        }
}

/* After tlc_set_codec the state has the new codec. A residual that the caller owns is loaded in place. */
TEST(state_after_set_codec)
{
    tlc_config cfg = config("raw", TLC_F32, TLC_ISA_AUTO);
    float residual[N] = {0}, saved[N];
    uint8_t log[4 * ROOM];

    cfg.feedback = 1;
    cfg.residual = residual;
    tlc_ctx *ctx = create(&cfg, N);
    size_t size = tlc_state_size(ctx);
    require_status(tlc_set_codec(ctx, "3lc:s=1.5"), TLC_OK);
    require(tlc_state_size(ctx) == size + strlen("3lc:s=1.5") - strlen("raw"));
    steps(ctx, 0, 2, TLC_F32, log);
    state_bytes s = save(ctx);
    require(same(s.bytes + HEAD, "3lc:s=1.5", 9));
    memcpy(saved, residual, sizeof saved);
    require_status(tlc_set_codec(ctx, "raw"), TLC_OK);
    tlc_reset(ctx);
    require(all_bytes(residual, sizeof residual, 0));
    require_status(tlc_state_load(ctx, s.bytes, s.len), TLC_OK);
    require(same(residual, saved, sizeof saved) && tlc_residual(ctx) == residual);
    state_bytes again = save(ctx);
    require(again.len == s.len && same(again.bytes, s.bytes, s.len));
    tlc_destroy(ctx);
}

TEST(state_arguments)
{
    fixture f = set_up("3lc");
    uint8_t dst[ROOM];
    size_t written = 77;

    require(tlc_state_size(NULL) == 0);
    require_status(tlc_state_save(NULL, dst, ROOM, &written), TLC_ERR_PARAM);
    require_status(tlc_state_save(f.ctx, NULL, ROOM, &written), TLC_ERR_PARAM);
    require_status(tlc_state_save(f.ctx, dst, ROOM, NULL), TLC_ERR_PARAM);
    require_status(tlc_state_load(NULL, f.saved.bytes, f.saved.len), TLC_ERR_PARAM);
    require_status(tlc_state_load(f.ctx, NULL, f.saved.len), TLC_ERR_PARAM);
    require_status(tlc_state_load(f.ctx, NULL, 0), TLC_ERR_CORRUPT);
    require(written == 77);
    tear_down(&f);
}

SETUP(print_isas)
