/* SPDX-License-Identifier: MIT */
#include "message.h"
#include "../../common/hash.h"
#include "../../frames/frame.h"
#include "../../frames/formats.h"
#include "reader.h"

#define MAGIC 'E'
#define FIXED 12          /* bytes before the sender */
#define LEAST (FIXED + 2) /* and the sender and the step, without the checksum */
/* The bits of 2^-50 and 2^50. In between, the share of one worker in a mean of 2^20 is a normal binary32 number. */
#define WEIGHT_MIN ((UINT64_C(1023) - 50) << 52)
#define WEIGHT_MAX ((UINT64_C(1023) + 50) << 52)

enum { FLAG_FAILED = 1, FLAG_ABSENT = 2, FLAG_WEIGHT = 4, FLAG_FINDING = 8, FLAGS = 15 };

int tlc_weight_valid(double weight)
{
    uint64_t bits; /* of positive numbers they have the same order; a NaN is not compared, which may trap */

    memcpy(&bits, &weight, sizeof bits);
    return bits >= WEIGHT_MIN && bits <= WEIGHT_MAX;
}

size_t tlc_message_room(const tlc_setup *x, tlc_phase phase)
{
    return FIXED + 6 * TLC_VARINT_MAX + 2 + sizeof(double) +
           (phase == TLC_PHASE_ANSWER ? TLC_BITMAP(x->cfg.workers) : 0);
}

/* ---- write ------------------------------------------------------------------------------------------------------- */

/* Is there a receiver? With gather and gossip a push is for all. */
static int has_receiver(const tlc_setup *x, tlc_phase phase)
{
    return phase == TLC_PHASE_PUSH && (x->kind == TLC_EXCHANGE_ALLREDUCE || x->kind == TLC_EXCHANGE_SERVERS);
}

/* Writes all that is before the bundle. Returns the bytes. */
static size_t write_head(const tlc_setup *x, const tlc_head *h, uint8_t *p)
{
    int has_finding = h->finding.reason != TLC_REASON_NONE, frames = !h->failed && !h->absent;
    int has_weight = h->phase == TLC_PHASE_PUSH && frames && (h->weight < 1 || h->weight > 1);
    size_t at = FIXED;

    p[0] = MAGIC;
    p[1] = TLC_MESSAGE_VERSION;
    p[2] = (uint8_t)(x->kind | h->phase << 4);
    p[3] = (uint8_t)((h->failed ? FLAG_FAILED : 0) | (h->absent ? FLAG_ABSENT : 0) | (has_weight ? FLAG_WEIGHT : 0) |
                     (has_finding ? FLAG_FINDING : 0));
    tlc_store64(p + 4, x->fingerprint);
    at += tlc_varint_write(p + at, h->sender);
    if (has_receiver(x, h->phase))
        at += tlc_varint_write(p + at, h->receiver);
    at += tlc_varint_write(p + at, h->step);
    if (has_finding) {
        p[at++] = (uint8_t)h->finding.cause;
        p[at++] = (uint8_t)h->finding.reason;
        at += tlc_varint_write(p + at, (uint32_t)(h->finding.rank + 1)); /* TLC_NOBODY + 1 and TLC_ALL + 1 are 0 */
        at += tlc_varint_write(p + at, h->finding.tensor + 1);
        at += tlc_varint_write(p + at, h->finding.got);
    }
    if (has_weight)
        at += tlc_write_double(p + at, h->weight);
    if (h->phase == TLC_PHASE_ANSWER && frames) {
        memcpy(p + at, h->taken, TLC_BITMAP(x->cfg.workers));
        at += TLC_BITMAP(x->cfg.workers);
    }
    return at;
}

tlc_message tlc_message_write(const tlc_setup *x, const tlc_head *head)
{
    uint8_t *bundle = (uint8_t *)(uintptr_t)head->bundle.data, *begin = bundle - tlc_message_room(x, head->phase);
    size_t size = write_head(x, head, begin);

    begin = memmove(bundle - size, begin, size);
    size += head->bundle.len;
    tlc_store32(begin + size, tlc_checksum(begin, size));
    return (tlc_message){begin, size + TLC_CHECKSUM_SIZE};
}

/* ---- read -------------------------------------------------------------------------------------------------------- */

static int read_finding(const tlc_setup *x, tlc_reader *r, tlc_finding *f)
{
    uint64_t rank, tensor, got;

    if (r->len - r->at < 2)
        return 0;
    unsigned cause = r->p[r->at++], reason = r->p[r->at++];
    if (cause < TLC_ERR_PARAM || cause > TLC_ERR_ORDER || reason == TLC_REASON_NONE || reason > TLC_REASON_MOVED ||
        !tlc_read_below(r, UINT64_C(1) << 32, &rank) || !tlc_read_below(r, (uint64_t)x->count + 1, &tensor) ||
        !tlc_read_below(r, UINT64_MAX, &got))
        return 0;
    *f = tlc_finding_of((tlc_reason)reason);
    f->cause = (tlc_status)cause;
    f->rank = (uint32_t)rank - 1;
    f->tensor = (size_t)tensor - 1;
    f->got = got;
    return 1;
}

/* Who is at fault in what an answer tells: an owner's values, or somebody's push. */
static void name_role(const tlc_setup *x, const tlc_head *h, tlc_finding *f)
{
    int of_owner = f->reason == TLC_REASON_MEAN || f->reason == TLC_REASON_DELTA;

    f->role = of_owner ? tlc_setup_owner(x) : tlc_setup_pusher(x);
    f->told_by = h->sender;
}

static int read_weight(tlc_reader *r, double *weight)
{
    return tlc_read_double(r, weight) && tlc_weight_valid(*weight);
}

static int read_taken(const tlc_setup *x, tlc_reader *r, const uint8_t **taken)
{
    size_t size = TLC_BITMAP(x->cfg.workers);

    if (r->len - r->at < size)
        return 0;
    *taken = r->p + r->at;
    r->at += size;
    return !(x->cfg.workers % 8) || !((*taken)[size - 1] >> x->cfg.workers % 8);
}

/* Are these the flags of a push or an answer? */
static int flags_valid(const tlc_setup *x, unsigned flags, int push)
{
    int failed = (flags & FLAG_FAILED) != 0, absent = (flags & FLAG_ABSENT) != 0, ecd = x->kind == TLC_EXCHANGE_ECD;

    if (tlc_is_gossip(x->kind) && (flags & (FLAG_ABSENT | FLAG_WEIGHT)))
        return 0;
    if (flags > FLAGS || (failed && (absent || !(flags & FLAG_FINDING))) || (absent && !push))
        return 0;
    return !((flags & FLAG_WEIGHT) && (!push || failed || absent)) &&
           !((flags & FLAG_FINDING) && push && !failed && !ecd);
}

/* What follows the step. Returns 0 if it is not as it should be. */
static int read_rest(const tlc_setup *x, tlc_reader *r, tlc_head *h, tlc_bundle_reader *frames)
{
    unsigned flags = r->p[3];
    int push = h->phase == TLC_PHASE_PUSH, one_owner = x->kind == TLC_EXCHANGE_GATHER || tlc_is_gossip(x->kind);
    /* who owns the parts that the frames are for */
    uint32_t owner = one_owner ? 0 : push ? x->rank : h->sender;

    h->failed = flags & FLAG_FAILED;
    h->absent = (flags & FLAG_ABSENT) != 0;
    if (h->phase == TLC_PHASE_HELLO) {
        h->bundle = (tlc_message){r->p + r->at, r->len - r->at};
        return !flags;
    }
    if (!flags_valid(x, flags, push))
        return 0;
    if ((flags & FLAG_FINDING) && (!read_finding(x, r, &h->finding) || (push && h->finding.rank != h->sender)))
        return 0;
    name_role(x, h, &h->finding);
    if ((flags & FLAG_WEIGHT) && !read_weight(r, &h->weight))
        return 0;
    if (h->failed || h->absent)
        return r->at == r->len;
    if (!push && !read_taken(x, r, &h->taken))
        return 0;
    h->bundle = (tlc_message){r->p + r->at, r->len - r->at};
    return !tlc_bundle_open(frames, h->bundle.data, h->bundle.len) &&
           tlc_bundle_count(frames) == tlc_message_frames(x, h->phase, owner);
}

static tlc_reason read_message(const tlc_setup *x, const tlc_expected *e, tlc_reader *r, tlc_head *h,
                               tlc_bundle_reader *frames)
{
    uint32_t senders = e->phase == TLC_PHASE_PUSH || !x->cfg.servers ? x->cfg.workers : x->cfg.servers;
    uint64_t sender = 0, receiver = x->rank;

    if (!r->len)
        return TLC_REASON_MISSING;
    if (r->len < LEAST + TLC_CHECKSUM_SIZE || r->p[0] != MAGIC)
        return TLC_REASON_CORRUPT;
    if (r->p[1] != TLC_MESSAGE_VERSION)
        return TLC_REASON_VERSION;
    r->len -= TLC_CHECKSUM_SIZE;
    if (tlc_load32(r->p + r->len) != tlc_checksum(r->p, r->len))
        return TLC_REASON_CHECKSUM;
    if (r->p[2] != (uint8_t)(x->kind | e->phase << 4))
        return TLC_REASON_KIND;
    r->at = FIXED;
    const int known = tlc_read_below(r, senders, &sender);
    if (known)
        h->sender = (uint32_t)sender;
    if (tlc_load64(r->p + 4) != x->fingerprint)
        return TLC_REASON_FINGERPRINT;
    if (!known)
        return TLC_REASON_CORRUPT;
    if ((has_receiver(x, e->phase) && !tlc_read_below(r, x->owners, &receiver)) ||
        !tlc_read_below(r, UINT64_MAX, &h->step) || !tlc_step_valid(h->step))
        return TLC_REASON_CORRUPT;
    h->receiver = (uint32_t)receiver;
    if (e->sender != TLC_NOBODY && h->sender != e->sender)
        return TLC_REASON_SENDER;
    if (receiver != x->rank)
        return TLC_REASON_RECEIVER;
    if (e->step && h->step != e->step)
        return TLC_REASON_STEP;
    return read_rest(x, r, h, frames) ? TLC_REASON_NONE : TLC_REASON_CORRUPT;
}

/* What is told of a message that was refused. */
static uint64_t got_of(const tlc_setup *x, const tlc_expected *e, tlc_message message, const tlc_head *h,
                       tlc_reason reason)
{
    const uint8_t *p = message.data;

    switch (reason) {
    case TLC_REASON_CORRUPT: {
        const unsigned format = tlc_format_of(p, message.len);
        return format == TLC_FORMAT_MESSAGE || format == TLC_FORMATS ? h->sender : TLC_GOT_MORE | format;
    }
    case TLC_REASON_VERSION: return TLC_GOT_MORE | p[1];
    case TLC_REASON_KIND: return TLC_GOT_MORE | p[2] | ((unsigned)x->kind | (unsigned)e->phase << 4) << 8;
    case TLC_REASON_STEP: return h->step;
    case TLC_REASON_RECEIVER: return h->receiver;
    default: return h->sender;
    }
}

tlc_status tlc_message_read(const tlc_setup *x, const tlc_expected *expected, tlc_message message, tlc_head *head,
                            tlc_bundle_reader *frames, tlc_finding *finding)
{
    tlc_reader r = {message.data, message.data ? message.len : 0, 0};

    *head = (tlc_head){.phase = expected->phase,
                       .sender = TLC_NOBODY,
                       .finding = tlc_finding_of(TLC_REASON_NONE),
                       .weight = 1};
    *finding = tlc_finding_of(read_message(x, expected, &r, head, frames));
    if (!finding->cause)
        return TLC_OK;
    finding->role = expected->phase == TLC_PHASE_ANSWER ? tlc_setup_owner(x) : tlc_setup_pusher(x);
    finding->rank = expected->sender != TLC_NOBODY ? expected->sender : head->sender;
    finding->got = got_of(x, expected, message, head, finding->reason);
    return finding->cause;
}

int tlc_message_equal(tlc_message a, tlc_message b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

uint64_t tlc_message_history(tlc_message message)
{
    return tlc_hash((const uint8_t *)message.data + message.len - TLC_CHECKSUM_SIZE, TLC_CHECKSUM_SIZE, 0);
}
