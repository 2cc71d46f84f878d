/* SPDX-License-Identifier: MIT
 *
 * src/positions/golomb.h against the definition: by hand, and against an encoder and a decoder that work bit by bit.
 */
#include "golomb_slow.h"
#include <math.h>

static const double densities[] = DENSITIES;

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

typedef struct example {
    uint64_t n;
    int signs;
    uint64_t k, index[3];
    int negative[3];
    size_t size;
    uint8_t payload[6];
} example;

TEST(worked_examples)
{
    static const example examples[] = {
        {0, 0, 0, {0}, {0}, 2, {0, 0}},
        {9, 1, 0, {0}, {0}, 2, {0, 0}},
        /* the design's {1, 0, 0, 1, -1, 0, 0}: b = 0, distances less one 0 2 0: 0+ 110+ 0- */
        {7, 1, 3, {0, 3, 4}, {0, 0, 1}, 3, {3, 0, 0x31}},
        {7, 0, 3, {0, 3, 4}, {0}, 3, {3, 0, 0x60}},
        /* 0.98^(2^4) = 0.72, 0.98^(2^5) = 0.52: b = 5; 5 = 0*32 + 5: 0 00101, 44 = 1*32 + 12: 10 01100 */
        {100, 0, 2, {5, 50}, {0}, 4, {2, 5, 0x16, 0x60}},
        {100, 1, 2, {5, 50}, {0, 1}, 4, {2, 5, 0x15, 0x32}},
        /* 0.999^(2^8) = 0.77, 0.999^(2^9) = 0.60: b = 9; 999 = 1*512 + 487: 10 111100111 */
        {1000, 0, 1, {999}, {0}, 4, {1, 9, 0xbc, 0xe0}},
    };
    uint8_t all[41] = {0xac, 2, 0}, dst[41];
    set s = set_new(300);

    for (const example *e = examples; e < examples + COUNT(examples); e++) {
        set one = set_new(e->n);
        at = (place){.n = (size_t)e->n};
        for (size_t i = 0; i < e->k; i++)
            set_add(&one, e->index[i], e->negative[i]);
        memset(dst, 0x55, sizeof dst);
        require(tlc_golomb_write(one.mask, e->signs ? one.negative : NULL, e->n, e->k, dst, 40) == e->size);
        require(same(dst, e->payload, e->size));
        set_free(&one);
    }
    for (uint64_t i = 0; i < 300; i++) /* k = 300 is 0xac 2, then 300 zeros */
        set_add(&s, i, 0);
    require(tlc_golomb_write(s.mask, NULL, 300, 300, dst, 41) == 41 && same(dst, all, 41));
    set_free(&s);
}

/* ---- the parameter ----------------------------------------------------------------------------------------------- */

/* 1 + floor(log2(log(phi - 1) / log(1 - p))). Where the quotient is close to a power of two, rounding decides: 1 - p
 * has an absolute error of 2^-53. */
static void parameter_is(uint64_t k, uint64_t n)
{
    double p = (double)k / (double)n, power = log2(log((sqrt(5.0) - 1) / 2) / log1p(-p));
    double slack = 1e-9 + 0x1p-50 / p, low = 1 + floor(power - slack), high = 1 + floor(power + slack);
    double got = (double)tlc_golomb_parameter(k, n);

    at.n = (size_t)n, at.i = (size_t)k;
    require(got >= fmin(fmax(low, 0), 48) && got <= fmin(fmax(high, 0), 48));
}

TEST(parameter)
{
    rng r = {1};

    for (uint64_t n = 1; n < (quick() ? 100 : 1000); n++)
        for (uint64_t k = 1; k <= n; k++)
            parameter_is(k, n);
    for (int i = 0; i < (quick() ? 1000 : 100000); i++) {
        uint64_t n = rng_next(&r) >> rng_below(&r, 64) | 1, k = (rng_next(&r) >> rng_below(&r, 63)) % n + 1;
        parameter_is(k, n);
    }
    require(tlc_golomb_parameter(0, 0) == 0 && tlc_golomb_parameter(0, 9) == 0 && tlc_golomb_parameter(9, 9) == 0);
    /* the border is 1 - 0.618... */
    require(tlc_golomb_parameter(381966, 1000000) == 1 && tlc_golomb_parameter(381967, 1000000) == 0);
    require(tlc_golomb_parameter(1, UINT64_MAX) == 48 && tlc_golomb_parameter(1, (uint64_t)1 << 50) == 48);
}

/* Eq. 8 of the paper: b* + 1 / (1 - (1 - p)^(2^b*)) bits a position, where the gaps are geometric. */
TEST(mean_bits)
{
    const double ps[] = {0.001, 0.01, 0.1};
    const int rounds = quick() ? 1 : 10;
    const uint64_t each = quick() ? 10000 : 100000;
    rng r = {2};

    for (size_t j = 0; j < COUNT(ps); j++) {
        uint64_t n = (uint64_t)((double)each / ps[j]), bits = 0, k = 0;
        size_t cap = 2 * (size_t)each;
        uint8_t *dst = bytes(cap);
        for (int i = 0; i < rounds; i++) {
            set s = set_new(n);
            size_t size, head;
            for (double at_index = -1;;) {
                at_index += 1 + floor(log(rng_double(&r)) / log1p(-ps[j]));
                if (at_index >= (double)n)
                    break;
                set_add(&s, (uint64_t)at_index, 0);
            }
            size = tlc_golomb_write(s.mask, NULL, n, s.k, dst, cap);
            head = s.k < 1 << 14 ? 3 : 4;
            require(size > head && dst[head - 1] == tlc_golomb_parameter(s.k, n));
            bits += 8 * (size - head);
            k += s.k;
            set_free(&s);
        }
        double b = 1 + floor(log2(log((sqrt(5.0) - 1) / 2) / log1p(-ps[j])));
        double want = b + 1 / (1 - pow(1 - ps[j], exp2(b))), got = (double)bits / (double)k;
        at = (place){.i = (size_t)(1000 * ps[j])};
        require(k > 9 * each / 10 * (uint64_t)rounds && fabs(got / want - 1) < 0.01);
        free(dst);
    }
}

/* ---- the bound --------------------------------------------------------------------------------------------------- */

static size_t written(const set *s, int signs, uint8_t *dst, size_t cap)
{
    return tlc_golomb_write(s->mask, signs ? s->negative : NULL, s->n, s->k, dst, cap);
}

/* The longest payload of k positions: at the end, at the start, the first ones and the last, evenly spread. */
static size_t worst_of(uint64_t n, uint64_t k, int signs, uint8_t *dst, size_t cap)
{
    size_t worst = 0;

    for (int kind = 0; kind < 4; kind++) {
        set s = set_new(n);
        for (uint64_t i = 0; i < k; i++)
            set_add(&s,
                    kind == 0   ? n - k + i
                    : kind == 1 ? i
                    : kind == 2 ? (i + 1 == k ? n - 1 : i)
                                : i * n / k,
                    i % 3 == 0);
        size_t size = written(&s, signs, dst, cap);
        require(size);
        worst = size > worst ? size : worst;
        set_free(&s);
    }
    return worst;
}

TEST(bound)
{
    const uint64_t large[] = {1000, 4095, 65536, 100003};
    rng r = {3};
    uint8_t *dst = bytes(60000);

    for (uint64_t n = 1; n <= (quick() ? 40 : 200); n++)
        for (int signs = 0; signs < 2; signs++) {
            size_t worst = 0;
            require(tlc_golomb_bound(n, 0, signs) == 2);
            for (uint64_t k = 0; k <= n; k++) {
                size_t size = worst_of(n, k, signs, dst, 200);
                worst = size > worst ? size : worst;
                at.n = (size_t)n, at.i = (size_t)k;
                require(tlc_golomb_bound(n, k, signs) == worst); /* the bound is exact */
            }
            require(tlc_golomb_bound(n, n + 1, signs) == worst && tlc_golomb_bound(n, UINT64_MAX, signs) == worst);
        }
    for (size_t i = 0; i < COUNT(large); i++)
        for (int j = 0; j < (quick() ? 3 : 100); j++) {
            uint64_t n = large[i], k = 1 + rng_below(&r, (size_t)(n >> rng_below(&r, 9)));
            int signs = j % 2;
            size_t size = worst_of(n, k, signs, dst, 60000);
            at.n = (size_t)n, at.i = (size_t)k;
            require(tlc_golomb_bound(n, k, signs) >= size && tlc_golomb_bound(n, k, signs) <= size + size / 3 + 2);
        }
    /* 1.08 n bits, or 2 n with signs; no overflow */
    for (unsigned shift = 10; shift < 57; shift++) {
        double n = exp2(shift);
        require((double)tlc_golomb_bound((uint64_t)1 << shift, UINT64_MAX, 0) < 1.08 / 8 * n + 12);
        require((double)tlc_golomb_bound((uint64_t)1 << shift, UINT64_MAX, 1) <= 2.0 / 8 * n + 12);
    }
    require(tlc_golomb_bound(UINT64_MAX, UINT64_MAX, 1) == UINT64_MAX);
    require(tlc_golomb_bound(UINT64_MAX, 1, 1) < 8200 + 2 && tlc_golomb_bound(0, 5, 1) == 2);
    free(dst);
}

/* ---- round trips ------------------------------------------------------------------------------------------------- */

/* Skips to one end after the other. What comes then is the first member from there on. */
static void skips(const tlc_kernels *kernels, const set *s, int signs, const uint8_t *payload, size_t size)
{
    tlc_golomb_reader reader;
    uint8_t negative[1];
    uint64_t i = 0, count = 0, next = 0;
    size_t index[1];

    require(tlc_golomb_open(&reader, kernels, payload, size, s->n, signs));
    for (uint64_t end = 0; end <= s->n; end += 1 + end + s->n / 9) {
        for (; i < end; i++)
            if (s->mask[i / 64] >> i % 64 & 1) {
                count++;
                next = i + 1;
            }
        tlc_golomb_skip(&reader, i);
        require(reader.run.count == count && reader.run.next == next);
    }
    for (; i < s->n && !(s->mask[i / 64] >> i % 64 & 1);)
        i++;
    require(tlc_golomb_next(&reader, index, negative, 1) == (i < s->n));
    require(i == s->n || index[0] == i);
}

/* Writes s to exactly enough room and to too little, compares with the slow encoder, and reads it again. */
static void round_trip(arena *a, const set *s, int signs)
{
    uint64_t most = tlc_golomb_bound(s->n, s->k, signs);
    uint8_t *want = bytes((size_t)most + 1), *dst;
    size_t size = slow_write(s, signs, want), less = size > 40 ? size - 40 : 0;

    at.n = (size_t)s->n, at.i = (size_t)s->k;
    require(size <= most);
    for (int end = 0; end < 2; end++) {
        dst = arena_take(a, size, end);
        require(written(s, signs, dst, size) == size && same(dst, want, size) && arena_intact(a));
        dst = arena_take(a, size + 9, end);
        require(written(s, signs, dst, size + 9) == size && same(dst, want, size) && arena_intact(a));
        for (size_t cap = size - 1; cap > less; cap -= cap > 12 && cap < size - 3 ? 7 : 1) {
            dst = arena_take(a, cap, end);
            require(written(s, signs, dst, cap) == 0 && arena_intact(a));
        }
        require(written(s, signs, arena_take(a, 0, end), 0) == 0 && arena_intact(a));
    }
    require(judge(a, want, size, s->n, signs, 1 + (size_t)s->k % 256) == size);
    FOR_EACH_ISA(isa)
        skips(tlc_kernels_for(isa), s, signs, want, size);
    memset(want + size, 0xff, (size_t)most + 1 - size);
    require(judge(a, want, size, s->n, signs, 256) == size);
    free(want);
}

TEST(round_trips)
{
    const uint64_t large[] = {4096, 10007, 65536 + 63, 200000};
    rng r = {4};
    arena a;

    arena_open(&a, 60000);
    for (uint64_t n = 0; n <= 300; n += quick() ? 7 : 1)
        for (size_t j = 0; j < COUNT(densities); j++)
            for (int signs = 0; signs < 2; signs++) {
                set s = set_random(&r, n, densities[j]);
                round_trip(&a, &s, signs);
                set_free(&s);
            }
    for (size_t i = 0; i < COUNT(large); i++)
        for (size_t j = 0; j < COUNT(densities); j++)
            for (int signs = 0; signs < 2; signs++) {
                set s = set_random(&r, large[i], densities[j]);
                round_trip(&a, &s, signs);
                set_free(&s);
            }
    arena_close(&a);
}

/* Sets that chance does not make: long empty stretches, full stretches, periods. A decoder that starts in the middle of
 * a periodic stream may never find the start of a code. */
TEST(shaped_sets)
{
    const uint64_t n = quick() ? 20000 : 100000;
    rng r = {5};
    arena a;

    arena_open(&a, 60000);
    for (uint64_t period = 1; period < 3000; period += 1 + period / 3)
        for (int signs = 0; signs < 2; signs++) {
            set even = set_new(n), mixed = set_new(n), bursts = set_new(n);
            for (uint64_t i = period - 1; i < n; i += period)
                set_add(&even, i, 1);
            for (uint64_t i = 0; i < n;) { /* full and empty stretches, of up to 4 and 20 periods */
                uint64_t full = rng_below(&r, 4 * (size_t)period), empty = rng_below(&r, 20 * (size_t)period);
                for (; full-- && i < n; i++)
                    set_add(&mixed, i, (int)(rng_next(&r) & 1));
                i += empty;
            }
            for (uint64_t i = 0, j = 0; i < n; j++) { /* distances of all sizes */
                set_add(&bursts, i, j % 2 == 0);
                i += 1 + rng_below(&r, (j / 12 % 4 ? 1 : 20) * (size_t)period);
            }
            round_trip(&a, &even, signs);
            round_trip(&a, &mixed, signs);
            round_trip(&a, &bursts, signs);
            set_free(&bursts);
            set_free(&even);
            set_free(&mixed);
        }
    for (uint64_t k = 1; k < n; k *= 3)
        for (int kind = 0; kind < 3; kind++) { /* all at the end, at the start, and all but one at the start */
            set s = set_new(n);
            for (uint64_t i = 0; i < k; i++)
                set_add(&s, kind == 0 ? n - 1 - i : kind == 1 || i + 1 < k ? i : n - 1, i % 2 == 0);
            round_trip(&a, &s, kind % 2);
            set_free(&s);
        }
    arena_close(&a);
}

/* Quotients near those that the writer splits into parts. */
TEST(long_quotients)
{
    const uint64_t n = 131072, quotients[][2] = {{40, 60}, {88, 108}};
    arena a;

    arena_open(&a, 60000);
    for (unsigned b = 9; b <= 10; b++)
        for (size_t i = 0; i < COUNT(quotients); i++)
            for (uint64_t q = quotients[i][0]; q < quotients[i][1]; q += quick() ? 3 : 1) {
                set s = set_new(n);
                uint64_t first = n * 2 / 3 >> b; /* b is for 0.48 to 0.96 of n / 2^b */
                for (uint64_t j = 0; j < first; j++)
                    set_add(&s, j, j % 3 == 0);
                set_add(&s, first + (q << b) + 5, 1);
                require(tlc_golomb_parameter(s.k, n) == b);
                round_trip(&a, &s, (int)(q / 3) % 2);
                set_free(&s);
            }
    arena_close(&a);
}
