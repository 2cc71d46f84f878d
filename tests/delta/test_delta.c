/* SPDX-License-Identifier: MIT
 *
 * threelc/delta.h: any weights come out as they went in, frames are the same on every ISA and with any threads, and as
 * short as the entropy of what changed allows.
 */
#include "../support/support.h"
#include <math.h>
#include <threelc/delta.h>

enum { BLOCK = 65536, LARGEST = 3 * BLOCK + 100 };

typedef enum change {
    NOTHING_CHANGED,
    ONE_CHANGED,
    FEW_CHANGED,   /* 2%, mostly by one step */
    MANY_CHANGED,  /* 30%, by up to 20 steps */
    ALL_CHANGED,   /* by up to 1,000 steps */
    ANY_BITS,      /* all bits are drawn: NaN payloads, infinities, zeros of both signs */
    SIGNS_CHANGED, /* -0 and +0, x and -x */
    MIXED,         /* each of these in some blocks */
    CHANGES
} change;

static uint64_t changed(change kind, uint64_t x, size_t i, tlc_dtype dtype, rng *r)
{
    switch (kind) {
    case ONE_CHANGED: return i == 77 ? x + 1 : x;
    case FEW_CHANGED:
        return rng_below(r, 50) ? x : x + (rng_below(r, 10) ? (rng_next(r) & 1 ? 1 : ~UINT64_C(0)) : rng_below(r, 9));
    case MANY_CHANGED: return rng_below(r, 10) > 2 ? x : x + rng_below(r, 41) - 20;
    case ALL_CHANGED: return x + rng_below(r, 2001) - 1000;
    case ANY_BITS: return weight_bits(dtype) == 64 ? rng_next(r) << 32 ^ rng_next(r) : rng_next(r);
    case SIGNS_CHANGED: return rng_below(r, 20) ? x : x ^ (uint64_t)1 << (weight_bits(dtype) - 1);
    default: return x;
    }
}

/* Weights as trained models have them, with some zeros of both signs; next as `kind` says. */
static void make(change kind, tlc_dtype dtype, uint8_t *base, uint8_t *next, size_t n)
{
    rng r = {n + kind};

    fill_weights(n + 1, dtype, base, n);
    for (size_t i = 0; i < n; i++) {
        if (!rng_below(&r, 100))
            put_weight(dtype, base, i, rng_next(&r) & 1 ? 0 : (uint64_t)1 << (weight_bits(dtype) - 1));
        const change here = kind == MIXED ? (change)(i / BLOCK % MIXED) : kind;
        put_weight(dtype, next, i, changed(here, weight_at(dtype, base, i), i, dtype, &r));
    }
}

static tlc_delta_options options(tlc_isa isa, const tlc_parallel *parallel)
{
    return (tlc_delta_options){.struct_size = sizeof(tlc_delta_options), .isa = isa, .parallel = *parallel};
}

static size_t bound_of(tlc_dtype dtype, size_t n)
{
    size_t bound = 0;

    require_status(tlc_delta_bound(dtype, n, &bound), TLC_OK);
    return bound;
}

/* ---- round trips ------------------------------------------------------------------------------------------------- */

typedef struct room {
    arena base, next, frame, weights;
} room;

/* Compresses and applies between guard pages. frame NULL, or the frame that it must be. Returns its length. */
static size_t round_trip(room *a, const uint8_t *base, const uint8_t *next, size_t n, tlc_dtype dtype,
                         const tlc_delta_options *opt, const uint8_t *frame)
{
    const size_t size = weights_size(dtype, n), bound = bound_of(dtype, n);
    const uint8_t *from = base ? arena_copy(&a->base, base, size, 1) : NULL, *to = arena_copy(&a->next, next, size, 1);
    uint8_t *dst = arena_take(&a->frame, bound, 1), *weights;
    size_t len = 0;

    require_status(tlc_delta_compress(dtype, from, to, n, dst, bound, &len, opt), TLC_OK);
    require(len <= bound && arena_intact(&a->frame) && same(to, next, size) && (!base || same(from, base, size)));
    require(!frame || same(dst, frame, len));
    weights = base ? arena_copy(&a->weights, base, size, 1) : arena_take(&a->weights, size, 1);
    memmove(a->frame.pages.end - len, dst, len); /* up to the guard page */
    require_status(tlc_delta_apply(a->frame.pages.end - len, len, dtype, weights, n, opt), TLC_OK);
    require(same(weights, next, size) && arena_intact(&a->weights));
    return len;
}

static void check_info(const uint8_t *frame, size_t len, const uint8_t *base, const uint8_t *next, size_t n,
                       tlc_dtype dtype)
{
    tlc_delta_info info = {.struct_size = sizeof info};
    uint64_t digest = 1, blocks = 0, differ = 0;

    require_status(tlc_delta_inspect(frame, len, &info), TLC_OK);
    require(info.version == (dtype <= TLC_BF16 ? 1 : 2) && info.dtype == dtype && info.n == n &&
            info.has_base == (base != NULL));
    require(info.has_digests == 1);
    require_status(tlc_delta_digest(dtype, next, n, &digest, NULL), TLC_OK);
    require(info.result_digest == digest);
    if (base) {
        require_status(tlc_delta_digest(dtype, base, n, &digest, NULL), TLC_OK);
        require(info.base_digest == digest);
    } else
        require(info.base_digest == 0);
    for (size_t i = 0; i < 4; i++)
        blocks += info.blocks[i];
    require(blocks == (n + BLOCK - 1) / BLOCK * (weight_bits(dtype) == 64 ? 2 : 1));
    for (size_t i = 0; base && i < n; i++) {
        const uint64_t d = weight_at(dtype, base, i) ^ weight_at(dtype, next, i);
        differ += weight_bits(dtype) == 64 ? (uint64_t)((d >> 32 != 0) + ((uint32_t)d != 0)) : d != 0; /* halves */
    }
    require(info.changed <= differ && (info.blocks[2] + info.blocks[3] || info.changed == differ || !base));
}

TEST(round_trips)
{
    static const size_t sizes[] = {0, 1, 2, 3, 63, 64, 65, 127, 1000, 4097, BLOCK - 1, BLOCK, BLOCK + 1, LARGEST};
    const size_t most = bound_of(TLC_F64, LARGEST);
    uint8_t *base = bytes(8 * LARGEST), *next = bytes(8 * LARGEST), *frame = bytes(most);
    room a;

    arena_open(&a.base, 8 * LARGEST);
    arena_open(&a.next, 8 * LARGEST);
    arena_open(&a.weights, 8 * LARGEST);
    arena_open(&a.frame, most);
    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t s = 0; s < COUNT(sizes) - (quick() ? 1 : 0); s++)
            for (change kind = NOTHING_CHANGED; kind < CHANGES; kind++)
                for (int has_base = 0; has_base < 2; has_base++) {
                    const size_t n = sizes[s] + (weight_bits(dtype) == 4 ? sizes[s] % 2 : 0);
                    if (dtype > TLC_BF16 && s % 3) /* 0, 3, 65, 4097 and BLOCK + 1 are enough */
                        continue;
                    const uint8_t *from = has_base ? base : NULL;
                    size_t len = 0;

                    make(kind, dtype, base, next, n);
                    at = (place){.dtype = dtype, .n = n, .i = kind, .note = has_base ? "with a base" : "without"};
                    tlc_delta_options opt = options(TLC_ISA_SCALAR, &runners[0].parallel);
                    require_status(tlc_delta_compress(dtype, from, next, n, frame, most, &len, &opt), TLC_OK);
                    check_info(frame, len, from, next, n, dtype);
                    FOR_EACH_ISA(isa) {
                        at.isa = isa;
                        opt = options(isa, &runners[0].parallel);
                        require(round_trip(&a, from, next, n, dtype, &opt, frame) == len);
                    }
                    for (size_t i = 1; i < runner_count; i++) {
                        opt = options(TLC_ISA_AUTO, &runners[i].parallel);
                        require(round_trip(&a, from, next, n, dtype, &opt, frame) == len);
                    }
                    opt = options(TLC_ISA_AUTO, &runners[0].parallel);
                    opt.without_digests = 1;
                    require(round_trip(&a, from, next, n, dtype, &opt, NULL) == len - (has_base ? 16 : 8));
                }
    arena_close(&a.base);
    arena_close(&a.next);
    arena_close(&a.weights);
    arena_close(&a.frame);
    free(base);
    free(next);
    free(frame);
}

/* Every weight of 16 bits as base and as next weight. */
TEST(all_halfs)
{
    enum { N = 65536 };
    uint8_t *base = bytes(2 * N), *next = bytes(2 * N), *frame = bytes(bound_of(TLC_F16, N));
    size_t len = 0;

    for (uint32_t multiple = 1; multiple < N; multiple += quick() ? 20000 : 3000) {
        for (uint32_t i = 0; i < N; i++) {
            put_weight(TLC_F16, base, i, i);
            put_weight(TLC_F16, next, i, i * multiple + multiple);
        }
        FOR_EACH_DTYPE(dtype) {
            if (dtype == TLC_F32)
                continue;
            at = (place){.dtype = dtype, .n = N, .i = multiple};
            uint8_t *weights = bytes(2 * N);
            memcpy(weights, base, 2 * N);
            require_status(tlc_delta_compress(dtype, base, next, N, frame, bound_of(dtype, N), &len, NULL), TLC_OK);
            require_status(tlc_delta_apply(frame, len, dtype, weights, N, NULL), TLC_OK);
            require(same(weights, next, 2 * N));
            free(weights);
        }
    }
    free(base);
    free(next);
    free(frame);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static double normal(rng *r)
{
    return sqrt(-2 * log(rng_double(r))) * cos(6.283185307179586 * rng_double(r));
}

static uint16_t rounded(double x)
{
    uint32_t bits = float_bits((float)x);

    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static int difference(uint16_t from, uint16_t to)
{
    const int a = from & 0x8000 ? -(from & 0x7fff) - 1 : from, b = to & 0x8000 ? -(to & 0x7fff) - 1 : to;

    return b - a;
}

/* Bits of positions and of values, as their entropy has them. */
static double entropy(const uint16_t *base, const uint16_t *next, size_t n, size_t *k)
{
    enum { SPAN = 1 << 17 };
    uint32_t *counts = calloc(SPAN, sizeof *counts);
    double bits = 0;

    require(counts != NULL);
    *k = 0;
    for (size_t i = 0; i < n; i++)
        if (base[i] != next[i]) {
            counts[difference(base[i], next[i]) + SPAN / 2]++;
            ++*k;
        }
    const double p = (double)*k / (double)n;
    bits -= (double)n * (p * log2(p) + (1 - p) * log2(1 - p));
    for (size_t i = 0; i < SPAN; i++)
        if (counts[i])
            bits -= counts[i] * log2((double)counts[i] / (double)*k);
    free(counts);
    return bits;
}

/* Steps of Adam on drawn weights: from 1% to 20% changed a frame has at most 5% more than the entropy. */
TEST(near_entropy)
{
    const size_t n = quick() ? (size_t)1 << 18 : (size_t)1 << 20;
    uint16_t *base = (uint16_t *)(void *)bytes(2 * n), *next = (uint16_t *)(void *)bytes(2 * n);
    uint8_t *frame = bytes(bound_of(TLC_BF16, n));
    double least = 1, most = 0, rate = 2.5e-7;

    for (int step = 0; step < 9; step++, rate *= 1.7) {
        rng r = {1};
        size_t k, len = 0;
        for (size_t i = 0; i < n; i++) {
            const double x = 0.02 * normal(&r), move = rate * (1 + 0.3 * normal(&r));
            base[i] = rounded(x);
            next[i] = rounded((double)(float)x + (rng_next(&r) & 1 ? move : -move));
        }
        const double bits = entropy(base, next, n, &k), share = (double)k / (double)n;
        if (share < 0.01 || share > 0.2)
            continue;
        least = share < least ? share : least;
        most = share > most ? share : most;
        require_status(tlc_delta_compress(TLC_BF16, base, next, n, frame, bound_of(TLC_BF16, n), &len, NULL), TLC_OK);
        print_message("# %.1f%% changed: %.3f bits a weight, %.1f%% above the entropy\n", 100 * share,
                      8.0 * (double)len / (double)n, 100 * (8.0 * (double)len / bits - 1));
        require(8.0 * (double)len < 1.05 * bits);
    }
    require(least < 0.02 && most > 0.12);
    free(base);
    free(next);
    free(frame);
}

/* Nothing changed, all bits drawn, and weights without a base. */
TEST(other_sizes)
{
    const size_t n = (size_t)1 << 20;
    uint16_t *base = (uint16_t *)(void *)bytes(2 * n), *next = (uint16_t *)(void *)bytes(2 * n);
    uint8_t *frame = bytes(bound_of(TLC_BF16, n));
    size_t len = 0;
    rng r = {2};

    for (size_t i = 0; i < n; i++) {
        base[i] = rounded(0.02 * normal(&r));
        next[i] = (uint16_t)rng_next(&r);
    }
    require_status(tlc_delta_compress(TLC_BF16, base, base, n, frame, bound_of(TLC_BF16, n), &len, NULL), TLC_OK);
    require(len <= 64);
    require_status(tlc_delta_compress(TLC_BF16, base, next, n, frame, bound_of(TLC_BF16, n), &len, NULL), TLC_OK);
    require((double)len <= 1.01 * 2 * (double)n);
    require_status(tlc_delta_compress(TLC_BF16, NULL, next, n, frame, bound_of(TLC_BF16, n), &len, NULL), TLC_OK);
    require((double)len <= 1.01 * 2 * (double)n);
    require_status(tlc_delta_compress(TLC_BF16, NULL, base, n, frame, bound_of(TLC_BF16, n), &len, NULL), TLC_OK);
    print_message("# without a base: %.2f bits a weight\n", 8.0 * (double)len / (double)n);
    require(8.0 * (double)len < 11.0 * (double)n);
    free(base);
    free(next);
    free(frame);
}

/* Changes by one step: from 0.3% to 20% changed a frame has at most 5% more than the entropy of positions and signs. */
TEST(near_entropy_in_all_dtypes)
{
    static const double shares[] = {0.003, 0.006, 0.012, 0.033, 0.1, 0.2};
    const size_t n = (size_t)1 << 20;
    uint8_t *base = bytes(8 * n), *next = bytes(8 * n), *frame = bytes(bound_of(TLC_F64, n));

    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t s = 0; s < COUNT(shares) && (!quick() || dtype % 3 == 0); s++) {
            rng r = {s + 1};
            size_t k = 0, up = 0, len = 0;
            for (size_t i = 0; i < n; i++) {
                const uint64_t x = 1 + rng_below(&r, 6); /* so that no step changes the sign */
                const int differs = rng_double(&r) < shares[s], rises = rng_next(&r) & 1;
                put_weight(dtype, base, i, x);
                put_weight(dtype, next, i, differs ? (rises ? x + 1 : x - 1) : x);
                k += (size_t)differs;
                up += (size_t)(differs && rises);
            }
            const double p = (double)k / (double)n, q = (double)up / (double)k;
            const double bits = -(double)n * (p * log2(p) + (1 - p) * log2(1 - p)) -
                                (double)k * (q * log2(q) + (1 - q) * log2(1 - q));
            at = (place){.dtype = dtype, .n = n, .i = s};
            require_status(tlc_delta_compress(dtype, base, next, n, frame, bound_of(dtype, n), &len, NULL), TLC_OK);
            print_message("# %s, %.1f%% changed: %.2f bits a change, %.1f%% above the entropy\n", dtype_name[dtype],
                          100 * p, 8.0 * (double)len / (double)k, 100 * (8.0 * (double)len / bits - 1));
            require(8.0 * (double)len < 1.05 * bits);
        }
    free(base);
    free(next);
    free(frame);
}

/* ---- chains ------------------------------------------------------------------------------------------------------ */

/* A machine without weights takes a frame that has no base, then deltas in turn; in another order it takes none. */
TEST(chains)
{
    enum { N = 5000, STEPS = 4 };
    const size_t bound = bound_of(TLC_BF16, N);
    uint8_t *weights[STEPS], *frame[STEPS], *mine = bytes(2 * N), *before = bytes(2 * N);
    size_t len[STEPS];

    memset(mine, 0, 2 * N);
    for (size_t i = 0; i < STEPS; i++) {
        weights[i] = bytes(2 * N);
        frame[i] = bytes(bound);
        rng r = {i};
        if (!i)
            fill_grad(DATA_LAPLACE, 1, TLC_BF16, weights[0], N);
        for (size_t j = 0; i && j < N; j++)
            put_weight(TLC_BF16, weights[i], j,
                       changed(FEW_CHANGED, weight_at(TLC_BF16, weights[i - 1], j), j, TLC_BF16, &r));
        require_status(tlc_delta_compress(TLC_BF16, i ? weights[i - 1] : NULL, weights[i], N, frame[i], bound, &len[i],
                                          NULL),
                       TLC_OK);
    }
    for (size_t i = 0; i < STEPS; i++) {
        for (size_t j = 1; j < STEPS; j++)
            if (j != i) {
                memcpy(before, mine, 2 * N);
                require_status(tlc_delta_apply(frame[j], len[j], TLC_BF16, mine, N, NULL), TLC_ERR_BASE);
                require(same(mine, before, 2 * N));
            }
        require_status(tlc_delta_apply(frame[i], len[i], TLC_BF16, mine, N, NULL), TLC_OK);
        require(same(mine, weights[i], 2 * N));
    }
    require_status(tlc_delta_apply(frame[0], len[0], TLC_BF16, mine, N, NULL), TLC_OK);
    require(same(mine, weights[0], 2 * N));
    for (size_t i = 0; i < STEPS; i++) {
        free(weights[i]);
        free(frame[i]);
    }
    free(mine);
    free(before);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

TEST(arguments)
{
    enum { N = 100 };
    tlc_delta_options opt = {.struct_size = sizeof opt}, bad = {.struct_size = sizeof bad, .without_digests = 2};
    tlc_delta_info info = {.struct_size = sizeof info};
    const size_t bound = bound_of(TLC_BF16, N);
    uint8_t *w = bytes(4 * N), *frame = bytes(bound);
    size_t len = 7, size = 7;
    uint64_t digest = 7;

    memset(w, 0, 4 * N);
    require_status(tlc_delta_bound((tlc_dtype)11, N, &size), TLC_ERR_PARAM);
    require_status(tlc_delta_bound(TLC_U4, N + 1, &size), TLC_ERR_PARAM);
    require_status(tlc_delta_bound(TLC_F64, SIZE_MAX / 8, &size), TLC_ERR_SIZE);
    require_status(tlc_delta_bound(TLC_I64, SIZE_MAX / 2 + 1, &size), TLC_ERR_SIZE);
    require_status(tlc_delta_bound(TLC_F32, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_bound(TLC_F32, SIZE_MAX / 4, &size), TLC_ERR_SIZE);
    require(size == 7);
    require_status(tlc_delta_compress((tlc_dtype)11, w, w, N, frame, bound, &len, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_compress((tlc_dtype)-1, w, w, N, frame, bound, &len, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_compress(TLC_U4, w, w, N - 1, frame, bound, &len, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_compress(TLC_BF16, w, NULL, N, frame, bound, &len, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_compress(TLC_BF16, w, w, N, NULL, bound, &len, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_compress(TLC_BF16, w, w, N, frame, bound, NULL, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_compress(TLC_BF16, w, w, N, frame, bound, &len, &bad), TLC_ERR_PARAM);
    require_status(tlc_delta_compress(TLC_BF16, w, w, N, frame, bound - 1, &len, NULL), TLC_ERR_CAPACITY);
    require(len == 7);
    require_status(tlc_delta_compress(TLC_BF16, w, w, N, frame, bound, &len, &opt), TLC_OK);
    require_status(tlc_delta_apply(NULL, len, TLC_BF16, w, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_apply(frame, len, TLC_BF16, NULL, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_apply(frame, len, TLC_BF16, w, N, &bad), TLC_ERR_PARAM);
    require_status(tlc_delta_apply(frame, len, TLC_BF16, w, N + 1, NULL), TLC_ERR_SIZE);
    require_status(tlc_delta_apply(frame, len, TLC_F16, w, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_inspect(frame, len, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_inspect(NULL, len, &info), TLC_ERR_PARAM);
    require_status(tlc_delta_digest(TLC_BF16, NULL, N, &digest, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_digest(TLC_BF16, w, N, NULL, NULL), TLC_ERR_PARAM);
    require(digest == 7);
    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa++) {
        opt.isa = isa;
        require_status(tlc_delta_apply(frame, len, TLC_BF16, w, N, &opt),
                       tlc_isa_supported(isa) ? TLC_OK : TLC_ERR_UNSUPPORTED);
    }
    free(w);
    free(frame);
}
