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
    } parts[] = {{"attn", ATTENTION}, {"attention", ATTENTION}, {"emb", EMBEDDING}, {"wte", EMBEDDING},
                 {"wpe", EMBEDDING},  {"norm", NORM},           {"ln_", NORM}};

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

/* key: of the rank and the step. residual: make a residual, not a gradient. */
static void make(const source *s, const shape_list *list, uint64_t key, bool residual, float *out)
{
    for (size_t i = 0; i < list->count; i++) {
        const shape *to = &list->shapes[i];
        const tensor *from = nearest(s, to);
        for (size_t at = 0; at < to->n; at += from->n) {
            size_t count = to->n - at < from->n ? to->n - at : from->n;
            uint64_t word = mix(mix(key + i) + at);
            size_t drawn = (size_t)((word >> 1) % from->steps);
            const void *values = residual ? (const void *)from->residual : tensor_step(from, drawn);
            if (values)
                copy_signed(out + to->offset + at, values, count, word & 1);
            else
                memset(out + to->offset + at, 0, count * sizeof *out);
        }
    }
}

void gradients_make(const source *s, const shape_list *list, uint64_t seed, size_t rank, size_t step, float *out)
{
    make(s, list, mix(mix(seed + rank) + 1 + step), false, out);
}

void gradients_start(const source *s, const shape_list *list, uint64_t seed, size_t rank, float *out)
{
    make(s, list, mix(mix(seed + rank)), true, out);
}
