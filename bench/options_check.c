/* SPDX-License-Identifier: MIT
 *
 * Which options go together.
 */
#include "options_check.h"
#include "explain.h"

bool options_have_papers(const options *o)
{
    bool has = false;

    for (size_t i = 0; i < o->codec_count; i++)
        has = has || o->codecs[i].paper;
    return has;
}

const char *options_view_name(report_view view)
{
    switch (view) {
    case VIEW_ROOFLINE: return "--roofline";
    case VIEW_SMALL: return "--small";
    case VIEW_DENSITY: return "--density";
    case VIEW_AGGREGATE: return "--aggregate";
    default: return NULL;
    }
}

static bool check_codecs(const options *o, char *why)
{
    char message[1024];

    for (size_t i = 0; i < o->codec_count; i++) {
        const char *codec = o->codecs[i].codec;
        channel_options sent = options_channel(o, &o->codecs[i]);
        if (tlc_codec_check(codec, message, sizeof message))
            return explain(why, "--codec %s: %s", codec, message);
        if (sent.delay > 1 && !codec_has_residual(codec, sent.feedback))
            return explain(why, "--delay %zu: %s has no error feedback (--feedback on gives it)", sent.delay, codec);
        if (o->view == VIEW_AGGREGATE && !codec_aggregates(codec))
            return explain(why, "--codec %s: --aggregate takes natural only, and no blocks", codec);
    }
    return true;
}

/* These options have no meaning for an aggregator. */
static bool check_aggregate(const options *o, char *why)
{
    const struct {
        bool given;
        const char *name;
    } others[] = {
        {o->threads.count, "--threads"},
        {o->assume_finite, "--assume-finite"},
        {o->channel.delay, "--delay"},
        {o->source.steps, "--steps"},
        {o->source.dtype != TLC_F32, "--dtype"},
        {o->channel.isa != TLC_ISA_AUTO, "--isa"},
        {o->channel.feedback >= 0, "--feedback"},
        {o->per_tensor, "--per-tensor"},
    };

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].given)
            return explain(why, "%s does not go with --aggregate", others[i].name);
    }
    return true;
}

bool options_check(const options *o, char *why)
{
    const char *view = options_view_name(o->view);

    if ((view || o->synthetic) && o->path_count)
        return explain(why, "%s: no files go with %s", o->paths[0], view ? view : "--synthetic");
    if (!view && !o->synthetic && !o->path_count)
        return explain(why, "no input: name files or folders, or use --synthetic (--help tells more)");
    if (o->source.cold && (view || o->synthetic))
        return explain(why, "--cold goes with files; with %s residuals always start from zero",
                       view ? view : "--synthetic");
    if (o->view == VIEW_DENSITY && o->synthetic)
        return explain(why, "--synthetic does not go with --density");
    if (o->sizes.count && !view && !o->synthetic)
        return explain(why, "--sizes goes with --synthetic, --roofline, --small, --density or --aggregate");
    if (o->source.has_values && (view || o->sizes.count))
        return explain(why, "--values does not go with %s", o->sizes.count ? "--sizes" : view);
    if (!tlc_isa_supported(o->channel.isa))
        return explain(why, "--isa %s: this machine or build does not support it", tlc_isa_name(o->channel.isa));
    if (o->channel.delay > 1 && !o->channel.feedback)
        return explain(why, "--delay %zu: --feedback off leaves no residual", o->channel.delay);
    if (options_have_papers(o) && (o->channel.delay || o->channel.feedback >= 0))
        return explain(why, "--%s does not go with --codec papers: its rows have their own",
                       o->channel.delay ? "delay" : "feedback");
    return (o->view != VIEW_AGGREGATE || check_aggregate(o, why)) && check_codecs(o, why);
}
