/* SPDX-License-Identifier: MIT
 *
 * P4: different contexts are independent, and decoding is re-entrant. Threads work at the same time, each on contexts
 * of its own and all on the same frames. They must get the results of one thread.
 */
#include "../support/support.h"
#include <pthread.h>

enum { THREADS = 8, N = 7000, STEPS = 4, AGAIN = 6 };

/* A digest of all results of a thread (FNV-1a). Threads may not call cmocka. */
static uint64_t digest(uint64_t h, const void *p, size_t len)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < len; i++)
        h = (h ^ b[i]) * UINT64_C(0x100000001b3);
    return h;
}

typedef struct shared {
    pthread_barrier_t *start;
    const float *gradient; /* STEPS rows */
    const uint8_t *frame;  /* one that all decode */
    size_t frame_len;
} shared;

typedef struct job {
    pthread_t thread;
    const shared *shared;
    size_t number;
    uint64_t digest;
    int failed;
} job;

static int steps(job *j, tlc_ctx *ctx, float *out, uint8_t *dst, uint8_t *state)
{
    const shared *s = j->shared;
    size_t written = 0;

    for (size_t step = 0; step < STEPS; step++) {
        if (tlc_compress(ctx, s->gradient + step * N, dst, tlc_bound(ctx), &written))
            return 1;
        j->digest = digest(j->digest, dst, written);
        for (size_t again = 0; again < (quick() ? 1 : AGAIN); again++) { /* so that the threads run at the same time */
            if (tlc_decompress(s->frame, s->frame_len, TLC_F32, out, N, NULL) ||
                tlc_decompress_add(dst, written, 0.5f, out, N, NULL))
                return 1;
            j->digest = digest(j->digest, out, N * sizeof *out);
        }
        if (tlc_mask(s->frame, s->frame_len, out, N, NULL))
            return 1;
        j->digest = digest(j->digest, out, N * sizeof *out);
        tlc_frame_info info = {.struct_size = sizeof info};
        if (tlc_inspect(s->frame, s->frame_len, &info) || info.n != N)
            return 1;
    }
    if (tlc_state_save(ctx, state, tlc_state_size(ctx), &written))
        return 1;
    j->digest = digest(j->digest, state, written);
    return 0;
}

static int with_codec(job *j, const codec_case *c)
{
    tlc_config cfg;
    tlc_ctx *ctx = NULL;
    float *out = malloc(N * sizeof *out);
    uint8_t *dst, *state;
    int failed = 1;

    (void)tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = c->text;
    cfg.checksum = 1;
    if (!out || tlc_create(&ctx, &cfg, N)) {
        free(out);
        return 1;
    }
    dst = malloc(tlc_bound(ctx));
    state = malloc(tlc_state_size(ctx));
    if (dst && state)
        failed = steps(j, ctx, out, dst, state);
    tlc_destroy(ctx);
    free(out);
    free(dst);
    free(state);
    return failed;
}

/* All codecs. Each thread starts with another one. */
static void *work(void *arg)
{
    job *j = arg;

    if (j->shared->start)
        (void)pthread_barrier_wait(j->shared->start);
    j->digest = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < codec_count; i++)
        j->failed |= with_codec(j, &codecs[(j->number * codec_count / THREADS + i) % codec_count]);
    return NULL;
}

/* All threads use the library for the first time at once: that is when it asks the CPU. */
TEST(p4_threads)
{
    float *gradient = floats(STEPS * N);
    /* Written by hand, without a call of the library: M = 1, one byte with values, then 1,399 bytes of zeros. */
    uint8_t frame[6 + 4 + 1 + 100] = {TLC_FRAME_VERSION, 0, 2, 0x11, 0xd8, 0x36, 0, 0, 0x80, 0x3f, 200};
    pthread_barrier_t start;
    const shared s = {&start, gradient, frame, sizeof frame}, alone = {NULL, gradient, frame, sizeof frame};
    job many[THREADS], one;

    memset(frame + 11, 255, 99);
    frame[sizeof frame - 1] = 254;
    fill(DATA_LAPLACE, 1, gradient, STEPS * N);
    require(pthread_barrier_init(&start, NULL, THREADS) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        many[i] = (job){.shared = &s, .number = i};
        require(pthread_create(&many[i].thread, NULL, work, &many[i]) == 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        require(pthread_join(many[i].thread, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        at = (place){.n = N, .i = i};
        one = (job){.shared = &alone, .number = i};
        work(&one);
        require(!one.failed && !many[i].failed);
        require(one.digest == many[i].digest);
    }
    pthread_barrier_destroy(&start);
    free(gradient);
}

/* ---- all on the same frames -------------------------------------------------------------------------------------- */

typedef struct frames {
    uint8_t *frame[64];
    size_t len[64];
} frames;

typedef struct reader {
    pthread_t thread;
    pthread_barrier_t *start;
    const frames *frames;
    float *out;
    uint64_t digest;
    int failed;
} reader;

static void read_frame(reader *r, size_t i)
{
    const uint8_t *src = r->frames->frame[i];
    size_t len = r->frames->len[i];
    tlc_frame_info info = {.struct_size = sizeof info};

    FOR_EACH_DTYPE(dtype) {
        r->failed |= tlc_decompress(src, len, dtype, r->out, N, NULL) != TLC_OK;
        r->digest = digest(r->digest, r->out, N * dtype_size[dtype]);
    }
    memset(r->out, 0, N * sizeof *r->out);
    r->failed |= tlc_decompress_add(src, len, 0.5f, r->out, N, NULL) != TLC_OK;
    r->digest = digest(r->digest, r->out, N * sizeof *r->out);
    r->failed |= tlc_inspect(src, len, &info) != TLC_OK || info.n != N;
    r->digest = digest(r->digest, &info.nonzero, sizeof info.nonzero);
    r->failed |= tlc_mask(src, len, r->out, N, NULL) != (codecs[i].has_zero ? TLC_OK : TLC_ERR_UNSUPPORTED);
    r->digest = digest(r->digest, r->out, N * sizeof *r->out);
}

static void *read_frames(void *arg)
{
    reader *r = arg;

    r->digest = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < codec_count; i++) {
        if (r->start)
            (void)pthread_barrier_wait(r->start); /* all come to each frame at the same time */
        for (size_t again = 0; again < AGAIN; again++)
            read_frame(r, i);
    }
    return NULL;
}

TEST(p4_same_frames)
{
    float *gradient = floats(N), *out = floats(N * (THREADS + 1));
    pthread_barrier_t start;
    reader readers[THREADS], one;
    frames f;

    require(codec_count <= COUNT(f.frame) && pthread_barrier_init(&start, NULL, THREADS) == 0);
    fill(DATA_SPARSE, 2, gradient, N);
    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        tlc_ctx *ctx = create(&cfg, N);
        f.frame[c - codecs] = bytes(tlc_bound(ctx));
        f.len[c - codecs] = compress(ctx, gradient, f.frame[c - codecs]);
        tlc_destroy(ctx);
    }
    one = (reader){.frames = &f, .out = out + THREADS * N};
    (void)read_frames(&one);
    for (size_t i = 0; i < THREADS; i++) {
        readers[i] = (reader){.start = &start, .frames = &f, .out = out + i * N};
        require(pthread_create(&readers[i].thread, NULL, read_frames, &readers[i]) == 0);
    }
    for (size_t i = 0; i < THREADS; i++)
        require(pthread_join(readers[i].thread, NULL) == 0);
    for (size_t i = 0; i < THREADS; i++)
        require(!one.failed && !readers[i].failed && readers[i].digest == one.digest);
    for (size_t i = 0; i < codec_count; i++)
        free(f.frame[i]);
    pthread_barrier_destroy(&start);
    free(gradient);
    free(out);
}
