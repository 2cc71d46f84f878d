/* SPDX-License-Identifier: MIT */
#include "pipeline.h"
#include "ranges.h"

#define KEPT_MAX 1024 /* blocks whose maxima are kept from the first sweep to the second, on the stack */

/* ---- the first sweep --------------------------------------------------------------------------------------------- */

typedef uint32_t input_sweep(const tlc_input *in, size_t at, size_t count);

typedef struct measuring {
    const tlc_job *job;
    input_sweep *sweep;
    tlc_ranges ranges;   /* of values, or of blocks whose maxima are kept */
    uint32_t *block; /* these maxima, or NULL */
    uint32_t max[TLC_RANGES_MAX];
} measuring;

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void measure_range(void *arg, size_t i)
{
    measuring *m = arg;
    size_t from = tlc_range_start(&m->ranges, i), to = tlc_range_start(&m->ranges, i + 1), block = m->job->codec->block;

    if (!m->block) {
        m->max[i] = m->sweep(&m->job->input, from, to - from);
        return;
    }
    m->max[i] = 0;
    for (size_t b = from; b < to; b++) {
        size_t first = b * block, n = m->job->n - first < block ? m->job->n - first : block;
        m->block[b] = m->sweep(&m->job->input, first, n);
        m->max[i] = larger(m->max[i], m->block[b]);
    }
}

/* The largest magnitude of all, by a sweep that is shared out; kept, if not NULL, gets those of the blocks. */
static uint32_t measure(const tlc_job *job, input_sweep *sweep, uint32_t *kept)
{
    size_t block = job->codec->block;
    measuring m;
    uint32_t max = 0;

    m.job = job;
    m.sweep = sweep;
    m.block = kept;
    m.ranges = kept ? tlc_ranges_split(job->parallel, (size_t)tlc_ceil_div(job->n, block), TLC_RANGE_MIN / block + 1)
                    : tlc_ranges_split(job->parallel, job->n, TLC_RANGE_MIN);
    tlc_ranges_run(job->parallel, m.ranges.count, measure_range, &m);
    for (size_t i = 0; i < m.ranges.count; i++)
        max = larger(max, m.max[i]);
    return max;
}

tlc_status tlc_pipeline_accumulate(const tlc_job *job)
{
    if (!job->assume_finite && measure(job, tlc_input_absmax, NULL) >= TLC_F32_INF)
        return TLC_ERR_NONFINITE;
    return measure(job, tlc_input_accumulate, NULL) < TLC_F32_INF ? TLC_OK : TLC_ERR_NONFINITE;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Units are filled in where they lie: a copy would wait for the stores before it, and small tensors with it. */
static void forward_unit(tlc_unit *u, const tlc_job *job, tlc_work *work, size_t first, size_t n)
{
    *u = (tlc_unit){
        .k = job->input.k,
        .codec = job->codec,
        .n = n,
        .first = first,
        .dtype = job->input.dtype,
        .input = job->input,
        .work = work,
    };
}

/* Can values of this largest magnitude be sent? */
static tlc_status check_max(const tlc_job *job, uint32_t max)
{
    const tlc_value_ops *value = job->codec->value->value;

    if (max >= TLC_F32_INF)
        return TLC_ERR_NONFINITE;
    return value->check ? value->check(job->codec, job->input.dtype, max) : TLC_OK;
}

static void prepare(tlc_unit *u, uint32_t max)
{
    if (u->codec->value->value->prepare)
        u->codec->value->value->prepare(u, max);
}

typedef struct forward_ranges {
    const tlc_unit *unit;
    tlc_ranges ranges;
    uint8_t *dst;
    tlc_piece piece[TLC_RANGES_MAX];
    uint64_t count[TLC_RANGES_MAX];
} forward_ranges;

static void forward_range(void *arg, size_t i)
{
    forward_ranges *f = arg;
    const tlc_unit *u = f->unit;
    size_t from = tlc_range_start(&f->ranges, i), to = tlc_range_start(&f->ranges, i + 1);

    if (u->codec->shrink)
        f->piece[i] = u->codec->shrink->shrink->forward(u, from, to, f->dst + from);
    else {
        const tlc_coder_ops *coder = tlc_codec_coder(u->codec)->coder;
        f->count[i] = coder->forward(u, from, to, f->dst + coder->head + from * coder->width(u->codec, u->dtype));
    }
}

/* Writes the payload of a unit that is prepared; returns its length. */
static size_t forward_payload(tlc_unit *u, const tlc_parallel *parallel, uint8_t *dst)
{
    const tlc_coder_ops *coder = tlc_codec_coder(u->codec)->coder;
    size_t at = 0, open = 0;
    uint64_t count = 0;
    forward_ranges f;

    f.unit = u;
    f.ranges = tlc_ranges_split(parallel, (size_t)coder->positions(u->codec, u->n), TLC_RANGE_MIN);
    f.dst = dst;
    if (coder->forward)
        tlc_ranges_run(parallel, f.ranges.count, forward_range, &f);
    if (!u->codec->shrink) {
        for (size_t i = 0; coder->forward && i < f.ranges.count; i++)
            count += f.count[i];
        return coder->finish ? coder->finish(u, dst, count) : (size_t)coder->bound(u->codec, u->dtype, u->n);
    }
    const tlc_shrink_ops *shrink = u->codec->shrink->shrink;
    for (size_t i = 0; i < f.ranges.count; i++)
        at = shrink->join(dst, at, &open, &f.piece[i], dst + tlc_range_start(&f.ranges, i));
    return shrink->finish(dst, at, open);
}

/* Groups of neighbouring blocks, each group a task; a block is measured and coded while it is in the cache. */
typedef struct forward_blocks {
    const tlc_job *job;
    tlc_ranges groups; /* of blocks */
    size_t entry, bound; /* bytes of a table entry; of a full block's payload */
    size_t scratch;      /* words of a unit's */
    uint8_t *table, *payloads;
    int accumulate;      /* residual += gradient happens here */
    const uint32_t *kept; /* maxima of the blocks, or NULL: not known yet */
    size_t len[TLC_RANGES_MAX];
    tlc_status status[TLC_RANGES_MAX];
} forward_blocks;

static tlc_status forward_block(forward_blocks *f, size_t b, uint64_t *scratch, uint8_t *dst, size_t *len)
{
    const tlc_job *job = f->job;
    const tlc_value_ops *value = job->codec->value->value;
    size_t block = job->codec->block, first = b * block, n = job->n - first < block ? job->n - first : block;
    tlc_work work = {.seed = job->seed, .step = job->step, .scratch = scratch};
    tlc_unit u;
    uint8_t *entry = f->table + b * f->entry;
    uint32_t max = 0;

    forward_unit(&u, job, &work, first, n);
    if (f->accumulate) {
        max = tlc_input_accumulate(&job->input, first, n);
        u.input.grad = NULL;
    }
    if (value->measure)
        max = value->measure(&u);
    else if (f->kept)
        max = f->kept[b];
    else if (!f->accumulate && (u.input.residual || !value->exact))
        max = tlc_input_absmax(&job->input, first, n);
    tlc_status status = check_max(job, max);
    if (status)
        return status;
    prepare(&u, max);
    *len = forward_payload(&u, NULL, dst);
    for (size_t i = 0; i < value->scalars; i++)
        tlc_store32(entry + 4 * i, tlc_float_bits(u.scalars[i]));
    tlc_store32(entry + f->entry - 4, (uint32_t)*len | (u.second ? TLC_BLOCK_SECOND : 0));
    return TLC_OK;
}

static void forward_group(void *arg, size_t i)
{
    forward_blocks *f = arg;
    size_t b = tlc_range_start(&f->groups, i), end = tlc_range_start(&f->groups, i + 1);
    uint8_t *dst = f->payloads + b * f->bound;
    uint64_t *scratch = f->job->scratch ? f->job->scratch + i * f->scratch : NULL;

    f->len[i] = 0;
    f->status[i] = TLC_OK;
    for (; b < end && !f->status[i]; b++) {
        size_t len = 0;
        f->status[i] = forward_block(f, b, scratch, dst + f->len[i], &len);
        f->len[i] += len;
    }
}

/* Writes block table and payloads of a tensor; they were found finite, unless accumulate is set. kept may be NULL. */
static tlc_status forward_blocked(const tlc_job *job, int accumulate, const uint32_t *kept, uint8_t *dst, size_t *len)
{
    const tlc_coder_ops *coder = tlc_codec_coder(job->codec)->coder;
    size_t block = job->codec->block, blocks = (size_t)tlc_ceil_div(job->n, block), at = 0;
    size_t unit = block < job->n ? block : job->n;
    forward_blocks f;

    f.job = job;
    f.groups = tlc_ranges_split(job->parallel, blocks, TLC_RANGE_MIN / block + 1);
    f.entry = tlc_codec_entry_size(job->codec);
    f.bound = (size_t)coder->bound(job->codec, job->input.dtype, unit);
    f.scratch = coder->scratch ? (size_t)coder->scratch(job->codec, unit) / sizeof *job->scratch : 0;
    f.table = dst;
    f.payloads = dst + blocks * f.entry;
    f.accumulate = accumulate;
    f.kept = kept;
    tlc_ranges_run(job->parallel, f.groups.count, forward_group, &f);
    for (size_t i = 0; i < f.groups.count; at += f.len[i++]) {
        if (f.status[i])
            return f.status[i];
        size_t start = tlc_range_start(&f.groups, i) * f.bound;
        if (at != start)
            memmove(f.payloads + at, f.payloads + start, f.len[i]);
    }
    *len = blocks * f.entry + at;
    return TLC_OK;
}

/* Measures the whole tensor, and prepares it if it is not blocked. *accumulate: residual += gradient is still to be done,
 * for each block. */
static tlc_status measure_all(const tlc_job *job, tlc_unit *u, uint32_t *kept, int *accumulate)
{
    const tlc_value_ops *value = job->codec->value->value;
    int adds = job->input.residual && job->input.grad, early = adds && job->assume_finite;
    uint32_t max;

    if (value->measure && !early && !job->codec->block)
        max = value->measure(u);
    else
        max = measure(job, early ? tlc_input_accumulate : tlc_input_absmax, kept);
    tlc_status status = check_max(job, max);
    if (status)
        return status;
    *accumulate = adds && value->accumulates;
    if (job->codec->block)
        return TLC_OK;
    if (*accumulate && !early)
        (void)measure(job, tlc_input_accumulate, NULL);
    if (*accumulate || early)
        u->input.grad = NULL;
    if (value->measure && early)
        (void)value->measure(u);
    prepare(u, max);
    return TLC_OK;
}

tlc_status tlc_pipeline_forward(const tlc_job *job, uint8_t *dst, size_t *written)
{
    const tlc_codec *codec = job->codec;
    int feedback = job->input.residual != NULL, accumulate = job->assume_finite && feedback && job->input.grad;
    uint32_t maxima[KEPT_MAX], *kept = codec->block && (job->n - 1) / codec->block < KEPT_MAX ? maxima : NULL;
    tlc_work work = {.seed = job->seed, .step = job->step, .scratch = job->scratch};
    tlc_status status = TLC_OK;
    size_t at, len = 0;
    tlc_unit u;

    forward_unit(&u, job, &work, 0, job->n);
    if (job->n && (feedback || !codec->value->value->exact) && !(codec->block && job->assume_finite)) {
        status = measure_all(job, &u, kept, &accumulate);
        if (status)
            return status;
    } else
        kept = NULL;
    at = tlc_frame_write(dst, codec, job->input.dtype, job->checksum, job->n, u.scalars);
    if (job->n && codec->block)
        status = forward_blocked(job, accumulate, kept, dst + at, &len);
    else if (job->n)
        len = forward_payload(&u, job->parallel, dst + at);
    if (status)
        return status;
    if (u.second)
        tlc_frame_mark_second(dst, codec);
    at += len;
    if (job->checksum) {
        tlc_frame_seal(dst, at);
        at += TLC_CHECKSUM_SIZE;
    }
    *written = at;
    return TLC_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static void backward_unit(tlc_unit *u, const tlc_kernels *k, const tlc_frame *f, const tlc_sink *sink)
{
    *u = (tlc_unit){.k = k, .codec = &f->codec, .n = f->n, .dtype = f->dtype, .second = f->second, .sink = sink};
    for (size_t i = 0; i < TLC_MAX_SCALARS; i++)
        u->scalars[i] = f->scalars[i];
}

static int check_payload(const tlc_unit *u, const uint8_t *src, size_t len)
{
    uint32_t sign = u->codec->value->value->any_sign ? ~TLC_F32_ABS : 0;

    for (unsigned i = 0; i < u->codec->value->value->scalars; i++)
        if ((tlc_float_bits(u->scalars[i]) & ~sign) >= TLC_F32_INF) /* infinite, NaN, or with a sign that none has */
            return 0;
    if (u->second && !tlc_codec_has_second(u->codec))
        return 0;
    if (u->codec->shrink)
        return u->codec->shrink->shrink->check(u, src, len);
    return tlc_codec_coder(u->codec)->coder->check(u, src, len);
}

/* A walk along the blocks of a frame. */
typedef struct block_walk {
    tlc_unit unit; /* of the block that the walk is at */
    const tlc_frame *frame;
    uint64_t blocks, next;
    size_t entry, offset, len; /* of the block's payload */
} block_walk;

static void walk_start(block_walk *w, const tlc_kernels *k, const tlc_frame *f, const tlc_sink *sink)
{
    backward_unit(&w->unit, k, f, sink);
    w->frame = f;
    w->blocks = f->codec.block ? tlc_ceil_div(f->n, f->codec.block) : 0;
    w->next = 0;
    w->entry = tlc_codec_entry_size(&f->codec);
    w->offset = (size_t)w->blocks * w->entry; /* once the table is known to fit */
    w->len = 0;
}

/* Moves to the next block; the table fits the frame, and there is a next one. */
static void walk_next(block_walk *w)
{
    size_t block = w->frame->codec.block;
    const uint8_t *entry = w->frame->payload + (size_t)w->next * w->entry;
    uint64_t first = w->next++ * block;

    for (size_t i = 0; i < w->frame->codec.value->value->scalars; i++)
        w->unit.scalars[i] = tlc_bits_float(tlc_load32(entry + 4 * i));
    w->unit.first = (size_t)first;
    w->unit.n = w->frame->n - first < block ? w->frame->n - first : block;
    w->offset += w->len;
    uint32_t len = tlc_load32(entry + w->entry - 4);
    w->len = len & ~TLC_BLOCK_SECOND;
    w->unit.second = (len & TLC_BLOCK_SECOND) != 0;
}

int tlc_pipeline_check(const tlc_kernels *k, const tlc_frame *f)
{
    block_walk w;

    if (!f->n)
        return !f->payload_size;
    if (!f->codec.block) {
        tlc_unit u;
        backward_unit(&u, k, f, NULL);
        return check_payload(&u, f->payload, f->payload_size);
    }
    walk_start(&w, k, f, NULL);
    if (w.blocks > f->payload_size / w.entry)
        return 0;
    while (w.next < w.blocks) {
        walk_next(&w);
        if (w.offset > f->payload_size || w.len > f->payload_size - w.offset ||
            !check_payload(&w.unit, f->payload + w.offset, w.len))
            return 0;
    }
    return w.offset + w.len == f->payload_size;
}

uint64_t tlc_pipeline_nonzero(const tlc_kernels *k, const tlc_frame *f)
{
    const tlc_coder_ops *coder = tlc_codec_coder(&f->codec)->coder;
    uint64_t sum = 0;
    block_walk w;

    if (!coder->nonzero)
        return TLC_UNKNOWN;
    if (f->n && !f->codec.block) {
        tlc_unit u;
        backward_unit(&u, k, f, NULL);
        sum = coder->nonzero(&u, f->payload, f->payload_size);
    }
    walk_start(&w, k, f, NULL);
    while (w.next < w.blocks) {
        walk_next(&w);
        sum += coder->nonzero(&w.unit, f->payload + w.offset, w.len);
    }
    return sum;
}

uint64_t tlc_pipeline_clipped(const tlc_frame *f)
{
    const tlc_coder_ops *coder = tlc_codec_coder(&f->codec)->coder;
    uint64_t sum = 0;
    block_walk w;

    if (!coder->clipped || !f->n)
        return 0;
    if (!f->codec.block)
        return coder->clipped(f->payload);
    walk_start(&w, NULL, f, NULL);
    while (w.next < w.blocks) {
        walk_next(&w);
        sum += coder->clipped(f->payload + w.offset);
    }
    return sum;
}

typedef struct backward_ranges {
    const tlc_unit *unit;
    const uint8_t *src;
    tlc_ranges ranges; /* of bytes of a shrunk payload, else of positions */
    size_t start[TLC_RANGES_MAX + 1]; /* the positions where they begin */
} backward_ranges;

static void backward_range(void *arg, size_t i)
{
    const backward_ranges *b = arg;
    const tlc_unit *u = b->unit;
    size_t from = tlc_range_start(&b->ranges, i), to = tlc_range_start(&b->ranges, i + 1);
    const tlc_coder_ops *coder = tlc_codec_coder(u->codec)->coder;

    if (u->codec->shrink)
        u->codec->shrink->shrink->backward(u, b->start[i], b->start[i + 1], b->src + from, to - from);
    else
        coder->backward(u, from, to, b->src + coder->head + from * coder->width(u->codec, u->dtype));
}

static void backward_payload(const tlc_unit *u, const uint8_t *src, size_t len, const tlc_parallel *parallel)
{
    const tlc_stage *shrink = u->codec->shrink;
    const tlc_coder_ops *coder = tlc_codec_coder(u->codec)->coder;
    size_t positions = (size_t)coder->positions(u->codec, u->n);
    backward_ranges b;

    if (coder->backward_all) {
        coder->backward_all(u, src, len);
        return;
    }
    b.unit = u;
    b.src = src;
    b.ranges = tlc_ranges_split(parallel, shrink ? len : positions, TLC_RANGE_MIN);
    b.start[0] = 0;
    for (size_t i = 0; shrink && i + 1 < b.ranges.count; i++) {
        size_t from = tlc_range_start(&b.ranges, i), to = tlc_range_start(&b.ranges, i + 1);
        b.start[i + 1] = b.start[i] + (size_t)shrink->shrink->positions(u->k, src + from, to - from);
    }
    b.start[b.ranges.count] = positions;
    tlc_ranges_run(parallel, b.ranges.count, backward_range, &b);
}

typedef struct backward_blocks {
    tlc_ranges groups; /* of blocks */
    block_walk walk[TLC_RANGES_MAX];
} backward_blocks;

static void backward_group(void *arg, size_t i)
{
    backward_blocks *b = arg;
    block_walk *w = &b->walk[i];

    for (uint64_t end = tlc_range_start(&b->groups, i + 1); w->next < end;) {
        walk_next(w);
        backward_payload(&w->unit, w->frame->payload + w->offset, w->len, NULL);
    }
}

void tlc_pipeline_backward(const tlc_kernels *k, const tlc_frame *f, const tlc_sink *sink,
                           const tlc_parallel *parallel)
{
    block_walk w;
    backward_blocks b;

    if (!f->n)
        return;
    if (!f->codec.block) {
        tlc_unit u;
        backward_unit(&u, k, f, sink);
        backward_payload(&u, f->payload, f->payload_size, parallel);
        return;
    }
    walk_start(&w, k, f, sink);
    b.groups = tlc_ranges_split(parallel, (size_t)w.blocks, TLC_RANGE_MIN / f->codec.block + 1);
    for (size_t i = 0; i < b.groups.count; i++) {
        while (w.next < tlc_range_start(&b.groups, i))
            walk_next(&w);
        b.walk[i] = w;
    }
    tlc_ranges_run(parallel, b.groups.count, backward_group, &b);
}
