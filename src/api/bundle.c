/* SPDX-License-Identifier: MIT */
#include "../common/bytes.h"
#include "../common/varint.h"
#include "../frames/formats.h"
#include <threelc/bundle.h>

#define BUNDLE_MAGIC 'B'
#define BUNDLE_VERSION 2
/* A writer reserves room for the largest head in front of the frames: HEAD_MAX bytes for magic, version and count, and
 * TLC_VARINT_MAX bytes for each length. */
#define COUNT_MAX 5 /* bytes of 32 bits as LEB128 */
#define HEAD_MAX (2 + COUNT_MAX)
/* Until tlc_bundle_finish there are only lengths, of 8 bytes each, from the beginning of the reserved bytes. */
#define FIXED_LENGTH 8

tlc_status tlc_bundle_bound(uint32_t count, size_t frame_bytes, size_t *bound)
{
    if (!bound)
        return TLC_ERR_PARAM;
    if (frame_bytes > SIZE_MAX - HEAD_MAX || count > (SIZE_MAX - HEAD_MAX - frame_bytes) / TLC_VARINT_MAX)
        return TLC_ERR_SIZE;
    *bound = HEAD_MAX + (size_t)count * TLC_VARINT_MAX + frame_bytes;
    return TLC_OK;
}

tlc_status tlc_bundle_init(tlc_bundle_writer *w, void *dst, size_t cap, uint32_t count)
{
    size_t head;

    if (!w || !dst)
        return TLC_ERR_PARAM;
    if (tlc_bundle_bound(count, 0, &head) || cap < head)
        return TLC_ERR_CAPACITY;
    *w = (tlc_bundle_writer){.dst = dst, .cap = cap, .used = head, .count = count};
    return TLC_OK;
}

tlc_status tlc_bundle_space(const tlc_bundle_writer *w, void **dst, size_t *cap)
{
    if (!w || !dst || !cap || w->index == w->count)
        return TLC_ERR_PARAM;
    *dst = w->dst + w->used;
    *cap = w->cap - w->used;
    return TLC_OK;
}

tlc_status tlc_bundle_commit(tlc_bundle_writer *w, size_t len)
{
    if (!w || w->index == w->count)
        return TLC_ERR_PARAM;
    if (len > w->cap - w->used)
        return TLC_ERR_CAPACITY;
    tlc_store64(w->dst + (size_t)w->index++ * FIXED_LENGTH, len);
    w->used += len;
    return TLC_OK;
}

tlc_status tlc_bundle_add(tlc_bundle_writer *w, const void *frame, size_t len)
{
    void *dst;
    size_t cap;
    tlc_status status = tlc_bundle_space(w, &dst, &cap);

    if (status)
        return status;
    if (len && !frame)
        return TLC_ERR_PARAM;
    if (len > cap)
        return TLC_ERR_CAPACITY;
    if (len)
        memcpy(dst, frame, len);
    return tlc_bundle_commit(w, len);
}

/* Writes v right before *begin, and moves *begin to it. */
static void write_before(uint8_t **begin, uint64_t v)
{
    *begin -= tlc_varint_size(v);
    (void)tlc_varint_write(*begin, v);
}

/* The head is written from its end to its beginning, the last length first. No length is overwritten before it is read:
 * when length i is written, the lengths 0 to i - 1 are still to be read. They end at byte 8 i. What is written are
 * count - i lengths of at most 10 bytes before byte 7 + 10 count, where the frames begin. So it begins at byte 7 + 10 i
 * or later. The 7 bytes before length 0 are enough for the rest. */
tlc_status tlc_bundle_finish(tlc_bundle_writer *w, tlc_message *bundle)
{
    if (!w || !w->dst || !bundle || w->index != w->count)
        return TLC_ERR_PARAM;
    uint8_t *begin = w->dst + HEAD_MAX + (size_t)w->count * TLC_VARINT_MAX;
    for (size_t i = w->count; i-- > 0;)
        write_before(&begin, tlc_load64(w->dst + i * FIXED_LENGTH));
    write_before(&begin, w->count);
    *--begin = BUNDLE_VERSION;
    *--begin = BUNDLE_MAGIC;
    *bundle = (tlc_message){begin, w->used - (size_t)(begin - w->dst)};
    *w = (tlc_bundle_writer){0};
    return TLC_OK;
}

/* Reads the head of a bundle and checks all lengths. */
static tlc_status open_bundle(tlc_bundle_reader *r, const void *src, size_t len, tlc_text *w)
{
    const uint8_t *p = src;
    size_t at = 2, frames = 0;
    uint64_t count, length;

    if (len < 2 || p[0] != BUNDLE_MAGIC) {
        tlc_format_say(w, TLC_FORMAT_BUNDLE, src, len);
        return TLC_ERR_CORRUPT;
    }
    if (p[1] != BUNDLE_VERSION) {
        tlc_format_say(w, TLC_FORMAT_BUNDLE, src, len);
        return TLC_ERR_VERSION;
    }
    if (!tlc_varint_read(p, len, &at, &count) || count > UINT32_MAX || count > len - at)
        return TLC_FAIL(w, TLC_ERR_CORRUPT,
                        "the count of the bundle's frames is invalid, or more than %zu bytes can hold", len);
    const size_t lengths = at;
    for (uint64_t i = 0; i < count; i++) {
        if (!tlc_varint_read(p, len, &at, &length) || length > len - frames)
            return TLC_FAIL(w, TLC_ERR_CORRUPT, "frame %llu of the bundle has no length, or one that does not fit",
                            (unsigned long long)i);
        frames += (size_t)length;
    }
    if (frames != len - at)
        return TLC_FAIL(w, TLC_ERR_CORRUPT, "the frames of the bundle have %zu bytes together, but %zu follow its head",
                        frames, len - at);
    *r =
        (tlc_bundle_reader){.src = src, .len = len, .next_length = lengths, .next_frame = at, .count = (uint32_t)count};
    return TLC_OK;
}

tlc_status tlc_bundle_open(tlc_bundle_reader *r, const void *src, size_t len)
{
    return r && (src || !len) ? open_bundle(r, src, len, NULL) : TLC_ERR_PARAM;
}

tlc_status tlc_bundle_explain(const void *src, size_t len, tlc_text *w)
{
    tlc_bundle_reader r;
    return open_bundle(&r, src, len, w);
}

uint32_t tlc_bundle_count(const tlc_bundle_reader *r)
{
    return r ? r->count : 0;
}

tlc_status tlc_bundle_next(tlc_bundle_reader *r, const void **frame, size_t *len)
{
    uint64_t length = 0;

    if (!r || !frame || !len || r->index == r->count)
        return TLC_ERR_PARAM;
    (void)tlc_varint_read(r->src, r->len, &r->next_length, &length); /* as tlc_bundle_open did */
    *frame = r->src + r->next_frame;
    *len = (size_t)length;
    r->next_frame += *len;
    r->index++;
    return TLC_OK;
}
