/* SPDX-License-Identifier: MIT
 *
 * The kinds of exchanges, messages and machines, and what they are called.
 */
#ifndef TLC_KINDS_H
#define TLC_KINDS_H

#include "../../common/float_rules.h"

/* Which algorithm messages belong to. The numbers are part of the layout of messages and states. */
typedef enum tlc_exchange_kind {
    TLC_EXCHANGE_ALLREDUCE = 1,
    TLC_EXCHANGE_GATHER = 2, /* all-reduce with gather */
    TLC_EXCHANGE_SERVERS = 3,
    TLC_EXCHANGE_DCD = 4, /* gossip */
    TLC_EXCHANGE_ECD = 5
} tlc_exchange_kind;

/* "an all-reduce", "gossip" ... */
const char *tlc_kind_words(tlc_exchange_kind kind);

static inline int tlc_is_gossip(tlc_exchange_kind kind)
{
    return kind == TLC_EXCHANGE_DCD || kind == TLC_EXCHANGE_ECD;
}

/* What a message is for. The numbers are part of the layout of messages, too. */
typedef enum tlc_phase { TLC_PHASE_PUSH = 1, TLC_PHASE_ANSWER = 2, TLC_PHASE_HELLO = 3 } tlc_phase;

/* How a rank is called. */
typedef enum tlc_role { TLC_ROLE_RANK = 0, TLC_ROLE_WORKER = 1, TLC_ROLE_SERVER = 2, TLC_ROLE_NODE = 3 } tlc_role;

/* "rank", "worker", "server", "node" */
const char *tlc_role_word(tlc_role role);
#endif
