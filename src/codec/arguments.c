/* SPDX-License-Identifier: MIT */
#include "arguments.h"
#include "../kernels/kernels.h"

const char *tlc_dtype_name(tlc_dtype dtype)
{
    static const char name[][8] = {
        [TLC_F32] = "f32",         [TLC_F16] = "f16",         [TLC_BF16] = "bf16", [TLC_F8_E4M3] = "f8_e4m3",
        [TLC_F8_E5M2] = "f8_e5m2", [TLC_F4_E2M1] = "f4_e2m1", [TLC_U8] = "u8",     [TLC_U4] = "u4",
        [TLC_I32] = "i32",         [TLC_I64] = "i64",         [TLC_F64] = "f64",
    };
    return (unsigned)dtype < sizeof name / sizeof name[0] ? name[(unsigned)dtype] : "no dtype";
}

const char *tlc_isa_name(tlc_isa isa)
{
    static const char name[][8] = {
        [TLC_ISA_AUTO] = "auto",     [TLC_ISA_SCALAR] = "scalar", [TLC_ISA_AVX2] = "avx2",
        [TLC_ISA_AVX512] = "avx512", [TLC_ISA_NEON] = "neon",
    };
    return (unsigned)isa < sizeof name / sizeof name[0] ? name[(unsigned)isa] : "unknown";
}

const char *tlc_nonfinite_name(float nonfinite)
{
    const uint32_t bits = tlc_float_bits(nonfinite);

    return (bits & TLC_F32_ABS) > TLC_F32_INF ? "NaN" : bits & ~TLC_F32_ABS ? "-infinity" : "infinity";
}

tlc_status tlc_dtype_check(tlc_dtype dtype, tlc_text *w)
{
    if ((unsigned)dtype > TLC_BF16)
        return TLC_FAIL(w, TLC_ERR_PARAM, "dtype is %d: TLC_F32 (0), TLC_F16 (1) or TLC_BF16 (2)", (int)dtype);
    return TLC_OK;
}

tlc_status tlc_isa_check(tlc_isa isa, tlc_text *w)
{
    if ((unsigned)isa > TLC_ISA_NEON)
        return TLC_FAIL(w, TLC_ERR_PARAM, "isa is %d: TLC_ISA_AUTO (0) to TLC_ISA_NEON (4)", (int)isa);
    if (tlc_kernels_fault())
        return TLC_FAIL(w, TLC_ERR_UNSUPPORTED, "%s", tlc_kernels_fault());
    if (!tlc_kernels_for(isa))
        return TLC_FAIL(w, TLC_ERR_UNSUPPORTED, "isa is %s, which this machine or this build does not have",
                        tlc_isa_name(isa));
    return TLC_OK;
}

tlc_status tlc_flag_check(const char *field, int value, tlc_text *w)
{
    return value >> 1 ? TLC_FAIL(w, TLC_ERR_PARAM, "%s is %d: 0 or 1", field, value) : TLC_OK;
}
