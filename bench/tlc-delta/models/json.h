/* SPDX-License-Identifier: MIT
 *
 * JSON that may be any bytes: the memory that it takes is bounded, and names that occur twice are refused.
 */
#ifndef DELTA_JSON_H
#define DELTA_JSON_H

#include <jansson.h>
#include <stdint.h>

/* NULL: why says what is wrong. The memory is at most 32 times len, and 1 MiB. */
json_t *json_read(const uint8_t *text, size_t len, char *why);
#endif
