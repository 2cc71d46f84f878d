/* SPDX-License-Identifier: MIT
 *
 * P7: frames, decoded values, sums, residuals and states are bit-identical on every ISA, for every tlc_parallel and in
 * every float mode of the caller. A call leaves the float mode as it was. (Other compilers and byte orders: the golden
 * vectors.)
 */
#include "float_modes.h"
#include "support.h"

/* ---- a run and all that it gives --------------------------------------------------------------------------------- */

/* How a run is made. The results may not depend on it. */
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

/* A call in the float mode of the way. The call must not change the mode. */
#define IN_MODE(way, call)                                                                                             \
    do {                                                                                                               \
        tlc_status status_;                                                                                            \
        if (!mode_enter((way)->mode))                                                                                  \
            fail_msg("no %s here", mode_name[(way)->mode]);                                                            \
        mode_before = mode_read();                                                                                     \
        status_ = call;                                                                                                \
        mode_after = mode_read();                                                                                      \
        mode_leave();                                                                                                  \
        require_status_is(#call, status_, TLC_OK, __FILE__, __LINE__);                                                 \
        require(mode_before == mode_after);                                                                            \
    } while (0)

/* What a run compresses. The data are made once for all ways. */
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
    const tlc_message frames[3] = {{frame, len}, {frame, len}, {frame, len}};
    const float weights[3] = {-0.7f, 1e-30f, 3.0f};
    IN_MODE(w, tlc_decompress_add_many(frames, weights, 3, sum, n, NULL, &opt));
    memcpy(note(j, "sum", 4 * n), sum, 4 * n);
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    IN_MODE(w, tlc_inspect(frame, len, &info));
    const uint64_t numbers[] = {info.version,     (uint64_t)info.dtype, info.n,      info.block, info.nonzero,
                                info.header_size, info.payload_size,    info.clipped};
    memcpy(note(j, "info", sizeof numbers), numbers, sizeof numbers);
    if (info.nonzero != TLC_UNKNOWN) {
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
    at = (place){.codec = in->codec,
                 .dtype = in->dtype,
                 .isa = w->isa,
                 .n = in->n,
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
        for (size_t n = 0, turn = 0; n < most; n += n < 330 ? step : 179, turn++) {
            input in = {c->text,
                        dtypes[turn % 3],
                        n,
                        2,
                        (c->feedback + (int)turn / 3) % 2,
                        turn / 2 % 2,
                        (data_kind)((turn + turn / DATA_COUNT) % DATA_COUNT),
                        NULL,
                        NULL};
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
    tlc_isa isas[8] = {TLC_ISA_SCALAR};
    size_t count = 0;

    FOR_EACH_ISA(isa)
        isas[count++] = isa;
    require(count > 0);
    return isas[turn % count];
}

static void p7_parallel(void **state)
{
    /* So many ranges of 16,384 quartic bytes, or of other units that are coded as one. Of four ranges some have
     * neighbours on both sides. (Masks: p7_borders.) */
    static const data_kind kinds[] = {DATA_LAPLACE, DATA_SPARSE, DATA_WIDE, DATA_DENSE, DATA_ZERO, DATA_TIES};
    size_t ranges = quick() ? 2 : 4, turn = 0;
    bench b = bench_open(16384 * 8 * ranges + 13, 1);

    (void)state;
    FOR_EACH_CODEC(c)
        for (size_t round = 0; round < (quick() ? 1 : COUNT(kinds) / 2); round++, turn++) {
            size_t n = (size_t)16384 * (c->together == 8 ? 8 : 5) * ranges + 13;
            input in = {c->text,
                        dtypes[turn % 3],
                        n,
                        1,
                        (c->feedback + (int)turn / 3) % 2,
                        turn / 2 % 2,
                        kinds[(2 * round + turn / 3) % COUNT(kinds)],
                        NULL,
                        NULL};
            input_open(&in);
            run(&in, &plain, &b.want, b.frame);
            size_t last = quick() ? 1 : runner_count - 1;
            for (size_t r = 1; r <= last; r++) {
                /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there are several runners */
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
            print_message("# this machine lacks the mode: %s\n", mode_name[mode]);
            continue;
        }
        FOR_EACH_CODEC(c)
            for (size_t s = 0; s < COUNT(sizes); s++)
                for (int kind = (int)s % 2; kind < DATA_COUNT; kind += quick() ? 4 : 2, turn++) {
                    input in = {c->text,  dtypes[turn % 3], sizes[s], 2,   (c->feedback + (int)turn / 3) % 2,
                                turn % 2, (data_kind)kind,  NULL,     NULL};
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

/* A call leaves the flags of float exceptions as they were: a trainer may test them. */
static void p7_float_flags(void **state)
{
    enum { N = 333 };
    float g[N], out[N];

    (void)state;
    fill(DATA_LAPLACE, 3, g, N);
    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa) {
            tlc_config cfg = config(c->text, TLC_F32, isa);
            tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
            tlc_frame_info info = {.struct_size = sizeof info};
            cfg.feedback = 1;
            tlc_ctx *ctx = create(&cfg, N);
            uint8_t *frame = bytes(tlc_bound(ctx));

            at = (place){.codec = c->text, .n = N, .isa = isa};
            for (int flags = 0; flags <= FE_DIVBYZERO; flags += FE_DIVBYZERO) {
                (void)feclearexcept(FE_ALL_EXCEPT);
                (void)feraiseexcept(flags);
                int before = fetestexcept(FE_ALL_EXCEPT); /* all flags; none under valgrind */
                require_status(tlc_accumulate(ctx, g), TLC_OK);
                require(fetestexcept(FE_ALL_EXCEPT) == before);
                size_t len = compress(ctx, g, frame);
                require(fetestexcept(FE_ALL_EXCEPT) == before);
                require_status(tlc_decompress(frame, len, TLC_F16, out, N, &opt), TLC_OK);
                require_status(tlc_decompress(frame, len, TLC_F32, out, N, &opt), TLC_OK);
                require_status(tlc_decompress_add(frame, len, 0.1f, out, N, &opt), TLC_OK);
                require_status(tlc_inspect(frame, len, &info), TLC_OK);
                require_status(tlc_set_codec(ctx, c->text), TLC_OK);
                require_status(tlc_codec_bound(c->text, TLC_F32, N, &(size_t){0}), TLC_OK);
                require(fetestexcept(FE_ALL_EXCEPT) == before);
            }
            (void)feclearexcept(FE_ALL_EXCEPT);
            tlc_destroy(ctx);
            free(frame);
        }
}

/* Tasks run on threads. These inherit the float mode, or have modes of their own. */
static void p7_float_modes_with_tasks(void **state)
{
    size_t n = quick() ? 16384 * 2 + 2 : 16384 * 5 * 2 + 2;
    bench b = bench_open(n, 2);

    (void)state;
    for (size_t c = 0; c < codec_count; c += quick() ? 5 : 1)
        for (float_mode mode = MODE_UPWARD; mode < MODE_COUNT; mode++) {
            input in = {codecs[c].text,
                        TLC_F32,
                        n,
                        1,
                        (int)((c + (size_t)mode) % 2),
                        0,
                        mode == MODE_FLUSH ? DATA_TINY : DATA_LAPLACE,
                        NULL,
                        NULL};
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

/* The functions of stages.h, and codec strings, since numbers are parsed there. */
static void stages_in(const way *w, journal *j, const float *x, size_t n)
{
    int8_t *q = (int8_t *)bytes(n);
    float *residual = floats(n), M = 0, *out = floats(n);
    volatile float weight; /* volatile: computed here, not within the float mode */
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
            IN_MODE(w, tlc_convert(x, from, out, to, n)); /* any 16 bits are a value */
            memcpy(note(j, "converted", n * dtype_size[to]), out, n * dtype_size[to]);
        }
    IN_MODE(w, tlc_codec_bound("3lc:s=1.9999999,block=268435455", TLC_F32, n, &bound));
    IN_MODE(w, tlc_codec_bound("3lc:s=1.1234567890123456", TLC_F32, n, &bound));
    free(q);
    free(residual);
    free(out);
}

/* residual, symbols or bytes, and what they decode to */
static void note_stage(journal *j, const float *residual, const void *coded, size_t len, const float *out, size_t n)
{
    memcpy(note(j, "residual", 4 * n), residual, 4 * n);
    memcpy(note(j, "coded", len), coded, len);
    memcpy(note(j, "decoded", 4 * n), out, 4 * n);
}

static void value_stages_in(const way *w, journal *j, const float *x, size_t n)
{
    uint8_t *code = bytes(8 * n + 64), *scratch = bytes(n / 4 + 64);
    float *residual = floats(n), *out = floats(n), scalar[2];
    uint64_t *words = (uint64_t *)(void *)scratch;
    int8_t *q = (int8_t *)bytes(n);
    size_t len = 0;

    const tlc_stochastic_ternary_params *ternary = PARAMS(stochastic_ternary, .seed = 1, .step = 2,
                                                          .residual = residual);
    IN_MODE(w, tlc_stochastic_ternary_encode(x, n, ternary, q, scalar));
    const tlc_golomb_params *golomb = PARAMS(golomb, .signs = TLC_GOLOMB_SIGNED, .scratch = words);
    IN_MODE(w, tlc_golomb_encode(q, n, golomb, code, 8 * n + 64, &len));
    IN_MODE(w, tlc_ternary_decode(q, n, scalar[0], out));
    note_stage(j, residual, code, len, out, n);
    IN_MODE(w, tlc_sparse_binary_encode(x, n, 0.03, q, residual, scalar));
    IN_MODE(w, tlc_sparse_binary_decode(q, n, scalar[0], out));
    note_stage(j, residual, q, n, out, n);
    for (tlc_rounding rounding = TLC_ROUND_RANDOM; rounding <= TLC_ROUND_NEAREST; rounding++) {
        const tlc_levels K = rounding == TLC_ROUND_RANDOM ? TLC_LEVELS_15 : TLC_LEVELS_255;
        const tlc_levels_params *uniform = PARAMS(levels, .levels = K, .rounding = rounding, .seed = 1, .step = 2,
                                                  .residual = residual);
        IN_MODE(w, tlc_levels_encode(x, n, uniform, q, scalar));
        IN_MODE(w, tlc_levels_decode(q, n, K, scalar[0], out));
        note_stage(j, residual, q, n, out, n);
        const tlc_natural_params *powers = PARAMS(natural, .rounding = rounding, .shift = 3, .seed = 1, .step = 2,
                                                  .residual = residual);
        IN_MODE(w, tlc_natural_encode(x, n, powers, code, n, NULL));
        IN_MODE(w, tlc_natural_decode(code, n, TLC_NATURAL_8, 3, out, n));
        note_stage(j, residual, code, n, out, n);
    }
    IN_MODE(w, tlc_onebit_encode(x, n, code, residual, scalar));
    IN_MODE(w, tlc_onebit_decode(code, (n + 7) / 8, scalar, out, n));
    note_stage(j, residual, code, (n + 7) / 8, out, n);
    const tlc_topk_params *topk = PARAMS(topk, .p = 0.07, .seed = 1, .step = 2, .residual = residual);
    IN_MODE(w, tlc_topk_encode(x, n, topk, code, 8 * n + 64, &len));
    IN_MODE(w, tlc_topk_decode(code, len, out, n));
    note_stage(j, residual, code, len, out, n);
    const tlc_random_sparse_params *sparse = PARAMS(random_sparse, .p = 0.3, .seed = 1, .step = 2, .scratch = words,
                                                    .residual = residual);
    IN_MODE(w, tlc_random_sparse_encode(x, n, sparse, code, 8 * n + 64, &len));
    IN_MODE(w, tlc_random_sparse_decode(code, len, out, n));
    note_stage(j, residual, code, len, out, n);
    IN_MODE(w, tlc_codec_check("sbc:p=0.0123456789012345678901234567890", NULL, 0));
    IN_MODE(w, tlc_codec_bound("topk:p=0.333333333333333333333,block=12345", TLC_F32, n * 1000, &len));
    memcpy(note(j, "bound", sizeof len), &len, sizeof len);
    free(code);
    free(scratch);
    free(residual);
    free(out);
    free(q);
}

static void p7_float_modes_of_the_stages(void **state)
{
    size_t n = 1409;
    bench b = bench_open(2 * n, 8);
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
            value_stages_in(&plain, &b.want, x, n);
            stages_in(&w, &b.got, x, n);
            value_stages_in(&w, &b.got, x, n);
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
