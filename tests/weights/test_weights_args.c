/* SPDX-License-Identifier: MIT
 *
 * threelc/weights.h and wrong arguments: the status, the sentence, and nothing is written.
 */
#include "model.h"

static char words[TLC_MESSAGE_SIZE];

/* Refuses with a status, and says why. */
#define SAYS(call, status, text)                                                                                       \
    do {                                                                                                               \
        require_status(call, status);                                                                                  \
        require_says(words, text);                                                                                     \
    } while (0)

static tlc_weights_writer_config writer_config(mail *m)
{
    return (tlc_weights_writer_config){.struct_size = sizeof(tlc_weights_writer_config),
                                       .write = mail_write,
                                       .opaque = m,
                                       .sequence = 1,
                                       .count = 3,
                                       .message = words,
                                       .message_cap = sizeof words};
}

TEST(making_a_writer)
{
    mail m = {0};
    tlc_weights_writer *w = NULL;
    tlc_weights_writer_config c = writer_config(&m);

    require_status(tlc_weights_writer_create(NULL, &c), TLC_ERR_PARAM);
    require_status(tlc_weights_writer_create(&w, NULL), TLC_ERR_PARAM);
    c.struct_size = 3;
    require_status(tlc_weights_writer_create(&w, &c), TLC_ERR_PARAM);
    c = writer_config(&m);
    c.write = NULL;
    SAYS(tlc_weights_writer_create(&w, &c), TLC_ERR_PARAM, "write is NULL");
    c = writer_config(&m);
    c.sequence = 0;
    SAYS(tlc_weights_writer_create(&w, &c), TLC_ERR_PARAM, "sequence is 0");
    c = writer_config(&m);
    c.note_len = 5;
    SAYS(tlc_weights_writer_create(&w, &c), TLC_ERR_PARAM, "note is NULL, but note_len is 5");
    c.note = "";
    c.note_len = TLC_WEIGHTS_NOTE_MAX + 1;
    SAYS(tlc_weights_writer_create(&w, &c), TLC_ERR_PARAM, "note_len is 16777217: at most 16777216");
    c = writer_config(&m);
    c.count = UINT64_MAX / 8;
    SAYS(tlc_weights_writer_create(&w, &c), TLC_ERR_SIZE, "count is 2305843009213693951");
    c = writer_config(&m);
    c.alloc = no_allocator;
    SAYS(tlc_weights_writer_create(&w, &c), TLC_ERR_NOMEM, "no memory for 3 offsets");
    c.alloc.free = NULL;
    SAYS(tlc_weights_writer_create(&w, &c), TLC_ERR_PARAM, "alloc has alloc, but no free");
    require(!w && !m.writes);
    tlc_weights_writer_destroy(NULL);
}

/* An entry that is refused leaves the writer as it was. */
#define REFUSED(field_and_value, text)                                                                                 \
    do {                                                                                                               \
        tlc_weights_entry e_ = good;                                                                                   \
        e_.field_and_value;                                                                                            \
        SAYS(tlc_weights_add(w, &e_, e_.is_view ? NULL : frame, e_.is_view ? 0 : len), TLC_ERR_PARAM, text);           \
        require(m.len == before);                                                                                      \
    } while (0)

TEST(adding_entries)
{
    static const uint64_t shape[] = {2, 3}, longer[] = {UINT64_C(1) << 40, UINT64_C(1) << 40}, other[] = {2, 4};
    static char too_long[TLC_WEIGHTS_NAME_MAX + 2];
    static const uint8_t weights[24];
    mail m = {0};
    tlc_weights_writer *w = NULL;
    tlc_weights_writer_config c = writer_config(&m);
    tlc_weights_entry good = {.struct_size = sizeof good, .name = "m", .dims = 2, .shape = shape};
    uint8_t frame[200];
    size_t len, bound;

    memset(too_long, 'x', sizeof too_long - 1);
    require_status(tlc_delta_bound(TLC_F32, 6, &bound), TLC_OK);
    require(bound <= sizeof frame);
    require_status(tlc_delta_compress(TLC_F32, weights, weights, 6, frame, sizeof frame, &len, NULL), TLC_OK);
    require_status(tlc_weights_writer_create(&w, &c), TLC_OK);
    require_status(tlc_weights_add(w, &good, frame, len), TLC_OK);
    require(!*words);
    const size_t before = m.len;

    require_status(tlc_weights_add(NULL, &good, frame, len), TLC_ERR_PARAM);
    require_status(tlc_weights_add(w, NULL, frame, len), TLC_ERR_PARAM);
    REFUSED(name = "m", "m comes after m: names rise");
    REFUSED(name = "lz", "lz comes after m");
    REFUSED(name = "", "the name of entry 1 is not UTF-8 of 1 to 4096 bytes");
    REFUSED(name = NULL, "not UTF-8");
    REFUSED(name = too_long, "not UTF-8");
    static const char *const not_utf8[] = {"n\x80",         "n\xc3",         "n\xc3\x28",         "n\xc0\xaf",
                                           "n\xe0\x80\xaf", "n\xed\xa0\x80", "n\xf4\x90\x80\x80", "n\xf8\x88\x80\x80",
                                           "n\xff",         "n\xe2\x82",     "n\xf0\x9f\x92"};
    for (size_t i = 0; i < COUNT(not_utf8); i++)
        REFUSED(name = not_utf8[i], "not UTF-8");
    tlc_weights_entry e = good;
    e.name = "n";
    SAYS(tlc_weights_add(w, &e, NULL, 0), TLC_ERR_PARAM, "n: frame is NULL");
    SAYS(tlc_weights_add(w, &e, frame, 3), TLC_ERR_PARAM, "n: the frame is not a delta with digests, of 6 weights");
    require_status(tlc_delta_compress(TLC_F32, weights, weights, 6, frame, sizeof frame, &len,
                                      &(tlc_delta_options){.struct_size = sizeof(tlc_delta_options),
                                                           .without_digests = 1}),
                   TLC_OK);
    SAYS(tlc_weights_add(w, &e, frame, len), TLC_ERR_PARAM, "not a delta with digests");
    require_status(tlc_delta_compress(TLC_F32, weights, weights, 6, frame, sizeof frame, &len, NULL), TLC_OK);
    good.name = "n";
    REFUSED(dtype = (tlc_dtype)11, "n: dtype is 11");
    REFUSED(dtype = TLC_I32, "not a delta with digests, of 6 weights of dtype i32");
    REFUSED(shape = other, "of 8 weights");
    REFUSED(shape = longer, "n: the shape has too many weights");
    REFUSED(shape = NULL, "n: 2 dimensions");
    REFUSED(dims = 65, "n: 65 dimensions: at most 64");
    REFUSED(dims = 1, "of 2 weights");
    REFUSED(is_view = 2, "is_view is 2");
    tlc_weights_entry view = good;
    view.is_view = 1;
    view.root_dims = 2;
    view.root_strides = view.strides = shape;
    SAYS(tlc_weights_add(w, &view, frame, len), TLC_ERR_PARAM, "n: a view has no frame");
    view.root = 3;
    SAYS(tlc_weights_add(w, &view, NULL, 0), TLC_ERR_PARAM, "n: root is 3: another entry of 3");
    view.root = 1;
    SAYS(tlc_weights_add(w, &view, NULL, 0), TLC_ERR_PARAM, "n: root is 1");
    view.root = 0;
    view.strides = NULL;
    SAYS(tlc_weights_add(w, &view, NULL, 0), TLC_ERR_PARAM, "strides is NULL");
    view.strides = shape;
    view.root_dims = 65;
    SAYS(tlc_weights_add(w, &view, NULL, 0), TLC_ERR_PARAM, "root_dims is 65, at most 64");
    require(m.len == before);
    SAYS(tlc_weights_finish(w), TLC_ERR_ORDER, "cannot end: it has 1 entries of 3");
    require_status(tlc_weights_add(w, &good, frame, len), TLC_OK);
    good.name = "\xf4\x8f\xbf\xbf";
    require_status(tlc_weights_add(w, &good, frame, len), TLC_OK);
    good.name = "\xf4\x8f\xbf\xbfz";
    SAYS(tlc_weights_add(w, &good, frame, len), TLC_ERR_ORDER, "no entry can follow: the message has 3 of 3");
    require_status(tlc_weights_finish(NULL), TLC_ERR_PARAM);
    require_status(tlc_weights_finish(w), TLC_OK);
    SAYS(tlc_weights_finish(w), TLC_ERR_ORDER, "and its end");
    tlc_weights_writer_destroy(w);
    tlc_weights_reader *r = reader_of(&m, 1);
    tlc_weights_close(r);
    mail_close(&m);
}

TEST(opening)
{
    model base;
    tlc_weights_reader *r = NULL;
    tlc_weights_info info = {.struct_size = sizeof info};
    char sentence[80];

    model_small(&base, 1);
    mail m = publish(NULL, &base, 1);
    const tlc_weights_reader_config good = {.struct_size = sizeof good,
                                            .src = m.bytes,
                                            .size = m.len,
                                            .message = words,
                                            .message_cap = sizeof words};
    tlc_weights_reader_config c = good;
    require_status(tlc_weights_open(NULL, &c), TLC_ERR_PARAM);
    require_status(tlc_weights_open(&r, NULL), TLC_ERR_PARAM);
    c.struct_size = sizeof c.struct_size - 1;
    require_status(tlc_weights_open(&r, &c), TLC_ERR_PARAM);
    c = good;
    c.read = mail_read;
    SAYS(tlc_weights_open(&r, &c), TLC_ERR_PARAM, "src and read are both set");
    c.src = NULL;
    c.read = NULL;
    SAYS(tlc_weights_open(&r, &c), TLC_ERR_PARAM, "src and read are both NULL");
    c = good;
    c.isa = (tlc_isa)5;
    require_status(tlc_weights_open(&r, &c), TLC_ERR_PARAM);
    c.isa = missing_isa();
    if (c.isa != TLC_ISA_AUTO)
        require_status(tlc_weights_open(&r, &c), TLC_ERR_UNSUPPORTED);
    c = good;
    c.alloc = no_allocator;
    SAYS(tlc_weights_open(&r, &c), TLC_ERR_NOMEM, "no memory for a reader");
    c.alloc.alloc = NULL;
    SAYS(tlc_weights_open(&r, &c), TLC_ERR_PARAM, "alloc has free, but no alloc");
    c = good;
    c.src = "D";
    c.size = 1;
    SAYS(tlc_weights_open(&r, &c), TLC_ERR_CORRUPT, "1 bytes are too few for a message of weights");
    m.bytes[0] = 'w';
    SAYS(tlc_weights_open(&r, &good), TLC_ERR_CORRUPT, "which begins with \"W\"");
    m.bytes[0] = 'W'; /* cppcheck-suppress redundantAssignment ; open has read it */
    m.bytes[1] = 9;
    SAYS(tlc_weights_open(&r, &good), TLC_ERR_VERSION, "byte 1 ... is 9: this library reads 1");
    m.bytes[1] = 1; /* cppcheck-suppress redundantAssignment ; open has read it */
    c = good;
    c.size--;
    SAYS(tlc_weights_open(&r, &c), TLC_ERR_CHECKSUM, "head or tail ... cut, or is not finished");
    m.bytes[46 + 4 + 2] = 'A'; /* the name of the first entry, after head and note */
    SAYS(tlc_weights_open(&r, &good), TLC_ERR_CHECKSUM,
         "entry 0 of the message was altered: its checksum does not match");
    m.bytes[46 + 4 + 2] = 'a'; /* cppcheck-suppress redundantAssignment ; open has read it */
    c = good;
    c.src = NULL;
    c.read = mail_read;
    c.opaque = &m;
    m.fails_after = 1;
    m.writes = 0;
    (void)snprintf(sentence, sizeof sentence, "read of 36 bytes at byte %zu failed with 5", m.len - 36);
    require_status(tlc_weights_open(&r, &c), TLC_ERR_TRANSPORT);
    require(strstr(words, sentence));
    m.fails_after = 0; /* cppcheck-suppress redundantAssignment ; open has read it */
    require(!r);
    require_status(tlc_weights_open(&r, &good), TLC_OK);
    require(!*words);

    tlc_weights_entry e = {.struct_size = sizeof e};
    const void *frame = NULL;
    require_status(tlc_weights_describe(NULL, &info), TLC_ERR_PARAM);
    require_status(tlc_weights_describe(r, NULL), TLC_ERR_PARAM);
    require_status(tlc_weights_at(NULL, 0, &e), TLC_ERR_PARAM);
    SAYS(tlc_weights_at(r, 0, NULL), TLC_ERR_PARAM, "entry is NULL");
    SAYS(tlc_weights_at(r, 4, &e), TLC_ERR_PARAM, "there is no entry 4: the message has 4");
    SAYS(tlc_weights_at(r, UINT64_MAX, &e), TLC_ERR_PARAM, "there is no entry");
    SAYS(tlc_weights_frame(r, 4, NULL, 0, &frame), TLC_ERR_PARAM, "there is no entry 4");
    SAYS(tlc_weights_frame(r, 0, NULL, 0, NULL), TLC_ERR_PARAM, "frame is NULL");
    SAYS(tlc_weights_frame(r, 1, NULL, 0, &frame), TLC_ERR_PARAM, "b is a view: it has no frame");
    require_status(tlc_weights_frame(NULL, 0, NULL, 0, &frame), TLC_ERR_PARAM);
    require_status(tlc_weights_note(NULL, NULL, 0), TLC_ERR_PARAM);
    SAYS(tlc_weights_copy_view(r, 0, m.bytes, m.bytes), TLC_ERR_PARAM, "a is no view");
    SAYS(tlc_weights_copy_view(r, 1, NULL, m.bytes), TLC_ERR_PARAM, "values is NULL");
    SAYS(tlc_weights_copy_view(r, 1, m.bytes, NULL), TLC_ERR_PARAM, "out is NULL");
    require_status(tlc_weights_copy_view(NULL, 0, m.bytes, m.bytes), TLC_ERR_PARAM);
    require_status(tlc_weights_apply(NULL, receiver_find, NULL, NULL, 0), TLC_ERR_PARAM);
    SAYS(tlc_weights_apply(r, NULL, NULL, NULL, 0), TLC_ERR_PARAM, "find is NULL");
    require_status(tlc_weights_frame(r, 0, NULL, 0, &frame), TLC_OK);
    require((const uint8_t *)frame > m.bytes && !*words);
    tlc_weights_close(r);

    require_status(tlc_weights_open(&r, &c), TLC_OK);
    require_status(tlc_weights_describe(r, &info), TLC_OK);
    require_status(tlc_weights_at(r, 0, &e), TLC_OK);
    uint8_t *room = bytes((size_t)info.frame_max);
    (void)snprintf(sentence, sizeof sentence, "a: cap is %zu bytes, the frame has %zu", (size_t)e.frame_len - 1,
                   (size_t)e.frame_len);
    require_status(tlc_weights_frame(r, 0, room, (size_t)e.frame_len - 1, &frame), TLC_ERR_CAPACITY);
    require(strstr(words, sentence));
    SAYS(tlc_weights_frame(r, 0, NULL, SIZE_MAX, &frame), TLC_ERR_CAPACITY, "a: cap is 0 bytes");
    require_status(tlc_weights_frame(r, 0, room, (size_t)e.frame_len, &frame), TLC_OK);
    require(frame == room);
    free(room);
    tlc_weights_close(r);
    tlc_weights_close(NULL);
    mail_close(&m);
    model_close(&base);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

typedef struct given {
    uint64_t entry;
    tlc_weights_place place;
    uint64_t i;
} given;

static int give(void *opaque, const tlc_weights_entry *entry, tlc_weights_place *where)
{
    given *g = opaque;

    (void)entry;
    if (g->i++ == g->entry)
        *where = g->place;
    return 0;
}

TEST(wrong_places)
{
    model base, next;
    uint8_t room[2000] = {0};

    model_open(&base, 1);
    model_copy(&next, &base);
    mail m = publish(&base, &next, 2);
    tlc_weights_reader *r = NULL;
    const tlc_weights_reader_config c = {.struct_size = sizeof c,
                                         .src = m.bytes,
                                         .size = m.len,
                                         .message = words,
                                         .message_cap = sizeof words};
    require_status(tlc_weights_open(&r, &c), TLC_OK);
    const struct row {
        uint64_t entry;
        tlc_weights_place place;
        const char *words;
    } rows[] = {
        {3, {room, room, 0, 721}, "d.g16: first is 0, count 721, and it has 720 weights"},
        {3, {room, room, 721, 0}, "d.g16: first is 721"},
        {3, {room, room, 2, SIZE_MAX}, "d.g16: first is 2"},
        {3, {NULL, room, 0, 20}, "d.g16: base is NULL, but the delta has one"},
        {3, {room, room + 2, 0, 20}, "d.g16: base and out share memory, but are not the same"},
        {9, {room, room, 1, 20}, "d.m4: first is 1, count 20, and u4 has two weights in a byte"},
        {9, {room, room, 2, 21}, "d.m4: first is 2, count 21, and u4"},
        {9, {room, room + 9, 2, 20}, "d.m4: base and out share memory"},
        {1, {NULL, room, 0, 20}, "b.tied: first is 0, count 20, and it has 70000 weights, a view"},
        {19, {NULL, room, 0, 290}, "t.odd is a view of late, of which the receiver has not all"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        given g = {rows[i].entry, rows[i].place, 0};
        at = (place){.i = i};
        SAYS(tlc_weights_apply(r, give, &g, NULL, 0), TLC_ERR_PARAM, rows[i].words);
    }
    require(all_bytes(room, sizeof room, 0));
    given g = {3, {room, room, 700, 0}, 0}; /* no weights */
    require_status(tlc_weights_apply(r, give, &g, NULL, 0), TLC_OK);
    g = (given){3, {base.tensors[3].values, base.tensors[3].values + 40, 0, 20}, 0};
    require_status(tlc_weights_apply(r, give, &g, NULL, 0), TLC_OK);
    tlc_weights_entry e = {.struct_size = sizeof e};
    const void *frame = NULL;
    require_status(tlc_weights_at(r, 3, &e), TLC_OK);
    require_status(tlc_weights_frame(r, 3, NULL, 0, &frame), TLC_OK);
    m.bytes[(size_t)((const uint8_t *)frame - m.bytes) + (size_t)e.frame_len - 1] ^= 1;
    g = (given){3, {base.tensors[3].values, base.tensors[3].values, 0, 720}, 0};
    SAYS(tlc_weights_apply(r, give, &g, NULL, 0), TLC_ERR_CHECKSUM, "d.g16: the ");
    g = (given){3, {base.tensors[3].values, base.tensors[3].values, 0, 20}, 0};
    SAYS(tlc_weights_apply(r, give, &g, NULL, 0), TLC_ERR_CHECKSUM, "d.g16: the delta was altered");
    require_status(tlc_weights_follows(NULL, NULL, words, sizeof words), TLC_ERR_PARAM);
    tlc_weights_close(r);
    mail_close(&m);
    model_close(&base);
    model_close(&next);
}
