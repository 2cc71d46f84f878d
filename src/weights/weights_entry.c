/* SPDX-License-Identifier: MIT */
#include "weights_entry.h"
#include "../common/bytes.h"
#include "../common/hash.h"
#include "../common/sizes.h"

enum { DESCRIPTION = TLC_WEIGHTS_LENGTH_SIZE + 1 /* where it is in the head */ };

/* The bytes of the character at p, of which there are len; 0: it is not UTF-8, or NUL. */
static size_t character(const uint8_t *p, size_t len)
{
    /* by the number of its bytes, less 1 */
    static const uint32_t least[] = {1, 0x80, 0x800, 0x10000};
    const size_t more = p[0] < 0x80 ? 0 : p[0] >> 5 == 6 ? 1 : p[0] >> 4 == 14 ? 2 : p[0] >> 3 == 30 ? 3 : 4;

    if (more >= 4 || more >= len)
        return 0;
    uint32_t code = more ? p[0] & (0x3fu >> more) : p[0];
    for (size_t i = 1; i <= more; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    return code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : more + 1;
}

int tlc_weights_is_name(const char *name, size_t len)
{
    if (!len || len > TLC_WEIGHTS_NAME_MAX)
        return 0;
    for (size_t at = 0, size; at < len; at += size) {
        size = character((const uint8_t *)name + at, len - at);
        if (!size)
            return 0;
    }
    return 1;
}

uint64_t tlc_weights_count(const uint64_t *shape, size_t dims)
{
    uint64_t n = 1;

    for (size_t i = 0; i < dims; i++)
        n = tlc_product(n, shape[i]);
    return n;
}

static size_t write_all(uint8_t *dst, const uint64_t *numbers, size_t count)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i++)
        at += tlc_varint_write(dst + at, numbers[i]);
    return at;
}

/* The checksum of an entry knows its number. */
static uint32_t checksum(const uint8_t *head, size_t len, uint64_t number)
{
    return (uint32_t)tlc_hash(head, len, number);
}

void tlc_weights_entry_write(tlc_weights_slot *slot, const tlc_weights_entry *entry, uint64_t number,
                             uint64_t frame_len)
{
    const size_t len = strlen(entry->name);
    const tlc_weights_kind kind = !entry->is_view        ? TLC_WEIGHTS_FRAME
                                  : !entry->root_strides ? TLC_WEIGHTS_WHOLE
                                                         : TLC_WEIGHTS_PART;
    uint8_t *p = slot->bytes;
    size_t at = DESCRIPTION;

    p[TLC_WEIGHTS_LENGTH_SIZE] = (uint8_t)kind;
    at += tlc_varint_write(p + at, len);
    memcpy(p + at, entry->name, len);
    at += len;
    p[at++] = (uint8_t)entry->dtype;
    p[at++] = (uint8_t)entry->dims;
    at += write_all(p + at, entry->shape, entry->dims);
    slot->described = at - DESCRIPTION;
    at += tlc_varint_write(p + at, kind == TLC_WEIGHTS_FRAME ? frame_len : entry->root);
    if (kind == TLC_WEIGHTS_PART) {
        p[at++] = (uint8_t)entry->root_dims;
        at += write_all(p + at, entry->root_strides, entry->root_dims);
        at += write_all(p + at, entry->strides, entry->dims);
        at += tlc_varint_write(p + at, entry->first);
    }
    slot->head = at + TLC_CHECKSUM_SIZE;
    tlc_store32(p, (uint32_t)slot->head);
    tlc_store32(p + at, checksum(p, at, number));
}

static int read_all(const uint8_t *p, size_t len, size_t *at, uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!tlc_varint_read(p, len, at, &numbers[i]))
            return 0;
    return 1;
}

/* A byte, a number of dimensions. */
static int read_dims(const uint8_t *p, size_t len, size_t *at, size_t *dims)
{
    if (*at == len || p[*at] > TLC_WEIGHTS_DIMS_MAX)
        return 0;
    *dims = p[(*at)++];
    return 1;
}

static int read_description(tlc_weights_slot *slot, size_t end, size_t *at)
{
    tlc_weights_entry *e = &slot->entry;
    const uint8_t *p = slot->bytes;
    uint64_t len;

    if (!tlc_varint_read(p, end, at, &len) || len >= end - *at ||
        !tlc_weights_is_name((const char *)p + *at, (size_t)len))
        return 0;
    memcpy(slot->name, p + *at, (size_t)len);
    slot->name[len] = 0;
    *at += (size_t)len;
    e->dtype = (tlc_dtype)p[(*at)++];
    if (e->dtype > TLC_F64 || !read_dims(p, end, at, &e->dims) || !read_all(p, end, at, slot->shape, e->dims))
        return 0;
    e->n = tlc_weights_count(slot->shape, e->dims);
    return e->n != UINT64_MAX;
}

static int read_entry(tlc_weights_slot *slot, size_t end)
{
    tlc_weights_entry *e = &slot->entry;
    const uint8_t *p = slot->bytes;
    const unsigned kind = p[TLC_WEIGHTS_LENGTH_SIZE];
    size_t at = DESCRIPTION;

    *e = (tlc_weights_entry){.struct_size = sizeof *e, .name = slot->name, .shape = slot->shape};
    if (kind > TLC_WEIGHTS_PART || !read_description(slot, end, &at))
        return 0;
    slot->described = at - DESCRIPTION;
    e->is_view = kind != TLC_WEIGHTS_FRAME;
    if (!tlc_varint_read(p, end, &at, e->is_view ? &e->root : &e->frame_len))
        return 0;
    if (kind == TLC_WEIGHTS_PART) {
        e->root_strides = slot->root_strides;
        e->strides = slot->strides;
        if (!read_dims(p, end, &at, &e->root_dims) || !read_all(p, end, &at, slot->root_strides, e->root_dims) ||
            !read_all(p, end, &at, slot->strides, e->dims) || !tlc_varint_read(p, end, &at, &e->first))
            return 0;
    }
    return at == end;
}

tlc_status tlc_weights_entry_read(tlc_weights_slot *slot, uint64_t number)
{
    const size_t end = slot->head - TLC_CHECKSUM_SIZE;

    if (tlc_load32(slot->bytes + end) != checksum(slot->bytes, end, number))
        return TLC_ERR_CHECKSUM;
    return read_entry(slot, end) ? TLC_OK : TLC_ERR_CORRUPT;
}

tlc_status tlc_weights_entry_peek(tlc_weights_entry *entry, const void *frame, size_t len)
{
    tlc_delta_info info = {.struct_size = sizeof info};
    tlc_status status = tlc_delta_peek(frame, len, &info);

    if (status)
        return status;
    if (info.dtype != entry->dtype || info.n != entry->n || !info.has_digests)
        return TLC_ERR_CORRUPT;
    entry->has_base = info.has_base;
    entry->base_digest = info.base_digest;
    entry->result_digest = info.result_digest;
    return TLC_OK;
}

uint32_t tlc_weights_tail_checksum(const uint8_t *tail, uint32_t head)
{
    return (uint32_t)tlc_hash(tail, TLC_WEIGHTS_TAIL_SIZE - TLC_CHECKSUM_SIZE, head);
}

uint64_t tlc_weights_digest(uint64_t model, const tlc_weights_slot *slot, uint64_t weights)
{
    return tlc_hash(slot->bytes + DESCRIPTION, slot->described, model + weights);
}
