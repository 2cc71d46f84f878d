/* SPDX-License-Identifier: MIT
 *
 * threelc/stages.h: quantizers, and payloads without a frame, over the caller's arrays. They are encoded and decoded as
 * in a context.
 */
#include "../frames/bounds.h"
#include "../frames/encode.h"
#include "../coding/feedback.h"
#include "../common/sizes.h"
#include "../common/structs.h"
#include "../values/levels.h"
#include "../values/symbols.h"
#include <threelc/stages.h>

/* ---- encode ------------------------------------------------------------------------------------------------------ */

/* What a function of stages.h is asked to encode. */
typedef struct request {
    const tlc_stage *stage;
    const double *params; /* NULL: the stage has none; words are given as indices, which the callers have checked */
    const float *x;
    size_t n;
    float *residual; /* NULL, or x itself, or another array */
    tlc_random random;
} request;

/* Where it is encoded. */
typedef struct array_job {
    tlc_codec codec;
    tlc_job job;
    tlc_coding coding;
} array_job;

static int params_valid(const tlc_stage *stage, const double *params)
{
    for (size_t i = 0; i < TLC_MAX_PARAMS && i < stage->param_count; i++) {
        const tlc_param *p = &stage->params[i];
        if (!p->words && !(params[i] >= p->least && params[i] < p->below))
            return 0;
    }
    return 1;
}

/* Makes the first sweep over x and sets scalars and selection. Then copies x to the residual. TLC_ERR_PARAM,
 * TLC_ERR_NONFINITE: nothing has changed. */
static tlc_status begin(array_job *s, const request *r)
{
    tlc_status status = TLC_OK;

    if ((r->n && !r->x) || !params_valid(r->stage, r->params))
        return TLC_ERR_PARAM;
    tlc_codec_fill(&s->codec, r->stage, NULL, r->params);
    s->job = (tlc_job){
        .codec = &s->codec,
        .input = {.k = tlc_stage_kernels(r->stage), .dtype = TLC_F32, .grad = (const uint8_t *)r->x},
        .n = r->n,
        .random = r->random,
    };
    s->coding.unit.scalars[0] = s->coding.unit.scalars[1] = 0.0f;
    if (!s->job.input.k)
        return TLC_ERR_UNSUPPORTED;
    if (r->n)
        status = tlc_encode_begin(&s->job, &s->coding);
    if (status || !r->residual || !r->n)
        return status;
    if (r->residual != r->x)
        memcpy(r->residual, r->x, r->n * sizeof *r->x);
    s->job.input.grad = NULL;
    s->job.input.residual = r->residual;
    return TLC_OK;
}

/* Enters the default float mode, which the caller must leave, and calls begin. */
static tlc_status enter(tlc_float_mode *mode, array_job *s, const request *r)
{
    *mode = tlc_float_enter();
    return begin(s, r);
}

/* Makes the symbols of all values. */
static void encode_symbols(const array_job *s, int8_t *q)
{
    const tlc_unit *u = &s->coding.unit;
    float wanted[TLC_CHUNK];

    for (size_t at = 0; at < s->job.n; at += TLC_CHUNK) {
        tlc_chunk c = {.at = at, .count = tlc_smaller(s->job.n - at, TLC_CHUNK), .symbols = q + at};
        c.x = tlc_unit_values(u, at, c.count, wanted);
        (void)u->quantizer->encode(u, &c);
        tlc_feedback_symbols(u, &c);
    }
}

tlc_status tlc_ternary_encode(const float *x, size_t n, float s, int8_t *q, float *residual, float *M)
{
    const double params[TLC_MAX_PARAMS] = {(double)s};
    tlc_float_mode mode;
    array_job a;

    if (!M || (n && !q) || !tlc_finite(s))
        return TLC_ERR_PARAM;
    const request r = {&tlc_stage_ternary, params, x, n, residual, {0}};
    tlc_status status = enter(&mode, &a, &r);
    if (!status) {
        encode_symbols(&a, q);
        *M = a.coding.unit.scalars[0];
    }
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_stochastic_ternary_encode(const float *x, size_t n, const tlc_stochastic_ternary_params *params,
                                         int8_t *q, float *M)
{
    tlc_stochastic_ternary_params p = {0};
    tlc_float_mode mode;
    array_job a;

    if (!M || (n && !q) || (params && !tlc_import(&p, sizeof p, params)))
        return TLC_ERR_PARAM;
    const request r = {&tlc_stage_stochastic_ternary, NULL, x, n, p.residual, {p.seed, p.step, 0}};
    tlc_status status = enter(&mode, &a, &r);
    if (!status) {
        encode_symbols(&a, q);
        *M = a.coding.unit.scalars[0];
    }
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_sparse_binary_encode(const float *x, size_t n, double p, int8_t *q, float *residual, float *mean)
{
    uint64_t mask[TLC_CHUNK / 64];
    float values[TLC_CHUNK];
    tlc_float_mode mode;
    array_job a;

    if ((n && !q) || !mean)
        return TLC_ERR_PARAM;
    const double params[TLC_MAX_PARAMS] = {p};
    const request r = {&tlc_stage_sparse_binary, params, x, n, residual, {0}};
    tlc_status status = enter(&mode, &a, &r);
    const tlc_unit *u = &a.coding.unit;
    for (size_t at = 0; !status && at < n; at += TLC_CHUNK) {
        tlc_chunk c = {.at = at, .count = tlc_smaller(n - at, TLC_CHUNK), .mask = mask, .values = values};
        c.x = tlc_unit_values(u, at, c.count, NULL); /* in place */
        size_t k = (size_t)u->quantizer->encode(u, &c);
        for (size_t i = 0; i < k; i++)
            values[i] = u->scalars[0];
        tlc_feedback_members(u, &c, k);
        for (size_t i = 0; i < c.count; i++)
            q[at + i] = (int8_t)(mask[i / 64] >> i % 64 & 1);
    }
    if (!status)
        *mean = u->scalars[0];
    tlc_float_leave(mode);
    return status;
}

static int levels_valid(tlc_levels levels)
{
    return levels == TLC_LEVELS_255 || levels == TLC_LEVELS_15;
}

static int rounding_valid(tlc_rounding rounding)
{
    return rounding == TLC_ROUND_RANDOM || rounding == TLC_ROUND_NEAREST;
}

/* It has a loop of its own: here 4-bit levels are not packed, and each number of levels has both roundings. */
tlc_status tlc_levels_encode(const float *x, size_t n, const tlc_levels_params *params, int8_t *q, float *max)
{
    tlc_levels_params p = {0};
    uint32_t words[TLC_CHUNK];
    float sent[TLC_CHUNK];
    tlc_float_mode mode;
    array_job a;

    if ((n && !q) || !max || (params && !tlc_import(&p, sizeof p, params)))
        return TLC_ERR_PARAM;
    float K = (float)(p.levels ? p.levels : TLC_LEVELS_255);
    if ((p.levels && !levels_valid(p.levels)) || !rounding_valid(p.rounding))
        return TLC_ERR_PARAM;
    const request r = {&tlc_stage_int8, NULL, x, n, p.residual, {p.seed, p.step, 0}};
    tlc_status status = enter(&mode, &a, &r);
    const tlc_unit *u = &a.coding.unit;
    for (size_t at = 0, count; !status && at < n; at += count) {
        count = tlc_smaller(n - at, TLC_CHUNK);
        const float *chunk = tlc_unit_values(u, at, count, NULL); /* in place */
        if (p.rounding == TLC_ROUND_RANDOM)
            tlc_unit_words(u, at, count, words);
        tlc_levels_of(u->k, chunk, p.rounding == TLC_ROUND_RANDOM ? words : NULL, count, u->scalars[0], K, q + at);
        if (!p.residual)
            continue;
        u->k->levels_decode(q + at, count, u->scalars[0], K, sent);
        for (size_t i = 0; i < count; i++)
            p.residual[at + i] -= sent[i];
    }
    if (!status)
        *max = u->scalars[0];
    tlc_float_leave(mode);
    return status;
}

/* Writes the planes, without a count before them. Returns how many values were clipped. */
static uint64_t encode_codes(array_job *s, uint8_t *dst)
{
    if (!s->job.n)
        return 0;
    s->coding.without_count = 1;
    (void)tlc_coder_of_codes.encode(&s->coding, dst);
    return s->coding.clipped;
}

/* Fills in the parameters of natural. Returns 0 if they are not valid. */
static int natural_values(double values[TLC_MAX_PARAMS], tlc_natural_bits bits, tlc_rounding rounding, int shift)
{
    values[TLC_NATURAL_BITS] = bits == TLC_NATURAL_9;
    values[TLC_NATURAL_ROUNDING] = rounding == TLC_ROUND_NEAREST;
    values[TLC_NATURAL_SHIFT] = shift;
    return (bits == TLC_NATURAL_8 || bits == TLC_NATURAL_9) && rounding_valid(rounding) &&
           params_valid(&tlc_stage_natural, values);
}

tlc_status tlc_natural_encode(const float *x, size_t n, const tlc_natural_params *params, void *codes, size_t cap,
                              uint64_t *clipped)
{
    tlc_natural_params p = {0};
    double values[TLC_MAX_PARAMS];
    tlc_float_mode mode;
    array_job a;

    if ((n && !codes) || (params && !tlc_import(&p, sizeof p, params)))
        return TLC_ERR_PARAM;
    p.bits = p.bits ? p.bits : TLC_NATURAL_8;
    if (!natural_values(values, p.bits, p.rounding, p.shift))
        return TLC_ERR_PARAM;
    if (cap < n || (p.bits == TLC_NATURAL_9 && cap - n < tlc_ceil_div(n, 8)))
        return TLC_ERR_CAPACITY;
    const request r = {&tlc_stage_natural, values, x, n, p.residual, {p.seed, p.step, 0}};
    tlc_status status = enter(&mode, &a, &r);
    if (!status) {
        uint64_t count = encode_codes(&a, codes);
        if (clipped)
            *clipped = count;
    }
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_onebit_encode(const float *x, size_t n, void *bits, float *residual, float mean[2])
{
    tlc_float_mode mode;
    array_job a;

    if ((n && !bits) || !mean)
        return TLC_ERR_PARAM;
    const request r = {&tlc_stage_onebit, NULL, x, n, residual, {0}};
    tlc_status status = enter(&mode, &a, &r);
    if (!status) {
        (void)encode_codes(&a, bits);
        mean[0] = a.coding.unit.scalars[0];
        mean[1] = a.coding.unit.scalars[1];
    }
    tlc_float_leave(mode);
    return status;
}

/* ---- payloads of members and values ------------------------------------------------------------------------------ */

/* Encodes a payload of members and values; scratch is what the coder asks for. */
static tlc_status encode_payload(const request *r, uint64_t *scratch, void *dst, size_t cap, size_t *written)
{
    tlc_float_mode mode = tlc_float_enter();
    tlc_status status = !params_valid(r->stage, r->params) ? TLC_ERR_PARAM
                        : !tlc_stage_built(r->stage)       ? TLC_ERR_UNSUPPORTED
                                                           : TLC_OK;
    array_job a;

    tlc_codec_fill(&a.codec, r->stage, NULL, r->params);
    if (!status && r->n && cap < tlc_coder_of_members.bound(&a.codec, TLC_F32, r->n))
        status = TLC_ERR_CAPACITY;
    if (!status)
        status = begin(&a, r);
    if (!status) {
        a.coding.scratch = scratch;
        *written = r->n ? tlc_coder_of_members.encode(&a.coding, dst) : 0;
    }
    tlc_float_leave(mode);
    return status;
}

static const double any_p[TLC_MAX_PARAMS] = {1.0};

/* Decodes a payload of n values. Codes have no count before the planes. */
static tlc_status decode_payload(const tlc_stage *stage, const double *params, const float *scalars,
                                 tlc_message payload, float *out, size_t n)
{
    tlc_output output = {.k = tlc_stage_kernels(stage), .mode = TLC_OUTPUT_WRITE, .dtype = TLC_F32, .out = out};
    tlc_place start = {.positions = {0, 0, 0}};
    tlc_codec codec;

    if ((payload.len && !payload.data) || (n && !out))
        return TLC_ERR_PARAM;
    if (!output.k)
        return TLC_ERR_UNSUPPORTED;
    tlc_codec_fill(&codec, stage, NULL, params);
    const tlc_coder *coder = tlc_coder_for(&codec);
    tlc_coding c = {
        .unit = {.k = output.k, .quantizer = stage->quantize, .params = codec.params, .n = n},
        .codec = &codec,
        .without_count = 1,
        .payload = payload.data,
        .len = payload.len,
        .output = &output,
    };
    for (size_t i = 0; i < tlc_scalar_count(stage->quantize, codec.params); i++)
        c.unit.scalars[i] = scalars[i];
    if (n ? !coder->check(&c) : payload.len != 0)
        return TLC_ERR_CORRUPT;
    if (n)
        coder->decode(&c, &start, 0, tlc_columns(&c));
    return TLC_OK;
}

/* The parameter p of a sparse quantizer, its first one. A stage that is not built has no parameters. */
static double fraction_of(const tlc_stage *stage, double p)
{
    return p != 0 || !tlc_stage_built(stage) ? p : stage->params[0].fallback;
}

tlc_status tlc_topk_encode(const float *x, size_t n, const tlc_topk_params *params, void *dst, size_t cap,
                           size_t *written)
{
    tlc_topk_params p = {0};

    if ((cap && !dst) || !written || (params && !tlc_import(&p, sizeof p, params)))
        return TLC_ERR_PARAM;
    if (p.select != TLC_SELECT_SAMPLED && p.select != TLC_SELECT_EXACT)
        return TLC_ERR_PARAM;
    const double values[TLC_MAX_PARAMS] = {fraction_of(&tlc_stage_topk, p.p), p.select == TLC_SELECT_EXACT};
    const request r = {&tlc_stage_topk, values, x, n, p.residual, {p.seed, p.step, 0}};
    return encode_payload(&r, NULL, dst, cap, written);
}

tlc_status tlc_topk_decode(const void *src, size_t len, float *out, size_t n)
{
    return decode_payload(&tlc_stage_topk, any_p, NULL, (tlc_message){src, len}, out, n);
}

tlc_status tlc_random_sparse_encode(const float *x, size_t n, const tlc_random_sparse_params *params, void *dst,
                                    size_t cap, size_t *written)
{
    tlc_random_sparse_params p = {0};

    if ((cap && !dst) || !written || (params && !tlc_import(&p, sizeof p, params)) || (n && !p.scratch))
        return TLC_ERR_PARAM;
    const double values[TLC_MAX_PARAMS] = {fraction_of(&tlc_stage_random_sparse, p.p)};
    const request r = {&tlc_stage_random_sparse, values, x, n, p.residual, {p.seed, p.step, 0}};
    return encode_payload(&r, p.scratch, dst, cap, written);
}

tlc_status tlc_random_sparse_decode(const void *src, size_t len, float *out, size_t n)
{
    return decode_payload(&tlc_stage_random_sparse, any_p, NULL, (tlc_message){src, len}, out, n);
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

static int scale_valid(float scale)
{
    return tlc_float_bits(scale) < TLC_F32_INF; /* finite, and without a sign bit */
}

tlc_status tlc_ternary_decode(const int8_t *q, size_t n, float M, float *out)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);

    if ((n && (!q || !out)) || !scale_valid(M) || !tlc_symbols_valid(q, n))
        return TLC_ERR_PARAM;
    if (!k || !k->ternary_decode)
        return TLC_ERR_UNSUPPORTED;
    k->ternary_decode(q, n, M, out);
    return TLC_OK;
}

tlc_status tlc_ternary_add(const int8_t *q, size_t n, float w, float *sum)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);

    if ((n && (!q || !sum)) || !tlc_finite(w) || !tlc_symbols_valid(q, n))
        return TLC_ERR_PARAM;
    if (!k || !k->ternary_add)
        return TLC_ERR_UNSUPPORTED;
    tlc_float_mode mode = tlc_float_enter();
    k->ternary_add(q, n, w, sum);
    tlc_float_leave(mode);
    return TLC_OK;
}

tlc_status tlc_sparse_binary_decode(const int8_t *q, size_t n, float mean, float *out)
{
    unsigned bad = 0;

    if ((n && (!q || !out)) || !tlc_finite(mean))
        return TLC_ERR_PARAM;
    for (size_t i = 0; i < n; i++)
        bad |= (unsigned)q[i] > 1;
    for (size_t i = 0; !bad && i < n; i++)
        out[i] = q[i] ? mean : 0.0f;
    return bad ? TLC_ERR_PARAM : TLC_OK;
}

tlc_status tlc_levels_decode(const int8_t *q, size_t n, tlc_levels levels, float max, float *out)
{
    const tlc_kernels *k = tlc_stage_kernels(&tlc_stage_int8);
    int K = (int)levels;
    unsigned bad = 0;

    if ((n && (!q || !out)) || !levels_valid(levels) || !scale_valid(max))
        return TLC_ERR_PARAM;
    for (size_t i = 0; i < n; i++)
        bad |= q[i] > K || q[i] < -K;
    if (bad)
        return TLC_ERR_PARAM;
    if (!k)
        return TLC_ERR_UNSUPPORTED;
    tlc_float_mode mode = tlc_float_enter();
    k->levels_decode(q, n, max, (float)K, out);
    tlc_float_leave(mode);
    return TLC_OK;
}

tlc_status tlc_natural_decode(const void *codes, size_t len, tlc_natural_bits bits, int shift, float *out, size_t n)
{
    double values[TLC_MAX_PARAMS];

    if (!natural_values(values, bits, TLC_ROUND_RANDOM, shift) || (len && !codes) || (n && !out))
        return TLC_ERR_PARAM;
    if (len != tlc_sum(n, bits == TLC_NATURAL_9 ? tlc_ceil_div(n, 8) : 0))
        return TLC_ERR_SIZE;
    return decode_payload(&tlc_stage_natural, values, NULL, (tlc_message){codes, len}, out, n);
}

tlc_status tlc_onebit_decode(const void *bits, size_t len, const float mean[2], float *out, size_t n)
{
    if ((len && !bits) || (n && !out) || !mean || !tlc_finite(mean[0]) || !tlc_finite(mean[1]))
        return TLC_ERR_PARAM;
    if (len != tlc_ceil_div(n, 8))
        return TLC_ERR_SIZE;
    return decode_payload(&tlc_stage_onebit, NULL, mean, (tlc_message){bits, len}, out, n);
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

tlc_status tlc_philox(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *words)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);

    if (n && !words)
        return TLC_ERR_PARAM;
    if (!k || !k->philox)
        return TLC_ERR_UNSUPPORTED;
    k->philox(seed, step, first, n, words);
    return TLC_OK;
}
