/* SPDX-License-Identifier: MIT */
#include "layout.h"

const layout_kind *const layout_kinds[LAYOUT_KINDS] = {&layout_all_reduce, &layout_owners, &layout_gather,
                                                       &layout_server,     &layout_gossip, &layout_groups};

const char *layout_graph_name(tlc_graph_kind graph)
{
    static const char *const names[] =
        {[TLC_GRAPH_RING] = "ring", [TLC_GRAPH_TORUS] = "torus", [TLC_GRAPH_COMPLETE] = "complete"};

    return (size_t)graph < sizeof names / sizeof names[0] ? names[graph] : NULL;
}
