/* SPDX-License-Identifier: MIT
 *
 * What tlc_compress_payload refuses, and why. That it makes the frames of the golden vectors again, and none of bad
 * ones, test_vectors.c tests.
 */
#include "../support/support.h"
#include <math.h>

enum { ROOM = 64 };
static const uint8_t codes[16] = {1, 127, 0x81}, nibbles[8] = {0x97, 0x0f}, bits[2] = {255, 128};
static const float one[2] = {1, -1}, infinite[2] = {1, INFINITY};
static char message[TLC_MESSAGE_SIZE];

/* 16 values in blocks of 10: the table, and the codes of the blocks. */
static void fill_blocks(uint8_t blocks[32])
{
    static const uint8_t table[16] = {0, 0, 0x80, 0x3f, 10, 0, 0, 0, 0, 0, 0x80, 0x3f, 6, 0, 0, 0};

    memcpy(blocks, table, 16);
    memcpy(blocks + 16, codes, 16);
}

static void refused(const char *codec, const void *payload, size_t len, const float *scalars, tlc_status status,
                    const char *words)
{
    uint8_t dst[ROOM];
    size_t written = 77;

    at = (place){.codec = codec, .note = words};
    memset(dst, 0xaa, sizeof dst);
    require_status(tlc_compress_payload(payload, len, scalars, 16,
                                        PARAMS(quartic, .codec = codec, .checksum = 1, .message = message,
                                               .message_cap = sizeof message),
                                        dst, sizeof dst, &written),
                   status);
    require_says(message, words);
    require(written == 77 && all_bytes(dst, sizeof dst, 0xaa));
}

TEST(refusals)
{
    uint8_t blocks[33], natural[20] = {0}, bad[16];

    refused(NULL, codes, 16, one, TLC_ERR_PARAM, "codec is NULL");
    refused("nature", codes, 16, one, TLC_ERR_PARAM, "codec \"nature\" at 0");
    refused("ternary+quartic", bits, 2, one, TLC_ERR_CORRUPT, "the payload of 2 bytes from byte 9 on is not what");
    refused("3lc", bits, 2, one, TLC_ERR_CORRUPT, "is not what \"ternary+quartic+zerorun\" makes of 16 values");
    refused("3lc", bits, 1, one + 1, TLC_ERR_CORRUPT, "or negative");
    refused("3lc-golomb", NULL, 0, one, TLC_ERR_CORRUPT, "the payload of 0 bytes");
    refused("3lc-golomb", codes, 4, one, TLC_ERR_CORRUPT,
            "the payload of 4 bytes"); /* quartic bytes, with no padding */
    refused("topk:p=0.1+golomb", codes, 4, one, TLC_ERR_CORRUPT, "the payload of 4 bytes");
    refused("qsgd", NULL, 16, one, TLC_ERR_PARAM, "payload is NULL");
    refused("qsgd", codes, 16, NULL, TLC_ERR_PARAM, "scalars is NULL");
    refused("qsgd", codes, 15, one, TLC_ERR_CORRUPT, "the payload of 15 bytes from byte 9 on is not what \"qsgd\"");
    refused("qsgd", codes, 17 - 1, infinite + 1, TLC_ERR_CORRUPT, "the scalars in the header are cut, not finite");
    refused("qsgd", codes, 16, one + 1, TLC_ERR_CORRUPT, "or negative");
    refused("onebit", bits, 2, infinite, TLC_ERR_CORRUPT, "not finite");
    refused("onebit", bits, 1, one, TLC_ERR_CORRUPT, "of 1 bytes");
    memcpy(bad, codes, 16);
    bad[15] = 128; /* no level */
    refused("qsgd", bad, 16, one, TLC_ERR_CORRUPT, "is not what");
    memcpy(bad, nibbles, 8);
    bad[7] = 8;
    refused("qsgd:bits=4", bad, 8, one, TLC_ERR_CORRUPT, "is not what");
    memset(natural + 4, 0x40, 16);
    natural[0] = 17; /* more values were clipped than there are */
    refused("natural", natural, 20, NULL, TLC_ERR_CORRUPT, "is not what \"natural\" makes of 16 values");
    natural[0] = 0;
    natural[19] = 0x7f;
    refused("natural:shift=3", natural, 20, NULL, TLC_ERR_CORRUPT, "is not what \"natural:shift=3\" makes");
    fill_blocks(blocks);
    refused("qsgd:block=10", blocks, 15, NULL, TLC_ERR_CORRUPT, "the table of 2 blocks needs 8 bytes each");
    refused("qsgd:block=10", blocks, 33, NULL, TLC_ERR_CORRUPT, "do not end where the frame");
    refused("qsgd:block=10", blocks, 31, NULL, TLC_ERR_CORRUPT, "block 1 of 2");
    blocks[11] ^= 0x80;
    refused("qsgd:block=10", blocks, 32, NULL, TLC_ERR_CORRUPT, "block 1 of 2");
}

TEST(refusals_of_memory)
{
    const tlc_quartic_params *plain = PARAMS(quartic, .codec = "qsgd", .message = message,
                                             .message_cap = sizeof message);
    uint8_t dst[ROOM];
    size_t len = 77;

    memset(dst, 0xaa, sizeof dst);
    require_status(tlc_compress_payload(codes, 16, one, 16, NULL, dst, ROOM, &len), TLC_ERR_PARAM);
    require_status(tlc_compress_payload(codes, 16, one, 16, plain, NULL, ROOM, &len), TLC_ERR_PARAM);
    require_says(message, "dst is NULL");
    require_status(tlc_compress_payload(codes, 16, one, 16, plain, dst, ROOM, NULL), TLC_ERR_PARAM);
    require_says(message, "written is NULL");
    require_status(tlc_compress_payload(codes, 16, one, 16, plain, dst, 24, &len), TLC_ERR_CAPACITY);
    require_says(message, "cap is 24 bytes, 25 are needed");
    require_status(tlc_compress_payload(codes, SIZE_MAX, one, 16, plain, dst, ROOM, &len), TLC_ERR_CAPACITY);
    require_status(tlc_compress_payload(codes, 16, one, SIZE_MAX, plain, dst, ROOM, &len), TLC_ERR_CORRUPT);
    require_status(tlc_compress_payload(codes, 16, one, 16, PARAMS(quartic, .codec = "qsgd", .dtype = (tlc_dtype)3),
                                        dst, ROOM, &len),
                   TLC_ERR_PARAM);
    require(len == 77 && all_bytes(dst, sizeof dst, 0xaa));
    require_status(tlc_compress_payload(codes, 16, one, 16, plain, dst, 25, &len), TLC_OK);
    require(len == 25 && all_bytes(dst + 25, ROOM - 25, 0xaa));
}

/* Positions of ternary+golomb that are as long as quartic bytes are read, but not framed: tlc_compress makes none. */
TEST(fallback)
{
    static const uint8_t quartic[4] = {120, 120, 120, 120}, few[3] = {0, 0}; /* 16 symbols 0 */
    const tlc_quartic_params *p = PARAMS(quartic, .codec = "3lc-golomb", .dtype = TLC_F16, .checksum = 1);
    tlc_frame_info info = {.struct_size = sizeof info};
    uint8_t dst[ROOM];
    size_t len = 0;

    require_status(tlc_compress_payload(quartic, 4, one, 16, p, dst, ROOM, &len), TLC_OK);
    require_status(tlc_inspect(dst, len, &info), TLC_OK);
    require(info.payload_size == 4 && dst[3] == 0x12);
    require_status(tlc_compress_payload(few, 2, one, 16, p, dst, ROOM, &len), TLC_OK);
    require_status(tlc_inspect(dst, len, &info), TLC_OK);
    require(info.payload_size == 2 && dst[3] == 0x02);
}

/* No values: the frame of tlc_compress, and bytes that follow are too many. */
TEST(no_values)
{
    uint8_t dst[ROOM], want[ROOM];
    size_t len = 0;

    FOR_EACH_CODEC(c) {
        const tlc_config cfg = config(c->text, TLC_BF16, TLC_ISA_AUTO);
        tlc_ctx *ctx = create(&cfg, 0);
        const size_t wanted = compress(ctx, NULL, want);
        const tlc_quartic_params *p = PARAMS(quartic, .codec = c->text, .dtype = TLC_BF16);
        tlc_destroy(ctx);
        at = (place){.codec = c->text, .note = "no values"};
        require_status(tlc_compress_payload(NULL, 0, NULL, 0, p, dst, ROOM, &len), TLC_OK);
        require(len == wanted && same(dst, want, len));
        require_status(tlc_compress_payload(codes, 1, NULL, 0, p, dst, ROOM, &len), TLC_ERR_CORRUPT);
    }
}

SETUP(print_isas)
