/* SPDX-License-Identifier: MIT */
#include "dtype.h"
#include <threelc/stages.h>

void tlc_widen(const tlc_kernels *k, tlc_dtype from, const void *src, size_t n, float *out)
{
    if (from == TLC_F32)
        memcpy(out, src, n * sizeof *out);
    else if (from == TLC_F16)
        k->f16_to_f32(src, n, out);
    else
        k->bf16_to_f32(src, n, out);
}

void tlc_narrow(const tlc_kernels *k, const float *in, size_t n, tlc_dtype to, void *dst)
{
    if (to == TLC_F32)
        memcpy(dst, in, n * sizeof *in);
    else if (to == TLC_F16)
        k->f32_to_f16(in, n, dst);
    else
        k->f32_to_bf16(in, n, dst);
}

void tlc_copy_le(void *dst, const void *src, size_t n, size_t size)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(dst, src, n * size);
#else
    const uint8_t *from = src;
    uint8_t *to = dst;

    for (size_t i = 0; i < n; i++, from += size, to += size)
        for (size_t b = 0; b < size; b++)
            to[b] = from[size - 1 - b];
#endif
}

tlc_status tlc_convert(tlc_dtype from, const void *src, tlc_dtype to, void *dst, size_t n)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);
    size_t in = tlc_dtype_size(from), out = tlc_dtype_size(to);
    float chunk[TLC_CHUNK];

    if (!tlc_dtype_valid(from) || !tlc_dtype_valid(to) || (n && (!src || !dst)))
        return TLC_ERR_PARAM;
    if (!k)
        return TLC_ERR_UNSUPPORTED;
    if (from == to) {
        if (n)
            memcpy(dst, src, n * in);
        return TLC_OK;
    }
    tlc_float_mode mode = tlc_float_enter();
    for (size_t at = 0; at < n; at += TLC_CHUNK) {
        size_t count = n - at < TLC_CHUNK ? n - at : TLC_CHUNK;

        tlc_widen(k, from, (const uint8_t *)src + at * in, count, chunk);
        tlc_narrow(k, chunk, count, to, (uint8_t *)dst + at * out);
    }
    tlc_float_leave(mode);
    return TLC_OK;
}
