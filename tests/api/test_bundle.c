/* SPDX-License-Identifier: MIT
 *
 * threelc/bundle.h: a reader gets the frames that were added. (Any bytes: test_bundle_hostile.c.)
 */
#include "bundle_format.h"
#include "../support/support.h"
#include <threelc/bundle.h>

enum { ROOM = 4096, HEAD = 7, ENTRY = 10 }; /* the largest head has HEAD + ENTRY count bytes */

/* Lengths of the frames that most tests use; some are empty. */
static const size_t lengths[] = {5, 0, 1, 300, 0, 17};

/* ---- what is written --------------------------------------------------------------------------------------------- */

/* Frame i has bytes i + 1. */
static tlc_message make_bundle(uint8_t *dst, size_t cap, const size_t *length, size_t count)
{
    tlc_bundle_writer w;
    tlc_message bundle = {NULL, 0};

    require_status(tlc_bundle_init(&w, dst, cap, (uint32_t)count), TLC_OK);
    for (size_t i = 0; i < count; i++) {
        uint8_t *frame = bytes(length[i]);
        memset(frame, (int)(i + 1), length[i]);
        require_status(tlc_bundle_add(&w, frame, length[i]), TLC_OK);
        free(frame);
    }
    require_status(tlc_bundle_finish(&w, &bundle), TLC_OK);
    return bundle;
}

/* Writes a bundle into exactly its bound between guard pages, and reads it. */
static void write_and_read(arena *a, int end, const size_t *length, size_t count)
{
    size_t all = 0, bound = 0, len = 77;
    const void *frame = &len;
    tlc_bundle_reader r;

    for (size_t i = 0; i < count; i++)
        all += length[i];
    require_status(tlc_bundle_bound((uint32_t)count, all, &bound), TLC_OK);
    require(bound == HEAD + ENTRY * count + all);
    uint8_t *dst = arena_take(a, bound, end), *head = bytes(HEAD + ENTRY * count);
    memset(dst, 0x3c, bound);
    const tlc_message bundle = make_bundle(dst, bound, length, count);
    require(arena_intact(a));
    const uint8_t *src = bundle.data, *next = dst + bound - all;
    require(src > dst && src + bundle.len == dst + bound);
    require(put_head(head, length, count) == bundle.len - all && same(src, head, bundle.len - all));
    free(head);

    /* It is read where it is, so that src is not aligned. */
    require_status(tlc_bundle_open(&r, src, bundle.len), TLC_OK);
    require(tlc_bundle_count(&r) == count);
    for (size_t i = 0; i < count; i++) {
        require_status(tlc_bundle_next(&r, &frame, &len), TLC_OK);
        require(len == length[i] && (const uint8_t *)frame == next);
        require(all_bytes(frame, len, (uint8_t)(i + 1)));
        next += len;
    }
    frame = &r;
    len = 77;
    require_status(tlc_bundle_next(&r, &frame, &len), TLC_ERR_PARAM);
    require(frame == &r && len == 77 && next == dst + bound);
}

TEST(round_trip)
{
    arena a;

    arena_open(&a, ROOM);
    for (int end = 0; end < 2; end++)
        for (at.n = 0; at.n <= COUNT(lengths); at.n++)
            write_and_read(&a, end, lengths, at.n);
    arena_close(&a);
}

/* Where a number takes another byte: of lengths, one beside the other, and of the count. */
TEST(borders)
{
    static const size_t border[] = {0, 127, 128, 16383, 16384, 2097151, 2097152};
    static const size_t counts[] = {127, 128, 16383, 16384};
    size_t *none = calloc(16384, sizeof *none), pair[2];
    arena a;

    require(none != NULL);
    arena_open(&a, (size_t)1 << 23);
    for (size_t i = 0; i < COUNT(border) * COUNT(border); i++) {
        at.n = pair[0] = border[i / COUNT(border)];
        at.i = pair[1] = border[i % COUNT(border)];
        write_and_read(&a, 1, pair, 2);
    }
    for (size_t i = 0; i < COUNT(counts); i++) {
        at.n = counts[i];
        for (int end = 0; end < 2; end++)
            write_and_read(&a, end, none, counts[i]);
        none[0] = none[counts[i] - 1] = 200;
        write_and_read(&a, 1, none, counts[i]);
        none[0] = none[counts[i] - 1] = 0;
    }
    arena_close(&a);
    free(none);
}

/* The largest numbers in the head. The frames do not exist: neither commit, finish nor open touches them. */
TEST(largest_lengths)
{
    enum { MOST = 130, LARGEST = HEAD + ENTRY * MOST };
    size_t length[MOST];
    uint8_t want[LARGEST];
    arena a;

    arena_open(&a, LARGEST);
    for (size_t count = 1; count <= MOST; count++)
        for (size_t large = 0; large < count; large += count < 5 ? 1 : count / 3) {
            const size_t head = HEAD + ENTRY * count;
            uint8_t *dst = arena_take(&a, head, 1);
            tlc_bundle_writer w;
            tlc_bundle_reader r;
            tlc_message bundle;
            at.n = count;
            at.i = large;
            /* One has the most bits, or all have as many. Together they are the longest bundle that can be. */
            for (size_t i = 0; i < count; i++)
                length[i] = large ? i : (SIZE_MAX - head) / count;
            length[large] += SIZE_MAX - head - (large ? count * (count - 1) / 2 : length[0] * count);
            require_status(tlc_bundle_init(&w, dst, SIZE_MAX, (uint32_t)count), TLC_OK);
            for (size_t i = 0; i < count; i++)
                require_status(tlc_bundle_commit(&w, length[i]), TLC_OK);
            require_status(tlc_bundle_finish(&w, &bundle), TLC_OK);
            const size_t size = put_head(want, length, count), from = head - size;
            require(bundle.data == dst + from && bundle.len == SIZE_MAX - from);
            require(same(bundle.data, want, size) && arena_intact(&a));
            require_status(tlc_bundle_open(&r, bundle.data, bundle.len), TLC_OK);
            require(tlc_bundle_count(&r) == count);
            require_status(tlc_bundle_open(&r, bundle.data, bundle.len - 1), TLC_ERR_CORRUPT);
        }
    arena_close(&a);
}

TEST(written_as_drawn)
{
    static const size_t three[] = {5, 0, 200};
    static const uint8_t want[] = {'B', 2, 3, /* lengths: */ 5, 0, 200, 1, /* the frames: */ 1, 1, 1, 1, 1, 3, 3};
    static const uint8_t empty[] = {'B', 2, 0};
    uint8_t dst[ROOM];

    tlc_message bundle = make_bundle(dst, sizeof dst, three, 3);
    require(bundle.len == 7 + 205 && same(bundle.data, want, sizeof want));
    bundle = make_bundle(dst, sizeof dst, NULL, 0);
    require(bundle.len == sizeof empty && same(bundle.data, empty, sizeof empty));
    require((const uint8_t *)bundle.data == dst + HEAD - 3);
}

TEST(any_alignment)
{
    uint8_t first[ROOM], dst[ROOM];

    const tlc_message want = make_bundle(first, sizeof first, lengths, COUNT(lengths));
    for (at.i = 0; at.i < 16; at.i++) {
        memset(dst, 0x3c, sizeof dst);
        const tlc_message got = make_bundle(dst + at.i, 500, lengths, COUNT(lengths));
        require(got.len == want.len && same(got.data, want.data, want.len));
        require(all_bytes(dst, at.i, 0x3c) && all_bytes(dst + at.i + 500, ROOM - 500 - at.i, 0x3c));
    }
}

/* Every tensor of a step is compressed into the message itself, at any alignment. */
TEST(compressed_in_place)
{
    enum { N = 333 };
    uint8_t *dst = bytes(32 * ROOM), *reference = bytes(32 * ROOM), *grad = bytes(4 * N);
    float out[N], want[N];
    tlc_bundle_writer w;
    tlc_bundle_reader r;
    tlc_message bundle;
    size_t cap, len, written = 0, bound = 0, all = 0;

    FOR_EACH_CODEC(c) {
        require_status(tlc_codec_bound(c->text, TLC_F32, N, &len), TLC_OK);
        all += len;
    }
    require_status(tlc_bundle_bound((uint32_t)codec_count, all, &bound), TLC_OK);
    require(bound <= 32 * ROOM);
    require_status(tlc_bundle_init(&w, dst, bound, (uint32_t)codec_count), TLC_OK);
    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        tlc_ctx *ctx = create(&cfg, N);
        void *space = NULL;
        fill_grad(DATA_LAPLACE, (uint64_t)(c - codecs), TLC_F32, grad, N);
        require_status(tlc_bundle_space(&w, &space, &cap), TLC_OK);
        require_status(tlc_compress(ctx, grad, space, cap, &written), TLC_OK);
        require_status(tlc_bundle_commit(&w, written), TLC_OK);
        tlc_destroy(ctx);
    }
    require_status(tlc_bundle_finish(&w, &bundle), TLC_OK);
    require_status(tlc_bundle_open(&r, bundle.data, bundle.len), TLC_OK);
    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        tlc_ctx *ctx = create(&cfg, N);
        const void *frame;
        at.codec = c->text;
        fill_grad(DATA_LAPLACE, (uint64_t)(c - codecs), TLC_F32, grad, N);
        require_status(tlc_bundle_next(&r, &frame, &len), TLC_OK);
        require(compress(ctx, grad, reference) == len && same(frame, reference, len));
        require_status(tlc_decompress(frame, len, TLC_F32, out, N, NULL), TLC_OK);
        require_status(tlc_decompress(reference, len, TLC_F32, want, N, NULL), TLC_OK);
        require(same(out, want, sizeof out));
        tlc_destroy(ctx);
    }
    free(dst);
    free(reference);
    free(grad);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

TEST(init_refusals)
{
    uint8_t dst[40];
    tlc_bundle_writer w, before;

    memset(dst, 0x3c, sizeof dst);
    memset(&w, 0x3c, sizeof w);
    memcpy(&before, &w, sizeof w);
    for (size_t cap = 0; cap < 27; cap++) /* the largest head alone */
        require_status(tlc_bundle_init(&w, dst, cap, 2), TLC_ERR_CAPACITY);
    for (size_t cap = 0; cap < 7; cap++)
        require_status(tlc_bundle_init(&w, dst, cap, 0), TLC_ERR_CAPACITY);
    require_status(tlc_bundle_init(&w, dst, sizeof dst, UINT32_MAX), TLC_ERR_CAPACITY);
    require_status(tlc_bundle_init(&w, NULL, sizeof dst, 2), TLC_ERR_PARAM);
    require_status(tlc_bundle_init(NULL, dst, sizeof dst, 2), TLC_ERR_PARAM);
    require(same(&w, &before, sizeof w));
    require_status(tlc_bundle_init(&w, dst, 27, 2), TLC_OK);
    require_status(tlc_bundle_init(&w, dst, 7, 0), TLC_OK);
    require(all_bytes(dst, sizeof dst, 0x3c));
}

TEST(writer_refusals)
{
    uint8_t dst[40], entry[40] = {0};
    tlc_bundle_writer w;
    tlc_message bundle = {NULL, 77};
    size_t cap = 77;
    void *space = &w;

    memset(dst, 0x3c, sizeof dst);
    require_status(tlc_bundle_init(&w, dst, sizeof dst, 2), TLC_OK);
    require_status(tlc_bundle_add(&w, entry, 14), TLC_ERR_CAPACITY); /* 40 - 27 are left */
    require_status(tlc_bundle_commit(&w, 14), TLC_ERR_CAPACITY);
    require_status(tlc_bundle_commit(&w, SIZE_MAX), TLC_ERR_CAPACITY);
    require_status(tlc_bundle_add(&w, NULL, 1), TLC_ERR_PARAM);
    require_status(tlc_bundle_add(NULL, entry, 1), TLC_ERR_PARAM);
    require_status(tlc_bundle_commit(NULL, 1), TLC_ERR_PARAM);
    require_status(tlc_bundle_space(NULL, &space, &cap), TLC_ERR_PARAM);
    require_status(tlc_bundle_space(&w, NULL, &cap), TLC_ERR_PARAM);
    require_status(tlc_bundle_space(&w, &space, NULL), TLC_ERR_PARAM);
    require_status(tlc_bundle_finish(NULL, &bundle), TLC_ERR_PARAM);
    require_status(tlc_bundle_finish(&w, &bundle), TLC_ERR_PARAM); /* frames are missing */
    require(space == &w && cap == 77 && !bundle.data && bundle.len == 77 && all_bytes(dst, 40, 0x3c));
    require_status(tlc_bundle_add(&w, entry, 13), TLC_OK);
    require_status(tlc_bundle_finish(&w, &bundle), TLC_ERR_PARAM);
    require_status(tlc_bundle_space(&w, &space, &cap), TLC_OK);
    require(cap == 0 && space == dst + 40);
    require_status(tlc_bundle_add(&w, entry, 1), TLC_ERR_CAPACITY);
    require_status(tlc_bundle_add(&w, NULL, 0), TLC_OK);
    require_status(tlc_bundle_add(&w, entry, 0), TLC_ERR_PARAM); /* all are in */
    require_status(tlc_bundle_commit(&w, 0), TLC_ERR_PARAM);
    space = &w;
    require_status(tlc_bundle_space(&w, &space, &cap), TLC_ERR_PARAM);
    require(space == &w);
    require_status(tlc_bundle_finish(&w, NULL), TLC_ERR_PARAM);
    require_status(tlc_bundle_finish(&w, &bundle), TLC_OK);
    require((const uint8_t *)bundle.data == dst + 22 && bundle.len == 18);
}

/* A writer that has finished refuses all calls and leaves the bundle as it is. */
TEST(finished)
{
    uint8_t dst[60], before[60], entry[1] = {0};

    memset(dst, 0x3c, sizeof dst);
    for (uint32_t count = 0; count < 3; count++) {
        tlc_bundle_writer w;
        tlc_message bundle, again = {NULL, 77};
        size_t cap = 77;
        void *space = &w;
        require_status(tlc_bundle_init(&w, dst, sizeof dst, count), TLC_OK);
        for (uint32_t i = 0; i < count; i++)
            require_status(tlc_bundle_add(&w, entry, 1), TLC_OK);
        require_status(tlc_bundle_finish(&w, &bundle), TLC_OK);
        memcpy(before, dst, sizeof dst);
        require_status(tlc_bundle_finish(&w, &again), TLC_ERR_PARAM);
        require_status(tlc_bundle_add(&w, entry, 1), TLC_ERR_PARAM);
        require_status(tlc_bundle_commit(&w, 0), TLC_ERR_PARAM);
        require_status(tlc_bundle_space(&w, &space, &cap), TLC_ERR_PARAM);
        require(space == &w && cap == 77 && !again.data && again.len == 77 && same(dst, before, sizeof dst));
        require_status(tlc_bundle_init(&w, dst, sizeof dst, 0), TLC_OK); /* it can be used again */
        require_status(tlc_bundle_finish(&w, &again), TLC_OK);
    }
}

TEST(bounds)
{
    size_t bound = 77;

    require_status(tlc_bundle_bound(0, SIZE_MAX - 6, &bound), TLC_ERR_SIZE);
    require_status(tlc_bundle_bound(1, SIZE_MAX - 16, &bound), TLC_ERR_SIZE);
    require_status(tlc_bundle_bound(UINT32_MAX, SIZE_MAX - 7, &bound), TLC_ERR_SIZE);
    require_status(tlc_bundle_bound(1, 1, NULL), TLC_ERR_PARAM);
    require(bound == 77);
    require_status(tlc_bundle_bound(1, SIZE_MAX - 17, &bound), TLC_OK);
    require(bound == SIZE_MAX);
    require_status(tlc_bundle_bound(0, SIZE_MAX - 7, &bound), TLC_OK);
    require(bound == SIZE_MAX);
    require_status(tlc_bundle_bound(0, 0, &bound), TLC_OK);
    require(bound == 7);
    const tlc_status status = tlc_bundle_bound(UINT32_MAX, 0, &bound);
    require_status(status, sizeof(size_t) > 4 ? TLC_OK : TLC_ERR_SIZE);
    require(status || bound == 7 + (size_t)10 * UINT32_MAX);
}

TEST(reader_arguments)
{
    uint8_t dst[ROOM];
    const tlc_message good = make_bundle(dst, sizeof dst, lengths, 2);
    tlc_bundle_reader r;
    const void *frame = NULL;
    size_t len = 77;

    require_status(tlc_bundle_open(NULL, good.data, good.len), TLC_ERR_PARAM);
    require_status(tlc_bundle_open(&r, NULL, good.len), TLC_ERR_PARAM);
    require_status(tlc_bundle_open(&r, NULL, 0), TLC_ERR_CORRUPT);
    require_status(tlc_bundle_open(&r, good.data, good.len), TLC_OK);
    require(tlc_bundle_count(NULL) == 0);
    require_status(tlc_bundle_next(&r, NULL, &len), TLC_ERR_PARAM);
    require_status(tlc_bundle_next(&r, &frame, NULL), TLC_ERR_PARAM);
    require_status(tlc_bundle_next(NULL, &frame, &len), TLC_ERR_PARAM);
    require(!frame && len == 77);
    require_status(tlc_bundle_next(&r, &frame, &len), TLC_OK);
    require(len == lengths[0]); /* the refused calls did not move it */
}
