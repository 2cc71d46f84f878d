/* SPDX-License-Identifier: MIT
 *
 * The list of peers. Rows are in this order.
 */
#include "peers.h"

static const peer *const list[] = {
#ifdef HAVE_ZSTD
    &peer_zstd,
#endif
#ifdef HAVE_LZ4
    &peer_lz4,
#endif
#ifdef HAVE_SNAPPY
    &peer_snappy,
#endif
#ifdef HAVE_ZSTD
    &peer_quartic_zstd,
#endif
#ifdef HAVE_LZ4
    &peer_quartic_lz4,
#endif
#ifdef HAVE_SNAPPY
    &peer_quartic_snappy,
#endif
    &peer_naive,
#if defined(__x86_64__)
    &peer_f16, /* stays last: on a CPU without F16C the list ends before it */
#endif
};

const peer *const *peers(size_t *count)
{
    *count = sizeof list / sizeof list[0];
#if defined(__x86_64__)
    *count -= !tlc_isa_supported(TLC_ISA_AVX2); /* AVX2 machines have F16C */
#endif
    return list;
}
