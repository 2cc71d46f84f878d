/* SPDX-License-Identifier: MIT */
#include "gossip_plan.h"
#include <math.h>
#include <xxhash.h>

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static const uint16_t sizes[] = {0, 1, 2, 3, 5, 9, 15, 16, 17, 33, 64, 100, 255, 256, 300, 700};

/* Gossip takes codecs that have no bias: what they round, they round at random. */
int gossip_codec(const codec_case *c)
{
    return !c->feedback && (c->random || c->lossless);
}

/* The next one that gossip takes. */
static const char *take_codec(fuzz_input *in)
{
    size_t i = take_byte(in) % codec_count;

    while (!gossip_codec(&codecs[i]))
        i = (i + 1) % codec_count;
    return codecs[i].text;
}

static void read_graph(gossip_plan *plan, fuzz_input *in)
{
    const unsigned shape = take_byte(in), nodes = (shape >> 2 & 3) % 3 + 2;
    const tlc_graph graph = {.struct_size = sizeof graph,
                             .kind = (tlc_graph_kind)(shape & 3),
                             .nodes = nodes,
                             .rows = nodes == 4 ? shape >> 4 & 2 : 0,
                             .p = 0.5,
                             .seed = shape >> 4};

    plan->common.cfg.workers = nodes;
    for (uint32_t i = 0; i < nodes; i++) {
        gossip_row *row = &plan->row[i];
        require_status(tlc_graph_neighbours(&graph, i, row->neighbour, row->weight, MOST_NODES, &row->degree), TLC_OK);
    }
}

/* Other weights than those of the graph. */
static void change_weights(gossip_plan *plan, int halved)
{
    gossip_row *first = &plan->row[0];

    for (uint32_t i = 0; halved && i < plan->common.cfg.workers; i++) {
        gossip_row *row = &plan->row[i];
        for (size_t k = 0; k < row->degree; k++)
            row->weight[k] /= 2;
        row->weight[row->degree] = (row->weight[row->degree] + 1) / 2;
    }
    if (plan->skewed) {
        first->weight[first->degree] += first->weight[0] / 2;
        first->weight[0] /= 2;
    }
}

void gossip_plan_read(gossip_plan *plan, fuzz_input *in)
{
    exchange_plan *common = &plan->common;
    tlc_exchange_config *c = &common->cfg;

    memset(plan, 0, sizeof *plan);
    require_status(tlc_exchange_config_init(c, sizeof *c), TLC_OK);
    read_graph(plan, in);
    const unsigned flags = take_byte(in), values = take_byte(in);
    plan->kind = (tlc_gossip_kind)(flags & 1);
    plan->skewed = (flags >> 1 & 7) == 7;
    change_weights(plan, (int)(flags >> 4 & 1));
    c->min_n = flags >> 5 & 1 ? 17 : 0;
    c->keep = (flags >> 6) + 1;
    plan->way = (value_way)((values & 7) % WAYS);
    plan->seed = c->seed = values >> 3;
    c->assume_finite = (int)(values >> 7);
    c->push = take_codec(in);
    const unsigned tensors = take_byte(in);
    c->reserve = tensors >> 7 ? take_codec(in) : NULL;
    common->count = (tensors & 7) % (MOST_TENSORS + 1);
    for (size_t t = 0; t < common->count; t++) {
        const unsigned traits = take_byte(in);
        common->tensor[t] = (tlc_tensor){.struct_size = sizeof(tlc_tensor),
                                         .name = party_names[t],
                                         .n = sizes[traits & 15],
                                         .only = TLC_NOBODY};
        common->tensor[t].push = traits >> 7 ? take_codec(in) : NULL;
    }
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

void node_open(party *p, const gossip_plan *plan, uint32_t index)
{
    const gossip_row *row = &plan->row[index];
    tlc_exchange_config cfg;
    tlc_tensor tensor[MOST_TENSORS];
    float *model[MOST_TENSORS];
    tlc_gossip *it = NULL;

    for (size_t t = 0; t < plan->common.count; t++) {
        model[t] = floats(plan->common.tensor[t].n);
        fill_floats(model[t], plan->common.tensor[t].n, plan->way == ONE_NAN ? SPARSE : plan->way, plan->seed + t);
    }
    party_begin(p, &plan->common, NODE, index, &cfg, tensor);
    const tlc_status status = tlc_gossip_create(&it, &cfg, plan->kind, index, row->neighbour, row->weight, row->degree,
                                                tensor, plan->common.count, (const float *const *)model);
    party_made(p, status, it);
    for (size_t t = 0; t < plan->common.count; t++)
        free(model[t]);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

void node_move(party *p, const movement *m, const float **values)
{
    party_fill(p, m->way, m->seed);
    for (size_t t = 0; t < p->plan->count; t++) {
        float *x = (float *)(void *)p->grad[t];
        const float *mean = tlc_gossip_mean(p->it, t);
        const size_t n = p->plan->tensor[t].n;
        for (size_t i = 0; m->from_mean && mean && i < n; i++)
            x[i] = mean[i] + 0.125f * x[i];
        for (size_t i = 0; i < m->count && i < n; i++)
            x[i] = m->given[i];
        values[t] = x;
    }
}

int node_below(const party *p, const float *const *values, float most)
{
    for (size_t t = 0; t < p->plan->count; t++)
        for (size_t i = 0; i < p->plan->tensor[t].n; i++)
            if (!(fabsf(values[t][i]) < most))
                return 0;
    return 1;
}

int node_model_below(const party *p, float most)
{
    const float *model[MOST_TENSORS];

    for (size_t t = 0; t < p->plan->count; t++)
        model[t] = tlc_gossip_model(p->it, t);
    return node_below(p, model, most);
}

void node_require_model(const party *p, const float *const *values)
{
    for (size_t t = 0; t < p->plan->count; t++)
        require(same(tlc_gossip_model(p->it, t), values[t], 4 * p->plan->tensor[t].n));
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

tlc_outcome node_outcome(const party *p)
{
    tlc_outcome o = {.struct_size = sizeof o};

    require_status(tlc_gossip_outcome(p->it, &o), TLC_OK);
    return o;
}

int node_told(unsigned nodes)
{
    return party_told.rank < MOST_NODES && (nodes >> party_told.rank & 1);
}

uint64_t node_model(const party *p)
{
    uint64_t digest = 1;

    for (size_t t = 0; t < p->plan->count; t++)
        if (p->plan->tensor[t].n)
            digest = XXH3_64bits_withSeed(tlc_gossip_model(p->it, t), 4 * p->plan->tensor[t].n, digest);
    return digest ? digest : 1;
}

void node_fold(const party *p)
{
    for (size_t t = 0; t < p->plan->count; t++) {
        const size_t n = p->plan->tensor[t].n;
        if (!n)
            continue;
        fuzz_fold(tlc_gossip_model(p->it, t), n, 4);
        memcpy(p->out[t], tlc_gossip_mean(p->it, t), 4 * n);
    }
    fuzz_fold_number(party_results(p)); /* the mean of huge models may be none */
}

void node_require_mean(const party *p, const gossip_row *row, const party *const *neighbours)
{
    for (size_t t = 0; t < p->plan->count; t++) {
        const size_t n = p->plan->tensor[t].n;
        const float *mean = tlc_gossip_mean(p->it, t), *own = tlc_gossip_model(p->it, t);
        require((n != 0) == (mean != NULL) && (n != 0) == (own != NULL));
        for (size_t i = 0; i < n; i++) {
            float sum = own[i];
            for (size_t k = 0; k < row->degree; k++)
                if (neighbours[k])
                    sum += (float)row->weight[k] * (tlc_gossip_model(neighbours[k]->it, t)[i] - own[i]);
            require(isnan(sum) ? isnan(mean[i]) : float_bits(mean[i]) == float_bits(sum));
        }
    }
}
