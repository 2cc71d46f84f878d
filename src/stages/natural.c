/* SPDX-License-Identifier: MIT
 *
 * Natural compression (Horvath et al., "Natural compression for distributed deep learning", 2019, section 2): a value goes
 * to one of the two powers of two around it, at random without bias, or to the nearest.
 * Payload: u32, how many values were clipped (2^32 - 1 if more); then n codes.
 *   8 bits (IntML): a byte each, sign << 7 | (e + 50), e in -50..10; 0x40 is zero.
 *   9 bits (section 2): a byte e + 127 each, e in -126..127 - shift, 0 for zero; then ceil(n / 8) bytes of signs, 1 for
 *   negative, 0 for zero, from the least significant bit on.
 * A code stands for +-2^(e + shift): with losses scaled by 2^shift, shift moves the range of exponents along.
 */
#include "alone.h"
#include "natural.h"
#include <threelc/stages.h>

enum { BITS, ROUNDING, SHIFT };
static const char *const bits_words[] = {"8", "9", NULL}, *const rounding_words[] = {"random", "nearest", NULL};

static int is_long(const tlc_codec *codec)
{
    return codec->params[BITS] >= 1;
}

static int is_random(const tlc_codec *codec)
{
    return codec->params[ROUNDING] < 1;
}

static int shift(const tlc_codec *codec)
{
    return (int)codec->params[SHIFT];
}

static uint64_t positions(const tlc_codec *codec, uint64_t n)
{
    return is_long(codec) ? tlc_ceil_div(n, 8) : n;
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)dtype;
    return tlc_sum(tlc_sum(n, TLC_NATURAL_HEAD), is_long(codec) ? tlc_ceil_div(n, 8) : 0);
}

static size_t width(const tlc_codec *codec, tlc_dtype dtype)
{
    (void)dtype;
    return is_long(codec) ? 8 : 1;
}

/* ---- 8 bits ------------------------------------------------------------------------------------------------------ */

static uint64_t encode(const tlc_unit *u, const float *x, const uint32_t *words, size_t at, size_t count, uint8_t *codes)
{
    return u->k->natural_encode(x, words, count, shift(u->codec), codes + at);
}

static void decode(const tlc_unit *u, const uint8_t *codes, size_t at, size_t count, float *out)
{
    u->k->natural_decode(codes + at, count, shift(u->codec), out);
}

static const tlc_pieces bytes = {1, encode, decode};

/* In bytes all the way: so compilers make vectors of it. */
static int codes_valid(const uint8_t *codes, size_t n)
{
    uint8_t bad = 0;

    for (size_t i = 0; i < n; i++) {
        uint8_t above = (codes[i] & 0x7f) > TLC_NATURAL_MOST - TLC_NATURAL_LEAST, nonzero = codes[i] != TLC_NATURAL_ZERO;
        bad = (uint8_t)(bad | (above & nonzero));
    }
    return !bad;
}

/* ---- 9 bits ------------------------------------------------------------------------------------------------------ */

static uint64_t encode9(const tlc_unit *u, const float *x, const uint32_t *words, size_t at, size_t count, uint8_t *codes)
{
    return u->k->natural9_encode(x, words, count, shift(u->codec), codes + at, codes + u->n + at / 8);
}

static void decode9(const tlc_unit *u, const uint8_t *codes, size_t at, size_t count, float *out)
{
    u->k->natural9_decode(codes + at, codes + u->n + at / 8, count, shift(u->codec), out);
}

static const tlc_pieces exponents_and_signs = {8, encode9, decode9};

/* Bit i: byte i of the word is 0. */
static unsigned zero_bytes(uint64_t word)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t zero = ~(((word & low) + low) | word | low); /* the top bit of each */

    return (unsigned)((zero >> 7) * UINT64_C(0x0102040810204080) >> 56);
}

static int codes9_valid(const tlc_unit *u, const uint8_t *codes)
{
    size_t n = (size_t)u->n;
    const uint8_t *signs = codes + n;
    unsigned most = 254u - (unsigned)shift(u->codec), bad = 0;

    bad |= u->k->bytes_max(codes, n) > most;
    for (size_t i = 0; i + 8 <= n; i += 8) /* a zero has no sign */
        bad |= zero_bytes(tlc_load64(codes + i)) & signs[i / 8];
    for (size_t i = n - n % 8; i < n; i++)
        bad |= !codes[i] && signs[i / 8] >> i % 8 & 1;
    return !bad && tlc_bits_padding(signs, n);
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

const tlc_pieces *tlc_natural_pieces(const tlc_codec *codec)
{
    return is_long(codec) ? &exponents_and_signs : &bytes;
}

static uint64_t forward(const tlc_unit *u, size_t from, size_t to, uint8_t *dst)
{
    return tlc_pieces_forward(tlc_natural_pieces(u->codec), width(u->codec, u->dtype), is_random(u->codec), u, from, to, dst);
}

static size_t finish(tlc_unit *u, uint8_t *payload, uint64_t clipped)
{
    tlc_store32(payload, clipped < UINT32_MAX ? (uint32_t)clipped : UINT32_MAX);
    return (size_t)bound(u->codec, u->dtype, u->n);
}

static int check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    if (len != bound(u->codec, u->dtype, u->n) || tlc_load32(src) > u->n)
        return 0;
    return is_long(u->codec) ? codes9_valid(u, src + TLC_NATURAL_HEAD)
                             : codes_valid(src + TLC_NATURAL_HEAD, (size_t)u->n);
}

static void backward(const tlc_unit *u, size_t from, size_t to, const uint8_t *src)
{
    tlc_pieces_backward(tlc_natural_pieces(u->codec), width(u->codec, u->dtype), u, from, to, src);
}

static uint64_t nonzero(const tlc_unit *u, const uint8_t *src, size_t len)
{
    (void)len;
    return tlc_pieces_nonzero(tlc_natural_pieces(u->codec), u, src + TLC_NATURAL_HEAD);
}

static uint64_t clipped(const uint8_t *src)
{
    return tlc_load32(src);
}

static unsigned form(const tlc_codec *codec)
{
    return (unsigned)shift(codec) | (is_long(codec) ? 0x80u : 0);
}

static int from_form(tlc_codec *codec, unsigned byte)
{
    codec->params[BITS] = byte >> 7;
    codec->params[SHIFT] = byte & 0x7f;
    return (byte & 0x7f) <= TLC_NATURAL_SHIFT_MAX;
}

static const tlc_param params[] = {
    [BITS] = {
        .key = "bits",
        .words = bits_words,
        .decoding = 1,
        .range = "8 or 9, default 8",
        .meaning = "exponents from -50 to 10, or all of binary32's normal ones",
    },
    [ROUNDING] = {
        .key = "rounding",
        .words = rounding_words,
        .range = "random or nearest, default random",
        .meaning = "without bias, or to the nearest power of two",
    },
    [SHIFT] = {
        .key = "shift",
        .below = TLC_NATURAL_SHIFT_MAX + 1,
        .decoding = 1,
        .range = "whole, 0 to 117, default 0",
        .meaning = "added to the range of exponents: losses are scaled by 2^shift",
    },
};

static const tlc_value_ops value_ops = {.has_zero = 1};

static const tlc_coder_ops coder_ops = {
    .bound = bound,
    .positions = positions,
    .width = width,
    .head = TLC_NATURAL_HEAD,
    .forward = forward,
    .finish = finish,
    .check = check,
    .backward = backward,
    .nonzero = nonzero,
    .clipped = clipped,
};

const tlc_stage tlc_stage_natural = {
    .name = "natural",
    .id = 4,
    .in = TLC_KIND_FLOATS,
    .out = TLC_KIND_BYTES,
    .params = params,
    .param_count = 3,
    .value = &value_ops,
    .coder = &coder_ops,
    .form = form,
    .from_form = from_form,
    .meaning = "powers of two: sign and exponent",
    .source = "Horvath, Ho, Horvath, Sahu, Canini, Richtarik, Natural compression, 2019, section 2, and IntML's 8 bits",
};

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

static int form_valid(int bits, int shift_by)
{
    return (bits == 8 || bits == 9) && shift_by >= 0 && shift_by <= TLC_NATURAL_SHIFT_MAX;
}

tlc_status tlc_natural_encode(const float *x, size_t n, int bits, int nearest, int shift_by, uint64_t seed,
                              uint64_t step, void *codes, size_t cap, float *residual, uint64_t *clipped_values)
{
    const double values[] = {[BITS] = bits == 9, [ROUNDING] = nearest != 0, [SHIFT] = shift_by};
    tlc_alone a;

    if (!form_valid(bits, shift_by) || (n && !codes))
        return TLC_ERR_PARAM;
    if (cap < n || (bits == 9 && cap - n < tlc_ceil_div(n, 8)))
        return TLC_ERR_CAPACITY;
    tlc_float_mode mode = tlc_float_enter();
    tlc_status status = tlc_alone_forward(&a, &tlc_stage_natural, values, x, n, seed, step, residual);
    if (!status) {
        uint64_t count = n ? forward(&a.unit, 0, (size_t)positions(&a.codec, n), codes) : 0;
        if (clipped_values)
            *clipped_values = count;
    }
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_natural_decode(const void *codes, size_t len, int bits, int shift_by, float *out, size_t n)
{
    const double values[] = {[BITS] = bits == 9, [ROUNDING] = 0, [SHIFT] = shift_by};
    tlc_alone a;

    if (!form_valid(bits, shift_by) || (len && !codes) || (n && !out))
        return TLC_ERR_PARAM;
    tlc_alone_backward(&a, &tlc_stage_natural, values, out, n);
    if (len != (n ? bound(&a.codec, TLC_F32, n) - TLC_NATURAL_HEAD : 0))
        return TLC_ERR_SIZE;
    if (!n)
        return TLC_OK;
    if (bits == 9 ? !codes9_valid(&a.unit, codes) : !codes_valid(codes, n))
        return TLC_ERR_CORRUPT;
    backward(&a.unit, 0, (size_t)positions(&a.codec, n), codes);
    return TLC_OK;
}
