/* SPDX-License-Identifier: MIT
 *
 * src/positions/golomb.h on bytes that no encoder made. The slow decoder says what they mean. They end at a guard page.
 */
#include "golomb_slow.h"

static const double densities[] = DENSITIES;

/* Every truncation, every flipped bit (a sample of them for long payloads), other n. */
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
    require(judge(a, bytes_of, size + 20, n, signs, 64) == size); /* bytes after the payload do not count */
    set_free(&s);
    free(bytes_of);
}

TEST(damaged)
{
    rng r = {6};
    arena a;

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

TEST(hostile)
{
    rng r = {7};
    arena a;
    uint8_t src[64];

    arena_open(&a, 20000);
    for (int i = 0; i < (quick() ? 3000 : 100000); i++) {
        uint64_t k = rng_next(&r) >> rng_below(&r, 64), n = rng_next(&r) >> rng_below(&r, 64);
        unsigned b = (unsigned)rng_below(&r, rng_below(&r, 2) ? 50 : 6);
        size_t len = rng_below(&r, rng_below(&r, 50) ? 60 : 4000);
        if (rng_below(&r, 4)) /* mostly a k that fits the stream, and often an n that fits k */
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
    for (int i = 0; i < (quick() ? 100 : 3000); i++) { /* thousands of short codes: those are read with tables */
        size_t len = 500 + rng_below(&r, 18500);
        unsigned b = (unsigned)rng_below(&r, 6), kind = (unsigned)rng_below(&r, 5);
        uint64_t bits = 1 + b + (unsigned)(i % 2) + (kind == 2 ? 1u : kind == 4 ? 4u : 0u), k = 8 * len / bits;
        any_stream(&a, &r, k - rng_below(&r, (size_t)k / 2), b, UINT64_MAX, len, (int)kind, i % 2);
    }
    for (int i = 0; i < (quick() ? 3000 : 100000); i++) {
        size_t len = rng_below(&r, sizeof src);
        for (size_t j = 0; j < len; j++)
            src[j] = (uint8_t)(rng_next(&r) >> rng_below(&r, 9));
        judge(&a, src, len, rng_next(&r) >> rng_below(&r, 64), i % 2, 1 + (size_t)i % 9);
    }
    arena_close(&a);
}

/* Streams that have only ones from some bit on, so that no code ends: for all places where a decoder that cuts its
 * stream may be at that bit. */
TEST(cut_codes)
{
    static const struct {
        unsigned b;
        int signs;
    } shapes[] = {{0, 0}, {0, 1}, {1, 0}, {3, 1}, {4, 0}, {5, 1}, {7, 0}, {8, 1}, {9, 0}, {13, 1}, {20, 0}};
    static const size_t lens[] = {300, 700, 3500, 15000};
    const size_t cuts = quick() ? 6 : 24;
    uint8_t *src = bytes(16000);
    rng r = {8};
    arena a;

    arena_open(&a, 16000);
    for (size_t i = 0; i < COUNT(shapes); i++)
        for (size_t j = 0; j < COUNT(lens); j++)
            for (size_t cut = 0; cut <= cuts; cut++)
                for (unsigned noise = 0; noise < 2; noise++) {
                    size_t head = 0, from = lens[j] * cut / cuts;
                    uint64_t least = 1 + shapes[i].b + (unsigned)shapes[i].signs;
                    uint64_t k = lens[j] * 8 / (least + noise) - cut % 3;
                    for (uint64_t rest = k; rest || !head; rest >>= 7)
                        src[head++] = (uint8_t)(rest % 128 + (rest > 127 ? 128 : 0));
                    src[head++] = (uint8_t)shapes[i].b;
                    for (size_t at_byte = 0; at_byte < lens[j]; at_byte++)
                        src[head + at_byte] = (uint8_t)(at_byte >= from ? 255 : noise ? rng_next(&r) : 0);
                    size_t size = judge(&a, src, head + lens[j], UINT64_MAX, shapes[i].signs, 100);
                    require(from + least < lens[j] ? size == 0 : size <= head + lens[j]);
                }
    arena_close(&a);
    free(src);
}

/* Distances near 2^64: quotients for b = 48, then a remainder of ones except for its last bit. */
TEST(far_positions)
{
    static const struct {
        uint64_t quotient[3], n;
        int ones; /* is the last bit of the remainder 1 too? */
        int ok;
    } cases[] = {
        {{30000, 30000, 5533}, UINT64_MAX, 0, 1}, /* the last position is 2^64 - 4 */
        {{30000, 30000, 5534}, UINT64_MAX, 0, 0},
        {{0, 0, 65533}, UINT64_MAX, 0, 1},
        {{0, 0, 65534}, UINT64_MAX, 0, 0},
        {{0, 0, 65536}, UINT64_MAX, 0, 0}, /* 2^64 */
        {{0, 0, 65537}, UINT64_MAX, 0, 0},
        {{65535}, UINT64_MAX, 0, 1}, /* UINT64_MAX - 1 */
        {{65535}, UINT64_MAX - 1, 0, 0},
        {{65535}, UINT64_MAX, 1, 0},
        {{65536}, UINT64_MAX, 0, 0},
        {{65537}, UINT64_MAX, 0, 0},
        {{131072}, UINT64_MAX, 0, 0},
    };
    uint8_t *src = bytes(40000);
    arena a;

    arena_open(&a, 40000);
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t k = cases[i].quotient[2] ? 3 : 1;
        uint64_t end = 16;
        memset(src, 0, 40000);
        src[0] = (uint8_t)k;
        src[1] = 48;
        for (size_t j = 0; j < k; j++) {
            for (uint64_t q = cases[i].quotient[j]; q; q--)
                push(src, &end, 1);
            push(src, &end, 0);
            for (int bit = 47; bit >= 0; bit--)
                push(src, &end, bit > 0 || cases[i].ones);
        }
        at = (place){.i = i};
        require((judge(&a, src, (size_t)(end + 7) / 8, cases[i].n, 0, 2) > 0) == cases[i].ok);
    }
    arena_close(&a);
    free(src);
}

/* Heads with all forms of k. */
TEST(heads)
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

    arena_open(&a, 100);
    for (size_t i = 0; i < COUNT(cases); i++) {
        tlc_golomb_reader r;
        at = (place){.i = i};
        const uint8_t *src = arena_copy(&a, cases[i].src, cases[i].len, 1);
        require(tlc_golomb_open(&r, tlc_kernels_for(TLC_ISA_SCALAR), src, cases[i].len, cases[i].n, 1) == cases[i].ok);
        judge(&a, cases[i].src, cases[i].len, cases[i].n, 0, 3);
    }
    arena_close(&a);
}
