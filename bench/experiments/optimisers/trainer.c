/* SPDX-License-Identifier: MIT
 *
 * The training loop. In a round every worker makes its local steps and sends once.
 */
#include "trainer.h"
#include "../../lib/explain.h"
#include "exchange.h"
#include "../../train/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/exchange.h>
#include <time.h>

typedef struct trainer {
    const training_options *o;
    const image_set *images;
    uint32_t *order; /* of the images; drawn anew when all have been used */
    size_t used;
    uint64_t state;               /* of the order */
    float *model;                 /* the same for all workers after an exchange */
    float *local[MOST_WORKERS];   /* models of the workers between two exchanges; of SEND_CHANGES */
    float *message[MOST_WORKERS]; /* what the workers send */
    float *mean;
    float *server;                      /* the model that the server's optimiser has; of ANSWER_CHANGES */
    optimiser optimisers[MOST_WORKERS]; /* one is used with SEND_GRADIENTS */
    exchange exchange;
    double loss; /* mean of the last step */
} trainer;

static void close_trainer(trainer *t)
{
    for (size_t w = 0; w < t->o->workers; w++) {
        free(t->local[w]);
        free(t->message[w]);
        optimiser_close(&t->optimisers[w]);
    }
    exchange_close(&t->exchange);
    free(t->order);
    free(t->model);
    free(t->mean);
    free(t->server);
}

static bool open_trainer(trainer *t, const training_options *o, const image_set *images, char *why)
{
    const size_t size = PARAMETERS * sizeof(float);
    uint64_t seed = o->seed, model_seed = random_next(&seed), exchange_seed = random_next(&seed);
    bool ok = true;

    *t = (trainer){.o = o, .images = images, .used = images->count, .state = random_next(&seed)};
    t->order = malloc(images->count * sizeof *t->order);
    t->model = malloc(size);
    t->mean = malloc(size);
    t->server = malloc(size);
    if (!t->order || !t->model || !t->mean || !t->server)
        return explain(why, "out of memory");
    for (uint32_t i = 0; i < images->count; i++)
        t->order[i] = i;
    perceptron_init(t->model, model_seed);
    memcpy(t->server, t->model, size);
    for (size_t w = 0; w < o->workers && ok; w++) {
        t->local[w] = malloc(size);
        t->message[w] = malloc(size);
        if (!t->local[w] || !t->message[w])
            return explain(why, "out of memory");
        memcpy(t->local[w], t->model, size);
        ok = optimiser_open(&t->optimisers[w], o->optimiser, o->rate, PARAMETERS, o->steps, why);
        t->optimisers[w].warmup = o->rate_warmup;
    }
    return ok &&
           exchange_open(&t->exchange, o->codec, o->answer == ANSWER_FLOATS ? NULL : tlc_pull_codec(o->codec),
                         o->workers, exchange_seed, why) &&
           (!o->warmup || exchange_warm_up(&t->exchange, true, why));
}

/* The next images in the order. count is not larger than the set. */
static const uint32_t *next_images(trainer *t, size_t count)
{
    if (count > t->images->count - t->used) {
        for (uint32_t i = t->images->count - 1; i > 0; i--) {
            uint32_t j = random_below(&t->state, i + 1), swapped = t->order[i];
            t->order[i] = t->order[j];
            t->order[j] = swapped;
        }
        t->used = 0;
    }
    t->used += count;
    return t->order + t->used - count;
}

/* The server's optimiser makes a step. Workers move by what arrives of it. */
static tlc_status answer_changes(trainer *t)
{
    float *change = t->message[0]; /* has been sent */
    tlc_status status;

    memcpy(change, t->server, PARAMETERS * sizeof *change);
    optimiser_step(&t->optimisers[0], t->mean, t->server);
    for (size_t i = 0; i < PARAMETERS; i++)
        change[i] = t->server[i] - change[i];
    status = exchange_answer(&t->exchange, change);
    for (size_t i = 0; i < PARAMETERS && !status; i++)
        t->model[i] += change[i];
    return status;
}

static tlc_status round_of_gradients(trainer *t)
{
    const training_options *o = t->o;
    const uint32_t *batch = next_images(t, o->workers * o->batch);
    tlc_status status;

    t->loss = 0;
    for (size_t w = 0; w < o->workers; w++)
        t->loss += perceptron_gradient(t->model, t->images, batch + w * o->batch, o->batch, t->message[w]);
    t->loss /= (double)o->workers;
    status = exchange_average(&t->exchange, t->message, t->mean);
    if (!status && o->answer == ANSWER_CHANGES)
        return answer_changes(t);
    if (!status && o->answer == ANSWER_MEANS)
        status = exchange_answer(&t->exchange, t->mean);
    if (!status)
        optimiser_step(&t->optimisers[0], t->mean, t->model);
    return status;
}

static double local_step(trainer *t)
{
    const training_options *o = t->o;
    const uint32_t *batch = next_images(t, o->workers * o->batch);
    double loss = 0;

    for (size_t w = 0; w < o->workers; w++) {
        loss += perceptron_gradient(t->local[w], t->images, batch + w * o->batch, o->batch, t->mean);
        optimiser_step(&t->optimisers[w], t->mean, t->local[w]);
    }
    return loss / (double)o->workers;
}

static tlc_status round_of_changes(trainer *t)
{
    const training_options *o = t->o;
    tlc_status status;

    t->loss = 0;
    for (size_t k = 0; k < o->local_steps; k++)
        t->loss += local_step(t);
    t->loss /= (double)o->local_steps;
    for (size_t w = 0; w < o->workers; w++)
        for (size_t i = 0; i < PARAMETERS; i++)
            t->message[w][i] = t->local[w][i] - t->model[i];
    status = exchange_average(&t->exchange, t->message, t->mean);
    for (size_t i = 0; i < PARAMETERS && !status; i++)
        t->model[i] += t->mean[i];
    for (size_t w = 0; w < o->workers; w++)
        memcpy(t->local[w], t->model, PARAMETERS * sizeof *t->model);
    return status;
}

/* Whether all rounds worked. If the training diverges, r->diverged says where. */
static bool run_rounds(trainer *t, training_result *r, char *why)
{
    const training_options *o = t->o;
    size_t tenth = o->steps / 10 ? o->steps / 10 : 1, counted = 0;
    double sum = 0;

    for (size_t step = 0, next; step < o->steps; step = next) {
        if (o->warmup && step == o->warmup && !exchange_warm_up(&t->exchange, false, why))
            return false;
        next = step + o->local_steps;
        tlc_status status = o->sent == SEND_GRADIENTS ? round_of_gradients(t) : round_of_changes(t);
        if (status && status != TLC_ERR_NONFINITE)
            return explain(why, "step %zu: %s", step + 1, tlc_status_string(status));
        if (status || !isfinite(t->loss)) {
            r->diverged = next;
            return true;
        }
        sum += t->loss * (double)o->local_steps;
        counted += o->local_steps;
        if (next / tenth != step / tenth) {
            r->loss = sum / (double)counted;
            printf("step %zu loss %.9g\n", next, r->loss);
            sum = 0;
            counted = 0;
        }
    }
    return true;
}

bool train(const training_options *o, const image_set *images, const image_set *test, training_result *r, char *why)
{
    trainer t;
    clock_t start = clock();
    bool ok;

    *r = (training_result){.diverged = 0};
    ok = open_trainer(&t, o, images, why) && run_rounds(&t, r, why);
    r->seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    r->exchange_seconds = t.exchange.seconds;
    if (ok && !r->diverged)
        r->accuracy = 100.0 * perceptron_correct(t.model, test) / test->count;
    if (ok && t.exchange.bytes)
        r->ratio = (o->answer == ANSWER_FLOATS ? 4.0 : 8.0) * (double)PARAMETERS * (double)(o->steps * o->workers) /
                   (double)t.exchange.bytes;
    close_trainer(&t);
    return ok;
}
