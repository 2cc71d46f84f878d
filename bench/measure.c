/* SPDX-License-Identifier: MIT
 *
 * The unit of measuring is a pass: one operation over all steps of all channels. A pass that is too short for the clock
 * is repeated.
 */
#include "measure.h"
#include "explain.h"
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIN_ROUNDS 5
#define MAX_ROUNDS 100000
/* clock_gettime takes some 25 ns: less than a thousandth of this. */
#define MIN_SECONDS 50e-6

typedef struct job {
    const channel *channels;
    size_t count, steps;
    tlc_dtype dtype;
    const frame_store *frames;
    tlc_decode_options decode;
    size_t repeat[OPS];  /* passes timed as one */
    double *seconds[OPS]; /* of a pass, for each round */
    size_t rounds, slots;
} job;

void measure_pin(void)
{
#ifdef __linux__
    cpu_set_t set;
    int core = sched_getcpu();

    if (core < 0 || core >= CPU_SETSIZE)
        return;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    (void)sched_setaffinity(0, sizeof set, &set); /* not allowed: then the scheduler may move us */
#endif
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static tlc_status pass_memcpy(const job *j)
{
    for (size_t step = 0; step < j->steps; step++) {
        for (size_t i = 0; i < j->count; i++) {
            const channel *c = &j->channels[i];
            memcpy(c->out, tensor_step(c->tensor, step), c->tensor->n * dtype_size(j->dtype));
            __asm__ volatile("" ::"r"(c->out) : "memory"); /* the copy is used */
        }
    }
    return TLC_OK;
}

static tlc_status pass_compress(const job *j)
{
    tlc_status status = TLC_OK;
    size_t len;

    for (size_t step = 0; !status && step < j->steps; step++) {
        for (size_t i = 0; !status && i < j->count; i++) {
            const channel *c = &j->channels[i];
            status = tlc_compress(c->ctx, tensor_step(c->tensor, step), c->frame, c->bound, &len);
        }
    }
    return status;
}

static tlc_status pass_decompress(const job *j)
{
    tlc_status status = TLC_OK;

    for (size_t k = 0; !status && k < j->frames->count; k++) {
        const channel *c = &j->channels[k % j->count];
        status = tlc_decompress(j->frames->bytes + j->frames->offset[k], j->frames->len[k], j->dtype, c->out,
                                c->tensor->n, &j->decode);
    }
    return status;
}

static tlc_status pass_add(const job *j)
{
    tlc_status status = TLC_OK;

    for (size_t k = 0; !status && k < j->frames->count; k++) {
        const channel *c = &j->channels[k % j->count];
        status = tlc_decompress_add(j->frames->bytes + j->frames->offset[k], j->frames->len[k], 1.0f, c->sum,
                                    c->tensor->n, &j->decode);
    }
    return status;
}

static tlc_status (*const pass[OPS])(const job *) = {
    [OP_MEMCPY] = pass_memcpy,
    [OP_COMPRESS] = pass_compress,
    [OP_DECOMPRESS] = pass_decompress,
    [OP_ADD] = pass_add,
};

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static tlc_status warm_up(job *j, size_t warmup)
{
    size_t passes = warmup > j->steps ? (warmup - 1) / j->steps + 1 : 1;
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < passes; i++)
        status = pass[OP_COMPRESS](j);
    for (int op = 0; !status && op < OPS; op++)
        status = pass[op](j);
    for (int op = 0; !status && op < OPS; op++) {
        double start = now();
        status = pass[op](j);
        double seconds = now() - start;
        j->repeat[op] = seconds >= MIN_SECONDS ? 1 : (size_t)ceil(MIN_SECONDS / fmax(seconds, 1e-9));
    }
    return status;
}

static bool grow(job *j)
{
    j->slots = j->slots ? j->slots * 2 : 64;
    for (int op = 0; op < OPS; op++) {
        double *seconds = realloc(j->seconds[op], j->slots * sizeof *seconds);
        if (!seconds)
            return false;
        j->seconds[op] = seconds;
    }
    return true;
}

static tlc_status run_rounds(job *j, double seconds)
{
    double end = now() + seconds;
    tlc_status status = TLC_OK;

    do {
        if (j->rounds == j->slots && !grow(j))
            return TLC_ERR_NOMEM;
        for (int op = 0; op < OPS; op++) {
            double start = now();
            for (size_t i = 0; !status && i < j->repeat[op]; i++)
                status = pass[op](j);
            j->seconds[op][j->rounds] = (now() - start) / (double)j->repeat[op];
        }
        j->rounds++;
    } while (!status && (j->rounds < MIN_ROUNDS || (now() < end && j->rounds < MAX_ROUNDS)));
    return status;
}

/* ---- statistics -------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static speed summarise(double *seconds, size_t rounds, double gigabytes)
{
    double middle;

    qsort(seconds, rounds, sizeof *seconds, compare);
    middle = (seconds[(rounds - 1) / 2] + seconds[rounds / 2]) / 2;
    return gigabytes > 0 ? (speed){.median = gigabytes / middle, .best = gigabytes / seconds[0]} : (speed){NAN, NAN};
}

bool measure(const channel *channels, size_t count, tlc_dtype dtype, tlc_isa isa, const frame_store *frames,
             const measure_options *options, measured *result, char *why)
{
    job j = {
        .channels = channels, .count = count, .steps = channels[0].tensor->steps, .dtype = dtype, .frames = frames,
        .decode = {.struct_size = sizeof j.decode, .isa = isa},
    };
    double bytes = 0;
    tlc_status status = warm_up(&j, options->warmup);

    for (size_t i = 0; i < count; i++)
        bytes += (double)channels[i].tensor->n * (double)dtype_size(dtype) * (double)j.steps;
    if (!status)
        status = run_rounds(&j, options->seconds);
    result->rounds = j.rounds;
    for (int op = 0; op < OPS; op++) {
        if (!status)
            result->speed[op] = summarise(j.seconds[op], j.rounds, bytes * 1e-9);
        free(j.seconds[op]);
    }
    return !status || explain(why, "while measuring: %s", tlc_status_string(status));
}
