/* SPDX-License-Identifier: MIT
 *
 * Handles are made by all ranks together, or by none.
 */
#include "handle.h"
#include <stdarg.h>
#include <stdio.h>

/* ---- configuration ----------------------------------------------------------------------------------------------- */

tlc_status tlc_mpi_config_init(tlc_mpi_config *cfg, size_t struct_size, MPI_Comm comm)
{
    const tlc_mpi_config defaults = {.comm = comm, .chunk = (size_t)1 << 30};

    return tlc_init(cfg, struct_size, &defaults, sizeof defaults);
}

tlc_status tlc_mpi_config_init_fortran(tlc_mpi_config *cfg, size_t struct_size, MPI_Fint comm)
{
    return tlc_mpi_config_init(cfg, struct_size, MPI_Comm_f2c(comm));
}

static tlc_tensor tensor_at(const tlc_mpi_config *cfg, size_t i)
{
    tlc_tensor ours = {.only = TLC_NOBODY};

    (void)tlc_import_sized(&ours, sizeof ours, (const char *)cfg->tensors + i * cfg->tensors->struct_size,
                           cfg->tensors->struct_size);
    return ours;
}

tlc_status tlc_mpi_make_refuse(tlc_mpi_making *m, tlc_status status, const char *format, ...)
{
    va_list arguments;

    if (m->status)
        return m->status;
    va_start(arguments, format);
    vsnprintf(m->found.sentence, sizeof m->found.sentence, format, arguments);
    va_end(arguments);
    return m->status = status;
}

/* Takes over what the caller gave. The object checks the rest. */
static tlc_status import_config(tlc_mpi_making *m)
{
    const tlc_mpi_config *c = &m->cfg;

    (void)tlc_exchange_config_init(&m->exchange, sizeof m->exchange);
    if (!c->exchange)
        return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "exchange is NULL");
    if (c->count && !c->tensors)
        return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "tensors is NULL, but their count is %zu", c->count);
    if (!c->chunk || c->chunk > INT_MAX)
        return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "chunk is %zu; it is 1 to %d", c->chunk, INT_MAX);
    if (!tlc_import(&m->exchange, sizeof m->exchange, c->exchange))
        return tlc_mpi_make_refuse(m, TLC_ERR_PARAM,
                                   "struct_size of exchange is %zu; it is at least %zu, and what follows %zu bytes is "
                                   "0",
                                   c->exchange->struct_size, sizeof(size_t), sizeof m->exchange);
    if (!m->exchange.alloc.alloc != !m->exchange.alloc.free) {
        const char *given = m->exchange.alloc.alloc ? "alloc" : "free";
        m->exchange.alloc = (tlc_allocator){NULL, NULL, NULL}; /* for the handle, until it is freed again */
        return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "of alloc, only %s is given", given);
    }
    m->exchange.struct_size = sizeof m->exchange;
    m->exchange.outcome = &m->found;
    if (c->count && c->tensors->struct_size < sizeof c->tensors->struct_size)
        return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "struct_size of tensors is %zu; it is at least %zu",
                                   c->tensors->struct_size, sizeof(size_t));
    return TLC_OK;
}

/* ---- what all ranks must have in common -------------------------------------------------------------------------- */

/* Strings, one after the other. Without memory only their length is counted. */
typedef struct text {
    char *at;
    size_t len, room;
} text;

/* Adds a string with the 0 at its end. */
static void add(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(text *t, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int len = vsnprintf(t->at ? t->at + t->len : NULL, t->at ? t->room - t->len : 0, format, arguments);
    va_end(arguments);
    t->len += len > 0 ? (size_t)len + 1 : 1;
}

enum { HEAD_LINES = 14, TENSOR_LINES = 5 };

/* Nothing if the configuration is not what it should be. */
static void describe(const tlc_mpi_making *m, const char *kind, text *t)
{
    const tlc_exchange_config *x = &m->exchange;

    if (!m->complete)
        return;
    add(t, "the handle is for %s", kind);
    add(t, "messages have version %d", TLC_MESSAGE_VERSION);
    add(t, "there are %u workers", x->workers);
    add(t, "there are %u servers", x->servers);
    add(t, "there are at most %u owners", x->owners);
    add(t, "gather is %d", x->gather);
    add(t, "sum is %d", x->sum);
    add(t, "pushes have the codec %s", x->push);
    add(t, "answers have the codec %s", x->pull ? x->pull : x->push);
    add(t, "the codecs in reserve are %s", x->reserve ? x->reserve : "none");
    add(t, "min_n is %zu", x->min_n);
    add(t, "split_n is %zu", x->split_n);
    add(t, "chunk is %zu", m->cfg.chunk);
    add(t, "there are %zu tensors", m->cfg.count);
    for (size_t i = 0; i < m->cfg.count; i++) {
        const tlc_tensor tensor = tensor_at(&m->cfg, i);
        const char *name = tensor.name ? tensor.name : "", *usual = "of the configuration";
        add(t, "tensor %zu is %s", i, name);
        add(t, "%s has %zu values", name, tensor.n);
        add(t, "pushes of %s have the codec %s", name, tensor.push ? tensor.push : usual);
        add(t, "answers of %s have the codec %s", name, tensor.pull ? tensor.pull : usual);
        if (tensor.only == TLC_NOBODY)
            add(t, "%s is pushed by all workers", name);
        else
            add(t, "%s is pushed by worker %u", name, tensor.only);
    }
}

/* What ranks tell each other of a failure. */
typedef struct verdict {
    tlc_status status;
    int64_t tensor; /* -1: none */
    char sentence[200];
} verdict;

enum { PART = 80 }; /* characters of a line in a sentence */

/* Writes a line. If it is long: its head, and what is around the first character that differs. */
static void shorten(char to[PART + 1], const char *line, size_t differs)
{
    enum { HEAD = 30, DOTS = 3, TAIL = PART - HEAD - DOTS, BEFORE = 12 };
    const size_t len = strlen(line);
    size_t at = differs > BEFORE ? differs - BEFORE : 0;

    to[len < PART ? len : PART] = 0;
    if (len <= PART) {
        memcpy(to, line, len);
        return;
    }
    if (at > len - TAIL)
        at = len - TAIL;
    memset(to, '.', PART);
    if (at <= HEAD + DOTS) {
        memcpy(to, line, PART - DOTS);
        return;
    }
    memcpy(to, line, HEAD);
    memcpy(to + HEAD + DOTS, line + at, at + TAIL < len ? TAIL - DOTS : TAIL);
}

/* The first line that differs. Both sides have equally many lines before it. */
static void compare(const char *mine, const char *first, int rank, verdict *v)
{
    char ours[PART + 1], theirs[PART + 1];
    size_t line = 0, same = 0;

    while (*mine && *first && strcmp(mine, first) == 0) {
        mine += strlen(mine) + 1;
        first += strlen(first) + 1;
        line++;
    }
    if (!*mine && !*first)
        return;
    v->status = TLC_ERR_PARAM;
    v->tensor = line < HEAD_LINES ? -1 : (int64_t)((line - HEAD_LINES) / TENSOR_LINES);
    while (mine[same] && mine[same] == first[same])
        same++;
    shorten(ours, mine, same);
    shorten(theirs, first, same);
    snprintf(v->sentence, sizeof v->sentence, "on rank %d %s; on rank 0 %s", rank, ours, theirs);
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

/* Tells the caller. rank: whose verdict it is. */
static void tell(const tlc_mpi_config *cfg, const verdict *v, uint32_t rank)
{
    tlc_outcome ours = {.status = v->status, .cause = v->status, .rank = rank, .tensor = TLC_ALL};

    if (!cfg->outcome || cfg->outcome->struct_size < sizeof cfg->outcome->struct_size)
        return;
    if (v->tensor >= 0)
        ours.tensor = (size_t)v->tensor;
    for (size_t i = 0; i + 1 < sizeof ours.sentence && v->sentence[i]; i++)
        ours.sentence[i] = v->sentence[i] < ' ' || v->sentence[i] > '~' ? '?' : v->sentence[i];
    tlc_export(cfg->outcome, &ours, sizeof ours);
}

tlc_status tlc_mpi_make_alone(const tlc_mpi_config *cfg, const char *sentence)
{
    tlc_mpi_config ours = {.outcome = NULL};
    verdict v = {.status = TLC_ERR_PARAM, .tensor = -1};

    snprintf(v.sentence, sizeof v.sentence, "%s", sentence);
    if (cfg && cfg->struct_size >= sizeof ours) /* all fields of today have been there from the start */
        tell(cfg, &v, TLC_NOBODY);
    return TLC_ERR_PARAM;
}

/* The verdict of the lowest rank that has one holds for all. Returns its status. */
static tlc_status agree(const tlc_mpi_making *m, verdict *v)
{
    int first = v->status ? m->rank : m->ranks;
    int64_t numbers[] = {v->status, v->tensor};

    if (MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, m->comm) != MPI_SUCCESS)
        return TLC_ERR_TRANSPORT;
    if (first == m->ranks) {
        if (*m->found.sentence) { /* advice */
            snprintf(v->sentence, sizeof v->sentence, "%s", m->found.sentence);
            tell(&m->cfg, v, TLC_NOBODY);
        }
        return TLC_OK;
    }
    if (MPI_Bcast(numbers, 2, MPI_INT64_T, first, m->comm) != MPI_SUCCESS ||
        MPI_Bcast(v->sentence, sizeof v->sentence, MPI_CHAR, first, m->comm) != MPI_SUCCESS)
        return TLC_ERR_TRANSPORT;
    v->status = (tlc_status)numbers[0];
    v->tensor = numbers[1];
    tell(&m->cfg, v, (uint32_t)first);
    return v->status;
}

/* Why this rank cannot go on, or that it can. */
static verdict verdict_of(const tlc_mpi_making *m)
{
    const char *why = m->found.sentence[0] ? m->found.sentence : tlc_status_string(m->status);
    verdict v = {.status = m->status, .tensor = m->found.tensor < m->cfg.count ? (int64_t)m->found.tensor : -1};
    char who[32];

    snprintf(who, sizeof who, "rank %d: ", m->rank);
    if (strncmp(why, who, strlen(who)) == 0)
        snprintf(v.sentence, sizeof v.sentence, "%.199s", why);
    else
        snprintf(v.sentence, sizeof v.sentence, "%s%.160s", who, why);
    return v;
}

tlc_status tlc_mpi_agree(const tlc_mpi_making *m)
{
    verdict v = verdict_of(m);
    return agree(m, &v);
}

/* Compares the descriptions of all ranks with that of rank 0. `first` has room for it. What is wrong on one rank alone
 * comes first, unless it makes a handle of another kind. */
static tlc_status agree_on_text(const tlc_mpi_making *m, const char *mine, char *first, uint64_t len)
{
    verdict v = verdict_of(m);

    for (uint64_t done = 0; done < len;) {
        int part = (int)(len - done < INT_MAX ? len - done : INT_MAX);
        if (MPI_Bcast(first + done, part, MPI_CHAR, 0, m->comm) != MPI_SUCCESS)
            return TLC_ERR_TRANSPORT;
        done += (uint64_t)part;
    }
    if (*mine && *first && (!v.status || strcmp(mine, first) != 0)) /* the first line is the kind */
        compare(mine, first, m->rank, &v);
    return agree(m, &v);
}

static tlc_status agree_on_all(tlc_mpi_making *m, const char *kind)
{
    tlc_mail memory = {.alloc = m->exchange.alloc};
    text mine = {NULL, 0, 0};

    describe(m, kind, &mine);
    mine.room = mine.len + 1;
    uint64_t len = mine.room; /* of rank 0 */
    if (MPI_Bcast(&len, 1, MPI_UINT64_T, 0, m->comm) != MPI_SUCCESS)
        return TLC_ERR_TRANSPORT;
    mine.at = tlc_mail_take(&memory, mine.room, 1);
    char *first = len > SIZE_MAX ? NULL : tlc_mail_take(&memory, (size_t)len, 1);
    verdict memory_verdict = {.status = mine.at && first ? TLC_OK : TLC_ERR_NOMEM, .tensor = -1};
    snprintf(memory_verdict.sentence, sizeof memory_verdict.sentence, "rank %d: %s", m->rank,
             tlc_status_string(TLC_ERR_NOMEM));
    tlc_status status = agree(m, &memory_verdict);
    if (!status && mine.at && first) {
        mine.len = 0;
        describe(m, kind, &mine);
        if (m->rank == 0)
            memcpy(first, mine.at, mine.room);
        status = agree_on_text(m, mine.at, first, len);
    }
    tlc_mail_give_back(&memory, mine.at);
    tlc_mail_give_back(&memory, first);
    return status;
}

/* ---- make -------------------------------------------------------------------------------------------------------- */

/* Copies the names of tensors. */
static void take_names(tlc_mpi_making *m, tlc_mpi *h)
{
    size_t bytes = 0;

    for (size_t i = 0; i < h->count; i++) {
        const char *name = tensor_at(&m->cfg, i).name;
        bytes += name ? strlen(name) + 1 : 1;
    }
    h->name = tlc_mail_take(&h->mail, 1, (h->count + 1) * sizeof *h->name + bytes);
    if (!h->name) {
        m->status = TLC_ERR_NOMEM;
        return;
    }
    char *at = (char *)(h->name + h->count + 1);
    for (size_t i = 0; i < h->count; i++) {
        const char *name = tensor_at(&m->cfg, i).name;
        size_t len = name ? strlen(name) : 0;
        h->name[i] = len ? memcpy(at, name, len) : at; /* the rest is 0 */
        at += len + 1;
    }
}

tlc_status tlc_mpi_make_begin(tlc_mpi_making *m, const tlc_mpi_role *role, const tlc_mpi_config *cfg, tlc_mpi *pair)
{
    memset(m, 0, sizeof *m);
    m->found = (tlc_outcome){.struct_size = sizeof m->found, .tensor = TLC_ALL};
    (void)tlc_mpi_config_init(&m->cfg, sizeof m->cfg, MPI_COMM_NULL);
    if (!cfg || !tlc_import(&m->cfg, sizeof m->cfg, cfg))
        return tlc_mpi_make_alone(cfg, "struct_size of the configuration is not one of this library");
    if (m->cfg.comm == MPI_COMM_NULL)
        return tlc_mpi_make_alone(cfg, "comm is MPI_COMM_NULL");
    if (pair)
        m->comm = pair->mail.comm;
    else if (MPI_Comm_dup(m->cfg.comm, &m->comm) != MPI_SUCCESS)
        return TLC_ERR_TRANSPORT;
    MPI_Comm_rank(m->comm, &m->rank);
    MPI_Comm_size(m->comm, &m->ranks);
    m->complete = !import_config(m);
    if (!m->exchange.push)
        m->exchange.push = role->push;
    const tlc_mail mail = {.comm = m->comm, .rank = m->rank, .chunk = m->cfg.chunk, .alloc = m->exchange.alloc};
    tlc_mpi *h = m->handle = tlc_mail_take(&mail, 1, sizeof *h);
    if (!h) {
        m->status = TLC_ERR_NOMEM;
        return TLC_OK;
    }
    h->role = role;
    h->mail = mail;
    h->pair = pair;
    h->count = m->cfg.count;
    h->out = tlc_mail_take(&mail, h->count + 1, sizeof *h->out);
    h->n = tlc_mail_take(&mail, h->count + 1, sizeof *h->n);
    if (!m->status && (!h->out || !h->n))
        m->status = TLC_ERR_NOMEM;
    for (size_t i = 0; !m->status && i < h->count; i++)
        h->n[i] = tensor_at(&m->cfg, i).n;
    if (!m->status)
        take_names(m, h);
    return TLC_OK;
}

void tlc_mpi_make_peers(tlc_mpi_making *m, size_t peers, int first, const int *list)
{
    tlc_mpi *h = m->handle;

    if (m->status)
        return;
    h->peer = tlc_mail_take(&h->mail, peers + 1, sizeof *h->peer);
    h->box = tlc_mail_take(&h->mail, peers + 1, sizeof *h->box);
    h->from = tlc_mail_take(&h->mail, peers + 1, sizeof *h->from);
    h->to = tlc_mail_take(&h->mail, peers + 1, sizeof *h->to);
    h->over = tlc_mail_take(&h->mail, peers + 1, 1);
    if (!h->peer || !h->box || !h->from || !h->to || !h->over) {
        m->status = TLC_ERR_NOMEM;
        return;
    }
    h->peers = peers;
    for (size_t i = 0; i < peers; i++)
        h->peer[i] = list ? list[i] : first + (int)i;
}

tlc_status tlc_mpi_make_fail(tlc_mpi_making *m, tlc_status status)
{
    tlc_mpi *h = m->handle;

    if (h && h->pair) { /* the servers that its worker would take leave of are not there */
        h->pair->leaving = 1;
        memset(h->pair->over, 1, h->pair->peers);
        tlc_mpi_break(h->pair, status, "the server of this rank was not made");
    } else if (status != TLC_ERR_TRANSPORT)
        (void)MPI_Comm_free(&m->comm);
    if (h)
        tlc_mpi_free(h);
    return status;
}

tlc_status tlc_mpi_make_end(tlc_mpi_making *m, const char *kind, int times, tlc_mpi **out)
{
    tlc_status status = TLC_OK;

    if (!out)
        (void)tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "the place for the handle is NULL");
    for (int i = 0; i < times && !status; i++)
        status = agree_on_all(m, kind);
    if (status || !out)
        return tlc_mpi_make_fail(m, status);
    *out = m->handle;
    if (m->handle->pair)
        m->handle->pair->pair = m->handle;
    return TLC_OK;
}
