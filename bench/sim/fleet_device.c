/* SPDX-License-Identifier: MIT */
#include "fleet_device.h"
#include "../lib/explain.h"
#include "kernels.h"
#include <stdlib.h>
#include <string.h>
#include <threelc/frames.h>

/* Positions and values, which rise. */
typedef struct members {
    uint64_t *positions;
    float *values;
    size_t k, room;
} members;

/* A part of the model that has a frame of its own, in pushes or in answers. */
typedef struct crossing {
    size_t tensor, first, n;
    unsigned char *bytes; /* that cross: quartic bytes, or a payload */
    size_t size, room;
    float *scalars; /* with quartic bytes one for each block, with payloads 2 */
    size_t blocks;
    members chosen; /* or these cross */
    /* of pushes: */
    tlc_ctx *quantizer, *other; /* other: of the sign that is not sent; NULL: the codec chooses at once */
    float *residual;            /* the memory of the fleet */
    float *sent;                /* what members decode to */
    size_t sent_room;
    unsigned char *frame;
    size_t bound;
} crossing;

struct fleet_device {
    fleet *f;
    const char *answers_codec;
    kernels kernels, answered; /* of the codec of pushes, and of that of answers */
    bool is_open;
    crossing *push, *answer;
    size_t pushes, answers;
    tlc_message *frames;  /* of all pushes, or of all answers */
    void **out;           /* by tensor; NULL: its frames are taken */
    unsigned char *frame; /* of the device */
    float *values;        /* of the largest part: residual + gradient */
    members sides[2];
    void *scratch;
};

static bool check(tlc_status status, const char *call, char *why)
{
    return !status || explain(why, "%s: %s", call, tlc_status_string(status));
}

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

/* Bytes of the symbols of n values. */
static size_t quartic_size(size_t n, size_t block)
{
    const size_t whole = block ? n / block : 0, rest = n - whole * block;

    return whole * ((block + 4) / 5) + (rest + 4) / 5;
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
    const kernels *k = push ? &d->kernels : &d->answered;
    const char *codec = push ? d->f->options.codec : d->answers_codec;
    tlc_part part = {.struct_size = sizeof part};

    if (part_of(d, push, i, &part))
        return false;
    *c = (crossing){.tensor = part.tensor,
                    .first = part.first,
                    .n = part.n,
                    .residual = (float *)(uintptr_t)part.residual};
    c->blocks = k->block ? (c->n + k->block - 1) / k->block : 1;
    if (tlc_codec_bound(codec, TLC_F32, c->n, &c->bound))
        return false;
    c->room = (push ? k->push : k->answer) == QUARTIC ? quartic_size(c->n, k->block) : c->bound;
    c->bytes = malloc(c->room + 1);
    c->scalars = calloc(c->blocks + 2, sizeof *c->scalars);
    if (push) {
        c->frame = malloc(c->bound);
        c->quantizer = make_context(d, c, part.seed, true);
        c->other = k->both_sides ? make_context(d, c, part.seed, false) : NULL;
    }
    return c->bytes && c->scalars && (!push || (c->frame && c->quantizer && (c->other || !k->both_sides)));
}

static bool open_crossings(const fleet_device *d, bool push, crossing **all, size_t *count)
{
    const size_t wanted = (push ? d->kernels.push : d->answered.answer) == VALUES ? 0 : count_of(d, push);

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
        memcpy(d->values, residual, c->n * sizeof *residual);
        memset(residual, 0, c->n * sizeof *residual);
    }
    const bool ok = zeros && !tlc_compress(c->quantizer, zeros, d->frame, c->bound, &len);
    if (residual)
        memcpy(residual, d->values, c->n * sizeof *residual);
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
    d->frame = malloc(bound + 1);
    d->values = calloc(largest + 1, sizeof *d->values);
    d->scratch = malloc(scratch + 1);
    d->is_open = d->frames && d->out && d->frame && d->values && d->scratch;
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
                            .kernels = kernels_of(f->options.codec),
                            .answered = kernels_of(tlc_pull_codec(f->options.codec))};
    return d;
}

static void free_members(members *m)
{
    free(m->positions);
    free(m->values);
}

static void close_crossings(crossing *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(all[i].bytes);
        free(all[i].scalars);
        free_members(&all[i].chosen);
        free(all[i].sent);
        free(all[i].frame);
        tlc_destroy(all[i].quantizer);
        tlc_destroy(all[i].other);
    }
    free(all);
}

void fleet_device_close(fleet_device *d)
{
    if (!d)
        return;
    close_crossings(d->push, d->pushes);
    close_crossings(d->answer, d->answers);
    free(d->frames);
    free(d->out);
    free(d->frame);
    free(d->values);
    free_members(&d->sides[0]);
    free_members(&d->sides[1]);
    free(d->scratch);
    free(d);
}

/* ---- what crosses from a frame ----------------------------------------------------------------------------------- */

static bool make_room(members *m, size_t k)
{
    if (k > m->room) {
        free_members(m);
        m->positions = malloc(k * sizeof *m->positions);
        m->values = malloc(k * sizeof *m->values);
        m->room = m->positions && m->values ? k : 0;
    }
    return k <= m->room;
}

static bool take_members(members *m, size_t n, const unsigned char *frame, size_t len, char *why)
{
    tlc_frame_info info = {.struct_size = sizeof info};

    if (!check(tlc_inspect(frame, len, &info), "tlc_inspect", why))
        return false;
    if (!make_room(m, (size_t)info.nonzero))
        return explain(why, "out of memory");
    return check(tlc_decompress_members(frame, len, n, m->positions, m->values, m->room, &m->k, NULL),
                 "tlc_decompress_members", why);
}

static bool take_payload(crossing *c, const unsigned char *frame, size_t len, char *why)
{
    tlc_frame_info info = {.struct_size = sizeof info};

    if (!check(tlc_peek(frame, len, &info), "tlc_peek", why))
        return false;
    c->size = (size_t)info.payload_size;
    memcpy(c->bytes, frame + info.header_size, c->size);
    return true;
}

/* form: of what crosses. */
static bool take_frame(crossing *c, kernel_form form, const unsigned char *frame, size_t len, char *why)
{
    if (form == MEMBERS)
        return take_members(&c->chosen, c->n, frame, len, why);
    if (form == PAYLOAD)
        return take_payload(c, frame, len, why);
    c->size = c->room;
    return check(tlc_decompress_quartic(frame, len, c->n, c->bytes, c->size, c->scalars, c->blocks, NULL),
                 "tlc_decompress_quartic", why);
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

/* The scalars of an unblocked frame: the last ones before the payload, little-endian. */
static void read_scalars(const fleet_device *d, crossing *c, size_t len)
{
    const unsigned char *at = d->frame + len - c->size - d->kernels.scalars * sizeof(float);

    for (size_t i = 0; i < d->kernels.scalars; i++, at += sizeof(float)) {
        const uint32_t bits = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        memcpy(&c->scalars[i], &bits, sizeof bits);
    }
}

/* Residual + gradient, which the quantizer begins with. */
static void add_residual(const fleet_device *d, const crossing *c, const float *grad)
{
    for (size_t i = 0; i < c->n; i++)
        d->values[i] = c->residual ? grad[i] + c->residual[i] : grad[i];
}

static void set_values(const fleet_device *d, members *m)
{
    for (size_t i = 0; i < m->k; i++)
        m->values[i] = d->values[m->positions[i]];
}

/* Puts both sides together, in the order of their positions. */
static bool merge(fleet_device *d, members *to)
{
    const members *a = &d->sides[0], *b = &d->sides[1];

    if (!make_room(to, a->k + b->k))
        return false;
    to->k = 0;
    for (size_t i = 0, j = 0; i < a->k || j < b->k;) {
        const bool first = j == b->k || (i < a->k && a->positions[i] < b->positions[j]);
        to->positions[to->k] = first ? a->positions[i] : b->positions[j];
        to->values[to->k++] = first ? a->values[i++] : b->values[j++];
    }
    return true;
}

/* Adds the members of the other sign to those that are sent: what is chosen where there is no value of this one. */
static bool add_other_side(fleet_device *d, crossing *c, char *why)
{
    members *sent = &d->sides[0], *other = &d->sides[1];
    const bool positive = c->chosen.k && c->chosen.values[0] > 0;
    size_t len;

    if (!make_room(sent, c->chosen.k))
        return explain(why, "out of memory");
    sent->k = c->chosen.k;
    memcpy(sent->positions, c->chosen.positions, sent->k * sizeof *sent->positions);
    memcpy(sent->values, c->chosen.values, sent->k * sizeof *sent->values);
    for (size_t i = 0; i < c->n; i++)
        d->values[i] = (d->values[i] > 0) == positive ? 0 : d->values[i];
    if (!check(tlc_compress(c->other, d->values, d->frame, c->bound, &len), "tlc_compress", why) ||
        !take_members(other, c->n, d->frame, len, why))
        return false;
    set_values(d, other);
    return merge(d, &c->chosen) || explain(why, "out of memory");
}

static bool choose(fleet_device *d, crossing *c, char *why)
{
    set_values(d, &c->chosen);
    if (d->kernels.both_sides && !add_other_side(d, c, why))
        return false;
    if (c->sent && c->sent_room >= c->chosen.room)
        return true;
    free(c->sent);
    c->sent_room = c->chosen.room;
    c->sent = malloc((c->sent_room + 1) * sizeof *c->sent);
    return c->sent || explain(why, "out of memory");
}

static bool quantize(fleet_device *d, crossing *c, const float *grad, char *why)
{
    size_t len;

    if (d->kernels.push == MEMBERS)
        add_residual(d, c, grad);
    if (!check(tlc_compress(c->quantizer, grad, d->frame, c->bound, &len), "tlc_compress", why) ||
        !take_frame(c, d->kernels.push, d->frame, len, why))
        return false;
    if (d->kernels.push == PAYLOAD)
        read_scalars(d, c, len);
    return d->kernels.push != MEMBERS || choose(d, c, why);
}

bool fleet_device_quantize(fleet_device *d, const void *const *grads, char *why)
{
    bool ok = d->is_open || open_all(d) || explain(why, "out of memory");

    for (size_t i = 0; ok && i < d->pushes; i++)
        ok = quantize(d, &d->push[i], (const float *)grads[d->push[i].tensor] + d->push[i].first, why);
    return ok;
}

/* ---- the host ---------------------------------------------------------------------------------------------------- */

static tlc_status make_frame(const fleet_device *d, crossing *c, size_t *len)
{
    const char *codec = d->f->options.codec;
    tlc_quartic_params params;
    tlc_members_params chosen;

    if (d->kernels.push == MEMBERS) {
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
    return (d->kernels.push == QUARTIC ? tlc_compress_quartic : tlc_compress_payload)(c->bytes, c->size, c->scalars,
                                                                                      c->n, &params, c->frame, c->bound,
                                                                                      len);
}

bool fleet_device_push(fleet_device *d, const void *const *grads, char *why)
{
    tlc_message *to = d->f->push;
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < d->pushes; i++) {
        status = make_frame(d, &d->push[i], &d->frames[i].len);
        d->frames[i].data = d->push[i].frame;
    }
    if (!check(status, "a frame of what was quantized", why))
        return false;
    if (!d->pushes)
        return fleet_push(d->f, 0, grads, why);
    if (has_workers(d))
        return check(tlc_worker_push_frames(d->f->worker[0], grads, d->frames, 1, to), "tlc_worker_push_frames", why);
    return check(tlc_allreduce_push_frames(d->f->member[0], grads, d->frames, 1, to), "tlc_allreduce_push_frames", why);
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
    ok = has_workers(d)
             ? check(tlc_worker_pull_frames(d->f->worker[0], from, d->out, d->frames), "tlc_worker_pull_frames", why)
             : check(tlc_allreduce_pull_frames(d->f->member[0], from, d->out, d->frames), "tlc_allreduce_pull_frames",
                     why);
    for (size_t i = 0; ok && i < d->answers; i++)
        ok = take_frame(&d->answer[i], d->answered.answer, d->frames[i].data, d->frames[i].len, why);
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

model_device_load fleet_device_pushed(const fleet_device *d)
{
    model_device_load load = {.to_host = other_bytes(d, d->push, d->pushes)};

    for (size_t i = 0; i < d->pushes; i++) {
        const crossing *c = &d->push[i];
        const double bytes = bytes_of(c, d->kernels.push, 4);
        load.memory += (double)c->n * d->kernels.push_bytes + bytes;
        load.to_host += bytes;
        load.to_device += d->kernels.returns ? (double)c->chosen.k * sizeof(float) : 0;
    }
    return load;
}

model_device_load fleet_device_pulled(const fleet_device *d)
{
    model_device_load load = {.to_device = other_bytes(d, d->answer, d->answers)};

    for (size_t i = 0; i < d->answers; i++) {
        const double bytes = bytes_of(&d->answer[i], d->answered.answer, 8);
        load.memory += (double)d->answer[i].n * d->answered.answer_bytes + bytes;
        load.to_device += bytes;
    }
    return load;
}
