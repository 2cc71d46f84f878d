/* SPDX-License-Identifier: MIT
 *
 * XXH3 of 64 bits, for checksums and digests.
 */
#ifndef TLC_HASH_H
#define TLC_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t tlc_hash(const void *bytes, size_t len, uint64_t seed);
#endif
