/* SPDX-License-Identifier: MIT */
#include "sim_options.h"
#include "../lib/common_options.h"
#include "../lib/explain.h"
#include "rate.h"
#include <string.h>

enum { /* of its own options without a letter */
       KEY_SHAPES = OWN_KEY,
       KEY_KIND,
       KEY_RANKS,
       KEY_LINK,
       KEY_SERVER_LINK,
       KEY_SITE_LINK,
       KEY_SITE_LATENCY,
       KEY_LATENCY,
       KEY_COMPUTE,
       KEY_MEMORY
};

static const option_entry entries[] = {
    {KEY_SHAPES, "shapes", "FILE", "the model: a list of tensors, as in bench/shapes; repeat it\nfor more"},
    {'c', "codec", "CODEC",
     "a codec, or all; repeat it for more (default: 3lc, 3lc-golomb,\n"
     "sbc, natural)"},
    ENTRY_LIST,
    {KEY_KIND, "kind", "LIST",
     "all-reduce (all-reduce:8: with 8 owners), owners (owners:8),\n"
     "gather, server (server:4: 4 of them), gossip:GRAPH (ring, torus\n"
     "or complete), groups:8 (sites of 8 ranks)\n"
     "(default: all-reduce,gather,server)"},
    {KEY_RANKS, "ranks", "LIST", "numbers of machines that train, as 2,4,8 (default 4)"},
    {KEY_LINK, "link", "LIST",
     "speeds of their links, as 10Mbit,2.5Gbit, also Mbit/s or Mbps,\n"
     "or in bytes MB/s, with k, M, G or T; 1Mbit/10Mbit is up and down\n"
     "(default 100Mbit,1Gbit,10Gbit)"},
    {KEY_SERVER_LINK, "server-link", "LINK", "speed of the links of servers (default: as ranks)"},
    {KEY_SITE_LINK, "site-link", "LINK", "speed of links inside a site of groups (default: as --link)"},
    {KEY_LATENCY, "latency", "TIME",
     "from one machine to another, as 30ms, 50us or 2s; a bare number\nis milliseconds (default 0)"},
    {KEY_SITE_LATENCY, "site-latency", "TIME", "the same inside a site of groups (default: as --latency)"},
    {KEY_COMPUTE, "compute", "TIME", "that a gradient takes, as 30ms (default 0: the exchange alone)"},
    ENTRY_TRACES,
    ENTRY_COLD,
    ENTRY_STEPS,
    ENTRY_SEED,
    ENTRY_WARMUP,
    ENTRY_ROUNDS,
    {KEY_MEMORY, "memory", "BYTES",
     "memory for machines; suffixes Ki, Mi, Gi; if they need more, one\n"
     "is run and the others are replayed (default: half of all)"},
    ENTRY_ISA,
    ENTRY_WIDE,
    ENTRY_FORMAT,
    ENTRY_QUIET,
    ENTRY_HELP,
    ENTRY_VERSION,
};

static bool take(void *options, int key, const char *value, char *why);
static const option_table table = {entries, sizeof entries / sizeof entries[0], take};

void sim_options_print_help(FILE *f)
{
    fputs("usage: tlc-sim --shapes FILE [OPTION]...\n"
          "\n"
          "Which codec and which exchange for my link? Machines that train a model together run in this process.\n"
          "What they send is counted, what their calls take is measured, and what a step takes is predicted.\n"
          "\n",
          f);
    option_table_print(f, &table);
    fputs("\n"
          "all-reduce: each rank owns a part of the model and answers with means; owners: the same, with changes\n"
          "of the model, as the owner has the optimizer; gather: all send to all; server: ranks are workers;\n"
          "gossip: no common model, nodes of a graph send to their neighbours; codecs without bias and feedback;\n"
          "groups: an exchange inside each site, and one between the sites.\n"
          "sent        bytes that the busiest rank sends in a step\n"
          "codec       time of the calls of one core: of the busiest machine of each call, one after the other\n"
          "step        compute + codec + latencies + bytes of the busiest machine / its link\n"
          "overlap     the same if all of that happens at once\n"
          "floats      the same step with floats: ring all-reduce or push and pull, what is faster\n"
          "halves      ring all-reduce of 16-bit floats, without their conversion\n"
          "gain        floats / step: times as fast\n"
          "break-even  the speed of the links from which on floats are as fast\n"
          "\n"
          "Exit status: 0 on success, 1 if a call or the output fails, 2 for bad files or options.\n",
          f);
}

/* ---- values of options ------------------------------------------------------------------------------------------ */

static bool add_shapes(sim_options *o, const char *path, char *why)
{
    if (o->shape_count == MAX_MODELS)
        return explain(why, "there may be %d lists of tensors", MAX_MODELS);
    o->shapes[o->shape_count++] = path;
    return true;
}

static bool add_codec(sim_options *o, const char *codec, char *why)
{
    if (o->codec_count == MAX_CODECS)
        return explain(why, "there may be %d codecs", MAX_CODECS);
    o->codecs[o->codec_count++] = codec;
    return true;
}

static bool add_codecs(sim_options *o, const char *codec, char *why)
{
    bool ok;

    if (strcmp(codec, "all") != 0)
        return add_codec(o, codec, why);
    if (o->all.count)
        return true;
    ok = codecs_all(&o->all) || explain(why, "there may be %d codecs", MAX_CODECS);
    for (size_t i = 0; ok && i < o->all.count; i++)
        ok = add_codec(o, o->all.codecs[i], why);
    return ok;
}

static bool take_link(const char *text, model_link *link, char *why)
{
    return parse_link(text, &link->up, &link->down, why);
}

static bool add_link(void *options, const char *item, char *why)
{
    sim_options *o = options;

    return o->link_count < MAX_LIST ? take_link(item, &o->links[o->link_count++], why)
                                    : explain(why, "there may be %d links", MAX_LIST);
}

static bool add_kind(void *options, const char *item, char *why)
{
    sim_options *o = options;

    return o->kind_count < MAX_LIST ? sim_kind_parse(item, true, &o->kinds[o->kind_count++], why)
                                    : explain(why, "there may be %d kinds", MAX_LIST);
}

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

static bool take(void *options, int key, const char *value, char *why)
{
    sim_options *o = options;
    const common_options common = {.command = &o->command,
                                   .source = &o->source,
                                   .traces = &o->traces,
                                   .warmup = &o->warmup,
                                   .rounds = &o->rounds,
                                   .isa = &o->isa,
                                   .format = &o->format,
                                   .wide = &o->wide,
                                   .quiet = &o->quiet};

    switch (key) {
    case KEY_SHAPES: return add_shapes(o, value, why);
    case 'c': return add_codecs(o, value, why);
    case KEY_KIND: return parse_items(value, add_kind, o, why);
    case KEY_RANKS: return parse_list(value, MIN_RANKS, MAX_SIM_RANKS, &o->ranks, why);
    case KEY_LINK: return parse_items(value, add_link, o, why);
    case KEY_SERVER_LINK: return take_link(value, &o->server_link, why);
    case KEY_SITE_LINK: return take_link(value, &o->site_link, why);
    case KEY_LATENCY: return parse_time(value, 1e-3, &o->latency, why);
    case KEY_SITE_LATENCY: return parse_time(value, 1e-3, &o->site_latency, why);
    case KEY_COMPUTE: return parse_time(value, 1e-3, &o->compute, why);
    case KEY_MEMORY: o->memory_text = value; return parse_size(value, 1, SIZE_MAX, &o->memory, why);
    default: return common_options_take(&common, key, value, why);
    }
}

/* Kinds that do not take all codecs have others. */
static void set_default_codecs(sim_options *o)
{
    static const char *const codecs[] = {"3lc", "3lc-golomb", "sbc", "natural"};
    static const char *const unbiased[] = {"qsgd:bits=8", "qsgd:bits=4"};
    bool any = false;
    char why[WHY_SIZE]; /* defaults are no errors */

    for (size_t i = 0; i < o->kind_count; i++)
        any = any || !o->kinds[i].kind->takes;
    for (size_t i = 0; any && i < sizeof codecs / sizeof codecs[0]; i++)
        (void)add_codec(o, codecs[i], why);
    for (size_t i = 0; !any && i < sizeof unbiased / sizeof unbiased[0]; i++)
        (void)add_codec(o, unbiased[i], why);
}

static void set_defaults(sim_options *o)
{
    char why[WHY_SIZE]; /* defaults are no errors */

    if (!o->kind_count)
        (void)parse_items("all-reduce,gather,server", add_kind, o, why);
    if (!o->codec_count)
        set_default_codecs(o);
    if (!o->ranks.count)
        o->ranks = (size_list){.count = 1, .items = {4}};
    if (!o->link_count)
        (void)parse_items("100Mbit,1Gbit,10Gbit", add_link, o, why);
}

static bool check_sites(const sim_options *o, const sim_kind *kind, char *why)
{
    for (size_t i = 0; kind->site && i < o->ranks.count; i++) {
        if (o->ranks.items[i] % kind->site)
            return explain(why, "--kind groups:%zu: %zu ranks are not a multiple of it", kind->site, o->ranks.items[i]);
    }
    return true;
}

static bool check(const sim_options *o, char *why)
{
    static const char *const sets[] = {"all", NULL};
    bool servers = false, sites = false;

    for (size_t i = 0; i < o->kind_count; i++) {
        servers = servers || o->kinds[i].servers;
        sites = sites || o->kinds[i].site;
    }
    if (!o->shape_count)
        return explain(why, "name a list of tensors with --shapes, as bench/shapes/resnet50.txt (--help tells more)");
    if (o->server_link.up > 0 && !servers)
        return explain(why, "--server-link goes with --kind server");
    if (!sites && o->site_link.up > 0)
        return explain(why, "--site-link goes with --kind groups");
    if (!sites && o->site_latency >= 0)
        return explain(why, "--site-latency goes with --kind groups");
    if (o->source.cold && !o->traces)
        return explain(why, "--cold goes with --traces");
    if (!tlc_isa_supported(o->isa))
        return explain(why, "--isa %s: this machine or build does not support it", tlc_isa_name(o->isa));
    for (size_t i = 0; i < o->codec_count; i++) {
        if (!codec_check("--codec", o->codecs[i], sets, why))
            return false;
    }
    for (size_t i = 0; i < o->kind_count; i++) {
        if (!check_sites(o, &o->kinds[i], why))
            return false;
    }
    return sim_kind_check(o->kinds, o->kind_count, o->codecs, o->codec_count, &o->all, why);
}

bool sim_options_parse(sim_options *o, int argc, char **argv, char *why)
{
    int files;

    *o = (sim_options){.source.seed = 1, .warmup = 5, .rounds = 5, .site_latency = -1};
    if (!option_table_parse(&table, o, argc, argv, &files, why))
        return false;
    if (o->command != COMMAND_RUN)
        return true;
    if (files < argc)
        return explain(why, "%s: it is no option; lists of tensors go with --shapes", argv[files]);
    set_defaults(o);
    return check(o, why);
}
