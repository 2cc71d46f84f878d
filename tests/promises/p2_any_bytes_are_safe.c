/* SPDX-License-Identifier: MIT
 *
 * P2: no function reads or writes outside its arguments, for any bytes: random ones, ones that look like frames of the
 * manifest's codecs, and real frames with a few bytes changed.
 */
#include "../support/hostile.h"

/* ---- forms of frames --------------------------------------------------------------------------------------------- */

/* What a header can say of codecs: its bytes 2 and 3. All forms of the manifest's codecs, and others. */
typedef struct form {
    uint8_t values, coding;
    uint8_t blocked; /* byte 3 of blocked frames, where the table tells a fallback */
    unsigned scalars;
    char text[80];       /* the codec, not blocked */
    const codec_case *c; /* a codec with this form; NULL: there is none */
} form;

enum { MOST = 128, ROOM = 64 * MOST, FORMS_MAX = 256 };
static form forms[FORMS_MAX];
static size_t form_count;

/* A frame of n < MOST random values. */
static size_t real_frame(rng *r, const char *codec, data_kind kind, size_t n, uint8_t frame[ROOM])
{
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    float x[MOST];

    cfg.seed = rng_next(r);
    fill(kind, rng_next(r), x, n);
    tlc_ctx *ctx = create(&cfg, n);
    require(tlc_bound(ctx) <= ROOM);
    size_t len = compress(ctx, x, frame);
    tlc_destroy(ctx);
    return len;
}

static form *find_form(uint8_t values, uint8_t coding)
{
    for (form *f = forms; f < forms + form_count; f++)
        if (f->values == values && f->coding == coding)
            return f;
    return NULL;
}

/* The form of a frame of a manifest's codec. */
static void add_form(const codec_case *c, const uint8_t *frame, const tlc_frame_info *frame_info)
{
    const uint8_t empty[] = {TLC_FRAME_VERSION, 0, frame[2], frame[3], 0}; /* n = 0, not blocked */
    tlc_frame_info info = {.struct_size = sizeof info};
    form *f = find_form(frame[2], frame[3]);

    require(frame_info->block || frame_info->header_size == 5 + 4 * c->scalars); /* n takes a byte */
    require(!f || f->scalars == c->scalars);
    if (f)
        return;
    require(form_count < FORMS_MAX);
    f = &forms[form_count];
    *f = (form){.values = frame[2], .coding = frame[3], .blocked = frame[3], .scalars = c->scalars, .c = c};
    require_status(tlc_peek(empty, sizeof empty, &info), TLC_OK);
    require(strlen(info.codec) < sizeof f->text);
    strcpy(f->text, info.codec);
    for (const form *first = forms; first < f; first++)
        if (!strcmp(first->text, f->text)) { /* f is the fallback of this one */
            require(first->blocked == first->coding && f->blocked == f->coding);
            f->blocked = first->coding;
        }
    form_count++;
}

/* Sparse values come first: packers fall back for dense ones. */
static void find_forms(rng *r)
{
    static const data_kind kinds[] = {DATA_SPARSE, DATA_DENSE};
    uint8_t frame[ROOM];
    size_t fallbacks = 0;

    form_count = 0;
    for (size_t k = 0; k < COUNT(kinds); k++)
        FOR_EACH_CODEC(c) {
            tlc_frame_info info = {.struct_size = sizeof info};
            at.codec = c->text;
            size_t len = real_frame(r, c->text, kinds[k], 100, frame);
            require_status(tlc_inspect(frame, len, &info), TLC_OK);
            add_form(c, frame, &info);
        }
    for (const form *f = forms; f < forms + form_count; f++)
        fallbacks += f->blocked != f->coding;
    require(form_count >= 14 && fallbacks >= 1);
    at.codec = NULL;
}

/* A form that no codec has. The manifest has every way to join stages, but not all values of parameters: of quantizers
 * with parameters in byte 3 only the forms here are surely unknown. */
static form unknown_form(rng *r)
{
    static const uint8_t parameters[][2] = {{4, 118}, {4, 0x80 | 118}, {4, 127}, {6, 2}, {6, 0x80}};

    for (;;) {
        const uint8_t *p = parameters[rng_below(r, COUNT(parameters))];
        form f = {.values = p[0], .coding = p[1], .scalars = (unsigned)rng_below(r, 3)};
        int possible = 0;
        if (rng_below(r, 8)) {
            f.values = rng_below(r, 2) ? (uint8_t)rng_next(r) : forms[rng_below(r, form_count)].values;
            f.coding = (uint8_t)(rng_below(r, 2) ? rng_next(r) : rng_below(r, 4) | rng_below(r, 4) << 4);
            for (const form *known = forms; known < forms + form_count; known++)
                possible |= known->values == f.values && (known->coding == f.coding || strchr(known->text, ':'));
        }
        f.blocked = f.coding;
        if (!possible)
            return f;
    }
}

/* ---- bytes that look like a frame -------------------------------------------------------------------------------- */

/* Writes a Golomb stream, mostly a valid one, and what goes with it. Returns its length. */
static size_t plausible_golomb(rng *r, const form *f, size_t n, uint8_t *dst)
{
    size_t k = rng_below(r, n < 6 ? n + 1 : 6), b = rng_below(r, 4), bit = 16, index = 0, len;

    memset(dst, 0, 2 * n + 32);
    dst[0] = (uint8_t)k;
    dst[1] = (uint8_t)b;
    for (size_t left = k; left; left--) {
        size_t skip = rng_below(r, n - index - left + 1);
        index += skip + 1;
        for (size_t q = skip >> b; q; q--, bit++)
            dst[bit / 8] |= (uint8_t)(0x80u >> bit % 8);
        bit++;
        for (size_t i = b; i-- > 0; bit++)
            dst[bit / 8] |= (uint8_t)((skip >> i & 1) << (7 - bit % 8));
        bit += f->c->symbols && !f->c->any_sign; /* the member's sign */
    }
    len = (bit + 7) / 8;
    if (rng_below(r, 4) == 0)
        dst[rng_below(r, len)] ^= (uint8_t)(1u << rng_below(r, 8));
    for (size_t i = 0; !f->c->symbols && i < 4 * k; i++) /* the members' values */
        dst[len++] = i % 4 < 3 ? (uint8_t)rng_next(r) : rng_below(r, 16) ? 0x3f : 0x7f;
    return len;
}

/* Writes a payload of the codec, with the scalars left out. Returns its length. */
static size_t real_payload(rng *r, const form *f, size_t n, uint8_t *dst)
{
    const int fallback = f->blocked != f->coding;
    tlc_frame_info info = {.struct_size = sizeof info};
    uint8_t frame[ROOM];
    size_t len = real_frame(r, f->text, fallback ? DATA_DENSE : (data_kind)rng_below(r, DATA_COUNT), n, frame);

    require_status(tlc_inspect(frame, len, &info), TLC_OK);
    require(info.payload_size <= 8 * n + 32);
    memcpy(dst, frame + info.header_size, (size_t)info.payload_size);
    return (size_t)info.payload_size;
}

/* Writes a payload of a unit, mostly of the right length and of bytes that are frequent there. Returns its length. */
static size_t plausible_payload(rng *r, const form *f, size_t n, uint8_t *dst)
{
    enum { SWAPPED, CHANGED, DRAWN, MIXED };
    uint8_t real[ROOM] = {0};
    size_t way = rng_below(r, 4), kept = rng_below(r, 2) ? 4 : 0; /* where there is a number at the start */

    if (f->c && f->c->scratch && rng_below(r, 2)) /* it packs members, which all do with Golomb codes */
        return plausible_golomb(r, f, n, dst);
    size_t size = f->c ? real_payload(r, f, n, real) : 0;
    size_t len = f->c && rng_below(r, 8) ? size : rng_below(r, n + 9);
    if (!size)
        way = MIXED;
    for (size_t i = 0; i < len; i++)
        if (i < size && (way == SWAPPED || way == CHANGED || i < kept))
            dst[i] = real[i];
        else
            dst[i] = way == MIXED && !rng_below(r, 3) ? (uint8_t)rng_next(r) : real[size ? rng_below(r, size) : 0];
    for (size_t edits = rng_below(r, 4); edits-- && len;) {
        uint8_t *a = &dst[rng_below(r, len)], *b = &dst[rng_below(r, len)], before = *a;
        if (way == SWAPPED) {
            *a = *b;
            *b = before;
        } else if (way == CHANGED)
            *a = (uint8_t)rng_next(r);
    }
    return len;
}

/* Writes the scalars and, in a block table, the length. */
static size_t plausible_entry(rng *r, const form *f, uint8_t *dst)
{
    static const uint32_t usual[] = {0x3f800000u, 0, 0x00000001u, 0x7f7fffffu};

    for (size_t s = 0; s < f->scalars; s++) {
        uint32_t bits = rng_below(r, 8) ? usual[rng_below(r, COUNT(usual))] : (uint32_t)rng_next(r);
        for (size_t k = 0; k < 4; k++)
            dst[4 * s + k] = (uint8_t)(bits >> 8 * k);
    }
    return 4 * f->scalars;
}

/* Makes a frame that mostly passes the check of its header: known ids and the right n < MOST, then anything. */
static size_t plausible_frame(rng *r, uint8_t src[ROOM], size_t n, const form *f)
{
    int blocked = rng_below(r, 3) == 0, fallback = f->blocked != f->coding;
    size_t block = blocked ? 1 + rng_below(r, 40) : n, blocks = n ? (n + block - 1) / block : 0, i = 5, to;

    src[0] = TLC_FRAME_VERSION;
    src[1] = (uint8_t)(rng_below(r, 3) | (blocked ? 8u : 0u));
    src[2] = f->values;
    src[3] = blocked ? f->blocked : f->coding;
    src[4] = (uint8_t)n;
    if (blocked)
        src[i++] = (uint8_t)block;
    to = i + (blocked ? blocks * (4 * f->scalars + 4) : n ? 4 * f->scalars : 0);
    for (size_t b = 0; b < blocks; b++) {
        const size_t count = n - b * block < block ? n - b * block : block;
        require(to + 8 * count + 64 <= ROOM);
        size_t len = plausible_payload(r, f, count, src + to);
        i += plausible_entry(r, f, src + i);
        if (blocked) {
            memset(src + i, 0, 4);
            src[i] = (uint8_t)len;
            src[i + 1] = (uint8_t)(len >> 8);
            src[i + 3] = rng_below(r, 8) == 0 || fallback ? 0x80 : 0;
            i += 4;
        }
        to += len;
    }
    return rng_below(r, 16) ? to : rng_below(r, to + 4);
}

TEST(p2_random_bytes)
{
    size_t count = quick() ? 8000 : 40000, accepted[FORMS_MAX] = {0};
    uint8_t src[ROOM] = {0};
    rng r = {1};
    hostile h;

    find_forms(&r);
    hostile_open(&h, sizeof src, MOST);
    for (at = (place){.note = "random bytes"}; at.i < count; at.i++) {
        size_t n = rng_below(&r, rng_below(&r, 2) ? MOST : 9), len, kind = rng_below(&r, form_count + form_count / 2);
        form f = kind < form_count ? forms[kind] : unknown_form(&r);
        if (at.i % 4)
            len = plausible_frame(&r, src, n, &f);
        else {
            len = rng_below(&r, 160);
            for (size_t j = 0; j < len; j++)
                src[j] = (uint8_t)rng_next(&r);
        }
        tlc_status first = TLC_OK;
        FOR_EACH_ISA(isa) {
            at.isa = isa;
            tlc_status status = hostile_decode(&h, src, len, n, isa);
            require(isa == TLC_ISA_SCALAR || status == first);
            first = status;
        }
        require(!(at.i % 4) || f.c || first != TLC_OK);
        accepted[kind < form_count ? kind : form_count] += at.i % 4 && n && first == TLC_OK;
    }
    for (at.i = 0; at.i < form_count; at.i++) { /* at least a twentieth, or too few frames reach the decoders */
        at.codec = forms[at.i].text;
        require(accepted[at.i] * 40 * form_count > count); /* of count / (2 form_count) frames */
    }
    hostile_close(&h);
}

/* ---- real frames, changed ---------------------------------------------------------------------------------------- */

/* Real frames with a few bytes changed, cut out or put in. */
static size_t mutate(rng *r, uint8_t *src, size_t len, size_t room)
{
    for (size_t edits = 1 + rng_below(r, 3); edits--;) {
        size_t i = rng_below(r, len), count = 1 + rng_below(r, 4);
        size_t kind = rng_below(r, 4);
        if (kind == 0 && i + count < len) {
            memmove(src + i, src + i + count, len - i - count);
            len -= count;
        } else if (kind == 1 && len + count <= room) {
            memmove(src + i + count, src + i, len - i);
            len += count;
        } else if (kind == 2)
            src[i] = (uint8_t)rng_next(r);
        else
            src[i] = (uint8_t)(243 + rng_below(r, 13));
    }
    return len;
}

TEST(p2_mutated_frames)
{
    size_t count = quick() ? 100 : 1000, n = 619;
    uint8_t *grad = bytes(4 * n), *frame = bytes(32 * n), *src = bytes(32 * n + 64);
    rng r = {2};
    hostile h;

    hostile_open(&h, 32 * n + 64, n);
    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa) {
            tlc_config cfg = config(c->text, dtypes[isa % 3], isa);
            tlc_ctx *ctx = create(&cfg, n);
            at = (place){.codec = c->text, .dtype = cfg.dtype, .isa = isa, .n = n};
            fill_grad(DATA_SPARSE, (uint64_t)isa, cfg.dtype, grad, n);
            size_t len = compress(ctx, grad, frame);
            tlc_destroy(ctx);
            for (at.i = 0; at.i < count; at.i++) {
                memcpy(src, frame, len);
                size_t changed = mutate(&r, src, len, len + 64);
                (void)hostile_decode(&h, src, changed, n, isa);
            }
        }
    hostile_close(&h);
    free(grad);
    free(frame);
    free(src);
}

SETUP(print_isas)
