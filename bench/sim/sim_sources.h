/* SPDX-License-Identifier: MIT
 *
 * What gradients are made of (--traces), and the memory for machines.
 */
#ifndef SIM_SOURCES_H
#define SIM_SOURCES_H

#include "../lib/source.h"

/* Runs (runs.h) or one source that is not a run, of a folder or file. traces NULL: laplace values. Whether or not it
 * succeeds, they are to be freed. */
bool sim_sources_load(source **sources, size_t *count, const char *traces, const source_options *options, char *why);
void sim_sources_free(source *sources, size_t count);

/* Bytes that machines may take by default: half of what there is. */
size_t sim_memory(void);
#endif
