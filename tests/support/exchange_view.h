/* SPDX-License-Identifier: MIT
 *
 * Promise E1: all that can be seen of an object, but for what `_outcome` tells. A call that fails must not change it.
 * And the calls that take a message.
 */
#ifndef TLC_TEST_EXCHANGE_VIEW_H
#define TLC_TEST_EXCHANGE_VIEW_H

#include "exchange_run.h"

/* An object of a fleet, and how it looked. */
typedef struct watch {
    fleet *f;
    member m;
    uint32_t index; /* of the worker, or of the server */
    growing seen;
} watch;

void watch_open(watch *w, fleet *f, member m, uint32_t index);
void watch_close(watch *w);
void watch_again(watch *w); /* after a call that succeeded */
void require_unchanged(watch *w);

/* A call that must fail with `want` and change nothing. It is repeated, so that the outcome is its own, and not that of
 * a question that the look has asked. */
#define REFUSED(watch, call, want)                                                                                     \
    do {                                                                                                               \
        require_status_is(#call, call, want, __FILE__, __LINE__);                                                      \
        require_unchanged(watch);                                                                                      \
        require_status_is(#call, call, want, __FILE__, __LINE__);                                                      \
    } while (0)

/* A call that takes a message, with all else as it should be. */
enum { MOST_SENDERS = 3 };
typedef struct call {
    watch w;
    tlc_message from[MOST_SENDERS]; /* of a pull */
    size_t turn;                    /* which of them */
    tlc_status (*take)(struct call *c, tlc_message message);
} call;

/* For `take`: tlc_server_push; the pull of a rank or worker, into the results of the fleet; state_load. */
tlc_status take_push(call *c, tlc_message message);
tlc_status take_answer(call *c, tlc_message message);
tlc_status take_state(call *c, tlc_message message);

#endif
