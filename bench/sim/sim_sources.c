/* SPDX-License-Identifier: MIT */
#include "sim_sources.h"
#include "../lib/explain.h"
#include "../lib/runs.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_DRAWN = 1 << 20 };

/* Folders of DIR. */
static const char *const folders[SIM_USES] = {[USE_TRANSFORMER] = "transformer", [USE_CHANGES] = "changes"};

/* DIR or its folder for this use. NULL: no memory. */
static char *path_of(const char *traces, sim_use use)
{
    char *path;

    return asprintf(&path, "%s%s%s", traces, folders[use] ? "/" : "", folders[use] ? folders[use] : "") < 0 ? NULL
                                                                                                            : path;
}

sim_use sim_use_of(const char *traces, const shape_list *model, bool changes)
{
    const sim_use use = changes ? USE_CHANGES : shapes_have_attention(model) ? USE_TRANSFORMER : USE_GRADIENTS;
    char *path = traces ? path_of(traces, use) : NULL;
    struct stat st;
    const bool is = path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);

    free(path);
    return is ? use : USE_GRADIENTS;
}

static bool load(sim_sources *s, const source_options *options, char *why)
{
    run_list runs = {.count = 0};
    bool ok = runs_find(&runs, s->path, why);

    s->count = runs.count ? runs.count : 1;
    s->sources = ok ? calloc(s->count, sizeof *s->sources) : NULL;
    if (ok && !s->sources)
        ok = explain(why, "out of memory");
    if (ok)
        ok = runs.count ? runs_load(&runs, s->sources, options, why)
                        : source_load(s->sources, &s->path, 1, options, why);
    for (size_t i = 0; ok && i < s->count; i++)
        ok = source_check_finite(&s->sources[i], why);
    runs_free(&runs);
    return ok;
}

static bool draw(sim_sources *s, size_t largest, const source_options *options, char *why)
{
    source_options drawn = *options;

    drawn.has_values = true;
    drawn.values = largest < MOST_DRAWN ? largest : MOST_DRAWN;
    s->count = 1;
    s->sources = calloc(1, sizeof *s->sources);
    return s->sources ? source_draw(s->sources, "laplace", &drawn, why) : explain(why, "out of memory");
}

bool sim_sources_load(sim_sources *s, const char *traces, sim_use use, size_t largest, const source_options *options,
                      char *why)
{
    *s = (sim_sources){.sources = NULL};
    if (!traces)
        return draw(s, largest, options, why);
    s->path = path_of(traces, use);
    return s->path ? load(s, options, why) : explain(why, "out of memory");
}

void sim_sources_free(sim_sources *s)
{
    for (size_t i = 0; s->sources && i < s->count; i++)
        source_free(&s->sources[i]);
    free(s->sources);
    free(s->path);
    *s = (sim_sources){.sources = NULL};
}

size_t sim_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (size_t)pages / 2 * (size_t)size : SIZE_MAX;
}
