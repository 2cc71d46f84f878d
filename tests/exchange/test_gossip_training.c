/* SPDX-License-Identifier: MIT
 *
 * Decentralised trainings. DCD reaches the loss of all-reduce of floats at 8 and at 4 bits. The naive scheme, in which
 * nodes send their quantized models, does not. ECD does with a quantizer whose error does not grow with its input.
 *
 * Tables are printed. Their numbers are the same on all machines, as those of test_training are.
 */
#include "train_gossip.h"
#include <math.h>

/* A loss is reached within 1%. */
#define REACHED 1.01

static const model logistic_500 = {"logistic", 500, 0, 501, 2, {{"weights", 0, 500}, {"bias", 500, 1}}};

/* ---- a table ----------------------------------------------------------------------------------------------------- */

/* The same training in several ways. Losses are those of all-reduce of floats. */
typedef struct table {
    draws d;
    schedule s;
    double floats[SEEDS], mean;
} table;

static table table_open(size_t nodes, size_t rows, const schedule *s, size_t seeds)
{
    table t = {.d = draws_open(&logistic_500, nodes, rows, seeds), .s = *s};

    t.s.part = nodes;
    for (size_t i = 0; i < t.d.seeds; i++) {
        t.floats[i] = train(&t.d.of[i], &t.s, NULL).loss;
        t.mean += t.floats[i] / (double)t.d.seeds;
    }
    printf("#\n# logistic regression, 500 features, %zu nodes, %zu rows each, data of %zu seeds\n", nodes, rows,
           t.d.seeds);
    printf("# %zu steps, batches of %zu, rate %g; all-reduce of floats: loss %.5f\n", s->exchanges, s->batch, s->rate,
           t.mean);
    return t;
}

/* The means over all seeds. */
typedef struct outcome {
    gossiped mean;
    double ratio, lowest, highest; /* to all-reduce: of the mean losses, and of the losses of a seed */
} outcome;

static outcome train_all(const table *t, const gossip_options *o)
{
    outcome all = {.lowest = INFINITY, .highest = -INFINITY};
    const double share = 1 / (double)t->d.seeds;

    for (size_t i = 0; i < t->d.seeds; i++) {
        const gossiped got = gossip_train(&t->d.of[i], &t->s, o);
        all.mean.loss += share * got.loss;
        all.mean.sent += share * got.sent;
        all.mean.stayed += got.stayed;
        all.mean.largest += share * got.largest;
        for (size_t k = 0; k < DECADES; k++)
            all.mean.error[k] += share * got.error[k];
        all.lowest = fmin(all.lowest, got.loss / t->floats[i]);
        all.highest = fmax(all.highest, got.loss / t->floats[i]);
    }
    all.ratio = all.mean.loss / t->mean;
    return all;
}

static outcome train_row(const table *t, const gossip_options *o)
{
    static const char *const graphs[] = {"ring", "torus", "complete", "random"};
    const outcome got = train_all(t, o);
    char quantizer[64];

    if (o->codec)
        snprintf(quantizer, sizeof quantizer, "%s", o->codec);
    else
        snprintf(quantizer, sizeof quantizer, "multiples of 1/%g", 1 / o->spacing);
    printf("#   %-9s %-20s %-8s %4.2f %10.5g %10.5g %10.5g .. %-10.5g", gossip_names[o->way], quantizer,
           graphs[o->graph], o->lazy, got.mean.loss, got.ratio, got.lowest, got.highest);
    return got;
}

static void print_head(const char *more)
{
    printf("#   %-9s %-20s %-8s %4s %10s %10s %10s    %-10s%s\n", "", "quantizer", "graph", "lazy", "loss", "to floats",
           "least", "most, of a seed", more);
}

/* TLC_TEST_QUICK is for emulators, which would need minutes for these. */
static void skip_if_quick(void)
{
    if (quick())
        skip();
}

/* ---- raw --------------------------------------------------------------------------------------------------------- */

TEST(raw_is_d_psgd)
{
    static const size_t counts[] = {1, 2, 5, 8};
    const schedule s = {.exchanges = quick() ? 5 : 100, .batch = 2, .rate = 2};

    for (size_t c = 0; c < COUNT(counts); c += quick() ? 2 : 1)
        for (tlc_graph_kind graph = TLC_GRAPH_RING; graph <= TLC_GRAPH_COMPLETE; graph++) {
            data d = data_draw(&logistic_500, counts[c], 50, 4);
            gossip_options o = {.way = GOSSIP_FLOATS, .codec = "raw", .graph = graph, .lazy = 0.25};
            const double floats = gossip_train(&d, &s, &o).loss;
            for (o.way = GOSSIP_NAIVE; o.way < GOSSIP_WAYS; o.way++)
                require(fabs(gossip_train(&d, &s, &o).loss / floats - 1) < 1e-5);
            data_free(&d);
        }
}

/* ---- 8 and 4 bits ------------------------------------------------------------------------------------------------ */

/* Every row comes 25 times. */
static table ring_of_8(void)
{
    const schedule s = {.exchanges = quick() ? 1000 : 10000, .batch = 1, .rate = 4};

    return table_open(8, 400, &s, 2);
}

static double few_bits(const table *t, const gossip_options *o)
{
    const outcome got = train_row(t, o);

    if (got.mean.sent > 0)
        printf(" %6.0f", got.mean.sent);
    printf("\n");
    require(!got.mean.stayed);
    return got.ratio;
}

static double on_a_ring(const table *t, gossip_way way, const char *codec)
{
    const gossip_options o = {.way = way, .codec = codec, .graph = TLC_GRAPH_RING};

    return few_bits(t, &o);
}

TEST(dcd_reaches_floats)
{
    table t = ring_of_8();

    print_head("  bytes");
    require(on_a_ring(&t, GOSSIP_FLOATS, "raw") <= REACHED);
    const double dcd = on_a_ring(&t, GOSSIP_DCD, "qsgd:bits=8"), naive = on_a_ring(&t, GOSSIP_NAIVE, "qsgd:bits=8"),
                 ecd = on_a_ring(&t, GOSSIP_ECD, "qsgd:bits=8");
    require(dcd <= REACHED);
    require(quick() || naive > 1.02 * dcd); /* a short training does not show it */
    require(ecd > 1.02 * dcd);
    require(on_a_ring(&t, GOSSIP_DCD, "qsgd:bits=4") <= REACHED);
    require(on_a_ring(&t, GOSSIP_NAIVE, "qsgd:bits=4") > (quick() ? 1.1 : 5));
    require(on_a_ring(&t, GOSSIP_ECD, "qsgd:bits=4") > (quick() ? 5 : 100));
    draws_close(&t.d);
}

/* ---- ECD --------------------------------------------------------------------------------------------------------- */

/* The bits that a code for multiples of the spacing needs, up to the largest one in both directions. */
static double bits_of(const gossip_options *o, double largest)
{
    return ceil(log2(2 * largest / o->spacing + 1));
}

/* ECD promises that the error of estimates falls as 1 / sqrt(t) if that of the quantizer is bounded. */
static void require_promise(const gossip_options *o, const double *error)
{
    for (size_t k = 1; k < DECADES; k++) {
        const double fall = error[k - 1] / error[k];
        require(o->codec ? fall < 2 : fabs(fall / sqrt(10) - 1) < 0.1);
    }
}

TEST(ecd_needs_a_fixed_range)
{
    const gossip_options list[] = {{.way = GOSSIP_ECD_HERE, .spacing = 1.0 / 64},
                                   {.way = GOSSIP_NAIVE, .spacing = 1.0 / 64},
                                   {.way = GOSSIP_ECD_HERE, .spacing = 1.0 / 8},
                                   {.way = GOSSIP_NAIVE, .spacing = 1.0 / 8},
                                   {.way = GOSSIP_ECD_HERE, .codec = "qsgd:bits=8"}};
    table t;

    skip_if_quick();
    t = ring_of_8();
    print_head(" largest bits  error of estimates after 10, 100, 1000, 10000 steps");
    for (size_t i = 0; i < COUNT(list); i++) {
        const outcome got = train_row(&t, &list[i]);
        printf(" %7.4g", got.mean.largest);
        if (list[i].codec)
            printf("     ");
        else
            printf(" %4.0f", bits_of(&list[i], got.mean.largest));
        for (size_t k = 0; k < DECADES && list[i].way == GOSSIP_ECD_HERE; k++)
            printf(" %8.2g", got.mean.error[k]);
        printf("\n");
        if (list[i].way == GOSSIP_ECD_HERE)
            require_promise(&list[i], got.mean.error);
        require((got.ratio <= REACHED) == (list[i].spacing == 1.0 / 64));
    }
    draws_close(&t.d);
}

/* While t / 2 * the change of a step is below the model, z does not grow. */
TEST(ecd_takes_small_steps)
{
    static const double rates[] = {4, 0.4, 0.04};
    double before = INFINITY;

    skip_if_quick();
    for (size_t i = 0; i < COUNT(rates); i++) {
        const schedule s = {.exchanges = 1000, .batch = 4, .rate = rates[i]};
        table t = table_open(8, 400, &s, 2);
        print_head("  bytes");
        require((on_a_ring(&t, GOSSIP_ECD, "qsgd:bits=8") <= REACHED) == (i > 0));
        const double four = on_a_ring(&t, GOSSIP_ECD, "qsgd:bits=4");
        require(four > REACHED && four < before);
        before = four;
        draws_close(&t.d);
    }
}

/* ---- graphs and sparsification ----------------------------------------------------------------------------------- */

/* random-sparse multiplies what it sends by 1 / p: the variance of its error is (1 - p) / p times the square. */
static void sparse_row(const table *t, const gossip_options *o, double p)
{
    const double growth = gossip_growth(t->d.of[0].ranks, o, (1 - p) / p);
    const outcome got = train_row(t, o);

    printf(" %6.0f %7.3f %7llu\n", got.mean.sent, growth, (unsigned long long)got.mean.stayed);
    if (growth < 1)
        require(got.ratio <= REACHED && !got.mean.stayed);
    else
        require(got.ratio > 2);
}

static void dcd_on_a_graph(const table *t, tlc_graph_kind graph)
{
    static const double lazy[] = {0, 0.5, 0.75};
    static const char *const bits[] = {"qsgd:bits=8", "qsgd:bits=4"};
    const gossip_options half = {.way = GOSSIP_DCD, .codec = "random-sparse:p=0.5", .graph = graph};

    for (size_t i = 0; i < COUNT(bits); i++) {
        const gossip_options o = {.way = GOSSIP_DCD, .codec = bits[i], .graph = graph};
        require(few_bits(t, &o) <= REACHED);
    }
    sparse_row(t, &half, 0.5);
    for (size_t i = 0; i < COUNT(lazy); i++) {
        const gossip_options quarter = {.way = GOSSIP_DCD,
                                        .codec = "random-sparse:p=0.25",
                                        .graph = graph,
                                        .lazy = lazy[i]};
        sparse_row(t, &quarter, 0.25);
    }
}

TEST(dcd_on_graphs_of_16)
{
    const schedule s = {.exchanges = 500, .batch = 2, .rate = 0.5};
    table t;

    skip_if_quick();
    t = table_open(16, 125, &s, 1);
    print_head("  bytes  growth  stayed");
    for (tlc_graph_kind graph = TLC_GRAPH_RING; graph <= TLC_GRAPH_COMPLETE; graph++)
        dcd_on_a_graph(&t, graph);
    draws_close(&t.d);
}

SETUP(print_isas)
