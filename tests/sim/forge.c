/* SPDX-License-Identifier: MIT */
#include "forge.h"
#include "object.h"
#include <xxhash.h>

static void seal(blob *b)
{
    uint32_t sum = (uint32_t)XXH3_64bits(b->data, b->len - CHECKSUM);

    for (size_t i = 0; i < CHECKSUM; i++)
        b->data[b->len - CHECKSUM + i] = (uint8_t)(sum >> 8 * i);
}

blob *forge_head(run *r, tlc_message message, uint64_t draw, unsigned *causes)
{
    blob *b = blob_copy(r, message);

    switch (draw % 5) {
    case 0:
        b->data[MAGIC]++;
        *causes = CAUSE(TLC_ERR_CORRUPT);
        break;
    case 1:
        b->data[VERSION]++;
        *causes = CAUSE(TLC_ERR_VERSION);
        break;
    case 2:
        b->data[KIND] ^= (uint8_t)(draw & 64 ? 0x10 : 0x01);
        *causes = CAUSE(TLC_ERR_PARAM);
        break;
    case 3:
        b->data[FLAGS] |= 0x10;
        *causes = CAUSE(TLC_ERR_CORRUPT);
        break;
    default:
        b->data[FINGERPRINT + below(draw, 8)] ^= 0x80;
        *causes = CAUSE(TLC_ERR_PARAM);
        break;
    }
    seal(b);
    return b;
}

size_t find_bundle(const blob *b, tlc_bundle_reader *frames)
{
    for (size_t i = HEAD; i + CHECKSUM < b->len; i++)
        if (!tlc_bundle_open(frames, b->data + i, b->len - CHECKSUM - i))
            return i;
    return 0;
}

blob *forge_frame(run *r, tlc_message message, uint64_t draw)
{
    blob *b = blob_copy(r, message);
    tlc_bundle_reader frames;
    const void *frame = NULL;
    size_t len = 0;

    for (int more = find_bundle(b, &frames) != 0; more && !len;)
        more = !tlc_bundle_next(&frames, &frame, &len);
    if (!len) {
        blob_drop(r, b);
        return NULL;
    }
    b->data[(const uint8_t *)frame - b->data + (draw & 1 ? 0 : 2)] = 99; /* the version of the frame, or its codec */
    seal(b);
    return b;
}

blob *forge_sender(run *r, tlc_message message, uint32_t sender)
{
    blob *b = blob_copy(r, message);

    b->data[HEAD] = (uint8_t)sender;
    seal(b);
    return b;
}

blob *forge_taken(run *r, tlc_message message, uint32_t workers)
{
    blob *b = blob_copy(r, message);
    tlc_bundle_reader frames;
    size_t bundle = find_bundle(b, &frames);

    if (!bundle) {
        blob_drop(r, b);
        return NULL;
    }
    b->data[bundle - (workers + 7) / 8] ^= 1; /* the bits of who was taken come before the bundle */
    seal(b);
    return b;
}

blob *forge_last_value(run *r, tlc_message message)
{
    static const uint8_t nan_bytes[] = {0, 0, 0xc0, 0x7f};
    blob *b = blob_copy(r, message);
    tlc_frame_info info = {.struct_size = sizeof info};
    tlc_bundle_reader frames;
    const void *frame;
    size_t len;
    int raw = 0;

    for (int more = find_bundle(b, &frames) != 0; more;) {
        more = !tlc_bundle_next(&frames, &frame, &len);
        if (more)
            raw = !tlc_inspect(frame, len, &info) && !strncmp(info.codec, "raw", 3) && info.n;
    }
    if (!raw) {
        blob_drop(r, b);
        return NULL;
    }
    memcpy(b->data + b->len - CHECKSUM - sizeof nan_bytes, nan_bytes, sizeof nan_bytes);
    seal(b);
    return b;
}

blob *forge_last_byte(run *r, tlc_message message)
{
    blob *b = blob_copy(r, message);

    b->data[b->len - CHECKSUM - 1]++;
    seal(b);
    return b;
}
