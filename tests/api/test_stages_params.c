/* SPDX-License-Identifier: MIT
 *
 * The structs of parameters of threelc/stages.h: any size that a caller knows, what a field of 0 means, NULL, numbers
 * that are not in the enums; and the length that tlc_onebit_decode asks for.
 */
#include "../support/support.h"

enum { N = 77, ROOM = 16 * N, MORE = 24, FILL = 0x5a };

/* All that a call can change. */
typedef struct results {
    uint8_t out[ROOM];
    float scalar, residual[N];
    uint64_t clipped;
    size_t written;
} results;

static results now;
static uint64_t scratch[2 * (N / 64 + 1)];
static float x[N];
static int8_t q[N];
static uint8_t frame[ROOM];
static size_t frame_len;

/* ---- the functions ----------------------------------------------------------------------------------------------- */

typedef tlc_status with_params(const void *params);

static tlc_status stochastic_ternary(const void *params)
{
    return tlc_stochastic_ternary_encode(x, N, params, (int8_t *)now.out, &now.scalar);
}

static tlc_status golomb(const void *params)
{
    return tlc_golomb_encode(q, N, params, now.out, ROOM, &now.written);
}

static tlc_status levels(const void *params)
{
    return tlc_levels_encode(x, N, params, (int8_t *)now.out, &now.scalar);
}

static tlc_status natural(const void *params)
{
    return tlc_natural_encode(x, N, params, now.out, ROOM, &now.clipped);
}

static tlc_status natural_aggregate(const void *params)
{
    const tlc_message frames[] = {{frame, frame_len}, {frame, frame_len}};
    return tlc_natural_aggregate(frames, COUNT(frames), params, now.out, ROOM, &now.written);
}

static tlc_status topk(const void *params)
{
    return tlc_topk_encode(x, N, params, now.out, ROOM, &now.written);
}

static tlc_status random_sparse(const void *params)
{
    return tlc_random_sparse_encode(x, N, params, now.out, ROOM, &now.written);
}

/* Where fields begin, in any of the structs; 0 ends the list. */
enum { FIELDS = 8 };
typedef struct params_case {
    const char *name;
    with_params *call;
    const void *full; /* see below */
    size_t size, fields[FIELDS];
    tlc_status null; /* what NULL gives */
} params_case;

enum { STOCHASTIC_TERNARY, GOLOMB, LEVELS, NATURAL, NATURAL_AGGREGATE, TOPK, RANDOM_SPARSE, CASES };

/* Every field is given, and none is its default. */
static const tlc_stochastic_ternary_params all_stochastic_ternary = {.struct_size = sizeof all_stochastic_ternary,
                                                                     .seed = 3,
                                                                     .step = 4,
                                                                     .residual = now.residual};
static const tlc_golomb_params all_golomb = {.struct_size = sizeof all_golomb,
                                             .signs = TLC_GOLOMB_SIGNED,
                                             .scratch = scratch};
static const tlc_levels_params all_levels = {.struct_size = sizeof all_levels,
                                             .levels = TLC_LEVELS_15,
                                             .rounding = TLC_ROUND_NEAREST,
                                             .seed = 3,
                                             .step = 4,
                                             .residual = now.residual};
static const tlc_natural_params all_natural = {.struct_size = sizeof all_natural,
                                               .bits = TLC_NATURAL_9,
                                               .rounding = TLC_ROUND_NEAREST,
                                               .shift = 5,
                                               .seed = 3,
                                               .step = 4,
                                               .residual = now.residual};
static const tlc_natural_aggregate_params all_natural_aggregate = {.struct_size = sizeof all_natural_aggregate,
                                                                   .seed = 3,
                                                                   .step = 4,
                                                                   .rounding = TLC_ROUND_NEAREST};
static const tlc_topk_params all_topk = {.struct_size = sizeof all_topk,
                                         .p = 0.25,
                                         .seed = 3,
                                         .step = 4,
                                         .residual = now.residual,
                                         .select = TLC_SELECT_EXACT};
static const tlc_random_sparse_params all_random_sparse = {.struct_size = sizeof all_random_sparse,
                                                           .p = 0.25,
                                                           .seed = 3,
                                                           .step = 4,
                                                           .scratch = scratch,
                                                           .residual = now.residual};

#define CASE(stage) .name = #stage, .call = (stage), .full = &all_##stage, .size = sizeof all_##stage
#define FIELD(stage, field) offsetof(tlc_##stage##_params, field)

static const params_case cases[CASES] = {
    [STOCHASTIC_TERNARY] = {CASE(stochastic_ternary), .null = TLC_OK,
                            .fields = {FIELD(stochastic_ternary, seed), FIELD(stochastic_ternary, step),
                                       FIELD(stochastic_ternary, residual)}},
    [GOLOMB] = {CASE(golomb), .null = TLC_ERR_PARAM, .fields = {FIELD(golomb, signs), FIELD(golomb, scratch)}},
    [LEVELS] = {CASE(levels), .null = TLC_OK,
                .fields = {FIELD(levels, levels), FIELD(levels, rounding), FIELD(levels, seed), FIELD(levels, step),
                           FIELD(levels, residual)}},
    [NATURAL] = {CASE(natural), .null = TLC_OK,
                 .fields = {FIELD(natural, bits), FIELD(natural, rounding), FIELD(natural, shift), FIELD(natural, seed),
                            FIELD(natural, step), FIELD(natural, residual)}},
    [NATURAL_AGGREGATE] = {CASE(natural_aggregate), .null = TLC_OK,
                           .fields = {FIELD(natural_aggregate, seed), FIELD(natural_aggregate, step),
                                      FIELD(natural_aggregate, rounding)}},
    [TOPK] = {CASE(topk), .null = TLC_OK,
              .fields = {FIELD(topk, p), FIELD(topk, seed), FIELD(topk, step), FIELD(topk, residual),
                         FIELD(topk, select)}},
    [RANDOM_SPARSE] = {CASE(random_sparse), .null = TLC_ERR_PARAM,
                       .fields = {FIELD(random_sparse, p), FIELD(random_sparse, seed), FIELD(random_sparse, step),
                                  FIELD(random_sparse, scratch), FIELD(random_sparse, residual)}},
};

static tlc_status call(const params_case *c, const void *params, results *result)
{
    results before;

    memset(&now, FILL, sizeof now);
    before = now;
    memset(scratch, 0, sizeof scratch);
    tlc_status status = c->call(params);
    require(status == TLC_OK || same(&now, &before, sizeof now));
    *result = now;
    return status;
}

static void set_up(void)
{
    tlc_config cfg = config("natural", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, N);
    float M;

    fill(DATA_LAPLACE, 8, x, N);
    frame_len = compress(ctx, x, frame);
    tlc_destroy(ctx);
    require_status(tlc_ternary_encode(x, N, 1, q, NULL, &M), TLC_OK);
}

static void require_call(const params_case *c, const void *params, tlc_status want)
{
    results got;

    require_status(call(c, params, &got), want);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* What a smaller size leaves out is 0, whatever lies there. */
static void smaller(const params_case *c, size_t size)
{
    _Alignas(16) uint8_t cut[64], zeroed[64];
    results got, want;

    at.i = size;
    memset(cut, 0xff, sizeof cut);
    memset(zeroed, 0, sizeof zeroed);
    memcpy(cut, c->full, size);
    memcpy(zeroed, c->full, size);
    memcpy(cut, &size, sizeof size);
    memcpy(zeroed, &c->size, sizeof c->size);
    tlc_status status = call(c, zeroed, &want);
    require_status(call(c, cut, &got), status);
    require(same(&got, &want, sizeof got));
}

/* Bytes that the library does not know are 0, or the caller wants what it cannot do. */
static void larger(const params_case *c)
{
    _Alignas(16) uint8_t more[64 + MORE] = {0};
    results got, want;

    require_status(call(c, c->full, &want), TLC_OK);
    memcpy(more, c->full, c->size);
    for (size_t size = c->size; size <= c->size + MORE; size++) {
        at.i = size;
        memcpy(more, &size, sizeof size);
        require_status(call(c, more, &got), TLC_OK);
        require(same(&got, &want, sizeof got));
        for (size_t i = c->size; i < size; i++) {
            more[i] = 1;
            require_status(call(c, more, &got), TLC_ERR_PARAM);
            more[i] = 0;
        }
        more[size] = 1; /* beyond what is given */
        require_status(call(c, more, &got), TLC_OK);
        more[size] = 0;
    }
}

TEST(struct_sizes)
{
    set_up();
    for (const params_case *c = cases; c < cases + COUNT(cases); c++) {
        at = (place){.note = c->name};
        require(c->size <= 64);
        for (size_t i = 0; i < FIELDS && c->fields[i]; i++)
            smaller(c, c->fields[i]);
        larger(c);
        for (size_t size = 0; size < sizeof size; size++) {
            _Alignas(16) uint8_t tiny[64];
            at.i = size;
            memcpy(tiny, c->full, c->size);
            memcpy(tiny, &size, sizeof size);
            require_call(c, tiny, TLC_ERR_PARAM);
        }
    }
}

/* No byte past struct_size is read. */
TEST(not_beyond_the_size)
{
    arena pages;

    set_up();
    arena_open(&pages, 64);
    for (const params_case *c = cases; c < cases + COUNT(cases); c++)
        for (size_t size = sizeof size; size <= c->size; size += 8) {
            results got, want;
            uint8_t *params = arena_copy(&pages, c->full, size, 1);
            _Alignas(16) uint8_t zeroed[64] = {0};
            at = (place){.note = c->name, .i = size};
            memcpy(params, &size, sizeof size);
            memcpy(zeroed, c->full, size);
            memcpy(zeroed, &c->size, sizeof c->size);
            tlc_status status = call(c, zeroed, &want);
            require_status(call(c, params, &got), status);
            require(same(&got, &want, sizeof got));
        }
    arena_close(&pages);
}

/* ---- defaults ---------------------------------------------------------------------------------------------------- */

TEST(null_is_all_zero)
{
    set_up();
    for (const params_case *c = cases; c < cases + COUNT(cases); c++) {
        _Alignas(16) uint8_t zeros[64] = {0};
        results got, want;
        at = (place){.note = c->name};
        memcpy(zeros, &c->size, sizeof c->size);
        require_status(call(c, zeros, &want), c->null);
        require_status(call(c, NULL, &got), c->null);
        require(same(&got, &want, sizeof got));
    }
}

static void require_same_call(const params_case *c, const void *params, const void *others)
{
    results got, want;

    require_status(call(c, params, &got), TLC_OK);
    require_status(call(c, others, &want), TLC_OK);
    require(same(&got, &want, sizeof got));
}

/* What 0 stands for, written out. */
TEST(zero_is_the_default)
{
    set_up();
    at = (place){.note = "defaults"};
    require_same_call(&cases[LEVELS], PARAMS(levels, .seed = 9),
                      PARAMS(levels, .levels = TLC_LEVELS_255, .rounding = TLC_ROUND_RANDOM, .seed = 9));
    require_same_call(&cases[NATURAL], PARAMS(natural, .seed = 9),
                      PARAMS(natural, .bits = TLC_NATURAL_8, .rounding = TLC_ROUND_RANDOM, .seed = 9));
    q[0] = -1;
    require_call(&cases[GOLOMB], PARAMS(golomb, .scratch = scratch), TLC_ERR_PARAM);    /* no signs */
    require_status(tlc_golomb_encode(q, 0, NULL, now.out, ROOM, &now.written), TLC_OK); /* no scratch is needed */
    require(now.written == 2);
    require_same_call(&cases[TOPK], PARAMS(topk, .seed = 9), PARAMS(topk, .p = 0.05, .seed = 9));
    require_same_call(&cases[RANDOM_SPARSE], PARAMS(random_sparse, .seed = 9, .scratch = scratch),
                      PARAMS(random_sparse, .p = 0.25, .seed = 9, .scratch = scratch));
    require_call(&cases[RANDOM_SPARSE], PARAMS(random_sparse, .p = 0.25), TLC_ERR_PARAM); /* no scratch */
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static tlc_status ok_if(int good)
{
    return good ? TLC_OK : TLC_ERR_PARAM;
}

static void encoders_with(int number)
{
    const int is_levels = number == 127 || number == 7, is_bits = number == 8 || number == 9;
    const int is_flag = number == 0 || number == 1;

    require_call(&cases[LEVELS], PARAMS(levels, .levels = (tlc_levels)number), ok_if(is_levels || !number));
    require_call(&cases[LEVELS], PARAMS(levels, .rounding = (tlc_rounding)number), ok_if(is_flag));
    require_call(&cases[NATURAL], PARAMS(natural, .bits = (tlc_natural_bits)number), ok_if(is_bits || !number));
    require_call(&cases[NATURAL], PARAMS(natural, .rounding = (tlc_rounding)number), ok_if(is_flag));
    require_call(&cases[NATURAL], PARAMS(natural, .shift = number), ok_if(number >= 0 && number <= 117));
    require_call(&cases[GOLOMB], PARAMS(golomb, .signs = (tlc_golomb_signs)number, .scratch = scratch), ok_if(is_flag));
}

/* They have no default for 0. */
static void decoders_with(int number)
{
    const size_t len = number == TLC_NATURAL_9 ? N + (N + 7) / 8 : N;
    const uint8_t none[2] = {0};
    uint8_t codes[2 * N] = {0};
    int8_t symbols[N] = {0};
    float out[N];

    memset(codes, 0x40, N); /* 0 in 8 bits, 2^-63 in 9 */
    require_status(tlc_levels_decode(symbols, N, (tlc_levels)number, 1, out), ok_if(number == 127 || number == 7));
    require_status(tlc_natural_decode(codes, len, (tlc_natural_bits)number, 0, out, N),
                   ok_if(number == 8 || number == 9));
    require_status(tlc_golomb_decode(none, 2, (tlc_golomb_signs)number, symbols, N), ok_if(number == 0 || number == 1));
}

TEST(numbers_outside_the_enums)
{
    set_up();
    memset(q, 0, sizeof q);
    for (int number = -300; number <= 300; number++) {
        at = (place){.note = "enums", .i = (size_t)(number + 300)};
        encoders_with(number);
        decoders_with(number);
    }
}

/* ---- the length of onebit's code --------------------------------------------------------------------------------- */

TEST(onebit_lengths)
{
    const float mean[2] = {1, -2}, bad[2] = {bits_float(0x7f800000), 0};
    float out[64];
    uint8_t bits[16] = {0};

    memset(out, FILL, sizeof out);
    for (size_t n = 0; n <= COUNT(out); n++)
        for (size_t len = 0; len <= sizeof bits; len++) {
            at = (place){.note = "onebit", .n = n, .i = len};
            require_status(tlc_onebit_decode(bits, len, bad, out, n), TLC_ERR_PARAM); /* reported first */
            if (len == (n + 7) / 8)
                continue;
            memset(bits, 0xff, sizeof bits);
            require_status(tlc_onebit_decode(bits, len, mean, out, n), TLC_ERR_SIZE); /* before it looks at bits */
            require(all_bytes(out, sizeof out, FILL));
            memset(bits, 0, sizeof bits);
        }
    require_status(tlc_onebit_decode(bits, SIZE_MAX, mean, out, SIZE_MAX), TLC_ERR_SIZE);
    for (size_t n = 0; n <= COUNT(out); n++) {
        at.n = n;
        require_status(tlc_onebit_decode(bits, (n + 7) / 8, mean, out, n), TLC_OK);
        require(n == 0 || out[n - 1] == -2);
    }
    require_status(tlc_onebit_decode(NULL, 0, mean, NULL, 0), TLC_OK);
    require_status(tlc_onebit_decode(NULL, 1, mean, out, 8), TLC_ERR_PARAM);
}
