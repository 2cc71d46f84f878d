/* SPDX-License-Identifier: MIT */
#include "pieces.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void tlc_unit_words(const tlc_unit *u, size_t at, size_t count, uint32_t *words)
{
    u->k->philox(u->work->seed, u->work->step, (uint64_t)u->first + at, count, words);
}

uint64_t tlc_pieces_forward(const tlc_pieces *p, size_t width, int random, const tlc_unit *u, size_t from, size_t to,
                            uint8_t *dst)
{
    size_t at = from * p->group, end = smaller(to * p->group, (size_t)u->n);
    uint8_t *codes = dst - from * width;
    float wanted[TLC_PIECE], sent[TLC_PIECE];
    uint32_t words[TLC_PIECE];
    uint64_t clipped = 0;

    for (size_t count; at < end; at += count) {
        count = smaller(end - at, TLC_PIECE);
        const float *x = tlc_input_values(&u->input, u->first + at, count, wanted);
        if (random)
            tlc_unit_words(u, at, count, words);
        clipped += p->encode(u, x, random ? words : NULL, at, count, codes);
        if (!u->input.residual)
            continue;
        p->decode(u, codes, at, count, sent);
        tlc_input_settle(&u->input, u->first + at, count, x, sent);
    }
    return clipped;
}

void tlc_pieces_backward(const tlc_pieces *p, size_t width, const tlc_unit *u, size_t from, size_t to,
                         const uint8_t *src)
{
    size_t at = from * p->group, end = smaller(to * p->group, (size_t)u->n);
    const tlc_sink *s = u->sink;
    const uint8_t *codes = src - from * width;
    int in_place = s->mode == TLC_SINK_WRITE && tlc_is_floats(s->dtype, s->out);
    float values[TLC_PIECE];

    for (size_t count; at < end; at += count) {
        count = smaller(end - at, TLC_PIECE);
        p->decode(u, codes, at, count, in_place ? (float *)s->out + u->first + at : values);
        if (!in_place)
            tlc_sink_floats(u, at, count, values);
    }
}

uint64_t tlc_pieces_nonzero(const tlc_pieces *p, const tlc_unit *u, const uint8_t *codes)
{
    float values[TLC_PIECE];
    uint64_t sum = 0;

    for (size_t at = 0, count; at < u->n; at += count) {
        count = smaller((size_t)u->n - at, TLC_PIECE);
        p->decode(u, codes, at, count, values);
        for (size_t i = 0; i < count; i++)
            sum += values[i] != 0;
    }
    return sum;
}

int tlc_bits_padding(const uint8_t *bits, uint64_t n)
{
    return n % 8 == 0 || bits[n / 8] >> n % 8 == 0;
}
