/* SPDX-License-Identifier: MIT
 *
 * Neighbours compare what they must agree on, and those that lost a replica get it again. src/docs/format.md draws what
 * a hello has after the step.
 */
#include "gossip.h"
#include "../../common/hash.h"
#include "../wire/reader.h"

/* ---- write ------------------------------------------------------------------------------------------------------- */

static uint64_t row_room(size_t degree)
{
    return TLC_VARINT_MAX + (uint64_t)degree * (TLC_VARINT_MAX + sizeof(double)) + sizeof(double) + 8;
}

/* Of the bundle with all values. */
static uint64_t bundle_room(const tlc_gossip *g)
{
    uint64_t frames = 0;
    size_t bound;

    for (size_t i = 0; i < tlc_gossip_groups(g); i++)
        frames = tlc_sum(frames, tlc_bound(g->whole[i]));
    if (frames > SIZE_MAX || tlc_bundle_bound((uint32_t)tlc_gossip_groups(g), (size_t)frames, &bound))
        return UINT64_MAX;
    return bound;
}

uint64_t tlc_gossip_hello_size(const tlc_gossip *g, size_t degree)
{
    return tlc_sum(tlc_sum(tlc_message_room(&g->setup, TLC_PHASE_HELLO), row_room(degree)),
                   tlc_sum(bundle_room(g), TLC_CHECKSUM_SIZE));
}

/* Of the values, as little-endian floats. */
static uint64_t digest(const tlc_gossip *g, const float *flat)
{
    uint8_t bytes[TLC_CHUNK * sizeof(float)];
    uint64_t hash = 0;

    for (size_t i = 0; i < tlc_gossip_groups(g); i++) {
        size_t n = tlc_sender_group(&g->push.sender, i)->n, count;
        for (size_t at = 0; at < n; at += count) {
            count = tlc_smaller(n - at, TLC_CHUNK);
            tlc_copy_le(bytes, flat + g->group_at[i] + at, count, sizeof(float));
            hash = tlc_hash(bytes, count * sizeof(float), hash);
        }
    }
    return hash;
}

static size_t write_row(const tlc_gossip *g, uint8_t *p)
{
    size_t at = tlc_varint_write(p, g->degree);

    for (size_t i = 0; i < g->degree; i++) {
        at += tlc_varint_write(p + at, g->neighbour[i].node);
        at += tlc_write_double(p + at, g->neighbour[i].weight);
    }
    at += tlc_write_double(p + at, g->weight);
    tlc_store64(p + at, digest(g, tlc_gossip_own(g)));
    return at + 8;
}

/* Writes a bundle with all values. */
static tlc_message write_model(const tlc_gossip *g, uint8_t *p)
{
    tlc_message bundle;
    tlc_bundle_writer w;
    size_t cap, len;
    void *dst;

    (void)tlc_bundle_init(&w, p, (size_t)bundle_room(g), (uint32_t)tlc_gossip_groups(g));
    for (size_t i = 0; i < tlc_gossip_groups(g); i++) {
        (void)tlc_bundle_space(&w, &dst, &cap);
        (void)tlc_compress(g->whole[i], tlc_gossip_own(g) + g->group_at[i], dst, cap, &len);
        (void)tlc_bundle_commit(&w, len);
    }
    (void)tlc_bundle_finish(&w, &bundle);
    return bundle;
}

tlc_status tlc_gossip_hello(tlc_gossip *g, int full, tlc_message *to_all)
{
    const tlc_finding finding = tlc_finding_of(TLC_REASON_NONE);

    if (!g)
        return TLC_ERR_PARAM;
    if (!to_all)
        return tlc_refuse_null(&g->setup, "to_all");
    if (g->pushed)
        return tlc_refuse_step(&g->setup, "hello");
    uint8_t *row_at = (uint8_t *)g->work + tlc_message_room(&g->setup, TLC_PHASE_HELLO),
            *model_at = row_at + row_room(g->degree);
    tlc_message model = full ? write_model(g, model_at) : (tlc_message){model_at, 0};
    size_t row = write_row(g, row_at);
    uint8_t *body = (uint8_t *)(uintptr_t)model.data - row;
    memmove(body, row_at, row);
    const tlc_head head = {.phase = TLC_PHASE_HELLO,
                           .sender = g->setup.rank,
                           .step = g->step,
                           .finding = finding,
                           .bundle = {body, row + model.len}};
    *to_all = tlc_message_write(&g->setup, &head);
    return tlc_gossip_tell(g, TLC_OK, &finding);
}

/* ---- read -------------------------------------------------------------------------------------------------------- */

int tlc_row_valid(double sum)
{
    return sum >= 1 - 0x1p-20 && sum <= 1 + 0x1p-20;
}

/* Reads the row of a neighbour, and whether it fits ours. */
static tlc_reason read_row(const tlc_gossip *g, tlc_reader *r, tlc_neighbour *from)
{
    uint64_t degree, node, edges = 0;
    double weight, sum = 0;
    int positive = 1, same = 1;

    if (!tlc_read_below(r, g->setup.cfg.workers, &degree))
        return TLC_REASON_CORRUPT;
    for (uint64_t i = 0; i < degree; i++) {
        if (!tlc_read_below(r, g->setup.cfg.workers, &node) || !tlc_read_double(r, &weight))
            return TLC_REASON_CORRUPT;
        positive &= weight > 0;
        sum += weight;
        if (node == g->setup.rank) {
            edges++;
            same = weight >= from->weight && weight <= from->weight;
        }
    }
    if (!tlc_read_double(r, &weight) || r->len - r->at < sizeof from->digest)
        return TLC_REASON_CORRUPT;
    from->digest = tlc_load64(r->p + r->at);
    r->at += sizeof from->digest;
    if (edges != 1 || !same)
        return TLC_REASON_WEIGHT;
    return positive && weight >= 0 && tlc_row_valid(sum + weight) ? TLC_REASON_NONE : TLC_REASON_ROW;
}

/* Reads what follows the row: nothing, or a model. It is decoded to the memory of means, to see if it is finite. */
static tlc_status read_model(const tlc_gossip *g, const tlc_reader *r, tlc_neighbour *from, tlc_finding *finding)
{
    from->full = r->at < r->len;
    *finding = tlc_finding_of(TLC_REASON_NONE);
    if (!from->full) {
        if (!from->lost && from->digest != digest(g, from->replica))
            *finding = tlc_finding_of(TLC_REASON_MODEL);
        return finding->cause;
    }
    if (tlc_bundle_open(&from->frames, r->p + r->at, r->len - r->at) ||
        tlc_bundle_count(&from->frames) != tlc_gossip_groups(g)) {
        *finding = tlc_finding_of(TLC_REASON_CORRUPT);
        return finding->cause;
    }
    if (tlc_frames_check(&g->setup, TLC_PUSH, 0, from->frames, finding))
        return finding->cause;
    tlc_gossip_decode(g, from->frames, g->mean);
    size_t bad = tlc_gossip_nonfinite(g, g->mean);
    if (bad != TLC_ALL) {
        *finding = tlc_finding_of(TLC_REASON_REPLICA);
        finding->tensor = bad;
    }
    return finding->cause;
}

static tlc_status read_hello(const tlc_gossip *g, tlc_neighbour *from, tlc_message message, tlc_finding *finding)
{
    const tlc_expected expected = {TLC_PHASE_HELLO, from->node, g->step};
    tlc_status status = tlc_message_read(&g->setup, &expected, message, &from->head, &from->frames, finding);

    if (status)
        return status;
    tlc_reader r = {from->head.bundle.data, from->head.bundle.len, 0};
    tlc_float_mode mode = tlc_float_enter();
    *finding = tlc_finding_of(read_row(g, &r, from));
    tlc_float_leave(mode);
    status = finding->cause ? finding->cause : read_model(g, &r, from, finding);
    if (status) {
        finding->role = TLC_ROLE_NODE;
        finding->rank = from->node;
    }
    return status;
}

tlc_status tlc_gossip_greet(tlc_gossip *g, const tlc_message *from)
{
    tlc_finding finding = tlc_finding_of(TLC_REASON_NONE);
    tlc_status status = TLC_OK;
    size_t degree = g && from ? g->degree : 0;

    if (!g)
        return TLC_ERR_PARAM;
    if (!from && g->degree)
        return tlc_refuse_null(&g->setup, "from");
    if (g->pushed)
        return tlc_refuse_step(&g->setup, "greet");
    tlc_gossip_stir(g);
    for (size_t i = 0; !status && i < degree; i++) {
        g->neighbour[i].full = 0;
        if (from[i].len)
            status = read_hello(g, &g->neighbour[i], from[i], &finding);
    }
    for (size_t i = 0; !status && i < degree; i++) {
        tlc_neighbour *n = &g->neighbour[i];
        if (!n->full)
            continue;
        tlc_gossip_decode(g, n->frames, n->replica);
        n->lost = 0;
    }
    return tlc_gossip_tell(g, status, &finding);
}

/* ---- join -------------------------------------------------------------------------------------------------------- */

/* The first tensor of a model of the caller that is not finite, or TLC_ALL. */
static size_t nonfinite(tlc_gossip *g, const float *const *model)
{
    for (size_t p = 0; p < g->push.sender.part_count; p++)
        g->push.sender.source[p] = model[tlc_sender_part(&g->push.sender, p)->tensor];
    size_t bad = tlc_sender_nonfinite(&g->push.sender);
    return bad == TLC_ALL ? bad : tlc_sender_part(&g->push.sender, bad)->tensor;
}

tlc_status tlc_gossip_join(tlc_gossip *g, uint64_t step, const float *const *model)
{
    tlc_finding finding = tlc_finding_of(TLC_REASON_NONE);

    if (!g)
        return TLC_ERR_PARAM;
    if (!tlc_step_starts(step))
        return tlc_refuse(&g->setup, TLC_ERR_PARAM, TLC_ALL, "join was called with step %llu; it is 1 to 2^62",
                          (unsigned long long)step);
    const tlc_status status = model ? tlc_gossip_check_values(g, "model", model) : TLC_OK;
    if (status)
        return status;
    if (g->pushed && step <= g->step)
        return tlc_refuse(&g->setup, TLC_ERR_ORDER, TLC_ALL,
                          "join was called with step %llu, but step %llu is under way", (unsigned long long)step,
                          (unsigned long long)g->step);
    finding.tensor = model ? nonfinite(g, model) : TLC_ALL;
    if (finding.tensor != TLC_ALL) {
        const size_t bad = finding.tensor;
        finding = tlc_finding_of(TLC_REASON_START);
        finding.tensor = bad;
        return tlc_gossip_tell(g, finding.cause, &finding);
    }
    for (size_t t = 0; model && t < g->setup.count; t++)
        tlc_take_model(g, t, model[t]);
    if (g->estimate)
        memcpy(g->estimate, g->x, g->room * sizeof(float));
    for (size_t i = 0; i < g->degree; i++)
        g->neighbour[i].lost = 1;
    tlc_sender_forget(&g->push.sender);
    tlc_gossip_stir(g);
    g->step = step;
    g->pushed = 0;
    return tlc_gossip_tell(g, TLC_OK, &finding);
}
