/* SPDX-License-Identifier: MIT
 *
 * Owners and servers whose model stays what it is.
 */
#ifndef TLC_TEST_STILL_H
#define TLC_TEST_STILL_H

#include <string.h>
#include <threelc/exchange.h>

static inline tlc_status keep_still(void *arg, const tlc_allreduce *a, float *const *delta)
{
    tlc_part part = {.struct_size = sizeof part};

    (void)arg;
    for (size_t i = 0; !tlc_allreduce_part(a, i, &part); i++)
        memset(delta[i], 0, part.n * sizeof *delta[i]);
    return TLC_OK;
}

static inline tlc_status keep_model(void *arg, const tlc_server *server, float *const *delta)
{
    tlc_part part = {.struct_size = sizeof part};

    (void)arg;
    for (size_t i = 0; !tlc_server_part(server, i, &part); i++)
        memset(delta[i], 0, part.n * sizeof *delta[i]);
    return TLC_OK;
}
#endif
