/* SPDX-License-Identifier: MIT */
#include "fleet_crossing.h"
#include "../lib/explain.h"
#include <stdlib.h>
#include <string.h>

bool crossing_done(tlc_status status, const char *call, char *why)
{
    return !status || explain(why, "%s: %s", call, tlc_status_string(status));
}

void crossing_free_members(members *m)
{
    free(m->positions);
    free(m->values);
}

void crossing_free_all(crossing *all, size_t count)
{
    for (size_t i = 0; all && i < count; i++) {
        free(all[i].bytes);
        free(all[i].scalars);
        crossing_free_members(&all[i].chosen);
        free(all[i].sent);
        free(all[i].frame);
        tlc_destroy(all[i].quantizer);
        tlc_destroy(all[i].other);
    }
    free(all);
}

/* Bytes of the symbols of n values. */
static size_t quartic_size(size_t n, size_t block)
{
    const size_t whole = block ? n / block : 0, rest = n - whole * block;

    return whole * ((block + 4) / 5) + (rest + 4) / 5;
}

bool crossing_make_room(crossing *c, const char *codec, size_t block, kernel_form form)
{
    if (tlc_codec_bound(codec, TLC_F32, c->n, &c->bound))
        return false;
    c->blocks = block ? (c->n + block - 1) / block : 1;
    c->quartic = quartic_size(c->n, block);
    c->room = form == QUARTIC ? c->quartic : c->bound;
    c->bytes = malloc(c->room + 1);
    c->scalars = calloc(c->blocks + 2, sizeof *c->scalars);
    return c->bytes && c->scalars;
}

/* ---- what crosses from a frame ----------------------------------------------------------------------------------- */

static bool make_room(members *m, size_t k)
{
    if (k > m->room) {
        crossing_free_members(m);
        m->positions = malloc(k * sizeof *m->positions);
        m->values = malloc(k * sizeof *m->values);
        m->room = m->positions && m->values ? k : 0;
    }
    return k <= m->room;
}

static bool take_members(members *m, size_t n, const unsigned char *frame, size_t len, char *why)
{
    tlc_frame_info info = {.struct_size = sizeof info};

    if (!crossing_done(tlc_inspect(frame, len, &info), "tlc_inspect", why))
        return false;
    if (!make_room(m, (size_t)info.nonzero))
        return explain(why, "out of memory");
    return crossing_done(tlc_decompress_members(frame, len, n, m->positions, m->values, m->room, &m->k, NULL),
                         "tlc_decompress_members", why);
}

static bool take_payload(crossing *c, const unsigned char *frame, size_t len, char *why)
{
    tlc_frame_info info = {.struct_size = sizeof info};

    if (!crossing_done(tlc_peek(frame, len, &info), "tlc_peek", why))
        return false;
    c->size = (size_t)info.payload_size;
    memcpy(c->bytes, frame + info.header_size, c->size);
    return true;
}

/* form: of what crosses. */
bool crossing_take(crossing *c, kernel_form form, const unsigned char *frame, size_t len, char *why)
{
    if (form == MEMBERS)
        return take_members(&c->chosen, c->n, frame, len, why);
    if (form == PAYLOAD)
        return take_payload(c, frame, len, why);
    c->size = c->room;
    return crossing_done(tlc_decompress_quartic(frame, len, c->n, c->bytes, c->size, c->scalars, c->blocks, NULL),
                         "tlc_decompress_quartic", why);
}

size_t crossing_codes(const crossing *c)
{
    size_t k = 0;

    for (size_t i = 0; c->size < c->quartic; i++) { /* LEB128 */
        k |= (size_t)(c->bytes[i] & 127) << 7 * i;
        if (c->bytes[i] < 128)
            return k;
    }
    return 0;
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

/* The scalars of an unblocked frame: the last ones before the payload, little-endian. */
static void read_scalars(const crossing_device *d, crossing *c, size_t len)
{
    const unsigned char *at = d->frame + len - c->size - d->kernels.scalars * sizeof(float);

    for (size_t i = 0; i < d->kernels.scalars; i++, at += sizeof(float)) {
        const uint32_t bits = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        memcpy(&c->scalars[i], &bits, sizeof bits);
    }
}

static bool count_symbols(const crossing_device *d, crossing *c, size_t len, char *why)
{
    tlc_frame_info info = {.struct_size = sizeof info};

    if (!crossing_done(tlc_inspect(d->frame, len, &info), "tlc_inspect", why))
        return false;
    c->nonzero = (size_t)info.nonzero;
    return true;
}

/* Residual + gradient, which the quantizer begins with. */
static void add_residual(const crossing_device *d, const crossing *c, const float *grad)
{
    for (size_t i = 0; i < c->n; i++)
        d->values[i] = c->residual ? grad[i] + c->residual[i] : grad[i];
}

static void set_values(const crossing_device *d, members *m)
{
    for (size_t i = 0; i < m->k; i++)
        m->values[i] = d->values[m->positions[i]];
}

/* Puts both sides together, in the order of their positions. */
static bool merge(crossing_device *d, members *to)
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

/* Makes values 0 that have the sign that a block sends. */
static void clear_sent_sides(const crossing_device *d, const crossing *c)
{
    const members *sent = &d->sides[0];
    const size_t block = d->kernels.block ? d->kernels.block : c->n;

    for (size_t i = 0, m = 0; i < c->n; m++) {
        const size_t end = m < sent->k ? (sent->positions[m] / block + 1) * block : c->n;
        const bool positive = m < sent->k && sent->values[m] > 0;
        for (; i < end && i < c->n; i++)
            d->values[i] = (d->values[i] > 0) == positive ? 0 : d->values[i];
    }
}

/* Adds the members of the other sign to those that are sent: what is chosen where there is no value of this one. */
static bool add_other_side(crossing_device *d, crossing *c, char *why)
{
    members *sent = &d->sides[0], *other = &d->sides[1];
    size_t len;

    if (!make_room(sent, c->chosen.k))
        return explain(why, "out of memory");
    sent->k = c->chosen.k;
    memcpy(sent->positions, c->chosen.positions, sent->k * sizeof *sent->positions);
    memcpy(sent->values, c->chosen.values, sent->k * sizeof *sent->values);
    clear_sent_sides(d, c);
    if (!crossing_done(tlc_compress(c->other, d->values, d->frame, c->bound, &len), "tlc_compress", why) ||
        !take_members(other, c->n, d->frame, len, why))
        return false;
    set_values(d, other);
    return merge(d, &c->chosen) || explain(why, "out of memory");
}

static bool choose(crossing_device *d, crossing *c, char *why)
{
    if (!d->kernels.decoded)
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

bool crossing_quantize(crossing_device *d, crossing *c, const float *grad, char *why)
{
    size_t len;

    if (d->kernels.push == MEMBERS)
        add_residual(d, c, grad);
    if (!crossing_done(tlc_compress(c->quantizer, grad, d->frame, c->bound, &len), "tlc_compress", why) ||
        !crossing_take(c, d->kernels.push, d->frame, len, why))
        return false;
    if (d->kernels.push == PAYLOAD)
        read_scalars(d, c, len);
    if (d->kernels.push_stages.nonzero > 0 && !count_symbols(d, c, len, why))
        return false;
    return d->kernels.push != MEMBERS || choose(d, c, why);
}
