/* SPDX-License-Identifier: MIT
 *
 * Any bytes through every decoder, between guard pages. After an error the outputs must be unchanged; after a success
 * the results must agree with each other.
 */
#ifndef TLC_TEST_HOSTILE_H
#define TLC_TEST_HOSTILE_H

#include "support.h"

#define HOSTILE_FILL 0x3c /* decoders rarely write this byte */

typedef struct hostile {
    arena src, out;
} hostile;

void hostile_open(hostile *h, size_t most_bytes, size_t most_values);
void hostile_close(hostile *h);

/* Decodes len bytes as n values in every way, on one ISA; returns tlc_decompress's status. */
tlc_status hostile_decode(hostile *h, const void *frame, size_t len, size_t n, tlc_isa isa);

#endif
