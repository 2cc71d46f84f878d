/* SPDX-License-Identifier: MIT
 *
 * The `_init` functions of all public structs that begin with their size, but those of MPI. scripts/headers.sh checks
 * that there is one for each.
 */
#include "../support/support.h"
#include <threelc/delta.h>
#include <threelc/gossip.h>
#include <threelc/local.h>
#include <threelc/stages.h>
#include <threelc/weights.h>

/* STRUCT(name, 1: all fields but the size are 0 by default) */
#define STRUCTS                                                                                                        \
    STRUCT(tlc_config, 0)                                                                                              \
    STRUCT(tlc_exchange_config, 0)                                                                                     \
    STRUCT(tlc_decode_options, 1)                                                                                      \
    STRUCT(tlc_frame_info, 1)                                                                                          \
    STRUCT(tlc_codec_entry, 1)                                                                                         \
    STRUCT(tlc_delta_options, 1)                                                                                       \
    STRUCT(tlc_delta_info, 1)                                                                                          \
    STRUCT(tlc_delta_piece, 1)                                                                                         \
    STRUCT(tlc_weights_entry, 1)                                                                                       \
    STRUCT(tlc_weights_writer_config, 1)                                                                               \
    STRUCT(tlc_weights_reader_config, 1)                                                                               \
    STRUCT(tlc_weights_info, 1)                                                                                        \
    STRUCT(tlc_tensor, 0)                                                                                              \
    STRUCT(tlc_outcome, 1)                                                                                             \
    STRUCT(tlc_exchange_stats, 1)                                                                                      \
    STRUCT(tlc_part, 1)                                                                                                \
    STRUCT(tlc_push_info, 1)                                                                                           \
    STRUCT(tlc_graph, 1)                                                                                               \
    STRUCT(tlc_local_config, 0)                                                                                        \
    STRUCT(tlc_local_tensor, 1)                                                                                        \
    STRUCT(tlc_quartic_params, 1)                                                                                      \
    STRUCT(tlc_members_params, 1)                                                                                      \
    STRUCT(tlc_stochastic_ternary_params, 1)                                                                           \
    STRUCT(tlc_golomb_params, 1)                                                                                       \
    STRUCT(tlc_levels_params, 1)                                                                                       \
    STRUCT(tlc_natural_params, 1)                                                                                      \
    STRUCT(tlc_natural_aggregate_params, 1)                                                                            \
    STRUCT(tlc_topk_params, 1)                                                                                         \
    STRUCT(tlc_random_sparse_params, 1)

#define STRUCT(type, zero)                                                                                             \
    static tlc_status start_##type(void *s, size_t size)                                                               \
    {                                                                                                                  \
        return type##_init(s, size);                                                                                   \
    }
STRUCTS
#undef STRUCT

static const struct row {
    const char *name;
    tlc_status (*start)(void *s, size_t size);
    size_t size;
    int zero;
} rows[] = {
#define STRUCT(type, zero) {#type, start_##type, sizeof(type), zero},
    STRUCTS};

enum { ROOM = 1024, MARK = 0xa5 };

/* Callers of older and newer versions have smaller and larger structs: no byte past theirs is written. */
TEST(sizes)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *r = &rows[i];
        set_note(r->name);
        for (size_t size = 0; size <= r->size + 24; size++) {
            uint8_t bytes[ROOM];
            size_t given, end = size;

            require(r->size + 24 < ROOM);
            memset(bytes, MARK, sizeof bytes);
            if (size < sizeof size) {
                require_status(r->start(bytes, size), TLC_ERR_PARAM);
                end = 0;
            } else {
                require_status(r->start(bytes, size), TLC_OK);
                memcpy(&given, bytes, sizeof given);
                require(given == size);
                for (size_t j = r->zero ? sizeof given : r->size; j < size; j++)
                    require(!bytes[j]);
            }
            for (size_t j = end; j < sizeof bytes; j++)
                require(bytes[j] == MARK);
        }
        require_status(r->start(NULL, r->size), TLC_ERR_PARAM);
    }
}
