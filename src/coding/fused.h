/* SPDX-License-Identifier: MIT
 *
 * Kernels that do the work of several steps in one sweep. A row of the table names a quantizer, a packer and what is fused
 * for them; results are those of the steps, bit for bit (tests/test_fused.c). Coders use an entry where there is one.
 */
#ifndef TLC_FUSED_H
#define TLC_FUSED_H

#include "../stages/stage.h"

typedef struct tlc_fused {
    const tlc_stage *quantizer, *packer; /* packer NULL: the quantizer packs itself */

    /* x = gradient + residual, encoded; the residual keeps what was not sent. g or r NULL: there is none. Writes symbols or,
     * if the quantizer makes codes, the codes; at most TLC_PIECE symbols, any number of codes. */
    void (*encode)(const tlc_unit *u, const float *g, float *r, size_t count, void *out);
    /* Members of a chunk whose x lies in the residual r, and their values; r keeps what was not sent. Returns how many. */
    size_t (*encode_members)(const tlc_unit *u, const tlc_chunk *c, float *r);
    /* encode for count values of each stream of the packer, and packed. g or r may be NULL as a whole. */
    void (*encode_and_pack)(const tlc_unit *u, const float *const *g, float *const *r, size_t count, uint8_t *dst);

    /* Packed symbols times scale, written or added to each stream's floats. */
    void (*unpack_and_write)(const tlc_kernels *k, const uint8_t *src, size_t count, float scale, float *const *out);
    void (*unpack_and_add)(const tlc_kernels *k, const uint8_t *src, size_t count, float scale, float *const *sum);
    /* As unpack_and_write, past the caches: see the kernel quartic_ternary_stream. */
    void (*unpack_and_stream)(const tlc_kernels *k, const uint8_t *src, size_t count, float scale, float *const *out,
                              tlc_lines *lines, int last);
    /* sum += weight * value of count codes. */
    void (*decode_and_add)(const tlc_unit *u, const uint8_t *codes, size_t count, float weight, float *sum);
} tlc_fused;

/* NULL: nothing is fused. */
const tlc_fused *tlc_fused_of(const tlc_stage *quantizer, const tlc_stage *packer);

/* For tests: the rows, NULL from the end on. */
const tlc_fused *tlc_fused_row(size_t i);
#endif
