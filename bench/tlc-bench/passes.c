/* SPDX-License-Identifier: MIT */
#include "passes.h"
#include "../lib/explain.h"
#include <string.h>
#include <threelc/stages.h>

/* ---- copies ----------------------------------------------------------------------------------------------------- */

typedef struct copy_job {
    void (*copy)(void *dst, const void *src, size_t size);
    unsigned char *dst;
    const unsigned char *src;
    size_t size, threads;
} copy_job;

size_t pass_slice_start(size_t total, size_t unit, size_t index, size_t threads)
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
    size_t from = pass_slice_start(j->size, 64, i, j->threads), to = pass_slice_start(j->size, 64, i + 1, j->threads);

    j->copy(j->dst + from, j->src + from, to - from);
}

void pass_slices(const subject *s, void (*task)(void *arg, size_t index), void *arg)
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
            pass_slices(s, copy_slice, &j);
            __asm__ volatile("" ::"r"(j.dst) : "memory"); /* the compiler must not drop the copy */
        }
    }
    return true;
}

/* ---- rooflines -------------------------------------------------------------------------------------------------- */

typedef struct sweep_job {
    sweep *sweep;
    slice whole;
    size_t threads;
} sweep_job;

static void sweep_slice(void *arg, size_t i)
{
    const sweep_job *j = arg;
    const slice *w = &j->whole;
    size_t from = pass_slice_start(w->n, SLICE_UNIT, i, j->threads),
           to = pass_slice_start(w->n, SLICE_UNIT, i + 1, j->threads);
    slice part = {.g = w->g + from,
                  .r = w->r + from,
                  .out = w->out + from,
                  .bytes = w->bytes + from / 5,
                  .n = to - from};
    uint32_t max = j->sweep(&part);

    __asm__ volatile("" ::"r"(max) : "memory"); /* the compiler must not drop the sweep */
}

/* A step that is only accumulated. Without assume_finite all is checked before the first write, so r and g are read
 * twice. */
static void choose_accumulating(const roofline_loops *loops, int which, sweep *sweeps[2])
{
    bool checks_first = which == ROOFLINE_TWO_SWEEPS;

    sweeps[0] = loops->sweeps[which][0];
    sweeps[1] = checks_first ? loops->sweeps[ROOFLINE_ASSUME_FINITE][0] : NULL;
    if (which == ROOFLINE_ONE_SWEEP)
        sweeps[0] = loops->sweeps[ROOFLINE_ASSUME_FINITE][0];
}

static bool is_decoding(int which)
{
    return which == ROOFLINE_WRITE || which == ROOFLINE_STREAM || which == ROOFLINE_ADD;
}

static void sweep_step(const subject *s, int which, size_t step)
{
    sweep *sweeps[2] = {s->loops->sweeps[which][0], s->loops->sweeps[which][1]};
    sweep_job j = {.threads = s->threads};

    if (!channel_sends(s->channels, step)) {
        if (is_decoding(which))
            return;
        choose_accumulating(s->loops, which, sweeps);
    }
    for (size_t i = 0; i < s->count; i++) {
        const channel *c = &s->channels[i];
        j.whole = (slice){.g = tensor_step(c->tensor, step),
                          .r = c->sum,
                          .bytes = c->frame,
                          .n = c->tensor->n,
                          .out = (float *)(void *)(which == ROOFLINE_STREAM ? s->streamed : c->out)};
        for (int k = 0; k < 2 && sweeps[k]; k++) {
            /* cppcheck-suppress AssignmentIntegerToAddress ; they are pointers to functions */
            j.sweep = sweeps[k];
            pass_slices(s, sweep_slice, &j);
        }
    }
}

bool pass_roofline(const void *subject_, int which, char *why)
{
    const subject *s = subject_;

    (void)why;
    for (size_t step = 0; step < s->steps; step++)
        sweep_step(s, which, step);
    return true;
}

/* ---- random words ----------------------------------------------------------------------------------------------- */

enum { WORDS = 1024 }; /* drawn at a time, a multiple of 4 */

typedef struct random_job {
    uint64_t seed, step;
    size_t n, threads;
} random_job;

static void draw_slice(void *arg, size_t i)
{
    const random_job *j = arg;
    size_t from = pass_slice_start(j->n, 4, i, j->threads), to = pass_slice_start(j->n, 4, i + 1, j->threads);
    uint32_t words[WORDS];

    for (; from < to; from += WORDS) {
        tlc_philox(j->seed, j->step, from, to - from < WORDS ? to - from : WORDS, words);
        __asm__ volatile("" ::"r"(words) : "memory"); /* the compiler must not drop them */
    }
}

bool pass_random(const void *subject_, int which, char *why)
{
    const subject *s = subject_;
    random_job j = {.seed = s->seed, .threads = s->threads};

    (void)which;
    (void)why;
    for (size_t step = 0; step < s->steps; step++) {
        for (size_t i = 0; i < s->count && channel_sends(s->channels, step); i++) {
            j.step = step;
            j.n = s->channels[i].tensor->n;
            pass_slices(s, draw_slice, &j);
        }
    }
    return true;
}

/* ---- codecs and peers ------------------------------------------------------------------------------------------- */

static bool send(const channel *c, size_t step, char *why)
{
    size_t len;

    return channel_sends(c, step) ? channel_compress(c, step, &len, why) : channel_accumulate(c, step, why);
}

bool pass_compress(const void *subject_, int which, char *why)
{
    const subject *s = subject_;
    bool ok = true;

    (void)which;
    for (size_t step = 0; ok && step < s->steps; step++) {
        for (size_t i = 0; ok && i < s->count; i++) {
            const channel *c = &s->channels[i];
            ok = send(c, step, why);
            /* A pass is repeated as often as it takes to be timed. random-sparse with error feedback does not last
             * that long: its residual grows in every step. */
            if (!ok && !c->peer && channel_residual(c)) {
                channel_restart(c);
                ok = send(c, step, why);
            }
        }
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
