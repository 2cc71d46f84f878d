/* SPDX-License-Identifier: MIT
 *
 * The roofline loops of tlc-bench do all the work that codecs are compared with, and no more: on every ISA, for every
 * length.
 */
#include "../../bench/lib/roofline.h"
#include "../support/support.h"
#include <math.h>

static const size_t sizes[] = {0, 1, 3, 4, 5, 15, 16, 17, 79, 80, 81, 159, 160, 319, 320, 321, 655, 4096, 5003, 140000};

/* Buffers of n values that end at a guard page; out begins at a page. */
typedef struct buffers {
    arena g_pages, r_pages, out_pages, byte_pages;
    float *x, *r; /* what g + r is; the residual before */
    size_t n, len;
    slice slice;
} buffers;

static void buffers_open(buffers *b, size_t n, uint64_t seed)
{
    float *g = floats(n);

    *b = (buffers){.n = n, .len = (n + 4) / 5, .x = floats(n), .r = floats(n)};
    fill(DATA_LAPLACE, seed, g, n);
    fill(DATA_LAPLACE, seed + 1, b->r, n);
    for (size_t i = 0; i < n; i++)
        b->x[i] = g[i] + b->r[i];
    arena_open(&b->g_pages, n * sizeof(float));
    arena_open(&b->r_pages, n * sizeof(float));
    arena_open(&b->out_pages, n * sizeof(float));
    arena_open(&b->byte_pages, b->len);
    b->slice = (slice){
        .g = (const float *)(const void *)arena_copy(&b->g_pages, g, n * sizeof(float), 1),
        .r = (float *)(void *)arena_copy(&b->r_pages, b->r, n * sizeof(float), 1),
        .out = (float *)(void *)arena_take(&b->out_pages, n * sizeof(float), 0),
        .bytes = arena_take(&b->byte_pages, b->len, 1),
        .n = n,
    };
    free(g);
}

static void buffers_close(buffers *b)
{
    require(arena_intact(&b->r_pages) && arena_intact(&b->out_pages) && arena_intact(&b->byte_pages));
    arena_close(&b->g_pages);
    arena_close(&b->r_pages);
    arena_close(&b->out_pages);
    arena_close(&b->byte_pages);
    free(b->x);
    free(b->r);
}

static uint32_t largest(const float *x, size_t n)
{
    uint32_t max = 0;

    for (size_t i = 0; i < n; i++)
        max = float_bits(fabsf(x[i])) > max ? float_bits(fabsf(x[i])) : max;
    return max;
}

static void require_sent(const buffers *b)
{
    for (size_t i = 0; i < b->n; i++)
        require(float_bits(b->slice.r[i]) == float_bits(b->x[i] - copysignf(1, b->x[i])));
}

/* Runs the sweeps of one way to compress; returns the bytes that they make. */
static uint8_t *forward(const roofline_loops *loops, roofline which, size_t n, uint64_t seed)
{
    sweep *const *sweeps = loops->sweeps[which];
    uint8_t *made;
    buffers b;

    buffers_open(&b, n, seed);
    made = bytes(b.len);
    memset(b.slice.bytes, 0xa5, b.len);
    require(sweeps[0](&b.slice) == largest(b.x, n));
    if (which == ROOFLINE_TWO_SWEEPS)
        require(same(b.slice.r, b.r, n * sizeof(float)));
    if (which == ROOFLINE_ASSUME_FINITE)
        require(same(b.slice.r, b.x, n * sizeof(float)));
    require((sweeps[1] == NULL) == (which == ROOFLINE_ONE_SWEEP));
    if (sweeps[1]) {
        require(all_bytes(b.slice.bytes, b.len, 0xa5));
        sweeps[1](&b.slice);
    }
    require_sent(&b);
    if (b.len)
        memcpy(made, b.slice.bytes, b.len);
    buffers_close(&b);
    return made;
}

/* All ways make the same bytes, and other values give other bytes. */
TEST(compress_sweeps)
{
    FOR_EACH_ISA(isa) {
        const roofline_loops *loops = roofline_loops_of(isa);
        for (size_t i = 0; i < COUNT(sizes); i++) {
            size_t n = at.n = sizes[i], len = (n + 4) / 5;
            at.isa = isa;
            uint8_t *first = forward(loops, ROOFLINE_TWO_SWEEPS, n, 1);
            uint8_t *other = forward(loops, ROOFLINE_TWO_SWEEPS, n, 3);
            require(n < 80 || !same(first, other, len));
            for (roofline which = ROOFLINE_ASSUME_FINITE; which <= ROOFLINE_ONE_SWEEP; which++) {
                uint8_t *again = forward(loops, which, n, 1);
                require(same(first, again, len));
                free(again);
            }
            free(first);
            free(other);
        }
    }
}

/* Without a residual: the same bytes of g alone, and the maximum of g. r stays as it is. */
TEST(without_residual)
{
    FOR_EACH_ISA(isa) {
        const roofline_loops *loops = roofline_loops_of(isa);
        for (size_t i = 0; i < COUNT(sizes); i++) {
            sweep *const *sweeps = loops->sweeps[ROOFLINE_NO_RESIDUAL];
            size_t n = at.n = sizes[i];
            float *zeros = floats(n);
            buffers b;
            at.isa = isa;
            buffers_open(&b, n, 1);
            uint8_t *want = bytes(b.len);
            for (size_t k = 0; k < n; k++)
                zeros[k] = 0;
            loops->sweeps[ROOFLINE_TWO_SWEEPS][1](&(slice){.g = b.slice.g, .r = zeros, .bytes = want, .n = n});
            memset(b.slice.bytes, 0xa5, b.len);
            require(sweeps[0](&b.slice) == largest(b.slice.g, n));
            require(all_bytes(b.slice.bytes, b.len, 0xa5));
            sweeps[1](&b.slice);
            require(same(b.slice.bytes, want, b.len) && same(b.slice.r, b.r, n * sizeof(float)));
            buffers_close(&b);
            free(zeros);
            free(want);
        }
    }
}

/* Each byte of whole groups depends on an odd number of signs, so it changes when all of them change. */
TEST(all_values_count)
{
    enum { N = 640 };

    FOR_EACH_ISA(isa) {
        sweep *one = roofline_loops_of(isa)->sweeps[ROOFLINE_ONE_SWEEP][0];
        float g[N], r[N] = {0};
        uint8_t plus[N / 5] = {0}, minus[N / 5] = {0};
        at.isa = isa;
        fill(DATA_LAPLACE, 7, g, N);
        one(&(slice){.g = g, .r = r, .bytes = plus, .n = N});
        for (size_t i = 0; i < N; i++) {
            g[i] = -g[i];
            r[i] = 0;
        }
        one(&(slice){.g = g, .r = r, .bytes = minus, .n = N});
        for (size_t i = 0; i < N / 5; i++)
            require(plus[i] != minus[i]);
    }
}

/* Writing gives 1 or -1. Streaming writes the same values, and adding adds them. */
TEST(decompress_sweeps)
{
    rng random = {5};

    FOR_EACH_ISA(isa) {
        const roofline_loops *loops = roofline_loops_of(isa);
        for (size_t s = 0; s < COUNT(sizes); s++) {
            size_t minus = 0, n = at.n = sizes[s];
            buffers b;
            at.isa = isa;
            buffers_open(&b, n, 1);
            for (size_t i = 0; i < b.len; i++)
                b.slice.bytes[i] = (uint8_t)rng_next(&random);
            loops->sweeps[ROOFLINE_WRITE][0](&b.slice);
            loops->sweeps[ROOFLINE_ADD][0](&b.slice);
            for (size_t i = 0; i < n; i++) {
                require(fabsf(b.slice.out[i]) == 1);
                require(float_bits(b.slice.r[i]) == float_bits(b.r[i] + b.slice.out[i]));
                minus += b.slice.out[i] < 0;
            }
            require(n < 1000 || (minus > n * 4 / 10 && minus < n * 6 / 10));
            if (loops->sweeps[ROOFLINE_STREAM][0]) {
                memcpy(b.x, b.slice.out, n * sizeof(float));
                memset(b.slice.out, 0, n * sizeof(float));
                loops->sweeps[ROOFLINE_STREAM][0](&b.slice);
                require(same(b.slice.out, b.x, n * sizeof(float)));
            }
            buffers_close(&b);
        }
    }
}

enum { FRAMES = 3, FRAME_SPACE = 256 };

/* Frames of 256, 65 and 1 bytes, all 0. */
typedef struct frame_set {
    _Alignas(64) uint8_t bytes[FRAMES][FRAME_SPACE];
    tlc_message messages[FRAMES];
} frame_set;

static void frames_clear(frame_set *f)
{
    const size_t lens[FRAMES] = {FRAME_SPACE, 65, 1};

    memset(f->bytes, 0, sizeof f->bytes);
    for (size_t i = 0; i < FRAMES; i++)
        f->messages[i] = (tlc_message){f->bytes[i], lens[i]};
}

/* Two slices add or write all values, and nothing beyond. Without a sign in the frames, each value is 1. */
TEST(sums_of_frames)
{
    frame_set f;

    frames_clear(&f);
    FOR_EACH_ISA(isa) {
        const roofline_loops *loops = roofline_loops_of(isa);
        for (size_t i = 0; i < COUNT(sizes); i++) {
            size_t n = at.n = sizes[i], half = n / SLICE_UNIT / 2 * SLICE_UNIT;
            buffers b;
            at.isa = isa;
            buffers_open(&b, n, 1);
            for (int part = 0; part < 2; part++) {
                sum_slice s = {.frames = f.messages, .count = FRAMES, .sum = b.slice.r, .n = n};
                s.from = part ? half : 0;
                s.to = part ? n : half;
                loops->add_many(&s);
                s.sum = b.slice.out;
                loops->from_zero(&s);
            }
            for (size_t k = 0; k < n; k++) {
                require(b.slice.out[k] == 1);
                require(float_bits(b.slice.r[k]) == float_bits(b.r[k] + 1));
            }
            buffers_close(&b);
        }
    }
}

static size_t minus_ones(const float *x, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        require(fabsf(x[i]) == 1);
        count += x[i] < 0;
    }
    return count;
}

/* A sign in any word of any frame makes a share of the values -1, so all bytes are read. */
TEST(all_bytes_count)
{
    enum { N = 20000, LANES = 16 };
    float *sum = floats(N);
    frame_set f;

    frames_clear(&f);
    FOR_EACH_ISA(isa) {
        const roofline_loops *loops = roofline_loops_of(isa);
        at.isa = isa;
        at.n = N;
        for (size_t i = 0; i < FRAMES; i++) {
            for (size_t k = 0; k < f.messages[i].len; k += 4) {
                memset(&f.bytes[i][k], 0x80, 4);
                loops->from_zero(&(sum_slice){f.messages, FRAMES, sum, N, 0, N});
                size_t minus = minus_ones(sum, N);
                require(minus >= N / 3 / LANES / 2 && minus <= N / 2);
                memset(&f.bytes[i][k], 0, 4);
            }
        }
    }
    free(sum);
}

TEST(copies)
{
    enum { MAX = 300, SHIFTS = 65 };
    uint8_t src[MAX + SHIFTS], dst[MAX + 2 * SHIFTS];

    for (size_t i = 0; i < sizeof src; i++)
        src[i] = (uint8_t)(i * 7 % 251);
    FOR_EACH_ISA(isa) {
        void (*copy)(void *, const void *, size_t) = roofline_loops_of(isa)->copy;
        at.isa = isa;
        for (size_t shift = 0; copy && shift < SHIFTS; shift++) {
            for (size_t size = at.n = 0; size <= MAX; at.n = ++size) {
                const uint8_t *from = src + (shift * 3 % SHIFTS);
                memset(dst, 0xa5, sizeof dst);
                copy(dst + shift, from, size);
                require(same(dst + shift, from, size));
                require(all_bytes(dst, shift, 0xa5) && all_bytes(dst + shift + size, sizeof dst - shift - size, 0xa5));
            }
        }
    }
}

SETUP(print_isas)
