/* SPDX-License-Identifier: MIT
 *
 * A message and the base that it is for: the files of the next model, entry by entry.
 */
#ifndef DELTA_PATCH_H
#define DELTA_PATCH_H

#include "models/message.h"
#include "models/model.h"
#include "run.h"

typedef struct patch {
    const run *run;
    const char *path; /* of the message, for messages */
    message_in in;
    model base; /* empty if there is none */
    model next; /* its files are laid out as their rests come, its entries listed after that */
    buffer weights, base_weights;
} patch;

/* Opens a message, and reads which files it makes. false: there is nothing to close. */
bool patch_open(patch *p, const run *r, const char *message, char *why);
void patch_close(patch *p);

/* Opens the base. NULL: none is given, so the message must have all weights. */
bool patch_open_base(patch *p, const char *base, char *why);

/* Does something with entry e of p->next, of which it has the weights, in the byte order of files. */
typedef bool (*patch_take)(void *opaque, const patch *p, const model_entry *e, const uint8_t *weights, char *why);

/* Makes all entries of the next model, rests first, and gives them to take. what: for progress. Frames and bases are
 * checked before their weights are used, but an error may come after some entries. */
bool patch_make(patch *p, const char *what, patch_take take, void *opaque, char *why);

/* ---- steps of patch_make, for those who change files in place ---------------------------------------------------- */

/* Reads entry i of the message. *file: the file whose rest it is; NULL: it is a tensor. */
bool patch_rest_at(patch *p, uint64_t i, tlc_weights_entry *entry, const void **frame, model_file **file, char *why);

/* Lays out a file, of whose rest it has the bytes. */
bool patch_lay_out(patch *p, model_file *file, const tlc_weights_entry *entry, const uint8_t *rest, char *why);

/* Lists the entries of the next model, which must be as many as those of the message. */
bool patch_list(patch *p, char *why);

/* Reads entry i of the message, which must be entry i of the next model. */
bool patch_at(patch *p, size_t i, tlc_weights_entry *entry, const void **frame, char *why);

/* Says what is wrong with an entry. Returns false. */
bool patch_refuse(const patch *p, const char *name, const char *reason, char *why);
#endif
