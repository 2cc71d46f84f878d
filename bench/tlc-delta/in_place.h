/* SPDX-License-Identifier: MIT
 *
 * Files that are changed where they lie, for machines whose memory or disk has no room for a second copy, or that have
 * the files mapped.
 */
#ifndef DELTA_IN_PLACE_H
#define DELTA_IN_PLACE_H

#include "run.h"

/* Makes the next model of the files of the base. Tensors must lie at the same places in both. Everything is checked
 * before the first write. A run that is killed is completed by another one: tensors that are at the result are left
 * alone; those half written are repaired if their frames have digests of blocks, else refused. Files that the next
 * model does not have are left alone. */
bool in_place_apply(const run *r, const char *message, const char *files, char *why);
#endif
