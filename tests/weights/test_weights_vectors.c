/* SPDX-License-Identifier: MIT
 *
 * The golden vectors of messages of weights (tests/vectors/weights.txt, which model.py writes) against
 * threelc/weights.h. Every buffer has exactly the bytes that may be used, at an odd address.
 */
#include "../support/records.h"
#include "model.h"

/* An entry of a record, with the arrays that it points to. */
typedef struct item {
    tlc_weights_entry entry;
    uint64_t shape[TLC_WEIGHTS_DIMS_MAX], root_strides[TLC_WEIGHTS_DIMS_MAX], strides[TLC_WEIGHTS_DIMS_MAX];
    octets base, next;
    int has_base;
} item;

typedef struct cursor {
    char *rest;
} cursor;

static char *word(cursor *c)
{
    return strsep(&c->rest, " ");
}

/* Numbers with commas between them; "-": none. Returns how many. */
static size_t list(cursor *c, uint64_t *numbers)
{
    size_t count = 0;

    for (char *text = word(c); text && *text != '-';)
        numbers[count++] = strtoull(strsep(&text, ","), NULL, 10);
    return count;
}

static tlc_dtype dtype_called(const char *name)
{
    tlc_dtype dtype = TLC_F32;

    while (strcmp(dtype_name[dtype], name) != 0)
        dtype++;
    return dtype;
}

static octets values(cursor *c, tlc_dtype dtype)
{
    return elements(word(c), weight_bits(dtype) < 8 ? 1 : weights_size(dtype, 1), 1);
}

/* Reads a line of a record that is an entry. */
static void read_item(item *x, const line *l)
{
    tlc_weights_entry *e = &x->entry;
    cursor c = {strdup(l->value)};
    char *const copy = c.rest;

    memset(x, 0, sizeof *x);
    *e = (tlc_weights_entry){.struct_size = sizeof *e, .shape = x->shape, .strides = x->strides};
    octets name = unhex(word(&c), 0);
    char *text = exact(name.len + 1, 0);
    memcpy(text, name.p, name.len);
    text[name.len] = 0;
    e->name = text;
    e->dtype = dtype_called(word(&c));
    e->dims = list(&c, x->shape);
    e->is_view = !strcmp(l->key, "view");
    if (e->is_view) {
        e->root = strtoull(word(&c), NULL, 10);
        e->root_strides = strncmp(c.rest, "null", 4) != 0 ? x->root_strides : NULL;
        if (e->root_strides)
            e->root_dims = list(&c, x->root_strides);
        else
            (void)word(&c);
        (void)list(&c, x->strides);
        e->first = strtoull(word(&c), NULL, 10);
    } else {
        x->has_base = strncmp(c.rest, "null", 4) != 0;
        if (x->has_base)
            x->base = values(&c, e->dtype);
        else
            (void)word(&c);
        x->next = values(&c, e->dtype);
        e->n = weight_bits(e->dtype) == 4 ? 2 * x->next.len : x->next.len / weights_size(e->dtype, 1);
    }
    free(copy);
}

static size_t read_items(const line *r, item *items)
{
    size_t count = 0;

    for (; r->key; r++)
        if (!strcmp(r->key, "tensor") || !strcmp(r->key, "view"))
            read_item(&items[count++], r);
    return count;
}

static void add_item(tlc_weights_writer *w, const item *x, tlc_isa isa)
{
    const tlc_weights_entry *e = &x->entry;
    const tlc_delta_options opt = {.struct_size = sizeof opt, .isa = isa};
    size_t bound = 0, len = 0;

    if (e->is_view) {
        expect_status(tlc_weights_add(w, e, NULL, 0), TLC_OK, "tlc_weights_add");
        return;
    }
    expect_status(tlc_delta_bound(e->dtype, (size_t)e->n, &bound), TLC_OK, "tlc_delta_bound");
    uint8_t *frame = exact(bound, 1);
    expect_status(tlc_delta_compress(e->dtype, x->has_base ? x->base.p : NULL, x->next.p, (size_t)e->n, frame, bound,
                                     &len, &opt),
                  TLC_OK, "tlc_delta_compress");
    expect_status(tlc_weights_add(w, e, frame, len), TLC_OK, "tlc_weights_add");
}

/* A receiver has copies of the weights before. */
typedef struct served {
    const item *items;
    size_t count;
    uint8_t **weights;
} served;

static int find_item(void *opaque, const tlc_weights_entry *entry, tlc_weights_place *where)
{
    const served *s = opaque;

    for (size_t i = 0; i < s->count; i++)
        if (!strcmp(s->items[i].entry.name, entry->name) && !entry->is_view)
            *where = (tlc_weights_place){s->weights[i], s->weights[i], 0, (size_t)entry->n};
    return 0;
}

static void good(const line *r, tlc_isa isa)
{
    enum { MOST = 16 };
    static item items[MOST];
    uint8_t *weights[MOST] = {NULL};
    const size_t count = read_items(r, items);
    octets trainer = unhex(get(r, "trainer"), 0), note = unhex(get(r, "note"), 1), want = unhex(get(r, "message"), 1);
    mail m = {0};
    tlc_weights_writer *w = NULL;
    tlc_weights_reader *reader = NULL;
    tlc_weights_info info = {.struct_size = sizeof info};
    tlc_weights_writer_config c = {.struct_size = sizeof c,
                                   .write = mail_write,
                                   .opaque = &m,
                                   .sequence = number(r, "sequence"),
                                   .count = count,
                                   .note = note.p,
                                   .note_len = note.len};

    memcpy(c.trainer, trainer.p, sizeof c.trainer);
    expect_status(tlc_weights_writer_create(&w, &c), TLC_OK, "tlc_weights_writer_create");
    for (size_t i = 0; i < count; i++)
        add_item(w, &items[i], isa);
    expect_status(tlc_weights_finish(w), TLC_OK, "tlc_weights_finish");
    tlc_weights_writer_destroy(w);
    expect(m.len == want.len && same(m.bytes, want.p, m.len), "message");
    mail_close(&m);

    const tlc_weights_reader_config from = {.struct_size = sizeof from, .src = want.p, .size = want.len, .isa = isa};
    expect_status(tlc_weights_open(&reader, &from), TLC_OK, "tlc_weights_open");
    expect_status(tlc_weights_describe(reader, &info), TLC_OK, "tlc_weights_describe");
    expect(info.base_digest == number(r, "base_digest"), "base_digest");
    expect(info.result_digest == number(r, "result_digest"), "result_digest");
    for (size_t i = 0; i < count; i++) {
        weights[i] = exact(items[i].next.len, 1);
        if (items[i].has_base && items[i].base.len)
            memcpy(weights[i], items[i].base.p, items[i].base.len);
    }
    served s = {items, count, weights};
    expect_status(tlc_weights_apply(reader, find_item, &s, NULL, 0), TLC_OK, "tlc_weights_apply");
    for (size_t i = 0; i < count; i++)
        expect(same(weights[i], items[i].next.p, items[i].next.len), "weights");
    tlc_weights_close(reader);
}

static void record(const line *r, tlc_isa isa)
{
    if (!find(r, "status")) {
        good(r, isa);
        return;
    }
    octets message = unhex(get(r, "message"), 1);
    tlc_weights_reader *reader = NULL;
    const tlc_weights_reader_config c = {.struct_size = sizeof c, .src = message.p, .size = message.len, .isa = isa};
    expect_status(tlc_weights_open(&reader, &c), status_of(r, "status"), "tlc_weights_open");
    tlc_weights_close(reader);
}

TEST(all)
{
    const char *vectors = test_argument ? test_argument : "tests/vectors/weights.txt";

    FOR_EACH_ISA(isa) {
        at_isa = tlc_isa_name(isa);
        print_message("# %s: %zu records\n", at_isa, each_record(vectors, isa, record));
    }
}
