/* SPDX-License-Identifier: MIT
 *
 * Includes the template once for each vector width. The generic loops have vectors of 16 bytes; the compiler turns
 * them into SSE2, NEON or single words.
 */
#include "roofline.h"
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* What a sweep does. SEND stores r, too. ALONE does without r. */
enum { ADD = 1, MEASURE = 2, STORE = 4, SEND = 8, FETCH = 16, ALONE = 32 };
enum { WRITE, NON_TEMPORAL, PLUS };
#define FAR ((size_t)1 << 17)   /* from here on prefetching gains 5%; for fewer values it costs as much */
#define AHEAD 1024              /* bytes */
#define STRIP ((size_t)1 << 13) /* values of a sum that get the bytes of all frames */
#define SIGN 0x80000000u
#define ONE 0x3f800000u /* the bits of 1.0f */

typedef int32_t signed_words __attribute__((vector_size(16)));

#define VECTOR 16
#define TARGET
#define NAME(x) x##_generic
#define MAX(a, b)                                                                                                      \
    (((a) & (words_generic)((signed_words)(a) > (signed_words)(b))) |                                                  \
     ((b) & ~(words_generic)((signed_words)(a) > (signed_words)(b))))
#if defined(__x86_64__)
#define STREAM(p, w) _mm_stream_si128((__m128i *)(void *)(p), (__m128i)(w))
#endif
#include "roofline_template.h"

#if defined(__x86_64__)
#define VECTOR 32
#define TARGET __attribute__((target("avx2")))
#define NAME(x) x##_avx2
#define MAX(a, b) ((words_avx2)_mm256_max_epi32((__m256i)(a), (__m256i)(b)))
#define STREAM(p, w) _mm256_stream_si256((__m256i *)(void *)(p), (__m256i)(w))
#include "roofline_template.h"

#define VECTOR 64
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))
#define NAME(x) x##_avx512
#define MAX(a, b) ((words_avx512)_mm512_max_epi32((__m512i)(a), (__m512i)(b)))
#define STREAM(p, w) _mm512_stream_si512((__m512i *)(void *)(p), (__m512i)(w))
#include "roofline_template.h"
#endif

const roofline_loops *roofline_loops_of(tlc_isa isa)
{
#if defined(__x86_64__)
    if (isa == TLC_ISA_AUTO)
        isa = tlc_isa_supported(TLC_ISA_AVX512) ? TLC_ISA_AVX512 : tlc_isa_supported(TLC_ISA_AVX2) ? TLC_ISA_AVX2 : isa;
    if (isa == TLC_ISA_AVX512)
        return &loops_avx512;
    if (isa == TLC_ISA_AVX2)
        return &loops_avx2;
#else
    (void)isa;
#endif
    return &loops_generic;
}
