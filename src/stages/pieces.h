/* SPDX-License-Identifier: MIT
 *
 * Stages that code each value on its own, in a fixed number of bits, do it a piece of the tensor at a time: x is made,
 * random words if wanted, then the codes, and what was not sent stays in the residual.
 */
#ifndef TLC_PIECES_H
#define TLC_PIECES_H

#include "stage.h"

typedef struct tlc_pieces {
    unsigned group; /* values in a position; TLC_PIECE is a multiple of it, and so is every at below */

    /* The codes of count values from at on; codes points behind the payload's head. words is NULL without randomness.
     * Returns how many values were clipped. */
    uint64_t (*encode)(const tlc_unit *u, const float *x, const uint32_t *words, size_t at, size_t count, uint8_t *codes);
    void (*decode)(const tlc_unit *u, const uint8_t *codes, size_t at, size_t count, float *out);
} tlc_pieces;

/* What tlc_coder_ops wants, for positions of so many bytes each. */
uint64_t tlc_pieces_forward(const tlc_pieces *p, size_t width, int random, const tlc_unit *u, size_t from, size_t to,
                            uint8_t *dst);
void tlc_pieces_backward(const tlc_pieces *p, size_t width, const tlc_unit *u, size_t from, size_t to,
                         const uint8_t *src);
uint64_t tlc_pieces_nonzero(const tlc_pieces *p, const tlc_unit *u, const uint8_t *codes);

/* Are the bits beyond n values 0, where value i has bit i % 8 of byte i / 8? */
int tlc_bits_padding(const uint8_t *bits, uint64_t n);
#endif
