/* SPDX-License-Identifier: MIT
 *
 * threelc/stages.h: each stage against its inverse, and the stages composed by hand against tlc_compress.
 */
#include "../support/support.h"
#include <float.h>
#include <math.h>

/* ---- the example of the design, worked by hand ------------------------------------------------------------------- */

TEST(worked_example)
{
    const float g[7] = {0.9f, -0.1f, 0, 0.6f, -1.0f, 0.2f, 0.5f};
    const float left[7] = {0.9f - 1.0f, -0.1f, 0, 0.6f - 1.0f, 0, 0.2f, 0.5f};
    const int8_t symbols[7] = {1, 0, 0, 1, -1, 0, 0};
    const uint8_t packed[2] = {192, 144};
    int8_t q[7], back[7];
    uint8_t dst[2];
    float residual[7], out[7], M = 0;
    size_t written = 0;

    require_status(tlc_ternary_encode(g, 7, 1.0f, q, residual, &M), TLC_OK);
    require(float_bits(M) == 0x3f800000u && same(q, symbols, 7) && same(residual, left, sizeof left));
    require_status(tlc_quartic_encode(q, 7, dst, 2, &written), TLC_OK);
    require(written == 2 && same(dst, packed, 2));
    require_status(tlc_quartic_decode(dst, 2, back, 7), TLC_OK);
    require(same(back, symbols, 7));
    require_status(tlc_ternary_decode(back, 7, M, out), TLC_OK);
    for (size_t i = 0; i < 7; i++)
        require(float_bits(out[i]) == (symbols[i] ? float_bits(symbols[i]) : 0));
}

/* ---- by hand and by tlc_compress --------------------------------------------------------------------------------- */

static size_t by_hand(const float *x, size_t n, float s, int shrink, float *residual, float *M, uint8_t *payload)
{
    int8_t *q = (int8_t *)bytes(n);
    uint8_t *packed = bytes(tlc_quartic_size(n));
    size_t len = 0;

    require_status(tlc_ternary_encode(x, n, s, q, residual, M), TLC_OK);
    require_status(tlc_quartic_encode(q, n, packed, tlc_quartic_size(n), &len), TLC_OK);
    require(len == tlc_quartic_size(n));
    if (shrink)
        require_status(tlc_zerorun_encode(packed, len, payload, tlc_quartic_size(n), &len), TLC_OK);
    else if (len)
        memcpy(payload, packed, len);
    free(q);
    free(packed);
    return len;
}

static void hand_composed(const char *codec, float s, int shrink, size_t n, data_kind kind)
{
    tlc_config cfg = config(codec, TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, n);
    uint8_t *frame = bytes(tlc_bound(ctx)), *payload = bytes(tlc_bound(ctx));
    float *x = floats(n), *g = floats(n), *residual = floats(n), *out = floats(n), M = 0;

    at = (place){.codec = codec, .n = n};
    memset(residual, 0, 4 * n);
    for (uint64_t step = 0; step < 3; step++) {
        tlc_frame_info info = {.struct_size = sizeof info};
        fill(kind, step, g, n);
        for (size_t i = 0; i < n; i++)
            x[i] = residual[i] + g[i];
        size_t len = by_hand(x, n, s, shrink, residual, &M, payload), frame_len = compress(ctx, g, frame);
        require_status(tlc_inspect(frame, frame_len, &info), TLC_OK);
        require(info.payload_size == len && same(frame + info.header_size, payload, len));
        require(same(residual, tlc_residual(ctx), 4 * n));
        require_status(tlc_decompress(frame, frame_len, TLC_F32, out, n, NULL), TLC_OK);
        for (size_t i = 0; i < n; i++) /* M or 0 was sent; sent and residual add up to the value */
            require(out[i] == 0 ? same(&residual[i], &x[i], 4) : fabsf(out[i]) == M && residual[i] == x[i] - out[i]);
    }
    tlc_destroy(ctx);
    free(frame);
    free(payload);
    free(x);
    free(g);
    free(residual);
    free(out);
}

TEST(stages_by_hand)
{
    for (size_t n = 0; n < (quick() ? 60 : 400); n++)
        for (int kind = 0; kind < DATA_TINY; kind++) {
            hand_composed("3lc:s=1.75", 1.75f, 1, n, (data_kind)kind);
            hand_composed("ternary+quartic", 1.0f, 0, n, (data_kind)kind);
        }
    hand_composed("3lc", 1.0f, 1, 100003, DATA_SPARSE);
}

/* ---- ternary ----------------------------------------------------------------------------------------------------- */

TEST(ternary_in_place)
{
    float x[200], y[200], residual[200], M1 = 0, M2 = 0;
    int8_t q1[200], q2[200], q3[200];

    fill(DATA_LAPLACE, 1, x, 200);
    memcpy(y, x, sizeof x);
    require_status(tlc_ternary_encode(x, 200, 1.5f, q1, residual, &M1), TLC_OK);
    require(same(x, y, sizeof x)); /* the input is not written */
    require_status(tlc_ternary_encode(y, 200, 1.5f, q2, y, &M2), TLC_OK);
    require(same(q1, q2, 200) && same(y, residual, sizeof y) && M1 == M2);
    require_status(tlc_ternary_encode(x, 200, 1.5f, q3, NULL, &M2), TLC_OK);
    require(same(q1, q3, 200) && M1 == M2);
}

TEST(ternary_refusals)
{
    const float bad_s[] = {0.0f, bits_float(0x3f7fffffu), 2.0f, -1.0f, INFINITY, NAN};
    const float bad_x[] = {INFINITY, -INFINITY, NAN, FLT_MAX}; /* the last with s > 1 */
    float x[3] = {1, -2, 3}, residual[3] = {7, 7, 7}, M = 77, out[3] = {7, 7, 7};
    int8_t q[3] = {55, 55, 55};

    for (size_t i = 0; i < COUNT(bad_s); i++)
        require_status(tlc_ternary_encode(x, 3, bad_s[i], q, residual, &M), TLC_ERR_PARAM);
    require_status(tlc_ternary_encode(NULL, 3, 1, q, residual, &M), TLC_ERR_PARAM);
    require_status(tlc_ternary_encode(x, 3, 1, NULL, residual, &M), TLC_ERR_PARAM);
    require_status(tlc_ternary_encode(x, 3, 1, q, residual, NULL), TLC_ERR_PARAM);
    for (size_t i = 0; i < COUNT(bad_x); i++)
        for (size_t where = 0; where < 3; where++) {
            float y[3] = {1, -2, 3};
            y[where] = bad_x[i];
            require_status(tlc_ternary_encode(y, 3, 1.5f, q, residual, &M), TLC_ERR_NONFINITE);
            require_status(tlc_ternary_encode(y, 3, 1.5f, q, y, &M), TLC_ERR_NONFINITE);
            require(float_bits(y[where]) == float_bits(bad_x[i]) && y[(where + 1) % 3] == x[(where + 1) % 3]);
        }
    require(all_bytes(q, 3, 55) && residual[0] == 7 && residual[1] == 7 && residual[2] == 7 && M == 77);

    for (int symbol = -128; symbol < 128; symbol++) {
        int ok = symbol >= -1 && symbol <= 1;
        q[0] = 0, q[1] = 1, q[2] = (int8_t)symbol;
        out[0] = out[1] = out[2] = 7;
        require_status(tlc_ternary_decode(q, 3, 2.0f, out), ok ? TLC_OK : TLC_ERR_PARAM);
        require(ok || (out[0] == 7 && out[1] == 7 && out[2] == 7));
        out[0] = out[1] = out[2] = 7;
        require_status(tlc_ternary_add(q, 3, 2.0f, out), ok ? TLC_OK : TLC_ERR_PARAM);
        require(out[0] == 7 && (ok ? out[1] == 9 && out[2] == 7 + 2 * (float)symbol : out[1] == 7 && out[2] == 7));
    }
    q[2] = 1;
    const float bad_M[] = {-1.0f, INFINITY, NAN};
    for (size_t i = 0; i < COUNT(bad_M); i++) {
        require_status(tlc_ternary_decode(q, 3, bad_M[i], out), TLC_ERR_PARAM);
        require_status(tlc_ternary_add(q, 3, bad_M[i], out), i == 0 ? TLC_OK : TLC_ERR_PARAM);
    }
    require_status(tlc_ternary_decode(NULL, 3, 1, out), TLC_ERR_PARAM);
    require_status(tlc_ternary_decode(q, 3, 1, NULL), TLC_ERR_PARAM);
    require_status(tlc_ternary_add(NULL, 3, 1, out), TLC_ERR_PARAM);
    require_status(tlc_ternary_add(q, 3, 1, NULL), TLC_ERR_PARAM);
}

/* ---- quartic ----------------------------------------------------------------------------------------------------- */

TEST(quartic_round_trip)
{
    rng r = {3};

    for (size_t n = 0; n < 700; n += quick() ? 13 : 1) {
        size_t len = tlc_quartic_size(n), written = 77;
        int8_t *q = (int8_t *)bytes(n), *back = (int8_t *)bytes(n);
        uint8_t *packed = bytes(len + 1);
        at = (place){.n = n};
        require(len == n / 5 + (n % 5 != 0));
        for (size_t i = 0; i < n; i++)
            q[i] = (int8_t)((int)rng_below(&r, 3) - 1);
        packed[len] = 0x3c;
        if (len)
            require_status(tlc_quartic_encode(q, n, packed, len - 1, &written), TLC_ERR_CAPACITY);
        require(written == 77);
        require_status(tlc_quartic_encode(q, n, packed, len, &written), TLC_OK);
        require(written == len && packed[len] == 0x3c);
        for (size_t i = 0; i < 5 * len; i++) { /* digit by digit */
            static const int power[5] = {81, 27, 9, 3, 1};
            require(packed[i % len] / power[i / len] % 3 == (i < n ? q[i] + 1 : 0));
        }
        require_status(tlc_quartic_decode(packed, len, back, n), TLC_OK);
        require(same(q, back, n));
        free(q);
        free(back);
        free(packed);
    }
}

TEST(quartic_refusals)
{
    for (size_t n = 1; n < 40; n++) {
        size_t len = tlc_quartic_size(n), written = 77;
        uint8_t packed[8];
        int8_t q[40], zero[40] = {0};
        at = (place){.n = n};
        memset(q, 0x55, sizeof q);
        require_status(tlc_quartic_encode(zero, n, packed, len, &written), TLC_OK);
        require_status(tlc_quartic_decode(packed, len - 1, q, n), TLC_ERR_SIZE);
        require_status(tlc_quartic_decode(packed, len + 1, q, n), TLC_ERR_SIZE);
        require_status(tlc_quartic_decode(NULL, len, q, n), TLC_ERR_PARAM);
        require_status(tlc_quartic_decode(packed, len, NULL, n), TLC_ERR_PARAM);
        for (size_t i = 0; i < len; i++) {
            uint8_t was = packed[i];
            for (unsigned byte = 243; byte < 256; byte++) {
                packed[i] = (uint8_t)byte;
                require_status(tlc_quartic_decode(packed, len, q, n), TLC_ERR_CORRUPT);
            }
            packed[i] = was;
        }
        for (size_t i = n; i < 5 * len; i++) /* a padding digit that is 1 */
            for (uint8_t power = 81, part = 0; part < 5; part++, power = (uint8_t)(power / 3)) {
                if (part != i / len)
                    continue;
                packed[i % len] = (uint8_t)(packed[i % len] + power);
                require_status(tlc_quartic_decode(packed, len, q, n), TLC_ERR_CORRUPT);
                packed[i % len] = (uint8_t)(packed[i % len] - power);
            }
        require(all_bytes(q, sizeof q, 0x55));
        for (size_t i = 0; i < n; i++) {
            zero[i] = (int8_t)(i % 2 ? 2 : -2);
            written = 77;
            require_status(tlc_quartic_encode(zero, n, packed, len, &written), TLC_ERR_PARAM);
            require(written == 77);
            zero[i] = 0; /* cppcheck-suppress unreadVariable ; read in the next turn */
        }
    }
}

/* ---- zero-run ---------------------------------------------------------------------------------------------------- */

/* A run of k bytes 121 between other bytes, at the start, at the end, alone. */
static void zerorun_of(size_t k, size_t before, size_t after)
{
    size_t len = before + k + after, tokens = k / 14, rest = k % 14, written = 77;
    uint8_t in[120], want[120], out[120], back[120];

    at = (place){.i = k};
    memset(in, 7, sizeof in);
    memset(in + before, 121, k);
    memset(want, 7, sizeof want);
    memset(want + before, 255, tokens);
    if (rest)
        want[before + tokens++] = rest == 1 ? 121 : (uint8_t)(243 + rest - 2);
    if (len)
        require_status(tlc_zerorun_encode(in, len, out, len - 1, &written), TLC_ERR_CAPACITY);
    require(written == 77);
    require_status(tlc_zerorun_encode(in, len, out, len, &written), TLC_OK);
    require(written == before + tokens + after && same(out, want, written));
    require(tlc_zerorun_decoded_size(out, written) == len);
    size_t expanded = 77;
    memset(back, 0x3c, sizeof back);
    if (len)
        require_status(tlc_zerorun_decode(out, written, back, len - 1, &expanded), TLC_ERR_CAPACITY);
    require(expanded == 77 && all_bytes(back, sizeof back, 0x3c));
    /* NOLINTNEXTLINE(readability-suspicious-call-argument): len is what it expands to, and the room */
    require_status(tlc_zerorun_decode(out, written, back, len, &expanded), TLC_OK);
    require(expanded == len && same(in, back, len) && back[len] == 0x3c);
}

TEST(zerorun_every_run)
{
    for (size_t k = 0; k <= 100; k++) {
        zerorun_of(k, 0, 0);
        zerorun_of(k, 1, 0);
        zerorun_of(k, 0, 1);
        zerorun_of(k, 3, 2);
    }
}

TEST(zerorun_any_bytes)
{
    uint8_t in[64], out[64 * 14];
    rng r = {8};

    for (size_t i = 0; i < 2000; i++) {
        size_t len = rng_below(&r, sizeof in + 1), size = 0, written = 0, again = 0;
        uint8_t back[64 * 14];
        for (size_t j = 0; j < len; j++) {
            in[j] = (uint8_t)(rng_below(&r, 2) ? rng_next(&r) : 243 + rng_below(&r, 13));
            size += in[j] > 242 ? in[j] - 241u : 1u;
        }
        require(tlc_zerorun_decoded_size(in, len) == size);
        require_status(tlc_zerorun_decode(in, len, out, size, &written), TLC_OK);
        require(written == size);
        require_status(tlc_zerorun_encode(out, size, back, size, &again), TLC_OK); /* the shortest code */
        require(again <= len && tlc_zerorun_decoded_size(back, again) == size);
        for (size_t j = 0; j < len && size; j++)
            if (in[j] > 242) { /* a token is no quartic byte */
                require_status(tlc_zerorun_encode(in, len, out, sizeof out, &written), TLC_ERR_PARAM);
                break;
            }
    }
    require_status(tlc_zerorun_encode(NULL, 1, out, 9, &(size_t){0}), TLC_ERR_PARAM);
    require_status(tlc_zerorun_encode(in, 1, NULL, 9, &(size_t){0}), TLC_ERR_PARAM);
    require_status(tlc_zerorun_encode(in, 1, out, 9, NULL), TLC_ERR_PARAM);
    require_status(tlc_zerorun_decode(NULL, 1, out, 9, &(size_t){0}), TLC_ERR_PARAM);
    require_status(tlc_zerorun_decode(in, 1, NULL, 20, &(size_t){0}), TLC_ERR_PARAM);
    require_status(tlc_zerorun_decode(in, 1, out, 20, NULL), TLC_ERR_PARAM);
}
