/* SPDX-License-Identifier: MIT
 *
 * Promise E1: all that can be seen of an object, but for what `_outcome` tells. A call that fails must not change it.
 */
#ifndef TLC_TEST_EXCHANGE_VIEW_H
#define TLC_TEST_EXCHANGE_VIEW_H

#include "exchange_run.h"

/* An object of a fleet, and how it looked. */
typedef struct watch {
    fleet *f;
    member m;
    uint32_t index; /* of the worker, or of the server */
    uint8_t *seen;
    size_t len, room;
} watch;

void watch_open(watch *w, fleet *f, member m, uint32_t index);
void watch_close(watch *w);
void watch_again(watch *w); /* after a call that succeeded */
void require_unchanged(watch *w);

/* A call that must fail with `want` and change nothing. */
#define REFUSED(watch, call, want)                                                                                     \
    do {                                                                                                               \
        require_status_is(#call, call, want, __FILE__, __LINE__);                                                      \
        require_unchanged(watch);                                                                                      \
    } while (0)

#endif
