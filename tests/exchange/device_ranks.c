/* SPDX-License-Identifier: MIT */
#include "device_ranks.h"
#include <math.h>

const size_t lengths[TENSORS] = {LARGE, MIDDLE, SMALL};

rank rank_open(uint32_t i, const char *codec, int gather, int has_device)
{
    static const char *const names[TENSORS] = {"large", "middle", "small"};
    tlc_tensor tensors[TENSORS];
    tlc_exchange_config cfg;
    const char *pull = block_of(codec) ? "ternary:s=1.25,block=300+golomb" : NULL; /* NULL: 3lc-golomb */
    rank r = {.pull = pull ? pull : "3lc-golomb", .pull_s = pull ? 1.25f : 1};
    const int keeps = strncmp(codec, "3lc", 3) == 0 || strncmp(codec, "ternary", 7) == 0; /* others keep no residual */

    r.scratch = bytes(tlc_quartic_scratch(codec, LARGE) + tlc_quartic_scratch(r.pull, LARGE));
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
    cfg.pull = pull;
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

void rank_close(rank *r)
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

const void *const *rank_grads(const rank *r)
{
    return (const void *const *)r->grad;
}

/* ---- a device ---------------------------------------------------------------------------------------------------- */

/* The values of a block of n values. */
static size_t block_in(const char *codec, size_t n)
{
    const size_t block = block_of(codec);
    return block && block < n ? block : n;
}

tlc_message rank_frame(const rank *r, const char *codec, float s, float *x, size_t n, uint8_t *frame)
{
    static uint8_t quartic[LARGE];
    static int8_t q[LARGE];
    static float M[LARGE];
    const size_t block = block_in(codec, n);
    size_t size = 0, blocks = 0, len, written;

    for (size_t i = 0; i < n; i += block, size += len, blocks++) {
        const size_t count = n - i < block ? n - i : block;
        require_status(tlc_ternary_encode(x + i, count, s, q, x + i, &M[blocks]), TLC_OK);
        require_status(tlc_quartic_encode(q, count, quartic + size, sizeof quartic - size, &len), TLC_OK);
    }
    require_status(tlc_compress_quartic(quartic, size, M, n, PARAMS(quartic, .codec = codec, .scratch = r->scratch),
                                        frame, 4 * (size_t)LARGE, &written),
                   TLC_OK);
    return (tlc_message){frame, written};
}

tlc_message rank_quantize(rank *r, const char *codec, const tlc_part *part, uint8_t *frame)
{
    float *kept = r->kept[part->tensor] + part->first;

    for (size_t i = 0; i < part->n; i++)
        kept[i] += r->grad[part->tensor][part->first + i];
    return rank_frame(r, codec, 1.5f, kept, part->n, frame);
}

void rank_push(rank *r, const char *codec)
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
        frames[i] = rank_quantize(r, codec, &part, r->frame[i]);
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
static void reduce_on_device(rank *r, const tlc_message *from)
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
        frames[p] = rank_frame(r, r->pull, r->pull_s, sum[p], part.n, r->frame[p]);
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

/* The values of a frame. */
static void decode(const rank *r, tlc_message frame, size_t n, float *values)
{
    static uint8_t quartic[LARGE];
    static int8_t q[LARGE];
    static float scales[LARGE];
    const size_t block = block_in(r->pull, n);
    size_t size = 0, blocks = 0;

    require_status(tlc_decompress_quartic(frame.data, frame.len, n, quartic, sizeof quartic, scales, COUNT(scales),
                                          NULL),
                   TLC_OK);
    for (size_t i = 0; i < n; i += block, blocks++) {
        const size_t count = n - i < block ? n - i : block;
        require_status(tlc_quartic_decode(quartic + size, tlc_quartic_size(count), q, count), TLC_OK);
        require_status(tlc_ternary_decode(q, count, scales[blocks], values + i), TLC_OK);
        size += tlc_quartic_size(count);
    }
}

/* The device decodes the large tensor, the object the others: of the middle one there is no frame then. */
static tlc_status pull_on_device(rank *r, const tlc_message *from)
{
    void *out[TENSORS] = {NULL, r->out[1], r->out[2]};
    const size_t parts = tlc_allreduce_pulled_parts(r->object);
    tlc_part part = {.struct_size = sizeof part};
    tlc_message frames[PARTS];
    size_t values = 0;

    require(parts >= 2 && parts <= PARTS);
    const tlc_status status = tlc_allreduce_pull_frames(r->object, from, out, frames);
    for (size_t i = 0; !status && i < parts; i++) {
        require_status(tlc_allreduce_pulled_part(r->object, i, &part), TLC_OK);
        require(part.tensor < 2 && !part.mean && !part.residual && (part.tensor == 0) == (frames[i].len > 0));
        if (part.tensor != 0)
            continue;
        decode(r, frames[i], part.n, r->out[0] + part.first);
        values += part.n;
    }
    require(status || values == LARGE);
    return status;
}

void rank_take_back(rank *r)
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

void rank_draw(rank *r, uint32_t i, uint64_t step)
{
    for (size_t t = 0; t < TENSORS; t++)
        fill(DATA_LAPLACE, step * 100 + i * 10 + t, r->grad[t], lengths[t]);
    if (i == 1 && (step == 3 || step == 5))
        r->grad[2][step] = step == 3 ? NAN : INFINITY;
}

tlc_status rank_pull(rank *ranks, uint32_t i, int gather)
{
    tlc_message from[RANKS];

    for (uint32_t j = 0; j < RANKS; j++)
        from[j] = gather ? ranks[j].to[i] : ranks[j].answer;
    return gather || !ranks[i].kept[0] ? tlc_allreduce_pull(ranks[i].object, from, (void *const *)ranks[i].out)
                                       : pull_on_device(&ranks[i], from);
}

void rank_reduce(rank *ranks, uint32_t i, uint64_t step)
{
    tlc_message from[RANKS];

    for (uint32_t j = 0; j < RANKS; j++)
        from[j] = step == 7 && j == 2 && i == 0 ? (tlc_message){NULL, 0} : ranks[j].to[i];
    if (ranks[i].kept[0])
        reduce_on_device(&ranks[i], from);
    else
        require_status(tlc_allreduce_reduce(ranks[i].object, from, &ranks[i].answer), TLC_OK);
}
