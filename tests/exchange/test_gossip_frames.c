/* SPDX-License-Identifier: MIT
 *
 * tlc_gossip_push_frames: a node whose device quantizes sends the same messages and has the same models as one that
 * pushes values, also in steps with a value that is not finite.
 */
#include "../support/gossip_run.h"
#include <math.h>

enum { NODES = 3, STEPS = 6, PARTS = 3 };

/* The device of node 0. A step of the node is one of its contexts. */
typedef struct device {
    tlc_ctx *ctx[PARTS];
    uint8_t *frame[PARTS];
    size_t tensor[PARTS];
} device;

static const char *codec_of(const network *net, size_t t)
{
    return net->tensors[t].push ? net->tensors[t].push : net->cfg.push;
}

/* Steps count from 1. */
static void begin_step(tlc_ctx *ctx, uint8_t *room, size_t n)
{
    float *zeros = memset(floats(n), 0, n * sizeof *zeros);
    size_t written;

    require_status(tlc_compress(ctx, zeros, room, tlc_bound(ctx), &written), TLC_OK);
    free(zeros);
}

static void open_device(device *d, const network *net)
{
    tlc_part part = {.struct_size = sizeof part};
    tlc_gossip *g = net->node[0].g;

    require(tlc_gossip_pushed_parts(g) == PARTS);
    for (size_t i = 0; i < PARTS; i++) {
        tlc_config cfg;
        require_status(tlc_gossip_pushed_part(g, i, &part), TLC_OK);
        require(part.first == 0 && part.n == net->tensors[part.tensor].n && !part.mean && !part.residual);
        require_status(tlc_config_init(&cfg, sizeof cfg), TLC_OK);
        cfg.codec = codec_of(net, part.tensor);
        cfg.seed = part.seed;
        require_status(tlc_create(&d->ctx[i], &cfg, part.n), TLC_OK);
        d->frame[i] = bytes(tlc_bound(d->ctx[i]));
        d->tensor[i] = part.tensor;
        begin_step(d->ctx[i], d->frame[i], part.n);
    }
}

static void close_device(device *d)
{
    for (size_t i = 0; i < PARTS; i++) {
        tlc_destroy(d->ctx[i]);
        free(d->frame[i]);
    }
}

/* z, as threelc/gossip.h says. */
static float sent_value(const network *net, size_t t, size_t k)
{
    const float moved = moved_value(net, 0, t, k), model = tlc_gossip_model(net->node[0].g, t)[k];
    const float half = 0.5f * (float)(tlc_gossip_step(net->node[0].g) + 1);
    const float before = (1 - half) * model, after = half * moved;

    return net->kind == TLC_GOSSIP_DCD ? moved - model : before + after;
}

static void make_frames(device *d, const network *net, tlc_message *frames)
{
    for (size_t i = 0; i < PARTS; i++) {
        const size_t t = d->tensor[i], n = net->tensors[t].n;
        float *z = floats(n);
        size_t written = 0;
        for (size_t k = 0; k < n; k++)
            z[k] = sent_value(net, t, k);
        require_status(tlc_compress(d->ctx[i], z, d->frame[i], tlc_bound(d->ctx[i]), &written), TLC_OK);
        frames[i] = (tlc_message){d->frame[i], written};
        free(z);
    }
}

/* Values that push_frames gets: of DCD those of tensors without frames. */
static void give_values(const device *d, const network *net, const float **moved)
{
    for (size_t t = 0; t < NET_TENSORS; t++)
        moved[t] = (const float *)(const void *)net->node[0].moved[t];
    for (size_t i = 0; net->kind == TLC_GOSSIP_DCD && i < PARTS; i++)
        moved[d->tensor[i]] = NULL;
}

/* Node 0 of a network pushes frames, or with d NULL values; the others push values. */
static void push_all(network *net, device *d)
{
    const float *moved[NET_TENSORS];
    tlc_message frames[PARTS];

    if (d) {
        make_frames(d, net, frames);
        give_values(d, net, moved);
        require_status(tlc_gossip_push_frames(net->node[0].g, moved, frames, &net->node[0].push), TLC_OK);
    }
    for (uint32_t i = d ? 1 : 0; i < NODES; i++)
        require_status(push_node(net, i), TLC_OK);
}

TEST(same_as_values)
{
    FOR_EACH_GOSSIP(kind)
        for (const char *const *codec = unbiased_codecs(); *codec; codec++) {
            network host, there;
            device d;
            network_ring(&host, kind, NODES, *codec, 0);
            network_ring(&there, kind, NODES, *codec, 0);
            open_device(&d, &there);
            for (uint64_t step = 1; step <= STEPS; step++) {
                network_move(&host, step);
                network_move(&there, step);
                if (step == 3) { /* a small tensor, which is no part: the device does not know */
                    memcpy(host.node[0].moved[GAIN], &(float){NAN}, sizeof(float));
                    memcpy(there.node[0].moved[GAIN], &(float){NAN}, sizeof(float));
                }
                push_all(&host, NULL);
                push_all(&there, step == 5 ? NULL : &d);
                for (size_t i = 0; step == 5 && i < PARTS; i++)
                    begin_step(d.ctx[i], d.frame[i], there.tensors[d.tensor[i]].n);
                require(node_outcome(&there, 0).cause == (step == 3 ? TLC_ERR_NONFINITE : TLC_OK));
                require(blob_same(host.node[0].push, there.node[0].push));
                network_pull(&host);
                network_pull(&there);
                require_all_pulled(&there);
            }
            require_same_networks(&host, &there);
            const tlc_exchange_stats a = node_stats(&host, 0), b = node_stats(&there, 0);
            require(a.sent == b.sent && a.float_bytes == b.float_bytes && a.dropped == b.dropped && b.failed == 1);
            network_greet(&there);
            close_device(&d);
            network_close(&host);
            network_close(&there);
        }
}

/* Calls that are refused keep no frame. Frames of len 0 are made by the library. */
TEST(refusals)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_part part = {.struct_size = sizeof part};
        tlc_message frames[PARTS], given[PARTS], none = {NULL, 0}, to_all;
        const float *moved[NET_TENSORS], *less[NET_TENSORS];
        network host, net;
        device d;
        network_ring(&host, kind, NODES, "natural", 0);
        network_ring(&net, kind, NODES, "natural", 0);
        open_device(&d, &net);
        tlc_gossip *g = net.node[0].g;
        network_move(&host, 1);
        network_move(&net, 1);
        make_frames(&d, &net, frames);
        give_values(&d, &net, moved);
        memcpy(given, frames, sizeof given);
        NODE_REFUSED(&net, 0, tlc_gossip_push_frames(g, NULL, frames, &to_all), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_push_frames(g, moved, NULL, &to_all), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_push_frames(g, moved, frames, NULL), TLC_ERR_PARAM);
        for (size_t t = 0; t < NET_TENSORS; t++) { /* without its values */
            memcpy(less, moved, sizeof less);
            less[t] = NULL;
            if (moved[t] && net.tensors[t].n)
                NODE_REFUSED(&net, 0, tlc_gossip_push_frames(g, less, frames, &to_all), TLC_ERR_PARAM);
        }
        for (size_t i = 0; i < PARTS; i++) {
            given[i] = (tlc_message){frames[i].data, frames[i].len - 1};
            NODE_REFUSED(&net, 0, tlc_gossip_push_frames(g, moved, given, &to_all), TLC_ERR_PARAM);
            given[i] = frames[(i + 1) % PARTS];
            NODE_REFUSED(&net, 0, tlc_gossip_push_frames(g, moved, given, &to_all), TLC_ERR_PARAM);
            given[i] = none;
            if (kind == TLC_GOSSIP_DCD) /* nor values */
                NODE_REFUSED(&net, 0, tlc_gossip_push_frames(g, moved, given, &to_all), TLC_ERR_PARAM);
            given[i] = frames[i];
        }
        NODE_REFUSED(&net, 0, tlc_gossip_pushed_part(g, PARTS, &part), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_pushed_part(g, 0, NULL), TLC_ERR_PARAM);
        require_status(tlc_gossip_pushed_part(NULL, 0, &part), TLC_ERR_PARAM);
        require(tlc_gossip_pushed_parts(NULL) == 0);
        require_status(tlc_gossip_push_frames(NULL, moved, frames, &to_all), TLC_ERR_PARAM);
        for (size_t t = 0; t < NET_TENSORS; t++) /* values, and one frame */
            moved[t] = (const float *)(const void *)net.node[0].moved[t];
        given[0] = given[2] = none;
        push_all(&host, NULL);
        require_status(tlc_gossip_push_frames(g, moved, given, &to_all), TLC_OK);
        require(blob_same(host.node[0].push, to_all));
        NODE_REFUSED(&net, 0, tlc_gossip_push_frames(g, moved, frames, &to_all), TLC_ERR_ORDER);
        close_device(&d);
        network_close(&host);
        network_close(&net);
    }
}
