/* SPDX-License-Identifier: MIT */
#include "gradients.h"
#include <string.h>

/* The output function of SplitMix64: a different input gives an unrelated output. */
static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Larger / smaller size. */
static double distance(size_t a, size_t b)
{
    return a > b ? (double)a / (double)b : (double)b / (double)a;
}

typedef enum tensor_kind { OTHER, EMBEDDING, ATTENTION, NORM } tensor_kind;

/* By the name. */
static tensor_kind kind_of(const char *name)
{
    static const struct {
        const char *part;
        tensor_kind kind;
    } parts[] = {{"emb", EMBEDDING}, {"wte", EMBEDDING}, {"wpe", EMBEDDING}, {"norm", NORM}, {"ln_", NORM}};

    if (shape_is_attention(name))
        return ATTENTION;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcasestr(name, parts[i].part))
            return parts[i].kind;
    }
    return OTHER;
}

/* The tensor of the same kind, or of any if there is none, whose size is nearest. */
static const tensor *nearest(const source *s, const shape *to)
{
    const tensor *best = s->tensors;

    for (size_t i = 1; i < s->count; i++) {
        const tensor *t = &s->tensors[i];
        const bool same = kind_of(t->name) == kind_of(to->name), best_same = kind_of(best->name) == kind_of(to->name);
        if (same != best_same ? same : distance(t->n, to->n) < distance(best->n, to->n))
            best = t;
    }
    return best;
}

static void copy_signed(float *out, const float *from, size_t n, bool negative)
{
    float sign = negative ? -1.0f : 1.0f;

    for (size_t i = 0; i < n; i++)
        out[i] = sign * from[i];
}

/* Whether it was recorded from a transformer: its tensors are much smaller than those that are made of them. */
static bool has_attention(const source *s)
{
    bool has = false;

    for (size_t i = 0; !has && i < s->count; i++)
        has = shape_is_attention(s->tensors[i].name);
    return has;
}

/* at: 0: the residual before the first step; else 1 + the step. */
static void make(const source *s, const shape_list *list, uint64_t rank_key, size_t at, float *out)
{
    const uint64_t key = mix(rank_key + at);
    const bool in_step = has_attention(s);

    for (size_t i = 0; i < list->count; i++) {
        const shape *to = &list->shapes[i];
        const tensor *from = nearest(s, to);
        for (size_t first = 0; first < to->n; first += from->n) {
            size_t count = to->n - first < from->n ? to->n - first : from->n;
            uint64_t word = mix(mix(key + i) + first);
            size_t drawn = (size_t)((in_step ? mix(key + i) : word >> 1) % from->steps);
            bool negative = (in_step ? mix(mix(rank_key + i) + first) : word) & 1;
            const void *values = at ? tensor_step(from, drawn) : (const void *)from->residual;
            if (values)
                copy_signed(out + to->offset + first, values, count, negative);
            else
                memset(out + to->offset + first, 0, count * sizeof *out);
        }
    }
}

void gradients_make(const source *s, const shape_list *list, uint64_t seed, size_t rank, size_t step, float *out)
{
    make(s, list, mix(seed + rank), 1 + step, out);
}

void gradients_start(const source *s, const shape_list *list, uint64_t seed, size_t rank, float *out)
{
    make(s, list, mix(seed + rank), 0, out);
}
