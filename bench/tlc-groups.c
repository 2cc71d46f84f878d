/* SPDX-License-Identifier: MIT
 *
 * tlc-groups counts what ranks send to others in their site and to other sites: in one all-reduce of all ranks
 * (fleet.h), and in groups of groups (groups.h). It shows how groups.h is used, on gradients of a model.
 */
#include "channel.h"
#include "codecs.h"
#include "explain.h"
#include "fleet.h"
#include "gradients.h"
#include "groups_fleet.h"
#include "parse.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct options {
    size_t ranks, group; /* group: ranks of a site */
    const char *codec, *inside;
    size_t split, warmup, steps, seed;
    bool help;
} options;

/* What is compared: one all-reduce, or groups with a codec in the sites. */
typedef struct layout layout;
struct layout {
    const char *name;
    bool (*push)(layout *l, size_t rank, const void *const *grads, char *why);
    bool (*exchange)(layout *l, char *why); /* between the pushes and the pulls */
    bool (*pull)(layout *l, size_t rank, void *const *out, char *why);
    void (*count)(const layout *l, size_t rank, uint64_t *inside, uint64_t *between); /* adds bytes of the last step */
    const options *o;
    const source *from;
    const shape_list *model;
    fleet flat;
    groups_fleet groups;
    tlc_tensor *tensors; /* of a rank */
    float **residual;    /* by rank; NULL: the codec keeps none */
};

static bool check(tlc_status status, const char *call, char *why)
{
    return !status || explain(why, "%s: %s", call, tlc_status_string(status));
}

/* ---- one all-reduce ---------------------------------------------------------------------------------------------- */

static bool flat_open(layout *l, const char *codec, char *why)
{
    const options *o = l->o;
    const fleet_options f = {.algorithm = ALL_REDUCE, .ranks = o->ranks, .codec = codec, .seed = o->seed};

    if (!fleet_open(&l->flat, l->model, &f, why))
        return false;
    for (size_t r = 0; r < o->ranks && l->flat.residual[r]; r++)
        gradients_start(l->from, l->model, o->seed, r, l->flat.residual[r]);
    return true;
}

static bool flat_push(layout *l, size_t rank, const void *const *grads, char *why)
{
    return fleet_push(&l->flat, rank, grads, why);
}

static bool flat_exchange(layout *l, char *why)
{
    for (size_t r = 0; r < l->o->ranks; r++) {
        if (!fleet_reduce(&l->flat, r, why))
            return false;
    }
    return true;
}

static bool flat_pull(layout *l, size_t rank, void *const *out, char *why)
{
    return fleet_pull(&l->flat, rank, out, why);
}

static void flat_count(const layout *l, size_t rank, uint64_t *inside, uint64_t *between)
{
    const size_t group = l->o->group;

    for (size_t r = 0; r < l->o->ranks; r++) {
        uint64_t *bytes = r / group == rank / group ? inside : between;
        if (r != rank)
            *bytes += l->flat.push[rank * l->o->ranks + r].len + l->flat.answer[rank].len;
    }
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

static const tlc_tensor *tensors_of(void *arg, uint32_t rank)
{
    layout *l = arg;

    fleet_describe(l->model, l->residual[rank], l->tensors);
    return l->tensors;
}

/* Residuals as in a long run. */
static bool start(layout *l, const char *codec, char *why)
{
    l->tensors = calloc(l->model->count, sizeof *l->tensors);
    l->residual = calloc(l->o->ranks, sizeof *l->residual);
    if (!l->tensors || !l->residual)
        return explain(why, "out of memory");
    for (size_t r = 0; codec_has_residual(codec, -1) && r < l->o->ranks; r++) {
        l->residual[r] = channel_buffer(l->model->room * sizeof(float));
        if (!l->residual[r])
            return explain(why, "out of memory");
        gradients_start(l->from, l->model, l->o->seed, r, l->residual[r]);
    }
    return true;
}

static bool groups_open_all(layout *l, const char *codec, char *why)
{
    const uint32_t sites = (uint32_t)(l->o->ranks / l->o->group), group = (uint32_t)l->o->group;
    tlc_exchange_config inside, between;
    uint32_t ranks[MAX_RANKS];

    for (uint32_t s = 0; s < sites; s++)
        ranks[s] = group;
    (void)tlc_exchange_config_init(&inside, sizeof inside);
    inside.seed = l->o->seed;
    between = inside;
    inside.push = codec;
    between.push = l->o->codec;
    between.split_n = l->o->split;
    const groups_fleet_options o = {.sites = sites,
                                    .servers = group,
                                    .ranks = ranks,
                                    .inside = &inside,
                                    .between = &between,
                                    .tensors = tensors_of,
                                    .arg = l,
                                    .count = l->model->count};
    return start(l, codec, why) && check(groups_fleet_open(&l->groups, &o), "groups_fleet_open", why);
}

static bool groups_push_one(layout *l, size_t rank, const void *const *grads, char *why)
{
    return check(groups_fleet_push(&l->groups, (uint32_t)rank, grads), "groups_push", why);
}

static bool groups_exchange(layout *l, char *why)
{
    return check(groups_fleet_exchange(&l->groups), "groups_fleet_exchange", why);
}

static bool groups_pull_one(layout *l, size_t rank, void *const *out, char *why)
{
    return check(groups_fleet_pull(&l->groups, (uint32_t)rank, out), "groups_pull", why);
}

static void groups_count(const layout *l, size_t rank, uint64_t *inside, uint64_t *between)
{
    *inside += groups_fleet_sent_inside(&l->groups, (uint32_t)rank);
    *between += groups_fleet_sent_between(&l->groups, (uint32_t)rank);
}

static void layout_close(layout *l)
{
    if (l->flat.model)
        fleet_close(&l->flat);
    groups_fleet_close(&l->groups);
    for (size_t r = 0; l->residual && r < l->o->ranks; r++)
        free(l->residual[r]);
    free(l->residual);
    free(l->tensors);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

typedef struct buffers {
    float *grads, *out, *others; /* of all tensors at their offsets */
    const void **grads_at;       /* by tensor */
    void **out_at, **others_at;
    uint64_t *inside, *between; /* bytes by rank, in the steps that count */
} buffers;

static bool buffers_open(buffers *b, const shape_list *model, size_t ranks)
{
    const size_t size = model->room * sizeof(float);

    *b = (buffers){.grads = channel_buffer(size), .out = channel_buffer(size), .others = channel_buffer(size)};
    b->grads_at = calloc(model->count, sizeof *b->grads_at);
    b->out_at = calloc(model->count, sizeof *b->out_at);
    b->others_at = calloc(model->count, sizeof *b->others_at);
    b->inside = calloc(ranks, sizeof *b->inside);
    b->between = calloc(ranks, sizeof *b->between);
    if (!b->grads || !b->out || !b->others || !b->grads_at || !b->out_at || !b->others_at || !b->inside || !b->between)
        return false;
    for (size_t i = 0; i < model->count; i++) {
        b->grads_at[i] = b->grads + model->shapes[i].offset;
        b->out_at[i] = b->out + model->shapes[i].offset;
        b->others_at[i] = b->others + model->shapes[i].offset;
    }
    return true;
}

static void buffers_close(buffers *b)
{
    free(b->grads);
    free(b->out);
    free(b->others);
    free(b->grads_at);
    free(b->out_at);
    free(b->others_at);
    free(b->inside);
    free(b->between);
}

/* All ranks must get the same bits. */
static bool run_step(layout *l, buffers *b, size_t step, char *why)
{
    const options *o = l->o;

    for (size_t r = 0; r < o->ranks; r++) {
        gradients_make(l->from, l->model, o->seed, r, step, b->grads);
        if (!l->push(l, r, b->grads_at, why))
            return false;
    }
    if (!l->exchange(l, why))
        return false;
    for (size_t r = 0; r < o->ranks; r++) {
        if (!l->pull(l, r, r ? b->others_at : b->out_at, why))
            return false;
        if (r && memcmp(b->out, b->others, l->model->room * sizeof *b->out) != 0)
            return explain(why, "ranks 0 and %zu get different values", r);
        if (step >= o->warmup)
            l->count(l, r, &b->inside[r], &b->between[r]);
    }
    return true;
}

static void print_bytes(const uint64_t *bytes, const options *o)
{
    uint64_t sum = 0, most = 0;

    for (size_t r = 0; r < o->ranks; r++) {
        sum += bytes[r];
        most = bytes[r] > most ? bytes[r] : most;
    }
    printf(" %12.0f %9.0f", (double)sum / (double)(o->ranks * o->steps), (double)most / (double)o->steps);
}

static bool run_layout(layout *l, bool open_all(layout *l, const char *codec, char *why), const char *codec, char *why)
{
    buffers b = {.grads = NULL};
    bool ok = open_all(l, codec, why) && (buffers_open(&b, l->model, l->o->ranks) || explain(why, "out of memory"));

    for (size_t step = 0; ok && step < l->o->warmup + l->o->steps; step++)
        ok = run_step(l, &b, step, why);
    if (ok) {
        printf("%-11s %-24s %-24s", l->name, codec, l->o->codec);
        print_bytes(b.inside, l->o);
        print_bytes(b.between, l->o);
        printf("\n");
        fflush(stdout);
    }
    buffers_close(&b);
    layout_close(l);
    return ok;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static bool run(const options *o, const source *from, const shape_list *model, char *why)
{
    layout l = {.name = "all-reduce",
                .push = flat_push,
                .exchange = flat_exchange,
                .pull = flat_pull,
                .count = flat_count,
                .o = o,
                .from = from,
                .model = model};

    printf("%s: %zu values in %zu tensors; %zu ranks in sites of %zu; steps %zu to %zu\n", model->model, model->values,
           model->count, o->ranks, o->group, o->warmup + 1, o->warmup + o->steps);
    printf("bytes that a rank sends to others in a step\n\n");
    printf("%-60s %23s %23s\n", "", "in its site", "to other sites");
    printf("%-11s %-24s %-24s %12s %9s %12s %9s\n", "", "codec in sites", "between sites", "mean", "busiest", "mean",
           "busiest");
    if (!run_layout(&l, flat_open, o->codec, why))
        return false;
    l = (layout){.name = "groups",
                 .push = groups_push_one,
                 .exchange = groups_exchange,
                 .pull = groups_pull_one,
                 .count = groups_count,
                 .o = o,
                 .from = from,
                 .model = model};
    return run_layout(&l, groups_open_all, o->inside ? o->inside : o->codec, why);
}

static void print_help(FILE *f)
{
    fputs("tlc-groups [OPTION...] SHAPES FILE|FOLDER...: counts what ranks send in one all-reduce, and in groups\n"
          "SHAPES lists the tensors of a model; the files have recorded gradients, as for tlc-bench --exchange\n"
          "  --ranks N        at most 1024 (default 64)\n"
          "  --group N        ranks of a site; the ranks are a multiple of it (default 8)\n"
          "  --codec CODEC    of the all-reduce, and between sites (default 3lc)\n"
          "  --inside CODEC   in sites (default: as --codec)\n"
          "  --split N        between sites, parts of this size on may be cut (default 65536)\n"
          "  --warmup N       steps before those that count (default 8)\n"
          "  --steps N        that count (default 8)\n"
          "  --seed N         of gradients and codecs (default 1)\n",
          f);
}

static bool take(options *o, int key, const char *text)
{
    switch (key) {
    case 'r': return parse_size(text, &o->ranks) && o->ranks && o->ranks <= MAX_RANKS;
    case 'g': return parse_size(text, &o->group) && o->group;
    case 'c': o->codec = text; return !tlc_codec_check(text, NULL, 0);
    case 'i': o->inside = text; return !tlc_codec_check(text, NULL, 0);
    case 'p': return parse_size(text, &o->split) && o->split;
    case 'w': return parse_size(text, &o->warmup);
    case 'n': return parse_size(text, &o->steps) && o->steps;
    case 's': return parse_size(text, &o->seed);
    default: o->help = true; return true;
    }
}

static bool parse_options(options *o, int argc, char **argv, char *why)
{
    static const struct option longs[] =
        {{"ranks", required_argument, NULL, 'r'}, {"group", required_argument, NULL, 'g'},
         {"codec", required_argument, NULL, 'c'}, {"inside", required_argument, NULL, 'i'},
         {"split", required_argument, NULL, 'p'}, {"warmup", required_argument, NULL, 'w'},
         {"steps", required_argument, NULL, 'n'}, {"seed", required_argument, NULL, 's'},
         {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    int key, at = 0;

    *o = (options){.ranks = 64,
                   .group = 8,
                   .codec = "3lc",
                   .split = 65536,
                   .warmup = 8,
                   .steps = 8,
                   .seed = 1,
                   .help = false};
    opterr = 0;
    while ((key = getopt_long(argc, argv, "", longs, &at)) != -1) {
        if (key == '?')
            return explain(why, "%s: there is no such option, or its value is missing", argv[optind - 1]);
        if (!take(o, key, optarg))
            return explain(why, "--%s %s: not one of its values (--help lists them)", longs[at].name, optarg);
    }
    if (o->ranks % o->group)
        return explain(why, "--ranks %zu: not a multiple of --group %zu", o->ranks, o->group);
    return o->help || argc - optind >= 2 || explain(why, "a list of tensors and recorded gradients are missing");
}

static int fail(int status, const char *why)
{
    fprintf(stderr, "tlc-groups: %s\n", why);
    return status;
}

int main(int argc, char **argv)
{
    static char why[WHY_SIZE];
    const source_options wanted = {.dtype = TLC_F32};
    source from = {.count = 0};
    shape_list model = {.model = NULL};
    int status = EXIT_SUCCESS;
    options o;

    if (!parse_options(&o, argc, argv, why))
        return fail(EXIT_USAGE, why);
    if (o.help) {
        print_help(stdout);
        return EXIT_SUCCESS;
    }
    if (!shapes_load(&model, argv[optind], why) ||
        !source_load(&from, argv + optind + 1, (size_t)(argc - optind - 1), &wanted, why) ||
        !source_check_finite(&from, why))
        status = fail(EXIT_USAGE, why);
    source_tell_left_out(&from, "tlc-groups");
    if (!status && !run(&o, &from, &model, why))
        status = fail(EXIT_FAILED, why);
    source_free(&from);
    shapes_free(&model);
    return status;
}
