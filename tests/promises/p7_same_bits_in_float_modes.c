/* SPDX-License-Identifier: MIT
 *
 * P7: all that a run gives is bit-identical in every float mode of the caller. A call leaves the float mode as it was.
 */
#include "p7_run.h"

TEST(p7_float_modes)
{
    static const size_t sizes[] = {1, 18, 333, 1409};
    bench b = bench_open(2048, 3);
    size_t turn = 0;

    for (float_mode mode = MODE_UPWARD; mode < MODE_COUNT; mode++) {
        if (!has_mode(mode)) {
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
TEST(p7_float_flags)
{
    enum { N = 333 };
    float g[N], out[N];

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
TEST(p7_float_modes_with_tasks)
{
    size_t n = quick() ? 16384 * 2 + 2 : 16384 * 5 * 2 + 2;
    bench b = bench_open(n, 2);

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
            if (!has_mode(mode) || mode == MODE_TRAPS) /* making threads may use floats */
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
            IN_MODE(w, tlc_convert(from, x, to, out, n)); /* any 16 bits are a value */
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
    uint8_t *code = bytes(8 * n + 64), *scratch = bytes(2 * n + 64), *quartic = bytes(n);
    float *residual = floats(n), *out = floats(n), scalar[2];
    uint64_t *words = (uint64_t *)(void *)scratch;
    int8_t *q = (int8_t *)bytes(n);
    size_t len = 0, made = 0;

    const tlc_stochastic_ternary_params *ternary = PARAMS(stochastic_ternary, .seed = 1, .step = 2,
                                                          .residual = residual);
    IN_MODE(w, tlc_stochastic_ternary_encode(x, n, ternary, q, scalar));
    const tlc_golomb_params *golomb = PARAMS(golomb, .signs = TLC_GOLOMB_SIGNED, .scratch = words);
    IN_MODE(w, tlc_golomb_encode(q, n, golomb, code, 8 * n + 64, &len));
    IN_MODE(w, tlc_ternary_decode(q, n, scalar[0], out));
    note_stage(j, residual, code, len, out, n);
    require_status(tlc_quartic_encode(q, n, quartic, n, &len), TLC_OK);
    const tlc_quartic_params *frame = PARAMS(quartic, .codec = "3lc-golomb:s=1.234567", .scratch = words);
    IN_MODE(w, tlc_compress_quartic(quartic, len, scalar, n, frame, code, 8 * n + 64, &len));
    note_stage(j, residual, code, len, out, n);
    IN_MODE(w, tlc_decompress_quartic(code, len, n, quartic, n, scalar, 1, NULL));
    note_stage(j, residual, quartic, tlc_quartic_size(n), scalar, 1);
    uint64_t *positions = (uint64_t *)(void *)bytes(8 * n);
    uint8_t *again = bytes(8 * n + 64);
    for (size_t i = 0; i < n; i++) {
        positions[i] = i;
        out[i] = x[i] == 0 ? bits_float(1) : x[i];
    }
    const tlc_members_params *members = PARAMS(members, .codec = "topk:p=1,bits=2", .scratch = words, .sent = residual);
    IN_MODE(w, tlc_compress_members(positions, out, n, n, members, code, 8 * n + 64, &len));
    note_stage(j, residual, code, len, out, n);
    IN_MODE(w, tlc_decompress_members(code, len, n, positions, out, n, &made, NULL));
    note_stage(j, residual, positions, 8 * n, out, n);
    tlc_frame_info info = {.struct_size = sizeof info};
    require_status(tlc_inspect(code, len, &info), TLC_OK);
    const uint8_t *payload = code + info.header_size;
    require(header_scalars(&info, code, scalar) == 2);
    const tlc_quartic_params *few = PARAMS(quartic, .codec = "topk:p=1,bits=2");
    IN_MODE(w, tlc_compress_payload(payload, (size_t)info.payload_size, scalar, n, few, again, 8 * n + 64, &made));
    require(made == len && same(again, code, len));
    free(again);
    free(positions);
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
    free(quartic);
    free(residual);
    free(out);
    free(q);
}

TEST(p7_float_modes_of_the_stages)
{
    size_t n = 1409;
    bench b = bench_open(2 * n, 8);
    float *x = floats(n);

    at = (place){.n = n};
    for (int kind = 0; kind < DATA_COUNT; kind++)
        for (float_mode mode = MODE_UPWARD; mode < MODE_COUNT; mode++) {
            way w = {TLC_ISA_AUTO, &runners[0], mode};
            if (!has_mode(mode))
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

SETUP(print_isas)
