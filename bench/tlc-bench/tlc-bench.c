/* SPDX-License-Identifier: MIT
 *
 * tlc-bench measures how small, how exact and how fast libthreelc compresses gradients. It uses the public API only.
 */
#include "../lib/codecs.h"
#include "../lib/explain.h"
#include "../lib/program.h"
#include "../lib/runs.h"
#include "aggregate.h"
#include "deltas.h"
#include "exchange.h"
#include "frames.h"
#include "options_parse.h"
#include "report.h"
#include "rows.h"
#include <signal.h>
#include <stdlib.h>

static const char program[] = "tlc-bench";

static int fail(int status, const char *why)
{
    return program_fail(program, status, why);
}

/* ---- sources ---------------------------------------------------------------------------------------------------- */

/* Shares of values that are not zero, for --density. */
static const double densities[] = {0.0001, 0.001, 0.01, 0.03, 0.05, 0.1, 0.3};
enum { DENSITIES = sizeof densities / sizeof densities[0] };

static size_t densities_of(const options *o)
{
    return o->view == VIEW_DENSITY ? DENSITIES : 1;
}

/* One for each run, or for each size and density. Of weights the base and those that follow. */
static size_t count_sources(const options *o, const run_list *runs)
{
    if (o->view == VIEW_DELTA)
        return o->synthetic ? o->sizes.count * (1 + o->moves.count) : o->path_count;
    return runs->count ? runs->count : o->sizes.count ? o->sizes.count * densities_of(o) : 1;
}

/* How many inputs are drawn, one after the other; files are one. */
static size_t drawn_inputs(const options *o)
{
    return o->synthetic && o->sizes.count ? o->sizes.count * densities_of(o) : 1;
}

static bool draw(const options *o, source *s, size_t index, char *why)
{
    source_options wanted = o->source;
    size_t delay = o->channel.delay;

    if (o->sizes.count) {
        wanted.has_values = true;
        wanted.values = o->sizes.items[index / densities_of(o)];
        wanted.density = densities[index % densities_of(o)];
    }
    if (o->view != VIEW_CODECS && o->view != VIEW_EXCHANGE && !wanted.steps)
        wanted.steps = source_few_steps(wanted.values);
    if (delay > 1 && !o->source.steps) /* whole periods */
        wanted.steps = ((wanted.steps ? wanted.steps : 16) + delay - 1) / delay * delay;
    return source_draw(s, o->synthetic, &wanted, why);
}

static bool needs_finite(const options *o)
{
    bool needs = o->peers || o->view == VIEW_EXCHANGE;

    for (size_t i = 0; i < o->codec_count; i++)
        needs = needs || !codec_takes_nonfinite(o->codecs[i].codec, options_channel(o, &o->codecs[i]).feedback);
    return needs;
}

/* --delay needs whole periods. */
static bool check_steps(const options *o, const source *s, char *why)
{
    size_t delay = o->channel.delay;

    return delay <= 1 || s->steps % delay == 0 ||
           explain(why, "--delay %zu: the %zu steps are not a multiple of it (--steps takes the first ones)", delay,
                   s->steps);
}

/* What is measured. The sources are empty at first, and the caller's to free. */
typedef struct input {
    const run_list *runs;
    source *sources;
    size_t count;
    shape_list models[MAX_SHAPES];
    size_t cache; /* of the machine */
} input;

static bool add_rows(const options *o, const input *in, const source *sources, size_t count, const cores *c,
                     row_list *list, char *why)
{
    const exchange_input machines = {in->models, sources, count, in->cache};

    return o->view == VIEW_EXCHANGE ? exchange_rows(list, o, &machines, why)
                                    : rows_add(list, o, sources, count, c, why);
}

/* Weights from files, or drawn. */
static int run_deltas(const options *o, const input *in, const cores *c, row_list *list, char *why)
{
    const size_t each = o->synthetic ? 1 + o->moves.count : in->count;

    for (size_t i = 0; !o->synthetic && i < in->count; i++) {
        if (!weights_load(&in->sources[i], o->paths[i], why))
            return EXIT_USAGE;
        source_tell_left_out(&in->sources[i], program);
        if (!weights_match(in->sources, &in->sources[i], why))
            return EXIT_USAGE;
    }
    for (size_t first = 0; first < in->count; first += each) {
        source *base = &in->sources[first];
        if (o->synthetic &&
            !weights_draw(base, &o->moves, o->sizes.items[first / each], o->source.dtype, o->source.seed, why))
            return EXIT_USAGE;
        if (!deltas_rows(list, o, base, each - 1, c, why))
            return EXIT_FAILED;
        for (size_t i = 0; i < each; i++)
            source_drop_values(&base[i]);
    }
    return EXIT_SUCCESS;
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

/* Loads the runs or the files, and measures them. */
static int run_files(const options *o, const input *in, const cores *c, row_list *list, char *why)
{
    const run_list *runs = in->runs;
    source *sources = in->sources;
    size_t count = runs->count ? runs->count : 1;

    if (runs->count ? !runs_load(runs, sources, &o->source, why)
                    : !source_load(sources, o->paths, o->path_count, &o->source, why))
        return EXIT_USAGE;
    for (size_t i = 0; i < count; i++)
        source_tell_left_out(&sources[i], program);
    for (size_t i = 0; needs_finite(o) && i < count; i++) {
        if (!source_check_finite(&sources[i], why))
            return EXIT_USAGE;
    }
    if (!check_steps(o, sources, why))
        return EXIT_USAGE;
    return add_rows(o, in, sources, count, c, list, why) ? EXIT_SUCCESS : EXIT_FAILED;
}

/* Draws and measures one source after the other, so that the values of only one are in memory. */
static int run_drawn(const options *o, const input *in, const cores *c, row_list *list, char *why)
{
    source *sources = in->sources;

    for (size_t i = 0; i < in->count; i++) {
        if (o->view == VIEW_AGGREGATE) {
            if (!aggregate_rows(list, o, &sources[i], o->sizes.items[i], why))
                return EXIT_FAILED;
            continue;
        }
        if (o->view == VIEW_FRAMES) {
            if (!frames_rows(list, o, &sources[i], o->sizes.items[i], c, why))
                return EXIT_FAILED;
            continue;
        }
        if (!draw(o, &sources[i], i, why) || !check_steps(o, &sources[i], why))
            return EXIT_USAGE;
        if (!add_rows(o, in, &sources[i], 1, c, list, why))
            return EXIT_FAILED;
        source_drop_values(&sources[i]);
    }
    return EXIT_SUCCESS;
}

static int run_input(const options *o, input *in)
{
    char why[WHY_SIZE];
    row_list list = {.inputs = drawn_inputs(o)};
    report r = {.view = o->view,
                .sources = in->sources,
                .source_count = in->count,
                .dtype = o->source.dtype,
                .checksum = o->channel.checksum,
                .cold = o->source.cold,
                .wide = o->wide,
                .seed = o->source.seed};
    cores c;
    int status;

    machine_ask(&r.machine);
    in->cache = r.machine.cache;
    cores_find(&c);
    status = o->view == VIEW_DELTA ? run_deltas(o, in, &c, &list, why)
             : o->synthetic        ? run_drawn(o, in, &c, &list, why)
                                   : run_files(o, in, &c, &list, why);
    r.dtype = o->view == VIEW_DELTA ? in->sources->dtype : r.dtype;
    if (status) {
        fail(status, why);
    } else {
        r.rows = list.rows;
        r.count = list.count;
        report_print(stdout, o->format, &r);
        status = program_close_output(program);
    }
    rows_free(&list);
    return status;
}

static int run(const options *o)
{
    char why[WHY_SIZE];
    run_list runs = {.count = 0};
    input in = {.runs = &runs};
    int status = EXIT_SUCCESS;

    if (o->view != VIEW_DELTA && o->path_count == 1 && !runs_find(&runs, o->paths[0], why))
        return fail(EXIT_USAGE, why);
    for (size_t i = 0; !status && i < o->shape_count; i++)
        status = shapes_load(&in.models[i], o->shapes[i], why) ? EXIT_SUCCESS : fail(EXIT_USAGE, why);
    in.count = count_sources(o, &runs);
    in.sources = calloc(in.count, sizeof *in.sources);
    if (!status)
        status = in.sources ? run_input(o, &in) : fail(EXIT_FAILED, "out of memory");
    for (size_t i = 0; in.sources && i < in.count; i++)
        source_free(&in.sources[i]);
    for (size_t i = 0; i < o->shape_count; i++)
        shapes_free(&in.models[i]);
    free(in.sources);
    runs_free(&runs);
    return status;
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE];
    options o;

    (void)signal(SIGPIPE, SIG_IGN); /* then writing to a closed pipe fails as other writes do */
    if (!options_parse(&o, argc, argv, why))
        return fail(EXIT_USAGE, why);
    return o.command == COMMAND_RUN ? run(&o) : program_answer(program, o.command, &options_table);
}
