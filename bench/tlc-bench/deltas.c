/* SPDX-License-Identifier: MIT
 *
 * Apply changes weights in place, so passes go to the next weights and back, in turns: a way makes a frame for each
 * direction.
 */
#include "deltas.h"
#include "../lib/channel.h"
#include "../lib/explain.h"
#include "../lib/program.h"
#include "delta_ways.h"
#include "passes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line */

/* One tensor and what a way needs for it. */
typedef struct item {
    delta_tensor tensor;
    const unsigned char *at[2]; /* base and next */
    size_t size, cap;           /* bytes of the weights, and of a frame */
    unsigned char *weights;     /* at first those of the base */
    unsigned char *copy[2];
    unsigned char *frame[2]; /* to next, and back to base */
    size_t len[2];
    uint32_t *line; /* those with weights that differ */
    size_t lines;
} item;

/* A row in the making. */
typedef struct moving {
    const options *o;
    const source *base, *next;
    const delta_way *way;
    item *items; /* one for each tensor */
    size_t threads;
    tlc_parallel parallel;
    int *moved; /* 1: the weights are the next ones */
    uint64_t *sink;
    verified verified;
    uint64_t changed; /* weights */
} moving;

/* ---- what there is to send --------------------------------------------------------------------------------------- */

/* Floats of 32, 16 and 8 bits as integers that order like them. */
static int64_t ordered(const unsigned char *weights, size_t i, size_t width)
{
    const int64_t sign = (int64_t)1 << (8 * width - 1);
    uint32_t x = weights[i * width];
    uint16_t half;

    if (width == 4)
        memcpy(&x, weights + 4 * i, sizeof x);
    else if (width == 2) {
        memcpy(&half, weights + 2 * i, sizeof half);
        x = half;
    }
    return (x & sign) != 0 ? -(int64_t)(x & (sign - 1)) - 1 : (int64_t)x;
}

/* The difference of weight i, as deltas have it. */
static int64_t difference(const item *t, size_t i)
{
    const unsigned char *base = t->at[0], *next = t->at[1];
    const size_t width = dtype_size(t->tensor.dtype);
    const unsigned char of_pair[] = {(unsigned char)(base[i / 2] >> i % 2 * 4 << 4),
                                     (unsigned char)(next[i / 2] >> i % 2 * 4 << 4)}; /* in the upper half */

    switch (t->tensor.dtype) {
    case TLC_U8: return (int8_t)(next[i] - base[i]);
    case TLC_U4: return (int8_t)(of_pair[1] - of_pair[0]) / 16;
    case TLC_F4_E2M1: return (ordered(of_pair, 1, 1) >> 4) - (ordered(of_pair, 0, 1) >> 4);
    default: return ordered(next, i, width) - ordered(base, i, width);
    }
}

/* Adds the entropy of the positions of count changes among n weights, and of their differences. */
static double entropy_of(const uint32_t *counts, size_t span, uint64_t count, uint64_t n)
{
    const double p = (double)count / (double)n;
    double bits = count && count < n ? -(double)n * (p * log2(p) + (1 - p) * log2(1 - p)) : 0;

    for (size_t i = 0; i < span; i++) {
        if (counts[i])
            bits -= counts[i] * log2((double)counts[i] / (double)count);
    }
    return bits;
}

/* Counts what differs. The entropy is that of differences of 16 bits or fewer; 32 bits have too many. */
static bool count_changes(moving *m, char *why)
{
    enum { SPAN = 1 << 17 };
    const size_t width = dtype_size(m->base->dtype);
    uint32_t *counts = calloc(SPAN, sizeof *counts);

    if (!counts)
        return explain(why, "out of memory");
    for (size_t k = 0; k < m->base->count; k++) {
        const item *t = &m->items[k];
        for (size_t i = 0; i < t->tensor.n; i++) {
            const int64_t d = difference(t, i);
            m->changed += d != 0;
            if (d && width < 4)
                counts[d + SPAN / 2]++;
        }
    }
    if (width < 4 && m->base->values)
        m->verified.entropy_bits = entropy_of(counts, SPAN, m->changed, m->base->values);
    free(counts);
    return true;
}

/* Notes the lines of a tensor with weights that differ. */
static bool find_lines(item *t, char *why)
{
    t->line = malloc((t->size / LINE + 1) * sizeof *t->line);
    if (!t->line)
        return explain(why, "out of memory");
    for (size_t i = 0; i < t->size; i += LINE) {
        if (memcmp(t->at[0] + i, t->at[1] + i, t->size - i < LINE ? t->size - i : LINE) != 0)
            t->line[t->lines++] = (uint32_t)(i / LINE);
    }
    return true;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool open_item(moving *m, item *t, const tensor *base, const tensor *next, char *why)
{
    const delta_way *w = m->way;

    *t = (item){.at = {base->data, next->data}, .size = dtype_bytes(m->base->dtype, base->n)};
    t->tensor = (delta_tensor){.dtype = m->base->dtype, .n = base->n};
    t->tensor.options = (tlc_delta_options){.struct_size = sizeof t->tensor.options, .isa = m->o->channel.isa};
    if (m->threads > 1)
        t->tensor.options.parallel = m->parallel;
    if (!w->bound(w, m->base->dtype, base->n, &t->cap))
        return explain(why, "%s: is too large", base->name);
    t->weights = channel_buffer(t->size);
    for (int i = 0; i < 2; i++) {
        t->copy[i] = channel_buffer(t->size);
        t->frame[i] = channel_buffer(t->cap);
    }
    t->tensor.scratch = w->own ? NULL : channel_buffer(t->size);
    t->tensor.coder = w->packer && w->packer->open ? w->packer->open() : NULL;
    if (!t->weights || !t->copy[0] || !t->copy[1] || !t->frame[0] || !t->frame[1] || (!w->own && !t->tensor.scratch) ||
        (w->packer && w->packer->open && !t->tensor.coder))
        return explain(why, "out of memory");
    memcpy(t->weights, base->data, t->size);
    return find_lines(t, why);
}

static void close_items(const moving *m)
{
    for (size_t i = 0; m->items && i < m->base->count; i++) {
        item *t = &m->items[i];
        free(t->weights);
        for (int k = 0; k < 2; k++) {
            free(t->copy[k]);
            free(t->frame[k]);
        }
        free(t->tensor.scratch);
        free(t->line);
        if (t->tensor.coder)
            m->way->packer->close(t->tensor.coder);
    }
    free(m->items);
}

static bool open_items(moving *m, char *why)
{
    bool ok = true;

    m->items = calloc(m->base->count, sizeof *m->items);
    if (!m->items)
        return explain(why, "out of memory");
    for (size_t i = 0; ok && i < m->base->count; i++)
        ok = open_item(m, &m->items[i], &m->base->tensors[i], &m->next->tensors[i], why);
    return ok;
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* How a loop over memory is shared among the threads. */
typedef struct job {
    const moving *m;
    item *t;
    int which; /* of the copies */
    uint64_t sums[MAX_THREADS];
} job;

static void share(job *j, size_t total, void (*task)(void *arg, size_t i))
{
    if (j->m->threads > 1)
        j->m->parallel.run(j->m->parallel.opaque, j->m->threads, task, j);
    else if (total)
        task(j, 0);
}

static void copy_slice(void *arg, size_t i)
{
    const job *j = arg;
    const size_t from = pass_slice_start(j->t->size, LINE, i, j->m->threads);

    memcpy(j->t->copy[j->which] + from, j->t->at[j->which] + from,
           pass_slice_start(j->t->size, LINE, i + 1, j->m->threads) - from);
}

/* which: 1: the next weights; 2: the base, too */
static bool pass_copy_weights(const void *moving_, int which, char *why)
{
    const moving *m = moving_;

    (void)why;
    for (size_t i = 0; i < m->base->count; i++) {
        for (int k = 2 - which; k < 2; k++) {
            job j = {.m = m, .t = &m->items[i], .which = k};
            share(&j, j.t->size, copy_slice);
            __asm__ volatile("" ::"r"(j.t->copy[k]) : "memory"); /* the compiler must not drop the copy */
        }
    }
    return true;
}

/* Adds up 8-byte words, enough of them at a time that addition does not limit the speed. */
static uint64_t read_words(const unsigned char *p, size_t size)
{
    typedef uint64_t words __attribute__((vector_size(LINE), aligned(1), may_alias));
    words sum = {0}, other = {0};
    uint64_t all = 0;
    size_t i = 0;

    for (; size - i >= 2 * LINE; i += 2 * LINE) {
        sum += *(const words *)(p + i);
        other += *(const words *)(p + i + LINE);
    }
    sum += other;
    for (size_t k = 0; k < LINE / 8; k++)
        all += sum[k];
    for (; i < size; i++)
        all += p[i];
    return all;
}

static void read_both_slice(void *arg, size_t i)
{
    job *j = arg;
    const size_t from = pass_slice_start(j->t->size, LINE, i, j->m->threads);
    const size_t size = pass_slice_start(j->t->size, LINE, i + 1, j->m->threads) - from;

    j->sums[i] = read_words(j->t->at[0] + from, size) + read_words(j->t->at[1] + from, size);
}

static void read_slice(void *arg, size_t i)
{
    job *j = arg;
    const size_t from = pass_slice_start(j->t->size, LINE, i, j->m->threads);

    j->sums[i] = read_words(j->t->copy[1] + from, pass_slice_start(j->t->size, LINE, i + 1, j->m->threads) - from);
}

/* Reads and writes a byte of each line with weights that differ, in a copy. */
static void touch_slice(void *arg, size_t i)
{
    const job *j = arg;
    const size_t end = pass_slice_start(j->t->lines, 1, i + 1, j->m->threads);

    for (size_t k = pass_slice_start(j->t->lines, 1, i, j->m->threads); k < end; k++)
        j->t->copy[1][(size_t)j->t->line[k] * LINE] ^= 1;
}

static void take_sums(const moving *m, const job *j)
{
    for (size_t i = 0; i < m->threads; i++)
        *m->sink += j->sums[i];
}

/* What compress cannot avoid: reading both inputs. */
static bool pass_compress_roof(const void *moving_, int which, char *why)
{
    const moving *m = moving_;

    (void)which;
    (void)why;
    for (size_t i = 0; i < m->base->count; i++) {
        job j = {.m = m, .t = &m->items[i]};
        share(&j, j.t->size, read_both_slice);
        take_sums(m, &j);
    }
    return true;
}

/* What apply cannot avoid: it reads all weights before it writes, if there are digests, and it changes lines. */
static bool pass_apply_roof(const void *moving_, int which, char *why)
{
    const moving *m = moving_;

    (void)which;
    (void)why;
    for (size_t i = 0; i < m->base->count; i++) {
        job j = {.m = m, .t = &m->items[i]};
        if (!m->way->without_digests) {
            share(&j, j.t->size, read_slice);
            take_sums(m, &j);
        }
        share(&j, j.t->lines, touch_slice);
    }
    return true;
}

static bool compress(const moving *m, item *t, int back, char *why)
{
    return m->way->compress(m->way, &t->tensor, t->at[back], t->at[!back], t->frame[back], t->cap, &t->len[back]) ||
           explain(why, "compress failed");
}

static bool pass_compress_delta(const void *moving_, int which, char *why)
{
    const moving *m = moving_;
    bool ok = true;

    (void)which;
    for (size_t i = 0; ok && i < m->base->count; i++)
        ok = compress(m, &m->items[i], 0, why);
    return ok;
}

static bool pass_apply(const void *moving_, int which, char *why)
{
    const moving *m = moving_;
    bool ok = true;

    (void)which;
    for (size_t i = 0; ok && i < m->base->count; i++) {
        const item *t = &m->items[i];
        ok = m->way->apply(m->way, &t->tensor, t->frame[*m->moved], t->len[*m->moved], t->weights) ||
             explain(why, "apply failed");
    }
    *m->moved = !*m->moved;
    return ok;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Round trips there and back. */
static bool check(moving *m, char *why)
{
    for (int back = 0; back < 2; back++) {
        for (size_t i = 0; i < m->base->count; i++) {
            item *t = &m->items[i];
            if (!compress(m, t, back, why))
                return false;
            if (!back)
                m->verified.frame_bytes += t->len[0];
        }
        if (!pass_apply(m, 0, why))
            return false;
        for (size_t i = 0; i < m->base->count; i++) {
            const item *t = &m->items[i];
            if (memcmp(t->weights, t->at[!back], t->size) != 0)
                return explain(why, "%s: other weights come out", m->base->tensors[i].name);
        }
    }
    m->verified.values = m->base->values;
    m->verified.input_bytes = dtype_bytes(m->base->dtype, m->base->values);
    return true;
}

static bool time_row(const moving *m, report_row *row, char *why)
{
    const bool own = m->way->own;
    const operation operations[] = {
        {pass_copy_weights, m, 1, 0}, {pass_copy_weights, m, 2, 0},  {pass_compress_delta, m, 0, 0},
        {pass_apply, m, 0, 0},        {pass_compress_roof, m, 0, 0}, {pass_apply_roof, m, 0, 0},
    };
    static const int slots[] = {TIME_MEMCPY, TIME_MEMCPY_BOTH,   TIME_COMPRESS,
                                TIME_APPLY,  TIME_COMPRESS_ROOF, TIME_APPLY_ROOF};
    const size_t count = own ? 6 : 4; /* other ways have no rooflines of their own */
    timing t[6];

    if (!measure(operations, count, m->o->seconds, t, &row->rounds, why))
        return false;
    for (size_t i = 0; i < count; i++)
        row->time[slots[i]] = t[i];
    return true;
}

/* The kernels that the library takes. */
static tlc_isa isa_used(tlc_isa isa)
{
    tlc_config cfg;
    tlc_ctx *ctx;

    if (tlc_config_init(&cfg, sizeof cfg))
        return isa;
    cfg.isa = isa;
    if (tlc_create(&ctx, &cfg, 1))
        return isa;
    isa = tlc_isa_used(ctx);
    tlc_destroy(ctx);
    return isa;
}

static bool add_way(row_list *list, moving *m, const char *name, char *why)
{
    char reason[WHY_SIZE];

    program_progress(m->o->quiet, list->count + 1, list->total, m->way->name, name, "measuring");
    bool ok = open_items(m, reason) && count_changes(m, reason) && check(m, reason);
    report_row *row = ok ? rows_append(list) : NULL;
    if (row) {
        m->verified.isa = m->way->own ? isa_used(m->o->channel.isa) : TLC_ISA_AUTO;
        row->kind = m->way->own ? ROW_DELTA : ROW_PEER;
        row->name = m->way->name;
        row->next = name;
        row->changed = m->base->values ? (double)m->changed / (double)m->base->values : 0;
        row->threads = m->threads;
        row->values = m->base->values;
        row->calls = m->base->count;
        row->gigabytes = (double)m->verified.input_bytes * 1e-9;
        row->verified = m->verified;
        ok = time_row(m, row, reason);
    } else if (ok) {
        ok = explain(reason, "out of memory");
    }
    close_items(m);
    return ok || explain(why, "%s: %s", m->way->name, reason);
}

static bool add_ways(row_list *list, const options *o, const source *base, const source *next, size_t threads,
                     tlc_parallel parallel, char *why)
{
    size_t count;
    const delta_way *ways = delta_ways(o->peers && threads == 1, &count);
    const char *name = next->run ? next->run : next->tensors->name;
    bool ok = true;

    for (size_t i = 0; ok && i < count; i++) {
        int moved = 0;
        uint64_t sink = 0;
        moving m = {.o = o,
                    .base = base,
                    .next = next,
                    .way = &ways[i],
                    .threads = threads,
                    .parallel = parallel,
                    .moved = &moved,
                    .sink = &sink};
        ok = add_way(list, &m, name, why);
        __asm__ volatile("" ::"r"(sink)); /* the compiler must not drop the rooflines */
    }
    return ok;
}

bool deltas_rows(row_list *list, const options *o, const source *sources, size_t count, const cores *c, char *why)
{
    size_t ways = 0, total = 0;
    bool ok = true;

    for (size_t t = 0; t < o->threads.count; t++) {
        (void)delta_ways(o->peers && o->threads.items[t] == 1, &ways);
        total += ways;
    }
    list->total = list->inputs * count * total;
    for (size_t t = 0; ok && t < o->threads.count; t++) {
        const size_t threads = o->threads.items[t];
        pool *p = threads > 1 ? pool_open(threads, c, why) : NULL;
        ok = p || threads == 1;
        for (size_t i = 1; ok && i <= count; i++)
            ok = add_ways(list, o, &sources[0], &sources[i], threads,
                          p ? pool_parallel(p) : (tlc_parallel){.run = NULL}, why);
        pool_close(p);
    }
    program_progress_end(o->quiet);
    return ok;
}
