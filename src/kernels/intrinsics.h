/* SPDX-License-Identifier: MIT
 *
 * The vector instructions of x86-64. In clang they are functions with operators of C in them, so the rules for floats
 * come first.
 */
#ifndef TLC_INTRINSICS_H
#define TLC_INTRINSICS_H

#include "../common/float_rules.h"

#if defined(__x86_64__)
#include <immintrin.h>
/* For MSVC's ABI older clang leaves these out of the header above, unless a flag switches on AVX for the whole file. */
/* clang-format off: each needs what is before it */
#if defined(__clang__) && defined(_MSC_VER)
#include <smmintrin.h>
#include <popcntintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <f16cintrin.h>
#include <bmiintrin.h>
#include <bmi2intrin.h>
#include <lzcntintrin.h>
#include <avx512fintrin.h>
#include <avx512vlintrin.h>
#include <avx512cdintrin.h>
#include <avx512bwintrin.h>
#include <avx512dqintrin.h>
#include <avx512vlbwintrin.h>
#include <avx512vldqintrin.h>
#include <avx512vbmiintrin.h>
#include <avx512vbmi2intrin.h>
#endif
/* clang-format on */
#endif
#endif
