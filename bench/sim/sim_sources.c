/* SPDX-License-Identifier: MIT */
#include "sim_sources.h"
#include "../lib/explain.h"
#include "../lib/runs.h"
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static bool load(source *sources, size_t count, const run_list *runs, const char *traces, const source_options *options,
                 char *why)
{
    char *path = (char *)(uintptr_t)traces;
    bool ok = runs->count ? runs_load(runs, sources, options, why) : source_load(sources, &path, 1, options, why);

    for (size_t i = 0; ok && i < count; i++)
        ok = source_check_finite(&sources[i], why);
    return ok;
}

bool sim_sources_load(source **sources, size_t *count, const char *traces, const source_options *options, char *why)
{
    run_list runs = {.count = 0};
    bool ok = !traces || runs_find(&runs, traces, why);

    *count = runs.count ? runs.count : 1;
    *sources = ok ? calloc(*count, sizeof **sources) : NULL;
    if (ok && !*sources)
        ok = explain(why, "out of memory");
    if (ok)
        ok = traces ? load(*sources, *count, &runs, traces, options, why)
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

size_t sim_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (size_t)pages / 2 * (size_t)size : SIZE_MAX;
}
