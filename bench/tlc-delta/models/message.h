/* SPDX-License-Identifier: MIT
 *
 * Messages (threelc/weights.h) in files.
 */
#ifndef DELTA_MESSAGE_H
#define DELTA_MESSAGE_H

#include "layout.h"
#include "mapped.h"
#include <stdio.h>

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct message_out {
    FILE *stream;
    uint64_t size;
    int error; /* of the stream */
    tlc_weights_writer *writer;
    char message[TLC_MESSAGE_SIZE];
} message_out;

/* Who sends a message, and its number. */
typedef struct message_id {
    unsigned char trainer[TLC_WEIGHTS_TRAINER_SIZE];
    uint64_t sequence;
} message_id;

/* The next one of the message in a file; NULL: the first one of a new trainer. */
bool message_id_after(message_id *id, const char *before, char *why);

/* Begins a message of `count` entries in a file. Always close it. */
bool message_out_begin(message_out *m, int fd, const message_id *id, uint64_t count, const void *note, size_t note_len,
                       char *why);
bool message_out_add(message_out *m, const char *name, const layout_tensor *t, const void *frame, size_t len,
                     char *why);
bool message_out_finish(message_out *m, uint64_t *size, char *why);
void message_out_close(message_out *m);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct message_in {
    mapped_file map;
    tlc_weights_reader *reader;
    tlc_weights_info info;
    char message[TLC_MESSAGE_SIZE];
} message_in;

/* Opens a message, which may be any bytes. false: there is nothing to close. */
bool message_in_open(message_in *m, const char *path, char *why);
void message_in_close(message_in *m);

/* Entry i, which has a frame, with the frame in the map. */
bool message_in_at(message_in *m, uint64_t i, tlc_weights_entry *entry, const void **frame, char *why);
#endif
