/* SPDX-License-Identifier: MIT */
#include "mpi_options.h"
#include "../lib/common_options.h"
#include "../lib/explain.h"
#include <stdlib.h>
#include <string.h>

#define OPTIONS mpi_options

/* ---- values of options ------------------------------------------------------------------------------------------- */

static bool add_codec(void *options, const char *codec, char *why)
{
    return sim_choice_add_codec(&((mpi_options *)options)->choice, codec, why);
}

static bool set_shapes(void *options, const char *path, char *why)
{
    mpi_options *o = options;

    if (o->shapes)
        return explain(why, "there may be one list of tensors, and --shapes %.4000s was given before", o->shapes);
    o->shapes = path;
    return true;
}

static bool add_kind(void *options, const char *item, char *why)
{
    return sim_choice_add_kind(&((mpi_options *)options)->choice, item, false, why);
}

static bool add_handles(void *options, const char *item, char *why)
{
    static const char *const names[] = {"layers", NULL};
    size_list *l = &((mpi_options *)options)->handles;
    size_t count = HANDLE_PER_TENSOR, len;

    if (l->count == MAX_LIST)
        return explain(why, "there may be %d numbers", MAX_LIST);
    if (strcmp(item, names[0]) != 0 && !parse_size(item, 1, SIZE_MAX, &count, why)) {
        len = strlen(why);
        snprintf(why + len, WHY_SIZE - len, ", or layers");
        (void)parse_suggest(item, "", names, why);
        return false;
    }
    l->items[l->count++] = count;
    return true;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const option_entry entries[] = {
    {0, "shapes", "FILE", "the model: a list of tensors, as in bench/shapes", OPTION_BY(set_shapes)},
    {'c', "codec", "CODEC",
     "a codec; repeat it for more (default: 3lc, 3lc-golomb, sbc,\nnatural; with gossip alone natural)",
     OPTION_BY(add_codec)},
    {0, "pull", "CODEC",
     "of answers; same: the codec of the pushes; goes with --no-predict\n"
     "(default: one that keeps up with the codec of the pushes)",
     OPTION_AT(TEXT, pull)},
    ENTRY_LIST,
    {0, "kind", "LIST",
     "all-reduce (all-reduce:8: with 8 owners), owners (owners:8),\n"
     "gather, server (server:4: 4 of them), gossip:GRAPH (ring, torus\n"
     "or complete)\n"
     "(default: all-reduce,gather,server)",
     OPTION_EACH(add_kind)},
    {0, "apart", NULL, "servers are ranks of their own, not workers, too", OPTION_AT(FLAG, apart)},
    {0, "handles", "LIST",
     "handles that share the model: numbers, or layers, one for each\n"
     "tensor (default 1)",
     OPTION_EACH(add_handles)},
    {0, "compute", "TIME",
     "of arithmetic in a step, as 30ms, the last tensor first;\n"
     "handles start as it goes on (default 0: the exchange alone)",
     OPTION_AT(TIME, compute)},
    {0, "even", NULL, "each tensor takes the same time to compute, whatever its size", OPTION_AT(FLAG, even)},
    {0, "offload", NULL, "an accelerator computes: the core sleeps meanwhile", OPTION_AT(FLAG, offload)},
    {0, "link", "LINK",
     "the speed of the links, for predictions: 10Mbit, 10Mbit/s,\n"
     "10Mbps, or in bytes 10MB/s, with k, M, G or T; 1Mbit/10Mbit is\n"
     "up and down (default: that of bench/network/run)",
     OPTION_AT(LINK, link)},
    {0, "latency", "TIME",
     "from one rank to another, for predictions, as 30ms, 50us or 2s; a\n"
     "bare number is milliseconds (default: that of bench/network/run)",
     OPTION_AT(TIME, latency)},
    {0, "no-predict", NULL, "only measure", OPTION_AT(FLAG, no_predict)},
    ENTRIES_STEPS,
    ENTRY_ISA(isa),
    ENTRY_FORMAT,
    ENTRIES_LAST,
};

const option_table mpi_options_table = {
    .usage = "usage: mpiexec -n RANKS tlc-mpi-bench --shapes FILE [OPTION]...\n"
             "\n"
             "Steps of an exchange over MPI, for codecs and for floats, in turn. Each rank is a worker.\n"
             "\n",
    .entries = entries,
    .count = sizeof entries / sizeof entries[0],
    .notes = "\n"
             "all-reduce: each rank owns a part of the model and answers with means; owners: the same, with changes\n"
             "of the model, as the owner has the optimizer; gather: all send to all; server: the last ranks are\n"
             "servers, too; gossip: nodes of a graph send to their neighbours; codecs without bias and feedback.\n"
             "Without a codec: floats and halves: MPI_Allreduce of 32 and 16 bits; push-pull: floats to as many\n"
             "servers and back, or to all ranks, each with a part of the model.\n"
             "\n"
             "sent        bytes that the busiest worker sends in a step\n"
             "codec       time of calls of the library, or of sums of floats, on the rank with most of it\n"
             "wire        step - compute - codec\n"
             "step        of the slowest rank; the median of all rounds, and the best\n"
             "gain        step - compute of push-pull / that of the row\n"
             "predicted   what tlc-sim predicts: for one handle the step, for several what it calls overlap\n"
             "\n"
             "Exit status: 0 on success, 1 if a call, a result or the output fails, 2 for bad files or options.\n",
    .no_files = "it is no option; a list of tensors goes with --shapes",
};

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

/* Without --link the link of bench/network/run, if the program runs there: the environment says so. */
static bool set_link(mpi_options *o, char *why)
{
    const char *rate = getenv("TLC_NETWORK_RATE"), *time = getenv("TLC_NETWORK_LATENCY");
    model_link link = {0, 0};
    double latency = 0;
    char reason[WHY_SIZE];

    o->from_network = rate && time;
    if (o->from_network && !parse_link(rate, &link.up, &link.down, reason))
        return explain(why, "TLC_NETWORK_RATE %s: %.4000s", rate, reason);
    if (o->from_network && !parse_time(time, 1e-3, &latency, reason))
        return explain(why, "TLC_NETWORK_LATENCY %s: %.4000s", time, reason);
    if (o->latency >= 0 && o->link.up <= 0 && !o->from_network)
        return explain(why, "--latency goes with --link: without it nothing is predicted");
    if (o->link.up <= 0)
        o->link = link;
    if (o->latency < 0)
        o->latency = latency;
    return true;
}

static bool check(const mpi_options *o, char *why)
{
    static const char *const pulls[] = {PULL_SAME, NULL};

    if (!o->shapes)
        return explain(why, "name a list of tensors with --shapes, as bench/shapes/resnet110.txt (--help tells more)");
    if (o->source.cold && !o->traces)
        return explain(why, "--cold goes with --traces");
    if ((o->even || o->offload) && o->compute <= 0)
        return explain(why, "--%s goes with --compute", o->even ? "even" : "offload");
    if (!tlc_isa_supported(o->isa))
        return explain(why, "--isa %s: this machine or build does not support it", tlc_isa_name(o->isa));
    if (o->pull && !o->no_predict)
        return explain(why, "--pull goes with --no-predict: tlc-sim has other answers");
    if (o->pull && strcmp(o->pull, PULL_SAME) != 0 && !codec_check("--pull", o->pull, pulls, why))
        return false;
    if (o->apart && !sim_choice_has_servers(&o->choice))
        return explain(why, "--apart goes with --kind server");
    return sim_choice_check(&o->choice, NULL, why);
}

bool mpi_options_parse(mpi_options *o, int argc, char **argv, char *why)
{
    static const char *const unbiased[] = {"natural", NULL};

    *o = (mpi_options){.source.seed = 1, .warmup = 5, .rounds = 5, .latency = -1};
    if (!option_table_parse(&mpi_options_table, o, argc, argv, why))
        return false;
    if (o->command != COMMAND_RUN)
        return true;
    if (o->no_predict && (o->link.up > 0 || o->latency >= 0))
        return explain(why, "--%s goes without --no-predict", o->link.up > 0 ? "link" : "latency");
    sim_choice_set_defaults(&o->choice, unbiased);
    if (!o->handles.count)
        o->handles = (size_list){.count = 1, .items = {1}};
    return set_link(o, why) && check(o, why);
}

bool mpi_options_check_ranks(const mpi_options *o, size_t ranks, char *why)
{
    for (size_t i = 0; i < o->choice.kind_count; i++) {
        size_t servers = o->choice.kinds[i].servers;
        if (o->apart && servers >= ranks)
            return explain(why, "--kind server:%zu --apart: of %zu ranks none is left for a worker", servers, ranks);
        if (servers > ranks)
            return explain(why, "--kind server:%zu: there are only %zu ranks", servers, ranks);
    }
    return true;
}
