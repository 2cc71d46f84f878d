/* SPDX-License-Identifier: MIT
 *
 * tlc-mpi-bench measures exchanges over MPI beside those of floats. It uses the public API only.
 */
#include "../lib/explain.h"
#include "../sim/sim_sources.h"
#include "mpi_report.h"
#include "ranks.h"
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>

static const char program[] = "tlc-mpi-bench";

/* All ranks have the same reason; one tells it. */
static int fail(int status, const char *why)
{
    return ranks_me() ? status : program_fail(program, status, why);
}

/* Predicts on rank 0, while the others leave it the cores. */
static bool predict(mpi_rows *list, char *why)
{
    bool ok = true;

    if (!ranks_me() && !list->o->no_predict)
        ok = mpi_rows_predict(list, why);
    ranks_wait();
    return ranks_agree(ok, why);
}

static int run_rows(mpi_rows *list)
{
    char why[WHY_SIZE] = "";

    if (!predict(list, why) || !mpi_rows_measure(list, program, why))
        return fail(EXIT_FAILED, why);
    if (ranks_me())
        return EXIT_SUCCESS;
    mpi_report_print(stdout, list);
    return program_close_output(program);
}

static int run(const mpi_options *o)
{
    char why[WHY_SIZE] = "";
    shape_list model = {.model = NULL};
    sim_sources set = {.sources = NULL};
    mpi_rows list = {.o = o, .model = &model};
    int status = EXIT_SUCCESS;

    if (!ranks_agree(mpi_options_check_ranks(o, ranks_count(), why) && shapes_load(&model, o->shapes, why) &&
                         sim_sources_load(&set, o->traces, sim_use_of(o->traces, &model, false), shapes_largest(&model),
                                          &o->source, why),
                     why))
        status = fail(EXIT_USAGE, why);
    for (size_t i = 0; !status && !ranks_me() && i < set.count; i++)
        source_tell_left_out(&set.sources[i], program);
    if (!status && !ranks_agree(mpi_rows_plan(&list, set.sources, set.count, why), why))
        status = fail(EXIT_FAILED, why);
    if (!status)
        status = run_rows(&list);
    mpi_rows_free(&list);
    sim_sources_free(&set);
    shapes_free(&model);
    return status;
}

int main(int argc, char **argv)
{
    char why[WHY_SIZE];
    mpi_options o;
    int status;

    (void)signal(SIGPIPE, SIG_IGN); /* then writing to a closed pipe fails as other writes do */
    MPI_Init(&argc, &argv);
    if (!mpi_options_parse(&o, argc, argv, why))
        status = fail(EXIT_USAGE, why);
    else if (o.command == COMMAND_RUN)
        status = run(&o);
    else /* rank 0 answers for all */
        status = ranks_me() ? EXIT_SUCCESS : program_answer(program, o.command, &mpi_options_table);
    MPI_Finalize();
    return status;
}
