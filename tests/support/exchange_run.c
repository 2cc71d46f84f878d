/* SPDX-License-Identifier: MIT */
#include "exchange_run.h"

const char *const kind_name[KIND_COUNT] = {"sharded", "gathered", "one server", "three servers"};

#define TENSOR_OF(worker, ...) {.struct_size = sizeof(tlc_tensor), .only = worker, __VA_ARGS__}
#define TENSOR(...) TENSOR_OF(TLC_NOBODY, __VA_ARGS__)

const tlc_tensor large_tensors[TENSORS] = {
    TENSOR(.name = "bias", .n = 5),       TENSOR(.name = "conv", .n = 211),
    TENSOR(.name = "none", .n = 0),       TENSOR(.name = "wide", .n = 700),
    TENSOR_OF(0, .name = "stat", .n = 9), TENSOR(.name = "own", .n = 40, .push = "3lc:s=1.5", .pull = "onebit"),
    TENSOR(.name = "gain", .n = 23),
};

const tlc_tensor small_tensors[TENSORS] = {
    TENSOR(.name = "bias", .n = 3),       TENSOR(.name = "conv", .n = 17),
    TENSOR(.name = "none", .n = 0),       TENSOR(.name = "wide", .n = 56),
    TENSOR_OF(0, .name = "stat", .n = 2), TENSOR(.name = "own", .n = 6, .push = "3lc:s=1.5", .pull = "onebit"),
    TENSOR(.name = "gain", .n = 4),
};

/* ---- make -------------------------------------------------------------------------------------------------------- */

tlc_exchange_config fleet_config(fleet_kind kind, uint32_t workers, const tlc_tensor *tensors)
{
    tlc_exchange_config cfg;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = workers;
    cfg.gather = kind == GATHERED;
    cfg.servers = kind == ONE_SERVER ? 1 : kind == THREE_SERVERS ? 3 : 0;
    cfg.min_n = tensors == small_tensors ? 5 : 32;
    cfg.split_n = tensors == small_tensors ? 32 : 256;
    at = (place){.note = kind_name[kind]};
    return cfg;
}

/* Strings that exist only during a call of create. */
typedef struct lent {
    char text[4096];
    size_t used;
} lent;

static void lend(lent *l, const char **string)
{
    size_t size = *string ? strlen(*string) + 1 : 0;

    require(size <= sizeof l->text - l->used);
    if (*string)
        *string = memcpy(l->text + l->used, *string, size);
    l->used += size;
}

tlc_status fleet_make(fleet *f, const tlc_exchange_config *cfg, uint32_t i, int server, member *m)
{
    tlc_tensor tensors[TENSORS];
    tlc_exchange_config ours = *cfg;
    lent l = {.used = 0};
    tlc_status status;

    lend(&l, &ours.push);
    lend(&l, &ours.pull);
    lend(&l, &ours.reserve);
    memcpy(tensors, f->tensors, sizeof tensors);
    for (size_t t = 0; t < f->count; t++) {
        lend(&l, &tensors[t].name);
        lend(&l, &tensors[t].push);
        lend(&l, &tensors[t].pull);
        tensors[t].residual = f->residual && !server ? f->residual[i * TENSORS + t] : NULL;
    }
    status = server         ? tlc_server_create(&m->server, &ours, i, tensors, f->count)
             : ours.servers ? tlc_worker_create(&m->worker, &ours, i, tensors, f->count)
                            : tlc_allreduce_create(&m->rank, &ours, i, tensors, f->count);
    memset(&l, '?', sizeof l);
    return status;
}

static void *zeros(size_t count, size_t size)
{
    return memset(bytes(count * size), 0, count * size);
}

/* Buffers at odd addresses: the first bytes are left out. */
static uint8_t *unaligned(size_t size, size_t turn)
{
    uint8_t *p = bytes(size + 4);
    return p + turn % 4;
}

static void make_values(fleet *f, int residuals)
{
    size_t count = (size_t)f->workers * TENSORS;

    f->grad = zeros(count, sizeof *f->grad);
    f->out = zeros(count, sizeof *f->out);
    f->residual = residuals ? zeros(count, sizeof *f->residual) : NULL;
    for (size_t i = 0; i < count; i++) {
        size_t t = i % TENSORS, turn = i / TENSORS + t;
        f->grad[i] = unaligned(fleet_bytes(f, t), turn);
        f->out[i] = unaligned(fleet_bytes(f, t), turn + 1);
        if (residuals)
            f->residual[i] = zeros(f->tensors[t].n, sizeof(float));
    }
}

/* Room for fleet_half. */
static void make_half(fleet *f, uint32_t s)
{
    size_t parts = member_parts(f->owner[s]), values = 0;

    f->half_part[s] = zeros(parts, sizeof(float *));
    for (size_t p = 0; p < parts; p++)
        values += member_part(f->owner[s], p).n;
    float *next = f->half[s] = zeros(values, sizeof *next);
    for (size_t p = 0; p < parts; p++) {
        f->half_part[s][p] = next;
        next += member_part(f->owner[s], p).n;
    }
}

void fleet_open(fleet *f, const tlc_exchange_config *cfg, const tlc_tensor *tensors, int residuals)
{
    *f = (fleet){.cfg = *cfg, .workers = cfg->workers, .lanes = cfg->servers ? cfg->servers : cfg->workers};
    f->owners = cfg->gather ? 0 : f->lanes;
    memcpy(f->tensors, tensors, sizeof f->tensors);
    while (f->count < TENSORS && tensors[f->count].name)
        f->count++;
    make_values(f, residuals);
    f->weight = zeros(f->workers, sizeof *f->weight);
    f->absent = zeros(f->workers, sizeof *f->absent);
    f->order = zeros(f->workers, sizeof *f->order);
    f->push = zeros((size_t)f->workers * f->lanes, sizeof *f->push);
    f->answer = zeros(f->lanes, sizeof *f->answer);
    f->came = zeros((size_t)f->workers * f->lanes, sizeof *f->came);
    f->reduced = zeros(f->lanes, sizeof *f->reduced);
    f->pulled = zeros(f->workers, sizeof *f->pulled);
    f->deltas = zeros(f->lanes, sizeof *f->deltas);
    f->worker = zeros(f->workers, sizeof *f->worker);
    f->owner = cfg->servers ? zeros(cfg->servers, sizeof *f->owner) : f->worker;
    for (uint32_t i = 0; i < f->workers; i++) {
        f->weight[i] = 1;
        f->order[i] = i;
        require_status(fleet_make(f, cfg, i, 0, &f->worker[i]), TLC_OK);
    }
    for (uint32_t i = 0; i < cfg->servers; i++)
        require_status(fleet_make(f, cfg, i, 1, &f->owner[i]), TLC_OK);
    f->half = zeros(f->owners, sizeof *f->half);
    f->half_part = zeros(f->owners, sizeof *f->half_part);
    for (uint32_t i = 0; i < f->owners; i++)
        make_half(f, i);
    fleet_wipe(f);
}

void fleet_close(fleet *f)
{
    for (uint32_t i = 0; i < f->workers; i++)
        member_destroy(f->worker[i]);
    for (uint32_t i = 0; i < f->cfg.servers; i++)
        member_destroy(f->owner[i]);
    for (uint32_t i = 0; i < f->owners; i++) {
        free(f->half[i]);
        free(f->half_part[i]);
    }
    for (size_t i = 0; i < (size_t)f->workers * TENSORS; i++) {
        size_t t = i % TENSORS, turn = i / TENSORS + t;
        free(f->grad[i] - turn % 4);
        free(f->out[i] - (turn + 1) % 4);
        if (f->residual)
            free(f->residual[i]);
    }
    void *arrays[] = {f->half,    f->half_part, f->deltas, f->grad,
                      f->out,     f->residual,  f->weight, f->absent,
                      f->order,   f->push,      f->came,   f->answer,
                      f->reduced, f->pulled,    f->worker, f->cfg.servers ? f->owner : NULL};
    for (size_t i = 0; i < COUNT(arrays); i++)
        free(arrays[i]);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Multiples of 2^-26 with up to 24 bits. Most are near 0, as a difference of two numbers is cubed. */
void gradient(uint64_t seed, tlc_dtype dtype, void *grad, size_t n)
{
    rng r = {seed};
    float *x = floats(n);

    for (size_t i = 0; i < n; i++) {
        uint64_t bits = rng_next(&r);
        int32_t a = (int32_t)(bits & 0x3f) - (int32_t)(bits >> 6 & 0x3f);
        x[i] = (float)(a * a * a * 64 + (int32_t)(bits >> 12 & 0x3f)) * 0x1p-26f;
    }
    require_status(tlc_convert(TLC_F32, x, dtype, grad, n), TLC_OK);
    free(x);
}

void fleet_gradients(fleet *f, uint64_t seed)
{
    for (size_t i = 0; i < (size_t)f->workers * TENSORS; i++)
        gradient(seed * 1000 + i, f->cfg.dtype, f->grad[i], f->tensors[i % TENSORS].n);
}

float fleet_grad(const fleet *f, uint32_t worker, size_t t, size_t i)
{
    return bits_float(widened(f->cfg.dtype, f->grad[worker * TENSORS + t], i));
}

void fleet_wipe(fleet *f)
{
    for (size_t i = 0; i < (size_t)f->workers * TENSORS; i++)
        memset(f->out[i], OUT_FILL, fleet_bytes(f, i % TENSORS));
}

int fleet_same_out(const fleet *f, uint32_t a, uint32_t b)
{
    for (size_t t = 0; t < TENSORS; t++)
        if (!same(f->out[a * TENSORS + t], f->out[b * TENSORS + t], fleet_bytes(f, t)))
            return 0;
    return 1;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static tlc_message carry(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    return f->via ? f->via(f, on, from, to, message) : message;
}

tlc_status fleet_push_one(fleet *f, uint32_t w)
{
    const void *grads[TENSORS];
    const void *const *given = f->absent[w] ? NULL : grads;
    tlc_message *to = &f->push[w * f->lanes];
    tlc_status status;

    for (size_t t = 0; t < TENSORS; t++) /* those of another worker are not read */
        grads[t] = is_sent(&f->tensors[t], w) ? f->grad[w * TENSORS + t] : NULL;
    FLEET_CALL(f, status = member_push(f->worker[w], given, f->weight[w], to));
    return status;
}

static tlc_status reduce_rank(fleet *f, uint32_t o)
{
    tlc_message *from = zeros(f->workers, sizeof *from);
    tlc_allreduce *rank = f->worker[o].rank;
    tlc_status status, answered = TLC_OK;

    for (uint32_t w = 0; w < f->workers; w++)
        from[w] = carry(f, TO_OWNER, w, o, f->push[w * f->lanes + o]);
    f->deltas[o] = NULL;
    if (f->delta && f->owners) {
        FLEET_CALL(f, status = tlc_allreduce_average(rank, from));
        f->deltas[o] = f->delta(f, o);
        FLEET_CALL(f, answered = tlc_allreduce_answer(rank, f->deltas[o], &f->answer[o]));
    } else
        FLEET_CALL(f, status = tlc_allreduce_reduce(rank, from, &f->answer[o]));
    require_status(answered, TLC_OK);
    free(from);
    return status;
}

static tlc_status reduce_server(fleet *f, uint32_t s)
{
    tlc_server *server = f->owner[s].server;
    tlc_status status, answered;

    for (uint32_t k = 0; k < f->workers; k++) {
        uint32_t w = f->order[k];
        tlc_message message = carry(f, TO_OWNER, w, s, f->push[w * f->lanes + s]);
        status = TLC_ERR_CORRUPT;
        if (message.len)
            FLEET_CALL(f, status = tlc_server_push(server, message, NULL));
        f->came[s * f->workers + w] = status;
    }
    FLEET_CALL(f, status = tlc_server_reduce(server));
    f->deltas[s] = f->delta ? f->delta(f, s) : NULL;
    FLEET_CALL(f, answered = tlc_server_answer(server, f->deltas[s], &f->answer[s]));
    require_status(answered, TLC_OK);
    return status;
}

const float *const *fleet_half(fleet *f, uint32_t owner)
{
    float *next = f->half[owner];

    for (size_t p = 0; p < member_parts(f->owner[owner]); p++) {
        tlc_part part = member_part(f->owner[owner], p);
        for (size_t i = 0; i < part.n; i++)
            next[i] = 0.5f * part.mean[i];
        next += part.n;
    }
    return (const float *const *)f->half_part[owner];
}

tlc_status fleet_reduce_one(fleet *f, uint32_t o)
{
    return f->reduced[o] = f->cfg.servers ? reduce_server(f, o) : reduce_rank(f, o);
}

tlc_status fleet_pull_one(fleet *f, uint32_t w)
{
    tlc_message *from = zeros(f->lanes, sizeof *from);
    void *const *out = (void *const *)&f->out[w * TENSORS];
    tlc_status status;

    for (uint32_t o = 0; o < f->lanes; o++)
        from[o] = carry(f, TO_WORKER, o, w, is_gathered(f) ? f->push[o * f->lanes + w] : f->answer[o]);
    FLEET_CALL(f, status = member_pull(f->worker[w], from, out));
    free(from);
    return f->pulled[w] = status;
}

void fleet_push(fleet *f)
{
    for (uint32_t w = 0; w < f->workers; w++)
        require_status(fleet_push_one(f, w), TLC_OK);
}

void fleet_reduce(fleet *f)
{
    for (uint32_t o = 0; o < f->owners; o++)
        (void)fleet_reduce_one(f, o);
}

void fleet_pull(fleet *f)
{
    fleet_wipe(f);
    for (uint32_t w = 0; w < f->workers; w++)
        (void)fleet_pull_one(f, w);
}

void fleet_step(fleet *f, uint64_t seed)
{
    fleet_gradients(f, seed);
    fleet_push(f);
    fleet_reduce(f);
    fleet_pull(f);
}

void require_pulled(const fleet *f, tlc_status status)
{
    for (uint32_t w = 0; w < f->workers; w++) {
        at.i = w;
        require_status(f->pulled[w], status);
        require_status(member_outcome(f->worker[w], 0).status, status);
        for (size_t t = 0; t < TENSORS; t++)
            require((status != TLC_OK) == all_bytes(f->out[w * TENSORS + t], fleet_bytes(f, t), OUT_FILL) ||
                    !f->tensors[t].n);
        require(fleet_same_out(f, w, 0));
    }
}
