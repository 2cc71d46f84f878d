/* SPDX-License-Identifier: MIT
 *
 * Which parts of the library are built. Without a definition all are.
 *
 * TLC_CODECS: the stages, a sum of TLC_WITH_...; raw is always there. A codec that needs another stage is refused with
 * TLC_ERR_UNSUPPORTED and the name of the stage.
 * TLC_NO_DELTA: deltas of weights are not called.
 * TLC_NO_AVX2, TLC_NO_AVX512, TLC_NO_NEON: kernels for this ISA are left out; without AVX2 those for AVX-512, too.
 */
#ifndef TLC_BUILT_H
#define TLC_BUILT_H

#define TLC_WITH_TERNARY 0x1
#define TLC_WITH_STOCHASTIC_TERNARY 0x2
#define TLC_WITH_SPARSE_BINARY 0x4
#define TLC_WITH_QUARTIC 0x8
#define TLC_WITH_ZERORUN 0x10
#define TLC_WITH_GOLOMB_CODES 0x20
#define TLC_WITH_GOLOMB (TLC_WITH_GOLOMB_CODES | TLC_WITH_QUARTIC) /* quartic bytes are sent if they are not more */
#define TLC_WITH_NATURAL 0x40
#define TLC_WITH_INT8 0x80
#define TLC_WITH_QSGD 0x100
#define TLC_WITH_ONEBIT 0x200
#define TLC_WITH_TOPK 0x400
#define TLC_WITH_RANDOM_SPARSE 0x800
#define TLC_WITH_RAW 0
#define TLC_WITH_3LC (TLC_WITH_TERNARY | TLC_WITH_QUARTIC | TLC_WITH_ZERORUN)
#define TLC_WITH_3LC_GOLOMB (TLC_WITH_TERNARY | TLC_WITH_GOLOMB)
#define TLC_WITH_SBC (TLC_WITH_SPARSE_BINARY | TLC_WITH_GOLOMB)

#ifndef TLC_CODECS
#define TLC_CODECS 0xfff
#endif

/* What several stages have in common. */
#define TLC_WITH_SYMBOLS (TLC_WITH_TERNARY | TLC_WITH_STOCHASTIC_TERNARY)
#define TLC_WITH_POSITIONS (TLC_WITH_GOLOMB_CODES | TLC_WITH_RANDOM_SPARSE)
#define TLC_WITH_MEMBERS (TLC_WITH_POSITIONS | TLC_WITH_SPARSE_BINARY | TLC_WITH_TOPK)
#define TLC_WITH_LEVELS (TLC_WITH_INT8 | TLC_WITH_QSGD)
#define TLC_WITH_RANDOM                                                                                                \
    (TLC_WITH_STOCHASTIC_TERNARY | TLC_WITH_LEVELS | TLC_WITH_NATURAL | TLC_WITH_TOPK | TLC_WITH_RANDOM_SPARSE)
#define TLC_WITH_ALL 0x1000 /* of everything */
#ifdef TLC_NO_DELTA
#define TLC_WITH_DELTA 0
#else
#define TLC_WITH_DELTA TLC_WITH_ALL
#endif

/* Are they all built? Is one of them? TLC_IF_BUILT is a constant, so that what is left out is not linked. */
#define TLC_ARE_BUILT(parts) (((TLC_CODECS) & (parts)) == (parts))
#define TLC_IS_BUILT(parts) ((((TLC_CODECS) | TLC_WITH_ALL) & (parts)) != 0)
#define TLC_IF_BUILT(parts, x) (TLC_IS_BUILT(parts) ? (x) : NULL)
#endif
