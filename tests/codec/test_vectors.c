/* SPDX-License-Identifier: MIT
 *
 * The golden vectors of tests/vectors, which model.py writes, against the public API, on every ISA of this machine.
 * Every buffer has exactly the bytes that may be used, so that a sanitizer finds an access outside of it. `void *`
 * arguments have odd addresses, since they need no alignment.
 */
#include "../support/records.h"

#define FILL 0x3c

/* ---- good records ---- */

static tlc_ctx *context(const line *r, tlc_isa isa, uint64_t seed)
{
    tlc_config cfg;
    tlc_ctx *ctx = NULL;
    expect_status(tlc_config_init(&cfg, sizeof cfg), TLC_OK, "tlc_config_init");
    cfg.codec = get(r, "codec");
    cfg.dtype = dtype_of(r);
    cfg.checksum = find(r, "checksum") ? (int)number(r, "checksum") : 0;
    cfg.feedback = (int)number(r, "feedback");
    cfg.seed = seed;
    cfg.isa = isa;
    expect_status(tlc_create(&ctx, &cfg, (size_t)number(r, "n")), TLC_OK, "tlc_create");
    expect(tlc_isa_used(ctx) == isa, "tlc_isa_used");
    return ctx;
}

static void check_state(const line *r, tlc_isa isa, tlc_ctx *ctx)
{
    octets want = unhex(get(r, "state"), 1);
    uint8_t *got = exact(want.len, 1);
    size_t written = 0;
    expect(tlc_state_size(ctx) == want.len, "tlc_state_size");
    expect_status(tlc_state_save(ctx, got, want.len, &written), TLC_OK, "tlc_state_save");
    expect(written == want.len && same(got, want.p, want.len), "state");

    tlc_ctx *fresh = context(r, isa, 77); /* the state has another seed */
    expect_status(tlc_state_load(fresh, want.p, want.len), TLC_OK, "tlc_state_load");
    memset(got, 0, want.len);
    expect(tlc_state_size(fresh) == want.len, "tlc_state_size of the loaded state");
    expect_status(tlc_state_save(fresh, got, want.len, &written), TLC_OK, "tlc_state_save of the loaded state");
    expect(written == want.len && same(got, want.p, want.len), "state saved again");
    if (number(r, "feedback") && number(r, "n"))
        expect(same(tlc_residual(fresh), tlc_residual(ctx), 4 * (size_t)number(r, "n")),
               "residual of the loaded state");
    tlc_destroy(fresh);
}

static void check_decoded(octets frame, tlc_dtype dtype, const char *hex, size_t n, const tlc_decode_options *opt)
{
    size_t size = dtype_size[dtype];
    octets want = elements(hex, size, 0);
    void *out = exact(n * size, 1);
    expect(want.len == n * size, "the vector's length");
    expect_status(tlc_decompress(frame.p, frame.len, dtype, out, n, opt), TLC_OK, "tlc_decompress");
    expect(same(out, want.p, want.len), dtype_name[dtype]);
}

static void check_add_and_mask(const line *r, octets frame, size_t n, const tlc_decode_options *opt)
{
    float weight;
    if (!find(r, "add_sum"))
        return;
    memcpy(&weight, elements(get(r, "add_weight"), 4, 0).p, 4);
    octets sum0 = elements(get(r, "add_sum0"), 4, 0), sum = elements(get(r, "add_sum"), 4, 0);
    float *got = exact(4 * n, 0);
    memcpy(got, sum0.p, 4 * n);
    expect_status(tlc_decompress_add(frame.p, frame.len, weight, got, n, opt), TLC_OK, "tlc_decompress_add");
    expect(same(got, sum.p, 4 * n), "add_sum");

    memcpy(got, sum0.p, 4 * n);
    tlc_status status = tlc_mask(frame.p, frame.len, got, n, opt);
    if (find(r, "mask")) {
        expect_status(status, TLC_OK, "tlc_mask");
        expect(same(got, elements(get(r, "mask"), 4, 0).p, 4 * n), "mask");
    } else {
        expect_status(status, TLC_ERR_UNSUPPORTED, "tlc_mask");
        expect(same(got, sum0.p, 4 * n), "tlc_mask refused, but wrote");
    }
}

/* Byte 2 of good frames without zeros, which tlc_mask refuses. */
static int unmaskable[256];

static void check_info(const line *r, octets frame)
{
    const char *block = strstr(get(r, "codec"), "block=");
    const uint64_t nonzero = strcmp(get(r, "nonzero"), "unknown") ? number(r, "nonzero") : TLC_UNKNOWN;
    tlc_frame_info info;
    memset(&info, 0xa5, sizeof info);
    info.struct_size = sizeof info;
    expect_status(tlc_inspect(frame.p, frame.len, &info), TLC_OK, "tlc_inspect");
    expect(info.version == TLC_FRAME_VERSION, "info.version");
    expect(info.dtype == dtype_of(r), "info.dtype");
    expect((uint64_t)info.checksum == number(r, "checksum"), "info.checksum");
    expect(!strcmp(info.codec, get(r, "info")), "info.codec");
    expect(info.n == number(r, "n"), "info.n");
    expect(info.block == (block ? strtoull(block + 6, NULL, 10) : 0), "info.block");
    expect(info.nonzero == nonzero, "info.nonzero");
    if (frame.len > 2)
        unmaskable[frame.p[2]] = nonzero == TLC_UNKNOWN;
    expect(info.clipped == number(r, "clipped"), "info.clipped");
    expect(info.header_size >= 5 && info.header_size + info.payload_size + (info.checksum ? 4 : 0) == frame.len,
           "info.header_size + info.payload_size");
}

/* Frames what follows the header of a frame, as info describes it. */
static tlc_status frame_again(const tlc_frame_info *info, octets frame, octets *made)
{
    uint8_t *payload = exact((size_t)info->payload_size, 1);
    float scalars[2];
    const size_t count = header_scalars(info, frame.p, scalars);
    const octets floats = {exact(4 * count, 0), 4 * count};

    memcpy(floats.p, scalars, floats.len);
    memcpy(payload, frame.p + info->header_size, (size_t)info->payload_size);
    *made = (octets){exact(frame.len, 1), 0};
    memset(made->p, FILL, frame.len);
    const tlc_status status = tlc_compress_payload(payload, (size_t)info->payload_size,
                                                   (const float *)(const void *)floats.p, (size_t)info->n,
                                                   PARAMS(quartic, .codec = info->codec, .dtype = info->dtype,
                                                          .checksum = info->checksum),
                                                   made->p, frame.len, &made->len);
    if (status != TLC_OK)
        expect(!made->len && all_bytes(made->p, frame.len, FILL), "tlc_compress_payload failed, but wrote");
    return status;
}

static void check_framed(octets frame)
{
    tlc_frame_info info = {.struct_size = sizeof info};
    octets made;

    expect_status(tlc_inspect(frame.p, frame.len, &info), TLC_OK, "tlc_inspect");
    expect_status(frame_again(&info, frame, &made), TLC_OK, "tlc_compress_payload");
    expect(made.len == frame.len && same(made.p, frame.p, frame.len), "framed again");
}

/* tests/matrix sets it for an emulator that rounds subnormal halves wrongly. */
#define f16_rounds() (!getenv("TLC_TEST_NO_F16_ROUNDING"))

static void good_record(const line *r, tlc_isa isa)
{
    if (!f16_rounds() && dtype_of(r) == TLC_F16 && strncmp(get(r, "codec"), "raw", 3) == 0)
        return; /* raw with feedback narrows */
    const size_t n = (size_t)number(r, "n");
    const tlc_dtype dtype = dtype_of(r);
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
    tlc_ctx *ctx = context(r, isa, number(r, "seed"));
    const size_t cap = tlc_bound(ctx);
    uint8_t *dst = exact(cap, 1);
    octets frame = {NULL, 0};

    if (find(r, "residual0"))
        memcpy(tlc_residual(ctx), elements(get(r, "residual0"), 4, 0).p, 4 * n);
    for (const line *l = r; l->key; l++) {
        if (strcmp(l->key, "grad") != 0)
            continue;
        at_step++;
        const int null = !strcmp(l->value, "null");
        octets grad = elements(null ? "-" : l->value, dtype_size[dtype], 1);
        octets before = elements(null ? "-" : l->value, dtype_size[dtype], 0);
        size_t written = 0, bound = 0;
        expect(null || grad.len == n * dtype_size[dtype], "the vector's length");
        expect_status(tlc_compress(ctx, null ? NULL : grad.p, dst, cap, &written), TLC_OK, "tlc_compress");
        expect(same(grad.p, before.p, grad.len), "the gradient was written");
        frame = unhex(l[1].value, 1);
        expect(written <= cap, "tlc_bound");
        expect(written == frame.len && same(dst, frame.p, frame.len), "frame");
        expect_status(tlc_codec_bound(get(r, "codec"), dtype, n, &bound), TLC_OK, "tlc_codec_bound");
        expect(bound >= frame.len, "tlc_codec_bound");
        check_decoded(frame, TLC_F32, l[2].value, n, &opt);
    }
    if (number(r, "feedback"))
        expect(n == 0 || same(tlc_residual(ctx), elements(get(r, "residual"), 4, 0).p, 4 * n), "residual");
    else
        expect(tlc_residual(ctx) == NULL, "a residual without feedback");
    check_state(r, isa, ctx);
    if (find(r, "decoded_f16")) {
        if (f16_rounds())
            check_decoded(frame, TLC_F16, get(r, "decoded_f16"), n, &opt);
        check_decoded(frame, TLC_BF16, get(r, "decoded_bf16"), n, &opt);
    }
    check_add_and_mask(r, frame, n, &opt);
    check_info(r, frame);
    if (frame.p)
        check_framed(frame);
    tlc_destroy(ctx);
}

/* ---- bad records ---- */

static size_t refused; /* payloads */

/* Does the header of ternary+golomb say other bytes than the length of the payload? The new header does not. */
static int says_other_bytes(const tlc_frame_info *info, octets frame)
{
    return strcmp(info->codec, "ternary+golomb") == 0 && !info->block &&
           frame.p[3] >> 4 != (info->payload_size >= tlc_quartic_size((size_t)info->n));
}

/* A payload that decoders refuse is not framed. Where the header is at fault, there is none. */
static void check_bad_payload(octets frame, tlc_status inspected)
{
    tlc_frame_info info = {.struct_size = sizeof info};
    octets made;

    if (tlc_peek(frame.p, frame.len, &info) || info.n > SIZE_MAX)
        return;
    const tlc_status status = frame_again(&info, frame, &made);
    expect(status == TLC_OK || status == TLC_ERR_CORRUPT, "tlc_compress_payload");
    if (inspected != TLC_ERR_CHECKSUM && !says_other_bytes(&info, frame))
        expect_status(status, inspected, "tlc_compress_payload");
    else if (status == TLC_OK)
        expect_status(tlc_inspect(made.p, made.len, &info), TLC_OK, "framed with another header or checksum");
    refused += inspected == TLC_ERR_CORRUPT;
}

static void bad_record(const line *r, tlc_isa isa)
{
    const uint64_t claimed = number(r, "n");
    const tlc_status want = status_of(r, "status");
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
    if (claimed > SIZE_MAX)
        return;                                                  /* a 32-bit machine has no such n */
    const size_t n = (size_t)claimed, room = n <= 4096 ? n : 16; /* nothing may be written */
    octets frame = unhex(get(r, "frame"), 1);

    for (unsigned dtype = 0; dtype < 3; dtype++) {
        void *out = exact(room * dtype_size[dtype], 1);
        memset(out, FILL, room * dtype_size[dtype]);
        expect_status(tlc_decompress(frame.p, frame.len, (tlc_dtype)dtype, out, n, &opt), want, "tlc_decompress");
        if (want != TLC_OK)
            expect(all_bytes(out, room * dtype_size[dtype], FILL), "tlc_decompress failed, but wrote");
    }
    if (want == TLC_OK)
        check_decoded(frame, TLC_F32, get(r, "decoded"), n, &opt);

    float *sum = exact(4 * room, 0);
    memset(sum, FILL, 4 * room);
    expect_status(tlc_decompress_add(frame.p, frame.len, 1.0f, sum, n, &opt), want, "tlc_decompress_add");
    if (want != TLC_OK)
        expect(all_bytes(sum, 4 * room, FILL), "tlc_decompress_add failed, but wrote");

    const int zeroless = want == TLC_OK && unmaskable[frame.p[2]];
    memset(sum, FILL, 4 * room);
    expect_status(tlc_mask(frame.p, frame.len, sum, n, &opt), zeroless ? TLC_ERR_UNSUPPORTED : want, "tlc_mask");
    if (want != TLC_OK || zeroless)
        expect(all_bytes(sum, 4 * room, FILL), "tlc_mask failed, but wrote");

    tlc_frame_info info, before;
    memset(&info, FILL, sizeof info);
    info.struct_size = sizeof info;
    memcpy(&before, &info, sizeof info); /* padding too */
    /* given where n made the difference */
    const tlc_status inspected = find(r, "inspect") ? status_of(r, "inspect") : want;
    expect_status(tlc_inspect(frame.p, frame.len, &info), inspected, "tlc_inspect");
    if (inspected != TLC_OK)
        expect(same(&info, &before, sizeof info), "tlc_inspect failed, but wrote");
    check_bad_payload(frame, inspected);
}

static void bad_state_record(const line *r, tlc_isa isa)
{
    const tlc_status want = status_of(r, "status");
    octets state = unhex(get(r, "state"), 1);
    tlc_ctx *ctx = context(r, isa, 5);
    const size_t n = (size_t)number(r, "n");
    if (tlc_residual(ctx))
        for (size_t i = 0; i < n; i++)
            tlc_residual(ctx)[i] = (float)i - 1.5f;

    size_t written = 0, size = tlc_state_size(ctx);
    uint8_t *before = exact(size, 1);
    expect_status(tlc_state_save(ctx, before, size, &written), TLC_OK, "tlc_state_save");
    expect_status(tlc_state_load(ctx, state.p, state.len), want, "tlc_state_load");
    if (want == TLC_OK) {
        before = state.p;
        size = state.len;
    }
    expect(tlc_state_size(ctx) == size, "tlc_state_size after tlc_state_load");
    uint8_t *after = exact(size, 1);
    expect_status(tlc_state_save(ctx, after, size, &written), TLC_OK, "tlc_state_save after tlc_state_load");
    expect(written == size && same(before, after, size), "the state after tlc_state_load");
    tlc_destroy(ctx);
}

/* ---- every file on every ISA ---- */

static void on_every_isa(const char *name, record_test *test)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", test_argument ? test_argument : "tests/vectors", name);
    FOR_EACH_ISA(isa) {
        at_isa = tlc_isa_name(isa);
        const size_t records = each_record(path, isa, test);
        if (records == 0)
            fail_msg("%s has no records", path);
        print_message("# %s: %s: %zu records\n", name, at_isa, records);
    }
}

TEST(test_good)
{
    on_every_isa("good.txt", good_record);
}

TEST(test_bad) /* after test_good, which finds out what is unmaskable */
{
    on_every_isa("bad.txt", bad_record);
    print_message("# %zu payloads were refused\n", refused);
    require(refused > 20);
}

TEST(test_bad_state)
{
    on_every_isa("bad_state.txt", bad_state_record);
}

SETUP(print_isas)
