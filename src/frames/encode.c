/* SPDX-License-Identifier: MIT */
#include "encode.h"
#include "../common/bytes.h"
#include "../common/sizes.h"
#include "frame.h"
#include "plan.h"

/* ---- sweeps over the whole tensor -------------------------------------------------------------------------------- */

typedef struct sweeping {
    const tlc_job *job;
    tlc_input_sweep *sweep;
    tlc_ranges ranges; /* of values; of blocks if their maxima are kept */
    uint32_t *kept;    /* the maxima of the blocks, or NULL */
    uint32_t max[TLC_RANGES_MAX];
} sweeping;

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static size_t block_size(const tlc_job *job, size_t b)
{
    return tlc_smaller(job->n - b * job->codec->block, job->codec->block);
}

static void sweep_range(void *arg, size_t i)
{
    sweeping *s = arg;
    size_t from = tlc_range_start(&s->ranges, i), to = tlc_range_start(&s->ranges, i + 1);

    if (!s->kept) {
        s->max[i] = s->sweep(&s->job->input, from, to - from);
        return;
    }
    s->max[i] = 0;
    for (size_t b = from; b < to; b++) {
        s->kept[b] = s->sweep(&s->job->input, b * s->job->codec->block, block_size(s->job, b));
        s->max[i] = larger(s->max[i], s->kept[b]);
    }
}

/* Makes a sweep over all values, shared among threads, and returns the largest magnitude. kept, if not NULL, gets that
 * of each block. */
static uint32_t sweep_all(const tlc_job *job, tlc_input_sweep *sweep, uint32_t *kept)
{
    size_t block = job->codec->block;
    uint32_t max = 0;
    sweeping s;

    s.job = job;
    s.sweep = sweep;
    s.kept = kept;
    s.ranges = kept ? tlc_ranges_split(job->parallel, (size_t)tlc_ceil_div(job->n, block), TLC_RANGE_MIN / block + 1)
                    : tlc_ranges_split(job->parallel, job->n, TLC_RANGE_MIN);
    tlc_ranges_run(job->parallel, s.ranges.count, sweep_range, &s);
    for (size_t i = 0; i < s.ranges.count; i++)
        max = larger(max, s.max[i]);
    return max;
}

tlc_status tlc_encode_accumulate(const tlc_job *job)
{
    if (!job->assume_finite && sweep_all(job, tlc_input_absmax, NULL) >= TLC_F32_INF)
        return TLC_ERR_NONFINITE;
    return sweep_all(job, tlc_input_accumulate, NULL) < TLC_F32_INF ? TLC_OK : TLC_ERR_NONFINITE;
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

static const tlc_quantizer *quantizer_of(const tlc_job *job)
{
    return job->codec->quantizer->quantize;
}

static tlc_plan plan_of(const tlc_job *job)
{
    const tlc_plan_facts facts = {
        .blocks = job->codec->block ? (size_t)tlc_ceil_div(job->n, job->codec->block) : 0,
        .has_gradient = job->input.grad != NULL,
        .has_residual = job->input.residual != NULL,
        .assume_finite = job->assume_finite,
        .exact = quantizer_of(job)->exact,
        .chooses = quantizer_of(job)->chooses,
    };
    return tlc_plan_of(&facts);
}

/* Fills in *c field by field: for small tensors an assignment of the whole struct costs too much time. */
static void begin_unit(tlc_coding *c, const tlc_job *job, const tlc_input *input, size_t first, size_t n)
{
    tlc_unit *u = &c->unit;

    c->codec = job->codec;
    c->fused = tlc_fused_of(job->codec->quantizer, job->codec->packer);
    c->fallback = 0;
    c->parallel = NULL;
    c->without_count = 0;
    c->scratch = job->scratch;
    c->output = NULL;
    u->k = job->input.k;
    u->quantizer = quantizer_of(job);
    u->params = job->codec->params;
    u->n = n;
    u->first = first;
    u->dtype = job->input.dtype;
    u->scalars[0] = u->scalars[1] = 0.0f;
    u->input = input;
    u->random = &job->random;
}

/* Can values whose largest magnitude is max be sent? *scale: their scale. */
static tlc_status check_max(const tlc_job *job, uint32_t max, float *scale)
{
    const tlc_quantizer *q = quantizer_of(job);
    uint32_t bits = q->scale ? q->scale(job->codec->params, job->input.dtype, max) : max;

    *scale = tlc_bits_float(bits);
    return max < TLC_F32_INF && bits < TLC_F32_INF ? TLC_OK : TLC_ERR_NONFINITE;
}

/* Sets scalars and selection of a unit, if its first sweep has not set them. */
static void choose(tlc_unit *u, float scale)
{
    if (u->quantizer->chooses == TLC_CHOOSES_BY_VALUES)
        (void)u->quantizer->choose(u);
    else if (u->quantizer->chooses == TLC_CHOOSES_SCALE && u->quantizer->scalars)
        u->scalars[0] = scale;
}

/* ---- a tensor that is not blocked -------------------------------------------------------------------------------- */

/* Makes the sweeps before the encoding, and sets scalars and selection. */
static tlc_status measure_tensor(tlc_job *job, const tlc_plan *plan, tlc_coding *c)
{
    uint32_t max = 0;
    tlc_status status;
    float scale;

    switch (plan->first) {
    case TLC_FIRST_NONE: return TLC_OK;
    case TLC_FIRST_MAX: max = sweep_all(job, tlc_input_absmax, NULL); break;
    case TLC_FIRST_ADD: max = sweep_all(job, tlc_input_accumulate, NULL); break;
    case TLC_FIRST_CHOOSE: max = c->unit.quantizer->choose(&c->unit); break;
    }
    status = check_max(job, max, &scale);
    if (status)
        return status;
    if (plan->add)
        (void)sweep_all(job, tlc_input_accumulate, NULL);
    if (plan->add || plan->first == TLC_FIRST_ADD)
        job->input.grad = NULL;
    if (plan->max == TLC_MAX_CHOOSE)
        (void)c->unit.quantizer->choose(&c->unit);
    choose(&c->unit, scale);
    return TLC_OK;
}

tlc_status tlc_encode_begin(tlc_job *job, tlc_coding *c)
{
    tlc_plan plan = plan_of(job);

    begin_unit(c, job, &job->input, 0, job->n);
    return measure_tensor(job, &plan, c);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Each range of blocks is a task. A block is measured and encoded while it is in the cache. */
typedef struct blocks_work {
    const tlc_job *job;
    const tlc_plan *plan;
    const uint32_t *kept; /* the maxima of the blocks, if the plan keeps them */
    tlc_ranges ranges;    /* of blocks */
    size_t entry, bound;  /* bytes of a table entry; the largest payload of a block */
    size_t scratch;       /* words of scratch memory for one unit */
    uint8_t *table, *payloads;
    size_t len[TLC_RANGES_MAX];
    tlc_status status[TLC_RANGES_MAX];
} blocks_work;

/* Adds the gradient and finds the maximum, as the plan says. */
static uint32_t measure_block(const blocks_work *w, size_t b, tlc_coding *c, tlc_input *input)
{
    const tlc_unit *u = &c->unit;
    uint32_t added = 0;

    if (w->plan->add) {
        added = tlc_input_accumulate(input, u->first, (size_t)u->n);
        input->grad = NULL;
    }
    switch (w->plan->max) {
    case TLC_MAX_NONE: break;
    case TLC_MAX_FIRST: return w->kept[b];
    case TLC_MAX_ADD: return added;
    case TLC_MAX_SWEEP: return tlc_input_absmax(input, u->first, (size_t)u->n);
    case TLC_MAX_CHOOSE: return u->quantizer->choose(&c->unit);
    }
    return 0;
}

static tlc_status encode_block(const blocks_work *w, size_t b, uint64_t *scratch, uint8_t *dst, size_t *len)
{
    const tlc_job *job = w->job;
    uint8_t *entry = w->table + b * w->entry;
    tlc_input input = job->input;
    tlc_coding c;
    float scale;

    begin_unit(&c, job, &input, b * job->codec->block, block_size(job, b));
    c.scratch = scratch;
    uint32_t max = measure_block(w, b, &c, &input);
    tlc_status status = check_max(job, max, &scale);
    if (status)
        return status;
    choose(&c.unit, scale);
    *len = tlc_coder_for(job->codec)->encode(&c, dst);
    for (size_t i = 0; i < (w->entry - 4) / 4; i++)
        tlc_store32(entry + 4 * i, tlc_float_bits(c.unit.scalars[i]));
    tlc_store32(entry + w->entry - 4, (uint32_t)*len | (c.fallback ? TLC_BLOCK_FALLBACK : 0));
    return TLC_OK;
}

static void encode_blocks(void *arg, size_t i)
{
    blocks_work *w = arg;
    size_t b = tlc_range_start(&w->ranges, i), end = tlc_range_start(&w->ranges, i + 1);
    uint8_t *dst = w->payloads + b * w->bound;
    uint64_t *scratch = w->job->scratch ? w->job->scratch + i * w->scratch : NULL;

    w->len[i] = 0;
    w->status[i] = TLC_OK;
    for (; b < end && !w->status[i]; b++) {
        size_t len = 0;
        w->status[i] = encode_block(w, b, scratch, dst + w->len[i], &len);
        w->len[i] += len;
    }
}

/* Writes the block table and the payloads. */
static tlc_status encode_blocked(const tlc_job *job, const tlc_plan *plan, const uint32_t *kept, uint8_t *dst,
                                 size_t *len)
{
    size_t block = job->codec->block, blocks = (size_t)tlc_ceil_div(job->n, block), at = 0;
    size_t unit = tlc_smaller(block, job->n);
    blocks_work w;

    w.job = job;
    w.plan = plan;
    w.kept = kept;
    w.ranges = tlc_ranges_split(job->parallel, blocks, TLC_RANGE_MIN / block + 1);
    w.entry = tlc_table_entry_size(job->codec);
    w.bound = (size_t)tlc_coder_for(job->codec)->bound(job->codec, job->input.dtype, unit);
    w.scratch = (size_t)tlc_unit_scratch(job->codec, unit) / sizeof *job->scratch;
    w.table = dst;
    w.payloads = dst + blocks * w.entry;
    tlc_ranges_run(job->parallel, w.ranges.count, encode_blocks, &w);
    for (size_t i = 0; i < w.ranges.count; at += w.len[i++]) {
        if (w.status[i])
            return w.status[i];
        size_t start = tlc_range_start(&w.ranges, i) * w.bound;
        if (at != start)
            memmove(w.payloads + at, w.payloads + start, w.len[i]);
    }
    *len = blocks * w.entry + at;
    return TLC_OK;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static size_t write_header(const tlc_job *job, const float *scalars, uint8_t *dst)
{
    return tlc_frame_write(dst, job->codec, job->input.dtype, job->checksum, job->n, scalars);
}

static tlc_status encode_blocked_frame(const tlc_job *job, uint8_t *dst, size_t *written)
{
    uint32_t maxima[TLC_KEPT_MAX];
    tlc_plan plan = plan_of(job);
    tlc_status status = TLC_OK;
    size_t at, len = 0;
    float scale;

    if (plan.first == TLC_FIRST_MAX)
        status = check_max(job, sweep_all(job, tlc_input_absmax, plan.keep_maxima ? maxima : NULL), &scale);
    if (status)
        return status;
    at = write_header(job, NULL, dst);
    status = encode_blocked(job, &plan, maxima, dst + at, &len);
    *written = at + len;
    return status;
}

static tlc_status encode_tensor_frame(tlc_job *job, uint8_t *dst, size_t *written)
{
    tlc_coding c;
    tlc_status status = tlc_encode_begin(job, &c);

    if (status)
        return status;
    c.parallel = job->parallel;
    size_t at = write_header(job, c.unit.scalars, dst);
    at += tlc_coder_for(job->codec)->encode(&c, dst + at);
    if (c.fallback)
        tlc_frame_mark_fallback(dst, job->codec);
    *written = at;
    return TLC_OK;
}

tlc_status tlc_encode_frame(tlc_job *job, uint8_t *dst, size_t *written)
{
    tlc_status status = TLC_OK;
    size_t len;

    if (!job->n)
        len = write_header(job, NULL, dst);
    else if (job->codec->block)
        status = encode_blocked_frame(job, dst, &len);
    else
        status = encode_tensor_frame(job, dst, &len);
    if (status)
        return status;
    if (job->checksum) {
        tlc_frame_seal(dst, len);
        len += TLC_CHECKSUM_SIZE;
    }
    *written = len;
    return TLC_OK;
}
