/* SPDX-License-Identifier: MIT
 *
 * The sources of gradients of a command line.
 */
#ifndef SIM_SOURCES_H
#define SIM_SOURCES_H

#include "../source.h"

/* traces: a folder of runs (runs.h), each a source; or files, one source; NULL: one source of drawn laplace values.
 * Values are finite. Whether or not it succeeds, they are to be freed. */
bool sim_sources_load(const char *traces, const source_options *options, source **sources, size_t *count, char *why);
void sim_sources_free(source *sources, size_t count);
#endif
