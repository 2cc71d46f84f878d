/* SPDX-License-Identifier: MIT */
#include "mpi_scene.h"

void scene_set(scene *s)
{
    *s = (scene){.memory.left = -1};
    s->tensors[0] = (tlc_tensor){.struct_size = sizeof s->tensors[0], .name = "conv", .n = 300, .only = TLC_NOBODY};
    s->tensors[1] = (tlc_tensor){.struct_size = sizeof s->tensors[1], .name = "fc", .n = 400, .only = TLC_NOBODY};
    require_status(tlc_exchange_config_init(&s->exchange, sizeof s->exchange), TLC_OK);
    s->exchange.alloc = heap_allocator(&s->memory);
    s->cfg = mpi_config(&s->exchange, s->tensors, 2);
    s->found.struct_size = sizeof s->found;
    s->cfg.outcome = &s->found;
    s->grads[0] = s->grads[1] = s->out[0] = s->out[1] = s->values;
}

tlc_mpi *scene_server(scene *s)
{
    tlc_mpi *h = NULL;

    scene_set(s);
    s->exchange.servers = 1;
    s->exchange.workers = (uint32_t)ranks - 1;
    require_status(rank == ranks - 1 ? tlc_mpi_server_create(&h, &s->cfg, NULL) : tlc_mpi_worker_create(&h, &s->cfg),
                   TLC_OK);
    return h;
}

void scene_server_gone(scene *s, tlc_mpi *h)
{
    tlc_outcome found = {.struct_size = sizeof found};

    require_status(tlc_mpi_worker_start(h, s->grads, 1, s->out), TLC_OK);
    require_status(tlc_mpi_wait(h), TLC_ERR_ORDER);
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    require(strcmp(found.sentence, "a server was destroyed before this step") == 0);
}

void scene_memory(scene *s, int allocations)
{
    s->memory.left = allocations;
}

tlc_status status_of(const tlc_mpi *h)
{
    tlc_outcome found = {.struct_size = sizeof found};

    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    return found.status;
}

tlc_mpi_stats stats_of(const tlc_mpi *h)
{
    tlc_mpi_stats stats = {.struct_size = sizeof stats};

    require_status(tlc_mpi_get_stats(h, &stats), TLC_OK);
    return stats;
}

void require_all_told(const scene *s, tlc_status got, tlc_status status, uint32_t at_fault, size_t tensor,
                      const char *sentence)
{
    require_status(got, status);
    if (rank == 0 && strcmp(s->found.sentence, sentence) != 0)
        fprintf(stderr, "\"%s\" instead of \"%s\"\n", s->found.sentence, sentence);
    require(s->found.status == status && s->found.cause == status);
    require(s->found.rank == at_fault && s->found.tensor == tensor);
    require(strcmp(s->found.sentence, sentence) == 0);
}
