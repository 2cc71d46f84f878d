/* SPDX-License-Identifier: MIT
 *
 * Messages of weights: opened, and read entry by entry.
 */
#include "weights_reader.h"
#include "../api/context.h"
#include "../codec/arguments.h"
#include "../common/bytes.h"
#include "../common/sizes.h"
#include "../common/structs.h"
#include "../frames/formats.h"
#include "weights_view.h"

enum { FIRST_READ = 512 /* bytes of an entry, which is seldom more */ };

/* Reads bytes that the message has. */
static tlc_status get(tlc_weights_reader *r, uint64_t offset, void *dst, size_t len)
{
    if (r->config.src) {
        memcpy(dst, (const uint8_t *)r->config.src + offset, len);
        return TLC_OK;
    }
    const int failed = r->config.read(r->config.opaque, offset, dst, len);
    return failed ? TLC_FAIL(&r->why, TLC_ERR_TRANSPORT, "read of %zu bytes at byte %llu failed with %d", len,
                             (unsigned long long)offset, failed)
                  : TLC_OK;
}

static tlc_status is_corrupt(tlc_weights_reader *r, const char *what)
{
    return TLC_FAIL(&r->why, TLC_ERR_CORRUPT, "the message was altered or cut: %s", what);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static tlc_status entry_fails(tlc_weights_reader *r, uint64_t i, tlc_status status, const char *what)
{
    return TLC_FAIL(&r->why, status, "entry %llu of the message was altered: %s", (unsigned long long)i, what);
}

/* Reads bytes of a slot that are not there yet. There are *have of them. */
static tlc_status read_more(tlc_weights_reader *r, tlc_weights_slot *slot, size_t *have, uint64_t wanted)
{
    const size_t room = tlc_smaller(sizeof slot->bytes, (size_t)tlc_smaller_64(wanted, r->index - slot->offset));
    tlc_status status = TLC_OK;

    if (room > *have)
        status = get(r, slot->offset + *have, slot->bytes + *have, room - *have);
    *have = room > *have ? room : *have;
    return status;
}

/* Reads the head of entry i, and what its frame says, from slot->offset on. */
static tlc_status read_entry(tlc_weights_reader *r, uint64_t i, tlc_weights_slot *slot)
{
    tlc_weights_entry *e = &slot->entry;
    size_t have = 0;

    tlc_status status = read_more(r, slot, &have, FIRST_READ);
    if (status)
        return status;
    slot->head = have < TLC_WEIGHTS_LENGTH_SIZE ? 0 : tlc_load32(slot->bytes);
    if (slot->head < TLC_WEIGHTS_ENTRY_MIN || slot->head > TLC_WEIGHTS_ENTRY_MAX ||
        slot->head > r->index - slot->offset)
        return entry_fails(r, i, TLC_ERR_CORRUPT, "its head has an impossible length");
    status = read_more(r, slot, &have, slot->head + TLC_DELTA_HEAD_MAX);
    if (status)
        return status;
    status = tlc_weights_entry_read(slot, i);
    if (status)
        return entry_fails(r, i, status, status == TLC_ERR_CHECKSUM ? "its checksum does not match" : "its head");
    slot->offset += slot->head;
    if (e->frame_len > r->index - slot->offset)
        return entry_fails(r, i, TLC_ERR_CORRUPT, "its frame does not fit");
    slot->end = slot->offset + e->frame_len;
    if (!e->is_view)
        status = tlc_weights_entry_peek(e, slot->bytes + slot->head,
                                        (size_t)tlc_smaller_64(e->frame_len, have - slot->head));
    return status ? entry_fails(r, i, status, "its frame is of another version, or not of its weights") : TLC_OK;
}

tlc_status tlc_weights_entry_at(tlc_weights_reader *r, uint64_t i, tlc_weights_slot *slot)
{
    uint8_t offset[TLC_WEIGHTS_OFFSET_SIZE];

    if (i >= r->info.count)
        return TLC_FAIL(&r->why, TLC_ERR_PARAM, "there is no entry %llu: the message has %llu", (unsigned long long)i,
                        (unsigned long long)r->info.count);
    tlc_status status = get(r, r->index + i * TLC_WEIGHTS_OFFSET_SIZE, offset, sizeof offset);
    if (status)
        return status;
    slot->offset = tlc_load64(offset);
    return slot->offset >= r->entries && slot->offset < r->index
               ? read_entry(r, i, slot)
               : entry_fails(r, i, TLC_ERR_CORRUPT, "its offset is impossible");
}

tlc_status tlc_weights_root_of(tlc_weights_reader *r)
{
    const tlc_weights_entry *view = &r->slot.entry;

    if (view->root >= r->info.count)
        return is_corrupt(r, "a view is of no entry");
    tlc_status status = tlc_weights_entry_at(r, view->root, &r->root);
    if (status)
        return status;
    return tlc_weights_view_fits(view, &r->root.entry) ? TLC_OK : is_corrupt(r, "a view does not fit its root");
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tlc_status check_config(const tlc_weights_reader_config *c, tlc_text *why)
{
    if (!c->src == !c->read)
        return TLC_FAIL(why, TLC_ERR_PARAM, "src and read are %s: one of them has the message",
                        c->src ? "both set" : "both NULL");
    if (c->src && c->size > SIZE_MAX)
        return TLC_FAIL(why, TLC_ERR_PARAM, "size is %llu: more than the address space has",
                        (unsigned long long)c->size);
    tlc_status status = tlc_allocator_check(&c->alloc, why);
    return status ? status : tlc_isa_check(c->isa, why);
}

/* Reads head and tail. */
static tlc_status read_ends(tlc_weights_reader *r)
{
    const uint64_t size = r->config.size;
    const size_t have = (size_t)tlc_smaller_64(size, TLC_WEIGHTS_HEAD_SIZE);
    uint8_t head[TLC_WEIGHTS_HEAD_SIZE], tail[TLC_WEIGHTS_TAIL_SIZE];
    tlc_weights_info *info = &r->info;

    tlc_status status = get(r, 0, head, have);
    if (status)
        return status;
    if (size < TLC_WEIGHTS_HEAD_SIZE + TLC_WEIGHTS_TAIL_SIZE || head[0] != TLC_WEIGHTS_MAGIC ||
        head[1] != TLC_WEIGHTS_VERSION) {
        tlc_format_say(&r->why, TLC_FORMAT_WEIGHTS, head, have);
        return have == TLC_WEIGHTS_HEAD_SIZE && head[0] == TLC_WEIGHTS_MAGIC && head[1] != TLC_WEIGHTS_VERSION
                   ? TLC_ERR_VERSION
                   : TLC_ERR_CORRUPT;
    }
    status = get(r, size - sizeof tail, tail, sizeof tail);
    if (status)
        return status;
    const uint32_t sum = tlc_load32(head + 36);
    if (sum != tlc_checksum(head, 36) || tlc_load32(tail + 32) != tlc_weights_tail_checksum(tail, sum))
        return TLC_FAIL(&r->why, TLC_ERR_CHECKSUM,
                        "the checksum of head or tail does not match: the message was "
                        "altered or cut, or is not finished");
    info->version = head[1];
    memcpy(info->trainer, head + 4, sizeof info->trainer);
    info->sequence = tlc_load64(head + 20);
    info->note_len = tlc_load32(head + 28);
    r->note_checksum = tlc_load32(head + 32);
    info->size = tlc_load64(tail);
    info->count = tlc_load64(tail + 8);
    info->base_digest = tlc_load64(tail + 16);
    info->result_digest = tlc_load64(tail + 24);
    r->entries = TLC_WEIGHTS_HEAD_SIZE + info->note_len;
    const uint64_t rest = size - sizeof tail;
    if (head[2] || head[3] || !info->sequence || info->size != size || info->note_len > TLC_WEIGHTS_NOTE_MAX ||
        r->entries > rest || info->count > (rest - r->entries) / TLC_WEIGHTS_OFFSET_SIZE)
        return is_corrupt(r, "head and tail do not fit");
    r->index = rest - info->count * TLC_WEIGHTS_OFFSET_SIZE;
    return TLC_OK;
}

/* Goes over all entries, which must follow one another. */
static tlc_status walk(tlc_weights_reader *r)
{
    tlc_weights_slot *slot = &r->slot;
    const tlc_weights_entry *e = &slot->entry;
    uint64_t at = r->entries, base = 0, result = 0;

    r->info.full = 1;
    for (uint64_t i = 0; i < r->info.count; i++) {
        tlc_status status = tlc_weights_entry_at(r, i, slot);
        if (!status && slot->offset - slot->head != at)
            status = is_corrupt(r, "an entry does not begin where the one before it ends");
        if (!status && strcmp(r->last, e->name) >= 0)
            status = is_corrupt(r, "names do not rise");
        if (!status && e->is_view)
            status = tlc_weights_root_of(r);
        if (status)
            return status;
        at = slot->end;
        memcpy(r->last, e->name, strlen(e->name) + 1);
        if (e->has_base)
            base = tlc_weights_digest(base, slot, e->base_digest);
        if (!e->is_view)
            result = tlc_weights_digest(result, slot, e->result_digest);
        r->info.full &= !e->has_base;
        r->info.frame_max = e->frame_len > r->info.frame_max ? e->frame_len : r->info.frame_max;
    }
    if (at != r->index)
        return is_corrupt(r, "entries do not end where the index begins");
    return base == r->info.base_digest && result == r->info.result_digest
               ? TLC_OK
               : is_corrupt(r, "the digests of the model are not those of its entries");
}

tlc_status tlc_weights_open(tlc_weights_reader **out, const tlc_weights_reader_config *config)
{
    tlc_weights_reader_config c = {0};

    if (!out || !config || !tlc_import(&c, sizeof c, config))
        return TLC_ERR_PARAM;
    tlc_text why = tlc_text_in(c.message, c.message_cap);
    tlc_status status = check_config(&c, &why);
    if (status)
        return status;
    const tlc_allocator alloc = tlc_allocator_of(&c.alloc);
    tlc_weights_reader *r = alloc.alloc(alloc.opaque, sizeof *r);
    if (!r)
        return TLC_FAIL(&why, TLC_ERR_NOMEM, "there is no memory for a reader of %zu bytes", sizeof *r);
    memset(r, 0, sizeof *r);
    r->config = c;
    r->alloc = alloc;
    r->why = why;
    r->info.struct_size = sizeof r->info;
    status = read_ends(r);
    if (!status)
        status = walk(r);
    if (status)
        tlc_weights_close(r);
    else
        *out = r;
    return status;
}

void tlc_weights_close(tlc_weights_reader *r)
{
    if (r) {
        const tlc_allocator alloc = r->alloc;
        alloc.free(alloc.opaque, r);
    }
}

/* ---- what a reader tells ----------------------------------------------------------------------------------------- */

tlc_status tlc_weights_describe(const tlc_weights_reader *r, tlc_weights_info *info)
{
    if (!r || !info || info->struct_size < sizeof info->struct_size)
        return TLC_ERR_PARAM;
    tlc_export(info, &r->info, sizeof r->info);
    return TLC_OK;
}

tlc_status tlc_weights_begin(tlc_weights_reader *r)
{
    if (!r)
        return TLC_ERR_PARAM;
    r->why = tlc_text_in(r->config.message, r->config.message_cap);
    return TLC_OK;
}

tlc_status tlc_weights_note(tlc_weights_reader *r, void *dst, size_t cap)
{
    tlc_status status = tlc_weights_begin(r);

    if (status)
        return status;
    if (cap < r->info.note_len)
        return TLC_FAIL(&r->why, TLC_ERR_CAPACITY, "cap is %zu bytes, the note has %llu", cap,
                        (unsigned long long)r->info.note_len);
    if (r->info.note_len && !dst)
        return TLC_FAIL(&r->why, TLC_ERR_PARAM, "dst is NULL, but the note has %llu bytes",
                        (unsigned long long)r->info.note_len);
    if (r->info.note_len)
        status = get(r, TLC_WEIGHTS_HEAD_SIZE, dst, (size_t)r->info.note_len);
    if (!status && tlc_checksum(dst, (size_t)r->info.note_len) != r->note_checksum)
        status = TLC_FAIL(&r->why, TLC_ERR_CHECKSUM, "the checksum of the note does not match: it was altered");
    return status;
}

tlc_status tlc_weights_at(tlc_weights_reader *r, uint64_t i, tlc_weights_entry *entry)
{
    tlc_status status = tlc_weights_begin(r);

    if (!status && (!entry || entry->struct_size < sizeof entry->struct_size))
        status = TLC_FAIL(&r->why, TLC_ERR_PARAM, "entry is NULL, or has no struct_size");
    if (!status)
        status = tlc_weights_entry_at(r, i, &r->slot);
    if (!status)
        tlc_export(entry, &r->slot.entry, sizeof r->slot.entry);
    return status;
}

tlc_status tlc_weights_frame_of(tlc_weights_reader *r, void *dst, size_t cap, const void **frame)
{
    const tlc_weights_slot *slot = &r->slot;

    if (r->config.src) {
        *frame = (const uint8_t *)r->config.src + slot->offset;
        return TLC_OK;
    }
    if (cap < slot->entry.frame_len || !dst)
        return TLC_FAIL(&r->why, TLC_ERR_CAPACITY, "%.200s: cap is %zu bytes, the frame has %llu", slot->name,
                        dst ? cap : 0, (unsigned long long)slot->entry.frame_len);
    *frame = dst;
    return get(r, slot->offset, dst, (size_t)slot->entry.frame_len);
}

tlc_status tlc_weights_frame(tlc_weights_reader *r, uint64_t i, void *dst, size_t cap, const void **frame)
{
    tlc_status status = tlc_weights_begin(r);

    if (!status && !frame)
        status = TLC_FAIL(&r->why, TLC_ERR_PARAM, "frame is NULL");
    if (!status)
        status = tlc_weights_entry_at(r, i, &r->slot);
    if (!status && r->slot.entry.is_view)
        status = TLC_FAIL(&r->why, TLC_ERR_PARAM, "%.200s is a view: it has no frame", r->slot.name);
    return status ? status : tlc_weights_frame_of(r, dst, cap, frame);
}

tlc_status tlc_weights_copy_view(tlc_weights_reader *r, uint64_t i, const void *values, void *out)
{
    tlc_status status = tlc_weights_begin(r);

    if (!status)
        status = tlc_weights_entry_at(r, i, &r->slot);
    if (!status && !r->slot.entry.is_view)
        status = TLC_FAIL(&r->why, TLC_ERR_PARAM, "%.200s is no view", r->slot.name);
    if (!status)
        status = tlc_weights_root_of(r);
    if (!status && r->slot.entry.n && (!values || !out))
        status = TLC_FAIL(&r->why, TLC_ERR_PARAM, "%s is NULL", values ? "out" : "values");
    if (!status)
        tlc_weights_view_copy(&r->slot.entry, &r->root.entry, values, out);
    return status;
}
