/* SPDX-License-Identifier: MIT
 *
 * THE kernel x ISA matrix, best first.
 */
#include "kernels.h"

#define KERNELS(isa_id, suffix)                                                                                         \
    {                                                                                                                   \
        .isa = (isa_id),                                                                                                \
        .absmax = tlc_absmax_##suffix,                                                                                  \
        .accumulate = tlc_accumulate_##suffix,                                                                          \
        .ternary_encode = tlc_ternary_encode_##suffix,                                                                  \
        .ternary_decode = tlc_ternary_decode_##suffix,                                                                  \
        .ternary_add = tlc_ternary_add_##suffix,                                                                        \
        .quartic_encode = tlc_quartic_encode_##suffix,                                                                  \
        .quartic_decode = tlc_quartic_decode_##suffix,                                                                  \
        .bytes_max = tlc_bytes_max_##suffix,                                                                            \
        .ternary_quartic_encode = tlc_ternary_quartic_encode_##suffix,                                                  \
        .quartic_ternary_decode = tlc_quartic_ternary_decode_##suffix,                                                  \
        .quartic_ternary_add = tlc_quartic_ternary_add_##suffix,                                                        \
        .quartic_ternary_stream = tlc_quartic_ternary_stream_##suffix,                                                  \
        .zerorun_encode = tlc_zerorun_encode_##suffix,                                                                  \
        .zerorun_decode = tlc_zerorun_decode_##suffix,                                                                  \
        .zerorun_size = tlc_zerorun_size_##suffix,                                                                      \
        .philox = tlc_philox_##suffix,                                                                                  \
        .levels_encode = tlc_levels_encode_##suffix,                                                                    \
        .levels_decode = tlc_levels_decode_##suffix,                                                                    \
        .nibbles_pack = tlc_nibbles_pack_##suffix,                                                                      \
        .nibbles_unpack = tlc_nibbles_unpack_##suffix,                                                                  \
        .natural_encode = tlc_natural_encode_##suffix,                                                                  \
        .natural_decode = tlc_natural_decode_##suffix,                                                                  \
        .natural9_encode = tlc_natural9_encode_##suffix,                                                                \
        .natural9_decode = tlc_natural9_decode_##suffix,                                                                \
        .stochastic_encode = tlc_stochastic_encode_##suffix,                                                            \
        .symbol_masks = tlc_symbol_masks_##suffix,                                                                      \
        .threshold_mask = tlc_threshold_mask_##suffix,                                                                  \
        .random_mask = tlc_random_mask_##suffix,                                                                        \
        .ones = tlc_ones_##suffix,                                                                                      \
        .expand = tlc_expand_##suffix,                                                                                  \
        .expand_add = tlc_expand_add_##suffix,                                                                          \
        .side_sums = tlc_side_sums_##suffix,                                                                            \
        .onebit_encode = tlc_onebit_encode_##suffix,                                                                    \
        .onebit_decode = tlc_onebit_decode_##suffix,                                                                    \
        .onebit_add = tlc_onebit_add_##suffix,                                                                          \
        .values_add = tlc_values_add_##suffix,                                                                          \
        .f16_to_f32 = tlc_f16_to_f32_##suffix,                                                                          \
        .f32_to_f16 = tlc_f32_to_f16_##suffix,                                                                          \
        .bf16_to_f32 = tlc_bf16_to_f32_##suffix,                                                                        \
        .f32_to_bf16 = tlc_f32_to_bf16_##suffix,                                                                        \
    }

static const tlc_kernels tables[] = {
#if defined(__x86_64__)
    KERNELS(TLC_ISA_AVX512, avx512),
    KERNELS(TLC_ISA_AVX2, avx2),
#elif defined(__aarch64__)
    KERNELS(TLC_ISA_NEON, neon),
#endif
    KERNELS(TLC_ISA_SCALAR, scalar),
};

const tlc_kernels *tlc_kernels_for(tlc_isa isa)
{
    unsigned supported = tlc_cpu_isas();

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if ((isa == TLC_ISA_AUTO || isa == tables[i].isa) && supported >> tables[i].isa & 1u)
            return &tables[i];
    return NULL;
}
