/* SPDX-License-Identifier: MIT
 *
 * threelc/delta.h and bytes that are no delta, or were altered: weights stay as they are, and nothing else is read.
 */
#include "../support/exchange_member.h"
#include "../support/support.h"
#include <threelc/delta.h>

enum { SMALL = 300, LARGE = 65536 + 50, CHECKSUM = 4 };

typedef struct sample {
    tlc_dtype dtype;
    size_t n, len;
    uint8_t *base, *frame;
    arena src, weights;
} sample;

static const size_t steps_of[] = {1, 40, 3000, 0}; /* the largest change; 0: no base */

static void open_sample(sample *s, tlc_dtype dtype, size_t n, size_t steps, unsigned one_in)
{
    size_t bound;
    rng r = {n + steps};

    s->dtype = dtype;
    s->n = n;
    s->base = bytes(weights_size(dtype, n));
    uint8_t *next = bytes(weights_size(dtype, n));
    fill_weights(n, dtype, s->base, n);
    for (size_t i = 0; i < n; i++) {
        uint64_t x = weight_at(dtype, s->base, i);
        if (!rng_below(&r, one_in))
            x += rng_below(&r, 2 * steps + 1) - steps;
        put_weight(dtype, next, i, x);
    }
    require_status(tlc_delta_bound(dtype, n, &bound), TLC_OK);
    s->frame = bytes(bound);
    require_status(tlc_delta_compress(dtype, steps ? s->base : NULL, next, n, s->frame, bound, &s->len, NULL), TLC_OK);
    arena_open(&s->src, bound);
    arena_open(&s->weights, weights_size(dtype, n));
    free(next);
}

static void close_sample(sample *s)
{
    free(s->base);
    free(s->frame);
    arena_close(&s->src);
    arena_close(&s->weights);
}

/* Applies len bytes, between guard pages. After an error the weights are as they were. */
static tlc_status apply(sample *s, const uint8_t *frame, size_t len)
{
    const size_t size = weights_size(s->dtype, s->n);
    const uint8_t *src = arena_copy(&s->src, frame, len, 1);
    uint8_t *weights = arena_copy(&s->weights, s->base, size, 1);
    tlc_delta_info info = {.struct_size = sizeof info};
    tlc_status status = tlc_delta_apply(src, len, s->dtype, weights, s->n, NULL);
    tlc_status inspected = tlc_delta_inspect(src, len, &info);

    require(arena_intact(&s->weights));
    if (status)
        require(same(weights, s->base, size));
    if (status != TLC_ERR_SIZE && status != TLC_ERR_PARAM && status != TLC_ERR_BASE)
        require(inspected == status);
    else
        require(!inspected || status != TLC_ERR_BASE);
    return status;
}

static void each_sample(void (*test)(sample *s))
{
    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t i = 0; i < COUNT(steps_of); i++)
            for (unsigned one_in = 1; one_in < 50; one_in += 24) {
                sample s;
                at = (place){.dtype = dtype, .n = SMALL, .i = i, .note = one_in == 1 ? "all" : "some"};
                open_sample(&s, dtype, SMALL, steps_of[i], one_in);
                test(&s);
                close_sample(&s);
            }
}

static void truncate_sample(sample *s)
{
    for (size_t len = 0; len < s->len; len++)
        require(apply(s, s->frame, len));
    s->frame[s->len] = 0;
    require(apply(s, s->frame, s->len + 1));
    require_status(apply(s, s->frame, s->len), TLC_OK);
}

TEST(truncated)
{
    each_sample(truncate_sample);
}

/* Cut, and with a checksum that fits. */
static void cut_sample(sample *s)
{
    uint8_t *frame = bytes(s->len);

    for (size_t len = CHECKSUM + 4; len < s->len; len++) {
        memcpy(frame, s->frame, len);
        blob_seal(frame, len);
        require(apply(s, frame, len));
    }
    free(frame);
}

TEST(cut)
{
    each_sample(cut_sample);
}

static void alter_sample(sample *s)
{
    for (size_t i = 0; i < s->len; i++)
        for (int bit = 0; bit < 8; bit++) {
            s->frame[i] ^= (uint8_t)(1 << bit);
            require(apply(s, s->frame, s->len));
            s->frame[i] ^= (uint8_t)(1 << bit);
        }
}

TEST(altered)
{
    each_sample(alter_sample);
}

/* With a checksum that fits, some altered frames are frames. Digests cannot be altered so. */
static void forge_sample(sample *s)
{
    size_t accepted = 0;
    uint8_t *frame = bytes(s->len);
    rng r = {s->n};

    for (size_t i = 0; i < s->len - CHECKSUM; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(frame, s->frame, s->len);
            frame[i] ^= (uint8_t)(1 << bit);
            if (bit == 7 && i > 4) /* several changes */
                frame[4 + rng_below(&r, s->len - CHECKSUM - 4)] = (uint8_t)rng_next(&r);
            blob_seal(frame, s->len);
            accepted += !apply(s, frame, s->len);
        }
    require(accepted > 0 && accepted < 8 * s->len);
    free(frame);
}

TEST(forged)
{
    each_sample(forge_sample);
}

/* Any change of the base. */
TEST(wrong_base)
{
    sample s;

    open_sample(&s, TLC_BF16, LARGE, 1, 20);
    for (size_t i = 0; i < 2 * (size_t)LARGE; i += quick() ? 20011 : 1009) {
        s.base[i] ^= 1;
        require_status(apply(&s, s.frame, s.len), TLC_ERR_BASE);
        s.base[i] ^= 1;
    }
    require_status(apply(&s, s.frame, s.len), TLC_OK);
    close_sample(&s);
}

/* Frames that say that they are huge are refused without work for each weight. */
TEST(huge)
{
    static const uint8_t n[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f};
    sample s;
    uint8_t frame[64] = {'D', 1, 0};

    open_sample(&s, TLC_F32, SMALL, 1, 20);
    for (unsigned flags = 0; flags < 32; flags++) {
        const size_t len = 3 + sizeof n + (flags & 4 ? (flags & 8 ? 8 : 16) : 0) + CHECKSUM;
        tlc_delta_info info = {.struct_size = sizeof info};
        frame[2] = (uint8_t)flags;
        memcpy(frame + 3, n, sizeof n);
        blob_seal(frame, len);
        require(apply(&s, frame, len));
        /* "nothing differs" may be said of any number of weights */
        tlc_status status = tlc_delta_inspect(frame, len, &info);
        require(status == TLC_OK ? (flags & 24) == 16 : status == TLC_ERR_CORRUPT);
    }
    close_sample(&s);
}
