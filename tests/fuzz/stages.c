/* SPDX-License-Identifier: MIT
 *
 * The input is the number of a stage, the number of values, and bytes for the stage's decoder (stages.h), or for
 * bundles (bundle.h). If they are refused, the output must be unchanged. If they are accepted, the law of the stage
 * must hold.
 */
#include "fuzz.h"
#include <math.h>
#include <threelc/bundle.h>

enum { MOST_INPUT = 1 << 16, MOST_VALUES = 1 << 13, FILL = 0x3c };

typedef struct sample {
    const uint8_t *src;
    size_t len, n;
    uint8_t detail; /* a parameter of the stage */
    int8_t *q, *q2; /* n symbols each */
    float *x, *y;   /* n values each */
    uint64_t *scratch;
} sample;

/* After an error the output must be unchanged. Otherwise its count elements go into the digest. */
static int accepted(tlc_status status, const void *out, size_t count, size_t width)
{
    fuzz_fold_number(status);
    if (status)
        require(all_bytes(out, count * width, FILL));
    else
        fuzz_fold(out, count, width);
    return status == TLC_OK;
}

static int same_values(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(a[i] == b[i]))
            return 0;
    return 1;
}

static void quartic(const sample *s)
{
    uint8_t *again = bytes(s->len);
    size_t written = 0;

    if (accepted(tlc_quartic_decode(s->src, s->len, s->q, s->n), s->q, s->n, 1)) {
        require_status(tlc_quartic_encode(s->q, s->n, again, s->len, &written), TLC_OK);
        require(written == s->len && same(again, s->src, s->len)); /* each code is the only one for its symbols */
    }
    free(again);
}

static void zerorun(const sample *s)
{
    const uint64_t size = tlc_zerorun_decoded_size(s->src, s->len);
    const size_t cap = size < 4 * s->n ? (size_t)size : 4 * s->n;
    uint8_t *out = bytes(cap), *again = bytes(cap);
    size_t written = 77, len = 0;

    memset(out, FILL, cap);
    tlc_status status = tlc_zerorun_decode(s->src, s->len, out, cap, &written);
    require(status == (size > cap ? TLC_ERR_CAPACITY : TLC_OK));
    if (accepted(status, out, cap, 1)) {
        require(written == cap);
        require_status(tlc_zerorun_encode(out, cap, again, cap, &len), TLC_OK);
        require(len <= s->len && tlc_zerorun_decoded_size(again, len) == size);
    }
    free(out);
    free(again);
}

static void golomb(const sample *s)
{
    const tlc_golomb_signs signs = s->detail & 1 ? TLC_GOLOMB_SIGNED : TLC_GOLOMB_UNSIGNED;
    size_t k = 0, written = 0;

    if (!accepted(tlc_golomb_decode(s->src, s->len, signs, s->q, s->n), s->q, s->n, 1))
        return;
    for (size_t i = 0; i < s->n; i++)
        k += s->q[i] != 0;
    size_t cap = tlc_golomb_size(s->n, k, signs);
    uint8_t *again = bytes(cap);
    const tlc_golomb_params *params = PARAMS(golomb, .signs = signs, .scratch = s->scratch);
    require_status(tlc_golomb_encode(s->q, s->n, params, again, cap, &written), TLC_OK);
    require(written <= cap);
    require_status(tlc_golomb_decode(again, written, signs, s->q2, s->n), TLC_OK);
    require(same(s->q, s->q2, s->n));
    free(again);
}

static void natural(const sample *s)
{
    const tlc_natural_bits bits = s->detail & 1 ? TLC_NATURAL_9 : TLC_NATURAL_8;
    const int shift = s->detail >> 1;
    uint8_t *again = bytes(2 * s->n);
    uint64_t clipped = 77;

    if (accepted(tlc_natural_decode(s->src, s->len, bits, shift, s->x, s->n), s->x, s->n, 4)) {
        const tlc_natural_params *params = PARAMS(natural, .bits = bits, .rounding = TLC_ROUND_NEAREST, .shift = shift,
                                                  .residual = s->y);
        require_status(tlc_natural_encode(s->x, s->n, params, again, 2 * s->n, &clipped), TLC_OK);
        require(clipped == 0 && same(again, s->src, s->len));
        for (size_t i = 0; i < s->n; i++)
            require(s->y[i] == 0.0f);
    }
    free(again);
}

static void onebit(const sample *s)
{
    fuzz_input in = {s->src, s->src + s->len};
    float mean[2], again[2];
    uint8_t *bits = bytes(s->n / 8 + 1);

    mean[0] = bits_float(take_number(&in, 4));
    mean[1] = bits_float(take_number(&in, 4));
    const size_t size = (s->n + 7) / 8; /* the bytes after them are not used */
    if ((size_t)(in.end - in.at) >= size && accepted(tlc_onebit_decode(in.at, size, mean, s->x, s->n), s->x, s->n, 4) &&
        mean[0] >= 0.0f && mean[1] < 0.0f) {
        require_status(tlc_onebit_encode(s->x, s->n, bits, NULL, again), TLC_OK);
        require(same(bits, in.at, size));
    }
    free(bits);
}

static void topk(const sample *s)
{
    const size_t cap = (s->n + 7) / 8 + 4 * s->n, n = s->n;
    uint8_t *again = bytes(cap);
    size_t written = 0;

    if (accepted(tlc_topk_decode(s->src, s->len, s->x, n), s->x, n, 4) && n <= 4096) { /* all in the sample */
        require_status(tlc_topk_encode(s->x, n, PARAMS(topk, .p = 1), again, cap, &written), TLC_OK);
        require(written == s->len && same(again, s->src, s->len));
    }
    free(again);
}

static void random_sparse(const sample *s)
{
    const size_t cap = tlc_golomb_size(s->n, s->n, TLC_GOLOMB_UNSIGNED) + 4 * s->n;
    uint8_t *again = bytes(cap);
    size_t written = 0;

    if (accepted(tlc_random_sparse_decode(s->src, s->len, s->x, s->n), s->x, s->n, 4)) {
        const tlc_random_sparse_params *params = PARAMS(random_sparse, .p = 1, .scratch = s->scratch);
        require_status(tlc_random_sparse_encode(s->x, s->n, params, again, cap, &written), TLC_OK);
        require_status(tlc_random_sparse_decode(again, written, s->y, s->n), TLC_OK);
        require(same_values(s->x, s->y, s->n));
    }
    free(again);
}

/* Symbols of any value from the input. Each stage has its range of symbols, and its scale. */
static void symbols(const sample *s)
{
    fuzz_input in = {s->src, s->src + s->len};
    const float scale = bits_float(take_number(&in, 4));
    const int kind = s->detail >> 1 & 3, K = s->detail & 8 ? TLC_LEVELS_15 : TLC_LEVELS_255;
    const int most = kind == 3 ? K : 1, least = kind == 2 ? 0 : -most;
    int good = isfinite(scale) && (kind == 1 || kind == 2 || !signbit(scale)); /* M and the maximum are magnitudes */
    tlc_status status;

    for (size_t i = 0; i < s->n; i++) {
        uint8_t byte = take_byte(&in);
        s->q[i] = (int8_t)(s->detail & 1 ? byte : byte % (most - least + 1) + least);
        good &= s->q[i] >= least && s->q[i] <= most;
    }
    switch (kind) {
    case 0: status = tlc_ternary_decode(s->q, s->n, scale, s->x); break;
    case 1: status = tlc_ternary_add(s->q, s->n, scale, s->x); break;
    case 2: status = tlc_sparse_binary_decode(s->q, s->n, scale, s->x); break;
    default: status = tlc_levels_decode(s->q, s->n, (tlc_levels)K, scale, s->x); break;
    }
    require_status(status, good ? TLC_OK : TLC_ERR_PARAM);
    accepted(status, s->x, s->n, 4);
}

static void convert(const sample *s)
{
    const tlc_dtype from = (tlc_dtype)(s->detail & 3), to = (tlc_dtype)(s->detail >> 2 & 3);
    const size_t width = from == TLC_F32 ? 4 : 2, count = s->len / width < s->n ? s->len / width : s->n;
    fuzz_input in = {s->src, s->src + s->len};
    uint8_t *src = bytes(count * width + 1) + 1; /* unaligned, in the machine's byte order */

    for (size_t i = 0; i < count; i++) {
        uint32_t word = take_number(&in, (unsigned)width);
        uint16_t half = (uint16_t)word;
        memcpy(src + i * width, width == 4 ? (const void *)&word : &half, width);
    }
    if (accepted(tlc_convert(from, src, to, s->x, count), s->x, count, to == TLC_F32 ? 4 : 2)) {
        require(from <= TLC_BF16 && to <= TLC_BF16);
        for (size_t i = 0; i < count && to == TLC_F32 && from != TLC_F32; i++)
            require(float_bits(s->x[i]) == widened(from, src, i));
    }
    free(src - 1);
}

/* The number of frames in a bundle; 0 if the bytes are no bundle. */
static size_t frames_of(const sample *s, tlc_message *frames, size_t most)
{
    tlc_bundle_reader r;
    size_t count = 0, at_end = 0;

    memset(&r, FILL, sizeof r);
    tlc_status status = tlc_bundle_open(&r, s->src, s->len);
    fuzz_fold_number(status);
    if (status)
        return 0;
    for (; tlc_bundle_next(&r, &frames[count].data, &frames[count].len) == TLC_OK; count += count + 1 < most) {
        const uint8_t *frame = frames[count].data;
        require(frame >= s->src + at_end && frame + frames[count].len <= s->src + s->len);
        at_end = (size_t)(frame - s->src) + frames[count].len;
    }
    require(tlc_bundle_count(&r) == 0 || at_end == s->len);
    return count;
}

static void bundle(const sample *s)
{
    enum { MOST = 300 };
    tlc_message frames[MOST];
    size_t bound = 0, all = 0, count = frames_of(s, frames, MOST);
    tlc_bundle_writer w;
    tlc_message again;

    if (!count || count + 1 == MOST)
        return;
    for (size_t i = 0; i < count; i++)
        all += frames[i].len;
    require_status(tlc_bundle_bound((uint32_t)count, all, &bound), TLC_OK);
    uint8_t *dst = bytes(bound);
    require_status(tlc_bundle_init(&w, dst, bound, (uint32_t)count), TLC_OK);
    for (size_t i = 0; i < count; i++)
        require_status(tlc_bundle_add(&w, frames[i].data, frames[i].len), TLC_OK);
    require_status(tlc_bundle_finish(&w, &again), TLC_OK);
    require(again.len == s->len && same(again.data, s->src, s->len)); /* no other bytes are this bundle */
    free(dst);
}

/* The frames of a bundle added up into one. */
static void aggregate(const sample *s)
{
    enum { MOST = 9 };
    tlc_message frames[MOST];
    size_t written = 77, bound = 0, count = frames_of(s, frames, MOST);
    tlc_frame_info info = {.struct_size = sizeof info}, sum = {.struct_size = sizeof sum};

    if (!count || tlc_inspect(frames[0].data, frames[0].len, &info) || info.n > MOST_VALUES ||
        tlc_codec_bound(info.codec, info.dtype, (size_t)info.n, &bound))
        return;
    uint8_t *dst = bytes(bound);
    memset(dst, FILL, bound);
    const tlc_natural_aggregate_params *params = PARAMS(natural_aggregate, .seed = 5, .step = s->detail);
    tlc_status status = tlc_natural_aggregate(frames, count, params, dst, bound, &written);
    if (accepted(status, dst, status ? bound : written, 1)) {
        require_status(tlc_inspect(dst, written, &sum), TLC_OK);
        require(sum.n == info.n && sum.dtype == info.dtype && sum.checksum == info.checksum);
        require(!strcmp(sum.codec, info.codec));
    } else {
        require(written == 77);
    }
    free(dst);
}

static void (*const stages[])(const sample *) = {quartic,       zerorun, golomb,  natural, onebit,   topk,
                                                 random_sparse, symbols, convert, bundle,  aggregate};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};
    const size_t stage = take_byte(&in) % COUNT(stages), n = take_number(&in, 2) % (MOST_VALUES + 1);
    sample s = {.n = n, .detail = take_byte(&in)};

    if (size > MOST_INPUT)
        return 0;
    s.len = (size_t)(in.end - in.at);
    uint8_t *src = bytes(s.len); /* of exactly this size, and aligned to nothing */
    if (s.len)
        memcpy(src, in.at, s.len);
    s.src = src;
    at = (place){.n = n, .i = stage};
    s.q = memset(bytes(n), FILL, n);
    s.q2 = memset(bytes(n), FILL, n);
    s.x = memset(floats(n), FILL, 4 * n);
    s.y = memset(floats(n), FILL, 4 * n);
    s.scratch = (uint64_t *)(void *)bytes((n + 63) / 64 * 16);
    stages[stage](&s);
    free(src);
    free(s.q);
    free(s.q2);
    free(s.x);
    free(s.y);
    free(s.scratch);
    return 0;
}
