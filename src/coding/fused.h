/* SPDX-License-Identifier: MIT
 *
 * Fused kernels do the work of several stages in one sweep. Each row of the table in fused.c has them for one quantizer
 * and packer. The results are those of the stages, bit for bit (tests/kernels/test_fused.c). Coders use an entry if it
 * is not NULL.
 */
#ifndef TLC_FUSED_H
#define TLC_FUSED_H

#include "../stages/stage.h"

typedef struct tlc_fused {
    const tlc_stage *quantizer, *packer; /* packer NULL: the quantizer packs itself */

    /* Encodes x = gradient + residual into symbols (count <= TLC_CHUNK) or codes (any count); r keeps what was not
     * sent. g or r is NULL if there is no gradient or no residual. */
    void (*encode)(const tlc_unit *u, const float *g, float *r, size_t count, void *out);
    /* Finds the members of a chunk, and their values; r holds x, and keeps what was not sent. Returns how many. */
    size_t (*encode_members)(const tlc_unit *u, const tlc_chunk *c, float *r);
    /* encode() for count values of each stream, then the packer. g or r itself may be NULL. */
    void (*encode_and_pack)(const tlc_unit *u, const float *const *g, float *const *r, size_t count, uint8_t *dst);

    /* Writes or adds symbol * scale to the floats of each stream. */
    void (*unpack_and_write)(const tlc_kernels *k, const uint8_t *src, size_t count, float scale, float *const *out);
    void (*unpack_and_add)(const tlc_kernels *k, const uint8_t *src, size_t count, float scale, float *const *sum);
    /* unpack_and_add of at most TLC_TOGETHER_MAX payloads, one after the other. */
    void (*unpack_and_add_many)(const tlc_kernels *k, const uint8_t *const *src, const float *scale, size_t payloads,
                                size_t count, float *const *sum);
    /* unpack_and_write with stores past the caches: see the kernel quartic_ternary_decode_uncached. */
    void (*unpack_and_write_uncached)(const tlc_kernels *k, const uint8_t *src, size_t count, float scale,
                                      float *const *out, tlc_lines *lines, int last);
    /* sum += weight * value of count codes, of quantizers with one plane. */
    void (*decode_and_add)(const tlc_unit *u, const uint8_t *codes, size_t count, float weight, float *sum);
} tlc_fused;

/* NULL: nothing is fused. */
const tlc_fused *tlc_fused_of(const tlc_stage *quantizer, const tlc_stage *packer);

/* For tests: row i of the table, or NULL. */
const tlc_fused *tlc_fused_row(size_t i);
#endif
