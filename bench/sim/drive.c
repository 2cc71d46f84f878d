/* SPDX-License-Identifier: MIT */
#include "drive.h"
#include "../lib/channel.h"
#include "../lib/cold.h"
#include "../lib/explain.h"
#include "../lib/gradients.h"
#include "../lib/measure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct drive {
    const drive_options *o;
    layout_options layout_options;
    void *layout;
    size_t machines;
    cold cold;
    float *grads, *out; /* of all tensors at their offsets */
    const void **grads_at;
    void **out_at;
    traffic *sent;                        /* [phase * machines + machine]: of the steps that are counted */
    double *seconds;                      /* [phase * rounds + step]: of the machine that is measured */
    model_device_load device[MAX_PHASES]; /* of rank 0: of the steps that are counted */
    size_t step, counted;
} drive;

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool allocate(drive *d)
{
    const drive_options *o = d->o;
    const shape_list *model = o->layout.model;
    size_t size = model->room * sizeof(float), phases = o->layout.kind->phase_count;

    d->grads = channel_buffer(size);
    d->out = channel_buffer(size);
    d->grads_at = calloc(model->count, sizeof *d->grads_at);
    d->out_at = calloc(model->count, sizeof *d->out_at);
    d->sent = calloc(phases * d->machines, sizeof *d->sent);
    d->seconds = calloc(phases * o->rounds, sizeof *d->seconds);
    if (!cold_open(&d->cold, size, o->cache) || !d->grads || !d->out || !d->grads_at || !d->out_at || !d->sent ||
        !d->seconds)
        return false;
    for (size_t i = 0; i < model->count; i++) {
        d->grads_at[i] = d->grads + model->shapes[i].offset;
        d->out_at[i] = d->out + model->shapes[i].offset;
    }
    return true;
}

/* The residual of a rank before the first step. */
static void start_rank(const drive *d, size_t rank)
{
    const drive_options *o = d->o;
    const layout_kind *kind = o->layout.kind;
    float *residual = kind->residual ? kind->residual(d->layout, rank) : NULL;

    if (residual)
        gradients_start(o->from, o->layout.model, o->layout.seed, rank, residual);
}

static bool check_memory(const drive_options *o, const char *what, size_t bytes, char *why)
{
    const double mib = 1 << 20, needed = ceil((double)bytes / mib);

    if (bytes <= o->memory)
        return true;
    return o->memory_text ? explain(why, "%s %.0f MiB, and --memory allows %s%s", what, needed, o->memory_text,
                                    strpbrk(o->memory_text, "KMG") ? "" : " bytes")
                          : explain(why, "%s %.0f MiB, and half of the memory is %.0f MiB (%s)", what, needed,
                                    (double)o->memory / mib, o->advice);
}

/* Whether the step is to be replayed, and has the memory. */
static bool choose_replay(drive *d, char *why)
{
    const drive_options *o = d->o;
    size_t whole = o->layout.kind->memory(&o->layout),
           replay = o->layout.kind->replay_memory ? o->layout.kind->replay_memory(&o->layout) : 0;

    d->layout_options.replay = o->layout.ranks > o->layout.kind->most_whole || whole > o->memory;
    return !d->layout_options.replay ||
           check_memory(o, "the machines need about", whole < replay ? whole : replay, why);
}

static bool open_drive(drive *d, const drive_options *o, char *why)
{
    *d = (drive){.o = o, .layout_options = o->layout, .machines = o->layout.ranks + o->layout.servers};
    if (!choose_replay(d, why))
        return false;
    if (!allocate(d))
        return explain(why, "out of memory");
    d->layout = o->layout.kind->open(&d->layout_options, why);
    if (!d->layout)
        return false;
    for (size_t r = 0; !d->layout_options.replay && r < o->layout.ranks; r++)
        start_rank(d, r);
    return true;
}

static void close_drive(drive *d)
{
    d->o->layout.kind->close(d->layout);
    cold_close(&d->cold);
    free(d->grads);
    free(d->out);
    free(d->grads_at);
    free(d->out_at);
    free(d->sent);
    free(d->seconds);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static traffic add(traffic a, traffic b)
{
    return (traffic){a.out + b.out, a.in + b.in, a.messages + b.messages};
}

/* A push: the first phase of each kind. */
static void make_gradient(const drive *d, size_t rank)
{
    const drive_options *o = d->o;

    if (d->layout_options.replay)
        start_rank(d, rank);
    gradients_make(o->from, o->layout.model, o->layout.seed, rank, d->step, d->grads);
}

/* measured: the caches are cold, and its time is kept. */
static bool call_machine(drive *d, size_t phase, size_t machine, bool measured, char *why)
{
    const layout_values values = {d->grads_at, d->out_at};
    double start = 0;
    bool ok;

    if (!phase)
        make_gradient(d, machine);
    if (!machine && d->layout_options.on_device && !d->o->layout.kind->quantize(d->layout, phase, &values, why))
        return false;
    if (measured)
        start = cold_start(&d->cold);
    ok = d->o->layout.kind->call(d->layout, phase, machine, &values, why);
    if (measured)
        d->seconds[phase * d->o->rounds + d->counted] = cold_stop(start);
    return ok;
}

/* With replay messages are kept. Those of the second rank are about as long as those of each other. */
static bool check_messages(const drive *d, size_t phase, size_t machine, char *why)
{
    if (!d->layout_options.replay || phase || machine != 1)
        return true;
    return check_memory(d->o, "the messages of all ranks are about", d->o->layout.kind->kept(d->layout), why);
}

static void add_moved(drive *d, size_t phase)
{
    const model_device_load moved = d->o->layout.kind->moved(d->layout, phase);
    model_device_load *sum = &d->device[phase];

    sum->memory += moved.memory / (double)d->o->rounds;
    sum->to_host += moved.to_host / (double)d->o->rounds;
    sum->to_device += moved.to_device / (double)d->o->rounds;
}

static bool run_phase(drive *d, size_t phase, bool counts, char *why)
{
    const layout_phase *p = &d->o->layout.kind->phases[phase];
    size_t first = p->by_servers ? d->o->layout.ranks : 0, end = p->by_servers ? d->machines : d->o->layout.ranks;
    bool ok = true;

    if (p->pulls && d->layout_options.replay)
        end = first + 1;
    for (size_t machine = first; ok && machine < end; machine++)
        ok = call_machine(d, phase, machine, counts && machine == first, why) && check_messages(d, phase, machine, why);
    for (size_t machine = 0; ok && counts && machine < d->machines; machine++) {
        traffic *sum = &d->sent[phase * d->machines + machine];
        *sum = add(*sum, d->o->layout.kind->sent(d->layout, phase, machine));
    }
    if (ok && counts && d->layout_options.on_device)
        add_moved(d, phase);
    return ok;
}

static bool run_step(drive *d, char *why)
{
    const layout_kind *kind = d->o->layout.kind;
    bool counts = d->step >= d->o->warmup, ok = !kind->begin || kind->begin(d->layout, why);

    for (size_t phase = 0; ok && phase < kind->phase_count; phase++)
        ok = run_phase(d, phase, counts, why);
    d->step++;
    d->counted += counts;
    return ok;
}

/* ---- all steps --------------------------------------------------------------------------------------------------- */

/* The busiest of machines first .. end - 1 in a phase. */
static model_load load_of(const drive *d, size_t phase, size_t first, size_t end)
{
    const layout_phase *p = &d->o->layout.kind->phases[phase];
    double rounds = (double)d->o->rounds;
    model_load load = {.out = 0};

    for (size_t machine = first; machine < end; machine++) {
        const traffic *t = &d->sent[phase * d->machines + machine];
        load.out = fmax(load.out, (double)t->out / rounds);
        load.in = fmax(load.in, (double)t->in / rounds);
    }
    if (p->by_servers == (first > 0))
        load.codec = measure_summary(d->seconds + phase * d->o->rounds, d->o->rounds).median;
    return load;
}

/* What a machine sends and gets in all phases of all steps. */
static traffic all_of(const drive *d, size_t machine)
{
    traffic sum = {.out = 0};

    for (size_t phase = 0; phase < d->o->layout.kind->phase_count; phase++)
        sum = add(sum, d->sent[phase * d->machines + machine]);
    return sum;
}

static drive_bytes bytes_of(const drive *d, size_t first, size_t end)
{
    double rounds = (double)d->o->rounds, count = (double)(end - first);
    drive_bytes b = {.out_mean = 0};
    traffic sum = {.out = 0};

    for (size_t machine = first; machine < end; machine++) {
        const traffic t = all_of(d, machine);
        sum = add(sum, t);
        b.out_busiest = fmax(b.out_busiest, (double)t.out / rounds);
        b.in_busiest = fmax(b.in_busiest, (double)t.in / rounds);
        b.messages = fmax(b.messages, (double)t.messages / rounds);
    }
    b.out_mean = (double)sum.out / rounds / count;
    b.in_mean = (double)sum.in / rounds / count;
    return b;
}

static void summarise(const drive *d, drive_result *result)
{
    size_t ranks = d->o->layout.ranks;

    *result = (drive_result){.replayed = d->layout_options.replay, .rank = bytes_of(d, 0, ranks)};
    if (d->machines > ranks)
        result->server = bytes_of(d, ranks, d->machines);
    for (size_t phase = 0; phase < d->o->layout.kind->phase_count; phase++) {
        result->phase[phase].device = d->device[phase];
        result->phase[phase].inside = d->o->layout.kind->phases[phase].inside;
        result->phase[phase].rank = load_of(d, phase, 0, ranks);
        if (d->machines > ranks)
            result->phase[phase].server = load_of(d, phase, ranks, d->machines);
    }
}

bool drive_run(const drive_options *o, drive_result *result, char *why)
{
    drive d;
    bool ok = open_drive(&d, o, why);

    while (ok && d.counted < o->rounds)
        ok = run_step(&d, why);
    if (ok)
        summarise(&d, result);
    close_drive(&d);
    return ok;
}
