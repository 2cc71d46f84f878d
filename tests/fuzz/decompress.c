/* SPDX-License-Identifier: MIT
 *
 * The input is any bytes, taken as a frame. All decoders must agree on whether it is one, on every ISA. A frame must
 * decode to the same bits everywhere, and the law of its codec must hold when its values are encoded again.
 * A wrong checksum would stop most inputs early, so inputs with a checksum are also tried with the right one.
 */
#include "../support/hostile.h"
#include "fuzz.h"

enum { MOST_BYTES = 1 << 16, MOST_VALUES = 1 << 14 };

typedef struct frame {
    const uint8_t *src;
    size_t len, n;
    tlc_frame_info info;
    float *values; /* as the scalar kernels decode them */
} frame;

/* ---- the same on every ISA --------------------------------------------------------------------------------------- */

/* Sums and momenta of any bits: NaN, infinities and -0 among them. */
static void fill_any(uint64_t seed, float *x, size_t n)
{
    static const uint32_t special[] = {0,           0x80000000u, 0x7f800000u, 0xff800000u,
                                       0x7fc00000u, 0xffa00001u, 1,           0x7f7fffffu};
    rng r = {seed};

    for (size_t i = 0; i < n; i++) { /* as bits: an x87 register would make signalling NaN quiet */
        uint64_t word = rng_next(&r);
        uint32_t bits = word >> 60 ? (uint32_t)word : special[word & 7];
        memcpy(x + i, &bits, sizeof bits);
    }
}

static void require_finish(tlc_status status)
{
    require(status == TLC_OK || status == TLC_ERR_UNSUPPORTED); /* tlc_mask does not support codecs without a zero */
}

/* Three times the frame in one sweep, and in single calls. */
static void many(const frame *f, float weight, const tlc_decode_options *opt)
{
    const tlc_message frames[3] = {{f->src, f->len}, {f->src, f->len}, {f->src, f->len}};
    const float weights[3] = {weight, 1.0f, -0.3f};
    float *sum = floats(f->n), *want = floats(f->n);

    fill_any(f->len, sum, f->n);
    fill_any(f->len, want, f->n);
    for (size_t i = 0; i < 3; i++)
        require_status(tlc_decompress_add(f->src, f->len, weights[i], want, f->n, opt), TLC_OK);
    require_status(tlc_decompress_add_many(frames, weights, 3, sum, f->n, NULL, opt), TLC_OK);
    require(same(sum, want, 4 * f->n));
    free(sum);
    free(want);
}

/* All outputs of one ISA, one after the other. */
static void outputs(const frame *f, const tlc_decode_options *opt, uint8_t *out)
{
    /* NOLINTNEXTLINE(bugprone-integer-division): it is the index that is divided */
    const float weight = (float)f->src[f->len / 2] / 64.0f - 1.5f;
    float *x = floats(f->n);

    FOR_EACH_DTYPE(t) {
        require_status(tlc_decompress(f->src, f->len, t, out, f->n, opt), TLC_OK);
        out += f->n * dtype_size[t];
    }
    fill_any(f->len, x, f->n);
    require_status(tlc_decompress_add(f->src, f->len, weight, x, f->n, opt), TLC_OK);
    if (f->n)
        memcpy(out, x, 4 * f->n);
    many(f, weight, opt);
    fill_any(f->n, x, f->n);
    require_finish(tlc_mask(f->src, f->len, x, f->n, opt));
    if (f->n)
        memcpy(out + 4 * f->n, x, 4 * f->n);
    free(x);
}

static void same_everywhere(const frame *f)
{
    const size_t size = 16 * f->n;
    uint8_t *want = bytes(size + 1), *got = bytes(size + 1);
    tlc_decode_options opt = {.struct_size = sizeof opt, .isa = TLC_ISA_SCALAR};

    outputs(f, &opt, want + 1); /* unaligned */
    fuzz_fold(want + 1, f->n, 4);
    fuzz_fold(want + 1 + 4 * f->n, 2 * f->n, 2);
    fuzz_fold(want + 1 + 8 * f->n, 2 * f->n, 4);
    opt.parallel = runners[1].parallel;
    FOR_EACH_ISA(isa) {
        at.isa = opt.isa = isa;
        memset(got, 0x55, size + 1);
        outputs(f, &opt, got + 1);
        require(same(got + 1, want + 1, size));
    }
    free(want);
    free(got);
}

/* ---- laws -------------------------------------------------------------------------------------------------------- */

/* Are the values equal, or of one sign and at most this many floats apart? Zeros of both signs are equal, and so are
 * all NaN. */
static int alike(const float *a, const float *b, size_t n, uint64_t apart)
{
    for (size_t i = 0; i < n; i++) {
        int64_t steps = (int64_t)float_bits(a[i]) - (int64_t)float_bits(b[i]);
        if ((uint64_t)(steps < 0 ? -steps : steps) > apart && !(a[i] == b[i]) && !(a[i] != a[i] && b[i] != b[i]))
            return 0;
    }
    return 1;
}

/* 0 + 1 value is the value. */
static void adding(const frame *f)
{
    float *sum = floats(f->n);

    for (size_t i = 0; i < f->n; i++)
        sum[i] = 0.0f;
    require_status(tlc_decompress_add(f->src, f->len, 1.0f, sum, f->n, NULL), TLC_OK);
    require(alike(sum, f->values, f->n, 0));
    free(sum);
}

/* All values that are not 0 are masked, and tlc_inspect counts the masked ones. */
static void masking(const frame *f)
{
    float *momentum = floats(f->n);
    uint64_t masked = 0;

    for (size_t i = 0; i < f->n; i++)
        momentum[i] = 7.0f;
    if (tlc_mask(f->src, f->len, momentum, f->n, NULL) == TLC_OK) {
        for (size_t i = 0; i < f->n; i++) {
            require(momentum[i] == 7.0f || float_bits(momentum[i]) == 0);
            require(momentum[i] == 0.0f || f->values[i] == 0.0f);
            masked += momentum[i] == 0.0f;
        }
        require(masked == f->info.nonzero);
    }
    free(momentum);
}

/* Frames of 3-value symbols, and no others, can be taken apart: what a symbol decodes to is the scale of its block, its
 * negative, or 0. */
static void taken_apart(const frame *f)
{
    const size_t unit = f->info.block ? (size_t)f->info.block : f->n, units = f->n ? (f->n - 1) / unit + 1 : 0;
    const int is_ternary = strncmp(f->info.codec, "ternary", 7) == 0 ||
                           strncmp(f->info.codec, "stochastic-ternary", 18) == 0;
    uint8_t *quartic = bytes(f->n), *next = quartic;
    float *scales = floats(units), *values = floats(f->n);
    int8_t *q = (int8_t *)bytes(f->n);

    require_status(tlc_decompress_quartic(f->src, f->len, f->n, quartic, f->n, scales, units, NULL),
                   is_ternary ? TLC_OK : TLC_ERR_UNSUPPORTED);
    for (size_t i = 0; is_ternary && i < units; i++) {
        const size_t n = i + 1 < units ? unit : f->n - i * unit;
        require_status(tlc_quartic_decode(next, tlc_quartic_size(n), q, n), TLC_OK);
        require_status(tlc_ternary_decode(q, n, scales[i], values + i * unit), TLC_OK);
        next += tlc_quartic_size(n);
    }
    require(!is_ternary || same(values, f->values, f->n * sizeof(float)));
    free(quartic);
    free(scales);
    free(values);
    free(q);
}

/* The payload makes the same frame again, but for headers of ternary+golomb that tlc_compress would not write: the
 * payload is too long for positions, or n is 0. */
static void framed_again(const frame *f)
{
    const int is_fallback = f->n && f->info.payload_size >= tlc_quartic_size(f->n);
    const int is_usual = strcmp(f->info.codec, "ternary+golomb") != 0 || f->info.block || f->src[3] >> 4 == is_fallback;
    const size_t header = (size_t)f->info.header_size;
    float scalars[2];
    uint8_t *dst = bytes(f->len);
    size_t len = 0;

    (void)header_scalars(&f->info, f->src, scalars);
    const tlc_status status = tlc_compress_payload(f->src + header, (size_t)f->info.payload_size, scalars, f->n,
                                                   PARAMS(quartic, .codec = f->info.codec, .dtype = f->info.dtype,
                                                          .checksum = f->info.checksum),
                                                   dst, f->len, &len);
    if (is_usual) {
        require_status(status, TLC_OK);
        require(len == f->len && same(dst, f->src, len));
    }
    free(dst);
}

/* So can frames of members, and no others: all values but the members are 0. */
static void members_taken(const frame *f)
{
    const int is_sparse = strncmp(f->info.codec, "topk", 4) == 0 || strncmp(f->info.codec, "sparse-binary", 13) == 0 ||
                          strncmp(f->info.codec, "random-sparse", 13) == 0;
    uint64_t *positions = (uint64_t *)(void *)bytes(f->n * sizeof *positions);
    float *members = floats(f->n), *values = floats(f->n);
    size_t k = 0;

    require_status(tlc_decompress_members(f->src, f->len, f->n, positions, members, f->n, &k, NULL),
                   is_sparse ? TLC_OK : TLC_ERR_UNSUPPORTED);
    for (size_t i = 0; i < f->n; i++)
        values[i] = 0.0f;
    for (size_t i = 0; i < k; i++) {
        require(positions[i] < f->n && (!i || positions[i] > positions[i - 1]));
        values[positions[i]] = members[i];
    }
    require(!is_sparse || (k == f->info.nonzero && same(values, f->values, f->n * sizeof(float))));
    free(positions);
    free(members);
    free(values);
}

/* The form "stage[:parameters][+rest]" with the parameters that the law needs in front. */
static void encoder(const codec_case *c, const char *form, char *text, size_t cap)
{
    const size_t name = strcspn(form, ":+");
    const int has_parameters = form[name] == ':';
    const char *again = c->again ? c->again : "";

    snprintf(text, cap, "%.*s%s%s%s%s", (int)name, form, *again || has_parameters ? ":" : "", again,
             *again && has_parameters ? "," : "", form + name + has_parameters);
}

/* Compresses values (of dtype) and decodes the frame again; returns its length. frame: of tlc_codec_bound. */
static size_t encode(const char *codec, tlc_dtype dtype, int checksum, const void *values, size_t n, uint8_t *dst,
                     float *decoded)
{
    tlc_config cfg = config(codec, dtype, TLC_ISA_AUTO);
    size_t len;

    cfg.checksum = checksum;
    cfg.feedback = 0;
    tlc_ctx *ctx = create(&cfg, n);
    len = compress(ctx, values, dst);
    tlc_destroy(ctx);
    require_status(tlc_decompress(dst, len, TLC_F32, decoded, n, NULL), TLC_OK);
    return len;
}

static float largest(const float *x, size_t n)
{
    float max = 0.0f;

    for (size_t i = 0; i < n; i++) {
        float magnitude = bits_float(float_bits(x[i]) & 0x7fffffffu);
        max = magnitude > max ? magnitude : max;
    }
    return max;
}

/* raw frames have one form. */
static void identical(const frame *f)
{
    uint8_t *values = bytes(4 * f->n), *dst;
    float *decoded = floats(f->n);
    size_t bound = 0, len;

    require_status(tlc_decompress(f->src, f->len, f->info.dtype, values, f->n, NULL), TLC_OK);
    require_status(tlc_codec_bound(f->info.codec, f->info.dtype, f->n, &bound), TLC_OK);
    dst = bytes(bound);
    len = encode(f->info.codec, f->info.dtype, f->info.checksum, values, f->n, dst, decoded);
    require(len == f->len && same(dst, f->src, len));
    free(values);
    free(decoded);
    free(dst);
}

/* How many floats EXACT values may be off. topk:bits=2 makes one of two magnitudes whose mean is rounded to the lower;
 * the larger is then at most half as many floats away as there are members. */
static uint64_t exact_apart(const frame *f)
{
    return strncmp(f->info.codec, "topk:bits=2", 11) ? 0 : f->info.nonzero / 2;
}

static void encoded_again(const frame *f, const codec_case *c)
{
    char codec[160];
    size_t bound = 0, first, second;
    float *once = floats(f->n), *twice = floats(f->n);

    encoder(c, f->info.codec, codec, sizeof codec);
    require_status(tlc_codec_bound(codec, TLC_F32, f->n, &bound), TLC_OK);
    uint8_t *dst = bytes(bound), *dst2 = bytes(bound);
    first = encode(codec, TLC_F32, f->info.checksum, f->values, f->n, dst, once);
    if (c->law == EXACT)
        require(alike(once, f->values, f->n, exact_apart(f)));
    /* Levels of a maximum near the least floats are not distinct. Near the largest floats a maximum may be rounded. */
    float max = largest(once, f->n);
    if (c->law == EXACT || (max > 1e-30f && max < 1e38f)) {
        second = encode(codec, TLC_F32, f->info.checksum, once, f->n, dst2, twice);
        require(second == first && same(dst, dst2, first));
    }
    free(once);
    free(twice);
    free(dst);
    free(dst2);
}

/* ---- one frame --------------------------------------------------------------------------------------------------- */

/* The n that the header claims. With it the decoders check the rest of the frame. */
static uint64_t claimed(const uint8_t *src, size_t len)
{
    uint64_t n = 0;

    for (size_t i = 4; i < len && i < 14; i++) {
        n |= (uint64_t)(src[i] & 127) << 7 * (i - 4);
        if (!(src[i] & 128))
            break;
    }
    return n;
}

static void laws(frame *f)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = TLC_ISA_SCALAR};

    f->info.struct_size = sizeof f->info;
    require_status(tlc_inspect(f->src, f->len, &f->info), TLC_OK);
    f->values = floats(f->n);
    require_status(tlc_decompress(f->src, f->len, TLC_F32, f->values, f->n, &opt), TLC_OK);
    same_everywhere(f);
    adding(f);
    masking(f);
    taken_apart(f);
    framed_again(f);
    members_taken(f);
    const codec_case *c = codec_by_form(f->info.codec);
    require(c != NULL); /* a stage without a line in codecs.def */
    if (c->law == IDENTICAL)
        identical(f);
    else if (c->law != NOTHING && (!c->again_most || f->n <= c->again_most))
        encoded_again(f, c);
    free(f->values);
}

/* The header tells the same whether or not the rest is looked at; what is wrong with it is the same, too. */
static void peeking(const uint8_t *src, size_t len)
{
    tlc_frame_info peeked = {.struct_size = sizeof peeked}, whole = {.struct_size = sizeof whole};
    const tlc_status status = tlc_peek(src, len, &peeked), of_whole = tlc_inspect(src, len, &whole);

    require(status ? of_whole == status || of_whole == TLC_ERR_CHECKSUM : peeked.clipped == TLC_UNKNOWN);
    whole.nonzero = whole.clipped = TLC_UNKNOWN;
    require(of_whole || same(&peeked, &whole, sizeof whole));
}

static tlc_status one_frame(const uint8_t *src, size_t len)
{
    static hostile h;
    const uint64_t claim = claimed(src, len);
    const size_t n = claim <= MOST_VALUES ? (size_t)claim : MOST_VALUES;

    if (!h.src.pages.start)
        hostile_open(&h, MOST_BYTES + 1, MOST_VALUES);
    at = (place){.n = n, .isa = TLC_ISA_SCALAR};
    tlc_status status = hostile_decode(&h, src, len, n, TLC_ISA_SCALAR);
    fuzz_fold_number(status);
    FOR_EACH_ISA(isa) {
        at.isa = isa;
        require(isa == TLC_ISA_SCALAR || hostile_decode(&h, src, len, n, isa) == status);
    }
    peeking(src, len);
    if (status == TLC_OK)
        laws(&(frame){.src = src, .len = len, .n = n});
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= MOST_BYTES)
        fuzz_with_checksum(data, size, one_frame);
    return 0;
}
