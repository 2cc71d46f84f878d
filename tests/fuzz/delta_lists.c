/* SPDX-License-Identifier: MIT
 *
 * Deltas without all weights: lists, folds and repairs. The first byte of the input is a kind and a dtype, of gradients
 * or of others, as in delta.c.
 * Kind 0: a frame of a delta follows. What tlc_delta_changes reads of it, in pieces, moves weights as tlc_delta_apply
 * does. tlc_delta_repair leaves the result of the frame, or what it found.
 * Kind 1: frames follow, each after its length. If their fold is made, it does what they do.
 * Kind 2: weights follow, base and next. The frame of the list of what differs is that of both, and moves the base.
 */
#include "fuzz.h"
#include <threelc/delta.h>

enum { MOST_INPUT = 1 << 16, MOST_VALUES = 1 << 13, LINKS_MOST = 6 };

static tlc_dtype dtype; /* of the input */

/* n as a frame claims it, if weights of the test can have it. Returns 0 if they cannot. */
static int claimed(const uint8_t *src, size_t len, size_t *n)
{
    tlc_delta_info info = {.struct_size = sizeof info};

    if (tlc_delta_peek(src, len, &info) || info.n > MOST_VALUES || info.dtype != dtype)
        return 0;
    *n = (size_t)info.n;
    return 1;
}

static size_t value_size(void)
{
    return weight_bits(dtype) < 8 ? 1 : weight_bits(dtype) / 8;
}

/* ---- frames as lists --------------------------------------------------------------------------------------------- */

static uint64_t ordered(uint64_t x, unsigned bits)
{
    return dtype <= TLC_F4_E2M1 && x >> (bits - 1) & 1 ? x ^ (((uint64_t)1 << (bits - 1)) - 1) : x;
}

static uint64_t moved(uint64_t base, uint64_t value, int are_values)
{
    const unsigned bits = weight_bits(dtype);
    const uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;

    if (bits == 64)
        return ((are_values & 2 ? 0 : base >> 32) + (value >> 32)) << 32 |
               (((are_values & 1 ? 0 : base) + value) & UINT32_MAX);
    return are_values ? value & mask : ordered((ordered(base, bits) + value) & mask, bits);
}

/* Moves n weights by what the frame lists between first and end. Returns the status of the last call. */
static tlc_status move_by_list(const uint8_t *src, size_t len, uint8_t *weights, size_t n, size_t first, size_t end)
{
    uint64_t *positions = malloc((end - first + 1) * sizeof *positions);
    uint8_t *values = bytes((end - first) * value_size());
    tlc_delta_piece p = {.struct_size = sizeof p,
                         .next = first,
                         .end = end,
                         .cap = end - first,
                         .positions = positions,
                         .values = values};
    tlc_status status;

    require(positions);
    do {
        const uint64_t from = p.next;
        status = tlc_delta_changes(src, len, dtype, n, &p, NULL);
        if (status)
            break;
        require(p.k <= p.cap && p.next >= from && (p.next > from || from == end));
        for (size_t j = 0; j < p.k; j++) {
            const size_t i = (size_t)p.positions[j];
            const uint64_t value = weight_bits(dtype) == 4 ? values[j] : weight_at(dtype, values, j);
            require(i >= first && i < end && (!j || p.positions[j - 1] < i));
            put_weight(dtype, weights, i, moved(weight_at(dtype, weights, i), value, p.are_values));
        }
    } while (p.next < end);
    free(positions);
    free(values);
    return status;
}

static tlc_status list_frame(const uint8_t *src, size_t len, size_t n, const uint8_t *base, uint8_t *next,
                             uint8_t *mine)
{
    const size_t size = weights_size(dtype, n), first = n / 3 & ~(size_t)1, end = n / 4 * 3 & ~(size_t)1;

    const tlc_status applied = tlc_delta_apply(src, len, dtype, next, n, NULL);
    const tlc_status listed = move_by_list(src, len, mine, n, 0, n);
    fuzz_fold_number(listed);
    require(listed == (applied == TLC_ERR_BASE ? TLC_OK : applied));
    require(applied || same(mine, next, size));
    if (size)
        memcpy(mine, base, size);
    if (first < end && !move_by_list(src, len, mine, n, first, end) && !applied)
        for (size_t i = 0; i < n; i++)
            require(weight_at(dtype, mine, i) == weight_at(dtype, i >= first && i < end ? next : base, i));
    return listed;
}

static void repair_frame(const uint8_t *src, size_t len, size_t n, const uint8_t *base, uint8_t *mine)
{
    const size_t size = weights_size(dtype, n);
    tlc_delta_info info = {.struct_size = sizeof info};
    uint64_t digest, found[3];

    if (size)
        memcpy(mine, base, size);
    const tlc_status status = tlc_delta_repair(src, len, dtype, mine, n, found, NULL);
    fuzz_fold_number(status);
    if (status) {
        require(same(mine, base, size));
        return;
    }
    require_status(tlc_delta_inspect(src, len, &info), TLC_OK);
    require_status(tlc_delta_digest(dtype, mine, n, &digest, NULL), TLC_OK);
    require(info.version < 3 || digest == info.result_digest || !found[0]);
}

static tlc_status one_frame(const uint8_t *src, size_t len)
{
    size_t n;

    if (!claimed(src, len, &n))
        return TLC_ERR_CORRUPT;
    const size_t size = weights_size(dtype, n);
    uint8_t *base = bytes(size), *next = bytes(size), *mine = bytes(size);
    fill_weights(5, dtype, base, n);
    if (size) {
        memcpy(next, base, size);
        memcpy(mine, base, size);
    }
    at = (place){.n = n, .dtype = dtype};
    const tlc_status status = list_frame(src, len, n, base, next, mine);
    repair_frame(src, len, n, base, mine);
    free(base);
    free(next);
    free(mine);
    return status;
}

/* ---- chains ------------------------------------------------------------------------------------------------------ */

typedef struct chain {
    uint8_t *frame[LINKS_MOST];
    size_t len[LINKS_MOST], count;
} chain;

/* If all frames can be applied to some weights, so can the fold, and it makes the same. */
static void compare_fold(const chain *c, const uint8_t *fold, size_t len, size_t n)
{
    const size_t size = weights_size(dtype, n);
    uint8_t *weights = bytes(size), *mine = bytes(size);
    tlc_status status = TLC_OK;
    tlc_delta_info info = {.struct_size = sizeof info};

    require_status(tlc_delta_inspect(fold, len, &info), TLC_OK);
    require(info.n == n && info.dtype == dtype);
    fill_weights(5, dtype, weights, n);
    fill_weights(5, dtype, mine, n);
    for (size_t i = 0; i < c->count && !status; i++)
        status = tlc_delta_apply(c->frame[i], c->len[i], dtype, weights, n, NULL);
    if (!status) {
        require_status(tlc_delta_apply(fold, len, dtype, mine, n, NULL), TLC_OK);
        require(same(mine, weights, size));
    }
    free(weights);
    free(mine);
}

static void fold_chain(const chain *c)
{
    const void *frames[LINKS_MOST];
    size_t n, bound, len = 0, again = 0;

    if (!c->count || !claimed(c->frame[0], c->len[0], &n))
        return;
    for (size_t i = 0; i < c->count; i++)
        frames[i] = c->frame[i];
    require_status(tlc_delta_fold_bound(dtype, n, c->count, &bound), TLC_OK);
    uint8_t *fold = bytes(bound), *other = bytes(bound);
    at = (place){.n = n, .dtype = dtype};
    const tlc_status status = tlc_delta_fold(frames, c->len, c->count, fold, bound, &len, NULL);
    fuzz_fold_number(status);
    if (!status) {
        const tlc_delta_options opt = {.struct_size = sizeof opt,
                                       .isa = TLC_ISA_SCALAR,
                                       .parallel = runners[1].parallel};
        fuzz_fold(fold, len, 1);
        require_status(tlc_delta_fold(frames, c->len, c->count, other, bound, &again, &opt), TLC_OK);
        require(again == len && same(other, fold, len));
        compare_fold(c, fold, len, n);
    }
    free(fold);
    free(other);
}

/* sealed: frames get the right checksums. */
static void one_chain(const uint8_t *data, size_t size, int sealed)
{
    fuzz_input in = {data, data + size};
    chain c = {.count = 0};

    while (in.at < in.end && c.count < LINKS_MOST) {
        const size_t wanted = take_number(&in, 2), left = (size_t)(in.end - in.at);
        const size_t len = wanted < left ? wanted : left;
        c.frame[c.count] = bytes(len);
        if (len)
            memcpy(c.frame[c.count], in.at, len);
        if (sealed)
            fuzz_seal(c.frame[c.count], len);
        c.len[c.count++] = len;
        in.at += len;
    }
    fold_chain(&c);
    for (size_t i = 0; i < c.count; i++)
        free(c.frame[i]);
}

/* ---- lists of weights -------------------------------------------------------------------------------------------- */

/* A copy of n weights, which are little-endian in the input, so that they are the same on every machine. */
static uint8_t *weights_of(const uint8_t *src, size_t n)
{
    const size_t each = weight_bits(dtype) < 8 ? 1 : weight_bits(dtype) / 8, size = weights_size(dtype, n);
    uint8_t *copy = bytes(size);

    for (size_t i = 0; i < n; i++) {
        uint64_t x = 0;
        for (size_t k = each; k--;)
            x = x << 8 | src[weight_bits(dtype) == 4 ? i / 2 : i * each + k];
        put_weight(dtype, copy, i, weight_bits(dtype) == 4 ? x >> i % 2 * 4 & 15 : x);
    }
    return copy;
}

static void list_weights(const uint8_t *base, const uint8_t *next, size_t n)
{
    const tlc_delta_options plain = {.struct_size = sizeof plain, .without_digests = 1};
    const size_t size = weights_size(dtype, n);
    uint64_t *positions = malloc((n + 1) * sizeof *positions);
    uint8_t *before = bytes(n * value_size()), *after = bytes(n * value_size()), *mine = bytes(size);
    size_t k = 0, bound, direct_bound, len, direct_len;
    tlc_delta_info info = {.struct_size = sizeof info};

    require(positions);
    for (size_t i = 0; i < n; i++) {
        const uint64_t x = weight_at(dtype, base, i), y = weight_at(dtype, next, i);
        if (x == y)
            continue;
        if (weight_bits(dtype) == 4) {
            before[k] = (uint8_t)x;
            after[k] = (uint8_t)y;
        } else {
            put_weight(dtype, before, k, x);
            put_weight(dtype, after, k, y);
        }
        positions[k++] = i;
    }
    require_status(tlc_delta_changes_bound(dtype, k, n, &bound), TLC_OK);
    require_status(tlc_delta_bound(dtype, n, &direct_bound), TLC_OK);
    uint8_t *frame = bytes(bound), *direct = bytes(direct_bound);
    require_status(tlc_delta_from_changes(dtype, positions, before, after, k, n, NULL, frame, bound, &len, NULL),
                   TLC_OK);
    require_status(tlc_delta_compress(dtype, base, next, n, direct, direct_bound, &direct_len, &plain), TLC_OK);
    require_status(tlc_delta_inspect(direct, direct_len, &info), TLC_OK);
    require(info.blocks[3] || (len == direct_len && same(frame, direct, len)));
    fuzz_fold(frame, len, 1);
    if (size)
        memcpy(mine, base, size);
    require_status(tlc_delta_apply(frame, len, dtype, mine, n, NULL), TLC_OK);
    require(same(mine, next, size));
    free(positions);
    free(before);
    free(after);
    free(mine);
    free(frame);
    free(direct);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > MOST_INPUT)
        return 0;
    const unsigned kind = data[0] >> 2 & 3;
    dtype = (tlc_dtype)(data[0] & 16 ? 3 + (data[0] >> 5) : (data[0] & 3) % 3);
    if (kind == 2) {
        const size_t each = weight_bits(dtype) < 8 ? 1 : weight_bits(dtype) / 8, half = (size - 1) / 2 / each;
        const size_t n = half * (weight_bits(dtype) == 4 ? 2 : 1);
        uint8_t *base = weights_of(data + 1, n), *next = weights_of(data + 1 + half * each, n);
        list_weights(base, next, n);
        free(base);
        free(next);
    } else if (kind == 1) {
        one_chain(data + 1, size - 1, 0);
        one_chain(data + 1, size - 1, 1);
    } else
        fuzz_with_checksum(data + 1, size - 1, one_frame);
    return 0;
}
