/* SPDX-License-Identifier: MIT
 *
 * The other stages of threelc/stages.h: alone they make the payload of frames and decode it; and what they refuse.
 */
#include "../support/support.h"

#define SEED 77
static const size_t sizes[] = {0, 1, 2, 7, 8, 63, 64, 65, 1000, 1025, 5003};

/* The parts of a frame of x, the decoded values and the residual of the context. */
typedef struct sent {
    const uint8_t *payload;
    size_t size;
    float scalar[2];
    uint8_t *frame;
    float *decoded, *residual;
} sent;

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static sent send(const char *codec, const float *x, size_t n, unsigned scalars)
{
    sent s = {.decoded = floats(n), .residual = floats(n)};
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    tlc_frame_info info = {.struct_size = sizeof info};

    at.codec = codec;
    at.n = n;
    cfg.feedback = 1;
    cfg.seed = SEED;
    tlc_ctx *ctx = create(&cfg, n);
    s.frame = bytes(tlc_bound(ctx));
    size_t len = compress(ctx, x, s.frame);
    require_status(tlc_inspect(s.frame, len, &info), TLC_OK);
    s.payload = s.frame + info.header_size;
    s.size = (size_t)info.payload_size;
    for (unsigned i = 0; n && i < scalars; i++)
        s.scalar[i] = bits_float(load32(s.payload - 4 * (scalars - i)));
    require_status(tlc_decompress(s.frame, len, TLC_F32, s.decoded, n, NULL), TLC_OK);
    if (n)
        memcpy(s.residual, tlc_residual(ctx), n * sizeof(float));
    tlc_destroy(ctx);
    return s;
}

static void forget(sent *s)
{
    free(s->frame);
    free(s->decoded);
    free(s->residual);
}

static void require_floats(const float *got, const float *want, size_t n)
{
    require(same(got, want, n * sizeof *got));
}

/* A context adds its residual, +0, to x, and so makes +0 of -0. A stage alone keeps -0. */
static void require_residual(const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        require(got[i] == want[i]);
}

typedef void size_test(const float *x, size_t n, float *out, float *residual);

static void each_size(size_test *test)
{
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (data_kind kind = DATA_LAPLACE; kind < DATA_COUNT; kind++) {
            size_t n = sizes[i];
            float *x = floats(n), *out = floats(n), *residual = floats(n), *copy = floats(n);
            fill(kind, n, x, n);
            if (n)
                memcpy(copy, x, n * sizeof *x);
            test(x, n, out, residual);
            require_floats(x, copy, n); /* not written */
            free(x);
            free(out);
            free(residual);
            free(copy);
        }
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

static void stochastic_of(const float *x, size_t n, float *out, float *residual)
{
    sent s = send("stochastic-ternary+quartic", x, n, 1);
    int8_t *q = (int8_t *)bytes(n);
    uint8_t *packed = bytes(n);
    size_t written = 0;
    float M = -1;

    const tlc_stochastic_ternary_params *params = PARAMS(stochastic_ternary, .seed = SEED, .residual = residual);
    require_status(tlc_stochastic_ternary_encode(x, n, params, q, &M), TLC_OK);
    require(M == s.scalar[0]);
    require_residual(residual, s.residual, n);
    require_status(tlc_quartic_encode(q, n, packed, n, &written), TLC_OK);
    require(written == s.size && same(packed, s.payload, written));
    require_status(tlc_ternary_decode(q, n, M, out), TLC_OK);
    require_floats(out, s.decoded, n);
    free(q);
    free(packed);
    forget(&s);
}

TEST(stochastic)
{
    each_size(stochastic_of);
}

static void sparse_binary_of(const float *x, size_t n, float *out, float *residual)
{
    sent s = send("sbc:p=0.05", x, n, 1);
    size_t cap = tlc_golomb_size(n, n, TLC_GOLOMB_UNSIGNED), written = 0;
    int8_t *q = (int8_t *)bytes(n), *back = (int8_t *)bytes(n);
    uint64_t *scratch = (uint64_t *)(void *)bytes((n + 63) / 64 * 16);
    uint8_t *code = bytes(cap);
    float mean = -1;

    require_status(tlc_sparse_binary_encode(x, n, 0.05, q, residual, &mean), TLC_OK);
    require(!n || float_bits(mean) == float_bits(s.scalar[0]));
    require_residual(residual, s.residual, n);
    const tlc_golomb_params *params = PARAMS(golomb, .scratch = scratch);
    require_status(tlc_golomb_encode(q, n, params, code, cap, &written), TLC_OK);
    require(n ? written == s.size && same(code, s.payload, written) : written == 2);
    require_status(tlc_golomb_encode(q, n, params, code, written - 1, &written), TLC_ERR_CAPACITY);
    require_status(tlc_golomb_decode(code, written, TLC_GOLOMB_UNSIGNED, back, n), TLC_OK);
    require(same(q, back, n));
    require_status(tlc_sparse_binary_decode(q, n, mean, out), TLC_OK);
    require_floats(out, s.decoded, n);
    free(q);
    free(back);
    free(scratch);
    free(code);
    forget(&s);
}

TEST(sparse_binary)
{
    each_size(sparse_binary_of);
}

static void golomb_of(const float *x, size_t n, float *out, float *residual)
{
    size_t cap = tlc_golomb_size(n, n, TLC_GOLOMB_SIGNED), written = 0;
    int8_t *q = (int8_t *)bytes(n), *back = (int8_t *)bytes(n);
    uint64_t *scratch = (uint64_t *)(void *)bytes((n + 63) / 64 * 16);
    uint8_t *code = bytes(cap);
    float M;

    at.codec = "ternary+golomb";
    at.n = n;
    require_status(tlc_ternary_encode(x, n, 1.5f, q, residual, &M), TLC_OK);
    const tlc_golomb_params *params = PARAMS(golomb, .signs = TLC_GOLOMB_SIGNED, .scratch = scratch);
    require_status(tlc_golomb_encode(q, n, params, code, cap, &written), TLC_OK);
    require_status(tlc_golomb_decode(code, written, TLC_GOLOMB_SIGNED, back, n), TLC_OK);
    require(same(q, back, n));
    if (n && written < (n + 4) / 5) { /* otherwise frames have quartic bytes */
        sent s = send("3lc-golomb:s=1.5", x, n, 1);
        require(written == s.size && same(code, s.payload, written));
        require_status(tlc_ternary_decode(q, n, M, out), TLC_OK);
        require_floats(out, s.decoded, n);
        forget(&s);
    }
    for (size_t len = 0; len < written; len++)
        require_status(tlc_golomb_decode(code, len, TLC_GOLOMB_SIGNED, back, n), TLC_ERR_CORRUPT);
    require(same(q, back, n));
    free(q);
    free(back);
    free(scratch);
    free(code);
}

TEST(golomb)
{
    each_size(golomb_of);
}

/* ---- a code for each value --------------------------------------------------------------------------------------- */

static void levels_of(const float *x, size_t n, float *out, float *residual)
{
    static const struct {
        const char *codec;
        tlc_levels K;
        tlc_rounding rounding;
    } forms[] = {{"int8", TLC_LEVELS_255, TLC_ROUND_NEAREST},
                 {"qsgd", TLC_LEVELS_255, TLC_ROUND_RANDOM},
                 {"qsgd:bits=4", TLC_LEVELS_15, TLC_ROUND_RANDOM}};

    for (size_t i = 0; i < COUNT(forms); i++) {
        sent s = send(forms[i].codec, x, n, 1);
        int8_t *q = (int8_t *)bytes(n);
        float max = -1;

        const tlc_levels_params *params = PARAMS(levels, .levels = forms[i].K, .rounding = forms[i].rounding,
                                                 .seed = SEED, .residual = residual);
        require_status(tlc_levels_encode(x, n, params, q, &max), TLC_OK);
        require(max == s.scalar[0]);
        require_residual(residual, s.residual, n);
        require(forms[i].K == TLC_LEVELS_15 || same(q, s.payload, n));
        require_status(tlc_levels_decode(q, n, forms[i].K, max, out), TLC_OK);
        require_floats(out, s.decoded, n);
        free(q);
        forget(&s);
    }
}

TEST(levels)
{
    each_size(levels_of);
}

static void natural_of(const float *x, size_t n, float *out, float *residual)
{
    static const struct {
        const char *codec;
        tlc_natural_bits bits;
        tlc_rounding rounding;
        int shift;
    } forms[] = {{"natural", TLC_NATURAL_8, TLC_ROUND_RANDOM, 0},
                 {"natural:rounding=nearest,shift=9", TLC_NATURAL_8, TLC_ROUND_NEAREST, 9},
                 {"natural:bits=9", TLC_NATURAL_9, TLC_ROUND_RANDOM, 0},
                 {"natural:bits=9,shift=117,rounding=nearest", TLC_NATURAL_9, TLC_ROUND_NEAREST, 117}};

    for (size_t i = 0; i < COUNT(forms); i++) {
        sent s = send(forms[i].codec, x, n, 0);
        size_t size = forms[i].bits == TLC_NATURAL_8 ? n : n + (n + 7) / 8;
        uint8_t *codes = bytes(size);
        uint64_t clipped = 1;

        const tlc_natural_params *params = PARAMS(natural, .bits = forms[i].bits, .rounding = forms[i].rounding,
                                                  .shift = forms[i].shift, .seed = SEED, .residual = residual);
        require_status(tlc_natural_encode(x, n, params, codes, size, &clipped), TLC_OK);
        require(clipped == (n ? load32(s.payload) : 0));
        require_residual(residual, s.residual, n);
        require(n ? size + 4 == s.size && same(codes, s.payload + 4, size) : s.size == 0);
        require_status(tlc_natural_decode(codes, size, forms[i].bits, forms[i].shift, out, n), TLC_OK);
        require_floats(out, s.decoded, n);
        require_status(tlc_natural_decode(codes, size + 1, forms[i].bits, forms[i].shift, out, n), TLC_ERR_SIZE);
        if (n) {
            codes[n - 1] = 0xff;
            require_status(tlc_natural_decode(codes, size, forms[i].bits, forms[i].shift, out, n), TLC_ERR_CORRUPT);
            require_status(tlc_natural_encode(x, n, params, codes, size - 1, NULL), TLC_ERR_CAPACITY);
        }
        free(codes);
        forget(&s);
    }
}

TEST(natural)
{
    each_size(natural_of);
}

static void onebit_of(const float *x, size_t n, float *out, float *residual)
{
    sent s = send("onebit", x, n, 2);
    size_t size = (n + 7) / 8;
    uint8_t *bits = bytes(size);
    float mean[2] = {-1, -1};

    require_status(tlc_onebit_encode(x, n, bits, residual, mean), TLC_OK);
    require_floats(mean, s.scalar, 2);
    require_residual(residual, s.residual, n);
    require(size == s.size && same(bits, s.payload, size));
    require_status(tlc_onebit_decode(bits, size, mean, out, n), TLC_OK);
    require_floats(out, s.decoded, n);
    memcpy(residual, out, n * sizeof *out); /* what it was, to compare with */
    require_status(tlc_onebit_decode(bits, size + 1, mean, out, n), TLC_ERR_SIZE);
    if (n)
        require_status(tlc_onebit_decode(bits, size - 1, mean, out, n), TLC_ERR_SIZE);
    require_floats(out, residual, n);
    if (n % 8) {
        bits[n / 8] |= 0x80;
        require_status(tlc_onebit_decode(bits, size, mean, out, n), TLC_ERR_CORRUPT);
    }
    free(bits);
    forget(&s);
}

TEST(onebit)
{
    each_size(onebit_of);
}

/* ---- sparse values ----------------------------------------------------------------------------------------------- */

static void topk_of(const float *x, size_t n, float *out, float *residual)
{
    sent s = send("topk:p=0.1", x, n, 0);
    size_t cap = (n + 7) / 8 + 4 * n, written = 0;
    uint8_t *code = bytes(cap);

    const tlc_topk_params *params = PARAMS(topk, .p = 0.1, .seed = SEED, .residual = residual);
    require_status(tlc_topk_encode(x, n, params, code, cap, &written), TLC_OK);
    require_residual(residual, s.residual, n);
    require(written == s.size && same(code, s.payload, written));
    require_status(tlc_topk_decode(code, written, out, n), TLC_OK);
    require_floats(out, s.decoded, n);
    for (size_t len = 0; len < written && len < 40; len++)
        require_status(tlc_topk_decode(code, len, out, n), TLC_ERR_CORRUPT);
    if (n > 100)
        require_status(tlc_topk_encode(x, n, params, code, (n + 7) / 8, &written), TLC_ERR_CAPACITY);
    free(code);
    forget(&s);
}

static void random_sparse_of(const float *x, size_t n, float *out, float *residual)
{
    sent s = send("random-sparse:p=0.3", x, n, 0);
    size_t cap = tlc_golomb_size(n, n, TLC_GOLOMB_UNSIGNED) + 4 * n, written = 0;
    uint64_t *scratch = (uint64_t *)(void *)bytes((n + 63) / 64 * 8);
    uint8_t *code = bytes(cap);

    const tlc_random_sparse_params *params = PARAMS(random_sparse, .p = 0.3, .seed = SEED, .scratch = scratch,
                                                    .residual = residual);
    require_status(tlc_random_sparse_encode(x, n, params, code, cap, &written), TLC_OK);
    require_residual(residual, s.residual, n);
    require(written == s.size && same(code, s.payload, written));
    require_status(tlc_random_sparse_decode(code, written, out, n), TLC_OK);
    require_floats(out, s.decoded, n);
    for (size_t len = 0; len < written && len < 40; len++)
        require_status(tlc_random_sparse_decode(code, len, out, n), TLC_ERR_CORRUPT);
    if (n)
        require_status(tlc_random_sparse_encode(x, n, params, code, cap - 1, &written), TLC_ERR_CAPACITY);
    free(scratch);
    free(code);
    forget(&s);
}

TEST(sparse_values)
{
    each_size(topk_of);
    each_size(random_sparse_of);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

enum { N = 9 };

/* Each call gives the status and writes nothing. */
static void require_refusals(const float *x, double p, tlc_status want)
{
    uint8_t out[256], before[sizeof out];
    uint64_t scratch[4];
    float residual[N], mean[2] = {3, 4};
    size_t written = 55;

    memset(out, 0x5a, sizeof out);
    memset(before, 0x5a, sizeof before);
    memset(residual, 0x5a, sizeof residual);
    if (want == TLC_ERR_NONFINITE) {
        require_status(tlc_stochastic_ternary_encode(x, N, PARAMS(stochastic_ternary, .residual = residual),
                                                     (int8_t *)out, mean),
                       want);
        require_status(tlc_levels_encode(x, N, PARAMS(levels, .residual = residual), (int8_t *)out, mean), want);
        require_status(tlc_natural_encode(x, N, PARAMS(natural, .residual = residual), out, sizeof out, NULL), want);
        require_status(tlc_onebit_encode(x, N, out, residual, mean), want);
    }
    require_status(tlc_sparse_binary_encode(x, N, p, (int8_t *)out, residual, mean), want);
    require_status(tlc_topk_encode(x, N, PARAMS(topk, .p = p, .residual = residual), out, sizeof out, &written), want);
    const tlc_random_sparse_params *params = PARAMS(random_sparse, .p = p, .scratch = scratch, .residual = residual);
    require_status(tlc_random_sparse_encode(x, N, params, out, sizeof out, &written), want);
    require(same(out, before, sizeof out) && all_bytes(residual, sizeof residual, 0x5a) && written == 55);
    require(mean[0] == 3 && mean[1] == 4);
}

TEST(refusals)
{
    static const double bad_p[] = {-0x1p-1074, -0.5, 1.0000001, 2, 1e300};
    static const uint32_t bad_x[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001};
    float x[N] = {1, 2, 3, -4, 5, 6, 7, 8, 9};
    int8_t q[N] = {0, 1, -1};
    uint64_t scratch[4];
    uint8_t out[64];
    size_t written;

    for (size_t i = 0; i < COUNT(bad_p); i++)
        require_refusals(x, bad_p[i], TLC_ERR_PARAM);
    require_refusals(x, (double)bits_float(0x7fc00000), TLC_ERR_PARAM);
    require_status(tlc_sparse_binary_encode(x, N, 0, q, NULL, x), TLC_ERR_PARAM); /* an argument has no default */
    for (size_t i = 0; i < COUNT(bad_x); i++)
        for (size_t k = 0; k < N; k++) {
            float old = x[k];
            x[k] = bits_float(bad_x[i]);
            require_refusals(x, 0.5, TLC_ERR_NONFINITE);
            x[k] = old;
        }
    tlc_golomb_params *golomb_params = PARAMS(golomb, .scratch = scratch);
    require_status(tlc_golomb_encode(q, N, golomb_params, out, sizeof out, &written), TLC_ERR_PARAM); /* a sign */
    q[2] = 2;
    golomb_params->signs = TLC_GOLOMB_SIGNED;
    require_status(tlc_golomb_encode(q, N, golomb_params, out, sizeof out, &written), TLC_ERR_PARAM);
    require_status(tlc_levels_encode(x, N, PARAMS(levels, .levels = (tlc_levels)100), q, x), TLC_ERR_PARAM);
    q[2] = -128;
    require_status(tlc_levels_decode(q, N, TLC_LEVELS_255, 1.0f, x), TLC_ERR_PARAM);
    require_status(tlc_sparse_binary_decode(q, N, 1.0f, x), TLC_ERR_PARAM);
    const tlc_natural_params *natural_params = PARAMS(natural, .bits = (tlc_natural_bits)7);
    require_status(tlc_natural_encode(x, N, natural_params, out, sizeof out, NULL), TLC_ERR_PARAM);
    require_status(tlc_natural_encode(x, N, PARAMS(natural, .shift = 118), out, sizeof out, NULL), TLC_ERR_PARAM);
    require_status(tlc_natural_encode(x, N, PARAMS(natural, .shift = -1), out, sizeof out, NULL), TLC_ERR_PARAM);
    require_status(tlc_philox(1, 2, 3, 1, NULL), TLC_ERR_PARAM);
    require_status(tlc_philox(1, 2, 3, 0, NULL), TLC_OK);
    require(tlc_golomb_size(100, 0, TLC_GOLOMB_SIGNED) == 2);
    require(tlc_golomb_size(100, 1, TLC_GOLOMB_UNSIGNED) == 3); /* b = 6: 1 + 6 bits, and 99 >> 6 */
    require(SIZE_MAX == UINT32_MAX || tlc_golomb_size(SIZE_MAX, SIZE_MAX, TLC_GOLOMB_SIGNED) == SIZE_MAX);
}
