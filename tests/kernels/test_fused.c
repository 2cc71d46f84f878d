/* SPDX-License-Identifier: MIT
 *
 * Fused kernels (src/coding/fused.h) do what their parts do, bit for bit: every entry of every row, on every ISA,
 * against quantizer, packer, feedback and output of the scalar ISA. (Whole payloads: test_fused_payloads.c.)
 *
 * A new row is checked without a line here. A new entry needs one in the list of checks, or this file does not compile.
 */
#include "../../src/frames/encode.h"
#include "../../src/coding/feedback.h"
#include "fused.h"
#include <float.h>

enum { MOST = TLC_CHUNK + 77, FLAT = TLC_STREAMS_MAX * MOST, FILL = 0x5a };

/* ---- data -------------------------------------------------------------------------------------------------------- */

/* These and sums of two are halves of the largest magnitude, what lies next to halves, and zeros of both signs. */
static const float tied[] = {0.0f,           -0.0f,          0.25f,           -0.25f,
                             0.5f,           -0.5f,          0x1p-149f,       -0x1p-126f,
                             0x1.000002p-2f, 0x1.000004p-2f, -0x1.fffffep-3f, -0x1.fffffcp-3f};

static void fill_tied(uint64_t seed, float *x, size_t n)
{
    rng r = {seed};

    for (size_t i = 0; i < n; i++)
        x[i] = tied[rng_below(&r, COUNT(tied))];
}

enum { KINDS = DATA_COUNT + 1 };

static void fill_kind(size_t kind, uint64_t seed, float *x, size_t n)
{
    if (kind < DATA_COUNT)
        fill((data_kind)kind, seed, x, n);
    else
        fill_tied(seed, x, n);
}

/* ---- a row at work ----------------------------------------------------------------------------------------------- */

/* One way to call a row's entries. */
typedef struct trial {
    const tlc_fused *row;
    const tlc_kernels *k, *plain;
    size_t count;       /* values, or values of each stream */
    const float *g, *r; /* FLAT values each, or NULL */
    float scalars[TLC_MAX_SCALARS];
    tlc_selection selection;
    float weight;
    uint64_t seed;
} trial;

static const tlc_quantizer *quantizer_of(const trial *t)
{
    return t->row->quantizer->quantize;
}

/* A unit of n values whose residual is this. */
static tlc_unit unit_of(const trial *t, const tlc_kernels *k, size_t n, tlc_input *input, float *residual)
{
    static tlc_codec codec;
    tlc_unit u = {.k = k, .quantizer = quantizer_of(t), .params = codec.params, .n = n, .input = input};

    tlc_codec_fill(&codec, t->row->quantizer, t->row->packer, NULL);
    memcpy(u.scalars, t->scalars, sizeof u.scalars);
    u.selection = t->selection;
    *input = (tlc_input){.k = k, .residual = residual};
    return u;
}

/* Measures x as a compression does. */
static void measure(trial *t, size_t n)
{
    float *residual = floats(n);
    tlc_codec codec;
    tlc_coding c;

    if (t->r)
        memcpy(residual, t->r, n * sizeof *residual);
    tlc_codec_fill(&codec, t->row->quantizer, t->row->packer, NULL);
    tlc_job job = {
        .codec = &codec,
        .input = {.k = t->plain, .grad = (const uint8_t *)t->g, .residual = t->r ? residual : NULL},
        .n = n,
    };
    require_status(tlc_encode_begin(&job, &c), TLC_OK);
    memcpy(t->scalars, c.unit.scalars, sizeof t->scalars);
    t->selection = quantizer_of(t)->makes == TLC_MAKES_MEMBERS ? c.unit.selection : (tlc_selection){0};
    free(residual);
}

/* x of some values, as tlc_unit_values gives it. */
static const float *wanted(const trial *t, const float *residual, size_t from, size_t count, float *buf)
{
    if (!t->r)
        return t->g + from;
    if (!t->g)
        return residual + from;
    for (size_t i = 0; i < count; i++)
        buf[i] = t->g[from + i] + residual[from + i];
    return buf;
}

static void copy_residual(const trial *t, float *residual, size_t n)
{
    memset(residual, FILL, FLAT * sizeof *residual);
    if (t->r)
        memcpy(residual, t->r, n * sizeof *residual);
}

/* ---- the checks of entries --------------------------------------------------------------------------------------- */

static float residual_got[FLAT], residual_want[FLAT], out_got[FLAT + 1], out_want[FLAT + 1];
static int8_t symbols[FLAT];
static uint8_t bytes_got[FLAT], bytes_want[FLAT];

static size_t plane_size(unsigned bits, size_t n)
{
    return (n * bits + 7) / 8;
}

/* Values of the chunk that begins at i, of n. */
static size_t piece(size_t n, size_t i)
{
    return n - i < TLC_CHUNK ? n - i : TLC_CHUNK;
}

/* Symbols or codes by the quantizer, and what they leave in the residual. */
static void encode_by_parts(const trial *t, size_t from, size_t n, unsigned bits, uint8_t *codes)
{
    tlc_input input;
    const tlc_unit u = unit_of(t, t->plain, n, &input, t->r ? residual_want : NULL);
    float buf[TLC_CHUNK];

    for (size_t i = 0, count; i < n; i += count) {
        count = piece(n, i);
        tlc_chunk c = {.at = from + i, .count = count, .symbols = symbols + from + i};
        c.x = wanted(t, residual_want, from + i, count, buf);
        c.codes[0] = codes + i * bits / 8;
        require(u.quantizer->encode(&u, &c) == 0); /* no row could tell of clipped values */
        if (bits)
            tlc_feedback_codes(&u, &c);
        else
            tlc_feedback_symbols(&u, &c);
    }
}

static void check_encode(const trial *t)
{
    const int makes_codes = quantizer_of(t)->makes == TLC_MAKES_CODES;
    const tlc_layout layout = makes_codes ? quantizer_of(t)->layout(NULL, TLC_F32) : (tlc_layout){{0, 0}, 0};
    const size_t n = makes_codes || t->count < TLC_CHUNK ? t->count : TLC_CHUNK;
    const size_t size = makes_codes ? plane_size(layout.bits[0], n) : n;
    tlc_input input;

    require(quantizer_of(t)->makes != TLC_MAKES_MEMBERS && !layout.bits[1]);
    memset(bytes_got, FILL, sizeof bytes_got);
    memset(bytes_want, FILL, sizeof bytes_want);
    copy_residual(t, residual_got, n);
    copy_residual(t, residual_want, n);
    encode_by_parts(t, 0, n, layout.bits[0], bytes_want);
    if (!makes_codes)
        memcpy(bytes_want, symbols, n);
    const tlc_unit u = unit_of(t, t->k, n, &input, NULL); /* the entry is given the residual */
    t->row->encode(&u, t->g, t->r ? residual_got : NULL, n, bytes_got);
    require(same(bytes_got, bytes_want, sizeof bytes_got) && bytes_got[size] == FILL);
    require(same(residual_got, residual_want, sizeof residual_got));
}

/* x lies in the residual. */
static void check_encode_members(const trial *t)
{
    const size_t n = t->count < TLC_CHUNK ? t->count : TLC_CHUNK;
    uint64_t mask_got[TLC_CHUNK / 64] = {0}, mask_want[TLC_CHUNK / 64] = {0};
    tlc_input input;

    require(quantizer_of(t)->makes == TLC_MAKES_MEMBERS && quantizer_of(t)->value_bits);
    if (!t->r)
        return;
    copy_residual(t, residual_got, n);
    copy_residual(t, residual_want, n);
    fill_sums(t->seed, out_got, FLAT + 1);
    memcpy(out_want, out_got, sizeof out_want);
    const tlc_unit plain = unit_of(t, t->plain, n, &input, residual_want);
    const tlc_chunk want = {.count = n, .x = residual_want, .mask = mask_want, .values = out_want};
    const size_t k = (size_t)plain.quantizer->encode(&plain, &want);
    tlc_feedback_members(&plain, &want, k);
    const tlc_unit u = unit_of(t, t->k, n, &input, NULL); /* the entry is given the residual */
    const tlc_chunk got = {.count = n, .mask = mask_got, .values = out_got};
    require(t->row->encode_members(&u, &got, residual_got) == k);
    require(same(mask_got, mask_want, sizeof mask_got) && same(out_got, out_want, sizeof out_got));
    require(same(residual_got, residual_want, sizeof residual_got));
}

static void check_encode_and_pack(const trial *t)
{
    const tlc_packer *packer = t->row->packer->pack;
    const size_t count = t->count;
    const float *g[TLC_STREAMS_MAX];
    const int8_t *q[TLC_STREAMS_MAX];
    float *r[TLC_STREAMS_MAX];
    tlc_input input;

    memset(bytes_got, FILL, sizeof bytes_got);
    memset(bytes_want, FILL, sizeof bytes_want);
    copy_residual(t, residual_got, packer->streams * count);
    copy_residual(t, residual_want, packer->streams * count);
    for (size_t s = 0; s < packer->streams; s++) {
        encode_by_parts(t, s * count, count, 0, bytes_want);
        q[s] = symbols + s * count;
        g[s] = t->g ? t->g + s * count : NULL;
        r[s] = residual_got + s * count;
    }
    packer->encode(t->plain, q, count, bytes_want);
    const tlc_unit u = unit_of(t, t->k, packer->streams * count, &input, NULL);
    t->row->encode_and_pack(&u, t->g ? g : NULL, t->r ? r : NULL, count, bytes_got);
    require(same(bytes_got, bytes_want, sizeof bytes_got) && bytes_got[count] == FILL);
    require(same(residual_got, residual_want, sizeof residual_got));
}

/* Packed bytes of any kind, and the outputs of both ways; what the packer and the output make of them. */
static void unpack_by_parts(const trial *t, tlc_output_mode mode, float scale, float *got[TLC_STREAMS_MAX])
{
    const tlc_packer *packer = t->row->packer->pack;
    const tlc_output o =
        {.k = t->plain, .mode = mode, .out = out_want + 1, .weight = 1.0f, .is_symbols = 1, .has_zero = 1};
    int8_t *q[TLC_STREAMS_MAX];
    rng random = {t->seed};

    for (size_t i = 0; i < t->count; i++)
        bytes_got[i] = (uint8_t)rng_below(&random, packer->largest + 1u);
    fill_sums(t->seed, out_got, FLAT + 1);
    memcpy(out_want, out_got, sizeof out_want);
    for (size_t s = 0; s < packer->streams; s++) {
        q[s] = symbols + s * t->count;
        got[s] = out_got + 1 + s * t->count;
    }
    packer->decode(t->plain, bytes_got, t->count, q);
    for (size_t s = 0; s < packer->streams; s++)
        for (size_t i = 0; i < t->count; i += piece(t->count, i))
            tlc_output_symbols(&o, s * t->count + i, piece(t->count, i), q[s] + i, scale);
}

static void check_unpack_and_write(const trial *t)
{
    float *out[TLC_STREAMS_MAX];

    unpack_by_parts(t, TLC_OUTPUT_WRITE, t->scalars[0], out);
    t->row->unpack_and_write(t->k, bytes_got, t->count, t->scalars[0], out);
    require(same(out_got, out_want, sizeof out_got));
}

/* The coder asks only for what is finite. */
static void check_unpack_and_add(const trial *t)
{
    float *sum[TLC_STREAMS_MAX], scale = t->scalars[0] * t->weight;

    if (!tlc_finite(scale))
        scale = -FLT_MAX;
    unpack_by_parts(t, TLC_OUTPUT_ADD, scale, sum);
    t->row->unpack_and_add(t->k, bytes_got, t->count, scale, sum);
    require(same(out_got, out_want, sizeof out_got));
}

/* Three payloads with weights of their own: the same bytes from other places on. */
static void check_unpack_and_add_many(const trial *t)
{
    const float scale = tlc_finite(t->scalars[0] * t->weight) ? t->scalars[0] * t->weight : FLT_MAX;
    const float scales[3] = {scale, -0.25f * scale, 3.0f};
    const uint8_t *const src[3] = {bytes_got, bytes_got + t->count / 3, bytes_got};
    float *sum[TLC_STREAMS_MAX], *want[TLC_STREAMS_MAX];
    const size_t count = t->count - t->count / 3;

    unpack_by_parts(t, TLC_OUTPUT_ADD, scale, sum);
    memcpy(out_want, out_got, sizeof out_want);
    for (size_t s = 0; s < t->row->packer->pack->streams; s++)
        want[s] = out_want + (sum[s] - out_got);
    for (size_t i = 0; i < 3; i++)
        t->row->unpack_and_add(t->plain, src[i], count, scales[i], want);
    t->row->unpack_and_add_many(t->k, src, scales, 3, count, sum);
    require(same(out_got, out_want, sizeof out_got));
}

/* In parts of 16 bytes, 48, ... up to all in one; the last may be empty. */
static void check_unpack_and_write_uncached(const trial *t)
{
    float *out[TLC_STREAMS_MAX], *to[TLC_STREAMS_MAX];

    for (size_t part = 16; part <= 16 * 1024; part = part * 3) {
        tlc_lines lines = {.open = 0};
        unpack_by_parts(t, TLC_OUTPUT_WRITE, t->scalars[0], out);
        for (size_t i = 0, last = 0; !last; i += part) {
            size_t left = t->count - i;
            last = left < part;
            for (size_t s = 0; s < t->row->packer->pack->streams; s++)
                to[s] = out[s] + i;
            t->row->unpack_and_write_uncached(t->k, bytes_got + i, last ? left : part, t->scalars[0], to, &lines,
                                              (int)last);
        }
        require(!lines.open && same(out_got, out_want, sizeof out_got));
    }
}

static void check_decode_and_add(const trial *t)
{
    static const double defaults[TLC_MAX_PARAMS];
    const unsigned bits = quantizer_of(t)->layout(defaults, TLC_F32).bits[0];
    const size_t n = t->count;
    const tlc_output o = {.k = t->plain,
                          .mode = TLC_OUTPUT_ADD,
                          .out = out_want + 1,
                          .weight = t->weight,
                          .has_zero = quantizer_of(t)->has_zero};
    float values[TLC_CHUNK];
    rng random = {t->seed};
    tlc_input input;

    for (size_t i = 0; i < plane_size(bits, n); i++)
        bytes_got[i] = (uint8_t)rng_next(&random);
    fill_sums(t->seed, out_got, FLAT + 1);
    memcpy(out_want, out_got, sizeof out_want);
    const tlc_unit plain = unit_of(t, t->plain, n, &input, NULL), u = unit_of(t, t->k, n, &input, NULL);
    for (size_t i = 0; i < n; i += piece(n, i)) {
        const uint8_t *const codes[2] = {bytes_got + i * bits / 8, NULL};
        plain.quantizer->decode(&plain, codes, piece(n, i), values);
        tlc_output_values(&o, i, piece(n, i), values);
    }
    t->row->decode_and_add(&u, bytes_got, n, t->weight, out_got + 1);
    require(same(out_got, out_want, sizeof out_got));
}

typedef struct entry_check {
    const char *name;
    size_t offset;
    void (*check)(const trial *t);
} entry_check;

static const entry_check checks[] = {
    {"encode", offsetof(tlc_fused, encode), check_encode},
    {"encode_members", offsetof(tlc_fused, encode_members), check_encode_members},
    {"encode_and_pack", offsetof(tlc_fused, encode_and_pack), check_encode_and_pack},
    {"unpack_and_write", offsetof(tlc_fused, unpack_and_write), check_unpack_and_write},
    {"unpack_and_add", offsetof(tlc_fused, unpack_and_add), check_unpack_and_add},
    {"unpack_and_add_many", offsetof(tlc_fused, unpack_and_add_many), check_unpack_and_add_many},
    {"unpack_and_write_uncached", offsetof(tlc_fused, unpack_and_write_uncached), check_unpack_and_write_uncached},
    {"decode_and_add", offsetof(tlc_fused, decode_and_add), check_decode_and_add},
};
_Static_assert(sizeof(tlc_fused) == offsetof(tlc_fused, encode) + COUNT(checks) * sizeof(void (*)(void)),
               "an entry has no check");

static int has_entry(const tlc_fused *row, const entry_check *c)
{
    return !all_bytes((const uint8_t *)row + c->offset, sizeof(void (*)(void)), 0);
}

/* ---- every entry of every row ------------------------------------------------------------------------------------ */

static size_t check_row(trial *t, const float *g, const float *r)
{
    static const size_t counts[] = {1,  2,  3,  5,  7,   8,   9,    15,   16,   17,  31,
                                    33, 63, 64, 65, 127, 333, 1023, 1024, 1025, MOST};
    size_t done = 0;

    for (size_t i = 0; i < COUNT(counts); i++)
        for (unsigned sources = 1; sources < 4; sources++) { /* the gradient, the residual, both */
            t->count = at.n = counts[i];
            t->g = sources & 1 ? g : NULL;
            t->r = sources & 2 ? r : NULL;
            t->weight = weights[t->seed++ % COUNT(weights)];
            measure(t, FLAT);
            for (size_t c = 0; c < COUNT(checks); c++)
                if (has_entry(t->row, &checks[c])) {
                    at.note = checks[c].name;
                    checks[c].check(t);
                    done++;
                }
        }
    return done;
}

TEST(entries)
{
    float *g = floats(FLAT), *r = floats(FLAT);
    size_t rows = 0;

    for (const tlc_fused *row; (row = tlc_fused_row(rows)) != NULL; rows++) {
        require(tlc_fused_of(row->quantizer, row->packer) == row); /* it is found, and is the only one */
        FOR_EACH_ISA(isa)
            for (size_t kind = quick() ? DATA_TIES : 0; kind < KINDS; kind++) {
                trial t = {.row = row, .k = tlc_kernels_for(isa), .plain = tlc_kernels_for(TLC_ISA_SCALAR)};
                at = (place){.codec = row->quantizer->name, .isa = isa};
                fill_kind(kind, 1, g, FLAT);
                fill_kind(kind, 2, r, FLAT);
                require(check_row(&t, g, r) > 0); /* a row without entries is none */
            }
    }
    require(rows > 0 && !tlc_fused_row(rows) && !tlc_fused_row(SIZE_MAX));
    free(g);
    free(r);
}

/* A pair that no row names has none. */
TEST(pairs)
{
    size_t found = 0, rows = 0;

    while (tlc_fused_row(rows))
        rows++;
    for (size_t i = 0; tlc_codec_stage(i); i++)
        for (size_t k = 0; k == 0 || tlc_codec_stage(k - 1); k++) {
            const tlc_stage *packer = k ? tlc_codec_stage(k - 1) : NULL;
            const tlc_fused *row = tlc_fused_of(tlc_codec_stage(i), packer);
            require(!row || (row->quantizer == tlc_codec_stage(i) && row->packer == packer));
            found += row != NULL;
        }
    require(found == rows);
}

SETUP(print_isas)
