/* SPDX-License-Identifier: MIT
 *
 * Calls that are refused: each leaves a sentence that names who was called, the argument, and what is allowed.
 */
#ifndef TLC_REFUSAL_H
#define TLC_REFUSAL_H

#include "setup.h"

/* Writes the sentence to the object's reports, after "rank 2: " and the tensor, if it is one. The format is that of
 * tlc_text_format. Returns the status. A call that may not change its object may call it, too. */
tlc_status tlc_refuse(const tlc_setup *x, tlc_status status, size_t tensor, const char *format, ...) TLC_PRINTF(4, 5);

/* The first report becomes that of all servers. */
void tlc_report_share(const tlc_setup *x);

/* TLC_ERR_PARAM: a pointer is NULL. */
tlc_status tlc_refuse_null(const tlc_setup *x, const char *argument);

/* TLC_ERR_PARAM: struct_size is smaller than the first field. */
tlc_status tlc_refuse_struct(const tlc_setup *x, const char *argument);

/* TLC_ERR_ORDER: of a step that is under way. */
tlc_status tlc_refuse_step(const tlc_setup *x, const char *call);

/* TLC_ERR_ORDER: what was called, and what is wrong with that. */
tlc_status tlc_refuse_turn(const tlc_setup *x, const char *what);

/* Is this a codec that the object may use? TLC_ERR_PARAM: the sentence says what is wrong, and where. what: "push". */
tlc_status tlc_refuse_codec(const tlc_setup *x, size_t tensor, const char *what, const char *codec);

/* State i, which a caller gave, cannot be read: of another format or version, or damaged. */
tlc_status tlc_refuse_state(const tlc_setup *x, size_t tensor, tlc_status status, size_t i, tlc_message state);

/* The status, which may be TLC_OK, with a sentence of its own if it is another one. If it is that of the memory, the
 * sentence says how many bytes were refused. */
tlc_status tlc_refuse_status(const tlc_setup *x, size_t tensor, tlc_status status);
#endif
