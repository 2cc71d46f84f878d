/* SPDX-License-Identifier: MIT */
#include "fault_scene.h"
#include <stdio.h>

int poor, most = -1, refused, lacked;
static _Thread_local const scene *ours; /* of this rank */

void scene_set(scene *s, int rank, uint32_t workers, uint32_t servers)
{
    *s = (scene){.memory = {.left = rank == poor ? most : -1, .once = 1},
                 .rank = rank,
                 .found.struct_size = sizeof s->found};
    ours = s;
    for (int i = 0; i < 2; i++) {
        s->tensors[i] = (tlc_tensor){.struct_size = sizeof *s->tensors,
                                     .name = i ? "fc" : "conv",
                                     .n = i ? 40 : 30,
                                     .only = TLC_NOBODY};
        s->grads[i] = s->out[i] = s->values;
    }
    require_status(tlc_exchange_config_init(&s->exchange, sizeof s->exchange), TLC_OK);
    s->exchange.workers = workers;
    s->exchange.servers = servers;
    s->exchange.alloc = heap_allocator(&s->memory);
    require_status(tlc_mpi_config_init(&s->cfg, sizeof s->cfg, fake_world()), TLC_OK);
    s->cfg.exchange = &s->exchange;
    s->cfg.tensors = s->tensors;
    s->cfg.count = 2;
    s->cfg.outcome = &s->found;
    s->cfg.chunk = 16;
}

void require_told(const tlc_outcome *found, int rank)
{
    const int failed = fake_was_told() ? rank : (int)found->rank;
    const char *call = fake_call(failed);
    const int is_known = !call || strcmp(call, "MPI_Comm_rank") != 0; /* else the rank does not know its number */
    char start[20], whole[200];

    snprintf(start, sizeof start, "rank %d: ", failed);
    snprintf(whole, sizeof whole, "%s%s%s%s", is_known ? start : "", call ? call : "", call ? ": " : "",
             fake_sentence());
    if (strcmp(found->sentence, whole) != 0)
        fprintf(stderr, "\"%s\" instead of \"%s\"\n", found->sentence, whole);
    require(strcmp(found->sentence, whole) == 0 && found->tensor == TLC_ALL);
    require(found->rank == (is_known ? (uint32_t)failed : TLC_NOBODY));
}

/* Was there no memory on this rank? */
static int has_lacked(const scene *s)
{
    return s->rank == poor && most >= 0 && s->memory.left < 0;
}

tlc_status created(const scene *s, tlc_status status)
{
    refused += status == TLC_ERR_NOMEM;
    if (status == TLC_ERR_NOMEM) {
        char start[20], whole[60];
        snprintf(start, sizeof start, "rank %d: ", poor);
        snprintf(whole, sizeof whole, "%s%s", start, tlc_status_string(status));
        require(strncmp(s->found.sentence, start, strlen(start)) == 0 && s->found.rank == (uint32_t)poor);
        require(strcmp(s->found.sentence, whole) == 0 || strstr(s->found.sentence, "has not given"));
        require(s->found.tensor == TLC_ALL);
    }
    require(status || !has_lacked(s));
    require(!status || fake_was_told() || s->found.status == TLC_ERR_TRANSPORT ||
            (most >= 0 && status == TLC_ERR_NOMEM));
    require(!status || (s->found.status == status && s->found.sentence[0]));
    if (status == TLC_ERR_TRANSPORT)
        require_told(&s->found, s->rank);
    return status;
}

tlc_status went(const tlc_mpi *h, tlc_status status)
{
    tlc_outcome found = {.struct_size = sizeof found};

    require(status || !fake_was_told());
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    require(!status || (found.status == status && found.sentence[0]));
    if (status == TLC_ERR_NOMEM) {
        char whole[100];
        snprintf(whole, sizeof whole, "rank %d: there is no memory for a message that came; the next call goes on",
                 poor);
        require(strcmp(found.sentence, whole) == 0 && found.rank == (uint32_t)poor && found.tensor == TLC_ALL);
    }
    require(!fake_was_told() || (status == TLC_ERR_TRANSPORT && strcmp(found.sentence, fake_sentence()) == 0));
    require(!fake_was_told() || (found.rank == TLC_NOBODY && found.tensor == TLC_ALL));
    return status;
}

tlc_status await(tlc_mpi *h)
{
    tlc_status status;

    do {
        const int had_lacked = has_lacked(ours);
        status = went(h, tlc_mpi_wait(h));
        require((status == TLC_ERR_NOMEM) == (has_lacked(ours) && !had_lacked));
    } while (status == TLC_ERR_NOMEM);
    return status;
}

void close_scene(scene *s)
{
    require((s->memory.used > 0) == (fake_requests() > 0)); /* what MPI may still use is not given back */
    heap_empty(&s->memory);
    if (s->rank == poor)
        lacked = has_lacked(s);
}
