/* SPDX-License-Identifier: MIT
 *
 * tlc_compress_members makes the frames of tlc_compress, of values that were chosen elsewhere, and
 * tlc_decompress_members takes frames apart; and what they refuse.
 */
#include "../support/support.h"
#include <math.h>

enum { LARGEST = 70001 };
static const size_t sizes[] = {0, 1, 4, 5, 63, 64, 65, 100, 1000, 4096, 5003, LARGEST};

/* What a device would send. */
typedef struct chosen {
    uint64_t positions[LARGEST];
    float values[LARGEST], sent[LARGEST];
    size_t k;
} chosen;

/* ---- the members of both sides of sparse-binary ------------------------------------------------------------------ */

typedef struct ranked {
    float value;
    size_t index;
} ranked;

static int by_magnitude(const void *a, const void *b)
{
    const ranked *p = a, *q = b;
    const float x = fabsf(p->value), y = fabsf(q->value);
    return x != y ? (x > y ? -1 : 1) : p->index < q->index ? -1 : 1;
}

/* Marks the k largest values of a sign in a unit; of equal ones the first. */
static void mark_side(const float *x, size_t n, int negative, size_t k, uint8_t *is_member)
{
    ranked *order = (ranked *)(void *)bytes(n * sizeof *order);
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        if (negative ? x[i] < 0 : x[i] > 0)
            order[count++] = (ranked){x[i], i};
    qsort(order, count, sizeof *order, by_magnitude);
    for (size_t i = 0; i < k && i < count; i++)
        is_member[order[i].index] = 1;
    free(order);
}

static void choose_sides(chosen *c, const codec_case *codec, const float *x, size_t n)
{
    const char *text = strstr(codec->text, "p=");
    const double p = text ? strtod(text + 2, NULL) : 0.01;
    const size_t block = block_of(codec->text), unit = block ? block : n;
    uint8_t *is_member = bytes(n);

    memset(is_member, 0, n);
    for (size_t first = 0; first < n; first += unit) {
        const size_t count = n - first < unit ? n - first : unit;
        const size_t k = (size_t)fmax(1, rint(p * (double)count));
        for (int negative = 0; negative < 2; negative++)
            mark_side(x + first, count, negative, k, is_member + first);
    }
    c->k = 0;
    for (size_t i = 0; i < n; i++)
        if (is_member[i]) {
            c->positions[c->k] = i;
            c->values[c->k++] = x[i];
        }
    free(is_member);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* The members of a frame are what tlc_decompress decodes to something else than 0, on every ISA. */
static void gives_back(chosen *c, const uint8_t *frame, size_t len, const float *out, size_t n)
{
    tlc_frame_info info = {.struct_size = sizeof info};

    require_status(tlc_inspect(frame, len, &info), TLC_OK);
    FOR_EACH_ISA(isa) {
        const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
        size_t next = 0;
        require_status(tlc_decompress_members(frame, len, n, c->positions, c->values, (size_t)info.nonzero, &c->k,
                                              &opt),
                       TLC_OK);
        require(c->k == info.nonzero);
        for (size_t i = 0; i < n; i++)
            if (out[i] != 0) {
                require(next < c->k && c->positions[next] == i);
                require(float_bits(c->values[next++]) == float_bits(out[i]));
            }
        require(next == c->k);
    }
    if (c->k)
        require_status(tlc_decompress_members(frame, len, n, c->positions, c->values, c->k - 1, &c->k, NULL),
                       TLC_ERR_CAPACITY);
}

/* What `sent` says is what arrives. in_place: it is where the values are. */
static void same_frame(chosen *c, const codec_case *codec, tlc_dtype dtype, size_t n, int checksum, int in_place,
                       const uint8_t *want, size_t wanted, const float *out)
{
    uint8_t *scratch = bytes(tlc_members_scratch(codec->text, n)), *got = bytes(wanted + LARGEST * 16);
    const float *sent = in_place ? c->values : c->sent;
    size_t len = 0, next = 0, bound;

    require_status(tlc_codec_bound(codec->text, dtype, n, &bound), TLC_OK);
    memset(scratch, 0xaa, tlc_members_scratch(codec->text, n));
    require_status(tlc_compress_members(c->positions, c->values, c->k, n,
                                        PARAMS(members, .codec = codec->text, .dtype = dtype, .checksum = checksum,
                                               .scratch = scratch, .sent = in_place ? c->values : c->sent),
                                        got, bound, &len),
                   TLC_OK);
    require(len == wanted && same(got, want, len));
    for (size_t i = 0; i < c->k; i++)
        require(float_bits(sent[i]) == float_bits(out[c->positions[i]]));
    for (size_t i = 0; i < n; i++) { /* nothing else arrives */
        if (next < c->k && c->positions[next] == i)
            next++;
        else
            require(float_bits(out[i]) == 0);
    }
    free(scratch);
    free(got);
}

static void same_frames(chosen *c, const codec_case *codec, tlc_dtype dtype, data_kind kind, size_t n, int checksum)
{
    tlc_config cfg = config(codec->text, dtype, TLC_ISA_AUTO);
    uint8_t *grad = bytes(n * dtype_size[dtype]);
    float *x = floats(n), *out = floats(n);

    at = (place){.codec = codec->text, .dtype = dtype, .n = n, .i = kind};
    cfg.feedback = 0;
    cfg.checksum = checksum;
    tlc_ctx *ctx = create(&cfg, n);
    fill_grad(kind, n + kind, dtype, grad, n);
    widen(dtype, grad, x, n);
    uint8_t *frame = bytes(tlc_bound(ctx));
    const size_t len = compress(ctx, grad, frame);
    require_status(tlc_decompress(frame, len, TLC_F32, out, n, NULL), TLC_OK);
    gives_back(c, frame, len, out, n);
    if (strncmp(codec->decoding, "sparse-binary", 13) == 0)
        choose_sides(c, codec, x, n);
    for (size_t i = 0; i < c->k && strncmp(codec->decoding, "topk", 4) == 0; i++)
        c->values[i] = x[c->positions[i]];
    same_frame(c, codec, dtype, n, checksum, 0, frame, len, out);
    same_frame(c, codec, dtype, n, checksum, 1, frame, len, out);
    tlc_destroy(ctx);
    free(grad);
    free(x);
    free(out);
    free(frame);
}

static int is_sparse(const codec_case *codec)
{
    return strncmp(codec->decoding, "topk", 4) == 0 || strncmp(codec->decoding, "sparse-binary", 13) == 0 ||
           strncmp(codec->decoding, "random-sparse", 13) == 0;
}

TEST(frames)
{
    chosen *c = (chosen *)(void *)bytes(sizeof *c);
    size_t seen = 0;

    FOR_EACH_CODEC(codec) {
        if (!is_sparse(codec))
            continue;
        seen++;
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (data_kind kind = DATA_LAPLACE; kind < DATA_COUNT; kind++)
                FOR_EACH_DTYPE(dtype)
                    if (sizes[i] < LARGEST || kind == DATA_SPARSE || (kind == DATA_LAPLACE && dtype == TLC_F32))
                        same_frames(c, codec, dtype, kind, sizes[i], (int)(i + kind) % 2);
    }
    require(seen >= 8);
    free(c);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void refused(const char *codec, const uint64_t *positions, const float *values, size_t k, size_t n,
                    tlc_status status, const char *words)
{
    uint8_t dst[256];
    uint64_t scratch[4];
    float sent[8];
    size_t len = 77;
    char message[TLC_MESSAGE_SIZE];

    at.note = words;
    memset(dst, 0xaa, sizeof dst);
    memset(sent, 0xaa, sizeof sent);
    require_status(tlc_compress_members(positions, values, k, n,
                                        PARAMS(members, .codec = codec, .scratch = scratch, .sent = sent,
                                               .message = message, .message_cap = sizeof message),
                                        dst, sizeof dst, &len),
                   status);
    require_says(message, words);
    require(len == 77 && all_bytes(dst, sizeof dst, 0xaa) && all_bytes(sent, sizeof sent, 0xaa));
}

TEST(refusals_of_members)
{
    const uint64_t rising[] = {0, 3, 7, 15}, equal[] = {0, 3, 3, 15}, falling[] = {3, 0, 7, 15}, far[] = {0, 3, 7, 16},
                   huge[] = {0, 3, 7, UINT64_MAX};
    const float x[] = {1, -2, 3, 0.5f}, zero[] = {1, -0.0f, 3, 1}, nan[] = {1, 2, NAN, 1}, inf[] = {-INFINITY, 2, 3, 1};
    const char *codec = "topk:p=0.25,select=exact";

    refused(codec, equal, x, 4, 16, TLC_ERR_PARAM, "positions[2] is 3, which is not above");
    refused(codec, falling, x, 4, 16, TLC_ERR_PARAM, "positions[1] is 0, which is not above");
    refused(codec, far, x, 4, 16, TLC_ERR_PARAM, "positions[3] is 16, but there are 16 values");
    refused(codec, huge, x, 4, 16, TLC_ERR_PARAM, "positions[3] is 18446744073709551615, but");
    refused(codec, rising, x, 1, 0, TLC_ERR_PARAM, "positions[0] is 0, but there are 0 values");
    refused(codec, rising, zero, 4, 16, TLC_ERR_PARAM, "values[1] is 0");
    refused(codec, rising, nan, 4, 16, TLC_ERR_NONFINITE, "values[2] is NaN");
    refused(codec, rising, inf, 4, 16, TLC_ERR_NONFINITE, "values[0] is -infinity");
    refused("topk:p=0.18,select=exact", rising, x, 4, 16, TLC_ERR_PARAM,
            "of the 16 values from 0 on 4 are to be sent, but the codec sends 3");
    refused("topk:p=0.2,select=exact,block=8", rising, x, 4, 16, TLC_ERR_PARAM,
            "of the 8 values from 0 on 3 are to be sent, but the codec sends 2");
    refused("topk:p=0.06", rising, x, 3, 16, TLC_ERR_PARAM, "but the codec sends 2");
    refused("sbc:p=0.125", rising, x, 4, 16, TLC_ERR_PARAM, "3 are to be sent, but the codec sends 2");
    refused("3lc", rising, x, 4, 16, TLC_ERR_PARAM, "codec \"3lc\" does not send some of the values");
    refused(NULL, rising, x, 4, 16, TLC_ERR_PARAM, "codec is NULL");
    refused(codec, NULL, x, 4, 16, TLC_ERR_PARAM, "positions is NULL");
    refused(codec, rising, NULL, 4, 16, TLC_ERR_PARAM, "values is NULL");
}

TEST(refusals_of_arguments)
{
    const uint64_t positions[] = {0, 3, 7, 15};
    const float x[] = {1, -2, 3, 0.5f};
    uint64_t scratch[1];
    const tlc_members_params *params = PARAMS(members, .codec = "sbc:p=0.25", .scratch = scratch, .checksum = 1),
                             *bad = PARAMS(members, .codec = "sbc", .dtype = (tlc_dtype)3, .scratch = scratch),
                             *all = PARAMS(members, .codec = "topk:p=1", .scratch = scratch),
                             *bare = PARAMS(members, .codec = "sbc");
    uint8_t dst[64];
    size_t len = 77, bound;

    at = (place){.note = "refusals of arguments"};
    memset(dst, 0xaa, sizeof dst);
    require_status(tlc_codec_bound(params->codec, TLC_F32, 16, &bound), TLC_OK);
    require_status(tlc_compress_members(positions, x, 4, 16, NULL, dst, 64, &len), TLC_ERR_PARAM);
    require_status(tlc_compress_members(positions, x, 4, 16, bad, dst, 64, &len), TLC_ERR_PARAM);
    require_status(tlc_compress_members(positions, x, 4, 16, bare, dst, 64, &len), TLC_ERR_PARAM);
    require_status(tlc_compress_members(positions, x, 4, 16, params, NULL, 64, &len), TLC_ERR_PARAM);
    require_status(tlc_compress_members(positions, x, 4, 16, params, dst, 64, NULL), TLC_ERR_PARAM);
    require_status(tlc_compress_members(positions, x, 4, 16, params, dst, bound - 1, &len), TLC_ERR_CAPACITY);
    require_status(tlc_compress_members(positions, x, 4, SIZE_MAX, all, dst, 64, &len), TLC_ERR_SIZE);
    require(len == 77 && all_bytes(dst, sizeof dst, 0xaa));
    require_status(tlc_compress_members(positions, x, 4, 16, params, dst, bound, &len), TLC_OK);
    require_status(tlc_compress_members(NULL, NULL, 0, 16, params, dst, bound, &len), TLC_OK);
    require_status(tlc_compress_members(NULL, NULL, 0, 0, bare, dst, 64, &len), TLC_OK);
    require(tlc_members_scratch("3lc", 1000) == 0 && tlc_members_scratch("nonsense", 1000) == 0 &&
            tlc_members_scratch("sbc", 1000) == 128 && tlc_members_scratch("topk:block=64", 1000) == 8);
}

TEST(refusals_of_frames)
{
    static const float x[16] = {1, 0, -1, 0.25f, 0, 0, 2, 0, 0, 0, 0, -2, 0, 0, 0, 1};
    const char *const texts[] = {"topk:p=0.2+golomb", "topk:p=0.2", "sbc:p=0.2", "topk:p=0.2,bits=2,block=8"};
    uint64_t positions[16];
    uint8_t frame[256];
    float values[16];
    size_t k = 77;

    for (size_t i = 0; i < COUNT(texts); i++) {
        const tlc_config cfg = config(texts[i], TLC_F32, TLC_ISA_AUTO);
        tlc_ctx *ctx = create(&cfg, 16);
        const size_t len = compress(ctx, x, frame);
        const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = (tlc_isa)99};
        at = (place){.codec = texts[i], .note = "refusals of frames"};
        memset(positions, 0xaa, sizeof positions);
        memset(values, 0xaa, sizeof values);
        require_status(tlc_decompress_members(NULL, len, 16, positions, values, 16, &k, NULL), TLC_ERR_PARAM);
        require_status(tlc_decompress_members(frame, len, 16, NULL, values, 16, &k, NULL), TLC_ERR_PARAM);
        require_status(tlc_decompress_members(frame, len, 16, positions, NULL, 16, &k, NULL), TLC_ERR_PARAM);
        require_status(tlc_decompress_members(frame, len, 16, positions, values, 16, NULL, NULL), TLC_ERR_PARAM);
        require_status(tlc_decompress_members(frame, len, 16, positions, values, 16, &k, &opt), TLC_ERR_PARAM);
        require_status(tlc_decompress_members(frame, len, 16, positions, values, 0, &k, NULL), TLC_ERR_CAPACITY);
        require_status(tlc_decompress_members(frame, len, 15, positions, values, 16, &k, NULL), TLC_ERR_SIZE);
        require_status(tlc_decompress_members(frame, len - 1, 16, positions, values, 16, &k, NULL), TLC_ERR_CORRUPT);
        require(k == 77 && all_bytes(positions, sizeof positions, 0xaa) && all_bytes(values, sizeof values, 0xaa));
        tlc_destroy(ctx);
    }
    const tlc_config cfg = config("3lc-golomb", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, 16);
    const size_t len = compress(ctx, x, frame);
    require_status(tlc_decompress_members(frame, len, 16, positions, values, 16, &k, NULL), TLC_ERR_UNSUPPORTED);
    tlc_destroy(ctx);
}

SETUP(print_isas)
