/* SPDX-License-Identifier: MIT */
#include "object.h"
#include "tasks.h"
#include "values.h"

const codec_case unknown_codec = {.text = "?", .decoding = "?"};
const char *const role_names[] = {"rank", "worker", "server", "node"};

/* ---- make -------------------------------------------------------------------------------------------------------- */

void object_destroy(object *o)
{
    may_allocate(o->run, 1);
    switch (o->role) {
    case ROLE_RANK: tlc_allreduce_destroy(o->it); break;
    case ROLE_WORKER: tlc_worker_destroy(o->it); break;
    case ROLE_NODE: tlc_gossip_destroy(o->it); break;
    default: tlc_server_destroy(o->it); break;
    }
    may_allocate(o->run, 0);
    give(o->run, o);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static size_t count_parts(const object *o)
{
    return o->role == ROLE_RANK ? tlc_allreduce_parts(o->it) : o->role == ROLE_SERVER ? tlc_server_parts(o->it) : 0;
}

static tlc_status ask_part(const object *o, size_t i, tlc_part *part)
{
    return o->role == ROLE_RANK ? tlc_allreduce_part(o->it, i, part) : tlc_server_part(o->it, i, part);
}

tlc_part object_part(const object *o, size_t i)
{
    tlc_part part = {.struct_size = sizeof part};

    must(o->run, CALLS, !ask_part(o, i, &part), "part %zu of %zu", i, count_parts(o));
    return part;
}

/* Every value of every tensor has one owner. Large tensors are split at multiples of 16, the others are whole. */
static void check_cover(const group *g)
{
    const scenario *sc = &g->run->sc;
    uint8_t *owned = take(g->run, sc->values);

    for (size_t p = 0; p < g->parts; p++) {
        const part_place *part = &g->part[p];
        const tensor_plan *t = &sc->tensor[part->tensor];
        int whole = part->first == 0 && part->n == t->n;
        must(g->run, CALLS, part->n && part->n <= t->n && part->first <= t->n - part->n, "part %zu is outside", p);
        must(g->run, CALLS, whole || (t->n >= sc->split_n && part->first % 16 == 0), "part %zu is cut wrongly", p);
        for (size_t i = 0; i < part->n; i++)
            must(g->run, CALLS, owned[part->at + i]++ == 0, "part %zu: a value has two owners", p);
    }
    for (size_t i = 0; i < sc->count; i++)
        for (size_t v = 0; v < sc->tensor[i].n; v++)
            must(g->run, CALLS, owned[sc->tensor[i].at + v], "tensor %zu: value %zu has no owner", i, v);
    give(g->run, owned);
}

/* Whole tensors go to the owner with the least: none has two while another has nothing. */
static void check_balance(const group *g)
{
    const scenario *sc = &g->run->sc;
    size_t most = 0, least = SIZE_MAX;

    for (size_t t = 0; t < sc->count; t++)
        if (!sc->tensor[t].n || sc->tensor[t].n >= sc->split_n) /* it may be all that an owner has, or fill it */
            return;
    for (uint32_t o = 0; o < g->owners; o++) {
        size_t parts = g->begin[o + 1] - g->begin[o];
        most = parts > most ? parts : most;
        least = parts < least ? parts : least;
    }
    must(g->run, CALLS, most < 2 || least > 0, "an owner has %zu tensors, another has none", most);
}

/* With gather nobody owns anything: each tensor is a part without an owner. */
static void list_tensors_as_parts(group *g)
{
    for (size_t t = 0; t < g->run->sc.count; t++)
        if (g->run->sc.tensor[t].n)
            g->part[g->parts++] = (part_place){TLC_NOBODY, 0, t, 0, g->run->sc.tensor[t].n, g->run->sc.tensor[t].at};
}

void group_learn_parts(group *g, object *const *owners, uint32_t count)
{
    size_t all = g->run->sc.count;

    for (uint32_t o = 0; o < count; o++)
        all += count_parts(owners[o]);
    g->part = take(g->run, (all + 1) * sizeof *g->part);
    g->parts = 0;
    for (uint32_t o = 0; o < count; o++) {
        tlc_part part = {.struct_size = sizeof part};
        size_t parts = count_parts(owners[o]);
        g->begin[o] = g->parts;
        must(g->run, CALLS, o < g->owners || !parts, "%u owns parts, with %u owners", o, g->owners);
        must(g->run, CALLS, ask_part(owners[o], parts, &part) == TLC_ERR_PARAM, "owner %u has more parts", o);
        for (size_t i = 0; i < parts; i++) {
            part = object_part(owners[o], i);
            must(g->run, CALLS, part.tensor < g->run->sc.count, "a part of tensor %zu", part.tensor);
            must(g->run, CALLS, !part.residual == !owners[o]->feedback[PULL][part.tensor], "residual of tensor %zu",
                 part.tensor);
            g->part[g->parts++] = (part_place){o,          i,      part.tensor,
                                               part.first, part.n, g->run->sc.tensor[part.tensor].at + part.first};
        }
    }
    for (uint32_t o = count; o <= MOST_RANKS; o++)
        g->begin[o] = g->parts;
    if (g->owners)
        check_balance(g);
    else
        list_tensors_as_parts(g);
    check_cover(g);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static uint64_t object_step(const object *o)
{
    switch (o->role) {
    case ROLE_RANK: return tlc_allreduce_step(o->it);
    case ROLE_WORKER: return tlc_worker_step(o->it);
    case ROLE_NODE: return tlc_gossip_step(o->it);
    default: return tlc_server_step(o->it);
    }
}

tlc_exchange_stats object_stats(const object *o)
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats};
    tlc_status status = OBJECT(o, stats, &stats);

    must(o->run, CALLS, !status && stats.struct_size == sizeof stats, "stats: %s", tlc_status_string(status));
    return stats;
}

tlc_status object_ask_outcome(const object *o, uint32_t server, tlc_outcome *outcome)
{
    return o->role == ROLE_RANK     ? tlc_allreduce_outcome(o->it, outcome)
           : o->role == ROLE_WORKER ? tlc_worker_outcome(o->it, server, outcome)
           : o->role == ROLE_NODE   ? tlc_gossip_outcome(o->it, outcome)
                                    : tlc_server_outcome(o->it, outcome);
}

tlc_outcome object_outcome(const object *o, uint32_t server)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};
    tlc_status status = object_ask_outcome(o, server, &outcome);

    must(o->run, CALLS, !status && outcome.struct_size == sizeof outcome, "outcome: %s", tlc_status_string(status));
    return outcome;
}

tlc_status object_scale(object *o, float factor)
{
    return IN_MODE(o->run, o->role == ROLE_RANK     ? tlc_allreduce_residual_scale(o->it, factor)
                           : o->role == ROLE_WORKER ? tlc_worker_residual_scale(o->it, factor)
                                                    : tlc_server_residual_scale(o->it, factor));
}

tlc_status object_set_codec(object *o, size_t tensor, int direction, const char *codec)
{
    if (o->role == ROLE_RANK)
        return tlc_allreduce_set_codec(o->it, tensor, direction == PUSH ? codec : NULL,
                                       direction == PULL ? codec : NULL);
    return o->role == ROLE_WORKER ? tlc_worker_set_codec(o->it, tensor, codec)
           : o->role == ROLE_NODE ? tlc_gossip_set_codec(o->it, tensor, codec)
                                  : tlc_server_set_codec(o->it, tensor, codec);
}

tlc_status object_load(object *o, const tlc_message *states, size_t count)
{
    return IN_MODE(o->run, OBJECT(o, state_load, states, count));
}

tlc_status object_salvage(object *o, const tlc_message *states, size_t count)
{
    return IN_MODE(o->run, OBJECT(o, state_salvage, states, count));
}

static size_t state_size(const object *o)
{
    return o->role == ROLE_RANK     ? tlc_allreduce_state_size(o->it)
           : o->role == ROLE_WORKER ? tlc_worker_state_size(o->it)
           : o->role == ROLE_NODE   ? tlc_gossip_state_size(o->it)
                                    : tlc_server_state_size(o->it);
}

static tlc_status save_to(const object *o, void *dst, size_t cap, size_t *written)
{
    return OBJECT(o, state_save, dst, cap, written);
}

tlc_message object_save(object *o)
{
    size_t size = state_size(o), written = 0;
    uint8_t *bytes = take(o->run, size);
    tlc_status status = save_to(o, bytes, size, &written);

    must(o->run, CALLS, !status && written == size, "state_save: %s, %zu of %zu bytes", tlc_status_string(status),
         written, size);
    if (size && falls(digest_of(bytes, size), 32))
        must(o->run, CALLS, save_to(o, bytes, size - 1, &written) == TLC_ERR_CAPACITY, "a state in too few bytes");
    return (tlc_message){bytes, size};
}

tlc_status object_try_save(object *o, size_t *written)
{
    size_t size = state_size(o);
    uint8_t *bytes = take(o->run, size);
    tlc_status status = save_to(o, bytes, size, written);

    give(o->run, bytes);
    return status;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

void object_check(const object *o)
{
    const tlc_exchange_stats now = object_stats(o), *want = &o->expected;

    must(o->run, CALLS, object_step(o) == o->step, "step %llu instead of %llu", (unsigned long long)object_step(o),
         (unsigned long long)o->step);
#define CHECK_COUNTER(name)                                                                                            \
    must(o->run, CALLS, now.name == want->name, "stats of %u: " #name " is %llu instead of %llu", o->rank,             \
         (unsigned long long)now.name, (unsigned long long)want->name)
    CHECK_COUNTER(steps);
    CHECK_COUNTER(failed);
    CHECK_COUNTER(late);
    CHECK_COUNTER(float_bytes);
    CHECK_COUNTER(sent);
    CHECK_COUNTER(received);
    CHECK_COUNTER(dropped);
    check_gaps(o->run, o->residual, sizeof(float), "residuals");
}

/* Does the sentence name this rank in the right role? */
static int names(const char *sentence, const char *role, uint32_t rank)
{
    char word[32];
    const char *found;

    snprintf(word, sizeof word, "%s %u", role, rank);
    found = strstr(sentence, word);
    return found && !(found[strlen(word)] >= '0' && found[strlen(word)] <= '9');
}

static void check_sentence(const object *o, const tlc_outcome *outcome, const blame *b)
{
    const char *text = outcome->sentence, *says = strstr(text, ", says "),
               *who = o->role == ROLE_RANK || o->role == ROLE_NODE ? role_names[o->role] : b->who;
    size_t len = strnlen(text, sizeof outcome->sentence);
    char word[64];

    must(o->run, CALLS, len > 0 && len < sizeof outcome->sentence, "a sentence of %zu characters", len);
    for (size_t i = 0; i < len; i++)
        must(o->run, CALLS, text[i] >= ' ' && text[i] <= '~', "a character of a sentence");
    if (outcome->rank != TLC_NOBODY)
        must(o->run, CALLS,
             who ? names(text, who, outcome->rank)
                 : names(text, "worker", outcome->rank) || names(text, "server", outcome->rank),
             "\"%s\" does not name %s %u", text, who ? who : "", outcome->rank);
    must(o->run, CALLS, !says || !strncmp(says + 7, o->role == ROLE_RANK ? "rank " : "server ", 5),
         "\"%s\": who says so?", text);
    snprintf(word, sizeof word, "step %llu", (unsigned long long)b->got);
    must(o->run, CALLS, !b->got || strstr(text, word), "\"%s\" does not tell step %llu", text,
         (unsigned long long)b->got);
    if (outcome->tensor < o->run->sc.count)
        must(o->run, CALLS, strstr(text, o->run->sc.tensor[outcome->tensor].name), "\"%s\" does not name tensor %zu",
             text, outcome->tensor);
}

tlc_outcome check_outcome(const object *o, uint32_t server, tlc_status status, blame b)
{
    const tlc_outcome outcome = object_outcome(o, server);

    must(o->run, CALLS, outcome.status == status, "outcome: status \"%s\" instead of \"%s\"",
         tlc_status_string(outcome.status), tlc_status_string(status));
    must(o->run, CALLS, b.causes & CAUSE(outcome.cause), "outcome: cause \"%s\" is none of %x (%s)",
         tlc_status_string(outcome.cause), b.causes, outcome.sentence);
    must(o->run, CALLS, b.rank == ANYONE || outcome.rank == b.rank, "outcome: rank %u instead of %u (%s)", outcome.rank,
         b.rank, outcome.sentence);
    must(o->run, CALLS, b.tensor == TLC_ALL || outcome.tensor == b.tensor, "outcome: tensor %zu instead of %zu (%s)",
         outcome.tensor, b.tensor, outcome.sentence);
    must(o->run, CALLS, outcome.step == o->step, "the outcome is of step %llu", (unsigned long long)outcome.step);
    must(o->run, CALLS, outcome.workers == o->group->workers, "outcome: %u workers", outcome.workers);
    check_sentence(o, &outcome, &b);
    return outcome;
}

int hide_gradient(const object *o, uint64_t draw, const void **grads)
{
    size_t count = o->run->sc.count;

    for (size_t i = 0; i < count; i++) {
        size_t t = (i + (size_t)below(draw, count)) % count;
        if (o->run->sc.tensor[t].n && object_pushes(o, t)) {
            grads[t] = NULL;
            return 1;
        }
    }
    return 0;
}

/* ---- frozen ------------------------------------------------------------------------------------------------------ */

/* The residuals of what an object owns. */
static uint64_t digest_owned(const object *o)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count_parts(o); i++) {
        const tlc_part part = object_part(o, i);
        sum = mixed(sum ^ (part.residual ? digest_of(part.residual, part.n * sizeof(float)) : 1));
    }
    return sum;
}

static uint64_t digest_state(object *o, tlc_status *saves)
{
    size_t size = state_size(o), written;
    uint8_t *bytes = take(o->run, size);
    uint64_t sum;

    *saves = save_to(o, bytes, size, &written);
    sum = *saves ? 0 : digest_of(bytes, written);
    give(o->run, bytes);
    return sum;
}

frozen freeze(object *o, const void *out, size_t size)
{
    frozen f = {.step = object_step(o),
                .residual = digest_of(o->residual, o->run->sc.values * sizeof(float)),
                .owned = digest_owned(o),
                .out = digest_of(out, out ? size : 0),
                .stats = object_stats(o),
                .place = out,
                .size = out ? size : 0};

    f.state = digest_state(o, &f.saves);
    return f;
}

void check_frozen(object *o, const frozen *before, const char *call)
{
    const frozen now = freeze(o, before->place, before->size);

    must(o->run, E1, now.step == before->step, "%s changed the step", call);
    must(o->run, E1, now.residual == before->residual, "%s changed a residual", call);
    must(o->run, E1, now.owned == before->owned, "%s changed a residual of an owner", call);
    must(o->run, E1, now.out == before->out, "%s changed results", call);
    must(o->run, E1, now.saves == before->saves && now.state == before->state, "%s changed the state", call);
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c): bits, not values */
    const int counts = memcmp(&now.stats, &before->stats, sizeof now.stats) == 0;
    must(o->run, E1, counts, "%s changed the counters", call);
}
