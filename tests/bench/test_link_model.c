/* SPDX-License-Identifier: MIT
 *
 * What tlc-sim predicts, as a table: steps that one can compute by hand. At break-even speeds floats and the codec take
 * the same time.
 */
#include "../../bench/sim/link_model.h"
#include "../support/support.h"
#include <math.h>

typedef struct prediction_case {
    const char *name;
    model_input in;
    struct {
        double codec, step, overlapped;
        double ring, halves, push_pull; /* steps */
        double above, below;
    } want;
} prediction_case;

/* 400 bytes of floats, a link of 10 or 100 bytes a second. */
static const prediction_case cases[] = {
    {"one after the other",
     {.phases = 3,
      .phase = {{.rank = {10, 20, 1}}, {.rank = {30, 5, 2}}, {.rank = {0, 0, 0.5}}},
      .rank = {10, 10},
      .server = {10, 10},
      .latency = 0.25,
      .compute = 3,
      .ranks = 4,
      .float_bytes = 400},
     {3.5, 12, 4.5, 64.5, 34.5, 63.5, 0, 55 / 3.5}},
    {"slow up, fast down",
     {.phases = 2,
      .phase = {{.rank = {10, 80, 1}}, {.rank = {30, 5, 2}}},
      .rank = {10, 40},
      .server = {10, 40},
      .ranks = 4,
      .float_bytes = 400},
     {3, 8, 4, 60, 30, 60, 0, 55 / 3.0}},
    {"two servers",
     {.phases = 3,
      .phase = {{.rank = {10, 0, 1}, .server = {0, 40, 0}},
                {.rank = {0, 20, 0}, .server = {80, 0, 2}},
                {.rank = {0, 0, 0.5}}},
      .rank = {10, 10},
      .server = {100, 100},
      .ranks = 4,
      .servers = 2,
      .float_bytes = 400},
     {3.5, 6.5, 2, 60, 30, 80, 0, 57 / 3.5}},
    {"slow servers",
     {.phases = 2,
      .phase = {{.rank = {10, 0, 1}, .server = {0, 40, 0}}, {.rank = {0, 20, 0}, .server = {80, 0, 2}}},
      .rank = {10, 10},
      .server = {1, 2},
      .compute = 100,
      .ranks = 4,
      .servers = 1,
      .float_bytes = 400},
     {3, 203, 100, 160, 130, 2500, 0, 0}},
    {"more time, more bytes",
     {.phases = 1,
      .phase = {{.rank = {700, 700, 1}}},
      .rank = {100, 100},
      .server = {100, 100},
      .ranks = 4,
      .float_bytes = 400},
     {1, 8, 7, 6, 3, 6, 0, 0}},
    {"the same bytes in no time: not faster",
     {.phases = 2,
      .phase = {{.rank = {300, 300, 0}}, {.rank = {300, 300, 0}}},
      .rank = {100, 100},
      .server = {100, 100},
      .ranks = 4,
      .float_bytes = 400},
     {0, 6, 6, 6, 3, 6, 0, 0}},
    {"fewer bytes in no time",
     {.phases = 2,
      .phase = {{.rank = {30, 30, 0}}, {.rank = {30, 30, 0}}},
      .rank = {100, 100},
      .server = {100, 100},
      .latency = 1,
      .ranks = 4,
      .float_bytes = 400},
     {0, 2.6, 2.6, 12, 9, 8, 0, INFINITY}},
    {"fewer latencies, but more bytes",
     {.phases = 1,
      .phase = {{.rank = {1000, 1000, 0.1}}},
      .rank = {100, 100},
      .server = {100, 100},
      .latency = 1,
      .ranks = 2,
      .float_bytes = 400},
     {0.1, 11.1, 11, 6, 4, 6, 6 / 0.9, INFINITY}},
    {"more bytes than a ring, fewer than a server of floats",
     {.phases = 2,
      .phase = {{.rank = {500, 500, 1}}, {.rank = {500, 500, 0}}},
      .rank = {100, 100},
      .server = {100, 100},
      .latency = 1,
      .ranks = 4,
      .servers = 1,
      .float_bytes = 400},
     {1, 13, 12, 12, 9, 34, 4 / 3.0, 22}},
    {"fast links in sites",
     {.phases = 3,
      .phase = {{.inside = true, .rank = {400, 600, 1}},
                {.rank = {10, 20, 2}},
                {.inside = true, .rank = {800, 100, 0.5}}},
      .rank = {10, 10},
      .server = {10, 10},
      .site = {100, 200},
      .latency = 0.25,
      .compute = 3,
      .site_latency = 0.125,
      .ranks = 4,
      .float_bytes = 400},
     {3.5, 21, 12.5, 64.5, 34.5, 63.5, 0, 46 / 3.5}},
    {"on a device: 200 / 100 + 100 / 100 through its memory, 4 / 4 to the host, 6 / 4 back",
     {.phases = 2,
      .phase = {{.rank = {10, 20, 1}, .device = {200, 4, 0}}, {.rank = {30, 5, 2}, .device = {100, 0, 6}}},
      .rank = {10, 10},
      .server = {10, 10},
      .device = {100, 4},
      .compute = 3,
      .ranks = 4,
      .float_bytes = 400},
     {3, 16.5, 6, 263, 133, 263, 0, INFINITY}},
    {"on a slow device",
     {.phases = 2,
      .phase = {{.rank = {10, 20, 1}, .device = {200, 4, 0}}, {.rank = {30, 5, 2}, .device = {100, 0, 6}}},
      .rank = {10, 10},
      .server = {10, 10},
      .device = {1, 4},
      .compute = 3,
      .ranks = 4,
      .float_bytes = 400},
     {3, 313.5, 303, 263, 133, 263, 0, 55 / 105.5}},
    {"on a device with a slow bus, and servers",
     {.phases = 3,
      .phase = {{.rank = {10, 0, 1}, .server = {0, 40, 0}, .device = {200, 40, 10}},
                {.rank = {0, 20, 0}, .server = {80, 0, 2}},
                {.rank = {0, 0, 0.5}, .device = {100, 0, 60}}},
      .rank = {10, 10},
      .server = {100, 100},
      .device = {100, 2},
      .ranks = 4,
      .servers = 2,
      .float_bytes = 400},
     {3.5, 64.5, 35, 460, 230, 480, 0, INFINITY}},
};

static void check(const char *name, const char *what, double got, double want)
{
    if (!(got == want || fabs(got - want) <= 1e-12 * fabs(want)))
        fail_msg("%s: %s is %.17g, not %.17g", name, what, got, want);
}

TEST(predictions)
{
    for (const prediction_case *c = cases; c < cases + COUNT(cases); c++) {
        const model_output out = model_predict(&c->in);
        double floats = fmin(out.ring.step, out.push_pull.step);
        check(c->name, "codec", out.codec, c->want.codec);
        check(c->name, "step", out.time.step, c->want.step);
        check(c->name, "wire", out.time.wire, c->want.step - c->want.codec - c->in.compute - out.device);
        check(c->name, "overlapped", out.time.overlapped, c->want.overlapped);
        check(c->name, "ring", out.ring.step, c->want.ring);
        check(c->name, "halves", out.ring_halves.step, c->want.halves);
        check(c->name, "push_pull", out.push_pull.step, c->want.push_pull);
        check(c->name, "speedup", out.speedup, floats / c->want.step);
        check(c->name, "overlapped speedup", out.overlapped_speedup,
              fmin(out.ring.overlapped, out.push_pull.overlapped) / c->want.overlapped);
        check(c->name, "above", out.above, c->want.above);
        check(c->name, "below", out.below, c->want.below);
        assert_int_equal(model_never_wins(&out), c->want.above >= c->want.below);
    }
}

/* 0 without one. Floats that need not cross take as long as without a device. */
TEST(devices)
{
    const double want[] = {5.5, 302.5, 58};
    size_t found = 0;

    for (const prediction_case *c = cases; c < cases + COUNT(cases); c++) {
        const model_output out = model_predict(&c->in);
        model_input without = c->in;
        without.device = (model_device){0, 0};
        check(c->name, "device", out.device, c->in.device.bus > 0 ? want[found++] : 0);
        check(c->name, "step without a device", model_predict(&without).time.step, out.time.step - out.device);
        check(c->name, "direct", out.direct,
              fmin(model_predict(&without).ring.step, model_predict(&without).push_pull.step));
    }
    assert_int_equal(found, COUNT(want));
}

static model_output at_speed(const model_input *in, double times)
{
    model_input faster = *in;

    faster.rank = (model_link){in->rank.up * times, in->rank.down * times};
    faster.server = (model_link){in->server.up * times, in->server.down * times};
    faster.site = (model_link){in->site.up * times, in->site.down * times};
    return model_predict(&faster);
}

/* A little slower and a little faster links have different winners. */
static void check_break_even(const prediction_case *c, double times, bool wins_below)
{
    const model_output same = at_speed(&c->in, times), slower = at_speed(&c->in, times * 0.999),
                       faster = at_speed(&c->in, times * 1.001);

    check(c->name, "step at the break-even speed", same.time.step, fmin(same.ring.step, same.push_pull.step));
    check(c->name, "speedup there", same.speedup, 1);
    assert_int_equal(slower.speedup > 1, wins_below);
    assert_int_equal(faster.speedup > 1, !wins_below);
}

TEST(break_even_speeds)
{
    size_t checked = 0;

    for (const prediction_case *c = cases; c < cases + COUNT(cases); c++) {
        const model_output out = model_predict(&c->in);
        if (model_never_wins(&out))
            continue;
        if (!isinf(out.below)) {
            check_break_even(c, out.below, true);
            checked++;
        }
        if (out.above > 0) {
            check_break_even(c, out.above, false);
            checked++;
        }
    }
    assert_int_equal(checked, 8);
}

/* What never wins does not win at any speed, and what always wins wins at each. */
TEST(winners)
{
    for (const prediction_case *c = cases; c < cases + COUNT(cases); c++) {
        const model_output out = model_predict(&c->in);
        double times = 1e-6;
        for (int i = 0; i < 57; i++, times *= 1.7)
            assert_int_equal(at_speed(&c->in, times).speedup > 1 + 1e-12, times > out.above && times < out.below);
    }
}
