/* SPDX-License-Identifier: MIT */
#include "dtypes.h"

const char *const dtype_names[] = {
    [TLC_F32] = "f32",         [TLC_F16] = "f16",         [TLC_BF16] = "bf16", [TLC_F8_E4M3] = "f8_e4m3",
    [TLC_F8_E5M2] = "f8_e5m2", [TLC_F4_E2M1] = "f4_e2m1", [TLC_U8] = "u8",     [TLC_U4] = "u4",
    [TLC_I32] = "i32",         [TLC_I64] = "i64",         [TLC_F64] = "f64",   [TLC_F64 + 1] = NULL,
};

static const unsigned char bits[] = {
    [TLC_F32] = 32, [TLC_F16] = 16, [TLC_BF16] = 16, [TLC_F8_E4M3] = 8, [TLC_F8_E5M2] = 8, [TLC_F4_E2M1] = 4,
    [TLC_U8] = 8,   [TLC_U4] = 4,   [TLC_I32] = 32,  [TLC_I64] = 64,    [TLC_F64] = 64,
};

unsigned dtype_bits(tlc_dtype dtype)
{
    return bits[dtype];
}

uint64_t dtype_count(tlc_dtype dtype, uint64_t bytes)
{
    return bits[dtype] < 8 ? bytes * (8 / bits[dtype]) : bytes / (bits[dtype] / 8);
}

int dtype_is_same(tlc_dtype dtype)
{
    return __BYTE_ORDER__ != __ORDER_BIG_ENDIAN__ || bits[dtype] <= 8;
}

void dtype_turn(tlc_dtype dtype, uint8_t *weights, size_t size)
{
    const size_t width = bits[dtype] / 8;

    if (dtype_is_same(dtype))
        return;
    for (const uint8_t *end = weights + size; weights < end; weights += width) {
        for (size_t i = 0; i < width / 2; i++) {
            const uint8_t byte = weights[i];
            weights[i] = weights[width - 1 - i];
            weights[width - 1 - i] = byte;
        }
    }
}
