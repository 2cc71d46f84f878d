/* SPDX-License-Identifier: MIT
 *
 * tlc_peek: what tlc_inspect tells of the header, from the header alone. Nothing after the header is read: frames end
 * at a page that cannot be touched.
 */
#include "../support/support.h"

enum { N = 131, ROOM = 16 * N + 64, FILL = 0x3c };

static arena pages;

static size_t make_frame(const codec_case *c, tlc_dtype dtype, int checksum, size_t n, uint8_t *frame)
{
    tlc_config cfg = config(c->text, dtype, TLC_ISA_AUTO);
    uint8_t grad[4 * N];

    at = (place){.codec = c->text, .dtype = dtype, .n = n, .i = (size_t)checksum};
    cfg.checksum = checksum;
    fill_grad(DATA_LAPLACE, 4, dtype, grad, n);
    tlc_ctx *ctx = create(&cfg, n);
    require(tlc_bound(ctx) <= ROOM);
    size_t len = compress(ctx, grad, frame);
    tlc_destroy(ctx);
    return len;
}

static int same_header(const tlc_frame_info *a, const tlc_frame_info *b)
{
    return a->version == b->version && a->dtype == b->dtype && a->checksum == b->checksum &&
           !strcmp(a->codec, b->codec) && a->n == b->n && a->block == b->block && a->header_size == b->header_size;
}

/* Calls check for a frame of every codec, dtype, with and without checksum, of some values and of none. */
typedef void frame_check(const uint8_t *frame, size_t len, const tlc_frame_info *inspected);
static void each_frame(frame_check *check)
{
    uint8_t frame[ROOM];

    arena_open(&pages, ROOM);
    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            for (int turn = 0; turn < 4; turn++) {
                tlc_frame_info info = {.struct_size = sizeof info};
                size_t len = make_frame(c, dtype, turn & 1, turn & 2 ? 0 : N, frame);
                require_status(tlc_inspect(frame, len, &info), TLC_OK);
                check(frame, len, &info);
            }
    arena_close(&pages);
}

/* ---- what it tells ----------------------------------------------------------------------------------------------- */

static void like_inspect(const uint8_t *frame, size_t len, const tlc_frame_info *inspected)
{
    tlc_frame_info info;

    memset(&info, FILL, sizeof info);
    info.struct_size = sizeof info;
    require_status(tlc_peek(frame, len, &info), TLC_OK);
    require(info.struct_size == sizeof info && same_header(&info, inspected));
    require(info.payload_size == inspected->payload_size);
    require(info.nonzero == TLC_UNKNOWN && info.clipped == TLC_UNKNOWN);
}

TEST(tells_the_header)
{
    each_frame(like_inspect);
}

/* All that follows the header is missing, is a page that faults, or is garbage. */
static void without_payload(const uint8_t *frame, size_t len, const tlc_frame_info *inspected)
{
    const size_t header = (size_t)inspected->header_size, sum = inspected->checksum ? 4 : 0;
    const uint8_t *src = arena_copy(&pages, frame, header, 1);
    tlc_frame_info info = {.struct_size = sizeof info};
    uint8_t garbage[ROOM];

    require_status(tlc_peek(src, len, &info), TLC_OK);
    require(same_header(&info, inspected) && info.payload_size == inspected->payload_size);

    memset(garbage, 0xff, sizeof garbage);
    memcpy(garbage, frame, header);
    require_status(tlc_peek(garbage, len, &info), TLC_OK); /* the checksum is wrong, too */
    require(same_header(&info, inspected) && info.payload_size == inspected->payload_size);

    for (size_t cut = 0; cut < len; cut++) { /* payload_size is of what there is */
        const int whole = cut >= header + sum && cut >= 5 + sum;
        tlc_frame_info before;
        memset(&info, FILL, sizeof info);
        info.struct_size = sizeof info;
        before = info;
        src = arena_copy(&pages, frame, cut, 1);
        require_status(tlc_peek(src, cut, &info), whole ? TLC_OK : TLC_ERR_CORRUPT);
        require(whole ? same_header(&info, inspected) && info.payload_size == cut - header - sum
                      : same(&info, &before, sizeof info));
    }
}

TEST(reads_the_header_alone)
{
    each_frame(without_payload);
}

/* Of a frame that claims to be of 2^64 - 1 values. */
TEST(any_number_of_values)
{
    static const uint8_t frame[] = {1, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 7};
    tlc_frame_info info = {.struct_size = sizeof info};

    at = (place){.note = "2^64 - 1 values"};
    require_status(tlc_inspect(frame, sizeof frame, &info), TLC_ERR_CORRUPT);
    require_status(tlc_peek(frame, sizeof frame, &info), TLC_OK);
    require(info.n == UINT64_MAX && info.header_size == 14 && info.payload_size == 1 && !strcmp(info.codec, "raw"));
}

/* ---- what it refuses --------------------------------------------------------------------------------------------- */

typedef struct bad_header {
    const char *note;
    tlc_status status;
    size_t len;
    uint8_t bytes[20];
} bad_header;

/* Where a row has two faults, the first in the order of threelc.h is reported. */
static const bad_header bad_headers[] = {
    {"nothing", TLC_ERR_CORRUPT, 0, {0}},
    {"4 bytes", TLC_ERR_CORRUPT, 4, {1, 0, 1, 0}},
    {"8 bytes with a checksum", TLC_ERR_CORRUPT, 8, {1, 4, 1, 0, 0, 0, 0, 0}},
    {"4 bytes of another version", TLC_ERR_CORRUPT, 4, {2, 0, 1, 0}},
    {"version 0", TLC_ERR_VERSION, 5, {0, 0, 1, 0, 0}},
    {"version 2", TLC_ERR_VERSION, 5, {2, 0, 1, 0, 0}},
    {"version 2 and no codec", TLC_ERR_VERSION, 5, {2, 0, 200, 0, 0}},
    {"no quantizer 0", TLC_ERR_UNSUPPORTED, 5, {1, 0, 0, 0, 0}},
    {"no quantizer 200", TLC_ERR_UNSUPPORTED, 5, {1, 0, 200, 0, 0}},
    {"raw with a packer", TLC_ERR_UNSUPPORTED, 5, {1, 0, 1, 1, 0}},
    {"ternary without a packer", TLC_ERR_UNSUPPORTED, 5, {1, 0, 2, 0, 0}},
    {"no shrinker 15", TLC_ERR_UNSUPPORTED, 5, {1, 0, 2, 0xf1, 0}},
    {"natural, shift 118", TLC_ERR_UNSUPPORTED, 5, {1, 0, 4, 118, 0}},
    {"no codec and reserved flags", TLC_ERR_UNSUPPORTED, 5, {1, 0xf0, 200, 0, 0}},
    {"reserved flag 4", TLC_ERR_CORRUPT, 5, {1, 0x10, 1, 0, 0}},
    {"reserved flag 7", TLC_ERR_CORRUPT, 5, {1, 0x80, 1, 0, 0}},
    {"dtype 3", TLC_ERR_CORRUPT, 5, {1, 3, 1, 0, 0}},
    {"n is cut off", TLC_ERR_CORRUPT, 5, {1, 0, 1, 0, 0x80}},
    {"n is cut off by the checksum", TLC_ERR_CORRUPT, 9, {1, 4, 1, 0, 0x80, 1, 1, 1, 1}},
    {"n is not the shortest", TLC_ERR_CORRUPT, 6, {1, 0, 1, 0, 0x80, 0}},
    {"n is 2^64", TLC_ERR_CORRUPT, 14, {1, 0, 1, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2}},
    {"no block", TLC_ERR_CORRUPT, 5, {1, 8, 1, 0, 0}},
    {"block 0", TLC_ERR_CORRUPT, 6, {1, 8, 1, 0, 0, 0}},
    {"block 2^28 + 1", TLC_ERR_CORRUPT, 10, {1, 8, 1, 0, 0, 0x81, 0x80, 0x80, 0x80, 1}},
    {"a blocked fallback", TLC_ERR_CORRUPT, 6, {1, 8, 2, 0x12, 0, 7}},
    {"no scalar", TLC_ERR_CORRUPT, 8, {1, 0, 5, 0, 1, 0, 0, 0}},
    {"no scalar before the checksum", TLC_ERR_CORRUPT, 12, {1, 4, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0}},
    {"one scalar of two", TLC_ERR_CORRUPT, 12, {1, 0, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0}},
    {"a scalar is infinite", TLC_ERR_CORRUPT, 9, {1, 0, 5, 0, 1, 0, 0, 0x80, 0x7f}},
    {"a scalar is a NaN", TLC_ERR_CORRUPT, 13, {1, 0, 7, 0, 1, 0, 0, 0, 0, 1, 0, 0x80, 0xff}},
    {"a maximum is negative", TLC_ERR_CORRUPT, 9, {1, 0, 6, 0, 1, 0, 0, 0, 0x80}},
    {"a mean may be negative", TLC_OK, 13, {1, 0, 7, 0, 1, 0, 0, 0, 0, 0, 0, 0x80, 0xbf}},
    {"a checksum of another frame", TLC_OK, 9, {1, 4, 1, 0, 0, 1, 2, 3, 4}},
};

TEST(refused_headers)
{
    arena_open(&pages, 64);
    for (size_t i = 0; i < COUNT(bad_headers); i++) {
        const bad_header *b = &bad_headers[i];
        const uint8_t *src = arena_copy(&pages, b->bytes, b->len, 1);
        tlc_frame_info info, before;
        at = (place){.note = b->note, .i = i};
        memset(&info, FILL, sizeof info);
        info.struct_size = sizeof info;
        before = info;
        require_status(tlc_peek(src, b->len, &info), b->status);
        require(b->status == TLC_OK || same(&info, &before, sizeof info));
        if (b->status) /* and the decoders give the same, where there is no checksum to be wrong */
            require(b->bytes[1] & 4 || tlc_inspect(src, b->len, &info) == b->status);
    }
    arena_close(&pages);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

TEST(arguments)
{
    static const size_t ends[] = {offsetof(tlc_frame_info, version), offsetof(tlc_frame_info, n),
                                  offsetof(tlc_frame_info, clipped), sizeof(tlc_frame_info)};
    static const uint8_t frame[] = {1, 0, 1, 0, 0};
    struct {
        tlc_frame_info info;
        uint8_t more[16];
    } other;

    at = (place){.note = "arguments"};
    require_status(tlc_peek(frame, sizeof frame, NULL), TLC_ERR_PARAM);
    memset(&other, FILL, sizeof other);
    other.info.struct_size = sizeof other.info;
    require_status(tlc_peek(NULL, 5, &other.info), TLC_ERR_PARAM);
    require_status(tlc_peek(NULL, 0, &other.info), TLC_ERR_CORRUPT);
    for (other.info.struct_size = 0; other.info.struct_size < sizeof(size_t); other.info.struct_size++)
        require_status(tlc_peek(frame, sizeof frame, &other.info), TLC_ERR_PARAM);
    require(all_bytes((uint8_t *)&other + sizeof(size_t), sizeof other - sizeof(size_t), FILL));
    for (at.i = 0; at.i < COUNT(ends); at.i++) {
        memset(&other, FILL, sizeof other);
        other.info.struct_size = ends[at.i];
        require_status(tlc_peek(frame, sizeof frame, &other.info), TLC_OK);
        require(other.info.struct_size == ends[at.i] && (!at.i || other.info.version == TLC_FRAME_VERSION));
        require(all_bytes((uint8_t *)&other + ends[at.i], sizeof other - ends[at.i], FILL));
    }
    memset(&other, FILL, sizeof other);
    other.info.struct_size = sizeof other;
    require_status(tlc_peek(frame, sizeof frame, &other.info), TLC_OK);
    require(other.info.struct_size == sizeof other && all_bytes(other.more, sizeof other.more, 0));
}
