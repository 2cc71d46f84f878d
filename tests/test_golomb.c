/* SPDX-License-Identifier: MIT
 *
 * src/golomb.h against the definition: by hand, against an encoder and a decoder that go bit by bit, on hostile bytes.
 */
#include "support.h"
#include <math.h>

#include "../src/golomb.h"

/* ---- the definition, bit by bit ----------------------------------------------------------------------------------- */

typedef struct set {
    uint64_t n, k, *mask, *negative;
} set;

static size_t words(uint64_t n)
{
    return (size_t)(n / 64 + (n % 64 != 0));
}

static set set_new(uint64_t n)
{
    set s = {n, 0, calloc(words(n) + 1, 8), calloc(words(n) + 1, 8)};

    require(s.mask && s.negative);
    return s;
}

static void set_free(set *s)
{
    free(s->mask);
    free(s->negative);
}

static void set_add(set *s, uint64_t index, int negative)
{
    s->k += !(s->mask[index / 64] >> index % 64 & 1);
    s->mask[index / 64] |= (uint64_t)1 << index % 64;
    if (negative)
        s->negative[index / 64] |= (uint64_t)1 << index % 64;
}

/* Signs outside the set are noise that must not matter. */
static set set_random(rng *r, uint64_t n, double p)
{
    set s = set_new(n);

    for (uint64_t i = 0; i < n; i++)
        if (rng_double(r) < p)
            set_add(&s, i, 0);
    for (size_t i = 0; i < words(n); i++)
        s.negative[i] = rng_next(r);
    return s;
}

static void push(uint8_t *dst, uint64_t *end, int bit)
{
    if (*end % 8 == 0)
        dst[*end / 8] = 0;
    dst[*end / 8] = (uint8_t)(dst[*end / 8] | bit << (7 - *end % 8));
    ++*end;
}

static size_t slow_write(const set *s, int signs, uint8_t *dst)
{
    unsigned b = tlc_golomb_parameter(s->k, s->n);
    uint64_t end = 0, next = 0, rest = s->k;

    do {
        dst[end++] = (uint8_t)(rest % 128 + (rest > 127 ? 128 : 0));
        rest /= 128;
    } while (rest);
    dst[end++] = (uint8_t)b;
    end *= 8;
    for (uint64_t i = 0; i < s->n; i++) {
        if (!(s->mask[i / 64] >> i % 64 & 1))
            continue;
        for (uint64_t q = (i - next) >> b; q; q--)
            push(dst, &end, 1);
        push(dst, &end, 0);
        for (unsigned bit = b; bit-- > 0;)
            push(dst, &end, (int)((i - next) >> bit & 1));
        if (signs)
            push(dst, &end, (int)(s->negative[i / 64] >> i % 64 & 1));
        next = i + 1;
    }
    while (end % 8)
        push(dst, &end, 0);
    return (size_t)(end / 8);
}

typedef struct slow_reader {
    const uint8_t *src;
    uint64_t at, end;
} slow_reader;

static int pull(slow_reader *r, uint64_t *bit)
{
    if (r->at == r->end)
        return 0;
    *bit = r->src[r->at / 8] >> (7 - r->at % 8) & 1;
    r->at++;
    return 1;
}

/* The bytes before the stream, or 0. */
static size_t slow_head(const uint8_t *src, size_t len, uint64_t n, uint64_t *k, unsigned *b)
{
    size_t size = 0;

    *k = 0;
    do {
        if (size == len || size == 10 || (size == 9 && src[9] > 1))
            return 0;
        *k |= (uint64_t)(src[size] & 127) << 7 * size;
    } while (src[size++] & 128);
    if ((size > 1 && !src[size - 1]) || size == len || src[size] > 48 || *k > n)
        return 0;
    *b = src[size];
    return size + 1;
}

/* The payload's length, or 0 if it is not sound. index, sign: room for 8 * len positions. */
static size_t slow_read(const uint8_t *src, size_t len, uint64_t n, int signs, uint64_t *index, uint8_t *sign)
{
    uint64_t k, next = 0, bit;
    unsigned b = 0;
    slow_reader r = {src, 8 * slow_head(src, len, n, &k, &b), 8 * (uint64_t)len};

    if (!r.at)
        return 0;
    for (uint64_t i = 0; i < k; i++) {
        uint64_t quotient = 0, rest = 0, s = 0;
        for (;; quotient++) {
            if (!pull(&r, &bit))
                return 0;
            if (!bit)
                break;
        }
        for (unsigned j = 0; j < b; j++) {
            if (!pull(&r, &bit))
                return 0;
            rest = rest << 1 | bit;
        }
        if (signs && !pull(&r, &s))
            return 0;
        if (quotient > UINT64_MAX >> b || next >= n || (quotient << b) + rest >= n - next)
            return 0;
        index[i] = next + (quotient << b) + rest;
        sign[i] = (uint8_t)s;
        next = index[i] + 1;
    }
    while (r.at % 8)
        if (!pull(&r, &bit) || bit)
            return 0;
    return (size_t)(r.at / 8);
}

/* Does the library find of these bytes what the slow decoder finds? The bytes end at a guard page. Returns the payload's
 * length, 0 if they are not sound. */
static size_t judge(arena *a, const uint8_t *bytes_in, size_t len, uint64_t n, int signs, size_t chunk)
{
    const uint8_t *src = arena_copy(a, bytes_in, len, 1);
    uint64_t *index = malloc(64 * len + 8), k;
    uint8_t *sign = bytes(8 * len + 1), got_sign[257];
    size_t want = slow_read(src, len, n, signs, index, sign), size = 0, got_index[257], count = 0, got;
    tlc_golomb_reader r;
    unsigned b;

    at.n = (size_t)n, at.i = len;
    require(chunk <= 256 && index);
    require(tlc_golomb_open(&r, src, len, n, signs) == (slow_head(src, len, n, &k, &b) > 0));
    if (slow_head(src, len, n, &k, &b)) {
        tlc_golomb_reader before = r;
        require(r.k == k);
        require(tlc_golomb_check(&r, &size) == (want > 0) && same(&r, &before, sizeof r));
    }
    if (want) {
        require(size == want);
        got_index[chunk] = 777, got_sign[chunk] = 77;
        do {
            got = tlc_golomb_next(&r, got_index, signs || len % 2 ? got_sign : NULL, chunk);
            require(got == (k - count < chunk ? k - count : chunk));
            for (size_t i = 0; i < got; i++)
                require(got_index[i] == index[count + i] && (!signs || got_sign[i] == sign[count + i]));
            count += got;
        } while (got);
        require(count == k && got_index[chunk] == 777 && got_sign[chunk] == 77);
    }
    free(index);
    free(sign);
    return want;
}

/* ---- by hand ------------------------------------------------------------------------------------------------------ */

typedef struct example {
    uint64_t n;
    int signs;
    uint64_t k, index[3];
    int negative[3];
    size_t size;
    uint8_t payload[6];
} example;

static void worked_examples(void **state)
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

    (void)state;
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

/* ---- the parameter ------------------------------------------------------------------------------------------------ */

/* 1 + floor(log2(log(phi - 1) / log(1 - p))). Rounding may decide where the inner part is a power of two: 1 - p keeps
 * 2^-53 of absolute precision. */
static void parameter_is(uint64_t k, uint64_t n)
{
    double p = (double)k / (double)n, power = log2(log((sqrt(5.0) - 1) / 2) / log1p(-p));
    double slack = 1e-9 + 0x1p-50 / p, low = 1 + floor(power - slack), high = 1 + floor(power + slack);
    double got = (double)tlc_golomb_parameter(k, n);

    at.n = (size_t)n, at.i = (size_t)k;
    require(got >= fmin(fmax(low, 0), 48) && got <= fmin(fmax(high, 0), 48));
}

static void parameter(void **state)
{
    rng r = {1};

    (void)state;
    for (uint64_t n = 1; n < (quick() ? 100 : 1000); n++)
        for (uint64_t k = 1; k <= n; k++)
            parameter_is(k, n);
    for (int i = 0; i < (quick() ? 1000 : 100000); i++) {
        uint64_t n = rng_next(&r) >> rng_below(&r, 64) | 1, k = (rng_next(&r) >> rng_below(&r, 63)) % n + 1;
        parameter_is(k, n);
    }
    require(tlc_golomb_parameter(0, 0) == 0 && tlc_golomb_parameter(0, 9) == 0 && tlc_golomb_parameter(9, 9) == 0);
    require(tlc_golomb_parameter(381966, 1000000) == 1 && tlc_golomb_parameter(381967, 1000000) == 0); /* 1 - 0.618... */
    require(tlc_golomb_parameter(1, UINT64_MAX) == 48 && tlc_golomb_parameter(1, (uint64_t)1 << 50) == 48);
}

/* Eq. 8 of the paper: b* + 1 / (1 - (1 - p)^(2^b*)) bits a position, where the gaps are geometric. */
static void mean_bits(void **state)
{
    const double ps[] = {0.001, 0.01, 0.1};
    const int rounds = quick() ? 1 : 10;
    const uint64_t each = quick() ? 10000 : 100000;
    rng r = {2};

    (void)state;
    for (size_t j = 0; j < COUNT(ps); j++) {
        uint64_t n = (uint64_t)((double)each / ps[j]), bits = 0, k = 0;
        size_t cap = 2 * (size_t)each;
        uint8_t *dst = bytes(cap);
        for (int i = 0; i < rounds; i++) {
            set s = set_new(n);
            size_t size;
            for (double at_index = -1;;) {
                at_index += 1 + floor(log(rng_double(&r)) / log1p(-ps[j]));
                if (at_index >= (double)n)
                    break;
                set_add(&s, (uint64_t)at_index, 0);
            }
            size = tlc_golomb_write(s.mask, NULL, n, s.k, dst, cap);
            require(size && dst[3] == tlc_golomb_parameter(s.k, n));
            bits += 8 * (size - 4);
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

/* ---- the bound ---------------------------------------------------------------------------------------------------- */

static size_t written(const set *s, int signs, uint8_t *dst, size_t cap)
{
    return tlc_golomb_write(s->mask, signs ? s->negative : NULL, s->n, s->k, dst, cap);
}

/* Positions at the end, at the start, the first ones and the last, evenly spread: the worst payload of k. */
static size_t worst_of(uint64_t n, uint64_t k, int signs, uint8_t *dst, size_t cap)
{
    size_t worst = 0;

    for (int kind = 0; kind < 4; kind++) {
        set s = set_new(n);
        for (uint64_t i = 0; i < k; i++)
            set_add(&s, kind == 0 ? n - k + i : kind == 1 ? i : kind == 2 ? (i + 1 == k ? n - 1 : i) : i * n / k, i % 3 == 0);
        size_t size = written(&s, signs, dst, cap);
        require(size);
        worst = size > worst ? size : worst;
        set_free(&s);
    }
    return worst;
}

static void bound(void **state)
{
    const uint64_t large[] = {1000, 4095, 65536, 100003};
    rng r = {3};
    uint8_t *dst = bytes(60000);

    (void)state;
    for (uint64_t n = 1; n <= (quick() ? 40 : 200); n++)
        for (int signs = 0; signs < 2; signs++) {
            size_t worst = 0;
            require(tlc_golomb_bound(n, 0, signs) == 2);
            for (uint64_t k = 0; k <= n; k++) {
                size_t size = worst_of(n, k, signs, dst, 200);
                worst = size > worst ? size : worst;
                at.n = (size_t)n, at.i = (size_t)k;
                require(tlc_golomb_bound(n, k, signs) == worst); /* not only above: the bound is exact */
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

/* ---- round trips -------------------------------------------------------------------------------------------------- */

/* Writes s into exactly enough and into too little, compares with the slow encoder, and reads it again. */
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
    memset(want + size, 0xff, (size_t)most + 1 - size);
    require(judge(a, want, size, s->n, signs, 256) == size);
    free(want);
}

static const double densities[] = {0.0005, 0.002, 0.01, 0.05, 0.1, 0.2, 0.3, 0.38, 0.4, 0.6, 0.9, 0.99, 1};

static void round_trips(void **state)
{
    const uint64_t large[] = {4096, 10007, 65536 + 63, 200000};
    rng r = {4};
    arena a;

    (void)state;
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

/* What random sets do not have: long empty stretches, stretches that are full, periods (a decoder that starts in the
 * middle of such a stream may never fall into step). */
static void shaped_sets(void **state)
{
    const uint64_t n = quick() ? 20000 : 100000;
    rng r = {5};
    arena a;

    (void)state;
    arena_open(&a, 60000);
    for (uint64_t period = 1; period < 3000; period += 1 + period / 3)
        for (int signs = 0; signs < 2; signs++) {
            set even = set_new(n), mixed = set_new(n);
            for (uint64_t i = period - 1; i < n; i += period)
                set_add(&even, i, 1);
            for (uint64_t i = 0; i < n;) { /* both kinds of stretches, of any length up to 4 periods and 20 periods */
                uint64_t full = rng_below(&r, 4 * (size_t)period), empty = rng_below(&r, 20 * (size_t)period);
                for (; full-- && i < n; i++)
                    set_add(&mixed, i, (int)(rng_next(&r) & 1));
                i += empty;
            }
            round_trip(&a, &even, signs);
            round_trip(&a, &mixed, signs);
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

/* ---- hostile bytes ------------------------------------------------------------------------------------------------ */

/* Every truncation, every bit flipped (of a long payload: a sample), other n. */
static void damage(arena *a, rng *r, uint64_t n, double p, int signs)
{
    set s = set_random(r, n, p);
    uint8_t *bytes_of = bytes((size_t)tlc_golomb_bound(n, n, signs) + 20);
    size_t size = slow_write(&s, signs, bytes_of), step = size > 300 ? size / 40 : 1;

    for (size_t len = 0; len < size; len += step)
        require(judge(a, bytes_of, len, n, signs, 64) == 0 || s.k == 0);
    for (size_t bit = 0; bit < 8 * size; bit += 1 + rng_below(r, step * 2 - 1)) {
        bytes_of[bit / 8] = (uint8_t)(bytes_of[bit / 8] ^ 1 << bit % 8);
        judge(a, bytes_of, size, n, signs, 64);
        bytes_of[bit / 8] = (uint8_t)(bytes_of[bit / 8] ^ 1 << bit % 8);
    }
    for (uint64_t other = 0; other <= 2 * n; other += 1 + n / 20)
        judge(a, bytes_of, size, other, signs, 64);
    judge(a, bytes_of, size, n, !signs, 64);
    judge(a, bytes_of, size, UINT64_MAX, signs, 64);
    for (size_t i = 0; i < 20; i++)
        bytes_of[size + i] = (uint8_t)rng_next(r);
    require(judge(a, bytes_of, size + 20, n, signs, 64) == size); /* what follows is the caller's */
    set_free(&s);
    free(bytes_of);
}

static void damaged(void **state)
{
    rng r = {6};
    arena a;

    (void)state;
    arena_open(&a, 60000);
    for (uint64_t n = 0; n <= (quick() ? 30 : 130); n += 1 + n / 16)
        for (size_t j = 0; j < COUNT(densities); j++)
            for (int signs = 0; signs < 2; signs++)
                damage(&a, &r, n, densities[j], signs);
    for (size_t j = 0; j < COUNT(densities); j++)
        damage(&a, &r, quick() ? 10000 : 150000, densities[j], j % 2);
    arena_close(&a);
}

/* A head that claims k, b; then bytes of one kind. */
static void any_stream(arena *a, rng *r, uint64_t k, unsigned b, uint64_t n, size_t len, int kind, int signs)
{
    uint8_t src[20000];
    size_t head = 0;

    require(len + 11 <= sizeof src);
    for (uint64_t rest = k; rest || !head; rest >>= 7)
        src[head++] = (uint8_t)(rest % 128 + (rest > 127 ? 128 : 0));
    src[head++] = (uint8_t)b;
    for (size_t i = 0; i < len; i++) { /* all ones, all zeros, noise, noise with few ones, with few zeros */
        uint64_t x = rng_next(r), y = x & x >> 8 & x >> 16;
        src[head + i] = (uint8_t)(kind == 0 ? 255 : kind == 1 ? 0 : kind == 2 ? x : kind == 3 ? y : ~y);
    }
    judge(a, src, head + len, n, signs, 100);
}

static void hostile(void **state)
{
    rng r = {7};
    arena a;
    uint8_t src[64];

    (void)state;
    arena_open(&a, 20000);
    for (int i = 0; i < (quick() ? 3000 : 100000); i++) {
        uint64_t k = rng_next(&r) >> rng_below(&r, 64), n = rng_next(&r) >> rng_below(&r, 64);
        unsigned b = (unsigned)rng_below(&r, rng_below(&r, 2) ? 50 : 6);
        size_t len = rng_below(&r, rng_below(&r, 50) ? 60 : 4000);
        if (rng_below(&r, 4)) /* mostly a k that the stream may have, and often an n that it may need */
            k = rng_below(&r, 8 * len / (1 + b) + 2);
        if (rng_below(&r, 3) == 0)
            n = k << b;
        any_stream(&a, &r, k, b, n, len, (int)rng_below(&r, 5), i % 2);
    }
    for (unsigned b = 0; b <= 49; b++)
        for (int kind = 0; kind < 5; kind++) {
            any_stream(&a, &r, UINT64_MAX, b, UINT64_MAX, 19000, kind, 0);
            any_stream(&a, &r, 19000 / (1 + b), b, UINT64_MAX, 19000, kind, 1);
            any_stream(&a, &r, 1, b, UINT64_MAX, 19000, kind, 1);
            any_stream(&a, &r, 19000 * 8 / (2 + b), b, UINT64_MAX >> b / 2, 19000, kind, 0);
        }
    for (int i = 0; i < (quick() ? 3000 : 100000); i++) {
        size_t len = rng_below(&r, sizeof src);
        for (size_t j = 0; j < len; j++)
            src[j] = (uint8_t)(rng_next(&r) >> rng_below(&r, 9));
        judge(&a, src, len, rng_next(&r) >> rng_below(&r, 64), i % 2, 1 + (size_t)i % 9);
    }
    arena_close(&a);
}

/* Heads of every form of k. */
static void heads(void **state)
{
    static const struct {
        size_t len;
        uint8_t src[12];
        uint64_t n;
        int ok;
    } cases[] = {
        {0, {0}, 5, 0},
        {1, {0}, 5, 0},
        {2, {0, 0}, 0, 1},
        {2, {0, 48}, 5, 1},
        {2, {0, 49}, 5, 0},
        {2, {0, 255}, 5, 0},
        {2, {1, 0}, 0, 0},
        {3, {0x80, 0, 0}, 5, 0}, /* not the shortest */
        {4, {0x81, 0x80, 0, 0}, 5, 0},
        {3, {0x80, 1, 0}, 127, 0},
        {3, {0x80, 1, 0}, 128, 1},
        {2, {0x80, 1}, 128, 0},
        {11, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0}, UINT64_MAX, 1},
        {11, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0}, UINT64_MAX - 1, 0},
        {10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, UINT64_MAX, 0},
        {11, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0}, UINT64_MAX, 0},
        {12, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0, 0}, UINT64_MAX, 0},
    };
    arena a;

    (void)state;
    arena_open(&a, 100);
    for (size_t i = 0; i < COUNT(cases); i++) {
        tlc_golomb_reader r;
        at = (place){.i = i};
        require(tlc_golomb_open(&r, arena_copy(&a, cases[i].src, cases[i].len, 1), cases[i].len, cases[i].n, 1) == cases[i].ok);
        judge(&a, cases[i].src, cases[i].len, cases[i].n, 0, 3);
    }
    arena_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_examples), cmocka_unit_test(parameter),   cmocka_unit_test(mean_bits),
        cmocka_unit_test(bound),           cmocka_unit_test(round_trips), cmocka_unit_test(shaped_sets),
        cmocka_unit_test(damaged),         cmocka_unit_test(heads),       cmocka_unit_test(hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
