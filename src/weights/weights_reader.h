/* SPDX-License-Identifier: MIT
 *
 * A message of weights that is read.
 */
#ifndef TLC_WEIGHTS_READER_H
#define TLC_WEIGHTS_READER_H

#include "weights_entry.h"

struct tlc_weights_reader {
    tlc_weights_reader_config config;
    tlc_allocator alloc;
    tlc_text why;
    tlc_weights_info info;
    uint32_t note_checksum;
    uint64_t entries, index; /* where they begin */
    tlc_weights_slot slot;   /* the entry that was asked for last */
    tlc_weights_slot root;   /* the root of a view */
    char last[TLC_WEIGHTS_NAME_MAX + 1];
};

/* Begins a call: there is no sentence yet. TLC_ERR_PARAM: there is no reader. */
tlc_status tlc_weights_begin(tlc_weights_reader *r);

/* Reads entry i, which may be any number, to a slot of the reader. */
tlc_status tlc_weights_entry_at(tlc_weights_reader *r, uint64_t i, tlc_weights_slot *slot);

/* Reads the root of the view in r->slot to r->root, and checks that the view fits. */
tlc_status tlc_weights_root_of(tlc_weights_reader *r);

/* The frame of the entry in r->slot. dst: cap bytes for it, if the message is not in memory. */
tlc_status tlc_weights_frame_of(tlc_weights_reader *r, void *dst, size_t cap, const void **frame);
#endif
