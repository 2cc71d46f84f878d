/* SPDX-License-Identifier: MIT
 *
 * The one source that sees xxhash.h. With TLC_LIBXXHASH libxxhash has the function, else this file, from that header.
 */
#include "hash.h"
#ifndef TLC_LIBXXHASH
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

uint64_t tlc_hash(const void *bytes, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len, seed);
}
