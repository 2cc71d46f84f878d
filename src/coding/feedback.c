/* SPDX-License-Identifier: MIT */
#include "feedback.h"

enum { FEW = 16 }; /* if fewer than one value in FEW is sent, a loop over the members is faster than vectors */

static void keep_rest(const tlc_unit *u, const tlc_chunk *c, const float *sent)
{
    float *r = u->input->residual + u->first + c->at;

    for (size_t i = 0; i < c->count; i++)
        r[i] = c->x[i] - sent[i];
}

void tlc_feedback_symbols(const tlc_unit *u, const tlc_chunk *c)
{
    float sent[TLC_CHUNK];

    if (!u->input->residual)
        return;
    u->k->ternary_decode(c->symbols, c->count, u->scalars[0], sent);
    keep_rest(u, c, sent);
}

void tlc_feedback_codes(const tlc_unit *u, const tlc_chunk *c)
{
    const uint8_t *const codes[2] = {c->codes[0], c->codes[1]};
    float sent[TLC_CHUNK];

    if (!u->input->residual)
        return;
    u->quantizer->decode(u, codes, c->count, sent);
    keep_rest(u, c, sent);
}

/* The same for few members. */
static void keep_rest_of_few(const tlc_chunk *c, float *r)
{
    const float *sent = c->values;

    for (size_t w = 0; w * 64 < c->count; w++)
        for (uint64_t bits = c->mask[w]; bits; bits &= bits - 1) {
            size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
            r[i] = c->x[i] - *sent++;
        }
}

/* Only members change, because x - 0 is x. So if the residual holds x already, nothing else is written. Adding -1 times
 * a value rounds like subtracting it. */
void tlc_feedback_members(const tlc_unit *u, const tlc_chunk *c, size_t k)
{
    if (!u->input->residual)
        return;
    float *r = u->input->residual + u->first + c->at;
    if (r != c->x)
        memcpy(r, c->x, c->count * sizeof *r);
    if (k < c->count / FEW)
        keep_rest_of_few(c, r);
    else
        u->k->expand_add(c->mask, c->count, c->values, k, -1.0f, r);
}
