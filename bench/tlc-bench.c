/* SPDX-License-Identifier: MIT
 *
 * tlc-bench measures how small, how exact and how fast libthreelc compresses gradients. It uses the public API only.
 */
#include "aggregate.h"
#include "codecs.h"
#include "explain.h"
#include "frames.h"
#include "options.h"
#include "rows.h"
#include "runs.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int fail(int status, const char *why)
{
    fprintf(stderr, "tlc-bench: %s\n", why);
    return status;
}

/* Writes what is still buffered: only now a full disk or a closed pipe shows. */
static int close_output(void)
{
    int error = 0;

    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout))
        error = errno ? errno : EIO;
    if (fclose(stdout) != 0 && !error)
        error = errno;
    if (!error)
        return EXIT_SUCCESS;
    fprintf(stderr, "tlc-bench: standard output: %s\n", strerror(error));
    return EXIT_FAILED;
}

/* ---- sources ---------------------------------------------------------------------------------------------------- */

/* Shares of values that are not zero, for --density. */
static const double densities[] = {0.0001, 0.001, 0.01, 0.03, 0.05, 0.1, 0.3};
enum { DENSITIES = sizeof densities / sizeof densities[0] };

static size_t densities_of(const options *o)
{
    return o->view == VIEW_DENSITY ? DENSITIES : 1;
}

/* One for each run, or for each size and density. */
static size_t count_sources(const options *o, const run_list *runs)
{
    return runs->count ? runs->count : o->sizes.count ? o->sizes.count * densities_of(o) : 1;
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
    if (o->view != VIEW_CODECS && !wanted.steps)
        wanted.steps = source_few_steps(wanted.values);
    if (delay > 1 && !o->source.steps) /* whole periods */
        wanted.steps = ((wanted.steps ? wanted.steps : 16) + delay - 1) / delay * delay;
    return source_draw(s, o->synthetic, &wanted, why);
}

static bool needs_finite(const options *o)
{
    bool needs = o->peers;

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

/* ---- the program ------------------------------------------------------------------------------------------------ */

/* Loads the runs or the files, and measures them. */
static int run_files(const options *o, const run_list *runs, source *sources, const cores *c, row_list *list, char *why)
{
    size_t count = runs->count ? runs->count : 1;

    if (runs->count ? !runs_load(runs, sources, &o->source, why)
                    : !source_load(sources, o->paths, o->path_count, &o->source, why))
        return EXIT_USAGE;
    for (size_t i = 0; needs_finite(o) && i < count; i++) {
        if (!source_check_finite(&sources[i], why))
            return EXIT_USAGE;
    }
    if (!check_steps(o, sources, why))
        return EXIT_USAGE;
    return rows_add(list, o, sources, count, c, why) ? EXIT_SUCCESS : EXIT_FAILED;
}

/* Draws and measures one source after the other, so that the values of only one are in memory. */
static int run_drawn(const options *o, source *sources, size_t count, const cores *c, row_list *list, char *why)
{
    for (size_t i = 0; i < count; i++) {
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
        if (!rows_add(list, o, &sources[i], 1, c, why))
            return EXIT_FAILED;
        source_drop_values(&sources[i]);
    }
    return EXIT_SUCCESS;
}

/* sources: count of them, empty; they are the caller's to free. */
static int run_sources(const options *o, const run_list *runs, source *sources, size_t count)
{
    char why[WHY_SIZE];
    row_list list = {.count = 0};
    report r = {.view = o->view,
                .sources = sources,
                .source_count = count,
                .dtype = o->source.dtype,
                .checksum = o->channel.checksum != 0,
                .cold = o->source.cold,
                .wide = o->wide,
                .seed = o->source.seed};
    cores c;
    int status;

    machine_ask(&r.machine);
    cores_find(&c);
    status = o->synthetic ? run_drawn(o, sources, count, &c, &list, why) : run_files(o, runs, sources, &c, &list, why);
    if (status) {
        fail(status, why);
    } else {
        r.rows = list.rows;
        r.count = list.count;
        report_print(stdout, o->format, &r);
        status = close_output();
    }
    rows_free(&list);
    return status;
}

static int run(const options *o)
{
    char why[WHY_SIZE];
    run_list runs = {.count = 0};
    size_t count;
    source *sources;
    int status;

    if (o->path_count == 1 && !runs_find(&runs, o->paths[0], why))
        return fail(EXIT_USAGE, why);
    count = count_sources(o, &runs);
    sources = calloc(count, sizeof *sources);
    status = sources ? run_sources(o, &runs, sources, count) : fail(EXIT_FAILED, "out of memory");
    for (size_t i = 0; sources && i < count; i++)
        source_free(&sources[i]);
    free(sources);
    runs_free(&runs);
    return status;
}

static void print_version(FILE *f)
{
    const char *separator = "";

    fprintf(f, "tlc-bench (libthreelc) %s\nISAs: ", tlc_version_string());
    for (tlc_isa isa = TLC_ISA_SCALAR; isa <= TLC_ISA_NEON; isa = (tlc_isa)(isa + 1)) {
        if (tlc_isa_supported(isa)) {
            fprintf(f, "%s%s", separator, tlc_isa_name(isa));
            separator = ", ";
        }
    }
    fputc('\n', f);
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE];
    options o;

    (void)signal(SIGPIPE, SIG_IGN); /* then writing to a closed pipe is an error as others are */
    if (!options_parse(&o, argc, argv, why))
        return fail(EXIT_USAGE, why);
    switch (o.command) {
    case COMMAND_HELP: options_print_help(stdout); return close_output();
    case COMMAND_LIST: codecs_print(stdout); return close_output();
    case COMMAND_VERSION: print_version(stdout); return close_output();
    default: return run(&o);
    }
}
