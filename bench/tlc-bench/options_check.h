/* SPDX-License-Identifier: MIT
 *
 * Refuses options that do not go together.
 */
#ifndef BENCH_OPTIONS_CHECK_H
#define BENCH_OPTIONS_CHECK_H

#include "options.h"

/* Checks the options as given, before defaults are set. false: why says what is wrong. */
bool options_check(const options *o, char *why);

/* The name of the option that chooses the view, without the dashes; NULL for VIEW_CODECS. */
const char *options_view_name(report_view view);

/* Whether a codec is one of papers.h. */
bool options_have_papers(const options *o);
#endif
