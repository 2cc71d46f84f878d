/* SPDX-License-Identifier: MIT
 *
 * threelc/weights.h and bytes that are no message, or were altered: weights stay as they are, and nothing else is read.
 */
#include "model.h"
#include <xxhash.h>

enum { HEAD = 40, TAIL = 36, CHECKSUM = 4 };

typedef struct sample {
    model base, next, out;
    mail m;
    arena src;
} sample;

static void open_sample(sample *s, int full)
{
    model_small(&s->base, 1);
    model_copy(&s->next, &s->base);
    model_copy(&s->out, &s->base);
    model_step(&s->next, 3);
    s->m = publish(full ? NULL : &s->base, &s->next, 4);
    arena_open(&s->src, 2 * s->m.len);
}

static void close_sample(sample *s)
{
    model_close(&s->base);
    model_close(&s->next);
    model_close(&s->out);
    mail_close(&s->m);
    arena_close(&s->src);
}

/* Takes len bytes that end at a guard page. */
static tlc_status take_bytes(sample *s, const uint8_t *bytes, size_t len)
{
    return take(arena_copy(&s->src, bytes, len, 1), len, &s->base, &s->out);
}

TEST(truncated)
{
    for (int full = 0; full < 2; full++) {
        sample s;
        open_sample(&s, full);
        for (size_t len = 0; len < s.m.len; len++)
            require(take_bytes(&s, s.m.bytes, len));
        uint8_t *longer = bytes(s.m.len + 1);
        memcpy(longer, s.m.bytes, s.m.len);
        longer[s.m.len] = 0;
        require(take_bytes(&s, longer, s.m.len + 1));
        require(take_bytes(&s, s.m.bytes + 1, s.m.len - 1));
        require_status(take_bytes(&s, s.m.bytes, s.m.len), TLC_OK);
        require(model_same(&s.out, &s.next));
        free(longer);
        close_sample(&s);
    }
}

TEST(altered)
{
    for (int full = 0; full < 2; full++) {
        sample s;
        open_sample(&s, full);
        for (size_t i = 0; i < s.m.len; i++)
            for (int bit = 0; bit < 8; bit++) {
                s.m.bytes[i] ^= (uint8_t)(1 << bit);
                at.i = i;
                require(take_bytes(&s, s.m.bytes, s.m.len));
                s.m.bytes[i] ^= (uint8_t)(1 << bit);
            }
        close_sample(&s);
    }
}

/* ---- with checksums that fit --------------------------------------------------------------------------------------
 * */

static uint64_t load(const uint8_t *p, size_t size)
{
    uint64_t x = 0;

    for (size_t i = 0; i < size; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
}

static void store(uint8_t *p, uint64_t x, size_t size)
{
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)(x >> 8 * i);
}

/* Where the index is, and entry i, of a good message. */
static size_t index_of(const mail *m)
{
    return m->len - TAIL - 8 * (size_t)load(m->bytes + m->len - TAIL + 8, 8);
}

static size_t entry_of(const mail *m, size_t i)
{
    return (size_t)load(m->bytes + index_of(m) + 8 * i, 8);
}

/* Writes the checksums of head, tail and all entries, as far as they can be found in any bytes. */
static void seal(uint8_t *p, size_t len)
{
    const uint64_t count = load(p + len - TAIL + 8, 8);

    store(p + 36, (uint32_t)XXH3_64bits(p, 36), CHECKSUM);
    store(p + len - CHECKSUM, (uint32_t)XXH3_64bits_withSeed(p + len - TAIL, TAIL - CHECKSUM, load(p + 36, CHECKSUM)),
          CHECKSUM);
    for (uint64_t i = 0; i < count && count < len / 8; i++) {
        const uint64_t offset = load(p + len - TAIL - 8 * (count - i), 8);
        const uint64_t head = offset < len - 4 ? load(p + offset, 4) : 0;
        if (head > 8 && head < len - offset)
            store(p + offset + head - CHECKSUM, (uint32_t)XXH3_64bits_withSeed(p + offset, (size_t)head - CHECKSUM, i),
                  CHECKSUM);
    }
}

/* Every byte of a message takes every value, one or two at a time. Some messages are messages still: they have another
 * trainer, say, or a number. */
TEST(forged)
{
    for (int full = 0; full < 2; full++) {
        size_t accepted = 0, refused = 0;
        rng r = {7};
        sample s;
        open_sample(&s, full);
        uint8_t *forged = bytes(s.m.len);
        for (size_t i = 0; i < s.m.len; i++)
            for (unsigned value = 0; value < 256; value += quick() ? 51 : 1) {
                memcpy(forged, s.m.bytes, s.m.len);
                forged[i] = (uint8_t)value;
                if (value % 16 == 5)
                    forged[rng_below(&r, s.m.len)] ^= (uint8_t)(1 << rng_below(&r, 8));
                seal(forged, s.m.len);
                at.i = i;
                if (take_bytes(&s, forged, s.m.len))
                    refused++;
                else
                    accepted++;
            }
        require(accepted > 24 && refused > 2 * accepted);
        free(forged);
        close_sample(&s);
    }
}

/* One field of a message has an impossible value, and all checksums fit. */
static tlc_status claims(sample *s, size_t offset, size_t size, uint64_t value)
{
    uint8_t *forged = bytes(s->m.len);

    memcpy(forged, s->m.bytes, s->m.len);
    store(forged + offset, value, size);
    seal(forged, s->m.len);
    at.i = offset;
    const tlc_status status = take_bytes(s, forged, s->m.len);
    free(forged);
    return status;
}

/* Numbers that would need memory or time, or lie outside of the message. */
TEST(bombs)
{
    static const uint64_t huge[] = {0, 5, 0x7f, 0x7fffffff, UINT64_C(1) << 61, (UINT64_C(1) << 61) + 4, UINT64_MAX};
    sample s;

    open_sample(&s, 0);
    const size_t tail = s.m.len - TAIL, table = index_of(&s.m);
    require_status(claims(&s, 20, 8, 9), TLC_OK); /* sequence */
    require_status(claims(&s, 20, 8, 0), TLC_ERR_CORRUPT);
    require_status(claims(&s, 2, 1, 1), TLC_ERR_CORRUPT);
    require_status(claims(&s, 3, 1, 1), TLC_ERR_CORRUPT);
    require_status(claims(&s, tail + 16, 8, 1), TLC_ERR_CORRUPT); /* digests */
    require_status(claims(&s, tail + 24, 8, 1), TLC_ERR_CORRUPT);
    for (size_t i = 0; i < COUNT(huge); i++) {
        require_status(claims(&s, tail, 8, huge[i]), TLC_ERR_CORRUPT); /* bytes of the message */
        require(claims(&s, 28, 4, huge[i]));                           /* bytes of the note */
        require(claims(&s, tail + 8, 8, huge[i]));                     /* entries */
        for (size_t j = 0; j < 4; j++) {
            require(claims(&s, table + 8 * j, 8, huge[i]));     /* where an entry is */
            require(claims(&s, entry_of(&s.m, j), 4, huge[i])); /* bytes of its head */
        }
    }
    close_sample(&s);
}

/* ---- messages of these bytes --------------------------------------------------------------------------------------
 * */

/* A message of one or two entries, whose heads are given from the kind to the last number. */
typedef struct forge {
    uint8_t bytes[20000];
    size_t len, offsets[2], count;
    uint64_t result;
} forge;

static void forge_entry(forge *f, const uint8_t *head, size_t len, size_t described, const uint8_t *frame,
                        size_t frame_len, uint64_t digest)
{
    uint8_t *p = f->bytes + f->len;

    f->offsets[f->count] = f->len;
    store(p, 4 + len + CHECKSUM, 4);
    memcpy(p + 4, head, len);
    f->len += 4 + len + CHECKSUM;
    if (frame_len)
        memcpy(f->bytes + f->len, frame, frame_len);
    f->len += frame_len;
    if (frame_len)
        f->result = XXH3_64bits_withSeed(p + 5, described, f->result + digest);
    f->count++;
}

static forge *forge_begin(void)
{
    forge *f = (forge *)(void *)bytes(sizeof *f);

    memset(f, 0, sizeof *f);
    f->bytes[0] = 'W';
    f->bytes[1] = 1;
    f->bytes[20] = 1;
    store(f->bytes + 32, (uint32_t)XXH3_64bits(NULL, 0), 4);
    f->len = HEAD;
    return f;
}

static char words[TLC_MESSAGE_SIZE];

/* Ends the message, and opens it. */
static tlc_status forge_end(forge *f)
{
    tlc_weights_reader *r = NULL;

    for (size_t i = 0; i < f->count; i++, f->len += 8)
        store(f->bytes + f->len, f->offsets[i], 8);
    store(f->bytes + f->len, f->len + TAIL, 8);
    store(f->bytes + f->len + 8, f->count, 8);
    store(f->bytes + f->len + 16, 0, 8);
    store(f->bytes + f->len + 24, f->result, 8);
    f->len += TAIL;
    seal(f->bytes, f->len);
    const tlc_weights_reader_config c = {.struct_size = sizeof c,
                                         .src = f->bytes,
                                         .size = f->len,
                                         .message = words,
                                         .message_cap = sizeof words};
    const tlc_status status = tlc_weights_open(&r, &c);
    tlc_weights_close(r);
    free(f);
    return status;
}

typedef struct head {
    uint8_t bytes[9000];
    size_t len, described;
} head;

static void byte(head *h, unsigned value)
{
    h->bytes[h->len++] = (uint8_t)value;
}

static void varint(head *h, uint64_t value)
{
    for (; value > 127; value >>= 7)
        byte(h, (unsigned)(value | 128) & 255);
    byte(h, (unsigned)value);
}

/* Kind and description; the shape is as long as it says. */
static head describe(unsigned kind, const char *name, size_t name_len, unsigned dtype, unsigned dims,
                     const uint64_t *shape)
{
    head h = {.len = 0};

    byte(&h, kind);
    varint(&h, name_len);
    memcpy(h.bytes + h.len, name, name_len < 8000 ? name_len : 1);
    h.len += name_len < 8000 ? name_len : 1;
    byte(&h, dtype);
    byte(&h, dims);
    for (unsigned i = 0; i < dims; i++)
        varint(&h, shape[i]);
    h.described = h.len - 1;
    return h;
}

static uint8_t frame[400];
static size_t frame_len;
static uint64_t digest;

/* A message with one frame of 12 bf16 weights. */
static tlc_status one(const head *h, size_t tell)
{
    head with = *h;
    forge *f = forge_begin();

    varint(&with, tell);
    forge_entry(f, with.bytes, with.len, h->described, frame, frame_len, digest);
    return forge_end(f);
}

static void make_frame(void)
{
    static const uint8_t weights[24] = {1, 2, 3};

    require_status(tlc_delta_compress(TLC_BF16, NULL, weights, 12, frame, sizeof frame, &frame_len, NULL), TLC_OK);
    require_status(tlc_delta_digest(TLC_BF16, weights, 12, &digest, NULL), TLC_OK);
}

#define LIST(...) ((const uint64_t[]){__VA_ARGS__})

TEST(descriptions)
{
    static char name[5000];
    head h;

    memset(name, 'x', sizeof name);
    make_frame();
    h = describe(0, "w", 1, TLC_BF16, 2, LIST(3, 4));
    require_status(one(&h, frame_len), TLC_OK);
    require_status(one(&h, 0), TLC_ERR_CORRUPT);
    require_status(one(&h, frame_len - 1), TLC_ERR_CORRUPT);
    require_status(one(&h, frame_len + 1), TLC_ERR_CORRUPT);
    require_status(one(&h, SIZE_MAX), TLC_ERR_CORRUPT);
    require_says(words, "entry 0 of the message was altered: its frame does not fit");
    h.bytes[0] = 3;
    require_status(one(&h, frame_len), TLC_ERR_CORRUPT);
    require_says(words, "entry 0 of the message was altered: its head");
    for (size_t len = 0; len <= sizeof name; len += quick() ? 64 : 1) {
        h = describe(0, name, len, TLC_BF16, 1, LIST(12));
        require_status(one(&h, frame_len), len && len <= TLC_WEIGHTS_NAME_MAX ? TLC_OK : TLC_ERR_CORRUPT);
    }
    h = describe(0, name, SIZE_MAX, TLC_BF16, 1, LIST(12));
    require_status(one(&h, frame_len), TLC_ERR_CORRUPT);
    static const char *const bad_names[] = {"a\xc3", "a\x80", "\xed\xa0\x80", "\xc0\x80"};
    for (size_t i = 0; i < COUNT(bad_names); i++) {
        h = describe(0, bad_names[i], strlen(bad_names[i]), TLC_BF16, 1, LIST(12));
        require_status(one(&h, frame_len), TLC_ERR_CORRUPT);
    }
    h = describe(0, "a\0b", 3, TLC_BF16, 1, LIST(12));
    require_status(one(&h, frame_len), TLC_ERR_CORRUPT);
    for (unsigned dtype = 0; dtype < 256; dtype++) {
        h = describe(0, "w", 1, dtype, 1, LIST(12));
        require_status(one(&h, frame_len), dtype == TLC_BF16 ? TLC_OK : TLC_ERR_CORRUPT);
    }
    uint64_t ones[255];
    for (size_t i = 0; i < COUNT(ones); i++)
        ones[i] = i ? 1 : 12;
    for (unsigned dims = 0; dims < 256; dims++) {
        h = describe(0, "w", 1, TLC_BF16, dims, ones);
        require_status(one(&h, frame_len), dims && dims <= TLC_WEIGHTS_DIMS_MAX ? TLC_OK : TLC_ERR_CORRUPT);
    }
    static const uint64_t shapes[][3] = {{12, 2, 1},
                                         {4, 4, 1},
                                         {0, 12, 1},
                                         {UINT64_C(1) << 32, UINT64_C(1) << 32, 12},
                                         {UINT64_C(3) << 62, 4, 1},
                                         {UINT64_MAX, UINT64_MAX, 12}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        h = describe(0, "w", 1, TLC_BF16, 3, shapes[i]);
        require_status(one(&h, frame_len), TLC_ERR_CORRUPT);
    }
    h = describe(0, "w", 1, TLC_BF16, 1, LIST(12));
    byte(&h, 0x80 | 12); /* a number that is not in its shortest form */
    require_status(one(&h, 0), TLC_ERR_CORRUPT);
    uint8_t empty[80] = {0}; /* too many dimensions, which would be as many bytes of a frame of no weights */
    uint64_t of_none;
    size_t len;
    require_status(tlc_delta_compress(TLC_BF16, NULL, empty, 0, empty, sizeof empty, &len, NULL), TLC_OK);
    require_status(tlc_delta_digest(TLC_BF16, empty, 0, &of_none, NULL), TLC_OK);
    h = describe(0, "weight", 6, TLC_BF16, 0, NULL);
    h.bytes[h.len - 1] = sizeof empty;
    forge *f = forge_begin();
    forge_entry(f, h.bytes, h.len, h.described - 1, empty, sizeof empty, of_none);
    require_status(forge_end(f), TLC_ERR_CORRUPT);
    require_says(words, "entry 0 of the message was altered: its head");
}

/* A message with a root of 3 x 4 values and a view of it. */
static tlc_status with_view(const head *view, int view_first)
{
    head root = describe(0, view_first ? "w" : "a", 1, TLC_BF16, 2, LIST(3, 4));
    forge *f = forge_begin();
    const size_t described = root.described;

    varint(&root, frame_len);
    if (view_first)
        forge_entry(f, view->bytes, view->len, view->described, NULL, 0, 0);
    forge_entry(f, root.bytes, root.len, described, frame, frame_len, digest);
    if (!view_first)
        forge_entry(f, view->bytes, view->len, view->described, NULL, 0, 0);
    return forge_end(f);
}

/* A view of 3 x 2 values. */
static head part(uint64_t root, unsigned root_dims, const uint64_t *root_strides, const uint64_t *strides,
                 uint64_t first)
{
    head h = describe(2, "m", 1, TLC_BF16, 2, LIST(3, 2));

    varint(&h, root);
    byte(&h, root_dims);
    for (unsigned i = 0; i < root_dims; i++)
        varint(&h, root_strides[i]);
    varint(&h, strides[0]);
    varint(&h, strides[1]);
    varint(&h, first);
    return h;
}

TEST(views)
{
    const struct row {
        tlc_status status;
        head view;
    } rows[] = {
        {TLC_OK, part(1, 2, LIST(4, 1), LIST(4, 1), 2)},
        {TLC_ERR_CORRUPT, part(1, 2, LIST(4, 1), LIST(4, 1), 3)},
        {TLC_OK, part(1, 2, LIST(1, 3), LIST(0, 11), 0)},
        {TLC_ERR_CORRUPT, part(1, 2, LIST(1, 3), LIST(0, 12), 0)},
        {TLC_ERR_CORRUPT, part(1, 2, LIST(1, 3), LIST(0, 11), 1)},
        {TLC_ERR_CORRUPT, part(1, 2, LIST(1, 3), LIST(UINT64_MAX, 1), 0)},
        {TLC_ERR_CORRUPT, part(1, 2, LIST(1, 3), LIST(UINT64_C(1) << 63, 1), 0)},
        {TLC_ERR_CORRUPT, part(1, 2, LIST(1, 3), LIST(1, 1), UINT64_MAX)},
        {TLC_ERR_CORRUPT, part(1, 2, LIST(1, 4), LIST(1, 1), 0)}, /* strides that leave values out, or meet */
        {TLC_ERR_CORRUPT, part(1, 2, LIST(5, 1), LIST(1, 1), 0)},
        {TLC_ERR_CORRUPT, part(1, 2, LIST(1, 1), LIST(1, 1), 0)},
        {TLC_ERR_CORRUPT, part(1, 2, LIST(0, 1), LIST(1, 1), 0)},
        {TLC_ERR_CORRUPT, part(1, 1, LIST(1), LIST(1, 1), 0)},
        {TLC_ERR_CORRUPT, part(1, 3, LIST(4, 1, 1), LIST(1, 1), 0)},
        {TLC_ERR_CORRUPT, part(1, 0, NULL, LIST(1, 1), 0)},
        {TLC_ERR_CORRUPT, part(0, 2, LIST(4, 1), LIST(4, 1), 2)}, /* of itself, of none */
        {TLC_ERR_CORRUPT, part(2, 2, LIST(4, 1), LIST(4, 1), 2)},
        {TLC_ERR_CORRUPT, part(UINT64_MAX, 2, LIST(4, 1), LIST(4, 1), 2)},
    };
    make_frame();
    for (size_t i = 0; i < COUNT(rows); i++) {
        at = (place){.i = i};
        require_status(with_view(&rows[i].view, 1), rows[i].status);
    }
    head late = part(0, 2, LIST(4, 1), LIST(4, 1), 2); /* of a root that comes before it */
    require_status(with_view(&late, 0), TLC_OK);
    require_status(with_view(&late, 1), TLC_ERR_CORRUPT);
    late.bytes[1 + 2] = TLC_F16; /* after kind, length and name */
    require_status(with_view(&late, 0), TLC_ERR_CORRUPT);
    late = describe(1, "m", 1, TLC_BF16, 2, LIST(3, 4));
    varint(&late, 0);
    require_status(with_view(&late, 0), TLC_OK);
    late = describe(1, "m", 1, TLC_BF16, 2, LIST(4, 3));
    varint(&late, 0);
    require_status(with_view(&late, 0), TLC_ERR_CORRUPT);
    late = describe(1, "m", 1, TLC_BF16, 1, LIST(12));
    varint(&late, 0);
    require_status(with_view(&late, 0), TLC_ERR_CORRUPT);
    late = describe(1, "a", 1, TLC_BF16, 2, LIST(3, 4)); /* the name of its root */
    varint(&late, 0);
    require_status(with_view(&late, 0), TLC_ERR_CORRUPT);
    late = describe(1, "Z", 1, TLC_BF16, 2, LIST(3, 4));
    varint(&late, 0);
    require_status(with_view(&late, 0), TLC_ERR_CORRUPT);
    require_says(words, "the message was altered or cut: names do not rise");
}
