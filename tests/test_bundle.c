/* SPDX-License-Identifier: MIT
 *
 * threelc/bundle.h: a reader gets the entries that were added, and it is safe to open any bytes.
 */
#include "support.h"
#include <threelc/bundle.h>

enum { ROOM = 4096 };

/* Lengths of the entries that the tests use; some are empty. */
static const size_t lengths[] = {5, 0, 1, 300, 0, 17};

static size_t make_bundle(uint8_t *dst, size_t cap, uint32_t count)
{
    tlc_bundle_writer w;
    uint8_t entry[300];
    size_t written = 0;

    require_status(tlc_bundle_init(&w, dst, cap, count), TLC_OK);
    for (size_t i = 0; i < count; i++) {
        memset(entry, (int)(i + 1), lengths[i]);
        require_status(tlc_bundle_add(&w, entry, lengths[i]), TLC_OK);
    }
    require_status(tlc_bundle_finish(&w, &written), TLC_OK);
    return written;
}

static void round_trip(void **state)
{
    uint8_t dst[ROOM];

    (void)state;
    for (uint32_t count = 0; count <= COUNT(lengths); count++) {
        tlc_bundle_reader r;
        size_t all = 0, bound = 0, len = 77, offset = 8 + 8 * (size_t)count;
        const void *frame = &r;
        for (size_t i = 0; i < count; i++)
            all += lengths[i];
        require_status(tlc_bundle_bound(count, all, &bound), TLC_OK);
        memset(dst, 0x3c, sizeof dst);
        require(make_bundle(dst, bound, count) == bound && dst[bound] == 0x3c); /* the bound is exact */
        require_status(tlc_bundle_open(&r, dst, bound), TLC_OK);
        require(tlc_bundle_count(&r) == count);
        for (size_t i = 0; i < count; i++) {
            require_status(tlc_bundle_next(&r, &frame, &len), TLC_OK);
            require(len == lengths[i] && (const uint8_t *)frame == dst + offset);
            require(all_bytes(frame, len, (uint8_t)(i + 1)));
            offset += len;
        }
        frame = &r;
        len = 77;
        require_status(tlc_bundle_next(&r, &frame, &len), TLC_ERR_PARAM);
        require(frame == &r && len == 77 && offset == bound);
    }
}

static void written_as_drawn(void **state)
{
    static const uint8_t want[] = {'B', 1, 0, 0, 2, 0, 0, 0, /* lengths: */ 5,    0, 0, 0, 0, 0, 0, 0,
                                   0,   0, 0, 0, 0, 0, 0, 0, /* the frames: */ 1, 1, 1, 1, 1};
    uint8_t dst[ROOM];

    (void)state;
    require(make_bundle(dst, sizeof dst, 2) == sizeof want && same(dst, want, sizeof want));
}

/* Every tensor of a step is compressed into the message itself, at any alignment. */
static void compressed_in_place(void **state)
{
    enum { N = 333 };
    uint8_t *dst = bytes(32 * ROOM), *reference = bytes(32 * ROOM), *grad = bytes(4 * N);
    float out[N], want[N];
    tlc_bundle_writer w;
    tlc_bundle_reader r;
    size_t cap, len, written = 0, bound = 0, all = 0;

    (void)state;
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
    require_status(tlc_bundle_finish(&w, &written), TLC_OK);
    require_status(tlc_bundle_open(&r, dst, written), TLC_OK);
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

static void writer_refusals(void **state)
{
    uint8_t dst[40], entry[40] = {0};
    tlc_bundle_writer w, before;
    size_t written = 77, cap = 77;
    void *space = &w;

    (void)state;
    memset(dst, 0x3c, sizeof dst);
    memset(&w, 0, sizeof w);
    memcpy(&before, &w, sizeof w);
    for (size_t room = 0; room < 24; room++) /* the head alone */
        require_status(tlc_bundle_init(&w, dst, room, 2), TLC_ERR_CAPACITY);
    require_status(tlc_bundle_init(&w, dst, sizeof dst, UINT32_MAX), TLC_ERR_CAPACITY);
    require_status(tlc_bundle_init(&w, NULL, sizeof dst, 2), TLC_ERR_PARAM);
    require_status(tlc_bundle_init(NULL, dst, sizeof dst, 2), TLC_ERR_PARAM);
    require(all_bytes(dst, sizeof dst, 0x3c) && same(&w, &before, sizeof w));

    require_status(tlc_bundle_init(&w, dst, sizeof dst, 2), TLC_OK);
    require_status(tlc_bundle_add(&w, entry, 17), TLC_ERR_CAPACITY); /* 40 - 24 are left */
    require_status(tlc_bundle_commit(&w, 17), TLC_ERR_CAPACITY);
    require_status(tlc_bundle_commit(&w, SIZE_MAX), TLC_ERR_CAPACITY);
    require_status(tlc_bundle_add(&w, NULL, 1), TLC_ERR_PARAM);
    require_status(tlc_bundle_add(NULL, entry, 1), TLC_ERR_PARAM);
    require_status(tlc_bundle_commit(NULL, 1), TLC_ERR_PARAM);
    require_status(tlc_bundle_space(NULL, &space, &cap), TLC_ERR_PARAM);
    require_status(tlc_bundle_space(&w, NULL, &cap), TLC_ERR_PARAM);
    require_status(tlc_bundle_space(&w, &space, NULL), TLC_ERR_PARAM);
    require_status(tlc_bundle_finish(NULL, &written), TLC_ERR_PARAM);
    require_status(tlc_bundle_finish(&w, &written), TLC_ERR_PARAM); /* frames are missing */
    require(space == &w && cap == 77 && written == 77 && all_bytes(dst + 24, 16, 0x3c));
    require_status(tlc_bundle_add(&w, entry, 16), TLC_OK);
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
    require_status(tlc_bundle_finish(&w, &written), TLC_OK);
    require(written == 40);
}

static void bounds(void **state)
{
    size_t bound = 77;

    (void)state;
    require_status(tlc_bundle_bound(0, SIZE_MAX - 7, &bound), TLC_ERR_SIZE);
    require_status(tlc_bundle_bound(1, SIZE_MAX - 15, &bound), TLC_ERR_SIZE);
    require_status(tlc_bundle_bound(UINT32_MAX, SIZE_MAX - 8, &bound), TLC_ERR_SIZE);
    require_status(tlc_bundle_bound(1, 1, NULL), TLC_ERR_PARAM);
    require(bound == 77);
    require_status(tlc_bundle_bound(1, SIZE_MAX - 16, &bound), TLC_OK);
    require(bound == SIZE_MAX);
    require_status(tlc_bundle_bound(0, 0, &bound), TLC_OK);
    require(bound == 8);
}

/* ---- hostile bytes ----------------------------------------------------------------------------------------------- */

/* Opens len bytes that end at a guard page and reads all entries: they lie in the bytes, one behind the other. */
static tlc_status walk(arena *a, const uint8_t *src, size_t len)
{
    const uint8_t *p = arena_copy(a, src, len, 1);
    tlc_bundle_reader r;
    const void *frame;
    size_t size, offset;
    uint8_t sum = 0;

    memset(&r, 0x3c, sizeof r);
    tlc_status status = tlc_bundle_open(&r, p, len);
    if (status) {
        require(all_bytes(&r, sizeof r, 0x3c));
        return status;
    }
    offset = 8 + 8 * (size_t)tlc_bundle_count(&r);
    for (uint32_t i = 0; i < tlc_bundle_count(&r); i++, offset += size) {
        require_status(tlc_bundle_next(&r, &frame, &size), TLC_OK);
        require((const uint8_t *)frame == p + offset && offset <= len && size <= len - offset);
        for (size_t j = 0; j < size; j++)
            sum = (uint8_t)(sum + ((const uint8_t *)frame)[j]);
    }
    require_status(tlc_bundle_next(&r, &frame, &size), TLC_ERR_PARAM);
    require(offset == len || sum == 255); /* the compiler must not remove the reads */
    return status;
}

static void hostile_bytes(void **state)
{
    uint8_t good[ROOM], bad[ROOM];
    size_t len = make_bundle(good, sizeof good, COUNT(lengths));
    arena a;

    (void)state;
    arena_open(&a, ROOM);
    for (at.i = 0; at.i < len; at.i++)
        require_status(walk(&a, good, at.i), TLC_ERR_CORRUPT);
    require_status(walk(&a, good, len), TLC_OK);
    for (size_t more = 1; more < 20; more++)
        require_status(walk(&a, good, len + more), TLC_ERR_CORRUPT);
    memcpy(bad, good, len);
    for (at.i = 0; at.i < 8 * len; at.i++) {
        bad[at.i / 8] ^= (uint8_t)(1u << at.i % 8);
        tlc_status status = walk(&a, bad, len);
        size_t head = 8 + 8 * COUNT(lengths);
        require(status == (at.i / 8 == 1 ? TLC_ERR_VERSION : at.i / 8 < head ? TLC_ERR_CORRUPT : TLC_OK));
        bad[at.i / 8] ^= (uint8_t)(1u << at.i % 8);
    }
    arena_close(&a);
}

/* Counts and lengths whose sum, or product with 8, overflows to a number that would fit. */
static void overflows(void **state)
{
    static const uint64_t pairs[][2] = {{UINT64_MAX, 17},        {UINT64_C(1) << 63, UINT64_C(1) << 63},
                                        {UINT64_MAX - 15, 32},   {UINT64_C(1) << 32, 16},
                                        {16, UINT64_C(1) << 32}, {0xffffffff, 17}};
    uint8_t bad[40] = {'B', 1, 0, 0, 2};
    static const uint8_t counts[][4] = {{0xff, 0xff, 0xff, 0xff},
                                        {0, 0, 0, 0x20},
                                        {1, 0, 0, 0x20},
                                        {4, 0, 0, 0x80},
                                        {5}};
    arena a;

    (void)state;
    arena_open(&a, sizeof bad);
    for (at.i = 0; at.i < COUNT(pairs); at.i++) {
        for (size_t k = 0; k < 16; k++)
            bad[8 + k] = (uint8_t)(pairs[at.i][k / 8] >> (8 * (k % 8)));
        require_status(walk(&a, bad, sizeof bad), TLC_ERR_CORRUPT);
    }
    memset(bad + 8, 0, sizeof bad - 8);
    for (at.i = 0; at.i < COUNT(counts); at.i++) {
        memcpy(bad + 4, counts[at.i], 4);
        require_status(walk(&a, bad, sizeof bad), TLC_ERR_CORRUPT);
    }
    bad[4] = 4; /* four empty entries fill the bytes exactly */
    require_status(walk(&a, bad, sizeof bad), TLC_OK);
    arena_close(&a);
}

static void random_bytes(void **state)
{
    uint8_t src[64];
    rng r = {6};
    arena a;

    (void)state;
    arena_open(&a, sizeof src);
    for (at.i = 0; at.i < (quick() ? 2000u : 20000u); at.i++) {
        size_t len = rng_below(&r, sizeof src + 1);
        for (size_t j = 0; j < sizeof src; j++)
            src[j] = rng_below(&r, 4) ? 0 : (uint8_t)(rng_next(&r) % 20);
        src[0] = 'B';
        src[1] = 1;
        src[2] = src[3] = 0;
        src[4] = (uint8_t)rng_below(&r, 8);
        (void)walk(&a, src, len);
    }
    arena_close(&a);
}

static void reader_arguments(void **state)
{
    uint8_t good[ROOM];
    size_t len = make_bundle(good, sizeof good, 2);
    tlc_bundle_reader r;
    const void *frame = NULL;

    (void)state;
    require_status(tlc_bundle_open(NULL, good, len), TLC_ERR_PARAM);
    require_status(tlc_bundle_open(&r, NULL, len), TLC_ERR_PARAM);
    require_status(tlc_bundle_open(&r, NULL, 0), TLC_ERR_CORRUPT);
    require_status(tlc_bundle_open(&r, good, len), TLC_OK);
    require(tlc_bundle_count(NULL) == 0);
    require_status(tlc_bundle_next(&r, NULL, &len), TLC_ERR_PARAM);
    require_status(tlc_bundle_next(&r, &frame, NULL), TLC_ERR_PARAM);
    require_status(tlc_bundle_next(NULL, &frame, &len), TLC_ERR_PARAM);
    require_status(tlc_bundle_next(&r, &frame, &len), TLC_OK);
    require(len == lengths[0]); /* the refused calls did not move it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),      cmocka_unit_test(written_as_drawn), cmocka_unit_test(compressed_in_place),
        cmocka_unit_test(writer_refusals), cmocka_unit_test(bounds),           cmocka_unit_test(hostile_bytes),
        cmocka_unit_test(overflows),       cmocka_unit_test(random_bytes),     cmocka_unit_test(reader_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
