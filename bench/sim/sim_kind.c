/* SPDX-License-Identifier: MIT */
#include "sim_kind.h"
#include "../lib/explain.h"
#include <stdio.h>
#include <string.h>

static bool parse_graph(const char *text, tlc_graph_kind *graph, char *why)
{
    const char *names[TLC_GRAPH_COMPLETE + 2] = {NULL};
    int choice;

    for (tlc_graph_kind g = TLC_GRAPH_RING; layout_graph_name(g); g = (tlc_graph_kind)(g + 1))
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

    *parsed = (sim_kind){.kind = kind, .graph = TLC_GRAPH_RING};
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

static bool parse_kind(const char *text, bool sites, sim_kind *kind, char *why)
{
    const size_t len = strcspn(text, ":");
    const layout_kind *kinds[LAYOUT_KINDS];
    const char *names[LAYOUT_KINDS + 1] = {NULL};
    char name[KIND_TEXT], reason[WHY_SIZE];
    int choice;

    for (size_t i = 0, count = 0; i < LAYOUT_KINDS; i++) {
        if (layout_kinds[i]->has_site && !sites)
            continue;
        kinds[count] = layout_kinds[i];
        names[count++] = layout_kinds[i]->name;
    }
    snprintf(name, sizeof name, "%.*s", (int)len, text);
    if (!parse_choice(name, names, &choice, why))
        return false;
    if (!text[len])
        return parse_detail(kinds[choice], NULL, kind, why);
    return parse_detail(kinds[choice], text + len + 1, kind, reason) ||
           explain(why, "after the colon, %.4000s", reason);
}

bool sim_choice_add_kind(sim_choice *c, const char *text, bool sites, char *why)
{
    return c->kind_count < MAX_LIST ? parse_kind(text, sites, &c->kinds[c->kind_count++], why)
                                    : explain(why, "there may be %d kinds", MAX_LIST);
}

bool sim_choice_add_codec(sim_choice *c, const char *codec, char *why)
{
    if (c->codec_count == MAX_CODECS)
        return explain(why, "there may be %d codecs", MAX_CODECS);
    c->codecs[c->codec_count++] = codec;
    return true;
}

void sim_choice_set_defaults(sim_choice *c, const char *const *unbiased)
{
    static const char *const kinds[] = {"all-reduce", "gather", "server"};
    static const char *const biased[] = {"3lc", "3lc-golomb", "sbc", "natural", NULL};
    const char *const *codecs = unbiased;
    const bool kinds_named = c->kind_count, codecs_named = c->codec_count;
    char why[WHY_SIZE]; /* defaults are no errors */

    for (size_t i = 0; !kinds_named && i < sizeof kinds / sizeof kinds[0]; i++)
        (void)sim_choice_add_kind(c, kinds[i], false, why);
    for (size_t i = 0; i < c->kind_count; i++)
        codecs = c->kinds[i].kind->takes ? codecs : biased;
    for (size_t i = 0; !codecs_named && codecs[i]; i++)
        (void)sim_choice_add_codec(c, codecs[i], why);
}

static bool is_in(const codec_set *set, const char *codec)
{
    for (size_t i = 0; i < set->count; i++) {
        if (!strcmp(set->codecs[i], codec))
            return true;
    }
    return false;
}

bool sim_choice_check(const sim_choice *c, const char *const *sets, char *why)
{
    for (size_t i = 0; i < c->codec_count; i++) {
        if (!codec_check("--codec", c->codecs[i], sets, why))
            return false;
    }
    for (size_t k = 0; k < c->kind_count; k++) {
        bool any = false;
        for (size_t i = 0; i < c->codec_count; i++)
            any = any || sim_kind_takes(&c->kinds[k], c->codecs[i]);
        if (!any)
            return explain(why, "--kind %s: it needs a codec without bias and error feedback, as qsgd:bits=8",
                           c->kinds[k].kind->name);
    }
    for (size_t i = 0; i < c->codec_count; i++) {
        bool any = is_in(&c->all, c->codecs[i]);
        for (size_t k = 0; k < c->kind_count; k++)
            any = any || sim_kind_takes(&c->kinds[k], c->codecs[i]);
        if (!any)
            return explain(why, "--codec %s: --kind %s needs a codec without bias and error feedback, as qsgd:bits=8",
                           c->codecs[i], c->kinds[0].kind->name);
    }
    return true;
}

bool sim_choice_has_servers(const sim_choice *c)
{
    bool has = false;

    for (size_t i = 0; i < c->kind_count; i++)
        has = has || c->kinds[i].servers;
    return has;
}
