/* SPDX-License-Identifier: MIT
 *
 * Refuses options that do not go together.
 */
#ifndef BENCH_OPTIONS_CHECK_H
#define BENCH_OPTIONS_CHECK_H

#include "options.h"

/* Checks the options as given, before defaults are set. false: why says what is wrong. */
bool options_check(const options *o, char *why);
#endif
