/* SPDX-License-Identifier: MIT
 *
 * Messages of weights: written, piece by piece.
 */
#include "../api/context.h"
#include "../codec/arguments.h"
#include "../common/bytes.h"
#include "../common/structs.h"
#include "weights_entry.h"

struct tlc_weights_writer {
    tlc_weights_writer_config config;
    tlc_allocator alloc;
    tlc_text why;
    int over; /* the message has an end, or writing failed */
    uint64_t at, added, base_digest, result_digest;
    uint32_t head_checksum;
    char last[TLC_WEIGHTS_NAME_MAX + 1]; /* name of the entry before; "" at first */
    tlc_weights_slot slot;
    uint64_t offsets[]; /* of the entries */
};

static tlc_status put(tlc_weights_writer *w, const void *src, size_t len)
{
    const int failed = len ? w->config.write(w->config.opaque, src, len) : 0;

    if (failed) {
        w->over = 1;
        return TLC_FAIL(&w->why, TLC_ERR_TRANSPORT, "write failed with %d at byte %llu", failed,
                        (unsigned long long)w->at);
    }
    w->at += len;
    return TLC_OK;
}

static tlc_status write_head(tlc_weights_writer *w)
{
    const tlc_weights_writer_config *c = &w->config;
    uint8_t head[TLC_WEIGHTS_HEAD_SIZE] = {TLC_WEIGHTS_MAGIC, TLC_WEIGHTS_VERSION};

    memcpy(head + 4, c->trainer, sizeof c->trainer);
    tlc_store64(head + 20, c->sequence);
    tlc_store32(head + 28, (uint32_t)c->note_len);
    tlc_store32(head + 32, tlc_checksum(c->note, c->note_len));
    w->head_checksum = tlc_checksum(head, 36);
    tlc_store32(head + 36, w->head_checksum);
    tlc_status status = put(w, head, sizeof head);
    return status ? status : put(w, c->note, c->note_len);
}

static tlc_status check_config(const tlc_weights_writer_config *c, tlc_text *why)
{
    if (!c->write)
        return TLC_FAIL(why, TLC_ERR_PARAM, "write is NULL");
    if (!c->sequence)
        return TLC_FAIL(why, TLC_ERR_PARAM, "sequence is 0: messages count from 1");
    if (c->note_len > TLC_WEIGHTS_NOTE_MAX)
        return TLC_FAIL(why, TLC_ERR_PARAM, "note_len is %zu: at most %d", c->note_len, TLC_WEIGHTS_NOTE_MAX);
    if (c->note_len && !c->note)
        return TLC_FAIL(why, TLC_ERR_PARAM, "note is NULL, but note_len is %zu", c->note_len);
    return tlc_allocator_check(&c->alloc, why);
}

tlc_status tlc_weights_writer_create(tlc_weights_writer **out, const tlc_weights_writer_config *config)
{
    tlc_weights_writer_config c = {0};

    if (!out || !config || !tlc_import(&c, sizeof c, config))
        return TLC_ERR_PARAM;
    tlc_text why = tlc_text_in(c.message, c.message_cap);
    tlc_status status = check_config(&c, &why);
    if (status)
        return status;
    if (c.count > (SIZE_MAX - sizeof(tlc_weights_writer)) / sizeof(uint64_t))
        return TLC_FAIL(&why, TLC_ERR_SIZE,
                        "count is %llu: the offsets of the entries need more bytes than the "
                        "address space",
                        (unsigned long long)c.count);
    const tlc_allocator alloc = tlc_allocator_of(&c.alloc);
    tlc_weights_writer *w = alloc.alloc(alloc.opaque, sizeof *w + (size_t)c.count * sizeof w->offsets[0]);
    if (!w)
        return TLC_FAIL(&why, TLC_ERR_NOMEM, "there is no memory for %llu offsets", (unsigned long long)c.count);
    memset(w, 0, sizeof *w);
    w->config = c;
    w->alloc = alloc;
    w->why = why;
    status = write_head(w);
    w->config.note = NULL; /* the caller's, of which no more is needed */
    if (status)
        tlc_weights_writer_destroy(w);
    else
        *out = w;
    return status;
}

void tlc_weights_writer_destroy(tlc_weights_writer *w)
{
    if (w) {
        const tlc_allocator alloc = w->alloc;
        alloc.free(alloc.opaque, w);
    }
}

static tlc_status check_name(tlc_weights_writer *w, const tlc_weights_entry *e)
{
    const char *end = e->name ? memchr(e->name, 0, TLC_WEIGHTS_NAME_MAX + 1) : NULL;

    if (!end || !tlc_weights_is_name(e->name, (size_t)(end - e->name)))
        return TLC_FAIL(&w->why, TLC_ERR_PARAM, "the name of entry %llu is not UTF-8 of 1 to %d bytes",
                        (unsigned long long)w->added, TLC_WEIGHTS_NAME_MAX);
    if (strcmp(w->last, e->name) >= 0)
        return TLC_FAIL(&w->why, TLC_ERR_PARAM, "%.150s comes after %.150s: names rise, in the order of bytes", e->name,
                        w->last);
    return TLC_OK;
}

/* *n: the weights that the shape has. */
static tlc_status check_shape(tlc_weights_writer *w, const tlc_weights_entry *e, uint64_t *n)
{
    if ((unsigned)e->dtype > TLC_F64)
        return TLC_FAIL(&w->why, TLC_ERR_PARAM, "%.200s: dtype is %d: TLC_F32 (0) to TLC_F64 (10)", e->name,
                        (int)e->dtype);
    if (e->dims > TLC_WEIGHTS_DIMS_MAX || (e->dims && !e->shape))
        return TLC_FAIL(&w->why, TLC_ERR_PARAM, "%.200s: %zu dimensions: at most %d, and shape has them", e->name,
                        e->dims, TLC_WEIGHTS_DIMS_MAX);
    *n = tlc_weights_count(e->shape, e->dims);
    return *n != UINT64_MAX ? TLC_OK
                            : TLC_FAIL(&w->why, TLC_ERR_PARAM, "%.200s: the shape has too many weights", e->name);
}

static tlc_status check_view(tlc_weights_writer *w, const tlc_weights_entry *e, const void *frame, size_t len)
{
    const int is_part = e->root_strides != NULL;

    if (frame || len)
        return TLC_FAIL(&w->why, TLC_ERR_PARAM, "%.200s: a view has no frame", e->name);
    if (e->root >= w->config.count || e->root == w->added)
        return TLC_FAIL(&w->why, TLC_ERR_PARAM, "%.200s: root is %llu: another entry of %llu", e->name,
                        (unsigned long long)e->root, (unsigned long long)w->config.count);
    if (is_part && (e->root_dims > TLC_WEIGHTS_DIMS_MAX || (e->dims && !e->strides)))
        return TLC_FAIL(&w->why, TLC_ERR_PARAM, "%.200s: root_dims is %zu, at most %d, or strides is NULL", e->name,
                        e->root_dims, TLC_WEIGHTS_DIMS_MAX);
    return TLC_OK;
}

/* Takes digests and n of the frame into *e. */
static tlc_status check_frame(tlc_weights_writer *w, tlc_weights_entry *e, const void *frame, size_t len)
{
    if (!frame)
        return TLC_FAIL(&w->why, TLC_ERR_PARAM, "%.200s: frame is NULL", e->name);
    return tlc_weights_entry_peek(e, frame, len)
               ? TLC_FAIL(&w->why, TLC_ERR_PARAM,
                          "%.200s: the frame is not a delta with digests, of %llu weights of dtype %s", e->name,
                          (unsigned long long)e->n, tlc_dtype_name(e->dtype))
               : TLC_OK;
}

static tlc_status check_entry(tlc_weights_writer *w, tlc_weights_entry *e, const void *frame, size_t len)
{
    tlc_status status = tlc_flag_check("is_view", e->is_view, &w->why);

    if (!status)
        status = check_name(w, e);
    if (!status)
        status = check_shape(w, e, &e->n);
    if (!status)
        status = e->is_view ? check_view(w, e, frame, len) : check_frame(w, e, frame, len);
    return status;
}

tlc_status tlc_weights_add(tlc_weights_writer *w, const tlc_weights_entry *entry, const void *frame, size_t len)
{
    tlc_weights_entry e = {0};

    if (!w || !entry || !tlc_import(&e, sizeof e, entry))
        return TLC_ERR_PARAM;
    w->why = tlc_text_in(w->config.message, w->config.message_cap);
    if (w->over || w->added == w->config.count)
        return TLC_FAIL(&w->why, TLC_ERR_ORDER, "no entry can follow: the message has %llu of %llu%s",
                        (unsigned long long)w->added, (unsigned long long)w->config.count,
                        w->over ? ", and its end, or writing failed" : "");
    tlc_status status = check_entry(w, &e, frame, len);
    if (status)
        return status;
    tlc_weights_entry_write(&w->slot, &e, w->added, len);
    w->offsets[w->added] = w->at;
    status = put(w, w->slot.bytes, w->slot.head);
    if (!status)
        status = put(w, frame, len);
    if (status)
        return status;
    memcpy(w->last, e.name, strlen(e.name) + 1);
    w->added++;
    if (e.has_base)
        w->base_digest = tlc_weights_digest(w->base_digest, &w->slot, e.base_digest);
    if (!e.is_view)
        w->result_digest = tlc_weights_digest(w->result_digest, &w->slot, e.result_digest);
    return TLC_OK;
}

static tlc_status write_index(tlc_weights_writer *w)
{
    enum { TOGETHER = 512 };
    uint8_t offsets[TOGETHER * TLC_WEIGHTS_OFFSET_SIZE];
    tlc_status status = TLC_OK;

    for (uint64_t i = 0, count; i < w->added && !status; i += count) {
        count = w->added - i < TOGETHER ? w->added - i : TOGETHER;
        for (size_t j = 0; j < count; j++)
            tlc_store64(offsets + j * TLC_WEIGHTS_OFFSET_SIZE, w->offsets[i + j]);
        status = put(w, offsets, (size_t)count * TLC_WEIGHTS_OFFSET_SIZE);
    }
    return status;
}

tlc_status tlc_weights_finish(tlc_weights_writer *w)
{
    uint8_t tail[TLC_WEIGHTS_TAIL_SIZE];

    if (!w)
        return TLC_ERR_PARAM;
    w->why = tlc_text_in(w->config.message, w->config.message_cap);
    if (w->over || w->added != w->config.count)
        return TLC_FAIL(&w->why, TLC_ERR_ORDER, "the message cannot end: it has %llu entries of %llu%s",
                        (unsigned long long)w->added, (unsigned long long)w->config.count,
                        w->over ? ", and its end, or writing failed" : "");
    tlc_status status = write_index(w);
    if (status)
        return status;
    tlc_store64(tail, w->at + sizeof tail);
    tlc_store64(tail + 8, w->added);
    tlc_store64(tail + 16, w->base_digest);
    tlc_store64(tail + 24, w->result_digest);
    tlc_store32(tail + 32, tlc_weights_tail_checksum(tail, w->head_checksum));
    status = put(w, tail, sizeof tail);
    w->over = 1;
    return status;
}
