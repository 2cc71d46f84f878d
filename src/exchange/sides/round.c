/* SPDX-License-Identifier: MIT */
#include "round.h"
#include "../../frames/decode_many.h"

void tlc_round_init(tlc_round *r, tlc_setup *x, uint32_t owner)
{
    uint32_t workers = x->cfg.workers;
    tlc_memory *m = &x->memory;

    *r = (tlc_round){.x = x, .owner = owner};
    r->push = tlc_memory_take(m, workers, sizeof *r->push);
    r->bits = tlc_memory_take(m, TLC_BITMAP(workers), 1);
    r->frame = tlc_memory_take(m, workers, sizeof *r->frame);
    r->factor = tlc_memory_take(m, workers, sizeof *r->factor);
    r->from = tlc_memory_take(m, workers, sizeof *r->from);
}

void tlc_round_clear(tlc_round *r)
{
    memset(r->push, 0, r->x->cfg.workers * sizeof *r->push);
    memset(r->bits, 0, TLC_BITMAP(r->x->cfg.workers));
    r->came = r->taken = 0;
}

void tlc_round_enter(tlc_round *r, tlc_message message, const tlc_head *head, const tlc_bundle_reader *frames)
{
    tlc_arrival *a = &r->push[head->sender];

    a->came = 1;
    a->taken = !head->failed && !head->absent;
    a->message = message;
    a->head = *head;
    a->frames = *frames;
    r->came++;
    if (a->taken) {
        r->taken++;
        r->bits[head->sender / 8] |= (uint8_t)(1 << head->sender % 8);
    }
}

void tlc_round_leave(tlc_round *r, uint32_t worker)
{
    r->push[worker].taken = 0;
    r->taken--;
    r->bits[worker / 8] &= (uint8_t)~(1 << worker % 8);
}

void tlc_round_start(tlc_round *r)
{
    tlc_float_mode mode = tlc_float_enter();

    r->weight = 0;
    r->group = 0;
    for (uint32_t w = 0; w < r->x->cfg.workers; w++) {
        tlc_arrival *a = &r->push[w];
        a->next = a->frames;
        if (a->taken)
            r->weight += a->head.weight;
    }
    tlc_float_leave(mode);
}

/* The factor of a worker's frame in a sum or mean. */
static float factor_of(const tlc_round *r, const tlc_arrival *a, uint32_t pusher)
{
    if (r->x->cfg.sum)
        return (float)a->head.weight;
    return pusher ? 1.0f : (float)(a->head.weight / r->weight);
}

void tlc_round_next(tlc_round *r)
{
    tlc_float_mode mode = tlc_float_enter();

    r->group++;
    r->count = 0;
    const uint32_t pusher = tlc_round_group(r)->pusher;
    for (uint32_t w = 0; w < r->x->cfg.workers; w++) {
        tlc_arrival *a = &r->push[w];
        tlc_message frame;
        if (!a->taken)
            continue;
        (void)tlc_bundle_next(&a->next, &frame.data, &frame.len);
        if (pusher && pusher != w + 1 && !frame.len)
            continue;
        r->frame[r->count] = frame;
        r->factor[r->count] = factor_of(r, a, pusher);
        r->from[r->count++] = w;
    }
    tlc_float_leave(mode);
}

static tlc_many many_of(const tlc_round *r, float *sum, const tlc_parallel *parallel)
{
    return (tlc_many){.k = r->x->k,
                      .frames = r->frame,
                      .weights = r->factor,
                      .count = r->count,
                      .sum = sum,
                      .n = tlc_round_group(r)->n,
                      .from_zero = 1,
                      .parallel = parallel};
}

tlc_status tlc_round_check(const tlc_round *r, tlc_finding *finding)
{
    const tlc_ownership_group *group = tlc_round_group(r);
    const tlc_many many = many_of(r, NULL, &r->x->cfg.parallel);
    size_t bad = r->count;
    tlc_status status = tlc_many_check(&many, &bad);

    /* a frame of a worker that does not push these tensors */
    for (size_t i = 0; group->pusher && i < bad; i++)
        if (r->from[i] != group->pusher - 1) {
            status = TLC_ERR_CORRUPT;
            bad = i;
        }
    if (status) {
        *finding = tlc_finding_of(TLC_REASON_FRAME);
        finding->cause = status;
        finding->role = tlc_setup_pusher(r->x);
        finding->rank = r->from[bad];
        finding->tensor = tlc_round_tensor(r);
    }
    return status;
}

/* A magnitude that no value of a frame exceeds, as its header tells. DBL_MAX: only its values tell. */
static double frame_limit(tlc_message message)
{
    double limit = 0;
    tlc_frame f;

    (void)tlc_frame_read(&f, message.data, message.len, NULL, 0);
    if (f.codec.quantizer == &tlc_stage_natural && f.codec.params[TLC_NATURAL_BITS] < 1)
        return tlc_bits_float((uint32_t)(127 + TLC_NATURAL_MOST + (int)f.codec.params[TLC_NATURAL_SHIFT]) << 23);
    unsigned scalars = tlc_scalar_count(f.codec.quantizer->quantize, f.codec.params);
    if (f.codec.block || !scalars)
        return DBL_MAX;
    for (unsigned i = 0; i < scalars; i++) {
        double scalar = tlc_bits_float(tlc_float_bits(f.scalars[i]) & TLC_F32_ABS);
        limit = scalar > limit ? scalar : limit;
    }
    return limit;
}

int tlc_round_finite(const tlc_round *r, float *scratch)
{
    tlc_parallel parallel = r->x->cfg.parallel;
    tlc_threads threads;
    double limit = 0;
    int finite = 1;

    tlc_threads_enter(&threads, &parallel);
    for (size_t i = 0; i < r->count; i++)
        limit += r->factor[i] * frame_limit(r->frame[i]);
    if (!(limit < FLT_MAX / 2)) {
        const tlc_many many = many_of(r, scratch, &parallel);
        tlc_many_add(&many);
        finite = r->x->k->absmax(scratch, NULL, many.n) < TLC_F32_INF;
    }
    tlc_threads_leave(&threads);
    return finite;
}

void tlc_round_add(const tlc_round *r, float *sum)
{
    tlc_parallel parallel = r->x->cfg.parallel;
    const tlc_many many = many_of(r, sum, &parallel);
    tlc_threads threads;

    tlc_threads_enter(&threads, &parallel);
    tlc_many_add(&many);
    tlc_threads_leave(&threads);
}
