/* SPDX-License-Identifier: MIT
 *
 * threelc/delta.h: a part of the weights, other memory for the result, a check that writes nothing, and what the head
 * of a frame tells.
 */
#include "../support/exchange_member.h"
#include "sample.h"

enum { CHECKSUM = 4 };

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

typedef struct room {
    arena base, out;
} room;

/* Of first .. first + count - 1, in place and apart, between guard pages. */
static void require_range(room *a, const sample *s, int has_base, size_t first, size_t count, const tlc_parallel *p)
{
    const size_t start = weights_size(s->dtype, first), size = weights_size(s->dtype, count);
    const tlc_delta_options opt = {.struct_size = sizeof opt, .parallel = *p};

    at.i = first;
    at.note = has_base ? "with a base" : "without";
    const uint8_t *base = has_base ? arena_copy(&a->base, s->base + start, size, 1) : NULL;
    uint8_t *out = arena_take(&a->out, size, 1);
    require_status(tlc_delta_apply_range(s->frame, s->len, s->dtype, base, out, s->n, first, count, &opt), TLC_OK);
    require(same(out, s->next + start, size) && arena_intact(&a->out));
    require(!has_base || (same(base, s->base + start, size) && arena_intact(&a->base)));
    out = arena_copy(&a->out, s->base + start, size, 1);
    require_status(tlc_delta_apply_range(s->frame, s->len, s->dtype, out, out, s->n, first, count, &opt), TLC_OK);
    require(same(out, s->next + start, size) && arena_intact(&a->out));
}

TEST(ranges)
{
    static const size_t sizes[] = {2, 300, BLOCK + 100, SAMPLE_MOST};
    room a;

    arena_open(&a.base, 8 * SAMPLE_MOST);
    arena_open(&a.out, 8 * SAMPLE_MOST);
    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (int kind = 0; kind < 4; kind++) {
                const size_t n = sizes[i];
                rng r = {n};
                at = (place){.dtype = dtype, .n = n};
                sample s = sample_made(dtype, n, kind & 1, kind >> 1);
                const size_t fixed[][2] = {{0, n},
                                           {0, 0},
                                           {n, 0},
                                           {0, n / 2 & ~(size_t)1},
                                           {n / 4 * 2, n - n / 4 * 2},
                                           {n > BLOCK ? BLOCK : 0, n > BLOCK ? n - BLOCK : 2},
                                           {n > BLOCK ? BLOCK - 2 : 0, 2}};
                for (size_t k = 0; k < COUNT(fixed); k++)
                    require_range(&a, &s, kind >> 1, fixed[k][0], fixed[k][1], &runners[k % runner_count].parallel);
                for (int k = 0; k < (quick() ? 2 : 8); k++) {
                    size_t first = rng_below(&r, n), count = rng_below(&r, n - first + 1);
                    if (weight_bits(dtype) == 4) {
                        first &= ~(size_t)1;
                        count &= ~(size_t)1;
                    }
                    require_range(&a, &s, kind >> 1, first, count, &runners[0].parallel);
                }
                sample_discard(&s);
            }
    arena_close(&a.base);
    arena_close(&a.out);
}

/* A frame in which nothing differs copies the base. */
TEST(nothing_differs)
{
    FOR_EACH_WEIGHT_DTYPE(dtype) {
        sample s = sample_made(dtype, 500, 1, 1);
        uint8_t *out = bytes(weights_size(dtype, 200));
        size_t bound;
        at = (place){.dtype = dtype, .n = s.n};
        require_status(tlc_delta_bound(dtype, s.n, &bound), TLC_OK);
        require_status(tlc_delta_compress(dtype, s.base, s.base, s.n, s.frame, bound, &s.len, NULL), TLC_OK);
        require_status(tlc_delta_apply_range(s.frame, s.len, dtype, s.base + weights_size(dtype, 100), out, s.n, 100,
                                             200, NULL),
                       TLC_OK);
        require(same(out, s.base + weights_size(dtype, 100), weights_size(dtype, 200)));
        free(out);
        sample_discard(&s);
    }
}

static uint32_t entry_of(const uint8_t *table, size_t b)
{
    uint32_t entry = 0;

    for (size_t i = 4; i-- > 0;)
        entry = entry << 8 | table[4 * b + i];
    return entry;
}

/* A range has a block that is invalid, or not. */
static void require_refused(const sample *s, const uint8_t *frame, size_t first, size_t count, int has_block)
{
    const size_t start = weights_size(s->dtype, first), size = weights_size(s->dtype, count);
    uint8_t *out = bytes(size);

    for (size_t r = 0; r < runner_count; r++) {
        const tlc_delta_options opt = {.struct_size = sizeof opt, .parallel = runners[r].parallel};
        at = (place){.dtype = s->dtype, .n = count, .i = first, .note = runners[r].name};
        require_status(tlc_delta_apply_range(frame, s->len, s->dtype, s->base + start, out, s->n, first, count, &opt),
                       has_block ? TLC_ERR_CORRUPT : TLC_OK);
        require(has_block || same(out, s->next + start, size));
    }
    free(out);
}

/* An invalid block is found in whatever range it is, and does not matter to weights of others. */
static void test_other_blocks(tlc_dtype dtype)
{
    const size_t halves = weight_bits(dtype) == 64 ? 2 : 1, head = (dtype <= TLC_BF16 ? 3 : 4) + 3 + 16;
    const size_t blocks = (SAMPLE_MOST + BLOCK - 1) / BLOCK * halves;
    sample s = sample_made(dtype, SAMPLE_MOST, 1, 1);
    uint8_t *frame = bytes(s.len);
    size_t payload = head + 4 * blocks;

    for (size_t b = 0; b < blocks; b++) {
        const size_t size = entry_of(s.frame + head, b) & 0x3fffffff, start = b / halves * BLOCK;
        const size_t end = start + BLOCK < SAMPLE_MOST ? start + BLOCK : SAMPLE_MOST;
        if (!size)
            continue;
        memcpy(frame, s.frame, s.len);
        memset(frame + payload, 0xff, 100 < size ? 100 : size);
        blob_seal(frame, s.len);
        require_refused(&s, frame, start, 2, 1);
        require_refused(&s, frame, start + 10, 20, 1);
        require_refused(&s, frame, end - 2, 2, 1);
        require_refused(&s, frame, 0, start + 2, 1);
        require_refused(&s, frame, end - 2, SAMPLE_MOST - end + 2, 1);
        require_refused(&s, frame, 0, SAMPLE_MOST, 1);
        require_refused(&s, frame, 0, start, 0);
        require_refused(&s, frame, end, SAMPLE_MOST - end, 0);
        payload += size;
    }
    require_status(tlc_delta_apply_range(s.frame, s.len, dtype, NULL, NULL, SAMPLE_MOST, 10, 0, NULL), TLC_OK);
    free(frame);
    sample_discard(&s);
}

TEST(other_blocks)
{
    test_other_blocks(TLC_BF16);
    test_other_blocks(TLC_U4);
    test_other_blocks(TLC_F64);
}

/* Blocks are checked some at a time: those of the first time count, too. */
TEST(many_blocks)
{
    enum { BLOCKS = 20, HEAD = 4 + 3 + 16 };
    sample s = sample_made(TLC_U4, (size_t)BLOCKS * BLOCK, 1, 1);

    at = (place){.dtype = TLC_U4, .n = s.n};
    require_status(tlc_delta_check(s.frame, s.len, TLC_U4, s.base, s.n, NULL), TLC_OK);
    memset(s.frame + HEAD + 4 * BLOCKS, 0xff, 100);
    blob_seal(s.frame, s.len);
    require_status(tlc_delta_check(s.frame, s.len, TLC_U4, s.base, s.n, NULL), TLC_ERR_CORRUPT);
    sample_discard(&s);
}

TEST(wrong_ranges)
{
    enum { N = 300 };
    sample s = sample_made(TLC_F4_E2M1, N, 1, 1), fresh = sample_made(TLC_U8, N, 1, 0);
    uint8_t out[N], before[N];
    char message[200] = "";
    const tlc_delta_options opt = {.struct_size = sizeof opt, .message = message, .message_cap = sizeof message};

    memset(out, 7, N);
    memset(before, 7, N);
#define REFUSED(base, to, n, first, count, status, words)                                                              \
    do {                                                                                                               \
        require_status(tlc_delta_apply_range(s.frame, s.len, TLC_F4_E2M1, base, to, n, first, count, &opt), status);   \
        if (!strstr(message, words))                                                                                   \
            fail_msg("\"%s\" does not say \"%s\"", message, words);                                                    \
        require(same(out, before, N));                                                                                 \
    } while (0)
    REFUSED(s.base, out, N, N + 2, 0, TLC_ERR_PARAM, "first is 302, count 0, and n 300");
    REFUSED(s.base, out, N, 200, 102, TLC_ERR_PARAM, "first is 200, count 102, and n 300");
    REFUSED(s.base, out, N, 200, SIZE_MAX - 1, TLC_ERR_PARAM, "and n 300");
    REFUSED(s.base, out, N, 1, 2, TLC_ERR_PARAM, "first is 1, count 2, and f4_e2m1 has two weights in a byte");
    REFUSED(s.base, out, N, 2, 3, TLC_ERR_PARAM, "count 3, and f4_e2m1 has two weights in a byte");
    REFUSED(s.base, NULL, N, 2, 4, TLC_ERR_PARAM, "out is NULL, but count is 4");
    REFUSED(NULL, out, N, 2, 4, TLC_ERR_PARAM, "base is NULL, but the delta has one");
    REFUSED(out + 3, out, N, 2, 20, TLC_ERR_PARAM, "base and out share memory, but are not the same");
    REFUSED(s.base, out, N - 2, 2, 4, TLC_ERR_SIZE, "the delta is for 300 weights, the caller has 298");
    s.base[0] ^= 1;
    REFUSED(s.base, out, N, 0, N, TLC_ERR_BASE, "the weights are not the base"); /* all of them have a digest */
    require_status(tlc_delta_apply_range(s.frame, s.len, TLC_F4_E2M1, s.base + 1, out, N, 2, N - 2, &opt), TLC_OK);
    require(same(out, s.next + 1, N / 2 - 1));
    require_status(tlc_delta_apply_range(fresh.frame, fresh.len, TLC_U8, NULL, out, N, 10, 20, &opt), TLC_OK);
    require(same(out, fresh.next + 10, 20));
    sample_discard(&s);
    sample_discard(&fresh);
}

/* base and out may touch, but not share a byte; neither may be before the other. */
TEST(neighbours)
{
    enum { FIRST = 10, SIZE = 20, ROOM = 3 * SIZE };
    sample s = sample_made(TLC_U8, 300, 1, 1);
    uint8_t memory[ROOM], before[ROOM];

    for (int back = 0; back < 2; back++)
        for (size_t distance = 0; distance <= SIZE; distance++) {
            uint8_t *base = memory + (back ? distance : 0), *out = memory + (back ? 0 : distance);
            at = (place){.dtype = TLC_U8, .n = s.n, .i = distance, .note = back ? "out first" : "base first"};
            memset(memory, 7, ROOM);
            memcpy(base, s.base + FIRST, SIZE);
            memcpy(before, memory, ROOM);
            const int apart = distance == 0 || distance == SIZE;
            require_status(tlc_delta_apply_range(s.frame, s.len, TLC_U8, base, out, s.n, FIRST, SIZE, NULL),
                           apart ? TLC_OK : TLC_ERR_PARAM);
            require(same(apart ? out : memory, apart ? s.next + FIRST : before, apart ? SIZE : ROOM));
            require(!distance || same(base, s.base + FIRST, SIZE));
        }
    require_status(tlc_delta_apply_range(s.frame, s.len, TLC_U8, memory, memory + 1, s.n, FIRST, 0, NULL), TLC_OK);
    sample_discard(&s);
}

/* ---- a check, and a peek ----------------------------------------------------------------------------------------- */

TEST(check)
{
    FOR_EACH_WEIGHT_DTYPE(dtype) {
        sample s = sample_made(dtype, BLOCK + 100, 1, 1);
        const size_t size = weights_size(dtype, s.n);
        uint8_t *base = bytes(size);

        at = (place){.dtype = dtype, .n = s.n};
        memcpy(base, s.base, size);
        require_status(tlc_delta_check(s.frame, s.len, dtype, base, s.n, NULL), TLC_OK);
        base[size - 1] ^= 0x10;
        require_status(tlc_delta_check(s.frame, s.len, dtype, base, s.n, NULL), TLC_ERR_BASE);
        base[size - 1] ^= 0x10;
        require_status(tlc_delta_check(s.frame, s.len - 1, dtype, base, s.n, NULL), TLC_ERR_CHECKSUM);
        require_status(tlc_delta_check(s.frame, s.len, dtype, base, s.n - 2, NULL), TLC_ERR_SIZE);
        require_status(tlc_delta_check(s.frame, s.len, dtype, NULL, s.n, NULL), TLC_ERR_PARAM);
        require(same(base, s.base, size));
        free(base);
        sample_discard(&s);
    }
}

/* The head is enough, up to its last byte; fewer bytes are corrupt, and none after them is read. */
TEST(peek)
{
    arena a;

    arena_open(&a, TLC_DELTA_HEAD_MAX);
    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (int has_base = 0; has_base < 2; has_base++) {
            sample s = sample_made(dtype, 70000, 1, has_base);
            tlc_delta_info whole = {.struct_size = sizeof whole}, seen;
            const size_t head = (dtype > TLC_BF16 ? (size_t)7 : 6) + (has_base ? 16 : 8);

            at = (place){.dtype = dtype, .n = s.n, .i = (size_t)has_base};
            require_status(tlc_delta_inspect(s.frame, s.len, &whole), TLC_OK);
            memset(whole.blocks, 0, sizeof whole.blocks);
            whole.changed = 0;
            for (size_t len = 0; len <= TLC_DELTA_HEAD_MAX; len++) {
                seen = (tlc_delta_info){.struct_size = sizeof seen};
                const tlc_status status = tlc_delta_peek(arena_copy(&a, s.frame, len, 1), len, &seen);
                require_status(status, len < head ? TLC_ERR_CORRUPT : TLC_OK);
                require(len < head || same(&seen, &whole, sizeof seen));
            }
            s.frame[1] = 4;
            require_status(tlc_delta_peek(s.frame, s.len, &seen), TLC_ERR_VERSION);
            s.frame[1] = 1;
            s.frame[2] = 0xe0;
            require_status(tlc_delta_peek(s.frame, s.len, &seen), TLC_ERR_CORRUPT);
            s.frame[0] = 'E';
            require_status(tlc_delta_peek(s.frame, s.len, &seen), TLC_ERR_CORRUPT);
            require_status(tlc_delta_peek(NULL, 1, &seen), TLC_ERR_PARAM);
            require_status(tlc_delta_peek(s.frame, s.len, NULL), TLC_ERR_PARAM);
            sample_discard(&s);
        }
    arena_close(&a);
}

/* ---- results that are checked ------------------------------------------------------------------------------------ */

/* Gives a frame another digest of the result. */
static void put_other_digest(sample *s)
{
    tlc_delta_info info = {.struct_size = sizeof info};
    uint8_t digest[8];
    size_t at_byte = 0;

    require_status(tlc_delta_peek(s->frame, s->len, &info), TLC_OK);
    for (size_t i = 0; i < sizeof digest; i++)
        digest[i] = (uint8_t)(info.result_digest >> 8 * i);
    while (memcmp(s->frame + at_byte, digest, sizeof digest) != 0)
        require(++at_byte + sizeof digest <= TLC_DELTA_HEAD_MAX);
    s->frame[at_byte] ^= 1;
    blob_seal(s->frame, s->len);
}

/* A frame whose digest of the result is another one. Only a check of the result finds it, after it has written. */
TEST(results_that_are_checked)
{
    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t n = 1000; n <= SAMPLE_MOST; n += BLOCK)
            for (int has_base = 0; has_base < 2; has_base++)
                for (size_t i = 0; i < runner_count; i++) {
                    const tlc_delta_options plain = {.struct_size = sizeof plain, .parallel = runners[i].parallel};
                    tlc_delta_options checked = plain;
                    sample s = sample_made(dtype, n, 0, has_base);
                    const size_t size = weights_size(dtype, n);
                    uint8_t *weights = bytes(size);
                    char message[TLC_MESSAGE_SIZE];

                    at = (place){.dtype = dtype, .n = n, .note = runners[i].name};
                    checked.check_result = 1;
                    checked.message = message;
                    checked.message_cap = sizeof message;
                    memcpy(weights, s.base, size);
                    require_status(tlc_delta_apply(s.frame, s.len, dtype, weights, n, &checked), TLC_OK);
                    require(same(weights, s.next, size));
                    put_other_digest(&s);
                    memcpy(weights, s.base, size);
                    require_status(tlc_delta_apply(s.frame, s.len, dtype, weights, n, &plain), TLC_OK);
                    memcpy(weights, s.base, size);
                    require_status(tlc_delta_apply(s.frame, s.len, dtype, weights, n, &checked), TLC_ERR_CHECKSUM);
                    require_says(message, "are not those of the sender");
                    require(same(weights, s.next, size));
                    free(weights);
                    sample_discard(&s);
                }
}
