/* SPDX-License-Identifier: MIT
 *
 * Ranks whose devices quantize, average and decode send the same messages, get the same results and keep the same
 * residuals as ranks that push gradients, also when steps fail.
 */
#include "device_ranks.h"

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
        host[i] = rank_open(i, codec, gather, 0);
        device[i] = rank_open(i, codec, gather, 1);
        for (size_t t = 0; t < TENSORS; t++) {
            memset(host[i].out[t], 0, lengths[t] * sizeof(float));
            memset(device[i].out[t], 0, lengths[t] * sizeof(float));
        }
    }
    for (uint64_t step = 1; step <= STEPS; step++) {
        at = (place){.codec = codec, .i = (size_t)step, .note = gather ? "gather" : "sharded"};
        for (uint32_t i = 0; i < RANKS; i++) {
            rank_draw(&host[i], i, step);
            rank_draw(&device[i], i, step);
            require_status(tlc_allreduce_push(host[i].object, rank_grads(&host[i]), 1, host[i].to), TLC_OK);
            rank_push(&device[i], codec);
            for (uint32_t j = 0; j < RANKS; j++)
                require(host[i].to[j].len == device[i].to[j].len &&
                        same(host[i].to[j].data, device[i].to[j].data, host[i].to[j].len));
        }
        for (uint32_t i = 0; i < RANKS && !gather; i++) {
            rank_reduce(host, i, step);
            rank_reduce(device, i, step);
            require(host[i].answer.len == device[i].answer.len &&
                    same(host[i].answer.data, device[i].answer.data, host[i].answer.len));
        }
        for (uint32_t i = 0; i < RANKS; i++) {
            const tlc_status status = rank_pull(host, i, gather);
            require_status(rank_pull(device, i, gather), status);
            failed += status == TLC_ERR_STEP;
            rank_take_back(&device[i]);
            require_equal(&device[i], &host[i]);
        }
    }
    require(failed == RANKS * (gather ? 2 : 3));
    for (uint32_t i = 0; i < RANKS; i++) {
        rank_close(&host[i]);
        rank_close(&device[i]);
    }
}

TEST(same_as_gradients)
{
    for (int gather = 0; gather < 2; gather++) {
        runs("3lc:s=1.5", gather);
        runs("3lc-golomb:s=1.5", gather);
        runs("ternary:s=1.5+quartic", gather);
        runs("3lc-golomb:s=1.5,block=256", gather);
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
        rank host = rank_open(1, random[c], 0, 0), device = rank_open(1, random[c], 0, 0);
        tlc_part part = {.struct_size = sizeof part};
        tlc_message frames[PARTS];
        uint64_t last = 0;
        for (uint64_t step = 1; step <= 3; step++) {
            at = (place){.codec = random[c], .i = (size_t)step};
            rank_draw(&host, 0, step);
            rank_draw(&device, 0, step);
            for (size_t i = 0; i < tlc_allreduce_pushed_parts(device.object); i++) {
                require_status(tlc_allreduce_pushed_part(device.object, i, &part), TLC_OK);
                require(part.seed && part.seed != last && !part.residual);
                last = part.seed;
                frames[i] = draw_words(&device, random[c], &part, device.frame[i]);
            }
            require_status(tlc_allreduce_push(host.object, rank_grads(&host), 1, host.to), TLC_OK);
            require_status(tlc_allreduce_push_frames(device.object, rank_grads(&device), frames, 1, device.to), TLC_OK);
            for (uint32_t j = 0; j < RANKS; j++)
                require(host.to[j].len == device.to[j].len && same(host.to[j].data, device.to[j].data, host.to[j].len));
            require_status(tlc_allreduce_cancel(host.object), TLC_OK);
            require_status(tlc_allreduce_cancel(device.object), TLC_OK);
        }
        require_status(tlc_allreduce_pulled_part(device.object, 0, &part), TLC_OK);
        require(!part.seed);
        require_status(tlc_allreduce_part(device.object, 0, &part), TLC_OK);
        require(part.seed && part.seed != last);
        rank_close(&host);
        rank_close(&device);
    }
}
