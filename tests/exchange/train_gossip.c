/* SPDX-License-Identifier: MIT */
#include "train_gossip.h"
#include <math.h>

const char *const gossip_names[GOSSIP_WAYS] = {"D-PSGD", "naive", "DCD", "ECD", "ECD, here"};

typedef struct node {
    uint32_t neighbours[MOST_RANKS];
    double weights[MOST_RANKS]; /* its own last */
    size_t degree;
    tlc_gossip *gossip; /* of DCD and ECD */
    tlc_ctx *ctx;       /* of the other ways with a codec */
    rng chance;         /* of those without one */
    float model[MOST_VALUES];
    float known[MOST_VALUES]; /* to the neighbours, not of DCD and ECD; of ECD_HERE the estimate */
    float moved[MOST_VALUES];
} node;

typedef struct nodes {
    const data *d;
    const gossip_options *o;
    node of[MOST_RANKS];
    gossiped now;
} nodes;

static int is_library(const gossip_options *o)
{
    return o->way == GOSSIP_DCD || o->way == GOSSIP_ECD;
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static void join_graph(node *x, size_t i, size_t count, const gossip_options *o)
{
    const tlc_graph graph = {.struct_size = sizeof graph, .kind = o->graph, .nodes = (uint32_t)count};

    require_status(tlc_graph_neighbours(&graph, (uint32_t)i, x->neighbours, x->weights, MOST_RANKS - 1, &x->degree),
                   TLC_OK);
    for (size_t j = 0; j <= x->degree; j++)
        x->weights[j] *= 1 - o->lazy;
    x->weights[x->degree] += o->lazy;
}

/* sum = W * column: W_ij = weights[j] of node i. */
static void times_weights(const node *of, size_t count, const double *column, double *sum)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] = of[i].weights[of[i].degree] * column[i];
        for (size_t j = 0; j < of[i].degree; j++)
            sum[i] += of[i].weights[j] * column[of[i].neighbours[j]];
    }
}

/* As (1 - k) / (1 + k) = (1 - k) (1 - k + k^2 - ...), the mean over k is an entry on the diagonal of a series of
 * matrices. Each turn multiplies a column by -W. */
double gossip_growth(size_t count, const gossip_options *o, double noise)
{
    node *of = calloc(count, sizeof *of);
    double column[MOST_RANKS] = {1}, sum[MOST_RANKS], mean = 0;

    require(of != NULL && count <= MOST_RANKS);
    for (size_t i = 0; i < count; i++)
        join_graph(&of[i], i, count, o);
    times_weights(of, count, column, sum);
    for (size_t i = 0; i < count; i++)
        column[i] -= sum[i];
    for (int turn = 0; turn < 1000; turn++) {
        mean += column[0];
        times_weights(of, count, column, sum);
        for (size_t i = 0; i < count; i++)
            column[i] = -sum[i];
    }
    free(of);
    return noise * mean;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void open_gossip(const nodes *run, size_t i, node *x)
{
    const model *m = run->d->m;
    tlc_tensor tensors[MOST_TENSORS];
    const float *start[MOST_TENSORS];
    tlc_exchange_config cfg;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = (uint32_t)run->d->ranks;
    cfg.push = run->o->codec;
    cfg.seed = 1;
    for (size_t t = 0; t < m->count; t++) {
        tensors[t] = (tlc_tensor){.struct_size = sizeof *tensors,
                                  .name = m->tensors[t].name,
                                  .n = m->tensors[t].n,
                                  .only = TLC_NOBODY};
        start[t] = x->model + m->tensors[t].first;
    }
    require_status(tlc_gossip_create(&x->gossip, &cfg, run->o->way == GOSSIP_DCD ? TLC_GOSSIP_DCD : TLC_GOSSIP_ECD,
                                     (uint32_t)i, x->neighbours, x->weights, x->degree, tensors, m->count, start),
                   TLC_OK);
}

/* The messages of the neighbours of a node. */
static const tlc_message *from_neighbours(const node *x, const tlc_message *all, tlc_message *from)
{
    for (size_t j = 0; j < x->degree; j++)
        from[j] = all[x->neighbours[j]];
    return from;
}

static void greet_all(nodes *run)
{
    tlc_message hello[MOST_RANKS], from[MOST_RANKS];

    for (size_t i = 0; i < run->d->ranks; i++)
        require_status(tlc_gossip_hello(run->of[i].gossip, 0, &hello[i]), TLC_OK);
    for (size_t i = 0; i < run->d->ranks; i++)
        require_status(tlc_gossip_greet(run->of[i].gossip, from_neighbours(&run->of[i], hello, from)), TLC_OK);
}

static nodes *open_nodes(const data *d, const gossip_options *o)
{
    nodes *run = calloc(1, sizeof *run);

    require(run != NULL && d->ranks <= MOST_RANKS);
    run->d = d;
    run->o = o;
    for (size_t i = 0; i < d->ranks; i++) {
        node *x = &run->of[i];
        join_graph(x, i, d->ranks, o);
        model_start(d->m, x->model);
        model_start(d->m, x->known);
        x->chance.state = i;
        if (is_library(o)) {
            open_gossip(run, i, x);
        } else if (o->codec) {
            tlc_config cfg = config(o->codec, TLC_F32, TLC_ISA_AUTO);
            cfg.seed = i + 1;
            x->ctx = create(&cfg, d->m->tensors[0].n);
        }
    }
    if (is_library(o))
        greet_all(run);
    return run;
}

static void close_nodes(nodes *run)
{
    for (size_t i = 0; i < run->d->ranks; i++) {
        tlc_gossip_destroy(run->of[i].gossip);
        tlc_destroy(run->of[i].ctx);
    }
    free(run);
}

/* ---- a step with the library ------------------------------------------------------------------------------------- */

static void take_means(const nodes *run, node *x)
{
    const model *m = run->d->m;

    for (size_t t = 0; t < m->count; t++)
        memcpy(x->moved + m->tensors[t].first, tlc_gossip_mean(x->gossip, t), m->tensors[t].n * sizeof(float));
}

static void take_model(const nodes *run, node *x)
{
    const model *m = run->d->m;

    for (size_t t = 0; t < m->count; t++)
        memcpy(x->model + m->tensors[t].first, tlc_gossip_model(x->gossip, t), m->tensors[t].n * sizeof(float));
}

static void exchange_moved(nodes *run)
{
    const model *m = run->d->m;
    tlc_message pushed[MOST_RANKS], from[MOST_RANKS];
    const float *moved[MOST_TENSORS];

    for (size_t i = 0; i < run->d->ranks; i++) {
        for (size_t t = 0; t < m->count; t++)
            moved[t] = run->of[i].moved + m->tensors[t].first;
        require_status(tlc_gossip_push(run->of[i].gossip, moved, &pushed[i]), TLC_OK);
    }
    for (size_t i = 0; i < run->d->ranks; i++) {
        require_status(tlc_gossip_pull(run->of[i].gossip, from_neighbours(&run->of[i], pushed, from)), TLC_OK);
        take_model(run, &run->of[i]);
    }
}

/* ---- a step without it ------------------------------------------------------------------------------------------- */

/* to = C(x). As in the library, small tensors stay as they are: those after the first one. */
static void quantize(nodes *run, node *of, const float *values, float *to)
{
    const model *m = run->d->m;
    uint8_t frame[4096];

    for (size_t i = 0; i < m->tensors[0].n; i++)
        if (fabs((double)values[i]) > run->now.largest)
            run->now.largest = fabs((double)values[i]);
    memcpy(to, values, m->values * sizeof *to);
    if (of->ctx) {
        require(tlc_bound(of->ctx) <= sizeof frame);
        size_t len = compress(of->ctx, values, frame);
        require_status(tlc_decompress(frame, len, TLC_F32, to, m->tensors[0].n, NULL), TLC_OK);
    }
    for (size_t i = 0; !of->ctx && i < m->tensors[0].n; i++)
        to[i] = (float)(run->o->spacing * floor(values[i] / run->o->spacing + rng_double(&of->chance)));
}

static void mean_of_known(const nodes *run, node *x)
{
    for (size_t v = 0; v < run->d->m->values; v++)
        x->moved[v] = (float)x->weights[x->degree] * x->known[v];
    for (size_t j = 0; j < x->degree; j++) {
        const float *known = run->of[x->neighbours[j]].known, weight = (float)x->weights[j];
        for (size_t v = 0; v < run->d->m->values; v++)
            x->moved[v] += weight * known[v];
    }
}

/* Before means are taken. */
static void show(nodes *run, node *x)
{
    if (run->o->way == GOSSIP_NAIVE)
        quantize(run, x, x->model, x->known);
    else if (run->o->way == GOSSIP_FLOATS)
        memcpy(x->known, x->model, run->d->m->values * sizeof *x->known);
}

/* Equations 3 and 4 of the paper. */
static void extrapolate(nodes *run, node *x, size_t step)
{
    const double t = (double)step + 1;
    float z[MOST_VALUES], sent[MOST_VALUES];

    for (size_t v = 0; v < run->d->m->values; v++)
        z[v] = (float)((1 - t / 2) * x->model[v] + t / 2 * x->moved[v]);
    quantize(run, x, z, sent);
    for (size_t v = 0; v < run->d->m->values; v++)
        x->known[v] = (float)((1 - 2 / t) * x->known[v] + 2 / t * sent[v]);
}

/* The root of the mean square of estimates - models. */
static double error_of_estimates(const nodes *run)
{
    const size_t count = run->d->ranks, values = run->d->m->values;
    double squares = 0;

    for (size_t i = 0; i < count; i++)
        for (size_t v = 0; v < values; v++) {
            double error = (double)run->of[i].known[v] - run->of[i].model[v];
            squares += error * error;
        }
    return sqrt(squares / (double)(count * values));
}

static void move_all(nodes *run, size_t step)
{
    for (size_t i = 0; i < run->d->ranks; i++) {
        node *x = &run->of[i];
        if (run->o->way == GOSSIP_ECD_HERE)
            extrapolate(run, x, step);
        memcpy(x->model, x->moved, run->d->m->values * sizeof *x->model);
    }
    for (size_t k = 0, after = 10; k < DECADES && run->o->way == GOSSIP_ECD_HERE; k++, after *= 10)
        if (step == after)
            run->now.error[k] = error_of_estimates(run);
}

/* ---- a training -------------------------------------------------------------------------------------------------- */

/* step: from 1. */
static void take_step(nodes *run, size_t step, size_t batch, float rate)
{
    float gradient[MOST_VALUES];

    for (size_t i = 0; i < run->d->ranks && !is_library(run->o); i++)
        show(run, &run->of[i]);
    for (size_t i = 0; i < run->d->ranks; i++) {
        node *x = &run->of[i];
        if (is_library(run->o))
            take_means(run, x);
        else
            mean_of_known(run, x);
        model_gradient(run->d, i, (step - 1) * batch, batch, x->model, gradient);
        for (size_t v = 0; v < run->d->m->values; v++)
            x->moved[v] -= rate * gradient[v];
    }
    if (is_library(run->o))
        exchange_moved(run);
    else
        move_all(run, step);
}

static void finish(nodes *run, size_t steps)
{
    float mean[MOST_VALUES];

    for (size_t v = 0; v < run->d->m->values; v++) {
        double sum = 0;
        for (size_t i = 0; i < run->d->ranks; i++)
            sum += run->of[i].model[v];
        mean[v] = (float)(sum / (double)run->d->ranks);
    }
    run->now.loss = model_loss(run->d, mean);
    for (size_t i = 0; i < run->d->ranks && is_library(run->o); i++) {
        tlc_exchange_stats stats = {.struct_size = sizeof stats};
        require_status(tlc_gossip_stats(run->of[i].gossip, &stats), TLC_OK);
        require(stats.steps == steps && !stats.late);
        run->now.sent += (double)stats.sent / (double)(steps * run->d->ranks);
        run->now.stayed += stats.failed;
    }
}

gossiped gossip_train(const data *d, const schedule *s, const gossip_options *o)
{
    nodes *run;
    gossiped result;

    at = (place){.codec = o->codec, .note = gossip_names[o->way], .n = d->m->values};
    run = open_nodes(d, o);
    for (size_t step = 1; step <= s->exchanges; step++)
        take_step(run, step, s->batch, (float)(s->rate * (1 - (double)(step - 1) / (double)s->exchanges)));
    finish(run, s->exchanges);
    result = run->now;
    close_nodes(run);
    return result;
}
