/* SPDX-License-Identifier: MIT
 *
 * Half precision by the conversion instructions (F16C, AVX-512), a simple loop at the speed of memory. Values beyond
 * 65504 become infinite.
 */
#include "peers.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>

#define F16C __attribute__((target("avx,f16c")))
#define AVX512 __attribute__((target("avx512f")))

typedef struct half {
    void (*narrow)(const float *in, size_t n, uint16_t *out);
    void (*widen)(const uint16_t *in, size_t n, float *out);
} half;

F16C static void narrow_f16c(const float *in, size_t n, uint16_t *out)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), 0));
    for (; i < n; i++)
        out[i] = _cvtss_sh(in[i], 0);
}

F16C static void widen_f16c(const uint16_t *in, size_t n, float *out)
{
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(in + i))));
    for (; i < n; i++)
        out[i] = _cvtsh_ss(in[i]);
}

AVX512 static void narrow_avx512(const float *in, size_t n, uint16_t *out)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(out + i), _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(in + i), 0));
    narrow_f16c(in + i, n - i, out + i);
}

AVX512 static void widen_avx512(const uint16_t *in, size_t n, float *out)
{
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(in + i))));
    widen_f16c(in + i, n - i, out + i);
}

static bool half_bound(const peer *p, size_t n, size_t *cap)
{
    (void)p;
    *cap = n * sizeof(uint16_t);
    return n <= SIZE_MAX / sizeof(uint16_t);
}

static void *half_open(const peer *p, size_t n, tlc_isa isa)
{
    half *h = malloc(sizeof *h);

    (void)p;
    (void)n;
    if (h)
        *h = (isa == TLC_ISA_AUTO || isa == TLC_ISA_AVX512) && tlc_isa_supported(TLC_ISA_AVX512)
                 ? (half){narrow_avx512, widen_avx512}
                 : (half){narrow_f16c, widen_f16c};
    return h;
}

static bool half_compress(void *state, const float *g, size_t n, void *dst, size_t cap, size_t *len)
{
    if (cap / sizeof(uint16_t) < n)
        return false;
    *len = n * sizeof(uint16_t);
    ((const half *)state)->narrow(g, n, dst);
    return true;
}

static bool half_decompress(void *state, const void *src, size_t len, float *out, size_t n)
{
    if (len / sizeof(uint16_t) != n || len % sizeof(uint16_t))
        return false;
    ((const half *)state)->widen(src, n, out);
    return true;
}

const peer peer_f16 = {.name = "f16 (F16C)",
                       .bound = half_bound,
                       .open = half_open,
                       .close = free,
                       .compress = half_compress,
                       .decompress = half_decompress};
#endif
