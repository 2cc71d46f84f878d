/* SPDX-License-Identifier: MIT
 *
 * Steps of a decentralised training: DCD-PSGD and ECD-PSGD (Tang et al., "Communication compression for decentralized
 * training", 2018, Algorithms 1 and 2).
 *
 * Where the paper contradicts itself, the code does this:
 * - Algorithm 1, line 8: a replica takes the frames of the node that it stands for, whatever the index there says. Else
 *   it would not be that node's model.
 * - Algorithm 2, lines 7 and 8, have the index one off from equations 3 and 4. The equations are taken, from t = 2 on:
 *   z_t = (1 - t/2) x_{t-1} + (t/2) x_t, and estimate_t = (1 - 2/t) estimate_{t-1} + (2/t) C(z_t). With t = 1 the
 *   estimate would be -1 times the one before. With t = 2, in the first step, it becomes C(x_2).
 * - The two bounds on the noise that DCD allows (alpha) differ. None is checked: they depend on W, and the library does
 *   not know the graph.
 *
 * The mean of ECD has the node's estimate, not its model, so that W acts on estimates alone.
 */
#include "gossip.h"
#include "../../common/structs.h"
#include "../objects/object.h"

/* ---- reports ----------------------------------------------------------------------------------------------------- */

tlc_status tlc_gossip_tell(tlc_gossip *g, tlc_status status, const tlc_finding *finding)
{
    tlc_report_set(&g->report, g->step, status, finding);
    return status;
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

/* Did the caller make the frame of a tensor, which has values? */
static int is_given(const tlc_gossip *g, size_t tensor)
{
    const tlc_sender *s = &g->push.sender;
    const tlc_parts parts = tlc_sender_parts_of(s, tensor);

    return tlc_sender_given(s, s->group_of[tlc_parts_at(&parts, 0)]);
}

tlc_status tlc_gossip_check_values(const tlc_gossip *g, const char *name, const float *const *values)
{
    for (size_t t = 0; t < g->setup.count; t++)
        if (g->setup.tensors[t].n && (!values || !values[t]) && (tlc_gossip_is_ecd(g) || !is_given(g, t)))
            return tlc_refuse(&g->setup, TLC_ERR_PARAM, t, values ? "its entry of %s is NULL" : "%s is NULL", name);
    return TLC_OK;
}

size_t tlc_gossip_nonfinite(const tlc_gossip *g, const float *flat)
{
    tlc_float_mode mode = tlc_float_enter();
    size_t bad = TLC_ALL;

    for (size_t t = 0; bad == TLC_ALL && t < g->setup.count; t++) {
        size_t n = g->setup.tensors[t].n;
        if (n && g->setup.k->absmax(flat + g->place[t], NULL, n) >= TLC_F32_INF)
            bad = t;
    }
    tlc_float_leave(mode);
    return bad;
}

void tlc_gossip_stir(tlc_gossip *g)
{
    memset(g->fresh, 0, g->setup.count);
}

/* mean += weight (theirs - own) */
static void mix(float *restrict mean, const float *restrict own, const float *restrict theirs, float weight, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mean[i] += weight * (theirs[i] - own[i]);
}

/* Some values at a time, so that the mean stays in the cache while all replicas are read. */
static void compute_mean(const tlc_gossip *g, size_t at, size_t end)
{
    const float *own = tlc_gossip_own(g);

    for (; at < end; at += TLC_CHUNK) {
        size_t n = tlc_smaller(end - at, TLC_CHUNK);
        memcpy(g->mean + at, own + at, n * sizeof *own);
        for (size_t i = 0; i < g->degree; i++)
            if (!g->neighbour[i].lost)
                mix(g->mean + at, own + at, g->neighbour[i].replica + at, (float)g->neighbour[i].weight, n);
    }
}

const float *tlc_gossip_mean(tlc_gossip *g, size_t tensor)
{
    if (!g || tensor >= g->setup.count || g->place[tensor] == TLC_ALL || g->pushed)
        return NULL;
    size_t at = g->place[tensor];
    if (!g->fresh[tensor]) {
        tlc_float_mode mode = tlc_float_enter();
        compute_mean(g, at, at + g->setup.tensors[tensor].n);
        tlc_float_leave(mode);
        g->fresh[tensor] = 1;
    }
    return g->mean + at;
}

const float *tlc_gossip_model(const tlc_gossip *g, size_t tensor)
{
    return g && tensor < g->setup.count && g->place[tensor] != TLC_ALL ? g->x + g->place[tensor] : NULL;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* Before frames of this step are made or taken. They are stored: compilers may compute what is not after the mode has
 * changed. */
static void find_factors(tlc_gossip *g)
{
    tlc_float_mode mode = tlc_float_enter();
    const double t = (double)g->step + 1;

    g->factors = (tlc_gossip_factors){(float)(1 - t / 2), (float)(t / 2), (float)(1 - 2 / t), (float)(2 / t)};
    tlc_float_leave(mode);
}

/* What becomes of the n values of a group when its frame comes. */
typedef void take_frame(const tlc_gossip *g, tlc_message frame, float *values, size_t n);

static tlc_decode_options options_of(const tlc_gossip *g)
{
    const tlc_exchange_config *c = &g->setup.cfg;

    return (tlc_decode_options){.struct_size = sizeof(tlc_decode_options), .isa = c->isa, .parallel = c->parallel};
}

static void decode(const tlc_gossip *g, tlc_message frame, float *values, size_t n)
{
    const tlc_decode_options opt = options_of(g);

    (void)tlc_decompress(frame.data, frame.len, TLC_F32, values, n, &opt);
}

static void add(const tlc_gossip *g, tlc_message frame, float weight, float *values, size_t n)
{
    const tlc_decode_options opt = options_of(g);

    (void)tlc_decompress_add(frame.data, frame.len, weight, values, n, &opt);
}

static void move_model(const tlc_gossip *g, tlc_message frame, float *values, size_t n)
{
    add(g, frame, 1, values, n);
}

static void move_estimate(const tlc_gossip *g, tlc_message frame, float *values, size_t n)
{
    tlc_float_mode mode = tlc_float_enter();

    for (size_t i = 0; i < n; i++)
        values[i] *= g->factors.estimate;
    tlc_float_leave(mode);
    add(g, frame, g->factors.frame, values, n);
}

static void take_frames(const tlc_gossip *g, tlc_bundle_reader frames, float *model, take_frame *take)
{
    for (size_t i = 0; i < tlc_gossip_groups(g); i++) {
        tlc_message frame;
        (void)tlc_bundle_next(&frames, &frame.data, &frame.len);
        take(g, frame, model + g->group_at[i], tlc_sender_group(&g->push.sender, i)->n);
    }
}

void tlc_gossip_decode(const tlc_gossip *g, tlc_bundle_reader frames, float *model)
{
    take_frames(g, frames, model, decode);
}

/* A replica, or the node's own model or estimate, takes the frames of this step. */
static void advance(const tlc_gossip *g, tlc_bundle_reader frames, float *model)
{
    take_frames(g, frames, model, tlc_gossip_is_ecd(g) ? move_estimate : move_model);
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

static void swap(float **a, float **b)
{
    float *saved = *a;

    *a = *b;
    *b = saved;
}

/* Compresses a flat model. Returns the tensor that cannot be sent, or TLC_ALL. */
static size_t encode(tlc_gossip *g, const float *flat)
{
    size_t bad = 0;

    for (size_t p = 0; p < g->push.sender.part_count; p++)
        g->push.sender.source[p] = flat + g->place[tlc_sender_part(&g->push.sender, p)->tensor];
    if (tlc_sender_encode(&g->push.sender, g->step, &bad))
        return tlc_sender_part(&g->push.sender, bad)->tensor;
    return TLC_ALL;
}

/* *to, the node's own model or estimate, takes the frames that were encoded. Returns the tensor that would not be
 * finite; then *to does not change. */
static size_t apply(tlc_gossip *g, float **to)
{
    const tlc_outgoing *out = tlc_sender_slot(&g->push.sender, g->step, 0);
    tlc_bundle_reader frames;

    (void)tlc_bundle_open(&frames, out->bundle.data, out->bundle.len);
    memcpy(g->work, *to, g->room * sizeof **to);
    advance(g, frames, g->work);
    size_t bad = tlc_gossip_nonfinite(g, g->work);
    if (bad == TLC_ALL)
        swap(to, &g->work);
    return bad;
}

/* Algorithm 1: z = moved - x, and x += C(z). Returns the tensor at fault, or TLC_ALL. */
static size_t move_dcd(tlc_gossip *g, const float *const *moved)
{
    tlc_float_mode mode = tlc_float_enter();

    for (size_t t = 0; t < g->setup.count; t++) {
        size_t at = g->place[t];
        for (size_t i = 0; moved[t] && i < g->setup.tensors[t].n; i++)
            g->work[at + i] = tlc_value_at(moved[t], i) - g->x[at + i];
    }
    tlc_float_leave(mode);
    size_t bad = encode(g, g->work);
    return bad != TLC_ALL ? bad : apply(g, &g->x);
}

/* Algorithm 2, equations 3 and 4. moved NULL: the node stays, so z = x. Returns the tensor at fault, or TLC_ALL. */
static size_t move_ecd(tlc_gossip *g, const float *const *moved)
{
    const tlc_gossip_factors f = g->factors;
    tlc_float_mode mode = tlc_float_enter();

    for (size_t t = 0; moved && t < g->setup.count; t++) {
        size_t at = g->place[t];
        for (size_t i = 0; i < g->setup.tensors[t].n; i++)
            g->work[at + i] = f.before * g->x[at + i] + f.moved * tlc_value_at(moved[t], i);
    }
    tlc_float_leave(mode);
    size_t bad = encode(g, moved ? g->work : g->x);
    if (bad == TLC_ALL)
        bad = apply(g, &g->estimate);
    for (size_t t = 0; bad == TLC_ALL && moved && t < g->setup.count; t++)
        tlc_take_model(g, t, moved[t]);
    return bad;
}

/* The neighbours that are not lost, who get a message. */
static uint64_t count_receivers(const tlc_gossip *g)
{
    uint64_t count = 0;

    for (size_t i = 0; i < g->degree; i++)
        count += !g->neighbour[i].lost;
    return count;
}

tlc_status tlc_gossip_push(tlc_gossip *g, const float *const *moved, tlc_message *to_all)
{
    tlc_finding finding = tlc_finding_of(TLC_REASON_NONE);
    size_t bad;

    if (!g)
        return TLC_ERR_PARAM;
    if (!to_all)
        return tlc_refuse_null(&g->setup, "to_all");
    const tlc_status status = tlc_gossip_check_values(g, "moved", moved);
    if (status)
        return status;
    if (g->pushed)
        return tlc_refuse(&g->setup, TLC_ERR_ORDER, TLC_ALL, "push was called again, but step %llu has not ended",
                          (unsigned long long)g->step);
    tlc_head head = {.phase = TLC_PHASE_PUSH, .sender = g->setup.rank, .step = g->step, .weight = 1};
    find_factors(g);
    bad = tlc_gossip_is_ecd(g) ? move_ecd(g, moved) : move_dcd(g, moved);
    if (bad != TLC_ALL) {
        finding = tlc_finding_of(TLC_REASON_MOVED);
        finding.role = TLC_ROLE_NODE;
        finding.rank = g->setup.rank;
        finding.tensor = bad;
        tlc_sender_forget_given(&g->push.sender);
        head.failed = !tlc_gossip_is_ecd(g) || move_ecd(g, NULL) != TLC_ALL;
        g->stats.failed++;
    }
    head.finding = finding;
    *to_all = tlc_sender_seal(&g->push.sender, 0, &head);
    const uint64_t bytes = tlc_sender_float_bytes(&g->push.sender, 0), receivers = count_receivers(g);
    g->stats.float_bytes += head.failed ? 0 : bytes * receivers;
    g->stats.dropped += bad == TLC_ALL ? 0 : bytes / sizeof(float);
    g->stats.sent += to_all->len * receivers;
    g->pushed = 1;
    return tlc_gossip_tell(g, TLC_OK, &finding);
}

tlc_status tlc_gossip_push_frames(tlc_gossip *g, const float *const *moved, const tlc_message *frames,
                                  tlc_message *to_all)
{
    if (!g)
        return TLC_ERR_PARAM;
    if (!moved || !frames)
        return tlc_refuse_null(&g->setup, moved ? "frames" : "moved");
    tlc_status status = tlc_pushing_give(&g->push, frames);
    if (status)
        return status;
    status = tlc_gossip_push(g, moved, to_all);
    tlc_sender_forget_given(&g->push.sender);
    return status;
}

size_t tlc_gossip_pushed_parts(const tlc_gossip *g)
{
    return g ? g->push.open_count : 0;
}

tlc_status tlc_gossip_pushed_part(const tlc_gossip *g, size_t i, tlc_part *part)
{
    return g ? tlc_pushing_part(&g->push, i, part) : TLC_ERR_PARAM;
}

/* ---- pull -------------------------------------------------------------------------------------------------------- */

/* Reads and checks the push of a neighbour. */
static tlc_status read_push(tlc_gossip *g, tlc_neighbour *from, tlc_message message, tlc_finding *finding)
{
    const tlc_expected expected = {TLC_PHASE_PUSH, from->node, g->step};
    tlc_status status = tlc_message_read(&g->setup, &expected, message, &from->head, &from->frames, finding);

    if (status || from->head.failed)
        return status;
    status = tlc_frames_check(&g->setup, TLC_PUSH, 0, from->frames, finding);
    if (status) {
        finding->role = TLC_ROLE_NODE;
        finding->rank = from->node;
    }
    return status;
}

static void tell_taken(tlc_gossip *g, uint32_t node)
{
    g->report.taken[node / 8] |= (uint8_t)(1 << node % 8);
}

/* A replica takes the frames of its node. If it is not finite then, which no node's own frames cause, it is lost. */
static void take_push(tlc_gossip *g, tlc_neighbour *from, tlc_finding *finding)
{
    size_t bad;

    if (!finding->cause)
        *finding = from->head.finding;
    if (from->head.failed)
        return;
    advance(g, from->frames, from->replica);
    bad = tlc_gossip_nonfinite(g, from->replica);
    if (bad == TLC_ALL) {
        tell_taken(g, from->node);
        return;
    }
    from->lost = 1;
    *finding = tlc_finding_of(TLC_REASON_REPLICA);
    finding->role = TLC_ROLE_NODE;
    finding->rank = from->node;
    finding->tensor = bad;
}

tlc_status tlc_gossip_pull(tlc_gossip *g, const tlc_message *from)
{
    tlc_finding finding = tlc_finding_of(TLC_REASON_NONE);
    tlc_status status = TLC_OK;

    if (!g)
        return TLC_ERR_PARAM;
    if (!from && g->degree)
        return tlc_refuse_null(&g->setup, "from");
    if (!g->pushed)
        return tlc_refuse_turn(&g->setup, "pull was called before push");
    for (size_t i = 0; !status && i < g->degree; i++)
        if (!g->neighbour[i].lost)
            status = read_push(g, &g->neighbour[i], from[i], &finding);
    if (status)
        return tlc_gossip_tell(g, status, &finding);
    memset(g->report.taken, 0, TLC_BITMAP(g->setup.cfg.workers));
    tell_taken(g, g->setup.rank);
    find_factors(g);
    for (size_t i = 0; i < g->degree; i++) {
        tlc_neighbour *n = &g->neighbour[i];
        if (n->lost)
            continue;
        take_push(g, n, &finding);
        g->stats.received += from[i].len;
    }
    tlc_gossip_stir(g);
    (void)tlc_gossip_tell(g, TLC_OK, &finding);
    g->report.has_taken = 1;
    g->step++;
    g->stats.steps++;
    g->pushed = 0;
    return TLC_OK;
}

tlc_status tlc_gossip_again(const tlc_gossip *g, uint64_t step, tlc_message *to_all)
{
    return g ? tlc_sender_again(&g->push.sender, g->step + (g->pushed ? 1 : 0), step, to_all) : TLC_ERR_PARAM;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

tlc_status tlc_gossip_lose(tlc_gossip *g, size_t i)
{
    const tlc_finding finding = tlc_finding_of(TLC_REASON_NONE);

    if (!g)
        return TLC_ERR_PARAM;
    if (i >= g->degree)
        return tlc_refuse(&g->setup, TLC_ERR_PARAM, TLC_ALL, "there is no neighbour %zu; there are %zu", i, g->degree);
    g->neighbour[i].lost = 1;
    tlc_gossip_stir(g);
    return tlc_gossip_tell(g, TLC_OK, &finding);
}

int tlc_gossip_lost(const tlc_gossip *g, size_t i)
{
    return g && i < g->degree && g->neighbour[i].lost;
}

size_t tlc_gossip_message_bound(const tlc_gossip *g)
{
    return g ? g->setup.message_bound : 0;
}

uint64_t tlc_gossip_step(const tlc_gossip *g)
{
    return g ? g->step : 0;
}

tlc_status tlc_gossip_set_codec(tlc_gossip *g, size_t tensor, const char *codec)
{
    if (!g)
        return TLC_ERR_PARAM;
    if (!codec)
        return tlc_refuse_null(&g->setup, "codec");
    const tlc_object o = {.x = &g->setup, .push = &g->push.sender, .step = g->step};
    return tlc_object_set_codec(&o, tensor, codec, NULL);
}

tlc_status tlc_gossip_outcome(const tlc_gossip *g, tlc_outcome *outcome)
{
    return g ? tlc_setup_outcome(&g->setup, &g->report, outcome) : TLC_ERR_PARAM;
}

tlc_status tlc_gossip_stats(const tlc_gossip *g, tlc_exchange_stats *stats)
{
    return g ? tlc_stats_export(&g->setup, stats, &g->stats, NULL, NULL) : TLC_ERR_PARAM;
}
