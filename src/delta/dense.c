/* SPDX-License-Identifier: MIT */
#include "dense.h"
#include "../common/bits.h"
#include "weights.h"
#include "prefix_code.h"

/* What the code is made of. */
typedef struct shape {
    unsigned width, mantissa, classes;
    int has_base;
} shape;

static shape shape_of(const tlc_delta_weights *w)
{
    const unsigned width = tlc_delta_width(w->dtype), mantissa = w->dtype == TLC_F32   ? 23
                                                                 : w->dtype == TLC_F16 ? 10
                                                                                       : 7;

    return (shape){width, mantissa, w->base ? width + 1 : 1u << (width - 1 - mantissa), w->base != NULL};
}

/* A weight as class and extra bits. */
typedef struct symbol {
    unsigned class, extra; /* extra: how many bits */
    uint32_t bits;
} symbol;

static unsigned extra_bits(const shape *s, unsigned class)
{
    return s->has_base ? class : s->mantissa + 1;
}

static symbol symbol_of(const shape *s, const tlc_delta_weights *w, const uint8_t *next, size_t i)
{
    const uint32_t x = tlc_weight_load(next, i, s->width);

    if (!s->has_base) {
        const uint32_t low = ((uint32_t)1 << s->mantissa) - 1;
        return (symbol){x >> s->mantissa & (s->classes - 1), s->mantissa + 1,
                        x >> (s->width - 1) << s->mantissa | (x & low)};
    }
    const int32_t d = tlc_difference(tlc_weight_load(w->base, i, s->width), x, s->width);
    const uint32_t magnitude = tlc_magnitude(d);
    const unsigned class = tlc_bit_length(magnitude);
    if (!class)
        return (symbol){0, 0, 0};
    const uint32_t leading = (uint32_t)1 << (class - 1);
    return (symbol){class, class, (d < 0 ? leading : 0) | (magnitude ^ leading)};
}

size_t tlc_delta_dense_write(const tlc_delta_weights *w, const uint8_t *next, uint8_t *dst, size_t cap)
{
    const shape s = shape_of(w);
    uint32_t counts[TLC_CLASSES] = {0};
    uint8_t head[TLC_CODE_HEAD_MAX];
    tlc_prefix_code code;
    uint64_t bits = 0;

    for (size_t i = 0; i < w->n; i++)
        counts[symbol_of(&s, w, next, i).class]++;
    tlc_prefix_code_make(&code, counts);
    for (unsigned c = 0; c < s.classes; c++)
        bits += (uint64_t)counts[c] * (code.length[c] + extra_bits(&s, c));
    const size_t size = tlc_prefix_code_write(&code, head);
    if (size + (bits + 7) / 8 > cap)
        return 0;
    memcpy(dst, head, size);
    tlc_bit_writer writer = {dst + size, dst + cap, 0, 0};
    for (size_t i = 0; i < w->n; i++) {
        symbol y = symbol_of(&s, w, next, i);
        (void)tlc_bits_put(&writer, (uint64_t)code.code[y.class] << y.extra | y.bits, code.length[y.class] + y.extra);
    }
    (void)tlc_bits_end(&writer);
    return (size_t)(writer.at - dst);
}

/* Reads all weights. weights NULL: it only checks. Returns 0 if it is no payload. Inlined once for each. */
static inline __attribute__((always_inline)) int read_all(const tlc_delta_weights *w, const uint8_t *src, size_t len,
                                                          uint8_t *weights)
{
    const shape s = shape_of(w);
    tlc_prefix_table table;
    const size_t head = tlc_prefix_table_read(&table, src, len, s.classes);
    tlc_bit_reader r = {src + head, len - head, 0};

    if (!head)
        return 0;
    for (size_t i = 0; i < w->n; i++) {
        const uint64_t window = tlc_bits_window(&r);
        const unsigned entry = table.entry[window >> (64 - TLC_CODE_MAX)], class = entry >> 8, length = entry & 255;
        const unsigned extra = extra_bits(&s, class);
        const uint32_t bits = extra ? (uint32_t)(window << length >> (64 - extra)) : 0;

        if (!weights) {
            /* d = -2^(width - 1) is the only one whose magnitude has as many bits as a weight */
            if (!length || (s.has_base && class == s.width && bits != (uint32_t)1 << (s.width - 1)))
                return 0;
        } else if (!s.has_base) {
            const uint32_t low = ((uint32_t)1 << s.mantissa) - 1;
            tlc_weight_store(weights, i, s.width,
                             bits >> s.mantissa << (s.width - 1) | (uint32_t) class << s.mantissa | (bits & low));
        } else if (class) {
            const uint32_t leading = (uint32_t)1 << (class - 1);
            tlc_weight_store(weights, i, s.width,
                             tlc_next_weight(tlc_weight_load(weights, i, s.width), (bits & (leading - 1)) | leading,
                                             (bits & leading) != 0, s.width));
        }
        r.bit += length + extra;
        if (!weights && r.bit > (uint64_t)r.size * 8)
            return 0;
    }
    return tlc_bits_ended(&r);
}

int tlc_delta_dense_check(const tlc_delta_weights *w, const uint8_t *src, size_t len)
{
    return read_all(w, src, len, NULL);
}

void tlc_delta_dense_apply(const tlc_delta_weights *w, const uint8_t *src, size_t len, uint8_t *weights)
{
    (void)read_all(w, src, len, weights);
}
