/* SPDX-License-Identifier: MIT
 *
 * Prints the table of src/docs/exchange.md: bytes that objects take from their allocator, for each parameter.
 * scripts/memory-table.sh compares.
 */
#include <stdio.h>
#include <stdlib.h>
#include <threelc/gossip.h>

enum { TENSORS = 16, EACH = 65536, COLUMNS = 3 };

static const uint32_t machines[COLUMNS] = {2, 8, 32};
static size_t taken; /* bytes */

static void *take(void *opaque, size_t size)
{
    (void)opaque;
    taken += size;
    return malloc(size);
}

static void give_back(void *opaque, void *memory)
{
    (void)opaque;
    free(memory);
}

static void need(tlc_status status)
{
    if (status) {
        printf("%s\n", tlc_status_string(status));
        exit(1);
    }
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

/* Of a model of TENSORS tensors. */
typedef struct model {
    tlc_exchange_config cfg;
    tlc_tensor tensors[TENSORS];
    char names[TENSORS][8];
} model;

static void begin(model *m, uint32_t workers, const char *codec)
{
    need(tlc_exchange_config_init(&m->cfg, sizeof m->cfg));
    m->cfg.workers = workers;
    m->cfg.push = codec;
    m->cfg.alloc = (tlc_allocator){take, give_back, NULL};
    for (int t = 0; t < TENSORS; t++) {
        need(tlc_tensor_init(&m->tensors[t], sizeof m->tensors[t]));
        (void)snprintf(m->names[t], sizeof m->names[t], "%d", t);
        m->tensors[t].name = m->names[t];
        m->tensors[t].n = EACH;
    }
}

static void make_context(model *m)
{
    tlc_config cfg;
    tlc_ctx *ctx;

    need(tlc_config_init(&cfg, sizeof cfg));
    cfg.codec = m->cfg.push;
    cfg.alloc = m->cfg.alloc;
    for (int t = 0; t < TENSORS; t++) {
        need(tlc_create(&ctx, &cfg, EACH));
        tlc_destroy(ctx);
    }
}

static void make_rank(model *m)
{
    tlc_allreduce *a;

    need(tlc_allreduce_create(&a, &m->cfg, 0, m->tensors, TENSORS));
    tlc_allreduce_destroy(a);
}

static void make_gathering(model *m)
{
    m->cfg.gather = 1;
    make_rank(m);
}

static void make_worker(model *m)
{
    tlc_worker *w;

    m->cfg.servers = 1;
    need(tlc_worker_create(&w, &m->cfg, 0, m->tensors, TENSORS));
    tlc_worker_destroy(w);
}

static void make_server(model *m)
{
    tlc_server *s;

    m->cfg.servers = 1;
    need(tlc_server_create(&s, &m->cfg, 0, m->tensors, TENSORS));
    tlc_server_destroy(s);
}

/* In a ring. */
static void make_node(model *m, tlc_gossip_kind kind)
{
    tlc_graph ring;
    uint32_t neighbours[2];
    double weights[3];
    size_t degree;
    float *values = calloc(EACH, sizeof *values);
    const float *start[TENSORS];
    tlc_gossip *g;

    need(values ? TLC_OK : TLC_ERR_NOMEM);
    for (int t = 0; t < TENSORS; t++)
        start[t] = values;
    need(tlc_graph_init(&ring, sizeof ring));
    ring.nodes = m->cfg.workers;
    need(tlc_graph_neighbours(&ring, 0, neighbours, weights, 2, &degree));
    need(tlc_gossip_create(&g, &m->cfg, kind, 0, neighbours, weights, degree, m->tensors, TENSORS, start));
    tlc_gossip_destroy(g);
    free(values);
}

static void make_dcd(model *m)
{
    make_node(m, TLC_GOSSIP_DCD);
}

static void make_ecd(model *m)
{
    make_node(m, TLC_GOSSIP_ECD);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const struct row {
    const char *object, *codec;
    void (*make)(model *m);
} rows[] = {
    {"context of each tensor", "3lc", make_context},
    {"context of each tensor", "sbc", make_context},
    {"context of each tensor", "topk:p=0.01+golomb", make_context},
    {"context of each tensor", "natural", make_context},
    {"context of each tensor", "raw", make_context},
    {"rank of an all-reduce", "3lc", make_rank},
    {"rank of an all-reduce", "sbc", make_rank},
    {"rank of an all-reduce", "raw", make_rank},
    {"rank with `gather`", "3lc", make_gathering},
    {"rank with `gather`", "raw", make_gathering},
    {"worker of one server", "3lc", make_worker},
    {"worker of one server", "raw", make_worker},
    {"the server", "3lc", make_server},
    {"the server", "raw", make_server},
    {"node of a ring, DCD", "qsgd:bits=8", make_dcd},
    {"node of a ring, ECD", "qsgd:bits=8", make_ecd},
};

int main(void)
{
    printf("| object | codec | 2 machines | 8 | 32 |\n|---|---|---|---|---|\n");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        printf("| %s | `%s` |", rows[r].object, rows[r].codec);
        for (int c = 0; c < COLUMNS; c++) {
            model m;
            begin(&m, machines[c], rows[r].codec);
            taken = 0;
            rows[r].make(&m);
            printf(" %.1f |", (double)taken / TENSORS / EACH);
        }
        printf("\n");
    }
    return 0;
}
