/* SPDX-License-Identifier: MIT
 *
 * tlc-sim predicts what a model on a network gains from a codec and an exchange. It uses the public API only.
 */
#include "../lib/explain.h"
#include "../lib/machine.h"
#include "sim_report.h"
#include "sim_sources.h"
#include <signal.h>
#include <stdlib.h>

static const char program[] = "tlc-sim";

static int fail(int status, const char *why)
{
    return program_fail(program, status, why);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static int run_input(const sim_options *o, const sim_input *in)
{
    char why[WHY_SIZE];
    sim_rows list = {.count = 0};
    const sim_report r = {o, &list, in->sources, in->count};
    bool ok = sim_rows_add(&list, o, in, why) && (sim_report_print(stdout, &r) || explain(why, "out of memory"));

    sim_rows_free(&list);
    return ok ? program_close_output(program) : fail(EXIT_FAILED, why);
}

static int run(const sim_options *o)
{
    char why[WHY_SIZE];
    shape_list models[MAX_MODELS] = {{.model = NULL}};
    machine m;
    sim_input in = {.models = models, .memory = o->memory ? o->memory : sim_memory()};
    int status = EXIT_SUCCESS;

    for (size_t i = 0; !status && i < o->shape_count; i++)
        status = shapes_load(&models[i], o->shapes[i], why) ? EXIT_SUCCESS : fail(EXIT_USAGE, why);
    if (!status && !sim_sources_load(&in.sources, &in.count, o->traces, &o->source, why))
        status = fail(EXIT_USAGE, why);
    for (size_t i = 0; !status && i < in.count; i++)
        source_tell_left_out(&in.sources[i], program);
    machine_ask(&m);
    in.cache = m.cache;
    if (!status)
        status = run_input(o, &in);
    sim_sources_free(in.sources, in.count);
    for (size_t i = 0; i < o->shape_count; i++)
        shapes_free(&models[i]);
    return status;
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE];
    sim_options o;

    (void)signal(SIGPIPE, SIG_IGN); /* then writing to a closed pipe fails as other writes do */
    if (!sim_options_parse(&o, argc, argv, why))
        return fail(EXIT_USAGE, why);
    return o.command == COMMAND_RUN ? run(&o) : program_answer(program, o.command, &sim_options_table);
}
