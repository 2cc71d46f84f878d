/* SPDX-License-Identifier: MIT */
#include "sim_kind.h"
#include "../explain.h"
#include "../parse.h"
#include <stdio.h>
#include <string.h>

static bool parse_graph(const char *text, tlc_graph_kind *graph, char *why)
{
    const char *names[TLC_COMPLETE + 2] = {NULL};
    int choice;

    for (tlc_graph_kind g = TLC_RING; layout_graph_name(g); g = (tlc_graph_kind)(g + 1))
        names[g] = layout_graph_name(g);
    if (!parse_choice(text, names, &choice, why))
        return false;
    *graph = (tlc_graph_kind)choice;
    return true;
}

/* text: what comes after the colon; NULL: there is no colon. */
static bool parse_detail(const layout_kind *kind, const char *text, sim_kind *parsed, char *why)
{
    size_t number = 1;

    *parsed = (sim_kind){.kind = kind, .graph = TLC_RING};
    if (kind->has_site)
        return text ? parse_size(text, MIN_RANKS, SIZE_MAX, &parsed->site, why)
                    : explain(why, "it needs the ranks of a site, as %s:8", kind->name);
    if (text && kind->has_graph)
        return parse_graph(text, &parsed->graph, why);
    if (text && !kind->has_servers && !kind->has_owners)
        return explain(why, "nothing comes after %s", kind->name);
    if (text && !parse_size(text, 1, MAX_SERVERS, &number, why))
        return false;
    parsed->servers = kind->has_servers ? number : 0;
    parsed->owners = kind->has_owners && text ? number : 0;
    return true;
}

bool sim_kind_parse(const char *text, sim_kind *kind, char *why)
{
    const size_t len = strcspn(text, ":");
    const char *names[LAYOUT_KINDS + 1] = {NULL};
    char name[KIND_TEXT], reason[WHY_SIZE];
    int choice;

    for (size_t i = 0; i < LAYOUT_KINDS; i++)
        names[i] = layout_kinds[i]->name;
    snprintf(name, sizeof name, "%.*s", (int)len, text);
    if (!parse_choice(name, names, &choice, why))
        return false;
    if (!text[len])
        return parse_detail(layout_kinds[choice], NULL, kind, why);
    return parse_detail(layout_kinds[choice], text + len + 1, kind, reason) ||
           explain(why, "after the colon, %.4000s", reason);
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
