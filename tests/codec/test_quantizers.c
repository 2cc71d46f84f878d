/* SPDX-License-Identifier: MIT
 *
 * What value stages choose and how large their errors are: sparse-binary against a sort, the means of onebit, the share
 * that topk keeps, and bounds of errors. (Chance: test_statistics.c.)
 */
#include "../support/support.h"
#include <math.h>

/* A frame of x without feedback, decoded. Returns its length. */
static size_t round_trip(const char *codec, const float *x, size_t n, float *out, tlc_frame_info *info)
{
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);

    cfg.feedback = 0;
    at.codec = codec;
    at.n = n;
    tlc_ctx *ctx = create(&cfg, n);
    uint8_t *frame = bytes(tlc_bound(ctx));
    size_t len = compress(ctx, x, frame);
    *info = (tlc_frame_info){.struct_size = sizeof *info};
    require_status(tlc_inspect(frame, len, info), TLC_OK);
    require_status(tlc_decompress(frame, len, TLC_F32, out, n, NULL), TLC_OK);
    tlc_destroy(ctx);
    free(frame);
    return len;
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

/* The mean as stages.h defines it: chunks of 4096 values with 16 lanes each, the lanes folded, then the chunks
 * added. */
static float mean_of(const float *x, const uint8_t *member, uint8_t which, size_t n)
{
    double total = 0;
    size_t count = 0;

    for (size_t at_ = 0; at_ < n; at_ += 4096) {
        double lane[16] = {0};
        for (size_t i = at_; i < n && i < at_ + 4096; i++)
            if (member[i] == which) {
                lane[i % 16] += x[i];
                count++;
            }
        for (size_t half = 8; half; half /= 2)
            for (size_t j = 0; j < half; j++)
                lane[j] += lane[j + half];
        total += lane[0];
    }
    return count ? (float)(total / (double)count) : 0.0f;
}

/* ---- sparse-binary ----------------------------------------------------------------------------------------------- */

typedef struct ranked {
    float value;
    size_t index;
} ranked;

/* From the largest value to the least; equal values by rising index. -0 and 0 are equal. */
static int by_rank(const void *a, const void *b)
{
    const ranked *p = a, *q = b;

    if (p->value > q->value || p->value < q->value)
        return p->value > q->value ? -1 : 1;
    return p->index < q->index ? -1 : p->index > q->index;
}

/* Marks the members of one side: those of the k largest sign * x that are positive. */
static void side_members(const float *x, float sign, size_t k, uint8_t *member, uint8_t mark, ranked *order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (ranked){sign * x[i], i};
    qsort(order, n, sizeof *order, by_rank);
    for (size_t i = 0; i < k && order[i].value > 0; i++)
        member[order[i].index] = mark;
}

static void sparse_binary_of(const float *x, size_t n, const char *p)
{
    double share = nearbyint(strtod(p, NULL) * (double)n); /* half to even */
    size_t k = share < 1 ? 1 : (size_t)share, sent = 0;
    uint8_t *member = bytes(n);
    ranked *order = malloc((n + 1) * sizeof *order);
    float *out = floats(n), up, down;
    tlc_frame_info info;
    char text[64];

    require(order != NULL);
    memset(member, 0, n);
    side_members(x, 1, k, member, 1, order, n);
    side_members(x, -1, k, member, 2, order, n); /* a value has one sign */
    up = mean_of(x, member, 1, n);
    down = mean_of(x, member, 2, n);
    float mean = up >= -down ? up : down;
    uint8_t side = up >= -down ? 1 : 2;
    snprintf(text, sizeof text, "sbc:p=%s", p);
    round_trip(text, x, n, out, &info);
    for (at.i = 0; at.i < n; at.i++) {
        require(float_bits(out[at.i]) == (member[at.i] == side ? float_bits(mean) : 0));
        sent += member[at.i] == side;
    }
    require(info.nonzero == sent && sent <= k);
    free(member);
    free(order);
    free(out);
}

static const char *const shares[] = {"0.001", "0.01", "0.05", "0.25", "0.5", "1"};

TEST(sparse_binary_is_exact)
{
    static const size_t sizes[] = {1,    2,    3,    10,   50,   63,   64,   65,   150,
                                   1000, 1023, 1024, 1025, 4095, 4096, 4097, 9001, 20000};
    float *x = floats(20000);

    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int kind = 0; kind < DATA_COUNT; kind++)
            for (size_t p = 0; p < COUNT(shares); p += quick() ? 2 : 1) {
                fill((data_kind)kind, s, x, sizes[s]);
                sparse_binary_of(x, sizes[s], shares[p]);
                if (kind == DATA_TIES && p == 0) { /* also: all values equal; one positive value; both sides the same */
                    for (size_t i = 0; i < sizes[s]; i++)
                        x[i] = -0.5f;
                    sparse_binary_of(x, sizes[s], "0.1");
                    x[sizes[s] / 2] = 0.25f;
                    sparse_binary_of(x, sizes[s], "0.1");
                    for (size_t i = 0; i < sizes[s]; i++)
                        x[i] = i % 2 ? 1.5f : -1.5f;
                    sparse_binary_of(x, sizes[s], "0.3");
                }
            }
    free(x);
}

/* Neighbours in the order of floats. The selection tells them apart only in its last step. */
TEST(sparse_binary_of_neighbours)
{
    enum { N = 6000 };
    static float x[N];
    rng r = {77};

    for (size_t round = 0; round < 30; round++) {
        uint32_t base = (uint32_t)rng_below(&r, 0x7e000000u), spread = 1u << rng_below(&r, 24);
        for (size_t i = 0; i < N; i++)
            x[i] = bits_float((base + (uint32_t)rng_below(&r, spread)) | (rng_below(&r, 3) ? 0 : 0x80000000u));
        sparse_binary_of(x, N, shares[round % COUNT(shares)]);
    }
}

/* The selection first takes a sample: one value in 16, at most 4096. A sample that misleads must not matter: all values
 * in it are large, or none is, or exactly k values reach the threshold that the sample suggests. */
static void misleading_sample(size_t n, size_t k, const char *p)
{
    static const float tops[] = {2.0f, 1.0f, 0.5f, -1.0f};
    size_t stride = n / (size_t)fmin((double)n / 16, 4096);
    float *x = floats(n);

    for (int seen = 0; seen < 2; seen++)
        for (size_t t = 0; t < COUNT(tops); t++)
            /* how many large values; all of them, or none, in the sample */
            for (size_t count = k - 1; count <= k + 1; count++) {
                size_t top = 0;
                for (size_t i = 0; i < n; i++) {
                    int in = top < count && (i % stride == 0) == seen;
                    x[i] = in ? tops[t] : t == 1 ? 0.25f : bits_float(0x3e000000u + (uint32_t)(i * 7919 % n));
                    top += (size_t)in;
                }
                sparse_binary_of(x, n, p);
            }
    free(x);
}

TEST(sparse_binary_of_many)
{
    size_t n = 16 * 4096 + 5;
    float *x = floats(n);

    misleading_sample(4097, 41, "0.01"); /* a few keys are kept */
    misleading_sample(n, 655, "0.01");
    misleading_sample(n, 6554, "0.1"); /* too many to be kept */
    for (int kind = 0; kind < DATA_COUNT; kind++)
        for (size_t p = 0; p < COUNT(shares); p += quick() ? 3 : 1) {
            fill((data_kind)kind, 5, x, n);
            sparse_binary_of(x, n, shares[p]);
        }
    free(x);
}

static void on_trace(const trace *t)
{
    at.note = t->name;
    for (size_t row = 0; row < t->rows; row += quick() ? t->rows : t->rows / 3)
        for (size_t p = 0; p < COUNT(shares) - 2; p++)
            sparse_binary_of(t->values + row * t->cols, t->cols, shares[p]);
    at.note = NULL;
}

TEST(sparse_binary_on_traces)
{
    if (!each_trace(on_trace))
        skip_test("TLC_TEST_DATA names no folder of runs");
}

/* ---- onebit ------------------------------------------------------------------------------------------------------ */

static double squared_error(const float *x, const float *out, size_t n, double off, int positive)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        if ((x[i] >= 0) == positive)
            sum += (x[i] - (out[i] + off)) * (x[i] - (out[i] + off));
    return sum;
}

/* Every value decodes to the mean of its side, and no other number has a smaller error. */
TEST(onebit_means)
{
    static const size_t sizes[] = {1, 2, 7, 16, 100, 4096, 4097, 30000};
    float *x = floats(30000), *out = floats(30000);
    uint8_t *side = bytes(30000);
    tlc_frame_info info;

    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int kind = 0; kind < DATA_COUNT; kind++) {
            size_t n = sizes[s];
            fill((data_kind)kind, s, x, n);
            for (size_t i = 0; i < n; i++)
                side[i] = x[i] >= 0;
            const float means[2] = {mean_of(x, side, 0, n), mean_of(x, side, 1, n)};
            round_trip("onebit", x, n, out, &info);
            for (at.i = 0; at.i < n; at.i++)
                require(float_bits(out[at.i]) == float_bits(means[side[at.i]]));
            for (int positive = 0; positive < 2; positive++) {
                double least = squared_error(x, out, n, 0, positive), off = fabs((double)means[positive]) / 256;
                require(squared_error(x, out, n, off, positive) >= least);
                require(squared_error(x, out, n, -off, positive) >= least);
            }
        }
    free(x);
    free(out);
    free(side);
}

/* ---- topk -------------------------------------------------------------------------------------------------------- */

static int by_magnitude(const void *a, const void *b)
{
    const float *p = a, *q = b;
    return fabsf(*p) > fabsf(*q) ? -1 : fabsf(*p) < fabsf(*q);
}

/* Up to 4096 values are their own sample: the ceil(p n) largest magnitudes are sent, and values that equal the last of
 * them as long as there is room. */
TEST(topk_of_few)
{
    static const size_t sizes[] = {1, 2, 19, 20, 21, 64, 65, 1000, 4096};
    static const char *const texts[] = {"topk:p=0.05", "topk:p=0.3", "topk:p=0.001", "topk:p=1"};
    float *x = floats(4096), *out = floats(4096), *order = floats(4096);
    tlc_frame_info info;

    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int kind = 0; kind < DATA_COUNT; kind++)
            for (size_t t = 0; t < COUNT(texts); t++) {
                size_t n = sizes[s], rank = (size_t)ceil(strtod(texts[t] + 7, NULL) * (double)n), sent = 0;
                fill((data_kind)kind, s, x, n);
                memcpy(order, x, 4 * n);
                qsort(order, n, sizeof *order, by_magnitude);
                round_trip(texts[t], x, n, out, &info);
                for (at.i = 0; at.i < n; at.i++) {
                    int in = fabsf(x[at.i]) >= fabsf(order[rank - 1]) && x[at.i] != 0 && sent < 2 * rank;
                    require(float_bits(out[at.i]) == (in ? float_bits(x[at.i]) : 0));
                    sent += (size_t)in;
                }
                require(info.nonzero == sent);
            }
    free(x);
    free(out);
    free(order);
}

static float gauss(rng *r)
{
    return (float)(sqrt(-2 * log(rng_double(r))) * cos(6.283185307179586 * rng_double(r)));
}

/* How many values are sampled. */
static double samples_of(double p, size_t n)
{
    return fmin((double)n, fmax(4096, ceil(200 / p)));
}

/* For more values the share that is sent is p, within the error of the sample, and never more than 2 p. */
TEST(topk_share)
{
    static const struct {
        const char *text;
        double p;
    } cases[] = {{"topk", 0.05},
                 {"topk:p=0.25", 0.25},
                 {"topk:p=0.01", 0.01},
                 {"topk:p=0.75", 0.75},
                 {"topk:p=0.001", 0.001}};
    size_t n = quick() ? 100003 : 1 << 20;
    float *x = floats(n), *out = floats(n);
    tlc_frame_info info;
    rng r = {3};

    for (int gaussian = 0; gaussian < 2; gaussian++) {
        fill(DATA_LAPLACE, 1, x, n);
        for (size_t i = 0; gaussian && i < n; i++)
            x[i] = gauss(&r);
        for (size_t c = 0; c < COUNT(cases); c++) {
            double p = cases[c].p, off, samples = samples_of(p, n);
            round_trip(cases[c].text, x, n, out, &info);
            off = fabs((double)info.nonzero / (double)n - p);
            require(off <= 5 * sqrt(p * (1 - p) / samples) + 1.0 / samples);
            float least = INFINITY, most = 0; /* those that were sent are the largest */
            for (size_t i = 0; i < n; i++) {
                require(out[i] == 0 || out[i] == x[i]);
                if (out[i] != 0)
                    least = fminf(least, fabsf(x[i]));
                else
                    most = fmaxf(most, fabsf(x[i]));
            }
            require(least >= most);
        }
    }
    free(x);
    free(out);
}

/* The end of a tensor is sampled like the rest. Its values are ten times as large, so they are the largest. */
TEST(topk_end)
{
    static const size_t sizes[] = {4097, 6000, 8191, 9216, 12287};
    enum { MOST = 12287 };
    static float x[MOST], out[MOST];
    tlc_frame_info info;

    for (size_t s = 0; s < COUNT(sizes); s++) {
        size_t n = sizes[s], end = n - n / 20, sent = 0;
        at.n = n;
        fill(DATA_LAPLACE, s, x, n);
        for (size_t i = 0; i < n; i++)
            x[i] = i < end ? copysignf(fminf(fabsf(x[i]), 1), x[i]) : copysignf(10 + fabsf(x[i]), x[i]);
        round_trip("topk:p=0.05", x, n, out, &info);
        for (size_t i = end; i < n; i++)
            sent += out[i] != 0;
        require((double)sent >= 0.75 * (double)(n - end)); /* more than 5 standard deviations */
        require((double)info.nonzero <= 1.3 * 0.05 * (double)n);
    }
}

/* How many of n values are sent. Of their m samples `large` are 4 or more, and the others are `low`. What is no sample
 * is 3 at multiples of `stride`, else 1. */
static size_t sent_of(double p, size_t n, size_t m, size_t large, float low, size_t stride)
{
    const tlc_topk_params params = {.struct_size = sizeof params, .p = p};
    uint32_t *words = (uint32_t *)(void *)bytes(4 * m);
    uint8_t *payload = bytes(n / 8 + 1 + 4 * n);
    float *x = floats(n);
    size_t len = 0;

    require_status(tlc_philox(0, 0, 0, m, words), TLC_OK);
    for (size_t i = 0; i < n; i++)
        x[i] = i % stride == 0 ? 3 : 1;
    for (uint64_t j = 0; j < m; j++) {
        uint64_t start = j * n / m, end = (j + 1) * n / m;
        x[start + words[j] % (end - start)] = j % (m / large) == 0 && j / (m / large) < large ? 4 + (float)j : low;
    }
    require_status(tlc_topk_encode(x, n, &params, payload, n / 8 + 1 + 4 * n, &len), TLC_OK);
    free(words);
    free(payload);
    free(x);
    return (len - (n + 7) / 8) / 4;
}

/* With as many samples above 0 as are wanted, all values are sent, as long as there is room. The guess with which the
 * search begins does not matter, also where just so many samples reach it. */
TEST(topk_as_many_as_wanted)
{
    require(sent_of(0.05, 6000, 4096, 206, 0, 1) == 205);
    require(sent_of(0.05, 6000, 4096, 205, 0, 1) == 600);
    require(sent_of(0.0004, 600000, 500000, 200, 1, 600000 / 4096) == 200);
}

/* With select=exact these are the rint(p n) largest magnitudes, of equal ones the first. */
TEST(topk_exact)
{
    static const size_t sizes[] = {1, 2, 31, 1000, 1024, 1025, 4096, 70001};
    static const char *const texts[] = {"topk:select=exact,p=0.05", "topk:select=exact,p=0.001",
                                        "topk:select=exact,p=0.3", "topk:select=exact,p=1"};
    float *x = floats(70001), *out = floats(70001), *order = floats(70001);
    tlc_frame_info info;

    for (size_t s = 0; s < COUNT(sizes); s++)
        for (int kind = 0; kind < DATA_COUNT; kind++)
            for (size_t t = 0; t < COUNT(texts); t++) {
                size_t n = sizes[s], k = (size_t)fmax(1, rint(strtod(texts[t] + 20, NULL) * (double)n)), ties = k;
                fill((data_kind)kind, s, x, n);
                memcpy(order, x, 4 * n);
                qsort(order, n, sizeof *order, by_magnitude);
                float least = fabsf(order[k - 1]);
                for (size_t i = 0; i < k; i++)
                    ties -= fabsf(order[i]) > least;
                round_trip(texts[t], x, n, out, &info);
                for (at.i = 0; at.i < n; at.i++) {
                    int tie = fabsf(x[at.i]) == least && ties > 0, in = fabsf(x[at.i]) > least || tie;
                    require(float_bits(out[at.i]) == (in && x[at.i] != 0 ? float_bits(x[at.i]) : 0));
                    ties -= (size_t)tie;
                }
            }
    free(x);
    free(out);
    free(order);
}

/* ---- how far off ------------------------------------------------------------------------------------------------- */

/* Bounds of errors: half a level, or one level, of 2 K + 1 between -max and max; a third of the value. */
TEST(bounds_of_errors)
{
    static const struct {
        const char *text;
        double of_max, of_value;
    } cases[] = {{"int8", 0.5 / 127, 0},
                 {"int8:block=64", 0.5 / 127, 0},
                 {"qsgd", 1.0 / 127, 0},
                 {"qsgd:bits=4", 1.0 / 7, 0},
                 {"natural:bits=9,rounding=nearest", 0, 1.0 / 3},
                 {"natural:bits=9", 0, 1}};
    enum { N = 5000 };
    float x[N], out[N];
    tlc_frame_info info;

    for (size_t c = 0; c < COUNT(cases); c++)
        for (int kind = 0; kind < DATA_COUNT; kind++) {
            float max = 0;
            double worst = 0;
            if (kind == DATA_TINY) /* subnormals have other errors */
                continue;
            fill((data_kind)kind, c, x, N);
            for (size_t i = 0; i < N; i++) {
                x[i] = fabsf(x[i]) < 1e-35f ? 0 : x[i];
                max = fmaxf(max, fabsf(x[i]));
            }
            round_trip(cases[c].text, x, N, out, &info);
            for (at.i = 0; at.i < N; at.i++) {
                double off = fabs((double)out[at.i] - x[at.i]);
                double limit = cases[c].of_max * max + cases[c].of_value * fabs((double)x[at.i]);
                require(off <= limit * (1 + 2e-5));
                worst = limit > 0 && off / limit > worst ? off / limit : worst;
            }
            require(kind != DATA_LAPLACE || worst > 0.75); /* the bound is tight */
        }
}

/* Values whose exponent is out of range are counted, and sent as the nearest value in range. */
TEST(clipped_values)
{
    static const struct {
        const char *text;
        int least, most;
    } cases[] = {{"natural:rounding=nearest", -50, 10},
                 {"natural:rounding=nearest,shift=7", -43, 17},
                 {"natural:rounding=nearest,shift=117", 67, 127},
                 {"natural:rounding=nearest,bits=9", -126, 127},
                 {"natural:rounding=nearest,bits=9,shift=3", -123, 127},
                 {"natural:rounding=nearest,bits=9,shift=117", -9, 127},
                 {"natural:rounding=nearest,block=33", -50, 10}};
    enum { N = 2000 };
    float x[N], out[N];
    tlc_frame_info info;

    for (size_t c = 0; c < COUNT(cases); c++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            size_t clipped = 0;
            fill(seed % 2 ? DATA_WIDE : DATA_TINY, seed, x, N);
            for (size_t i = 0; seed == 3 && i < N; i++)
                x[i] *= 1e11f; /* up to the largest: 2^128 is too large a power */
            x[0] = seed == 3 ? -3.4e38f : -0.0f;
            round_trip(cases[c].text, x, N, out, &info);
            for (at.i = 0; at.i < N; at.i++) {
                int exponent;
                double part = frexp((double)x[at.i], &exponent); /* 0.5 <= |part| < 1 */
                int e = exponent - 1 + (fabs(part) >= 0.75), to = e;
                to = to < cases[c].least ? cases[c].least : to > cases[c].most ? cases[c].most : to;
                clipped += x[at.i] != 0 && to != e;
                require(out[at.i] == (x[at.i] == 0 ? 0.0f : (float)ldexp(x[at.i] < 0 ? -1 : 1, to)));
            }
            require(info.clipped == clipped);
        }
}
