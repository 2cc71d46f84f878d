/* SPDX-License-Identifier: MIT
 *
 * tlc_worker_push_frames and tlc_worker_pull_frames: a worker whose device quantizes and decodes sends the same
 * messages, gets the same results and keeps the same residuals as one that pushes gradients, also when a push is not
 * taken or a step fails on a server.
 */
#include "../support/support.h"
#include <math.h>
#include <threelc/exchange.h>

enum { WORKERS = 2, SERVERS = 2, TENSORS = 2, LARGE = 5003, SMALL = 10, STEPS = 8, PARTS = 8 };
static const size_t lengths[TENSORS] = {LARGE, SMALL};
static const char codec[] = "3lc-golomb:s=1.5";

/* A worker, perhaps with a device that keeps the residuals of the large tensor. */
typedef struct member {
    tlc_worker *object;
    tlc_message to[SERVERS];
    float *grad[TENSORS], *residual[TENSORS], *out[TENSORS];
    float *kept;
    tlc_ctx *device[PARTS]; /* of the pushed parts */
    uint8_t *frame[PARTS];
    size_t parts;
} member;

static tlc_exchange_config configuration(void)
{
    tlc_exchange_config cfg;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = WORKERS;
    cfg.servers = SERVERS;
    cfg.backup = 1;
    cfg.push = codec;
    cfg.split_n = 1000;
    return cfg;
}

static void describe(tlc_tensor *tensors, float **residual)
{
    static const char *const names[TENSORS] = {"large", "small"};

    for (size_t t = 0; t < TENSORS; t++)
        tensors[t] = (tlc_tensor){.struct_size = sizeof tensors[t],
                                  .name = names[t],
                                  .n = lengths[t],
                                  .residual = residual ? residual[t] : NULL,
                                  .only = TLC_NOBODY};
}

static member open_member(uint32_t i, int has_device)
{
    const tlc_exchange_config cfg = configuration();
    tlc_part part = {.struct_size = sizeof part};
    tlc_tensor tensors[TENSORS];
    member m = {.kept = calloc(LARGE, sizeof(float))};
    tlc_config own;

    require(m.kept);
    for (size_t t = 0; t < TENSORS; t++) {
        m.grad[t] = floats(lengths[t]);
        m.out[t] = calloc(lengths[t], sizeof(float));
        m.residual[t] = calloc(lengths[t], sizeof(float));
        require(m.out[t] && m.residual[t]);
    }
    describe(tensors, m.residual);
    require_status(tlc_worker_create(&m.object, &cfg, i, tensors, TENSORS), TLC_OK);
    m.parts = has_device ? tlc_worker_pushed_parts(m.object) : 0;
    require(m.parts <= PARTS && (m.parts >= SERVERS) == has_device);
    require_status(tlc_config_init(&own, sizeof own), TLC_OK);
    own.codec = codec;
    for (size_t p = 0; p < m.parts; p++) {
        require_status(tlc_worker_pushed_part(m.object, p, &part), TLC_OK);
        require(part.tensor == 0 && !part.mean && part.residual == m.residual[0] + part.first);
        own.residual = m.kept + part.first;
        require_status(tlc_create(&m.device[p], &own, part.n), TLC_OK);
        m.frame[p] = bytes(tlc_bound(m.device[p]));
    }
    return m;
}

static void close_member(member *m)
{
    tlc_worker_destroy(m->object);
    for (size_t t = 0; t < TENSORS; t++) {
        free(m->grad[t]);
        free(m->out[t]);
        free(m->residual[t]);
    }
    free(m->kept);
    for (size_t p = 0; p < m->parts; p++) {
        tlc_destroy(m->device[p]);
        free(m->frame[p]);
    }
}

/* The gradients of worker i. In step 3 those of worker 1 have a NaN. */
static void draw(member *m, uint32_t i, uint64_t step)
{
    for (size_t t = 0; t < TENSORS; t++)
        fill(DATA_LAPLACE, step * 100 + i * 10 + t, m->grad[t], lengths[t]);
    if (i == 1 && step == 3)
        m->grad[1][step] = NAN;
}

static const void *const *grads_of(const member *m)
{
    return (const void *const *)m->grad;
}

/* The frames of a step, which the device makes. */
static void quantize(member *m, tlc_message *frames)
{
    tlc_part part = {.struct_size = sizeof part};
    size_t len;

    for (size_t p = 0; p < m->parts; p++) {
        require_status(tlc_worker_pushed_part(m->object, p, &part), TLC_OK);
        require_status(tlc_compress(m->device[p], m->grad[0] + part.first, m->frame[p], tlc_bound(m->device[p]), &len),
                       TLC_OK);
        frames[p] = (tlc_message){m->frame[p], len};
    }
}

static void push_frames(member *m)
{
    const void *grads[TENSORS] = {NULL, m->grad[1]};
    tlc_outcome found = {.struct_size = sizeof found};
    tlc_message frames[PARTS];
    float *before = floats(LARGE);

    memcpy(before, m->kept, LARGE * sizeof(float));
    quantize(m, frames);
    require_status(tlc_worker_push_frames(m->object, grads, frames, 1, m->to), TLC_OK);
    require_status(tlc_worker_outcome(m->object, 0, &found), TLC_OK);
    if (found.cause) /* the gradient was dropped */
        memcpy(m->kept, before, LARGE * sizeof(float));
    free(before);
}

/* The device decodes the large tensor, and takes back what was not taken. */
static tlc_status pull_frames(member *m, const tlc_message *from, size_t *missing)
{
    void *out[TENSORS] = {NULL, m->out[1]};
    const size_t parts = tlc_worker_pulled_parts(m->object);
    tlc_part part = {.struct_size = sizeof part};
    tlc_message frames[PARTS];

    require(parts >= SERVERS && parts <= PARTS);
    memset(frames, 0xaa, sizeof frames);
    const tlc_status status = tlc_worker_pull_frames(m->object, from, out, frames);
    for (size_t p = 0; p < parts; p++) {
        require_status(tlc_worker_pulled_part(m->object, p, &part), TLC_OK);
        require(part.tensor == 0 && !part.mean && !part.residual);
        *missing += !frames[p].len;
        if (frames[p].len)
            require_status(tlc_decompress(frames[p].data, frames[p].len, TLC_F32, m->out[0] + part.first, part.n, NULL),
                           TLC_OK);
    }
    for (size_t i = 0; i < LARGE; i++) {
        m->kept[i] += m->residual[0][i];
        m->residual[0][i] = 0;
    }
    return status;
}

/* Takes the pushes of a step but, in step 4, that of worker 1 to server 1. In step 6 server 0 has a delta of NaN. */
static tlc_message answer(tlc_server *server, uint32_t i, const member *workers, uint64_t step)
{
    static const float bad[LARGE] = {NAN};
    const float *delta[PARTS];
    tlc_message message;

    for (uint32_t w = 0; w < WORKERS; w++)
        if (step != 4 || w != 1 || i != 1)
            require_status(tlc_server_push(server, workers[w].to[i], NULL), TLC_OK);
    require_status(tlc_server_reduce(server), TLC_OK);
    for (size_t p = 0; p < tlc_server_parts(server); p++)
        delta[p] = bad;
    require_status(tlc_server_answer(server, step == 6 && i == 0 ? delta : NULL, &message), TLC_OK);
    return message;
}

TEST(same_as_gradients)
{
    const tlc_exchange_config cfg = configuration();
    member host[WORKERS], device[WORKERS];
    tlc_server *server[SERVERS];
    tlc_tensor tensors[TENSORS];
    size_t missing = 0, failed = 0;

    describe(tensors, NULL);
    for (uint32_t i = 0; i < SERVERS; i++)
        require_status(tlc_server_create(&server[i], &cfg, i, tensors, TENSORS), TLC_OK);
    for (uint32_t i = 0; i < WORKERS; i++) {
        host[i] = open_member(i, 0);
        device[i] = open_member(i, 1);
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        tlc_message from[SERVERS];
        at = (place){.codec = codec, .i = (size_t)step};
        for (uint32_t i = 0; i < WORKERS; i++) {
            draw(&host[i], i, step);
            draw(&device[i], i, step);
            require_status(tlc_worker_push(host[i].object, grads_of(&host[i]), 1, host[i].to), TLC_OK);
            push_frames(&device[i]);
            for (uint32_t j = 0; j < SERVERS; j++)
                require(host[i].to[j].len == device[i].to[j].len &&
                        same(host[i].to[j].data, device[i].to[j].data, host[i].to[j].len));
        }
        for (uint32_t i = 0; i < SERVERS; i++)
            from[i] = answer(server[i], i, device, step);
        for (uint32_t i = 0; i < WORKERS; i++) {
            const tlc_status status = tlc_worker_pull(host[i].object, from, (void *const *)host[i].out);
            require_status(pull_frames(&device[i], from, &missing), status);
            failed += status == TLC_ERR_STEP;
            for (size_t t = 0; t < TENSORS; t++)
                require(
                    same(device[i].out[t], host[i].out[t], lengths[t] * sizeof(float)) &&
                    same(t ? device[i].residual[t] : device[i].kept, host[i].residual[t], lengths[t] * sizeof(float)));
        }
    }
    require(failed == WORKERS && missing >= WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        close_member(&host[i]);
        close_member(&device[i]);
    }
    for (uint32_t i = 0; i < SERVERS; i++)
        tlc_server_destroy(server[i]);
}

TEST(refusals)
{
    member m = open_member(0, 1);
    const void *grads[TENSORS] = {NULL, m.grad[1]};
    const tlc_message none[SERVERS] = {{NULL, 0}};
    tlc_part part = {.struct_size = sizeof part};
    void *out[TENSORS] = {NULL, NULL};
    tlc_message frames[PARTS] = {{NULL, 0}};

    at = (place){.note = "refusals"};
    draw(&m, 0, 1);
    quantize(&m, frames);
    require(tlc_worker_pushed_parts(NULL) == 0 && tlc_worker_pulled_parts(NULL) == 0);
    require_status(tlc_worker_pushed_part(NULL, 0, &part), TLC_ERR_PARAM);
    require_status(tlc_worker_pushed_part(m.object, 0, NULL), TLC_ERR_PARAM);
    require_status(tlc_worker_pushed_part(m.object, m.parts, &part), TLC_ERR_PARAM);
    require_status(tlc_worker_pulled_part(NULL, 0, &part), TLC_ERR_PARAM);
    require_status(tlc_worker_pulled_part(m.object, 0, NULL), TLC_ERR_PARAM);
    require_status(tlc_worker_pulled_part(m.object, tlc_worker_pulled_parts(m.object), &part), TLC_ERR_PARAM);
    require_status(tlc_worker_push_frames(NULL, grads, frames, 1, m.to), TLC_ERR_PARAM);
    require_status(tlc_worker_push_frames(m.object, NULL, frames, 1, m.to), TLC_ERR_PARAM);
    require_status(tlc_worker_push_frames(m.object, grads, NULL, 1, m.to), TLC_ERR_PARAM);
    require_status(tlc_worker_push(m.object, grads, 1, m.to), TLC_ERR_PARAM); /* no gradient */
    frames[1].len--;
    require_status(tlc_worker_push_frames(m.object, grads, frames, 1, m.to), TLC_ERR_PARAM); /* cut off */
    frames[1].len++;
    require_status(tlc_worker_pull_frames(NULL, none, out, frames), TLC_ERR_PARAM);
    require_status(tlc_worker_pull_frames(m.object, none, out, NULL), TLC_ERR_PARAM);
    require_status(tlc_worker_pull_frames(m.object, NULL, out, frames), TLC_ERR_PARAM);
    require_status(tlc_worker_pull_frames(m.object, none, out, frames), TLC_ERR_PARAM); /* of a small tensor */
    require_status(tlc_worker_push_frames(m.object, grads, frames, 1, m.to), TLC_OK);
    require_status(tlc_worker_push_frames(m.object, grads, frames, 1, m.to), TLC_ERR_ORDER);
    require_status(tlc_worker_join(m.object, 5, NULL), TLC_OK);
    require_status(tlc_worker_push_frames(m.object, grads, frames, 1, m.to), TLC_ERR_ORDER); /* it only listens */
    require_status(tlc_worker_push(m.object, grads_of(&m), 1, m.to), TLC_OK);
    close_member(&m);
}
