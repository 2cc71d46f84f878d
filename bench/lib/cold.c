/* SPDX-License-Identifier: MIT */
#include "cold.h"
#include "channel.h"
#include <stdlib.h>
#include <time.h>

/* TIMES: of the data; more is not needed to have it out of the caches. */
enum { DEFAULT_CACHE = 32 << 20, TIMES = 64, LINE = 64 };

bool cold_open(cold *c, size_t data, size_t cache)
{
    c->size = 2 * (cache ? cache : DEFAULT_CACHE);
    if (c->size / TIMES > data)
        c->size = data * TIMES;
    c->bytes = channel_buffer(c->size);
    return c->bytes;
}

void cold_close(cold *c)
{
    free(c->bytes);
}

static double thread_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double cold_start(const cold *c)
{
    for (size_t i = 0; i < c->size; i += LINE)
        (void)*(volatile unsigned char *)&c->bytes[i];
    return thread_seconds();
}

double cold_stop(double start)
{
    return thread_seconds() - start;
}
