/* SPDX-License-Identifier: MIT
 *
 * Messages of the fake: their bytes stay with the sender until they are received.
 */
#include "../support/support.h"
#include "fake_turns.h"
#include <sched.h>

enum { REQUESTS = 256, LOOKS = 8 };

typedef enum request_state { UNUSED, SENDS, SENT, RECEIVES } request_state;

typedef struct request {
    request_state state;
    int owner, comm, from, to, tag, asked;
    uint64_t order; /* of sends */
    const void *source;
    void *target;
    int len;
} request;

static request requests[REQUESTS];
static uint64_t sends;
static int probed[FAKE_RANKS];

/* ---- looks ------------------------------------------------------------------------------------------------------- */

static int yields[FAKE_RANKS], looks[FAKE_RANKS]; /* looks: since the rank has yielded, or a message has moved */

/* A rank that finds nothing yields soon. */
static void look(void)
{
    require(++looks[fake_rank()] <= LOOKS);
}

/* In place of that of the system. */
int sched_yield(void)
{
    yields[fake_rank()]++;
    looks[fake_rank()] = 0;
    return 0;
}

int fake_yields(void)
{
    return yields[fake_rank()];
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

int fake_requests(void)
{
    int left = 0;

    for (int i = 0; i < REQUESTS; i++)
        left += requests[i].state != UNUSED && requests[i].owner == fake_rank();
    return left;
}

void fake_end_requests(void)
{
    for (int i = 0; i < REQUESTS; i++) {
        require(requests[i].state == UNUSED || fake_keeps());
        requests[i].state = UNUSED;
    }
    memset(yields, 0, sizeof yields);
    memset(looks, 0, sizeof looks);
}

static MPI_Request request_of(int i)
{
    return (MPI_Request)(intptr_t)(0x2000 + i);
}

static request *asked(MPI_Request r)
{
    request *found = NULL;

    for (int i = 0; i < REQUESTS; i++)
        if (request_of(i) == r)
            found = &requests[i];
    require(found && found->state != UNUSED && found->owner == fake_rank());
    return found;
}

static void new_request(MPI_Request *handle, request r)
{
    request *slot = NULL;

    for (int i = 0; i < REQUESTS && !slot; i++)
        if (requests[i].state == UNUSED) {
            slot = &requests[i];
            *handle = request_of(i);
        }
    require(slot);
    r.owner = fake_rank();
    *slot = r;
}

/* The first message that a rank has not taken. Its bytes stay with the sender until then. */
static request *first_of(int where, int from, int to, int tag)
{
    request *first = NULL;

    for (int i = 0; i < REQUESTS; i++) {
        request *r = &requests[i];
        if (r->state == SENDS && r->comm == where && r->from == from && r->to == to && r->tag == tag &&
            (!first || r->order < first->order))
            first = r;
    }
    return first;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm c, MPI_Request *handle)
{
    const int code = fake_begin_in(c, NULL);

    if (code)
        return code;
    new_request(handle, (request){.state = SENDS,
                                  .comm = fake_comm(c),
                                  .from = fake_rank(),
                                  .to = to,
                                  .tag = tag,
                                  .order = sends++,
                                  .source = data,
                                  .len = fake_size(type, count)});
    fake_moved();
    return MPI_SUCCESS;
}

int MPI_Iprobe(int from, int tag, MPI_Comm c, int *came, MPI_Status *about)
{
    int code = fake_begin_in(c, NULL);
    const request *r = code ? NULL : first_of(fake_comm(c), from, fake_rank(), tag);

    (void)about;
    *came = r != NULL;
    if (r)
        probed[fake_rank()] = r->len;
    else if (!code) {
        look();
        code = fake_stall();
        if (code)
            fake_fails_in(fake_comm(c));
    }
    return code;
}

int MPI_Get_count(const MPI_Status *about, MPI_Datatype type, int *count)
{
    (void)about;
    require(type == MPI_BYTE);
    *count = probed[fake_rank()];
    return fake_begin(NULL);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm c, MPI_Request *handle)
{
    const int code = fake_begin_in(c, NULL);

    if (!code)
        new_request(handle, (request){.state = RECEIVES,
                                      .comm = fake_comm(c),
                                      .from = from,
                                      .to = fake_rank(),
                                      .tag = tag,
                                      .target = data,
                                      .len = fake_size(type, count)});
    return code;
}

/* Messages take a while: the first call finds nothing. The sender of one that is not empty hears late that it came. */
static int is_over(request *r)
{
    if (fake_keeps())
        return 0;
    if (fake_is_broken())
        return 1;
    if (!r->asked++ || r->state == SENDS)
        return 0;
    if (r->state == SENT)
        return r->asked > 0;
    request *message = first_of(r->comm, r->from, r->to, r->tag);
    if (!message)
        return 0;
    require(message->len == r->len);
    if (r->len)
        memcpy(r->target, message->source, (size_t)r->len);
    message->state = SENT;
    if (message->len)
        message->asked = -FAKE_LONG_WAIT;
    return 1;
}

static void end(MPI_Request *handle)
{
    asked(*handle)->state = UNUSED;
    *handle = MPI_REQUEST_NULL;
    looks[fake_rank()] = 0;
    fake_moved();
}

int MPI_Testall(int count, MPI_Request list[], int *done, MPI_Status about[])
{
    const int code = fake_begin(NULL);

    (void)about;
    *done = 1;
    for (int i = 0; i < count; i++)
        if (list[i] == MPI_REQUEST_NULL)
            continue;
        else {
            if (code)
                fake_fails_in(asked(list[i])->comm);
            if (is_over(asked(list[i])))
                end(&list[i]);
            else
                *done = 0;
        }
    if (!code && !*done)
        fake_pause(); /* the next call tells */
    *done = *done && !code;
    return code;
}

int MPI_Test(MPI_Request *handle, int *done, MPI_Status *about)
{
    return MPI_Testall(1, handle, done, about);
}

int MPI_Cancel(MPI_Request *handle)
{
    require(fake_was_hit());
    if (!fake_keeps()) {
        asked(*handle)->state = SENT;
        asked(*handle)->asked = 1;
    }
    return fake_begin(NULL);
}
