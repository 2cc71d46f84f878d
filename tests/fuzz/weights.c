/* SPDX-License-Identifier: MIT
 *
 * The first byte of the input is a kind. Kind 0: a message of weights follows. Kinds 1 and 2: entries follow, each the
 * length and bytes of its head from the kind to the last number, and the length and bytes of its frame; around them
 * come what a fuzzer cannot guess: offsets, checksums, digests; in kind 2 frames begin with the weights here, too.
 * Kind 3: what a writer is given.
 *
 * A message is refused, in memory as in pieces, or all of it can be read, and it is written again with the same bytes.
 * After an error the weights are unchanged; after a success they are the same on every ISA, and what frames say.
 */
#include "fuzz.h"
#include <threelc/weights.h>
#include <xxhash.h>

enum {
    MOST_INPUT = 1 << 16,
    MOST_VALUES = 1 << 10, /* of a tensor whose weights are kept */
    MOST_ENTRIES = 64,
    HEAD = 40,
    TAIL = 36,
    CHECKSUM = 4,
    DIGESTS = 4, /* flags of a frame */
    NO_BASE = 8
};

typedef struct buffer {
    uint8_t *bytes;
    size_t len, room;
} buffer;

static int append(void *opaque, const void *src, size_t len)
{
    buffer *b = opaque;

    if (b->len + len > b->room) {
        b->room = 2 * (b->len + len);
        b->bytes = realloc(b->bytes, b->room);
        require(b->bytes != NULL);
    }
    memcpy(b->bytes + b->len, src, len);
    b->len += len;
    return 0;
}

static int read_buffer(void *opaque, uint64_t offset, void *dst, size_t len)
{
    const buffer *b = opaque;

    require(offset <= b->len && len <= b->len - offset);
    memcpy(dst, b->bytes + offset, len);
    return 0;
}

static void store(uint8_t *p, uint64_t x, size_t size)
{
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)(x >> 8 * i);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* What a receiver has of the first entries: weights where they are not too many. */
typedef struct receiver {
    uint8_t *base[MOST_ENTRIES], *mine[MOST_ENTRIES];
    size_t size[MOST_ENTRIES];
    tlc_weights_entry entries[MOST_ENTRIES]; /* as far as they have no pointers */
    uint64_t count;
} receiver;

static uint64_t number_of(const receiver *to, const tlc_weights_entry *e)
{
    uint64_t i = 0;

    while (i < to->count &&
           (to->entries[i].frame_len != e->frame_len || to->entries[i].n != e->n || to->entries[i].dtype != e->dtype ||
            to->entries[i].root != e->root || to->entries[i].result_digest != e->result_digest))
        i++;
    return i;
}

/* Entries that look alike have the same place, which is then written twice with the same values, or not at all. */
static int find(void *opaque, const tlc_weights_entry *entry, tlc_weights_place *where)
{
    const receiver *to = opaque;
    const uint64_t i = number_of(to, entry);

    if (i < to->count && to->base[i])
        *where = (tlc_weights_place){to->base[i], to->mine[i], 0, (size_t)entry->n};
    return 0;
}

static void open_receiver(receiver *to, tlc_weights_reader *r, uint64_t count)
{
    *to = (receiver){.count = count < MOST_ENTRIES ? count : MOST_ENTRIES};
    for (uint64_t i = 0; i < to->count; i++) {
        tlc_weights_entry *e = &to->entries[i];
        e->struct_size = sizeof *e;
        require_status(tlc_weights_at(r, i, e), TLC_OK);
        if (e->n > MOST_VALUES || (weight_bits(e->dtype) == 4 && e->n % 2) || (e->is_view && !e->n))
            continue;
        to->size[i] = weights_size(e->dtype, (size_t)e->n);
        to->base[i] = bytes(to->size[i] + 1);
        to->mine[i] = bytes(to->size[i] + 1);
        fill_weights(5, e->dtype, to->base[i], (size_t)e->n);
    }
}

static void reset(receiver *to)
{
    for (uint64_t i = 0; i < to->count; i++)
        if (to->base[i])
            memset(to->mine[i], 7, to->size[i]);
}

static void close_receiver(receiver *to)
{
    for (uint64_t i = 0; i < to->count; i++) {
        free(to->base[i]);
        free(to->mine[i]);
    }
}

static tlc_weights_reader *reader_of(buffer *message, int in_memory, tlc_isa isa, tlc_status *status)
{
    tlc_weights_reader *r = NULL;
    const tlc_weights_reader_config c = {.struct_size = sizeof c,
                                         .src = in_memory ? message->bytes : NULL,
                                         .read = in_memory ? NULL : read_buffer,
                                         .opaque = message,
                                         .size = message->len,
                                         .isa = isa,
                                         .parallel = runners[1].parallel};

    *status = tlc_weights_open(&r, &c);
    require(!*status == (r != NULL));
    return r;
}

/* Applies the message on every ISA, in memory and in pieces by turns. */
static void apply(buffer *message, receiver *to, uint64_t frame_max)
{
    tlc_status first = TLC_OK;
    uint64_t digest = 0;
    int turn = 0;
    uint8_t *frame = bytes((size_t)frame_max + 1);

    FOR_EACH_ISA(isa) {
        const int in_memory = turn % 2;
        tlc_status status;
        uint64_t sum = 0;
        tlc_weights_reader *r = reader_of(message, in_memory, isa, &status);
        require_status(status, TLC_OK);
        reset(to);
        status = tlc_weights_apply(r, find, to, in_memory ? NULL : frame, in_memory ? 0 : (size_t)frame_max);
        for (uint64_t i = 0; i < to->count; i++) {
            if (!to->base[i])
                continue;
            require(!status || all_bytes(to->mine[i], to->size[i], 7));
            sum = XXH3_64bits_withSeed(to->mine[i], to->size[i], sum);
        }
        require(!turn || (status == first && sum == digest));
        first = status;
        digest = sum;
        turn++;
        tlc_weights_close(r);
    }
    fuzz_fold_number(first);
    for (uint64_t i = 0; i < to->count && !first; i++)
        if (to->base[i]) {
            const unsigned each = weight_bits(to->entries[i].dtype) < 8 ? 1 : weight_bits(to->entries[i].dtype) / 8;
            fuzz_fold(to->mine[i], to->size[i] / each, each);
        }
    free(frame);
}

/* Reads all of a message, which is written again. */
static void read_all(tlc_weights_reader *r, buffer *message, const tlc_weights_info *info)
{
    uint8_t *note = bytes((size_t)info->note_len + 1);
    buffer again = {0};
    tlc_weights_writer *w = NULL;
    const int noted = !tlc_weights_note(r, note, (size_t)info->note_len);
    tlc_weights_writer_config c = {.struct_size = sizeof c,
                                   .write = append,
                                   .opaque = &again,
                                   .sequence = info->sequence,
                                   .count = info->count,
                                   .note = note,
                                   .note_len = (size_t)info->note_len};

    memcpy(c.trainer, info->trainer, sizeof c.trainer);
    require_status(tlc_weights_writer_create(&w, &c), TLC_OK);
    for (uint64_t i = 0; i < info->count; i++) {
        tlc_weights_entry e = {.struct_size = sizeof e};
        const void *frame = NULL;
        require_status(tlc_weights_at(r, i, &e), TLC_OK);
        require(strlen(e.name) > 0 && e.dims <= TLC_WEIGHTS_DIMS_MAX && e.frame_len <= info->frame_max);
        if (!e.is_view) {
            require_status(tlc_weights_frame(r, i, NULL, 0, &frame), TLC_OK);
            require((const uint8_t *)frame > message->bytes &&
                    (const uint8_t *)frame + e.frame_len <= message->bytes + message->len);
        }
        require_status(tlc_weights_add(w, &e, frame, (size_t)e.frame_len), TLC_OK);
        fuzz_fold_number(e.n ^ e.root ^ e.first ^ e.result_digest);
    }
    require_status(tlc_weights_finish(w), TLC_OK);
    require(again.len == message->len && (!noted || same(again.bytes, message->bytes, again.len)));
    tlc_weights_writer_destroy(w);
    free(again.bytes);
    free(note);
}

static tlc_status one_message(const uint8_t *src, size_t len)
{
    buffer message = {bytes(len + 1), len, len};
    tlc_status status, other;
    receiver to;

    if (len)
        memcpy(message.bytes, src, len);
    tlc_weights_reader *r = reader_of(&message, 1, TLC_ISA_SCALAR, &status);
    tlc_weights_close(reader_of(&message, 0, TLC_ISA_AUTO, &other));
    require(status == other);
    fuzz_fold_number(status);
    if (!status) {
        tlc_weights_info info = {.struct_size = sizeof info};
        const tlc_weights_heard heard = {.sequence = 1};
        require_status(tlc_weights_describe(r, &info), TLC_OK);
        fuzz_fold_number(info.base_digest ^ info.result_digest);
        fuzz_fold_number(tlc_weights_follows(&info, &heard, NULL, 0));
        read_all(r, &message, &info);
        open_receiver(&to, r, info.count);
        apply(&message, &to, info.frame_max);
        close_receiver(&to);
    }
    tlc_weights_close(r);
    free(message.bytes);
    return status;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* Reads a number of a head pos *pos; 0 past its end. */
static uint64_t varint(const uint8_t *p, size_t len, size_t *pos)
{
    uint64_t v = 0;

    for (unsigned shift = 0; *pos < len && shift < 64; shift += 7) {
        v |= (uint64_t)(p[*pos] & 127) << shift;
        if (p[(*pos)++] < 128)
            break;
    }
    return v;
}

/* The bytes of the description in a head, after its kind, and what it says of the weights. */
static size_t described(const uint8_t *p, size_t len, unsigned *dtype, uint64_t *n)
{
    size_t pos = 1;
    const uint64_t name = varint(p, len, &pos);

    *n = 1;
    pos += name < len ? (size_t)name : 0;
    *dtype = pos < len ? p[pos] : 255;
    pos = pos + 2 < len ? pos + 2 : len;
    for (unsigned i = pos ? p[pos - 1] : 0; i-- > 0 && pos < len;)
        *n *= varint(p, len, &pos);
    return pos - 1;
}

/* Gives a frame the base of this receiver, if asked to, and its checksum. Returns its digests. */
static void finish_frame(uint8_t *frame, size_t len, int ours, unsigned dtype, uint64_t n, uint64_t digests[2])
{
    size_t pos = len > 1 && frame[1] > 1 ? 4 : 3;

    digests[0] = digests[1] = 0;
    if (len < CHECKSUM + 4)
        return;
    (void)varint(frame, len, &pos);
    const int has_base = !(frame[2] & NO_BASE);
    const size_t end = pos + (has_base ? 16 : 8);
    if (frame[2] & DIGESTS && end + CHECKSUM <= len) {
        if (ours && has_base && dtype <= TLC_F64 && n <= MOST_VALUES &&
            (weight_bits((tlc_dtype)dtype) > 4 || n % 2 == 0)) {
            uint8_t *base = bytes(weights_size((tlc_dtype)dtype, (size_t)n) + 1);
            uint64_t digest = 0;
            fill_weights(5, (tlc_dtype)dtype, base, (size_t)n);
            require_status(tlc_delta_digest((tlc_dtype)dtype, base, (size_t)n, &digest, NULL), TLC_OK);
            store(frame + pos, digest, 8);
            free(base);
        }
        for (size_t i = 0; i < 8; i++) {
            digests[0] |= has_base ? (uint64_t)frame[pos + i] << 8 * i : 0;
            digests[1] |= (uint64_t)frame[end - 8 + i] << 8 * i;
        }
    }
    store(frame + len - CHECKSUM, XXH3_64bits(frame, len - CHECKSUM), CHECKSUM);
}

/* A message of the entries of the input. */
static void built(fuzz_input in, int ours)
{
    static uint64_t offsets[MOST_ENTRIES];
    uint8_t number[TAIL] = {'W', 1};
    uint64_t base = 0, result = 0, count = 0, digests[2];
    buffer b = {0};

    store(number + 20, 2, 1);
    append(&b, number, 32);
    store(number, XXH3_64bits(NULL, 0), CHECKSUM);
    append(&b, number, CHECKSUM);
    store(number, XXH3_64bits(b.bytes, b.len), CHECKSUM);
    append(&b, number, CHECKSUM);
    for (; in.at < in.end && count < MOST_ENTRIES; count++) {
        unsigned dtype = 255;
        uint64_t n = 0;
        const size_t start = b.len, head = take_number(&in, 2) % ((size_t)(in.end - in.at) + 1);
        offsets[count] = start;
        store(number, head + 2 * CHECKSUM, CHECKSUM);
        append(&b, number, CHECKSUM);
        append(&b, in.at, head);
        const size_t description = head ? described(in.at, head, &dtype, &n) : 0;
        in.at += head;
        store(number, XXH3_64bits_withSeed(b.bytes + start, b.len - start, count), CHECKSUM);
        append(&b, number, CHECKSUM);
        const size_t frame = take_number(&in, 2) % ((size_t)(in.end - in.at) + 1);
        const size_t at_frame = b.len;
        append(&b, in.at, frame);
        in.at += frame;
        if (!head || !frame)
            continue;
        finish_frame(b.bytes + at_frame, frame, ours, dtype, n, digests);
        if (digests[0])
            base = XXH3_64bits_withSeed(b.bytes + start + 5, description, base + digests[0]);
        result = XXH3_64bits_withSeed(b.bytes + start + 5, description, result + digests[1]);
    }
    for (uint64_t i = 0; i < count; i++) {
        store(number, offsets[i], 8);
        append(&b, number, 8);
    }
    store(number, b.len + TAIL, 8);
    store(number + 8, count, 8);
    store(number + 16, base, 8);
    store(number + 24, result, 8);
    uint64_t seed = 0;
    for (size_t i = 0; i < CHECKSUM; i++)
        seed |= (uint64_t)b.bytes[HEAD - CHECKSUM + i] << 8 * i;
    store(number + 32, XXH3_64bits_withSeed(number, 32, seed), CHECKSUM);
    append(&b, number, TAIL);
    (void)one_message(b.bytes, b.len);
    free(b.bytes);
}

/* ---- writers ----------------------------------------------------------------------------------------------------- */

/* Adds entries of any bytes. What a writer takes, a reader opens, unless a view does not fit. */
static void written(fuzz_input in)
{
    static uint64_t shape[TLC_WEIGHTS_DIMS_MAX + 1], strides[TLC_WEIGHTS_DIMS_MAX + 1];
    buffer b = {0};
    tlc_weights_writer *w = NULL;
    const uint64_t sequence = 1 + take_byte(&in), count = take_byte(&in) % 8; /* before in.at is read */
    const tlc_weights_writer_config c = {.struct_size = sizeof c,
                                         .write = append,
                                         .opaque = &b,
                                         .sequence = sequence,
                                         .count = count,
                                         .note = in.at,
                                         .note_len = (size_t)(in.end - in.at) % 5};
    int views = 0;

    require_status(tlc_weights_writer_create(&w, &c), TLC_OK);
    while (in.at < in.end) {
        char name[40];
        uint8_t weights[512] = {0}, frame[1024];
        size_t len = 0;
        tlc_weights_entry e = {.struct_size = sizeof e, .name = name, .shape = shape, .strides = strides};
        take_line(&in, name, sizeof name);
        e.dtype = (tlc_dtype)(take_byte(&in) % 12);
        e.dims = take_byte(&in) % (TLC_WEIGHTS_DIMS_MAX + 2);
        e.n = 1;
        for (size_t i = 0; i < e.dims; i++) {
            shape[i] = take_byte(&in);
            strides[i] = take_byte(&in);
            e.n = shape[i] && e.n > 4096 / shape[i] ? 4096 : e.n * shape[i];
        }
        e.is_view = take_byte(&in) % 3;
        e.root = take_byte(&in) % 8;
        e.root_dims = e.dims;
        e.root_strides = e.root % 2 ? strides : NULL;
        e.first = take_byte(&in);
        if (!e.is_view && e.n <= 64)
            (void)tlc_delta_compress(e.dtype, weights, weights, (size_t)e.n, frame, sizeof frame, &len, NULL);
        const size_t before = b.len;
        const tlc_status status = tlc_weights_add(w, &e, e.is_view ? NULL : frame, len);
        fuzz_fold_number(status);
        require(!status == (b.len > before)); /* cppcheck-suppress knownConditionTrueFalse ; add has written */
        views += !status && e.is_view;
    }
    const tlc_status status = tlc_weights_finish(w);
    require(status == TLC_OK || status == TLC_ERR_ORDER);
    const tlc_status opened = one_message(b.bytes, b.len);
    require(status ? opened : !opened || (views && opened == TLC_ERR_CORRUPT));
    tlc_weights_writer_destroy(w);
    free(b.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > MOST_INPUT)
        return 0;
    const fuzz_input in = {data + 1, data + size};
    switch (data[0] & 3) {
    case 0: (void)one_message(data + 1, size - 1); break;
    case 1:
    case 2: built(in, data[0] & 2); break;
    default: written(in);
    }
    return 0;
}
