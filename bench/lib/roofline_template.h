/* SPDX-License-Identifier: MIT
 *
 * The loops of roofline.c for one vector width. Parameters, undefined at the end:
 *   VECTOR         bytes in a vector
 *   TARGET         attribute of the functions
 *   NAME(x)        x with a suffix
 *   MAX(a, b)      maximum of two vectors of words below 2^31
 *   STREAM(p, w)   non-temporal store at a multiple of VECTOR; not defined if there is none
 *
 * A vector of bytes belongs to 20 vectors of floats: byte j of each word belongs to vectors 5j to 5j + 4.
 */
#define INLINE TARGET __attribute__((always_inline)) static inline
#define WIDTH ((size_t)VECTOR / 4)
#define GROUP (20 * WIDTH)

typedef float NAME(floats) __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef uint32_t NAME(words) __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef uint32_t NAME(any_words) __attribute__((vector_size(VECTOR), aligned(1), may_alias));

/* ---- compress --------------------------------------------------------------------------------------------------- */

/* One vector. Returns words that depend on its values. */
INLINE NAME(words) NAME(visit)(const float *g, float *r, int flags, NAME(words) * max)
{
    NAME(floats) x = *(const NAME(floats) *)(flags & ALONE ? g : r);

    if (flags & ADD)
        x += *(const NAME(floats) *)g;
    if (flags & MEASURE)
        *max = MAX(*max, (NAME(words))x & ~SIGN);
    if (flags & SEND && !(flags & ALONE))
        *(NAME(floats) *)r = x - (NAME(floats))(((NAME(words))x & SIGN) | ONE);
    else if (flags & STORE)
        *(NAME(floats) *)r = x;
    return (NAME(words))x;
}

/* The last n < GROUP values. Those that do not fill a vector are copied first. */
INLINE void NAME(visit_rest)(const float *g, float *r, uint8_t *bytes, size_t n, int flags, NAME(words) * max)
{
    NAME(words) made = {0};
    uint8_t made_copy[VECTOR];
    float g_copy[WIDTH] = {0}, r_copy[WIDTH] = {0};
    size_t i = 0, left = n % WIDTH;

    for (; i + WIDTH <= n; i += WIDTH)
        made ^= NAME(visit)(g + i, r + i, flags, max);
    if (left) {
        memcpy(g_copy, g + i, left * sizeof *g);
        memcpy(r_copy, r + i, left * sizeof *r);
        made ^= NAME(visit)(g_copy, r_copy, flags, max);
        if (flags & (SEND | STORE) && !(flags & ALONE))
            memcpy(r + i, r_copy, left * sizeof *r);
    }
    if (flags & SEND) {
        *(NAME(any_words) *)made_copy = made;
        memcpy(bytes, made_copy, (n + 4) / 5);
    }
}

INLINE uint32_t NAME(forward_as)(const slice *s, int flags)
{
    const float *g = s->g;
    float *r = s->r;
    uint8_t *bytes = s->bytes;
    size_t n = s->n;
    NAME(words) max = {0};
    uint32_t largest = 0;

    for (; n >= GROUP; n -= GROUP, g += GROUP, r += GROUP, bytes += GROUP / 5) {
        NAME(words) made = {0}, five;
#pragma GCC unroll 4
        for (size_t j = 0; j < 20; j += 5) {
            five = (NAME(words)){0};
#pragma GCC unroll 5
            for (size_t k = j; k < j + 5; k++) {
                if (flags & FETCH && k * VECTOR % 64 == 0) {
                    if (!(flags & ALONE))
                        __builtin_prefetch((const char *)(r + k * WIDTH) + AHEAD);
                    if (flags & (ADD | ALONE))
                        __builtin_prefetch((const char *)(g + k * WIDTH) + AHEAD);
                }
                five ^= NAME(visit)(g + k * WIDTH, r + k * WIDTH, flags, &max);
            }
            made = made << 8 | five >> 24;
        }
        if (flags & SEND)
            *(NAME(any_words) *)bytes = made;
    }
    NAME(visit_rest)(g, r, bytes, n, flags, &max);
    for (size_t k = 0; k < WIDTH; k++)
        largest = max[k] > largest ? max[k] : largest;
    return largest;
}

INLINE uint32_t NAME(forward)(const slice *s, int flags)
{
    return s->n < FAR ? NAME(forward_as)(s, flags) : NAME(forward_as)(s, flags | FETCH);
}

TARGET static uint32_t NAME(measure)(const slice *s)
{
    return NAME(forward)(s, ADD | MEASURE);
}
TARGET static uint32_t NAME(send)(const slice *s)
{
    return NAME(forward)(s, ADD | SEND);
}
TARGET static uint32_t NAME(accumulate)(const slice *s)
{
    return NAME(forward)(s, ADD | MEASURE | STORE);
}
TARGET static uint32_t NAME(send_residual)(const slice *s)
{
    return NAME(forward)(s, SEND);
}
TARGET static uint32_t NAME(look)(const slice *s)
{
    return NAME(forward)(s, ALONE | MEASURE);
}
TARGET static uint32_t NAME(send_alone)(const slice *s)
{
    return NAME(forward)(s, ALONE | SEND);
}
TARGET static uint32_t NAME(one_sweep)(const slice *s)
{
    return NAME(forward)(s, ADD | MEASURE | SEND);
}

/* ---- decompress ------------------------------------------------------------------------------------------------- */

/* Writes or adds vector k of a group: 1 with a sign from the bytes. gcc 14 for AArch64 fails if w comes by value. */
INLINE void NAME(put)(const NAME(words) * w, size_t k, float *out, int how)
{
    NAME(words) value = (*w << (uint32_t)k & SIGN) | ONE;

    if (how == PLUS)
        *(NAME(floats) *)out += (NAME(floats))value;
#ifdef STREAM
    else if (how == NON_TEMPORAL)
        STREAM(out, value);
#endif
    else
        *(NAME(words) *)(void *)out = value;
}

INLINE uint32_t NAME(backward)(const slice *s, float *out, int how, bool fetch)
{
    const uint8_t *bytes = s->bytes;
    size_t n = s->n, k = 0;
    uint8_t rest[VECTOR] = {0};
    float copy[WIDTH] = {0};
    NAME(words) w;

    for (; n >= GROUP; n -= GROUP, out += GROUP, bytes += GROUP / 5) {
        w = *(const NAME(any_words) *)bytes;
#pragma GCC unroll 20
        for (size_t v = 0; v < 20; v++) {
            if (fetch && v * VECTOR % 64 == 0)
                __builtin_prefetch((const char *)(out + v * WIDTH) + AHEAD);
            NAME(put)(&w, v, out + v * WIDTH, how);
        }
    }
    memcpy(rest, bytes, (n + 4) / 5);
    w = *(const NAME(any_words) *)rest;
    for (; n >= WIDTH; n -= WIDTH, out += WIDTH)
        NAME(put)(&w, k++, out, how);
    if (n) {
        memcpy(copy, out, n * sizeof *out);
        NAME(put)(&w, k, copy, how == PLUS ? PLUS : WRITE);
        memcpy(out, copy, n * sizeof *out);
    }
    return 0;
}

TARGET static uint32_t NAME(write)(const slice *s)
{
    return NAME(backward)(s, s->out, WRITE, false);
}

TARGET static uint32_t NAME(add)(const slice *s)
{
    return s->n < FAR ? NAME(backward)(s, s->r, PLUS, false) : NAME(backward)(s, s->r, PLUS, true);
}

#ifdef STREAM
TARGET static uint32_t NAME(stream)(const slice *s)
{
    NAME(backward)(s, s->out, NON_TEMPORAL, false);
    _mm_sfence();
    return 0;
}

TARGET static void NAME(copy)(void *dst, const void *src, size_t size)
{
    unsigned char *to = dst;
    const unsigned char *from = src;
    size_t head = -(uintptr_t)to % VECTOR, i;

    head = head < size ? head : size;
    memcpy(to, from, head);
    for (i = head; size - i >= VECTOR; i += VECTOR)
        STREAM(to + i, *(const NAME(any_words) *)(from + i));
    memcpy(to + i, from + i, size - i);
    _mm_sfence();
}
#endif

/* ---- many frames into one sum ----------------------------------------------------------------------------------- */

/* The XOR of the vectors that belong to values from .. to - 1. */
INLINE NAME(words) NAME(read_frames)(const sum_slice *s, size_t from, size_t to)
{
    NAME(words) seen = {0};

    for (size_t i = 0; i < s->count; i++) {
        const uint8_t *bytes = s->frames[i].data;
        uint64_t vectors = (s->frames[i].len + VECTOR - 1) / VECTOR;
        size_t end = (size_t)(vectors * to / s->n);
        for (size_t k = (size_t)(vectors * from / s->n); k < end; k++) {
            __builtin_prefetch(bytes + k * VECTOR + AHEAD);
            seen ^= *(const NAME(any_words) *)(bytes + k * VECTOR);
        }
    }
    return seen;
}

INLINE void NAME(sweep_sum)(const sum_slice *s, int how)
{
    for (size_t from = s->from, to; from < s->to; from = to) {
        to = s->to - from < STRIP ? s->to : from + STRIP;
        NAME(words) seen = NAME(read_frames)(s, from, to);
        float *sum = s->sum + from, copy[WIDTH] = {0};
        size_t n = to - from, i = 0;
        for (; n - i >= WIDTH; i += WIDTH) { /* with pointers to the end gcc 12 for s390x makes one turn of it */
            if (how == PLUS)
                __builtin_prefetch((const char *)(sum + i) + AHEAD);
            NAME(put)(&seen, 0, sum + i, how);
        }
        memcpy(copy, sum + i, (n - i) * sizeof *sum);
        NAME(put)(&seen, 0, copy, how);
        memcpy(sum + i, copy, (n - i) * sizeof *sum);
    }
}

TARGET static void NAME(add_many)(const sum_slice *s)
{
    NAME(sweep_sum)(s, PLUS);
}

TARGET static void NAME(from_zero)(const sum_slice *s)
{
    NAME(sweep_sum)(s, WRITE);
}

static const roofline_loops NAME(loops) = {
    .sweeps =
        {
            [ROOFLINE_TWO_SWEEPS] = {NAME(measure), NAME(send)},
            [ROOFLINE_ASSUME_FINITE] = {NAME(accumulate), NAME(send_residual)},
            [ROOFLINE_ONE_SWEEP] = {NAME(one_sweep)},
            [ROOFLINE_NO_RESIDUAL] = {NAME(look), NAME(send_alone)},
            [ROOFLINE_WRITE] = {NAME(write)},
            [ROOFLINE_ADD] = {NAME(add)},
#ifdef STREAM
            [ROOFLINE_STREAM] = {NAME(stream)},
#endif
        },
    .add_many = NAME(add_many),
    .from_zero = NAME(from_zero),
#ifdef STREAM
    .copy = NAME(copy),
#endif
};

#undef INLINE
#undef WIDTH
#undef GROUP
#undef VECTOR
#undef TARGET
#undef NAME
#undef MAX
#undef STREAM
