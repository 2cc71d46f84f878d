/* SPDX-License-Identifier: MIT */
#include "sim_options.h"
#include "../lib/common_options.h"
#include "../lib/explain.h"
#include "device.h"
#include <string.h>

#define OPTIONS sim_options

/* ---- values of options ------------------------------------------------------------------------------------------ */

static bool add_shapes(void *options, const char *path, char *why)
{
    sim_options *o = options;

    if (o->shape_count == MAX_MODELS)
        return explain(why, "there may be %d lists of tensors", MAX_MODELS);
    o->shapes[o->shape_count++] = path;
    return true;
}

static bool add_codecs(void *options, const char *codec, char *why)
{
    sim_choice *c = &((sim_options *)options)->choice;
    bool ok;

    if (strcmp(codec, "all") != 0)
        return sim_choice_add_codec(c, codec, why);
    if (c->all.count)
        return true;
    ok = codecs_all(&c->all) || explain(why, "there may be %d codecs", MAX_CODECS);
    for (size_t i = 0; ok && i < c->all.count; i++)
        ok = sim_choice_add_codec(c, c->all.codecs[i], why);
    return ok;
}

static bool add_link(void *options, const char *item, char *why)
{
    sim_options *o = options;
    model_link *link = &o->links[o->link_count];

    if (o->link_count == MAX_LIST)
        return explain(why, "there may be %d links", MAX_LIST);
    o->link_count++;
    return parse_link(item, &link->up, &link->down, why);
}

static bool add_kind(void *options, const char *item, char *why)
{
    return sim_choice_add_kind(&((sim_options *)options)->choice, item, true, why);
}

static bool take_memory(void *options, const char *value, char *why)
{
    sim_options *o = options;

    o->memory_text = value;
    return parse_size(value, 1, SIZE_MAX, &o->memory, why);
}

static bool take_device(void *options, const char *value, char *why)
{
    sim_options *o = options;

    o->device_text = value;
    return device_parse(value, &o->device, why);
}

/* ---- the table -------------------------------------------------------------------------------------------------- */

static const option_entry entries[] = {
    {0, "shapes", "FILE", "the model: a list of tensors, as in bench/shapes; repeat it\nfor more",
     OPTION_BY(add_shapes)},
    {'c', "codec", "CODEC",
     "a codec, or all; repeat it for more (default: 3lc, 3lc-golomb,\n"
     "sbc, natural)",
     OPTION_BY(add_codecs)},
    ENTRY_LIST,
    {0, "kind", "LIST",
     "all-reduce (all-reduce:8: with 8 owners), owners (owners:8),\n"
     "gather, server (server:4: 4 of them), gossip:GRAPH (ring, torus\n"
     "or complete), groups:8 (sites of 8 ranks)\n"
     "(default: all-reduce,gather,server)",
     OPTION_EACH(add_kind)},
    {0, "ranks", "LIST", "numbers of machines that train, as 2,4,8 (default 4)",
     OPTION_IN(LIST, ranks, MIN_RANKS, MAX_SIM_RANKS)},
    {0, "link", "LIST",
     "speeds of their links, as 10Mbit,2.5Gbit, also Mbit/s or Mbps,\n"
     "or in bytes MB/s, with k, M, G or T; 1Mbit/10Mbit is up and down\n"
     "(default 100Mbit,1Gbit,10Gbit)",
     OPTION_EACH(add_link)},
    {0, "server-link", "LINK", "speed of the links of servers (default: as ranks)", OPTION_AT(LINK, server_link)},
    {0, "site-link", "LINK", "speed of links inside a site of groups (default: as --link)", OPTION_AT(LINK, site_link)},
    {0, "latency", "TIME",
     "from one machine to another, as 30ms, 50us or 2s; a bare number\nis milliseconds (default 0)",
     OPTION_AT(TIME, latency)},
    {0, "site-latency", "TIME", "the same inside a site of groups (default: as --latency)",
     OPTION_AT(TIME, site_latency)},
    {0, "device", "DEVICE",
     "gradients are on a GPU: h100 or rtx4090 (PCIe 4), or the rates of\n"
     "its memory and of the bus to its host, as 3350GB/s:25GB/s; a step\n"
     "then has both (default: on the host)",
     OPTION_BY(take_device)},
    {0, "compute", "TIME", "that a gradient takes, as 30ms (default 0: the exchange alone)", OPTION_AT(TIME, compute)},
    {0, "local-steps", "K",
     "an exchange after each K steps, as in DiLoCo and federated\n"
     "averaging: a step is then a round, and changes of the model are\n"
     "sent, made of those in DIR/changes of --traces, if there are any\n"
     "(in bench/data: changes of 20 steps)",
     OPTION_IN(COUNT, local_steps, 1, MAX_LOCAL_STEPS)},
    ENTRIES_STEPS,
    {0, "memory", "BYTES",
     "memory for machines; suffixes Ki, Mi, Gi; if they need more, one\n"
     "is run and the others are replayed (default: half of all)",
     OPTION_BY(take_memory)},
    ENTRY_ISA(isa),
    ENTRY_WIDE,
    ENTRY_FORMAT,
    ENTRIES_LAST,
};

const option_table sim_options_table = {
    .usage = "usage: tlc-sim --shapes FILE [OPTION]...\n"
             "\n"
             "Which codec and which exchange for my link? Machines that train a model together run in this process.\n"
             "What they send is counted, what their calls take is measured, and what a step takes is predicted.\n"
             "\n",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .notes = "\n"
             "all-reduce: each rank owns a part of the model and answers with means; owners: the same, with changes\n"
             "of the model, as the owner has the optimizer; gather: all send to all; server: ranks are workers;\n"
             "gossip: no common model, nodes of a graph send to their neighbours; codecs without bias and feedback;\n"
             "groups: an exchange inside each site, and one between the sites.\n"
             "sent        bytes that the busiest rank sends in a step\n"
             "codec       time of the calls of one core: of the busiest machine of each call, one after the other\n"
             "step        compute + codec + latencies + bytes of the busiest machine / its link; of a round: with\n"
             "            the computing of K steps\n"
             "device      with --device: bytes through its memory / its rate + bytes to the host and back / the bus;\n"
             "            computed, not measured; codec is what the host does with what crosses; floats cross, too\n"
             "overlap     the same if all of that happens at once\n"
             "floats      the same step with floats: ring all-reduce or push and pull, whichever is faster\n"
             "halves      ring all-reduce of 16-bit floats, without their conversion\n"
             "gain        floats / step: times as fast\n"
             "break-even  the speed of the links at which floats are as fast\n"
             "~           with --traces: the same as the fastest row, with drawn laplace values\n"
             "\n"
             "Exit status: 0 on success, 1 if a call or the output fails, 2 for bad files or options.\n",
    .no_files = "it is no option; lists of tensors go with --shapes",
};

/* ---- parsing ---------------------------------------------------------------------------------------------------- */

static void set_defaults(sim_options *o)
{
    static const char *const unbiased[] = {"qsgd:bits=8", "qsgd:bits=4", NULL};
    char why[WHY_SIZE]; /* defaults are no errors */

    sim_choice_set_defaults(&o->choice, unbiased);
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

/* Ranks that train alone between exchanges have the optimizer, and a common model. */
static bool check_local(const sim_options *o, char *why)
{
    for (size_t i = 0; o->local_steps && i < o->choice.kind_count; i++) {
        const layout_kind *kind = o->choice.kinds[i].kind;
        if (kind == &layout_owners || kind == &layout_gossip)
            return explain(why, "--local-steps goes without --kind %s", kind->name);
    }
    return true;
}

static bool check_device(const sim_options *o, char *why)
{
    for (size_t i = 0; o->device_text && i < o->choice.kind_count; i++) {
        if (!o->choice.kinds[i].kind->quantize)
            return explain(why, "--device goes without --kind %s", o->choice.kinds[i].kind->name);
    }
    return true;
}

static bool check(const sim_options *o, char *why)
{
    static const char *const sets[] = {"all", NULL};
    bool sites = false;

    for (size_t i = 0; i < o->choice.kind_count; i++)
        sites = sites || o->choice.kinds[i].site;
    if (!o->shape_count)
        return explain(why, "name a list of tensors with --shapes, as bench/shapes/resnet50.txt (--help tells more)");
    if (o->server_link.up > 0 && !sim_choice_has_servers(&o->choice))
        return explain(why, "--server-link goes with --kind server");
    if (!sites && o->site_link.up > 0)
        return explain(why, "--site-link goes with --kind groups");
    if (!sites && o->site_latency >= 0)
        return explain(why, "--site-latency goes with --kind groups");
    if (o->source.cold && !o->traces)
        return explain(why, "--cold goes with --traces");
    if (!tlc_isa_supported(o->isa))
        return explain(why, "--isa %s: this machine or build does not support it", tlc_isa_name(o->isa));
    if (!sim_choice_check(&o->choice, sets, why))
        return false;
    for (size_t i = 0; i < o->choice.kind_count; i++) {
        if (!check_sites(o, &o->choice.kinds[i], why))
            return false;
    }
    return check_local(o, why) && check_device(o, why);
}

bool sim_options_parse(sim_options *o, int argc, char **argv, char *why)
{
    *o = (sim_options){.source.seed = 1, .warmup = 5, .rounds = 5, .site_latency = -1};
    if (!option_table_parse(&sim_options_table, o, argc, argv, why))
        return false;
    if (o->command != COMMAND_RUN)
        return true;
    set_defaults(o);
    return check(o, why);
}
