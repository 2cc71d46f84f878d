/* SPDX-License-Identifier: MIT
 *
 * tlc-delta writes what changed between two models, and makes the one of the other.
 */
#include "../lib/explain.h"
#include "../lib/program.h"
#include "../lib/threads.h"
#include "apply.h"
#include "fold.h"
#include "in_place.h"
#include "info.h"
#include "keep.h"
#include "make.h"
#include "options.h"
#include "signals.h"
#include <inttypes.h>
#include <stdlib.h>

static const char program[] = "tlc-delta";

static bool make(const run *r, const options *o, char *why)
{
    const bool has_base = o->path_count == 3;
    const make_paths paths = {.base = has_base ? o->paths[0] : NULL,
                              .next = o->paths[has_base],
                              .after = o->after,
                              .out = o->paths[has_base + 1],
                              .force = o->force};
    make_result result;

    if (!make_delta(r, &paths, &result, why))
        return false;
    make_print(&paths, &result);
    return true;
}

static bool apply(const run *r, const options *o, char *why)
{
    const bool has_base = o->path_count == 3;
    const apply_paths paths = {.message = o->paths[0],
                               .base = has_base ? o->paths[1] : NULL,
                               .out = o->paths[has_base + 1],
                               .force = o->force};

    return o->in_place ? in_place_apply(r, o->paths[0], o->paths[1], why) : apply_message(r, &paths, why);
}

static bool keep(const run *r, const options *o, char *why)
{
    const keep_options wanted = {.folder = o->paths[0],
                                 .out = o->out,
                                 .once = o->once,
                                 .settle = o->settle >= 0 ? o->settle : 10};

    return keep_deltas(r, &wanted, why);
}

static bool do_command(const run *r, const options *o, char *why)
{
    switch (o->what) {
    case DELTA_MAKE: return make(r, o, why);
    case DELTA_APPLY: return apply(r, o, why);
    case DELTA_VERIFY: return apply_verify(r, o->paths[0], o->path_count > 1 ? o->paths[1] : NULL, why);
    case DELTA_FOLD: return fold_messages(r, o->paths, o->path_count - 1, o->paths[o->path_count - 1], o->force, why);
    case DELTA_INFO: return info_print(o->paths[0], o->json, why);
    default: return keep(r, o, why);
    }
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE] = "";
    options o;

    if (!options_parse(&o, argc, argv, why))
        return program_fail(program, EXIT_USAGE, why);
    if (o.command != COMMAND_RUN)
        return program_answer(program, o.command, &delta_options);
    signals_catch();
    const cores none = {.count = 0}; /* the cores are not this program's alone */
    pool *threads = pool_open(o.threads, &none, why);
    if (!threads)
        return program_fail(program, EXIT_FAILED, why);
    const run r = {.parallel = pool_parallel(threads),
                   .quiet = o.quiet,
                   .block_digests = o.block_digests,
                   .has_dtype = o.dtype >= 0,
                   .dtype = (tlc_dtype)(o.dtype >= 0 ? o.dtype : TLC_U8)};
    const bool ok = do_command(&r, &o, why);
    pool_close(threads);
    return ok ? program_close_output(program) : program_fail(program, EXIT_FAILED, why);
}
