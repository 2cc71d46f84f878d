/* SPDX-License-Identifier: MIT
 *
 * Golomb-coded positions of the symbols that are not 0, or of members (Sparse Binary Compression, algorithms 3 and 4).
 * 3-value symbols have a sign bit each; their payload has quartic bytes if these are not more. src/docs/format.md draws
 * it.
 */
#include "stage.h"

const tlc_stage tlc_stage_golomb = {
    .name = "golomb",
    .id = 2,
    .takes = TLC_KIND_TERNARY | TLC_KIND_BINARY | TLC_KIND_MEMBERS,
    .gives = TLC_KIND_BYTES,
    .positions = TLC_IF_BUILT(TLC_WITH_GOLOMB_CODES, &tlc_positions_golomb),
    .fallback = &tlc_stage_quartic,
};

const tlc_stage_words tlc_words_golomb = {
    .meaning =
        TLC_IF_BUILT(TLC_WITH_GOLOMB_CODES,
                     "Golomb-coded positions of what is not 0; of 3-value symbols quartic bytes if these are not more"),
    .source = TLC_IF_BUILT(TLC_WITH_GOLOMB_CODES,
                           "Sattler, Wiedemann, Mueller, Samek, Sparse Binary Compression, 2018, algorithms 3 and 4"),
};
