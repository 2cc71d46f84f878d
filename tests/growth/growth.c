/* SPDX-License-Identifier: MIT */
#include "growth.h"
#include <math.h>
#include <time.h>

enum { SIZES = 3, MOST = 32, TRIES = 6 };
static const double MOST_TIMES = 8;
static const double UNMEASURED = 2e-3; /* s: below it the clock and the caches count for more than what grows */

/* What a call took with n, 2 n and 4 n: the least of all tries, as others use the machine, too. */
typedef struct call {
    const char *name;
    double now, least[SIZES];
    int is_time;
} call;

static call calls[MOST];
static size_t count, allocated;
static double began;

static double now(void)
{
    struct timespec t;

    require(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static call *find(const char *name, int is_time)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(calls[i].name, name) == 0)
            return &calls[i];
    require(count < MOST);
    calls[count] = (call){name, 0, {INFINITY, INFINITY, INFINITY}, is_time};
    return &calls[count++];
}

void measure_begin(void)
{
    began = now();
}

void measure_end(const char *name)
{
    find(name, 1)->now += now() - began;
}

static void *counting_alloc(void *opaque, size_t size)
{
    (void)opaque;
    allocated += size;
    return malloc(size);
}

static void plain_free(void *opaque, void *p)
{
    (void)opaque;
    free(p);
}

const tlc_allocator counting_allocator = {counting_alloc, plain_free, NULL};

void measure_bytes(const char *name)
{
    find(name, 0)->now += (double)allocated;
    allocated = 0;
}

static int grows_too_much(const call *c)
{
    return c->least[2] > MOST_TIMES * c->least[0] && (!c->is_time || c->least[2] > UNMEASURED);
}

void require_linear(const char *what, scene *run, size_t n)
{
    int again = 1;

    count = allocated = 0;
    for (int t = 0; t < TRIES && again; t++) {
        for (int i = 0; i < SIZES; i++) {
            run(n << i);
            for (size_t k = 0; k < count; k++) {
                calls[k].least[i] = fmin(calls[k].least[i], calls[k].now);
                calls[k].now = 0;
            }
        }
        again = 0;
        for (size_t k = 0; k < count; k++)
            again |= grows_too_much(&calls[k]);
    }
    for (size_t k = 0; k < count; k++) {
        const call *c = &calls[k];
        const double unit = c->is_time ? 1e-3 : 1e6;
        const char *word = c->is_time ? "ms" : "MB";
        print_message("# %s, %zu to %zu: %s: %.2f to %.2f %s, exponent %.2f\n", what, n, 4 * n, c->name,
                      c->least[0] / unit, c->least[2] / unit, word, log2(c->least[2] / c->least[0]) / 2);
    }
    for (size_t k = 0; k < count; k++) {
        set_note(calls[k].name);
        require(!grows_too_much(&calls[k]));
    }
}
