/* SPDX-License-Identifier: MIT
 *
 * The first byte of the input is a kind and a dtype, of gradients or of others. Kind 0: a frame of a delta follows.
 * After an error weights must be unchanged; after a success they are the same on every ISA, and a delta that is made of
 * them must be applied alike. A frame that has a digest of its base is also tried with that of the weights here.
 * Kinds 1 and 2: weights follow, base and next or next alone. They must come out as they went in.
 */
#include "fuzz.h"
#include <threelc/delta.h>

enum { MOST_INPUT = 1 << 16, MOST_VALUES = 1 << 13, DIGESTS = 4, NO_BASE = 8 };

static tlc_dtype dtype; /* of the input */

static uint8_t *compressed(const uint8_t *base, const uint8_t *next, size_t n, tlc_isa isa, size_t *len)
{
    const tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa};
    size_t bound;

    require_status(tlc_delta_bound(dtype, n, &bound), TLC_OK);
    uint8_t *frame = bytes(bound);
    require_status(tlc_delta_compress(dtype, base, next, n, frame, bound, len, &opt), TLC_OK);
    return frame;
}

/* A copy of n weights, which are little-endian in the input, so that they are the same on every machine. */
static uint8_t *weights_of(const uint8_t *src, size_t n)
{
    const size_t size = weights_size(dtype, n);
    uint8_t *copy = bytes(size);

    for (size_t i = 0; i < size; i++) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        copy[i] = src[i];
#else
        const size_t each = weight_bits(dtype) < 8 ? 1 : weight_bits(dtype) / 8;
        copy[i] = src[i / each * each + (each - 1 - i % each)];
#endif
    }
    return copy;
}

/* base NULL: there is none. */
static void round_trip(const uint8_t *base, const uint8_t *next, size_t n)
{
    const size_t size = weights_size(dtype, n);
    size_t len = 0, again = 0;
    uint8_t *frame = compressed(base, next, n, TLC_ISA_SCALAR, &len), *mine = bytes(size);

    fuzz_fold(frame, len, 1);
    FOR_EACH_ISA(isa) {
        const tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa, .parallel = runners[1].parallel};
        uint8_t *other = compressed(base, next, n, isa, &again);
        at.isa = isa;
        require(again == len && same(other, frame, len));
        if (base && size)
            memcpy(mine, base, size);
        require_status(tlc_delta_apply(frame, len, dtype, mine, n, &opt), TLC_OK);
        require(same(mine, next, size));
        free(other);
    }
    free(frame);
    free(mine);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* n as the frame claims it, and the bytes before it ends; 0 if there are too few. */
static size_t claimed(const uint8_t *src, size_t len, uint64_t *n)
{
    const size_t first = len > 1 && src[1] > 1 ? 4 : 3;

    *n = 0;
    for (size_t i = first; i < len && i < first + 10; i++) {
        *n |= (uint64_t)(src[i] & 127) << 7 * (i - first);
        if (src[i] < 128)
            return i + 1;
    }
    return 0;
}

/* The bytes of its head. */
static size_t head_of(const uint8_t *src, size_t len)
{
    uint64_t n;

    return claimed(src, len, &n) + (src[2] & DIGESTS ? src[2] & NO_BASE ? 8 : 16 : 0);
}

/* What else reads a frame, which tlc_delta_apply has given this status: a check, a peek, and parts of the weights.
 * There is one block, or one of each half, so that a part has the same status, but for the base, whose digest is of
 * all. */
static void other_readers(const uint8_t *src, size_t len, const uint8_t *base, const uint8_t *next, size_t n,
                          tlc_status status)
{
    const size_t first = n / 3 & ~(size_t)1, count = n / 2 & ~(size_t)1, start = weights_size(dtype, first);
    const size_t size = weights_size(dtype, count);
    tlc_delta_info info = {.struct_size = sizeof info};
    uint8_t *out = bytes(size), *before = bytes(size);

    require(tlc_delta_check(src, len, dtype, base, n, NULL) == status);
    const tlc_status peeked = tlc_delta_peek(src, len, &info);
    require(!peeked || status);
    for (size_t i = 0; i < TLC_DELTA_HEAD_MAX && i < len; i++)
        require(!tlc_delta_peek(src, i, &info) == (!peeked && i >= head_of(src, len)));
    memset(out, 7, size);
    memset(before, 7, size);
    const tlc_status part = tlc_delta_apply_range(src, len, dtype, base + start, out, n, first, count, NULL);
    require(!count || part == (status == TLC_ERR_BASE ? TLC_OK : status));
    require(part ? same(out, before, size) : status || same(out, next + start, size));
    free(out);
    free(before);
}

static tlc_status one_frame(const uint8_t *src, size_t len)
{
    uint64_t claim;
    (void)claimed(src, len, &claim);
    const size_t most = claim <= MOST_VALUES ? (size_t)claim : MOST_VALUES;
    const size_t n = weight_bits(dtype) == 4 ? most / 2 * 2 : most, size = weights_size(dtype, n);
    uint8_t *base = bytes(size), *next = bytes(size), *mine = bytes(size);
    tlc_delta_info info = {.struct_size = sizeof info};

    fill_weights(5, dtype, base, n);
    if (size)
        memcpy(next, base, size);
    at = (place){.n = n, .dtype = dtype, .isa = TLC_ISA_SCALAR};
    tlc_delta_options opt = {.struct_size = sizeof opt, .isa = TLC_ISA_SCALAR};
    tlc_status status = tlc_delta_apply(src, len, dtype, next, n, &opt), inspected = tlc_delta_inspect(src, len, &info);
    fuzz_fold_number(status);
    require(status == TLC_ERR_SIZE || status == TLC_ERR_PARAM || inspected == (status == TLC_ERR_BASE ? 0 : status));
    require(!status || same(next, base, size));
    FOR_EACH_ISA(isa) {
        at.isa = opt.isa = isa;
        opt.parallel = runners[1].parallel;
        if (size)
            memcpy(mine, base, size);
        require(tlc_delta_apply(src, len, dtype, mine, n, &opt) == status && same(mine, next, size));
    }
    other_readers(src, len, base, next, n, status);
    if (!status) {
        fuzz_fold(next, weight_bits(dtype) < 8 ? size : n, weight_bits(dtype) < 8 ? 1 : weight_bits(dtype) / 8);
        round_trip(base, next, n);
    }
    free(base);
    free(next);
    free(mine);
    return status;
}

static void with_our_base(const uint8_t *data, size_t size)
{
    uint64_t n, digest;
    size_t head = claimed(data, size, &n);

    if (!head || size < head + 20 || n > MOST_VALUES || (weight_bits(dtype) == 4 && n % 2) ||
        (data[2] & (DIGESTS | NO_BASE)) != DIGESTS)
        return;
    uint8_t *frame = bytes(size), *base = bytes(weights_size(dtype, (size_t)n));
    memcpy(frame, data, size);
    fill_weights(5, dtype, base, (size_t)n);
    require_status(tlc_delta_digest(dtype, base, (size_t)n, &digest, NULL), TLC_OK);
    for (size_t i = 0; i < 8; i++)
        frame[head + i] = (uint8_t)(digest >> 8 * i);
    fuzz_with_checksum(frame, size, one_frame);
    free(frame);
    free(base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > MOST_INPUT)
        return 0;
    const unsigned kind = data[0] >> 2 & 3;
    dtype = (tlc_dtype)(data[0] & 16 ? 3 + (data[0] >> 5) : (data[0] & 3) % 3);
    const size_t each = weight_bits(dtype) < 8 ? 1 : weight_bits(dtype) / 8;
    const size_t n = (size - 1) / each / (kind == 1 ? 2 : 1) * (weight_bits(dtype) < 8 ? 2 : 1);
    if (kind) {
        uint8_t *first = weights_of(data + 1, n),
                *second = weights_of(data + 1 + (kind == 1 ? weights_size(dtype, n) : 0), n);
        round_trip(kind == 1 ? first : NULL, second, n);
        free(first);
        free(second);
        return 0;
    }
    fuzz_with_checksum(data + 1, size - 1, one_frame);
    with_our_base(data + 1, size - 1);
    return 0;
}
