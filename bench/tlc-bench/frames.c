/* SPDX-License-Identifier: MIT
 *
 * Drawing takes long, so there are only a few senders. Further frames are copies of theirs. Each copy has memory of its
 * own, so the caches see as many bytes as if all were different.
 */
#include "frames.h"
#include "../lib/explain.h"
#include "../lib/program.h"
#include "passes.h"
#include <stdlib.h>
#include <string.h>

enum { SENDERS = 4 };

/* The frames of one codec, one of each sender. */
typedef struct sample {
    void *frame[SENDERS];
    size_t len[SENDERS];
    uint64_t nonzero[SENDERS]; /* decoded values that are not 0 */
    verified verified;         /* isa and feedback */
} sample;

/* What a row adds to the sum of a channel. */
typedef struct adding {
    tlc_message frames[MAX_FRAMES]; /* each at a multiple of 64 */
    size_t count;
    subject subject; /* a channel that is a sum, and the threads */
    const channel *sum;
    const tlc_decode_options *decode;
    tlc_decode_options from_zero;
} adding;

/* ---- senders ----------------------------------------------------------------------------------------------------- */

/* Goes on until the residual is that of a long run, in whole passes over the steps. */
static bool compress_steps(const options *o, const channel *c, size_t *len, char *why)
{
    size_t steps = c->tensor->steps, passes = o->warmup ? (o->warmup - 1) / steps + 1 : 1;
    bool ok = true;

    for (size_t step = 0; ok && step < passes * steps; step++)
        ok = channel_compress(c, step, len, why);
    return ok;
}

static bool keep_frame(sample *s, size_t sender, const channel *c, size_t len, char *why)
{
    const float *values = (const float *)(const void *)c->out;

    if (!channel_decompress(c, c->frame, len, TLC_F32, c->out, why))
        return false;
    for (size_t i = 0; i < c->tensor->n; i++)
        s->nonzero[sender] += values[i] != 0;
    s->frame[sender] = channel_buffer(len);
    if (!s->frame[sender])
        return explain(why, "out of memory");
    memcpy(s->frame[sender], c->frame, len);
    s->len[sender] = len;
    s->verified.isa = tlc_isa_used(c->ctx);
    s->verified.feedback = channel_residual(c) != NULL;
    return true;
}

/* Each sender has a seed of its own. */
static bool send_with(const options *o, const design *d, const tensor *t, size_t sender, sample *s, char *why)
{
    channel_options sent = options_channel(o, d);
    char reason[WHY_SIZE];
    size_t len = 0;

    sent.seed += 1 + sender;
    channel *c = channels_open(t, 1, TLC_F32, &sent, reason);
    bool ok = c && compress_steps(o, c, &len, reason) && keep_frame(s, sender, c, len, reason);
    channels_close(c, 1);
    return ok || explain(why, "%s: %s", d->codec, reason);
}

static size_t most_frames(const options *o)
{
    size_t most = 0;

    for (size_t i = 0; i < o->frames.count; i++)
        most = o->frames.items[i] > most ? o->frames.items[i] : most;
    return most;
}

/* samples: one for each codec. The gradients of the last sender stay in s. */
static bool draw_samples(const options *o, source *s, size_t values, sample *samples, char *why)
{
    source_options wanted = o->source;
    size_t most = most_frames(o);
    bool ok = true;

    wanted.has_values = true;
    wanted.values = values;
    wanted.steps = wanted.steps ? wanted.steps : source_few_steps(values);
    for (size_t sender = 0; ok && sender < SENDERS && sender < most; sender++) {
        program_progress(o->quiet, sender + 1, most < SENDERS ? most : SENDERS, "a sender", o->synthetic,
                         "drawing and compressing");
        source_free(s);
        ok = source_draw(s, o->synthetic, &wanted, why);
        for (size_t i = 0; ok && i < o->codec_count; i++)
            ok = send_with(o, &o->codecs[i], s->tensors, sender, &samples[i], why);
        wanted.seed++;
    }
    return ok;
}

static void samples_free(sample *samples, size_t count)
{
    for (size_t i = 0; samples && i < count; i++) {
        for (size_t sender = 0; sender < SENDERS; sender++)
            free(samples[i].frame[sender]);
    }
    free(samples);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static bool add_each(const adding *a, float *sum, const tlc_decode_options *decode, char *why)
{
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < a->count; i++)
        status = tlc_decompress_add(a->frames[i].data, a->frames[i].len, 1.0f, sum, a->sum->tensor->n, decode);
    return !status || explain(why, "tlc_decompress_add: %s", tlc_status_string(status));
}

static bool pass_each(const void *subject_, int which, char *why)
{
    const adding *a = subject_;

    (void)which;
    return add_each(a, a->sum->sum, a->decode, why);
}

enum { ONTO_SUM, ONTO_ZERO };

static bool pass_many(const void *subject_, int which, char *why)
{
    const adding *a = subject_;
    tlc_status status = tlc_decompress_add_many(a->frames, NULL, a->count, a->sum->sum, a->sum->tensor->n, NULL,
                                                which == ONTO_ZERO ? &a->from_zero : a->decode);

    return !status || explain(why, "tlc_decompress_add_many: %s", tlc_status_string(status));
}

typedef struct roof_job {
    const adding *a;
    sum_sweep *sweep;
} roof_job;

static void sweep_slice(void *arg, size_t i)
{
    const roof_job *j = arg;
    const subject *s = &j->a->subject;
    size_t n = j->a->sum->tensor->n;

    j->sweep(&(sum_slice){.frames = j->a->frames,
                          .count = j->a->count,
                          .sum = j->a->sum->sum,
                          .n = n,
                          .from = pass_slice_start(n, SLICE_UNIT, i, s->threads),
                          .to = pass_slice_start(n, SLICE_UNIT, i + 1, s->threads)});
}

static bool pass_roof(const void *subject_, int which, char *why)
{
    const adding *a = subject_;
    const roofline_loops *loops = a->subject.loops;
    roof_job j = {.a = a, .sweep = which == ONTO_ZERO ? loops->from_zero : loops->add_many};

    (void)why;
    pass_slices(&a->subject, sweep_slice, &j);
    return true;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Fills both sums with the same values, none of which is 0. */
static void fill_sums(float *a, float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] = ((float)(i % 1001) - 500.5f) * 0.01f;
}

/* Single calls on one thread add to the output of the channel. The last check leaves sums that are finite. */
static bool check_sums(const adding *a, char *why)
{
    const tlc_decode_options single = {.struct_size = sizeof single, .isa = a->decode->isa};
    float *sum = a->sum->sum, *want = (float *)(void *)a->sum->out;
    size_t n = a->sum->tensor->n;

    fill_sums(sum, want, n);
    if (!add_each(a, want, &single, why) || !pass_many(a, ONTO_SUM, why))
        return false;
    if (memcmp(sum, want, n * sizeof *sum) != 0)
        return explain(why, "tlc_decompress_add_many does not give the sum of single calls");
    memset(want, 0, n * sizeof *want);
    memset(sum, 0xff, n * sizeof *sum); /* NaN */
    if (!add_each(a, want, &single, why) || !pass_many(a, ONTO_ZERO, why))
        return false;
    return !memcmp(sum, want, n * sizeof *sum) ||
           explain(why, "tlc_decompress_add_many with from_zero does not give the sum of single calls from zeros");
}

static bool measure_sums(const adding *a, double seconds, report_row *row, char *why)
{
    const operation operations[] = {
        {pass_copy, &a->subject, COPY_LIBC, 0},
        {pass_each, a, 0, 0},
        {pass_many, a, ONTO_SUM, 0},
        {pass_roof, a, ONTO_SUM, 0},
        {pass_many, a, ONTO_ZERO, 0},
        {pass_roof, a, ONTO_ZERO, 0},
    };
    const int slot[] = {TIME_MEMCPY, TIME_ADD, TIME_ADD_MANY, TIME_ADD_MANY_ROOF, TIME_FROM_ZERO, TIME_FROM_ZERO_ROOF};
    enum { OPERATIONS = sizeof operations / sizeof operations[0] };
    timing t[OPERATIONS];

    if (!measure(operations, OPERATIONS, seconds, t, &row->rounds, why))
        return false;
    for (size_t i = 0; i < OPERATIONS; i++)
        row->time[slot[i]] = t[i];
    return true;
}

static void describe(report_row *row, const adding *a, const sample *s, const char *codec)
{
    size_t n = a->sum->tensor->n;

    row->kind = ROW_FRAMES;
    row->name = codec;
    row->threads = a->subject.threads;
    row->steps = a->sum->tensor->steps;
    row->frames = row->calls = a->count;
    row->values = n;
    row->gigabytes = (double)n * sizeof(float) * 1e-9;
    row->verified = s->verified;
    row->verified.values = (uint64_t)n * a->count;
    row->verified.input_bytes = row->verified.values * sizeof(float);
    for (size_t i = 0; i < a->count; i++) {
        row->verified.frame_bytes += a->frames[i].len;
        row->verified.nonzero += s->nonzero[i % SENDERS];
    }
}

static bool add_row(row_list *list, const options *o, const adding *a, const sample *s, const char *codec, char *why)
{
    report_row *row = rows_append(list);

    if (!row)
        return explain(why, "out of memory");
    describe(row, a, s, codec);
    program_progress(o->quiet, list->count, list->total, codec, o->synthetic, "verifying");
    if (!check_sums(a, why))
        return false;
    program_progress(o->quiet, list->count, list->total, codec, o->synthetic, "measuring");
    return measure_sums(a, o->seconds, row, why);
}

/* Copies of the sample, the senders in turn. The caller frees it. NULL: no memory. */
static unsigned char *copy_frames(const sample *s, size_t count, tlc_message *frames)
{
    unsigned char *bytes;
    size_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += round_up_64(s->len[i % SENDERS]);
    bytes = channel_buffer(total);
    total = 0;
    for (size_t i = 0; bytes && i < count; i++) {
        frames[i] = (tlc_message){bytes + total, s->len[i % SENDERS]};
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): each of the senders has sent */
        memcpy(bytes + total, s->frame[i % SENDERS], frames[i].len);
        total += round_up_64(frames[i].len);
    }
    return bytes;
}

static bool add_codec(row_list *list, const options *o, adding *a, const sample *s, const char *codec, char *why)
{
    unsigned char *bytes = copy_frames(s, most_frames(o), a->frames);
    char reason[WHY_SIZE] = "out of memory";
    bool ok = bytes != NULL;

    for (size_t i = 0; ok && i < o->frames.count; i++) {
        a->count = o->frames.items[i];
        ok = add_row(list, o, a, s, codec, reason);
    }
    free(bytes);
    return ok || explain(why, "%s: %s", codec, reason);
}

static bool add_group(row_list *list, const options *o, const tensor *t, const sample *samples, size_t threads,
                      tlc_parallel parallel, char *why)
{
    const channel_options buffers = {.isa = o->channel.isa, .parallel = parallel};
    channel *sum = channels_open(t, 1, TLC_F32, &buffers, why);
    bool ok = sum != NULL;

    for (size_t i = 0; ok && i < o->codec_count; i++) {
        adding a = {.sum = sum, .decode = &sum->decode, .from_zero = sum->decode};
        a.subject = (subject){.channels = sum, .count = 1, .steps = 1, .dtype = TLC_F32, .threads = threads};
        a.subject.loops = roofline_loops_of(o->channel.isa);
        a.subject.parallel = parallel;
        a.from_zero.from_zero = 1;
        ok = add_codec(list, o, &a, &samples[i], o->codecs[i].codec, why);
    }
    channels_close(sum, 1);
    return ok;
}

static bool add_threads(row_list *list, const options *o, const tensor *t, const sample *samples, const cores *c,
                        char *why)
{
    bool ok = true;

    for (size_t i = 0; ok && i < o->threads.count; i++) {
        size_t threads = o->threads.items[i];
        pool *p = threads > 1 ? pool_open(threads, c, why) : NULL;
        ok = (p || threads == 1) &&
             add_group(list, o, t, samples, threads, p ? pool_parallel(p) : (tlc_parallel){.run = NULL}, why);
        pool_close(p);
    }
    return ok;
}

bool frames_rows(row_list *list, const options *o, source *s, size_t values, const cores *c, char *why)
{
    sample *samples = calloc(o->codec_count, sizeof *samples);
    bool ok = samples ? draw_samples(o, s, values, samples, why) : explain(why, "out of memory");

    list->total = list->inputs * o->threads.count * o->codec_count * o->frames.count;
    ok = ok && add_threads(list, o, s->tensors, samples, c, why);
    source_drop_values(s);
    samples_free(samples, o->codec_count);
    program_progress_end(o->quiet);
    return ok;
}
