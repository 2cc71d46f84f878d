/* SPDX-License-Identifier: MIT
 *
 * What is in a message.
 */
#ifndef DELTA_INFO_H
#define DELTA_INFO_H

#include <stdbool.h>

/* Prints it to stdout, as text or JSON, after all of it has been checked. */
bool info_print(const char *path, bool json, char *why);
#endif
