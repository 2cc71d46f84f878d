/* SPDX-License-Identifier: MIT
 *
 * A writer and a reader are one allocation each, of a size that the model's does not change, and nothing else
 * allocates: with malloc, and with an allocator of the caller.
 */
#include "../support/no_memory.h"
#include "model.h"

enum { READER_MOST = 32 << 10, WRITER_MOST = 20 << 10 };

typedef struct room {
    uint8_t bytes[1 << 20];
    size_t len;
} room;

static int into_room(void *opaque, const void *src, size_t len)
{
    room *r = opaque;

    memcpy(r->bytes + r->len, src, len);
    r->len += len;
    return 0;
}

static int from_room(void *opaque, uint64_t offset, void *dst, size_t len)
{
    const room *r = opaque;

    memcpy(dst, r->bytes + offset, len);
    return 0;
}

/* A message of all weights. c: without write and opaque. */
static void write_starved(room *r, const model *m, tlc_weights_writer_config c, size_t allocations)
{
    tlc_weights_writer *w = NULL;

    c.write = into_room;
    c.opaque = r;
    c.count = m->count;
    r->len = 0;
    starve(allocations);
    const tlc_status status = tlc_weights_writer_create(&w, &c);
    feed();
    require_status(status, TLC_OK);
    require(memory.asked == allocations);
    for (size_t i = 0; i < m->count; i++) {
        const tensor *t = &m->tensors[i];
        size_t len = 0;
        uint8_t *frame = t->entry.is_view ? NULL : frame_of(NULL, t, &len);
        starved(tlc_weights_add(w, &t->entry, frame, len), TLC_OK);
        free(frame);
    }
    starved(tlc_weights_finish(w), TLC_OK);
    starved_run(tlc_weights_writer_destroy(w));
}

static void read_starved(room *r, model *m, tlc_weights_reader_config c, size_t allocations)
{
    static uint8_t frame[1 << 19];
    tlc_weights_info info = {.struct_size = sizeof info};
    tlc_weights_heard heard = {.sequence = 0};
    tlc_weights_reader *reader = NULL;
    receiver to = {.base = m, .out = m};

    c.read = from_room;
    c.opaque = r;
    c.size = r->len;
    starve(allocations);
    const tlc_status status = tlc_weights_open(&reader, &c);
    feed();
    require_status(status, TLC_OK);
    require(memory.asked == allocations);
    starved(tlc_weights_describe(reader, &info), TLC_OK);
    starved(tlc_weights_follows(&info, &heard, NULL, 0), TLC_OK);
    starved(tlc_weights_note(reader, frame, sizeof frame), TLC_OK);
    for (uint64_t i = 0; i < info.count; i++) {
        tlc_weights_entry e = {.struct_size = sizeof e};
        const void *found;
        starved(tlc_weights_at(reader, i, &e), TLC_OK);
        if (!e.is_view)
            starved(tlc_weights_frame(reader, i, frame, sizeof frame, &found), TLC_OK);
    }
    starved(tlc_weights_apply(reader, receiver_find, &to, frame, sizeof frame), TLC_OK);
    starved_run(tlc_weights_close(reader));
}

TEST(with_malloc)
{
    static room r;
    model m;

    model_open(&m, 1);
    write_starved(&r, &m, (tlc_weights_writer_config){.struct_size = sizeof(tlc_weights_writer_config), .sequence = 1},
                  1);
    read_starved(&r, &m, (tlc_weights_reader_config){.struct_size = sizeof(tlc_weights_reader_config)}, 1);
    model_close(&m);
}

static size_t largest;

static void *sized_alloc(void *opaque, size_t size)
{
    largest = size;
    return counted_alloc(opaque, size);
}

TEST(with_an_allocator)
{
    static room r;
    counter c = {.left = 2, .starved = 1};
    const tlc_allocator alloc = {sized_alloc, counted_free, &c};
    model m;

    model_open(&m, 1);
    write_starved(&r, &m,
                  (tlc_weights_writer_config){.struct_size = sizeof(tlc_weights_writer_config),
                                              .sequence = 1,
                                              .alloc = alloc},
                  0);
    require(c.made == 1 && c.freed == 1 && largest <= 8 * m.count + WRITER_MOST);
    read_starved(&r, &m, (tlc_weights_reader_config){.struct_size = sizeof(tlc_weights_reader_config), .alloc = alloc},
                 0);
    require(c.made == 2 && c.freed == 2 && largest <= READER_MOST);
    model_close(&m);
}
