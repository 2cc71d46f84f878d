/* SPDX-License-Identifier: MIT
 *
 * An object of threelc/exchange.h: what ranks, workers and servers have in common, what they tell, and their bytes.
 */
#ifndef TLC_TEST_EXCHANGE_MEMBER_H
#define TLC_TEST_EXCHANGE_MEMBER_H

#include "support.h"
#include <threelc/exchange.h>

/* An object of the exchange: one of these. */
typedef struct member {
    tlc_allreduce *rank;
    tlc_worker *worker;
    tlc_server *server;
} member;

/* tlc_allreduce_FUNCTION(m.rank, ...), or that of a worker, or that of a server */
#define MEMBER(m, function, ...)                                                                                       \
    ((m).rank     ? tlc_allreduce_##function((m).rank, __VA_ARGS__)                                                    \
     : (m).worker ? tlc_worker_##function((m).worker, __VA_ARGS__)                                                     \
                  : tlc_server_##function((m).server, __VA_ARGS__))

void member_destroy(member m);
uint64_t member_step(member m);
uint64_t member_history(member m);
size_t member_state_size(member m);
tlc_message member_save(member m); /* its state; blob_free() it */
tlc_status member_load(member m, tlc_message state);
void require_state(member m, tlc_message state); /* it is that of the object */
void require_same_states(member a, member b);
tlc_exchange_stats member_stats(member m);
tlc_outcome member_outcome(member m, uint32_t server); /* server: of a worker, else 0 */
size_t member_parts(member m);                         /* 0 for a worker */
tlc_part member_part(member m, size_t i);

/* The same calls with any arguments, for what they refuse. */
tlc_status member_ask_outcome(member m, uint32_t server, tlc_outcome *o);
tlc_status member_ask_part(member m, size_t i, tlc_part *part);
tlc_status member_set_codec(member m, size_t tensor, const char *codec); /* of a rank: of pushes and answers */
/* Of a rank or a worker. */
tlc_status member_push(member m, const void *const *grads, double weight, tlc_message *to);
tlc_status member_pull(member m, const tlc_message *from, void *const *out);
tlc_status member_mask(member m, float *const *momentum);

tlc_message blob_copy(tlc_message m);
void blob_free(tlc_message *m);

int blob_same(tlc_message a, tlc_message b);
/* Writes the checksum of a message or state that was changed, if it is long enough to have one. */
void blob_seal(void *bytes, size_t len);
/* Loads its own state, as if it were of another step. */
void member_move(member m, uint64_t step);

/* ---- what is told ------------------------------------------------------------------------------------------------ */

void require_outcome_form(const tlc_outcome *o); /* its sentence is printable text */
/* All words, with '|' between them, are in the text that a call has left. */
void require_words(const char *text, const char *words, const char *call);
/* And the outcome has this status, which is its cause, too. */
void require_sentence(const tlc_outcome *o, tlc_status status, const char *words, const char *call);

/* ---- bytes that grow --------------------------------------------------------------------------------------------- */

typedef struct growing {
    uint8_t *p;
    size_t len, room;
} growing;
void add_bytes(growing *g, const void *p, size_t len);
void add_number(growing *g, uint64_t number);

#endif
