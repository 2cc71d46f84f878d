/* SPDX-License-Identifier: MIT
 *
 * tlc_decompress_add_many gives the bits of single calls in the same order: for all codecs, alone and mixed, any number
 * of frames, any ISA and any way to run tasks. A failed call changes nothing and names the frame at fault.
 */
#include "../support/support.h"

enum { MOST = 70 }; /* more than two groups of frames */

/* Frames of the same number of values. */
typedef struct inputs {
    tlc_message frames[MOST];
    float weights[MOST];
    size_t count, n;
} inputs;

static void add_input(inputs *in, const codec_case *c, data_kind kind, uint64_t seed, int checksum)
{
    tlc_dtype dtype = c->exact ? TLC_F16 : (tlc_dtype)(seed % 3);
    tlc_config cfg = config(c->text, dtype, TLC_ISA_AUTO);
    uint8_t *grad = bytes(4 * in->n);

    cfg.seed = seed;
    cfg.checksum = checksum;
    at = (place){.codec = c->text, .n = in->n, .i = in->count};
    tlc_ctx *ctx = create(&cfg, in->n);
    uint8_t *frame = bytes(tlc_bound(ctx));
    fill_grad(kind, seed, dtype, grad, in->n);
    size_t len = compress(ctx, grad, frame);
    uint8_t *exact = bytes(len); /* a checker sees reads past its end */
    memcpy(exact, frame, len);
    in->frames[in->count] = (tlc_message){exact, len};
    in->weights[in->count++] = seed % 5 ? (float)(seed % 7) - 2.5f : 1.0f;
    tlc_destroy(ctx);
    free(frame);
    free(grad);
}

static void release(inputs *in)
{
    for (size_t i = 0; i < in->count; i++)
        free((void *)(uintptr_t)in->frames[i].data);
}

/* Some values are NaN, infinite or -0. */
static void fill_sum(float *sum, size_t n)
{
    static const uint32_t odd[] = {0x7fc12345u, 0x7f800000u, 0xff800000u, 0x80000000u, 0};

    fill(DATA_LAPLACE, 77, sum, n);
    for (size_t i = 3; i < n; i += 29)
        sum[i] = bits_float(odd[i % COUNT(odd)]);
}

static void add_singly(const inputs *in, const float *weights, float *sum, const tlc_decode_options *opt)
{
    for (size_t i = 0; i < in->count; i++)
        require_status(tlc_decompress_add(in->frames[i].data, in->frames[i].len, weights ? weights[i] : 1.0f, sum,
                                          in->n, opt),
                       TLC_OK);
}

static void require_same_sums(const inputs *in, tlc_isa isa, const runner *r, int from_zero)
{
    tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
    const float *weights = in->count % 4 ? in->weights : NULL;
    float *want = floats(in->n), *got = floats(in->n);
    size_t bad = 99;

    at.isa = isa;
    at.note = r->name;
    fill_sum(want, in->n);
    memcpy(got, want, in->n * sizeof *got);
    if (from_zero)
        memset(want, 0, in->n * sizeof *want);
    add_singly(in, weights, want, &opt);
    opt.parallel = r->parallel;
    opt.from_zero = from_zero;
    require_status(tlc_decompress_add_many(in->frames, weights, in->count, got, in->n, &bad, &opt), TLC_OK);
    require(same(want, got, in->n * sizeof *got) && bad == 99);
    free(want);
    free(got);
}

static void require_same_everywhere(const inputs *in)
{
    FOR_EACH_ISA(isa)
        for (size_t r = 0; r < runner_count; r++)
            for (int from_zero = 0; from_zero < 2; from_zero++)
                require_same_sums(in, isa, &runners[r], from_zero);
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

/* Sizes around parts of the sum, of streams and of ranges. */
TEST(alike)
{
    static const size_t sizes[] = {0, 1, 319, 5 * 64, 8192, 8193, 40961, 90007};

    FOR_EACH_CODEC(c)
        for (size_t s = 0; s < COUNT(sizes); s++) {
            inputs in = {.n = sizes[s]};
            if (quick() && s % 3)
                continue;
            for (size_t i = 0; i < 3; i++)
                add_input(&in, c, (data_kind)((i + s) % DATA_COUNT), i, (int)(i & 1));
            require_same_everywhere(&in);
            release(&in);
        }
}

/* Runs of tokens over all borders of parts and ranges. */
TEST(long_runs)
{
    static const char *const texts[] = {"3lc", "3lc:s=1.75", "3lc-golomb", "sbc", "topk", "topk+golomb"};

    FOR_EACH_CODEC(c)
        for (size_t t = 0; t < COUNT(texts); t++) {
            inputs in = {.n = quick() ? 120011 : 600011};
            if (strcmp(c->text, texts[t]) != 0)
                continue;
            add_input(&in, c, DATA_SPARSE, 1, 0);
            add_input(&in, c, DATA_ZERO, 2, 0);
            add_input(&in, c, DATA_SPARSE, 3, 1);
            require_same_everywhere(&in);
            release(&in);
        }
}

/* Frames of all codecs in one call, in an order that mixes them, and several groups of them. */
TEST(mixed)
{
    static const size_t sizes[] = {70, 20011};

    for (size_t s = 0; s < COUNT(sizes); s++)
        for (size_t stride = 1; stride < 8; stride += quick() ? 6 : 3) {
            inputs in = {.n = sizes[s]};
            for (size_t i = 0; i < MOST; i++)
                add_input(&in, &codecs[i / 2 * stride % codec_count], (data_kind)(i % DATA_COUNT), i, i % 5 == 0);
            require_same_everywhere(&in);
            release(&in);
        }
}

/* With from_zero what sum holds does not matter; without frames it becomes +0. */
TEST(from_zero)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .from_zero = 1};
    inputs in = {.n = 5000};
    float sum[5000], want[5000];

    memset(sum, 0xff, sizeof sum);
    require_status(tlc_decompress_add_many(NULL, NULL, 0, sum, in.n, NULL, &opt), TLC_OK);
    require(all_bytes(sum, sizeof sum, 0));
    require_status(tlc_decompress_add_many(NULL, NULL, 0, NULL, 0, NULL, &opt), TLC_OK);
    FOR_EACH_CODEC(c) {
        add_input(&in, c, DATA_LAPLACE, 4, 1);
        memset(sum, 0xff, sizeof sum);
        memset(want, 0, sizeof want);
        require_status(tlc_decompress_add(in.frames[0].data, in.frames[0].len, 0.5f, want, in.n, NULL), TLC_OK);
        require_status(tlc_decompress_add(in.frames[0].data, in.frames[0].len, 0.5f, sum, in.n, &opt), TLC_OK);
        require(same(sum, want, sizeof sum));
        release(&in);
        in.count = 0;
    }
    for (int number = -1; number < 3; number += 3) {
        const tlc_decode_options other = {.struct_size = sizeof opt, .from_zero = number};
        require_status(tlc_decompress_add_many(NULL, NULL, 0, sum, in.n, NULL, &other), TLC_ERR_PARAM);
    }
}

/* ---- failure ----------------------------------------------------------------------------------------------------- */

static void require_refused(const inputs *in, const float *weights, size_t bad, tlc_status status)
{
    float *sum = floats(in->n), *before = floats(in->n);

    fill_sum(sum, in->n);
    memcpy(before, sum, in->n * sizeof *sum);
    for (size_t r = 0; r < runner_count; r++)
        for (int from_zero = 0; from_zero < 2; from_zero++) {
            const tlc_decode_options opt = {.struct_size = sizeof opt,
                                            .parallel = runners[r].parallel,
                                            .from_zero = from_zero};
            size_t found = 1000;
            at.note = runners[r].name;
            require_status(tlc_decompress_add_many(in->frames, weights, in->count, sum, in->n, &found, &opt), status);
            require(found == bad && same(sum, before, in->n * sizeof *sum));
            require_status(tlc_decompress_add_many(in->frames, weights, in->count, sum, in->n, NULL, &opt), status);
        }
    free(sum);
    free(before);
}

/* The first bad frame is named, with its status, wherever it is. */
TEST(p1_bad_frames)
{
    inputs in = {.n = 3001};

    for (size_t i = 0; i < MOST; i++)
        add_input(&in, &codecs[i * 7 % codec_count], DATA_LAPLACE, i, 1);
    for (size_t bad = 0; bad < MOST; bad += 23) {
        const tlc_message good = in.frames[bad];
        uint8_t *flipped = bytes(good.len);
        memcpy(flipped, good.data, good.len);
        flipped[good.len / 2] ^= 1;
        in.frames[bad].data = flipped;
        in.frames[MOST - 1].len -= bad < MOST - 1; /* another one, later */
        require_refused(&in, in.weights, bad, TLC_ERR_CHECKSUM);
        in.frames[bad] = (tlc_message){good.data, good.len - 1};
        require_refused(&in, in.weights, bad, TLC_ERR_CHECKSUM);
        in.frames[bad] = (tlc_message){good.data, 3};
        require_refused(&in, NULL, bad, TLC_ERR_CORRUPT);
        in.frames[bad] = (tlc_message){NULL, 3};
        require_refused(&in, NULL, bad, TLC_ERR_PARAM);
        in.frames[bad] = good;
        in.frames[MOST - 1].len += bad < MOST - 1;
        float weight = in.weights[bad];
        in.weights[bad] = bits_float(0x7f800000u);
        require_refused(&in, in.weights, bad, TLC_ERR_PARAM);
        in.weights[bad] = weight;
        free(flipped);
    }
    in.n = 3000;
    require_refused(&in, NULL, 0, TLC_ERR_SIZE);
    release(&in);
}

TEST(refused_arguments)
{
    const tlc_decode_options isa = {.struct_size = sizeof isa, .isa = (tlc_isa)77}, small = {.struct_size = 1};
    inputs in = {.n = 40};
    float sum[40] = {0};
    size_t bad = 9;

    add_input(&in, &codecs[0], DATA_LAPLACE, 1, 0);
    require_status(tlc_decompress_add_many(NULL, NULL, 1, sum, 40, &bad, NULL), TLC_ERR_PARAM);
    require(bad == 1);
    bad = 9;
    require_status(tlc_decompress_add_many(in.frames, NULL, 1, NULL, 40, &bad, NULL), TLC_ERR_PARAM);
    require(bad == 1);
    bad = 9;
    require_status(tlc_decompress_add_many(in.frames, NULL, 1, sum, 40, &bad, &isa), TLC_ERR_PARAM);
    require(bad == 1);
    require_status(tlc_decompress_add_many(in.frames, NULL, 1, sum, 40, NULL, &small), TLC_ERR_PARAM);
    require(all_bytes(sum, sizeof sum, 0));
    require_status(tlc_decompress_add_many(NULL, NULL, 0, NULL, 0, NULL, NULL), TLC_OK);
    release(&in);
}

SETUP(print_isas)
