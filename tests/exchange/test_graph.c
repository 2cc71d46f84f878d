/* SPDX-License-Identifier: MIT
 *
 * tlc_graph_neighbours: the neighbours of each kind, computed here in another way; weights that are symmetric and
 * doubly stochastic; connected graphs; calls that are refused.
 */
#include "../support/support.h"
#include <inttypes.h>
#include <math.h>
#include <threelc/gossip.h>
#include <xxhash.h>

enum { NODES_MAX = 60, KINDS = 4 };

static const char *const names[KINDS] = {"ring", "torus", "complete", "random"};

/* A graph as matrices. */
typedef struct matrices {
    uint32_t nodes;
    uint8_t edge[NODES_MAX][NODES_MAX];
    double weight[NODES_MAX][NODES_MAX];
    size_t degree[NODES_MAX];
} matrices;

static tlc_graph graph_of(tlc_graph_kind kind, uint32_t nodes)
{
    at = (place){.note = names[kind], .n = nodes};
    return (tlc_graph){.struct_size = sizeof(tlc_graph), .kind = kind, .nodes = nodes, .p = 0.2, .seed = 3};
}

static size_t degree_of(const tlc_graph *g, uint32_t node)
{
    size_t degree = SIZE_MAX;
    double own; /* of a node that is alone */
    tlc_status status = tlc_graph_neighbours(g, node, NULL, g->nodes > 1 ? NULL : &own, 0, &degree);

    require_status(status, degree ? TLC_ERR_CAPACITY : TLC_OK);
    return degree;
}

/* Reads a node's neighbours, with no more room than they need. */
static void read_node(const tlc_graph *g, uint32_t node, matrices *m)
{
    uint32_t list[NODES_MAX];
    double weights[NODES_MAX + 1];
    size_t degree = SIZE_MAX;

    m->degree[node] = degree_of(g, node);
    require(m->degree[node] < g->nodes);
    memset(list, 0xff, sizeof list);
    memset(weights, 0xff, sizeof weights);
    require_status(tlc_graph_neighbours(g, node, list, weights, m->degree[node], &degree), TLC_OK);
    require(degree == m->degree[node]);
    require(all_bytes(list + degree, (NODES_MAX - degree) * sizeof *list, 0xff));
    require(all_bytes(weights + degree + 1, (NODES_MAX - degree) * sizeof *weights, 0xff));
    for (size_t i = 0; i < degree; i++) {
        require(list[i] < g->nodes && list[i] != node && (!i || list[i - 1] < list[i]));
        m->edge[node][list[i]] = 1;
        m->weight[node][list[i]] = weights[i];
    }
    m->weight[node][node] = weights[degree];
}

static void read_graph(const tlc_graph *g, matrices *m)
{
    memset(m, 0, sizeof *m);
    m->nodes = g->nodes;
    for (uint32_t i = 0; i < g->nodes; i++)
        read_node(g, i, m);
}

/* ---- what all graphs are ----------------------------------------------------------------------------------------- */

static void require_connected(const matrices *m)
{
    uint8_t reached[NODES_MAX] = {1};
    uint32_t count = 1;

    for (uint32_t round = 0; round < m->nodes; round++)
        for (uint32_t i = 0; i < m->nodes; i++)
            for (uint32_t j = 0; reached[i] && j < m->nodes; j++)
                if (m->edge[i][j] && !reached[j]) {
                    reached[j] = 1;
                    count++;
                }
    require(count == m->nodes);
}

/* Metropolis weights, the same bits on both sides of an edge; rows and columns sum to 1. */
static void require_weights(const matrices *m)
{
    for (uint32_t i = 0; i < m->nodes; i++) {
        double row = 0, column = 0;
        for (uint32_t j = 0; j < m->nodes; j++) {
            size_t most = m->degree[i] > m->degree[j] ? m->degree[i] : m->degree[j];
            require(m->edge[i][j] == m->edge[j][i]);
            if (m->edge[i][j])
                require(m->weight[i][j] == 1.0 / (double)(1 + most) && m->weight[j][i] == m->weight[i][j]);
            row += m->weight[i][j];
            column += m->weight[j][i];
        }
        require(m->weight[i][i] >= 0 && m->weight[i][i] <= 1);
        require(fabs(row - 1) <= 0x1p-50 && fabs(column - 1) <= 0x1p-50);
    }
}

static void check_graph(const tlc_graph *g, matrices *m)
{
    read_graph(g, m);
    require_weights(m);
    require_connected(m);
}

/* ---- what each kind is ------------------------------------------------------------------------------------------- */

static void join_nodes(matrices *m, uint32_t i, uint32_t j)
{
    if (i != j)
        m->edge[i][j] = m->edge[j][i] = 1;
}

static void make_ring(uint32_t nodes, matrices *m)
{
    memset(m, 0, sizeof *m);
    for (uint32_t i = 0; i < nodes; i++)
        join_nodes(m, i, (i + 1) % nodes);
}

static void make_torus(uint32_t nodes, uint32_t rows, matrices *m)
{
    const uint32_t columns = nodes / rows;

    memset(m, 0, sizeof *m);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < columns; c++) {
            join_nodes(m, r * columns + c, r * columns + (c + 1) % columns);
            join_nodes(m, r * columns + c, (r + 1) % rows * columns + c);
        }
}

static void make_complete(uint32_t nodes, matrices *m)
{
    memset(m, 0, sizeof *m);
    for (uint32_t i = 0; i < nodes; i++)
        for (uint32_t j = 0; j < i; j++)
            join_nodes(m, i, j);
}

static int same_edges(const matrices *a, const matrices *b)
{
    return same(a->edge, b->edge, sizeof a->edge);
}

/* 0: what tlc_graph.rows says of 0 */
static uint32_t default_rows(uint32_t nodes)
{
    uint32_t rows = 1;

    for (uint32_t r = 1; r * r <= nodes; r++)
        rows = (nodes % r) ? rows : r;
    return rows;
}

TEST(rings_and_complete)
{
    static matrices got, want;

    for (uint32_t nodes = 1; nodes <= NODES_MAX; nodes++) {
        tlc_graph g = graph_of(TLC_GRAPH_RING, nodes);
        g.p = NAN; /* not read */
        g.rows = nodes + 1;
        check_graph(&g, &got);
        make_ring(nodes, &want);
        require(same_edges(&got, &want));
        g = graph_of(TLC_GRAPH_COMPLETE, nodes);
        check_graph(&g, &got);
        make_complete(nodes, &want);
        require(same_edges(&got, &want));
    }
}

TEST(tori)
{
    static matrices got, want;

    for (uint32_t nodes = 1; nodes <= NODES_MAX; nodes++)
        for (uint32_t rows = 0; rows <= nodes + 1; rows++) {
            tlc_graph g = graph_of(TLC_GRAPH_TORUS, nodes);
            g.rows = rows;
            g.p = -1; /* not read */
            at.i = rows;
            if (rows && nodes % rows) {
                size_t degree = 77;
                require_status(tlc_graph_neighbours(&g, 0, NULL, NULL, 0, &degree), TLC_ERR_PARAM);
                require(degree == 77);
                continue;
            }
            check_graph(&g, &got);
            make_torus(nodes, rows ? rows : default_rows(nodes), &want);
            require(same_edges(&got, &want));
        }
}

/* ---- random graphs ----------------------------------------------------------------------------------------------- */

TEST(random_limits)
{
    static matrices got, want;

    for (uint32_t nodes = 1; nodes <= NODES_MAX; nodes++) {
        tlc_graph g = graph_of(TLC_GRAPH_RANDOM, nodes);
        check_graph(&g, &got);
        make_ring(nodes, &want);
        for (uint32_t i = 0; i < nodes; i++)
            for (uint32_t j = 0; j < nodes; j++)
                require(got.edge[i][j] >= want.edge[i][j]);
        g.p = 0;
        check_graph(&g, &got);
        require(same_edges(&got, &want));
        g.p = 1;
        check_graph(&g, &got);
        make_complete(nodes, &want);
        require(same_edges(&got, &want));
    }
}

/* Of 60 nodes, with many seeds: each pair has its edge with probability p, whatever the others have. */
TEST(random_edges)
{
    enum { SEEDS = 100, PAIRS = NODES_MAX * (NODES_MAX - 3) / 2 };
    static const double ps[] = {0.1, 0.5, 0.93};
    const unsigned seeds = quick() ? SEEDS / 10 : SEEDS;
    static matrices got, ring;

    make_ring(NODES_MAX, &ring);
    for (size_t k = 0; k < COUNT(ps); k++) {
        static unsigned of_pair[NODES_MAX][NODES_MAX];
        double total = 0, of_graph = 0, p = ps[k];
        memset(of_pair, 0, sizeof of_pair);
        for (unsigned seed = 0; seed < seeds; seed++) {
            tlc_graph g = graph_of(TLC_GRAPH_RANDOM, NODES_MAX);
            g.p = p;
            g.seed = seed;
            read_graph(&g, &got);
            double edges = 0;
            for (uint32_t i = 0; i < NODES_MAX; i++)
                for (uint32_t j = 0; j < i; j++) {
                    unsigned has = got.edge[i][j] && !ring.edge[i][j];
                    edges += has;
                    of_pair[i][j] += has;
                }
            total += edges;
            of_graph += (edges - p * (double)PAIRS) * (edges - p * (double)PAIRS);
        }
        const double sigma = sqrt(p * (1 - p));
        require(fabs(total - p * (double)PAIRS * seeds) <= 5 * sigma * sqrt((double)PAIRS * seeds));
        /* graphs differ from each other as much as independent pairs make them */
        require(fabs(of_graph / (sigma * sigma * (double)PAIRS * seeds) - 1) <= 6 * sqrt(2.0 / seeds));
        for (uint32_t i = 0; i < NODES_MAX; i++)
            for (uint32_t j = 0; j < i; j++)
                if (!ring.edge[i][j])
                    require(fabs(of_pair[i][j] - p * seeds) <= 6 * sigma * sqrt((double)seeds) + 1);
    }
}

/* Neighbours of all nodes of some random graphs, and their weights. The test prints it. */
TEST(random_digest)
{
    static const uint64_t want = 0x9f3a38d10758c5d8;
    uint64_t digest = 0;

    for (uint32_t nodes = 10; nodes <= 160; nodes += 50)
        for (uint64_t seed = 0; seed < 3; seed++)
            for (uint32_t node = 0; node < nodes; node++) {
                tlc_graph g = graph_of(TLC_GRAPH_RANDOM, nodes);
                uint32_t list[160];
                double weights[161];
                size_t degree;
                g.p = 0.03 + 0.2 * (double)seed;
                g.seed = seed << 62 | seed;
                require_status(tlc_graph_neighbours(&g, node, list, weights, COUNT(list), &degree), TLC_OK);
                for (size_t i = 0; i <= degree; i++) {
                    uint64_t bits, words[2];
                    memcpy(&bits, &weights[i], sizeof bits);
                    words[0] = i < degree ? list[i] : node;
                    words[1] = bits;
                    for (size_t k = 0; k < 16; k++) {
                        const uint8_t byte = (uint8_t)(words[k / 8] >> k % 8 * 8);
                        digest = XXH3_64bits_withSeed(&byte, 1, digest);
                    }
                }
            }
    print_message("# random graphs: 0x%016" PRIx64 "\n", digest);
    require(digest == want);
}

/* ---- large ones -------------------------------------------------------------------------------------------------- */

TEST(large_graphs)
{
    enum { MOST = 1 << 20 };
    uint32_t list[4];
    double weights[5];
    size_t degree = 0;

    tlc_graph g = graph_of(TLC_GRAPH_RING, MOST);
    require_status(tlc_graph_neighbours(&g, MOST - 1, list, weights, 4, &degree), TLC_OK);
    require(degree == 2 && list[0] == 0 && list[1] == MOST - 2 && weights[0] == 1.0 / 3);
    g = graph_of(TLC_GRAPH_TORUS, MOST);
    require_status(tlc_graph_neighbours(&g, 0, list, weights, 4, &degree), TLC_OK);
    require(degree == 4 && list[0] == 1 && list[1] == 1023 && list[2] == 1024 && list[3] == MOST - 1024);
    require(weights[0] == 0.2);
    g.nodes = 1048573; /* a prime: one row */
    require_status(tlc_graph_neighbours(&g, 0, list, weights, 4, &degree), TLC_OK);
    require(degree == 2 && list[0] == 1 && list[1] == g.nodes - 1);
    g = graph_of(TLC_GRAPH_COMPLETE, MOST);
    require_status(tlc_graph_neighbours(&g, 5, list, weights, 4, &degree), TLC_ERR_CAPACITY);
    require(degree == MOST - 1);
    g = graph_of(TLC_GRAPH_RANDOM, 3000);
    g.p = 0.001;
    size_t total = 0;
    for (uint32_t node = 0; node < g.nodes; node += 100)
        total += degree_of(&g, node);
    require(total > 30 * 2 && total < 30 * 12); /* 5 each, about */
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

/* A good graph, with one change. Nothing is written. */
#define REFUSED(kind_, node, change)                                                                                   \
    do {                                                                                                               \
        tlc_graph g = graph_of(kind_, 12);                                                                             \
        uint32_t list[12] = {77};                                                                                      \
        double weights[13] = {77};                                                                                     \
        size_t degree = 77;                                                                                            \
        change;                                                                                                        \
        require_status_is(#change, tlc_graph_neighbours(&g, node, list, weights, 12, &degree), TLC_ERR_PARAM,          \
                          __FILE__, __LINE__);                                                                         \
        require(list[0] == 77 && weights[0] == 77 && degree == 77);                                                    \
    } while (0)

TEST(refused)
{
    for (tlc_graph_kind kind = TLC_GRAPH_RING; kind <= TLC_GRAPH_RANDOM; kind++) {
        REFUSED(kind, 0, g.nodes = 0);
        REFUSED(kind, 0, g.nodes = (1u << 20) + 1);
        REFUSED(kind, 12, (void)g);
        REFUSED(kind, TLC_NOBODY, (void)g);
        REFUSED(kind, 0, g.struct_size = 0);
        REFUSED(kind, 0, g.struct_size = sizeof(size_t) - 1);
    }
    REFUSED(TLC_GRAPH_RING, 0, g.kind = (tlc_graph_kind)4);
    REFUSED(TLC_GRAPH_RING, 0, g.kind = (tlc_graph_kind)-1);
    REFUSED(TLC_GRAPH_TORUS, 0, g.rows = 5);
    REFUSED(TLC_GRAPH_TORUS, 0, g.rows = 24);
    REFUSED(TLC_GRAPH_RANDOM, 0, g.p = -0.1);
    REFUSED(TLC_GRAPH_RANDOM, 0, g.p = 1.1);
    REFUSED(TLC_GRAPH_RANDOM, 0, g.p = NAN);
    REFUSED(TLC_GRAPH_RANDOM, 0, g.p = INFINITY);
}

TEST(arguments)
{
    uint32_t list[12] = {77};
    double weights[13] = {77};
    size_t degree = 77;
    tlc_graph g = graph_of(TLC_GRAPH_COMPLETE, 12);

    require_status(tlc_graph_neighbours(NULL, 0, list, weights, 12, &degree), TLC_ERR_PARAM);
    require_status(tlc_graph_neighbours(&g, 0, list, weights, 12, NULL), TLC_ERR_PARAM);
    require_status(tlc_graph_neighbours(&g, 0, NULL, weights, 12, &degree), TLC_ERR_PARAM);
    require_status(tlc_graph_neighbours(&g, 0, list, NULL, 12, &degree), TLC_ERR_PARAM);
    require(list[0] == 77 && weights[0] == 77 && degree == 77);
    require_status(tlc_graph_neighbours(&g, 0, list, weights, 10, &degree), TLC_ERR_CAPACITY);
    require(list[0] == 77 && weights[0] == 77 && degree == 11);
}

/* Structs of older and newer callers. */
TEST(sizes_of_structs)
{
    struct {
        tlc_graph graph;
        uint8_t more[8];
    } newer;
    uint32_t list[12];
    double weights[13];
    size_t degree = 0;

    memset(&newer, 0, sizeof newer);
    newer.graph = graph_of(TLC_GRAPH_COMPLETE, 12);
    newer.graph.struct_size = sizeof newer;
    require_status(tlc_graph_neighbours(&newer.graph, 0, list, weights, 12, &degree), TLC_OK);
    require(degree == 11);
    newer.more[3] = 1;
    require_status(tlc_graph_neighbours(&newer.graph, 0, list, weights, 12, &degree), TLC_ERR_PARAM);
    newer.graph.struct_size = offsetof(tlc_graph, rows);
    newer.graph.kind = TLC_GRAPH_TORUS;
    newer.graph.rows = 5; /* not there for a caller who does not know it */
    require_status(tlc_graph_neighbours(&newer.graph, 0, list, weights, 12, &degree), TLC_OK);
    require(degree == 4); /* of 3 rows */
}
