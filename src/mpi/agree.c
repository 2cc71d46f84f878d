/* SPDX-License-Identifier: MIT
 *
 * All ranks find the same when they make a handle: they meet, compare what they were given, and tell their callers.
 */
#include "handle.h"
#include <stdarg.h>
#include <stdio.h>

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

/* What ranks tell each other of a failure. */
typedef struct verdict {
    tlc_status status;
    int64_t tensor; /* -1: none */
    char sentence[200];
} verdict;

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

tlc_status tlc_mpi_make_refuse(tlc_mpi_making *m, tlc_status status, const char *format, ...)
{
    va_list arguments;

    if (m->status)
        return m->status;
    va_start(arguments, format);
    vsnprintf(m->found.sentence, sizeof m->found.sentence, format, arguments);
    va_end(arguments);
    m->found.tensor = TLC_ALL;
    return m->status = status;
}

tlc_status tlc_mpi_make_local(tlc_mpi_making *m, int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];

    if (code == MPI_SUCCESS)
        return m->status;
    tlc_mail_error_text(code, text);
    return tlc_mpi_make_refuse(m, TLC_ERR_TRANSPORT, "%s: %.150s", call, text);
}

/* Why this rank cannot go on, or that it can. */
static verdict verdict_of(const tlc_mpi_making *m)
{
    const char *why = m->found.sentence[0] ? m->found.sentence : tlc_status_string(m->status);
    verdict v = {.status = m->status, .tensor = m->found.tensor < m->cfg.count ? (int64_t)m->found.tensor : -1};
    char who[32] = "";

    if (m->rank >= 0)
        snprintf(who, sizeof who, "rank %d: ", m->rank);
    if (strncmp(why, who, strlen(who)) == 0)
        snprintf(v.sentence, sizeof v.sentence, "%.199s", why);
    else
        snprintf(v.sentence, sizeof v.sentence, "%s%.160s", who, why);
    return v;
}

tlc_status tlc_mpi_make_tell(const tlc_mpi_making *m)
{
    const verdict v = verdict_of(m);

    tell(&m->cfg, &v, m->rank < 0 ? TLC_NOBODY : (uint32_t)m->rank);
    return m->status;
}

tlc_status tlc_mpi_make_check(tlc_mpi_making *m, int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return TLC_OK;
    m->error = code;
    m->status = TLC_OK; /* what was wrong before is not heard of any more */
    (void)tlc_mpi_make_local(m, code, call);
    return tlc_mpi_make_tell(m);
}

/* ---- agreement --------------------------------------------------------------------------------------------------- */

/* The verdict of the lowest rank that has one holds for all. Returns its status. */
static tlc_status agree(tlc_mpi_making *m, verdict *v)
{
    int first = v->status ? m->rank : m->ranks;
    int64_t numbers[] = {v->status, v->tensor};

    if (tlc_mpi_make_check(m, MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, m->comm), "MPI_Allreduce"))
        return m->status;
    if (first == m->ranks) {
        if (*m->found.sentence) { /* advice */
            snprintf(v->sentence, sizeof v->sentence, "%s", m->found.sentence);
            tell(&m->cfg, v, TLC_NOBODY);
        }
        return TLC_OK;
    }
    if (tlc_mpi_make_check(m, MPI_Bcast(numbers, 2, MPI_INT64_T, first, m->comm), "MPI_Bcast") ||
        tlc_mpi_make_check(m, MPI_Bcast(v->sentence, sizeof v->sentence, MPI_CHAR, first, m->comm), "MPI_Bcast"))
        return m->status;
    v->status = (tlc_status)numbers[0];
    v->tensor = numbers[1];
    tell(&m->cfg, v, (uint32_t)first);
    return v->status;
}

tlc_status tlc_mpi_agree(tlc_mpi_making *m)
{
    verdict v = verdict_of(m);
    return agree(m, &v);
}

tlc_status tlc_mpi_make_meet(tlc_mpi_making *m, const char *kind)
{
    verdict v = {.tensor = -1};
    char first[48] = "";

    snprintf(first, sizeof first, "%s", kind);
    if (m->comm == MPI_COMM_NULL) {
        if (tlc_mpi_make_check(m, MPI_Comm_dup(m->cfg.comm, &m->comm), "MPI_Comm_dup"))
            return m->status;
        if (m->handle)
            m->handle->mail.comm = m->comm;
    }
    if (tlc_mpi_make_check(m, MPI_Bcast(first, sizeof first, MPI_CHAR, 0, m->comm), "MPI_Bcast"))
        return m->status;
    if (strncmp(first, kind, sizeof first) != 0) {
        v.status = TLC_ERR_PARAM;
        snprintf(v.sentence, sizeof v.sentence, "on rank %d the handle is for %s; on rank 0 the handle is for %.47s",
                 m->rank, kind, first);
    }
    const tlc_status status = agree(m, &v);
    return status ? status : tlc_mpi_agree(m);
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

tlc_tensor tlc_mpi_tensor_at(const tlc_mpi_config *cfg, size_t i)
{
    tlc_tensor ours = {.only = TLC_NOBODY};

    (void)tlc_import_sized(&ours, sizeof ours, (const char *)cfg->tensors + i * cfg->tensors->struct_size,
                           cfg->tensors->struct_size);
    return ours;
}

enum { HEAD_LINES = 13, TENSOR_LINES = 5 };

static void describe(const tlc_mpi_making *m, text *t)
{
    const tlc_exchange_config *x = &m->exchange;
    const char *pull = x->gather ? x->push : tlc_pull_codec(x->push); /* if none is given */

    add(t, "messages have version %d", TLC_MESSAGE_VERSION);
    add(t, "there are %u workers", x->workers);
    add(t, "there are %u servers", x->servers);
    add(t, "there are at most %u owners", x->owners);
    add(t, "gather is %d", x->gather);
    add(t, "sum is %d", x->sum);
    add(t, "pushes have the codec %s", x->push);
    add(t, "answers have the codec %s", x->pull ? x->pull : pull);
    add(t, "the codecs in reserve are %s", x->reserve ? x->reserve : "none");
    add(t, "min_n is %zu", x->min_n);
    add(t, "split_n is %zu", x->split_n);
    add(t, "chunk is %zu", m->cfg.chunk);
    add(t, "there are %zu tensors", m->cfg.count);
    for (size_t i = 0; i < m->cfg.count; i++) {
        const tlc_tensor tensor = tlc_mpi_tensor_at(&m->cfg, i);
        const char *name = tensor.name, *usual = "of the configuration"; /* all have names: objects need them */
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

/* The first line that differs. Both sides have equally many lines before it, and a character of it differs. */
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
    while (mine[same] == first[same])
        same++;
    shorten(ours, mine, same);
    shorten(theirs, first, same);
    snprintf(v->sentence, sizeof v->sentence, "on rank %d %s; on rank 0 %s", rank, ours, theirs);
}

/* Compares the description of this rank with that of rank 0. `first` has room for it. */
static tlc_status compare_with_first(tlc_mpi_making *m, const char *mine, char *first, uint64_t len)
{
    verdict v = {.tensor = -1};

    for (uint64_t done = 0; done < len;) {
        int part = (int)(len - done < INT_MAX ? len - done : INT_MAX);
        if (tlc_mpi_make_check(m, MPI_Bcast(first + done, part, MPI_CHAR, 0, m->comm), "MPI_Bcast"))
            return m->status;
        done += (uint64_t)part;
    }
    compare(mine, first, m->rank, &v);
    return agree(m, &v);
}

tlc_status tlc_mpi_make_compare(tlc_mpi_making *m)
{
    tlc_mail memory = {.alloc = m->exchange.alloc};
    text mine = {NULL, 0, 0};

    describe(m, &mine);
    mine.room = mine.len + 1;
    uint64_t len = mine.room; /* of rank 0 */
    if (tlc_mpi_make_check(m, MPI_Bcast(&len, 1, MPI_UINT64_T, 0, m->comm), "MPI_Bcast"))
        return m->status;
    mine.at = tlc_mail_take(&memory, mine.room, 1);
    char *first = len > SIZE_MAX ? NULL : tlc_mail_take(&memory, (size_t)len, 1);
    if (!mine.at || !first)
        (void)tlc_mpi_make_refuse(m, TLC_ERR_NOMEM, "%s", tlc_status_string(TLC_ERR_NOMEM));
    tlc_status status = tlc_mpi_agree(m);
    if (!status && mine.at && first) {
        mine.len = 0;
        describe(m, &mine);
        if (m->rank == 0)
            memcpy(first, mine.at, mine.room);
        status = compare_with_first(m, mine.at, first, len);
    }
    tlc_mail_give_back(&memory, mine.at);
    tlc_mail_give_back(&memory, first);
    return status;
}
