/* SPDX-License-Identifier: MIT
 *
 * Views: tensors whose values are those of another one, the root.
 */
#ifndef TLC_WEIGHTS_VIEW_H
#define TLC_WEIGHTS_VIEW_H

#include <threelc/weights.h>

/* Has the root all values of the view? The arrays of both are as long as they say. */
int tlc_weights_view_fits(const tlc_weights_entry *view, const tlc_weights_entry *root);

/* Copies the values of a view that fits. values: all of the root. out: view->n weights. */
void tlc_weights_view_copy(const tlc_weights_entry *view, const tlc_weights_entry *root, const void *values, void *out);
#endif
