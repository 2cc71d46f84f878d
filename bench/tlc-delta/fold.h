/* SPDX-License-Identifier: MIT
 *
 * One message of a chain of them, without the model.
 */
#ifndef DELTA_FOLD_H
#define DELTA_FOLD_H

#include "run.h"
#include <stddef.h>

/* paths: messages, each for the model that the one before it makes. The result takes the model before the first to that
 * after the last, whose trainer, number and files it has. force: out may be there. */
bool fold_messages(const run *r, char *const *paths, size_t count, const char *out, bool force, char *why);
#endif
