/* SPDX-License-Identifier: MIT
 *
 * The `_init` functions of the structs whose defaults are 0. Those of configurations are next to what they configure.
 */
#include "../common/structs.h"
#include <threelc/delta.h>
#include <threelc/gossip.h>
#include <threelc/stages.h>
#include <threelc/weights.h>

/* NOLINTBEGIN(bugprone-macro-parentheses): the argument is a type */
#define INIT(type)                                                                                                     \
    tlc_status type##_init(type *theirs, size_t struct_size)                                                           \
    {                                                                                                                  \
        return tlc_init(theirs, struct_size, &struct_size, sizeof struct_size);                                        \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

INIT(tlc_decode_options)
INIT(tlc_frame_info)
INIT(tlc_codec_entry)
INIT(tlc_delta_options)
INIT(tlc_delta_info)
INIT(tlc_delta_piece)
INIT(tlc_weights_entry)
INIT(tlc_weights_writer_config)
INIT(tlc_weights_reader_config)
INIT(tlc_weights_info)
INIT(tlc_outcome)
INIT(tlc_exchange_stats)
INIT(tlc_part)
INIT(tlc_push_info)
INIT(tlc_graph)
INIT(tlc_quartic_params)
INIT(tlc_members_params)
INIT(tlc_stochastic_ternary_params)
INIT(tlc_golomb_params)
INIT(tlc_levels_params)
INIT(tlc_natural_params)
INIT(tlc_natural_aggregate_params)
INIT(tlc_topk_params)
INIT(tlc_random_sparse_params)
