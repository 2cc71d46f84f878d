/* SPDX-License-Identifier: MIT
 *
 * The peers of tlc-bench decode what they encoded, and refuse too little room and wrong bytes. Naive 3LC sends what
 * libthreelc sends.
 */
#include "../../bench/peers/peers.h"
#include "../support/support.h"
#include <math.h>

static const size_t sizes[] = {0, 1, 2, 5, 7, 64, 65, 1000, 4099, 30000};
enum { STEPS = 6 };

typedef struct trip {
    const peer *peer;
    void *state;
    size_t n, cap, len;
    float *g, *before, *decoded;
    uint8_t *bytes;
} trip;

static void trip_open(trip *t, const peer *p, size_t n)
{
    *t = (trip){.peer = p, .n = n};
    require(p->bound(p, n, &t->cap));
    t->state = p->open(p, n, TLC_ISA_AUTO);
    require(t->state);
    t->g = floats(n);
    t->before = floats(n);
    t->decoded = floats(n);
    t->bytes = bytes(t->cap);
}

static void trip_close(trip *t)
{
    t->peer->close(t->state);
    free(t->g);
    free(t->before);
    free(t->decoded);
    free(t->bytes);
}

/* decoded against what was sent */
static void check_values(const trip *t)
{
    const float *residual = t->peer->feedback ? t->peer->residual(t->state) : NULL;

    for (size_t i = 0; i < t->n; i++) {
        double x = (double)t->g[i] + (residual ? (double)t->before[i] : 0), d = (double)t->decoded[i];
        if (t->peer->exact)
            require(float_bits(t->decoded[i]) == float_bits(t->g[i]));
        else if (residual)
            require(fabs(d + (double)residual[i] - x) <= (2 * fabs(x) + fabs(d)) * 0x1p-23);
        else /* half precision: 11 bits, subnormal below 2^-14 */
            require(fabs(d - x) <= fmax(fabs(x) * 0x1p-11, 0x1p-25));
    }
}

static void check_trips(const peer *p, size_t n, data_kind kind)
{
    trip t;

    trip_open(&t, p, n);
    for (uint64_t step = 0; step < STEPS; step++) {
        fill(kind, step, t.g, n);
        if (p->feedback && n)
            memcpy(t.before, p->residual(t.state), n * sizeof *t.before);
        require(p->compress(t.state, t.g, n, t.bytes, t.cap, &t.len));
        require(t.len <= t.cap);
        for (size_t i = 0; i < n; i++)
            t.decoded[i] = 7;
        require(p->decompress(t.state, t.bytes, t.len, t.decoded, n));
        check_values(&t);
    }
    trip_close(&t);
}

TEST(round_trips)
{
    size_t count;
    const peer *const *list = peers(&count);

    require(count > 0);
    for (size_t i = 0; i < count; i++) {
        require((list[i]->residual != NULL) == list[i]->feedback);
        for (size_t k = 0; k < COUNT(sizes); k++) {
            at = (place){.note = list[i]->name, .n = sizes[k]};
            check_trips(list[i], sizes[k], DATA_LAPLACE);
            check_trips(list[i], sizes[k], DATA_SPARSE);
            check_trips(list[i], sizes[k], DATA_ZERO);
        }
    }
}

/* The loops with and without AVX-512 give the same bytes, and so do the stages of libthreelc. */
TEST(same_on_every_isa)
{
    enum { N = 1003 };
    float g[N];
    size_t count;
    const peer *const *list = peers(&count);

    fill(DATA_LAPLACE, 1, g, N);
    for (size_t i = 0; i < count; i++) {
        trip first;
        trip_open(&first, list[i], N);
        require(list[i]->compress(first.state, g, N, first.bytes, first.cap, &first.len));
        FOR_EACH_ISA(isa) {
            at = (place){.note = list[i]->name, .n = N, .isa = isa};
            uint8_t *other = bytes(first.cap);
            size_t len;
            void *peer_state = list[i]->open(list[i], N, isa);
            require(peer_state);
            require(list[i]->compress(peer_state, g, N, other, first.cap, &len));
            require(len == first.len && same(other, first.bytes, len));
            require(list[i]->decompress(peer_state, other, len, first.decoded, N));
            list[i]->close(peer_state);
            free(other);
        }
        trip_close(&first);
    }
}

/* Too little room, and bytes that do not hold n values. */
TEST(refusals)
{
    enum { N = 1000 };
    size_t count, len;
    const peer *const *list = peers(&count);

    for (size_t i = 0; i < count; i++) {
        trip t;
        at = (place){.note = list[i]->name, .n = N};
        trip_open(&t, list[i], N);
        fill(DATA_DENSE, 1, t.g, N);
        require(!list[i]->compress(t.state, t.g, N, t.bytes, 3, &len));
        require(!list[i]->exact || !list[i]->bound(list[i], SIZE_MAX, &len));
        trip_close(&t);
        trip_open(&t, list[i], N);
        fill(DATA_DENSE, 1, t.g, N);
        require(list[i]->compress(t.state, t.g, N, t.bytes, t.cap, &t.len));
        for (size_t cut = 0; cut < t.len; cut += t.len / 5 + 1)
            require(!list[i]->decompress(t.state, t.bytes, cut, t.decoded, N));
        require(list[i]->decompress(t.state, t.bytes, t.len, t.decoded, N));
        trip_close(&t);
    }
}

/* Naive 3LC sends M, in the byte order of the machine, and the payload. libthreelc's frame ends in the same M and
 * payload. */
static int same_message(const uint8_t *frame, size_t frame_len, const uint8_t *naive, size_t len)
{
    const uint8_t *end = frame + frame_len - len;
    uint32_t M;

    memcpy(&M, naive, sizeof M);
    return M == ((uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24) &&
           same(end + sizeof M, naive + sizeof M, len - sizeof M);
}

static void check_naive(const trace *run)
{
    size_t cols = run->cols;
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, cols);
    uint8_t *frame = bytes(tlc_bound(ctx));
    trip t;

    at = (place){.codec = "3lc", .note = run->name, .n = cols};
    trip_open(&t, &peer_naive, cols);
    memcpy(tlc_residual(ctx), run->residual, cols * sizeof(float));
    memcpy(t.peer->residual(t.state), run->residual, cols * sizeof(float));
    for (size_t row = 0; row < run->rows; row++) {
        const float *g = run->values + row * cols;
        size_t len = compress(ctx, g, frame);
        at.i = row;
        require(t.peer->compress(t.state, g, cols, t.bytes, t.cap, &t.len));
        require(t.len < len && same_message(frame, len, t.bytes, t.len));
        require(same(tlc_residual(ctx), t.peer->residual(t.state), cols * sizeof(float)));
    }
    trip_close(&t);
    tlc_destroy(ctx);
    free(frame);
}

TEST(naive_is_3lc)
{
    for (size_t k = 1; k < COUNT(sizes); k++) {
        float *values = floats(51 * sizes[k]);
        trace drawn = {.name = "laplace",
                       .rows = 50,
                       .cols = sizes[k],
                       .values = values,
                       .residual = values + 50 * sizes[k]};
        fill(DATA_LAPLACE, 1, values, 51 * sizes[k]);
        check_naive(&drawn);
        drawn.name = "sparse";
        fill(DATA_SPARSE, 1, values, 51 * sizes[k]);
        check_naive(&drawn);
        free(values);
    }
    require(each_trace(check_naive) > 0);
}
