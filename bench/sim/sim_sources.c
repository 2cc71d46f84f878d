/* SPDX-License-Identifier: MIT */
#include "sim_sources.h"
#include "../explain.h"
#include "../runs.h"
#include <stdlib.h>

static bool load_traces(const char *traces, const source_options *options, const run_list *runs, source *sources,
                        size_t count, char *why)
{
    char *path = (char *)(uintptr_t)traces;
    bool ok = runs->count ? runs_load(runs, sources, options, why) : source_load(sources, &path, 1, options, why);

    for (size_t i = 0; ok && i < count; i++)
        ok = source_check_finite(&sources[i], why);
    return ok;
}

bool sim_sources_load(const char *traces, const source_options *options, source **sources, size_t *count, char *why)
{
    run_list runs = {.count = 0};
    bool ok = !traces || runs_find(&runs, traces, why);

    *count = runs.count ? runs.count : 1;
    *sources = ok ? calloc(*count, sizeof **sources) : NULL;
    if (ok && !*sources)
        ok = explain(why, "out of memory");
    if (ok)
        ok = traces ? load_traces(traces, options, &runs, *sources, *count, why)
                    : source_draw(*sources, "laplace", options, why);
    runs_free(&runs);
    return ok;
}

void sim_sources_free(source *sources, size_t count)
{
    for (size_t i = 0; sources && i < count; i++)
        source_free(&sources[i]);
    free(sources);
}
