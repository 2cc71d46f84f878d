/* SPDX-License-Identifier: MIT
 *
 * Whole payloads with a row of fused kernels (src/coding/fused.h) and without: the same bytes, residual and outputs.
 */
#include "../../src/frames/encode.h"
#include "fused.h"

enum { FILL = 0x5a };

/* A unit that is a tensor, encoded and decoded with the row and without. */
typedef struct tensor {
    tlc_codec codec;
    const tlc_kernels *k;
    tlc_dtype dtype;
    const uint8_t *grad; /* or NULL */
    const float *before; /* the residual, or NULL */
    size_t n, cap;
    const tlc_parallel *parallel;
} tensor;

typedef struct payload {
    uint8_t *bytes;
    float *residual;
    size_t len;
    int fallback;
    float scalars[TLC_MAX_SCALARS];
} payload;

static payload encode(const tensor *t, int fused)
{
    const tlc_coder *coder = tlc_coder_for(&t->codec);
    uint8_t *scratch = bytes((size_t)tlc_unit_scratch(&t->codec, t->n));
    payload p = {.bytes = bytes(t->cap), .residual = floats(t->n)};
    tlc_job job = {.codec = &t->codec, .n = t->n, .scratch = (uint64_t *)(void *)scratch};
    tlc_coding c;

    memset(p.bytes, 0, t->cap);
    memset(p.residual, 0, t->n * sizeof *p.residual);
    if (t->before)
        memcpy(p.residual, t->before, t->n * sizeof *p.residual);
    job.input = (tlc_input){.k = t->k, .dtype = t->dtype, .grad = t->grad, .residual = t->before ? p.residual : NULL};
    require_status(tlc_encode_begin(&job, &c), TLC_OK);
    require(c.fused && c.fused == tlc_fused_of(t->codec.quantizer, t->codec.packer));
    c.fused = fused ? c.fused : NULL;
    c.parallel = t->parallel;
    p.len = coder->encode(&c, p.bytes);
    p.fallback = c.fallback;
    memcpy(p.scalars, c.unit.scalars, sizeof p.scalars);
    require(p.len <= t->cap);
    free(scratch);
    return p;
}

static void decode(const tensor *t, const payload *p, int fused, tlc_output *o)
{
    const tlc_stage *packer = p->fallback ? t->codec.packer->fallback : t->codec.packer;
    const tlc_quantizer *q = t->codec.quantizer->quantize;
    tlc_place start = {.positions = {0, 0, 0}};
    tlc_coding c = {
        .unit = {.k = t->k, .quantizer = q, .params = t->codec.params, .n = t->n, .dtype = t->dtype},
        .codec = &t->codec,
        .fused = fused ? tlc_fused_of(t->codec.quantizer, packer) : NULL,
        .fallback = p->fallback,
        .payload = p->bytes,
        .len = p->len,
        .output = o,
    };

    memcpy(c.unit.scalars, p->scalars, sizeof p->scalars);
    o->k = t->k;
    o->is_symbols = q->makes == TLC_MAKES_SYMBOLS;
    o->has_zero = q->has_zero;
    require(tlc_coder_for(&t->codec)->check(&c));
    tlc_coder_for(&t->codec)->decode(&c, &start, 0, tlc_columns(&c));
}

/* One output mode; shift: bytes by which the output misses its alignment. */
static void require_same_output(const tensor *t, const payload *p, const tlc_output *mode, size_t shift)
{
    uint8_t *out[2];
    uint64_t nonzero[2] = {5, 5};

    for (int fused = 0; fused < 2; fused++) {
        tlc_output o = *mode;
        out[fused] = bytes(4 * t->n + shift);
        if (shift)
            memset(out[fused], FILL, 4 * t->n + shift);
        else
            fill_sums(t->n, (float *)(void *)out[fused], t->n);
        o.out = out[fused] + shift;
        o.nonzero = &nonzero[fused];
        decode(t, p, fused, &o);
    }
    require(same(out[0], out[1], 4 * t->n + shift) && nonzero[0] == nonzero[1]);
    free(out[0]);
    free(out[1]);
}

static void require_same_outputs(const tensor *t, const payload *p)
{
    FOR_EACH_DTYPE(dtype)
        for (int stream = 0; stream < 2; stream++)
            for (size_t shift = 0; shift < 2; shift++) {
                const tlc_output write = {.mode = TLC_OUTPUT_WRITE, .dtype = dtype, .bypass = stream};
                require_same_output(t, p, &write, shift);
            }
    for (size_t i = 0; i < COUNT(weights); i++)
        require_same_output(t, p, &(tlc_output){.mode = TLC_OUTPUT_ADD, .weight = weights[i]}, 0);
    if (!t->codec.quantizer->quantize->has_zero)
        return;
    require_same_output(t, p, &(tlc_output){.mode = TLC_OUTPUT_MASK}, 0);
    require_same_output(t, p, &(tlc_output){.mode = TLC_OUTPUT_COUNT}, 0);
}

static size_t fallbacks;

static void require_same_payloads(tensor *t)
{
    const tlc_coder *coder = tlc_coder_for(&t->codec);

    t->cap = (size_t)coder->bound(&t->codec, t->dtype, t->n) + TLC_SHRINKER_ROOM;
    payload fused = encode(t, 1), plain = encode(t, 0);
    require(fused.len == plain.len && fused.fallback == plain.fallback && same(fused.bytes, plain.bytes, fused.len));
    require(same(fused.scalars, plain.scalars, sizeof fused.scalars));
    require(same(fused.residual, plain.residual, t->n * sizeof *fused.residual));
    require_same_outputs(t, &fused);
    fallbacks += (size_t)fused.fallback;
    free(fused.bytes);
    free(fused.residual);
    free(plain.bytes);
    free(plain.residual);
}

/* Every dtype and source of n values. */
static void payloads_of(const tlc_codec *codec, tlc_isa isa, data_kind kind, size_t n, const tlc_parallel *parallel)
{
    float *residual = floats(n);
    uint8_t *grad = bytes(4 * n);

    fill(kind, 6, residual, n);
    FOR_EACH_DTYPE(dtype)
        for (unsigned sources = 1; sources < 4; sources++) {
            tensor t = {.codec = *codec, .k = tlc_kernels_for(isa), .dtype = dtype, .n = n, .parallel = parallel};
            at = (place){.codec = codec->quantizer->name, .isa = isa, .dtype = dtype, .n = n, .i = sources};
            at.note = codec->shrinker ? codec->shrinker->name : codec->packer ? codec->packer->name : NULL;
            fill_grad(kind, 7, dtype, grad, n);
            t.grad = sources & 1 ? grad : NULL;
            t.before = sources & 2 ? residual : NULL;
            require_same_payloads(&t);
        }
    free(residual);
    free(grad);
}

/* Calls payloads_of for all codecs that have the row: with each shrinker that fits, and without. */
static void codecs_of(const tlc_fused *row, tlc_isa isa, data_kind kind, size_t n, const tlc_parallel *parallel)
{
    tlc_codec codec;

    tlc_codec_fill(&codec, row->quantizer, row->packer, NULL);
    payloads_of(&codec, isa, kind, n, parallel);
    for (size_t i = 0; row->packer && tlc_codec_stage(i); i++) {
        codec.shrinker = tlc_codec_stage(i);
        if (codec.shrinker->shrink && codec.shrinker->takes & row->packer->gives)
            payloads_of(&codec, isa, kind, n, parallel);
    }
}

static const data_kind kinds[] = {DATA_LAPLACE, DATA_SPARSE, DATA_TIES, DATA_DENSE, DATA_ZERO};

TEST(payloads)
{
    static const size_t sizes[] = {1, 2, 4, 5, 6, 63, 79, 81, 333, 1025, 5 * TLC_CHUNK + 3, 20011};

    fallbacks = 0;
    for (const tlc_fused *row, *first = row = tlc_fused_row(0); row; row = tlc_fused_row((size_t)(row - first) + 1))
        FOR_EACH_ISA(isa)
            for (size_t i = 0; i < COUNT(sizes); i++)
                for (size_t k = 0; k < (quick() ? 1 : sizes[i] > 1025 ? 3 : COUNT(kinds)); k++)
                    codecs_of(row, isa, kinds[(k + i) % COUNT(kinds)], sizes[i], NULL);
    require(fallbacks > 0);
}

/* Shared out among tasks: ranges begin anywhere. */
TEST(payloads_with_tasks)
{
    const size_t n = (quick() ? 1 : 5) * 2 * 16384 + 1234;

    for (size_t i = 0; tlc_fused_row(i); i++)
        codecs_of(tlc_fused_row(i), TLC_ISA_AUTO, DATA_SPARSE, n, &runners[1].parallel);
}

SETUP(print_isas)
