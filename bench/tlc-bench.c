/* SPDX-License-Identifier: MIT
 *
 * tlc-bench: how small, how exact and how fast libthreelc compresses gradients. It uses the public API only.
 */
#include "aggregate.h"
#include "codecs.h"
#include "explain.h"
#include "options.h"
#include "rows.h"
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

/* Also what was buffered must have reached its end: a full disk or a closed pipe shows only now. */
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

/* ---- sources ------------------------------------------------------------------------------------------------------- */

/* Of values other than zero, for --density. */
static const double densities[] = {0.0001, 0.001, 0.01, 0.03, 0.05, 0.1, 0.3};
enum { DENSITIES = sizeof densities / sizeof densities[0] };

static size_t densities_of(const options *o)
{
    return o->view == VIEW_DENSITY ? DENSITIES : 1;
}

/* One for each size and density. */
static size_t count_sources(const options *o)
{
    return o->sizes.count ? o->sizes.count * densities_of(o) : 1;
}

static bool draw(const options *o, source *s, size_t index, char *why)
{
    source_options wanted = o->source;

    if (o->sizes.count) {
        wanted.has_values = true;
        wanted.values = o->sizes.items[index / densities_of(o)];
        wanted.density = densities[index % densities_of(o)];
    }
    if (o->view != VIEW_CODECS && !wanted.steps)
        wanted.steps = wanted.values < (size_t)16 << 20 ? 4 : 2; /* large ones would take much memory */
    if (o->channel.delay > 1 && !o->source.steps) /* whole periods */
        wanted.steps = ((wanted.steps ? wanted.steps : 16) + o->channel.delay - 1) / o->channel.delay * o->channel.delay;
    return source_draw(s, o->synthetic, &wanted, why);
}

static bool load(const options *o, source *s, size_t index, char *why)
{
    bool needs_finite = o->peers;

    for (size_t i = 0; i < o->codec_count; i++)
        needs_finite = needs_finite || !codec_takes_nonfinite(o->codecs[i], o->channel.feedback);
    if (o->synthetic)
        return draw(o, s, index, why);
    if (!source_load(s, o->paths, o->path_count, &o->source, why))
        return false;
    if (!needs_finite || source_check_finite(s, why))
        return true;
    source_free(s);
    return false;
}

/* --delay wants whole periods. */
static bool check_steps(const options *o, const source *s, char *why)
{
    size_t delay = o->channel.delay;

    return delay <= 1 || s->steps % delay == 0 ||
           explain(why, "--delay %zu: the %zu steps are not a multiple of it (--steps takes the first ones)", delay, s->steps);
}

/* ---- the program --------------------------------------------------------------------------------------------------- */

/* Loads or draws, and measures, one source after the other; the values of one at a time are in memory. */
static int run_sources(const options *o, source *sources, size_t count, row_list *list, char *why)
{
    cores c;

    cores_find(&c);
    for (size_t i = 0; i < count; i++) {
        if (o->view == VIEW_AGGREGATE) {
            if (!aggregate_rows(list, o, &sources[i], o->sizes.items[i], why))
                return EXIT_FAILED;
            continue;
        }
        if (!load(o, &sources[i], i, why) || !check_steps(o, &sources[i], why))
            return EXIT_USAGE;
        if (!rows_add(list, o, &sources[i], &c, why))
            return EXIT_FAILED;
        source_drop_values(&sources[i]);
    }
    return EXIT_SUCCESS;
}

static int run(const options *o)
{
    char why[WHY_SIZE] = "out of memory";
    size_t count = count_sources(o);
    source *sources = calloc(count, sizeof *sources);
    row_list list = {.count = 0};
    report r = {.view = o->view, .sources = sources, .source_count = count, .dtype = o->source.dtype,
                .checksum = o->channel.checksum != 0, .seed = o->source.seed};
    int status = EXIT_FAILED;

    machine_ask(&r.machine);
    if (sources)
        status = run_sources(o, sources, count, &list, why);
    if (status) {
        fail(status, why);
    } else {
        r.rows = list.rows;
        r.count = list.count;
        report_print(stdout, o->format, &r);
        status = close_output();
    }
    rows_free(&list);
    for (size_t i = 0; sources && i < count; i++)
        source_free(&sources[i]);
    free(sources);
    return status;
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE];
    options o;

    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error like others */
    if (!options_parse(&o, argc, argv, why))
        return fail(EXIT_USAGE, why);
    switch (o.command) {
    case COMMAND_HELP: options_print_help(stdout); return close_output();
    case COMMAND_LIST: codecs_print(stdout); return close_output();
    case COMMAND_VERSION: options_print_version(stdout); return close_output();
    default: return run(&o);
    }
}
