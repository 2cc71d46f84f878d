/* SPDX-License-Identifier: MIT */
#include "kinds.h"

const char *tlc_kind_words(tlc_exchange_kind kind)
{
    switch (kind) {
    case TLC_EXCHANGE_ALLREDUCE: return "an all-reduce";
    case TLC_EXCHANGE_GATHER: return "an all-reduce with gather";
    case TLC_EXCHANGE_SERVERS: return "an exchange with servers";
    case TLC_EXCHANGE_DCD: return "gossip (DCD)";
    default: return "gossip (ECD)";
    }
}

const char *tlc_role_word(tlc_role role)
{
    static const char *const words[] = {
        [TLC_ROLE_RANK] = "rank", [TLC_ROLE_WORKER] = "worker", [TLC_ROLE_SERVER] = "server", [TLC_ROLE_NODE] = "node"};

    return words[role];
}
