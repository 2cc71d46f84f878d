/* SPDX-License-Identifier: MIT */
#include "model.h"

size_t tensor_size(const tensor *t)
{
    return weights_size(t->entry.dtype, (size_t)t->entry.n);
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

static void set_pointers(model *m)
{
    for (size_t i = 0; i < m->count; i++) {
        tensor *t = &m->tensors[i];
        t->entry.shape = t->shape;
        t->entry.strides = t->strides;
        t->entry.root_strides = t->entry.root_strides ? t->root_strides : NULL;
    }
}

/* The next tensor, whose name comes after that of the one before it. */
static tensor *add(model *m, const char *name, tlc_dtype dtype, size_t dims, const uint64_t shape[DIMS])
{
    tensor *t = &m->tensors[m->count++];

    require(m->count <= TENSORS_MAX);
    memset(t, 0, sizeof *t);
    t->entry = (tlc_weights_entry){.struct_size = sizeof t->entry, .name = name, .dtype = dtype, .dims = dims, .n = 1};
    for (size_t i = 0; i < dims; i++) {
        t->shape[i] = shape[i];
        t->entry.n *= shape[i];
    }
    return t;
}

#define SHAPE(...) ((const uint64_t[DIMS]){__VA_ARGS__})

static const char *long_name(void)
{
    static char name[TLC_WEIGHTS_NAME_MAX + 1] = "m.";

    memset(name + 2, 'x', TLC_WEIGHTS_NAME_MAX - 2);
    return name;
}

static void set_view(tensor *t, uint64_t root)
{
    t->entry.is_view = 1;
    t->entry.root = root;
}

/* root_strides of a matrix. */
static void set_part(tensor *t, uint64_t root, const uint64_t root_strides[DIMS], const uint64_t strides[DIMS],
                     uint64_t first)
{
    set_view(t, root);
    t->entry.root_dims = 2;
    t->entry.root_strides = t->root_strides;
    t->entry.first = first;
    memcpy(t->root_strides, root_strides, sizeof t->root_strides);
    memcpy(t->strides, strides, sizeof t->strides);
}

static void fill_model(model *m, uint64_t seed)
{
    for (size_t i = 0; i < m->count; i++) {
        tensor *t = &m->tensors[i];
        t->values = bytes(tensor_size(t));
        if (!t->entry.is_view)
            fill_weights(seed + i, t->entry.dtype, t->values, (size_t)t->entry.n);
    }
    set_pointers(m);
}

void model_open(model *m, uint64_t seed)
{
    static const char *const names[] = {"d.f32", "d.g16", "d.h16", "d.i43", "d.j52", "d.k21",
                                        "d.l8",  "d.m4",  "d.n32", "d.o64", "d.p64"};

    *m = (model){0};
    set_part(add(m, "a.early", TLC_F32, 2, SHAPE(5, 3)), 15, SHAPE(1, 30), SHAPE(7, 30), 11);
    set_view(add(m, "b.tied", TLC_BF16, 1, SHAPE(70000)), 14);
    FOR_EACH_WEIGHT_DTYPE(dtype)
        add(m, names[dtype], dtype, 2, SHAPE(20, 36));
    add(m, "e.empty", TLC_F32, 3, SHAPE(0, 7, UINT64_C(1) << 40));
    add(m, "large", TLC_BF16, 1, SHAPE(70000));
    add(m, "late", TLC_F32, 2, SHAPE(30, 20));
    add(m, long_name(), TLC_U8, 0, SHAPE(0));
    add(m, "scalar", TLC_I64, 0, SHAPE(0));
    set_part(add(m, "t.nibbles", TLC_U4, 2, SHAPE(18, 40)), 9, SHAPE(18, 1), SHAPE(1, 18), 0);
    set_part(add(m, "t.odd", TLC_F32, 1, SHAPE(290)), 15, SHAPE(20, 1), SHAPE(2), 21);
    set_part(add(m, "t.same", TLC_F64, 3, SHAPE(2, 36, 10)), 12, SHAPE(1, 20), SHAPE(10, 20, 1), 0);
    add(m, "\xc3\xa9t\xc3\xa9", TLC_F16, 1, SHAPE(3));
    fill_model(m, seed);
}

void model_small(model *m, uint64_t seed)
{
    *m = (model){0};
    add(m, "a", TLC_BF16, 2, SHAPE(3, 4));
    set_part(add(m, "b", TLC_BF16, 1, SHAPE(3)), 0, SHAPE(4, 1), SHAPE(4), 2);
    add(m, "c", TLC_I64, 0, SHAPE(0));
    set_view(add(m, "d", TLC_I64, 0, SHAPE(0)), 2);
    fill_model(m, seed);
}

void model_copy(model *m, const model *from)
{
    *m = *from;
    for (size_t i = 0; i < m->count; i++) {
        tensor *t = &m->tensors[i];
        t->values = bytes(tensor_size(t));
        if (tensor_size(t))
            memcpy(t->values, from->tensors[i].values, tensor_size(t));
    }
    set_pointers(m);
}

void model_step(model *m, uint64_t seed)
{
    rng r = {seed};

    for (size_t i = 0; i < m->count; i++) {
        tensor *t = &m->tensors[i];
        const unsigned one_in = 1 + (unsigned)((i + seed) % 3) * 20; /* all weights of a tensor, or some */
        if (t->entry.is_view || (i + seed) % 7 == 0)
            continue;
        for (size_t j = 0; j < t->entry.n; j++)
            if (!rng_below(&r, one_in))
                put_weight(t->entry.dtype, t->values, j, weight_at(t->entry.dtype, t->values, j) + 1);
    }
}

void model_close(model *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->tensors[i].values);
    m->count = 0;
}

int model_same(const model *a, const model *b)
{
    int equal = a->count == b->count;

    for (size_t i = 0; equal && i < a->count; i++)
        equal = a->tensors[i].entry.is_view ||
                same(a->tensors[i].values, b->tensors[i].values, tensor_size(&a->tensors[i]));
    return equal;
}

void view_values(const model *m, const tensor *view, uint8_t *out)
{
    const tlc_weights_entry *e = &view->entry;
    const tensor *root = &m->tensors[e->root];
    const int pairs = weight_bits(e->dtype) == 4;
    const size_t columns = (size_t)root->shape[1] / (pairs ? 2 : 1);

    if (!e->root_strides) {
        memcpy(out, root->values, tensor_size(view));
        return;
    }
    for (size_t i = 0; i < e->n; i++) {
        uint64_t rest = pairs ? i / 2 : i, where = e->first;
        for (size_t d = e->dims; d-- > 0;) {
            const uint64_t length = pairs && d == e->dims - 1 ? view->shape[d] / 2 : view->shape[d];
            where += rest % length * view->strides[d];
            rest /= length;
        }
        /* the place in the root's memory is that of a row and a column */
        const uint64_t *s = view->root_strides;
        const size_t row = (size_t)(s[0] > s[1] ? where / s[0] : where % s[1]),
                     column = (size_t)(s[0] > s[1] ? where % s[0] : where / s[1]), unit = row * columns + column;
        put_weight(e->dtype, out, i, weight_at(e->dtype, root->values, pairs ? 2 * unit + i % 2 : unit));
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

int mail_write(void *opaque, const void *src, size_t len)
{
    mail *m = opaque;

    m->writes++;
    if (m->fails_after && m->len + len > m->fails_after)
        return 28;
    if (m->len + len > m->room) {
        m->room = 2 * (m->len + len);
        m->bytes = realloc(m->bytes, m->room);
        require(m->bytes != NULL);
    }
    memcpy(m->bytes + m->len, src, len);
    m->len += len;
    return 0;
}

int mail_read(void *opaque, uint64_t offset, void *dst, size_t len)
{
    mail *m = opaque;

    require(offset <= m->len && len <= m->len - offset);
    m->writes++;
    if (m->fails_after && (m->once ? m->writes == m->fails_after + 1 : m->writes > m->fails_after))
        return 5;
    memcpy(dst, m->bytes + offset, len);
    return 0;
}

void mail_close(mail *m)
{
    free(m->bytes);
    *m = (mail){0};
}

uint8_t *frame_of(const tensor *base, const tensor *next, size_t *len)
{
    const tlc_weights_entry *e = &next->entry;
    size_t bound;

    require_status(tlc_delta_bound(e->dtype, (size_t)e->n, &bound), TLC_OK);
    uint8_t *frame = bytes(bound);
    require_status(tlc_delta_compress(e->dtype, base ? base->values : NULL, next->values, (size_t)e->n, frame, bound,
                                      len, NULL),
                   TLC_OK);
    return frame;
}

mail publish(const model *base, const model *next, uint64_t sequence)
{
    mail m = {0};
    tlc_weights_writer *w = NULL;
    const tlc_weights_writer_config c = {.struct_size = sizeof c,
                                         .write = mail_write,
                                         .opaque = &m,
                                         .trainer = "who trains",
                                         .sequence = sequence,
                                         .count = next->count,
                                         .note = "a note",
                                         .note_len = 6};

    require_status(tlc_weights_writer_create(&w, &c), TLC_OK);
    for (size_t i = 0; i < next->count; i++) {
        const tensor *t = &next->tensors[i];
        size_t len = 0;
        uint8_t *frame = t->entry.is_view ? NULL : frame_of(base ? &base->tensors[i] : NULL, t, &len);
        require_status(tlc_weights_add(w, &t->entry, frame, len), TLC_OK);
        free(frame);
    }
    require_status(tlc_weights_finish(w), TLC_OK);
    tlc_weights_writer_destroy(w);
    return m;
}

/* ---- receivers --------------------------------------------------------------------------------------------------- */

static size_t index_of(const model *m, const char *name)
{
    size_t i = 0;

    while (i < m->count && strcmp(m->tensors[i].entry.name, name) != 0)
        i++;
    return i;
}

int receiver_find(void *opaque, const tlc_weights_entry *entry, tlc_weights_place *where)
{
    receiver *r = opaque;
    const size_t i = index_of(r->base, entry->name);

    require(!where->base && !where->out && !where->first && !where->count);
    if (++r->calls == r->fails_at)
        return 9;
    if (i == r->base->count || (r->wants && !r->wants(entry->name)))
        return 0;
    const tensor *t = &r->base->tensors[i];
    if (entry->n != t->entry.n || entry->dtype != t->entry.dtype)
        return 0;
    *where = (tlc_weights_place){t->values, r->out->tensors[i].values, 0, (size_t)entry->n};
    if (entry->is_view) {
        where->base = NULL;
        where->out = r->views[i];
    } else if (r->count && r->first + r->count <= entry->n) {
        const size_t start = weights_size(entry->dtype, r->first);
        *where = (tlc_weights_place){t->values + start, r->out->tensors[i].values + start, r->first, r->count};
    }
    return 0;
}

tlc_weights_reader *reader_of(mail *m, int in_memory)
{
    tlc_weights_reader *r = NULL;
    tlc_weights_reader_config c = {.struct_size = sizeof c, .size = m->len};

    if (in_memory)
        c.src = m->bytes;
    else {
        c.read = mail_read;
        c.opaque = m;
    }
    require_status(tlc_weights_open(&r, &c), TLC_OK);
    return r;
}

static tlc_status take_opened(tlc_weights_reader *r, const model *base, model *out)
{
    tlc_weights_info info = {.struct_size = sizeof info};
    receiver to = {.base = out, .out = out};

    require_status(tlc_weights_describe(r, &info), TLC_OK);
    uint8_t *note = bytes((size_t)info.note_len);
    tlc_status status = tlc_weights_note(r, note, (size_t)info.note_len);
    free(note);
    for (uint64_t i = 0; i < info.count; i++) {
        tlc_weights_entry e = {.struct_size = sizeof e};
        require_status(tlc_weights_at(r, i, &e), TLC_OK);
        require(strlen(e.name) > 0 && strlen(e.name) <= TLC_WEIGHTS_NAME_MAX && e.dims <= TLC_WEIGHTS_DIMS_MAX);
    }
    if (status)
        return status;
    status = tlc_weights_apply(r, receiver_find, &to, NULL, 0);
    require(!status || model_same(base, out));
    return status;
}

tlc_status take(const uint8_t *src, size_t len, const model *base, model *out)
{
    tlc_weights_reader *r = NULL;
    const tlc_weights_reader_config c = {.struct_size = sizeof c, .src = src, .size = len};
    tlc_status status = tlc_weights_open(&r, &c);

    for (size_t i = 0; i < base->count; i++)
        if (tensor_size(&base->tensors[i]))
            memcpy(out->tensors[i].values, base->tensors[i].values, tensor_size(&base->tensors[i]));
    require(!status == (r != NULL));
    if (!status)
        status = take_opened(r, base, out);
    tlc_weights_close(r);
    return status;
}
