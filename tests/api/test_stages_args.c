/* SPDX-License-Identifier: MIT
 *
 * The arguments of the stages alone. Every set of NULL pointers is allowed, or it is refused and nothing changes. The
 * residual may be NULL, or x itself.
 */
#include "../support/support.h"

#define SEED 5
enum { IN, OUT, RESIDUAL, SCALAR, SCRATCH, WRITTEN, MORE, POINTERS };
enum { N = 5, ROOM = 64 };

/* ---- NULL -------------------------------------------------------------------------------------------------------- */

typedef tlc_status stage_call(size_t n, size_t len, void *const p[POINTERS]);

/* A stage's function with the pointers in their places. */
typedef struct stage_case {
    const char *name;
    stage_call *call;
    unsigned always, some, never; /* pointers that it needs; that it needs if n > 0; that may be NULL */
    size_t len, empty;            /* bytes that n = N and n = 0 decode from; 0 where it takes floats */
    uint8_t in[2];
} stage_case;

/* Capacity of the outputs. */
static size_t room(size_t n)
{
    return n ? ROOM : 0;
}

#define CALL(name, ...)                                                                                                \
    static tlc_status name(size_t n, size_t len, void *const p[POINTERS])                                              \
    {                                                                                                                  \
        (void)len;                                                                                                     \
        return tlc_##name(__VA_ARGS__);                                                                                \
    }
CALL(stochastic_ternary_encode, p[IN], n, PARAMS(stochastic_ternary, .seed = SEED, .residual = p[RESIDUAL]), p[OUT],
     p[SCALAR])
CALL(ternary_encode, p[IN], n, 1.0f, p[OUT], p[RESIDUAL], p[SCALAR])
CALL(ternary_decode, p[IN], n, 1.0f, p[OUT])
CALL(ternary_add, p[IN], n, 1.0f, p[OUT])
CALL(quartic_encode, p[IN], n, p[OUT], room(n), p[WRITTEN])
CALL(quartic_decode, p[IN], len, p[OUT], n)
CALL(zerorun_encode, p[IN], n, p[OUT], room(n), p[WRITTEN])
CALL(zerorun_decode, p[IN], len, p[OUT], room(n), p[WRITTEN])
CALL(sparse_binary_encode, p[IN], n, 0.5, p[OUT], p[RESIDUAL], p[SCALAR])
CALL(sparse_binary_decode, p[IN], n, 1.0f, p[OUT])
CALL(golomb_encode, p[IN], n, PARAMS(golomb, .signs = TLC_GOLOMB_SIGNED, .scratch = p[SCRATCH]), p[OUT], ROOM,
     p[WRITTEN])
CALL(golomb_decode, p[IN], len, TLC_GOLOMB_SIGNED, p[OUT], n)
CALL(levels_encode, p[IN], n, PARAMS(levels, .levels = TLC_LEVELS_15, .seed = SEED, .residual = p[RESIDUAL]), p[OUT],
     p[SCALAR])
CALL(levels_decode, p[IN], n, TLC_LEVELS_15, 1.0f, p[OUT])
CALL(natural_encode, p[IN], n, PARAMS(natural, .bits = TLC_NATURAL_9, .seed = SEED, .residual = p[RESIDUAL]), p[OUT],
     room(n), p[MORE])
CALL(natural_decode, p[IN], len, TLC_NATURAL_8, 0, p[OUT], n)
CALL(onebit_encode, p[IN], n, p[OUT], p[RESIDUAL], p[SCALAR])
CALL(onebit_decode, p[IN], len, p[SCALAR], p[OUT], n)
CALL(topk_encode, p[IN], n, PARAMS(topk, .p = 0.5, .seed = SEED, .residual = p[RESIDUAL]), p[OUT], room(n), p[WRITTEN])
CALL(topk_decode, p[IN], len, p[OUT], n)
CALL(random_sparse_encode, p[IN], n,
     PARAMS(random_sparse, .p = 0.5, .seed = SEED, .scratch = p[SCRATCH], .residual = p[RESIDUAL]), p[OUT], room(n),
     p[WRITTEN])
CALL(random_sparse_decode, p[IN], len, p[OUT], n)
CALL(convert, TLC_F32, p[IN], TLC_F16, p[OUT], n)

#define ARG(name) (1u << (name))
#define BOTH (ARG(IN) | ARG(OUT))
static const stage_case stage_cases[] = {
    {"stochastic_ternary_encode", stochastic_ternary_encode, ARG(SCALAR), BOTH, ARG(RESIDUAL), 0, 0, {0}},
    {"ternary_encode", ternary_encode, ARG(SCALAR), BOTH, ARG(RESIDUAL), 0, 0, {0}},
    {"ternary_decode", ternary_decode, 0, BOTH, 0, N, 0, {1, 0xff}},
    {"ternary_add", ternary_add, 0, BOTH, 0, N, 0, {1, 0xff}},
    {"quartic_encode", quartic_encode, ARG(WRITTEN), BOTH, 0, N, 0, {1, 0xff}},
    {"quartic_decode", quartic_decode, 0, BOTH, 0, 1, 0, {121}},
    {"zerorun_encode", zerorun_encode, ARG(WRITTEN), BOTH, 0, N, 0, {1, 121}},
    {"zerorun_decode", zerorun_decode, ARG(WRITTEN), BOTH, 0, 2, 0, {255, 7}},
    {"sparse_binary_encode", sparse_binary_encode, ARG(SCALAR), BOTH, ARG(RESIDUAL), 0, 0, {0}},
    {"sparse_binary_decode", sparse_binary_decode, 0, BOTH, 0, N, 0, {1, 0}},
    {"golomb_encode", golomb_encode, ARG(OUT) | ARG(WRITTEN), ARG(IN) | ARG(SCRATCH), 0, N, 0, {1, 0xff}},
    {"golomb_decode", golomb_decode, ARG(IN), ARG(OUT), 0, 2, 2, {0, 0}},
    {"levels_encode", levels_encode, ARG(SCALAR), BOTH, ARG(RESIDUAL), 0, 0, {0}},
    {"levels_decode", levels_decode, 0, BOTH, 0, N, 0, {7, 0xf9}},
    {"natural_encode", natural_encode, 0, BOTH, ARG(RESIDUAL) | ARG(MORE), 0, 0, {0}},
    {"natural_decode", natural_decode, 0, BOTH, 0, N, 0, {50, 178}},
    {"onebit_encode", onebit_encode, ARG(SCALAR), BOTH, ARG(RESIDUAL), 0, 0, {0}},
    {"onebit_decode", onebit_decode, ARG(SCALAR), BOTH, 0, 1, 0, {5}},
    {"topk_encode", topk_encode, ARG(WRITTEN), BOTH, ARG(RESIDUAL), 0, 0, {0}},
    {"topk_decode", topk_decode, 0, BOTH, 0, 1, 0, {0}},
    {"random_sparse_encode", random_sparse_encode, ARG(WRITTEN), BOTH | ARG(SCRATCH), ARG(RESIDUAL), 0, 0, {0}},
    {"random_sparse_decode", random_sparse_decode, 0, BOTH, 0, 2, 0, {0, 0}},
    {"convert", convert, 0, BOTH, 0, 0, 0, {0}},
};

static void call_with(const stage_case *c, size_t n, unsigned null)
{
    float x[N] = {1, -2, 0.5f, 0.25f, 2}, residual[N], scalar[2] = {0x1p-3f, 0x1p-3f};
    uint64_t scratch[2], more = 9, before_more = 9;
    uint8_t in[N] = {0};
    _Alignas(float) uint8_t out[ROOM];
    size_t written = 77;
    void *p[POINTERS] = {x, out, residual, scalar, scratch, &written, &more};
    int refused = (null & (c->always | (n ? c->some : 0))) != 0;

    memcpy(in, c->in, sizeof c->in);
    memset(out, 0, sizeof out); /* ternary_add takes them for floats */
    memset(residual, 0x5a, sizeof residual);
    if (c->len)
        p[IN] = in;
    for (size_t i = 0; i < POINTERS; i++)
        if (null & ARG(i))
            p[i] = NULL;
    require_status(c->call(n, n ? c->len : c->empty, p), refused ? TLC_ERR_PARAM : TLC_OK);
    if (refused)
        require(all_bytes(out, sizeof out, 0) && all_bytes(residual, sizeof residual, 0x5a) && written == 77 &&
                same(scalar, ((float[]){0x1p-3f, 0x1p-3f}), sizeof scalar) && same(&more, &before_more, sizeof more));
    else if (!(null & ARG(WRITTEN)) && (c->always & ARG(WRITTEN)))
        require(written < ROOM && (n || written == ((c->always & ARG(OUT)) ? 2 : 0)));
}

TEST(null_pointers)
{
    for (const stage_case *c = stage_cases; c < stage_cases + COUNT(stage_cases); c++)
        for (size_t n = 0; n <= N; n += N) {
            unsigned taken = c->always | c->some | c->never;
            at = (place){.note = c->name, .n = n};
            for (unsigned null = taken;; null = (null - 1) & taken) { /* every subset */
                at.i = null;
                call_with(c, n, null);
                if (!null)
                    break;
            }
        }
}

/* ---- the residual ------------------------------------------------------------------------------------------------ */

typedef struct encoded {
    uint8_t out[4000];
    float scalar[2];
    size_t written;
} encoded;

/* All encoders, with room for any code of 400 values. */
static tlc_status encode(size_t which, const float *x, size_t n, float *residual, encoded *e)
{
    uint64_t scratch[7];

    memset(e, 0, sizeof *e);
    switch (which) {
    case 0: return tlc_ternary_encode(x, n, 1.25f, (int8_t *)e->out, residual, e->scalar);
    case 1:
        return tlc_stochastic_ternary_encode(x, n,
                                             PARAMS(stochastic_ternary, .seed = SEED, .step = 3, .residual = residual),
                                             (int8_t *)e->out, e->scalar);
    case 2: return tlc_sparse_binary_encode(x, n, 0.1, (int8_t *)e->out, residual, e->scalar);
    case 3:
        return tlc_levels_encode(x, n, PARAMS(levels, .rounding = TLC_ROUND_NEAREST, .residual = residual),
                                 (int8_t *)e->out, e->scalar);
    case 4:
        return tlc_levels_encode(x, n,
                                 PARAMS(levels, .levels = TLC_LEVELS_15, .seed = SEED, .step = 3, .residual = residual),
                                 (int8_t *)e->out, e->scalar);
    case 5:
        return tlc_natural_encode(x, n, PARAMS(natural, .seed = SEED, .step = 3, .residual = residual), e->out,
                                  sizeof e->out, NULL);
    case 6: return tlc_onebit_encode(x, n, e->out, residual, e->scalar);
    case 7:
        return tlc_topk_encode(x, n, PARAMS(topk, .p = 0.1, .seed = SEED, .step = 3, .residual = residual), e->out,
                               sizeof e->out, &e->written);
    case 8:
        return tlc_random_sparse_encode(x, n,
                                        PARAMS(random_sparse, .p = 0.5, .seed = SEED, .step = 3, .scratch = scratch,
                                               .residual = residual),
                                        e->out, sizeof e->out, &e->written);
    default: return TLC_ERR_UNSUPPORTED;
    }
}

TEST(residuals)
{
    enum { VALUES = 400 };
    float x[VALUES], apart[VALUES], in_place[VALUES];
    encoded with, without, onto_x;
    size_t which;

    for (data_kind kind = DATA_LAPLACE; kind < DATA_COUNT; kind++) {
        fill(kind, 9, x, VALUES);
        memcpy(in_place, x, sizeof x);
        for (which = 0; encode(which, x, VALUES, apart, &with) != TLC_ERR_UNSUPPORTED; which++) {
            at = (place){.i = which, .note = "encoder"};
            memcpy(in_place, x, sizeof x);
            require_status(encode(which, x, VALUES, apart, &with), TLC_OK);
            require_status(encode(which, x, VALUES, NULL, &without), TLC_OK);
            require_status(encode(which, in_place, VALUES, in_place, &onto_x), TLC_OK);
            require(same(&with, &without, sizeof with) && same(&with, &onto_x, sizeof with));
            require(same(apart, in_place, sizeof apart));
        }
        require(which == 9);
    }
}

/* ---- values that are finite, but not what is sent of them -------------------------------------------------------- */

TEST(overflowing_values)
{
    const uint32_t largest = 0x7f7fffff;
    float x[N] = {1, bits_float(largest), 2, 3, 4}, residual[N] = {0}, M = 7;
    uint8_t out[ROOM], before[ROOM];
    uint64_t scratch[1];
    size_t written = 77;

    memset(out, 0x5a, sizeof out);
    memset(before, 0x5a, sizeof before);
    tlc_random_sparse_params *params = PARAMS(random_sparse, .p = 0.25, .scratch = scratch, .residual = residual);
    require_status(tlc_random_sparse_encode(x, N, params, out, ROOM, &written), TLC_ERR_NONFINITE);
    require_status(tlc_ternary_encode(x, N, 1.5f, (int8_t *)out, residual, &M), TLC_ERR_NONFINITE);
    require(same(out, before, ROOM) && all_bytes(residual, sizeof residual, 0) && written == 77 && M == 7);
    params->p = 1;
    require_status(tlc_random_sparse_encode(x, N, params, out, ROOM, &written), TLC_OK);
    require_status(tlc_ternary_encode(x, N, 1, (int8_t *)out, residual, &M), TLC_OK);
    require(float_bits(M) == largest);
}

/* Every argument that a decoder refuses by its value. */
TEST(scalars)
{
    const float infinite = bits_float(0x7f800000), nan = bits_float(0x7fc00000);
    const float bad[] = {infinite, -infinite, nan, -1.0f, -0.0f};
    float out[N], before[N], mean[2] = {1, 2};
    int8_t q[N] = {1, 0, 1, 0, 1};
    const uint8_t bits[2] = {5}, zeros[N] = {0x40, 0x40, 0x40, 0x40, 0x40};

    memset(out, 0x5a, sizeof out);
    memcpy(before, out, sizeof out);
    for (at.i = 0; at.i < COUNT(bad); at.i++) {
        int negative = at.i > 2; /* a mean may be negative */
        require_status(tlc_levels_decode(q, N, TLC_LEVELS_255, bad[at.i], out), TLC_ERR_PARAM);
        if (negative)
            continue;
        require_status(tlc_sparse_binary_decode(q, N, bad[at.i], out), TLC_ERR_PARAM);
        for (int side = 0; side < 2; side++) {
            mean[side] = bad[at.i];
            require_status(tlc_onebit_decode(bits, sizeof bits, mean, out, N), TLC_ERR_PARAM);
            mean[side] = 1;
        }
    }
    for (q[4] = -127; q[4] < 127; q[4]++) { /* of 15 levels */
        tlc_status want = q[4] >= -7 && q[4] <= 7 ? TLC_OK : TLC_ERR_PARAM;
        memcpy(out, before, sizeof out);
        require_status(tlc_levels_decode(q, N, TLC_LEVELS_15, 1.0f, out), want);
        require(want == TLC_OK || same(out, before, sizeof out));
    }
    require_status(tlc_levels_decode(q, N, (tlc_levels)8, 1.0f, out), TLC_ERR_PARAM);
    for (int form = 7; form <= 10; form++)
        for (int shift = -1; shift <= 118; shift += 119) /* just outside of the range */
            require_status(tlc_natural_decode(zeros, N, (tlc_natural_bits)form, shift, out, N), TLC_ERR_PARAM);
    require_status(tlc_natural_decode(zeros, N, (tlc_natural_bits)7, 0, out, N), TLC_ERR_PARAM);
    require_status(tlc_natural_decode(zeros, N, TLC_NATURAL_8, 117, out, N), TLC_OK);
}
