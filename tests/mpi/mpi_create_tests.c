/* SPDX-License-Identifier: MIT
 *
 * Handles are made by all ranks together, or by none: what is wrong is told to all.
 */
#include "mpi_scene.h"

/* The last rank has something that is wrong whatever others have: it says what, and what is right. */
static void is_wrong(void (*change)(scene *s), size_t tensor, const char *sentence)
{
    char whole[200];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    if (rank == ranks - 1)
        change(&s);
    snprintf(whole, sizeof whole, "rank %d: %s", ranks - 1, sentence);
    require_all_told(&s, tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM, (uint32_t)ranks - 1, tensor, whole);
    require(!h && !s.memory.used);
}

static void no_tensors(scene *s)
{
    s->cfg.tensors = NULL;
}
static void no_codec(scene *s)
{
    s->tensors[1].push = "3cl";
}
static void no_split(scene *s)
{
    s->exchange.split_n = 0;
}
static void no_worker(scene *s)
{
    s->tensors[1].only = 99;
}
static void no_name(scene *s)
{
    s->tensors[1].name = NULL;
}

static void smallest_tensors(scene *s)
{
    s->tensors->struct_size = sizeof s->tensors->struct_size;
}
static void too_small_tensors(scene *s)
{
    s->tensors->struct_size = sizeof s->tensors->struct_size - 1;
}

static void wrong_alone(void)
{
    char only[80];

    is_wrong(no_tensors, TLC_ALL, "tensors is NULL, but their count is 2");
    is_wrong(no_codec, 1,
             "tensor 1 (\"fc\"): push: at 0: \"3cl\": no codec or stage has this name (did you mean 3lc?)");
    is_wrong(no_split, TLC_ALL, "split_n is 0; it is at least 1");
    snprintf(only, sizeof only, "tensor 1 (\"fc\"): only is 99; it is a worker, 0 to %d, or TLC_NOBODY", ranks - 1);
    is_wrong(no_worker, 1, only);
    is_wrong(no_name, 1, "tensor 1: its name is NULL");
    is_wrong(smallest_tensors, 0, "tensor 0: its name is NULL"); /* as it has no room for one */
    is_wrong(too_small_tensors, TLC_ALL, "struct_size of tensors is 7; it is at least 8");
}

static tlc_status update(void *arg, const tlc_allreduce *allreduce, float *const *delta)
{
    (void)arg;
    (void)allreduce;
    (void)delta;
    return TLC_OK;
}

/* Ranks that call different functions, or the same one with nothing. */
static void other_calls(void)
{
    tlc_mpi *h = NULL;
    tlc_status status;
    char sentence[200];
    scene s;

    scene_set(&s);
    s.exchange.servers = 1;
    s.exchange.workers = (uint32_t)ranks - 1;
    if (ranks > 1) {
        s.exchange.servers = rank != 0;
        status = rank == 0 ? tlc_mpi_allreduce_create(&h, &s.cfg) : tlc_mpi_worker_create(&h, &s.cfg);
        require_all_told(&s, status, TLC_ERR_PARAM, 1, TLC_ALL,
                         "on rank 1 the handle is for parameter servers; on rank 0 the handle is for all-reduce");
    }
    scene_set(&s);
    if (rank == ranks - 1)
        s.cfg.exchange = NULL;
    snprintf(sentence, sizeof sentence, "rank %d: exchange is NULL", ranks - 1);
    require_all_told(&s, tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM, (uint32_t)ranks - 1, TLC_ALL, sentence);
    scene_set(&s);
    s.exchange.isa = (tlc_isa)(rank == ranks - 1 ? 99 : 0);
    snprintf(sentence, sizeof sentence, "rank %d: isa is 99; in an all-reduce it is 0 to 4", ranks - 1);
    require_all_told(&s, tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM, (uint32_t)ranks - 1, TLC_ALL, sentence);
    scene_set(&s);
    if (rank == ranks - 1)
        s.exchange.alloc.free = NULL;
    snprintf(sentence, sizeof sentence, "rank %d: of alloc, only alloc is given", ranks - 1);
    require_all_told(&s, tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM, (uint32_t)ranks - 1, TLC_ALL, sentence);
    require(!s.memory.used); /* nothing was taken that cannot be given back */
    scene_set(&s);           /* a server on a rank that has a worker, without that worker */
    s.exchange.servers = 1;
    s.exchange.workers = (uint32_t)ranks;
    if (ranks == 1)
        require_all_told(&s, tlc_mpi_server_create(&h, &s.cfg, NULL), TLC_ERR_PARAM, 0, TLC_ALL,
                         "rank 0: this rank is a worker, too, and gives its handle as `worker`");
    s.exchange.workers = (uint32_t)ranks + 1; /* more workers than ranks */
    snprintf(
        sentence, sizeof sentence,
        "rank 0: workers is %d and servers is 1, but there are %d ranks; each is 1 to %d, and together they are at "
        "least %d",
        ranks + 1, ranks, ranks, ranks);
    require_all_told(&s, tlc_mpi_worker_create(&h, &s.cfg), TLC_ERR_PARAM, 0, TLC_ALL, sentence);
    require(!h);
    scene_set(&s); /* not all owners have an optimizer, or there are no owners */
    if (ranks > 1) {
        status = rank == 0 ? tlc_mpi_allreduce_create(&h, &s.cfg) : tlc_mpi_owners_create(&h, &s.cfg, update, NULL);
        require_all_told(&s, status, TLC_ERR_PARAM, 1, TLC_ALL,
                         "on rank 1 the handle is for all-reduce with optimizers at the owners; on rank 0 the handle "
                         "is for all-reduce");
    }
    require_all_told(&s, tlc_mpi_owners_create(&h, &s.cfg, NULL, NULL), TLC_ERR_PARAM, 0, TLC_ALL,
                     "rank 0: update is NULL");
    s.exchange.gather = 1;
    require_all_told(&s, tlc_mpi_owners_create(&h, &s.cfg, update, NULL), TLC_ERR_PARAM, 0, TLC_ALL,
                     "rank 0: with gather no rank owns parts, so there is nothing to update");
    require(!s.memory.used);
    scene_set(&s);
    s.cfg.comm = MPI_COMM_NULL;
    require_all_told(&s, tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM, TLC_NOBODY, TLC_ALL,
                     "comm is MPI_COMM_NULL");
    require_status(tlc_mpi_allreduce_create(&h, NULL), TLC_ERR_PARAM);
    require_status(tlc_mpi_config_init(NULL, sizeof s.cfg, MPI_COMM_WORLD), TLC_ERR_PARAM);
    require_status(tlc_mpi_config_init(&s.cfg, 0, MPI_COMM_WORLD), TLC_ERR_PARAM);
}

/* The first rank after the workers makes a worker. */
static void one_worker_more(void)
{
    char sentence[200];
    tlc_mpi *h = NULL;
    scene s;

    if (ranks < 2)
        return;
    scene_set(&s);
    s.exchange.servers = 1;
    s.exchange.workers = (uint32_t)ranks - 1;
    snprintf(sentence, sizeof sentence, "rank %d: this rank is not a worker: workers are ranks 0 to %d", ranks - 1,
             ranks - 2);
    require_all_told(&s, tlc_mpi_worker_create(&h, &s.cfg), TLC_ERR_PARAM, (uint32_t)ranks - 1, TLC_ALL, sentence);
    require(!h && !s.memory.used);
}

/* What create has to say of a handle that is made: nothing, or advice. */
static void advice(void)
{
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    snprintf(s.found.sentence, sizeof s.found.sentence, "as before");
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    require(strcmp(s.found.sentence, "as before") == 0);
    tlc_mpi_destroy(h);
    scene_set(&s);
    s.exchange.pull = "topk:p=0.0001";
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    require(s.found.status == TLC_OK && s.found.rank == TLC_NOBODY && strstr(s.found.sentence, "sends too little"));
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

/* The last rank has memory for one allocation more each time. In the end that is enough, and a step works. */
static void no_memory(void)
{
    tlc_mpi *h = NULL;
    int allocations = 0;
    scene s;

    for (tlc_status status = TLC_ERR_NOMEM; status; allocations++) {
        scene_set(&s);
        scene_memory(&s, rank == ranks - 1 ? allocations : -1);
        status = tlc_mpi_allreduce_create(&h, &s.cfg);
        require(status == TLC_OK || status == TLC_ERR_NOMEM);
        require(!status || (s.found.status == TLC_ERR_NOMEM && s.found.rank == (uint32_t)ranks - 1));
        require(!status || !s.memory.used);
    }
    require(allocations > 5);
    scene_memory(&s, 0); /* no step can end now, if it needs room for messages of others; with room it goes on */
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    require_status(tlc_mpi_wait(h), ranks == 1 ? TLC_OK : TLC_ERR_NOMEM);
    scene_memory(&s, -1);
    if (ranks > 1)
        require_status(tlc_mpi_wait(h), TLC_OK);
    scene_memory(&s, 0); /* the room is kept */
    require_status(tlc_mpi_allreduce_start(h, s.grads, 1, s.out), TLC_OK);
    require_status(tlc_mpi_wait(h), TLC_OK);
    scene_memory(&s, -1);
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

/* The same of a server beside a worker. Pushes are larger than answers: with its server, the worker needs more room. */
static void no_memory_for_both(void)
{
    tlc_status status = TLC_ERR_NOMEM;
    scene s;

    for (int allocations = 0; status && ranks < 4; allocations++) {
        tlc_mpi *worker = NULL, *server = NULL;
        scene_set(&s);
        s.cfg.chunk = 1;
        s.exchange.servers = s.exchange.workers = (uint32_t)ranks;
        s.exchange.split_n = 1;
        s.exchange.min_n = 0;
        s.exchange.push = "raw";
        s.exchange.pull = "onebit";
        require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
        scene_memory(&s, rank == ranks - 1 ? allocations : -1);
        status = tlc_mpi_server_create(&server, &s.cfg, worker);
        scene_memory(&s, -1);
        require(status ? status == TLC_ERR_NOMEM && s.found.rank == (uint32_t)ranks - 1 : allocations > 5);
        if (!status)
            require_status(tlc_mpi_worker_start(worker, s.grads, 1, s.out), TLC_OK);
        tlc_mpi_destroy(worker);
        tlc_mpi_destroy(server);
        require(!s.memory.used);
    }
}

/* A rank that is both can make its worker, but not its server: nobody is left waiting. */
static void server_not_made(void)
{
    tlc_outcome found = {.struct_size = sizeof found};
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    scene_set(&s);
    s.exchange.servers = 1;
    s.exchange.workers = (uint32_t)ranks;
    if (rank == ranks - 1) {
        require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
        s.exchange.isa = (tlc_isa)99;
        require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_ERR_PARAM);
        require_status(tlc_mpi_outcome(worker, &found), TLC_OK);
        require(strcmp(found.sentence, "the server of this rank was not made") == 0);
    } else
        require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_ERR_PARAM);
    require(s.found.status == TLC_ERR_PARAM && s.found.rank == (uint32_t)ranks - 1 && !server);
    tlc_mpi_destroy(worker);
    require(!s.memory.used);
}

const mpi_test create_tests[] = {
    {"a rank that is wrong", wrong_alone},
    {"ranks that call something else", other_calls},
    {"a worker on the rank of a server", one_worker_more},
    {"advice", advice},
    {"a rank without memory", no_memory},
    {"a rank without memory for its server", no_memory_for_both},
    {"a server that is not made", server_not_made},
    {NULL, NULL},
};
