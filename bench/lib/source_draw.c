/* SPDX-License-Identifier: MIT
 *
 * Gradients from a generator.
 */
#include "explain.h"
#include "source.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct generator {
    uint64_t state;
    bool has_spare;
    double spare;
    double density;
} generator;

static uint64_t next_word(generator *g)
{
    uint64_t z = g->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ln x for normal x > 0. The result of libm differs from machine to machine; these operations do not. With x = 2^e m
 * and m in [sqrt(1/2), sqrt(2)), f = (m - 1) / (m + 1) is at most 0.1716 and ln m = 2 (f + f^3 / 3 + f^5 / 5 + ...).
 * With 11 terms the relative error is below 0.1716^22 / 23 = 1e-18. */
static double natural_log(double x)
{
    const double ln2 = 0.69314718055994531, half_root = 0.70710678118654757;
    double sum = 0, f, f2;
    int e;

    x = frexp(x, &e);
    if (x < half_root) {
        x = x * 2;
        e--;
    }
    f = (x - 1) / (x + 1);
    f2 = f * f;
    for (int k = 21; k > 0; k -= 2)
        sum = sum * f2 + 1.0 / k;
    return e * ln2 + 2 * f * sum;
}

static double draw_laplace(generator *g)
{
    uint64_t z = next_word(g);
    double log_u = natural_log(((double)(z >> 12) + 0.5) * 0x1p-52);

    return z & 1 ? log_u : -log_u;
}

static double draw_gauss(generator *g)
{
    double a, b, s, m;

    g->has_spare = !g->has_spare;
    if (!g->has_spare)
        return g->spare;
    do {
        a = (double)(next_word(g) >> 11) * 0x1p-52 - 1;
        b = (double)(next_word(g) >> 11) * 0x1p-52 - 1;
        s = a * a + b * b;
    } while (s >= 1 || s == 0);
    m = sqrt(-2 * natural_log(s) / s);
    g->spare = m * b;
    return m * a;
}

static double draw_sparse(generator *g)
{
    uint64_t z = next_word(g);

    if ((double)(z >> 11) * 0x1p-53 >= g->density)
        return 0;
    return z & 1 ? 1 : -1;
}

static const struct distribution {
    const char *name;
    double (*draw)(generator *g);
} distributions[] = {{"gauss", draw_gauss}, {"laplace", draw_laplace}, {"sparse", draw_sparse}};

static const struct distribution *find_distribution(const char *name)
{
    for (size_t i = 0; i < sizeof distributions / sizeof distributions[0]; i++) {
        if (!strcmp(name, distributions[i].name))
            return &distributions[i];
    }
    return NULL;
}

bool source_knows(const char *distribution)
{
    const struct distribution *d = find_distribution(distribution);

    return d && d->draw != draw_sparse;
}

bool source_draw(source *s, const char *distribution, const source_options *options, char *why)
{
    const struct distribution *known = find_distribution(distribution);
    generator g = {.state = options->seed, .density = options->density};
    float values[SOURCE_CHUNK];
    tensor *t;

    *s = (source){.dtype = options->dtype};
    if (!known)
        return explain(why, "%s: there is no such distribution", distribution);
    t = source_add_tensor(s, NULL);
    if (t) {
        t->n = options->has_values ? options->values : (size_t)1 << 20;
        t->steps = options->steps ? options->steps : 16;
        t->name = strdup(distribution);
    }
    if (!t || !t->name || !tensor_allocate(t, options->dtype)) {
        source_free(s);
        return explain(why, "--values: that many are too large for the memory");
    }
    for (size_t step = 0; step < t->steps; step++) {
        for (size_t i = 0, count; i < t->n; i += count) {
            count = t->n - i < SOURCE_CHUNK ? t->n - i : SOURCE_CHUNK;
            for (size_t k = 0; k < count; k++)
                values[k] = (float)known->draw(&g);
            tensor_store(t, options->dtype, step, i, values, TLC_F32, count);
        }
    }
    s->steps = t->steps;
    s->values = t->n;
    return true;
}
