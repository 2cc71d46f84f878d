/* SPDX-License-Identifier: MIT
 *
 * The floats that check_kernels feeds to the kernels. They are made as bits, so that no float unit changes them.
 */
#include "check.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SIGN 0x80000000u

enum { POOL = 1 << 17, CANDIDATES = 64 };
enum { LAPLACE, MAGNITUDES, TIES, SUBNORMAL, LARGEST, ZERO, ONE, REAL, ANY, ONE_ANY };

const char *const float_kinds[] = {"Laplace", "all magnitudes", "ties",        "subnormal M", "largest M",
                                   "zeros",   "one non-zero",   "real values", "any bits",    "one not finite"};

static float laplace[POOL], real[POOL];
static size_t real_count;
static float real_max;

static uint64_t rng_state;

void rng_seed(uint64_t seed)
{
    rng_state = seed;
}

static uint64_t mix(uint64_t z) /* splitmix64's output function */
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t rng(void)
{
    rng_state += 0x9e3779b97f4a7c15u;
    return mix(rng_state);
}

void inputs_init(void)
{
    for (size_t i = 0; i < POOL; i++) {
        double u = ((double)(rng() >> 11) + 0.5) * 0x1p-53;
        laplace[i] = (float)(rng() & 1 ? -log(u) : log(u));
    }
}

/* Adds up to `limit` values of a .npy file of little-endian float32, C order, and says how many. */
static size_t load_npy(const char *path, size_t limit)
{
    uint8_t head[10], value[4];
    char text[65536];
    size_t before = real_count, length;
    FILE *file = fopen(path, "rb");

    if (!file)
        return 0;
    if (fread(head, 1, sizeof head, file) == sizeof head && memcmp(head, "\x93NUMPY\x01", 7) == 0) {
        length = head[8] | (size_t)head[9] << 8;
        if (length < sizeof text && fread(text, 1, length, file) == length) {
            text[length] = 0;
            if (strstr(text, "'<f4'") && strstr(text, "'fortran_order': False"))
                while (real_count < POOL && real_count - before < limit && fread(value, 1, 4, file) == 4)
                    real[real_count++] = tlc_bits_float((uint32_t)value[0] | (uint32_t)value[1] << 8 |
                                                        (uint32_t)value[2] << 16 | (uint32_t)value[3] << 24);
        }
    }
    fclose(file);
    return real_count - before;
}

int inputs_load(const char *directory)
{
    DIR *dir = directory ? opendir(directory) : NULL;
    char path[4096];

    if (!dir)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name);

        if (length > 4 && strcmp(entry->d_name + length - 4, ".npy") == 0 &&
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) < (int)sizeof path)
            load_npy(path, POOL / 4);
    }
    closedir(dir);
    for (size_t i = 0; i < real_count; i++)
        real_max = fabsf(real[i]) > real_max ? fabsf(real[i]) : real_max;
    return (int)real_count;
}

uint32_t finite_float(void) /* below 2^127, so that two of them have a finite sum */
{
    uint32_t bits = (uint32_t)(rng() >> 32);

    return (bits & TLC_F32_ABS) < 0x7f000000u ? bits : bits & ~0x40000000u;
}

uint32_t any_float(void)
{
    static const uint32_t special[] = {0,           1,           0x7f800000u, 0x7fc00000u,
                                       0x7f800001u, 0x7fbfffffu, 0x7fffffffu, 0x7fc12345u};
    uint64_t word = rng();

    if (word & 3)
        return (uint32_t)(word >> 32);
    return special[word >> 2 & 7] | ((uint32_t)word & SIGN);
}

uint32_t sweep_float(uint64_t i)
{
    uint64_t pattern = i >> 9, word = mix(i);
    uint32_t bit = (uint32_t)(pattern % 23), tie = 1u << bit, round = (uint32_t)(pattern / 92);
    const uint32_t low[4] = {tie, tie - 1, tie + 1, (uint32_t)word & (tie - 1)};
    uint32_t high = round == 1 ? ~0u : round == 2 ? 0 : (uint32_t)(word >> 32);
    uint32_t mantissa = high << bit << 1 | low[pattern / 23 % 4];

    return (uint32_t)(i & 511) << 23 | (mantissa & 0x7fffffu);
}

/* What floats_begin chose. */
static struct {
    int kind;
    float M;
    uint32_t g[CANDIDATES], r[CANDIDATES];
} now;

/* Splits x into g + r without rounding, in one of the ways that matter. */
static void candidate(size_t i, uint32_t x)
{
    uint32_t half = tlc_float_bits(tlc_bits_float(x) * 0.5f);
    int exact = tlc_float_bits(tlc_bits_float(half) * 2.0f) == x;
    size_t how = rng_below(exact ? 5 : 4);

    now.g[i] = how == 4 ? half : how < 2 ? x : (uint32_t)rng() & SIGN;
    now.r[i] = how == 4 ? half : how < 2 ? (uint32_t)rng() & SIGN : x;
}

/* The values at which the symbol changes for this M, and their neighbours. */
static void candidates(float M)
{
    uint32_t t = tlc_float_bits(0.5f * M), m = tlc_float_bits(M);
    uint32_t edge[] = {0, 1, 2, t - 1, t, t, t, t + 1, t + 2, m / 2, m - 1, m, m + 1, m + (m >> 3)};

    for (size_t i = 0; i < CANDIDATES; i++) {
        uint32_t x = edge[rng_below(sizeof edge / sizeof edge[0])];

        x = x > SIGN ? 0 : x >= TLC_F32_INF ? TLC_F32_INF - 1 : x; /* t - 1 of t = 0; above the largest */
        candidate(i, x | ((uint32_t)rng() & SIGN));
    }
}

static float power_of_two(int exponent)
{
    return tlc_bits_float((uint32_t)(exponent + 127) << 23);
}

int floats_begin(int kind, float *M)
{
    static const uint32_t tiny[] = {1,        2,        3,        5,        7,         0x7ffffe,
                                    0x7fffff, 0x800000, 0x800001, 0xffffff, 0x1000000, 0x1000001};
    float share = (float)(1 + rng_below(64)) / 64;

    now.kind = kind;
    switch (kind) {
    case LAPLACE: now.M = 8 * share * power_of_two((int)rng_below(40) - 20); break;
    case TIES: now.M = tlc_bits_float(0x20000000u + (uint32_t)(rng() >> 34)); break;
    case SUBNORMAL: now.M = tlc_bits_float(tiny[rng_below(sizeof tiny / sizeof tiny[0])]); break;
    case LARGEST: now.M = tlc_bits_float(TLC_F32_INF - 1 - (uint32_t)rng_below(3)); break;
    case ZERO: now.M = 0; break;
    case REAL: now.M = real_max * share; break;
    case KIND_BENCH: now.M = 8; break;
    default: now.M = tlc_bits_float(finite_float() & TLC_F32_ABS); break;
    }
    if (kind == TIES || kind == SUBNORMAL || kind == LARGEST)
        candidates(now.M);
    *M = now.M;
    return kind != REAL || real_count > 0;
}

static uint32_t pool_value(const float *pool, size_t at, size_t count, float unit)
{
    return tlc_float_bits(pool[at % count] * unit);
}

static void fill_one(uint32_t *x, size_t n, size_t at, size_t offset)
{
    float unit = 1;

    if (now.kind == LAPLACE)
        unit = power_of_two((int)((tlc_float_bits(now.M) >> 23)) - 127 - 2); /* so that some pass M / 2 */
    for (size_t i = 0; i < n; i++)
        switch (now.kind) {
        case LAPLACE:
        case KIND_BENCH: x[i] = pool_value(laplace, offset + i, POOL, unit); break;
        case REAL: x[i] = pool_value(real, offset + i, real_count, 1); break;
        case MAGNITUDES: x[i] = finite_float(); break;
        case ZERO: x[i] = (uint32_t)rng() & SIGN; break;
        case ONE: x[i] = i == at ? tlc_float_bits(now.M) | ((uint32_t)rng() & SIGN) : 0; break;
        case ONE_ANY: x[i] = i == at ? TLC_F32_INF + (uint32_t)rng_below(0x800000) : finite_float(); break;
        default: x[i] = any_float(); break;
        }
}

void floats_fill(uint32_t *g, uint32_t *r, size_t n)
{
    size_t at = rng_below(n + 1); /* n: nowhere */

    if (now.kind == TIES || now.kind == SUBNORMAL || now.kind == LARGEST) {
        for (size_t i = 0; i < n; i++) {
            size_t pick = rng_below(CANDIDATES);

            g[i] = now.g[pick];
            if (r)
                r[i] = now.r[pick];
        }
        return;
    }
    fill_one(g, n, at, rng_below(POOL));
    if (r)
        fill_one(r, n, rng() & 1 ? at : n, rng_below(POOL));
}

void fill_laplace(uint32_t *x, uint32_t *y, size_t n)
{
    float unused;

    floats_begin(KIND_BENCH, &unused);
    floats_fill(x, y, n);
}

void fill_sum(uint32_t *sum, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = rng() & 3 ? finite_float() : any_float();
}
