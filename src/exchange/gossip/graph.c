/* SPDX-License-Identifier: MIT
 *
 * Graphs for gossip, and Metropolis weights for them: W_ij = 1 / (1 + max(degree_i, degree_j)) for neighbours, and the
 * rest of the row for the node itself.
 */
#include "../../common/rng.h"
#include "../../common/structs.h"
#include "../plan/setup.h"
#include <threelc/gossip.h>

/* Takes the neighbours of a node, each once, in rising order. */
typedef struct visit {
    uint32_t *neighbours; /* NULL: they are only counted */
    size_t count;
} visit;

static void meet(visit *v, uint32_t node)
{
    if (v->neighbours)
        v->neighbours[v->count] = node;
    v->count++;
}

/* ---- ring, torus, complete --------------------------------------------------------------------------------------- */

/* Some nodes in rising order, each once, without `node`. */
static void meet_sorted(visit *v, uint32_t node, uint32_t *others, size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t k = i; k && others[k - 1] > others[k]; k--) {
            uint32_t saved = others[k];
            others[k] = others[k - 1];
            others[k - 1] = saved;
        }
    for (size_t i = 0; i < count; i++)
        if (others[i] != node && (!i || others[i] != others[i - 1]))
            meet(v, others[i]);
}

static void visit_torus(visit *v, uint32_t nodes, uint32_t rows, uint32_t node)
{
    uint32_t columns = nodes / rows, column = node % columns, first = node - column;
    uint32_t others[] = {first + (column + columns - 1) % columns, first + (column + 1) % columns,
                         (node + nodes - columns) % nodes, (node + columns) % nodes};

    meet_sorted(v, node, others, sizeof others / sizeof others[0]);
}

static void visit_complete(visit *v, uint32_t nodes, uint32_t node)
{
    for (uint32_t i = 0; i < nodes; i++)
        if (i != node)
            meet(v, i);
}

/* ---- random ------------------------------------------------------------------------------------------------------ */

/* Is the pair drawn? Each pair has a counter of its own, so both nodes get the same words. */
static int is_drawn(const tlc_graph *g, uint32_t a, uint32_t b)
{
    uint64_t pair = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
    uint32_t words[4];

    tlc_philox_words(g->seed, 0, pair, words);
    return (double)(words[0] >> 8) * 0x1p-24 < g->p;
}

static void visit_random(visit *v, const tlc_graph *g, uint32_t node)
{
    uint32_t before = (node + g->nodes - 1) % g->nodes, after = (node + 1) % g->nodes;

    for (uint32_t i = 0; i < g->nodes; i++)
        if (i != node && (i == before || i == after || is_drawn(g, node, i)))
            meet(v, i);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static size_t visit_all(const tlc_graph *g, uint32_t node, uint32_t *neighbours)
{
    visit v = {neighbours, 0};

    switch (g->kind) {
    case TLC_GRAPH_RING: visit_torus(&v, g->nodes, 1, node); break;
    case TLC_GRAPH_TORUS: visit_torus(&v, g->nodes, g->rows, node); break;
    case TLC_GRAPH_COMPLETE: visit_complete(&v, g->nodes, node); break;
    default: visit_random(&v, g, node); break;
    }
    return v.count;
}

/* The largest divisor of a number that is at most its square root. */
static uint32_t middle_divisor(uint32_t n)
{
    uint32_t found = 1;

    for (uint32_t d = 1; (uint64_t)d * d <= n; d++)
        if (n % d == 0)
            found = d;
    return found;
}

/* Takes the caller's graph. Returns 0 if a field is bad. */
static int take_graph(tlc_graph *g, const tlc_graph *theirs)
{
    if (!theirs || !tlc_import(g, sizeof *g, theirs) || !g->nodes || g->nodes > TLC_RANKS_MAX)
        return 0;
    switch (g->kind) {
    case TLC_GRAPH_RING:
    case TLC_GRAPH_COMPLETE: return 1;
    case TLC_GRAPH_TORUS:
        if (!g->rows)
            g->rows = middle_divisor(g->nodes);
        return g->nodes % g->rows == 0;
    case TLC_GRAPH_RANDOM: return g->p >= 0 && g->p <= 1;
    default: return 0;
    }
}

/* Metropolis weights of a node whose neighbours are known. */
static void weigh(const tlc_graph *g, const uint32_t *neighbours, double *weights, size_t degree)
{
    double rest = 1;

    for (size_t i = 0; i < degree; i++) {
        size_t theirs = g->kind == TLC_GRAPH_RANDOM || g->kind == TLC_GRAPH_TORUS ? visit_all(g, neighbours[i], NULL)
                                                                                  : degree;
        weights[i] = 1 / (1 + (double)(theirs > degree ? theirs : degree));
        rest -= weights[i];
    }
    weights[degree] = rest; /* at least 1 / (1 + degree), of which rounding takes little */
}

tlc_status tlc_graph_neighbours(const tlc_graph *graph, uint32_t node, uint32_t *neighbours, double *weights,
                                size_t cap, size_t *degree)
{
    tlc_graph g = {.struct_size = sizeof g};
    tlc_status status = TLC_ERR_PARAM;
    tlc_float_mode mode = tlc_float_enter();

    if (degree && take_graph(&g, graph) && node < g.nodes) {
        size_t count = visit_all(&g, node, NULL);
        status = count > cap ? TLC_ERR_CAPACITY : (!neighbours && count) || !weights ? TLC_ERR_PARAM : TLC_OK;
        if (status != TLC_ERR_PARAM)
            *degree = count;
        if (!status) {
            (void)visit_all(&g, node, neighbours);
            weigh(&g, neighbours, weights, count);
        }
    }
    tlc_float_leave(mode);
    return status;
}
