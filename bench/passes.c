/* SPDX-License-Identifier: MIT */
#include "passes.h"
#include "explain.h"
#include <string.h>

/* ---- copies ------------------------------------------------------------------------------------------------------- */

typedef struct copy_job {
    void (*copy)(void *dst, const void *src, size_t size);
    unsigned char *dst;
    const unsigned char *src;
    size_t size, threads;
} copy_job;

/* Where the slice of a thread begins: at a multiple of unit. */
static size_t slice_start(size_t total, size_t unit, size_t index, size_t threads)
{
    return index == threads ? total : total / unit * index / threads * unit;
}

static void copy_libc(void *dst, const void *src, size_t size)
{
    memcpy(dst, src, size);
}

static void copy_slice(void *arg, size_t i)
{
    const copy_job *j = arg;
    size_t from = slice_start(j->size, 64, i, j->threads), to = slice_start(j->size, 64, i + 1, j->threads);

    j->copy(j->dst + from, j->src + from, to - from);
}

static void each_slice(const subject *s, void (*task)(void *arg, size_t i), void *arg)
{
    if (s->threads > 1)
        s->parallel.run(s->parallel.opaque, s->threads, task, arg);
    else
        task(arg, 0);
}

bool pass_copy(const void *subject_, int which, char *why)
{
    const subject *s = subject_;
    copy_job j = {.copy = which == COPY_LIBC ? copy_libc : s->loops->copy, .threads = s->threads};

    (void)why;
    for (size_t step = 0; step < s->steps; step++) {
        for (size_t i = 0; i < s->count; i++) {
            const channel *c = &s->channels[i];
            j.dst = which == COPY_LIBC ? c->out : s->streamed;
            j.src = tensor_step(c->tensor, step);
            j.size = c->tensor->n * dtype_size(s->dtype);
            each_slice(s, copy_slice, &j);
            __asm__ volatile("" ::"r"(j.dst) : "memory"); /* the copy is used */
        }
    }
    return true;
}

/* ---- rooflines ---------------------------------------------------------------------------------------------------- */

typedef struct sweep_job {
    sweep *sweep;
    slice whole;
    size_t threads;
} sweep_job;

static void sweep_slice(void *arg, size_t i)
{
    const sweep_job *j = arg;
    const slice *w = &j->whole;
    size_t from = slice_start(w->n, SLICE_UNIT, i, j->threads), to = slice_start(w->n, SLICE_UNIT, i + 1, j->threads);
    slice part = {.g = w->g + from, .r = w->r + from, .out = w->out + from, .bytes = w->bytes + from / 5, .n = to - from};
    uint32_t max = j->sweep(&part);

    __asm__ volatile("" ::"r"(max) : "memory"); /* what it found is used */
}

bool pass_roofline(const void *subject_, int which, char *why)
{
    const subject *s = subject_;
    sweep *const *sweeps = s->loops->sweeps[which];
    sweep_job j = {.threads = s->threads};
    bool streams = which == ROOFLINE_STREAM;

    (void)why;
    for (size_t step = 0; step < s->steps; step++) {
        for (size_t i = 0; i < s->count; i++) {
            const channel *c = &s->channels[i];
            j.whole = (slice){.g = tensor_step(c->tensor, step), .r = c->sum, .bytes = c->frame, .n = c->tensor->n,
                              .out = (float *)(void *)(streams ? s->streamed : c->out)};
            for (int k = 0; k < 2 && sweeps[k]; k++) {
                j.sweep = sweeps[k];
                each_slice(s, sweep_slice, &j);
            }
        }
    }
    return true;
}

/* ---- codecs and peers --------------------------------------------------------------------------------------------- */

bool pass_compress(const void *subject_, int which, char *why)
{
    const subject *s = subject_;
    bool ok = true;
    size_t len;

    (void)which;
    for (size_t step = 0; ok && step < s->steps; step++) {
        for (size_t i = 0; ok && i < s->count; i++)
            ok = channel_compress(&s->channels[i], step, &len, why);
    }
    return ok;
}

bool pass_decompress(const void *subject_, int which, char *why)
{
    const subject *s = subject_;
    const frame_store *f = s->frames;
    bool ok = true;

    (void)which;
    for (size_t k = 0; ok && k < f->count; k++) {
        const channel *c = &s->channels[k % s->count];
        ok = channel_decompress(c, f->bytes + f->offset[k], f->len[k], s->dtype, c->out, why);
    }
    return ok;
}

bool pass_add(const void *subject_, int which, char *why)
{
    const subject *s = subject_;
    const frame_store *f = s->frames;
    tlc_status status = TLC_OK;

    (void)which;
    for (size_t k = 0; !status && k < f->count; k++) {
        const channel *c = &s->channels[k % s->count];
        status = tlc_decompress_add(f->bytes + f->offset[k], f->len[k], 1.0f, c->sum, c->tensor->n, &c->decode);
    }
    return !status || explain(why, "tlc_decompress_add: %s", tlc_status_string(status));
}
