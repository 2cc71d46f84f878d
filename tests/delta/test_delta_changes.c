/* SPDX-License-Identifier: MIT
 *
 * threelc/delta.h: frames that are made of the list of what differs, and read as one.
 */
#include "../support/exchange_member.h"
#include "sample.h"

/* ---- a list of changes ------------------------------------------------------------------------------------------- */

typedef struct list {
    uint64_t *positions;
    uint8_t *before, *after;
    size_t k;
} list;

static size_t listed_size(tlc_dtype dtype, size_t k)
{
    return weight_bits(dtype) == 4 ? k : weights_size(dtype, k);
}

/* Of 4 bits: a byte each, whose upper half may be anything. */
static void put_listed(tlc_dtype dtype, uint8_t *to, size_t j, uint64_t x)
{
    if (weight_bits(dtype) == 4)
        to[j] = (uint8_t)(x | 0xa0);
    else
        put_weight(dtype, to, j, x);
}

/* every: of those that do not differ, one in so many is listed, too; 0: none. */
static list listed(const sample *s, size_t every)
{
    list l = {.positions = calloc(s->n + 1, sizeof *l.positions), .before = bytes(8 * s->n), .after = bytes(8 * s->n)};

    require(l.positions);
    for (size_t i = 0; i < s->n; i++) {
        const uint64_t before = weight_at(s->dtype, s->base, i), after = weight_at(s->dtype, s->next, i);
        if (before == after && (!every || i % every != 0))
            continue;
        put_listed(s->dtype, l.before, l.k, before);
        put_listed(s->dtype, l.after, l.k, after);
        l.positions[l.k++] = i;
    }
    return l;
}

static void drop(list *l)
{
    free(l->positions);
    free(l->before);
    free(l->after);
}

static tlc_status from_list(const sample *s, const list *l, const uint64_t *digests, const tlc_delta_options *opt,
                            uint8_t **frame, size_t *len)
{
    size_t bound;

    require_status(tlc_delta_changes_bound(s->dtype, l->k, s->n, &bound), TLC_OK);
    *frame = bytes(bound);
    return tlc_delta_from_changes(s->dtype, l->positions, l->before, l->after, l->k, s->n, digests, *frame, bound, len,
                                  opt);
}

/* ---- frames of lists --------------------------------------------------------------------------------------------- */

static void require_same_frame(const sample *s, size_t every)
{
    uint64_t digests[2];
    list l = listed(s, every);

    require_status(tlc_delta_digest(s->dtype, s->base, s->n, &digests[0], NULL), TLC_OK);
    require_status(tlc_delta_digest(s->dtype, s->next, s->n, &digests[1], NULL), TLC_OK);
    FOR_EACH_ISA(isa)
        for (size_t k = 0; k < runner_count; k++) {
            const tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa, .parallel = runners[k].parallel};
            size_t len;
            uint8_t *frame;
            at.isa = isa;
            at.note = runners[k].name;
            require_status(from_list(s, &l, digests, &opt, &frame, &len), TLC_OK);
            require(len == s->len && same(frame, s->frame, len));
            free(frame);
        }
    drop(&l);
}

/* The very bytes of tlc_delta_compress, of few weights and of many, and of all where these are raw. */
TEST(same_frames)
{
    static const size_t sizes[] = {2, 64, 300, BLOCK + 100, SAMPLE_MOST};

    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (int rarely = 0; rarely < 2; rarely++) {
                sample s = sample_made(dtype, sizes[i], rarely, 1);
                at = (place){.dtype = dtype, .n = s.n};
                require_same_frame(&s, 1);
                if (rarely && i) /* else there are raw blocks, for which all must be listed */
                    require_same_frame(&s, s.n > BLOCK ? 0 : 7);
                sample_discard(&s);
            }
}

/* Without digests, and where nothing differs. */
TEST(without_digests)
{
    const tlc_delta_options opt = {.struct_size = sizeof opt, .without_digests = 1};

    FOR_EACH_WEIGHT_DTYPE(dtype) {
        sample s = sample_made(dtype, 1000, 1, 1);
        list l = listed(&s, 0);
        uint8_t *frame;
        size_t len;

        at = (place){.dtype = dtype, .n = s.n};
        free(s.frame);
        s.frame = sample_frame(dtype, s.base, s.next, s.n, &s.len, &opt);
        require_status(from_list(&s, &l, NULL, NULL, &frame, &len), TLC_OK);
        require(len == s.len && same(frame, s.frame, len));
        free(frame);
        for (size_t n = 0; n <= s.n; n += s.n) {
            const sample none = {.dtype = dtype, .n = n};
            const list empty = {0};
            free(s.frame);
            s.frame = sample_frame(dtype, s.base, s.base, n, &s.len, &opt);
            require_status(from_list(&none, &empty, NULL, NULL, &frame, &len), TLC_OK);
            require(len == s.len && same(frame, s.frame, len));
            free(frame);
        }
        drop(&l);
        sample_discard(&s);
    }
}

/* Where weights would be shorter than their differences, but not all of them are listed, the frame is longer, and does
 * what it should. */
TEST(longer_frames)
{
    FOR_EACH_WEIGHT_DTYPE(dtype) {
        sample s = sample_made(dtype, SAMPLE_MOST, 0, 1);
        const size_t size = weights_size(dtype, s.n);
        uint8_t *frame;
        size_t len;

        at = (place){.dtype = dtype, .n = s.n};
        for (size_t i = 5; i < s.n; i += BLOCK / 2) /* in each block something is the same */
            put_weight(dtype, s.next, i, weight_at(dtype, s.base, i));
        list l = listed(&s, 0);
        require_status(from_list(&s, &l, NULL, NULL, &frame, &len), TLC_OK);
        uint8_t *weights = bytes(size);
        memcpy(weights, s.base, size);
        require_status(tlc_delta_apply(frame, len, dtype, weights, s.n, NULL), TLC_OK);
        require(same(weights, s.next, size));
        free(frame);
        free(weights);
        drop(&l);
        sample_discard(&s);
    }
}

/* The capacity is enough to its last byte, and the memory around it is not touched: for the longest payloads of a
 * change, and for blocks of all sizes that have one, two or all weights listed. */
TEST(capacity)
{
    arena a;
    size_t bound, len;

    arena_open(&a, 1 << 20);
    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t n = 2; n <= 2 * BLOCK; n = n < 20 ? n + 2 : n * 3 / 2 & ~(size_t)1)
            for (size_t k = 1; k <= 6 && k <= n; k++) {
                uint64_t positions[6];
                uint8_t before[48] = {0}, after[48];
                rng r = {n + k};
                at = (place){.dtype = dtype, .n = n, .i = k};
                for (size_t j = 0; j < k; j++)
                    positions[j] = n - 1 - (k - 1 - j) * (k % 2 ? n / k : 1);
                for (size_t j = 0; j < sizeof after; j++)
                    after[j] = (uint8_t)(k < 4 ? 0x7f : rng_next(&r));
                require_status(tlc_delta_changes_bound(dtype, k, n, &bound), TLC_OK);
                uint8_t *dst = arena_take(&a, bound, 1);
                require_status(tlc_delta_from_changes(dtype, positions, before, after, k, n, NULL, dst, bound, &len,
                                                      NULL),
                               TLC_OK);
                require(arena_intact(&a));
                require_status(tlc_delta_from_changes(dtype, positions, before, after, k, n, NULL, dst, bound - 1, &len,
                                                      NULL),
                               TLC_ERR_CAPACITY);
            }
    arena_close(&a);
}

TEST(wrong_lists)
{
    enum { N = 300 };
    char message[200] = "";
    const tlc_delta_options opt = {.struct_size = sizeof opt, .message = message, .message_cap = sizeof message};
    uint64_t positions[] = {3, 5, 5, 300}, falling[] = {3, 7, 5};
    uint8_t values[4] = {0};
    size_t bound, len = 7;

    require_status(tlc_delta_changes_bound(TLC_U8, 4, N, &bound), TLC_OK);
    uint8_t *dst = bytes(bound);
#define REFUSED(dtype, positions, before, after, k, n, dst, cap, status, words)                                        \
    do {                                                                                                               \
        require_status(tlc_delta_from_changes(dtype, positions, before, after, k, n, NULL, dst, cap, &len, &opt),      \
                       status);                                                                                        \
        require_says(message, words);                                                                                  \
        require(len == 7);                                                                                             \
    } while (0)
    REFUSED(TLC_U8, positions, values, values, 3, N, dst, bound, TLC_ERR_PARAM,
            "positions[2] is 5, after 5: they rise");
    REFUSED(TLC_U8, falling, values, values, 3, N, dst, bound, TLC_ERR_PARAM, "positions[2] is 5, after 7: they rise");
    REFUSED(TLC_U8, positions + 2, values, values, 2, N, dst, bound, TLC_ERR_PARAM, "positions[1] is 300, and n 300");
    REFUSED(TLC_U8, NULL, values, values, 1, N, dst, bound, TLC_ERR_PARAM, "positions is NULL, but k is 1");
    REFUSED(TLC_U8, positions, NULL, values, 1, N, dst, bound, TLC_ERR_PARAM, "before is NULL, but k is 1");
    REFUSED(TLC_U8, positions, values, NULL, 1, N, dst, bound, TLC_ERR_PARAM, "after is NULL, but k is 1");
    REFUSED(TLC_U8, positions, values, values, 1, N, NULL, bound, TLC_ERR_PARAM, "dst is NULL");
    REFUSED(TLC_U4, positions, values, values, 1, N - 1, dst, bound, TLC_ERR_PARAM, "an odd number");
    require_status(tlc_delta_from_changes(TLC_U8, positions, values, values, 1, N, NULL, dst, bound, NULL, &opt),
                   TLC_ERR_PARAM);
    require_says(message, "written is NULL");
    REFUSED((tlc_dtype)11, positions, values, values, 1, N, dst, bound, TLC_ERR_PARAM, "dtype is 11");
    REFUSED(TLC_U8, positions, values, values, 2, N, dst, 100, TLC_ERR_CAPACITY, "cap is 100 bytes");
    REFUSED(TLC_F32, positions, values, values, 1, SIZE_MAX / 2, dst, 100, TLC_ERR_CAPACITY, "cap is 100 bytes");
    require_status(tlc_delta_changes_bound(TLC_U8, 4, N, NULL), TLC_ERR_PARAM);
    require_status(tlc_delta_changes_bound(TLC_U8, N + 1, N, &bound), TLC_ERR_PARAM);
    require_status(tlc_delta_changes_bound(TLC_U4, 1, N + 1, &bound), TLC_ERR_PARAM);
    require_status(tlc_delta_changes_bound((tlc_dtype)11, 1, N, &bound), TLC_ERR_PARAM);
    require_status(tlc_delta_changes_bound(TLC_F64, SIZE_MAX, SIZE_MAX, &bound), TLC_ERR_SIZE);
    free(dst);
}

/* ---- frames as lists --------------------------------------------------------------------------------------------- */

/* x with all bits but the sign inverted if the sign is 1, if floats of these bits are ordered. */
static uint64_t ordered(tlc_dtype dtype, uint64_t x, unsigned bits)
{
    const int is_float = dtype <= TLC_F4_E2M1;

    return is_float && x >> (bits - 1) & 1 ? x ^ (((uint64_t)1 << (bits - 1)) - 1) : x;
}

/* The next weight, of one that is listed. */
static uint64_t moved(tlc_dtype dtype, uint64_t base, uint64_t value, int are_values)
{
    const unsigned bits = weight_bits(dtype);
    const uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;

    if (bits == 64) {
        const uint64_t low = (are_values & 1 ? value : base + value) & UINT32_MAX;
        const uint64_t high = are_values & 2 ? value >> 32 : (base >> 32) + (value >> 32);
        return high << 32 | low;
    }
    return are_values ? value & mask : ordered(dtype, (ordered(dtype, base, bits) + value) & mask, bits);
}

static uint64_t listed_at(tlc_dtype dtype, const uint8_t *values, size_t j)
{
    return weight_bits(dtype) == 4 ? values[j] : weight_at(dtype, values, j);
}

/* Reads next .. end - 1 in pieces of `cap`, and moves the base by them: then it is the next weights there, and the base
 * elsewhere. */
static void require_pieces(const sample *s, size_t first, size_t end, size_t cap, tlc_isa isa)
{
    const tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa};
    const size_t size = weights_size(s->dtype, s->n);
    uint8_t *weights = bytes(size);
    uint64_t last = 0;
    tlc_delta_piece p = {.struct_size = sizeof p,
                         .next = first,
                         .end = end,
                         .cap = cap,
                         .positions = calloc(cap + 1, sizeof *p.positions),
                         .values = bytes(listed_size(s->dtype, cap))};

    require(p.positions);
    memcpy(weights, s->base, size);
    do {
        const uint64_t from = p.next;
        require_status(tlc_delta_changes(s->frame, s->len, s->dtype, s->n, &p, &opt), TLC_OK);
        require(p.next > from || from == end);
        require(p.k <= cap && p.next <= end);
        for (size_t j = 0; j < p.k; j++) {
            const size_t i = (size_t)p.positions[j];
            require(i >= from && i < p.next && (!last || i >= last));
            last = i + 1;
            put_weight(s->dtype, weights, i,
                       moved(s->dtype, weight_at(s->dtype, weights, i), listed_at(s->dtype, p.values, j),
                             p.are_values));
        }
    } while (p.next < end);
    for (size_t i = 0; i < s->n; i++)
        require(weight_at(s->dtype, weights, i) == weight_at(s->dtype, i >= first && i < end ? s->next : s->base, i));
    free(p.positions);
    free(p.values);
    free(weights);
}

TEST(pieces)
{
    static const size_t sizes[] = {2, 300, BLOCK + 100, SAMPLE_MOST};

    FOR_EACH_WEIGHT_DTYPE(dtype)
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (int kind = 0; kind < 4; kind++) {
                const size_t n = sizes[i];
                sample s = sample_made(dtype, n, kind & 1, kind >> 1);
                at = (place){.dtype = dtype, .n = n, .i = (size_t)kind};
                FOR_EACH_ISA(isa)
                    require_pieces(&s, 0, n, n < BLOCK ? n : BLOCK, isa);
                require_pieces(&s, 0, n, 3 * BLOCK, TLC_ISA_AUTO);
                require_pieces(&s, n / 4 * 2, n, BLOCK + 50, TLC_ISA_AUTO);
                require_pieces(&s, n / 4 * 2, n / 4 * 2 + n / 6 * 2, BLOCK, TLC_ISA_AUTO);
                require_pieces(&s, n, n, 0, TLC_ISA_AUTO);
                sample_discard(&s);
            }
}

TEST(nothing_differs)
{
    sample s = sample_made(TLC_BF16, BLOCK + 100, 1, 1);
    uint64_t positions[4];
    uint8_t values[8];
    tlc_delta_piece p = {.struct_size = sizeof p, .end = s.n, .positions = positions, .values = values, .cap = 4};

    free(s.frame);
    s.frame = sample_frame(TLC_BF16, s.base, s.base, s.n, &s.len, NULL);
    require_status(tlc_delta_changes(s.frame, s.len, TLC_BF16, s.n, &p, NULL), TLC_ERR_CAPACITY);
    p.end = 4;
    require_status(tlc_delta_changes(s.frame, s.len, TLC_BF16, s.n, &p, NULL), TLC_OK);
    require(p.next == 4 && !p.k);
    sample_discard(&s);
}

/* A state that is not the library's own reads no memory that is not the frame's. */
TEST(wrong_pieces)
{
    sample s = sample_made(TLC_U4, BLOCK + 100, 1, 1);
    char message[200] = "";
    const tlc_delta_options opt = {.struct_size = sizeof opt, .message = message, .message_cap = sizeof message};
    uint64_t *positions = calloc(BLOCK, sizeof *positions);
    uint8_t *values = bytes(BLOCK);
    const tlc_delta_piece good = {.struct_size = sizeof good,
                                  .end = s.n,
                                  .positions = positions,
                                  .values = values,
                                  .cap = BLOCK};
    tlc_delta_piece p;
    arena a;

    require(positions);
    arena_open(&a, s.len);
    const uint8_t *frame = arena_copy(&a, s.frame, s.len, 1);
#define WRONG(change, status, words)                                                                                   \
    do {                                                                                                               \
        p = good;                                                                                                      \
        change;                                                                                                        \
        require_status(tlc_delta_changes(frame, s.len, TLC_U4, s.n, &p, &opt), status);                                \
        require_says(message, words);                                                                                  \
    } while (0)
    WRONG(p.struct_size = 8, TLC_ERR_PARAM, "piece has a bad struct_size");
    WRONG(p.end = s.n + 2, TLC_ERR_PARAM, "next is 0, end 65638, and n 65636");
    WRONG(p.next = s.n + 2, TLC_ERR_PARAM, "next is 65638");
    WRONG(p.next = 1, TLC_ERR_PARAM, "u4 has two weights in a byte");
    WRONG(p.end = 3, TLC_ERR_PARAM, "u4 has two weights in a byte");
    WRONG(p.positions = NULL, TLC_ERR_PARAM, "positions is NULL, but cap is 65536");
    WRONG(p.values = NULL, TLC_ERR_PARAM, "values is NULL, but cap is 65536");
    WRONG(p.cap = BLOCK - 1, TLC_ERR_CAPACITY, "cap is 65535");
    WRONG(p.state = UINT64_MAX, TLC_ERR_CORRUPT, "a block ends after the last one");
    WRONG((p.state = 30, p.next = BLOCK), TLC_ERR_CORRUPT, "a block");
    for (uint64_t at_byte = 2; at_byte < s.len + 9; at_byte++) {
        p = good;
        p.state = at_byte;
        (void)tlc_delta_changes(frame, s.len, TLC_U4, s.n, &p, NULL);
        p = good;
        p.state = at_byte;
        p.next = BLOCK;
        (void)tlc_delta_changes(frame, s.len, TLC_U4, s.n, &p, NULL);
    }
    require_status(tlc_delta_changes(frame, s.len, TLC_U4, s.n, NULL, &opt), TLC_ERR_PARAM);
    require_status(tlc_delta_changes(NULL, s.len, TLC_U4, s.n, &p, &opt), TLC_ERR_PARAM);
    p = good;
    require_status(tlc_delta_changes(frame, s.len - 1, TLC_U4, s.n, &p, &opt), TLC_ERR_CHECKSUM);
    require_status(tlc_delta_changes(frame, s.len, TLC_U4, s.n - 2, &p, &opt), TLC_ERR_PARAM);
    p.end = 10;
    require_status(tlc_delta_changes(frame, s.len, TLC_U4, s.n - 2, &p, &opt), TLC_ERR_SIZE);
    require_status(tlc_delta_changes(frame, s.len, TLC_U8, s.n, &p, &opt), TLC_ERR_PARAM);
    arena_close(&a);
    free(positions);
    free(values);
    sample_discard(&s);
}

/* The first piece refuses a frame in which the payloads of all blocks are not as long as they should be. */
TEST(other_blocks)
{
    enum { HEAD = 4 + 3 + 16, ENTRY = 4 };
    sample s = sample_made(TLC_U8, BLOCK + 100, 1, 1);
    tlc_delta_piece p = {.struct_size = sizeof p, .end = 10, .cap = 10};
    uint64_t positions[10];
    uint8_t values[10];

    p.positions = positions;
    p.values = values;
    require_status(tlc_delta_changes(s.frame, s.len, TLC_U8, s.n, &p, NULL), TLC_OK);
    s.frame[HEAD + ENTRY] ^= 1; /* the length of the second payload */
    blob_seal(s.frame, s.len);
    p.next = p.state = 0;
    require_status(tlc_delta_changes(s.frame, s.len, TLC_U8, s.n, &p, NULL), TLC_ERR_CORRUPT);
    require(p.next == 0);
    sample_discard(&s);
}
