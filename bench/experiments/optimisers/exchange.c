/* SPDX-License-Identifier: MIT
 *
 * Contexts, frames and the average of what they decode to.
 */
#include "exchange.h"
#include "../../lib/explain.h"
#include "../../train/random.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool is_small(size_t tensor)
{
    return perceptron_tensors[tensor].n < SMALL;
}

static bool open_context(exchange *x, tlc_ctx **ctx, const char *codec, size_t tensor, uint64_t seed, char *why)
{
    tlc_config config;
    tlc_status status;

    tlc_config_init(&config, sizeof config);
    config.codec = is_small(tensor) ? "raw" : codec;
    config.reserve = "raw";
    config.seed = seed;
    status = tlc_create(ctx, &config, perceptron_tensors[tensor].n);
    if (status)
        return explain(why, "%s: %s", config.codec, tlc_status_string(status));
    if (tlc_bound(*ctx) > x->capacity)
        x->capacity = tlc_bound(*ctx);
    return true;
}

bool exchange_open(exchange *x, const char *codec, const char *answer, size_t workers, uint64_t seed, char *why)
{
    *x = (exchange){.workers = workers, .codec = codec, .answer = answer};
    if (!codec)
        return true;
    for (size_t w = 0; w < workers; w++)
        for (size_t t = 0; t < TENSORS; t++)
            if (!open_context(x, &x->ctx[w][t], codec, t, random_next(&seed), why))
                return false;
    for (size_t t = 0; answer && t < TENSORS; t++)
        if (!open_context(x, &x->server[t], answer, t, random_next(&seed), why))
            return false;
    x->frame = malloc(x->capacity);
    return x->frame || explain(why, "out of memory");
}

void exchange_close(exchange *x)
{
    for (size_t t = 0; t < TENSORS; t++) {
        for (size_t w = 0; w < x->workers; w++)
            tlc_destroy(x->ctx[w][t]);
        tlc_destroy(x->server[t]);
    }
    free(x->frame);
}

static bool set_codecs(tlc_ctx **ctx, const char *codec, char *why)
{
    for (size_t t = 0; t < TENSORS; t++) {
        tlc_status status = is_small(t) ? TLC_OK : tlc_set_codec(ctx[t], codec);
        if (status)
            return explain(why, "%s: %s", codec, tlc_status_string(status));
    }
    return true;
}

bool exchange_warm_up(exchange *x, bool on, char *why)
{
    for (size_t w = 0; x->codec && w < x->workers; w++)
        if (!set_codecs(x->ctx[w], on ? "raw" : x->codec, why))
            return false;
    return !x->answer || set_codecs(x->server, on ? "raw" : x->answer, why);
}

/* mean += share * what the worker has. */
static tlc_status add_worker(exchange *x, size_t worker, const float *values, float share, float *mean)
{
    tlc_status status = TLC_OK;
    size_t len;

    for (size_t t = 0; t < TENSORS && !status; t++) {
        tensor_place place = perceptron_tensors[t];
        status = tlc_compress(x->ctx[worker][t], values + place.first, x->frame, x->capacity, &len);
        if (status)
            break;
        x->bytes += len;
        status = tlc_decompress_add(x->frame, len, share, mean + place.first, place.n, NULL);
    }
    return status;
}

static void add_plainly(const float *values, float share, float *mean)
{
    for (size_t i = 0; i < PARAMETERS; i++)
        mean[i] += share * values[i];
}

tlc_status exchange_average(exchange *x, float *const *each, float *mean)
{
    float share = 1 / (float)x->workers;
    clock_t start = clock();
    tlc_status status = TLC_OK;

    memset(mean, 0, PARAMETERS * sizeof *mean);
    for (size_t w = 0; w < x->workers && !status; w++) {
        if (x->codec)
            status = add_worker(x, w, each[w], share, mean);
        else
            add_plainly(each[w], share, mean);
    }
    x->seconds += (double)(clock() - start) / CLOCKS_PER_SEC;
    return status;
}

tlc_status exchange_answer(exchange *x, float *values)
{
    clock_t start = clock();
    tlc_status status = TLC_OK;
    size_t len;

    for (size_t t = 0; t < TENSORS && !status; t++) {
        tensor_place place = perceptron_tensors[t];
        status = tlc_compress(x->server[t], values + place.first, x->frame, x->capacity, &len);
        if (status)
            break;
        x->bytes += len * x->workers;
        status = tlc_decompress(x->frame, len, TLC_F32, values + place.first, place.n, NULL);
    }
    x->seconds += (double)(clock() - start) / CLOCKS_PER_SEC;
    return status;
}
