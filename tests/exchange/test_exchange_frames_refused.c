/* SPDX-License-Identifier: MIT
 *
 * What tlc_allreduce_push_frames, _owned_frames, _reduce_frames and _pull_frames refuse, and that nothing has changed.
 */
#include "device_ranks.h"
#include <math.h>

TEST(pushes)
{
    static const float huge[MIDDLE] = {INFINITY};
    rank r = rank_open(0, "3lc-golomb", 0, 1);
    const void *grads[TENSORS] = {r.grad[0], NULL, r.grad[2]};
    const size_t parts = tlc_allreduce_pushed_parts(r.object);
    tlc_part part = {.struct_size = sizeof part}, middle = {0};
    tlc_message frames[PARTS] = {{NULL, 0}};
    size_t at_part = 0;

    at = (place){.note = "refusals"};
    rank_draw(&r, 0, 1);
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
    frames[at_part] = rank_quantize(&r, "3lc", &middle, r.frame[0]);
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_PARAM); /* another codec */
    frames[at_part] = rank_quantize(&r, "3lc-golomb", &middle, r.frame[1]);
    frames[at_part].len--;
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_PARAM); /* cut off */
    frames[at_part].len++;
    middle.n--;
    frames[at_part] = rank_quantize(&r, "3lc-golomb", &middle, r.frame[2]);
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_PARAM); /* another n */
    middle.n++;
    frames[at_part] = (tlc_message){NULL, 5};
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_PARAM);
    for (size_t t = 0; t < TENSORS; t++)
        require(all_bytes(r.residual[t], lengths[t] * sizeof(float), 0));
    frames[at_part] = rank_quantize(&r, "3lc-golomb", &middle, r.frame[1]);
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_OK);
    require_status(tlc_allreduce_push_frames(r.object, grads, frames, 1, r.to), TLC_ERR_ORDER);
    require_status(tlc_allreduce_cancel(r.object), TLC_OK); /* what was pushed comes back, that of frames, too */
    require(!all_bytes(r.residual[1], MIDDLE * sizeof(float), 0));
    grads[1] = huge; /* the frames of a step are not those of the next one */
    require_status(tlc_allreduce_push(r.object, grads, 1, r.to), TLC_OK);
    tlc_outcome found = {.struct_size = sizeof found};
    require_status(tlc_allreduce_outcome(r.object, &found), TLC_OK);
    require(found.cause == TLC_ERR_NONFINITE && found.tensor == 1);
    rank_close(&r);
}

TEST(pulls)
{
    rank ranks[RANKS], gathering = rank_open(0, "3lc", 1, 0);
    tlc_message from[RANKS], frames[PARTS];
    tlc_part part = {.struct_size = sizeof part};
    tlc_outcome found = {.struct_size = sizeof found};

    at = (place){.note = "refusals of pulls"};
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = rank_open(i, "3lc", 0, 0);
        rank_draw(&ranks[i], i, 1);
        require_status(tlc_allreduce_push(ranks[i].object, rank_grads(&ranks[i]), 1, ranks[i].to), TLC_OK);
    }
    for (uint32_t i = 0; i < RANKS; i++)
        rank_reduce(ranks, i, 1);
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
    rank_draw(&gathering, 0, 1);
    require_status(tlc_allreduce_push(gathering.object, rank_grads(&gathering), 1, gathering.to), TLC_OK);
    require_status(tlc_allreduce_pull_frames(gathering.object, from, all, frames), TLC_ERR_ORDER);
    for (uint32_t i = 0; i < RANKS; i++)
        rank_close(&ranks[i]);
    rank_close(&gathering);
}

TEST(answers)
{
    rank ranks[RANKS], gathering = rank_open(0, "3lc", 1, 0);
    tlc_message from[RANKS], came[PARTS * RANKS], frames[PARTS] = {{NULL, 0}}, to_all = {NULL, 0};
    float factors[PARTS * RANKS], values[LARGE] = {1};
    tlc_part part = {.struct_size = sizeof part};
    size_t p = 0;

    at = (place){.note = "refusals of answers"};
    for (uint32_t i = 0; i < RANKS; i++) {
        ranks[i] = rank_open(i, "3lc", 0, 0);
        rank_draw(&ranks[i], i, 1);
        require_status(tlc_allreduce_push(ranks[i].object, rank_grads(&ranks[i]), 1, ranks[i].to), TLC_OK);
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
    frames[p] = rank_frame(&ranks[0], "3lc", 1, values, part.n - 1, ranks[0].frame[0]); /* another n */
    require_status(tlc_allreduce_reduce_frames(a, from, frames, &to_all), TLC_ERR_PARAM);
    frames[p] = rank_frame(&ranks[0], "3lc-golomb", 1, values, part.n, ranks[0].frame[0]); /* another codec */
    require_status(tlc_allreduce_reduce_frames(a, from, frames, &to_all), TLC_ERR_PARAM);
    require(!to_all.data);
    require_status(tlc_allreduce_owned_frames(a, from, came, factors), TLC_OK);
    frames[p] = rank_frame(&ranks[0], "3lc", 1, values, part.n, ranks[0].frame[0]);
    require_status(tlc_allreduce_reduce_frames(a, from, frames, &to_all), TLC_OK);
    require_status(tlc_allreduce_owned_frames(a, from, came, factors), TLC_ERR_ORDER);
    require_status(tlc_allreduce_reduce_frames(a, from, frames, &to_all), TLC_ERR_ORDER);
    require_status(tlc_allreduce_cancel(a), TLC_OK); /* what was left is the caller's alone */
    require(all_bytes(part.residual, part.n * sizeof(float), 0));
    require_status(tlc_allreduce_push(a, rank_grads(&ranks[0]), 1, ranks[0].to), TLC_OK);
    require_status(tlc_allreduce_owned_frames(a, from, came, factors), TLC_ERR_STEP); /* those of the step before */
    from[0] = ranks[0].to[0];
    require_status(tlc_allreduce_reduce(a, from, &to_all), TLC_OK);
    tlc_outcome found = {.struct_size = sizeof found};
    require_status(tlc_allreduce_outcome(a, &found), TLC_OK);
    require(found.cause == TLC_ERR_ORDER && found.rank == 1);
    rank_draw(&gathering, 0, 1);
    require_status(tlc_allreduce_push(gathering.object, rank_grads(&gathering), 1, gathering.to), TLC_OK);
    require_status(tlc_allreduce_owned_frames(gathering.object, from, came, factors), TLC_ERR_ORDER);
    require_status(tlc_allreduce_reduce_frames(gathering.object, from, frames, &to_all), TLC_ERR_ORDER);
    for (uint32_t i = 0; i < RANKS; i++)
        rank_close(&ranks[i]);
    rank_close(&gathering);
}
