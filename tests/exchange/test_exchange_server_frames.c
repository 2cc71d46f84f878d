/* SPDX-License-Identifier: MIT
 *
 * tlc_server_owned_frames, _reduce_rest and _answer_frames: a server whose device averages and compresses sends the
 * same answers and keeps the same residuals as one that does all itself, also when pushes or steps fail.
 */
#include "../support/support.h"
#include <math.h>
#include <threelc/exchange.h>

enum { WORKERS = 3, SERVERS = 2, TENSORS = 3, LARGE = 5003, STEPS = 9, PARTS = 8 };
static const size_t lengths[TENSORS] = {LARGE, 300, 10};
static const char push_codec[] = "3lc-golomb:s=1.5", pull_codec[] = "3lc:s=1.25";

static void describe(tlc_exchange_config *cfg, tlc_tensor *tensors)
{
    static const char *const names[TENSORS] = {"large", "middle", "small"};

    require_status(tlc_exchange_config_init(cfg, sizeof *cfg), TLC_OK);
    cfg->workers = WORKERS;
    cfg->servers = SERVERS;
    cfg->backup = 1;
    cfg->push = push_codec;
    cfg->pull = pull_codec;
    cfg->split_n = 1000;
    for (size_t t = 0; t < TENSORS; t++)
        tensors[t] =
            (tlc_tensor){.struct_size = sizeof tensors[t], .name = names[t], .n = lengths[t], .only = TLC_NOBODY};
}

/* ---- a server, and its device ------------------------------------------------------------------------------------ */

/* The device averages and answers the parts of the large tensor. */
typedef struct owner {
    tlc_server *object;
    size_t parts, device_parts;
    tlc_part part[PARTS];
    float *mean[PARTS], *delta[PARTS], *kept[PARTS];
    tlc_ctx *ctx[PARTS]; /* NULL: the server does this part */
    uint8_t *frame[PARTS], elsewhere[PARTS];
    tlc_message answer;
} owner;

static owner open_owner(uint32_t i, int has_device)
{
    tlc_exchange_config cfg;
    tlc_tensor tensors[TENSORS];
    owner o = {.object = NULL};
    tlc_config own;

    describe(&cfg, tensors);
    require_status(tlc_server_create(&o.object, &cfg, i, tensors, TENSORS), TLC_OK);
    o.parts = tlc_server_parts(o.object);
    require(o.parts && o.parts <= PARTS);
    require_status(tlc_config_init(&own, sizeof own), TLC_OK);
    own.codec = pull_codec;
    for (size_t p = 0; p < o.parts; p++) {
        o.part[p].struct_size = sizeof o.part[p];
        require_status(tlc_server_part(o.object, p, &o.part[p]), TLC_OK);
        o.mean[p] = floats(LARGE);
        o.delta[p] = floats(LARGE);
        o.kept[p] = calloc(LARGE, sizeof(float));
        require(o.kept[p]);
        o.elsewhere[p] = (uint8_t)(o.part[p].tensor == 0 ? 7 : o.part[p].tensor == 2); /* small ones share a frame */
        if (!has_device || o.part[p].tensor != 0)
            continue;
        own.residual = o.kept[p];
        require_status(tlc_create(&o.ctx[p], &own, o.part[p].n), TLC_OK);
        o.frame[p] = bytes(tlc_bound(o.ctx[p]));
        o.device_parts++;
    }
    return o;
}

static void close_owner(owner *o)
{
    tlc_server_destroy(o->object);
    for (size_t p = 0; p < o->parts; p++) {
        tlc_destroy(o->ctx[p]);
        free(o->mean[p]);
        free(o->delta[p]);
        free(o->kept[p]);
        free(o->frame[p]);
    }
}

static tlc_outcome outcome_of(const owner *o)
{
    tlc_outcome found = {.struct_size = sizeof found};
    require_status(tlc_server_outcome(o->object, &found), TLC_OK);
    return found;
}

/* The means of the pushes: the device's in o->mean. If a push is at fault, the server makes all. */
static tlc_status reduce(owner *o)
{
    tlc_message came[PARTS * WORKERS];
    float factors[PARTS * WORKERS];
    tlc_status status = o->device_parts ? tlc_server_owned_frames(o->object, came, factors) : TLC_ERR_STEP;

    if (status) {
        status = tlc_server_reduce(o->object);
        for (size_t p = 0; p < o->parts; p++)
            memcpy(o->mean[p], o->part[p].mean, o->part[p].n * sizeof(float));
        return status;
    }
    for (size_t p = 0; p < o->parts; p++) {
        memset(o->mean[p], 0, LARGE * sizeof(float));
        for (size_t i = p * WORKERS; i < (p + 1) * WORKERS && o->part[p].tensor < 2; i++)
            if (came[i].len)
                require_status(tlc_decompress_add(came[i].data, came[i].len, factors[i], o->mean[p], o->part[p].n,
                                                  NULL),
                               TLC_OK);
        for (size_t i = p * WORKERS; i < (p + 1) * WORKERS; i++) /* small tensors share a frame */
            require(o->part[p].tensor < 2 || (!came[i].len && factors[i] <= 0));
    }
    status = tlc_server_reduce_rest(o->object, o->elsewhere);
    for (size_t p = 0; p < o->parts; p++)
        if (!o->ctx[p])
            memcpy(o->mean[p], o->part[p].mean, o->part[p].n * sizeof(float));
    return status;
}

/* bad: a tensor whose first delta is NaN; TENSORS: none. */
static void answer(owner *o, tlc_status reduced, size_t bad)
{
    const float *delta[PARTS];
    float *before[PARTS];
    tlc_message frames[PARTS] = {{NULL, 0}};
    int there = o->device_parts > 0 && !reduced;

    for (size_t p = 0; p < o->parts; p++) {
        for (size_t i = 0; i < o->part[p].n; i++)
            o->delta[p][i] = o->mean[p][i] * -0.5f;
        if (o->part[p].tensor == bad)
            o->delta[p][0] = NAN;
        delta[p] = o->delta[p];
        before[p] = floats(LARGE);
        memcpy(before[p], o->kept[p], LARGE * sizeof(float));
        if (o->ctx[p] && there) {
            there = tlc_compress(o->ctx[p], delta[p], o->frame[p], tlc_bound(o->ctx[p]), &frames[p].len) == TLC_OK;
            frames[p].data = o->frame[p];
        }
    }
    if (there) {
        for (size_t p = 0; p < o->parts; p++)
            delta[p] = frames[p].len ? NULL : delta[p];
        require_status(tlc_server_answer_frames(o->object, delta, frames, &o->answer), TLC_OK);
    } else /* the host finds the value that is not finite */
        require_status(tlc_server_answer(o->object, reduced ? NULL : delta, &o->answer), TLC_OK);
    for (size_t p = 0; p < o->parts; p++) {
        if (!outcome_of(o).taken)
            memcpy(o->kept[p], before[p], LARGE * sizeof(float));
        free(before[p]);
    }
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* In step 3 the gradient of worker 1 is not finite, in step 9 none is. */
static void push(tlc_worker *worker, uint32_t i, uint64_t step, tlc_message *to)
{
    static float grad[TENSORS][LARGE];
    const void *grads[TENSORS];

    for (size_t t = 0; t < TENSORS; t++) {
        fill(DATA_LAPLACE, step * 100 + i * 10 + t, grad[t], lengths[t]);
        grads[t] = grad[t];
    }
    if ((step == 3 && i == 1) || step == 9)
        grad[1][step] = NAN;
    require_status(tlc_worker_push(worker, grads, 1 + 0.5 * i, to), TLC_OK);
}

/* A worker's pushes in memory of the test. In step 4 worker 2 does not come in time. */
static void deliver(owner *o, uint32_t i, uint64_t step, tlc_message message, uint8_t *room)
{
    memcpy(room, message.data, message.len);
    if (step != 4 || i != 2)
        require_status(tlc_server_push(o->object, (tlc_message){room, message.len}, NULL), TLC_OK);
}

/* A frame of worker 1 for a part of the large tensor is none any more, as if its worker had made it so. */
static void spoil(const owner *device, uint8_t *const *room, uint8_t *const *others)
{
    tlc_message came[PARTS * WORKERS];
    float factors[PARTS * WORKERS];

    require_status(tlc_server_owned_frames(device->object, came, factors), TLC_OK);
    for (size_t p = 0; p < device->parts; p++)
        if (device->ctx[p]) {
            const size_t where = (size_t)((const uint8_t *)came[p * WORKERS + 1].data - room[1]);
            room[1][where] ^= 1;
            others[1][where] ^= 1;
            return;
        }
}

static void require_equal(const owner *device, const owner *host)
{
    const tlc_outcome ours = outcome_of(device), theirs = outcome_of(host);

    require(device->answer.len == host->answer.len && same(device->answer.data, host->answer.data, host->answer.len));
    require(ours.cause == theirs.cause && ours.tensor == theirs.tensor && strcmp(ours.sentence, theirs.sentence) == 0);
    require(!ours.taken == !theirs.taken && (!ours.taken || *ours.taken == *theirs.taken));
    for (size_t p = 0; p < host->parts; p++)
        require(same(device->ctx[p] ? device->kept[p] : device->part[p].residual, host->part[p].residual,
                     host->part[p].n * sizeof(float)));
}

TEST(same_as_servers)
{
    static float out[TENSORS][LARGE];
    void *outs[TENSORS] = {out[0], out[1], out[2]};
    owner host[SERVERS], device[SERVERS];
    uint8_t *room[2][WORKERS];
    tlc_worker *worker[WORKERS];
    tlc_message to[WORKERS][SERVERS], from[SERVERS];
    tlc_exchange_config cfg;
    tlc_tensor tensors[TENSORS];
    size_t failed = 0, left_out = 0;

    describe(&cfg, tensors);
    for (uint32_t i = 0; i < WORKERS; i++) {
        require_status(tlc_worker_create(&worker[i], &cfg, i, tensors, TENSORS), TLC_OK);
        room[0][i] = bytes(100000);
        room[1][i] = bytes(100000);
    }
    for (uint32_t j = 0; j < SERVERS; j++) {
        host[j] = open_owner(j, 0);
        device[j] = open_owner(j, 1);
        require(device[j].device_parts);
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        at = (place){.note = "step", .i = (size_t)step};
        for (uint32_t i = 0; i < WORKERS; i++)
            push(worker[i], i, step, to[i]);
        for (uint32_t j = 0; j < SERVERS; j++) {
            for (uint32_t i = 0; i < WORKERS; i++) {
                deliver(&host[j], i, step, to[i][j], room[0][i]);
                deliver(&device[j], i, step, to[i][j], room[1][i]);
            }
            if (step == 5)
                spoil(&device[j], room[1], room[0]);
            const tlc_status status = reduce(&host[j]);
            require_status(reduce(&device[j]), status);
            const size_t bad = step == 6 ? 1 : step == 7 ? 0 : TENSORS;
            answer(&host[j], status, bad);
            answer(&device[j], status, bad);
            require_equal(&device[j], &host[j]);
            failed += !outcome_of(&host[j]).taken;
            left_out += outcome_of(&host[j]).taken && *outcome_of(&host[j]).taken != 7;
            from[j] = device[j].answer;
        }
        for (uint32_t i = 0; i < WORKERS; i++)
            (void)tlc_worker_pull(worker[i], from, outs);
    }
    require(failed == 1 + 2 + 2 && left_out == 3 * SERVERS); /* one server has the middle tensor */
    for (uint32_t i = 0; i < WORKERS; i++) {
        tlc_worker_destroy(worker[i]);
        free(room[0][i]);
        free(room[1][i]);
    }
    for (uint32_t j = 0; j < SERVERS; j++) {
        close_owner(&host[j]);
        close_owner(&device[j]);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

#define REFUSED(o, call, status, words)                                                                                \
    do {                                                                                                               \
        require_status(call, status);                                                                                  \
        require_says(outcome_of(o).sentence, words);                                                                   \
    } while (0)

TEST(refusals)
{
    tlc_exchange_config cfg;
    tlc_tensor tensors[TENSORS];
    tlc_worker *worker[WORKERS];
    tlc_message to[WORKERS][SERVERS], came[PARTS * WORKERS], frames[PARTS] = {{NULL, 0}}, message = {NULL, 0};
    float factors[PARTS * WORKERS];
    const float *delta[PARTS] = {NULL};
    owner o = open_owner(0, 1), host = open_owner(0, 0);
    tlc_server *s = o.object;
    size_t ours = 0;

    at = (place){.note = "refusals"};
    describe(&cfg, tensors);
    for (uint32_t i = 0; i < WORKERS; i++) {
        require_status(tlc_worker_create(&worker[i], &cfg, i, tensors, TENSORS), TLC_OK);
        push(worker[i], i, 1, to[i]);
    }
    require_status(tlc_server_owned_frames(NULL, came, factors), TLC_ERR_PARAM);
    require_status(tlc_server_reduce_rest(NULL, o.elsewhere), TLC_ERR_PARAM);
    require_status(tlc_server_answer_frames(NULL, delta, frames, &message), TLC_ERR_PARAM);
    REFUSED(&o, tlc_server_owned_frames(s, NULL, factors), TLC_ERR_PARAM, "frames is NULL");
    REFUSED(&o, tlc_server_owned_frames(s, came, NULL), TLC_ERR_PARAM, "factors is NULL");
    REFUSED(&o, tlc_server_reduce_rest(s, NULL), TLC_ERR_PARAM, "elsewhere is NULL");
    REFUSED(&o, tlc_server_owned_frames(s, came, factors), TLC_ERR_ORDER, "owned_frames was called before any push");
    REFUSED(&o, tlc_server_reduce_rest(s, o.elsewhere), TLC_ERR_ORDER, "reduce_rest was called before owned_frames");
    for (uint32_t i = 0; i < WORKERS; i++) {
        require_status(tlc_server_push(s, to[i][0], NULL), TLC_OK);
        require_status(tlc_server_push(host.object, to[i][0], NULL), TLC_OK);
        if (i > 0)
            REFUSED(&o, tlc_server_reduce_rest(s, o.elsewhere), TLC_ERR_ORDER, "reduce_rest ... did not see");
        require_status(tlc_server_owned_frames(s, came, factors), TLC_OK);
    }
    REFUSED(&o, tlc_server_answer_frames(s, NULL, frames, &message), TLC_ERR_ORDER, "answer was called before reduce");
    require_status(reduce(&o), TLC_OK);
    REFUSED(&o, tlc_server_owned_frames(s, came, factors), TLC_ERR_ORDER, "owned_frames was called after reduce");
    REFUSED(&o, tlc_server_reduce_rest(s, o.elsewhere), TLC_ERR_ORDER, "reduce_rest was called after reduce");
    REFUSED(&o, tlc_server_answer_frames(s, NULL, NULL, &message), TLC_ERR_PARAM, "frames is NULL");
    REFUSED(&o, tlc_server_answer_frames(s, NULL, frames, NULL), TLC_ERR_PARAM, "to_all is NULL");
    REFUSED(&o, tlc_server_answer(s, NULL, &message), TLC_ERR_PARAM, "large ... averaged elsewhere");
    REFUSED(&o, tlc_server_answer_frames(s, NULL, frames, &message), TLC_ERR_PARAM, "large ... averaged elsewhere");
    REFUSED(&o, tlc_server_answer_frames(s, delta, frames, &message), TLC_ERR_PARAM, "its entry of delta is NULL");
    for (size_t p = 0; p < o.parts; p++)
        ours = o.ctx[p] ? p : ours;
    frames[ours].data = o.frame[ours];
    require_status(tlc_compress(o.ctx[ours], o.mean[ours], o.frame[ours], tlc_bound(o.ctx[ours]), &frames[ours].len),
                   TLC_OK);
    REFUSED(&o, tlc_server_answer_frames(s, delta, frames, &message), TLC_ERR_PARAM, "its entry of delta is NULL");
    frames[ours] = (tlc_message){(const uint8_t *)"none", 4};
    REFUSED(&o, tlc_server_answer_frames(s, NULL, frames, &message), TLC_ERR_PARAM, "whole frame ... 3lc:s=1.25");
    require(!message.data && tlc_server_step(s) == 1);
    require_status(reduce(&host), TLC_OK); /* deltas may take the place of frames, which are forgotten */
    answer(&host, TLC_OK, TENSORS);
    for (size_t p = 0; p < o.parts; p++)
        delta[p] = host.delta[p];
    require_status(tlc_server_answer(s, delta, &message), TLC_OK);
    require(message.len == host.answer.len && same(message.data, host.answer.data, message.len));
    REFUSED(&o, tlc_server_reduce_rest(s, o.elsewhere), TLC_ERR_ORDER, "reduce_rest was called before owned_frames");
    for (uint32_t i = 0; i < WORKERS; i++)
        tlc_worker_destroy(worker[i]);
    close_owner(&o);
    close_owner(&host);
}
