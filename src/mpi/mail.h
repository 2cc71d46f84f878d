/* SPDX-License-Identifier: MIT
 *
 * Messages of any length between the ranks of a communicator. A message goes as pieces of `chunk` bytes and a last one
 * that is shorter, perhaps empty; so nobody needs to be told its length first. Those of one sender and tag arrive in
 * order. An empty message is one, too.
 */
#ifndef TLC_MPI_MAIL_H
#define TLC_MPI_MAIL_H

#include <threelc/mpi.h>

typedef enum tlc_tag { TLC_TAG_PUSH = 1, TLC_TAG_ANSWER = 2, TLC_TAG_HELLO = 3 } tlc_tag;

typedef struct tlc_mail {
    MPI_Comm comm;
    int rank;
    size_t chunk;
    tlc_allocator alloc;
    int error; /* of the first call of MPI that failed; else MPI_SUCCESS */
    uint64_t sent, received, pieces;
} tlc_mail;

/* Sends under way. Zeros are an empty list. */
typedef struct tlc_sends {
    MPI_Request *list;
    size_t count, room;
} tlc_sends;

typedef enum tlc_box_state { TLC_BOX_CLOSED, TLC_BOX_OPEN, TLC_BOX_RECEIVING, TLC_BOX_FULL } tlc_box_state;

/* Where messages of one rank arrive, one at a time. Zeros are a closed box without memory. */
typedef struct tlc_box {
    tlc_box_state state;
    int from;
    tlc_tag tag;
    unsigned char *bytes;
    size_t len, room;
    MPI_Request piece; /* on its way to bytes + len */
    int piece_len;
} tlc_box;

/* TLC_OK, or TLC_ERR_TRANSPORT, which is kept in m->error. */
tlc_status tlc_mail_check(tlc_mail *m, int code);

/* MPI's sentence for a code. Not empty, and ends with 0, whatever MPI does. */
void tlc_mail_error_text(int code, char text[MPI_MAX_ERROR_STRING]);

/* Memory of the caller's allocator, all 0; count is at least 1. NULL: there is none. */
void *tlc_mail_take(const tlc_mail *m, size_t count, size_t size);
void tlc_mail_give_back(const tlc_mail *m, void *memory); /* NULL is allowed */

/* Room to send so many messages of `len` bytes, and to receive one. TLC_ERR_NOMEM. */
tlc_status tlc_mail_reserve(const tlc_mail *m, tlc_sends *sends, size_t messages, size_t len);
tlc_status tlc_box_reserve(const tlc_mail *m, tlc_box *b, size_t len);

/* Begins to send. The bytes stay where they are until the list is done, which has room. */
tlc_status tlc_mail_send(tlc_mail *m, tlc_sends *sends, tlc_message message, int to, tlc_tag tag);

/* *done: all of the list were sent; then it is empty. */
tlc_status tlc_mail_test(tlc_mail *m, tlc_sends *sends, int *done);

/* The next message of a rank is expected. The box is closed or full; what was in it is gone. */
void tlc_box_open(tlc_box *b, int from, tlc_tag tag);

/* Takes what came. *moved becomes 1 if anything did. TLC_ERR_NOMEM: for the message; a later call tries again. */
tlc_status tlc_box_poll(tlc_mail *m, tlc_box *b, int *moved);

/* The end without a wait. 0: MPI may still use the memory of a message. Of a mail that failed, what is under way is
 * cancelled. */
int tlc_mail_let_go(const tlc_mail *m, tlc_sends *sends);
int tlc_box_let_go(tlc_box *b);

static inline tlc_message tlc_box_message(const tlc_box *b)
{
    return (tlc_message){b->bytes, b->len};
}
#endif
