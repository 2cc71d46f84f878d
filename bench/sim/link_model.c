/* SPDX-License-Identifier: MIT
 *
 * If all links are x times as fast, a step takes fixed + moved / x seconds. Devices do not become faster with them.
 */
#include "link_model.h"
#include <math.h>

/* One way to exchange gradients. */
typedef struct way {
    double codec_rank, codec_server, codec; /* seconds; codec: one machine after the other */
    double latencies;                       /* seconds: of all messages, one after the other */
    double moved;                           /* seconds for bytes, one phase after the other, */
    double busy;                            /* and those in which the busiest link is busy */
    double memory, to_host, to_device;      /* seconds of the device and its bus */
} way;

static double seconds_of(const model_load *load, const model_link *link)
{
    return fmax(load->out / link->up, load->in / link->down);
}

static double device_seconds(double bytes, double rate)
{
    return rate > 0 ? bytes / rate : 0;
}

static void add_load(model_load *sum, const model_load *load)
{
    sum->out += load->out;
    sum->in += load->in;
    sum->codec += load->codec;
}

static way way_of(const model_input *in, const model_phase *phases, size_t count)
{
    model_load rank = {.out = 0}, inside = {.out = 0}, server = {.out = 0};
    way w = {.moved = 0};

    for (const model_phase *p = phases; p < phases + count; p++) {
        const model_link *link = p->inside ? &in->site : &in->rank;
        double moved = fmax(seconds_of(&p->rank, link), seconds_of(&p->server, &in->server));
        w.codec += fmax(p->rank.codec, p->server.codec);
        w.moved += moved;
        if (moved > 0)
            w.latencies += p->inside ? in->site_latency : in->latency;
        add_load(p->inside ? &inside : &rank, &p->rank);
        add_load(&server, &p->server);
        w.memory += device_seconds(p->device.memory, in->device.memory);
        w.to_host += device_seconds(p->device.to_host, in->device.bus);
        w.to_device += device_seconds(p->device.to_device, in->device.bus);
    }
    w.codec_rank = rank.codec + inside.codec;
    w.codec_server = server.codec;
    w.busy = fmax(seconds_of(&rank, &in->rank), seconds_of(&server, &in->server));
    if (inside.out > 0 || inside.in > 0)
        w.busy = fmax(w.busy, seconds_of(&inside, &in->site));
    return w;
}

/* In each of 2 (N - 1) rounds a rank sends and gets an N-th of the bytes. */
static way ring(const model_input *in, double bytes)
{
    double n = (double)in->ranks, all = 2 * (n - 1) / n * bytes;
    const model_phase phase = {.rank = {.out = all, .in = all}, .device = {.to_host = bytes, .to_device = bytes}};
    way w = way_of(in, &phase, 1);

    w.latencies = 2 * (n - 1) * in->latency;
    return w;
}

/* All push floats, then all pull floats. */
static way push_pull(const model_input *in, double bytes)
{
    double n = (double)in->ranks, own = bytes * (n - 1) / n, share = n * bytes / (double)in->servers;
    const model_device_load there = {.to_host = bytes}, back = {.to_device = bytes};
    const model_phase sharded[] = {{.rank = {.out = own, .in = own}, .device = there},
                                   {.rank = {.out = own, .in = own}, .device = back}};
    const model_phase served[] = {{.rank = {.out = bytes}, .server = {.in = share}, .device = there},
                                  {.rank = {.in = bytes}, .server = {.out = share}, .device = back}};

    return way_of(in, in->servers ? served : sharded, 2);
}

static double device_of(const way *w)
{
    return w->memory + w->to_host + w->to_device;
}

static double fixed_of(const model_input *in, const way *w)
{
    return in->compute + w->codec + w->latencies + device_of(w);
}

static model_time time_of(const model_input *in, const way *w)
{
    double busiest = fmax(fmax(in->compute + w->memory, w->busy), fmax(w->codec_rank, w->codec_server));

    busiest = fmax(busiest, fmax(w->to_host, w->to_device));
    return (model_time){.wire = w->latencies + w->moved,
                        .step = fixed_of(in, w) + w->moved,
                        .overlapped = busiest + w->latencies};
}

/* Narrows above .. below to where the codec is faster than this way of floats. */
static void narrow(const model_input *in, const way *codec, const way *floats, model_output *out)
{
    double later = fixed_of(in, codec) - fixed_of(in, floats), saved = floats->moved - codec->moved;

    if (later > 0)
        out->below = fmin(out->below, saved > 0 ? saved / later : 0);
    else if (saved < 0)
        out->above = fmax(out->above, later < 0 ? saved / later : INFINITY);
    else if (!(later < 0) && !(saved > 0)) /* the same: it is not faster */
        out->below = 0;
}

model_output model_predict(const model_input *in)
{
    const way codec = way_of(in, in->phase, in->phases), floats = ring(in, in->float_bytes),
              halves = ring(in, in->float_bytes / 2), pushed = push_pull(in, in->float_bytes);
    model_output out = {.codec = codec.codec,
                        .device = device_of(&codec),
                        .time = time_of(in, &codec),
                        .ring = time_of(in, &floats),
                        .ring_halves = time_of(in, &halves),
                        .push_pull = time_of(in, &pushed),
                        .below = INFINITY};

    out.direct = fmin(out.ring.step - device_of(&floats), out.push_pull.step - device_of(&pushed));
    out.speedup = fmin(out.ring.step, out.push_pull.step) / out.time.step;
    out.overlapped_speedup = fmin(out.ring.overlapped, out.push_pull.overlapped) / out.time.overlapped;
    narrow(in, &codec, &floats, &out);
    narrow(in, &codec, &pushed, &out);
    return out;
}
