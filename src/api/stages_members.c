/* SPDX-License-Identifier: MIT
 *
 * Frames of members that are chosen elsewhere: from positions and values to a frame, and back.
 */
#include "../codec/arguments.h"
#include "../coding/chosen.h"
#include "../coding/coder.h"
#include "../coding/member_values.h"
#include "../common/bytes.h"
#include "../common/structs.h"
#include "../frames/bounds.h"
#include "../frames/frame.h"
#include "../frames/walk.h"
#include "decoding.h"
#include <threelc/frames.h>

enum { WORD = 64 };

typedef struct members_job {
    const tlc_kernels *k;
    tlc_codec codec;
    tlc_chosen all; /* of the tensor */
    size_t n, unit; /* values; values of all units but the last */
    uint64_t *mask; /* of a unit */
    float *sent;
} members_job;

static const tlc_quantizer *quantizer_of(const tlc_codec *codec)
{
    return codec->quantizer->quantize;
}

static tlc_status parse(members_job *j, const char *codec, size_t n, tlc_text *w)
{
    tlc_status status = tlc_codec_read(&j->codec, "codec", codec, w);

    if (status)
        return status;
    if (quantizer_of(&j->codec)->makes != TLC_MAKES_MEMBERS)
        return TLC_FAIL(w, TLC_ERR_PARAM, "codec \"%s\" does not send some of the values", codec);
    j->n = n;
    j->unit = j->codec.block ? tlc_smaller(j->codec.block, n) : n;
    return TLC_OK;
}

static size_t mask_size(const members_job *j)
{
    return (size_t)tlc_ceil_div(j->unit, WORD) * sizeof *j->mask;
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

/* Takes the members of the unit that begins at `first` from those that are left. */
static tlc_chosen members_of(tlc_chosen *left, size_t first, size_t n)
{
    tlc_chosen found = {left->positions, left->values, 0};

    while (found.count < left->count && found.positions[found.count] - first < n)
        found.count++;
    left->positions += found.count;
    left->values += found.count;
    left->count -= found.count;
    return found;
}

/* Positions and values, one by one. */
static tlc_status check_each(const members_job *j, tlc_text *w)
{
    const tlc_chosen *all = &j->all;

    for (size_t i = 0; i < all->count; i++) {
        const unsigned long long position = all->positions[i];
        const uint32_t magnitude = tlc_float_bits(all->values[i]) & TLC_F32_ABS;
        if (i && position <= all->positions[i - 1])
            return TLC_FAIL(w, TLC_ERR_PARAM, "positions[%zu] is %llu, which is not above the position before it", i,
                            position);
        if (position >= j->n)
            return TLC_FAIL(w, TLC_ERR_PARAM, "positions[%zu] is %llu, but there are %zu values", i, position, j->n);
        if (!magnitude)
            return TLC_FAIL(w, TLC_ERR_PARAM, "values[%zu] is 0, which is never sent", i);
        if (magnitude >= TLC_F32_INF)
            return TLC_FAIL(w, TLC_ERR_NONFINITE, "values[%zu] is %s", i, tlc_nonfinite_name(all->values[i]));
    }
    return TLC_OK;
}

/* How many there are in each unit. Where members have no values of their own, each sign has its room. */
static tlc_status check_counts(const members_job *j, tlc_text *w)
{
    const tlc_quantizer *q = quantizer_of(&j->codec);
    tlc_chosen left = j->all;

    for (size_t first = 0; left.count; first += j->unit) {
        const size_t n = tlc_smaller(j->n - first, j->unit);
        const tlc_chosen members = members_of(&left, first, n);
        const uint64_t most = q->members_max(j->codec.params, n);
        size_t negative = 0, largest = members.count;
        for (size_t i = 0; !q->value_bits && i < members.count; i++)
            negative += tlc_float_bits(members.values[i]) >> 31;
        if (!q->value_bits)
            largest = negative > members.count - negative ? negative : members.count - negative;
        if (largest > most)
            return TLC_FAIL(w, TLC_ERR_PARAM,
                            "of the %zu values from %zu on %zu are to be sent, but the codec sends %llu", n, first,
                            largest, (unsigned long long)most);
    }
    return TLC_OK;
}

/* ---- encode ------------------------------------------------------------------------------------------------------ */

static int is_sent(const tlc_unit *u, float x)
{
    return (int32_t)tlc_selection_key(&u->selection, x) > 0;
}

static float decoded(const tlc_unit *u, unsigned bits, float x)
{
    if (!is_sent(u, x))
        return 0;
    return bits == 32 ? x : bits ? tlc_few_bits_value(u, bits, x) : u->scalars[0];
}

/* Writes the positions of the members that are sent, and returns their length. */
static size_t write_positions(const members_job *j, const tlc_unit *u, const tlc_chosen *members, uint8_t *dst)
{
    const tlc_positions *positions = tlc_codec_positions(&j->codec);
    const uint64_t most = u->quantizer->members_max(u->params, u->n);
    uint64_t k = 0;

    memset(j->mask, 0, (size_t)tlc_ceil_div(u->n, WORD) * sizeof *j->mask);
    for (size_t i = 0; i < members->count; i++) {
        const uint64_t at = members->positions[i] - u->first, sent = (uint64_t)is_sent(u, members->values[i]);
        j->mask[at / WORD] |= sent << at % WORD;
        k += sent;
    }
    return positions->encode(&(tlc_members){j->mask, NULL, u->n, k}, dst, (size_t)positions->bound(u->n, most, 0));
}

/* Writes the values of members, all of which are sent, and returns their length. */
static size_t write_values(const tlc_unit *u, unsigned bits, const tlc_chosen *members, uint8_t *dst)
{
    tlc_value_writer w = {.u = u, .to = dst, .bits = bits};
    float values[TLC_BATCH];

    for (size_t i = 0, some; i < members->count; i += some) {
        some = tlc_smaller(members->count - i, TLC_BATCH);
        for (size_t m = 0; m < some; m++)
            values[m] = decoded(u, bits, members->values[i + m]);
        tlc_values_write(&w, values, some);
    }
    return (size_t)(tlc_values_end(&w) - dst);
}

/* Writes the payload of a unit, and returns its length. Sets the scalars. */
static size_t encode_unit(const members_job *j, size_t first, const tlc_chosen *members, uint8_t *dst, float *scalars)
{
    tlc_unit u = {.k = j->k,
                  .quantizer = quantizer_of(&j->codec),
                  .params = j->codec.params,
                  .n = tlc_smaller(j->n - first, j->unit),
                  .first = first};
    const unsigned bits = tlc_value_bits(u.quantizer, u.params);

    tlc_settle(&u, members, bits);
    size_t len = write_positions(j, &u, members, dst);
    if (bits)
        len += write_values(&u, bits, members, dst + len);
    for (size_t i = 0; j->sent && i < members->count; i++) /* last: it may be where the values are */
        j->sent[(size_t)(members->values - j->all.values) + i] = decoded(&u, bits, members->values[i]);
    memcpy(scalars, u.scalars, sizeof u.scalars);
    return len;
}

/* Writes the table and the payloads of the blocks. */
static size_t encode_blocks(const members_job *j, uint8_t *dst)
{
    const size_t entry = tlc_table_entry_size(&j->codec);
    size_t at = j->n ? (size_t)tlc_ceil_div(j->n, j->unit) * entry : 0;
    float scalars[TLC_MAX_SCALARS];
    tlc_chosen left = j->all;
    uint8_t *table = dst;

    for (size_t first = 0; first < j->n; first += j->unit, table += entry) {
        const tlc_chosen members = members_of(&left, first, j->unit);
        const size_t len = encode_unit(j, first, &members, dst + at, scalars);
        for (size_t i = 0; i < entry / 4 - 1; i++)
            tlc_store32(table + 4 * i, tlc_float_bits(scalars[i]));
        tlc_store32(table + entry - 4, (uint32_t)len);
        at += len;
    }
    return at;
}

static size_t encode(const members_job *j, const tlc_members_params *p, uint8_t *dst)
{
    size_t at = tlc_frame_header_size(&j->codec, j->n);
    float scalars[TLC_MAX_SCALARS] = {0};

    if (j->codec.block)
        at += encode_blocks(j, dst + at);
    else if (j->n)
        at += encode_unit(j, 0, &j->all, dst + at, scalars);
    (void)tlc_frame_write(dst, &j->codec, p->dtype, p->checksum, j->n, scalars);
    if (p->checksum) {
        tlc_frame_seal(dst, at);
        at += TLC_CHECKSUM_SIZE;
    }
    return at;
}

/* ---- public ------------------------------------------------------------------------------------------------------ */

size_t tlc_members_scratch(const char *codec, size_t n)
{
    members_job j;

    return parse(&j, codec, n, NULL) ? 0 : mask_size(&j);
}

/* Checks all arguments but the members. */
static tlc_status check_arguments(const members_job *j, const tlc_members_params *p, const void *dst, size_t cap,
                                  const size_t *written, tlc_text *w)
{
    const tlc_chosen *all = &j->all;
    const char *missing = !all->positions && all->count ? "positions"
                          : !all->values && all->count  ? "values"
                          : !dst                        ? "dst"
                          : !written                    ? "written"
                                                        : NULL;
    tlc_status status = tlc_dtype_check(p->dtype, w);

    if (status)
        return status;
    if (missing)
        return TLC_FAIL(w, TLC_ERR_PARAM, "%s is NULL", missing);
    if (j->n && !p->scratch)
        return TLC_FAIL(w, TLC_ERR_PARAM, "scratch is NULL: tlc_members_scratch tells how much is needed");
    return tlc_frame_room(&j->codec, p->dtype, p->checksum, j->n, cap, w);
}

tlc_status tlc_compress_members(const uint64_t *positions, const float *values, size_t k, size_t n,
                                const tlc_members_params *params, void *dst, size_t cap, size_t *written)
{
    tlc_members_params p = {0};
    members_job j;

    if (!params || !tlc_import(&p, sizeof p, params))
        return TLC_ERR_PARAM;
    tlc_text w = tlc_text_in(p.message, p.message_cap);
    tlc_status status = parse(&j, p.codec, n, &w);
    if (status)
        return status;
    p.checksum = p.checksum != 0;
    j.k = tlc_kernels_for(TLC_ISA_AUTO);
    if (!j.k)
        return TLC_ERR_UNSUPPORTED;
    j.all = (tlc_chosen){positions, values, k};
    j.mask = p.scratch;
    j.sent = p.sent;
    tlc_float_mode mode = tlc_float_enter(); /* parameters are doubles, and tell how many members there may be */
    status = check_arguments(&j, &p, dst, cap, written, &w);
    if (!status)
        status = check_each(&j, &w);
    if (!status)
        status = check_counts(&j, &w);
    if (!status)
        *written = encode(&j, &p, dst);
    tlc_float_leave(mode);
    return status;
}

/* ---- from a frame ------------------------------------------------------------------------------------------------ */

/* Opens the positions of a checked unit. Returns how many bytes they have. in_parts is that of positions.h: with 1,
 * golomb codes are read as positions; with 0, reader->k is exact. */
static size_t open_positions(const tlc_coding *c, int in_parts, tlc_positions_reader *reader)
{
    const tlc_positions_format format = {.k = c->unit.k,
                                         .n = c->unit.n,
                                         .value_bits = tlc_value_bits(c->unit.quantizer, c->unit.params),
                                         .in_parts = in_parts};
    return tlc_codec_positions(c->codec)->open(reader, &format, c->payload, c->len, TLC_CHECKED);
}

static uint64_t count_members(const tlc_kernels *k, const tlc_frame *f)
{
    tlc_positions_reader reader;
    uint64_t count = 0;
    tlc_walk w;

    tlc_walk_start(&w, k, f, NULL);
    while (w.next < w.units) {
        (void)tlc_walk_next(&w);
        (void)open_positions(&w.coding, 0, &reader);
        count += reader.k;
    }
    return count;
}

/* Writes the positions that a batch has. first: value of its first bit, if it is a mask. Returns how many they are. */
static size_t unpack(const tlc_unit *u, const tlc_positions_batch *batch, int is_mask, uint64_t first,
                     uint64_t *positions)
{
    size_t k = 0;

    for (size_t i = 0; i < batch->count; i++) {
        if (!is_mask)
            positions[k++] = u->first + batch->index[i];
        for (uint64_t bits = is_mask ? batch->mask[i] : 0; bits; bits &= bits - 1)
            positions[k++] = first + i * WORD + (uint64_t)__builtin_ctzll(bits);
    }
    return k;
}

/* Returns how many members the unit has. */
static size_t read_unit(const tlc_coding *c, uint64_t *positions, float *values)
{
    const tlc_unit *u = &c->unit;
    tlc_positions_batch batch = {.count = TLC_MASK_WORDS};
    tlc_positions_reader reader;
    const size_t size = open_positions(c, 1, &reader);
    uint64_t first = u->first;
    size_t k = 0;

    for (; tlc_codec_positions(c->codec)->read(&reader, u->n, &batch); first = u->first + reader.place.next)
        k += unpack(u, &batch, reader.as_masks, first, positions + k);
    tlc_value_reader from = tlc_values_at(u, c->payload + size, k);
    if (from.bits)
        tlc_values_read(&from, k, values);
    for (size_t i = 0; !from.bits && i < k; i++)
        values[i] = u->scalars[0];
    return k;
}

/* Of a frame that was checked. */
static void take_apart(const tlc_kernels *k, const tlc_frame *f, uint64_t *positions, float *values)
{
    size_t count = 0;
    tlc_walk w;

    tlc_walk_start(&w, k, f, NULL);
    while (w.next < w.units) {
        (void)tlc_walk_next(&w);
        count += read_unit(&w.coding, positions + count, values + count);
    }
}

tlc_status tlc_decompress_members(const void *src, size_t len, size_t n, uint64_t *positions, float *values, size_t cap,
                                  size_t *k, const tlc_decode_options *opt)
{
    uint64_t count = 0;
    tlc_decoding d;
    tlc_frame f;
    tlc_status status = tlc_decoding_begin(&d, opt);

    if (!status && !k)
        status = TLC_FAIL(&d.why, TLC_ERR_PARAM, "k is NULL");
    if (!status)
        status = tlc_decoding_check(&d, &f, &(tlc_message){src, len}, k, "k", n);
    if (status)
        return status;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the frame was read */
    if (quantizer_of(&f.codec)->makes != TLC_MAKES_MEMBERS)
        return TLC_FAIL(&d.why, TLC_ERR_UNSUPPORTED, "a frame of %s does not send some of the values",
                        f.codec.quantizer->name);
    if (n)
        count = count_members(d.k, &f);
    if (count > cap)
        return TLC_FAIL(&d.why, TLC_ERR_CAPACITY, "cap is %zu, but the frame has %llu members", cap,
                        (unsigned long long)count);
    if (count && (!positions || !values))
        return tlc_decoding_null(&d.why, positions ? "values" : "positions", "cap", cap);
    const tlc_float_mode mode = tlc_float_enter();
    if (count)
        take_apart(d.k, &f, positions, values);
    tlc_float_leave(mode);
    *k = (size_t)count;
    return TLC_OK;
}
