/* SPDX-License-Identifier: MIT
 *
 * What gradients are made of (--traces DIR), and the memory for machines.
 */
#ifndef SIM_SOURCES_H
#define SIM_SOURCES_H

#include "../lib/shapes.h"
#include "../lib/source.h"

/* What the values are for. The last two have folders of their own in DIR, which may be missing. */
typedef enum sim_use {
    USE_GRADIENTS,
    USE_TRANSFORMER, /* gradients of a model with attention: DIR/transformer */
    USE_CHANGES,     /* changes that local steps make: DIR/changes */
    SIM_USES
} sim_use;

/* Runs (runs.h), or one source that is not a run. */
typedef struct sim_sources {
    source *sources;
    size_t count; /* 0: not loaded */
    char *path;   /* the folder or file; NULL: they are drawn */
} sim_sources;

/* changes: of local steps. USE_GRADIENTS also if DIR has no folder of that use, or traces is NULL. */
sim_use sim_use_of(const char *traces, const shape_list *model, bool changes);

/* Of a folder or file. traces NULL: laplace values, as many as the largest tensor has, at most 1Mi, and options->steps
 * or 16 times. Whether or not it succeeds, they are to be freed. */
bool sim_sources_load(sim_sources *s, const char *traces, sim_use use, size_t largest, const source_options *options,
                      char *why);
void sim_sources_free(sim_sources *s);

/* Bytes that machines may take by default: half of what there is. */
size_t sim_memory(void);
#endif
