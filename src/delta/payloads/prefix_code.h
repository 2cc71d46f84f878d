/* SPDX-License-Identifier: MIT
 *
 * Prefix codes of classes: Huffman codes of at most 10 bits, canonical, so that their lengths describe them.
 * src/docs/format.md draws the description.
 */
#ifndef TLC_DELTA_PREFIX_CODE_H
#define TLC_DELTA_PREFIX_CODE_H

#include "../../common/float_rules.h"

enum { TLC_CLASSES = 256, TLC_CODE_MAX = 10, TLC_CODE_HEAD_MAX = 2 + TLC_CLASSES / 2 };

typedef struct tlc_prefix_code {
    uint8_t length[TLC_CLASSES];
    uint16_t code[TLC_CLASSES];
} tlc_prefix_code;

/* counts: of all classes; not all are 0, and their sum is below 2^31. */
void tlc_prefix_code_make(tlc_prefix_code *p, const uint32_t counts[TLC_CLASSES]);

/* Returns the bytes written, at most TLC_CODE_HEAD_MAX. */
size_t tlc_prefix_code_write(const tlc_prefix_code *p, uint8_t *dst);

/* By the next TLC_CODE_MAX bits: the classes whose codes are whole in them, at most TLC_ENTRY_CLASSES. Bits 0-31 the
 * classes, the first in the lowest byte; 32-39 how many; 40-47 the bits of their codes; 48-63 the sum of the classes.
 * So the upper halves of some entries can be added. 0: these bits begin no code. */
typedef struct tlc_prefix_table {
    uint64_t entry[1 << TLC_CODE_MAX];
    uint8_t length[TLC_CLASSES];
} tlc_prefix_table;

enum { TLC_ENTRY_CLASSES = 4 };

/* Reads the description, in any bytes. Returns its size, or 0 if it describes no code of classes below `classes`. many:
 * entries have several classes; such a table takes longer to make. *largest: the largest class with a code. */
size_t tlc_prefix_table_read(tlc_prefix_table *table, const uint8_t *src, size_t len, unsigned classes, int many,
                             unsigned *largest);
#endif
