/* SPDX-License-Identifier: MIT
 *
 * The index of a model in several .safetensors files: NAME.safetensors.index.json, whose "weight_map" has the file of
 * each tensor.
 */
#ifndef DELTA_INDEX_H
#define DELTA_INDEX_H

#include "models/model.h"

/* Whether the files that the indices of a model name are there. A copy or a checkpoint that is not complete may lack
 * some. Files of this name that are no such JSON are no indices. */
bool index_check(const model *m, char *why);
#endif
