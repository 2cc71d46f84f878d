/* SPDX-License-Identifier: MIT
 *
 * Messages of all sizes arrive, in pieces of any size, and several handles at once.
 */
#include "mpi_run.h"

enum { HANDLES = 5 };

/* An all-reduce of floats, as sums, so that results are known. */
static tlc_mpi *sum_of(size_t n, size_t chunk, int gather)
{
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "w", .n = n, .only = TLC_NOBODY};
    tlc_exchange_config cfg;
    tlc_mpi *h = NULL;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.push = "raw";
    cfg.gather = gather;
    cfg.sum = 1;
    cfg.split_n = 1 << 20;
    tlc_mpi_config job = mpi_config(&cfg, &tensor, 1);
    job.chunk = chunk;
    require_status(tlc_mpi_allreduce_create(&h, &job), TLC_OK);
    return h;
}

static void start(tlc_mpi *h, float *values, size_t n, int step)
{
    const void *grads[] = {values};
    void *out[] = {values};

    for (size_t i = 0; i < n; i++)
        values[i] = (float)(((int)i + step) % 1000 * (rank + 1));
    require_status(tlc_mpi_allreduce_start(h, grads, 1, out), TLC_OK);
}

static void require_sum(const float *values, size_t n, int step)
{
    for (size_t i = 0; i < n; i++) {
        const int sum = ((int)i + step) % 1000 * ranks * (ranks + 1) / 2;
        require(values[i] == (float)sum);
    }
}

/* Around the limits where MPI changes its ways, and where pieces end. */
static void sizes(void)
{
    static const size_t limits[] = {1, 1024, 4096, 16384, 32768}; /* floats; eager: 4 KiB, 64 KiB and others */
    const size_t chunks[] = {1 << 30, 4096, 1000};
    float *values = malloc((32768 + 40) * sizeof *values);

    require(values);
    for (size_t i = 0; i < COUNT(limits) * COUNT(chunks); i++) {
        const size_t limit = limits[i % COUNT(limits)], chunk = chunks[i / COUNT(limits)];
        for (size_t n = limit > 40 ? limit - 40 : 0; n <= limit + 40; n += 8) {
            tlc_mpi *h = sum_of(n, chunk, i % 2);
            start(h, values, n, 3);
            require_status(tlc_mpi_wait(h), TLC_OK);
            require_sum(values, n, 3);
            tlc_mpi_destroy(h);
        }
    }
    free(values);
}

/* Messages of some 20 to 300 bytes in pieces of 1 to 64. Some end where a piece does. */
static void pieces(void)
{
    float values[64];

    for (size_t chunk = 1; chunk <= 64; chunk += chunk < 8 ? 1 : 8)
        for (size_t n = 0; n < COUNT(values); n += 7) {
            tlc_mpi *h = sum_of(n, chunk, 0);
            start(h, values, n, 3);
            require_status(tlc_mpi_wait(h), TLC_OK);
            require_sum(values, n, 3);
            tlc_mpi_stats stats = {.struct_size = sizeof stats};
            require_status(tlc_mpi_get_stats(h, &stats), TLC_OK);
            require(stats.messages >= stats.sent / chunk && (ranks == 1 || n == 0) == !stats.sent);
            tlc_mpi_destroy(h);
        }
}

typedef struct crowd {
    tlc_mpi *h[HANDLES];
    float *values[HANDLES];
    size_t n[HANDLES];
} crowd;

static void crowd_open(crowd *c)
{
    for (size_t i = 0; i < HANDLES; i++) {
        c->n[i] = (size_t)1 << (3 + 3 * i);
        c->values[i] = malloc(c->n[i] * sizeof *c->values[i]);
        require(c->values[i]);
        c->h[i] = sum_of(c->n[i], 5000, i == 1);
    }
}

static void crowd_close(crowd *c)
{
    for (size_t i = 0; i < HANDLES; i++) {
        tlc_mpi_destroy(c->h[i]);
        free(c->values[i]);
    }
}

/* Steps of several handles overlap. Ranks start them in one order, and end them in any. */
static void overlap(void)
{
    crowd c;

    crowd_open(&c);
    for (int step = 0; step < 20; step++) {
        tlc_mpi *turned[HANDLES];
        for (size_t i = 0; i < HANDLES; i++) {
            start(c.h[i], c.values[i], c.n[i], step);
            require_status(tlc_mpi_progress(c.h, i + 1), TLC_OK);
        }
        for (size_t i = 0; i < HANDLES; i++)
            turned[i] = c.h[(i + (size_t)(rank + step)) % HANDLES];
        if (step % 2)
            require_status(tlc_mpi_wait_all(turned, HANDLES), TLC_OK);
        for (size_t i = 0; step % 2 == 0 && i < HANDLES; i++)
            require_status(tlc_mpi_wait(c.h[HANDLES - 1 - i]), TLC_OK);
        for (size_t i = 0; i < HANDLES; i++)
            require_sum(c.values[i], c.n[i], step);
    }
    crowd_close(&c);
}

/* Steps that end without a wait. */
static void tests(void)
{
    crowd c;

    crowd_open(&c);
    for (int step = 0; step < 5; step++) {
        int ended[HANDLES] = {0}, count = 0;
        for (size_t i = 0; i < HANDLES; i++)
            start(c.h[i], c.values[i], c.n[i], step);
        while (count < HANDLES)
            for (size_t i = 0; i < HANDLES; i++) {
                int done;
                if (ended[i])
                    continue;
                require_status(tlc_mpi_test(c.h[i], &done), TLC_OK);
                ended[i] = done;
                count += done;
            }
        for (size_t i = 0; i < HANDLES; i++) {
            int done;
            require_sum(c.values[i], c.n[i], step);
            require_status(tlc_mpi_test(c.h[i], &done), TLC_ERR_ORDER);
            require_status(tlc_mpi_wait(c.h[i]), TLC_ERR_ORDER);
        }
    }
    crowd_close(&c);
}

/* Ranks that all sent to rank 0 first would wait for its link. */
static void turns(void)
{
    float value;
    int to[64] = {0};
    tlc_mpi *h = sum_of(1, 5000, 1);

    require(ranks <= (int)COUNT(to));
    sends.first = -1;
    start(h, &value, 1, 0);
    MPI_Allgather(&sends.first, 1, MPI_INT, to, 1, MPI_INT, MPI_COMM_WORLD);
    require_status(tlc_mpi_wait(h), TLC_OK);
    for (int i = 0; i < ranks && ranks > 1; i++)
        for (int j = 0; j <= i; j++)
            require(to[i] >= 0 && (to[i] == to[j]) == (i == j));
    tlc_mpi_destroy(h);
}

const mpi_test message_tests[] = {
    {"ranks that send to different ones first", turns},
    {"messages of all sizes", sizes},
    {"messages in pieces", pieces},
    {"handles that overlap", overlap},
    {"tlc_mpi_test", tests},
    {NULL, NULL},
};
