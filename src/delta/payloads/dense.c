/* SPDX-License-Identifier: MIT */
#include "dense.h"
#include "../../common/bits.h"
#include "../../common/sizes.h"
#include "../../common/stack.h"
#include "../../common/varint.h"
#include "classes.h"
#include "weights.h"

#define FORCED static inline __attribute__((TLC_FORCED)) /* so that the shape is a constant */

/* What the code is made of. */
typedef struct shape {
    tlc_weight_unit unit;
    unsigned mantissa; /* bits, of a float without a base */
    int has_base;
} shape;

/* Calls f(shape, ...) with each of its shapes as a constant. Without a base floats of 8 and 4 bits are as integers. */
#define FOR_SHAPE(w, f, ...)                                                                                           \
    ((w)->base                ? FOR_UNIT(tlc_delta_unit((w)->dtype), f, 1, __VA_ARGS__)                                \
     : (w)->dtype == TLC_F32  ? f((shape){TLC_UNIT_F32, 23, 0}, __VA_ARGS__)                                           \
     : (w)->dtype == TLC_F16  ? f((shape){TLC_UNIT_F16, 10, 0}, __VA_ARGS__)                                           \
     : (w)->dtype == TLC_BF16 ? f((shape){TLC_UNIT_F16, 7, 0}, __VA_ARGS__)                                            \
                              : FOR_INTEGER(tlc_delta_unit((w)->dtype), f, 0, __VA_ARGS__))
#define FOR_UNIT(unit, f, base, ...)                                                                                   \
    ((unit) == TLC_UNIT_F16   ? f((shape){TLC_UNIT_F16, 0, base}, __VA_ARGS__)                                         \
     : (unit) == TLC_UNIT_F32 ? f((shape){TLC_UNIT_F32, 0, base}, __VA_ARGS__)                                         \
     : (unit) == TLC_UNIT_F8  ? f((shape){TLC_UNIT_F8, 0, base}, __VA_ARGS__)                                          \
     : (unit) == TLC_UNIT_F4  ? f((shape){TLC_UNIT_F4, 0, base}, __VA_ARGS__)                                          \
                              : FOR_INTEGER(unit, f, base, __VA_ARGS__))
#define FOR_INTEGER(unit, f, base, ...)                                                                                \
    (tlc_unit_width(unit) == 8   ? f((shape){TLC_UNIT_U8, 0, base}, __VA_ARGS__)                                       \
     : tlc_unit_width(unit) == 4 ? f((shape){TLC_UNIT_U4, 0, base}, __VA_ARGS__)                                       \
     : (unit) == TLC_UNIT_U32    ? f((shape){TLC_UNIT_U32, 0, base}, __VA_ARGS__)                                      \
                                 : f((shape){TLC_UNIT_HALF, 0, base}, __VA_ARGS__))

/* What the class of a unit is. */
typedef enum meaning {
    SMALL,    /* d, or the unit itself without a base: there are no extra bits */
    LENGTH,   /* the bits of |d|; d is the unit itself if integers have no base */
    EXPONENT, /* of a float without a base */
} meaning;

FORCED meaning meaning_of(shape s)
{
    return tlc_unit_width(s.unit) <= 8 ? SMALL : s.has_base || !tlc_unit_is_float(s.unit) ? LENGTH : EXPONENT;
}

FORCED unsigned classes_of(shape s)
{
    const unsigned width = tlc_unit_width(s.unit);

    if (width <= 8) /* SMALL */
        return 1u << width;
    return meaning_of(s) == LENGTH ? width + 1 : 1u << (width - 1 - s.mantissa);
}

FORCED unsigned extra_bits(shape s, unsigned class)
{
    return meaning_of(s) == SMALL ? 0 : meaning_of(s) == LENGTH ? class : s.mantissa + 1;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* The class and the extra bits of unit i. base: of the same place, or NULL. */
FORCED tlc_delta_symbol symbol_of(shape s, const uint8_t *base, const uint8_t *next, size_t i)
{
    static const uint8_t nothing[4];
    const uint32_t x = tlc_weight_load(next, i, s.unit), low = ((uint32_t)1 << s.mantissa) - 1;

    switch (meaning_of(s)) {
    case SMALL: {
        const uint32_t before = s.has_base ? tlc_ordered(tlc_weight_load(base, i, s.unit), s.unit) : 0;
        return (tlc_delta_symbol){(tlc_ordered(x, s.unit) - before) & tlc_unit_mask(s.unit), 0};
    }
    case LENGTH:
        if (s.has_base)
            return tlc_delta_symbol_of(base, next, i, s.unit);
        return tlc_delta_symbol_of(nothing, (const uint8_t *)&x, 0, TLC_UNIT_U32);
    case EXPONENT: break;
    }
    return (tlc_delta_symbol){x >> s.mantissa & (classes_of(s) - 1),
                              x >> (tlc_unit_width(s.unit) - 1) << s.mantissa | (x & low)};
}

/* The classes and extra bits of units first .. first + count - 1. */
FORCED void symbols_of(shape s, const tlc_delta_weights *w, const uint8_t *next, size_t first, size_t count,
                       uint8_t *class, uint32_t *bits)
{
    const size_t offset = tlc_unit_offset(s.unit, first);
    const uint8_t *base = s.has_base ? w->base + offset : NULL;

    if (s.has_base && s.unit == TLC_UNIT_F16) {
        w->k->delta_classes16(base, next + offset, count, class, bits);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const tlc_delta_symbol y = symbol_of(s, base, next + offset, i);
        class[i] = (uint8_t)y.class;
        if (meaning_of(s) != SMALL)
            bits[i] = y.bits;
    }
}

/* How often each lane has each class. */
typedef struct histogram {
    uint32_t counts[TLC_LANES][TLC_CLASSES];
} histogram;

FORCED int count_classes(shape s, const tlc_delta_weights *w, const uint8_t *next, histogram *h)
{
    uint32_t bits[TLC_TURN], odd[TLC_CLASSES];
    uint8_t class[TLC_TURN];

    memset(h, 0, sizeof *h);
    for (size_t first = 0; first < w->n; first += TLC_TURN) {
        uint32_t *counts = h->counts[first / TLC_TURN % TLC_LANES];
        const size_t count = tlc_smaller(w->n - first, TLC_TURN);
        symbols_of(s, w, next, first, count, class, bits);
        memset(odd, 0, classes_of(s) * sizeof *odd);
        for (size_t i = 0; i + 1 < count; i += 2) { /* two counts of a class need not wait for each other */
            counts[class[i]]++;
            odd[class[i + 1]]++;
        }
        if (count % 2)
            counts[class[count - 1]]++;
        for (unsigned c = 0; c < classes_of(s); c++)
            counts[c] += odd[c];
    }
    return 1;
}

/* Where the parts of a payload begin. */
typedef struct places {
    size_t lane[TLC_LANES], size[TLC_LANES], extras, end;
} places;

FORCED int place_parts(shape s, const histogram *h, const tlc_prefix_code *code, size_t head, places *p)
{
    uint64_t extras = 0;
    size_t at = head;

    for (unsigned k = 0; k < TLC_LANES; k++) {
        uint64_t bits = 0;
        for (unsigned c = 0; c < classes_of(s); c++) {
            bits += (uint64_t)h->counts[k][c] * code->length[c];
            extras += (uint64_t)h->counts[k][c] * extra_bits(s, c);
        }
        p->size[k] = (size_t)((bits + 7) / 8);
        at += tlc_varint_size(p->size[k]);
    }
    for (unsigned k = 0; k < TLC_LANES; k++) {
        p->lane[k] = at;
        at += p->size[k];
    }
    p->extras = at;
    p->end = at + (size_t)((extras + 7) / 8);
    return 1;
}

/* Writes the codes of `count` classes. */
FORCED void write_codes(tlc_bit_writer *to, const tlc_prefix_code *code, const uint8_t *class, size_t count)
{
    tlc_bit_writer w = *to; /* in registers */
    size_t i = 0;

    for (; i + 3 < count; i += 4) { /* at most 40 bits */
        uint64_t bits = code->code[class[i]];
        unsigned used = code->length[class[i]];
        for (size_t k = 1; k < 4; k++) {
            const unsigned length = code->length[class[i + k]];
            bits = bits << length | code->code[class[i + k]];
            used += length;
        }
        (void)tlc_bits_put(&w, bits, used);
    }
    for (; i < count; i++)
        (void)tlc_bits_put(&w, code->code[class[i]], code->length[class[i]]);
    *to = w;
}

FORCED void write_extras(shape s, tlc_bit_writer *to, const uint8_t *class, const uint32_t *bits, size_t count)
{
    tlc_bit_writer w = *to;
    size_t i = 0;

    for (; s.unit == TLC_UNIT_F16 && i + 2 < count; i += 3) { /* at most 48 bits */
        const unsigned b = extra_bits(s, class[i + 1]), c = extra_bits(s, class[i + 2]);
        (void)tlc_bits_put(&w, ((uint64_t)bits[i] << b | bits[i + 1]) << c | bits[i + 2],
                           extra_bits(s, class[i]) + b + c);
    }
    for (; i < count; i++)
        (void)tlc_bits_put(&w, bits[i], extra_bits(s, class[i]));
    *to = w;
}

FORCED int write_weights(shape s, const tlc_delta_weights *w, const uint8_t *next, const tlc_prefix_code *code,
                         const places *p, uint8_t *dst)
{
    tlc_bit_writer lane[TLC_LANES], extras = {dst + p->extras, dst + p->end, 0, 0};
    uint32_t bits[TLC_TURN];
    uint8_t class[TLC_TURN];

    for (unsigned k = 0; k < TLC_LANES; k++)
        lane[k] = (tlc_bit_writer){dst + p->lane[k], dst + p->lane[k] + p->size[k], 0, 0};
    for (size_t first = 0; first < w->n; first += TLC_TURN) {
        const size_t count = tlc_smaller(w->n - first, TLC_TURN);
        symbols_of(s, w, next, first, count, class, bits);
        write_codes(&lane[first / TLC_TURN % TLC_LANES], code, class, count);
        if (meaning_of(s) != SMALL)
            write_extras(s, &extras, class, bits, count);
    }
    for (unsigned k = 0; k < TLC_LANES; k++)
        (void)tlc_bits_end(&lane[k]);
    return tlc_bits_end(&extras);
}

size_t tlc_delta_dense_write(const tlc_delta_weights *w, const uint8_t *next, uint8_t *dst, size_t cap)
{
    histogram h;
    uint32_t counts[TLC_CLASSES];
    uint8_t head[TLC_CODE_HEAD_MAX];
    tlc_prefix_code code;
    places p;

    (void)FOR_SHAPE(w, count_classes, w, next, &h);
    for (unsigned c = 0; c < TLC_CLASSES; c++)
        counts[c] = h.counts[0][c] + h.counts[1][c] + h.counts[2][c] + h.counts[3][c];
    tlc_prefix_code_make(&code, counts);
    const size_t size = tlc_prefix_code_write(&code, head);
    (void)FOR_SHAPE(w, place_parts, &h, &code, size, &p);
    if (p.end > cap)
        return 0;
    memcpy(dst, head, size);
    for (size_t k = 0, at = size; k < TLC_LANES; k++)
        at += tlc_varint_write(dst + at, p.size[k]);
    (void)FOR_SHAPE(w, write_weights, w, next, &code, &p, dst);
    return p.end;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct parts {
    tlc_prefix_table table;
    tlc_classes classes;
    tlc_bit_reader extras;
    unsigned largest; /* class */
} parts;

FORCED int open_parts(shape s, parts *p, const tlc_delta_weights *w, const uint8_t *src, size_t len)
{
    const size_t head = tlc_prefix_table_read(&p->table, src, len, classes_of(s), w->n >= TLC_CYCLE, &p->largest);
    const size_t lanes = head ? tlc_classes_open(&p->classes, &p->table, src + head, len - head) : 0;

    p->extras = (tlc_bit_reader){src + head + lanes, len - head - lanes, 0};
    return lanes != 0;
}

/* Only d = -2^(width - 1) has a magnitude of `width` bits. Do all weights of that class have this d? */
FORCED int check_largest(shape s, parts *p, size_t n)
{
    const unsigned width = tlc_unit_width(s.unit);
    uint8_t class[TLC_CYCLE];

    for (size_t i = 0; i < n; i += TLC_CYCLE) {
        const size_t count = tlc_smaller(n - i, TLC_CYCLE);
        tlc_classes_next(&p->classes, count, class);
        for (size_t k = 0; k < count; p->extras.bit += class[k++])
            if (class[k] == width &&
                tlc_delta_extra(p->extras.bytes, p->extras.size, p->extras.bit, width) != (uint32_t)1 << (width - 1))
                return 0;
    }
    return 1;
}

FORCED int check_parts(shape s, const tlc_delta_weights *w, const uint8_t *src, size_t len)
{
    parts p;
    uint64_t sum;

    if (!open_parts(s, &p, w, src, len) || !tlc_classes_check(&p.classes, w->n, &sum))
        return 0;
    const int has_lengths = meaning_of(s) == LENGTH;
    const tlc_bit_reader end = {p.extras.bytes, p.extras.size, has_lengths ? sum : (uint64_t)w->n * extra_bits(s, 0)};
    return tlc_bits_ended(&end) && (!has_lengths || p.largest < tlc_unit_width(s.unit) || check_largest(s, &p, w->n));
}

int tlc_delta_dense_check(const tlc_delta_weights *w, const uint8_t *src, size_t len)
{
    return FOR_SHAPE(w, check_parts, w, src, len);
}

/* Moves unit i, or writes it if there is no base. */
FORCED void apply_one(shape s, uint8_t *weights, size_t i, unsigned class, uint32_t bits)
{
    const uint32_t low = ((uint32_t)1 << s.mantissa) - 1;
    uint32_t before = 0;

    switch (meaning_of(s)) {
    case SMALL:
        if (s.has_base)
            before = tlc_ordered(tlc_weight_load(weights, i, s.unit), s.unit);
        before = (before + class) & tlc_unit_mask(s.unit);
        tlc_weight_store(weights, i, s.unit, tlc_ordered(before, s.unit));
        return;
    case LENGTH:
        if (!s.has_base)
            tlc_weight_store(weights, i, s.unit, 0);
        tlc_delta_move_symbol(weights, i, class, bits, s.unit);
        return;
    case EXPONENT:
        tlc_weight_store(weights, i, s.unit,
                         bits >> s.mantissa << (tlc_unit_width(s.unit) - 1) | (uint32_t)class << s.mantissa |
                             (bits & low));
    }
}

/* The next `count` units. Returns the bit after the extra bits. */
FORCED uint64_t apply_some(shape s, const tlc_kernels *k, const tlc_bit_reader *extras, const uint8_t *class,
                           size_t count, uint8_t *weights)
{
    uint64_t bit = extras->bit;

    if (s.has_base && s.unit == TLC_UNIT_F16)
        return k->delta_extras16(extras->bytes, extras->size, bit, class, count, weights);
    for (size_t i = 0; i < count; i++) {
        const unsigned each = extra_bits(s, class[i]);
        apply_one(s, weights, i, class[i],
                  meaning_of(s) == SMALL ? 0 : tlc_delta_extra(extras->bytes, extras->size, bit, each));
        bit += each;
    }
    return bit;
}

/* The bit after the extra bits of the next `count` units. */
FORCED uint64_t skip_some(shape s, uint64_t bit, const uint8_t *class, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bit += extra_bits(s, class[i]);
    return bit;
}

FORCED int apply_parts(shape s, const tlc_delta_weights *w, const uint8_t *src, size_t len, tlc_delta_window window,
                       uint8_t *weights)
{
    parts p;
    uint8_t class[TLC_CYCLE];

    (void)open_parts(s, &p, w, src, len);
    for (size_t i = 0; i < window.end; i += TLC_CYCLE) {
        const size_t count = tlc_smaller(w->n - i, TLC_CYCLE), end = tlc_smaller(window.end - i, count);
        const size_t skipped = window.first > i ? tlc_smaller(window.first - i, end) : 0;
        tlc_classes_next(&p.classes, count, class);
        p.extras.bit = skip_some(s, p.extras.bit, class, skipped);
        if (skipped < end)
            p.extras.bit = apply_some(s, w->k, &p.extras, class + skipped, end - skipped,
                                      weights + tlc_unit_offset(s.unit, i + skipped - window.first));
    }
    return 1;
}

void tlc_delta_dense_apply(const tlc_delta_weights *w, const uint8_t *src, size_t len, tlc_delta_window window,
                           uint8_t *weights)
{
    (void)FOR_SHAPE(w, apply_parts, w, src, len, window, weights);
}

enum { CHANGES = 256 /* that are taken at once */ };

typedef struct taking {
    tlc_delta_take_changes take;
    void *arg;
} taking;

/* d of a unit with a base. */
FORCED uint32_t difference_of(shape s, unsigned class, uint32_t bits)
{
    const unsigned rest = 32 - tlc_unit_width(s.unit);

    if (meaning_of(s) == SMALL)
        return (uint32_t)((int32_t)(class << rest) >> rest);
    const uint32_t leading = (uint32_t)(((uint64_t)1 << class) >> 1), negative = (bits & leading) != 0;
    return ((bits | leading) ^ (0 - negative)) + negative;
}

FORCED int take_parts(shape s, const tlc_delta_weights *w, const uint8_t *src, size_t len, const taking *t)
{
    parts p;
    uint8_t class[TLC_CYCLE];
    size_t index[CHANGES], count = 0;
    uint32_t difference[CHANGES];

    (void)open_parts(s, &p, w, src, len);
    for (size_t i = 0; i < w->n; i++) {
        if (i % TLC_CYCLE == 0)
            tlc_classes_next(&p.classes, tlc_smaller(w->n - i, TLC_CYCLE), class);
        const unsigned c = class[i % TLC_CYCLE], each = extra_bits(s, c);
        index[count] = i;
        difference[count] = difference_of(s, c, tlc_delta_extra(p.extras.bytes, p.extras.size, p.extras.bit, each));
        p.extras.bit += each;
        count += c != 0;
        if (count == CHANGES && !t->take(t->arg, index, difference, count))
            return 0;
        count %= CHANGES;
    }
    return !count || t->take(t->arg, index, difference, count);
}

int tlc_delta_dense_changes(const tlc_delta_weights *w, const uint8_t *src, size_t len, tlc_delta_take_changes take,
                            void *arg)
{
    const taking t = {take, arg};

    return FOR_UNIT(tlc_delta_unit(w->dtype), take_parts, 1, w, src, len, &t);
}
