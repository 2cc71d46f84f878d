/* SPDX-License-Identifier: MIT
 *
 * The graph of a run of gossip, and who hears whom in which step: nodes sleep or die and come back, and some do not
 * wait for a neighbour. All is drawn before the run, so that it does not depend on the order of arrival.
 */
#include "gossip.h"
#include <math.h>

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

size_t place_of(const node *n, uint32_t neighbour)
{
    size_t i = 0;

    while (i < n->edges->degree && n->edges->neighbour[i] != neighbour)
        i++;
    return i;
}

/* A tree, and each other pair with a chance. The weights of edges leave something to each node, or nothing. */
static void draw_by_hand(const run *r, uint32_t nodes, edges *e)
{
    double weight[MOST_NODES][MOST_NODES] = {{0}}, most = 0, sum[MOST_NODES] = {0};
    uint64_t draw = drawn(r->sc.seed, ABOUT_GRAPH, nodes, 0, 0);
    uint32_t dense = (uint32_t)below(draw, 1024);

    for (uint32_t i = 1; i < nodes; i++)
        for (uint32_t j = 0; j < i; j++) {
            uint64_t about = drawn(r->sc.seed, ABOUT_GRAPH, nodes, i, 1 + j);
            int tree = below(drawn(r->sc.seed, ABOUT_GRAPH, nodes, i, 0), i) == j;
            if (tree || falls(about, dense))
                weight[i][j] = weight[j][i] = (double)(1 + below(about, 1000)) / 1000;
        }
    for (uint32_t i = 0; i < nodes; i++) {
        for (uint32_t j = 0; j < nodes; j++)
            sum[i] += weight[i][j];
        most = fmax(most, sum[i]);
    }
    if (draw >> 63)
        most *= 1.25;
    for (uint32_t i = 0; i < nodes; i++) {
        double own = 1;
        e[i] = (edges){.degree = 0};
        for (uint32_t j = 0; j < nodes; j++)
            if (weight[i][j] > 0) {
                e[i].neighbour[e[i].degree] = j;
                e[i].weight[e[i].degree++] = weight[i][j] / most;
                own -= weight[i][j] / most;
            }
        e[i].weight[e[i].degree] = own > 0 ? own : 0;
    }
}

/* What tlc_graph_neighbours must refuse. */
static void refuse_graph(run *r, tlc_graph graph, uint32_t rank, size_t degree)
{
    uint32_t neighbours[MOST_NODES] = {77};
    double weights[MOST_NODES + 1] = {77};
    size_t told = 77;
    const tlc_graph right = graph;

#define REFUSE(rank_, cap, want, changes)                                                                              \
    do {                                                                                                               \
        tlc_status status_ = tlc_graph_neighbours(&graph, rank_, neighbours, weights, cap, &told);                     \
        must(r, CALLS, status_ == (want), "a graph: %s", tlc_status_string(status_));                                  \
        must(r, E1, neighbours[0] == 77 && weights[0] == 77 && told == (changes), "a refused graph was written");      \
        graph = right;                                                                                                 \
        told = 77;                                                                                                     \
    } while (0)
    REFUSE(graph.nodes, MOST_NODES, TLC_ERR_PARAM, 77);
    graph.nodes = 0;
    REFUSE(0, MOST_NODES, TLC_ERR_PARAM, 77);
    graph.nodes = (1 << 20) + 1;
    REFUSE(0, MOST_NODES, TLC_ERR_PARAM, 77);
    graph.kind = (tlc_graph_kind)GRAPH_BY_HAND;
    REFUSE(rank, MOST_NODES, TLC_ERR_PARAM, 77);
    graph.struct_size = sizeof(size_t) - 1;
    REFUSE(rank, MOST_NODES, TLC_ERR_PARAM, 77);
    graph.kind = TLC_GRAPH_TORUS;
    graph.rows = graph.nodes + 1;
    REFUSE(rank, MOST_NODES, TLC_ERR_PARAM, 77);
    graph.kind = TLC_GRAPH_RANDOM;
    graph.p = NAN;
    REFUSE(rank, MOST_NODES, TLC_ERR_PARAM, 77);
    if (degree)
        REFUSE(rank, degree - 1, TLC_ERR_CAPACITY, degree);
#undef REFUSE
}

static uint32_t draw_rows(uint32_t nodes, uint64_t draw)
{
    uint32_t rows = 1 + (uint32_t)below(draw, nodes);

    while (nodes % rows)
        rows--;
    return draw >> 63 ? 0 : rows;
}

static tlc_graph draw_graph(const run *r, uint32_t nodes)
{
    uint64_t draw = drawn(r->sc.seed, ABOUT_GRAPH, nodes, 0, 0);

    return (tlc_graph){.struct_size = sizeof(tlc_graph),
                       .kind = (tlc_graph_kind)r->sc.graph,
                       .nodes = nodes,
                       .rows = draw_rows(nodes, draw),
                       .p = (double)below(mixed(draw), 5) / 4,
                       .seed = draw};
}

static void ask_graph(run *r, const tlc_graph *graph, edges *e)
{
    for (uint32_t i = 0; i < graph->nodes; i++) {
        tlc_status status = tlc_graph_neighbours(graph, i, e[i].neighbour, e[i].weight, MOST_NODES, &e[i].degree);
        must(r, CALLS, !status && e[i].degree < graph->nodes, "the neighbours of node %u: %s", i,
             tlc_status_string(status));
        if (falls(mixed(graph->seed + i), r->sc.rate[FAULT_WRONG]))
            refuse_graph(r, *graph, i, e[i].degree);
    }
}

static double weight_between(const edges *from, uint32_t to)
{
    for (size_t i = 0; i < from->degree; i++)
        if (from->neighbour[i] == to)
            return from->weight[i];
    return 0;
}

/* How many neighbours a node has on a circle of `count`. */
static size_t around(uint32_t count)
{
    return count > 2 ? 2 : count - 1;
}

static uint32_t rows_of(const tlc_graph *graph)
{
    uint32_t rows = graph->rows;

    for (uint32_t i = 1; !graph->rows && i * i <= graph->nodes; i++)
        rows = (graph->nodes % i) ? rows : i;
    return rows;
}

static void check_degree(run *r, const tlc_graph *graph, uint32_t rank, const edges *e)
{
    uint32_t n = graph->nodes;
    size_t least = around(n), most = n - 1;

    if (graph->kind == TLC_GRAPH_COMPLETE || (graph->kind == TLC_GRAPH_RANDOM && graph->p == 1))
        least = most;
    if (graph->kind == TLC_GRAPH_TORUS)
        least = around(rows_of(graph)) + around(n / rows_of(graph));
    if (graph->kind == TLC_GRAPH_RING || graph->kind == TLC_GRAPH_TORUS ||
        (graph->kind == TLC_GRAPH_RANDOM && graph->p == 0))
        most = least;
    must(r, CALLS, e->degree >= least && e->degree <= most, "node %u of graph %d has %zu neighbours", rank,
         (int)graph->kind, e->degree);
    if (n > 1 && (graph->kind == TLC_GRAPH_RING || graph->kind == TLC_GRAPH_RANDOM))
        must(r, CALLS, weight_between(e, (rank + 1) % n) > 0 && weight_between(e, (rank + n - 1) % n) > 0,
             "node %u is not in the ring", rank);
}

/* Metropolis weights of a connected graph, in rising order of neighbours. */
static void check_edges(run *r, const tlc_graph *graph, const edges *e)
{
    uint32_t reached = 1, nodes = graph->nodes;

    for (uint32_t i = 0; i < nodes; i++) {
        double sum = e[i].weight[e[i].degree];
        check_degree(r, graph, i, &e[i]);
        for (size_t k = 0; k < e[i].degree; k++) {
            uint32_t j = e[i].neighbour[k];
            must(r, CALLS, j < nodes && j != i && (!k || j > e[i].neighbour[k - 1]), "node %u: neighbour %u", i, j);
            size_t larger = e[i].degree > e[j].degree ? e[i].degree : e[j].degree;
            must(r, CALLS, e[i].weight[k] == 1 / (1 + (double)larger), "an edge of weight %g", e[i].weight[k]);
            must(r, CALLS, e[i].weight[k] == weight_between(&e[j], i), "other weights of the edge %u %u", i, j);
            sum += e[i].weight[k];
        }
        must(r, CALLS, fabs(sum - 1) <= 0x1p-40 && e[i].weight[e[i].degree] >= 0, "weights add up to %.17g", sum);
    }
    for (uint32_t round = 0; round < nodes; round++)
        for (uint32_t i = 0; i < nodes; i++)
            for (size_t k = 0; k < e[i].degree; k++)
                reached |= (reached >> e[i].neighbour[k] & 1) << i;
    must(r, CALLS, reached == (UINT32_C(1) << nodes) - 1, "the graph is not connected");
}

/* The order of neighbours is free. */
static void shuffle(const run *r, uint32_t rank, edges *e)
{
    for (size_t i = e->degree; i > 1; i--) {
        size_t j = (size_t)below(drawn(r->sc.seed, ABOUT_GRAPH, UINT64_MAX, rank, i), i);
        uint32_t neighbour = e->neighbour[j];
        double weight = e->weight[j];
        e->neighbour[j] = e->neighbour[i - 1];
        e->weight[j] = e->weight[i - 1];
        e->neighbour[i - 1] = neighbour;
        e->weight[i - 1] = weight;
    }
}

edges *draw_edges(run *r, uint32_t nodes)
{
    edges *e = take(r, nodes * sizeof *e);

    if (r->sc.graph == GRAPH_BY_HAND)
        draw_by_hand(r, nodes, e);
    else {
        const tlc_graph graph = draw_graph(r, nodes);
        ask_graph(r, &graph, e);
        check_edges(r, &graph, e);
    }
    for (uint32_t i = 0; i < nodes; i++)
        if (drawn(r->sc.seed, ABOUT_GRAPH, UINT64_MAX, i, 0) & 1)
            shuffle(r, i, &e[i]);
    return e;
}

/* ---- who is here ------------------------------------------------------------------------------------------------- */

void draw_absences(gossip *w)
{
    const scenario *sc = &w->run->sc;

    for (uint32_t i = 0; i < w->nodes; i++) {
        absence *a = &w->node[i].away;
        uint64_t draw = drawn(sc->seed, ABOUT_ABSENCE, i, w->first, 0), other = mixed(draw);
        int sleeps = falls(draw, sc->rate[FAULT_LATE]), dies = falls(other, sc->rate[FAULT_DEATH]);
        *a = (absence){.kind = ALWAYS_HERE};
        if ((!sleeps && !dies) || w->first > w->last)
            continue;
        *a = (absence){.kind = dies ? DYING : SLEEPING,
                       .from = w->first + below(draw, w->last - w->first + 1),
                       .pushed = (int)(other & 1),
                       .reached = (uint32_t)(other >> 1)};
        a->until = a->from + 1 + below(mixed(other), 4);
        if (a->until > w->last) /* all are there again when the run ends, or goes on with other nodes */
            *a = (absence){.kind = ALWAYS_HERE};
        else if (w->last == sc->steps && dies && (other >> 40 & 3) == 0)
            a->until = UINT64_MAX;
    }
}

int is_here(const gossip *w, uint32_t rank, uint64_t step)
{
    const absence *a = &w->node[rank].away;

    return !a->kind || step < a->from || (step == a->from && a->pushed) || step >= a->until;
}

int leaves(const gossip *w, uint32_t rank, uint64_t step)
{
    const absence *a = &w->node[rank].away;

    return a->kind && a->from == step;
}

/* Cuts of one direction of an edge last some steps. */
static int is_cut(const gossip *w, uint32_t to, uint32_t from, uint64_t step)
{
    const scenario *sc = &w->run->sc;

    return falls(drawn(sc->seed, ABOUT_LATE, to, from, step / 3), sc->rate[FAULT_LATE] / 2);
}

int hears_hello(const gossip *w, uint32_t to, uint32_t from, uint64_t step)
{
    return is_here(w, to, step) && is_here(w, from, step) && !is_cut(w, to, from, step);
}

int hears_push(const gossip *w, uint32_t to, uint32_t from, uint64_t step)
{
    return hears_hello(w, to, from, step) && !leaves(w, to, step) &&
           (!leaves(w, from, step) || (w->node[from].away.reached >> to & 1));
}

int comes_back(const gossip *w, uint32_t rank, uint64_t step)
{
    return w->node[rank].away.kind && w->node[rank].away.until == step;
}

int needs_hello(const gossip *w, uint32_t to, uint32_t from, uint64_t step)
{
    return step != w->together && hears_hello(w, to, from, step) &&
           (comes_back(w, to, step) || comes_back(w, from, step) || !hears_push(w, to, from, step - 1));
}

int all_greet(const gossip *w, uint64_t step)
{
    return falls(drawn(w->run->sc.seed, ABOUT_HELLO, step, 0, 0), w->run->sc.rate_hello);
}
