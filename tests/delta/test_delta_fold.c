/* SPDX-License-Identifier: MIT
 *
 * threelc/delta.h: a chain of frames becomes one.
 */
#include "../support/exchange_member.h"
#include "sample.h"

enum { LINKS_MOST = 12 };

/* Weights at each step, and the frames between them. */
typedef struct chain {
    tlc_dtype dtype;
    size_t n, count; /* of frames */
    uint8_t *weights[LINKS_MOST + 1], *frame[LINKS_MOST];
    size_t len[LINKS_MOST];
} chain;

/* kinds: of each step, as sample_move has them; 's': nothing differs; 'b': back to the first weights. */
static chain chain_made(tlc_dtype dtype, size_t n, const char *kinds, const tlc_delta_options *opt)
{
    const size_t size = weights_size(dtype, n);
    chain c = {.dtype = dtype, .n = n, .count = strlen(kinds), .weights = {bytes(size)}};

    fill_weights(n, dtype, c.weights[0], n);
    for (size_t i = 0; i < c.count; i++) {
        c.weights[i + 1] = bytes(size);
        if (kinds[i] == 's' || kinds[i] == 'b')
            memcpy(c.weights[i + 1], c.weights[kinds[i] == 's' ? i : 0], size);
        else
            sample_move(dtype, c.weights[i], c.weights[i + 1], n, (size_t)(kinds[i] - '0'), i + 1);
        c.frame[i] = sample_frame(dtype, c.weights[i], c.weights[i + 1], n, &c.len[i], opt);
    }
    return c;
}

static void chain_discard(chain *c)
{
    for (size_t i = 0; i <= c->count; i++)
        free(c->weights[i]);
    for (size_t i = 0; i < c->count; i++)
        free(c->frame[i]);
}

/* The frames first .. end - 1 as one. */
static uint8_t *folded(const chain *c, size_t first, size_t end, size_t *len, const tlc_delta_options *opt)
{
    size_t bound;
    const void *frames[LINKS_MOST];

    require_status(tlc_delta_fold_bound(c->dtype, c->n, end - first, &bound), TLC_OK);
    uint8_t *dst = bytes(bound);
    for (size_t i = 0; i < c->count; i++)
        frames[i] = c->frame[i];
    require_status(tlc_delta_fold(frames + first, c->len + first, end - first, dst, bound, len, opt), TLC_OK);
    return dst;
}

static int has_raw(const uint8_t *frame, size_t len)
{
    tlc_delta_info info = {.struct_size = sizeof info};

    require_status(tlc_delta_inspect(frame, len, &info), TLC_OK);
    return info.blocks[3] != 0;
}

/* The fold makes the last weights of those before `first`, in the bytes of a frame between the ends, unless a block is
 * raw in one of all these frames. Returns whether the bytes were compared. */
static int require_folds(const chain *c, size_t first, size_t end, const tlc_delta_options *direct)
{
    const size_t size = weights_size(c->dtype, c->n);
    uint8_t *weights = bytes(size);
    size_t len, direct_len;
    uint8_t *expected = sample_frame(c->dtype, c->weights[first], c->weights[end], c->n, &direct_len, direct);
    int raw = has_raw(expected, direct_len);

    for (size_t i = first; i < end; i++)
        raw |= has_raw(c->frame[i], c->len[i]);
    FOR_EACH_ISA(isa)
        for (size_t k = 0; k < runner_count; k++) {
            const tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa, .parallel = runners[k].parallel};
            uint8_t *fold = folded(c, first, end, &len, &opt);
            at.isa = isa;
            at.note = runners[k].name;
            require(raw || (len == direct_len && same(fold, expected, len)));
            memcpy(weights, c->weights[first], size);
            require_status(tlc_delta_apply(fold, len, c->dtype, weights, c->n, NULL), TLC_OK);
            require(same(weights, c->weights[end], size));
            free(fold);
        }
    free(expected);
    free(weights);
    return !raw;
}

TEST(folds)
{
    static const char *const chains[] = {"0", "000000", "0101", "ss", "0sb", "s0s1s", "01b", "030", "2", "01b0", "020"};
    static const size_t sizes[] = {2, 300, BLOCK + 100, 2 * BLOCK + 1000};
    size_t compared = 0, all = 0;

    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t i = 0; i < COUNT(chains); i++)
            for (size_t k = quick() ? 1 : 0; k < (quick() ? 3 : COUNT(sizes)); k++) {
                chain c = chain_made(dtype, sizes[k], chains[i], NULL);
                at = (place){.dtype = dtype, .n = c.n, .i = i};
                compared += (size_t)require_folds(&c, 0, c.count, NULL);
                all++;
                chain_discard(&c);
            }
    require(compared > all / 2);
}

/* The same fold by fold, and all at once. */
TEST(folds_of_folds)
{
    FOR_EACH_WEIGHT_DTYPE(dtype) {
        chain c = chain_made(dtype, BLOCK + 100, "00000000", NULL), halves = c;
        size_t len;
        uint8_t *whole = folded(&c, 0, 8, &len, NULL);

        at = (place){.dtype = dtype, .n = c.n};
        halves.count = 2;
        halves.frame[0] = folded(&c, 0, 3, &halves.len[0], NULL);
        halves.frame[1] = folded(&c, 3, 8, &halves.len[1], NULL);
        size_t again;
        uint8_t *both = folded(&halves, 0, 2, &again, NULL);
        require(again == len && same(both, whole, len));
        free(halves.frame[0]);
        free(halves.frame[1]);
        free(whole);
        free(both);
        chain_discard(&c);
    }
}

/* A frame that has all weights: what came before it does not matter, and the result has all weights, too. */
TEST(without_a_base)
{
    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t full = 0; full < 3; full++) {
            chain c = chain_made(dtype, BLOCK + 100, "0310", NULL);
            const size_t size = weights_size(dtype, c.n);
            size_t len, direct;

            at = (place){.dtype = dtype, .n = c.n, .i = full};
            free(c.frame[full]);
            c.frame[full] = sample_frame(dtype, NULL, c.weights[full + 1], c.n, &c.len[full], NULL);
            uint8_t *fold = folded(&c, 0, 4, &len, NULL);
            uint8_t *expected = sample_frame(dtype, NULL, c.weights[4], c.n, &direct, NULL);
            require(len == direct && same(fold, expected, len));
            uint8_t *weights = bytes(size);
            memset(weights, 7, size);
            require_status(tlc_delta_apply(fold, len, dtype, weights, c.n, NULL), TLC_OK);
            require(same(weights, c.weights[4], size));
            free(fold);
            free(expected);
            free(weights);
            chain_discard(&c);
        }
}

/* Digests are there if both ends have them, of blocks, too. */
TEST(digests)
{
    const tlc_delta_options none = {.struct_size = sizeof none, .without_digests = 1};
    const tlc_delta_options each = {.struct_size = sizeof each, .block_digests = 1};

    FOR_EACH_WEIGHT_DTYPE(dtype) {
        chain c = chain_made(dtype, BLOCK + 100, "0000", &each);
        size_t len, direct;
        uint8_t *fold;

        at = (place){.dtype = dtype, .n = c.n};
        require(require_folds(&c, 0, 4, &each));
        free(c.frame[1]);
        c.frame[1] = sample_frame(dtype, c.weights[1], c.weights[2], c.n, &c.len[1], &none);
        require(require_folds(&c, 0, 4, &each));
        require(require_folds(&c, 0, 2, &none));
        require(require_folds(&c, 1, 4, &none));
        free(c.frame[3]);
        c.frame[3] = sample_frame(dtype, c.weights[3], c.weights[4], c.n, &c.len[3], NULL);
        require(require_folds(&c, 0, 4, NULL));
        fold = folded(&c, 0, 4, &len, &none);
        uint8_t *expected = sample_frame(dtype, c.weights[0], c.weights[4], c.n, &direct, &none);
        require(len == direct && same(fold, expected, len));
        free(fold);
        free(expected);
        chain_discard(&c);
    }
}

/* A frame in which nothing differs, but whose digests do: digests of blocks would not add up to those of the fold. */
TEST(digests_that_differ)
{
    const tlc_delta_options each = {.struct_size = sizeof each, .block_digests = 1};

    for (size_t last = 0; last < 2; last++) {
        chain c = chain_made(TLC_BF16, 1000, last ? "0s" : "s0", &each);
        tlc_delta_info info = {.struct_size = sizeof info};
        const size_t same_one = last ? 1 : 0, digest = 5 + 8 * last;
        size_t len;

        c.frame[same_one][digest] ^= 1; /* of the base of the first, of the result of the second */
        blob_seal(c.frame[same_one], c.len[same_one]);
        uint8_t *fold = folded(&c, 0, 2, &len, NULL);
        at.i = last;
        require_status(tlc_delta_inspect(fold, len, &info), TLC_OK);
        require(info.version == 1 && info.has_digests);
        free(fold);
        chain_discard(&c);
    }
}

TEST(empty)
{
    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (int has_base = 0; has_base < 2; has_base++) {
            size_t len;
            chain c = chain_made(dtype, 0, "ss", NULL);
            at = (place){.dtype = dtype};
            free(c.frame[1]);
            c.frame[1] = sample_frame(dtype, has_base ? c.weights[1] : NULL, c.weights[2], 0, &c.len[1], NULL);
            uint8_t *fold = folded(&c, 0, 2, &len, NULL);
            require(len == c.len[1] && same(fold, c.frame[1], len));
            free(fold);
            chain_discard(&c);
        }
}

/* Nothing is written where a chain is refused, and the message says which frame it was. */
TEST(refused)
{
    chain c = chain_made(TLC_U4, 1000, "000", NULL), other = chain_made(TLC_U4, 998, "0", NULL);
    chain bytes_chain = chain_made(TLC_U8, 1000, "0", NULL);
    char message[200] = "";
    const tlc_delta_options opt = {.struct_size = sizeof opt, .message = message, .message_cap = sizeof message};
    const void *frames[] = {c.frame[0], c.frame[1], c.frame[2]};
    size_t lens[] = {c.len[0], c.len[1], c.len[2]}, bound, len = 7;

    require_status(tlc_delta_fold_bound(TLC_U4, 1000, 3, &bound), TLC_OK);
    uint8_t *dst = bytes(bound);
#define REFUSED(frames, lens, count, dst, cap, status, words)                                                          \
    do {                                                                                                               \
        require_status(tlc_delta_fold(frames, lens, count, dst, cap, &len, &opt), status);                             \
        require_says(message, words);                                                                                  \
        require(len == 7);                                                                                             \
    } while (0)
    REFUSED(frames, lens, 0, dst, bound, TLC_ERR_PARAM, "count is 0");
    REFUSED(NULL, lens, 3, dst, bound, TLC_ERR_PARAM, "frames is NULL");
    REFUSED(frames, NULL, 3, dst, bound, TLC_ERR_PARAM, "lens is NULL");
    REFUSED(frames, lens, 3, NULL, bound, TLC_ERR_PARAM, "dst is NULL");
    REFUSED(frames, lens, 3, dst, bound - 1, TLC_ERR_CAPACITY, "cap is ... tlc_delta_fold_bound is");
    frames[1] = NULL;
    REFUSED(frames, lens, 3, dst, bound, TLC_ERR_PARAM, "frames[1] is NULL, but lens[1] is");
    frames[1] = c.frame[2];
    lens[1] = c.len[2];
    REFUSED(frames, lens, 3, dst, bound, TLC_ERR_BASE, "frames[1] has a base with digest ... the one before it ends");
    frames[1] = other.frame[0];
    lens[1] = other.len[0];
    REFUSED(frames, lens, 3, dst, bound, TLC_ERR_SIZE, "frames[1]: the delta is for 998 weights");
    frames[1] = bytes_chain.frame[0];
    lens[1] = bytes_chain.len[0];
    REFUSED(frames, lens, 3, dst, bound, TLC_ERR_PARAM, "frames[1]: the delta is for u8 weights");
    frames[1] = c.frame[1];
    lens[1] = c.len[1];
    for (size_t i = 0; i < 3; i++)
        for (size_t cut = 1; cut <= lens[i]; cut++) {
            lens[i] -= cut;
            const tlc_status status = tlc_delta_fold(frames, lens, 3, dst, bound, &len, NULL);
            require(status == TLC_ERR_CHECKSUM || status == TLC_ERR_CORRUPT);
            lens[i] += cut;
        }
    frames[1] = NULL; /* what follows the frames is not looked at */
    require_status(tlc_delta_fold(frames, lens, 1, dst, bound, &len, NULL), TLC_OK);
    frames[1] = c.frame[1];
    len = 7;
    c.frame[2][c.len[2] / 2] ^= 4;
    REFUSED(frames, lens, 3, dst, bound, TLC_ERR_CHECKSUM, "frames[2]: the checksum of the delta does not match");
    REFUSED(frames, lens, 1, dst, 10, TLC_ERR_CAPACITY, "cap is 10");
    require_status(tlc_delta_fold_bound(TLC_U4, 1, 3, &bound), TLC_ERR_PARAM);
    require_status(tlc_delta_fold_bound((tlc_dtype)11, 2, 3, &bound), TLC_ERR_PARAM);
    require_status(tlc_delta_fold_bound(TLC_U4, 2, 3, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_fold_bound(TLC_U4, 2, SIZE_MAX, &bound), TLC_ERR_SIZE);
    free(dst);
    chain_discard(&c);
    chain_discard(&other);
    chain_discard(&bytes_chain);
}

/* The capacity is enough, wherever the memory begins, and nothing before or after it is touched. */
TEST(capacity)
{
    arena a;
    size_t bound, len;

    arena_open(&a, 4 << 20);
    FOR_EACH_WEIGHT_DTYPE(dtype) {
        chain c = chain_made(dtype, BLOCK + 100, "222", NULL);
        const void *frames[] = {c.frame[0], c.frame[1], c.frame[2]};
        at = (place){.dtype = dtype, .n = c.n};
        require_status(tlc_delta_fold_bound(dtype, c.n, 3, &bound), TLC_OK);
        for (size_t extra = 0; extra < 8; extra++) {
            uint8_t *dst = arena_take(&a, bound + extra, 1);
            require_status(tlc_delta_fold(frames, c.len, 3, dst, bound + extra, &len, NULL), TLC_OK);
            require(arena_intact(&a));
        }
        chain_discard(&c);
    }
    arena_close(&a);
}
