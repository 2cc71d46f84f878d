/* SPDX-License-Identifier: MIT
 *
 * tlc_allreduce_push_frames, _reduce_frames and _pull_frames: ranks whose devices quantize, average and decode send the
 * same messages, get the same results and keep the same residuals as ranks that push gradients, also when steps fail.
 */
#include "../support/support.h"
#include <math.h>
#include <threelc/exchange.h>

enum { RANKS = 3, TENSORS = 3, LARGE = 5003, MIDDLE = 300, SMALL = 10, STEPS = 12, PARTS = 8 };
static const size_t lengths[TENSORS] = {LARGE, MIDDLE, SMALL};

/* A rank, with a device that keeps the residuals of its parts. */
typedef struct rank {
    tlc_allreduce *object;
    tlc_message to[RANKS], answer;
    float *grad[TENSORS], *residual[TENSORS], *out[TENSORS];
    float *kept[TENSORS]; /* the device's residuals; NULL: there is no device */
    float *owned[PARTS];  /* its residuals of answers, of the large tensor */
    uint8_t *frame[PARTS], *scratch;
} rank;

static rank open_rank(uint32_t i, const char *codec, int gather, int has_device)
{
    static const char *const names[TENSORS] = {"large", "middle", "small"};
    tlc_tensor tensors[TENSORS];
    tlc_exchange_config cfg;
    rank r = {.scratch = bytes(tlc_quartic_scratch("3lc-golomb", LARGE))};
    const int keeps = strncmp(codec, "3lc", 3) == 0 || strncmp(codec, "ternary", 7) == 0; /* others keep no residual */

    for (size_t t = 0; t < TENSORS; t++) {
        r.grad[t] = floats(lengths[t]);
        r.out[t] = floats(lengths[t]);
        r.residual[t] = calloc(lengths[t], sizeof(float));
        r.kept[t] = has_device ? calloc(lengths[t], sizeof(float)) : NULL;
        require(r.residual[t] && (r.kept[t] || !has_device));
        tensors[t] = (tlc_tensor){.struct_size = sizeof tensors[t],
                                  .name = names[t],
                                  .n = lengths[t],
                                  .residual = keeps ? r.residual[t] : NULL,
                                  .only = TLC_NOBODY};
    }
    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = RANKS;
    cfg.push = codec;
    cfg.gather = gather;
    cfg.split_n = 1000;
    require_status(tlc_allreduce_create(&r.object, &cfg, i, tensors, TENSORS), TLC_OK);
    for (size_t p = 0; p < PARTS; p++) {
        r.frame[p] = bytes(4 * LARGE);
        r.owned[p] = calloc(LARGE, sizeof(float));
        require(r.owned[p]);
    }
    return r;
}

static void close_rank(rank *r)
{
    tlc_allreduce_destroy(r->object);
    free(r->scratch);
    for (size_t t = 0; t < TENSORS; t++) {
        free(r->grad[t]);
        free(r->out[t]);
        free(r->residual[t]);
        free(r->kept[t]);
    }
    for (size_t p = 0; p < PARTS; p++) {
        free(r->frame[p]);
        free(r->owned[p]);
    }
}

static const void *const *grads_of(const rank *r)
{
    return (const void *const *)r->grad;
}

/* ---- a device ---------------------------------------------------------------------------------------------------- */

/* Quantizes n values in place, of which what is not sent is left, and makes their frame. */
static tlc_message make_frame(const rank *r, const char *codec, float s, float *x, size_t n, uint8_t *frame)
{
    static uint8_t quartic[LARGE];
    static int8_t q[LARGE];
    size_t len, written;
    float M;

    require_status(tlc_ternary_encode(x, n, s, q, x, &M), TLC_OK);
    require_status(tlc_quartic_encode(q, n, quartic, sizeof quartic, &len), TLC_OK);
    require_status(tlc_compress_quartic(quartic, len, &M, n, PARAMS(quartic, .codec = codec, .scratch = r->scratch),
                                        frame, 4 * (size_t)LARGE, &written),
                   TLC_OK);
    return (tlc_message){frame, written};
}

/* The same of residual + gradient of a part. */
static tlc_message quantize(rank *r, const char *codec, const tlc_part *part, uint8_t *frame)
{
    float *kept = r->kept[part->tensor] + part->first;

    for (size_t i = 0; i < part->n; i++)
        kept[i] += r->grad[part->tensor][part->first + i];
    return make_frame(r, codec, 1.5f, kept, part->n, frame);
}

static void push_frames(rank *r, const char *codec)
{
    const void *grads[TENSORS] = {NULL, NULL, r->grad[2]}; /* small tensors are not the device's */
    float *before[2] = {floats(LARGE), floats(MIDDLE)};
    tlc_outcome found = {.struct_size = sizeof found};
    tlc_part part = {.struct_size = sizeof part};
    tlc_message frames[PARTS];
    const size_t parts = tlc_allreduce_pushed_parts(r->object);

    require(parts >= 2 && parts <= PARTS);
    for (size_t t = 0; t < 2; t++)
        memcpy(before[t], r->kept[t], lengths[t] * sizeof(float));
    for (size_t i = 0; i < parts; i++) {
        require_status(tlc_allreduce_pushed_part(r->object, i, &part), TLC_OK);
        require(part.tensor < 2 && !part.mean && part.residual == r->residual[part.tensor] + part.first);
        frames[i] = quantize(r, codec, &part, r->frame[i]);
    }
    require_status(tlc_allreduce_push_frames(r->object, grads, frames, 1, r->to), TLC_OK);
    require_status(tlc_allreduce_outcome(r->object, &found), TLC_OK);
    for (size_t t = 0; t < 2; t++) {
        if (found.cause) /* the gradient was dropped */
            memcpy(r->kept[t], before[t], lengths[t] * sizeof(float));
        free(before[t]);
    }
}

/* The device averages the large tensor and answers, the object the others. */
static void reduce_frames(rank *r, const tlc_message *from)
{
    static float sum[PARTS][LARGE];
    const size_t parts = tlc_allreduce_parts(r->object);
    tlc_outcome found = {.struct_size = sizeof found};
    tlc_part part = {.struct_size = sizeof part};
    tlc_message came[PARTS * RANKS], frames[PARTS] = {{NULL, 0}};
    float factors[PARTS * RANKS];
    size_t n[PARTS] = {0};

    require(parts && parts <= PARTS);
    const tlc_status status = tlc_allreduce_owned_frames(r->object, from, came, factors);
    require_status(tlc_allreduce_outcome(r->object, &found), TLC_OK);
    require_status(found.status, status);
    require(status == (found.cause ? TLC_ERR_STEP : TLC_OK));
    for (size_t p = 0; !status && p < parts; p++) {
        require_status(tlc_allreduce_part(r->object, p, &part), TLC_OK);
        for (size_t i = 0; i < RANKS; i++)
            require((part.tensor < 2) == (came[p * RANKS + i].len > 0) &&
                    (part.tensor < 2) == (factors[p * RANKS + i] > 0));
        if (part.tensor != 0)
            continue;
        n[p] = part.n;
        memset(sum[p], 0, sizeof sum[p]);
        for (size_t i = 0; i < RANKS; i++)
            require_status(tlc_decompress_add(came[p * RANKS + i].data, came[p * RANKS + i].len, factors[p * RANKS + i],
                                              sum[p], part.n, NULL),
                           TLC_OK);
        for (size_t i = 0; i < part.n; i++)
            sum[p][i] += r->owned[p][i];
        frames[p] = make_frame(r, "3lc-golomb", 1, sum[p], part.n, r->frame[p]);
    }
    if (status) {
        require_status(tlc_allreduce_reduce(r->object, from, &r->answer), TLC_OK);
        return;
    }
    require_status(tlc_allreduce_reduce_frames(r->object, from, frames, &r->answer), TLC_OK);
    require_status(tlc_allreduce_outcome(r->object, &found), TLC_OK);
    for (size_t p = 0; !found.cause && p < parts; p++)
        memcpy(r->owned[p], sum[p], n[p] * sizeof(float));
}

/* The device decodes the large tensor, the object the others: of the middle one there is no frame then. */
static tlc_status pull_frames(rank *r, const tlc_message *from)
{
    static uint8_t quartic[LARGE];
    static int8_t q[LARGE];
    void *out[TENSORS] = {NULL, r->out[1], r->out[2]};
    const size_t parts = tlc_allreduce_pulled_parts(r->object);
    tlc_part part = {.struct_size = sizeof part};
    tlc_message frames[PARTS];
    size_t values = 0;
    float scale;

    require(parts >= 2 && parts <= PARTS);
    const tlc_status status = tlc_allreduce_pull_frames(r->object, from, out, frames);
    for (size_t i = 0; !status && i < parts; i++) {
        require_status(tlc_allreduce_pulled_part(r->object, i, &part), TLC_OK);
        require(part.tensor < 2 && !part.mean && !part.residual && (part.tensor == 0) == (frames[i].len > 0));
        if (part.tensor != 0)
            continue;
        require_status(tlc_decompress_quartic(frames[i].data, frames[i].len, part.n, quartic, sizeof quartic, &scale, 1,
                                              NULL),
                       TLC_OK);
        require_status(tlc_quartic_decode(quartic, tlc_quartic_size(part.n), q, part.n), TLC_OK);
        require_status(tlc_ternary_decode(q, part.n, scale, r->out[0] + part.first), TLC_OK);
        values += part.n;
    }
    require(status || values == LARGE);
    return status;
}

/* What came back to the host goes to the device. */
static void take_back(rank *r)
{
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < lengths[t]; i++) {
            r->kept[t][i] += r->residual[t][i];
            r->residual[t][i] = 0;
        }
    for (size_t p = 0; p < tlc_allreduce_parts(r->object); p++) {
        tlc_part part = {.struct_size = sizeof part};
        require_status(tlc_allreduce_part(r->object, p, &part), TLC_OK);
        float *came = (float *)(uintptr_t)part.residual;
        for (size_t i = 0; part.tensor == 0 && i < part.n; i++) {
            r->owned[p][i] += came[i];
            came[i] = 0;
        }
    }
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Rank 1 has no finite gradient in steps 3 and 5. In step 7 a push is lost. */
static void draw(rank *r, uint32_t i, uint64_t step)
{
    for (size_t t = 0; t < TENSORS; t++)
        fill(DATA_LAPLACE, step * 100 + i * 10 + t, r->grad[t], lengths[t]);
    if (i == 1 && (step == 3 || step == 5))
        r->grad[2][step] = step == 3 ? NAN : INFINITY;
}

static tlc_status finish(rank *ranks, uint32_t i, int gather)
{
    tlc_message from[RANKS];

    for (uint32_t j = 0; j < RANKS; j++)
        from[j] = gather ? ranks[j].to[i] : ranks[j].answer;
    return gather || !ranks[i].kept[0] ? tlc_allreduce_pull(ranks[i].object, from, (void *const *)ranks[i].out)
                                       : pull_frames(&ranks[i], from);
}

static void reduce(rank *ranks, uint32_t i, uint64_t step)
{
    tlc_message from[RANKS];

    for (uint32_t j = 0; j < RANKS; j++)
        from[j] = step == 7 && j == 2 && i == 0 ? (tlc_message){NULL, 0} : ranks[j].to[i];
    if (ranks[i].kept[0])
        reduce_frames(&ranks[i], from);
    else
        require_status(tlc_allreduce_reduce(ranks[i].object, from, &ranks[i].answer), TLC_OK);
}

static void require_equal(const rank *device, const rank *host)
{
    for (size_t t = 0; t < TENSORS; t++) {
        require(same(device->out[t], host->out[t], lengths[t] * sizeof(float)));
        require(same(t < 2 ? device->kept[t] : device->residual[t], host->residual[t], lengths[t] * sizeof(float)));
    }
    for (size_t p = 0; p < tlc_allreduce_parts(host->object); p++) {
        tlc_part theirs = {.struct_size = sizeof theirs}, ours = theirs;
        require_status(tlc_allreduce_part(host->object, p, &theirs), TLC_OK);
        require_status(tlc_allreduce_part(device->object, p, &ours), TLC_OK);
        require(same(ours.tensor == 0 ? device->owned[p] : ours.residual, theirs.residual, ours.n * sizeof(float)));
    }
}

static void runs(const char *codec, int gather)
{
    rank host[RANKS], device[RANKS];
    size_t failed = 0;

    for (uint32_t i = 0; i < RANKS; i++) {
        host[i] = open_rank(i, codec, gather, 0);
        device[i] = open_rank(i, codec, gather, 1);
        for (size_t t = 0; t < TENSORS; t++) {
            memset(host[i].out[t], 0, lengths[t] * sizeof(float));
            memset(device[i].out[t], 0, lengths[t] * sizeof(float));
        }
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        at = (place){.codec = codec, .i = (size_t)step, .note = gather ? "gather" : "sharded"};
        for (uint32_t i = 0; i < RANKS; i++) {
            draw(&host[i], i, step);
            draw(&device[i], i, step);
            require_status(tlc_allreduce_push(host[i].object, grads_of(&host[i]), 1, host[i].to), TLC_OK);
            push_frames(&device[i], codec);
            for (uint32_t j = 0; j < RANKS; j++)
                require(host[i].to[j].len == device[i].to[j].len &&
                        same(host[i].to[j].data, device[i].to[j].data, host[i].to[j].len));
        }
        for (uint32_t i = 0; i < RANKS && !gather; i++) {
            reduce(host, i, step);
            reduce(device, i, step);
            require(host[i].answer.len == device[i].answer.len &&
                    same(host[i].answer.data, device[i].answer.data, host[i].answer.len));
        }
        for (uint32_t i = 0; i < RANKS; i++) {
            const tlc_status status = finish(host, i, gather);
            require_status(finish(device, i, gather), status);
            failed += status == TLC_ERR_STEP;
            take_back(&device[i]);
            require_equal(&device[i], &host[i]);
        }
    }
    require(failed == RANKS * (gather ? 2 : 3));
    for (uint32_t i = 0; i < RANKS; i++) {
        close_rank(&host[i]);
        close_rank(&device[i]);
    }
}

TEST(same_as_gradients)
{
    for (int gather = 0; gather < 2; gather++) {
        runs("3lc:s=1.5", gather);
        runs("3lc-golomb:s=1.5", gather);
        runs("ternary:s=1.5+quartic", gather);
    }
}

/* The frame of a part, with the random words of the step. */
static tlc_message draw_words(rank *r, const char *codec, const tlc_part *part, uint8_t *frame)
{
    const float *x = r->grad[part->tensor] + part->first;
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    size_t len = 0;

    cfg.seed = part->seed;
    tlc_ctx *ctx = create(&cfg, part->n);
    for (uint64_t step = 0; step <= tlc_allreduce_step(r->object); step++) /* a context counts from 0 */
        len = compress(ctx, x, frame);
    tlc_destroy(ctx);
    return (tlc_message){frame, len};
}

/* Frames that are made elsewhere with the seed of their part have the words of those that the object makes. */
TEST(random_words)
{
    static const char *const random[] = {"qsgd:bits=4", "natural"};

    for (size_t c = 0; c < COUNT(random); c++) {
        rank host = open_rank(1, random[c], 0, 0), device = open_rank(1, random[c], 0, 0);
        tlc_part part = {.struct_size = sizeof part};
        tlc_message frames[PARTS];
        uint64_t last = 0;
        for (uint64_t step = 1; step <= 3; step++) {
            at = (place){.codec = random[c], .i = (size_t)step};
            draw(&host, 0, step);
            draw(&device, 0, step);
            for (size_t i = 0; i < tlc_allreduce_pushed_parts(device.object); i++) {
                require_status(tlc_allreduce_pushed_part(device.object, i, &part), TLC_OK);
                require(part.seed && part.seed != last && !part.residual);
                last = part.seed;
                frames[i] = draw_words(&device, random[c], &part, device.frame[i]);
            }
            require_status(tlc_allreduce_push(host.object, grads_of(&host), 1, host.to), TLC_OK);
            require_status(tlc_allreduce_push_frames(device.object, grads_of(&device), frames, 1, device.to), TLC_OK);
            for (uint32_t j = 0; j < RANKS; j++)
                require(host.to[j].len == device.to[j].len && same(host.to[j].data, device.to[j].data, host.to[j].len));
            require_status(tlc_allreduce_cancel(host.object), TLC_OK);
            require_status(tlc_allreduce_cancel(device.object), TLC_OK);
        }
        require_status(tlc_allreduce_pulled_part(device.object, 0, &part), TLC_OK);
        require(!part.seed);
        close_rank(&host);
        close_rank(&device);
    }
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

TEST(refusals)
{
    static const float huge[MIDDLE] = {INFINITY};
    rank r = open_rank(0, "3lc-golomb", 0, 1);
    const void *grads[TENSORS] = {r.grad[0], NULL, r.grad[2]};
    const size_t parts = tlc_allreduce_pushed_parts(r.object);
    tlc_part part = {.struct_size = sizeof part}, middle = {0};
    tlc_message frames[PARTS] = {{NULL, 0}};
    size_t at_part = 0;

    at = (place){.note = "refusals"};
    draw(&r, 0, 1);
    for (size_t i = 0; i < parts; i++) {
        require_status(tlc_allreduce_pushed_part(r.object, i, &part), TLC_OK);
        if (part.tensor == 1) {
            at_part = i;
            middle = part;
        }
    }
    require(middle.n == MIDDLE);
    require_status(tlc_allreduce_pushed_part(r.object, parts, &part), TLC_ERR_PARAM);
    require_status(tlc_allreduce_pushed_part(r.object, 0, NULL), TLC_ERR_PARAM);
    require_status(tlc_allreduce_pushed_part(NULL, 0, &part), TLC_ERR_PARAM);
    require(tlc_allreduce_pushed_parts(NULL) == 0);
    require_status(tlc_allreduce_push_frames(NULL, grads, frames, 1, r.to), TLC_ERR_PARAM);
    require_status(tlc_allreduce_push_frames(r.object, NULL, frames, 1, r.to), TLC_ERR_PARAM);
    require_status(tlc_allreduce_push_frames(r.object, grads, NULL, 1, r.to), TLC_ERR_PARAM);
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_PARAM); /* no gradient */
    frames[at_part] = quantize(&r, "3lc", &middle, r.frame[0]);
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_PARAM); /* another codec */
    frames[at_part] = quantize(&r, "3lc-golomb", &middle, r.frame[1]);
    frames[at_part].len--;
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_PARAM); /* cut off */
    frames[at_part].len++;
    middle.n--;
    frames[at_part] = quantize(&r, "3lc-golomb", &middle, r.frame[2]);
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_PARAM); /* another n */
    middle.n++;
    frames[at_part] = (tlc_message){NULL, 5};
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_PARAM);
    for (size_t t = 0; t < TENSORS; t++)
        require(all_bytes(r.residual[t], lengths[t] * sizeof(float), 0));
    frames[at_part] = quantize(&r, "3lc-golomb", &middle, r.frame[1]);
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_OK);
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_ORDER);
    require_status(tlc_allreduce_cancel(r.object), TLC_OK); /* what was pushed comes back, that of frames, too */
    require(!all_bytes(r.residual[1], MIDDLE * sizeof(float), 0));
    grads[1] = huge; /* the frames of a step are not those of the next one */
    require_status(tlc_allreduce_push(r.object, grads, 1, r.to), TLC_OK);
    tlc_outcome found = {.struct_size = sizeof found};
    require_status(tlc_allreduce_outcome(r.object, &found), TLC_OK);
    require(found.cause == TLC_ERR_NONFINITE && found.tensor == 1);
    close_rank(&r);
}
TEST(refusals_of_pulls)
{
    rank ranks[RANKS], gathering = open_rank(0, "3lc", 1, 0);
    tlc_message from[RANKS], frames[PARTS];
    tlc_part part = {.struct_size = sizeof part};
    tlc_outcome found = {.struct_size = sizeof found};

    at = (place){.note = "refusals of pulls"};
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = open_rank(i, "3lc", 0, 0);
        draw(&ranks[i], i, 1);
        require_status(tlc_allreduce_push(ranks[i].object, grads_of(&ranks[i]), 1, ranks[i].to), TLC_OK);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        reduce(ranks, i, 1);
    for (uint32_t i = 0; i < RANKS; i++)
        from[i] = ranks[i].answer;
    tlc_allreduce *a = ranks[0].object;
    void *out[TENSORS] = {NULL, ranks[0].out[1], NULL}, *all[TENSORS] = {NULL, ranks[0].out[1], ranks[0].out[2]};
    memset(frames, 0xaa, sizeof frames);
    require_status(tlc_allreduce_pull_frames(NULL, from, all, frames), TLC_ERR_PARAM);
    require_status(tlc_allreduce_pull_frames(a, NULL, all, frames), TLC_ERR_PARAM);
    require_status(tlc_allreduce_pull_frames(a, from, NULL, frames), TLC_ERR_PARAM);
    require_status(tlc_allreduce_pull_frames(a, from, all, NULL), TLC_ERR_PARAM);
    require_status(tlc_allreduce_pull_frames(a, from, out, frames), TLC_ERR_PARAM); /* of a small tensor */
    require_status(tlc_allreduce_outcome(a, &found), TLC_OK);
    require(found.tensor == 2);
    require_status(tlc_allreduce_pull(a, from, all), TLC_ERR_PARAM);
    from[1].len--;
    require_status(tlc_allreduce_pull_frames(a, from, all, frames), TLC_ERR_CHECKSUM);
    from[1].len++;
    require(all_bytes(frames, sizeof frames, 0xaa));
    require_status(tlc_allreduce_pulled_part(a, tlc_allreduce_pulled_parts(a), &part), TLC_ERR_PARAM);
    require_status(tlc_allreduce_pulled_part(a, 0, NULL), TLC_ERR_PARAM);
    require_status(tlc_allreduce_pulled_part(NULL, 0, &part), TLC_ERR_PARAM);
    require(tlc_allreduce_pulled_parts(NULL) == 0 && tlc_allreduce_pulled_parts(gathering.object) == 0);
    require_status(tlc_allreduce_pull_frames(a, from, all, frames), TLC_OK);
    require_status(tlc_allreduce_pull_frames(a, from, all, frames), TLC_ERR_ORDER);
    draw(&gathering, 0, 1);
    require_status(tlc_allreduce_push(gathering.object, grads_of(&gathering), 1, gathering.to), TLC_OK);
    require_status(tlc_allreduce_pull_frames(gathering.object, from, all, frames), TLC_ERR_ORDER);
    for (uint32_t i = 0; i < RANKS; i++)
        close_rank(&ranks[i]);
    close_rank(&gathering);
}

TEST(refusals_of_answers)
{
    rank ranks[RANKS], gathering = open_rank(0, "3lc", 1, 0);
    tlc_message from[RANKS], came[PARTS * RANKS], frames[PARTS] = {{NULL, 0}}, to_all = {NULL, 0};
    float factors[PARTS * RANKS], values[LARGE] = {1};
    tlc_part part = {.struct_size = sizeof part};
    size_t p = 0;

    at = (place){.note = "refusals of answers"};
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = open_rank(i, "3lc", 0, 0);
        draw(&ranks[i], i, 1);
        require_status(tlc_allreduce_push(ranks[i].object, grads_of(&ranks[i]), 1, ranks[i].to), TLC_OK);
        from[i] = ranks[i].to[0];
    }
    tlc_allreduce *a = ranks[0].object;
    while (tlc_allreduce_part(a, p, &part) == TLC_OK && part.tensor != 0)
        p++;
    require_status(tlc_allreduce_owned_frames(NULL, from, came, factors), TLC_ERR_PARAM);
    require_status(tlc_allreduce_owned_frames(a, NULL, came, factors), TLC_ERR_PARAM);
    require_status(tlc_allreduce_owned_frames(a, from, NULL, factors), TLC_ERR_PARAM);
    require_status(tlc_allreduce_owned_frames(a, from, came, NULL), TLC_ERR_PARAM);
    require_status(tlc_allreduce_reduce_frames(NULL, from, frames, &to_all), TLC_ERR_PARAM);
    require_status(tlc_allreduce_reduce_frames(a, NULL, frames, &to_all), TLC_ERR_PARAM);
    require_status(tlc_allreduce_reduce_frames(a, from, NULL, &to_all), TLC_ERR_PARAM);
    require_status(tlc_allreduce_reduce_frames(a, from, frames, NULL), TLC_ERR_PARAM);
    frames[p] = make_frame(&ranks[0], "3lc", 1, values, part.n - 1, ranks[0].frame[0]); /* another n */
    require_status(tlc_allreduce_reduce_frames(a, from, frames, &to_all), TLC_ERR_PARAM);
    frames[p] = make_frame(&ranks[0], "3lc-golomb", 1, values, part.n, ranks[0].frame[0]); /* another codec */
    require_status(tlc_allreduce_reduce_frames(a, from, frames, &to_all), TLC_ERR_PARAM);
    require(!to_all.data);
    require_status(tlc_allreduce_owned_frames(a, from, came, factors), TLC_OK);
    frames[p] = make_frame(&ranks[0], "3lc", 1, values, part.n, ranks[0].frame[0]);
    require_status(tlc_allreduce_reduce_frames(a, from, frames, &to_all), TLC_OK);
    require_status(tlc_allreduce_owned_frames(a, from, came, factors), TLC_ERR_ORDER);
    require_status(tlc_allreduce_reduce_frames(a, from, frames, &to_all), TLC_ERR_ORDER);
    require_status(tlc_allreduce_cancel(a), TLC_OK); /* what was left is the caller's alone */
    require(all_bytes(part.residual, part.n * sizeof(float), 0));
    require_status(tlc_allreduce_push(a, grads_of(&ranks[0]), 1, ranks[0].to), TLC_OK);
    require_status(tlc_allreduce_owned_frames(a, from, came, factors), TLC_ERR_STEP); /* those of the step before */
    from[0] = ranks[0].to[0];
    require_status(tlc_allreduce_reduce(a, from, &to_all), TLC_OK);
    tlc_outcome found = {.struct_size = sizeof found};
    require_status(tlc_allreduce_outcome(a, &found), TLC_OK);
    require(found.cause == TLC_ERR_ORDER && found.rank == 1);
    draw(&gathering, 0, 1);
    require_status(tlc_allreduce_push(gathering.object, grads_of(&gathering), 1, gathering.to), TLC_OK);
    require_status(tlc_allreduce_owned_frames(gathering.object, from, came, factors), TLC_ERR_ORDER);
    require_status(tlc_allreduce_reduce_frames(gathering.object, from, frames, &to_all), TLC_ERR_ORDER);
    for (uint32_t i = 0; i < RANKS; i++)
        close_rank(&ranks[i]);
    close_rank(&gathering);
}
