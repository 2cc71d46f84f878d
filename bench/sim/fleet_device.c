/* SPDX-License-Identifier: MIT */
#include "fleet_device.h"
#include "../lib/explain.h"
#include "fleet_crossing.h"
#include <stdlib.h>
#include <string.h>

struct fleet_device {
    fleet *f;
    const char *answers_codec;
    crossing_device device;
    kernels answered; /* of the codec of answers */
    bool is_open;
    crossing *push, *answer;
    size_t pushes, answers;
    tlc_message *frames; /* of all pushes, or of all answers */
    void **out;          /* by tensor; NULL: its frames are taken */
    void *scratch;
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool has_workers(const fleet_device *d)
{
    return d->f->options.algorithm == SERVER;
}

static tlc_status part_of(const fleet_device *d, bool push, size_t i, tlc_part *part)
{
    if (has_workers(d))
        return (push ? tlc_worker_pushed_part : tlc_worker_pulled_part)(d->f->worker[0], i, part);
    return (push ? tlc_allreduce_pushed_part : tlc_allreduce_pulled_part)(d->f->member[0], i, part);
}

static size_t count_of(const fleet_device *d, bool push)
{
    if (has_workers(d))
        return (push ? tlc_worker_pushed_parts : tlc_worker_pulled_parts)(d->f->worker[0]);
    return (push ? tlc_allreduce_pushed_parts : tlc_allreduce_pulled_parts)(d->f->member[0]);
}

static tlc_ctx *make_context(const fleet_device *d, const crossing *c, uint64_t seed, bool feedback)
{
    tlc_ctx *ctx = NULL;
    tlc_config cfg;

    (void)tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = d->f->options.codec;
    cfg.isa = d->f->options.isa;
    cfg.seed = seed;
    if (feedback)
        cfg.residual = c->residual;
    else
        cfg.feedback = 0;
    return tlc_create(&ctx, &cfg, c->n) ? NULL : ctx;
}

static bool open_crossing(const fleet_device *d, crossing *c, bool push, size_t i)
{
    const kernels *k = push ? &d->device.kernels : &d->answered;
    const char *codec = push ? d->f->options.codec : d->answers_codec;
    tlc_part part = {.struct_size = sizeof part};

    if (part_of(d, push, i, &part))
        return false;
    *c = (crossing){.tensor = part.tensor,
                    .first = part.first,
                    .n = part.n,
                    .residual = (float *)(uintptr_t)part.residual};
    if (!crossing_make_room(c, codec, k->block, push ? k->push : k->answer))
        return false;
    if (push) {
        c->frame = malloc(c->bound);
        c->quantizer = make_context(d, c, part.seed, true);
        c->other = k->both_sides ? make_context(d, c, part.seed, false) : NULL;
    }
    return !push || (c->frame && c->quantizer && (c->other || !k->both_sides));
}

static bool open_crossings(const fleet_device *d, bool push, crossing **all, size_t *count)
{
    const size_t wanted = (push ? d->device.kernels.push : d->answered.answer) == VALUES ? 0 : count_of(d, push);

    *all = calloc(wanted + 1, sizeof **all);
    *count = 0;
    for (size_t i = 0; *all && i < wanted; i++) {
        *count = i + 1;
        if (!open_crossing(d, &(*all)[i], push, i))
            return false;
    }
    return *all;
}

/* Steps of exchanges begin with 1, those of contexts with 0, and random words depend on them. */
static bool skip_step(const fleet_device *d, const crossing *c)
{
    float *residual = c->residual, *zeros = calloc(c->n + 1, sizeof *zeros);
    size_t len;

    if (residual) {
        memcpy(d->device.values, residual, c->n * sizeof *residual);
        memset(residual, 0, c->n * sizeof *residual);
    }
    const bool ok = zeros && !tlc_compress(c->quantizer, zeros, d->device.frame, c->bound, &len);
    if (residual)
        memcpy(residual, d->device.values, c->n * sizeof *residual);
    free(zeros);
    return ok;
}

/* With the first push, when rank 0 is there. */
static bool open_all(fleet_device *d)
{
    const char *codec = d->f->options.codec;
    size_t largest = 0, bound = 0, scratch = 0, most;

    if (!open_crossings(d, true, &d->push, &d->pushes) || !open_crossings(d, false, &d->answer, &d->answers))
        return false;
    for (size_t i = 0; i < d->pushes; i++) {
        const size_t n = d->push[i].n, quartic = tlc_quartic_scratch(codec, n), chosen = tlc_members_scratch(codec, n);
        largest = n > largest ? n : largest;
        bound = d->push[i].bound > bound ? d->push[i].bound : bound;
        scratch = quartic > scratch ? quartic : scratch;
        scratch = chosen > scratch ? chosen : scratch;
    }
    most = d->pushes > d->answers ? d->pushes : d->answers;
    d->frames = calloc(most + 1, sizeof *d->frames);
    d->out = calloc(d->f->model->count, sizeof *d->out);
    d->device.frame = malloc(bound + 1);
    d->device.values = calloc(largest + 1, sizeof *d->device.values);
    d->scratch = malloc(scratch + 1);
    d->is_open = d->frames && d->out && d->device.frame && d->device.values && d->scratch;
    for (size_t i = 0; d->is_open && i < d->pushes; i++)
        d->is_open = skip_step(d, &d->push[i]);
    return d->is_open;
}

fleet_device *fleet_device_open(fleet *f)
{
    fleet_device *d = calloc(1, sizeof *d);

    if (d)
        *d = (fleet_device){.f = f,
                            .answers_codec = tlc_pull_codec(f->options.codec),
                            .device = {.kernels = kernels_of(f->options.codec)},
                            .answered = kernels_of(tlc_pull_codec(f->options.codec))};
    return d;
}

void fleet_device_close(fleet_device *d)
{
    if (!d)
        return;
    crossing_free_all(d->push, d->pushes);
    crossing_free_all(d->answer, d->answers);
    free(d->frames);
    free(d->out);
    free(d->device.frame);
    free(d->device.values);
    crossing_free_members(&d->device.sides[0]);
    crossing_free_members(&d->device.sides[1]);
    free(d->scratch);
    free(d);
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

bool fleet_device_quantize(fleet_device *d, const void *const *grads, char *why)
{
    bool ok = d->is_open || open_all(d) || explain(why, "out of memory");

    for (size_t i = 0; ok && i < d->pushes; i++)
        ok = crossing_quantize(&d->device, &d->push[i], (const float *)grads[d->push[i].tensor] + d->push[i].first,
                               why);
    return ok;
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static tlc_status make_frame(const fleet_device *d, crossing *c, size_t *len)
{
    const char *codec = d->f->options.codec;
    tlc_quartic_params params;
    tlc_members_params chosen;

    if (d->device.kernels.push == MEMBERS) {
        (void)tlc_members_params_init(&chosen, sizeof chosen);
        chosen.codec = codec;
        chosen.scratch = d->scratch;
        chosen.sent = c->sent;
        return tlc_compress_members(c->chosen.positions, c->chosen.values, c->chosen.k, c->n, &chosen, c->frame,
                                    c->bound, len);
    }
    (void)tlc_quartic_params_init(&params, sizeof params);
    params.codec = codec;
    params.scratch = d->scratch;
    return (d->device.kernels.push == QUARTIC ? tlc_compress_quartic : tlc_compress_payload)(c->bytes, c->size,
                                                                                             c->scalars, c->n, &params,
                                                                                             c->frame, c->bound, len);
}

bool fleet_device_push(fleet_device *d, const void *const *grads, char *why)
{
    tlc_message *to = d->f->push;
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < d->pushes; i++) {
        status = make_frame(d, &d->push[i], &d->frames[i].len);
        d->frames[i].data = d->push[i].frame;
    }
    if (!crossing_done(status, "a frame of what was quantized", why))
        return false;
    if (!d->pushes)
        return fleet_push(d->f, 0, grads, why);
    if (has_workers(d))
        return crossing_done(tlc_worker_push_frames(d->f->worker[0], grads, d->frames, 1, to), "tlc_worker_push_frames",
                             why);
    return crossing_done(tlc_allreduce_push_frames(d->f->member[0], grads, d->frames, 1, to),
                         "tlc_allreduce_push_frames", why);
}

bool fleet_device_pull(fleet_device *d, void *const *out, char *why)
{
    const tlc_message *from = d->f->answer;
    bool ok;

    if (!d->answers)
        return fleet_pull(d->f, 0, out, why);
    memcpy(d->out, out, d->f->model->count * sizeof *d->out);
    for (size_t i = 0; i < d->answers; i++)
        d->out[d->answer[i].tensor] = NULL;
    ok = has_workers(d) ? crossing_done(tlc_worker_pull_frames(d->f->worker[0], from, d->out, d->frames),
                                        "tlc_worker_pull_frames", why)
                        : crossing_done(tlc_allreduce_pull_frames(d->f->member[0], from, d->out, d->frames),
                                        "tlc_allreduce_pull_frames", why);
    for (size_t i = 0; ok && i < d->answers; i++) {
        ok = crossing_take(&d->answer[i], d->answered.answer, d->frames[i].data, d->frames[i].len, why);
        if (ok && d->answered.answer_stages.nonzero > 0)
            d->answer[i].nonzero = crossing_codes(&d->answer[i]);
    }
    return ok;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* Other values than those of the parts cross as they are. */
static double other_bytes(const fleet_device *d, const crossing *all, size_t count)
{
    size_t values = d->f->model->values;

    for (size_t i = 0; i < count; i++)
        values -= all[i].n;
    return sizeof(float) * (double)values;
}

/* A member that goes to the host has 4 bytes for its position, and one that comes 8. */
static double bytes_of(const crossing *c, kernel_form form, size_t position)
{
    return (double)(form == MEMBERS ? c->chosen.k * (position + sizeof(float)) : c->size);
}

static double bytes_of_stages(const crossing *c, const stage_bytes *s)
{
    return (double)c->quartic * s->quartic + (double)c->nonzero * s->nonzero + (double)c->size * s->payload;
}

model_device_load fleet_device_pushed(const fleet_device *d)
{
    model_device_load load = {.to_host = other_bytes(d, d->push, d->pushes)};

    for (size_t i = 0; i < d->pushes; i++) {
        const crossing *c = &d->push[i];
        const double bytes = bytes_of(c, d->device.kernels.push, 4);
        load.memory += (double)c->n * d->device.kernels.push_bytes + bytes +
                       bytes_of_stages(c, &d->device.kernels.push_stages);
        load.to_host += bytes;
        load.to_device += d->device.kernels.returns ? (double)c->chosen.k * sizeof(float) : 0;
    }
    return load;
}

model_device_load fleet_device_pulled(const fleet_device *d)
{
    model_device_load load = {.to_device = other_bytes(d, d->answer, d->answers)};

    for (size_t i = 0; i < d->answers; i++) {
        const crossing *c = &d->answer[i];
        const double bytes = bytes_of(c, d->answered.answer, 8);
        load.memory += (double)c->n * d->answered.answer_bytes + bytes + bytes_of_stages(c, &d->answered.answer_stages);
        load.to_device += bytes;
    }
    return load;
}
