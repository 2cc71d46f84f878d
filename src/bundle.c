/* SPDX-License-Identifier: MIT */
#include "common/bytes.h"
#include <threelc/bundle.h>

#define BUNDLE_MAGIC 'B'
#define BUNDLE_VERSION 1
#define BUNDLE_HEAD 8
#define BUNDLE_ENTRY 8

tlc_status tlc_bundle_bound(uint32_t count, size_t frame_bytes, size_t *bound)
{
    if (!bound)
        return TLC_ERR_PARAM;
    if (frame_bytes > SIZE_MAX - BUNDLE_HEAD || count > (SIZE_MAX - BUNDLE_HEAD - frame_bytes) / BUNDLE_ENTRY)
        return TLC_ERR_SIZE;
    *bound = BUNDLE_HEAD + (size_t)count * BUNDLE_ENTRY + frame_bytes;
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
    w->dst[0] = BUNDLE_MAGIC;
    w->dst[1] = BUNDLE_VERSION;
    w->dst[2] = w->dst[3] = 0;
    tlc_store32(w->dst + 4, count);
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
    tlc_store64(w->dst + BUNDLE_HEAD + (size_t)w->index++ * BUNDLE_ENTRY, len);
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

tlc_status tlc_bundle_finish(const tlc_bundle_writer *w, size_t *written)
{
    if (!w || !written || w->index != w->count)
        return TLC_ERR_PARAM;
    *written = w->used;
    return TLC_OK;
}

tlc_status tlc_bundle_open(tlc_bundle_reader *r, const void *src, size_t len)
{
    const uint8_t *p = src;

    if (!r || (!src && len))
        return TLC_ERR_PARAM;
    if (len < BUNDLE_HEAD || p[0] != BUNDLE_MAGIC)
        return TLC_ERR_CORRUPT;
    if (p[1] != BUNDLE_VERSION)
        return TLC_ERR_VERSION;
    uint32_t count = tlc_load32(p + 4);
    if (p[2] || p[3] || count > (len - BUNDLE_HEAD) / BUNDLE_ENTRY)
        return TLC_ERR_CORRUPT;
    size_t head = BUNDLE_HEAD + (size_t)count * BUNDLE_ENTRY, left = len - head;
    for (size_t i = 0; i < count; i++) {
        uint64_t frame = tlc_load64(p + BUNDLE_HEAD + i * BUNDLE_ENTRY);
        if (frame > left)
            return TLC_ERR_CORRUPT;
        left -= (size_t)frame;
    }
    if (left)
        return TLC_ERR_CORRUPT;
    *r = (tlc_bundle_reader){.src = src, .len = len, .offset = head, .count = count};
    return TLC_OK;
}

uint32_t tlc_bundle_count(const tlc_bundle_reader *r)
{
    return r ? r->count : 0;
}

tlc_status tlc_bundle_next(tlc_bundle_reader *r, const void **frame, size_t *len)
{
    if (!r || !frame || !len || r->index == r->count)
        return TLC_ERR_PARAM;
    *len = (size_t)tlc_load64(r->src + BUNDLE_HEAD + (size_t)r->index++ * BUNDLE_ENTRY);
    *frame = r->src + r->offset;
    r->offset += *len;
    return TLC_OK;
}
