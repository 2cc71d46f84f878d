/* SPDX-License-Identifier: MIT
 *
 * P2: no function reads or writes outside its arguments, for any bytes. A fork in the middle of a call leaves two good
 * processes. (scripts/symbols.sh tests that the library has no abort, printf or globals.)
 */
#include "hostile.h"
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- buffers of exactly the sizes that the contract names -------------------------------------------------------- */

typedef struct guarded {
    arena grad, residual, frame, bound, out, state;
} guarded;

static void guarded_open(guarded *g, size_t n)
{
    arena_open(&g->grad, 4 * n);
    arena_open(&g->residual, 4 * n);
    arena_open(&g->frame, 16 * n + 64);
    arena_open(&g->bound, 16 * n + 64);
    arena_open(&g->out, 4 * n);
    arena_open(&g->state, 4 * n + 256);
}

static void guarded_close(guarded *g)
{
    arena_close(&g->grad);
    arena_close(&g->residual);
    arena_close(&g->frame);
    arena_close(&g->bound);
    arena_close(&g->out);
    arena_close(&g->state);
}

static void decode_guarded(guarded *g, const uint8_t *src, size_t len, size_t n, int end)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = at.isa};
    const codec_case *c = codecs;
    tlc_frame_info info = {.struct_size = sizeof info};

    while (strcmp(c->text, at.codec) != 0)
        c++;
    FOR_EACH_DTYPE(dtype) {
        uint8_t *out = arena_take(&g->out, n * dtype_size[dtype], end);
        require_status(tlc_decompress(src, len, dtype, out, n, &opt), TLC_OK);
        require(arena_intact(&g->out));
    }
    float *sum = (float *)(void *)arena_take(&g->out, 4 * n, end);
    memset(sum, 0, 4 * n);
    require_status(tlc_decompress_add(src, len, 2.0f, sum, n, &opt), TLC_OK);
    require_status(tlc_mask(src, len, sum, n, &opt), c->has_zero ? TLC_OK : TLC_ERR_UNSUPPORTED);
    require(arena_intact(&g->out));
    require_status(tlc_inspect(src, len, &info), TLC_OK);
    require(!strcmp(info.codec, c->decoding));
}

static void two_steps(guarded *g, tlc_config *cfg, size_t n, int end)
{
    size_t written = 0;
    tlc_ctx *ctx;

    cfg->residual = cfg->feedback ? (float *)(void *)arena_take(&g->residual, 4 * n, end) : NULL;
    if (cfg->residual)
        memset(cfg->residual, 0, 4 * n);
    ctx = create(cfg, n);
    for (size_t step = 0; step < 2; step++) {
        uint8_t *grad = arena_take(&g->grad, n * dtype_size[cfg->dtype], end);
        fill_grad((data_kind)((n + step) % DATA_COUNT), n, cfg->dtype, grad, n);
        arena_readonly(&g->grad, 1);
        uint8_t *dst = arena_take(&g->bound, tlc_bound(ctx), end);
        written = compress(ctx, grad, dst);
        if (cfg->feedback)
            require_status(tlc_accumulate(ctx, grad), TLC_OK);
        arena_readonly(&g->grad, 0);
        require(arena_intact(&g->grad) && arena_intact(&g->bound));
        decode_guarded(g, arena_copy(&g->frame, dst, written, !end), written, n, end);
    }
    uint8_t *state = arena_take(&g->state, tlc_state_size(ctx), end);
    require_status(tlc_state_save(ctx, state, tlc_state_size(ctx), &written), TLC_OK);
    require_status(tlc_state_load(ctx, state, written), TLC_OK);
    if (cfg->feedback) {
        require_status(tlc_residual_scale(ctx, 0.5f), TLC_OK);
        require(arena_intact(&g->residual));
    }
    require(arena_intact(&g->state));
    tlc_destroy(ctx);
}

static void p2_buffers_at_guard_pages(void **state)
{
    size_t most = quick() ? 70 : 330, step = quick() ? 4 : 1; /* no multiple of 3, for the dtypes */
    guarded g;

    (void)state;
    guarded_open(&g, 5000);
    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa)
            for (size_t n = 1; n <= 5000; n += n < most ? step : 1117) {
                tlc_config cfg = config(c->text, dtypes[n % 3], isa);
                cfg.feedback = n / 3 % 2;
                cfg.checksum = n / 6 % 2;
                at = (place){.codec = c->text, .dtype = cfg.dtype, .isa = isa, .n = n};
                two_steps(&g, &cfg, n, 0);
                two_steps(&g, &cfg, n, 1);
            }
    guarded_close(&g);
}

/* ---- any bytes --------------------------------------------------------------------------------------------------- */

/* Headers: values, coding, number of scalars; and bytes that are frequent in the payload. */
typedef struct form {
    uint8_t values, coding;
    unsigned scalars;
    uint8_t likes[5];
} form;

static const form forms[] = {
    {1, 0, 0, {0, 121, 242, 243, 255}},    {2, 0x01, 1, {0, 121, 242, 40, 200}}, {2, 0x11, 1, {0, 121, 242, 243, 255}},
    {2, 0x02, 1, {0, 1, 2, 3, 128}},       {3, 0x02, 1, {0, 1, 2, 3, 128}},      {4, 0, 0, {0, 0x40, 50, 60, 0xb2}},
    {4, 0x83, 0, {0, 0x40, 127, 200, 20}}, {5, 0, 1, {0, 127, 129, 255, 1}},     {6, 0, 1, {0, 127, 129, 255, 1}},
    {6, 1, 1, {0x00, 0x77, 0x99, 1, 2}},   {7, 0, 2, {0, 1, 255, 85, 3}},        {8, 0, 0, {0, 0, 1, 0x3f, 0x80}},
    {9, 0, 0, {0, 1, 0x40, 0x80, 0x3f}},   {2, 0x12, 1, {0, 121, 242, 40, 200}}, {3, 0x01, 1, {0, 121, 242, 40, 200}},
    {3, 0x12, 1, {0, 1, 2, 3, 128}},       {10, 0, 0, {0, 1, 2, 3, 4}},          {0, 0, 0, {0, 1, 2, 3, 4}},
    {4, 0x76, 0, {0, 0x40, 50, 60, 0xb2}}, {6, 2, 1, {0, 1, 2, 3, 4}},           {5, 1, 1, {0, 1, 2, 3, 4}},
    {2, 0x22, 1, {0, 1, 2, 3, 128}},       {2, 0, 1, {0, 1, 2, 3, 128}},         {2, 0x10, 1, {0, 121, 242, 40, 200}},
};
enum { KNOWN_FORMS = 14 }; /* the rest is UNSUPPORTED */

/* Writes a Golomb stream, mostly a valid one, and perhaps bytes behind it. Returns its length. */
static size_t plausible_golomb(rng *r, const form *f, size_t n, uint8_t *dst)
{
    size_t k = rng_below(r, n < 6 ? n + 1 : 6), b = rng_below(r, 4), bit = 16, index = 0, len;

    memset(dst, 0, 2 * n + 32);
    dst[0] = (uint8_t)k;
    dst[1] = (uint8_t)b;
    for (size_t left = k; left; left--) {
        size_t skip = rng_below(r, n - index - left + 1);
        index += skip + 1;
        for (size_t q = skip >> b; q; q--, bit++)
            dst[bit / 8] |= (uint8_t)(0x80u >> bit % 8);
        bit++;
        for (size_t i = b; i-- > 0; bit++)
            dst[bit / 8] |= (uint8_t)((skip >> i & 1) << (7 - bit % 8));
        bit += f->values == 2;
    }
    len = (bit + 7) / 8;
    if (rng_below(r, 4) == 0)
        dst[rng_below(r, len)] ^= (uint8_t)(1u << rng_below(r, 8));
    for (size_t i = 0; f->values == 9 && i < 4 * k; i++)
        /* cppcheck-suppress knownConditionTrueFalse ; it is true where the random number was 0 */
        dst[len++] = i % 4 == 3 && rng_below(r, 16) ? 0x3f : i % 4 == 3 ? 0x7f : 0x80 | f->likes[rng_below(r, 5)];
    return len;
}

/* Writes a payload of a unit, mostly of the right length and of bytes that are frequent there. Returns its length. */
static size_t plausible_payload(rng *r, const form *f, size_t n, uint8_t *dst)
{
    const size_t L = (n + 4) / 5, bits = (n + 7) / 8, some = rng_below(r, n / 5 + 1), few = rng_below(r, 9);
    const size_t exact[] = {4 * n, L, some,        2 + some, 2 + few,             n + 4,         n + 4 + bits,
                            n,     n, (n + 1) / 2, bits,     bits + few / 3 * 4, 3 + few / 3 * 4, L};
    size_t i = (size_t)(f - forms), len = i < KNOWN_FORMS && rng_below(r, 8) ? exact[i] : rng_below(r, n + 9);
    size_t pure = rng_below(r, 3);

    if (i < KNOWN_FORMS && (f->coding == 2 || f->values == 9) && rng_below(r, 2))
        return plausible_golomb(r, f, n, dst);
    for (size_t j = 0; j < len; j++)
        dst[j] = pure || rng_below(r, 3) ? f->likes[rng_below(r, pure == 2 ? 2 : 5)] : (uint8_t)rng_next(r);
    if ((f->values == 4 || f->values == 9) && len >= 4 && rng_below(r, 4))
        memset(dst + 1, 0, 3); /* a small count of clipped values, or b = 0 */
    return len;
}

/* Writes the scalars and, in a block table, the length. */
static size_t plausible_entry(rng *r, const form *f, uint8_t *dst)
{
    static const uint32_t usual[] = {0x3f800000u, 0, 0x00000001u, 0x7f7fffffu};

    for (size_t s = 0; s < f->scalars; s++) {
        uint32_t bits = rng_below(r, 8) ? usual[rng_below(r, COUNT(usual))] : (uint32_t)rng_next(r);
        for (size_t k = 0; k < 4; k++)
            dst[4 * s + k] = (uint8_t)(bits >> 8 * k);
    }
    return 4 * f->scalars;
}

/* Makes a frame that mostly passes the check of its header: known ids and the right n < 128, then anything. It needs
 * room for 24 bytes a value. */
static size_t plausible_frame(rng *r, uint8_t *src, size_t n, const form *f)
{
    int blocked = rng_below(r, 3) == 0;
    size_t block = blocked ? 1 + rng_below(r, 40) : n, blocks = n ? (n + block - 1) / block : 0, i = 5, to;

    src[0] = TLC_FRAME_VERSION;
    src[1] = (uint8_t)(rng_below(r, 3) | (blocked ? 8u : 0u));
    src[2] = f->values;
    src[3] = blocked && f->coding == 0x12 ? 0x02 : f->coding; /* in blocked frames the table tells the form */
    src[4] = (uint8_t)n;
    if (blocked)
        src[i++] = (uint8_t)block;
    to = i + (blocked ? blocks * (4 * f->scalars + 4) : n ? 4 * f->scalars : 0);
    for (size_t b = 0; b < blocks; b++) {
        size_t len = plausible_payload(r, f, n - b * block < block ? n - b * block : block, src + to);
        i += plausible_entry(r, f, src + i);
        if (blocked) {
            memset(src + i, 0, 4);
            src[i] = (uint8_t)len;
            src[i + 1] = (uint8_t)(len >> 8);
            src[i + 3] = rng_below(r, 8) == 0 || f->coding == 0x12 ? 0x80 : 0; /* the second form */
            i += 4;
        }
        to += len;
    }
    return rng_below(r, 16) ? to : rng_below(r, to + 4);
}

static void p2_random_bytes(void **state)
{
    size_t count = quick() ? 8000 : 40000, accepted[COUNT(forms)] = {0};
    uint8_t src[24 * 128] = {0};
    rng r = {1};
    hostile h;

    (void)state;
    hostile_open(&h, sizeof src, 128);
    for (at = (place){.note = "random bytes"}; at.i < count; at.i++) {
        size_t n = rng_below(&r, rng_below(&r, 2) ? 128 : 9), len, kind = rng_below(&r, COUNT(forms));
        if (at.i % 4)
            len = plausible_frame(&r, src, n, &forms[kind]);
        else {
            len = rng_below(&r, 160);
            for (size_t j = 0; j < len; j++)
                src[j] = (uint8_t)rng_next(&r);
        }
        tlc_status first = TLC_OK;
        FOR_EACH_ISA(isa) {
            at.isa = isa;
            tlc_status status = hostile_decode(&h, src, len, n, isa);
            require(isa == TLC_ISA_SCALAR || status == first);
            first = status;
        }
        accepted[kind] += at.i % 4 && n && first == TLC_OK;
    }
    for (at.i = 0; at.i < COUNT(forms); at.i++) /* otherwise too few frames reached the decoders */
        require(at.i < KNOWN_FORMS ? accepted[at.i] > count / 8000 : !accepted[at.i]);
    hostile_close(&h);
}

/* Real frames with a few bytes changed, cut out or put in. */
static size_t mutate(rng *r, uint8_t *src, size_t len, size_t room)
{
    for (size_t edits = 1 + rng_below(r, 3); edits--;) {
        size_t i = rng_below(r, len), count = 1 + rng_below(r, 4);
        size_t kind = rng_below(r, 4);
        if (kind == 0 && i + count < len) {
            memmove(src + i, src + i + count, len - i - count);
            len -= count;
        } else if (kind == 1 && len + count <= room) {
            memmove(src + i + count, src + i, len - i);
            len += count;
        } else if (kind == 2)
            src[i] = (uint8_t)rng_next(r);
        else
            src[i] = (uint8_t)(243 + rng_below(r, 13));
    }
    return len;
}

static void p2_mutated_frames(void **state)
{
    size_t count = quick() ? 100 : 1000, n = 619;
    uint8_t *grad = bytes(4 * n), *frame = bytes(32 * n), *src = bytes(32 * n + 64);
    rng r = {2};
    hostile h;

    (void)state;
    hostile_open(&h, 32 * n + 64, n);
    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa) {
            tlc_config cfg = config(c->text, dtypes[isa % 3], isa);
            tlc_ctx *ctx = create(&cfg, n);
            at = (place){.codec = c->text, .dtype = cfg.dtype, .isa = isa, .n = n};
            fill_grad(DATA_SPARSE, (uint64_t)isa, cfg.dtype, grad, n);
            size_t len = compress(ctx, grad, frame);
            tlc_destroy(ctx);
            for (at.i = 0; at.i < count; at.i++) {
                memcpy(src, frame, len);
                size_t changed = mutate(&r, src, len, len + 64);
                (void)hostile_decode(&h, src, changed, n, isa);
            }
        }
    hostile_close(&h);
    free(grad);
    free(frame);
    free(src);
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

/* Three more steps and all they give, into log; returns its length, or 0 for a failure. */
static size_t go_on(tlc_ctx *ctx, size_t n, uint8_t *grad, uint8_t *log)
{
    size_t end = 0, written = 0;

    for (uint64_t step = 2; step < 5; step++) {
        fill_grad(DATA_LAPLACE, step, TLC_F16, grad, n);
        if (tlc_compress(ctx, grad, log + end, tlc_bound(ctx), &written))
            return 0;
        end += written;
        if (tlc_decompress(log + end - written, written, TLC_F32, log + end, n, NULL))
            return 0;
        end += 4 * n;
    }
    if (tlc_state_save(ctx, log + end, tlc_state_size(ctx), &written))
        return 0;
    return end + written;
}

static void send_all(int to, const uint8_t *p, size_t len)
{
    while (len) {
        ssize_t done = write(to, p, len);
        if (done < 0 && errno != EINTR)
            _exit(3);
        p += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
}

static size_t receive_all(int from, uint8_t *p, size_t room)
{
    size_t len = 0;

    for (ssize_t got; len < room && (got = read(from, p + len, room - len)) != 0;)
        if (got > 0)
            len += (size_t)got;
        else if (errno != EINTR)
            break;
    return len;
}

static void p2_fork_in_mid_use(void **state)
{
    size_t n = 3001, room = 3 * (16 * n + 64 + 4 * n) + 4 * n + 256;
    uint8_t *grad = bytes(2 * n), *log = bytes(room), *theirs = bytes(room);

    (void)state;
    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F16, TLC_ISA_AUTO);
        tlc_ctx *ctx = create(&cfg, n);
        int pipes[2], status = 0;

        at = (place){.codec = c->text, .dtype = TLC_F16, .n = n};
        fill_grad(DATA_LAPLACE, 1, TLC_F16, grad, n);
        compress(ctx, grad, log);
        require(pipe(pipes) == 0);
        pid_t child = fork();
        require(child >= 0);
        if (!child) {
            send_all(pipes[1], log, go_on(ctx, n, grad, log));
            tlc_destroy(ctx); /* leak checkers check the child, too */
            free(grad);
            free(log);
            free(theirs);
            _exit(0);
        }
        close(pipes[1]);
        size_t ours = go_on(ctx, n, grad, log);
        size_t got = receive_all(pipes[0], theirs, room);
        require(waitpid(child, &status, 0) == child && status == 0);
        require(ours > 0 && got == ours && same(log, theirs, ours));
        close(pipes[0]);
        tlc_destroy(ctx);
    }
    free(grad);
    free(log);
    free(theirs);
}

/* Forks once, when half of the tasks are done; both processes do the rest. */
typedef struct forking {
    pid_t child; /* -1: not forked yet; 0: this process is the child */
} forking;

static void run_and_fork(void *opaque, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    forking *f = opaque;

    for (size_t i = 0; i < count; i++) {
        if (i == count / 2 && f->child < 0)
            f->child = fork();
        task(arg, i);
    }
}

/* A step whose compression or decoding forks, and then some more; returns the log's length, or 0 for a failure. */
static size_t fork_within(tlc_ctx *ctx, forking *armed, forking *f, int decode, size_t n, uint8_t *grad, uint8_t *log)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .parallel = {run_and_fork, armed}};
    size_t len = 0;

    f->child = armed->child = 1; /* no fork */
    (decode ? armed : f)->child = -1;
    if (tlc_compress(ctx, grad, log, tlc_bound(ctx), &len) ||
        tlc_decompress(log, len, TLC_F32, log + len, n, &opt))
        return 0;
    len += 4 * n;
    size_t more = go_on(ctx, n, grad, log + len);
    return more ? len + more : 0;
}

static void fork_among_tasks(const codec_case *c, int decode, size_t n, uint8_t *grad, uint8_t *log, uint8_t *theirs,
                             size_t room)
{
    forking f = {1}, armed = {1};
    tlc_config cfg = config(c->text, TLC_F16, TLC_ISA_AUTO);
    int pipes[2], status = 0;

    at = (place){.codec = c->text, .dtype = TLC_F16, .n = n, .note = decode ? "in tlc_decompress" : "in tlc_compress"};
    cfg.parallel = (tlc_parallel){run_and_fork, &f};
    tlc_ctx *ctx = create(&cfg, n);
    fill_grad(DATA_SPARSE, 1, TLC_F16, grad, n);
    require(pipe(pipes) == 0);
    size_t ours = fork_within(ctx, &armed, &f, decode, n, grad, log);
    pid_t child = decode ? armed.child : f.child;
    tlc_destroy(ctx);
    if (!child) {
        send_all(pipes[1], log, ours);
        free(grad);
        free(log);
        free(theirs);
        _exit(0);
    }
    close(pipes[1]);
    require(child > 0 || (decode && child < 0)); /* some codecs decode in one task */
    if (child > 0) {
        size_t got = receive_all(pipes[0], theirs, room);
        require(waitpid(child, &status, 0) == child && status == 0);
        require(ours > 0 && got == ours && same(log, theirs, ours));
    }
    close(pipes[0]);
}

static void p2_fork_among_tasks(void **state)
{
    size_t n = (size_t)16384 * 8 * 2 + 13, room = 4 * (16 * n + 64 + 4 * n) + 4 * n + 256;
    uint8_t *grad = bytes(2 * n), *log = bytes(room), *theirs = bytes(room);

    (void)state;
    for (size_t i = 0; i < codec_count; i += quick() ? 5 : 1) {
        fork_among_tasks(&codecs[i], 0, n, grad, log, theirs, room);
        fork_among_tasks(&codecs[i], 1, n, grad, log, theirs, room);
    }
    free(grad);
    free(log);
    free(theirs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p2_buffers_at_guard_pages),
        cmocka_unit_test(p2_random_bytes),
        cmocka_unit_test(p2_mutated_frames),
        cmocka_unit_test(p2_fork_in_mid_use),
        cmocka_unit_test(p2_fork_among_tasks),
    };
    print_isas();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
