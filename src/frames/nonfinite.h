/* SPDX-License-Identifier: MIT
 *
 * Finds the value that kept a tensor from being sent.
 */
#ifndef TLC_NONFINITE_H
#define TLC_NONFINITE_H

#include "../values/input.h"

typedef enum tlc_nonfinite_kind {
    TLC_NONFINITE_GRADIENT,
    TLC_NONFINITE_SUM,  /* residual + gradient; the gradient is finite */
    TLC_NONFINITE_SCALE /* all values are finite: `at` is the one of the largest magnitude */
} tlc_nonfinite_kind;

typedef struct tlc_nonfinite {
    tlc_nonfinite_kind kind;
    size_t at; /* the first such value */
    float value;
} tlc_nonfinite;

/* n > 0. added: the gradient may have been added to the residual before. Needs the default float mode. */
tlc_nonfinite tlc_nonfinite_find(const tlc_input *in, size_t n, int added);
#endif
