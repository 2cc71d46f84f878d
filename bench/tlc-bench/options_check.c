/* SPDX-License-Identifier: MIT
 *
 * Which options go together.
 */
#include "options_check.h"
#include "../lib/explain.h"

static bool check_codecs(const options *o, char *why)
{
    static const char *const sets[] = {"all", "papers", NULL};

    for (size_t i = 0; i < o->codec_count; i++) {
        const char *codec = o->codecs[i].codec;
        channel_options sent = options_channel(o, &o->codecs[i]);
        if (!codec_check("--codec", codec, sets, why))
            return false;
        if (sent.delay > 1 && !codec_has_residual(codec, sent.feedback))
            return explain(why, "--delay %zu: %s has no error feedback (--feedback on gives it)", sent.delay, codec);
        if (o->view == VIEW_AGGREGATE && !codec_aggregates(codec))
            return explain(why, "--codec %s: --aggregate takes natural only, and no blocks", codec);
    }
    return true;
}

/* Options of --exchange alone. */
static bool check_exchange(const options *o, char *why)
{
    const struct {
        bool given;
        const char *name;
    } own[] = {{o->shape_count, "--shapes"}, {o->algorithms, "--algorithm"}, {o->owners.count, "--owners"}};

    if (o->view == VIEW_EXCHANGE) {
        if (o->owners.count && o->algorithms && !(o->algorithms & ALL_REDUCE))
            return explain(why, "--owners goes with --algorithm all-reduce");
        return o->shape_count ||
               explain(why, "--exchange: name a list of tensors with --shapes, as bench/shapes/resnet50.txt");
    }
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (own[i].given)
            return explain(why, "%s goes with --exchange", own[i].name);
    }
    return true;
}

/* What --delta takes as weights. */
static bool check_delta(const options *o, char *why)
{
    if (o->view != VIEW_DELTA && o->source.dtype > TLC_BF16)
        return explain(why, "--dtype %s goes with --delta", dtype_name(o->source.dtype));
    if (o->view != VIEW_DELTA)
        return !o->moves.count || explain(why, "--synthetic adam goes with --delta");
    for (size_t i = 0; dtype_is_paired(o->source.dtype) && i < o->sizes.count; i++)
        if (o->sizes.items[i] % 2)
            return explain(why, "--sizes %zu: %s has two weights in a byte", o->sizes.items[i],
                           dtype_name(o->source.dtype));
    if (o->synthetic)
        return o->moves.count || explain(why, "--synthetic %s does not go with --delta; adam does", o->synthetic);
    if (o->path_count < 2)
        return explain(why, "--delta: name the weights before and after, BASE NEXT, or use --synthetic adam");
    if (o->has_dtype)
        return explain(why, "--dtype goes with drawn weights; files have their own");
    return !o->sizes.count || explain(why, "--sizes goes with drawn weights");
}

/* Options that have no meaning for what some views measure. */
static bool check_view(const options *o, char *why)
{
    const struct {
        bool given;
        const char *name;
        unsigned views;
    } others[] = {
        {o->threads.count, "--threads", VIEW_AGGREGATE | VIEW_EXCHANGE},
        {o->assume_finite, "--assume-finite", VIEW_AGGREGATE | VIEW_FRAMES | VIEW_DELTA},
        {o->channel.delay, "--delay", VIEW_AGGREGATE | VIEW_FRAMES | VIEW_EXCHANGE | VIEW_DELTA},
        {o->source.steps, "--steps", VIEW_AGGREGATE | VIEW_DELTA},
        {o->source.dtype != TLC_F32, "--dtype", VIEW_AGGREGATE | VIEW_FRAMES | VIEW_EXCHANGE},
        {o->channel.isa != TLC_ISA_AUTO, "--isa", VIEW_AGGREGATE},
        {o->channel.feedback >= 0, "--feedback", VIEW_AGGREGATE | VIEW_EXCHANGE | VIEW_DELTA},
        {o->channel.checksum, "--checksum", VIEW_EXCHANGE | VIEW_DELTA},
        {o->per_tensor, "--per-tensor", VIEW_AGGREGATE | VIEW_FRAMES | VIEW_EXCHANGE | VIEW_DELTA},
        {o->codec_count, "--codec", VIEW_DELTA},
        {o->source.cold, "--cold", VIEW_DELTA},
        {o->warmup != WARMUP_BY_DEFAULT, "--warmup", VIEW_DELTA},
        {o->peers, "--peers", VIEW_FRAMES | VIEW_EXCHANGE},
        {o->sizes.count, "--sizes", VIEW_EXCHANGE},
        {options_have_papers(o), "--codec papers", VIEW_FRAMES | VIEW_EXCHANGE},
    };

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].given && others[i].views & (unsigned)o->view)
            return explain(why, "%s does not go with --%s", others[i].name, options_view_name(o->view));
    }
    return true;
}

bool options_check(const options *o, char *why)
{
    const char *view = options_view_name(o->view);
    bool files = !view || o->view == VIEW_EXCHANGE || o->view == VIEW_DELTA; /* they may be the input */

    if ((!files || o->synthetic) && o->path_count)
        return explain(why, "%s: no files go with --%s", o->paths[0], files ? "synthetic" : view);
    if (!view && !o->synthetic && !o->path_count)
        return explain(why, "no input: name files or folders, or use --synthetic (--help tells more)");
    if (o->source.cold && !o->path_count)
        return explain(why, "--cold goes with files; with --%s residuals always start from zero",
                       view ? view : "synthetic");
    if (o->view == VIEW_DENSITY && o->synthetic)
        return explain(why, "--synthetic does not go with --density");
    if (o->sizes.count && !view && !o->synthetic)
        return explain(why, "--sizes goes with --synthetic, --roofline, --small, --density, --aggregate or --frames");
    if (o->source.has_values && (view || o->sizes.count))
        return explain(why, "--values does not go with --%s", o->sizes.count ? "sizes" : view);
    if (!tlc_isa_supported(o->channel.isa))
        return explain(why, "--isa %s: this machine or build does not support it", tlc_isa_name(o->channel.isa));
    if (o->channel.delay > 1 && !o->channel.feedback)
        return explain(why, "--delay %zu: --feedback off leaves no residual", o->channel.delay);
    if (options_have_papers(o) && (o->channel.delay || o->channel.feedback >= 0))
        return explain(why, "--%s does not go with --codec papers: its rows have their own",
                       o->channel.delay ? "delay" : "feedback");
    return check_exchange(o, why) && check_delta(o, why) && check_view(o, why) && check_codecs(o, why);
}
