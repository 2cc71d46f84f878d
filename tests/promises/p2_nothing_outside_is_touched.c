/* SPDX-License-Identifier: MIT
 *
 * P2: no function reads or writes outside its arguments. A fork in the middle of a call leaves two good processes. (Any
 * bytes: p2_any_bytes_are_safe.c. scripts/symbols.sh tests that the library has no abort, printf or globals.)
 */
#include "../support/support.h"
#if !defined(_WIN32)
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

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
    const tlc_message frames[2] = {{src, len}, {src, len}};
    require_status(tlc_decompress_add_many(frames, NULL, 2, sum, n, NULL, &opt), TLC_OK);
    require(arena_intact(&g->out));
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

TEST(p2_buffers_at_guard_pages)
{
    size_t most = quick() ? 70 : 330, step = quick() ? 4 : 1; /* no multiple of 3, for the dtypes */
    guarded g;

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

#if !defined(_WIN32)
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

TEST(p2_fork_in_mid_use)
{
    size_t n = 3001, room = 3 * (16 * n + 64 + 4 * n) + 4 * n + 256;
    uint8_t *grad = bytes(2 * n), *log = bytes(room), *theirs = bytes(room);

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
    if (tlc_compress(ctx, grad, log, tlc_bound(ctx), &len) || tlc_decompress(log, len, TLC_F32, log + len, n, &opt))
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

TEST(p2_fork_among_tasks)
{
    size_t n = (size_t)16384 * 8 * 2 + 13, room = 4 * (16 * n + 64 + 4 * n) + 4 * n + 256;
    uint8_t *grad = bytes(2 * n), *log = bytes(room), *theirs = bytes(room);

    for (size_t i = 0; i < codec_count; i += quick() ? 5 : 1) {
        fork_among_tasks(&codecs[i], 0, n, grad, log, theirs, room);
        fork_among_tasks(&codecs[i], 1, n, grad, log, theirs, room);
    }
    free(grad);
    free(log);
    free(theirs);
}
#endif

SETUP(print_isas)
