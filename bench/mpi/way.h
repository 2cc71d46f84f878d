/* SPDX-License-Identifier: MIT
 *
 * Ways to exchange gradients: a codec in a kind of exchange, or floats without this library. Ways of a method are made
 * by the functions of its way_method; each method is one file. All calls are collective.
 */
#ifndef MPI_WAY_H
#define MPI_WAY_H

#include "../lib/shapes.h"
#include "mpi_options.h"

typedef struct way_method way_method;

/* What is exchanged, and by whom. Ranks 0 .. workers - 1 are workers. */
typedef struct way_options {
    const way_method *method;
    const char *name;  /* without a codec: of the kind; NULL: kind gives it */
    const char *codec; /* NULL: none */
    sim_kind kind;
    size_t handles; /* as in mpi_options */
    size_t workers;
    size_t servers; /* the last of all ranks; 0: each rank has a part */
    const mpi_options *all;
    const shape_list *model;
    source *from; /* gradients are made of it; those that are drawn get residuals (warm.h) */
} way_options;

/* Of this rank, since the way was opened. */
typedef struct way_cost {
    double sent, messages;
    double codec;   /* seconds in calls of the library, or for sums and conversions; NAN: not known */
    double waiting; /* seconds in which the rank had nothing to do; NAN: not known */
} way_cost;

struct way_method {
    /* NULL: it failed, and why says so, on all ranks. The options must outlive the way. */
    void *(*open)(const way_options *o, char *why);
    void (*close)(void *way);
    /* Takes the gradient of the next step: all tensors at their offsets. It is valid until the step has ended. */
    void (*take)(void *way, const float *grads);
    bool (*step)(void *way, char *why);
    /* The result: all tensors at their offsets. NULL: this rank has none, or each rank has its own. */
    const float *(*result)(void *way);
    /* After a step: what else can be compared among ranks; NULL: nothing. */
    bool (*check)(void *way, char *why);
    way_cost (*cost)(const void *way);
    /* The error of a result is at most this times the mean of magnitudes, plus `least`; 0: there is no bound. */
    double (*error)(const way_options *o, double *least);
};

extern const way_method way_of_codec, way_of_floats, way_of_halves, way_of_push_pull;

static inline bool way_is_worker(const way_options *o, size_t rank)
{
    return rank < o->workers;
}
#endif
