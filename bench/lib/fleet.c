/* SPDX-License-Identifier: MIT */
#include "fleet.h"
#include "channel.h"
#include "codecs.h"
#include "explain.h"
#include <stdlib.h>
#include <string.h>

enum { MIN_N = 256 }; /* the default of tlc_exchange_config */

bool fleet_is_small(const shape *s)
{
    return s->n < MIN_N;
}

/* ---- machines ---------------------------------------------------------------------------------------------------- */

static tlc_exchange_config configure(const fleet *f)
{
    const fleet_options *o = &f->options;
    tlc_exchange_config cfg;

    (void)tlc_exchange_config_init(&cfg, sizeof cfg);
    cfg.workers = (uint32_t)o->ranks;
    cfg.servers = o->algorithm == SERVER ? (uint32_t)o->servers : 0;
    cfg.owners = (uint32_t)o->owners;
    cfg.gather = o->algorithm == GATHER;
    cfg.push = o->codec;
    cfg.min_n = MIN_N;
    cfg.assume_finite = o->assume_finite;
    cfg.isa = o->isa;
    cfg.seed = o->seed;
    cfg.alloc = f->alloc;
    return cfg;
}

void fleet_describe(const shape_list *model, float *residual, tlc_tensor *tensors)
{
    for (size_t i = 0; i < model->count; i++) {
        const shape *s = &model->shapes[i];
        tensors[i] = (tlc_tensor){.struct_size = sizeof *tensors, .name = s->name, .n = s->n, .only = TLC_NOBODY};
        if (residual && !fleet_is_small(s))
            tensors[i].residual = residual + s->offset;
    }
}

static tlc_status make_rank(fleet *f, size_t rank)
{
    const tlc_exchange_config cfg = configure(f);

    fleet_describe(f->model, f->residual[rank], f->tensors);
    return cfg.servers ? tlc_worker_create(&f->worker[rank], &cfg, (uint32_t)rank, f->tensors, f->model->count)
                       : tlc_allreduce_create(&f->member[rank], &cfg, (uint32_t)rank, f->tensors, f->model->count);
}

static tlc_status make_server(fleet *f, size_t server)
{
    const tlc_exchange_config cfg = configure(f);

    fleet_describe(f->model, NULL, f->tensors);
    return tlc_server_create(&f->server[server], &cfg, (uint32_t)server, f->tensors, f->model->count);
}

static size_t servers_of(const fleet *f)
{
    return f->options.algorithm == SERVER ? f->options.servers : 0;
}

static void destroy_rank(fleet *f, size_t rank)
{
    tlc_allreduce_destroy(f->member[rank]);
    tlc_worker_destroy(f->worker[rank]);
    f->member[rank] = NULL;
    f->worker[rank] = NULL;
}

static void destroy_server(fleet *f, size_t server)
{
    tlc_server_destroy(f->server[server]);
    f->server[server] = NULL;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool allocate_residuals(fleet *f)
{
    size_t own = f->options.one_by_one && f->options.ranks > 2 ? 2 : f->options.ranks;

    for (size_t r = 0; codec_has_residual(f->options.codec, -1) && r < f->options.ranks; r++) {
        f->residual[r] = r < own ? channel_buffer(f->model->room * sizeof(float)) : f->residual[1];
        if (!f->residual[r])
            return false;
    }
    return true;
}

static bool allocate(fleet *f)
{
    size_t ranks = f->options.ranks, receivers = f->receivers;

    f->member = calloc(ranks, sizeof(tlc_allreduce *));
    f->worker = calloc(ranks, sizeof(tlc_worker *));
    f->server = calloc(receivers, sizeof(tlc_server *));
    f->residual = calloc(ranks, sizeof *f->residual);
    f->push = calloc(ranks * receivers, sizeof *f->push);
    f->step = calloc(receivers, sizeof *f->step);
    f->answer = calloc(receivers, sizeof *f->answer);
    f->came = calloc(ranks > receivers ? ranks : receivers, sizeof *f->came);
    f->tensors = calloc(f->model->count, sizeof *f->tensors);
    f->kept_push = calloc(ranks, sizeof *f->kept_push);
    f->kept_answer = calloc(receivers, sizeof *f->kept_answer);
    f->kept_residual = calloc(receivers, sizeof *f->kept_residual);
    return f->member && f->worker && f->server && f->residual && f->push && f->step && f->answer && f->came &&
           f->tensors && f->kept_push && f->kept_answer && f->kept_residual;
}

static tlc_status make_objects(fleet *f)
{
    tlc_status status = TLC_OK;

    for (size_t r = 0; !status && r < f->options.ranks; r++)
        status = make_rank(f, r);
    for (size_t i = 0; !status && i < servers_of(f); i++)
        status = make_server(f, i);
    return status;
}

static bool check_made(const fleet *f, tlc_status status, char *why)
{
    return !status || explain(why, "%zu ranks: %s", f->options.ranks, tlc_status_string(status));
}

static void start(fleet *f, const shape_list *model, const fleet_options *options)
{
    *f = (fleet){.options = *options, .model = model};
    f->receivers = options->algorithm == SERVER ? options->servers : options->ranks;
}

bool fleet_open(fleet *f, const shape_list *model, const fleet_options *options, char *why)
{
    start(f, model, options);
    if (!allocate(f) || !allocate_residuals(f))
        return check_made(f, TLC_ERR_NOMEM, why);
    return options->one_by_one || check_made(f, make_objects(f), why);
}

static void close_ranks(fleet *f)
{
    for (size_t r = 0; r < f->options.ranks; r++) {
        if (f->member && f->worker)
            destroy_rank(f, r);
        if (f->residual && (!f->options.one_by_one || r < 2))
            free(f->residual[r]);
        if (f->kept_push)
            free(f->kept_push[r]);
    }
}

void fleet_close(fleet *f)
{
    close_ranks(f);
    for (size_t i = 0; i < f->receivers; i++) {
        if (f->server)
            destroy_server(f, i);
        if (f->step)
            owner_step_close(&f->step[i]);
        if (f->kept_answer)
            free(f->kept_answer[i]);
        if (f->kept_residual)
            free(f->kept_residual[i]);
    }
    free(f->member);
    free(f->worker);
    free(f->server);
    free(f->residual);
    free(f->push);
    free(f->step);
    free(f->answer);
    free(f->came);
    free(f->tensors);
    free(f->kept_push);
    free(f->kept_answer);
    free(f->kept_residual);
    *f = (fleet){.model = NULL};
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static size_t parts_of(const fleet *f, size_t owner)
{
    return servers_of(f) ? tlc_server_parts(f->server[owner]) : tlc_allreduce_parts(f->member[owner]);
}

static fleet_part part_of(const fleet *f, size_t owner, size_t i)
{
    tlc_part part = {.struct_size = sizeof part};

    (void)(servers_of(f) ? tlc_server_part(f->server[owner], i, &part)
                         : tlc_allreduce_part(f->member[owner], i, &part));
    return (fleet_part){.tensor = part.tensor,
                        .first = part.first,
                        .n = part.n,
                        .owner = owner,
                        .mean = (float *)(uintptr_t)part.mean,
                        .residual = (float *)(uintptr_t)part.residual};
}

fleet_part *fleet_parts(const fleet *f, size_t *count)
{
    bool gathers = f->options.algorithm == GATHER;
    fleet_part *parts;

    *count = gathers ? f->model->count : 0;
    for (size_t owner = 0; owner < f->receivers; owner++)
        *count += parts_of(f, owner);
    parts = calloc(*count + 1, sizeof *parts);
    *count = 0;
    for (size_t i = 0; parts && gathers && i < f->model->count; i++)
        parts[(*count)++] = (fleet_part){.tensor = i, .n = f->model->shapes[i].n};
    for (size_t owner = 0; parts && owner < f->receivers; owner++) {
        for (size_t i = 0; i < parts_of(f, owner); i++)
            parts[(*count)++] = part_of(f, owner, i);
    }
    return parts;
}

/* ---- one by one -------------------------------------------------------------------------------------------------- */

/* Copies messages, of which all may be the same, into memory of their own. *bytes: what it takes. */
static bool keep_messages(tlc_message *messages, size_t count, unsigned char **kept, size_t *bytes, char *why)
{
    bool same = count > 1 && messages[1].data == messages[0].data;
    size_t size = 0, at = 0;

    for (size_t i = 0; i < (same ? 1 : count); i++)
        size += messages[i].len;
    *bytes = size;
    free(*kept);
    *kept = malloc(size + 1);
    if (!*kept)
        return explain(why, "out of memory");
    for (size_t i = 0; i < count; i++) {
        unsigned char *to = *kept + at;
        if (messages[i].len && (!same || !i))
            memcpy(to, messages[i].data, messages[i].len);
        messages[i].data = to;
        at += same ? 0 : messages[i].len;
    }
    return true;
}

/* Copies the residuals of the parts of an owner, out of its memory or into it. */
static bool move_residuals(fleet *f, size_t owner, bool out, char *why)
{
    size_t count = parts_of(f, owner), n = 0;

    for (size_t i = 0; i < count; i++)
        n += part_of(f, owner, i).n;
    if (!f->kept_residual[owner])
        f->kept_residual[owner] = calloc(n + 1, sizeof(float));
    if (!f->kept_residual[owner])
        return explain(why, "out of memory");
    float *kept = f->kept_residual[owner];
    for (size_t i = 0; i < count; i++) {
        const fleet_part part = part_of(f, owner, i);
        if (part.residual)
            memcpy(out ? kept : part.residual, out ? part.residual : kept, part.n * sizeof(float));
        kept += part.n;
    }
    return true;
}

static bool bring_rank(fleet *f, size_t rank, char *why)
{
    return check_made(f, make_rank(f, rank), why) && (servers_of(f) || move_residuals(f, rank, false, why));
}

bool fleet_begin(fleet *f, char *why)
{
    bool ok = true;

    if (!f->options.one_by_one)
        return true;
    destroy_rank(f, 0);
    ok = bring_rank(f, 0, why);
    for (size_t i = 0; ok && i < servers_of(f); i++) {
        destroy_server(f, i);
        ok = check_made(f, make_server(f, i), why) && move_residuals(f, i, false, why);
    }
    return ok;
}

/* Whether the machine is there for one call only. */
static bool is_passing(const fleet *f, size_t rank)
{
    return f->options.one_by_one && rank;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* told: of the call that fills in the outcome. */
static bool fail(tlc_status status, const char *call, tlc_status told, const tlc_outcome *outcome, char *why)
{
    return explain(why, "%s: %s: %s", call, tlc_status_string(status), told ? "no outcome" : outcome->sentence);
}

static bool check_member(const fleet *f, size_t rank, tlc_status status, const char *call, char *why)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};

    return !status || fail(status, call, tlc_allreduce_outcome(f->member[rank], &outcome), &outcome, why);
}

/* Of the server that is at fault, if one is. */
static bool check_worker(const fleet *f, size_t rank, tlc_status status, const char *call, char *why)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};
    tlc_status told = TLC_OK;

    for (size_t i = 0; status && !told && !outcome.status && i < f->receivers; i++)
        told = tlc_worker_outcome(f->worker[rank], (uint32_t)i, &outcome);
    return !status || fail(status, call, told, &outcome, why);
}

static bool make_push(fleet *f, size_t rank, const void *const *grads, tlc_message *to, char *why)
{
    if (servers_of(f))
        return check_worker(f, rank, tlc_worker_push(f->worker[rank], grads, 1, to), "tlc_worker_push", why);
    return check_member(f, rank, tlc_allreduce_push(f->member[rank], grads, 1, to), "tlc_allreduce_push", why);
}

bool fleet_push(fleet *f, size_t rank, const void *const *grads, char *why)
{
    tlc_message *to = f->push + rank * f->receivers;

    if (!is_passing(f, rank))
        return make_push(f, rank, grads, to, why);
    bool ok = check_made(f, make_rank(f, rank), why) && make_push(f, rank, grads, to, why) &&
              keep_messages(to, f->receivers, &f->kept_push[rank], &f->kept_bytes, why);
    destroy_rank(f, rank);
    return ok;
}

/* With the step of the owner between the means and the answer. */
static tlc_status answer_changes(fleet *f, size_t rank)
{
    const tlc_allreduce *owner = f->member[rank];
    float *const *changes = owner_step_room(&f->step[rank], owner);
    tlc_status status = changes ? tlc_allreduce_average(f->member[rank], f->came) : TLC_ERR_NOMEM;

    if (!status && !owner_step_take(&f->step[rank], owner, changes))
        status = TLC_ERR_NOMEM;
    return status ? status : tlc_allreduce_answer(f->member[rank], (const float *const *)changes, &f->answer[rank]);
}

static bool make_answer(fleet *f, size_t rank, char *why)
{
    for (size_t r = 0; r < f->options.ranks; r++)
        f->came[r] = f->push[r * f->receivers + rank];
    if (f->options.algorithm == OWNERS)
        return check_member(f, rank, answer_changes(f, rank), "the owner", why);
    if (f->frames && !rank)
        return check_member(f, 0, tlc_allreduce_reduce_frames(f->member[0], f->came, f->frames, &f->answer[0]),
                            "tlc_allreduce_reduce_frames", why);
    return check_member(f, rank, tlc_allreduce_reduce(f->member[rank], f->came, &f->answer[rank]),
                        "tlc_allreduce_reduce", why);
}

/* An owner that comes back is a new object, which has not pushed yet. So it first makes pushes that nobody gets. */
bool fleet_reduce(fleet *f, size_t rank, char *why)
{
    bool passing = is_passing(f, rank), ok;
    size_t bytes;

    if (!f->options.one_by_one)
        return make_answer(f, rank, why);
    ok = (!passing || (bring_rank(f, rank, why) && make_push(f, rank, NULL, f->came, why))) &&
         make_answer(f, rank, why) && move_residuals(f, rank, true, why);
    if (passing) {
        ok = ok && keep_messages(&f->answer[rank], 1, &f->kept_answer[rank], &bytes, why);
        destroy_rank(f, rank);
    }
    return ok;
}

bool fleet_serve(fleet *f, size_t server, char *why)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};
    tlc_server *s = f->server[server];
    tlc_status status = TLC_OK;

    for (size_t r = 0; !status && r < f->options.ranks; r++)
        status = tlc_server_push(s, f->push[r * f->receivers + server], NULL);
    status = status ? status : tlc_server_reduce(s);
    status = status ? status : tlc_server_answer(s, NULL, &f->answer[server]);
    if (status)
        return fail(status, "the server", tlc_server_outcome(s, &outcome), &outcome, why);
    return !f->options.one_by_one || move_residuals(f, server, true, why);
}

bool fleet_pull(fleet *f, size_t rank, void *const *out, char *why)
{
    if (servers_of(f))
        return check_worker(f, rank, tlc_worker_pull(f->worker[rank], f->answer, out), "tlc_worker_pull", why);
    for (size_t r = 0; r < f->options.ranks; r++)
        f->came[r] = f->options.algorithm == GATHER ? f->push[r * f->receivers] : f->answer[r];
    return check_member(f, rank, tlc_allreduce_pull(f->member[rank], f->came, out), "tlc_allreduce_pull", why);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

size_t fleet_machines(const fleet *f)
{
    return f->options.ranks + servers_of(f);
}

uint64_t fleet_sent(const fleet *f, size_t machine)
{
    size_t ranks = f->options.ranks;
    uint64_t bytes = 0;

    if (machine >= ranks) /* a server */
        return (uint64_t)f->answer[machine - ranks].len * ranks;
    for (size_t i = 0; i < f->receivers; i++) {
        if (servers_of(f))
            bytes += f->push[machine * f->receivers + i].len;
        else if (i != machine)
            bytes += f->push[machine * ranks + i].len + f->answer[machine].len;
    }
    return bytes;
}

uint64_t fleet_counted(const fleet *f, size_t machine)
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats};

    if (machine >= f->options.ranks)
        (void)tlc_server_stats(f->server[machine - f->options.ranks], &stats);
    else if (servers_of(f))
        (void)tlc_worker_stats(f->worker[machine], &stats);
    else
        (void)tlc_allreduce_stats(f->member[machine], &stats);
    return stats.sent;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void *count_bytes(void *sum, size_t size)
{
    *(size_t *)sum += size;
    return malloc(size);
}

static void free_counted(void *sum, void *bytes)
{
    (void)sum;
    free(bytes);
}

tlc_allocator fleet_counter(size_t *sum)
{
    return (tlc_allocator){count_bytes, free_counted, sum};
}

size_t fleet_memory(const shape_list *model, const fleet_options *options)
{
    size_t rank = 0, server = 0, messages, steps = options->algorithm == OWNERS ? owner_step_memory(model->values) : 0;
    tlc_status status = TLC_ERR_NOMEM;
    fleet f;

    start(&f, model, options);
    if (allocate(&f)) {
        f.alloc = fleet_counter(&rank);
        status = make_rank(&f, 0);
        f.alloc = fleet_counter(&server);
        if (!status && servers_of(&f))
            status = make_server(&f, 0);
    }
    messages = f.receivers * sizeof(tlc_message);
    fleet_close(&f);
    return status ? SIZE_MAX : options->ranks * (rank + messages) + options->servers * server + steps;
}
