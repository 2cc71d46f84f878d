/* SPDX-License-Identifier: MIT */
#include "sim_kind.h"
#include "../parse.h"
#include <stdio.h>
#include <string.h>

static bool parse_graph(const char *text, tlc_graph_kind *graph)
{
    const char *name;

    for (*graph = TLC_RING; (name = layout_graph_name(*graph)); ++*graph) {
        if (!strcmp(text, name))
            return true;
    }
    return false;
}

/* text: what comes after the colon; NULL: there is no colon. */
static bool parse_kind(const layout_kind *kind, const char *text, sim_kind *parsed)
{
    size_list number = {.count = 1, .items = {1}};

    *parsed = (sim_kind){.kind = kind, .graph = TLC_RING};
    if (text && kind->has_graph)
        return parse_graph(text, &parsed->graph);
    if (kind->has_site)
        return text && parse_size(text, &parsed->site) && parsed->site >= MIN_RANKS;
    if (text &&
        ((!kind->has_servers && !kind->has_owners) || !parse_counts(text, MAX_SERVERS, &number) || number.count != 1))
        return false;
    parsed->servers = kind->has_servers ? number.items[0] : 0;
    parsed->owners = kind->has_owners && text ? number.items[0] : 0;
    return true;
}

bool sim_kind_parse(const char *text, sim_kind *kind)
{
    size_t len = strcspn(text, ":");

    for (size_t i = 0; i < LAYOUT_KINDS; i++) {
        const layout_kind *named = layout_kinds[i];
        if (strlen(named->name) == len && !strncmp(text, named->name, len))
            return parse_kind(named, text[len] ? text + len + 1 : NULL, kind);
    }
    return false;
}

const char *sim_kind_text(const sim_kind *kind, char *buffer)
{
    size_t number = kind->servers ? kind->servers : kind->site ? kind->site : kind->owners;

    if (kind->kind->has_graph)
        snprintf(buffer, KIND_TEXT, "%s:%s", kind->kind->name, layout_graph_name(kind->graph));
    else if (number)
        snprintf(buffer, KIND_TEXT, "%s:%zu", kind->kind->name, number);
    else
        snprintf(buffer, KIND_TEXT, "%s", kind->kind->name);
    return buffer;
}
