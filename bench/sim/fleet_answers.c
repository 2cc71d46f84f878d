/* SPDX-License-Identifier: MIT */
#include "fleet_answers.h"
#include "../lib/explain.h"
#include "fleet_crossing.h"
#include <stdlib.h>
#include <string.h>

struct fleet_answers {
    fleet *f;
    const char *codec;      /* of answers */
    kernels pushed;         /* of pushes, which are decoded */
    crossing_device device; /* of answers */
    bool is_there, is_open;
    size_t parts;
    crossing *answer; /* by part; n 0: it shares a frame, and stays on the host */
    crossing *push;   /* of part i and rank r: i * ranks + r */
    tlc_message *came, *frames;
    float *factors;
    void *scratch;
};

static size_t ranks_of(const fleet_answers *a)
{
    return a->f->options.ranks;
}

fleet_answers *fleet_answers_open(fleet *f)
{
    const char *codec = tlc_pull_codec(f->options.codec);
    fleet_answers *a = calloc(1, sizeof *a);

    if (!a)
        return NULL;
    *a = (fleet_answers){.f = f,
                         .codec = codec,
                         .pushed = kernels_of(f->options.codec),
                         .device = {.kernels = kernels_of(codec)}};
    a->is_there = f->options.algorithm == ALL_REDUCE && a->pushed.adds && a->device.kernels.adds;
    return a;
}

void fleet_answers_close(fleet_answers *a)
{
    if (!a)
        return;
    for (size_t i = 0; a->answer && i < a->parts; i++)
        free(a->answer[i].residual);
    crossing_free_all(a->answer, a->parts);
    crossing_free_all(a->push, a->parts * ranks_of(a));
    free(a->came);
    free(a->frames);
    free(a->factors);
    free(a->device.frame);
    free(a->device.values);
    free(a->scratch);
    free(a);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool open_crossing(crossing *c, const tlc_part *part, const char *codec, size_t block, kernel_form form)
{
    *c = (crossing){.tensor = part->tensor, .first = part->first, .n = part->n};
    return crossing_make_room(c, codec, block, form);
}

static bool open_quantizer(const fleet_answers *a, crossing *c)
{
    tlc_config cfg;

    c->frame = malloc(c->bound);
    c->residual = calloc(c->n, sizeof *c->residual);
    if (!c->frame || !c->residual)
        return false;
    (void)tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = a->codec;
    cfg.isa = a->f->options.isa;
    cfg.residual = c->residual;
    return !tlc_create(&c->quantizer, &cfg, c->n);
}

static bool open_part(const fleet_answers *a, size_t i, size_t *largest, size_t *bound)
{
    const kernels *k = &a->device.kernels;
    tlc_part part = {.struct_size = sizeof part};
    bool ok = !tlc_allreduce_part(a->f->member[0], i, &part) &&
              open_crossing(&a->answer[i], &part, a->codec, k->block, k->push) && open_quantizer(a, &a->answer[i]);

    for (size_t r = 0; ok && r < ranks_of(a); r++)
        ok = open_crossing(&a->push[i * ranks_of(a) + r], &part, a->f->options.codec, a->pushed.block,
                           a->pushed.answer);
    *largest = part.n > *largest ? part.n : *largest;
    *bound = ok && a->answer[i].bound > *bound ? a->answer[i].bound : *bound;
    return ok;
}

/* The frames of pushes. */
static bool look(const fleet_answers *a, char *why)
{
    const fleet *f = a->f;

    for (size_t r = 0; r < ranks_of(a); r++)
        f->came[r] = f->push[r * f->receivers];
    return crossing_done(tlc_allreduce_owned_frames(f->member[0], f->came, a->came, a->factors),
                         "tlc_allreduce_owned_frames", why);
}

/* With the first pushes, when rank 0 is there. */
static bool open_all(fleet_answers *a, char *why)
{
    const size_t parts = tlc_allreduce_parts(a->f->member[0]);
    size_t largest = 0, bound = 0;

    a->parts = parts;
    a->answer = calloc(parts + 1, sizeof *a->answer);
    a->push = calloc(parts * ranks_of(a) + 1, sizeof *a->push);
    a->came = calloc(parts * ranks_of(a) + 1, sizeof *a->came);
    a->frames = calloc(parts + 1, sizeof *a->frames);
    a->factors = calloc(parts * ranks_of(a) + 1, sizeof *a->factors);
    a->is_open = a->answer && a->push && a->came && a->frames && a->factors;
    if (a->is_open && !look(a, why))
        return false;
    for (size_t i = 0; a->is_open && i < parts; i++) {
        if (a->came[i * ranks_of(a)].len)
            a->is_open = open_part(a, i, &largest, &bound);
    }
    a->device.frame = malloc(bound + 1);
    a->device.values = malloc((largest + 1) * sizeof *a->device.values);
    a->scratch = malloc(tlc_quartic_scratch(a->codec, largest) + 1);
    a->is_open = a->is_open && a->device.frame && a->device.values && a->scratch;
    return a->is_open || explain(why, "out of memory");
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

/* The residual is that of the object, which comes and goes with it. */
static bool answer_part(fleet_answers *a, size_t i, char *why)
{
    tlc_part part = {.struct_size = sizeof part};
    crossing *c = &a->answer[i];
    float *sum = a->device.values;
    bool ok = crossing_done(tlc_allreduce_part(a->f->member[0], i, &part), "tlc_allreduce_part", why);

    memset(sum, 0, c->n * sizeof *sum);
    for (size_t r = 0; ok && r < ranks_of(a); r++) {
        const size_t at = i * ranks_of(a) + r;
        ok = crossing_done(tlc_decompress_add(a->came[at].data, a->came[at].len, a->factors[at], sum, c->n, NULL),
                           "tlc_decompress_add", why);
    }
    if (!ok)
        return false;
    memcpy(c->residual, part.residual, c->n * sizeof *sum);
    ok = crossing_quantize(&a->device, c, sum, why);
    memcpy((float *)(uintptr_t)part.residual, c->residual, c->n * sizeof *sum);
    return ok;
}

bool fleet_answers_quantize(fleet_answers *a, char *why)
{
    bool ok = true;

    if (!a->is_there)
        return true;
    if (!a->is_open && !open_all(a, why))
        return false;
    ok = look(a, why);
    for (size_t i = 0; ok && i < a->parts; i++)
        ok = !a->answer[i].n || answer_part(a, i, why);
    return ok;
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static bool make_frame(fleet_answers *a, size_t i, char *why)
{
    crossing *c = &a->answer[i];
    tlc_quartic_params params;

    (void)tlc_quartic_params_init(&params, sizeof params);
    params.codec = a->codec;
    params.scratch = a->scratch;
    a->frames[i].data = c->frame;
    return crossing_done((a->device.kernels.push == QUARTIC ? tlc_compress_quartic
                                                            : tlc_compress_payload)(c->bytes, c->size, c->scalars, c->n,
                                                                                    &params, c->frame, c->bound,
                                                                                    &a->frames[i].len),
                         "a frame of what was quantized", why);
}

bool fleet_answers_reduce(fleet_answers *a, char *why)
{
    bool ok = true;

    if (!a->is_there)
        return fleet_reduce(a->f, 0, why);
    ok = look(a, why);
    for (size_t i = 0; ok && i < a->parts * ranks_of(a); i++) {
        ok = !a->push[i].n || crossing_take(&a->push[i], a->pushed.answer, a->came[i].data, a->came[i].len, why);
        if (ok && a->push[i].n && a->pushed.answer_stages.nonzero > 0)
            a->push[i].nonzero = crossing_codes(&a->push[i]);
    }
    for (size_t i = 0; ok && i < a->parts; i++)
        ok = !a->answer[i].n || make_frame(a, i, why);
    a->f->frames = a->frames;
    ok = ok && fleet_reduce(a->f, 0, why);
    a->f->frames = NULL;
    return ok;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static double bytes_of_stages(const crossing *c, const stage_bytes *s)
{
    return (double)c->quartic * s->quartic + (double)c->nonzero * s->nonzero + (double)c->size * s->payload;
}

/* Sums are written, and quantized like gradients. */
model_device_load fleet_answers_moved(const fleet_answers *a)
{
    const kernels *answered = &a->device.kernels;
    model_device_load load = {.memory = 0};

    for (size_t i = 0; i < a->parts * ranks_of(a); i++) {
        const crossing *c = &a->push[i];
        load.memory += (double)c->size + bytes_of_stages(c, &a->pushed.answer_stages);
        load.to_device += (double)c->size;
    }
    for (size_t i = 0; i < a->parts; i++) {
        const crossing *c = &a->answer[i];
        load.memory += (double)c->n * (sizeof(float) + answered->push_bytes) + (double)c->size +
                       bytes_of_stages(c, &answered->push_stages);
        load.to_host += (double)c->size;
    }
    return load;
}
