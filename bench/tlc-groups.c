/* SPDX-License-Identifier: MIT
 *
 * tlc-groups counts what ranks send to others in their site and to other sites: in one all-reduce of all ranks
 * (fleet.h), and in groups of groups (groups.h). It shows how groups.h is used, on gradients of a model.
 */
#include "lib/channel.h"
#include "lib/codecs.h"
#include "lib/explain.h"
#include "lib/fleet.h"
#include "lib/gradients.h"
#include "sim/groups_fleet.h"
#include "lib/option_table.h"
#include "lib/parse.h"
#include "lib/program.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "tlc-groups";

enum { /* of options without a letter */
       KEY_LIST = OPTION_KEY,
       KEY_SPLIT,
       KEY_WARMUP,
       KEY_STEPS,
       KEY_SEED,
       KEY_VERSION
};

typedef struct options {
    size_t ranks, group; /* group: ranks of a site */
    const char *codec, *inside;
    size_t split, warmup, steps;
    uint64_t seed;
    command command;
    bool quiet;
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

    for (size_t step = 0; ok && step < l->o->warmup + l->o->steps; step++) {
        program_progress(l->o->quiet, step + 1, l->o->warmup + l->o->steps, l->name, l->model->model, "a step");
        ok = run_step(l, &b, step, why);
    }
    program_progress_end(l->o->quiet);
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

static const option_entry entries[] = {
    {'r', "ranks", "N", "how many there are, 1 to 1024 (default 64)"},
    {'g', "group", "N", "ranks of a site; --ranks is a multiple of it (default 8)"},
    {'c', "codec", "CODEC", "of the all-reduce, and between sites (default 3lc)"},
    {'i', "inside", "CODEC", "in sites (default: as --codec)"},
    {KEY_LIST, "list", NULL, "print names, parameters and papers of all codecs, and exit"},
    {KEY_SPLIT, "split", "N", "between sites, parts of so many values may be cut\n(default 64Ki)"},
    {KEY_WARMUP, "warmup", "STEPS", "steps before those that count (default 8)"},
    {KEY_STEPS, "steps", "STEPS", "that count (default 8)"},
    {KEY_SEED, "seed", "N", "of gradients and codecs (default 1)"},
    {'q', "quiet", NULL, "no progress on stderr"},
    {'h', "help", NULL, "print this and exit"},
    {KEY_VERSION, "version", NULL, "print the version and the ISAs of this machine, and exit"},
};

static bool take(void *options_, int key, const char *value, char *why)
{
    options *o = options_;

    switch (key) {
    case 'r': return parse_size(value, 1, MAX_RANKS, &o->ranks, why);
    case 'g': return parse_size(value, 1, MAX_RANKS, &o->group, why);
    case 'c': o->codec = value; return true;
    case 'i': o->inside = value; return true;
    case KEY_SPLIT: return parse_size(value, 1, SIZE_MAX, &o->split, why);
    case KEY_WARMUP: return parse_size(value, 0, SOURCE_MAX_STEPS, &o->warmup, why);
    case KEY_STEPS: return parse_size(value, 1, SOURCE_MAX_STEPS, &o->steps, why);
    case KEY_SEED: return parse_number(value, 0, UINT64_MAX, &o->seed, why);
    case 'q': o->quiet = true; return true;
    case 'h': o->command = COMMAND_HELP; return true;
    case KEY_LIST: o->command = COMMAND_LIST; return true;
    default: o->command = COMMAND_VERSION; return true;
    }
}

static const option_table table = {entries, sizeof entries / sizeof entries[0], take};

static void print_help(FILE *f)
{
    fputs("usage: tlc-groups [OPTION]... SHAPES FILE|FOLDER...\n"
          "\n"
          "Counts what ranks send to others in their site and to other sites: in one all-reduce of all ranks, and in\n"
          "groups, an exchange inside each site and one between the sites. SHAPES lists the tensors of a model, as\n"
          "bench/shapes/resnet110.txt does; the files have recorded gradients, as for tlc-bench --exchange.\n"
          "\n",
          f);
    option_table_print(f, &table);
    fputs("\n"
          "The columns are bytes that a rank sends in a step, the mean over ranks and the busiest rank.\n"
          "\n"
          "Exit status: 0 on success, 1 if a call or the output fails, 2 for bad files or options.\n",
          f);
}

static bool parse_options(options *o, int argc, char **argv, int *files, char *why)
{
    *o = (options){.ranks = 64, .group = 8, .codec = "3lc", .split = 65536, .warmup = 8, .steps = 8, .seed = 1};
    if (!option_table_parse(&table, o, argc, argv, files, why))
        return false;
    if (o->command != COMMAND_RUN)
        return true;
    if (!codec_check("--codec", o->codec, NULL, why) || (o->inside && !codec_check("--inside", o->inside, NULL, why)))
        return false;
    if (o->ranks % o->group)
        return explain(why, "--ranks %zu: not a multiple of --group %zu", o->ranks, o->group);
    return argc - *files >= 2 ||
           explain(why, "name a list of tensors, as bench/shapes/resnet110.txt, and recorded gradients (--help tells "
                        "more)");
}

static int fail(int status, const char *why)
{
    return program_fail(program, status, why);
}

static int run_files(const options *o, char **paths, size_t count)
{
    static char why[WHY_SIZE];
    const source_options wanted = {.dtype = TLC_F32};
    source from = {.count = 0};
    shape_list model = {.model = NULL};
    int status = EXIT_SUCCESS;

    if (!shapes_load(&model, paths[0], why) || !source_load(&from, paths + 1, count - 1, &wanted, why) ||
        !source_check_finite(&from, why))
        status = fail(EXIT_USAGE, why);
    source_tell_left_out(&from, program);
    if (!status && !run(o, &from, &model, why))
        status = fail(EXIT_FAILED, why);
    source_free(&from);
    shapes_free(&model);
    return status ? status : program_close_output(program);
}

int main(int argc, char **argv)
{
    static char why[WHY_SIZE];
    int files = 0;
    options o;

    (void)signal(SIGPIPE, SIG_IGN); /* then writing to a closed pipe is an error as others are */
    if (!parse_options(&o, argc, argv, &files, why))
        return fail(EXIT_USAGE, why);
    switch (o.command) {
    case COMMAND_HELP: print_help(stdout); return program_close_output(program);
    case COMMAND_LIST: codecs_print(stdout); return program_close_output(program);
    case COMMAND_VERSION: program_print_version(program); return program_close_output(program);
    default: return run_files(&o, argv + files, (size_t)(argc - files));
    }
}
