/* SPDX-License-Identifier: MIT */
#include "rows.h"
#include "../lib/codecs.h"
#include "../lib/explain.h"
#include "../lib/program.h"
#include "../lib/runs.h"
#include "passes.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What rows are made of: tensors, and a number of threads. */
typedef struct group {
    const options *o;
    row_list *list;
    const source *sources; /* the runs, or the only source */
    size_t source_count;
    const source *source; /* the tensors are of this one, */
    size_t first, count;  /* and these of it */
    const tensor *tensors;
    size_t steps;
    tlc_dtype dtype;
    const char *name; /* of the tensor, for --per-tensor; NULL: all tensors */
    const roofline_loops *loops;
    size_t threads;
    tlc_parallel parallel;
} group;

static void progress(const group *g, const char *name, const char *what)
{
    program_progress(g->o->quiet, g->list->done + 1, g->list->total, name, g->tensors->name, what);
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

report_row *rows_append(row_list *list)
{
    report_row *row;

    if (list->count == list->slots) {
        size_t slots = list->slots ? list->slots * 2 : 32;
        report_row *rows = realloc(list->rows, slots * sizeof *rows);
        if (!rows)
            return NULL;
        list->rows = rows;
        list->slots = slots;
    }
    row = &list->rows[list->count++];
    *row = (report_row){.threads = 1, .steps = 1, .delay = 1, .frames = 1};
    for (int time = 0; time < TIMES; time++)
        row->time[time] = (timing){NAN, NAN};
    return row;
}

static report_row *add_row(const group *g, row_kind kind, const char *name)
{
    report_row *row = rows_append(g->list);

    if (!row)
        return NULL;
    row->kind = kind;
    row->name = name;
    row->tensor = g->name;
    row->run = g->source->run ? g->source : NULL;
    row->threads = g->threads;
    row->steps = g->steps;
    for (size_t i = 0; i < g->count; i++)
        row->values += g->tensors[i].n;
    row->calls = g->count * g->steps;
    row->gigabytes = (double)row->values * (double)dtype_size(g->dtype) * (double)g->steps * 1e-9;
    return row;
}

void rows_free(row_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        verified_free(&list->rows[i].verified);
    free(list->rows);
}

/* ---- what is timed in a row ------------------------------------------------------------------------------------- */

typedef struct plan {
    operation operations[MAX_OPERATIONS];
    int slot[MAX_OPERATIONS]; /* where its time goes: FLOOR_..., or TIME_... in rows of codecs and peers */
    size_t count;
} plan;

static void add_operation(plan *p, int slot, bool (*pass)(const void *, int, char *), const subject *s, int which,
                          size_t warmup)
{
    p->operations[p->count] = (operation){.pass = pass, .subject = s, .which = which, .warmup = warmup};
    p->slot[p->count++] = slot;
}

/* If operations have the same slot, the time of the fastest is taken. */
static bool measure_row(const plan *p, double seconds, report_row *row, char *why)
{
    timing timings[MAX_OPERATIONS];

    if (!measure(p->operations, p->count, seconds, timings, &row->rounds, why))
        return false;
    for (size_t i = 0; i < p->count; i++) {
        timing *t = &row->time[p->slot[i]];
        if (!(t->median <= timings[i].median))
            *t = timings[i];
    }
    return true;
}

static bool subject_open(subject *s, const group *g, const channel *channels, const frame_store *frames, char *why)
{
    size_t largest = 0;

    for (size_t i = 0; i < g->count; i++)
        largest = g->tensors[i].n > largest ? g->tensors[i].n : largest;
    *s = (subject){.channels = channels,
                   .count = g->count,
                   .steps = g->steps,
                   .dtype = g->dtype,
                   .frames = frames,
                   .seed = g->o->channel.seed,
                   .loops = g->loops,
                   .threads = g->threads,
                   .parallel = g->parallel};
    s->stream_memory = channel_buffer(largest * dtype_size(g->dtype) + 64);
    s->streamed = (unsigned char *)s->stream_memory + -(uintptr_t)s->stream_memory % 64;
    return s->stream_memory || explain(why, "out of memory");
}

/* Rooflines are for f32. On small tensors memory is not the limit. */
static bool has_roofs(const group *g)
{
    return g->dtype == TLC_F32 && g->o->view != VIEW_SMALL;
}

/* ---- copies and rooflines --------------------------------------------------------------------------------------- */

/* All floors, that is copies and rooflines, are measured in the same rounds. */
enum { FLOOR_COPY, FLOOR_COPY_NT, FLOOR_ROOFLINES, FLOORS = FLOOR_ROOFLINES + ROOFLINES };

static const struct floor_row {
    row_kind kind;
    const char *name;
    int compress, decompress, add; /* FLOOR_...; -1: none */
} floor_rows[] = {
    {ROW_COPY, "memcpy", FLOOR_COPY, FLOOR_COPY, -1},
    {ROW_COPY, "copy (non-temporal)", FLOOR_COPY_NT, FLOOR_COPY_NT, -1},
    {ROW_ROOFLINE, "roofline", FLOOR_ROOFLINES + ROOFLINE_TWO_SWEEPS, FLOOR_ROOFLINES + ROOFLINE_WRITE,
     FLOOR_ROOFLINES + ROOFLINE_ADD},
    {ROW_ROOFLINE, "roofline (non-temporal)", -1, FLOOR_ROOFLINES + ROOFLINE_STREAM, -1},
    {ROW_ROOFLINE, "roofline (assume_finite)", FLOOR_ROOFLINES + ROOFLINE_ASSUME_FINITE, -1, -1},
    {ROW_ROOFLINE, "roofline (one sweep)", FLOOR_ROOFLINES + ROOFLINE_ONE_SWEEP, -1, -1},
    {ROW_ROOFLINE, "roofline (no residual)", FLOOR_ROOFLINES + ROOFLINE_NO_RESIDUAL, -1, -1},
};

static void set_time(report_row *row, int time, const timing *timings, int floor)
{
    if (floor >= 0)
        row->time[time] = timings[floor];
}

static bool measure_floors(const group *g, const channel *channels, timing timings[FLOORS], size_t *rounds, char *why)
{
    timing measured[FLOORS];
    plan p = {.count = 0};
    subject s;
    bool ok;

    if (!subject_open(&s, g, channels, NULL, why))
        return false;
    add_operation(&p, FLOOR_COPY, pass_copy, &s, COPY_LIBC, 0);
    if (g->o->view != VIEW_SMALL && g->loops->copy)
        add_operation(&p, FLOOR_COPY_NT, pass_copy, &s, COPY_NON_TEMPORAL, 0);
    for (int i = 0; i < ROOFLINES; i++) {
        if (has_roofs(g) && g->loops->sweeps[i][0])
            add_operation(&p, FLOOR_ROOFLINES + i, pass_roofline, &s, i, 0);
    }
    for (int i = 0; i < FLOORS; i++)
        timings[i] = (timing){NAN, NAN};
    ok = measure(p.operations, p.count, g->o->seconds, measured, rounds, why);
    for (size_t i = 0; ok && i < p.count; i++)
        timings[p.slot[i]] = measured[i];
    free(s.stream_memory);
    return ok;
}

static bool add_floors(const group *g, char *why)
{
    channel_options buffers = {.codec = NULL};
    channel *channels = channels_open(g->tensors, g->count, g->dtype, &buffers, why);
    timing timings[FLOORS];
    size_t rounds;
    bool ok;

    if (!channels)
        return false;
    progress(g, "memcpy and rooflines", "measuring");
    ok = measure_floors(g, channels, timings, &rounds, why);
    channels_close(channels, g->count);
    for (const struct floor_row *f = floor_rows; ok && f < floor_rows + sizeof floor_rows / sizeof floor_rows[0]; f++) {
        int main = f->compress >= 0 ? f->compress : f->decompress;
        if (isnan(timings[main].median))
            continue;
        report_row *row = add_row(g, f->kind, f->name);
        if (!row)
            return explain(why, "out of memory");
        row->rounds = rounds;
        set_time(row, TIME_MEMCPY, timings, FLOOR_COPY);
        set_time(row, TIME_COMPRESS, timings, f->compress);
        set_time(row, TIME_DECOMPRESS, timings, f->decompress);
        set_time(row, TIME_ADD, timings, f->add);
    }
    return ok;
}

/* ---- codecs and peers ------------------------------------------------------------------------------------------- */

static bool is_blocked(const frame_store *frames)
{
    tlc_frame_info info = {.struct_size = sizeof info};

    return !tlc_inspect(frames->bytes + frames->offset[0], frames->len[0], &info) && info.block;
}

/* The rooflines of a codec. feedback: whether it has a residual. */
static void add_roofs(plan *p, const subject *s, bool feedback, bool assume_finite)
{
    int sweeps = feedback ? ROOFLINE_TWO_SWEEPS : ROOFLINE_NO_RESIDUAL;

    if (feedback && assume_finite)
        sweeps = is_blocked(s->frames) ? ROOFLINE_ONE_SWEEP : ROOFLINE_ASSUME_FINITE;
    add_operation(p, TIME_COMPRESS_ROOF, pass_roofline, s, sweeps, 0);
    add_operation(p, TIME_DECOMPRESS_ROOF, pass_roofline, s, ROOFLINE_WRITE, 0);
    if (s->loops->sweeps[ROOFLINE_STREAM][0])
        add_operation(p, TIME_DECOMPRESS_ROOF, pass_roofline, s, ROOFLINE_STREAM, 0);
    add_operation(p, TIME_ADD_ROOF, pass_roofline, s, ROOFLINE_ADD, 0);
}

static bool measure_sent(const group *g, const channel *channels, const channel_options *sent,
                         const frame_store *frames, report_row *row, char *why)
{
    size_t warmup = g->o->warmup ? (g->o->warmup - 1) / g->steps : 0;
    bool copies = sent->codec && codec_is_raw(sent->codec) && !row->verified.feedback; /* that is all it has to do */
    plan p = {.count = 0};
    subject s;
    bool ok;

    if (!subject_open(&s, g, channels, frames, why))
        return false;
    add_operation(&p, TIME_MEMCPY, pass_copy, &s, COPY_LIBC, 0);
    if (sent->codec && has_roofs(g) && !copies)
        add_roofs(&p, &s, row->verified.feedback, sent->assume_finite);
    if (sent->codec && codec_is_stochastic(sent->codec))
        add_operation(&p, TIME_RANDOM, pass_random, &s, 0, 0);
    add_operation(&p, TIME_COMPRESS, pass_compress, &s, 0, warmup);
    add_operation(&p, TIME_DECOMPRESS, pass_decompress, &s, 0, 0);
    if (sent->codec)
        add_operation(&p, TIME_ADD, pass_add, &s, 0, 0);
    ok = measure_row(&p, g->o->seconds, row, why);
    free(s.stream_memory);
    for (int time = TIME_COMPRESS_ROOF; copies && time <= TIME_ADD_ROOF; time++)
        row->time[time].median = row->time[TIME_MEMCPY].median;
    return ok;
}

/* Threads and assume_finite must not change any byte. */
static bool check_frames(const group *g, const channel_options *sent, const frame_store *frames, char *why)
{
    channel_options plain = *sent;

    if (!sent->codec || (g->threads == 1 && !sent->assume_finite))
        return true;
    plain.assume_finite = 0;
    plain.parallel = (tlc_parallel){.run = NULL};
    return frames_match(frames, g->tensors, g->count, g->dtype, &plain, why);
}

/* The same tensors of another run, with the steps that this delay needs. */
static group on_source(const group *g, const source *s, size_t delay)
{
    group other = *g;

    other.source = s;
    other.tensors = s->tensors + g->first;
    other.steps = channel_steps(g->steps, delay);
    return other;
}

static bool run_sent(const group *g, const channel_options *sent, report_row *row, char *why)
{
    channel *channels = channels_open(g->tensors, g->count, g->dtype, sent, why);
    frame_store frames;
    bool ok;

    if (!channels)
        return false;
    if (!frames_open(&frames, g->count * g->steps, why)) {
        channels_close(channels, g->count);
        return false;
    }
    progress(g, row->name, "verifying");
    ok = verify(channels, g->count, g->dtype, sent, &frames, &row->verified, why) &&
         check_frames(g, sent, &frames, why);
    if (ok) {
        progress(g, row->name, "measuring");
        ok = measure_sent(g, channels, sent, &frames, row, why);
    }
    frames_close(&frames);
    channels_close(channels, g->count);
    return ok;
}

/* Of d and other, one is NULL. */
static bool add_sent(const group *all, const design *d, const peer *other, bool assume_finite, char *why)
{
    bool own = true;
    size_t run = d && all->source_count > 1 ? runs_choose(all->sources, all->source_count, d->codec, &own) : 0;
    const char *name = d ? d->codec : other->name;
    channel_options sent = d ? options_channel(all->o, d) : all->o->channel;
    const group g = on_source(all, &all->sources[run], sent.delay);
    report_row *row = add_row(&g, d ? ROW_CODEC : ROW_PEER, name);
    char reason[WHY_SIZE];

    if (!row)
        return explain(why, "out of memory");
    row->assume_finite = assume_finite;
    row->own_run = own;
    row->paper = d ? d->paper : NULL;
    row->repeats = g.steps > all->steps;
    if (sent.delay > 1)
        row->delay = sent.delay;
    row->calls /= row->delay;
    sent.peer = other;
    sent.assume_finite = assume_finite;
    if (g.threads > 1)
        sent.parallel = g.parallel;
    if (!run_sent(&g, &sent, row, reason))
        return explain(why, "%s: %s", name, reason);
    all->list->done++;
    return true;
}

static bool add_peers(const group *g, char *why)
{
    size_t count;
    const peer *const *all = peers(&count);
    bool ok = true;

    for (size_t i = 0; ok && i < count; i++)
        ok = add_sent(g, NULL, all[i], false, why);
    return ok;
}

/* Peers have one thread, f32 only, and no delay. */
static bool has_peers(const options *o, tlc_dtype dtype, size_t threads)
{
    return o->peers && threads == 1 && dtype == TLC_F32 && o->channel.delay <= 1;
}

/* How many rows of codecs and peers there are for each group of tensors. */
static size_t count_rows(const options *o, tlc_dtype dtype)
{
    size_t codecs = 0, others = 0, count = 0;

    for (size_t i = 0; i < o->codec_count; i++)
        codecs += o->assume_finite && !codec_is_raw(o->codecs[i].codec) ? 2 : 1;
    (void)peers(&others);
    for (size_t i = 0; i < o->threads.count; i++)
        count += codecs + (has_peers(o, dtype, o->threads.items[i]) ? others : 0);
    return count;
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

static bool add_group(const group *g, char *why)
{
    const options *o = g->o;
    bool ok = o->view == VIEW_DENSITY || add_floors(g, why);

    for (size_t i = 0; ok && i < o->codec_count; i++) {
        const design *d = &o->codecs[i];
        ok = add_sent(g, d, NULL, false, why);
        if (ok && o->assume_finite && !codec_is_raw(d->codec))
            ok = add_sent(g, d, NULL, true, why);
    }
    return ok && (!has_peers(o, g->dtype, g->threads) || add_peers(g, why));
}

static bool add_threads(group *g, const cores *c, char *why)
{
    pool *p = NULL;
    bool ok = true;

    for (size_t i = 0; ok && i < g->o->threads.count; i++) {
        g->threads = g->o->threads.items[i];
        p = g->threads > 1 ? pool_open(g->threads, c, why) : NULL;
        if (p)
            g->parallel = pool_parallel(p);
        ok = (p || g->threads == 1) && add_group(g, why);
        pool_close(p);
    }
    return ok;
}

bool rows_add(row_list *list, const options *o, const source *sources, size_t count, const cores *c, char *why)
{
    const source *s = sources;
    group g = {.o = o,
               .list = list,
               .sources = sources,
               .source_count = count,
               .source = s,
               .tensors = s->tensors,
               .count = s->count,
               .steps = s->steps,
               .dtype = s->dtype,
               .loops = roofline_loops_of(o->channel.isa)};
    bool ok;

    list->total = list->inputs * count_rows(o, s->dtype) * (o->per_tensor && s->count > 1 ? 1 + s->count : 1);
    ok = add_threads(&g, c, why);
    g.count = 1;
    for (size_t i = 0; ok && o->per_tensor && s->count > 1 && i < s->count; i++) {
        g.first = i;
        g.tensors = &s->tensors[i];
        g.name = g.tensors->name;
        ok = add_threads(&g, c, why);
    }
    program_progress_end(o->quiet);
    return ok;
}
