/* SPDX-License-Identifier: MIT
 *
 * P7: frames, decoded values, sums, residuals and states are bit-identical on every ISA, for every tlc_parallel and in
 * every float mode of the caller, who finds it as it was. (Other compilers and byte orders: the golden vectors.)
 */
#include "float_modes.h"
#include "support.h"

/* ---- a run and all that it gives --------------------------------------------------------------------------------- */

/* How a run is made; none of it may show in what it gives. */
typedef struct way {
    tlc_isa isa;
    const runner *runner;
    float_mode mode;
} way;

typedef struct entry {
    const char *what;
    size_t start;
} entry;

typedef struct journal {
    uint8_t *bytes;
    size_t len, room, count;
    entry entries[128];
} journal;

static uint8_t *note(journal *j, const char *what, size_t size)
{
    uint8_t *p = j->bytes + j->len;

    require(j->room - j->len >= size && j->count < COUNT(j->entries));
    j->entries[j->count++] = (entry){what, j->len};
    memset(p, 0xa5, size);
    j->len += size;
    return p;
}

static void require_same_journal(const journal *a, const journal *b)
{
    for (size_t e = 0; e < b->count; e++) {
        size_t start = b->entries[e].start, end = e + 1 < b->count ? b->entries[e + 1].start : b->len;
        if (e < a->count && end <= a->len && same(a->bytes + start, b->bytes + start, end - start))
            continue;
        print_error("%s differs\n", b->entries[e].what);
        require_failed("bit-identical", __FILE__, __LINE__);
    }
    require(a->len == b->len && a->count == b->count);
}

static uint64_t mode_before, mode_after;

/* A call in the float mode of the way, which it must leave in force. */
#define IN_MODE(way, call)                                                                                              \
    do {                                                                                                                \
        tlc_status status_;                                                                                             \
        if (!mode_enter((way)->mode))                                                                                   \
            fail_msg("no %s here", mode_name[(way)->mode]);                                                             \
        mode_before = mode_read();                                                                                      \
        status_ = call;                                                                                                 \
        mode_after = mode_read();                                                                                       \
        mode_leave();                                                                                                   \
        require_status_is(#call, status_, TLC_OK, __FILE__, __LINE__);                                                  \
        require(mode_before == mode_after);                                                                             \
    } while (0)

/* What a run is of: the matter, and from it the data, made once for all ways. */
typedef struct input {
    const char *codec;
    tlc_dtype dtype;
    size_t n, steps;
    int feedback, assume_finite;
    data_kind kind;
    uint8_t *grad; /* steps rows */
    float *sum;    /* to which decoded values are added */
} input;

static void input_open(input *in)
{
    size_t size = in->n * dtype_size[in->dtype];

    in->grad = bytes(in->steps * size);
    in->sum = floats(in->n);
    for (uint64_t step = 0; step < in->steps; step++)
        fill_grad(in->kind, step, in->dtype, in->grad + step * size, in->n);
    fill(DATA_LAPLACE, 99, in->sum, in->n);
}

static void input_close(input *in)
{
    free(in->grad);
    free(in->sum);
}

static void decode(const input *in, const way *w, journal *j, const uint8_t *frame, size_t len)
{
    const size_t n = in->n;
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = w->isa, .parallel = w->runner->parallel};
    tlc_frame_info info;
    float *sum = floats(n);

    uint8_t *out = note(j, "decoded", n * dtype_size[in->dtype]);
    IN_MODE(w, tlc_decompress(frame, len, in->dtype, out, n, &opt));
    memcpy(sum, in->sum, 4 * n);
    IN_MODE(w, tlc_decompress_add(frame, len, 0.3f, sum, n, &opt));
    memcpy(note(j, "sum", 4 * n), sum, 4 * n);
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    IN_MODE(w, tlc_inspect(frame, len, &info));
    const uint64_t numbers[] = {info.version, (uint64_t)info.dtype, info.n, info.block, info.nonzero, info.header_size,
                                info.payload_size};
    memcpy(note(j, "info", sizeof numbers), numbers, sizeof numbers);
    if (strncmp(info.codec, "raw", 3) != 0) {
        IN_MODE(w, tlc_mask(frame, len, sum, n, &opt));
        memcpy(note(j, "masked", 4 * n), sum, 4 * n);
    }
    free(sum);
}

static tlc_status make(tlc_ctx **ctx, const input *in, const way *w)
{
    tlc_config cfg;
    tlc_status status = tlc_config_init(&cfg, sizeof cfg);

    cfg.codec = in->codec;
    cfg.dtype = in->dtype;
    cfg.feedback = in->feedback;
    cfg.assume_finite = in->assume_finite;
    cfg.isa = w->isa;
    cfg.checksum = 1;
    cfg.parallel = w->runner->parallel;
    return status ? status : tlc_create(ctx, &cfg, in->n);
}

static void run(const input *in, const way *w, journal *j, uint8_t *frame)
{
    const uint8_t *grad = in->grad;
    tlc_ctx *ctx = NULL;
    size_t len = 0;

    j->len = j->count = 0;
    at = (place){.codec = in->codec, .dtype = in->dtype, .isa = w->isa, .n = in->n,
                 .note = w->mode ? mode_name[w->mode] : w->runner->name};
    IN_MODE(w, make(&ctx, in, w));
    for (size_t step = 0; step < in->steps; step++, grad += in->n * dtype_size[in->dtype]) {
        at.i = step;
        if (in->feedback && step) {
            IN_MODE(w, tlc_residual_scale(ctx, 0.7f));
            IN_MODE(w, tlc_accumulate(ctx, grad));
        }
        IN_MODE(w, tlc_compress(ctx, grad, frame, tlc_bound(ctx), &len));
        memcpy(note(j, "frame", len), frame, len);
        decode(in, w, j, frame, len);
    }
    size_t size = tlc_state_size(ctx);
    uint8_t *state = note(j, "state", size);
    IN_MODE(w, tlc_state_save(ctx, state, size, &len));
    IN_MODE(w, tlc_state_load(ctx, state, size));
    tlc_destroy(ctx);
}

typedef struct bench {
    journal want, got;
    uint8_t *frame;
} bench;

static bench bench_open(size_t n, size_t steps)
{
    size_t room = steps * (9 * n + 9 * n + 4 * n + 1024) + 4 * n + 1024;
    return (bench){{.bytes = bytes(room), .room = room}, {.bytes = bytes(room), .room = room}, bytes(12 * n + 1024)};
}

static void bench_close(bench *b)
{
    free(b->want.bytes);
    free(b->got.bytes);
    free(b->frame);
}

static const way plain = {TLC_ISA_SCALAR, &runners[0], MODE_DEFAULT};

/* ---- ISAs -------------------------------------------------------------------------------------------------------- */

static void p7_isas(void **state)
{
    size_t most = quick() ? 200 : 2600, step = quick() ? 11 : 1;
    bench b = bench_open(4096, 3);

    (void)state;
    FOR_EACH_CODEC(c)
        for (size_t n = 0, turn = 0; n < most; n += n < 150 ? step : 179, turn++) {
            input in = {c->text, dtypes[turn % 3], n, 2, !c->exact || n % 2, n / 2 % 2, (data_kind)(turn % DATA_COUNT),
                        NULL, NULL};
            input_open(&in);
            run(&in, &plain, &b.want, b.frame);
            FOR_EACH_ISA(isa) {
                way w = {isa, &runners[0], MODE_DEFAULT};
                if (isa == plain.isa)
                    continue;
                run(&in, &w, &b.got, b.frame);
                require_same_journal(&b.got, &b.want);
            }
            input_close(&in);
        }
    bench_close(&b);
}

/* ---- tlc_parallel ------------------------------------------------------------------------------------------------ */

/* Every ISA has its turn. */
static tlc_isa pick_isa(size_t turn)
{
    tlc_isa isas[8];
    size_t count = 0;

    FOR_EACH_ISA(isa)
        isas[count++] = isa;
    return isas[turn % count];
}

static void p7_parallel(void **state)
{
    /* so many ranges of 16,384 quartic bytes; with four some have a neighbour on either side */
    size_t ranges = quick() ? 2 : 4, n = 16384 * 5 * ranges + 13, turn = 0;
    bench b = bench_open(n, 1);

    (void)state;
    FOR_EACH_CODEC(c)
        for (int kind = 0; kind < DATA_TINY; kind += quick() ? 2 : 1, turn++) {
            input in = {c->text, dtypes[turn % 3], n, 1, !c->exact || turn % 2, turn / 2 % 2, (data_kind)kind,
                        NULL, NULL};
            input_open(&in);
            run(&in, &plain, &b.want, b.frame);
            size_t last = quick() ? 1 : runner_count - 1;
            for (size_t r = 1; r <= last; r++) {
                way w = {pick_isa(turn + r), &runners[quick() ? 1 + turn % (runner_count - 1) : r], MODE_DEFAULT};
                most_tasks = 0;
                run(&in, &w, &b.got, b.frame);
                require(most_tasks >= ranges);
                require_same_journal(&b.got, &b.want);
            }
            input_close(&in);
        }
    bench_close(&b);
}

/* ---- float modes ------------------------------------------------------------------------------------------------- */

static void p7_float_modes(void **state)
{
    static const size_t sizes[] = {1, 18, 333, 1409};
    bench b = bench_open(2048, 3);
    size_t turn = 0;

    (void)state;
    for (float_mode mode = MODE_UPWARD; mode < MODE_COUNT; mode++) {
        int has = mode_enter(mode);
        mode_leave();
        if (!has) {
            print_message("# skipped: %s is not to be had here\n", mode_name[mode]);
            continue;
        }
        FOR_EACH_CODEC(c)
            for (size_t s = 0; s < COUNT(sizes); s++)
                for (int kind = 0; kind < DATA_COUNT; kind += quick() ? 2 : 1, turn++) {
                    input in = {c->text, dtypes[turn % 3], sizes[s], 2, !c->exact || turn % 2, turn % 2,
                                (data_kind)kind, NULL, NULL};
                    input_open(&in);
                    run(&in, &plain, &b.want, b.frame);
                    FOR_EACH_ISA(isa) {
                        way w = {isa, &runners[0], mode};
                        run(&in, &w, &b.got, b.frame);
                        require_same_journal(&b.got, &b.want);
                    }
                    input_close(&in);
                }
    }
    bench_close(&b);
}

/* The flags of exceptions that a trainer may test for are its own. */
static void p7_float_flags(void **state)
{
    enum { N = 333 };
    float g[N], out[N];

    (void)state;
    fill(DATA_LAPLACE, 3, g, N);
    FOR_EACH_ISA(isa) {
        tlc_config cfg = config("3lc:s=1.3", TLC_F32, isa);
        tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
        tlc_ctx *ctx = create(&cfg, N);
        uint8_t *frame = bytes(tlc_bound(ctx));

        at = (place){.codec = cfg.codec, .n = N, .isa = isa};
        for (int flags = 0; flags <= FE_DIVBYZERO; flags += FE_DIVBYZERO) {
            (void)feclearexcept(FE_ALL_EXCEPT);
            (void)feraiseexcept(flags);
            require_status(tlc_accumulate(ctx, g), TLC_OK);
            require(fetestexcept(FE_ALL_EXCEPT) == flags);
            size_t len = compress(ctx, g, frame);
            require(fetestexcept(FE_ALL_EXCEPT) == flags);
            require_status(tlc_decompress(frame, len, TLC_F16, out, N, &opt), TLC_OK);
            require_status(tlc_decompress(frame, len, TLC_F32, out, N, &opt), TLC_OK);
            require_status(tlc_decompress_add(frame, len, 0.1f, out, N, &opt), TLC_OK);
            require(fetestexcept(FE_ALL_EXCEPT) == flags);
        }
        (void)feclearexcept(FE_ALL_EXCEPT);
        tlc_destroy(ctx);
        free(frame);
    }
}

/* Tasks run on threads that inherit or have modes of their own. */
static void p7_float_modes_with_tasks(void **state)
{
    size_t n = quick() ? 16384 * 2 + 2 : 16384 * 5 * 2 + 2;
    bench b = bench_open(n, 2);

    (void)state;
    for (size_t c = 0; c < codec_count; c += quick() ? codec_count : 3)
        for (float_mode mode = MODE_UPWARD; mode < MODE_COUNT; mode++) {
            input in = {codecs[c].text, TLC_F32, n, 1, 1, 0, mode == MODE_FLUSH ? DATA_TINY : DATA_LAPLACE, NULL, NULL};
            way w = {TLC_ISA_AUTO, &runners[runner_count - 1], mode};
            int has = mode_enter(mode);
            mode_leave();
            if (!has || mode == MODE_TRAPS) /* making threads may use floats */
                continue;
            input_open(&in);
            run(&in, &plain, &b.want, b.frame);
            run(&in, &w, &b.got, b.frame);
            require_same_journal(&b.got, &b.want);
            input_close(&in);
        }
    bench_close(&b);
}

/* The plain functions of stages.h, and codec strings, which are numbers too. */
static void stages_in(const way *w, journal *j, const float *x, size_t n)
{
    int8_t *q = (int8_t *)bytes(n);
    float *residual = floats(n), M = 0, *out = floats(n);
    volatile float weight; /* computed here and now, not in the mode */
    size_t bound = 0;

    at.note = mode_name[w->mode];
    j->len = j->count = 0;
    IN_MODE(w, tlc_ternary_encode(x, n, 1.7f, q, residual, &M));
    memcpy(note(j, "q", n), q, n);
    memcpy(note(j, "residual", 4 * n), residual, 4 * n);
    memcpy(note(j, "M", 4), &M, 4);
    IN_MODE(w, tlc_ternary_decode(q, n, M, out));
    memcpy(note(j, "decoded", 4 * n), out, 4 * n);
    weight = 0.3f * M;
    IN_MODE(w, tlc_ternary_add(q, n, weight, residual));
    memcpy(note(j, "sum", 4 * n), residual, 4 * n);
    FOR_EACH_DTYPE(from)
        FOR_EACH_DTYPE(to) {
            IN_MODE(w, tlc_convert(x, from, out, to, n)); /* any bits are values of the 16-bit dtypes */
            memcpy(note(j, "converted", n * dtype_size[to]), out, n * dtype_size[to]);
        }
    IN_MODE(w, tlc_codec_bound("3lc:s=1.9999999,block=268435455", TLC_F32, n, &bound));
    IN_MODE(w, tlc_codec_bound("3lc:s=1.1234567890123456", TLC_F32, n, &bound));
    free(q);
    free(residual);
    free(out);
}

static void p7_float_modes_of_the_stages(void **state)
{
    size_t n = 1409;
    bench b = bench_open(2 * n, 3);
    float *x = floats(n);

    (void)state;
    at = (place){.n = n};
    for (int kind = 0; kind < DATA_COUNT; kind++)
        for (float_mode mode = MODE_UPWARD; mode < MODE_COUNT; mode++) {
            way w = {TLC_ISA_AUTO, &runners[0], mode};
            int has = mode_enter(mode);
            mode_leave();
            if (!has)
                continue;
            fill((data_kind)kind, 7, x, n);
            stages_in(&plain, &b.want, x, n);
            stages_in(&w, &b.got, x, n);
            require_same_journal(&b.got, &b.want);
        }
    free(x);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(p7_isas),
        cmocka_unit_test(p7_parallel),
        cmocka_unit_test(p7_float_modes),
        cmocka_unit_test(p7_float_flags),
        cmocka_unit_test(p7_float_modes_with_tasks),
        cmocka_unit_test(p7_float_modes_of_the_stages),
    };
    print_isas();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
