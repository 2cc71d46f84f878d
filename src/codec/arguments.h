/* SPDX-License-Identifier: MIT
 *
 * Arguments that many functions take: their names in sentences, and what is wrong with them.
 */
#ifndef TLC_ARGUMENTS_H
#define TLC_ARGUMENTS_H

#include "text.h"

const char *tlc_dtype_name(tlc_dtype dtype);     /* "f32"; "no dtype" for other numbers */
const char *tlc_nonfinite_name(float nonfinite); /* "NaN", "infinity", "-infinity" */

/* TLC_ERR_PARAM: it is not one of the enum. TLC_ERR_UNSUPPORTED: the machine does not have the ISA. */
tlc_status tlc_dtype_check(tlc_dtype dtype, tlc_text *w);
tlc_status tlc_isa_check(tlc_isa isa, tlc_text *w);

/* A field that is 0 or 1. TLC_ERR_PARAM: it is neither. */
tlc_status tlc_flag_check(const char *field, int value, tlc_text *w);
#endif
