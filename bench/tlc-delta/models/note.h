/* SPDX-License-Identifier: MIT
 *
 * The note of a message (threelc/weights.h) of tlc-delta: which files the model has, as JSON:
 *     {"format": "tlc-delta 1", "folder": true, "files": [{"path": "a.safetensors", "kind": "safetensors", "size": 9}]}
 * Files are in the order of their paths. Kinds are safetensors, npy, and, of raw files, a dtype.
 */
#ifndef DELTA_NOTE_H
#define DELTA_NOTE_H

#include "message.h"
#include "model.h"

/* The caller frees it. NULL: why says what is wrong. */
char *note_write(const model *m, char *why);

/* The kind of a file, as the note has it. */
const char *note_kind(const model_file *file);

/* Makes a model whose files are not laid out. The note may be any bytes; no path leads out of the folder. false: there
 * is nothing to close. */
bool note_read(const uint8_t *note, size_t len, model *m, char *why);

/* The same of a message's note. */
bool note_of(message_in *in, model *m, char *why);
#endif
