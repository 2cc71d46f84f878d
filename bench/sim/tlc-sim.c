/* SPDX-License-Identifier: MIT
 *
 * tlc-sim predicts what a model on a network gains from a codec and an exchange. It uses the public API only.
 */
#include "../lib/explain.h"
#include "../lib/machine.h"
#include "sim_report.h"
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
    const sim_report r = {o, &list, in};
    bool ok = sim_rows_add(&list, o, in, why) && (sim_report_print(stdout, &r) || explain(why, "out of memory"));

    sim_rows_free(&list);
    return ok ? program_close_output(program) : fail(EXIT_FAILED, why);
}

/* What the gradients of all models are made of, each source once. */
static bool load_sources(const sim_options *o, sim_input *in, char *why)
{
    size_t largest = 0;
    bool ok = true;

    for (size_t i = 0; i < o->shape_count; i++)
        largest = shapes_largest(&in->models[i]) > largest ? shapes_largest(&in->models[i]) : largest;
    for (size_t i = 0; ok && i < o->shape_count; i++) {
        sim_sources *set;
        in->use[i] = sim_use_of(o->traces, &in->models[i], o->local_steps > 0);
        set = &in->set[in->use[i]];
        if (set->count)
            continue;
        ok = sim_sources_load(set, o->traces, in->use[i], largest, &o->source, why);
        for (size_t k = 0; ok && k < set->count; k++)
            source_tell_left_out(&set->sources[k], program);
    }
    return ok && (!o->traces || sim_sources_load(&in->drawn, NULL, USE_GRADIENTS, largest, &o->source, why));
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
    if (!status && !load_sources(o, &in, why))
        status = fail(EXIT_USAGE, why);
    machine_ask(&m);
    in.cache = m.cache;
    if (!status)
        status = run_input(o, &in);
    for (size_t i = 0; i < SIM_USES; i++)
        sim_sources_free(&in.set[i]);
    sim_sources_free(&in.drawn);
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
