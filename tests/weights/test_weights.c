/* SPDX-License-Identifier: MIT
 *
 * threelc/weights.h: models come out as they went in, whole or in part, of messages in memory or read in pieces.
 */
#include "model.h"

static const char *const ways[] = {"read", "memory"};

/* Applies a message. Returns how it ended. */
static tlc_status apply(mail *m, receiver *to, int in_memory)
{
    tlc_weights_reader *r = reader_of(m, in_memory);
    tlc_weights_info info = {.struct_size = sizeof info};

    require_status(tlc_weights_describe(r, &info), TLC_OK);
    uint8_t *frame = in_memory ? NULL : bytes((size_t)info.frame_max);
    to->calls = 0;
    tlc_status status = tlc_weights_apply(r, receiver_find, to, frame, in_memory ? 0 : (size_t)info.frame_max);
    free(frame);
    tlc_weights_close(r);
    return status;
}

/* ---- all of a model ---------------------------------------------------------------------------------------------- */

/* A chain of messages: all weights, then four steps; in place, or into another model. */
static void chain(int in_memory, int apart)
{
    model trained, before, served, other;
    uint64_t result = 0;

    model_open(&trained, 1);
    model_open(&served, 2);
    model_copy(&other, &served);
    model_copy(&before, &trained);
    for (uint64_t sequence = 1; sequence < 6; sequence++) {
        mail m = publish(sequence == 1 ? NULL : &before, &trained, sequence);
        tlc_weights_reader *r = reader_of(&m, in_memory);
        tlc_weights_info info = {.struct_size = sizeof info};
        receiver to = {.base = &served, .out = apart ? &other : &served};
        at.i = (size_t)sequence;
        require_status(tlc_weights_describe(r, &info), TLC_OK);
        require(info.sequence == sequence && info.full == (sequence == 1) && info.base_digest == result);
        require(info.size == m.len && info.count == trained.count && !strcmp((char *)info.trainer, "who trains"));
        result = info.result_digest;
        tlc_weights_close(r);
        require_status(apply(&m, &to, in_memory), TLC_OK);
        require(model_same(to.out, &trained));
        if (apart) {
            model swap = served;
            served = other;
            other = swap;
        }
        mail_close(&m);
        model_close(&before);
        model_copy(&before, &trained);
        model_step(&trained, sequence);
    }
    model_close(&trained);
    model_close(&before);
    model_close(&served);
    model_close(&other);
}

TEST(chains)
{
    for (int in_memory = 0; in_memory < 2; in_memory++)
        for (int apart = 0; apart < 2; apart++) {
            at = (place){.codec = ways[in_memory], .note = apart ? "apart" : "in place"};
            chain(in_memory, apart);
        }
}

/* What a reader tells of each tensor is what the writer was given, and what the frame says. */
TEST(entries)
{
    model m, next;

    model_open(&m, 1);
    model_copy(&next, &m);
    model_step(&next, 3);
    mail message = publish(&m, &next, 7);
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        tlc_weights_reader *r = reader_of(&message, in_memory);
        for (size_t i = 0; i < m.count; i++) {
            const tensor *t = &m.tensors[i];
            const tlc_weights_entry *want = &t->entry;
            tlc_weights_entry e = {.struct_size = sizeof e};
            at = (place){.codec = ways[in_memory], .i = i};
            require_status(tlc_weights_at(r, i, &e), TLC_OK);
            require(!strcmp(e.name, want->name) && e.dtype == want->dtype && e.n == want->n);
            require(e.dims == want->dims && same(e.shape, t->shape, e.dims * sizeof *e.shape));
            require(e.is_view == want->is_view && e.root == want->root && e.first == want->first);
            require(!e.root_strides == !want->root_strides && e.root_dims == want->root_dims);
            require(!e.root_strides || (same(e.root_strides, t->root_strides, e.root_dims * sizeof *e.shape) &&
                                        same(e.strides, t->strides, e.dims * sizeof *e.shape)));
            require(!e.is_view == (e.frame_len > 0));
            if (e.is_view)
                continue;
            uint64_t before, after;
            require_status(tlc_delta_digest(e.dtype, t->values, (size_t)e.n, &before, NULL), TLC_OK);
            require_status(tlc_delta_digest(e.dtype, next.tensors[i].values, (size_t)e.n, &after, NULL), TLC_OK);
            require(e.has_base && e.base_digest == before && e.result_digest == after);
        }
        tlc_weights_close(r);
    }
    mail_close(&message);
    model_close(&m);
    model_close(&next);
}

TEST(notes)
{
    enum { LONG = 100000 };
    static uint8_t note[LONG], found[LONG];

    for (size_t i = 0; i < LONG; i++)
        note[i] = (uint8_t)(i * i >> 3);
    for (size_t len = 0; len < LONG + 1; len += LONG / 2) {
        mail m = {0};
        tlc_weights_writer *w = NULL;
        tlc_weights_info info = {.struct_size = sizeof info};
        const tlc_weights_writer_config c =
            {.struct_size = sizeof c, .write = mail_write, .opaque = &m, .sequence = 1, .note = note, .note_len = len};
        require_status(tlc_weights_writer_create(&w, &c), TLC_OK);
        require_status(tlc_weights_finish(w), TLC_OK);
        tlc_weights_writer_destroy(w);
        for (int in_memory = 0; in_memory < 2; in_memory++) {
            tlc_weights_reader *r = reader_of(&m, in_memory);
            require_status(tlc_weights_describe(r, &info), TLC_OK);
            require(info.note_len == len && !info.count && info.full && !info.base_digest && !info.result_digest);
            require_status(tlc_weights_note(r, found, len), TLC_OK);
            require(same(found, note, len));
            require(!len || tlc_weights_note(r, found, len - 1) == TLC_ERR_CAPACITY);
            require(!len || tlc_weights_note(r, NULL, len) == TLC_ERR_PARAM);
            tlc_weights_close(r);
        }
        if (len) {
            m.bytes[40 + len / 2] ^= 1;
            tlc_weights_reader *r = reader_of(&m, 1);
            require_status(tlc_weights_note(r, found, len), TLC_ERR_CHECKSUM);
            tlc_weights_close(r);
        }
        mail_close(&m);
    }
}

/* ---- parts of a model -------------------------------------------------------------------------------------------- */

static int wants_some(const char *name)
{
    return name[0] == 'd' || name[0] == 'l';
}

/* Other tensors are not looked at, and stay as they are. */
TEST(subsets)
{
    model base, next, served, want;

    model_open(&base, 1);
    model_copy(&next, &base);
    model_step(&next, 3);
    mail m = publish(&base, &next, 2);
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        receiver to = {.base = &served, .out = &served, .wants = wants_some};
        model_open(&served, 9);
        model_open(&want, 9);
        for (size_t i = 0; i < base.count; i++)
            if (wants_some(base.tensors[i].entry.name)) {
                memcpy(served.tensors[i].values, base.tensors[i].values, tensor_size(&base.tensors[i]));
                memcpy(want.tensors[i].values, next.tensors[i].values, tensor_size(&base.tensors[i]));
            }
        require_status(apply(&m, &to, in_memory), TLC_OK);
        require(model_same(&served, &want) && !model_same(&served, &next));
        model_close(&served);
        model_close(&want);
    }
    mail_close(&m);
    model_close(&base);
    model_close(&next);
}

/* Ranges of all tensors, as a shard has them; other weights stay. */
TEST(shards)
{
    model base, next, served, want;

    model_open(&base, 1);
    model_copy(&next, &base);
    model_step(&next, 3);
    for (int full = 0; full < 2; full++) {
        mail m = publish(full ? NULL : &base, &next, 2);
        for (size_t first = 0; first < 720; first += 150)
            for (size_t count = 2; count <= 720 - first; count += 178) {
                receiver to = {.base = &served, .out = &served, .first = first, .count = count};
                at = (place){.n = count, .i = first};
                model_copy(&served, &base);
                model_copy(&want, &base);
                for (size_t i = 0; i < base.count; i++) {
                    const tensor *t = &next.tensors[i];
                    const int part = first + count <= t->entry.n;
                    for (size_t j = 0; j < t->entry.n && !t->entry.is_view; j++)
                        if (!part || (j >= first && j < first + count))
                            put_weight(t->entry.dtype, want.tensors[i].values, j,
                                       weight_at(t->entry.dtype, t->values, j));
                }
                require_status(apply(&m, &to, 1), TLC_OK);
                require(model_same(&served, &want));
                model_close(&served);
                model_close(&want);
            }
        mail_close(&m);
    }
    model_close(&base);
    model_close(&next);
}

/* Views that have memory of their own at the receiver. */
TEST(views)
{
    model base, next, served;
    size_t count = 0;

    model_open(&base, 1);
    model_copy(&next, &base);
    model_step(&next, 3);
    mail m = publish(&base, &next, 2);
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        receiver to = {.base = &served, .out = &served};
        model_copy(&served, &base);
        for (size_t i = 0; i < base.count; i++)
            to.views[i] = served.tensors[i].entry.is_view ? served.tensors[i].values : NULL;
        require_status(apply(&m, &to, in_memory), TLC_OK);
        tlc_weights_reader *r = reader_of(&m, in_memory);
        for (size_t i = 0; i < base.count; i++) {
            const tensor *t = &served.tensors[i];
            uint8_t *want = bytes(tensor_size(t)), *copy = bytes(tensor_size(t));
            const uint8_t *root = served.tensors[t->entry.root].values;
            at = (place){.codec = ways[in_memory], .i = i};
            if (t->entry.is_view) {
                view_values(&next, t, want);
                require(same(t->values, want, tensor_size(t)));
                require_status(tlc_weights_copy_view(r, i, root, copy), TLC_OK);
                require(same(copy, want, tensor_size(t)));
                require_status(tlc_weights_copy_view(r, i, NULL, copy), TLC_ERR_PARAM);
                require_status(tlc_weights_frame(r, i, copy, SIZE_MAX, &(const void *){NULL}), TLC_ERR_PARAM);
                count++;
            } else
                require_status(tlc_weights_copy_view(r, i, root, copy), TLC_ERR_PARAM);
            free(want);
            free(copy);
        }
        tlc_weights_close(r);
        model_close(&served);
    }
    require(count == 2 * 5);
    mail_close(&m);
    model_close(&base);
    model_close(&next);
}

/* ---- all or nothing ---------------------------------------------------------------------------------------------- */

static int wants_views(const char *name)
{
    return name[0] == 't';
}

/* The last tensor is not the base, or its frame was altered, or find fails, or a root is missing: no weights change. */
TEST(nothing_is_half_done)
{
    model base, next, served;

    model_open(&base, 1);
    model_copy(&next, &base);
    model_step(&next, 3);
    mail m = publish(&base, &next, 2);
    model_copy(&served, &base);
    served.tensors[base.count - 1].values[0] ^= 1;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        receiver to = {.base = &served, .out = &served};
        require_status(apply(&m, &to, in_memory), TLC_ERR_BASE);
        served.tensors[base.count - 1].values[0] ^= 1;
        require(model_same(&served, &base));
        for (to.fails_at = 1; to.fails_at <= base.count; to.fails_at++) {
            require_status(apply(&m, &to, in_memory), TLC_ERR_TRANSPORT);
            require(model_same(&served, &base));
        }
        to = (receiver){.base = &served, .out = &served, .wants = wants_views};
        for (size_t i = 0; i < base.count; i++)
            to.views[i] = served.tensors[i].entry.is_view ? served.tensors[i].values : NULL;
        require_status(apply(&m, &to, in_memory), TLC_ERR_PARAM);
        require(model_same(&served, &base));
        to = (receiver){.base = &served, .out = &served, .count = 2}; /* all tensors of more weights are shards */
        m.bytes[m.len - 36 - 8 * base.count - 1] ^= 1;
        require_status(apply(&m, &to, in_memory), TLC_ERR_CHECKSUM);
        m.bytes[m.len - 36 - 8 * base.count - 1] ^= 1;
        require(model_same(&served, &base));
        served.tensors[base.count - 1].values[0] ^= 1;
    }
    mail_close(&m);
    model_close(&base);
    model_close(&next);
    model_close(&served);
}

/* A message that cannot be read at some moment, once or from then on: an error, and weights as they were, unless they
 * were being written, and the same message completes them. */
static void reads_fail(int once)
{
    model base, next, served;

    model_small(&base, 1);
    model_copy(&next, &base);
    model_step(&next, 3);
    put_weight(TLC_I64, next.tensors[2].values, 0, 1 + weight_at(TLC_I64, base.tensors[2].values, 0));
    mail m = publish(&base, &next, 2);
    m.once = once;
    size_t opened = 0, applied = 0, halves = 0;
    for (m.fails_after = 1; !applied; m.fails_after++) {
        tlc_weights_reader *r = NULL;
        const tlc_weights_reader_config c = {.struct_size = sizeof c, .read = mail_read, .opaque = &m, .size = m.len};
        m.writes = 0;
        tlc_status status = tlc_weights_open(&r, &c);
        require(status == TLC_OK || status == TLC_ERR_TRANSPORT);
        if (!status && !opened++)
            require(m.writes == m.fails_after);
        uint8_t *frame = bytes(m.len);
        receiver to = {.base = &served, .out = &served};
        model_copy(&served, &base);
        status = status ? status : tlc_weights_apply(r, receiver_find, &to, frame, m.len);
        applied = status == TLC_OK;
        require(applied ? model_same(&served, &next) : status == TLC_ERR_TRANSPORT);
        halves += !applied && r && !model_same(&served, &base);
        const size_t fails_after = m.fails_after;
        m.fails_after = 0;
        require_status(apply(&m, &to, 0), TLC_OK);
        require(model_same(&served, &next));
        m.fails_after = fails_after;
        free(frame);
        tlc_weights_close(r);
        model_close(&served);
    }
    require(opened > 10 && halves > 3);
    mail_close(&m);
    model_close(&base);
    model_close(&next);
}

TEST(reads_that_fail)
{
    reads_fail(0);
    reads_fail(1);
}

/* A writer whose callback fails at any byte cannot go on; one that is not finished leaves no message. */
TEST(writes_that_fail)
{
    model next, served;

    model_small(&next, 1);
    model_copy(&served, &next);
    mail whole = publish(NULL, &next, 1);
    for (size_t most = 1; most < whole.len; most++) {
        mail m = {.fails_after = most};
        tlc_weights_writer *w = NULL;
        const tlc_weights_writer_config c = {.struct_size = sizeof c,
                                             .write = mail_write,
                                             .opaque = &m,
                                             .trainer = "who trains",
                                             .sequence = 1,
                                             .count = next.count,
                                             .note = "a note",
                                             .note_len = 6};
        tlc_status status = tlc_weights_writer_create(&w, &c);
        require(!status == (w != NULL));
        for (size_t i = 0; i < next.count && !status; i++) {
            size_t len = 0;
            uint8_t *frame = next.tensors[i].entry.is_view ? NULL : frame_of(NULL, &next.tensors[i], &len);
            status = tlc_weights_add(w, &next.tensors[i].entry, frame, len);
            if (status)
                require_status(tlc_weights_add(w, &next.tensors[i].entry, frame, len), TLC_ERR_ORDER);
            free(frame);
        }
        if (!status)
            status = tlc_weights_finish(w);
        require_status(status, TLC_ERR_TRANSPORT);
        require(!w || tlc_weights_finish(w) == TLC_ERR_ORDER);
        tlc_weights_writer_destroy(w);
        require(m.len <= most && take(m.bytes, m.len, &served, &served));
        mail_close(&m);
    }
    mail_close(&whole);
    model_close(&next);
    model_close(&served);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

TEST(order)
{
    char words[TLC_MESSAGE_SIZE];
    /* sequence, full, of the trainer that was heard, heard */
    static const struct row {
        uint64_t sequence;
        int full, same;
        uint64_t heard;
        tlc_status status;
        const char *words;
    } rows[] = {
        {1, 0, 0, 0, TLC_OK, ""},
        {9, 0, 0, 0, TLC_OK, ""},
        {8, 0, 1, 7, TLC_OK, ""},
        {8, 1, 1, 7, TLC_OK, ""},
        {7, 0, 1, 7, TLC_ERR_ORDER, "is number 7 of its trainer, and number 7 has been received"},
        {7, 1, 1, 7, TLC_ERR_ORDER, "is old, or came twice"},
        {1, 1, 1, 7, TLC_ERR_ORDER, "number 1"},
        {9, 0, 1, 7, TLC_ERR_BASE, "number 8 was missed"},
        {9, 1, 1, 7, TLC_OK, ""},
        {8, 0, 0, 7, TLC_ERR_BASE, "of another trainer"},
        {1, 1, 0, 7, TLC_OK, ""},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *row = &rows[i];
        const tlc_weights_info info = {.struct_size = sizeof info,
                                       .trainer = "one",
                                       .sequence = row->sequence,
                                       .full = row->full};
        tlc_weights_heard heard = {.trainer = "one", .sequence = row->heard};
        at = (place){.i = i};
        if (!row->same)
            heard.trainer[15] = 1;
        require_status(tlc_weights_follows(&info, &heard, words, sizeof words), row->status);
        require(row->status ? holds(words, row->words) : !*words);
        require_status(tlc_weights_follows(&info, &heard, NULL, 0), row->status);
    }
}
