/* SPDX-License-Identifier: MIT
 *
 * Each call of MPI fails once on each rank: all ranks end, with a status and a sentence, and keep no memory. Without a
 * failure no ranks wait for each other. So it is when a rank has no memory for a moment: to make its handle, and in
 * steps, whose messages have many pieces here.
 */
#include "fault_scene.h"
#include "still.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { SECONDS_MAX = 100 };

static int steps; /* that ranks make */

/* ---- what ranks do ----------------------------------------------------------------------------------------------- */

/* A handle has counted the calls of its object, and how often it yielded: the clock goes on by 1 in each. */
static void require_times(const tlc_mpi *h, int calls, int yields)
{
    tlc_mpi_stats stats = {.struct_size = sizeof stats};

    require_status(tlc_mpi_get_stats(h, &stats), TLC_OK);
    require(stats.codec == calls && stats.waiting == yields && yields > 0);
}

/* owns: calls of the object in each step that only owners make. */
static void play_steps(scene *s, tlc_mpi *h, int owns)
{
    const int before = fake_yields(), of_owner = tlc_allreduce_parts(tlc_mpi_allreduce_object(h)) ? owns : 0;
    tlc_status status = TLC_OK;

    for (int i = 0; i < steps && !status; i++) {
        status = went(h, tlc_mpi_allreduce_start(h, s->grads, 1, s->out));
        if (!status)
            status = await(h);
    }
    if (!status)
        require_times(h, steps * (2 + of_owner), fake_yields() - before);
    tlc_mpi_destroy(h);
    close_scene(s);
}

static void play_allreduce(int rank, int ranks)
{
    tlc_mpi *h = NULL;
    scene s;

    (void)ranks;
    scene_set(&s, rank, 0, 0);
    if (created(&s, tlc_mpi_allreduce_create(&h, &s.cfg)))
        close_scene(&s);
    else
        play_steps(&s, h, 1);
}

static void play_gather(int rank, int ranks)
{
    tlc_mpi *h = NULL;
    scene s;

    (void)ranks;
    scene_set(&s, rank, 0, 0);
    s.exchange.gather = 1;
    if (created(&s, tlc_mpi_allreduce_create(&h, &s.cfg)))
        close_scene(&s);
    else
        play_steps(&s, h, 0);
}

static void play_owners(int rank, int ranks)
{
    tlc_mpi *h = NULL;
    scene s;

    (void)ranks;
    scene_set(&s, rank, 0, 0);
    if (created(&s, tlc_mpi_owners_create(&h, &s.cfg, keep_still, NULL)))
        close_scene(&s);
    else
        play_steps(&s, h, 2);
}

static void play_worker(scene *s)
{
    tlc_mpi *h = NULL;
    tlc_status status = created(s, tlc_mpi_worker_create(&h, &s->cfg));
    const int before = fake_yields();

    for (int i = 0; i < steps && !status; i++) {
        status = went(h, tlc_mpi_worker_start(h, s->grads, 1, s->out));
        if (!status)
            status = await(h);
    }
    require(!status || refused || fake_was_hit()); /* a server without memory for a moment goes on */
    if (!status)
        require_times(h, steps * 2, fake_yields() - before);
    tlc_mpi_destroy(h);
}

/* The last ranks serve the others. */
static void play_servers(int rank, int ranks, int servers)
{
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s, rank, (uint32_t)(ranks - servers), (uint32_t)servers);
    if (rank < ranks - servers)
        play_worker(&s);
    else {
        tlc_status status = created(&s, tlc_mpi_server_create(&h, &s.cfg, NULL));
        while (!status && went(h, tlc_mpi_server_run(h, NULL, NULL)) == TLC_ERR_NOMEM) {
        }
        tlc_mpi_destroy(h);
    }
    close_scene(&s);
}

static void play_apart(int rank, int ranks)
{
    play_servers(rank, ranks, 1);
}

static void play_many_apart(int rank, int ranks)
{
    play_servers(rank, ranks, ranks - 1);
}

/* All ranks are workers, too. Those with servers end with the worker or the server first. */
static void play_both(int rank, int ranks, int servers, int server_first)
{
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks, (uint32_t)servers);
    if (rank < ranks - servers) {
        play_worker(&s);
        close_scene(&s);
        return;
    }
    tlc_status status = created(&s, tlc_mpi_worker_create(&worker, &s.cfg));
    if (!status)
        status = created(&s, tlc_mpi_server_create(&server, &s.cfg, worker));
    for (int i = 0; i < steps && !status; i++) {
        status = went(worker, tlc_mpi_worker_start(worker, s.grads, 1, s.out));
        if (!status)
            status = went(server, tlc_mpi_server_start(server));
        if (!status)
            status = await(server);
        if (!status)
            status = went(server, tlc_mpi_server_answer(server, NULL));
        if (!status)
            status = await(worker);
    }
    if (server && status == TLC_ERR_TRANSPORT) { /* they have one communicator */
        tlc_outcome of_worker = {.struct_size = sizeof of_worker}, of_server = of_worker;
        require_status(tlc_mpi_outcome(worker, &of_worker), TLC_OK);
        require_status(tlc_mpi_outcome(server, &of_server), TLC_OK);
        require(of_worker.status == TLC_ERR_TRANSPORT && of_server.status == TLC_ERR_TRANSPORT);
        require(strcmp(of_worker.sentence, of_server.sentence) == 0);
    }
    tlc_mpi_destroy(server_first ? server : worker);
    tlc_mpi_destroy(server_first ? worker : server);
    close_scene(&s);
}

static void play_worker_first(int rank, int ranks)
{
    play_both(rank, ranks, 1, 0);
}

static void play_server_first(int rank, int ranks)
{
    play_both(rank, ranks, 1, 1);
}

static void play_many_both(int rank, int ranks)
{
    play_both(rank, ranks, 2, rank % 2);
}

/* The last rank destroys its worker before its server answers. That ends the server for all, so nobody takes the
 * answer. The others leave after it. */
static void play_cut_off(int rank, int ranks)
{
    tlc_mpi *worker = NULL, *server = NULL;
    int answered = 1;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks, 1);
    tlc_status status = created(&s, tlc_mpi_worker_create(&worker, &s.cfg));
    if (!status && rank == ranks - 1)
        status = created(&s, tlc_mpi_server_create(&server, &s.cfg, worker));
    const int is_made = !status;
    if (!status)
        status = went(worker, tlc_mpi_worker_start(worker, s.grads, 1, s.out));
    if (!status && server)
        status = went(server, tlc_mpi_server_start(server));
    if (!status)
        status = await(server ? server : worker);
    require(status || server);
    if (server) {
        tlc_mpi_destroy(worker);
        worker = NULL;
    }
    if (!status)
        (void)went(server, tlc_mpi_server_answer(server, NULL));
    if (is_made)
        (void)MPI_Bcast(&answered, 1, MPI_INT, ranks - 1, fake_world());
    tlc_mpi_destroy(worker);
    tlc_mpi_destroy(server);
    close_scene(&s);
}

static void play_gossip(int rank, int ranks)
{
    const tlc_graph ring = {.struct_size = sizeof ring, .kind = TLC_GRAPH_RING};
    MPI_Comm comm = MPI_COMM_NULL;
    tlc_mpi *h = NULL;
    scene s;

    (void)ranks;
    scene_set(&s, rank, 0, 0);
    const float *const model[] = {s.values, s.values};
    tlc_status status = tlc_mpi_graph_create(fake_world(), &ring, &comm);
    require(status == TLC_OK || status == TLC_ERR_TRANSPORT);
    s.cfg.comm = comm;
    if (!status)
        status = created(&s, tlc_mpi_gossip_create(&h, &s.cfg, TLC_GOSSIP_DCD, model));
    for (int i = 0; i < steps && !status; i++) {
        status = went(h, tlc_mpi_gossip_start(h, model));
        if (!status)
            status = await(h);
        if (!status)
            status = went(h, tlc_mpi_gossip_hello(h, 1));
    }
    tlc_mpi_destroy(h);
    if (comm != MPI_COMM_NULL && !fake_was_told())
        MPI_Comm_free(&comm);
    close_scene(&s);
}

/* The second worker is slow, and nobody waits for it but the server, when it has no room for answers. Each answer comes
 * to both workers, in order. */
static void play_backup(int rank, int ranks)
{
    enum { STEPS = 6 };
    static float answer[STEPS];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks - 1, 1);
    for (int i = 0; i < STEPS && rank == ranks - 1; i++)
        answer[i] = -1;
    s.exchange.backup = 1;
    s.exchange.keep = 2;
    s.exchange.push = s.exchange.pull = "raw";
    tlc_status status = created(&s, rank < ranks - 1 ? tlc_mpi_worker_create(&h, &s.cfg)
                                                     : tlc_mpi_server_create(&h, &s.cfg, NULL));
    const int before = fake_yields();
    while (!status && rank == ranks - 1) {
        status = went(h, tlc_mpi_server_run(h, NULL, NULL));
        if (status != TLC_ERR_NOMEM)
            break;
        status = TLC_OK;
    }
    if (!status && rank == ranks - 1) { /* it has yielded while it had no room, too */
        tlc_mpi_stats stats = {.struct_size = sizeof stats};
        require_status(tlc_mpi_get_stats(h, &stats), TLC_OK);
        require(stats.waiting < fake_yields() - before);
    }
    for (int i = 0; i < STEPS && !status && rank < ranks - 1; i++) {
        fake_dawdle(rank * 5);
        for (int k = 0; k < 40; k++)
            s.values[k] = (float)(10 * i + rank);
        status = went(h, tlc_mpi_worker_start(h, s.grads, 1, s.out));
        if (!status)
            status = await(h);
        if (!status && answer[i] < 0)
            answer[i] = s.values[0];
        require(status || (s.values[39] == answer[i] && s.values[0] == answer[i]));
        require(status || answer[i] >= (float)(10 * i)); /* what came late is in the next push */
    }
    tlc_mpi_destroy(h);
    close_scene(&s);
}

/* The second worker is beside the first server, which goes on without it. The other server waits for it, but its
 * gradient is not finite: of the outcomes of both servers workers have the one that says so. */
static void play_uneven(int rank, int ranks)
{
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks - 1, 2);
    s.exchange.backup = 1;
    s.exchange.split_n = 1;
    s.cfg.chunk = 1 << 20; /* no push is longer on its way */
    for (int i = 0; i < 40; i++)
        s.values[i] = rank == 1 ? NAN : 1;
    tlc_status status = rank < ranks - 1 ? created(&s, tlc_mpi_worker_create(&worker, &s.cfg)) : TLC_OK;
    if (!status && rank > 0)
        status = created(&s, tlc_mpi_server_create(&server, &s.cfg, worker));
    if (!status && rank == 0)
        status = went(worker, tlc_mpi_worker_start(worker, s.grads, 1, s.out));
    fake_dawdle(rank == 2 ? 4 : 0);
    if (!status && server) {
        status = went(server, tlc_mpi_server_start(server));
        if (!status)
            status = await(server);
        if (!status || status == TLC_ERR_STEP)
            status = went(server, tlc_mpi_server_answer(server, NULL));
    }
    if (!status && rank == 1)
        status = went(worker, tlc_mpi_worker_start(worker, s.grads, 1, s.out));
    if (!status && worker)
        (void)await(worker);
    if (worker && most < 0 && !fake_was_hit()) {
        tlc_outcome found = {.struct_size = sizeof found};
        require_status(tlc_mpi_outcome(worker, &found), TLC_OK);
        require(found.status == TLC_OK && found.cause == TLC_ERR_NONFINITE && found.rank == 1 && *found.taken == 1);
        require_status(tlc_worker_outcome(tlc_mpi_worker_object(worker), 0, &found), TLC_OK);
        require(!found.cause && *found.taken == 1);
    }
    tlc_mpi_destroy(worker);
    tlc_mpi_destroy(server);
    close_scene(&s);
}

static int ahead; /* this worker */

/* The worker is a step ahead, as it has the state of one that has made a step. */
static void go_ahead(const scene *s, tlc_worker *of)
{
    tlc_message push, answer;
    tlc_worker *w = NULL;
    tlc_server *server = NULL;
    unsigned char state[4000];
    size_t size;

    require_status(tlc_worker_create(&w, &s->exchange, (uint32_t)ahead, s->tensors, 2), TLC_OK);
    require_status(tlc_server_create(&server, &s->exchange, 0, s->tensors, 2), TLC_OK);
    require_status(tlc_worker_push(w, s->grads, 1, &push), TLC_OK);
    require_status(tlc_server_push(server, push, NULL), TLC_OK);
    require_status(tlc_server_reduce(server), TLC_OK);
    require_status(tlc_server_answer(server, NULL, &answer), TLC_OK);
    require_status(tlc_worker_pull(w, &answer, s->out), TLC_OK);
    require_status(tlc_worker_state_save(w, state, sizeof state, &size), TLC_OK);
    require_status(tlc_worker_state_load(of, &(tlc_message){state, size}, 1), TLC_OK);
    tlc_worker_destroy(w);
    tlc_server_destroy(server);
}

/* The server breaks at the push of a worker, though there is another one, which would be enough. */
static void play_ahead(int rank, int ranks)
{
    const int is_server = rank == ranks - 1;
    char sentence[60];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s, rank, (uint32_t)ranks - 1, 1);
    s.exchange.backup = 1;
    s.cfg.chunk = 1 << 20; /* no push is longer on its way */
    require_status(is_server ? tlc_mpi_server_create(&h, &s.cfg, NULL) : tlc_mpi_worker_create(&h, &s.cfg), TLC_OK);
    if (rank == ahead)
        go_ahead(&s, tlc_mpi_worker_object(h));
    fake_dawdle(is_server ? 4 : 0);
    require_status(is_server ? tlc_mpi_server_start(h) : tlc_mpi_worker_start(h, s.grads, 1, s.out), TLC_OK);
    require_status(tlc_mpi_wait(h), TLC_ERR_ORDER);
    tlc_outcome found = {.struct_size = sizeof found};
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    snprintf(sentence, sizeof sentence, "worker %d sent step 2, this is step 1", ahead);
    require(strstr(found.sentence, is_server ? sentence : "a server was destroyed"));
    tlc_mpi_destroy(h);
    close_scene(&s);
}

static const struct {
    const char *name;
    void (*play)(int rank, int ranks);
} plays[] = {
    {"all-reduce", play_allreduce},
    {"gather", play_gather},
    {"owners", play_owners},
    {"servers", play_apart},
    {"worker first", play_worker_first},
    {"server first", play_server_first},
    {"cut off", play_cut_off},
    {"gossip", play_gossip},
    {"backup", play_backup},
    {"many servers", play_many_apart},
    {"many servers beside workers", play_many_both},
    {"a worker behind its server", play_uneven},
    {"a server that ends in a step", play_server_gone},
    {"a server without its worker", play_worker_gone},
    {"a broken worker beside its server", play_worker_broken},
    {"servers that end before their workers", play_servers_first},
    {"a server that ends before the answer of another one", play_half_answered},
    {"destroyed in a step", play_at_once},
    {"a worker that is destroyed in a step", play_worker_at_once},
};

/* ---- faults ------------------------------------------------------------------------------------------------------ */

/* Every `stride`-th call fails. */
static void each_call_fails(void (*play)(int rank, int ranks), const char *name, int ranks, unsigned stride)
{
    unsigned runs = 0;

    steps = 2;
    at.note = name;
    for (int rank = 0; rank < ranks; rank++) {
        at.n = (size_t)rank;
        at.i = 0;
        const int calls = fake_run(ranks, (fake_fault){.rank = rank}, play);
        require(calls > 20);
        for (int call = 1; call <= calls; call++) {
            if (runs++ % stride)
                continue;
            at.i = (size_t)call;
            alarm(SECONDS_MAX); /* a rank that waits without a call of MPI */
            const fake_fault fault = {rank, call, (fake_says)(runs % 3), runs / 3 % 2};
            require(fake_run(ranks, fault, play) == -1);
        }
    }
    printf("# %s: %u calls fail\n", name, (runs + stride - 1) / stride);
}

/* For each allocation of each rank: it fails once, and all make their handles or none; and with handles they make all
 * steps. */
static void each_rank_is_poor(void (*play)(int rank, int ranks), const char *name)
{
    unsigned runs = 0;

    for (poor = 0; poor < RANKS; poor++) {
        most = -1;
        do {
            refused = lacked = 0;
            at.n = (size_t)poor;
            at.i = (size_t)++most;
            at.note = name;
            (void)fake_run(RANKS, (fake_fault){.rank = 0}, play);
            require(refused == 0 || refused == RANKS);
            runs++;
        } while (lacked);
        require(most > 5);
    }
    most = -1;
    printf("# %s: %u allocations fail\n", name, runs - RANKS);
}

/* The argument is the stride. */
int main(int argc, char **argv)
{
    unsigned stride = 1;

    if (argc > 1)
        stride = (unsigned)strtoul(argv[argc - 1], NULL, 10); /* more than one: the last one counts */
    for (size_t i = 0; i < COUNT(plays); i++) {
        each_call_fails(plays[i].play, plays[i].name, RANKS, stride);
        each_rank_is_poor(plays[i].play, plays[i].name);
        printf("ok %zu - %s\n", i + 1, plays[i].name);
        fflush(stdout);
    }
    each_call_fails(play_gossip, "one neighbour", 2, 1);
    printf("ok %zu - gossip with one neighbour\n", COUNT(plays) + 1);
    for (ahead = 0; ahead < RANKS - 1; ahead++)
        (void)fake_run(RANKS, (fake_fault){.rank = 0}, play_ahead);
    printf("ok %zu - one worker is a step ahead\n", COUNT(plays) + 2);
    test_wrong();
    printf("ok %zu - a rank that is wrong when MPI fails\n", COUNT(plays) + 3);
    test_waits();
    printf("ok %zu - ranks that wait\n1..%zu\n", COUNT(plays) + 4, COUNT(plays) + 4);
    return 0;
}
