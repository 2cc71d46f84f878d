/* SPDX-License-Identifier: MIT
 *
 * Signals end a run between two tensors, so that it can remove what is half written.
 */
#ifndef DELTA_SIGNALS_H
#define DELTA_SIGNALS_H

#include <stdbool.h>

/* SIGINT, SIGTERM and SIGHUP: signals_stop tells. A second one ends the process. SIGXFSZ: write fails instead. SIGBUS:
 * a file that is read became shorter, which ends the process with a line that says so. */
void signals_catch(void);

/* Whether the run should end. Then why says by which signal. */
bool signals_stop(char *why);
#endif
