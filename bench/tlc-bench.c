/* SPDX-License-Identifier: MIT
 *
 * tlc-bench: how small, how exact and how fast libthreelc compresses gradients. It uses the public API only.
 */
#include "explain.h"
#include "options.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- progress ------------------------------------------------------------------------------------------------------ */

static bool show_progress; /* only on a terminal */

static void progress(size_t row, size_t rows, const char *codec, const char *name, const char *what)
{
    if (show_progress)
        fprintf(stderr, "\r\033[K[%zu/%zu] %.40s%s%.40s: %s", row + 1, rows, codec, name ? ", " : "",
                name ? name : "", what);
}

static void progress_end(void)
{
    if (show_progress)
        fputs("\r\033[K", stderr);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static bool run_row(const options *o, const source *s, report_row *row, size_t index, size_t rows, char *why)
{
    const tensor *tensors = row->tensor ? row->tensor : s->tensors;
    const char *name = row->tensor ? row->tensor->name : NULL;
    size_t count = row->tensor ? 1 : s->count;
    channel *channels = channels_open(tensors, count, s->dtype, row->codec, &o->channel, why);
    frame_store frames;
    bool ok;

    if (!channels)
        return false;
    if (!frames_open(&frames, count * s->steps, why)) {
        channels_close(channels, count);
        return false;
    }
    progress(index, rows, row->codec, name, "verifying");
    ok = verify(channels, count, s->dtype, row->codec, &o->channel, &frames, &row->verified, why);
    if (ok) {
        progress(index, rows, row->codec, name, "measuring");
        ok = measure(channels, count, s->dtype, o->channel.isa, &frames, &o->measure, &row->measured, why);
    }
    frames_close(&frames);
    channels_close(channels, count);
    return ok;
}

static bool run_rows(const options *o, const source *s, report_row *rows, size_t count, char *why)
{
    bool ok = true;

    for (size_t i = 0; ok && i < count; i++) {
        size_t group = i / o->codec_count;
        rows[i].codec = o->codecs[i % o->codec_count];
        rows[i].tensor = group ? &s->tensors[group - 1] : NULL;
        ok = run_row(o, s, &rows[i], i, count, why);
    }
    progress_end();
    return ok;
}

/* ---- the program --------------------------------------------------------------------------------------------------- */

static bool load(const options *o, source *s, char *why)
{
    bool any_needs_finite = false, ok;

    for (size_t i = 0; i < o->codec_count; i++)
        any_needs_finite = any_needs_finite || !codec_takes_nonfinite(o->codecs[i], o->channel.feedback);
    ok = o->synthetic ? source_draw(s, o->synthetic, &o->source, why)
                      : source_load(s, o->paths, o->path_count, &o->source, why);
    if (ok && any_needs_finite && !source_check_finite(s, why)) {
        source_free(s);
        ok = false;
    }
    return ok;
}

static int run(const options *o)
{
    char why[WHY_SIZE];
    report_row *rows;
    source s;
    size_t groups, count;
    int status;

    show_progress = !o->quiet && isatty(STDERR_FILENO);
    if (!load(o, &s, why))
        return fail(EXIT_USAGE, why);
    groups = o->per_tensor && s.count > 1 ? 1 + s.count : 1;
    count = groups * o->codec_count;
    rows = calloc(count, sizeof *rows);
    measure_pin();
    if (!rows) {
        status = fail(EXIT_FAILED, "out of memory");
    } else if (!run_rows(o, &s, rows, count, why)) {
        status = fail(EXIT_FAILED, why);
    } else {
        report r = {.source = &s, .rows = rows, .count = count, .codecs = o->codec_count,
                    .checksum = o->channel.checksum != 0, .seed = o->source.seed};
        report_print(stdout, o->format, &r);
        status = close_output();
    }
    free(rows);
    source_free(&s);
    return status;
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE];
    options o;

    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error like others */
    if (!options_parse(&o, argc, argv, why))
        return fail(EXIT_USAGE, why);
    switch (o.command) {
    case COMMAND_HELP: options_print_help(stdout); return close_output();
    case COMMAND_VERSION: options_print_version(stdout); return close_output();
    default: return run(&o);
    }
}
