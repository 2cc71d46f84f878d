/* SPDX-License-Identifier: MIT
 *
 * The states of handles, for checkpoints.
 */
#include "../lib/explain.h"
#include "../mpi/ranks.h"
#include "sync.h"
#include <stdlib.h>
#include <string.h>

static size_t state_size(const syncer *s, size_t i)
{
    switch (s->o.kind) {
    case SYNC_SERVER:
        return i ? tlc_server_state_size(tlc_mpi_server_object(s->handle[i]))
                 : tlc_worker_state_size(tlc_mpi_worker_object(s->handle[i]));
    case SYNC_GOSSIP: return tlc_gossip_state_size(tlc_mpi_gossip_object(s->handle[i]));
    default: return tlc_allreduce_state_size(tlc_mpi_allreduce_object(s->handle[i]));
    }
}

static tlc_status save(const syncer *s, size_t i, void *dst, size_t cap, size_t *written)
{
    switch (s->o.kind) {
    case SYNC_SERVER:
        return i ? tlc_server_state_save(tlc_mpi_server_object(s->handle[i]), dst, cap, written)
                 : tlc_worker_state_save(tlc_mpi_worker_object(s->handle[i]), dst, cap, written);
    case SYNC_GOSSIP: return tlc_gossip_state_save(tlc_mpi_gossip_object(s->handle[i]), dst, cap, written);
    default: return tlc_allreduce_state_save(tlc_mpi_allreduce_object(s->handle[i]), dst, cap, written);
    }
}

static tlc_status load(const syncer *s, size_t i, const tlc_message *states, size_t count)
{
    switch (s->o.kind) {
    case SYNC_SERVER:
        return i ? tlc_server_state_load(tlc_mpi_server_object(s->handle[i]), states, count)
                 : tlc_worker_state_load(tlc_mpi_worker_object(s->handle[i]), states, count);
    case SYNC_GOSSIP: return tlc_gossip_state_load(tlc_mpi_gossip_object(s->handle[i]), states, count);
    default: return tlc_allreduce_state_load(tlc_mpi_allreduce_object(s->handle[i]), states, count);
    }
}

/* A block is, for each handle, the length of its state, 8 bytes in the order of this machine, and the state. */
void *sync_save(const syncer *s, size_t *size)
{
    unsigned char *block, *at;
    size_t room = 1;

    for (size_t i = 0; i < s->handles; i++)
        room += sizeof(uint64_t) + state_size(s, i);
    at = block = malloc(room);
    for (size_t i = 0; block && i < s->handles; i++) {
        size_t len = 0;
        tlc_status status = save(s, i, at + sizeof(uint64_t), room - (size_t)(at - block) - sizeof(uint64_t), &len);
        const uint64_t length = status ? 0 : len;
        memcpy(at, &length, sizeof length);
        at += sizeof length + len;
    }
    *size = block ? (size_t)(at - block) : 0;
    return block;
}

/* The state of handle i in a block. len 0: it has none. */
static tlc_message state_in(tlc_message block, size_t i)
{
    const unsigned char *at = block.data, *end = at + block.len;
    uint64_t length;

    for (;; i--) {
        if ((size_t)(end - at) < sizeof length)
            return (tlc_message){NULL, 0};
        memcpy(&length, at, sizeof length);
        at += sizeof length;
        if (length > (size_t)(end - at))
            return (tlc_message){NULL, 0};
        if (!i)
            return (tlc_message){at, (size_t)length};
        at += length;
    }
}

bool sync_load(syncer *s, const tlc_message *blocks, size_t count, char *why)
{
    tlc_message *states = calloc(count, sizeof *states);
    bool ok = states || explain(why, "out of memory");

    for (size_t i = 0; ok && i < s->handles; i++) {
        size_t found = 0;
        for (size_t k = 0; k < count; k++) {
            const tlc_message state = state_in(blocks[k], i);
            if (state.len)
                states[found++] = state;
        }
        tlc_status status = load(s, i, states, found);
        tlc_outcome outcome = {.struct_size = sizeof outcome};
        if (status)
            ok = explain(why, "the checkpoint: %s",
                         tlc_mpi_outcome(s->handle[i], &outcome) ? tlc_status_string(status) : outcome.sentence);
    }
    free(states);
    return ok;
}

/* Step and history of a handle, and of a worker those of this rank's server; 0: it is none. */
static void history_of(const syncer *s, size_t i, uint64_t known[4])
{
    const tlc_server *server = s->o.kind == SYNC_SERVER && s->handles > 1 ? tlc_mpi_server_object(s->handle[1]) : NULL;

    if (s->o.kind == SYNC_SERVER) {
        known[0] = tlc_worker_step(tlc_mpi_worker_object(s->handle[i]));
        known[1] = tlc_worker_history(tlc_mpi_worker_object(s->handle[i]));
    } else {
        known[0] = tlc_allreduce_step(tlc_mpi_allreduce_object(s->handle[i]));
        known[1] = tlc_allreduce_history(tlc_mpi_allreduce_object(s->handle[i]));
    }
    known[2] = tlc_server_step(server);
    known[3] = tlc_server_history(server);
}

/* known: four numbers of each rank. The rank whose state is not of the run of rank 0, or of the servers; -1: none. */
static int stranger_in(const syncer *s, const uint64_t *known)
{
    uint64_t sum = 0;
    int compares = s->o.kind == SYNC_SERVER;

    for (int r = s->ranks - (int)s->o.servers; compares && r < s->ranks; r++) {
        compares = known[4 * r + 3] && known[4 * r + 2] == known[0];
        sum += known[4 * r + 3];
    }
    for (int r = 0; r < s->ranks; r++)
        if (known[4 * r + 1] && known[4 * r] == known[0] &&
            ((known[1] && known[4 * r + 1] != known[1]) || (compares && known[4 * r + 1] != sum)))
            return r;
    return -1;
}

bool sync_compare(syncer *s, char *why)
{
    uint64_t *known = malloc((size_t)s->ranks * 4 * sizeof *known);
    bool ok = ranks_agree(known || explain(why, "out of memory"), why);

    for (size_t i = 0; ok && known && i < s->handles; i++) {
        uint64_t own[4];
        tlc_outcome outcome = {.struct_size = sizeof outcome};
        if (s->o.kind == SYNC_GOSSIP) {
            const bool greeted = !tlc_mpi_gossip_hello(s->handle[i], 0) || tlc_mpi_outcome(s->handle[i], &outcome) ||
                                 explain(why, "the checkpoint: %s", outcome.sentence);
            ok = ranks_agree(greeted, why);
            continue;
        }
        if (s->o.kind == SYNC_SERVER && i)
            break;
        history_of(s, i, own);
        MPI_Allgather(own, 4, MPI_UINT64_T, known, 4, MPI_UINT64_T, s->comm);
        const int stranger = stranger_in(s, known);
        ok = stranger < 0 || explain(why, "the checkpoint: the state of rank %d is of another run", stranger);
    }
    free(known);
    return ok;
}
