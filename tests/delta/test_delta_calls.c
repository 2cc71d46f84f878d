/* SPDX-License-Identifier: MIT
 *
 * threelc/delta.h: arguments of the calls that read, sizes, digests as delta.h defines them, and what frames tell.
 */
#include "../support/exchange_member.h"
#include "../support/float_modes.h"
#include <threelc/delta.h>
#include <xxhash.h>

enum { BLOCK = 65536, PIECE = 4096, CHECKSUM = 4, SOME = 300, MOST = 35 * BLOCK };

/* A frame of these weights. *frame: to be freed. */
static size_t compressed(tlc_dtype dtype, const uint8_t *base, const uint8_t *next, size_t n,
                         const tlc_delta_options *opt, uint8_t **frame)
{
    size_t bound, len = 0;

    require_status(tlc_delta_bound(dtype, n, &bound), TLC_OK);
    *frame = bytes(bound);
    require_status(tlc_delta_compress(dtype, base, next, n, *frame, bound, &len, opt), TLC_OK);
    return len;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* The longest head, four bytes a block, two digests of each BLOCK weights, the weights, and the checksum. */
TEST(bounds)
{
    static const size_t sizes[] = {0, 2, 1000, BLOCK - 2, BLOCK, BLOCK + 2, 5 * BLOCK};

    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t i = 0; i < COUNT(sizes); i++) {
            const size_t n = sizes[i], pairs = (n + BLOCK - 1) / BLOCK;
            const size_t blocks = pairs * (weight_bits(dtype) == 64 ? 2 : 1);
            size_t bound = 0;
            at = (place){.dtype = dtype, .n = n};
            require_status(tlc_delta_bound(dtype, n, &bound), TLC_OK);
            require(bound == TLC_DELTA_HEAD_MAX + 4 * blocks + 16 * pairs + weights_size(dtype, n) + CHECKSUM);
        }
}

/* The most weights of a byte have a bound of all bytes but one: that of their blocks leaves no other. */
TEST(largest_bound)
{
    size_t least = 0, most = SIZE_MAX, bound = 0; /* the answer is from least on, and below most */

    while (most - least > 1) {
        const size_t n = least + (most - least) / 2;
        const tlc_status status = tlc_delta_bound(TLC_U8, n, &bound);
        require(!status || status == TLC_ERR_SIZE);
        *(status ? &most : &least) = n;
    }
    require_status(tlc_delta_bound(TLC_U8, least, &bound), TLC_OK);
    require(bound == SIZE_MAX - 1);
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

/* As delta.h says it. */
static uint64_t digest_of(tlc_dtype dtype, const uint8_t *weights, size_t n)
{
    const size_t each = weight_bits(dtype) < 8 ? 1 : weight_bits(dtype) / 8;
    uint64_t sum = 0;

    for (size_t first = 0; first < n; first += PIECE) {
        const size_t count = n - first < PIECE ? n - first : PIECE, size = weights_size(dtype, count);
        uint8_t piece[8 * PIECE];
        memcpy(piece, weights + weights_size(dtype, first), size);
        /* cppcheck-suppress knownConditionTrueFalse ; count is not 0 */
        for (size_t i = 0; each > 1 && i < count; i++)
            for (size_t k = 0; k < each; k++)
                piece[each * i + k] = (uint8_t)(weight_at(dtype, weights, first + i) >> 8 * k);
        sum += XXH3_64bits_withSeed(piece, size, first / PIECE);
    }
    return sum;
}

/* Of n weights, in the calls that make them. */
static void require_digests(tlc_dtype dtype, const uint8_t *base, const uint8_t *next, size_t n)
{
    const uint64_t of_base = digest_of(dtype, base, n), of_next = digest_of(dtype, next, n);

    for (size_t i = 0; i < runner_count; i++) {
        const tlc_delta_options opt = {.struct_size = sizeof opt, .parallel = runners[i].parallel};
        uint64_t digest = 1;
        at = (place){.dtype = dtype, .n = n, .note = runners[i].name};
        require_status(tlc_delta_digest(dtype, base, n, &digest, &opt), TLC_OK);
        require(digest == of_base);
        for (size_t cut = 0; cut <= n; cut += PIECE * (1 + i)) { /* in two parts */
            const size_t size = weights_size(dtype, cut);
            uint64_t rest = 1;
            require_status(tlc_delta_digest_part(dtype, base, cut, 0, &digest, &opt), TLC_OK);
            require_status(tlc_delta_digest_part(dtype, base + size, n - cut, cut, &rest, &opt), TLC_OK);
            require(digest + rest == of_base);
        }
        for (int has_base = 0; has_base < 2 && i % 3 == 0; has_base++) { /* alone, and on threads */
            tlc_delta_info info = {.struct_size = sizeof info};
            uint8_t *frame;
            const size_t len = compressed(dtype, has_base ? base : NULL, next, n, &opt, &frame);
            require_status(tlc_delta_inspect(frame, len, &info), TLC_OK);
            require(info.base_digest == (has_base ? of_base : 0) && info.result_digest == of_next);
            free(frame);
        }
    }
}

TEST(digests)
{
    static const size_t sizes[] = {0, 2, PIECE - 2, PIECE, PIECE + 2, 2 * PIECE, BLOCK, BLOCK + PIECE, 3 * BLOCK + 6};
    uint8_t *base = bytes(8 * (size_t)MOST), *next = bytes(8 * (size_t)MOST);

    FOR_EACH_WEIGHT_DTYPE(dtype) {
        fill_weights(1, dtype, base, MOST);
        fill_weights(2, dtype, next, MOST);
        for (size_t i = 0; i < COUNT(sizes); i++)
            require_digests(dtype, base, next, sizes[i]);
        if (dtype == TLC_U4) /* ranges of two blocks and more */
            require_digests(dtype, base, next, MOST);
    }
    free(base);
    free(next);
}

/* ---- what frames tell -------------------------------------------------------------------------------------------- */

/* A block of each kind, in turn; changes stay in the lower halves of weights of 64 bits. */
TEST(kinds)
{
    enum { N = 4 * BLOCK, STEP = 100 };
    uint8_t *base = bytes(8 * N), *next = bytes(8 * N), *frame;

    for (int digests = 0; digests < 2; digests++)
        FOR_EACH_WEIGHT_DTYPE(dtype) {
            const int halves = weight_bits(dtype) == 64;
            const tlc_delta_options opt = {.struct_size = sizeof opt, .without_digests = !digests};
            tlc_delta_info info = {.struct_size = sizeof info};
            rng r = {1};
            at = (place){.dtype = dtype, .n = N, .note = digests ? "with digests" : "without"};
            for (size_t i = 0; i < N; i++) {
                const uint64_t x = rng_next(&r) >> 32;
                const uint64_t y = i / BLOCK == 1   ? x ^ (i % STEP == 0)
                                   : i / BLOCK == 2 ? x ^ (rng_next(&r) >> 63)
                                   : i / BLOCK == 3 ? rng_next(&r) >> 32
                                                    : x;
                put_weight(dtype, base, i, x);
                put_weight(dtype, next, i, y);
            }
            const size_t len = compressed(dtype, base, next, N, &opt, &frame);
            require_status(tlc_delta_inspect(frame, len, &info), TLC_OK);
            require(info.blocks[0] == (halves ? 5 : 1) && info.blocks[1] == 1 && info.blocks[2] == 1 &&
                    info.blocks[3] == 1);
            require(info.changed == 2 * BLOCK / STEP - BLOCK / STEP);
            require(info.has_base == 1 && info.has_digests == digests);
            require((info.base_digest != 0) == digests && (info.result_digest != 0) == digests);
            free(frame);
            require(compressed(dtype, base, base, N, &opt, &frame) < 40);
            free(frame);
        }
    free(base);
    free(next);
}

/* So that what a call does not set itself is not what the last one left. */
__attribute__((noinline)) static void fill_stack(void)
{
    volatile uint8_t bytes_below[16384];

    for (size_t i = 0; i < sizeof bytes_below; i++)
        bytes_below[i] = 0xa5;
}

/* Heads that no caller can ask for, since no weights are of their dtype or number. */
TEST(heads)
{
    static const struct {
        tlc_status status;
        uint8_t size, bytes[16];
    } heads[] = {
        {TLC_OK, 4, {'D', 1, 0x12, 7}},
        {TLC_OK, 5, {'D', 2, 0x10, 3, 7}},
        {TLC_OK, 5, {'D', 2, 0x10, 10, 7}},
        {TLC_OK, 5, {'D', 2, 0x10, 7, 8}},
        {TLC_ERR_CORRUPT, 4, {'D', 1, 0x13, 7}}, /* dtypes of no version */
        {TLC_ERR_CORRUPT, 5, {'D', 2, 0x10, 0, 7}},
        {TLC_ERR_CORRUPT, 5, {'D', 2, 0x10, 1, 7}},
        {TLC_ERR_CORRUPT, 5, {'D', 2, 0x10, 2, 7}},
        {TLC_ERR_CORRUPT, 5, {'D', 2, 0x10, 11, 7}},
        {TLC_ERR_CORRUPT, 5, {'D', 2, 0x10, 255, 7}},
        {TLC_ERR_CORRUPT, 5, {'D', 2, 0x10, 5, 7}}, /* odd, and two weights a byte */
        {TLC_ERR_CORRUPT, 5, {'D', 2, 0x10, 7, 7}},
        {TLC_ERR_CORRUPT, 5, {'D', 3, 0x10, 7, 8}}, /* digests of no blocks */
        {TLC_ERR_CORRUPT, 5, {'D', 3, 0x34, 7, 8}},
        {TLC_ERR_CORRUPT, 13, {'D', 2, 0x10, 10, 128, 128, 128, 128, 128, 128, 128, 128, 32}}, /* 2^64 bytes */
        /* 2^32 + 2 weights of 4 bits, which are fewer bytes than machines of 32 bits can have */
        {sizeof(size_t) > 4 ? TLC_OK : TLC_ERR_CORRUPT, 9, {'D', 2, 0x10, 7, 130, 128, 128, 128, 16}},
        {TLC_ERR_VERSION, 5, {'D', 0, 0x10, 7, 8}},
        {TLC_ERR_VERSION, 5, {'D', 4, 0x10, 7, 8}},
        {TLC_ERR_CORRUPT, 5, {'d', 2, 0x10, 7, 8}},
    };

    for (size_t i = 0; i < COUNT(heads); i++) {
        const size_t len = heads[i].size + CHECKSUM;
        tlc_delta_info info = {.struct_size = sizeof info};
        uint8_t frame[24];
        at = (place){.i = i};
        memcpy(frame, heads[i].bytes, heads[i].size);
        blob_seal(frame, len);
        require_status(tlc_delta_inspect(frame, len, &info), heads[i].status);
        fill_stack();
        require_status(tlc_delta_peek(frame, heads[i].size, &info), heads[i].status);
        require(heads[i].status || (info.blocks[0] == 0 && info.has_base == 1 && info.has_digests == 0));
        require(heads[i].status || (info.base_digest == 0 && info.result_digest == 0));
    }
}

/* No weights, and no digests: a byte less is too short for any delta. */
TEST(shortest)
{
    uint8_t frame[8] = {'D', 1, 0x1a, 0};
    tlc_delta_info info = {.struct_size = sizeof info};

    blob_seal(frame, sizeof frame);
    require_status(tlc_delta_inspect(frame, sizeof frame, &info), TLC_OK);
    require(info.n == 0 && info.dtype == TLC_BF16 && info.has_base == 0);
    require_status(tlc_delta_inspect(frame, sizeof frame - 1, &info), TLC_ERR_CORRUPT);
    frame[3] = 1;
    require_status(tlc_delta_inspect(frame, sizeof frame, &info), TLC_ERR_CHECKSUM);
}

/* ---- float modes ------------------------------------------------------------------------------------------------- */

#define AROUND(call)                                                                                                   \
    do {                                                                                                               \
        (void)mode_around(mode, 1);                                                                                    \
        const tlc_status status = call;                                                                                \
        const int is_left = mode_around(mode, 0);                                                                      \
        require_status(status, TLC_OK);                                                                                \
        require(is_left);                                                                                              \
    } while (0)

/* Calls leave the mode of the caller as it was, and it changes no byte. */
TEST(float_modes)
{
    enum { N = 3000, SIZE = 4 * N, ROOM = 4 * SIZE };
    const tlc_delta_options opt = {.struct_size = sizeof opt, .block_digests = 1};
    uint8_t base[SIZE], next[SIZE], out[SIZE], frame[ROOM], other[ROOM];
    const void *const frames[] = {frame};
    uint64_t positions[N];
    size_t len = 0, written = 0;
    rng r = {1};

    fill_weights(1, TLC_F32, base, N);
    for (size_t i = 0; i < N; i++)
        put_weight(TLC_F32, next, i, weight_at(TLC_F32, base, i) + (rng_below(&r, 10) ? 0 : rng_below(&r, 99)));
    require_status(tlc_delta_compress(TLC_F32, base, next, N, frame, sizeof frame, &len, &opt), TLC_OK);
    for (float_mode mode = MODE_DEFAULT; mode < MODE_COUNT; mode++) {
        tlc_delta_info info = {.struct_size = sizeof info};
        if (!has_mode(mode))
            continue;
        at = (place){.dtype = TLC_F32, .n = N, .note = mode_name[mode]};
        tlc_delta_piece piece = {sizeof piece, 0, N, 0, positions, out, N, 0, 0};
        AROUND(tlc_delta_compress(TLC_F32, base, next, N, other, sizeof other, &written, &opt));
        require(written == len && same(other, frame, len));
        AROUND(tlc_delta_fold(frames, &len, 1, other, sizeof other, &written, &opt));
        require(written == len && same(other, frame, len));
        AROUND(tlc_delta_changes(frame, len, TLC_F32, N, &piece, NULL));
        require(piece.k > 0 && piece.next == N);
        AROUND(tlc_delta_from_changes(TLC_F32, positions, base, next, 2, N, NULL, other, sizeof other, &written, NULL));
        AROUND(tlc_delta_check(frame, len, TLC_F32, base, N, NULL));
        AROUND(tlc_delta_inspect(frame, len, &info));
        AROUND(tlc_delta_apply_range(frame, len, TLC_F32, base, out, N, 0, N, NULL));
        require(same(out, next, SIZE));
        memcpy(out + SIZE / 2, base + SIZE / 2, SIZE / 2); /* as if apply had come so far */
        AROUND(tlc_delta_repair(frame, len, TLC_F32, out, N, NULL, NULL));
        require(same(out, next, SIZE));
    }
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static char message[200];

#define REFUSED(call, status, words)                                                                                   \
    do {                                                                                                               \
        *message = 0;                                                                                                  \
        require_status(call, status);                                                                                  \
        require_says(message, words);                                                                                  \
    } while (0)

TEST(arguments)
{
    tlc_delta_options opt = {.struct_size = sizeof opt, .message = message, .message_cap = sizeof message};
    uint8_t base[2 * SOME] = {1}, next[2 * SOME] = {2}, out[2 * SOME], room[2 * SOME + 40], *frame;
    const size_t len = compressed(TLC_BF16, base, next, SOME, NULL, &frame), huge = SIZE_MAX / 2 + 1;
    uint64_t digest;
    size_t written;

    at = (place){.dtype = TLC_BF16, .n = SOME};
    REFUSED(tlc_delta_compress(TLC_BF16, base, next, SOME, NULL, 0, &written, &opt), TLC_ERR_PARAM, "dst is NULL");
    REFUSED(tlc_delta_compress(TLC_BF16, base, next, SOME, room, sizeof room, NULL, &opt), TLC_ERR_PARAM,
            "written is NULL");
    REFUSED(tlc_delta_compress(TLC_BF16, base, NULL, SOME, room, sizeof room, &written, &opt), TLC_ERR_PARAM,
            "next is NULL, but n is 300");
    REFUSED(tlc_delta_compress(TLC_BF16, base, next, huge, room, sizeof room, &written, &opt), TLC_ERR_SIZE,
            "the weights have more bytes than the address space");
    REFUSED(tlc_delta_compress(TLC_BF16, base, next, SOME, room, 10, &written, &opt), TLC_ERR_CAPACITY,
            "cap is 10 bytes, tlc_delta_bound is 654");
    REFUSED(tlc_delta_digest(TLC_BF16, base, SOME, NULL, &opt), TLC_ERR_PARAM, "digest is NULL");
    REFUSED(tlc_delta_digest(TLC_BF16, NULL, SOME, &digest, &opt), TLC_ERR_PARAM, "weights is NULL, but n is 300");
    REFUSED(tlc_delta_digest_part(TLC_BF16, base, SOME, 4095, &digest, &opt), TLC_ERR_PARAM, "first is 4095, no multi");
    REFUSED(tlc_delta_digest_part(TLC_BF16, base, SOME, 4098, &digest, &opt), TLC_ERR_PARAM, "multiple of 4096");
    REFUSED(tlc_delta_digest(TLC_U4, base, 3, &digest, &opt), TLC_ERR_PARAM, "n is 3, an odd number, and u4");
    REFUSED(tlc_delta_digest((tlc_dtype)11, base, 3, &digest, &opt), TLC_ERR_PARAM, "dtype is 11");
    REFUSED(tlc_delta_check(NULL, len, TLC_BF16, base, SOME, &opt), TLC_ERR_PARAM, "src is NULL, but len is");
    REFUSED(tlc_delta_check(frame, len, TLC_BF16, NULL, SOME, &opt), TLC_ERR_PARAM, "weights is NULL, but n is 300");
    REFUSED(tlc_delta_check(NULL, 0, TLC_BF16, NULL, 0, &opt), TLC_ERR_CORRUPT, "there are no bytes, where a delta");
    REFUSED(tlc_delta_apply(NULL, len, TLC_BF16, base, SOME, &opt), TLC_ERR_PARAM, "src is NULL, but len is");
    REFUSED(tlc_delta_apply(frame, len, TLC_BF16, NULL, SOME, &opt), TLC_ERR_PARAM, "weights is NULL, but n is 300");
    REFUSED(tlc_delta_apply_range(NULL, len, TLC_BF16, base, out, SOME, 0, 9, &opt), TLC_ERR_PARAM, "src is NULL");
    REFUSED(tlc_delta_apply_range(frame, len, TLC_BF16, base, NULL, SOME, 0, 9, &opt), TLC_ERR_PARAM,
            "out is NULL, but count is 9");
    REFUSED(tlc_delta_check(frame, len, (tlc_dtype)11, base, SOME, &opt), TLC_ERR_PARAM, "dtype is 11");
    REFUSED(tlc_delta_apply(frame, len, (tlc_dtype)-1, base, SOME, &opt), TLC_ERR_PARAM, "dtype is -1");
    REFUSED(tlc_delta_apply_range(frame, len, TLC_U4, base, out, 3, 0, 2, &opt), TLC_ERR_PARAM,
            "n is 3, an odd number");
    REFUSED(tlc_delta_repair(NULL, len, TLC_BF16, out, SOME, NULL, &opt), TLC_ERR_PARAM, "src is NULL, but len is");
    REFUSED(tlc_delta_repair(frame, len, TLC_BF16, NULL, SOME, NULL, &opt), TLC_ERR_PARAM, "weights is NULL, but n");
    REFUSED(tlc_delta_repair(frame, len, (tlc_dtype)11, out, SOME, NULL, &opt), TLC_ERR_PARAM, "dtype is 11");
    REFUSED(tlc_delta_repair(frame, len, TLC_BF16, base, SOME, NULL, &opt), TLC_ERR_PARAM, "has no digests of blocks");
    opt.without_digests = 2;
    REFUSED(tlc_delta_digest(TLC_BF16, base, SOME, &digest, &opt), TLC_ERR_PARAM, "without_digests is 2");
    opt.without_digests = 0;
    opt.isa = (tlc_isa)(TLC_ISA_NEON + 1);
    REFUSED(tlc_delta_check(frame, len, TLC_BF16, base, SOME, &opt), TLC_ERR_PARAM, "isa is");
    opt.isa = missing_isa();
    if (opt.isa) { /* after all other arguments, before the frame */
        REFUSED(tlc_delta_check(frame, len, TLC_BF16, NULL, SOME, &opt), TLC_ERR_PARAM, "weights is NULL");
        REFUSED(tlc_delta_check(frame, 0, TLC_BF16, base, SOME, &opt), TLC_ERR_UNSUPPORTED, tlc_isa_name(opt.isa));
        REFUSED(tlc_delta_apply(frame, 0, TLC_BF16, base, SOME, &opt), TLC_ERR_UNSUPPORTED, tlc_isa_name(opt.isa));
        REFUSED(tlc_delta_digest(TLC_BF16, base, SOME, &digest, &opt), TLC_ERR_UNSUPPORTED, tlc_isa_name(opt.isa));
        REFUSED(tlc_delta_repair(frame, 0, TLC_BF16, out, SOME, NULL, &opt), TLC_ERR_UNSUPPORTED,
                tlc_isa_name(opt.isa));
        REFUSED(tlc_delta_compress(TLC_BF16, base, next, SOME, room, 0, &written, &opt), TLC_ERR_UNSUPPORTED,
                tlc_isa_name(opt.isa));
    }
    opt.struct_size = sizeof opt.struct_size - 1;
    require_status(tlc_delta_check(frame, len, TLC_BF16, base, SOME, &opt), TLC_ERR_PARAM);
    free(frame);
}

/* The size of the caller's struct: at least that of its first field. */
TEST(infos)
{
    uint8_t base[2 * SOME] = {1}, next[2 * SOME] = {2}, *frame;
    const size_t len = compressed(TLC_BF16, base, next, SOME, NULL, &frame);

    for (size_t i = 0; i < 2; i++) {
        tlc_status (*read)(const void *src, size_t size, tlc_delta_info *info) = i ? tlc_delta_peek : tlc_delta_inspect;
        tlc_delta_info info = {.struct_size = sizeof info.struct_size - 1, .version = 9};
        at = (place){.i = i};
        require_status(read(frame, len, &info), TLC_ERR_PARAM);
        require_status(read(frame, len, NULL), TLC_ERR_PARAM);
        require_status(read(NULL, len, &info), TLC_ERR_PARAM);
        info.struct_size++;
        require_status(read(frame, len, &info), TLC_OK);
        require(info.version == 9);
        require_status(read(NULL, len, &info), TLC_ERR_PARAM);
        require_status(read(NULL, 0, &info), TLC_ERR_CORRUPT);
    }
    free(frame);
}
