/* SPDX-License-Identifier: MIT
 *
 * The layouts of the public structs and the values of constants as numbers. Every compiler that builds the tests checks
 * them, for 64-bit and 32-bit machines. tests/scripts/abi.sh says which version a change needs.
 */
#include <threelc/bundle.h>
#include <threelc/delta.h>
#include <threelc/gossip.h>
#include <threelc/stages.h>
#include <threelc/threelc.h>

struct aligned {
    char c;
    uint64_t v;
};

enum {
    WIDE = sizeof(void *) == 8,
    /* i386 aligns 64-bit integers to 4 bytes, other 32-bit machines to 8 */
    GAP = !WIDE && offsetof(struct aligned, v) == 8 ? 4 : 0
};

#define SIZE(type, wide, narrow) _Static_assert(sizeof(type) == (WIDE ? (wide) : (narrow)), "the size of " #type)
#define AT(type, field, wide, narrow)                                                                                  \
    _Static_assert(offsetof(type, field) == (WIDE ? (wide) : (narrow)), "the offset of " #type "." #field)

/* begins with its size */
#define SIZED(type, wide, narrow)                                                                                      \
    SIZE(type, wide, narrow);                                                                                          \
    AT(type, struct_size, 0, 0)

/* NOLINTBEGIN(bugprone-branch-clone): many numbers are the same at both widths */
_Static_assert(sizeof(void *) == 8 || sizeof(void *) == 4, "a data model without numbers here");
SIZE(size_t, 8, 4);
SIZE(tlc_status, 4, 4);
SIZE(tlc_dtype, 4, 4);
SIZE(tlc_isa, 4, 4);
SIZE(tlc_entry_kind, 4, 4);
SIZE(tlc_format, 4, 4);
SIZE(tlc_rounding, 4, 4);
SIZE(tlc_golomb_signs, 4, 4);
SIZE(tlc_levels, 4, 4);
SIZE(tlc_natural_bits, 4, 4);

SIZE(tlc_allocator, 24, 12);
AT(tlc_allocator, alloc, 0, 0);
AT(tlc_allocator, free, 8, 4);
AT(tlc_allocator, opaque, 16, 8);

SIZE(tlc_parallel, 16, 8);
AT(tlc_parallel, run, 0, 0);
AT(tlc_parallel, opaque, 8, 4);

SIZED(tlc_config, 120, 72 + 2 * GAP);
AT(tlc_config, codec, 8, 4);
AT(tlc_config, reserve, 16, 8);
AT(tlc_config, dtype, 24, 12);
AT(tlc_config, feedback, 28, 16);
AT(tlc_config, seed, 32, 20 + GAP);
AT(tlc_config, isa, 40, 28 + GAP);
AT(tlc_config, checksum, 44, 32 + GAP);
AT(tlc_config, assume_finite, 48, 36 + GAP);
AT(tlc_config, residual, 56, 40 + GAP);
AT(tlc_config, alloc, 64, 44 + GAP);
AT(tlc_config, parallel, 88, 56 + GAP);
AT(tlc_config, message, 104, 64 + GAP);
AT(tlc_config, message_cap, 112, 68 + GAP);

SIZED(tlc_decode_options, 56, 28);
AT(tlc_decode_options, isa, 8, 4);
AT(tlc_decode_options, parallel, 16, 8);
AT(tlc_decode_options, from_zero, 32, 16);
AT(tlc_decode_options, message, 40, 20);
AT(tlc_decode_options, message_cap, 48, 24);

SIZED(tlc_frame_info, 200, 192);
AT(tlc_frame_info, version, 8, 4);
AT(tlc_frame_info, dtype, 12, 8);
AT(tlc_frame_info, checksum, 16, 12);
AT(tlc_frame_info, codec, 20, 16);
AT(tlc_frame_info, n, 152, 144);
AT(tlc_frame_info, block, 160, 152);
AT(tlc_frame_info, nonzero, 168, 160);
AT(tlc_frame_info, header_size, 176, 168);
AT(tlc_frame_info, payload_size, 184, 176);
AT(tlc_frame_info, clipped, 192, 184);

SIZE(tlc_message, 16, 8);
AT(tlc_message, data, 0, 0);
AT(tlc_message, len, 8, 4);

SIZE(tlc_codec_param, 24, 12);
AT(tlc_codec_param, key, 0, 0);
AT(tlc_codec_param, range, 8, 4);
AT(tlc_codec_param, meaning, 16, 8);

SIZED(tlc_codec_entry, 184, 100);
AT(tlc_codec_entry, name, 8, 4);
AT(tlc_codec_entry, list, 16, 8);
AT(tlc_codec_entry, takes, 24, 12);
AT(tlc_codec_entry, gives, 32, 16);
AT(tlc_codec_entry, meaning, 40, 20);
AT(tlc_codec_entry, source, 48, 24);
AT(tlc_codec_entry, feedback, 56, 28);
AT(tlc_codec_entry, param_count, 64, 32);
AT(tlc_codec_entry, param, 72, 36);
AT(tlc_codec_entry, kind, 168, 84);
AT(tlc_codec_entry, codec, 172, 88);
AT(tlc_codec_entry, symbols, 176, 92);
AT(tlc_codec_entry, sparse, 180, 96);

SIZE(tlc_bundle_writer, 32, 20);
AT(tlc_bundle_writer, dst, 0, 0);
AT(tlc_bundle_writer, cap, 8, 4);
AT(tlc_bundle_writer, used, 16, 8);
AT(tlc_bundle_writer, count, 24, 12);
AT(tlc_bundle_writer, index, 28, 16);

SIZE(tlc_bundle_reader, 40, 24);
AT(tlc_bundle_reader, src, 0, 0);
AT(tlc_bundle_reader, len, 8, 4);
AT(tlc_bundle_reader, next_length, 16, 8);
AT(tlc_bundle_reader, next_frame, 24, 12);
AT(tlc_bundle_reader, count, 32, 16);
AT(tlc_bundle_reader, index, 36, 20);

SIZED(tlc_stochastic_ternary_params, 32, 24 + 2 * GAP);
AT(tlc_stochastic_ternary_params, seed, 8, 4 + GAP);
AT(tlc_stochastic_ternary_params, step, 16, 12 + GAP);
AT(tlc_stochastic_ternary_params, residual, 24, 20 + GAP);

SIZED(tlc_golomb_params, 24, 12);
AT(tlc_golomb_params, signs, 8, 4);
AT(tlc_golomb_params, scratch, 16, 8);

SIZED(tlc_levels_params, 40, 32 + 2 * GAP);
AT(tlc_levels_params, levels, 8, 4);
AT(tlc_levels_params, rounding, 12, 8);
AT(tlc_levels_params, seed, 16, 12 + GAP);
AT(tlc_levels_params, step, 24, 20 + GAP);
AT(tlc_levels_params, residual, 32, 28 + GAP);

SIZED(tlc_natural_params, 48, 36 + GAP);
AT(tlc_natural_params, bits, 8, 4);
AT(tlc_natural_params, rounding, 12, 8);
AT(tlc_natural_params, shift, 16, 12);
AT(tlc_natural_params, seed, 24, 16);
AT(tlc_natural_params, step, 32, 24);
AT(tlc_natural_params, residual, 40, 32);

SIZED(tlc_natural_aggregate_params, 48, 32 + 2 * GAP);
AT(tlc_natural_aggregate_params, seed, 8, 4 + GAP);
AT(tlc_natural_aggregate_params, step, 16, 12 + GAP);
AT(tlc_natural_aggregate_params, rounding, 24, 20 + GAP);
AT(tlc_natural_aggregate_params, message, 32, 24 + GAP);
AT(tlc_natural_aggregate_params, message_cap, 40, 28 + GAP);

SIZED(tlc_quartic_params, 48, 28);
AT(tlc_quartic_params, codec, 8, 4);
AT(tlc_quartic_params, dtype, 16, 8);
AT(tlc_quartic_params, checksum, 20, 12);
AT(tlc_quartic_params, scratch, 24, 16);
AT(tlc_quartic_params, message, 32, 20);
AT(tlc_quartic_params, message_cap, 40, 24);

SIZED(tlc_topk_params, 48, 36 + GAP);
AT(tlc_topk_params, p, 8, 4 + GAP);
AT(tlc_topk_params, seed, 16, 12 + GAP);
AT(tlc_topk_params, step, 24, 20 + GAP);
AT(tlc_topk_params, residual, 32, 28 + GAP);
AT(tlc_topk_params, select, 40, 32 + GAP);

SIZED(tlc_random_sparse_params, 48, 36 + GAP);
AT(tlc_random_sparse_params, p, 8, 4 + GAP);
AT(tlc_random_sparse_params, seed, 16, 12 + GAP);
AT(tlc_random_sparse_params, step, 24, 20 + GAP);
AT(tlc_random_sparse_params, scratch, 32, 28 + GAP);
AT(tlc_random_sparse_params, residual, 40, 32 + GAP);

SIZED(tlc_tensor, 56, 28);
AT(tlc_tensor, name, 8, 4);
AT(tlc_tensor, n, 16, 8);
AT(tlc_tensor, push, 24, 12);
AT(tlc_tensor, pull, 32, 16);
AT(tlc_tensor, residual, 40, 20);
AT(tlc_tensor, only, 48, 24);

SIZED(tlc_exchange_config, 152, 96 + 2 * GAP);
AT(tlc_exchange_config, workers, 8, 4);
AT(tlc_exchange_config, servers, 12, 8);
AT(tlc_exchange_config, owners, 16, 12);
AT(tlc_exchange_config, keep, 20, 16);
AT(tlc_exchange_config, backup, 24, 20);
AT(tlc_exchange_config, gather, 28, 24);
AT(tlc_exchange_config, sum, 32, 28);
AT(tlc_exchange_config, push, 40, 32);
AT(tlc_exchange_config, pull, 48, 36);
AT(tlc_exchange_config, reserve, 56, 40);
AT(tlc_exchange_config, min_n, 64, 44);
AT(tlc_exchange_config, split_n, 72, 48);
AT(tlc_exchange_config, assume_finite, 80, 52);
AT(tlc_exchange_config, dtype, 84, 56);
AT(tlc_exchange_config, seed, 88, 60 + GAP);
AT(tlc_exchange_config, isa, 96, 68 + GAP);
AT(tlc_exchange_config, alloc, 104, 72 + GAP);
AT(tlc_exchange_config, parallel, 128, 84 + GAP);
AT(tlc_exchange_config, outcome, 144, 92 + GAP);

SIZED(tlc_outcome, 272, 244 + GAP);
AT(tlc_outcome, status, 8, 4);
AT(tlc_outcome, cause, 12, 8);
AT(tlc_outcome, step, 16, 12 + GAP);
AT(tlc_outcome, rank, 24, 20 + GAP);
AT(tlc_outcome, tensor, 32, 24 + GAP);
AT(tlc_outcome, taken, 40, 28 + GAP);
AT(tlc_outcome, workers, 48, 32 + GAP);
AT(tlc_outcome, unknown, 56, 36 + GAP);
AT(tlc_outcome, missing, 64, 40 + GAP);
AT(tlc_outcome, sentence, 72, 44 + GAP);

SIZED(tlc_exchange_stats, 96, 92 + GAP);
AT(tlc_exchange_stats, steps, 8, 4 + GAP);
AT(tlc_exchange_stats, failed, 16, 12 + GAP);
AT(tlc_exchange_stats, late, 24, 20 + GAP);
AT(tlc_exchange_stats, float_bytes, 32, 28 + GAP);
AT(tlc_exchange_stats, sent, 40, 36 + GAP);
AT(tlc_exchange_stats, received, 48, 44 + GAP);
AT(tlc_exchange_stats, dropped, 56, 52 + GAP);
AT(tlc_exchange_stats, push_signal_squares, 64, 60 + GAP);
AT(tlc_exchange_stats, push_residual_squares, 72, 68 + GAP);
AT(tlc_exchange_stats, pull_signal_squares, 80, 76 + GAP);
AT(tlc_exchange_stats, pull_residual_squares, 88, 84 + GAP);

SIZED(tlc_part, 56, 32);
AT(tlc_part, tensor, 8, 4);
AT(tlc_part, first, 16, 8);
AT(tlc_part, n, 24, 12);
AT(tlc_part, mean, 32, 16);
AT(tlc_part, residual, 40, 20);
AT(tlc_part, seed, 48, 24);

SIZED(tlc_push_info, 32, 24);
AT(tlc_push_info, worker, 8, 4);
AT(tlc_push_info, step, 16, 8);
AT(tlc_push_info, late, 24, 16);
AT(tlc_push_info, repeated, 28, 20);

SIZED(tlc_graph, 40, 32);
AT(tlc_graph, kind, 8, 4);
AT(tlc_graph, nodes, 12, 8);
AT(tlc_graph, rows, 16, 12);
AT(tlc_graph, p, 24, 16);
AT(tlc_graph, seed, 32, 24);

SIZED(tlc_delta_options, 56, 36);
AT(tlc_delta_options, isa, 8, 4);
AT(tlc_delta_options, without_digests, 12, 8);
AT(tlc_delta_options, parallel, 16, 12);
AT(tlc_delta_options, message, 32, 20);
AT(tlc_delta_options, message_cap, 40, 24);
AT(tlc_delta_options, block_digests, 48, 28);
AT(tlc_delta_options, check_result, 52, 32);

SIZED(tlc_delta_piece, 72, 48 + 2 * GAP);
AT(tlc_delta_piece, next, 8, 4 + GAP);
AT(tlc_delta_piece, end, 16, 12 + GAP);
AT(tlc_delta_piece, state, 24, 20 + GAP);
AT(tlc_delta_piece, positions, 32, 28 + GAP);
AT(tlc_delta_piece, values, 40, 32 + GAP);
AT(tlc_delta_piece, cap, 48, 36 + GAP);
AT(tlc_delta_piece, k, 56, 40 + GAP);
AT(tlc_delta_piece, are_values, 64, 44 + GAP);

SIZED(tlc_delta_info, 88, 84 + GAP);
AT(tlc_delta_info, version, 8, 4);
AT(tlc_delta_info, dtype, 12, 8);
AT(tlc_delta_info, n, 16, 12 + GAP);
AT(tlc_delta_info, has_base, 24, 20 + GAP);
AT(tlc_delta_info, has_digests, 28, 24 + GAP);
AT(tlc_delta_info, base_digest, 32, 28 + GAP);
AT(tlc_delta_info, result_digest, 40, 36 + GAP);
AT(tlc_delta_info, blocks, 48, 44 + GAP);
AT(tlc_delta_info, changed, 80, 76 + GAP);
/* NOLINTEND(bugprone-branch-clone) */

_Static_assert(TLC_ENTRY_SHORT_NAME == 0 && TLC_ENTRY_QUANTIZER == 1 && TLC_ENTRY_PACKER == 2 &&
                   TLC_ENTRY_SHRINKER == 3,
               "the numbers of tlc_entry_kind");
_Static_assert(TLC_ROUND_RANDOM == 0 && TLC_ROUND_NEAREST == 1, "the numbers of tlc_rounding");
_Static_assert(TLC_GOLOMB_UNSIGNED == 0 && TLC_GOLOMB_SIGNED == 1, "the numbers of tlc_golomb_signs");
_Static_assert(TLC_LEVELS_255 == 127 && TLC_LEVELS_15 == 7, "the numbers of tlc_levels");
_Static_assert(TLC_NATURAL_8 == 8 && TLC_NATURAL_9 == 9, "the numbers of tlc_natural_bits");

_Static_assert(TLC_GOSSIP_DCD == 0 && TLC_GOSSIP_ECD == 1, "the numbers of tlc_gossip_kind");
_Static_assert(TLC_GRAPH_RING == 0 && TLC_GRAPH_TORUS == 1 && TLC_GRAPH_COMPLETE == 2 && TLC_GRAPH_RANDOM == 3,
               "the numbers of tlc_graph_kind");

_Static_assert(TLC_FRAME_VERSION == 1, "the version of the frame format");
_Static_assert(TLC_MESSAGE_VERSION == 1, "the version of the message format");
/* NOLINTNEXTLINE(misc-redundant-expression) */
_Static_assert(TLC_NOBODY == 0xffffffff && TLC_ALL == (size_t)-1, "TLC_NOBODY and TLC_ALL");
_Static_assert(TLC_UNKNOWN == 0xffffffffffffffff, "TLC_UNKNOWN");
