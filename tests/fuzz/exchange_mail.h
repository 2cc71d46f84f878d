/* SPDX-License-Identifier: MIT
 *
 * The messages between the objects of exchange.c or gossip.c: those of the current step, and some old ones. The input
 * may alter them.
 */
#ifndef TLC_FUZZ_EXCHANGE_MAIL_H
#define TLC_FUZZ_EXCHANGE_MAIL_H

#include "exchange_party.h"

/* Where messages lie: pushes by sender and receiver, then answers by sender. gossip_calls.h has its own places. */
enum { ANSWERS = MOST_RANKS * MOST_RANKS, SLOTS = ANSWERS + MOST_RANKS, OLD = 16 };

static inline size_t push_slot(uint32_t from, uint32_t to)
{
    return from * MOST_RANKS + to;
}

static inline size_t answer_slot(uint32_t from)
{
    return ANSWERS + from;
}

/* A message, or a state, in a buffer of exactly its size. */
typedef struct letter {
    uint8_t *bytes;
    size_t len;
    int genuine; /* as an object made it */
    /* when it was made */
    size_t slot;
    uint64_t step;
} letter;

void letter_write(letter *l, tlc_message message, size_t slot, uint64_t step);
void letter_copy(letter *to, const letter *from);
void letter_free(letter *l);

/* Replaces some bytes by others, as the input says. It may make the checksum right again. */
void letter_splice(letter *l, fuzz_input *in);

/* Replaces all but some of the first bytes by others of the input. It may make the checksum right. */
void letter_forge(letter *l, fuzz_input *in);

/* Is the checksum right? */
int letter_sealed(const letter *l);
void letter_seal(letter *l); /* makes it right */

static inline tlc_message letter_message(const letter *l)
{
    return (tlc_message){l->bytes, l->len};
}

typedef struct mail {
    letter slot[SLOTS], honest[SLOTS]; /* what is delivered, and what was made */
    letter old[OLD];
    size_t count; /* of all that were made */
    int gather;   /* pushes are for all */
} mail;

/* A message was made. */
void mail_post(mail *m, size_t slot, tlc_message message, uint64_t step);

/* A message was fetched again: the same as the last one for this step, if that is still known. */
void mail_fetched(mail *m, size_t slot, tlc_message message, uint64_t step);

/* Accidents, to the letters that the input names. */
typedef void mail_accident(mail *m, fuzz_input *in);
mail_accident mail_splice, mail_splice_frame, mail_forge, mail_swap, mail_bring_old;

/* One of them as an operation of a program, which has a run with mail, and its input. */
#define ACCIDENT(name)                                                                                                 \
    static void name(program *p)                                                                                       \
    {                                                                                                                  \
        mail_##name(&p->run.mail, &p->in);                                                                             \
    }

/* Puts back what was made. */
void mail_mend(mail *m);
void mail_free(mail *m);

/* Must whoever waits for this message in this step refuse what lies there? Not known of altered messages whose checksum
 * is right. */
int mail_wrong(const mail *m, size_t slot, uint64_t step);

/* Was the message for this step made, whatever lies there now? */
int mail_has(const mail *m, size_t slot, uint64_t step);
#endif
