/* SPDX-License-Identifier: MIT
 *
 * MPI_Allreduce of all gradients in one call, as floats or as halves. MPI chooses the algorithm. It does not say what
 * it sends, so the bytes are those of a ring, which are the least that are possible.
 */
#include "../lib/channel.h"
#include "../lib/explain.h"
#include "../lib/measure.h"
#include "flat.h"
#include "halves.h"
#include "ranks.h"
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

typedef struct allreduce_way {
    flat flat;
    uint16_t *halves, *sum; /* n of them; NULL: floats */
    MPI_Op add;
    size_t steps;
} allreduce_way;

/* MPI gives an operation no argument of the caller. */
static struct {
    bool f16c;
    double seconds; /* in operations, since the start */
} addition;

static void add_halves(void *in, void *sum, int *count, MPI_Datatype *type)
{
    double start = measure_now();

    (void)type;
    halves_add(in, sum, (size_t)*count, addition.f16c);
    addition.seconds += measure_now() - start;
}

static void close_way(void *way)
{
    allreduce_way *w = way;

    if (w->sum)
        MPI_Op_free(&w->add);
    free(w->halves);
    free(w->sum);
    flat_close(&w->flat);
    free(w);
}

static bool open_halves(allreduce_way *w, char *why)
{
    size_t size = w->flat.n * sizeof *w->halves;
    bool ok;

    w->halves = channel_buffer(size);
    w->sum = channel_buffer(size);
    ok = ranks_agree((w->halves && w->sum) || explain(why, "out of memory"), why);
    if (ok) {
        addition.f16c = w->flat.o->all->isa != TLC_ISA_SCALAR && halves_have_f16c();
        MPI_Op_create(add_halves, 1, &w->add);
    } else {
        free(w->sum);
        w->sum = NULL;
    }
    return ok;
}

static void *open_way(const way_options *o, bool halves, char *why)
{
    allreduce_way *w = calloc(1, sizeof *w);

    if (!ranks_agree(w || explain(why, "out of memory"), why)) {
        free(w);
        return NULL;
    }
    if (flat_open(&w->flat, o, why) && (!halves || open_halves(w, why)))
        return w;
    close_way(w);
    return NULL;
}

static void *open_floats(const way_options *o, char *why)
{
    return open_way(o, false, why);
}

static void *open_of_halves(const way_options *o, char *why)
{
    return open_way(o, true, why);
}

static void take(void *way, const float *grads)
{
    flat_take(&((allreduce_way *)way)->flat, grads);
}

static void scale(flat *f)
{
    float factor = 1 / (float)f->o->workers;

    for (size_t i = 0; i < f->n; i++)
        f->mean[i] *= factor;
}

static bool step_floats(void *way, char *why)
{
    allreduce_way *w = way;
    flat *f = &w->flat;

    flat_compute(f);
    w->steps++;
    if (MPI_Allreduce(f->grads, f->mean, (int)f->n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))
        return explain(why, "MPI_Allreduce failed");
    scale(f);
    return true;
}

static bool step_halves(void *way, char *why)
{
    allreduce_way *w = way;
    flat *f = &w->flat;
    double before = addition.seconds, start, end;

    flat_compute(f);
    w->steps++;
    start = measure_now();
    halves_narrow(f->grads, f->n, w->halves, addition.f16c);
    f->codec += measure_now() - start;
    if (MPI_Allreduce(w->halves, w->sum, (int)f->n, MPI_UINT16_T, w->add, MPI_COMM_WORLD))
        return explain(why, "MPI_Allreduce failed");
    end = measure_now();
    halves_widen(w->sum, f->n, f->mean, addition.f16c);
    scale(f);
    f->codec += measure_now() - end + addition.seconds - before;
    return true;
}

static const float *result(void *way)
{
    return flat_result(&((allreduce_way *)way)->flat);
}

static way_cost cost(const void *way)
{
    const allreduce_way *w = way;
    double ranks = (double)ranks_count(), size = w->sum ? sizeof *w->sum : sizeof *w->flat.mean;

    return (way_cost){.sent = 2 * (ranks - 1) / ranks * (double)w->flat.n * size * (double)w->steps,
                      .messages = NAN,
                      .codec = w->sum ? w->flat.codec : NAN,
                      .waiting = NAN};
}

static double error_of_floats(const way_options *o, double *least)
{
    *least = 0;
    return ((double)o->workers + 2) * 0x1p-24;
}

/* Below 2^-14 halves have steps of 2^-24. */
static double error_of_halves(const way_options *o, double *least)
{
    *least = 0x1p-24;
    return ((double)o->workers + 2) * 0x1p-11;
}

const way_method way_of_floats = {.open = open_floats,
                                  .close = close_way,
                                  .take = take,
                                  .step = step_floats,
                                  .result = result,
                                  .cost = cost,
                                  .error = error_of_floats};
const way_method way_of_halves = {.open = open_of_halves,
                                  .close = close_way,
                                  .take = take,
                                  .step = step_halves,
                                  .result = result,
                                  .cost = cost,
                                  .error = error_of_halves};
