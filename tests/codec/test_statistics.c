/* SPDX-License-Identifier: MIT
 *
 * Chance: stochastic codecs have no bias (natural: in its range of exponents), and the variance that their papers give,
 * value by value. The random words of elements, steps and seeds are independent. All seeds are fixed, so a test that
 * passes once passes always. The limit is 5 standard errors: a correct codec exceeds it once in millions of tests.
 */
#include "../support/support.h"
#include <math.h>

/* ---- without bias ------------------------------------------------------------------------------------------------ */

/* A value goes to high with this probability, else to low. */
typedef struct law {
    double low, high, chance;
} law;

static law natural_law(double x, double max, double parameter)
{
    int exponent;
    double low = ldexp(1, (frexp(fabs(x), &exponent), exponent - 1)), sign = x < 0 ? -1 : 1;

    (void)max;
    (void)parameter;
    return (law){sign * low, sign * 2 * low, fabs(x) / low - 1};
}

static law ternary_law(double x, double max, double parameter)
{
    (void)parameter;
    return (law){0, x < 0 ? -max : max, fabs(x) / max};
}

static law qsgd_law(double x, double max, double levels)
{
    double y = x / max * levels, low = floor(y);
    return (law){low * max / levels, (low + 1) * max / levels, y - low};
}

static law sparse_law(double x, double max, double p)
{
    double P = ceil(p * 16777216) / 16777216;
    (void)max;
    return (law){0, x / P, P};
}

static const struct {
    const char *codec;
    law (*law)(double x, double max, double parameter);
    double parameter;
} laws[] = {
    {"natural", natural_law, 0},
    {"natural:bits=9", natural_law, 0},
    {"natural:bits=9,block=300", natural_law, 0},
    {"stochastic-ternary+quartic", ternary_law, 0},
    {"stochastic-ternary+golomb", ternary_law, 0},
    {"qsgd", qsgd_law, 127},
    {"qsgd:bits=4", qsgd_law, 7},
    {"random-sparse", sparse_law, 0.25},
    {"random-sparse:p=0.01", sparse_law, 0.01},
    {"random-sparse:p=0.9", sparse_law, 0.9},
};

enum { VALUES = 16, REPEATS = 1 << 14, STEPS = 62 }; /* VALUES * REPEATS values, STEPS times: 10^6 draws of each */

/* For one value: how often it went high, the sum of the decoded values, and the sum of the squared errors. */
typedef struct tally {
    size_t high, draws;
    double sum, squares;
} tally;

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

static void draw(const char *codec, const float *x, size_t n, size_t l, const law w[VALUES], tally tallies[VALUES])
{
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    float *out = floats(n);

    cfg.feedback = 0;
    cfg.seed = 2018 + l;
    tlc_ctx *ctx = create(&cfg, n);
    uint8_t *frame = bytes(tlc_bound(ctx));
    for (size_t step = 0; step < (quick() ? 4 : STEPS); step++) {
        size_t len = compress(ctx, x, frame);
        require_status(tlc_decompress(frame, len, TLC_F32, out, n, NULL), TLC_OK);
        for (at.i = 0; at.i < n; at.i++) {
            size_t v = at.i % VALUES;
            tally *t = &tallies[v];
            int high = near(out[at.i], w[v].high);
            require(high || near(out[at.i], w[v].low)); /* no third value */
            t->high += (size_t)high;
            t->draws++;
            t->sum += out[at.i];
            t->squares += ((double)out[at.i] - x[at.i]) * ((double)out[at.i] - x[at.i]);
        }
    }
    tlc_destroy(ctx);
    free(frame);
    free(out);
}

/* The mean is the value. The variance is (x - low) (high - x); the paper of natural says: at most x^2 / 8. */
static void require_law(const tally *t, double x, const law *w, int natural)
{
    double gap = fabs(w->high - w->low), p = w->chance, draws = (double)t->draws;
    double variance = p * (1 - p) * gap * gap, error = sqrt(variance / draws);
    double off = fabs(t->sum / draws - x), left = 5 * error + 1e-6 * fabs(x);

    require(off <= left);
    require(fabs((double)t->high / draws - p) <= 5 * sqrt(p * (1 - p) / draws) + 1e-6);
    require(fabs(t->squares / draws - variance) <=
            5 * fabs(1 - 2 * p) * gap * gap * sqrt(p * (1 - p) / draws) + 25 * gap * gap / draws + 1e-6 * variance);
    require(!natural || variance <= x * x / 8 * (1 + 1e-12));
}

TEST(without_bias)
{
    static const float magnitudes[VALUES / 2] = {1.0f, 0.75f, 0.6f, 0.4999f, 0.3f, 0.1f, 0.011f, 0.0007f};
    static const float scales[] = {1.0f, 300.0f, 1e-9f};
    size_t n = (size_t)VALUES * REPEATS;
    float *x = floats(n);

    for (size_t l = 0; l < COUNT(laws); l++)
        for (size_t s = 0; s < (quick() ? 1 : COUNT(scales)); s++) {
            tally tallies[VALUES] = {{0}};
            law w[VALUES];
            for (size_t i = 0; i < n; i++) {
                size_t value = i % VALUES;
                x[i] = scales[s] * magnitudes[value / 2] * (value % 2 ? -1.0f : 1.0f);
            }
            at = (place){.codec = laws[l].codec, .n = n};
            for (size_t v = 0; v < VALUES; v++)
                w[v] = laws[l].law(x[v], x[0], laws[l].parameter);
            draw(laws[l].codec, x, n, l, w, tallies);
            for (size_t v = 0; v < VALUES; v++) {
                at.i = v;
                require_law(&tallies[v], x[v], &w[v], laws[l].law == natural_law);
            }
        }
    free(x);
}

/* Values that are a level, or a power of two, are always sent as they are. */
TEST(exact_values_stay)
{
    static const char *const codecs_of[] = {"natural", "natural:bits=9", "stochastic-ternary+quartic", "qsgd",
                                            "qsgd:bits=4"};
    enum { N = 4000 };
    float x[N], out[N];

    for (size_t c = 0; c < COUNT(codecs_of); c++) {
        tlc_config cfg = config(codecs_of[c], TLC_F32, TLC_ISA_AUTO);
        cfg.feedback = 0;
        at = (place){.codec = codecs_of[c], .n = N};
        tlc_ctx *ctx = create(&cfg, N);
        uint8_t *frame = bytes(tlc_bound(ctx));
        for (size_t i = 0; i < N; i++) {
            int scaled = strncmp(codecs_of[c], "natural", 7) != 0;
            x[i] = scaled ? (float)((int)(i % 3) - 1) * 0.3f : (i % 2 ? -1.0f : 1.0f) * ldexpf(1, (int)(i % 60) - 50);
        }
        for (size_t step = 0; step < 20; step++) {
            size_t len = compress(ctx, x, frame);
            require_status(tlc_decompress(frame, len, TLC_F32, out, N, NULL), TLC_OK);
            for (at.i = 0; at.i < N; at.i++)
                require(out[at.i] == x[at.i]);
        }
        tlc_destroy(ctx);
        free(frame);
    }
}

/* ---- random words ------------------------------------------------------------------------------------------------ */

enum { WORDS = 1 << 16 };

/* 255 degrees of freedom: mean 255, standard deviation 22.6. */
static void require_even(const size_t bins[256], size_t count)
{
    double chi = 0, want = (double)count / 256;

    for (size_t i = 0; i < 256; i++)
        chi += ((double)bins[i] - want) * ((double)bins[i] - want) / want;
    require(chi > 255 - 5 * 22.6 && chi < 255 + 5 * 22.6);
}

/* The bytes of the 24-bit numbers are evenly distributed. So are pairs of half bytes: of successive words, and of a
 * word and the word of another stream. */
static void require_random(const uint32_t *words, const uint32_t *others)
{
    size_t bins[256], pairs[256];

    for (unsigned k = 0; k < 3; k++) {
        memset(bins, 0, sizeof bins);
        for (size_t i = 0; i < WORDS; i++)
            bins[words[i] >> (8 + 8 * k) & 0xff]++;
        require_even(bins, WORDS);
        memset(bins, 0, sizeof bins);
        memset(pairs, 0, sizeof pairs);
        for (size_t i = 0; i < WORDS; i++) {
            unsigned half = words[i] >> (12 + 8 * k) & 15, next = words[(i + 1) % WORDS] >> (12 + 8 * k) & 15;
            bins[half << 4 | next]++;
            pairs[half << 4 | (others[i] >> (12 + 8 * k) & 15)]++;
        }
        require_even(bins, WORDS);
        require_even(pairs, WORDS);
    }
}

/* The words of the elements of a step, of the steps of an element, of the seeds for one step of one element. */
TEST(words_are_independent)
{
    static uint32_t words[3][WORDS], others[WORDS];
    const uint64_t seed = 7, step = 3, element = 5;

    require_status(tlc_philox(seed, step, 0, WORDS, words[0]), TLC_OK);
    for (uint64_t i = 0; i < WORDS; i++) {
        require_status(tlc_philox(seed, i, element, 1, &words[1][i]), TLC_OK);
        require_status(tlc_philox(i, step, element, 1, &words[2][i]), TLC_OK);
    }
    for (at = (place){.note = "words"}; at.i < 3; at.i++)
        for (size_t k = 1; k < 3; k++)
            require_random(words[at.i], words[(at.i + k) % 3]);
    require_status(tlc_philox(seed, step + 1, 0, WORDS, others), TLC_OK); /* neighbours of the same elements */
    require_random(words[0], others);
    require_status(tlc_philox(seed + 1, step, 0, WORDS, others), TLC_OK);
    require_random(words[0], others);
    require_status(tlc_philox(seed, step, UINT64_C(1) << 34, WORDS, others), TLC_OK);
    require_random(words[0], others);
}

/* The errors of machines with different seeds average out: the mean of 64 has a 64th of the variance. */
TEST(seeds_average_out)
{
    enum { N = 20000, SEEDS = 64 };
    static double sum[N];
    static float x[N], out[N];
    double alone = 0, together = 0;

    at = (place){.codec = "qsgd:bits=4", .n = N};
    fill(DATA_LAPLACE, 9, x, N);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        tlc_config cfg = config(at.codec, TLC_F32, TLC_ISA_AUTO);
        cfg.seed = seed;
        tlc_ctx *ctx = create(&cfg, N);
        uint8_t *frame = bytes(tlc_bound(ctx));
        size_t len = compress(ctx, x, frame);
        require_status(tlc_decompress(frame, len, TLC_F32, out, N, NULL), TLC_OK);
        for (size_t i = 0; i < N; i++) {
            sum[i] += out[i];
            alone += ((double)out[i] - x[i]) * ((double)out[i] - x[i]) / (double)SEEDS;
        }
        tlc_destroy(ctx);
        free(frame);
    }
    for (size_t i = 0; i < N; i++)
        together += (sum[i] / (double)SEEDS - x[i]) * (sum[i] / (double)SEEDS - x[i]);
    require(fabs(together / alone * (double)SEEDS - 1) < 0.1);
}
